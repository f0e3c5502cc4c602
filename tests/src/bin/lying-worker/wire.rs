//! A link without manners: whole frames, half frames, and bytes that are none.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::OwnedFd,
};

use protocol::{
    Reply, Request, SessionId, bounds,
    frame::{self, Decoder},
};
use serde::Serialize;

/// The agent's link.
pub(crate) struct Wire {
    link: File,
    decoder: Decoder,
    pub(crate) session: SessionId,
}

/// One frame of these payload bytes, whatever they are.
pub(crate) fn framed(payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    [&size.to_be_bytes(), payload].concat()
}

/// A value as a frame, without any bound of ours.
pub(crate) fn frame_of(value: &impl Serialize) -> io::Result<Vec<u8>> {
    frame::encode(value, bounds::MODEL_FRAME).map_err(io::Error::other)
}

impl Wire {
    pub(crate) fn new(link: OwnedFd, session: SessionId) -> Self {
        Self {
            link: link.into(),
            decoder: Decoder::new(bounds::MODEL_FRAME),
            session,
        }
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.link.write_all(bytes)
    }

    pub(crate) fn say(&mut self, request: &Request) -> io::Result<()> {
        let bytes = frame_of(request)?;
        self.raw(&bytes)
    }

    /// Says several in one write, so that they arrive as one.
    pub(crate) fn say_at_once(&mut self, requests: &[Request]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for request in requests {
            bytes.extend(frame_of(request)?);
        }
        self.raw(&bytes)
    }

    /// The next reply; an error when the link has ended.
    pub(crate) fn hear(&mut self) -> io::Result<Reply> {
        let mut chunk = vec![0_u8; 64 * 1024];
        loop {
            let next = self.decoder.next_message::<Reply>();
            if let Some(reply) = next.map_err(io::Error::other)? {
                return Ok(reply);
            }
            let got = self.link.read(&mut chunk)?;
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.decoder.push(chunk.get(..got).unwrap_or_default());
        }
    }

    /// Reads until the supervisor ends the link, which it must.
    pub(crate) fn wait_for_the_end(&mut self) {
        while self.hear().is_ok() {}
    }

    /// The link itself, for calls that only sockets have.
    pub(crate) fn link(&self) -> &File {
        &self.link
    }
}
