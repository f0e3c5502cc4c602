//! A request to a Messages body whose bytes stay the same from turn to turn, so that prompt caches hit.
//!
//! Order on the wire is tools, system, messages, each a prefix of the next call's. At most four cache
//! marks: the last tool, the system prompt, and the ends of the last two user messages.

use protocol::{Infer, Message, Part, Role};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::dialect::{Attachment, CallIds, Kind, Outgoing, Target, Unsendable, segment, wish};

#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    anthropic_version: Option<&'a str>,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<serde_json::Value>,
    messages: Vec<Turn<'a>>,
    #[serde(flatten)]
    more: &'a serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a serde_json::Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Mark>,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: Role,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Block<'a> {
    Text {
        r#type: &'static str,
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    Call {
        r#type: &'static str,
        id: String,
        name: &'a str,
        input: Input<'a>,
    },
    Result {
        r#type: &'static str,
        tool_use_id: String,
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    Raw(Box<RawValue>),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Input<'a> {
    Object(&'a serde_json::Value),
    /// The dialect takes objects only; anything else goes back the way a broken input came.
    Other {
        _invalid: String,
    },
}

#[derive(Serialize, Clone, Copy)]
struct Mark {
    r#type: &'static str,
}

const MARK: Option<Mark> = Some(Mark {
    r#type: "ephemeral",
});

/// Encodes a request as the bytes of a streaming Messages call.
///
/// # Errors
/// [`Unsendable`] when there is nothing to send.
pub(crate) fn encode(request: &Infer, target: &Target<'_>) -> Result<Outgoing, Unsendable> {
    let mut tools: Vec<Tool<'_>> = request
        .tools
        .iter()
        .map(|tool| Tool {
            name: &tool.name,
            description: &tool.description,
            input_schema: &tool.input_schema,
            cache_control: None,
        })
        .collect();
    if let Some(last) = tools.last_mut() {
        last.cache_control = MARK;
    }
    let system = text(&request.system, MARK).into_iter().collect();
    let mut messages = turns(&request.messages, target);
    if messages.is_empty() {
        return Err(Unsendable::Empty);
    }
    let users = messages
        .iter_mut()
        .rev()
        .filter(|turn| turn.role == Role::User);
    for turn in users.take(2) {
        if let Some(Block::Text { cache_control, .. } | Block::Result { cache_control, .. }) =
            turn.content.last_mut()
        {
            *cache_control = MARK;
        }
    }
    let attached = wish::raw(target.attached(|file| Some(attachment(file)))?);
    if let Some(last) = messages.iter_mut().rfind(|turn| turn.role == Role::User) {
        let results = last
            .content
            .iter()
            .take_while(|block| matches!(block, Block::Result { .. }))
            .count();
        last.content
            .splice(results..results, attached.into_iter().map(Block::Raw));
    }
    let version = target.quirks.body_version.as_deref();
    let body = Body {
        model: version.is_none().then_some(target.model),
        anthropic_version: version,
        max_tokens: request.max_output.clamp(1, target.max_output.max(1)),
        stream: true,
        tools,
        system,
        output_config: target
            .schema()
            .map(|schema| serde_json::json!({"format": {"type": "json_schema", "schema": schema}})),
        messages,
        more: &target.quirks.body,
    };
    let path = match &target.quirks.path {
        Some(path) => path.replace("{model}", &segment(target.model)),
        None => "/v1/messages".to_owned(),
    };
    let version = version
        .is_none()
        .then(|| ("anthropic-version", super::VERSION.to_owned()));
    Ok(Outgoing {
        path,
        headers: version.into_iter().collect(),
        accept: "text/event-stream, application/json",
        body: serde_json::to_vec(&body)?,
    })
}

/// A picture or a document, before the words that speak of it.
fn attachment(file: &Attachment) -> serde_json::Value {
    let source = serde_json::json!({"type": "base64", "media_type": file.media, "data": file.data});
    match file.kind {
        Kind::Image => serde_json::json!({"type": "image", "source": source}),
        Kind::Document if file.media == "application/pdf" => {
            serde_json::json!({"type": "document", "source": source, "title": file.name})
        }
        // Any other one is plain text, as text.
        Kind::Document => {
            let source = serde_json::json!({"type": "text", "media_type": "text/plain", "data": file.text()});
            serde_json::json!({"type": "document", "source": source, "title": file.name})
        }
    }
}

/// The dialect refuses texts that are empty or blank.
fn text(text: &str, cache_control: Option<Mark>) -> Option<Block<'_>> {
    let blank = text.chars().all(char::is_whitespace);
    (!blank).then_some(Block::Text {
        r#type: "text",
        text,
        cache_control,
    })
}

/// Messages as turns: neighbours of one role are joined, and within a user turn results come first.
fn turns<'a>(messages: &'a [Message], target: &Target<'_>) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::new();
    for message in messages {
        let mut content: Vec<Block<'a>> = message
            .parts
            .iter()
            .filter_map(|part| block(part, target))
            .collect();
        match turns.last_mut() {
            Some(last) if last.role == message.role => last.content.append(&mut content),
            _ => turns.push(Turn {
                role: message.role,
                content,
            }),
        }
    }
    for turn in &mut turns {
        match turn.role {
            Role::User => turn
                .content
                .sort_by_key(|b| !matches!(b, Block::Result { .. })),
            // An answer that was cut within its reasoning: a turn may not end with such a block.
            Role::Assistant => {
                while matches!(turn.content.last(), Some(Block::Raw(_))) {
                    turn.content.pop();
                }
            }
        }
    }
    let mut joined: Vec<Turn<'a>> = Vec::new();
    for mut turn in turns.into_iter().filter(|turn| !turn.content.is_empty()) {
        match joined.last_mut() {
            Some(last) if last.role == turn.role => last.content.append(&mut turn.content),
            _ => joined.push(turn),
        }
    }
    joined
}

fn block<'a>(part: &'a Part, target: &Target<'_>) -> Option<Block<'a>> {
    match part {
        Part::Text { text: words } => text(words, None),
        Part::Reasoning {
            provider,
            model,
            raw,
        } => {
            let ours = provider == target.provider && model == target.model;
            let raw = ours
                .then(|| RawValue::from_string(raw.clone()).ok())
                .flatten()?;
            raw.get().starts_with('{').then_some(Block::Raw(raw))
        }
        Part::ToolCall { id, name, input } => Some(Block::Call {
            r#type: "tool_use",
            id: wire_id(id.as_str()),
            name,
            input: if input.is_object() {
                Input::Object(input)
            } else {
                Input::Other {
                    _invalid: input.to_string(),
                }
            },
        }),
        Part::ToolResult {
            id,
            content,
            is_error,
        } => Some(Block::Result {
            r#type: "tool_result",
            tool_use_id: wire_id(id.as_str()),
            // The dialect refuses an error without words, and a mark on an empty block.
            content: if content.is_empty() {
                "(no output)"
            } else {
                content
            },
            is_error: *is_error,
            cache_control: None,
        }),
    }
}

/// The dialect takes letters, digits, `_` and `-`.
fn wire_id(id: &str) -> String {
    CallIds::Word.wire(id)
}

#[cfg(test)]
mod tests {
    use protocol::{CallId, ToolSpec};
    use serde_json::{Value, json};

    use super::*;
    use crate::dialect::Quirks;

    fn bytes_of(messages: Vec<Message>) -> Result<Vec<u8>, Unsendable> {
        let target = Target {
            provider: "anthropic",
            model: "claude-opus-5",
            max_output: 1_000,
            window: 100_000,
            quirks: &Quirks::default(),
            wish: None,
        };
        Ok(encode(&request(messages), &target)?.body)
    }

    fn request(messages: Vec<Message>) -> Infer {
        let tool = |name: &str| ToolSpec {
            name: name.into(),
            description: format!("does {name}"),
            input_schema: json!({"type": "object", "properties": {"b": {}, "a": {}}}),
        };
        Infer {
            id: 1,
            system: "You work in a box.".into(),
            messages,
            tools: vec![tool("bash"), tool("grep")],
            max_output: 4_096,
        }
    }

    fn call(id: &str, input: Value) -> Part {
        Part::ToolCall {
            id: CallId::parse(id).expect("fits"),
            name: "bash".into(),
            input,
        }
    }

    fn result(id: &str, content: &str, is_error: bool) -> Part {
        let id = CallId::parse(id).expect("fits");
        Part::ToolResult {
            id,
            content: content.into(),
            is_error,
        }
    }

    fn assistant(parts: Vec<Part>) -> Message {
        Message {
            role: Role::Assistant,
            parts,
        }
    }

    fn encoded(messages: Vec<Message>) -> Value {
        let bytes = bytes_of(messages).expect("encodes");
        serde_json::from_slice(&bytes).expect("JSON")
    }

    #[test]
    fn a_whole_request_reads_as_the_dialect_says() {
        let body = encoded(vec![
            Message::user("list the files"),
            assistant(vec![
                Part::Text {
                    text: "I look.".into(),
                },
                call("toolu_1", json!({"command": "ls"})),
            ]),
            Message {
                role: Role::User,
                parts: vec![result("toolu_1", "a.rs", false)],
            },
        ]);
        let mark = json!({"type": "ephemeral"});
        let schema = json!({"type": "object", "properties": {"b": {}, "a": {}}});
        assert_eq!(
            body,
            json!({
                "model": "claude-opus-5",
                "max_tokens": 1_000,
                "stream": true,
                "tools": [
                    {"name": "bash", "description": "does bash", "input_schema": schema},
                    {"name": "grep", "description": "does grep", "input_schema": schema, "cache_control": mark},
                ],
                "system": [{"type": "text", "text": "You work in a box.", "cache_control": mark}],
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "list the files", "cache_control": mark}]},
                    {"role": "assistant", "content": [
                        {"type": "text", "text": "I look."},
                        {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}},
                    ]},
                    {"role": "user", "content": [
                        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.rs", "cache_control": mark},
                    ]},
                ],
            })
        );
    }

    #[test]
    fn each_call_begins_with_the_bytes_of_the_call_before() {
        let mut messages = vec![Message::user("start")];
        let mark = r#","cache_control":{"type":"ephemeral"}"#;
        let mut before = String::new();
        for turn in 0..6 {
            let bytes = bytes_of(messages.clone()).expect("encodes");
            let text = String::from_utf8(bytes).expect("UTF-8");
            assert!(text.matches(mark).count() <= 4, "at most four marks");
            let head = text.find(r#""messages""#).expect("messages");
            let plain = format!("{}{}", &text[..head], text[head..].replace(mark, ""));
            let open = plain.trim_end_matches("]}").to_owned();
            assert!(plain.starts_with(&before), "turn {turn}");
            before = open;
            let id = format!("toolu_{turn}");
            messages.push(assistant(vec![call(&id, json!({"z": turn, "a": 1}))]));
            let parts = vec![result(&id, "fine", turn % 2 == 0)];
            messages.push(Message {
                role: Role::User,
                parts,
            });
        }
    }

    #[test]
    fn reasoning_goes_back_byte_for_byte_to_its_own_model_only() {
        let raw = r#"{"type":"thinking" , "thinking":"\u003cb\u003e ü","signature":"Ab+/="}"#;
        let reasoning = |provider: &str, model: &str| Part::Reasoning {
            provider: provider.into(),
            model: model.into(),
            raw: raw.into(),
        };
        let text = Part::Text { text: "so".into() };
        let bytes = |parts: Vec<Part>| {
            let messages = vec![Message::user("x"), assistant(parts), Message::user("y")];
            String::from_utf8(bytes_of(messages).expect("encodes")).expect("UTF-8")
        };
        let ours = bytes(vec![reasoning("anthropic", "claude-opus-5"), text.clone()]);
        assert!(ours.contains(raw), "{ours}");
        for (provider, model) in [
            ("anthropic", "claude-opus-4-8"),
            ("vertex", "claude-opus-5"),
        ] {
            let other = bytes(vec![reasoning(provider, model), text.clone()]);
            assert!(!other.contains("thinking"), "{other}");
        }
        let cut = bytes(vec![text, reasoning("anthropic", "claude-opus-5")]);
        assert!(
            !cut.contains("thinking"),
            "a turn does not end in reasoning: {cut}"
        );
    }

    #[test]
    fn what_the_dialect_refuses_is_put_right() {
        let body = encoded(vec![
            Message::user("go"),
            Message::user("  \n"),
            assistant(vec![
                Part::Text {
                    text: String::new(),
                },
                call("functions.bash:0", json!("half {")),
                call("functions_bash_0", json!({})),
            ]),
            Message {
                role: Role::User,
                parts: vec![
                    Part::Text {
                        text: "note".into(),
                    },
                    result("functions.bash:0", "", true),
                    result("functions_bash_0", "ok", false),
                ],
            },
        ]);
        let messages = body["messages"].as_array().expect("messages");
        assert_eq!(messages.len(), 3);
        assert_eq!(messages[0]["content"].as_array().expect("content").len(), 1);
        let calls = messages[1]["content"].as_array().expect("content");
        assert_eq!(calls.len(), 2);
        assert_eq!(calls[0]["input"], json!({"_invalid": "\"half {\""}));
        let id = calls[0]["id"].as_str().expect("id");
        assert!(
            id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
            "{id}"
        );
        assert_ne!(calls[0]["id"], calls[1]["id"]);
        let answers = messages[2]["content"].as_array().expect("content");
        assert_eq!(answers[0]["tool_use_id"], calls[0]["id"]);
        assert_eq!(answers[0]["content"], "(no output)");
        assert_eq!(answers[0]["is_error"], true);
        assert_eq!(answers[2]["type"], "text", "results come first");
    }

    #[test]
    fn an_empty_conversation_is_not_sent() {
        assert!(matches!(bytes_of(vec![]), Err(Unsendable::Empty)));
        assert!(matches!(
            bytes_of(vec![Message::user(" ")]),
            Err(Unsendable::Empty)
        ));
    }
}
