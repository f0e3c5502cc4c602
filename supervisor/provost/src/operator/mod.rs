//! People who are not at the session's terminal: each session has a socket where the account that
//! runs it (or root) sees what is asked and answers.
//!
//! | part | does |
//! | --- | --- |
//! | [`words`] | what is said on the socket, one frame each way |
//! | [`board`] | what is open now, for the socket and nobody else |
//! | [`serve`] | the supervisor's end |
//! | [`ask`] | the end of `provost approvals|approve|deny` |
//!
//! The socket lies in the runtime folder, which is in no jail's view, with mode 0600; a peer of
//! another account is turned away whatever the mode says.

pub(crate) mod ask;
mod board;
mod serve;
pub(crate) mod words;

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io,
    os::{
        fd::AsRawFd as _,
        unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    },
    path::PathBuf,
};

pub(crate) use board::{Board, shown};
pub(crate) use serve::Operator;
use supervisor_record::Places;

/// Largest frame on the socket: a list of open questions with their previews.
const FRAME: usize = 1024 * 1024;

/// The folder of all sessions' sockets, made if it is missing, by a handle: names below it are short
/// enough for a socket whatever the folder is called.
fn folder(places: &Places) -> io::Result<(PathBuf, File)> {
    let path = places.runtime().join("operators");
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let flags = nix::libc::O_PATH | nix::libc::O_DIRECTORY | nix::libc::O_NOFOLLOW;
    let handle = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(&path)?;
    Ok((path, handle))
}

/// A name of the folder as a path that is short.
fn short(folder: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))
}
