//! The box: from a fresh process to pid 1 in the finished view, in the order that works.

use std::{
    fs, io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use nix::{
    errno::Errno,
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sched::{CloneFlags, unshare},
    sys::{
        prctl,
        resource::{Resource, setrlimit},
        signal::Signal,
        stat::{Mode, umask},
        wait::{WaitStatus, waitpid},
    },
    unistd::{
        Gid, Pid, Uid, getegid, geteuid, getppid, pipe2, setgroups, setresgid, setresuid, setsid,
    },
};
use protocol::{
    Exit,
    jail::{Identity, JailSpec, Situation},
};

use crate::{
    descriptors, sys,
    sys::Fork,
    unfit::{Step as _, Unfit},
    view,
};

/// How readily the kernel ends a session's processes where memory runs out, from 0 to 1000.
pub(crate) const OOM_SCORE: &str = "500";

/// Shares of the account's limits that its user namespace may use.
const WATCHES: [(&str, &str); 2] = [
    ("max_inotify_instances", "48"),
    ("max_inotify_watches", "65536"),
];

/// Which of the two processes this is, after [`build`].
#[derive(Debug)]
pub enum Role {
    /// The `jail` process: its only duty is [`Outside::wait`].
    Outside(Outside),
    /// Pid 1 in the finished view; nothing untrusted has run yet.
    PidOne(View),
}

/// The `jail` process after the fork.
#[derive(Debug)]
pub struct Outside {
    pid: i32,
    /// Its end tells pid 1 that this process is gone, also when it died before pid 1 had asked for
    /// a signal.
    _alive: OwnedFd,
}

impl Outside {
    /// Waits for pid 1; the caller leaves as it left. If the caller dies, pid 1 dies.
    ///
    /// # Errors
    /// The wait failed.
    pub fn wait(self) -> io::Result<Exit> {
        loop {
            match waitpid(Pid::from_raw(self.pid), None) {
                Ok(status) => {
                    if let Some(exit) = exit_of(status) {
                        return Ok(exit);
                    }
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// How a process ended, if it did.
pub(crate) fn exit_of(status: WaitStatus) -> Option<Exit> {
    match status {
        WaitStatus::Exited(_, code) => Some(Exit {
            code: Some(code),
            signal: None,
        }),
        WaitStatus::Signaled(_, signal, _) => Some(Exit {
            code: None,
            signal: Some(signal as i32),
        }),
        _ => None,
    }
}

/// Pid 1 in its view, capabilities still held: only [`View::confine_hands`] makes it usable.
#[derive(Debug)]
pub struct View {
    // Boxed: the other role is two words.
    pub(crate) spec: Box<JailSpec>,
}

impl View {
    /// A pidfd of pid 1 itself, for the supervisor.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn pidfd(&self) -> io::Result<OwnedFd> {
        sys::pidfd_open(Pid::this().as_raw())
    }
}

/// Builds the box that `spec` describes; everything but 0 to 2 and `keep` is closed first.
/// Returns twice: in the caller's process and in pid 1. Whichever gets an error reports it
/// ([`Unfit::report`]) and leaves with 77.
///
/// # Errors
/// [`Unfit`] names the step, the cause and the remedy.
pub fn build(spec: &JailSpec, keep: &[BorrowedFd<'_>]) -> Result<Role, Unfit> {
    if !spec.is_ours() {
        return Err(Unfit::new(
            "read the spec",
            "the spec is of another build: install provost and provost-worker from one release",
        ));
    }
    if spec.situation == Situation::Container {
        return crate::container::build(spec, keep);
    }
    if spec.situation != Situation::Namespaces {
        return Err(Unfit::new(
            "namespaces",
            "the policy turns namespaces off, and a box of Landlock and seccomp alone is not built \
             by this release: set `namespaces = \"auto\"` in [confinement]",
        ));
    }
    // Where the kernel has no Landlock nothing else is worth building.
    crate::domain::kernel(spec.pretend_abi)?;
    // Where memory runs out the session goes first. Where /proc is read-only it goes by its size.
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    let parent = getppid();
    descriptors::close_all_but(keep).step("close descriptors")?;
    // Whatever the starter ignored or blocked: a child's end must be told, a gone reader must not
    // kill.
    sys::default_signals().step("reset signals")?;
    sys::ignore_broken_pipes();
    prctl::set_no_new_privs().step("set no_new_privs")?;
    // A group leader cannot make a session; pid 1, forked below, always can.
    let _ = setsid();
    umask(Mode::from_bits_truncate(0o022));
    setrlimit(Resource::RLIMIT_CORE, 0, 0).step("limit core dumps")?;

    // Root reaches sources that the session's account does not: they are opened before the ids go.
    let mut sources = Vec::new();
    if let Some(identity) = spec.identity {
        sources = view::open_sources(spec)?;
        take_identity(identity)?;
    }
    make_namespaces()?;
    die_with_parent(parent)?;
    if spec.identity.is_none() {
        sources = view::open_sources(spec)?;
    }
    // Inside the user namespace the count of processes is the session's own.
    limit(Resource::RLIMIT_NPROC, spec.limits.processes)?;

    let (watch, alive) = pipe2(OFlag::O_CLOEXEC).step("make a pipe")?;
    match sys::fork().step("fork pid 1")? {
        Fork::Parent(pid) => {
            drop((watch, sources));
            descriptors::close_all_but(&[alive.as_fd()]).step("close descriptors")?;
            Ok(Role::Outside(Outside { pid, _alive: alive }))
        }
        Fork::Child => {
            drop(alive);
            pid_one(spec, &sources, watch)?;
            Ok(Role::PidOne(View {
                spec: Box::new(spec.clone()),
            }))
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

/// Sets a limit, soft and hard, never above what is there already.
pub(crate) fn limit(resource: Resource, value: u64) -> Result<(), Unfit> {
    let step = format!("limit {resource:?}");
    let (_, hard) = nix::sys::resource::getrlimit(resource).step(&step)?;
    let value = value.min(hard);
    setrlimit(resource, value, value).step(&step)
}

/// Takes the session's account. Dumpable again afterwards: the change of ids gives
/// `/proc/self/uid_map` to root, and the maps could not be written.
fn take_identity(identity: Identity) -> Result<(), Unfit> {
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    setgroups(&[]).step("drop supplementary groups")?;
    setresgid(gid, gid, gid).step("take the group")?;
    setresuid(uid, uid, uid).step("take the account")?;
    prctl::set_dumpable(true).step("become dumpable")
}

/// After the last change of ids, which would clear it.
fn die_with_parent(parent: Pid) -> Result<(), Unfit> {
    prctl::set_pdeathsig(Signal::SIGKILL).step("die with the parent")?;
    if getppid() != parent {
        return Err(Unfit::new("die with the parent", "the supervisor is gone"));
    }
    Ok(())
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
