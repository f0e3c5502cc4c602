//! Streams and documents of Gemini in any pieces: the same answer, or the same refusal.

use protocol::Part;
use serde_json::{Value, json};

use super::*;
use crate::dialect::{Decode as _, Quirks, golden};

fn event(value: &Value) -> String {
    format!("data: {value}\r\n\r\n")
}

fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}}]})
}

fn end(reason: &str) -> Value {
    json!({"candidates": [{"finishReason": reason}]})
}

fn stream(chunks: &[Value]) -> String {
    chunks.iter().map(event).collect()
}

fn target(quirks: &Quirks) -> Target<'_> {
    Target {
        provider: "gemini",
        model: "gemini-3-pro",
        max_output: 9,
        window: 100_000,
        quirks,
        wish: None,
    }
}

fn decode(body: &[u8], size: usize) -> Result<(Inference, String), StreamFault> {
    let quirks = Quirks::default();
    let mut decoder = Box::new(decoder(&target(&quirks), &[]));
    let mut text = String::new();
    for piece in body.chunks(size.max(1)) {
        decoder.push(piece, &mut |more| text.push_str(more))?;
    }
    let answer = decoder.finish(&mut |more| text.push_str(more))?;
    Ok((answer, text))
}

fn good(chunks: &[Value]) -> Inference {
    let body = stream(chunks);
    let whole = decode(body.as_bytes(), body.len()).expect("an answer");
    for size in [1, 2, 3, 7, 64] {
        assert_eq!(
            decode(body.as_bytes(), size).expect("an answer"),
            whole,
            "{size}"
        );
    }
    assert_eq!(whole.1, whole.0.message.text());
    whole.0
}

fn calls(answer: &Inference) -> Vec<(String, Value)> {
    let call = |part: &Part| match part {
        Part::ToolCall { name, input, .. } => Some((name.clone(), input.clone())),
        _ => None,
    };
    answer.message.parts.iter().filter_map(call).collect()
}

fn raws(answer: &Inference) -> Vec<String> {
    let raw = |part: &Part| match part {
        Part::Reasoning { raw, .. } => Some(raw.clone()),
        _ => None,
    };
    answer.message.parts.iter().filter_map(raw).collect()
}

#[test]
fn text_thoughts_signatures_and_figures_come_out_whole() {
    let answer = good(&[
        json!({"usageMetadata": {"trafficType": "ON_DEMAND"}}),
        parts(json!([{"text": "hm", "thought": true}])),
        parts(json!([{"text": "m", "thought": true}, {"text": "Grü"}])),
        parts(json!([{"text": "ße ✅"}])),
        json!({"candidates": [{"content": {"parts": [{"text": "", "thoughtSignature": "Ab/+="}]}, "finishReason": "STOP"}],
               "usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 60, "toolUsePromptTokenCount": 5,
                                 "candidatesTokenCount": 7, "thoughtsTokenCount": 3}}),
    ]);
    assert_eq!(answer.message.text(), "Grüße ✅");
    assert_eq!(answer.stop, StopReason::End);
    assert_eq!(
        raws(&answer),
        [
            r#"{"text":"hmm","thought":true}"#,
            r#"{"text":"","thoughtSignature":"Ab/+="}"#
        ]
    );
    let usage = Usage {
        input_uncached: Some(45),
        cache_read: Some(60),
        cache_write: None,
        output: Some(10),
        reasoning: Some(3),
    };
    assert_eq!(answer.usage, usage);
}

#[test]
fn a_signed_call_keeps_its_signature_before_it_and_goes_back_the_same() {
    let answer = good(&[
        parts(json!([
            {"functionCall": {"name": "add", "args": {"a": 1}}, "thoughtSignature": "S1=="},
            {"functionCall": {"id": "f-2", "name": "add", "args": {"a": 2}}},
            {"functionCall": {"name": "ping"}},
        ])),
        end("STOP"),
    ]);
    assert_eq!(answer.stop, StopReason::Tool);
    assert_eq!(
        calls(&answer),
        [
            ("add".to_owned(), json!({"a": 1})),
            ("add".to_owned(), json!({"a": 2})),
            ("ping".to_owned(), json!({})),
        ]
    );
    assert_eq!(raws(&answer), [r#"{"thoughtSignature":"S1=="}"#]);
    let request = protocol::Infer {
        id: 1,
        system: String::new(),
        messages: vec![Message::user("x"), answer.message],
        tools: vec![],
        max_output: 9,
    };
    let quirks = Quirks::default();
    let sent = crate::gemini::encode(&request, &target(&quirks)).expect("encodes");
    assert_eq!(
        sent.path,
        "/models/gemini-3-pro:streamGenerateContent?alt=sse"
    );
    let body: Value = serde_json::from_slice(&sent.body).expect("JSON");
    assert_eq!(
        body["contents"][1]["parts"],
        json!([
            {"functionCall": {"name": "add", "args": {"a": 1}}, "thoughtSignature": "S1=="},
            {"functionCall": {"id": "f-2", "name": "add", "args": {"a": 2}}},
            {"functionCall": {"name": "ping", "args": {}}},
        ])
    );
}

#[test]
fn arguments_in_pieces_are_put_together_and_may_close_with_nothing() {
    let piece = |path: &str, text: &str, more: bool| {
        parts(
            json!([{"functionCall": {"partialArgs": [{"jsonPath": path, "stringValue": text, "willContinue": more}],
                                       "willContinue": true}}]),
        )
    };
    let open = |name: &str| parts(json!([{"functionCall": {"name": name, "willContinue": true}}]));
    let chunks = [
        open("one"),
        piece("$.city", "Bos", true),
        piece("$.city", "ton", false),
        parts(json!([{"functionCall": {}}])),
        open("two"),
        piece("$.city", "Rome", false),
    ];
    let mut closed = chunks.to_vec();
    closed.push(end("STOP"));
    let answer = good(&closed);
    let expected = [
        ("one".to_owned(), json!({"city": "Boston"})),
        ("two".to_owned(), json!({"city": "Rome"})),
    ];
    assert_eq!(
        (calls(&answer).as_slice(), answer.stop),
        (&expected[..], StopReason::Tool)
    );

    let mut cut = chunks.to_vec();
    cut.push(end("MAX_TOKENS"));
    let answer = good(&cut);
    assert_eq!(answer.stop, StopReason::Length);
    assert_eq!(calls(&answer)[0], expected[0]);
    assert!(
        calls(&answer)[1].1.get("_invalid").is_some(),
        "a cut call never runs"
    );
}

#[test]
fn every_end_has_its_word() {
    for (reason, expected) in [
        ("STOP", StopReason::End),
        ("MAX_TOKENS", StopReason::Length),
        ("SAFETY", StopReason::Filtered),
        ("IMAGE_SAFETY", StopReason::Filtered),
        ("MALFORMED_FUNCTION_CALL", StopReason::Malformed),
        ("CONTINUATION", StopReason::Continue),
        ("NEXT_YEARS_REASON", StopReason::Other),
    ] {
        assert_eq!(good(&[end(reason)]).stop, expected, "{reason}");
    }
    let blocked = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 4}});
    let answer = good(&[blocked]);
    assert_eq!(
        (answer.stop, answer.usage.input_uncached),
        (StopReason::Filtered, Some(4))
    );
    let late = good(&[end("STOP"), parts(json!([{"text": "after"}])), end("STOP")]);
    assert_eq!(late.message.text(), "after");
}

#[test]
fn a_stream_that_ends_before_its_reason_is_cut_wherever_it_is() {
    let head = stream(&[
        parts(json!([{"text": "half ü"}])),
        parts(json!([{"functionCall": {"name": "x"}}])),
    ]);
    let body = format!("{head}{}", event(&end("STOP")));
    for at in 0..body.len() - 2 {
        let result = decode(&body.as_bytes()[..at], 5);
        assert!(
            matches!(result, Err(StreamFault::Cut)),
            "cut at {at}: {result:?}"
        );
    }
}

#[test]
fn errors_and_garbage_are_faults() {
    let error = json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}});
    let body = stream(&[parts(json!([{"text": "a"}])), error.clone()]);
    assert!(matches!(
        decode(body.as_bytes(), 4),
        Err(StreamFault::InBand(_))
    ));
    for garbage in [
        "{",
        "{\"candidates\":7}",
        "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":7}]}}]}",
    ] {
        let body = format!("data: {garbage}\n\n");
        let result = decode(body.as_bytes(), 9);
        assert!(
            matches!(result, Err(StreamFault::Malformed(_))),
            "{garbage}: {result:?}"
        );
    }
    let lost = stream(&[parts(
        json!([{"functionCall": {"partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}]}}]),
    )]);
    assert!(matches!(
        decode(lost.as_bytes(), 9),
        Err(StreamFault::Malformed(_))
    ));
}

#[test]
fn a_document_and_an_array_of_chunks_are_answers_too() {
    let whole =
        json!({"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]});
    let array = json!([
        parts(json!([{"text": "h"}])),
        parts(json!([{"text": "i"}])),
        end("STOP")
    ]);
    for body in [whole.to_string(), array.to_string()] {
        let (answer, streamed) = decode(body.as_bytes(), 3).expect("an answer");
        assert_eq!(
            (answer.message.text().as_str(), streamed.as_str()),
            ("hi", "hi")
        );
        let cut = &body.as_bytes()[..body.len() - 1];
        assert_eq!(decode(cut, 3), Err(StreamFault::Cut));
    }
    let bodies = [
        json!({}),
        json!([]),
        json!({"error": {"code": 500}}),
        json!("text"),
    ];
    for body in bodies {
        let body = body.to_string();
        assert!(decode(body.as_bytes(), 3).is_err(), "{body}");
    }
}

#[test]
fn what_a_host_writes_as_null_or_as_a_fraction_is_read() {
    let chunk = json!({"candidates": [{"index": null, "finishReason": "STOP", "content": {"parts": [
        {"text": "hi", "thought": null, "thoughtSignature": null},
        {"functionCall": {"name": "bash", "args": {"a": 1}, "partialArgs": null, "willContinue": null}}]}}],
        "usageMetadata": {"promptTokenCount": 7.0, "candidatesTokenCount": "2", "thoughtsTokenCount": null}});
    let answer = golden::whole(crate::Dialect::Gemini, &format!("data: {chunk}\r\n\r\n"));
    assert_eq!(
        (answer.message.text().as_str(), answer.stop),
        ("hi", StopReason::Tool)
    );
    assert_eq!(golden::usage(&answer), [Some(7), None, None, Some(2), None]);
}
