//! Length-prefixed JSON frames, without I/O: bytes in, frames out; a value in, bytes out.
//!
//! A frame is four bytes of big-endian length and that many bytes of JSON. Size and nesting are
//! checked before a single value is built; the rate is counted by [`Rate`] with time passed in.

use serde::{Serialize, de::DeserializeOwned};

use crate::bounds;

/// Why bytes are not a frame, or a value cannot become one. All are faults of the sender.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    /// Longer than this link allows.
    #[error("a frame of {size} bytes exceeds the bound of {bound}")]
    TooLong {
        /// Announced or needed size in bytes.
        size: usize,
        /// The link's bound in bytes.
        bound: usize,
    },
    /// Nested deeper than [`bounds::DEPTH`].
    #[error("a frame nests deeper than {} levels", bounds::DEPTH)]
    TooDeep,
    /// Empty, or not the JSON of a known message.
    #[error("a frame does not decode: {why}")]
    Undecodable {
        /// The decoder's words, cut to 200 characters; never the content.
        why: String,
    },
    /// More frames than the link allows.
    #[error("more than {} frames a second", bounds::FRAMES_PER_SECOND)]
    TooMany,
}

/// Collects bytes and yields whole frames.
#[derive(Debug)]
pub struct Decoder {
    bound: usize,
    held: Vec<u8>,
    start: usize,
}

impl Decoder {
    /// A decoder for a link whose frames hold at most `bound` bytes.
    #[must_use]
    pub fn new(bound: usize) -> Self {
        Self {
            bound,
            held: Vec::new(),
            start: 0,
        }
    }

    /// Takes bytes as they came. Holds at most one frame and what one read brought beside it.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 && self.start >= self.held.len() / 2 {
            self.held.drain(..self.start);
            self.start = 0;
        }
        self.held.extend_from_slice(bytes);
    }

    /// Whether bytes of an unfinished frame are held: at end of file that is a cut.
    #[must_use]
    pub fn is_midway(&self) -> bool {
        self.start < self.held.len()
    }

    /// The next whole frame's payload, if one is there.
    ///
    /// # Errors
    /// [`FrameFault::TooLong`] as soon as the length is known, before the payload is awaited.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, FrameFault> {
        let rest = self.held.get(self.start..).unwrap_or_default();
        let Some((head, body)) = rest.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let size = u32::from_be_bytes(*head) as usize;
        if size > self.bound {
            return Err(FrameFault::TooLong {
                size,
                bound: self.bound,
            });
        }
        let Some(payload) = body.get(..size) else {
            return Ok(None);
        };
        let payload = payload.to_vec();
        self.start += 4 + size;
        Ok(Some(payload))
    }

    /// The next whole frame, decoded.
    ///
    /// # Errors
    /// Any [`FrameFault`] but the rate.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameFault> {
        self.next_frame()?
            .map(|payload| decode(&payload))
            .transpose()
    }
}

/// Decodes one payload: nesting first, then the typed value; nothing may follow it.
///
/// # Errors
/// [`FrameFault::TooDeep`] or [`FrameFault::Undecodable`].
pub fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, FrameFault> {
    if depth(payload) > bounds::DEPTH {
        return Err(FrameFault::TooDeep);
    }
    serde_json::from_slice(payload).map_err(|error| FrameFault::Undecodable {
        // serde's words quote unknown fields and tags of the peer: kept short, escaped by Debug
        // where a person reads them.
        why: error.to_string().chars().take(200).collect(),
    })
}

/// Encodes a value as one frame, length first.
///
/// # Errors
/// [`FrameFault::TooLong`] if it exceeds `bound`, [`FrameFault::Undecodable`] if it has no JSON form.
pub fn encode<T: Serialize>(value: &T, bound: usize) -> Result<Vec<u8>, FrameFault> {
    let mut bytes = vec![0_u8; 4];
    serde_json::to_writer(&mut bytes, value).map_err(|error| FrameFault::Undecodable {
        why: error.to_string(),
    })?;
    let size = bytes.len() - 4;
    let length = u32::try_from(size).ok().filter(|_| size <= bound);
    let Some(length) = length else {
        return Err(FrameFault::TooLong { size, bound });
    };
    if let Some(head) = bytes.first_chunk_mut::<4>() {
        *head = length.to_be_bytes();
    }
    Ok(bytes)
}

/// Deepest nesting of brackets outside strings; linear, allocates nothing.
fn depth(payload: &[u8]) -> usize {
    let (mut now, mut deepest, mut quoted, mut escaped) = (0_usize, 0_usize, false, false);
    for &byte in payload {
        if quoted {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => quoted = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => quoted = true,
            b'[' | b'{' => {
                now += 1;
                deepest = deepest.max(now);
            }
            b']' | b'}' => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// A token bucket over frames; time is milliseconds since any fixed moment, passed in.
#[derive(Debug, Clone)]
pub struct Rate {
    /// Tokens in thousandths of a frame.
    tokens: u64,
    last_ms: u64,
}

impl Rate {
    /// A full bucket at `now_ms`.
    #[must_use]
    pub fn new(now_ms: u64) -> Self {
        Self {
            tokens: u64::from(bounds::FRAME_BURST) * 1_000,
            last_ms: now_ms,
        }
    }

    /// Counts one frame.
    ///
    /// # Errors
    /// [`FrameFault::TooMany`] when the bucket is empty.
    pub fn admit(&mut self, now_ms: u64) -> Result<(), FrameFault> {
        let gained = now_ms.saturating_sub(self.last_ms) * u64::from(bounds::FRAMES_PER_SECOND);
        self.last_ms = self.last_ms.max(now_ms);
        let full = u64::from(bounds::FRAME_BURST) * 1_000;
        self.tokens = self.tokens.saturating_add(gained).min(full);
        self.tokens = self.tokens.checked_sub(1_000).ok_or(FrameFault::TooMany)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_cut() {
        let mut wire = encode(&"one", 64).expect("fits");
        wire.extend(encode(&vec![1, 2], 64).expect("fits"));
        for step in 1..wire.len() {
            let mut decoder = Decoder::new(64);
            let mut got = Vec::new();
            for chunk in wire.chunks(step) {
                decoder.push(chunk);
                while let Some(value) = decoder.next_message::<serde_json::Value>().expect("valid")
                {
                    got.push(value.to_string());
                }
            }
            assert_eq!(got, ["\"one\"", "[1,2]"], "chunks of {step}");
            assert!(!decoder.is_midway());
        }
    }

    #[test]
    fn an_oversize_frame_is_refused_by_its_length_alone() {
        let mut decoder = Decoder::new(8);
        decoder.push(&9_u32.to_be_bytes());
        assert_eq!(
            decoder.next_frame(),
            Err(FrameFault::TooLong { size: 9, bound: 8 })
        );
        assert!(matches!(
            encode(&"a long text", 4),
            Err(FrameFault::TooLong { .. })
        ));
    }

    #[test]
    fn deep_nesting_is_refused_and_brackets_in_strings_do_not_count() {
        let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
        assert_eq!(
            decode::<serde_json::Value>(deep.as_bytes()),
            Err(FrameFault::TooDeep)
        );
        let text = format!("\"\\\"{}\"", "[".repeat(500));
        assert!(decode::<String>(text.as_bytes()).is_ok());
    }

    #[test]
    fn empty_garbage_and_trailing_bytes_do_not_decode() {
        for payload in [&b""[..], b"\xff\xfe", b"{}{}", b"nul"] {
            assert!(matches!(
                decode::<serde_json::Value>(payload),
                Err(FrameFault::Undecodable { .. })
            ));
        }
    }

    #[test]
    fn a_flood_is_refused_and_time_refills() {
        let mut rate = Rate::new(0);
        for _ in 0..bounds::FRAME_BURST {
            rate.admit(0).expect("within the burst");
        }
        assert_eq!(rate.admit(0), Err(FrameFault::TooMany));
        rate.admit(1).expect("two frames a millisecond");
    }
}
