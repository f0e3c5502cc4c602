//! Ollama's lines as they are, and what is sent.

use protocol::StopReason;
use serde_json::{Value, json};

use crate::dialect::{Dialect, Quirks, StreamFault, golden::*};

const OLLAMA: Dialect = Dialect::Ollama;

fn lines(list: &[Value]) -> String {
    list.iter().map(|line| format!("{line}\n")).collect()
}

fn says(message: Value) -> Value {
    json!({"model": "m", "created_at": "t", "message": message, "done": false})
}

fn end(reason: &str) -> Value {
    json!({"message": {"role": "assistant", "content": ""}, "done": true, "done_reason": reason,
        "prompt_eval_count": 30, "eval_count": 9})
}

#[test]
fn an_answer_comes_out_the_same_in_any_pieces() {
    let stream = lines(&[
        says(json!({"content": "", "thinking": "Hm, „ü“"})),
        says(json!({"content": "Grüße "})),
        says(json!({"content": "東京"})),
        says(
            json!({"content": "", "tool_calls": [{"id": "call_1", "function": {"index": 0, "name": "bash", "arguments": {"n": 0}}}]}),
        ),
        says(
            json!({"content": "", "tool_calls": [{"function": {"name": "ping", "arguments": {}}}]}),
        ),
        end("stop"),
    ]);
    let answer = whole(OLLAMA, &stream);
    assert_eq!(
        (answer.stop, answer.message.text().as_str()),
        (StopReason::Tool, "Grüße 東京")
    );
    assert_eq!(usage(&answer), [Some(30), None, None, Some(9), None]);
    assert_eq!(reasoning(&answer), ["{\"thinking\":\"Hm, „ü“\"}"]);
    let calls = calls(&answer);
    assert_eq!(
        (calls[0].0.as_str(), &calls[0].2),
        ("call_1", &json!({"n": 0}))
    );
    assert_eq!((calls[1].1.as_str(), &calls[1].2), ("ping", &json!({})));
    every_cut_is_seen(OLLAMA, &stream, "{\"done\":true");
    assert_eq!(
        whole(OLLAMA, stream.trim_end()),
        answer,
        "the last line needs no end"
    );
    assert_eq!(
        whole(OLLAMA, &end("length").to_string()).stop,
        StopReason::Length
    );
    assert_eq!(
        whole(OLLAMA, &end("load").to_string()).stop,
        StopReason::Other
    );
}

#[test]
fn an_error_line_is_the_providers_word() {
    let stream = lines(&[
        says(json!({"content": "half"})),
        json!({"error": "model runner has stopped"}),
    ]);
    let (answer, text) = decode(OLLAMA, &Quirks::default(), stream.as_bytes(), 7);
    let Err(StreamFault::InBand(upstream)) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(
        (upstream.message.as_str(), text.as_str()),
        ("model runner has stopped", "half")
    );
    let (answer, _) = decode(OLLAMA, &Quirks::default(), b"<html>\n</html>", 7);
    assert!(
        matches!(answer, Err(StreamFault::Malformed(_))),
        "{answer:?}"
    );
}

#[test]
fn a_whole_request_reads_as_the_dialect_says() {
    let body = encoded(
        OLLAMA,
        &Quirks::default(),
        vec![
            protocol::Message::user("list the files"),
            assistant(vec![
                thought("{\"thinking\":\"hm\"}"),
                text("I look."),
                call("call_1", json!({"command": "ls"})),
            ]),
            user(vec![result("call_1", "a.rs"), text("go on")]),
        ],
    );
    assert_eq!(
        body,
        json!({
            "model": "m",
            "stream": true,
            "options": {"num_predict": 1_000, "num_ctx": 100_000},
            "tools": [{"type": "function", "function":
                {"name": "bash", "description": "runs", "parameters": {"type": "object"}}}],
            "messages": [
                {"role": "system", "content": "You work in a box."},
                {"role": "user", "content": "list the files"},
                {"role": "assistant", "content": "I look.", "thinking": "hm", "tool_calls": [
                    {"id": "call_1", "function": {"name": "bash", "arguments": {"command": "ls"}}}]},
                {"role": "tool", "tool_name": "bash", "tool_call_id": "call_1", "content": "a.rs"},
                {"role": "user", "content": "go on"},
            ],
        })
    );
    prefixes_hold(OLLAMA, "messages");
}
