//! Builds jails: finds the worker, starts it in a box, and speaks the first words with it.
//!
//! [`jail_spec`] says what a session will see; [`launch`] starts `provost-worker jail` with it and
//! hands back two links and a [`Process`] to kill; [`run_reader`] sends a reader on one errand.
//! Two backends stand behind [`Backend`]: [`Landlock`] has the box made of the kernel's own means,
//! [`Docker`] has a container engine make it; the worker, its roles and its links are the same.
//!
//! All of it blocks, each wait within a bound, so a caller with an event loop calls it from a thread
//! for blocking work.
//!
//! What is absent: policy, record, decisions, `fork`. The supervisor never forks itself: the one
//! thread of `spawner` uses posix_spawn.

mod backend;
mod book;
mod cgroup;
mod claim;
mod docker;
mod doors;
mod git;
mod launch;
mod limits;
mod link;
mod mounts;
mod process;
mod reader;
mod rights;
mod spawner;
mod sys;
mod thread;
mod view;
mod worker;

pub use backend::{Backend, Landlock};
pub use book::list_attacks;
pub use cgroup::{Controller, Events, Group, Limits, sweep as sweep_groups};
pub use claim::{ClaimedUid, NoUid, free_uid};
pub use docker::{
    ContainerFacts, Docker, DockerPlan, Engine, EngineFault, EngineLook, Explainer, Swept, sweep,
};
pub use doors::{Attendant, Gate, attend, no_network};
pub use launch::{Facts, Jail, LaunchError, launch, launch_in};
pub use limits::process_limit;
pub use link::{pipe_pair, program_file, send_order};
pub use mounts::MountView;
pub use process::{Process, Stuck};
pub use reader::{ReaderError, run_reader};
pub use rights::{Row as RightRow, TABLE as RIGHTS, enforced_by, row_of};
pub use thread::as_account;
pub use view::{HOME, Host, SessionPlace, TMP, ViewError, command_environment, jail_spec};
pub use worker::{WorkerBinary, WorkerMissing, find_worker};
