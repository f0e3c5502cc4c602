//! Descriptors that a role is born with.

use std::{io, os::fd::OwnedFd};

/// Moves descriptors 0, 1 and 2 away (close-on-exec) and puts `/dev/null` in their places.
///
/// # Errors
/// A descriptor is missing, or `/dev/null` cannot be opened.
pub fn take_standard() -> io::Result<[OwnedFd; 3]> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The agent's link: descriptor 3, which `Hands::start_agent` put there. Once.
///
/// # Errors
/// It is not open, or was taken before.
pub fn agent_link() -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}
