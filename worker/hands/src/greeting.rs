//! The words before *ready*: hello, and the one handle that goes up.

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::BorrowedFd,
};

use protocol::{Hello, ROLE_HANDS, Report, SessionId, bounds, frame};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

/// Says one report on the link, waiting until the supervisor's buffer has taken it.
///
/// # Errors
/// The link is closed.
pub fn say(link: BorrowedFd<'_>, report: &Report) -> io::Result<()> {
    send(link, report, &[])
}

/// Says hello and hands the pidfd of pid 1 over. Nothing untrusted has run yet, and after *ready*
/// no descriptor goes up.
///
/// # Errors
/// The link is closed.
pub fn greet(link: BorrowedFd<'_>, session: SessionId, pidfd: BorrowedFd<'_>) -> io::Result<()> {
    say(link, &Report::Hello(Hello::new(ROLE_HANDS, session)))?;
    send(
        link,
        &Report::Handles {
            names: vec!["pidfd".to_owned()],
        },
        &[pidfd],
    )
}

fn send(link: BorrowedFd<'_>, report: &Report, handles: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = frame::encode(report, bounds::FRAME).map_err(io::Error::other)?;
    let mut rest = bytes.as_slice();
    let mut handles = handles;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    while !rest.is_empty() {
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !handles.is_empty() && !control.push(SendAncillaryMessage::ScmRights(handles)) {
            return Err(io::Error::other("no room for the handles"));
        }
        match rustix::net::sendmsg(
            link,
            &[IoSlice::new(rest)],
            &mut control,
            SendFlags::NOSIGNAL,
        ) {
            Ok(sent) => {
                rest = rest.get(sent..).unwrap_or_default();
                handles = &[];
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
