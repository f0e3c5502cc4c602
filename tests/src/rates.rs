//! How fast answers are decoded: a stream of small deltas, as models send them, in every dialect.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use supervisor_providers::dialect::{Dialect, Quirks, Target};

use crate::{fuzz::bedrock_event, harness::fail};

/// Bytes of a body that is decoded.
const BODY: usize = 1024 * 1024;
/// Bytes of a piece: what a socket usually has.
const PIECE: usize = 4_096;
/// What a delta says.
const WORDS: &str = " and so the answer goes on";

/// The dialects with a wire, and how their rows are called.
const DIALECTS: [(Dialect, &str); 6] = [
    (Dialect::Anthropic, "decode 1 MiB: anthropic"),
    (Dialect::OpenaiChat, "decode 1 MiB: openai-chat"),
    (Dialect::OpenaiResponses, "decode 1 MiB: openai-responses"),
    (Dialect::Gemini, "decode 1 MiB: gemini"),
    (Dialect::Bedrock, "decode 1 MiB: bedrock (converse)"),
    (Dialect::Ollama, "decode 1 MiB: ollama"),
];

/// For each dialect the times of `times` decodings of a body of one MiB.
#[must_use]
pub fn decoding(times: usize) -> Vec<(&'static str, Vec<Duration>)> {
    let rows = DIALECTS.iter().map(|(dialect, name)| {
        let (body, deltas) = body(*dialect);
        let took = (0..times).map(|_| decode(*dialect, &body, deltas));
        (*name, took.collect())
    });
    rows.collect()
}

fn decode(dialect: Dialect, body: &[u8], deltas: usize) -> Duration {
    let quirks = Quirks::default();
    let target = Target {
        provider: "bench",
        model: "model",
        max_output: 1_000_000,
        window: 1_000_000,
        quirks: &quirks,
        wish: None,
    };
    let began = Instant::now();
    let Some(mut decoder) = dialect.decoder(&target, &[]) else {
        fail("this dialect has no wire");
    };
    let mut forwarded = 0;
    for piece in body.chunks(PIECE) {
        match decoder.push(piece, &mut |text| forwarded += text.len()) {
            Ok(false) => {}
            Ok(true) => break,
            Err(fault) => fail(&format!("{dialect:?}: {fault:?}")),
        }
    }
    let answer = decoder.finish(&mut |text| forwarded += text.len());
    let took = began.elapsed();
    let length = answer.map_or(0, |answer| answer.message.text().len());
    if (length, forwarded) != (deltas * WORDS.len(), deltas * WORDS.len()) {
        fail(&format!(
            "{dialect:?}: {length} bytes of text, {forwarded} forwarded, {deltas} deltas"
        ));
    }
    took
}

/// A body, and how many deltas it holds.
fn body(dialect: Dialect) -> (Vec<u8>, usize) {
    let sse = |event: Value| format!("data: {event}\n\n").into_bytes();
    let line = |event: Value| format!("{event}\n").into_bytes();
    let frame = |name: &str, event: Value| bedrock_event(name, event.to_string().as_bytes());
    let (begin, delta, end) = match dialect {
        Dialect::Anthropic => (
            [
                sse(json!({"type": "message_start", "message": {"type": "message", "content": []}})),
                sse(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})),
            ]
            .concat(),
            sse(json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": WORDS}})),
            [
                sse(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}})),
                sse(json!({"type": "message_stop"})),
            ]
            .concat(),
        ),
        Dialect::OpenaiResponses => (
            sse(json!({"type": "response.created", "response": {"status": "in_progress"}})),
            sse(json!({"type": "response.output_text.delta", "output_index": 0, "delta": WORDS})),
            sse(json!({"type": "response.completed", "response": {"status": "completed", "output": []}})),
        ),
        Dialect::Gemini => (
            Vec::new(),
            sse(json!({"candidates": [{"content": {"parts": [{"text": WORDS}]}}]})),
            sse(json!({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]})),
        ),
        Dialect::Bedrock => (
            frame("messageStart", json!({"role": "assistant"})),
            frame("contentBlockDelta", json!({"contentBlockIndex": 0, "delta": {"text": WORDS}})),
            [frame("messageStop", json!({"stopReason": "end_turn"})), frame("metadata", json!({"usage": {}}))].concat(),
        ),
        Dialect::Ollama => (
            Vec::new(),
            line(json!({"message": {"content": WORDS}, "done": false})),
            line(json!({"message": {"content": ""}, "done": true, "done_reason": "stop"})),
        ),
        Dialect::OpenaiChat | Dialect::Script => (
            Vec::new(),
            sse(json!({"choices": [{"index": 0, "delta": {"content": WORDS}, "finish_reason": null}]})),
            sse(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})),
        ),
    };
    let deltas = BODY / delta.len();
    let body = [begin, delta.repeat(deltas), end].concat();
    (body, deltas)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_dialect_is_measured_by_a_body_that_it_decodes_whole() {
        let rows = super::decoding(1);
        assert_eq!(rows.len(), 6);
        assert!(rows.iter().all(|(_, took)| took.len() == 1));
    }
}
