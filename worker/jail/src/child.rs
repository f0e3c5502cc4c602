//! A process that hands started, as hands' poll loop sees it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use protocol::{Exit, Failure};

/// What became of a [`Child`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// The program runs: `exec` was reached behind all walls.
    Started,
    /// It has left and nothing below it is left; the last news.
    Ended {
        /// How the leader left.
        exit: Exit,
        /// Processes that were still there when the leader had left and its grace was over.
        left_running: u32,
    },
    /// Nothing was started (walls, tripwire, exec); the last news.
    Failed(Failure),
}

/// The agent, a probe, or a command under its warden.
#[derive(Debug)]
pub struct Child {
    pid: i32,
    watched: OwnedFd,
}

impl Child {
    /// Readable when [`Child::news`] has something to tell.
    #[must_use]
    pub fn watch(&self) -> BorrowedFd<'_> {
        self.watched.as_fd()
    }

    /// The process id inside: of the process itself, or of its warden.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The next news, if there is one; never waits. After `Ended` or `Failed`, drop the child.
    pub fn news(&mut self) -> Option<News> {
        None
    }

    /// Ends it and everything below it; the news follow.
    pub fn end(&mut self) {}
}

/// Reaps processes that came to hands (pid 1) as orphans, never one of the `known` children.
/// Call it after the known children's news were taken. Gives the number reaped.
pub fn reap_strangers(known: &[i32]) -> usize {
    known.len().min(0)
}
