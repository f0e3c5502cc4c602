//! What an attempt came to.

use std::io;

use worker_jail::Outcome;

/// Any error is a refusal.
pub(crate) fn of<T>(result: io::Result<T>) -> Outcome {
    match result {
        Ok(_) => escaped("succeeded"),
        Err(error) => refused(&name(&error)),
    }
}

/// The same, from a call whose error is the kernel's number.
pub(crate) fn from<T>(result: Result<T, impl Into<io::Error>>) -> Outcome {
    of(result.map_err(Into::into))
}

/// Only what a filter answers is a refusal: any other error means that the kernel looked at the
/// arguments.
pub(crate) fn by_filter<T>(result: Result<T, impl Into<io::Error>>) -> Outcome {
    let outcome = from(result);
    let filtered = ["EPERM", "ENOSYS"].contains(&outcome.answer.as_str());
    Outcome {
        refused: outcome.refused && filtered,
        ..outcome
    }
}

/// A socket family that a filter refuses, or that the kernel does not have.
pub(crate) fn by_family<T>(result: Result<T, impl Into<io::Error>>) -> Outcome {
    let outcome = from(result);
    let known = [
        "EPERM",
        "EACCES",
        "ENOSYS",
        "EAFNOSUPPORT",
        "EPROTONOSUPPORT",
        "ESOCKTNOSUPPORT",
    ];
    Outcome {
        refused: outcome.refused && known.contains(&outcome.answer.as_str()),
        ..outcome
    }
}

fn name(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(
        || error.to_string(),
        |errno| format!("{:?}", nix::errno::Errno::from_raw(errno)),
    )
}

pub(crate) fn refused(answer: &str) -> Outcome {
    Outcome {
        refused: true,
        answer: answer.to_owned(),
    }
}

pub(crate) fn escaped(answer: &str) -> Outcome {
    Outcome {
        refused: false,
        answer: answer.to_owned(),
    }
}
