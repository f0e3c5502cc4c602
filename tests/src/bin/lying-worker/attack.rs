//! The word `attack NAME PLAN HANDS`: tries one attack from where it stands and prints one line.

use std::{io::Write as _, process::ExitCode};

use protocol::jail::ProbePlan;
use worker_jail::Outcome;

/// One attack of the jail's own library or of this suite.
pub(crate) fn attempt(name: &str, plan: &ProbePlan, hands: i32) -> Option<Outcome> {
    worker_jail::attack::run(name, plan, hands)
}

/// Runs it: `NAME<TAB>refused|succeeded<TAB>ANSWER`.
pub(crate) fn run() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let [name, plan, hands] = words.as_slice() else {
        return ExitCode::from(64);
    };
    let (Ok(plan), Ok(hands)) = (serde_json::from_str(plan), hands.parse()) else {
        return ExitCode::from(64);
    };
    let Some(outcome) = attempt(name, &plan, hands) else {
        return ExitCode::from(64);
    };
    let word = if outcome.refused {
        "refused"
    } else {
        "succeeded"
    };
    let line = format!("{name}\t{word}\t{}\n", outcome.answer);
    match std::io::stdout().lock().write_all(line.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(70),
    }
}
