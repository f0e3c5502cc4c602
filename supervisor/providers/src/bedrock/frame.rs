//! Frames of `application/vnd.amazon.eventstream`: lengths, headers, payload, two checksums.
//!
//! A frame is: its length and its headers' length (4 bytes each), the CRC-32 of those 8 bytes, the
//! headers, the payload, and the CRC-32 of all before it. Both checksums must hold; no length is
//! believed beyond its bound.

use protocol::bounds;

use crate::dialect::StreamFault;

const PRELUDE: usize = 12;
const CHECKSUM: usize = 4;
/// Headers of one frame: real ones have three.
const HEADERS: usize = 64;

/// What a frame is about.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    /// `:message-type`: event, exception or error.
    pub(super) kind: &'a str,
    /// `:event-type`, `:exception-type` or `:error-code`.
    pub(super) name: &'a str,
    /// `:error-message`.
    pub(super) message: &'a str,
    /// What it carries.
    pub(super) payload: &'a [u8],
}

/// Cuts frames out of bytes.
#[derive(Debug, Default)]
pub(super) struct Frames {
    held: Vec<u8>,
    /// The length of the frame that has begun, once its first checksum holds.
    length: Option<usize>,
    total: usize,
}

impl Frames {
    /// Takes bytes and hands each whole frame to `each` until it says stop or fails.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        each: &mut dyn FnMut(&Frame<'_>) -> Result<bool, StreamFault>,
    ) -> Result<(), StreamFault> {
        self.total = self.total.saturating_add(bytes.len());
        if self.total > bounds::STREAM {
            return Err(StreamFault::TooLarge("the stream is longer than 128 MiB"));
        }
        loop {
            let wanted = self.length.unwrap_or(PRELUDE);
            let missing = wanted.saturating_sub(self.held.len());
            let (now, later) = bytes.split_at(missing.min(bytes.len()));
            self.held.extend_from_slice(now);
            bytes = later;
            if self.held.len() < wanted {
                return Ok(());
            }
            if self.length.is_none() {
                self.length = Some(length(&self.held)?);
                continue;
            }
            let go_on = each(&read(&self.held)?)?;
            self.held.clear();
            self.length = None;
            if !go_on {
                return Ok(());
            }
        }
    }

    /// Whether a frame has begun that is not whole.
    pub(super) fn is_within(&self) -> bool {
        !self.held.is_empty()
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// The length that a prelude gives, if its checksum holds and the length may be.
fn length(prelude: &[u8]) -> Result<usize, StreamFault> {
    let damaged = StreamFault::Malformed("a frame's first checksum does not hold");
    let sum = crc32fast::hash(prelude.get(..8).unwrap_or_default());
    let (Some(total), Some(headers), Some(given)) =
        (word(prelude, 0), word(prelude, 4), word(prelude, 8))
    else {
        return Err(damaged);
    };
    if sum != given {
        return Err(damaged);
    }
    let size = |word: u32| usize::try_from(word).unwrap_or(usize::MAX);
    let (total, headers) = (size(total), size(headers));
    if total > bounds::STREAM_LINE {
        return Err(StreamFault::TooLarge("one frame is longer than 4 MiB"));
    }
    match total.checked_sub(PRELUDE + CHECKSUM) {
        Some(room) if headers <= room => Ok(total),
        _ => Err(StreamFault::Malformed("a frame's lengths do not fit")),
    }
}

fn read(frame: &[u8]) -> Result<Frame<'_>, StreamFault> {
    let body = frame.len().saturating_sub(CHECKSUM);
    let (covered, _) = frame.split_at_checked(body).unwrap_or((frame, &[]));
    if word(frame, body) != Some(crc32fast::hash(covered)) {
        return Err(StreamFault::Malformed("a frame's checksum does not hold"));
    }
    let headers = word(frame, 4).and_then(|length| usize::try_from(length).ok());
    let inner = covered.get(PRELUDE..).unwrap_or_default();
    let split = headers.and_then(|length| inner.split_at_checked(length));
    let Some((mut headers, payload)) = split else {
        return Err(StreamFault::Malformed("a frame's lengths do not fit"));
    };
    let mut read = Frame {
        payload,
        ..Frame::default()
    };
    for _ in 0..HEADERS {
        if headers.is_empty() {
            return Ok(read);
        }
        let (name, value, rest) =
            header(headers).ok_or(StreamFault::Malformed("a frame's headers cannot be read"))?;
        match name {
            b":message-type" => read.kind = value,
            b":event-type" | b":exception-type" | b":error-code" => read.name = value,
            b":error-message" => read.message = value,
            _ => {}
        }
        headers = rest;
    }
    Err(StreamFault::Malformed("a frame has too many headers"))
}

/// One header: its name, its value if that is text, and what follows.
fn header(bytes: &[u8]) -> Option<(&[u8], &str, &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
    let (kind, rest) = rest.split_first()?;
    let fixed = match kind {
        0 | 1 => 0,
        2 => 1,
        3 => 2,
        4 => 4,
        5 | 8 => 8,
        9 => 16,
        6 | 7 => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            let length = usize::from(u16::from_be_bytes(*length));
            let (value, rest) = rest.split_at_checked(length)?;
            // Type 6 is bytes: nothing that we look at.
            let text = if *kind == 7 { value } else { &[] };
            return Some((name, std::str::from_utf8(text).ok()?, rest));
        }
        _ => return None,
    };
    Some((name, "", rest.get(fixed..)?))
}

/// Builds a frame, for tests.
#[cfg(test)]
pub(crate) fn build(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, value) in headers {
        lines.push(u8::try_from(name.len()).expect("short"));
        lines.extend_from_slice(name.as_bytes());
        lines.push(7);
        let length = u16::try_from(value.len()).expect("short");
        lines.extend_from_slice(&length.to_be_bytes());
        lines.extend_from_slice(value.as_bytes());
    }
    raw(&lines, payload)
}

#[cfg(test)]
fn raw(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let size = |length: usize| u32::try_from(length).expect("small").to_be_bytes();
    let mut frame = size(PRELUDE + headers.len() + payload.len() + CHECKSUM).to_vec();
    frame.extend_from_slice(&size(headers.len()));
    let sum = crc32fast::hash(&frame);
    frame.extend_from_slice(&sum.to_be_bytes());
    frame.extend_from_slice(headers);
    frame.extend_from_slice(payload);
    let sum = crc32fast::hash(&frame);
    frame.extend_from_slice(&sum.to_be_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(stream: &[u8], size: usize) -> Result<Vec<(String, String)>, StreamFault> {
        let mut frames = Frames::default();
        let mut seen = Vec::new();
        for piece in stream.chunks(size) {
            frames.push(piece, &mut |frame| {
                let payload = String::from_utf8_lossy(frame.payload).into_owned();
                seen.push((format!("{}/{}", frame.kind, frame.name), payload));
                Ok(true)
            })?;
        }
        Ok(seen)
    }

    fn stream() -> Vec<u8> {
        let event = |name| {
            [
                (":event-type", name),
                (":content-type", "application/json"),
                (":message-type", "event"),
            ]
        };
        let mut stream = build(&event("one"), b"{\"a\":1}");
        stream.extend(build(&event("two"), b""));
        stream.extend(build(
            &[(":message-type", "exception"), (":exception-type", "x")],
            "ü".as_bytes(),
        ));
        stream
    }

    #[test]
    fn frames_come_out_the_same_in_any_pieces() {
        let expected = [
            ("event/one", "{\"a\":1}"),
            ("event/two", ""),
            ("exception/x", "ü"),
        ];
        let stream = stream();
        for size in 1..=stream.len() {
            let seen = all(&stream, size).expect("good");
            let seen: Vec<_> = seen.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            assert_eq!(seen, expected, "pieces of {size}");
        }
    }

    #[test]
    fn a_bit_that_flips_anywhere_is_noticed() {
        let stream = stream();
        for at in 0..stream.len() * 8 {
            let mut damaged = stream.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(all(&damaged, 64).is_err(), "bit {at}");
        }
    }

    #[test]
    fn every_kind_of_header_is_passed_over_and_a_broken_one_refused() {
        let mut headers = Vec::new();
        for (kind, value) in [
            (0, vec![]),
            (1, vec![]),
            (2, vec![1]),
            (3, vec![0; 2]),
            (4, vec![0; 4]),
            (5, vec![0; 8]),
            (6, vec![0, 2, 0xff, 0xfe]),
            (8, vec![0; 8]),
            (9, vec![0; 16]),
            (7, vec![0, 1, b'x']),
        ] {
            headers.extend_from_slice(b"\x01k");
            headers.push(kind);
            headers.extend_from_slice(&value);
        }
        let whole = [headers.as_slice(), b"\x0b:event-type\x07\x00\x01e"].concat();
        assert_eq!(
            all(&raw(&whole, b"p"), 9).expect("good"),
            [("/e".to_owned(), "p".to_owned())]
        );
        for broken in [
            &b"\x05ab"[..],
            b"\x01k\x0a",
            b"\x01k\x07\x00\x05ab",
            b"\x01k\x09\x00",
            b"\x01k\x07\x00\x01\xff",
        ] {
            assert!(all(&raw(broken, b""), 9).is_err(), "{broken:?}");
        }
        let many = b"\x01k\x00".repeat(HEADERS + 1);
        assert!(all(&raw(&many, b""), 999).is_err());
    }

    #[test]
    fn lengths_are_not_believed_beyond_their_bound() {
        let prelude = |total: u32, headers: u32| {
            let mut bytes = [total.to_be_bytes(), headers.to_be_bytes()].concat();
            let sum = crc32fast::hash(&bytes);
            bytes.extend_from_slice(&sum.to_be_bytes());
            bytes
        };
        for (total, headers) in [
            (u32::MAX, 0),
            (15, 0),
            (16, 1),
            (0, 0),
            (40, 25),
            (40, u32::MAX),
        ] {
            assert!(
                all(&prelude(total, headers), 12).is_err(),
                "{total} {headers}"
            );
        }
        assert!(all(&prelude(16, 0), 12).expect("begun").is_empty());
    }
}
