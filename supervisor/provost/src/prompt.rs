//! Asks a person at the terminal for something that must not be seen.

use std::{
    fs::OpenOptions,
    io::{Read as _, Write as _},
};

use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use supervisor_core::Secret;

/// Longest line that a person types.
const LINE: usize = 4 * 1024;

/// One line from the terminal, without an echo.
///
/// # Errors
/// When there is no terminal, or the line is no text.
pub(crate) fn hidden(words: &str) -> std::io::Result<Secret> {
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    let before = tcgetattr(&terminal)?;
    let mut quiet = before.clone();
    quiet.local_flags.remove(LocalFlags::ECHO);
    quiet
        .local_flags
        .insert(LocalFlags::ECHONL | LocalFlags::ICANON);
    terminal.write_all(words.as_bytes())?;
    tcsetattr(&terminal, SetArg::TCSAFLUSH, &quiet)?;
    let line = line(&mut terminal);
    // Whatever happened, the terminal is as it was.
    tcsetattr(&terminal, SetArg::TCSAFLUSH, &before)?;
    line
}

fn line(terminal: &mut std::fs::File) -> std::io::Result<Secret> {
    let mut bytes = Vec::with_capacity(LINE);
    let mut byte = [0];
    while bytes.len() < LINE && terminal.read(&mut byte)? == 1 && byte != *b"\n" {
        bytes.extend_from_slice(&byte);
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Secret::new(text)),
        Err(error) => {
            // What was typed is wiped, not carried in the error.
            drop(Secret::new(
                String::from_utf8_lossy(error.as_bytes()).into_owned(),
            ));
            Err(std::io::Error::other("what was typed is no text"))
        }
    }
}
