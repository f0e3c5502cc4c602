//! Hands behind its walls, and what it may start.

use std::os::fd::{BorrowedFd, OwnedFd};

use protocol::{Failure, FailureClass, ProbeDomain, Report, Spawn, jail::ProbePlan};

use crate::{Child, Unfit, View};

/// What [`Report::Ready`] tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Landlock's ABI as used.
    pub abi: u32,
    /// Landlock's errata bits.
    pub errata: u32,
    /// User id inside.
    pub uid: u32,
    /// Effective capabilities, read back, as hex.
    pub capabilities: String,
    /// Whether namespaces were made.
    pub namespaces: bool,
}

impl Standing {
    /// The word of the treaty for it.
    #[must_use]
    pub fn report(&self) -> Report {
        Report::Ready {
            abi: self.abi,
            errata: self.errata,
            uid: self.uid,
            capabilities: self.capabilities.clone(),
            namespaces: self.namespaces,
        }
    }
}

/// A process that stands behind hands' walls. Only it can start anything.
#[derive(Debug)]
pub struct Hands {
    standing: Standing,
}

impl View {
    /// Drops all capabilities, enters hands' Landlock domain (the session's ceiling) and its
    /// seccomp filter, and closes every descriptor but 0 to 2 and `keep`.
    ///
    /// # Errors
    /// [`Unfit`] names the wall that could not be raised.
    pub fn confine_hands(self, keep: &[BorrowedFd<'_>]) -> Result<Hands, Unfit> {
        Err(Unfit::new("confine hands", keep.len().to_string()))
    }
}

impl Hands {
    /// What the walls are.
    #[must_use]
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Starts the agent (`provost-worker agent WALLS`): descriptors exactly 0 to 2 on `/dev/null`
    /// and 3 = `link`, no environment. It raises its own walls first thing: [`crate::confine_agent`].
    ///
    /// # Errors
    /// The kernel refused to fork, or the worker binary is not in the view.
    pub fn start_agent(&self, link: OwnedFd) -> Result<Child, Failure> {
        drop(link);
        Err(Failure {
            class: FailureClass::Other,
            message: String::new(),
        })
    }

    /// Starts a command under a warden of its own.
    ///
    /// # Errors
    /// The order itself is unfit, or the kernel refused to fork. What fails later is news.
    pub fn spawn(
        &self,
        order: &Spawn,
        output: OwnedFd,
        stdin: Option<OwnedFd>,
    ) -> Result<Child, Failure> {
        drop((output, stdin));
        Err(Failure {
            class: FailureClass::Other,
            message: order.cwd.clone(),
        })
    }

    /// Runs the probe role (`provost-worker probe WALLS`) in a domain, through the path by which the
    /// agent or commands start; findings go to `findings`, one JSON [`protocol::Probe`] a line.
    ///
    /// # Errors
    /// As [`Hands::spawn`].
    pub fn probe(
        &self,
        domain: ProbeDomain,
        plan: &ProbePlan,
        findings: OwnedFd,
    ) -> Result<Child, Failure> {
        drop(findings);
        Err(Failure {
            class: FailureClass::Other,
            message: format!("{domain:?} {}", plan.tmp),
        })
    }
}
