//! Sends a reader on one errand and hears its findings, within a deadline.

use std::{
    io::{self, Read as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    process::Stdio,
    time::Instant,
};

use protocol::{
    bounds,
    frame::{Decoder, FrameFault},
    reader::{Finding, ReaderSpec},
};

use crate::{
    launch::{LaunchError, start},
    process::readable,
    worker::WorkerBinary,
};

/// Why an errand brought no whole answer. The reader is dead when this is returned.
#[derive(Debug, thiserror::Error)]
pub enum ReaderError {
    /// It did not start.
    #[error(transparent)]
    Start(#[from] LaunchError),
    /// The link broke.
    #[error("the reader's link failed: {0}")]
    Link(#[from] io::Error),
    /// It broke the treaty.
    #[error("the reader broke the treaty: {0}")]
    Fault(#[from] FrameFault),
    /// It left in the middle.
    #[error("the reader left without an answer ({how})")]
    Gone {
        /// Its exit, for people.
        how: String,
    },
    /// It took too long.
    #[error("the reader was not done within {} s and was ended: a disk or network mount hangs, or the tree is too large", bounds::READER_TIME.as_secs())]
    Late,
}

/// Runs one errand; `on` gets each finding as it comes. It is complete when [`Finding::Changes`]
/// said that no more follows, or any other finding came.
///
/// # Errors
/// [`ReaderError`]; a failed errand itself is [`Finding::Failed`], not an error.
pub fn run_reader(
    worker: &WorkerBinary,
    spec: &ReaderSpec,
    on: &mut dyn FnMut(Finding),
) -> Result<(), ReaderError> {
    let deadline = Instant::now() + bounds::READER_TIME;
    let (mut link, inside) = UnixStream::pair()?;
    link.set_nonblocking(true)?;
    let ends = [Stdio::from(OwnedFd::from(inside)), Stdio::null()];
    let mut process = start(worker, "reader", ends, spec, None)?;
    let mut decoder = Decoder::new(bounds::FRAME);
    let mut chunk = vec![0_u8; 64 * 1024];
    let mut done = false;
    loop {
        if !readable(link.as_fd(), deadline) {
            return Err(ReaderError::Late);
        }
        let got = match link.read(&mut chunk) {
            Ok(got) => got,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
            Err(error) => return Err(error.into()),
        };
        if got == 0 {
            break;
        }
        decoder.push(chunk.get(..got).unwrap_or_default());
        while let Some(finding) = decoder.next_message::<Finding>()? {
            if done {
                let why = "a finding after the last one".to_owned();
                return Err(FrameFault::Undecodable { why }.into());
            }
            done = !matches!(finding, Finding::Changes { more: true, .. });
            on(finding);
        }
    }
    // The link is closed; an honest reader is leaving. The drop of `process` ends any other.
    let how = process.how_it_left();
    if done && !decoder.is_midway() {
        Ok(())
    } else {
        Err(ReaderError::Gone { how })
    }
}
