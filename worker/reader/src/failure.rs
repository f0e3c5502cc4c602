//! Why an errand stopped, sorted by who has to act, in the words that the supervisor passes on.

use std::io;

use nix::errno::Errno;
use protocol::reader::{Finding, ReaderFailure};

/// Why an errand stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// A bound was crossed.
    #[error("{0}")]
    Limit(String),
    /// The workspace moved on underneath.
    #[error("{0}")]
    Moved(String),
    /// A place, a glob or an order is unfit.
    #[error("{0}")]
    Unfit(String),
    /// The session's tree is not what was shown.
    #[error("{0}")]
    Hostile(String),
    /// The kernel refused or the disk failed.
    #[error("{what} `{place}`: {source}")]
    Io {
        /// What was tried, as in "cannot open".
        what: &'static str,
        /// Where.
        place: String,
        /// Why not.
        source: io::Error,
    },
    /// The supervisor no longer listens.
    #[error("the finding could not be sent: {0}")]
    Link(io::Error),
}

impl Trouble {
    /// The finding that tells it, or the link's own failure.
    pub(crate) fn finding(self) -> io::Result<Finding> {
        let class = match &self {
            Self::Limit(_) => ReaderFailure::Limit,
            Self::Moved(_) => ReaderFailure::Moved,
            Self::Unfit(_) => ReaderFailure::Unfit,
            Self::Hostile(_) => ReaderFailure::Hostile,
            Self::Io { .. } => ReaderFailure::Io,
            Self::Link(source) => return Err(io::Error::new(source.kind(), self.to_string())),
        };
        Ok(Finding::Failed {
            class,
            message: self.to_string(),
        })
    }
}

/// Names what was tried and where, when the kernel says no.
pub(crate) trait At<T> {
    /// `what` as in "cannot open", `place` as people know it.
    fn at(self, what: &'static str, place: &str) -> Result<T, Trouble>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, what: &'static str, place: &str) -> Result<T, Trouble> {
        self.map_err(|source| Trouble::Io {
            what,
            place: place.to_owned(),
            source,
        })
    }
}

impl<T> At<T> for nix::Result<T> {
    fn at(self, what: &'static str, place: &str) -> Result<T, Trouble> {
        self.map_err(io::Error::from).at(what, place)
    }
}

/// Whether the kernel's answer means that somebody changed the path while it was being walked.
pub(crate) fn is_swap(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ELOOP | Errno::ENOTDIR | Errno::ENOENT | Errno::EXDEV | Errno::EAGAIN | Errno::ENXIO
    )
}
