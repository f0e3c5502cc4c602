//! Exit codes and the one way in which a command fails: what, where, what to do.

use std::process::ExitCode;

use crate::output;

/// Done; single calls may have been refused.
pub(crate) const DONE: u8 = 0;
/// Ended by refusal, fault or outage.
pub(crate) const ENDED: u8 = 1;
/// Iteration or turn cap.
pub(crate) const CAP: u8 = 2;
/// Budget.
pub(crate) const BUDGET: u8 = 3;
/// Usage.
pub(crate) const USAGE: u8 = 64;
/// A bug of ours.
pub(crate) const BUG: u8 = 70;
/// Refused at start: a required right is not held, a place or platform is unfit.
pub(crate) const REFUSED_AT_START: u8 = 77;
/// Bad configuration or policy, or no model and no key.
pub(crate) const CONFIG: u8 = 78;
/// Cancelled by a person.
pub(crate) const CANCELLED: u8 = 130;
/// Ended in order by SIGTERM.
pub(crate) const TERMINATED: u8 = 143;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The process's exit code.
    pub(crate) code: u8,
    /// What and where.
    pub(crate) message: String,
    /// What to do.
    pub(crate) help: Option<String>,
}

impl Failure {
    /// A failure with an exit code.
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            help: None,
        }
    }

    /// Adds what to do.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Tells people and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        output::err(&format!("provost: {}\n", self.message));
        if let Some(help) = &self.help {
            output::err(&format!("  help: {help}\n"));
        }
        ExitCode::from(self.code)
    }
}

/// The exit code of a session's outcome word.
pub(crate) fn of_outcome(outcome: &str, terminated: bool) -> u8 {
    match outcome {
        "done" => DONE,
        "cap" => CAP,
        "budget" => BUDGET,
        "cancelled" if terminated => TERMINATED,
        "cancelled" => CANCELLED,
        _ => ENDED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_has_the_documented_code() {
        let table = [
            ("done", 0),
            ("refused", 1),
            ("fault", 1),
            ("outage", 1),
            ("cap", 2),
            ("budget", 3),
            ("cancelled", 130),
        ];
        for (outcome, code) in table {
            assert_eq!(of_outcome(outcome, false), code, "{outcome}");
        }
        assert_eq!(of_outcome("cancelled", true), 143);
    }
}
