//! Writing without panics: a closed pipe ends the writing, not the process.

use std::io::{IsTerminal as _, Write as _};

/// To people.
pub(crate) fn err(text: &str) {
    // A closed standard error has nobody to tell.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// To programs.
pub(crate) fn out(text: &str) {
    let mut stdout = std::io::stdout().lock();
    // A closed pipe means that the reader has seen enough.
    let _ = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
}

/// Whether people read standard error on a terminal.
pub(crate) fn err_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}
