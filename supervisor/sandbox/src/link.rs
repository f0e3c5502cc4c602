//! What goes down to hands, with the descriptors that an order needs; and the pipes made for it.

use std::{
    fs::File,
    io::{self, IoSlice, Write as _},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    time::Instant,
};

use protocol::{Order, bounds, frame};
use rustix::{
    event::PollFlags,
    fs::{MemfdFlags, SealFlags},
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags},
};

use crate::process::ready;

/// Bytes that one order's frame may hold: a file's whole content, escaped at worst twofold.
pub(crate) const ORDER_FRAME: usize = bounds::FRAME * 2;
/// Descriptors that one order may carry.
const FDS: usize = 4;

/// Sends one order and its descriptors, which travel with the frame's first byte.
///
/// Works on blocking and non-blocking links. Waits at most [`bounds::LINK_SEND`] for room.
///
/// # Errors
/// `InvalidInput` for an order that exceeds its frame or carries too many descriptors, `TimedOut`
/// when hands does not read, else the kernel's.
pub fn send_order(hands: &impl AsFd, order: &Order, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    if fds.len() > FDS {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "too many descriptors for an order",
        ));
    }
    let bytes = frame::encode(order, ORDER_FRAME)
        .map_err(|fault| io::Error::new(io::ErrorKind::InvalidInput, fault))?;
    let deadline = Instant::now() + bounds::LINK_SEND;
    let mut rest = bytes.as_slice();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
    let mut carried = fds;
    while !rest.is_empty() {
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !carried.is_empty() && !control.push(SendAncillaryMessage::ScmRights(carried)) {
            return Err(io::Error::other("no room for an order's descriptors"));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::sendmsg(hands, &[IoSlice::new(rest)], &mut control, flags) {
            Ok(sent) => {
                rest = rest.get(sent..).unwrap_or_default();
                carried = &[];
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                if !ready(hands.as_fd(), PollFlags::OUT, deadline) {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "hands does not read its link",
                    ));
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A pipe, read end first, both closed on exec. The ends have separate flags: whoever gets one
/// cannot make the other block.
///
/// # Errors
/// The kernel's (too many open files).
pub fn pipe_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// A file in memory that can be executed and that nobody can change, for an order's program.
///
/// # Errors
/// The kernel's.
pub fn program_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Older kernels know no such flag, and execute without.
    let handle = rustix::fs::memfd_create("program", flags | MemfdFlags::EXEC)
        .or_else(|_| rustix::fs::memfd_create("program", flags))?;
    let mut file = File::from(handle);
    file.write_all(bytes)?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    // What is open for writing is not executed: a second handle, for reading alone.
    Ok(File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?.into())
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, os::unix::net::UnixStream};

    use super::*;

    #[test]
    fn an_order_and_its_descriptor_arrive_whole_through_a_small_buffer() {
        let (ours, mut theirs) = UnixStream::pair().expect("pair");
        ours.set_nonblocking(true).expect("flag");
        let order = Order::Resolve {
            order: 1,
            path: "a".repeat(1_000_000),
        };
        let wanted = frame::encode(&order, ORDER_FRAME).expect("fits");
        let reading = std::thread::spawn(move || {
            let mut all = vec![0_u8; wanted.len()];
            theirs.read_exact(&mut all).expect("read");
            assert_eq!(all, wanted);
        });
        let (_read, write) = pipe_pair().expect("pipe");
        send_order(&ours, &order, &[write.as_fd()]).expect("sent");
        reading.join().expect("equal");
    }

    #[test]
    fn an_order_that_does_not_fit_is_refused_before_a_byte_is_sent() {
        let (ours, theirs) = UnixStream::pair().expect("pair");
        theirs.set_nonblocking(true).expect("flag");
        let order = Order::Resolve {
            order: 1,
            path: "a".repeat(ORDER_FRAME),
        };
        let error = send_order(&ours, &order, &[]).expect_err("too long");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let mut byte = [0_u8];
        assert_eq!(
            (&theirs).read(&mut byte).expect_err("empty").kind(),
            io::ErrorKind::WouldBlock
        );
    }
}
