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

use crate::docker::{Container, Explainer};

/// The box did not end in time: a process of it hangs in the kernel.
#[derive(Debug, thiserror::Error)]
#[error("the jail did not end within {} s: a process of it hangs in the kernel (a stopped disk or network mount); the session is stuck", bounds::END_TIME.as_secs())]
pub struct Stuck;

/// What stands around the processes.
#[derive(Debug)]
enum Around {
    /// The process that was started here.
    Child(Child),
    /// A container, and its first process as this one sees it.
    Container(Box<Container>, u32),
}

/// The processes of a box: what was started, and hands, whose pidfd came up at set-up.
/// Dropping it kills.
#[derive(Debug)]
pub struct Process {
    around: Around,
    hands: Option<OwnedFd>,
    /// Where no pid namespace ends everything with hands: at its end of file nothing is left.
    life: Option<OwnedFd>,
    ended: bool,
}

impl Process {
    pub(crate) fn new(child: Child) -> Self {
        Self {
            around: Around::Child(child),
            hands: None,
            life: None,
            ended: false,
        }
    }

    pub(crate) fn contained(container: Container, pid: u32, hands: OwnedFd) -> Self {
        Self {
            around: Around::Container(Box::new(container), pid),
            hands: Some(hands),
            life: None,
            ended: false,
        }
    }

    /// Tells how it ended, where a container engine knows; also after it was killed.
    #[must_use]
    pub fn explainer(&self) -> Option<Explainer> {
        match &self.around {
            Around::Child(_) => None,
            Around::Container(container, _) => Some(container.explainer()),
        }
    }

    pub(crate) fn adopt(&mut self, hands: OwnedFd, life: Option<OwnedFd>) {
        self.hands = Some(hands);
        self.life = life;
    }

    /// Pid of the process that was started, on the host.
    #[must_use]
    pub fn pid(&self) -> u32 {
        match &self.around {
            Around::Child(child) => child.id(),
            Around::Container(_, pid) => *pid,
        }
    }

    /// The pid of hands on the host, or of the process that was started where hands is that one.
    #[must_use]
    pub fn hands(&self) -> u32 {
        let hands = self.hands.as_ref().and_then(crate::launch::pid_of);
        hands.unwrap_or_else(|| self.pid())
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
            self.remove();
            return Ok(());
        }
        // Hands first: with it the kernel ends all its pid namespace, or each warden what is below
        // it. An error means that it is gone.
        if let Some(hands) = &self.hands {
            let _ = rustix::process::pidfd_send_signal(hands, Signal::KILL);
        }
        if let Around::Child(child) = &mut self.around {
            let _ = child.kill();
        }
        let ended = self.wait();
        self.remove();
        ended
    }

    /// Takes away what an engine keeps of a box that has ended, and ends one that has not.
    fn remove(&mut self) {
        if let Around::Container(container, _) = &mut self.around {
            container.remove();
        }
    }

    /// How `jail` left, for people; kills what is left of it.
    pub(crate) fn how_it_left(&mut self) -> String {
        let Around::Child(child) = &mut self.around else {
            let told = self.explainer().and_then(|explainer| explainer.explain());
            return told.unwrap_or_else(|| "it closed its link and stays".to_owned());
        };
        let deadline = Instant::now() + bounds::END_TIME;
        loop {
            match child.try_wait() {
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
        // Wardens outlive hands until nothing is left below them.
        if let Some(life) = &self.life
            && !readable(life.as_fd(), deadline)
        {
            return false;
        }
        let Around::Child(child) = &mut self.around else {
            // Its first process is the engine's to reap.
            self.ended = true;
            return true;
        };
        loop {
            // An error is ECHILD: somebody else reaped it.
            if !matches!(child.try_wait(), Ok(None)) {
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
