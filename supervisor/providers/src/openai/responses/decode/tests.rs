//! Responses answers as they are: ids that change, items that come whole or in pieces, three ends.

use protocol::StopReason;
use serde_json::{Value, json};

use crate::{
    Class,
    dialect::{Dialect, Quirks, StreamFault, golden},
};

const RESPONSES: Dialect = Dialect::OpenaiResponses;

fn sse(events: &[Value]) -> String {
    let line = |event: &Value| {
        format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().unwrap_or("x")
        )
    };
    events.iter().map(line).collect()
}

fn added(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn done(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn delta(kind: &str, index: u64, delta: &str) -> Value {
    json!({"type": format!("response.{kind}.delta"), "output_index": index, "delta": delta, "obfuscation": "x"})
}

fn completed(output: Value) -> Value {
    json!({"type": "response.completed", "response": {"object": "response", "status": "completed",
        "error": null, "output": output, "usage": {"input_tokens": 50, "output_tokens": 9,
            "input_tokens_details": {"cached_tokens": 20}, "output_tokens_details": {"reasoning_tokens": 4}}}})
}

fn rich() -> Vec<Value> {
    vec![
        json!({"type": "response.queued", "response": {"status": "queued"}}),
        json!({"type": "response.created", "response": {"status": "in_progress", "error": null}}),
        added(0, json!({"type": "reasoning", "id": "rs_a", "summary": []})),
        delta("reasoning_summary_text", 0, "hm"),
        done(
            0,
            json!({"type": "reasoning", "id": "rs_b", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "gA="}),
        ),
        added(
            1,
            json!({"type": "message", "id": "msg_a", "content": [], "role": "assistant"}),
        ),
        delta("output_text", 1, "Grüße "),
        delta("output_text", 1, "東京"),
        json!({"type": "response.output_text.done", "output_index": 1, "text": "Grüße 東京"}),
        done(
            1,
            json!({"type": "message", "id": "msg_b", "content": [{"type": "output_text", "text": "Grüße 東京"}]}),
        ),
        added(2, json!({"type": "web_search_call", "id": "ws"})),
        added(
            3,
            json!({"type": "function_call", "id": "fc_a", "call_id": "call_1", "name": "bash", "arguments": ""}),
        ),
        delta("function_call_arguments", 3, "{\"n\":"),
        delta("function_call_arguments", 3, "0}"),
        json!({"type": "response.function_call_arguments.done", "output_index": 3, "arguments": "{\"n\":0}"}),
        done(
            3,
            json!({"type": "function_call", "id": "fc_b", "call_id": "call_1", "name": "bash", "arguments": "{\"n\":0}"}),
        ),
    ]
}

#[test]
fn an_answer_comes_out_the_same_in_any_pieces() {
    let mut events = rich();
    events.push(completed(json!([])));
    let stream = sse(&events);
    let answer = golden::whole(RESPONSES, &stream);
    assert_eq!(answer.stop, StopReason::Tool);
    assert_eq!(answer.message.text(), "Grüße 東京");
    assert_eq!(
        golden::usage(&answer),
        [Some(30), Some(20), None, Some(9), Some(4)]
    );
    assert_eq!(
        golden::calls(&answer),
        [("call_1".into(), "bash".into(), json!({"n": 0}))]
    );
    let raw = &golden::reasoning(&answer)[0];
    assert!(
        stream.contains(raw.as_str()) && raw.contains("rs_b"),
        "as it came: {raw}"
    );
    golden::every_cut_is_seen(RESPONSES, &stream, "event: response.completed");
    let unnamed: String = events
        .iter()
        .map(|event| format!("data: {event}\r\n\r\n"))
        .collect();
    assert_eq!(
        golden::whole(RESPONSES, &(unnamed + "data: [DONE]\n\n")),
        answer
    );
}

#[test]
fn items_that_come_whole_or_only_at_the_end_are_read() {
    let call = json!({"type": "function_call", "call_id": "c", "name": "ping", "arguments": "{}"});
    let message = json!({"type": "message", "content": [{"type": "output_text", "text": "hi"}]});
    let streams = [
        sse(&[
            done(0, message.clone()),
            done(1, call.clone()),
            completed(json!([])),
        ]),
        sse(&[completed(json!([message, call]))]),
    ];
    for stream in streams {
        let answer = golden::whole(RESPONSES, &stream);
        assert_eq!(
            (answer.message.text().as_str(), golden::calls(&answer).len()),
            ("hi", 1)
        );
        assert_eq!(golden::calls(&answer)[0].2, json!({}));
    }
    let document = completed(json!([message, call]))["response"].to_string();
    let answer = golden::whole(RESPONSES, &document);
    assert_eq!(
        (answer.message.text().as_str(), answer.stop),
        ("hi", StopReason::Tool)
    );
}

#[test]
fn an_incomplete_answer_says_why_and_its_cut_call_is_marked() {
    let incomplete = |reason: &str| {
        json!({"type": "response.incomplete", "response": {"status": "incomplete",
            "incomplete_details": {"reason": reason}, "usage": null}})
    };
    for (reason, expected) in [
        ("max_output_tokens", StopReason::Length),
        ("content_filter", StopReason::Filtered),
        ("steered", StopReason::Continue),
        ("new", StopReason::Other),
    ] {
        let mut events = rich();
        events.truncate(13);
        events.push(done(3, json!({"type": "function_call", "call_id": "call_1", "name": "bash", "arguments": "{\"n\":", "status": "incomplete"})));
        events.push(incomplete(reason));
        let answer = golden::whole(RESPONSES, &sse(&events));
        if reason == "max_output_tokens" {
            assert!(crate::dialect::is_invalid(&golden::calls(&answer)[0].2));
            assert_eq!(answer.stop, expected);
        } else {
            assert_eq!(
                answer.stop,
                StopReason::Malformed,
                "a broken call that no limit cut"
            );
        }
        let text = sse(&[delta("output_text", 0, "x"), incomplete(reason)]);
        assert_eq!(golden::whole(RESPONSES, &text).stop, expected, "{reason}");
    }
    let refusal = [delta("refusal", 0, "no"), completed(json!([]))];
    let answer = golden::whole(RESPONSES, &sse(&refusal));
    assert_eq!(
        (answer.stop, answer.message.text()),
        (StopReason::Filtered, String::new())
    );
}

#[test]
fn failures_inside_a_good_status_are_the_providers_word() {
    let failed = json!({"type": "response.failed", "response": {"status": "failed",
        "error": {"code": "server_error", "message": "oops"}}});
    let error = json!({"type": "error", "error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "slowly"}});
    let flat = json!({"type": "error", "code": "server_is_overloaded", "message": "busy"});
    for (event, class) in [
        (failed, Class::Overload),
        (error, Class::RateLimit),
        (flat, Class::Overload),
    ] {
        let stream = sse(&[delta("output_text", 0, "half"), event]);
        let (answer, text) = golden::decode(RESPONSES, &Quirks::default(), stream.as_bytes(), 7);
        let Err(StreamFault::InBand(upstream)) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(
            (upstream.class(), text.as_str()),
            (class, "half"),
            "{upstream:?}"
        );
    }
    for bad in ["data: {\"type\": 1}\n\n", "{\"type\":\"message\"}"] {
        let (answer, _) = golden::decode(RESPONSES, &Quirks::default(), bad.as_bytes(), 7);
        assert!(
            matches!(answer, Err(StreamFault::Malformed(_))),
            "{answer:?}"
        );
    }
}
