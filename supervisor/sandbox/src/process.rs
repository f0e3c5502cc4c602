//! A started box as something to kill: complete, within a bound, leaving no zombie.

use std::{
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    process::Child,
    time::{Duration, Instant},
};

use protocol::bounds;
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    process::{Signal, WaitId, WaitIdOptions},
};

/// The box did not end in time: a process of it hangs in the kernel.
#[derive(Debug, thiserror::Error)]
#[error("the jail did not end within {} s: a process of it hangs in the kernel (a stopped disk or network mount); the session is stuck", bounds::END_TIME.as_secs())]
pub struct Stuck;

/// The processes of a box: `jail`, which was started, and hands, whose pidfd came up at set-up.
/// Dropping it kills.
#[derive(Debug)]
pub struct Process {
    child: Child,
    hands: Option<OwnedFd>,
    ended: bool,
}

impl Process {
    pub(crate) fn new(child: Child) -> Self {
        Self {
            child,
            hands: None,
            ended: false,
        }
    }

    pub(crate) fn adopt(&mut self, hands: OwnedFd) {
        self.hands = Some(hands);
    }

    /// Pid of the process that was started, on the host.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The pidfd of hands: readable when hands, and with it everything in the box, has ended.
    #[must_use]
    pub fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.hands.as_ref().map(|fd| fd.as_fd())
    }

    /// Whether everything has ended; never waits, leaves no zombie.
    pub fn has_ended(&mut self) -> bool {
        self.wait_until(Instant::now())
    }

    /// Waits for a box that was told to end, at most [`bounds::END_TIME`].
    ///
    /// # Errors
    /// [`Stuck`] when the time is over; [`Process::kill`] is next.
    pub fn wait(&mut self) -> Result<(), Stuck> {
        if self.wait_until(Instant::now() + bounds::END_TIME) {
            Ok(())
        } else {
            Err(Stuck)
        }
    }

    /// Kills everything in the box and waits until it is gone, at most [`bounds::END_TIME`].
    ///
    /// # Errors
    /// [`Stuck`] when something survives that long.
    pub fn kill(&mut self) -> Result<(), Stuck> {
        if self.ended {
            return Ok(());
        }
        // Pid 1 first: with it the kernel ends all its namespace. An error means that it is gone.
        if let Some(hands) = &self.hands {
            let _ = rustix::process::pidfd_send_signal(hands, Signal::KILL);
        }
        let _ = self.child.kill();
        self.wait()
    }

    /// How `jail` left, for people; kills what is left of it.
    pub(crate) fn how_it_left(&mut self) -> String {
        let deadline = Instant::now() + bounds::END_TIME;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    self.ended = self.hands.is_none();
                    return status.to_string();
                }
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(None) => return "it closed its link and stays".to_owned(),
                Err(error) => return error.to_string(),
            }
        }
    }

    fn wait_until(&mut self, deadline: Instant) -> bool {
        if self.ended {
            return true;
        }
        if let Some(hands) = &self.hands {
            if !readable(hands.as_fd(), deadline) {
                return false;
            }
            // Ours to reap only if `jail` left it to us; else the kernel says ECHILD.
            let _ = rustix::process::waitid(
                WaitId::PidFd(hands.as_fd()),
                WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
            );
        }
        loop {
            // An error is ECHILD: somebody else reaped it.
            if !matches!(self.child.try_wait(), Ok(None)) {
                self.ended = true;
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nobody is left to hear that it is stuck; the next start finds its lock free.
        let _ = self.kill();
    }
}

/// Waits until `fd` is readable or at end-of-file.
pub(crate) fn readable(fd: BorrowedFd<'_>, deadline: Instant) -> bool {
    ready(fd, PollFlags::IN, deadline)
}

/// Waits until `fd` is ready for `what`, or broken.
pub(crate) fn ready(fd: BorrowedFd<'_>, what: PollFlags, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut fds = [PollFd::from_borrowed_fd(fd, what)];
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) if !left.is_zero() => {}
            Err(_) => return false,
        }
    }
}
