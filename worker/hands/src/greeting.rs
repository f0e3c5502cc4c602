//! The words before *ready*: hello, and the handles that go up.

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
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

/// Says hello and hands the set-up handles over, at most [`bounds::SETUP_HANDLES`]. Nothing untrusted
/// has run yet, and after *ready* no descriptor goes up.
///
/// # Errors
/// The link is closed.
pub fn greet(
    link: BorrowedFd<'_>,
    session: SessionId,
    handles: &[(&'static str, OwnedFd)],
) -> io::Result<()> {
    say(link, &Report::Hello(Hello::new(ROLE_HANDS, session)))?;
    let names = handles.iter().map(|(name, _)| (*name).to_owned()).collect();
    let handles: Vec<BorrowedFd<'_>> = handles.iter().map(|(_, handle)| handle.as_fd()).collect();
    send(link, &Report::Handles { names }, &handles)
}

fn send(link: BorrowedFd<'_>, report: &Report, handles: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = frame::encode(report, bounds::FRAME).map_err(io::Error::other)?;
    let mut rest = bytes.as_slice();
    let mut handles = handles;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(bounds::SETUP_HANDLES))];
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
