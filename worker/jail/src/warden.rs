//! The warden: one per command. Its only instruction is to end everything below it.

use std::{
    fs,
    fs::File,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl,
        signal::{SigSet, Signal, kill},
        signalfd::{SfdFlags, SignalFd},
        wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid},
    },
    unistd::{Pid, pipe2, setpgid},
};
use protocol::{Exit, bounds};

use crate::{
    child::{Note, Stage, read_note},
    command::{self, Command},
    descriptors,
    domain::{self, Kernel},
    jail::exit_of,
    sys::{self, Fork},
};

/// How long between two looks at what is left.
const LOOK: u16 = 2;

/// A warden's own ends of its pipes.
#[derive(Debug)]
pub(crate) struct Lines {
    /// At its end, everything below ends.
    pub(crate) control: OwnedFd,
    /// Notes to hands.
    pub(crate) notes: OwnedFd,
}

/// Becomes a warden and its command. `hands` is the pid of hands as seen here; `life` is held until
/// nothing is left below.
pub(crate) fn run(
    kernel: Kernel,
    hands: i32,
    life: Option<&OwnedFd>,
    lines: &Lines,
    command: Command<'_>,
) -> ! {
    let fail = |stage, errno: i32| -> ! {
        Note::Failed { stage, errno }.send(&lines.notes);
        sys::leave(0)
    };
    let warden = |error: std::io::Error| error.raw_os_error().unwrap_or(0);

    let mut keep = vec![
        lines.control.as_fd(),
        lines.notes.as_fd(),
        command.output.as_fd(),
    ];
    let further = [&command.stdin, &command.errors, &command.program];
    keep.extend(further.into_iter().flatten().map(OwnedFd::as_fd));
    keep.extend(life.map(OwnedFd::as_fd));
    if let Err(error) = descriptors::close_all_but(&keep) {
        fail(Stage::Warden, warden(error));
    }
    if let Err(error) = sys::default_signals() {
        fail(Stage::Warden, warden(error));
    }
    // A reader that is gone must not end the warden before its command.
    sys::ignore_broken_pipes();
    let own = setpgid(Pid::from_raw(0), Pid::from_raw(0))
        .and_then(|()| prctl::set_child_subreaper(true))
        .and_then(|()| prctl::set_name(c"warden"));
    if let Err(errno) = own {
        fail(Stage::Warden, errno as i32);
    }
    if domain::enter_scope(kernel).is_err() {
        fail(Stage::Warden, 0);
    }
    // kill(-1) is safe only where the signal scope holds: tried, in this very process.
    let scoped = kernel.scopes() && kill(Pid::from_raw(hands), None) == Err(Errno::EPERM);

    let (status, told) = match pipe2(OFlag::O_CLOEXEC) {
        Ok(ends) => ends,
        Err(errno) => fail(Stage::Warden, errno as i32),
    };
    let leader = match sys::fork() {
        Ok(Fork::Child) => {
            drop(status);
            command::run(kernel, hands, &command, told);
        }
        Ok(Fork::Parent(pid)) => pid,
        Err(error) => fail(Stage::Fork, warden(error)),
    };
    drop((told, command));
    watch(scoped, leader, lines, status.into())
}

/// From the fork to the last note.
fn watch(scoped: bool, leader: i32, lines: &Lines, mut status: File) -> ! {
    // The status pipe closes at exec; a note on it says what failed before.
    if !wait_for(lines, status.as_fd()) {
        let end = end_all(scoped, leader, None);
        Note::Ended {
            exit: end.exit,
            left_running: 0,
        }
        .send(&lines.notes);
        sys::leave(0);
    }
    if let Ok(Some(note @ Note::Failed { .. })) = read_note(&mut status) {
        end_all(scoped, leader, None);
        note.send(&lines.notes);
        sys::leave(0);
    }
    drop(status);
    Note::Started.send(&lines.notes);

    let mut exit = None;
    if let Ok(pidfd) = sys::pidfd_open(leader)
        && outlive(lines, pidfd.as_fd(), leader)
    {
        exit = waitid(Id::PIDFd(pidfd.as_fd()), WaitPidFlag::WEXITED)
            .ok()
            .and_then(exit_of);
    }
    let left = exit.is_some();
    if left {
        grace(lines);
    }
    let end = end_all(scoped, leader, exit);
    let left_running = if left { end.others } else { 0 };
    Note::Ended {
        exit: end.exit,
        left_running,
    }
    .send(&lines.notes);
    sys::leave(0)
}

/// Waits until `fd` is readable; `false` if the order to end came first.
fn wait_for(lines: &Lines, fd: BorrowedFd<'_>) -> bool {
    loop {
        let mut both = [
            PollFd::new(lines.control.as_fd(), PollFlags::POLLIN),
            PollFd::new(fd, PollFlags::POLLIN),
        ];
        match poll(&mut both, PollTimeout::NONE) {
            Ok(_) => {
                let [control, other] = both.map(|one| one.any().unwrap_or(true));
                if control {
                    return false;
                }
                if other {
                    return true;
                }
            }
            Err(Errno::EINTR) => {}
            Err(_) => return false,
        }
    }
}

/// Waits for the leader's end, and reaps meanwhile whatever was orphaned below and has ended: a server
/// that runs for hours must not use up the session's processes with dead ones. `false` if the order
/// to end came first.
fn outlive(lines: &Lines, leader: BorrowedFd<'_>, pid: i32) -> bool {
    let mut deaths = SigSet::empty();
    deaths.add(Signal::SIGCHLD);
    // After the fork of the leader, which must not inherit the mask. Without it the dead stay to the end.
    let told = deaths.thread_block().ok();
    let told = told.and_then(|()| {
        SignalFd::with_flags(&deaths, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).ok()
    });
    let Some(told) = told else {
        return wait_for(lines, leader);
    };
    loop {
        reap_all_but(pid);
        let mut all = [lines.control.as_fd(), leader, told.as_fd()]
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        match poll(&mut all, PollTimeout::NONE) {
            Ok(_) => {
                let [control, left, _] = all.map(|one| one.any().unwrap_or(true));
                if control || left {
                    return !control;
                }
                // Several deaths are one signal: it is emptied first, then all are reaped.
                while let Ok(Some(_)) = told.read_signal() {}
            }
            Err(Errno::EINTR) => {}
            Err(_) => return false,
        }
    }
}

/// Reaps every child that has ended but one, whose end is read elsewhere.
fn reap_all_but(kept: i32) {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    // The kernel tells the eldest first: behind the leader's own end nothing needs to be reaped here.
    while let Ok(status) = waitid(Id::All, look) {
        match status.pid() {
            Some(pid) if pid.as_raw() != kept => {
                let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
            }
            _ => return,
        }
    }
}

/// Gives what the leader left behind a moment to finish; ends early when nothing is left or when
/// the order to end comes.
fn grace(lines: &Lines) {
    let until = Instant::now() + bounds::COMMAND_GRACE;
    while Instant::now() < until {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::ECHILD) => return,
            Ok(WaitStatus::StillAlive) => {}
            _ => continue,
        }
        let mut control = [PollFd::new(lines.control.as_fd(), PollFlags::POLLIN)];
        if poll(&mut control, PollTimeout::from(LOOK)) != Ok(0) {
            return;
        }
    }
}

/// What the end met.
#[derive(Debug)]
struct End {
    exit: Exit,
    others: u32,
}

/// Ends everything below this process. It is the subreaper, so whatever was made below comes here
/// to be reaped: when there is no child left, nothing is.
fn end_all(scoped: bool, leader: i32, known: Option<Exit>) -> End {
    let until = Instant::now() + bounds::END_TIME;
    let mut end = End {
        exit: known.unwrap_or(Exit {
            code: None,
            signal: None,
        }),
        others: 0,
    };
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::ECHILD) => return end,
            Ok(WaitStatus::StillAlive) | Err(_) => {
                strike(scoped);
                std::thread::sleep(Duration::from_micros(200));
            }
            Ok(status) => match (status.pid(), exit_of(status)) {
                (Some(pid), Some(exit)) if pid.as_raw() == leader => end.exit = exit,
                (_, Some(_)) => end.others = end.others.saturating_add(1),
                _ => {}
            },
        }
        // A process that sleeps in the kernel for ever dies when it wakes; nobody waits for it.
        if Instant::now() > until {
            return end;
        }
    }
}

/// Ends everything below this process, which is the reaper of all of it: hands' own last act where
/// no pid namespace does it. The scope is tried on the parent, which no scope of ours holds.
pub(crate) fn end_below(kernel: Kernel) {
    let outside = nix::unistd::getppid();
    let scoped = kernel.scopes() && kill(outside, None) == Err(Errno::EPERM);
    end_all(scoped, 0, None);
}

/// One blow. Scoped, kill(-1) reaches exactly what is below this domain, at once. Else the children
/// are struck one by one, deepest last: their own children come here when they are gone.
fn strike(scoped: bool) {
    if scoped {
        let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
        return;
    }
    let mut next = vec![Pid::this().as_raw()];
    // Bounded by the session's processes.
    for _ in 0..4_096 {
        let Some(pid) = next.pop() else { return };
        let Ok(children) = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")) else {
            continue;
        };
        for child in children
            .split_ascii_whitespace()
            .filter_map(|word| word.parse().ok())
        {
            let _ = kill(Pid::from_raw(child), Signal::SIGKILL);
            next.push(child);
        }
    }
}
