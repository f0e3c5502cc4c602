//! The word `attack NAME GROUND`: tries one attack from where it stands and prints one line.

use std::{io::Write as _, process::ExitCode};

use provost_tests::conform;

/// Runs it: `NAME<TAB>refused|succeeded<TAB>ANSWER`.
pub(crate) fn run() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let [name, ground] = words.as_slice() else {
        return ExitCode::from(64);
    };
    let Ok(ground) = serde_json::from_str(ground) else {
        return ExitCode::from(64);
    };
    let Some(outcome) = conform::run(name, &ground) else {
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
