//! What the tests of all dialects share: whole, in pieces of any size, cut anywhere.

use protocol::{CallId, Infer, Inference, Message, Part, Role, ToolSpec};
use serde_json::{Value, json};

use super::{Dialect, Quirks, StreamFault, Target};

/// A target with quirks.
pub(crate) fn target(quirks: &Quirks) -> Target<'_> {
    Target {
        provider: "p",
        model: "m",
        max_output: 1_000,
        window: 100_000,
        quirks,
        wish: None,
    }
}

/// The answer and the text that was forwarded, for a body in pieces of one size.
pub(crate) fn decode(
    dialect: Dialect,
    quirks: &Quirks,
    body: &[u8],
    size: usize,
) -> (Result<Inference, StreamFault>, String) {
    let mut decoder = dialect.decoder(&target(quirks), &[]).expect("a wire");
    let mut text = String::new();
    for piece in body.chunks(size.max(1)) {
        match decoder.push(piece, &mut |t| text.push_str(t)) {
            Ok(false) => {}
            Ok(true) => break,
            Err(fault) => return (Err(fault), text),
        }
    }
    let answer = decoder.finish(&mut |t| text.push_str(t));
    (answer, text)
}

/// The answer of a body, which must be the same in all pieces, and its text the forwarded one.
pub(crate) fn whole(dialect: Dialect, body: &str) -> Inference {
    whole_with(dialect, &Quirks::default(), body)
}

pub(crate) fn whole_with(dialect: Dialect, quirks: &Quirks, body: &str) -> Inference {
    let (answer, text) = decode(dialect, quirks, body.as_bytes(), usize::MAX);
    let answer = answer.unwrap_or_else(|fault| panic!("{fault:?}: {body}"));
    assert_eq!(answer.message.text(), text, "forwarded as it stands");
    for size in [1, 2, 3, 7, 64] {
        let pieces = decode(dialect, quirks, body.as_bytes(), size);
        assert_eq!(
            pieces,
            (Ok(answer.clone()), text.clone()),
            "pieces of {size}"
        );
    }
    answer
}

/// Every cut before `end` breaks the answer off; none finishes it.
pub(crate) fn every_cut_is_seen(dialect: Dialect, body: &str, end: &str) {
    let end = body.find(end).expect("the terminal event");
    assert!(end > 20);
    for cut in 0..end {
        let (answer, _) = decode(dialect, &Quirks::default(), &body.as_bytes()[..cut], 5);
        assert_eq!(answer, Err(StreamFault::Cut), "cut at {cut}");
    }
}

/// The calls of an answer, each as (id, name, input).
pub(crate) fn calls(answer: &Inference) -> Vec<(String, String, Value)> {
    let call = |part: &Part| match part {
        Part::ToolCall { id, name, input } => {
            Some((id.as_str().to_owned(), name.clone(), input.clone()))
        }
        _ => None,
    };
    answer.message.parts.iter().filter_map(call).collect()
}

/// The reasoning blocks of an answer.
pub(crate) fn reasoning(answer: &Inference) -> Vec<String> {
    let raw = |part: &Part| match part {
        Part::Reasoning { raw, .. } => Some(raw.clone()),
        _ => None,
    };
    answer.message.parts.iter().filter_map(raw).collect()
}

/// The usage of an answer as an array.
pub(crate) fn usage(answer: &Inference) -> [Option<u64>; 5] {
    let u = answer.usage;
    [
        u.input_uncached,
        u.cache_read,
        u.cache_write,
        u.output,
        u.reasoning,
    ]
}

pub(crate) fn call(id: &str, input: Value) -> Part {
    Part::ToolCall {
        id: CallId::parse(id).expect("fits"),
        name: "bash".into(),
        input,
    }
}

pub(crate) fn result(id: &str, content: &str) -> Part {
    Part::ToolResult {
        id: CallId::parse(id).expect("fits"),
        content: content.into(),
        is_error: false,
    }
}

pub(crate) fn thought(raw: &str) -> Part {
    Part::Reasoning {
        provider: "p".into(),
        model: "m".into(),
        raw: raw.into(),
    }
}

pub(crate) fn text(text: &str) -> Part {
    Part::Text { text: text.into() }
}

pub(crate) fn assistant(parts: Vec<Part>) -> Message {
    Message {
        role: Role::Assistant,
        parts,
    }
}

pub(crate) fn user(parts: Vec<Part>) -> Message {
    Message {
        role: Role::User,
        parts,
    }
}

pub(crate) fn request(messages: Vec<Message>) -> Infer {
    Infer {
        id: 1,
        system: "You work in a box.".into(),
        messages,
        tools: vec![ToolSpec {
            name: "bash".into(),
            description: "runs".into(),
            input_schema: json!({"type": "object"}),
        }],
        max_output: 4_096,
    }
}

/// The body of a request in a dialect.
pub(crate) fn encoded(dialect: Dialect, quirks: &Quirks, messages: Vec<Message>) -> Value {
    let outgoing = dialect.encode(&request(messages), &target(quirks));
    serde_json::from_slice(&outgoing.expect("sendable").body).expect("JSON")
}

/// Each call begins with the bytes of the call before, up to the end of its list of messages.
pub(crate) fn prefixes_hold(dialect: Dialect, list: &str) {
    let mut messages = vec![Message::user("start")];
    let mut before = String::new();
    for turn in 0..6 {
        let outgoing = dialect.encode(&request(messages.clone()), &target(&Quirks::default()));
        let bytes = outgoing.expect("sendable").body;
        let body = String::from_utf8(bytes).expect("UTF-8");
        let at = body.find(&format!("\"{list}\":[")).expect("the list");
        let end = body.rfind(']').expect("its end");
        assert!(end > at && body.starts_with(&before), "turn {turn}: {body}");
        before = body[..end].to_owned();
        let id = format!("call_{turn}");
        messages.push(assistant(vec![call(&id, json!({"z": turn, "a": 1}))]));
        messages.push(user(vec![result(&id, "fine")]));
    }
}
