//! The agent's end of its link: whole frames in and out, and waits that end.

use std::{
    io::{ErrorKind, Read, Write},
    os::fd::AsFd,
    time::Instant,
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use protocol::{
    Mismatch, Note, Reply, Request, bounds,
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

/// Notes held ready, and gained each second: a quarter of what the supervisor takes for a flood, so
/// that an honest agent with a fast model stays far from it. The rest of its frames are few.
const NOTES: u64 = bounds::FRAME_BURST as u64 / 4;
const NOTES_PER_SECOND: u64 = bounds::FRAMES_PER_SECOND as u64 / 4;

/// The link.
#[derive(Debug)]
pub(crate) struct Link<S> {
    stream: S,
    decoder: Decoder,
    /// Notes that may be said now, in thousandths, and since when.
    notes: u64,
    since: Instant,
}

impl<S: Stream> Link<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self {
            stream,
            decoder: Decoder::new(bounds::MODEL_FRAME),
            notes: NOTES * 1_000,
            since: Instant::now(),
        }
    }

    /// Says a note, unless there were too many: a note that is left out is missed by nobody.
    pub(crate) fn note(&mut self, note: Note) -> Result<(), Lost> {
        let now = Instant::now();
        let ms = u64::try_from(now.duration_since(self.since).as_millis()).unwrap_or(u64::MAX);
        if ms > 0 {
            let gained = ms.saturating_mul(NOTES_PER_SECOND);
            self.notes = self.notes.saturating_add(gained).min(NOTES * 1_000);
            self.since = now;
        }
        let Some(left) = self.notes.checked_sub(1_000) else {
            return Ok(());
        };
        self.notes = left;
        self.say(&Request::Note(note)).map(|_| ())
    }

    /// Says something. Only a model request may be as large as a conversation.
    pub(crate) fn say(&mut self, request: &Request) -> Result<Said, Lost> {
        let bound = match request {
            Request::Infer(_) => bounds::MODEL_FRAME,
            Request::Hello(_)
            | Request::Calls { .. }
            | Request::Settled(_)
            | Request::Append(_)
            | Request::Transition(_)
            | Request::Note(_)
            | Request::TurnEnded(_) => bounds::FRAME,
        };
        let bytes = match frame::encode(request, bound) {
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
