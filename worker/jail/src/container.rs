//! Situation C: the box that a container engine has made. Its namespaces, mounts and limits are there
//! already; what is left is what every process of a session has.

use std::{fs, os::fd::BorrowedFd};

use nix::{
    sys::{
        prctl,
        resource::{Resource, setrlimit},
        stat::{Mode, umask},
    },
    unistd::{Pid, geteuid, setsid},
};
use protocol::jail::JailSpec;

use crate::{
    capabilities, descriptors,
    jail::{OOM_SCORE, Role, View, limit},
    sys,
    unfit::{Step as _, Unfit},
};

/// Becomes pid 1 of a session in the container that this process was started in. Never forks: the
/// engine has made it the first of its pid namespace.
pub(crate) fn build(spec: &JailSpec, keep: &[BorrowedFd<'_>]) -> Result<Role, Unfit> {
    let pid = Pid::this().as_raw();
    if pid != 1 {
        let why = format!(
            "this process is number {pid}: the engine shares its process namespace, or put an init before it"
        );
        return Err(Unfit::new("look at the container", why));
    }
    if let Some(identity) = spec.identity
        && geteuid().as_raw() != identity.uid
    {
        let why = format!(
            "user {} was asked for and the engine gave {}",
            identity.uid,
            geteuid()
        );
        return Err(Unfit::new("look at the container", why));
    }
    if capabilities::effective_hex()?
        .bytes()
        .any(|digit| digit != b'0')
    {
        return Err(Unfit::new(
            "look at the container",
            "the engine left capabilities in it",
        ));
    }
    crate::domain::kernel(spec.pretend_abi)?;
    // Where memory runs out the session goes before the rest of the machine.
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    descriptors::close_all_but(keep).step("close descriptors")?;
    sys::default_signals().step("reset signals")?;
    sys::ignore_broken_pipes();
    prctl::set_no_new_privs().step("set no_new_privs")?;
    // The engine has made it a session of its own; only a foreign runtime may not have.
    let _ = setsid();
    umask(Mode::from_bits_truncate(0o022));
    setrlimit(Resource::RLIMIT_CORE, 0, 0).step("limit core dumps")?;
    // Processes and memory are counted by the container's own group.
    limit(Resource::RLIMIT_NOFILE, spec.limits.open_files)?;
    limit(Resource::RLIMIT_FSIZE, spec.limits.file_size)?;
    std::env::set_current_dir("/").step("enter the root")?;
    Ok(Role::PidOne(View::new(spec)))
}
