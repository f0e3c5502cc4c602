//! Responses bodies: the whole conversation each time, reasoning sealed and in its place.

use serde_json::json;

use crate::dialect::{Dialect, Quirks, golden::*};

const RESPONSES: Dialect = Dialect::OpenaiResponses;

#[test]
fn a_whole_request_reads_as_the_dialect_says() {
    let raw = "{\"type\":\"reasoning\", \"id\":\"rs_1\",\"summary\":[],\"encrypted_content\":\"gAA\\u003d\"}";
    let stored = "{\"type\":\"reasoning\",\"id\":\"rs_2\",\"summary\":[]}";
    let messages = vec![
        protocol::Message::user("list the files"),
        assistant(vec![
            thought(raw),
            thought(stored),
            text("I look."),
            call("call_1", json!({"command": "ls"})),
        ]),
        user(vec![result("call_1", "a.rs"), text("go on")]),
    ];
    let body = encoded(RESPONSES, &Quirks::default(), messages.clone());
    assert_eq!(
        body,
        json!({
            "model": "m",
            "stream": true,
            "store": false,
            "include": ["reasoning.encrypted_content"],
            "max_output_tokens": 1_000,
            "instructions": "You work in a box.",
            "tools": [{"type": "function", "name": "bash", "description": "runs",
                "parameters": {"type": "object"}, "strict": false}],
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "list the files"}]},
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAA="},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
                {"type": "function_call", "call_id": "call_1", "name": "bash", "arguments": "{\"command\":\"ls\"}"},
                {"type": "function_call_output", "call_id": "call_1", "output": "a.rs"},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go on"}]},
            ],
        })
    );
    let quirks = Quirks {
        no_sealed_reasoning: true,
        no_output_limit: true,
        ..Quirks::default()
    };
    let outgoing = RESPONSES
        .encode(&request(messages), &target(&quirks))
        .expect("sendable");
    let text = String::from_utf8(outgoing.body).expect("UTF-8");
    assert!(text.contains(raw), "byte for byte: {text}");
    assert!(
        !text.contains("include\"") && !text.contains("max_output_tokens"),
        "{text}"
    );
    prefixes_hold(RESPONSES, "input");
}
