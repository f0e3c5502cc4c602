//! The operator's end: finds the sockets of live sessions and speaks with them.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
};

use protocol::{SessionId, bounds, frame};
use supervisor_record::Places;

use super::{
    FRAME, UNBORN, folder, session_of, short,
    words::{Ask, Shown, Tell},
};

/// Sessions that are looked at; an account has few live ones.
const SESSIONS: usize = 4_096;

/// The open questions of every live session, or of one.
///
/// # Errors
/// The folder of the sockets cannot be read.
pub(crate) fn open(
    places: &Places,
    only: Option<&SessionId>,
) -> io::Result<Vec<(SessionId, Vec<Shown>)>> {
    let (path, handle) = folder(places)?;
    let mut found = Vec::new();
    for (session, name) in sockets(&path, only)? {
        match speak(short(&handle, &name), &Ask::List {}) {
            Ok(Tell::Open { questions, .. }) => found.push((session, questions)),
            // Left by a supervisor that was killed: nobody listens, nobody will.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = std::fs::remove_file(path.join(&name));
            }
            Ok(_) | Err(_) => {}
        }
    }
    found.sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
    Ok(found)
}

/// Says one thing to one session.
///
/// # Errors
/// Nobody listens, or what comes back is no answer.
pub(crate) fn say(places: &Places, session: &SessionId, asked: &Ask) -> io::Result<Tell> {
    let (path, handle) = folder(places)?;
    // More than one where a death left its socket: the living one answers.
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the session has ended");
    for (_, name) in sockets(&path, Some(session))? {
        match speak(short(&handle, &name), asked) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => last = error,
            told => return told,
        }
    }
    Err(last)
}

/// The sockets of live sessions, and some that dead ones left, with their names.
fn sockets(folder: &Path, only: Option<&SessionId>) -> io::Result<Vec<(SessionId, String)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)?.take(SESSIONS) {
        let name = entry?.file_name();
        if let (Some(session), Some(name)) = (session_of(&name), name.to_str())
            && only.is_none_or(|only| *only == session)
        {
            found.push((session, name.to_owned()));
        } else if let Some(name) = name.to_str().filter(|name| name.ends_with(UNBORN)) {
            forget_unborn(&folder.join(name));
        }
    }
    Ok(found)
}

/// Removes a socket whose supervisor died between making and naming it, microseconds apart.
fn forget_unborn(path: &Path) {
    let age = path
        .symlink_metadata()
        .and_then(|meta| meta.modified())
        .ok()
        .and_then(|time| time.elapsed().ok());
    if age.is_some_and(|age| age > bounds::OPERATOR_IDLE) {
        let _ = std::fs::remove_file(path);
    }
}

fn speak(socket: std::path::PathBuf, asked: &Ask) -> io::Result<Tell> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(bounds::OPERATOR_IDLE))?;
    stream.set_write_timeout(Some(bounds::OPERATOR_IDLE))?;
    stream.write_all(&frame::encode(asked, FRAME).map_err(io::Error::other)?)?;
    let mut decoder = frame::Decoder::new(FRAME);
    let mut chunk = vec![0; 16 * 1024];
    loop {
        if let Some(told) = decoder.next_message::<Tell>().map_err(io::Error::other)? {
            return Ok(told);
        }
        let got = stream.read(&mut chunk)?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        decoder.push(chunk.get(..got).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::operator::fresh;

    #[test]
    fn a_socket_that_is_being_born_is_left_alone_and_not_listed() {
        let folder = tempfile::tempdir().expect("a folder");
        let session = SessionId::parse("s-1-ab").expect("an id");
        let name = fresh(&session, 7);
        let unborn = folder.path().join(format!("{name}{UNBORN}"));
        let _bound = UnixListener::bind(&unborn).expect("binds");
        assert_eq!(sockets(folder.path(), None).expect("lists"), []);
        assert!(unborn.exists(), "it will have its name in a moment");
        std::fs::rename(&unborn, folder.path().join(&name)).expect("renamed");
        let listed = sockets(folder.path(), Some(&session)).expect("lists");
        assert_eq!(listed, [(session, name)]);
        let other = SessionId::parse("s-1-ac").expect("an id");
        assert_eq!(sockets(folder.path(), Some(&other)).expect("lists"), []);
    }
}
