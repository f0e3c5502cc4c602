//! Reading the shell: a line of bash becomes every simple command and redirection in it, or "not
//! understood" with the reason. The jail is the limit; the reader explains.
//!
//! The grammar is bash's as `bash -c` has it: no aliases, no history, no extended globs outside
//! `[[ ]]`. What could change that, and what is decided only at run time, is a doubt. What is
//! absent: the content of files. A program that reads a script from a file stands in the list as
//! that program; a shell that reads one from a pipe or a descriptor is a doubt.

mod compound;
mod cursor;
mod evaluated;
mod expansion;
mod grammar;
mod here;
mod keyword;
mod proven;
mod reading;
mod redirect;
mod simple;
mod started;
mod word;
mod wrapper;

pub use proven::is_proven_read;
pub use reading::{Access, Context, Pipe, Reading, Redirect, Simple, Word};

use cursor::{Reader, Shared};

/// Reads a line.
#[must_use]
pub fn read(line: &str) -> Reading {
    let mut shared = Shared::default();
    if line.len() > protocol::bounds::COMMAND_LINE {
        shared.doubt(format!(
            "{} bytes are more than the {} of a line; put it into a file",
            line.len(),
            protocol::bounds::COMMAND_LINE
        ));
        return shared.reading;
    }
    if let Some((at, control)) = line.char_indices().find(|(_, c)| is_control(*c)) {
        shared.doubt(format!(
            "the control character {} at byte {at}",
            control.escape_unicode()
        ));
    }
    let mut reader = Reader::new(line, &mut shared, Context::Plain);
    // Where it stopped, and why, is the doubt.
    let _noted = reader.whole();
    reader.settle();
    shared.reading
}

/// Control characters, the two that shells live by apart.
fn is_control(c: char) -> bool {
    c.is_control() && c != '\t' && c != '\n'
}
