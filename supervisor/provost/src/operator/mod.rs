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
    ffi::OsStr,
    fs::{DirBuilder, File, OpenOptions},
    io,
    os::{
        fd::AsRawFd as _,
        unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    },
    path::PathBuf,
};

pub(crate) use board::{Board, Standing, in_words, shown};
use protocol::SessionId;
pub(crate) use serve::Operator;
use supervisor_record::Places;

/// Largest frame on the socket: a list of open questions with their previews.
const FRAME: usize = 1024 * 1024;

/// How the name of a socket ends that listens, or did.
const SUFFIX: &str = ".sock";

/// How the name of one ends that does not listen yet.
const UNBORN: &str = ".new";

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

/// A new name of a session's socket. No two supervisors ever use the same, also of one session: what
/// nobody listens on was left by a death, and can be removed without hitting a successor.
fn fresh(session: &SessionId, random: u32) -> String {
    format!("{session}.{random:08x}{SUFFIX}")
}

/// The session of a socket's name; `None` for a name that is not one (yet).
fn session_of(name: &OsStr) -> Option<SessionId> {
    let (session, _) = name.to_str()?.strip_suffix(SUFFIX)?.split_once('.')?;
    SessionId::parse(session).ok()
}

/// A name of the folder as a path that is short.
fn short(folder: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_its_session_once_it_listens() {
        let session = SessionId::parse("s-1-ab").expect("an id");
        let name = fresh(&session, 255);
        assert_eq!(session_of(OsStr::new(&name)), Some(session));
        for other in [
            format!("{name}{UNBORN}"),
            "s-1-ab.sock".to_owned(),
            "x".to_owned(),
        ] {
            assert_eq!(session_of(OsStr::new(&other)), None, "{other}");
        }
    }
}
