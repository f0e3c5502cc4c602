//! A request to a Converse body whose bytes stay the same from turn to turn, so that prompt caches hit.
//!
//! Order on the wire is tools, system, messages. Models that have a prompt cache get at most four
//! marks: behind the tools (Claude only), the system prompt and the last two user messages.

use std::collections::BTreeSet;

use protocol::{Infer, Message, Part, Role};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use crate::dialect::{Attachment, CallIds, Kind, Outgoing, Target, Unsendable, segment, wish};

/// Where a streamed call goes.
const PATH: &str = "/model/{model}/converse-stream";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    inference_config: Limits,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<Value>,
    messages: Vec<Turn<'a>>,
    #[serde(flatten)]
    more: &'a serde_json::Map<String, Value>,
}

#[derive(Serialize)]
struct ToolConfig<'a> {
    tools: Vec<Tool<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Tool<'a> {
    ToolSpec(Spec<'a>),
    CachePoint(Mark),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: Schema<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Schema<'a> {
    Json(&'a Value),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Limits {
    max_tokens: u32,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: Role,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Block<'a> {
    Known(Known<'a>),
    Raw(Box<RawValue>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Known<'a> {
    Text(&'a str),
    #[serde(rename_all = "camelCase")]
    ToolUse {
        tool_use_id: String,
        name: &'a str,
        input: Input<'a>,
    },
    #[serde(rename_all = "camelCase")]
    ToolResult {
        tool_use_id: String,
        content: [Text<'a>; 1],
        status: &'static str,
    },
    CachePoint(Mark),
}

#[derive(Serialize)]
struct Text<'a> {
    text: &'a str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Input<'a> {
    Object(&'a Value),
    /// The dialect takes objects only; anything else goes back the way a broken input came.
    Other {
        _invalid: String,
    },
}

#[derive(Serialize, Clone, Copy)]
struct Mark {
    r#type: &'static str,
}

const MARK: Mark = Mark { r#type: "default" };

/// Encodes a request as a streaming Converse call.
pub(crate) fn encode(request: &Infer, target: &Target<'_>) -> Result<Outgoing, Unsendable> {
    let claude = target.model.contains("anthropic.") || target.model.contains("claude");
    let caches = claude || target.model.contains("amazon.nova");
    let blank = Value::Object(
        [("type".to_owned(), Value::from("object"))]
            .into_iter()
            .collect(),
    );
    let mut messages = turns(&request.messages, target);
    if messages.is_empty() {
        return Err(Unsendable::Empty);
    }
    let attached = wish::raw(target.attached(|file| Some(attachment(file)))?);
    if let Some(last) = messages.iter_mut().rfind(|turn| turn.role == Role::User) {
        let is_result =
            |block: &&Block<'_>| matches!(block, Block::Known(Known::ToolResult { .. }));
        let results = last.content.iter().take_while(is_result).count();
        last.content
            .splice(results..results, attached.into_iter().map(Block::Raw));
    }
    let mut tools: Vec<Tool<'_>> = request
        .tools
        .iter()
        .map(|tool| spec(&tool.name, &tool.description, &tool.input_schema))
        .collect();
    if tools.is_empty() {
        // A history with calls is refused without tools: those that it names are enough.
        let used = request.messages.iter().flat_map(|message| &message.parts);
        let names: BTreeSet<&str> = used
            .filter_map(|part| match part {
                Part::ToolCall { name, .. } => Some(name.as_str()),
                Part::Text { .. } | Part::Reasoning { .. } | Part::ToolResult { .. } => None,
            })
            .collect();
        tools.extend(names.into_iter().map(|name| spec(name, "", &blank)));
    }
    if claude && !tools.is_empty() {
        tools.push(Tool::CachePoint(MARK));
    }
    let mut system: Vec<Block<'_>> = text(&request.system).into_iter().collect();
    if caches {
        if !system.is_empty() {
            system.push(Block::Known(Known::CachePoint(MARK)));
        }
        let users = messages
            .iter_mut()
            .rev()
            .filter(|turn| turn.role == Role::User);
        for turn in users.take(2) {
            turn.content.push(Block::Known(Known::CachePoint(MARK)));
        }
    }
    let body = Body {
        tool_config: (!tools.is_empty()).then_some(ToolConfig { tools }),
        system,
        inference_config: Limits {
            max_tokens: request.max_output.clamp(1, target.max_output.max(1)),
        },
        output_config: target.schema().map(|schema| {
            let structure =
                json!({"jsonSchema": {"name": wish::NAME, "schema": schema.to_string()}});
            json!({"textFormat": {"type": "json_schema", "structure": structure}})
        }),
        messages,
        more: &target.quirks.body,
    };
    let path = target.quirks.path.as_deref().unwrap_or(PATH);
    Ok(Outgoing {
        path: path.replace("{model}", &segment(target.model)),
        headers: Vec::new(),
        accept: "application/vnd.amazon.eventstream, application/json",
        body: serde_json::to_vec(&body)?,
    })
}

fn attachment(file: &Attachment) -> Value {
    let source = json!({"bytes": file.data});
    match file.kind {
        Kind::Image => json!({"image": {"format": file.format(), "source": source}}),
        Kind::Document => {
            // The dialect takes letters, digits, single blanks and some brackets.
            let letters = |c: char| {
                if c.is_ascii_alphanumeric() || c == '-' {
                    c
                } else {
                    ' '
                }
            };
            let name: String = file.name.chars().map(letters).collect();
            let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
            json!({"document": {"format": file.format(), "name": name, "source": source}})
        }
    }
}

fn spec<'a>(name: &'a str, description: &'a str, schema: &'a Value) -> Tool<'a> {
    Tool::ToolSpec(Spec {
        name,
        description,
        input_schema: Schema::Json(schema),
    })
}

/// The dialect refuses texts that are empty or blank.
fn text(text: &str) -> Option<Block<'_>> {
    let blank = text.chars().all(char::is_whitespace);
    (!blank).then_some(Block::Known(Known::Text(text)))
}

/// Messages as turns that alternate; within a user turn results come first.
fn turns<'a>(messages: &'a [Message], target: &Target<'_>) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::new();
    for message in messages {
        let blocks = message.parts.iter().filter_map(|part| block(part, target));
        let mut content: Vec<Block<'a>> = blocks.collect();
        if message.role == Role::Assistant {
            // An answer that was cut within its reasoning: a turn may not end with such a block.
            while matches!(content.last(), Some(Block::Raw(_))) {
                content.pop();
            }
        }
        match turns.last_mut() {
            _ if content.is_empty() => {}
            Some(last) if last.role == message.role => last.content.append(&mut content),
            _ => turns.push(Turn {
                role: message.role,
                content,
            }),
        }
    }
    for turn in turns.iter_mut().filter(|turn| turn.role == Role::User) {
        let is_result = |block: &Block<'_>| matches!(block, Block::Known(Known::ToolResult { .. }));
        turn.content.sort_by_key(|block| !is_result(block));
    }
    turns
}

fn block<'a>(part: &'a Part, target: &Target<'_>) -> Option<Block<'a>> {
    match part {
        Part::Text { text: words } => text(words),
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
        Part::ToolCall { id, name, input } => Some(Block::Known(Known::ToolUse {
            tool_use_id: CallIds::Word.wire(id.as_str()),
            name,
            input: if input.is_object() {
                Input::Object(input)
            } else {
                Input::Other {
                    _invalid: input.to_string(),
                }
            },
        })),
        Part::ToolResult {
            id,
            content,
            is_error,
        } => Some(Block::Known(Known::ToolResult {
            tool_use_id: CallIds::Word.wire(id.as_str()),
            content: [Text {
                text: if content.trim().is_empty() {
                    "(no output)"
                } else {
                    content
                },
            }],
            status: if *is_error { "error" } else { "success" },
        })),
    }
}

#[cfg(test)]
mod tests {
    use protocol::{CallId, ToolSpec};
    use serde_json::json;

    use super::*;
    use crate::dialect::Quirks;

    fn request(messages: Vec<Message>, tools: &[&str]) -> Infer {
        let tool = |name: &&str| ToolSpec {
            name: (*name).into(),
            description: format!("does {name}"),
            input_schema: json!({"type": "object", "properties": {"command": {}}}),
        };
        Infer {
            id: 1,
            system: "You work in a box.".into(),
            messages,
            tools: tools.iter().map(tool).collect(),
            max_output: 4_096,
        }
    }

    fn encoded(request: &Infer, model: &str) -> (String, Value) {
        let quirks = Quirks::default();
        let target = Target {
            provider: "bedrock",
            model,
            max_output: 1_000,
            window: 100_000,
            quirks: &quirks,
            wish: None,
        };
        let sent = encode(request, &target).expect("encodes");
        assert_eq!(
            sent.path,
            format!("/model/{}/converse-stream", segment(model))
        );
        let text = String::from_utf8(sent.body).expect("UTF-8");
        let value = serde_json::from_str(&text).expect("JSON");
        (text, value)
    }

    fn call(id: &str) -> Part {
        Part::ToolCall {
            id: CallId::parse(id).expect("fits"),
            name: "bash".into(),
            input: json!({"command": "ls"}),
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

    fn said(role: Role, parts: Vec<Part>) -> Message {
        Message { role, parts }
    }

    #[test]
    fn a_whole_request_reads_as_the_dialect_says() {
        let messages = vec![
            Message::user("list"),
            said(
                Role::Assistant,
                vec![
                    Part::Text {
                        text: "I look.".into(),
                    },
                    call("f.bash:0"),
                ],
            ),
            said(
                Role::User,
                vec![
                    Part::Text {
                        text: "note".into(),
                    },
                    result("f.bash:0", "", true),
                ],
            ),
        ];
        let claude = "us.anthropic.claude-sonnet-4-6:0";
        let (_, body) = encoded(&request(messages.clone(), &["bash"]), claude);
        let id = CallIds::Word.wire("f.bash:0");
        let mark = json!({"cachePoint": {"type": "default"}});
        assert_eq!(
            body,
            json!({
                "toolConfig": {"tools": [
                    {"toolSpec": {"name": "bash", "description": "does bash",
                        "inputSchema": {"json": {"type": "object", "properties": {"command": {}}}}}},
                    mark,
                ]},
                "system": [{"text": "You work in a box."}, mark],
                "inferenceConfig": {"maxTokens": 1_000},
                "messages": [
                    {"role": "user", "content": [{"text": "list"}, mark]},
                    {"role": "assistant", "content": [{"text": "I look."},
                        {"toolUse": {"toolUseId": id, "name": "bash", "input": {"command": "ls"}}}]},
                    {"role": "user", "content": [
                        {"toolResult": {"toolUseId": id, "content": [{"text": "(no output)"}], "status": "error"}},
                        {"text": "note"}, mark]},
                ],
            })
        );
        let (text, _) = encoded(
            &request(messages.clone(), &["bash"]),
            "amazon.nova-lite-v1:0",
        );
        assert_eq!(
            text.matches("cachePoint").count(),
            3,
            "no mark behind the tools"
        );
        let (text, body) = encoded(&request(messages, &[]), "meta.llama3");
        assert!(!text.contains("cachePoint"));
        assert_eq!(
            body["toolConfig"]["tools"][0]["toolSpec"]["name"], "bash",
            "history names it"
        );
        assert_eq!(
            body["toolConfig"]["tools"].as_array().expect("tools").len(),
            1
        );
    }

    #[test]
    fn reasoning_goes_back_byte_for_byte_to_its_own_model_only() {
        let raw = r#"{"reasoningContent" : {"reasoningText":{"text":"\u003cb\u003e ü","signature":"Ab+/="}}}"#;
        let reasoning = |model: &str| Part::Reasoning {
            provider: "bedrock".into(),
            model: model.into(),
            raw: raw.into(),
        };
        let turn = |parts| {
            vec![
                Message::user("x"),
                said(Role::Assistant, parts),
                Message::user("y"),
            ]
        };
        let (own, _) = encoded(&request(turn(vec![reasoning("m"), call("a")]), &[]), "m");
        assert!(own.contains(raw), "{own}");
        let (other, _) = encoded(&request(turn(vec![reasoning("n"), call("a")]), &[]), "m");
        assert!(!other.contains("reasoning"), "{other}");
        let (cut, body) = encoded(&request(turn(vec![reasoning("m")]), &[]), "m");
        assert!(!cut.contains("reasoning"), "{cut}");
        assert_eq!(
            body["messages"].as_array().expect("turns").len(),
            1,
            "neighbours are joined"
        );
    }

    #[test]
    fn each_call_begins_with_the_bytes_of_the_call_before() {
        let mut messages = vec![Message::user("start")];
        let mark = r#",{"cachePoint":{"type":"default"}}"#;
        let mut before = String::new();
        for turn in 0..6 {
            let (text, _) = encoded(&request(messages.clone(), &["bash"]), "anthropic.claude-x");
            assert!(text.matches(mark).count() <= 4, "at most four marks");
            let head = text.find(r#""messages""#).expect("messages");
            let plain = format!("{}{}", &text[..head], text[head..].replace(mark, ""));
            assert!(plain.starts_with(&before), "turn {turn}");
            before = plain.trim_end_matches("]}").to_owned();
            let id = format!("c{turn}");
            messages.push(said(Role::Assistant, vec![call(&id)]));
            messages.push(said(Role::User, vec![result(&id, "fine", false)]));
        }
    }

    #[test]
    fn an_empty_conversation_is_not_sent() {
        let quirks = Quirks::default();
        let target = Target {
            provider: "bedrock",
            model: "m",
            max_output: 9,
            window: 100_000,
            quirks: &quirks,
            wish: None,
        };
        for messages in [vec![], vec![Message::user(" ")]] {
            let sent = encode(&request(messages, &[]), &target);
            assert!(matches!(sent, Err(Unsendable::Empty)));
        }
    }
}
