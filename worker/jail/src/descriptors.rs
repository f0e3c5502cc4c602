//! Descriptors that a role is born with, and closing all others.

use std::{
    fs::File,
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
};

use crate::sys;

/// Where the agent finds its link, and a probe in the agent's domain its pipe.
pub(crate) const LINK: i32 = 3;

static TAKEN: AtomicBool = AtomicBool::new(false);

/// Moves descriptors 0, 1 and 2 away (close-on-exec) and puts `/dev/null` in their places.
///
/// # Errors
/// A descriptor is missing, or `/dev/null` cannot be opened.
pub fn take_standard() -> io::Result<[OwnedFd; 3]> {
    let taken = [sys::inherited(0)?, sys::inherited(1)?, sys::inherited(2)?];
    null_standard()?;
    Ok(taken)
}

/// Puts `/dev/null` on descriptors 0 to 2.
///
/// # Errors
/// `/dev/null` cannot be opened.
pub fn null_standard() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    for number in 0..=2 {
        sys::place(null.as_fd(), number)?;
    }
    Ok(())
}

/// The agent's link: descriptor 3, which [`crate::Hands::start_agent`] put there. Once, and before
/// anything else is opened.
///
/// # Errors
/// It is not open, or was taken before.
pub fn agent_link() -> io::Result<OwnedFd> {
    if TAKEN.swap(true, Ordering::SeqCst) {
        return Err(io::Error::other(
            "the link on descriptor 3 was taken before",
        ));
    }
    let link = sys::inherited(LINK)?;
    sys::close_range(3, 3)?;
    Ok(link)
}

/// Closes every descriptor from 3 on but `keep`.
pub(crate) fn close_all_but(keep: &[BorrowedFd<'_>]) -> io::Result<()> {
    close_from(3, keep)
}

/// Closes every descriptor from `first` on but `keep`.
pub(crate) fn close_from(first: u32, keep: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut numbers: Vec<u32> = keep
        .iter()
        .filter_map(|fd| u32::try_from(fd.as_raw_fd()).ok())
        .collect();
    numbers.sort_unstable();
    let mut next = first;
    for number in numbers {
        if number >= next {
            sys::close_range(next, number.saturating_sub(1))?;
            next = number.saturating_add(1);
        }
    }
    sys::close_range(next, u32::MAX)
}
