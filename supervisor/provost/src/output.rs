//! Writing without panics: a closed pipe ends the writing, not the process; a full disk is a failure.

use std::{
    io::{ErrorKind, IsTerminal as _, Write as _},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::exit;

/// Whether something for programs could not be written.
static LOST: AtomicBool = AtomicBool::new(false);

/// To people.
pub(crate) fn err(text: &str) {
    // A closed standard error has nobody to tell.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// To programs.
pub(crate) fn out(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    // A closed pipe means that the reader has seen enough; anything else is output lost.
    if written.is_err_and(|error| error.kind() != ErrorKind::BrokenPipe) {
        LOST.store(true, Ordering::Relaxed);
    }
}

/// The exit code, unless output was lost: then a program must not take the run for done.
pub(crate) fn settle(code: ExitCode) -> ExitCode {
    if !LOST.load(Ordering::Relaxed) {
        return code;
    }
    err("provost: standard output could not be written: free space there, or write elsewhere\n");
    ExitCode::from(exit::ENDED)
}

/// Whether people read standard error on a terminal.
pub(crate) fn err_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}
