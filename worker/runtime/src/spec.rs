//! Reads the spec on which a role was started: a sealed file in memory, written by the supervisor.

use std::{fs::File, io::Read as _, os::fd::OwnedFd};

use protocol::{bounds, frame};
use serde::de::DeserializeOwned;

/// Why there is no spec to work by.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSpec {
    /// It cannot be read.
    #[error("cannot read the spec: {0}")]
    Unreadable(#[from] std::io::Error),
    /// It is none.
    #[error("the spec is none of this build: {0}")]
    Malformed(#[from] frame::FrameFault),
}

/// Reads and decodes the spec.
pub(crate) fn read<T: DeserializeOwned>(descriptor: OwnedFd) -> Result<T, NoSpec> {
    let bound = bounds::MODEL_FRAME;
    let mut bytes = Vec::new();
    File::from(descriptor)
        .take(bound as u64 + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() > bound {
        return Err(frame::FrameFault::TooLong {
            size: bytes.len(),
            bound,
        }
        .into());
    }
    Ok(frame::decode(&bytes)?)
}
