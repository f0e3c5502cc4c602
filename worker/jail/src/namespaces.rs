//! Situation A: namespaces of our own and a mount view, then Landlock and seccomp.

use std::{
    fs,
    os::fd::{AsFd as _, OwnedFd},
};

use nix::{
    errno::Errno,
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sched::{CloneFlags, unshare},
    sys::{prctl, resource::Resource, signal::Signal},
    unistd::{Pid, getegid, geteuid, pipe2, setsid},
};
use protocol::jail::JailSpec;

use crate::{
    descriptors,
    jail::{Outside, Role, View, die_with_parent, limit, take_identity},
    sys::{self, Fork},
    unfit::{Step as _, Unfit},
    view,
};

/// Shares of the account's limits that its user namespace may use.
const WATCHES: [(&str, &str); 2] = [
    ("max_inotify_instances", "48"),
    ("max_inotify_watches", "65536"),
];

/// From a prepared process to pid 1 in the finished view; returns twice.
pub(crate) fn build(spec: &JailSpec, parent: Pid) -> Result<Role, Unfit> {
    // Root reaches sources that an unused uid does not: they are opened before the ids go.
    let mut sources = Vec::new();
    let for_it = spec.identity.is_some() && !spec.own_reach;
    if for_it {
        sources = view::open_sources(spec)?;
    }
    if let Some(identity) = spec.identity {
        take_identity(identity)?;
    }
    make_namespaces()?;
    die_with_parent(parent)?;
    if !for_it {
        sources = view::open_sources(spec)?;
    }
    // Inside the user namespace the count of processes is the session's own.
    limit(Resource::RLIMIT_NPROC, spec.limits.processes)?;

    let (watch, alive) = pipe2(OFlag::O_CLOEXEC).step("make a pipe")?;
    match sys::fork().step("fork pid 1")? {
        Fork::Parent(pid) => {
            drop((watch, sources));
            descriptors::close_all_but(&[alive.as_fd()]).step("close descriptors")?;
            Ok(Role::Outside(Outside::new(pid, alive)))
        }
        Fork::Child => {
            drop(alive);
            pid_one(spec, &sources, watch)?;
            Ok(Role::PidOne(View::new(spec)))
        }
    }
}

/// Pid 1's own part: what a fork clears, the view, the limits of every process of the session.
fn pid_one(spec: &JailSpec, sources: &[view::Source], watch: OwnedFd) -> Result<(), Unfit> {
    prctl::set_pdeathsig(Signal::SIGKILL).step("die with the parent")?;
    let mut gone = [PollFd::new(watch.as_fd(), PollFlags::POLLIN)];
    if poll(&mut gone, PollTimeout::ZERO).step("die with the parent")? != 0 {
        sys::leave(77);
    }
    drop(watch);
    setsid().step("make a session")?;
    view::build(spec, sources)?;
    limit(Resource::RLIMIT_NOFILE, spec.limits.open_files)?;
    limit(Resource::RLIMIT_FSIZE, spec.limits.file_size)
}

/// All namespaces at once, and the account mapped to itself: files keep their owner.
fn make_namespaces() -> Result<(), Unfit> {
    let (uid, gid) = (geteuid(), getegid());
    let flags = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP
        | CloneFlags::CLONE_NEWNET;
    unshare(flags).map_err(|errno| Unfit::new("make namespaces", remedy(errno)))?;
    fs::write("/proc/self/setgroups", "deny").step("deny setgroups")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1")).step("map the user")?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1")).step("map the group")?;
    // Watches count for the account too: a session takes a share of them, never the account's last.
    // Where /proc/sys is read-only the account's own limit remains.
    for (name, value) in WATCHES {
        let _ = fs::write(format!("/proc/sys/user/{name}"), value);
    }
    Ok(())
}

/// The cause of a refusal to make namespaces, and the one thing to do.
fn remedy(errno: Errno) -> String {
    let flag = |path: &str| {
        fs::read_to_string(path)
            .map(|text| text.trim().to_owned())
            .ok()
    };
    let why = match errno {
        Errno::ENOSPC => {
            "the limit on namespaces is reached: raise user.max_user_namespaces with sysctl"
        }
        _ if flag("/proc/sys/kernel/unprivileged_userns_clone").as_deref() == Some("0") => {
            "the host forbids them to accounts: sysctl kernel.unprivileged_userns_clone=1"
        }
        _ if flag("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").as_deref()
            == Some("1") =>
        {
            "AppArmor forbids them: install the profile that lets provost-worker use `userns,`, or \
             sysctl kernel.apparmor_restrict_unprivileged_userns=0"
        }
        _ if flag("/proc/sys/user/max_user_namespaces").as_deref() == Some("0") => {
            "the host allows none: sysctl user.max_user_namespaces=15000"
        }
        _ => {
            "a container engine or a seccomp filter forbids them: run outside the container, or \
             give it a seccomp profile that allows unshare and clone with namespaces"
        }
    };
    format!("user namespaces are not available here ({errno}): {why}")
}
