//! The requests of a seccomp listener, each with its proof: no safe crate has them.
#![expect(
    unsafe_code,
    reason = "four requests to the kernel that no safe wrapper offers; all of the supervisor's are here"
)]

use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::io::Errno;

/// A held call, as the kernel tells it: `struct seccomp_notif`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Names it until it is answered.
    pub(crate) id: u64,
    /// The thread that made it.
    pub(crate) thread: u32,
    flags: u32,
    /// The call's number.
    pub(crate) number: i32,
    arch: u32,
    instruction: u64,
    /// Its registers.
    pub(crate) registers: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Answer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// `struct seccomp_notif_addfd`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Placed {
    id: u64,
    flags: u32,
    source: u32,
    target: u32,
    target_flags: u32,
}

/// SECCOMP_IOCTL_NOTIF_RECV: the number holds the size of what is written.
const RECEIVE: libc::Ioctl = 0xc050_2100;
/// SECCOMP_IOCTL_NOTIF_SEND.
const SEND: libc::Ioctl = 0xc018_2101;
/// SECCOMP_IOCTL_NOTIF_ID_VALID.
const IS_VALID: libc::Ioctl = 0x4008_2102;
/// The same, under the number that kernels before 5.17 know.
const IS_VALID_FIRST: libc::Ioctl = 0x8008_2102;
/// SECCOMP_IOCTL_NOTIF_ADDFD.
const PLACE: libc::Ioctl = 0x4018_2103;

/// A request's answer as a result.
fn done(value: libc::c_int) -> Result<(), Errno> {
    if value < 0 {
        let error = std::io::Error::last_os_error();
        Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    } else {
        Ok(())
    }
}

/// SECCOMP_ADDFD_FLAG_SETFD: at that very number.
const SET: u32 = 1;

/// The next held call; asked only when the listener is readable, or it would wait.
pub(crate) fn receive(listener: BorrowedFd<'_>) -> Result<Held, Errno> {
    let mut held = Held::default();
    // SAFETY: the request's number holds the size of the kernel's struct, as which `Held` is laid out
    // (`repr(C)`; the test compares the sizes), so that the kernel writes exactly it; any bits are a
    // valid `Held`. It must be zero before, and is.
    done(unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE, &raw mut held) })?;
    Ok(held)
}

/// Answers a call: with a value, or with an error.
pub(crate) fn answer(
    listener: BorrowedFd<'_>,
    id: u64,
    result: Result<i64, Errno>,
) -> Result<(), Errno> {
    let (value, error) = match result {
        Ok(value) => (value, 0),
        Err(errno) => (0, errno.raw_os_error().saturating_neg()),
    };
    let answer = Answer {
        id,
        value,
        error,
        flags: 0,
    };
    // SAFETY: the request's number names the size of `Answer`, laid out as the kernel's struct; the
    // kernel reads it and writes nothing beyond it.
    done(unsafe { libc::ioctl(listener.as_raw_fd(), SEND, &raw const answer) })
}

/// Whether a call still waits: then its thread has not left, and its number was no other's meanwhile.
pub(crate) fn is_valid(listener: BorrowedFd<'_>, id: u64) -> bool {
    let ask = |request| {
        // SAFETY: under both numbers the kernel reads one u64, which lives over the call.
        done(unsafe { libc::ioctl(listener.as_raw_fd(), request, &raw const id) })
    };
    match ask(IS_VALID) {
        Err(Errno::INVAL) => ask(IS_VALID_FIRST).is_ok(),
        current => current.is_ok(),
    }
}

/// Puts a copy of `source` at `target` in the caller's table of descriptors, closing what was there.
pub(crate) fn place(
    listener: BorrowedFd<'_>,
    id: u64,
    source: BorrowedFd<'_>,
    target: u32,
    close_on_exec: bool,
) -> Result<(), Errno> {
    let placed = Placed {
        id,
        flags: SET,
        source: source.as_raw_fd().unsigned_abs(),
        target,
        target_flags: if close_on_exec {
            rustix::fs::OFlags::CLOEXEC.bits()
        } else {
            0
        },
    };
    // SAFETY: the kernel reads one `Placed`, laid out as its own struct, which lives over the call;
    // `source` is open.
    done(unsafe { libc::ioctl(listener.as_raw_fd(), PLACE, &raw const placed) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structs_have_the_sizes_that_the_requests_name() {
        let size = |request: libc::Ioctl| usize::try_from((request >> 16) & 0x3fff).expect("small");
        assert_eq!(size(RECEIVE), size_of::<Held>());
        assert_eq!(size(SEND), size_of::<Answer>());
        assert_eq!(size(IS_VALID), size_of::<u64>());
        assert_eq!(size(PLACE), size_of::<Placed>());
    }
}
