//! The operator's end: finds the sockets of live sessions and speaks with them.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
};

use protocol::{SessionId, bounds, frame};
use supervisor_record::Places;

use super::{
    FRAME, folder, short,
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
    for entry in std::fs::read_dir(&path)?.take(SESSIONS) {
        let name = entry?.file_name();
        let session = name
            .to_str()
            .and_then(|name| name.strip_suffix(".sock"))
            .and_then(|name| SessionId::parse(name).ok());
        let Some(session) = session.filter(|session| only.is_none_or(|only| only == session))
        else {
            continue;
        };
        match speak(short(&handle, &format!("{session}.sock")), &Ask::List) {
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
    let (_, handle) = folder(places)?;
    speak(short(&handle, &format!("{session}.sock")), asked)
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
