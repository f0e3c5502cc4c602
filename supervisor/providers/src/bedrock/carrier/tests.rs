//! Frames of Bedrock, built here, in any pieces: the same answer, or the same refusal.

use protocol::{Part, StopReason, Usage};
use serde_json::json;

use super::{super::frame::build, *};
use crate::dialect::Quirks;

fn event(name: &str, payload: &Value) -> Vec<u8> {
    let headers = [
        (":event-type", name),
        (":content-type", "application/json"),
        (":message-type", "event"),
    ];
    build(&headers, payload.to_string().as_bytes())
}

fn chunk(inner: &Value) -> Vec<u8> {
    let bytes = STANDARD.encode(inner.to_string());
    event("chunk", &json!({"bytes": bytes, "p": "abcdef"}))
}

fn exception(name: &str, message: &str) -> Vec<u8> {
    let headers = [(":exception-type", name), (":message-type", "exception")];
    build(&headers, json!({"message": message}).to_string().as_bytes())
}

fn decode(body: &[u8], size: usize) -> Result<(Inference, String), StreamFault> {
    let quirks = Quirks::default();
    let target = Target {
        provider: "bedrock",
        model: "m",
        max_output: 9,
        window: 100_000,
        quirks: &quirks,
        wish: None,
    };
    let mut decoder = Box::new(decoder(&target, &[]));
    let mut text = String::new();
    for piece in body.chunks(size.max(1)) {
        if decoder.push(piece, &mut |more| text.push_str(more))? {
            break;
        }
    }
    let answer = decoder.finish(&mut |more| text.push_str(more))?;
    Ok((answer, text))
}

fn good(body: &[u8]) -> Inference {
    let whole = decode(body, body.len()).expect("an answer");
    for size in [1, 2, 3, 7, 64] {
        assert_eq!(decode(body, size).expect("an answer"), whole, "{size}");
    }
    assert_eq!(whole.1, whole.0.message.text());
    whole.0
}

fn raws(answer: &Inference) -> Vec<&str> {
    let mut raws = Vec::new();
    for part in &answer.message.parts {
        if let Part::Reasoning { raw, .. } = part {
            raws.push(raw.as_str());
        }
    }
    raws
}

fn calls(answer: &Inference) -> Vec<(&str, &Value)> {
    let mut calls = Vec::new();
    for part in &answer.message.parts {
        if let Part::ToolCall { name, input, .. } = part {
            calls.push((name.as_str(), input));
        }
    }
    calls
}

/// Reasoning, text, a call of the provider's own, a call for us.
fn converse() -> Vec<u8> {
    let delta = |index: u64, delta: Value| {
        event(
            "contentBlockDelta",
            &json!({"contentBlockIndex": index, "delta": delta, "p": "abc"}),
        )
    };
    [
        event("messageStart", &json!({"role": "assistant"})),
        delta(0, json!({"reasoningContent": {"text": "so "}})),
        delta(0, json!({"reasoningContent": {"text": "<ü>"}})),
        delta(0, json!({"reasoningContent": {"signature": "Ab/+="}})),
        event("contentBlockStop", &json!({"contentBlockIndex": 0})),
        delta(1, json!({"text": "Grü"})),
        delta(1, json!({"text": "ße"})),
        event("contentBlockStart", &json!({"contentBlockIndex": 2, "start":
            {"toolUse": {"toolUseId": "t-0", "name": "code", "type": "server_tool_use"}}})),
        delta(2, json!({"toolUse": {"input": "{\"x\":1}"}})),
        event("contentBlockStart", &json!({"contentBlockIndex": 3, "start": {"toolResult": {"toolUseId": "t-0"}}})),
        delta(3, json!({"toolResult": [{"json": {}}]})),
        event("contentBlockStart", &json!({"contentBlockIndex": 4, "start": {"toolUse": {"toolUseId": "t-1", "name": "bash"}}})),
        delta(4, json!({"toolUse": {"input": "{\"command\":"}})),
        delta(4, json!({"toolUse": {"input": "\"ls\"}"}})),
        event("messageStop", &json!({"stopReason": "tool_use"})),
        event("metadata", &json!({"usage": {"inputTokens": 9, "outputTokens": 5, "cacheReadInputTokens": 7,
            "cacheWriteInputTokens": 0, "totalTokens": 21}, "metrics": {"latencyMs": 3}})),
    ]
    .concat()
}

#[test]
fn converse_events_become_an_answer() {
    let answer = good(&converse());
    assert_eq!(answer.message.text(), "Grüße");
    assert_eq!(answer.stop, StopReason::Tool);
    assert_eq!(calls(&answer), [("bash", &json!({"command": "ls"}))]);
    let reasoning =
        r#"{"reasoningContent":{"reasoningText":{"text":"so <ü>","signature":"Ab/+="}}}"#;
    assert_eq!(raws(&answer), [reasoning]);
    let usage = Usage {
        input_uncached: Some(9),
        cache_read: Some(7),
        cache_write: Some(0),
        output: Some(5),
        reasoning: None,
    };
    assert_eq!(answer.usage, usage);
}

#[test]
fn a_stream_that_is_cut_before_its_stop_is_no_answer() {
    let body = converse();
    let tail = event(
        "metadata",
        &json!({"usage": {"inputTokens": 9, "outputTokens": 5, "cacheReadInputTokens": 7,
            "cacheWriteInputTokens": 0, "totalTokens": 21}, "metrics": {"latencyMs": 3}}),
    )
    .len();
    for at in 0..body.len() - tail {
        let result = decode(&body[..at], 11);
        assert!(
            matches!(result, Err(StreamFault::Cut)),
            "cut at {at}: {result:?}"
        );
    }
    // Behind the stop the figures are missing, and nothing else is.
    let answer = decode(&body[..body.len() - tail], 11).expect("ended");
    assert_eq!(answer.0.usage, Usage::default());
}

#[test]
fn redacted_reasoning_and_a_cut_call_are_kept_as_what_they_are() {
    let body = [
        event("messageStart", &json!({"role": "assistant"})),
        event("contentBlockDelta", &json!({"contentBlockIndex": 0, "delta": {"reasoningContent": {"redactedContent": "QUJD"}}})),
        event("contentBlockStart", &json!({"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "t", "name": "bash"}}})),
        event("contentBlockDelta", &json!({"contentBlockIndex": 1, "delta": {"toolUse": {"input": "{\"comm"}}})),
        event("messageStop", &json!({"stopReason": "max_tokens"})),
        event("metadata", &json!({})),
    ]
    .concat();
    let answer = good(&body);
    assert_eq!(
        raws(&answer),
        [r#"{"reasoningContent":{"redactedContent":"QUJD"}}"#]
    );
    assert_eq!(answer.stop, StopReason::Length);
    assert_eq!(calls(&answer), [("bash", &json!({"_invalid": "{\"comm"}))]);
}

#[test]
fn exceptions_and_errors_are_the_providers_own_words() {
    let start = event("messageStart", &json!({"role": "assistant"}));
    let error = build(
        &[
            (":message-type", "error"),
            (":error-code", "InternalError"),
            (":error-message", "oops"),
        ],
        b"",
    );
    for (frame, kind, words) in [
        (
            exception("throttlingException", "slowly"),
            "throttlingException",
            "slowly",
        ),
        (error, "InternalError", "oops"),
    ] {
        let body = [start.clone(), frame].concat();
        let Err(StreamFault::InBand(upstream)) = decode(&body, 5) else {
            panic!("{kind} is an error");
        };
        assert_eq!(
            (upstream.kind.as_str(), upstream.message.as_str()),
            (kind, words)
        );
    }
    let body = [start.clone(), start].concat();
    assert!(matches!(decode(&body, 5), Err(StreamFault::Malformed(_))));
    let odd = build(&[(":message-type", "new-kind")], b"");
    assert!(matches!(decode(&odd, 5), Err(StreamFault::Malformed(_))));
}

#[test]
fn chunks_of_messages_nova_and_titan_are_read_in_their_own_grammar() {
    let messages = [
        json!({"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 3, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hé"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}}),
        json!({"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 99, "outputTokenCount": 98}}),
    ];
    let body: Vec<u8> = messages.iter().flat_map(chunk).collect();
    let answer = good(&body);
    assert_eq!(
        (answer.message.text().as_str(), answer.stop),
        ("hé", StopReason::End)
    );
    assert_eq!(
        (answer.usage.input_uncached, answer.usage.output),
        (Some(3), Some(4))
    );

    let mut nova = vec![chunk(&json!({"messageStart": {"role": "assistant"}}))];
    for index in 0..1_500 {
        nova.push(chunk(
            &json!({"contentBlockDelta": {"delta": {"text": "x"}, "contentBlockIndex": index}}),
        ));
        nova.push(chunk(
            &json!({"contentBlockStop": {"contentBlockIndex": index}}),
        ));
    }
    nova.push(chunk(&json!({"messageStop": {"stopReason": "end_turn"}})));
    nova.push(chunk(&json!({"metadata": {"usage": {"inputTokens": 30, "outputTokens": 55, "cacheReadInputTokenCount": 2}}})));
    let answer = good(&nova.concat());
    assert_eq!(
        answer.message.parts,
        [Part::Text {
            text: "x".repeat(1_500)
        }]
    );
    assert_eq!(
        (answer.usage.input_uncached, answer.usage.cache_read),
        (Some(30), Some(2))
    );

    let titan = [
        chunk(&json!({"outputText": "one ", "index": 0.0, "inputTextTokenCount": 6.0})),
        chunk(
            &json!({"outputText": "two", "index": 0, "totalOutputTextTokenCount": 3.0, "completionReason": "LENGTH"}),
        ),
    ];
    let answer = good(&titan.concat());
    assert_eq!(
        (answer.message.text().as_str(), answer.stop),
        ("one two", StopReason::Length)
    );
    assert_eq!(
        (answer.usage.input_uncached, answer.usage.output),
        (Some(6), Some(3))
    );
    assert!(matches!(decode(&titan[0], 9), Err(StreamFault::Cut)));
    let guarded =
        chunk(&json!({"outputText": "no", "amazon-bedrock-guardrailAction": "INTERVENED"}));
    assert_eq!(good(&guarded).stop, StopReason::Filtered);

    let mixed = [chunk(&messages[0]), titan[0].clone()].concat();
    assert!(matches!(decode(&mixed, 9), Err(StreamFault::Malformed(_))));
    let garbage = event("chunk", &json!({"bytes": "***"}));
    assert!(matches!(
        decode(&garbage, 9),
        Err(StreamFault::Malformed(_))
    ));
}

#[test]
fn a_document_of_each_kind_is_an_answer() {
    let raw = r#"{"reasoningContent" : {"reasoningText":{"text":"\u003c","signature":"S"}}}"#;
    let converse = format!(
        r#"{{"output":{{"message":{{"role":"assistant","content":[{raw},{{"text":"hi"}},
        {{"toolUse":{{"toolUseId":"t","name":"bash","input":{{"a":1}}}}}}]}}}},"stopReason":"tool_use","usage":{{"inputTokens":1,"outputTokens":2}}}}"#
    );
    let answer = good(converse.as_bytes());
    assert_eq!(
        (raws(&answer), calls(&answer)),
        (vec![raw], vec![("bash", &json!({"a": 1}))])
    );
    assert_eq!(answer.usage.output, Some(2));
    let messages = json!({"type": "message", "content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn"});
    let titan = json!({"inputTextTokenCount": 2, "results": [{"tokenCount": 3, "outputText": "hi", "completionReason": "FINISH"}]});
    for body in [messages.to_string(), titan.to_string()] {
        let answer = good(body.as_bytes());
        assert_eq!(
            (answer.message.text().as_str(), answer.stop),
            ("hi", StopReason::End)
        );
        assert_eq!(
            decode(&body.as_bytes()[..body.len() - 1], 4),
            Err(StreamFault::Cut)
        );
    }
    for body in [
        json!({"message": "no"}),
        json!({}),
        json!({"output": {}}),
        json!({"output": {"message": {}}}),
    ] {
        assert!(decode(body.to_string().as_bytes(), 4).is_err(), "{body}");
    }
    assert_eq!(decode(b"", 1), Err(StreamFault::Cut));
    assert_eq!(decode(b" \n", 1), Err(StreamFault::Cut));
}

#[test]
fn open_models_speak_chat_inside_the_frames_and_old_ones_completions() {
    let delta = |delta: Value, finish: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let call = json!({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "bash", "arguments": "{}"}}]});
    let mut last = delta(json!({}), json!("tool_calls"));
    last["amazon-bedrock-invocationMetrics"] = json!({"inputTokenCount": 7, "outputTokenCount": 3});
    let begun = [
        chunk(&delta(json!({"content": "hi"}), Value::Null)),
        chunk(&delta(call, Value::Null)),
    ]
    .concat();
    let answer = good(&[begun.clone(), chunk(&last)].concat());
    assert_eq!(
        (answer.message.text().as_str(), answer.stop),
        ("hi", StopReason::Tool)
    );
    assert_eq!(
        (answer.usage.input_uncached, answer.usage.output),
        (Some(7), Some(3))
    );
    assert_eq!(decode(&begun, 64).expect_err("no end"), StreamFault::Cut);

    let old =
        |text: &str, stop: Value| chunk(&json!({"choices": [{"text": text, "stop_reason": stop}]}));
    let answer = good(&[old("he", Value::Null), old("llo", json!("length"))].concat());
    assert_eq!(
        (answer.message.text().as_str(), answer.stop),
        ("hello", StopReason::Length)
    );
}
