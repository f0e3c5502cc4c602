//! The role agent: runs the loop over its link.

use std::process::ExitCode;

/// Runs the agent.
pub(crate) fn run() -> ExitCode {
    ExitCode::from(crate::BUG)
}
