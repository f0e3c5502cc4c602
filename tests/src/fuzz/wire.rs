//! Answers of model providers, in each dialect: the same whatever the pieces are, never more than came.

use protocol::{Inference, bounds};
use supervisor_providers::dialect::{Dialect, Quirks, StreamFault, Target};

use super::Said;

/// An answer of a dialect: the first four bytes say how the others are cut.
pub(super) fn answer(dialect: Dialect, bytes: &[u8]) -> Said {
    let (cuts, body) = bytes.split_at(bytes.len().min(4));
    let whole = decoded(dialect, &[body]);
    let mut parts = Vec::new();
    let mut rest = body;
    let mut sizes = cuts.iter().cycle();
    while let Some(size) = sizes.next().filter(|_| !rest.is_empty()) {
        let (part, left) = rest.split_at(rest.len().min(usize::from(*size).max(1)));
        parts.push(part);
        rest = left;
    }
    assert_eq!(
        decoded(dialect, &parts),
        whole,
        "the cuts changed the answer"
    );
    Some(match whole {
        Ok((answer, text)) => {
            assert!(
                text.len() <= bounds::ANSWER && text.len() <= bytes.len(),
                "more text than came"
            );
            format!(
                "{:?}, {} parts",
                answer.stop,
                answer.message.parts.len().min(4)
            )
        }
        Err(StreamFault::InBand(error)) => format!("error {}", super::gist(&error.kind)),
        Err(StreamFault::Cut) => "cut".to_owned(),
        Err(StreamFault::Malformed(what) | StreamFault::TooLarge(what)) => what.to_owned(),
    })
}

/// Frames of Bedrock whose checksums hold, so that what they carry is looked at: one a line, its event's
/// name and its payload.
pub(super) fn bedrock_events(bytes: &[u8]) -> Said {
    let (cuts, lines) = bytes.split_at(bytes.len().min(4));
    let mut body = cuts.to_vec();
    for line in lines.split(|byte| *byte == b'\n').take(256) {
        let end = line
            .iter()
            .position(|byte| *byte == b' ')
            .unwrap_or(line.len());
        let (name, payload) = line.split_at(end);
        body.extend(frame(name, payload.get(1..).unwrap_or_default()));
    }
    answer(Dialect::Bedrock, &body)
}

/// One frame of an event, both checksums right.
pub(super) fn frame(name: &[u8], payload: &[u8]) -> Vec<u8> {
    // An upper-case first letter is an exception's.
    let exception = name.first().is_some_and(u8::is_ascii_uppercase);
    let (kind, key): (&[u8], &[u8]) = match exception {
        true => (b"exception", b":exception-type"),
        false => (b"event", b":event-type"),
    };
    let mut headers = Vec::new();
    let names: [(&[u8], &[u8]); 2] = [(b":message-type", kind), (key, name)];
    for (name, value) in names {
        headers.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        headers.extend_from_slice(name);
        headers.push(7);
        headers.extend_from_slice(&u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
        headers.extend_from_slice(value);
    }
    let size = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    let mut frame = size(16 + headers.len() + payload.len()).to_vec();
    frame.extend_from_slice(&size(headers.len()));
    for part in [headers.as_slice(), payload] {
        if frame.len() == 8 {
            let sum = crc32fast::hash(&frame);
            frame.extend_from_slice(&sum.to_be_bytes());
        }
        frame.extend_from_slice(part);
    }
    let sum = crc32fast::hash(&frame);
    frame.extend_from_slice(&sum.to_be_bytes());
    frame
}

fn decoded(dialect: Dialect, parts: &[&[u8]]) -> Result<(Inference, String), StreamFault> {
    let quirks = Quirks::default();
    let target = Target {
        provider: "fuzz",
        model: "model",
        max_output: 1_000,
        window: 100_000,
        quirks: &quirks,
        wish: None,
    };
    let Some(mut decoder) = dialect.decoder(&target, &[]) else {
        crate::harness::fail("this dialect has no wire");
    };
    let mut text = String::new();
    for part in parts {
        if decoder.push(part, &mut |more| text.push_str(more))? {
            break;
        }
    }
    let answer = decoder.finish(&mut |more| text.push_str(more))?;
    Ok((answer, text))
}
