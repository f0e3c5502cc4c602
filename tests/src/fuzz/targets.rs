//! What is fuzzed: one line a target.

use std::fmt::Debug;

use protocol::{
    Order, Reply, Report, Request, bounds,
    frame::{self, Decoder},
    jail::JailSpec,
    phase::{self, HandsPhase, Phase, RequestKind},
    reader::{Finding, ReaderSpec},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use supervisor_providers::dialect::Dialect;

use super::{Said, Target, law, wire};

/// All targets. A new one is a line here, and a folder of examples below `tests/fuzz/corpus`.
pub const TARGETS: &[Target] = &[
    Target::new("frame", frames),
    Target::new("request", |bytes| {
        message::<Request>(bytes, |request| {
            assert!(!phase::agent_may(Phase::Ended, RequestKind::of(request)));
        })
    }),
    Target::new("reply", |bytes| message::<Reply>(bytes, |_| ())),
    Target::new("order", |bytes| message::<Order>(bytes, |_| ())),
    Target::new("report", |bytes| {
        message::<Report>(bytes, |report| {
            assert!(!phase::hands_may(HandsPhase::Ended, report));
        })
    }),
    Target::new("jail-spec", |bytes| message::<JailSpec>(bytes, |_| ())),
    Target::new("reader-spec", |bytes| message::<ReaderSpec>(bytes, |_| ())),
    Target::new("finding", |bytes| message::<Finding>(bytes, |_| ())),
    Target::new("shell-line", law::shell_line),
    Target::new("query", law::query),
    Target::new("tool-input", law::tool_input),
    Target::new("policy-file", law::policy_file),
    Target::new("answer-gemini", |bytes| {
        wire::answer(Dialect::Gemini, bytes)
    }),
    Target::new("answer-bedrock", |bytes| {
        wire::answer(Dialect::Bedrock, bytes)
    }),
    Target::new("answer-bedrock-events", wire::bedrock_events),
    Target::new("answer-anthropic", |bytes| {
        wire::answer(Dialect::Anthropic, bytes)
    }),
    Target::new("answer-chat", |bytes| {
        wire::answer(Dialect::OpenaiChat, bytes)
    }),
    Target::new("answer-responses", |bytes| {
        wire::answer(Dialect::OpenaiResponses, bytes)
    }),
    Target::new("answer-ollama", |bytes| {
        wire::answer(Dialect::Ollama, bytes)
    }),
    Target::new("cases-file", law::cases_file),
    Target::new("imported-rules", law::imported),
    Target::new("host", law::host),
];

/// A target with a fault, for the test that the harness finds one.
pub(super) const PLANTED: Target = Target::new("planted", |bytes| {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    assert!(
        value.get("count").and_then(Value::as_u64) != Some(4_294_967_296),
        "the planted fault"
    );
    Some("parsed".to_owned())
});

/// A stream, cut into reads as its own bytes say: each frame comes out whole, whatever the cuts are,
/// and nothing larger than the bound is ever waited for.
fn frames(bytes: &[u8]) -> Said {
    let (cuts, stream) = bytes.split_at(bytes.len().min(4));
    let bound = 512;
    let whole = drained(&[stream], bound);
    let mut parts = Vec::new();
    let mut rest = stream;
    let mut sizes = cuts.iter().cycle();
    while let Some(size) = sizes.next().filter(|_| !rest.is_empty()) {
        let (part, left) = rest.split_at(rest.len().min(usize::from(*size).max(1)));
        parts.push(part);
        rest = left;
    }
    if !parts.is_empty() {
        assert_eq!(drained(&parts, bound), whole, "the cuts changed the frames");
    }
    Some(format!("{} frames, {}", whole.0.len().min(4), whole.1))
}

/// The frames of some reads, and how the stream ended.
fn drained(parts: &[&[u8]], bound: usize) -> (Vec<Vec<u8>>, String) {
    let mut decoder = Decoder::new(bound);
    let mut frames = Vec::new();
    for part in parts {
        decoder.push(part);
        loop {
            match decoder.next_frame() {
                Ok(Some(payload)) => {
                    assert!(payload.len() <= bound, "a frame beyond the bound");
                    let _ = frame::decode::<Value>(&payload);
                    frames.push(payload);
                }
                Ok(None) => break,
                Err(fault) => return (frames, fault_class(&fault)),
            }
        }
    }
    let end = if decoder.is_midway() { "cut" } else { "whole" };
    (frames, end.to_owned())
}

fn fault_class(fault: &frame::FrameFault) -> String {
    super::gist(&fault.to_string())
}

/// A payload as a message: what decodes must encode, and decode to the same again.
fn message<T>(bytes: &[u8], look: impl Fn(&T)) -> Said
where
    T: DeserializeOwned + Serialize + PartialEq + Debug,
{
    let value: T = match frame::decode(bytes) {
        Ok(value) => value,
        Err(fault) => return Some(fault_class(&fault)),
    };
    look(&value);
    // Its true bound is the link's; here the question is only whether it comes back.
    let encoded = match frame::encode(&value, usize::MAX) {
        Ok(encoded) => encoded,
        Err(fault) => crate::harness::fail(&format!("decodes and does not encode: {fault}")),
    };
    let payload = encoded.get(4..).unwrap_or_default();
    match frame::decode::<T>(payload) {
        Ok(again) => {
            let same = again == value || alike(&json(&again), &json(&value));
            assert!(same, "{value:?}\ncomes back as\n{again:?}");
        }
        // What is left out on the wire comes back as an explicit null: at the depth bound that is
        // no deeper, so there is no excuse.
        Err(fault) => crate::harness::fail(&format!("does not decode again: {fault}")),
    }
    let kind = format!("{value:?}");
    let kind: String = kind
        .chars()
        .take_while(|letter| letter.is_alphanumeric())
        .collect();
    Some(format!(
        "{kind}, {} KiB",
        payload.len().min(bounds::FRAME) / 1_024
    ))
}

fn json<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// Equal, but for the last digit of a fraction: a decimal that is read and written again may move by it.
fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            match (a.as_f64(), b.as_f64()) {
                (Some(a), Some(b)) => (a - b).abs() <= a.abs() * 1e-15,
                _ => false,
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(name, a)| b.get(name).is_some_and(|b| alike(a, b)))
        }
        (a, b) => a == b,
    }
}
