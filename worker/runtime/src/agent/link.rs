//! The agent's end of its link: whole frames in and out, and waits that end.

use std::{
    io::{ErrorKind, Read, Write},
    os::fd::AsFd,
    time::Instant,
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use protocol::{
    Mismatch, Reply, Request, bounds,
    frame::{self, Decoder, FrameFault},
};

/// What the link runs over; a file in the jail, a socket in tests.
pub(crate) trait Stream: Read + Write + AsFd {}
impl<T: Read + Write + AsFd> Stream for T {}

/// Why the link is of no more use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lost {
    /// The supervisor has closed it, or said goodbye: leave.
    #[error("the link is closed")]
    Closed,
    /// What came is none of the treaty's messages.
    #[error("the supervisor broke the treaty: {0}")]
    Fault(#[from] FrameFault),
    /// Somebody else is at the other end.
    #[error("the greeting is refused: {0}")]
    Stranger(#[from] Mismatch),
    /// The kernel refused.
    #[error("the link is broken: {0}")]
    Broken(#[source] std::io::Error),
}

/// What became of something said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// It is on its way.
    Sent,
    /// It does not fit a frame; nothing was sent.
    TooLong,
}

/// The link.
#[derive(Debug)]
pub(crate) struct Link<S> {
    stream: S,
    decoder: Decoder,
}

impl<S: Stream> Link<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self {
            stream,
            decoder: Decoder::new(bounds::MODEL_FRAME),
        }
    }

    /// Says something.
    pub(crate) fn say(&mut self, request: &Request) -> Result<Said, Lost> {
        let bytes = match frame::encode(request, bounds::MODEL_FRAME) {
            Ok(bytes) => bytes,
            Err(FrameFault::TooLong { .. }) => return Ok(Said::TooLong),
            Err(fault) => return Err(fault.into()),
        };
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(0) => return Err(Lost::Closed),
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(error) => self.after(&error, PollFlags::POLLOUT)?,
            }
        }
        Ok(Said::Sent)
    }

    /// Waits for the next reply; `None` when `until` has passed.
    pub(crate) fn hear(&mut self, until: Option<Instant>) -> Result<Option<Reply>, Lost> {
        let mut chunk = vec![0_u8; 64 * 1024];
        loop {
            if let Some(reply) = self.decoder.next_message()? {
                return match reply {
                    Reply::Bye => Err(Lost::Closed),
                    reply => Ok(Some(reply)),
                };
            }
            if !self.wait(PollFlags::POLLIN, until)? {
                return Ok(None);
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(Lost::Closed),
                Ok(n) => self.decoder.push(chunk.get(..n).unwrap_or_default()),
                Err(error) => self.after(&error, PollFlags::POLLIN)?,
            }
        }
    }

    /// What an error of reading or writing means: try again, or the end.
    fn after(&mut self, error: &std::io::Error, flags: PollFlags) -> Result<(), Lost> {
        match error.kind() {
            ErrorKind::Interrupted => Ok(()),
            ErrorKind::WouldBlock => self.wait(flags, None).map(|_| ()),
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Err(Lost::Closed),
            kind => Err(Lost::Broken(kind.into())),
        }
    }

    /// Waits until the link is ready; false when `until` has passed.
    fn wait(&self, flags: PollFlags, until: Option<Instant>) -> Result<bool, Lost> {
        loop {
            let timeout = match until {
                None => PollTimeout::NONE,
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    // Rounded up: a wait that ends early would spin.
                    let ms = left.as_micros().div_ceil(1_000);
                    PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX)
                }
            };
            let mut ends = [PollFd::new(self.stream.as_fd(), flags)];
            match poll(&mut ends, timeout) {
                Ok(0) if until.is_some_and(|until| Instant::now() >= until) => return Ok(false),
                Ok(0) | Err(nix::errno::Errno::EINTR) => {}
                // Hung up counts as ready: reading tells the end.
                Ok(_) => return Ok(true),
                Err(errno) => return Err(Lost::Broken(errno.into())),
            }
        }
    }
}
