//! The doors of situation B: calls that the kernel holds until the supervisor has carried them out.
//!
//! Where no namespace stands between a session and the host, a Landlock rule names a port and not an
//! address, and nothing mediates a file's mode, owner, times and attributes. So these calls are held
//! by seccomp and told here; they are never let through, because what a pointer leads to could be
//! changed between the look and the call. The supervisor reads the arguments once, judges its own
//! copy, and carries the call out itself on an object that it holds.
//!
//! One thread a session attends. Of root's sessions it takes the session's own account first, for
//! ever, so that nothing is done here that the session's account could not do. It ends with the
//! session, or when its [`Attendant`] is dropped; then every held call answers ENOSYS.

mod meta;
mod sockets;
mod target;

use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
};

use protocol::jail::{JailSpec, Mount};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};

use crate::sys;
use sockets::Sockets;
use target::Target;

/// Judges a connection to an address that is not the session's own: where the supervisor dials
/// instead, or `None` to refuse it. It never sees a port of the session itself.
pub type Gate = Box<dyn FnMut(SocketAddr) -> Option<SocketAddr> + Send>;

/// Attends to a session's doors until it is dropped.
#[derive(Debug)]
pub struct Attendant {
    // Its end of file ends the thread.
    _stop: OwnedFd,
}

/// Lets nothing through but the session's own ports: a session without network.
#[must_use]
pub fn no_network() -> Gate {
    Box::new(|_| None)
}

/// Starts to attend.
///
/// # Errors
/// The kernel refused a pipe or a thread, or the thread could not take the session's account.
pub fn attend(listener: OwnedFd, spec: &JailSpec, gate: Gate) -> io::Result<Attendant> {
    let roots = spec.view.iter().filter_map(|mount| match mount {
        Mount::Writable { target, .. } => Some(PathBuf::from(target)),
        _ => None,
    });
    let roots: Vec<PathBuf> = roots.collect();
    let identity = spec.identity;
    let (stopped, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (told, begun) = std::sync::mpsc::sync_channel(1);
    let body = move || {
        let taken = identity.map_or(Ok(()), crate::thread::take);
        let fails = taken.is_err();
        let _ = told.send(taken);
        if !fails {
            let door = Arc::new(Door { listener });
            serve(&door, stopped.as_fd(), &roots, Sockets::new(gate));
        }
    };
    std::thread::Builder::new()
        .name("doors".to_owned())
        .spawn(body)?;
    let gone = || io::Error::other("the thread that attends the doors is gone");
    begun.recv().map_err(|_| gone())??;
    Ok(Attendant { _stop: stop })
}

/// The listener, shared with the threads that wait for a connection.
#[derive(Debug)]
struct Door {
    listener: OwnedFd,
}

impl Door {
    /// Answers; a caller that was killed meanwhile hears nothing.
    fn answer(&self, id: u64, result: Result<i64, Errno>) {
        let _ = sys::answer(self.listener.as_fd(), id, result);
    }
}

fn serve(door: &Arc<Door>, stopped: BorrowedFd<'_>, roots: &[PathBuf], mut sockets: Sockets) {
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(door.listener.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stopped, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        let [told, stop] = fds.map(|fd| fd.revents());
        if !stop.is_empty() {
            return;
        }
        // Received only when there is one: a receive without waits until the session's end.
        if told.contains(PollFlags::IN) {
            match sys::receive(door.listener.as_fd()) {
                Ok(held) => {
                    let target = Target::new(door, held);
                    if let Some(result) = carry_out(&target, roots, &mut sockets) {
                        door.answer(held.id, result);
                    }
                }
                // Its caller was killed between the look and the receive.
                Err(Errno::NOENT | Errno::INTR) => {}
                Err(_) => return,
            }
        } else if !told.is_empty() {
            // No process has the filter any more.
            return;
        }
    }
}

/// Carries a call out and gives its answer; `None` if another thread will answer.
fn carry_out(
    target: &Target,
    roots: &[PathBuf],
    sockets: &mut Sockets,
) -> Option<Result<i64, Errno>> {
    match i64::from(target.held.number) {
        libc::SYS_connect => sockets.connect(target),
        libc::SYS_bind => Some(sockets.bind(target)),
        libc::SYS_listen => Some(sockets.listen(target)),
        _ => Some(meta::carry_out(target, roots)),
    }
}
