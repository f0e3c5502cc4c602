//! A pre-image on its way through the pipe that came with its order. The put counts as done when the
//! last byte is through; if the pipe breaks or stands still, the put is taken back.

use std::{
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    time::Instant,
};

use protocol::{Failure, FailureClass, Put, PutDone};
use rustix::{fs::OFlags, io::Errno};

use crate::put::Temp;

/// A put that is in place and not yet done.
#[derive(Debug)]
pub(crate) struct PreImage {
    order: u64,
    path: String,
    temp: Temp,
    bytes: Vec<u8>,
    sent: usize,
    pipe: OwnedFd,
    done: PutDone,
    deadline: Instant,
}

/// How far a pre-image is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The pipe is full.
    Waiting,
    /// All is through.
    Through,
    /// The pipe is broken or stood still too long.
    Broken,
}

impl PreImage {
    pub(crate) fn new(
        order: &Put,
        temp: Temp,
        bytes: Vec<u8>,
        pipe: OwnedFd,
        done: PutDone,
        deadline: Instant,
    ) -> Self {
        // A failure here shows as a blocking pipe, which the supervisor drains anyway.
        let _ = rustix::fs::fcntl_setfl(&pipe, OFlags::NONBLOCK);
        let (number, path) = (order.order, order.path.clone());
        Self {
            order: number,
            path,
            temp,
            bytes,
            sent: 0,
            pipe,
            done,
            deadline,
        }
    }

    /// The order's number.
    pub(crate) fn order(&self) -> u64 {
        self.order
    }

    /// The temporary name under which the old file waits.
    pub(crate) fn temp(&self) -> &str {
        self.temp.temporary()
    }

    /// The pipe, to wait for.
    pub(crate) fn pipe(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// When it counts as standing still.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Writes what the pipe takes.
    pub(crate) fn pump(&mut self, now: Instant) -> Progress {
        loop {
            let rest = self.bytes.get(self.sent..).unwrap_or_default();
            if rest.is_empty() {
                return Progress::Through;
            }
            match rustix::io::write(&self.pipe, rest) {
                Ok(count) => self.sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if now < self.deadline => return Progress::Waiting,
                Err(_) => return Progress::Broken,
            }
        }
    }

    /// The pre-image is through: the old file goes, the pipe closes.
    pub(crate) fn finish(self) -> PutDone {
        self.done
    }

    /// The pre-image could not be kept: the put is taken back.
    pub(crate) fn take_back(self) -> Failure {
        let why = Failure {
            class: FailureClass::Other,
            message: format!("`{}`: its old content could not be handed over", self.path),
        };
        self.temp.take_back(&self.path, why)
    }
}
