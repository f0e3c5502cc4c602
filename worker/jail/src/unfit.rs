//! Why a box cannot be built here: the step, the cause, and what to do.

use std::io;

/// A step of confinement that failed; nothing untrusted may run after it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{step}: {message}")]
pub struct Unfit {
    /// The step (`mount /proc`).
    pub step: String,
    /// What happened, and what to do.
    pub message: String,
}

impl Unfit {
    /// A failed step.
    #[must_use]
    pub fn new(step: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            step: step.into(),
            message: message.into(),
        }
    }

    /// The word of the treaty for it.
    #[must_use]
    pub fn report(&self) -> protocol::Report {
        protocol::Report::Unfit {
            step: self.step.clone(),
            message: self.message.clone(),
        }
    }
}

/// Names the step of a failed call.
pub(crate) trait Step<T> {
    /// Turns an error into [`Unfit`] with the step's name.
    fn step(self, step: &str) -> Result<T, Unfit>;
}

impl<T, E: Into<io::Error>> Step<T> for Result<T, E> {
    fn step(self, step: &str) -> Result<T, Unfit> {
        self.map_err(|error| Unfit::new(step, error.into().to_string()))
    }
}
