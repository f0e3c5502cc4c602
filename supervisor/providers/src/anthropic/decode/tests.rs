//! Streams as they should be and as they are, in any pieces.

use std::collections::HashSet;

use proptest::prelude::*;
use protocol::{CallId, Part, Role, bounds};
use serde_json::json;

use super::*;
use crate::dialect::{Decode as _, Quirks, golden};

type Decoded = (Result<Inference, StreamFault>, String);

/// Decodes in pieces of `sizes`, one after the other and round again.
fn decode(stream: &[u8], sizes: &[usize], conversation: &[Message]) -> Decoded {
    let quirks = Quirks::default();
    let mut decoder = Box::new(decoder(&target(&quirks), conversation));
    let mut text = String::new();
    let mut rest = stream;
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (head, tail) = rest.split_at((*size).clamp(1, rest.len()));
        rest = tail;
        match decoder.push(head, &mut |piece| text.push_str(piece)) {
            Ok(false) => {}
            Ok(true) | Err(_) => break,
        }
    }
    let answer = decoder.finish(&mut |piece| text.push_str(piece));
    (answer, text)
}

fn target(quirks: &Quirks) -> Target<'_> {
    Target {
        provider: "anthropic",
        model: "claude-x",
        max_output: 1,
        window: 100_000,
        quirks,
        wish: None,
    }
}

fn document(body: &[u8]) -> Decoded {
    decode(body, &[usize::MAX], &[])
}

fn sse(events: &[Value]) -> String {
    let line = |event: &Value| {
        format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().unwrap_or("x")
        )
    };
    events.iter().map(line).collect()
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"type": "message", "content": [], "stop_reason": null,
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 200, "output_tokens": 1}}})
}

fn open(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn text(index: u64, words: &str) -> Value {
    delta(index, json!({"type": "text_delta", "text": words}))
}

fn args(index: u64, part: &str) -> Value {
    delta(
        index,
        json!({"type": "input_json_delta", "partial_json": part}),
    )
}

fn tool(index: u64, id: &str) -> Value {
    open(
        index,
        json!({"type": "tool_use", "id": id, "name": "bash", "input": {}}),
    )
}

fn ends(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason},
            "usage": {"output_tokens": 42, "cache_read_input_tokens": 0,
                "output_tokens_details": {"thinking_tokens": 7}}}),
        json!({"type": "message_stop"}),
    ]
}

fn stream(middle: Vec<Value>, reason: &str) -> String {
    let mut events = vec![start()];
    events.extend(middle);
    events.extend(ends(reason));
    sse(&events)
}

fn calls(answer: &Inference) -> Vec<(String, Value)> {
    let call = |part: &Part| match part {
        Part::ToolCall { id, input, .. } => Some((id.as_str().to_owned(), input.clone())),
        _ => None,
    };
    answer.message.parts.iter().filter_map(call).collect()
}

fn rich() -> String {
    let mut text_stream = stream(
        vec![
            json!({"type": "ping"}),
            open(
                0,
                json!({"type": "thinking", "thinking": "", "signature": ""}),
            ),
            delta(0, json!({"type": "thinking_delta", "thinking": "Hm, „ü“ "})),
            delta(0, json!({"type": "thinking_delta", "thinking": "\"so\""})),
            delta(0, json!({"type": "signature_delta", "signature": "Ab+/="})),
            json!({"type": "content_block_stop", "index": 0}),
            open(1, json!({"type": "redacted_thinking", "data": "EqkE="})),
            open(2, json!({"type": "text", "text": ""})),
            text(2, "Grüße aus 東京"),
            delta(2, json!({"type": "citations_delta", "citation": {}})),
            text(2, "!"),
            open(
                3,
                json!({"type": "server_tool_use", "id": "srv", "name": "web", "input": {}}),
            ),
            args(3, "{\"q\":1}"),
            tool(4, "toolu_1"),
            tool(5, "toolu_2"),
            args(4, ""),
            args(4, "{\"command\": \"ls"),
            args(5, "{\"n\":"),
            args(4, " ü\"}"),
            args(5, " 1}"),
            json!({"type": "something_new", "data": [1]}),
        ],
        "tool_use",
    );
    text_stream.insert_str(0, ": welcome\r\n\r\n");
    text_stream
}

#[test]
fn a_rich_answer_is_whole_and_the_same_in_any_pieces() {
    let stream = rich();
    let raw = |raw: &str| Part::Reasoning {
        provider: "anthropic".into(),
        model: "claude-x".into(),
        raw: raw.into(),
    };
    let call = |id: &str, input: Value| Part::ToolCall {
        id: CallId::parse(id).expect("fits"),
        name: "bash".into(),
        input,
    };
    let expected = Inference {
        message: Message {
            role: Role::Assistant,
            parts: vec![
                raw(r#"{"type":"thinking","thinking":"Hm, „ü“ \"so\"","signature":"Ab+/="}"#),
                raw(r#"{"data":"EqkE=","type":"redacted_thinking"}"#),
                Part::Text {
                    text: "Grüße aus 東京!".into(),
                },
                call("toolu_1", json!({"command": "ls ü"})),
                call("toolu_2", json!({"n": 1})),
            ],
        },
        stop: StopReason::Tool,
        usage: Usage {
            input_uncached: Some(10),
            cache_read: Some(200),
            cache_write: None,
            output: Some(42),
            reasoning: Some(7),
        },
        provider: "anthropic".into(),
        model: "claude-x".into(),
    };
    for size in [1, 2, 3, 7, 64, 4_096, 1 << 20] {
        let (answer, text) = decode(stream.as_bytes(), &[size], &[]);
        assert_eq!(answer.as_ref(), Ok(&expected), "in pieces of {size}");
        assert_eq!(text, "Grüße aus 東京!");
    }
}

#[test]
fn only_message_stop_is_an_end() {
    let stream = rich();
    let stop = stream.find("event: message_stop").expect("ends");
    for cut in (0..stop)
        .step_by(13)
        .chain([stop, stop + 30, stream.len() - 1])
    {
        let (answer, _) = decode(&stream.as_bytes()[..cut], &[50], &[]);
        assert_eq!(answer, Err(StreamFault::Cut), "cut at {cut}");
    }
    let more = format!("{stream}data: garbage after the end\n\n");
    assert!(decode(more.as_bytes(), &[9], &[]).0.is_ok());
}

#[test]
fn stop_reasons_are_mapped_and_an_unknown_one_is_other() {
    let table = [
        ("end_turn", StopReason::End),
        ("stop_sequence", StopReason::End),
        ("tool_use", StopReason::Tool),
        ("max_tokens", StopReason::Length),
        ("model_context_window_exceeded", StopReason::ContextFull),
        ("refusal", StopReason::Filtered),
        ("pause_turn", StopReason::Continue),
        ("brand_new", StopReason::Other),
    ];
    for (word, expected) in table {
        let (answer, _) = decode(stream(vec![], word).as_bytes(), &[99], &[]);
        assert_eq!(answer.expect("whole").stop, expected, "{word}");
    }
    let (answer, _) = decode(
        sse(&[start(), json!({"type": "message_stop"})]).as_bytes(),
        &[9],
        &[],
    );
    let answer = answer.expect("whole");
    assert_eq!(
        (answer.stop, answer.message.parts.len()),
        (StopReason::Other, 0)
    );
}

#[test]
fn a_call_whose_arguments_were_cut_is_marked_and_stays_length() {
    for (part, marked) in [
        ("{\"path\":\"a.rs\",\"text\":\"fn ma", true),
        ("", true),
        ("{\"a\":1}", false),
    ] {
        let middle = vec![tool(0, "toolu_1"), args(0, part)];
        let (answer, _) = decode(stream(middle, "max_tokens").as_bytes(), &[5], &[]);
        let answer = answer.expect("whole");
        assert_eq!(answer.stop, StopReason::Length);
        assert_eq!(
            calls(&answer)[0].1.get("_invalid").is_some(),
            marked,
            "{part}"
        );
    }
}

#[test]
fn a_call_whose_arguments_are_no_object_makes_the_answer_malformed() {
    for broken in ["{\"cmd\": ls}", "[]", "\"\"", "0"] {
        let middle = vec![
            tool(0, "toolu_1"),
            args(0, broken),
            tool(1, "toolu_2"),
            args(1, "{\"n\":1}"),
        ];
        let (answer, _) = decode(stream(middle, "tool_use").as_bytes(), &[5], &[]);
        let answer = answer.expect("whole");
        assert_eq!(answer.stop, StopReason::Malformed);
        assert_eq!(calls(&answer)[0].1, json!({"_invalid": broken}));
        assert_eq!(calls(&answer)[1].1, json!({"n": 1}));
    }
}

#[test]
fn a_call_may_carry_its_input_at_once_or_none_at_all() {
    let whole = open(
        0,
        json!({"type": "tool_use", "id": "a", "name": "bash", "input": {"n": 2}}),
    );
    let none = open(1, json!({"type": "tool_use", "id": "b", "name": "bash"}));
    let (answer, _) = decode(stream(vec![whole, none], "tool_use").as_bytes(), &[5], &[]);
    let answer = answer.expect("whole");
    assert_eq!(
        calls(&answer),
        [("a".into(), json!({"n": 2})), ("b".into(), json!({}))]
    );
    assert_eq!(answer.stop, StopReason::Tool);
}

#[test]
fn an_id_that_the_conversation_has_already_is_replaced() {
    let earlier = Message {
        role: Role::Assistant,
        parts: vec![Part::ToolCall {
            id: CallId::parse("call_0").expect("fits"),
            name: "bash".into(),
            input: json!({}),
        }],
    };
    let middle = vec![tool(0, "call_0"), tool(1, "call_0"), tool(2, "bad id/..")];
    let (answer, _) = decode(stream(middle, "tool_use").as_bytes(), &[64], &[earlier]);
    let ids: HashSet<String> = calls(&answer.expect("whole"))
        .into_iter()
        .map(|c| c.0)
        .collect();
    assert_eq!(ids.len(), 3);
    assert!(!ids.contains("call_0"), "{ids:?}");
}

#[test]
fn a_whole_message_may_come_in_message_start_or_as_a_document() {
    let message = json!({"type": "message", "role": "assistant", "stop_reason": "end_turn",
        "content": [{"type": "thinking", "thinking": "a", "signature": "s"}, {"type": "text", "text": "hi"}],
        "usage": {"input_tokens": 3, "cache_creation_input_tokens": 5, "output_tokens": 0}});
    let text_form = message.to_string().replace("\"a\"", "\"\\u0061\"");
    let one_event = format!(
        "data: {{\"type\":\"message_start\",\"message\":{text_form}   }}\n\n\
         data: {{\"type\":\"message_stop\"}}\n\n"
    );
    let (streamed, forwarded) = decode(one_event.as_bytes(), &[11], &[]);
    let (document, seen) = document(text_form.as_bytes());
    assert_eq!(streamed, document);
    assert_eq!((forwarded.as_str(), seen.as_str()), ("hi", "hi"));
    let answer = document.expect("whole");
    assert_eq!(
        (answer.stop, answer.usage.cache_write),
        (StopReason::End, Some(5))
    );
    let Part::Reasoning { raw, .. } = &answer.message.parts[0] else {
        panic!("no reasoning")
    };
    assert!(raw.contains("\\u0061"), "as it came: {raw}");
}

#[test]
fn an_error_inside_a_good_status_is_the_providers_word() {
    let error =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let (answer, forwarded) = decode(
        sse(&[
            start(),
            open(0, json!({"type": "text"})),
            text(0, "half"),
            error.clone(),
        ])
        .as_bytes(),
        &[3],
        &[],
    );
    let Err(StreamFault::InBand(upstream)) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(
        (upstream.kind.as_str(), forwarded.as_str()),
        ("overloaded_error", "half")
    );
    let (document, _) = document(error.to_string().as_bytes());
    assert!(
        matches!(document, Err(StreamFault::InBand(_))),
        "{document:?}"
    );
}

#[test]
fn what_breaks_the_dialect_or_a_bound_is_refused() {
    let malformed = [
        sse(&[start(), start()]),
        sse(&[json!({"type": "message_stop"})]),
        sse(&[start(), text(0, "to nobody")]),
        sse(&[
            start(),
            open(0, json!({"type": "text"})),
            open(0, json!({"type": "text"})),
        ]),
        "data: {\"type\": \n\n".to_owned(),
        "data: [DONE]\n\n".to_owned(),
        "data: {}\n\n".to_owned(),
    ];
    for stream in malformed {
        let (answer, _) = decode(stream.as_bytes(), &[8], &[]);
        assert!(
            matches!(answer, Err(StreamFault::Malformed(_))),
            "{stream}: {answer:?}"
        );
    }
    let piece = "x".repeat(1 << 20);
    let mut long = vec![open(0, json!({"type": "text", "text": ""}))];
    long.extend((0..9).map(|_| text(0, &piece)));
    let (answer, _) = decode(stream(long, "end_turn").as_bytes(), &[65_536], &[]);
    assert!(
        matches!(answer, Err(StreamFault::TooLarge(_))),
        "{answer:?}"
    );
    let line = format!("data: {}\n\n", "x".repeat(bounds::STREAM_LINE));
    let (answer, _) = decode(line.as_bytes(), &[65_536], &[]);
    assert!(
        matches!(answer, Err(StreamFault::TooLarge(_))),
        "{answer:?}"
    );
    let many: Vec<Value> = (0..2_000)
        .map(|n| open(n, json!({"type": "text"})))
        .collect();
    let (answer, _) = decode(stream(many, "end_turn").as_bytes(), &[65_536], &[]);
    assert!(
        matches!(answer, Err(StreamFault::TooLarge(_))),
        "{answer:?}"
    );
    for document in [
        "[]",
        "{\"choices\":[]}",
        "{\"type\":\"message\",\"content\":[]}",
    ] {
        let (decoded, _) = self::document(document.as_bytes());
        assert!(
            matches!(decoded, Err(StreamFault::Malformed(_))),
            "{document}: {decoded:?}"
        );
    }
}

/// Streams near the real ones: whole events, pieces of them, line ends of all kinds, garbage.
fn almost_streams() -> impl Strategy<Value = Vec<u8>> {
    let good = rich();
    let events: Vec<Vec<u8>> = good
        .split_inclusive("\n\n")
        .map(|event| event.as_bytes().to_vec())
        .collect();
    let count = events.len();
    let piece = prop_oneof![
        8 => (0..count).prop_map(move |at| events[at].clone()),
        2 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => Just(b"\r".to_vec()),
        1 => Just(b"\n".to_vec()),
        1 => Just(b"data: {\"type\":\"content_block_delta\",\"index\":4,".to_vec()),
    ];
    let mixed = proptest::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat());
    let len = good.len();
    let damaged = proptest::collection::vec((0..len, any::<u8>()), 0..4).prop_map(move |edits| {
        let mut bytes = good.clone().into_bytes();
        for (at, byte) in edits {
            bytes[at] = byte;
        }
        bytes
    });
    prop_oneof![
        mixed,
        damaged,
        proptest::collection::vec(any::<u8>(), 0..300)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn no_bytes_make_it_panic_and_no_pieces_change_the_result(
        stream in almost_streams(),
        sizes in proptest::collection::vec(1..80_usize, 1..8),
    ) {
        let whole = decode(&stream, &[usize::MAX], &[]);
        prop_assert_eq!(decode(&stream, &sizes, &[]), whole.clone());
        prop_assert_eq!(decode(&stream, &[1], &[]), whole);
        let _ = Upstream::read(None, &stream).class();
    }
}

/// Replays recorded answers of a folder that is not part of this repository.
#[test]
fn recorded_answers_decode_to_what_is_expected_of_them() {
    let Ok(pack) = std::env::var("PROVOST_FIXTURES") else {
        let mut out = std::io::stderr().lock();
        let _ = std::io::Write::write_all(&mut out, b"skipped: PROVOST_FIXTURES names no folder\n");
        return;
    };
    let mut seen = 0;
    for folder in ["anthropic", "vertex", "bedrock", "azure"] {
        let Ok(files) = std::fs::read_dir(format!("{pack}/{folder}")) else {
            continue;
        };
        for file in files {
            let path = file.expect("listed").path();
            let fixture: Value =
                serde_json::from_slice(&std::fs::read(&path).expect("read")).expect("JSON");
            if fixture["dialect"] == "anthropic" {
                seen += 1;
                replay(&fixture, &path.display().to_string());
            }
        }
    }
    assert!(seen >= 22, "only {seen} recordings found");
}

fn replay(fixture: &Value, name: &str) {
    let response = &fixture["response"];
    let body = response["body"].as_str().expect("text").as_bytes();
    let status = u16::try_from(response["status"].as_u64().expect("status")).expect("small");
    let expected = &fixture["expected"];
    if status >= 400 {
        let class = Upstream::read(Some(status), body).class();
        assert_eq!(class.as_str(), expected["error_class"], "{name}");
        assert_eq!(class.retryable(), expected["retryable"], "{name}");
        return;
    }
    let streamed = body.first() != Some(&b'{');
    let sizes: &[usize] = if streamed {
        &[1, 2, 3, 7, 64, 4_096, usize::MAX]
    } else {
        &[0]
    };
    for size in sizes {
        let (answer, forwarded) = if streamed {
            decode(body, &[*size], &[])
        } else {
            document(body)
        };
        let answer = answer.unwrap_or_else(|fault| panic!("{name}: {fault:?}"));
        assert_eq!(
            answer.message.text(),
            expected["text"].as_str().expect("text"),
            "{name}"
        );
        assert_eq!(forwarded, answer.message.text(), "{name}");
        let stop = serde_json::to_value(answer.stop).expect("encodes");
        assert_eq!(stop, expected["stop"], "{name}");
        let names = answer.message.parts.iter().filter_map(|part| match part {
            Part::ToolCall { name, input, .. } => Some(json!({"name": name, "input": input})),
            _ => None,
        });
        assert_eq!(Value::from_iter(names), expected["tool_calls"], "{name}");
        let usage = serde_json::to_value(answer.usage).expect("encodes");
        for (kind, figure) in expected["usage"].as_object().expect("usage") {
            assert!(
                figure.is_null() || usage[kind] == *figure,
                "{name} {kind}: {usage}"
            );
        }
        let reasons = answer
            .message
            .parts
            .iter()
            .any(|p| matches!(p, Part::Reasoning { .. }));
        assert_eq!(reasons, expected["reasoning_present"], "{name}");
        for part in &answer.message.parts {
            if let Part::Reasoning { raw, .. } = part {
                sound(body, raw, name);
            }
        }
    }
    if streamed {
        let end =
            usize::try_from(response["terminal_at"].as_u64().expect("offset")).expect("small");
        for cut in (0..end).step_by(37) {
            assert_eq!(
                decode(&body[..cut], &[11], &[]).0,
                Err(StreamFault::Cut),
                "{name} at {cut}"
            );
        }
    }
}

/// What is kept of a reasoning block is all of it: its seal stands in the recording word for word.
fn sound(body: &[u8], raw: &str, name: &str) {
    let block: Value = serde_json::from_str(raw).expect("a block is JSON");
    let seal = block["signature"]
        .as_str()
        .or(block["data"].as_str())
        .expect("sealed");
    let body = String::from_utf8_lossy(body);
    assert!(body.contains(seal), "{name}");
}

#[test]
fn what_a_host_writes_as_null_is_nothing() {
    let stream = sse(&[
        json!({"type": "message_start", "message": {"type": "message", "content": null, "usage": {"input_tokens": 3}}}),
        json!({"type": "content_block_start", "index": null, "content_block": {"type": "thinking", "thinking": null, "signature": null}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm", "text": null}}),
        json!({"type": "content_block_start", "index": 1.0, "content_block": {"type": "text", "text": null}}),
        json!({"type": "content_block_delta", "index": "1", "delta": {"type": "text_delta", "text": "hi", "partial_json": null}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": null}),
        json!({"type": "message_stop"}),
    ]);
    let answer = golden::whole(crate::Dialect::Anthropic, &stream);
    assert_eq!(
        (answer.message.text().as_str(), answer.stop),
        ("hi", StopReason::End)
    );
    assert_eq!(golden::reasoning(&answer).len(), 1);
}
