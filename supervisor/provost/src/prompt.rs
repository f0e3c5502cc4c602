//! Asks a person at the terminal for something that must not be seen.

use std::os::fd::AsFd as _;

use nix::{
    sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr},
    unistd::read,
};
use supervisor_core::Secret;
use zeroize::Zeroizing;

use crate::output;

/// Longest line that a person types.
const LINE: usize = 4 * 1024;

/// One line from standard input, which is a terminal, without an echo.
///
/// # Errors
/// When it is no terminal, or the line is no text.
pub(crate) fn hidden(words: &str) -> std::io::Result<Secret> {
    let stdin = std::io::stdin();
    let before = tcgetattr(stdin.as_fd())?;
    let mut quiet = before.clone();
    quiet.local_flags.remove(LocalFlags::ECHO);
    quiet
        .local_flags
        .insert(LocalFlags::ECHONL | LocalFlags::ICANON);
    // What was typed before the question was drawn is no answer to it.
    tcsetattr(stdin.as_fd(), SetArg::TCSAFLUSH, &quiet)?;
    output::err(words);
    let line = line();
    // Whatever happened, the terminal is as it was.
    tcsetattr(stdin.as_fd(), SetArg::TCSANOW, &before)?;
    line
}

/// Byte by byte and past std's buffer, which would keep a copy of what was typed.
fn line() -> std::io::Result<Secret> {
    let stdin = std::io::stdin();
    let mut bytes = Zeroizing::new(Vec::with_capacity(LINE));
    let mut byte = [0];
    while bytes.len() < LINE && read(stdin.as_fd(), &mut byte)? == 1 && byte != *b"\n" {
        bytes.extend_from_slice(&byte);
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(Secret::new(text.to_owned())),
        Err(_) => Err(std::io::Error::other("what was typed is no text")),
    }
}
