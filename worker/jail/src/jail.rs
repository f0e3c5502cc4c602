//! The box: from a fresh process to hands in the finished view. What each situation does of its own
//! is in `namespaces` (A), `plain` (B) and `container` (C).

use std::{
    fs, io,
    os::fd::{BorrowedFd, OwnedFd},
};

use nix::{
    errno::Errno,
    sys::{
        prctl,
        resource::{Resource, setrlimit},
        signal::Signal,
        stat::{Mode, umask},
        wait::{WaitStatus, waitpid},
    },
    unistd::{Gid, Pid, Uid, getppid, setgroups, setresgid, setresuid, setsid},
};
use protocol::{
    Exit,
    jail::{Identity, JailSpec, Situation},
};

use crate::{
    descriptors, namespaces, plain, sys,
    unfit::{Step as _, Unfit},
};

/// How readily the kernel ends a session's processes where memory runs out, from 0 to 1000.
pub(crate) const OOM_SCORE: &str = "500";

/// Which of the two processes this is, after [`build`].
#[derive(Debug)]
pub enum Role {
    /// The `jail` process: its only duty is [`Outside::wait`].
    Outside(Outside),
    /// Hands to be, in the finished view; nothing untrusted has run yet.
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
    pub(crate) fn new(pid: i32, alive: OwnedFd) -> Self {
        Self { pid, _alive: alive }
    }

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

/// Hands in its view, capabilities still held: only [`View::confine_hands`] makes it usable.
#[derive(Debug)]
pub struct View {
    // Boxed: the other role is two words.
    pub(crate) spec: Box<JailSpec>,
    /// Held by hands and every warden where the kernel does not end them together.
    pub(crate) life: Option<OwnedFd>,
    /// What goes up to the supervisor, beside the pidfd.
    pub(crate) handles: Vec<(&'static str, OwnedFd)>,
}

impl View {
    pub(crate) fn new(spec: &JailSpec) -> Self {
        Self {
            spec: Box::new(spec.clone()),
            life: None,
            handles: Vec::new(),
        }
    }

    /// The set-up handles for the supervisor, by name, once: `pidfd` of hands itself; in situation B
    /// `life`, at whose end of file nothing of the session is left, and `doors`, the listener of the
    /// calls that the supervisor carries out, if the spec has any.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn handles(&mut self) -> io::Result<Vec<(&'static str, OwnedFd)>> {
        let mut handles = vec![("pidfd", sys::pidfd_open(Pid::this().as_raw())?)];
        handles.append(&mut self.handles);
        Ok(handles)
    }
}

/// Builds the box that `spec` describes; everything but 0 to 2 and `keep` is closed first.
/// In situation A it returns twice: in the caller's process and in pid 1. In B and C nothing is
/// forked: the caller's process itself becomes hands. Whichever gets an error reports it
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
    // Where the kernel has no Landlock nothing else is worth building.
    crate::domain::kernel(spec.pretend_abi)?;
    let parent = begin(keep)?;
    if spec.situation == Situation::Namespaces {
        namespaces::build(spec, parent)
    } else {
        plain::in_the_open(spec, parent).map(Role::PidOne)
    }
}

/// What is alike in every situation: a process without strange descriptors, signals and rights.
/// Gives the parent that it started under.
fn begin(keep: &[BorrowedFd<'_>]) -> Result<Pid, Unfit> {
    // Where memory runs out the session goes first. Where /proc is read-only it goes by its size.
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    let parent = getppid();
    descriptors::close_all_but(keep).step("close descriptors")?;
    // Whatever the starter ignored or blocked: a child's end must be told, a gone reader must not
    // kill.
    sys::default_signals().step("reset signals")?;
    sys::ignore_broken_pipes();
    prctl::set_no_new_privs().step("set no_new_privs")?;
    // A group leader cannot make a session; pid 1 of a new namespace always can.
    let _ = setsid();
    umask(Mode::from_bits_truncate(0o022));
    setrlimit(Resource::RLIMIT_CORE, 0, 0).step("limit core dumps")?;
    Ok(parent)
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
pub(crate) fn take_identity(identity: Identity) -> Result<(), Unfit> {
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    setgroups(&[]).step("drop supplementary groups")?;
    setresgid(gid, gid, gid).step("take the group")?;
    setresuid(uid, uid, uid).step("take the account")?;
    prctl::set_dumpable(true).step("become dumpable")
}

/// After the last change of ids, which would clear it.
pub(crate) fn die_with_parent(parent: Pid) -> Result<(), Unfit> {
    prctl::set_pdeathsig(Signal::SIGKILL).step("die with the parent")?;
    if getppid() != parent {
        return Err(Unfit::new("die with the parent", "the supervisor is gone"));
    }
    Ok(())
}
