//! A pre-image on its way through the pipe that came with its order. The put counts as done when the
//! last byte is through; if the pipe breaks or stands still, the put is taken back.

use std::{
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    time::Instant,
};

use protocol::{Failure, FailureClass, Put, PutDone, Report, Resolved};
use rustix::{fs::OFlags, io::Errno};

use crate::put::Temp;

/// A put that is in place and not yet done.
#[derive(Debug)]
pub(crate) struct PreImage {
    order: u64,
    path: String,
    after: After,
    bytes: Vec<u8>,
    sent: usize,
    pipe: OwnedFd,
    deadline: Instant,
}

/// What a content on its way belongs to.
#[derive(Debug)]
enum After {
    /// A put: the old file waits under the temporary name.
    Put(Temp, PutDone),
    /// A read: nothing was changed.
    Read(Resolved),
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
        let after = After::Put(temp, done);
        Self::through(order.order, &order.path, after, bytes, pipe, deadline)
    }

    /// A content that is only read.
    pub(crate) fn read(
        order: u64,
        path: &str,
        bytes: Vec<u8>,
        pipe: OwnedFd,
        found: Resolved,
        deadline: Instant,
    ) -> Self {
        Self::through(order, path, After::Read(found), bytes, pipe, deadline)
    }

    fn through(
        order: u64,
        path: &str,
        after: After,
        bytes: Vec<u8>,
        pipe: OwnedFd,
        deadline: Instant,
    ) -> Self {
        // A failure here shows as a blocking pipe, which the supervisor drains anyway.
        let _ = rustix::fs::fcntl_setfl(&pipe, OFlags::NONBLOCK);
        Self {
            order,
            path: path.to_owned(),
            after,
            bytes,
            sent: 0,
            pipe,
            deadline,
        }
    }

    /// The order's number.
    pub(crate) fn order(&self) -> u64 {
        self.order
    }

    /// The temporary name under which the old file waits, if it belongs to a put.
    pub(crate) fn temp(&self) -> Option<&str> {
        match &self.after {
            After::Put(temp, _) => Some(temp.temporary()),
            After::Read(_) => None,
        }
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

    /// All is through: an old file goes, the pipe closes.
    pub(crate) fn finish(self) -> Report {
        let order = self.order;
        match self.after {
            After::Put(_, done) => Report::PutDone { order, done },
            After::Read(found) => Report::Resolved { order, found },
        }
    }

    /// The content could not be handed over: a put is taken back.
    pub(crate) fn take_back(self) -> Failure {
        let why = Failure {
            class: FailureClass::Other,
            message: format!("`{}`: its old content could not be handed over", self.path),
        };
        match self.after {
            After::Put(temp, _) => temp.take_back(&self.path, why),
            After::Read(_) => why,
        }
    }
}
