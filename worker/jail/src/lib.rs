//! CONFINES: turns a jail spec into walls around the current process, and tries the walls.
//!
//! ```text
//! jail ──build──▶ Role::Outside (waits for pid 1 and leaves as it left; situation A only)
//!        └─fork─▶ Role::PidOne(View) ──confine_hands──▶ Hands ─┬─ start_agent ─▶ agent: confine_agent
//!                                                              ├─ spawn ─▶ warden ─▶ command
//!                                                              └─ probe ─▶ probe, in either domain
//! ```
//!
//! All steps belong to small single-threaded processes: they fork, and what they fork goes on in
//! ordinary Rust. All unsafe code of the product is in [`sys`](self), each block with its proof.
//!
//! What is absent: policy. The spec and the orders say what is granted; this crate only builds it,
//! refuses what it cannot build, and never builds less than it was asked.

mod agent;
pub mod attack;
mod attempt;
mod calls;
mod capabilities;
mod cases;
mod child;
mod command;
mod container;
mod descriptors;
mod domain;
mod filter;
mod hands;
mod jail;
mod layers;
#[cfg(test)]
mod mutations;
mod namespaces;
mod plain;
mod poke;
mod probe;
mod profile;
mod reader;
mod sys;
mod unfit;
mod view;
mod warden;

pub use agent::confine_agent;
pub use attempt::Outcome;
pub use child::{Child, News, reap_strangers};
pub use command::Streams;
pub use descriptors::{agent_link, null_standard, take_standard};
pub use hands::{Hands, Standing};
pub use jail::{Outside, Role, View, build};
pub use probe::{Raise, probe_role, try_all};
pub use profile::profile;
pub use reader::{become_account, confine_reader};
pub use unfit::Unfit;
