//! Chat answers as they are: figures in four places, ends that come twice, calls in all their forms.

use protocol::StopReason;
use serde_json::{Value, json};

use crate::{
    Class,
    dialect::{Dialect, Quirks, StreamFault, golden},
};

const CHAT: Dialect = Dialect::OpenaiChat;

fn chunk(delta: Value, finish: Option<&str>) -> Value {
    json!({"id": "x", "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

fn sse(chunks: &[Value]) -> String {
    let lines = chunks.iter().map(|chunk| format!("data: {chunk}\n\n"));
    lines.chain(["data: [DONE]\n\n".to_owned()]).collect()
}

fn args(index: u64, text: &str) -> Value {
    chunk(
        json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]}),
        None,
    )
}

fn open(index: u64, id: &str, name: &str, text: &str) -> Value {
    chunk(
        json!({"tool_calls": [{"index": index, "id": id, "type": "function",
            "function": {"name": name, "arguments": text}}]}),
        None,
    )
}

fn figures() -> Value {
    json!({"prompt_tokens": 50, "completion_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 20},
        "completion_tokens_details": {"reasoning_tokens": 4}})
}

const FIGURES: [Option<u64>; 5] = [Some(30), Some(20), None, Some(9), Some(4)];

#[test]
fn text_reasoning_and_parallel_calls_come_out_the_same_in_any_pieces() {
    let stream = [
        ": OPENROUTER PROCESSING\n\n".to_owned(),
        sse(&[
            json!({"id": "", "choices": [], "prompt_filter_results": []}),
            chunk(
                json!({"role": "assistant", "content": null, "reasoning_content": "Hm, „ü“"}),
                None,
            ),
            chunk(json!({"reasoning_content": " so"}), None),
            chunk(json!({"content": "Grüße "}), None),
            chunk(json!({"content": "東京", "obfuscation": "xx"}), None),
            open(0, "functions.bash:0", "bash", ""),
            open(1, "call_b", "grep", "{\"a\""),
            args(0, "{\"n\":"),
            args(1, ":1}"),
            chunk(
                json!({"tool_calls": [{"index": 0, "id": null, "type": null,
                "function": {"name": null, "arguments": "0"}}]}),
                None,
            ),
            args(0, "}"),
            chunk(json!({}), Some("tool_calls")),
            json!({"choices": [], "usage": figures()}),
        ]),
    ]
    .concat();
    let answer = golden::whole(CHAT, &stream);
    assert_eq!(answer.stop, StopReason::Tool);
    assert_eq!(answer.message.text(), "Grüße 東京");
    assert_eq!(golden::usage(&answer), FIGURES);
    assert_eq!(
        golden::reasoning(&answer),
        ["{\"reasoning_content\":\"Hm, „ü“ so\"}"]
    );
    assert_eq!(
        golden::calls(&answer),
        [
            ("functions.bash:0".into(), "bash".into(), json!({"n": 0})),
            ("call_b".into(), "grep".into(), json!({"a": 1})),
        ]
    );
    golden::every_cut_is_seen(CHAT, &stream, "data: {\"choices\":[{\"delta\":{},");
    let crlf = stream.replace('\n', "\r\n");
    assert_eq!(golden::whole(CHAT, &crlf), answer);
    assert_eq!(golden::whole(CHAT, &format!("\u{feff}{stream}")), answer);
}

#[test]
fn figures_are_found_wherever_they_stand_and_the_end_may_come_twice() {
    let text = chunk(json!({"content": "hi"}), None);
    let end = chunk(json!({}), Some("stop"));
    let with = |mut chunk: Value| {
        chunk["usage"] = figures();
        chunk
    };
    let in_choice = {
        let mut chunk = end.clone();
        chunk["choices"][0]["usage"] = figures();
        chunk
    };
    let null = json!({"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": null}]});
    for stream in [
        vec![
            text.clone(),
            end.clone(),
            json!({"choices": [], "usage": figures()}),
        ],
        vec![text.clone(), with(end.clone())],
        vec![text.clone(), end.clone(), with(end.clone())],
        vec![text.clone(), end.clone(), with(null)],
        vec![text.clone(), in_choice],
    ] {
        let answer = golden::whole(CHAT, &sse(&stream));
        assert_eq!(
            (answer.stop, golden::usage(&answer)),
            (StopReason::End, FIGURES)
        );
        assert_eq!(answer.message.text(), "hi");
    }
    let without_mark = sse(&[text, end]).replace("data: [DONE]\n\n", "");
    assert_eq!(golden::whole(CHAT, &without_mark).stop, StopReason::End);
}

#[test]
fn a_cut_call_is_marked_and_calls_under_one_index_are_told_apart() {
    let cut = golden::whole(
        CHAT,
        &sse(&[
            open(0, "a", "bash", "{\"command\":\"rm"),
            chunk(json!({}), Some("length")),
        ]),
    );
    assert_eq!(cut.stop, StopReason::Length);
    assert!(crate::dialect::is_invalid(&golden::calls(&cut)[0].2));
    let same_index = golden::whole(
        CHAT,
        &sse(&[
            open(0, "a", "bash", "{}"),
            open(0, "b", "grep", "{\"x\":1}"),
            chunk(json!({}), Some("stop")),
        ]),
    );
    assert_eq!(same_index.stop, StopReason::Tool, "calls ask for tools");
    assert_eq!(golden::calls(&same_index).len(), 2);
    let no_index = golden::whole(
        CHAT,
        &sse(&[
            chunk(
                json!({"tool_calls": [{"id": "a", "function": {"name": "bash", "arguments": {"k": 1}}}]}),
                None,
            ),
            chunk(
                json!({"tool_calls": [{"id": "b", "function": {"name": "bash", "arguments": null}}]}),
                None,
            ),
            chunk(
                json!({"tool_calls": [{"id": "", "function": {"name": "x"}}, {"id": "", "function": {"name": "x"}}]}),
                None,
            ),
            chunk(json!({}), Some("tool_calls")),
        ]),
    );
    let calls = golden::calls(&no_index);
    assert_eq!(calls.len(), 4, "{calls:?}");
    assert_eq!((&calls[0].2, &calls[1].2), (&json!({"k": 1}), &json!({})));
    let broken = golden::whole(
        CHAT,
        &sse(&[
            open(0, "a", "bash", "{\"command\": ls}"),
            chunk(json!({}), Some("tool_calls")),
        ]),
    );
    assert_eq!(broken.stop, StopReason::Malformed);
}

#[test]
fn reasoning_is_kept_in_the_field_that_it_came_in() {
    let end = chunk(json!({}), Some("stop"));
    let detail = |text: &str, signature: Value| {
        chunk(
            json!({"reasoning": text, "reasoning_details": [{"type": "reasoning.text",
            "text": text, "format": "f", "index": 0, "signature": signature}]}),
            None,
        )
    };
    let sealed = |data: &str| {
        chunk(
            json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": data, "index": 1}]}),
            None,
        )
    };
    let answer = golden::whole(
        CHAT,
        &sse(&[
            detail("a", Value::Null),
            detail("b", json!("Ab+/=")),
            sealed("x"),
            sealed("y"),
            end.clone(),
        ]),
    );
    let block: Value = serde_json::from_str(&golden::reasoning(&answer)[0]).expect("JSON");
    assert_eq!(
        block,
        json!({"reasoning": "ab", "reasoning_details": [
            {"type": "reasoning.text", "text": "ab", "format": "f", "index": 0, "signature": "Ab+/="},
            {"type": "reasoning.encrypted", "data": "x", "index": 1},
            {"type": "reasoning.encrypted", "data": "y", "index": 1},
        ]})
    );
    let thinking = |text: &str| {
        chunk(
            json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]}),
            None,
        )
    };
    let answer = golden::whole(
        CHAT,
        &sse(&[
            thinking("a"),
            thinking("b"),
            chunk(json!({"content": [{"type": "text", "text": "so"}]}), None),
            chunk(json!({"content": []}), None),
            end.clone(),
        ]),
    );
    assert_eq!(answer.message.text(), "so");
    assert_eq!(
        golden::reasoning(&answer),
        [
            "{\"content\":[{\"thinking\":[{\"text\":\"ab\",\"type\":\"text\"}],\"type\":\"thinking\"}]}"
        ]
    );
    let quirks = Quirks {
        think_tags: true,
        ..Quirks::default()
    };
    let tags = [
        chunk(json!({"content": "<think>hm</th"}), None),
        chunk(json!({"content": "ink>\n\nso"}), None),
        end,
    ];
    let answer = golden::whole_with(CHAT, &quirks, &sse(&tags));
    assert_eq!(answer.message.text(), "so");
    assert_eq!(
        golden::reasoning(&answer),
        ["{\"reasoning_content\":\"hm\"}"]
    );
}

#[test]
fn reasons_to_stop_and_refusals() {
    let stop = |reason: &str| {
        golden::whole(CHAT, &sse(&[chunk(json!({"content": "x"}), Some(reason))])).stop
    };
    for (reason, expected) in [
        ("stop", StopReason::End),
        ("length", StopReason::Length),
        ("content_filter", StopReason::Filtered),
        ("sensitive", StopReason::Filtered),
        ("model_context_window_exceeded", StopReason::ContextFull),
        ("model_length", StopReason::ContextFull),
        ("error", StopReason::Malformed),
        ("whatever", StopReason::Other),
    ] {
        assert_eq!(stop(reason), expected, "{reason}");
    }
    let refusal = golden::whole(
        CHAT,
        &sse(&[
            chunk(json!({"refusal": "I cannot"}), None),
            chunk(json!({}), Some("stop")),
        ]),
    );
    assert_eq!(
        (refusal.stop, refusal.message.text()),
        (StopReason::Filtered, String::new())
    );
    for (reason, class) in [
        ("network_error", Class::Network),
        ("insufficient_system_resource", Class::Overload),
    ] {
        let stream = sse(&[chunk(json!({}), Some(reason))]);
        let (answer, _) = golden::decode(CHAT, &Quirks::default(), stream.as_bytes(), 9);
        let Err(StreamFault::InBand(upstream)) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(upstream.class(), class);
    }
}

#[test]
fn errors_inside_a_good_status_are_the_providers_word() {
    let half = chunk(json!({"content": "half"}), None);
    let error = json!({"error": {"code": 502, "message": "gone"}, "choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]});
    let inside = json!({"choices": [{"index": 0, "delta": {}, "error": {"code": 502, "message": "gone"}, "finish_reason": "error"}]});
    for error in [error, inside] {
        let stream = sse(&[half.clone(), error]);
        let (answer, text) = golden::decode(CHAT, &Quirks::default(), stream.as_bytes(), 7);
        let Err(StreamFault::InBand(upstream)) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!((upstream.class(), text.as_str()), (Class::Overload, "half"));
    }
    for bad in ["data: {\"choices\": 1}\n\n", "data: nonsense\n\n"] {
        let (answer, _) = golden::decode(CHAT, &Quirks::default(), bad.as_bytes(), 7);
        assert!(
            matches!(answer, Err(StreamFault::Malformed(_))),
            "{answer:?}"
        );
    }
}

#[test]
fn a_document_is_an_answer_too() {
    let document = json!({"object": "chat.completion", "choices": [{"index": 0, "message":
        {"role": "assistant", "content": "hi", "reasoning_content": "hm", "tool_calls": [
            {"id": "-1", "type": "function", "function": {"name": "bash", "arguments": "{\"a\":1}"}}]},
        "finish_reason": "tool_calls"}], "usage": figures()});
    let pretty = serde_json::to_string_pretty(&document).expect("JSON");
    let answer = golden::whole(CHAT, &pretty);
    assert_eq!(
        (answer.stop, golden::usage(&answer)),
        (StopReason::Tool, FIGURES)
    );
    assert_eq!(golden::calls(&answer)[0].2, json!({"a": 1}));
    assert_eq!(golden::reasoning(&answer).len(), 1);
    let object = "{\"choices\":[{\"message\":{\"content\": { \"z\": \"a b\",\n \"a\": 1 }}}]}";
    let answer = golden::whole(CHAT, object);
    assert_eq!(
        (answer.stop, answer.message.text()),
        (StopReason::End, "{\"z\":\"a b\",\"a\":1}".into())
    );
    for other in ["{\"type\":\"message\"}", "[]", "{\"choices\":[]}"] {
        let (answer, _) = golden::decode(CHAT, &Quirks::default(), other.as_bytes(), 7);
        assert!(
            matches!(answer, Err(StreamFault::Malformed(_))),
            "{answer:?}"
        );
    }
}

#[test]
fn a_broker_that_calls_a_cut_call_whole_is_not_believed() {
    let mut last = chunk(json!({}), Some("tool_calls"));
    last["choices"][0]["native_finish_reason"] = json!("max_output_tokens");
    let stream = sse(&[open(0, "a", "bash", "{\"command\": \"rm -rf /tm"), last]);
    let answer = golden::whole(CHAT, &stream);
    assert_eq!(answer.stop, StopReason::Length);
    let calls = golden::calls(&answer);
    assert!(
        calls.len() == 1 && crate::dialect::is_invalid(&calls[0].2),
        "{calls:?}"
    );

    let nothing = sse(&[
        open(0, "a", "list", "null"),
        chunk(json!({}), Some("tool_calls")),
    ]);
    let answer = golden::whole(CHAT, &nothing);
    assert_eq!(
        (answer.stop, golden::calls(&answer)[0].2.clone()),
        (StopReason::Tool, json!({}))
    );
}
