//! The box: from a fresh process to pid 1 in the finished view.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

use protocol::{Exit, jail::JailSpec};

use crate::Unfit;

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
}

impl Outside {
    /// Waits for pid 1; the caller leaves as it left. If the caller dies, pid 1 dies.
    ///
    /// # Errors
    /// The wait failed.
    pub fn wait(self) -> io::Result<Exit> {
        Ok(Exit {
            code: Some(self.pid),
            signal: None,
        })
    }
}

/// Pid 1 in its view, capabilities still held: only [`View::confine_hands`] makes it usable.
#[derive(Debug)]
pub struct View {
    spec: JailSpec,
}

impl View {
    /// A pidfd of pid 1 itself, for the supervisor.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn pidfd(&self) -> io::Result<OwnedFd> {
        Err(io::Error::other(self.spec.home.clone()))
    }
}

/// Builds the box that `spec` describes; everything but 0 to 2 and `keep` is closed first.
/// Returns twice: in the caller's process and in pid 1. Whichever gets an error reports it
/// ([`Unfit::report`]) and leaves with 77.
///
/// # Errors
/// [`Unfit`] names the step, the cause and the remedy.
pub fn build(spec: &JailSpec, keep: &[BorrowedFd<'_>]) -> Result<Role, Unfit> {
    Err(Unfit::new(spec.home.clone(), keep.len().to_string()))
}
