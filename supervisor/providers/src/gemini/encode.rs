//! A request to a `generateContent` body whose bytes stay the same from turn to turn.

use std::collections::HashMap;

use protocol::{Infer, Message, Part, Role};
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use crate::dialect::{Attachment, Outgoing, Target, Unsendable, answer::is_minted, segment, wish};

/// Where a streamed call goes below the version of the interface; without `alt=sse` the answer would
/// be one array.
const PATH: &str = "/models/{model}:streamGenerateContent?alt=sse";

/// What stands for the signature of a call that was made elsewhere; models from 3 on want one.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Instruction<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    generation_config: Generation<'a>,
    contents: Vec<Content<'a>>,
    #[serde(flatten)]
    more: &'a serde_json::Map<String, Value>,
}

#[derive(Serialize)]
struct Instruction<'a> {
    parts: [Text<'a>; 1],
}

#[derive(Serialize)]
struct Text<'a> {
    text: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters_json_schema: Option<&'a Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Generation<'a> {
    max_output_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a Value>,
}

#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    parts: Vec<Wire<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Wire<'a> {
    Text {
        text: &'a str,
        #[serde(rename = "thoughtSignature", skip_serializing_if = "Option::is_none")]
        signature: Option<Box<RawValue>>,
    },
    #[serde(rename_all = "camelCase")]
    Call {
        function_call: Call<'a>,
        #[serde(rename = "thoughtSignature", skip_serializing_if = "Option::is_none")]
        signature: Option<Box<RawValue>>,
    },
    #[serde(rename_all = "camelCase")]
    Result {
        function_response: Response<'a>,
    },
    Raw(Box<RawValue>),
}

#[derive(Serialize)]
struct Call<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    args: Input<'a>,
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

#[derive(Serialize)]
struct Response<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    response: Outcome<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Outcome<'a> {
    Result(&'a str),
    Error(&'a str),
}

/// Encodes a request; that it is streamed is a matter of the address, not of the body.
pub(crate) fn encode(request: &Infer, target: &Target<'_>) -> Result<Outgoing, Unsendable> {
    let declarations: Vec<Declaration<'_>> = request
        .tools
        .iter()
        .map(|tool| Declaration {
            name: &tool.name,
            description: &tool.description,
            parameters_json_schema: has_properties(&tool.input_schema)
                .then_some(&tool.input_schema),
        })
        .collect();
    let tools = match declarations.is_empty() {
        true => Vec::new(),
        false => vec![Tools {
            function_declarations: declarations,
        }],
    };
    let system = request.system.as_str();
    let body = Body {
        system_instruction: (!system.trim().is_empty()).then_some(Instruction {
            parts: [Text { text: system }],
        }),
        tools,
        generation_config: Generation {
            max_output_tokens: request.max_output.clamp(1, target.max_output.max(1)),
            response_mime_type: target.schema().map(|_| "application/json"),
            response_json_schema: target.schema(),
        },
        contents: contents(&request.messages, target)?,
        more: &target.quirks.body,
    };
    let path = target.quirks.path.as_deref().unwrap_or(PATH);
    Ok(Outgoing {
        path: path.replace("{model}", &segment(target.model)),
        headers: Vec::new(),
        accept: "text/event-stream, application/json",
        body: serde_json::to_vec(&body)?,
    })
}

/// An object schema without properties is refused; leaving it out means the same.
fn has_properties(schema: &Value) -> bool {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.is_some_and(|fields| !fields.is_empty())
}

/// Turns alternate and begin with the user; what has no content is left out.
fn contents<'a>(
    messages: &'a [Message],
    target: &Target<'_>,
) -> Result<Vec<Content<'a>>, Unsendable> {
    let calls = messages.iter().flat_map(|message| &message.parts);
    let names: HashMap<&str, &str> = calls
        .filter_map(|part| match part {
            Part::ToolCall { id, name, .. } => Some((id.as_str(), name.as_str())),
            Part::Text { .. } | Part::Reasoning { .. } | Part::ToolResult { .. } => None,
        })
        .collect();
    let mut contents: Vec<Content<'a>> = Vec::new();
    for message in messages {
        let (role, mut parts) = match message.role {
            Role::User => ("user", user(message, &names)),
            Role::Assistant => ("model", model(message, target)),
        };
        match contents.last_mut() {
            _ if parts.is_empty() => {}
            Some(last) if last.role == role => last.parts.append(&mut parts),
            _ => contents.push(Content { role, parts }),
        }
    }
    match contents.first() {
        None => return Err(Unsendable::Empty),
        Some(first) if first.role == "model" => contents.insert(
            0,
            Content {
                role: "user",
                parts: vec![Wire::Text {
                    text: "(The conversation begins with your answer.)",
                    signature: None,
                }],
            },
        ),
        Some(_) => {}
    }
    for content in contents.iter_mut().filter(|c| c.role == "user") {
        // Results belong right behind the calls that they answer.
        content
            .parts
            .sort_by_key(|part| !matches!(part, Wire::Result { .. }));
    }
    let inline = |file: &Attachment| {
        Some(serde_json::json!({"inlineData": {"mimeType": file.media, "data": file.data}}))
    };
    let attached = wish::raw(target.attached(inline)?);
    if let Some(last) = contents.iter_mut().rfind(|content| content.role == "user") {
        let results = last
            .parts
            .iter()
            .take_while(|part| matches!(part, Wire::Result { .. }))
            .count();
        last.parts
            .splice(results..results, attached.into_iter().map(Wire::Raw));
    }
    Ok(contents)
}

fn user<'a>(message: &'a Message, names: &HashMap<&str, &'a str>) -> Vec<Wire<'a>> {
    let part = |part: &'a Part| match part {
        Part::Text { text } if text.trim().is_empty() => None,
        Part::Text { text } => Some(Wire::Text {
            text,
            signature: None,
        }),
        Part::ToolResult {
            id,
            content,
            is_error,
        } => {
            let response = if *is_error {
                Outcome::Error(content)
            } else {
                Outcome::Result(content)
            };
            Some(Wire::Result {
                function_response: Response {
                    id: wire_id(id.as_str()),
                    name: names.get(id.as_str()).copied().unwrap_or("unknown"),
                    response,
                },
            })
        }
        // Only a model reasons and calls.
        Part::Reasoning { .. } | Part::ToolCall { .. } => None,
    };
    message.parts.iter().filter_map(part).collect()
}

fn model<'a>(message: &'a Message, target: &Target<'_>) -> Vec<Wire<'a>> {
    let mut parts: Vec<Wire<'a>> = Vec::new();
    let mut waiting: Option<Box<RawValue>> = None;
    let mut called = false;
    for part in &message.parts {
        match part {
            Part::Reasoning {
                provider,
                model,
                raw,
            } => {
                let ours = provider == target.provider && model == target.model;
                match ours.then(|| raw_part(raw)).flatten() {
                    Some(Replay::Signature(signature)) => waiting = Some(signature),
                    Some(Replay::Whole(raw)) => parts.push(Wire::Raw(raw)),
                    None => {}
                }
            }
            Part::Text { text } if text.is_empty() => {}
            Part::Text { text } => parts.push(Wire::Text {
                text,
                signature: waiting.take(),
            }),
            Part::ToolCall { id, name, input } => {
                let mut signature = waiting.take();
                if !called && signature.is_none() && wants_signature(target.model) {
                    let word = format!("\"{NO_SIGNATURE}\"");
                    signature = RawValue::from_string(word).ok();
                }
                called = true;
                parts.push(Wire::Call {
                    function_call: Call {
                        id: wire_id(id.as_str()),
                        name,
                        args: if input.is_object() {
                            Input::Object(input)
                        } else {
                            Input::Other {
                                _invalid: input.to_string(),
                            }
                        },
                    },
                    signature,
                });
            }
            // Only the user has results.
            Part::ToolResult { .. } => {}
        }
    }
    // Thoughts alone are no turn: an answer that was cut within them said nothing yet.
    let said = parts.iter().any(|part| !matches!(part, Wire::Raw(_)));
    if said { parts } else { Vec::new() }
}

enum Replay {
    Signature(Box<RawValue>),
    Whole(Box<RawValue>),
}

/// A kept reasoning block: a signature for the next part, or a part of its own.
fn raw_part(raw: &str) -> Option<Replay> {
    let fields: HashMap<String, Box<RawValue>> = serde_json::from_str(raw).ok()?;
    let mut fields = fields.into_iter();
    match (fields.next(), fields.next()) {
        (Some((name, signature)), None) if name == "thoughtSignature" => {
            Some(Replay::Signature(signature))
        }
        (Some(_), _) => RawValue::from_string(raw.to_owned())
            .ok()
            .map(Replay::Whole),
        (None, _) => None,
    }
}

/// An id that the model gave goes back; one that was made up here means nothing to it.
fn wire_id(id: &str) -> Option<&str> {
    (!is_minted(id)).then_some(id)
}

/// Models from Gemini 3 on refuse a first call of a turn that has no signature.
fn wants_signature(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let version = name.strip_prefix("gemini-").and_then(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest.get(..end.unwrap_or(rest.len()))?.parse::<u32>().ok()
    });
    version.is_some_and(|version| version >= 3)
}

#[cfg(test)]
mod tests {
    use protocol::{CallId, ToolSpec};
    use serde_json::json;

    use super::*;
    use crate::dialect::{Quirks, answer::fit_id};

    fn target<'a>(model: &'a str, quirks: &'a Quirks) -> Target<'a> {
        Target {
            provider: "gemini",
            model,
            max_output: 1_000,
            window: 100_000,
            quirks,
            wish: None,
        }
    }

    fn request(messages: Vec<Message>) -> Infer {
        let tool = |name: &str, schema: Value| ToolSpec {
            name: name.into(),
            description: format!("does {name}"),
            input_schema: schema,
        };
        Infer {
            id: 1,
            system: "You work in a box.".into(),
            messages,
            tools: vec![
                tool(
                    "bash",
                    json!({"type": "object", "properties": {"command": {"type": "string"}}}),
                ),
                tool("ping", json!({"type": "object", "properties": {}})),
            ],
            max_output: 4_096,
        }
    }

    fn call(id: &str) -> Part {
        Part::ToolCall {
            id: CallId::parse(id).expect("fits"),
            name: "bash".into(),
            input: json!({"command": "ls"}),
        }
    }

    fn result(id: &str, is_error: bool) -> Part {
        Part::ToolResult {
            id: CallId::parse(id).expect("fits"),
            content: "a.rs".into(),
            is_error,
        }
    }

    fn reasoning(model: &str, raw: &str) -> Part {
        Part::Reasoning {
            provider: "gemini".into(),
            model: model.into(),
            raw: raw.into(),
        }
    }

    fn text(text: &str) -> Part {
        Part::Text { text: text.into() }
    }

    fn said(role: Role, parts: Vec<Part>) -> Message {
        Message { role, parts }
    }

    fn encoded(messages: Vec<Message>, model: &str) -> (String, Value) {
        let quirks = Quirks::default();
        let bytes = encode(&request(messages), &target(model, &quirks))
            .expect("encodes")
            .body;
        let text = String::from_utf8(bytes).expect("UTF-8");
        let value = serde_json::from_str(&text).expect("JSON");
        (text, value)
    }

    #[test]
    fn a_whole_request_reads_as_the_dialect_says() {
        let (_, body) = encoded(
            vec![
                Message::user("list"),
                said(Role::Assistant, vec![text("I look."), call("c-7")]),
                said(Role::User, vec![text("note"), result("c-7", false)]),
            ],
            "gemini-2.5-pro",
        );
        assert_eq!(
            body,
            json!({
                "systemInstruction": {"parts": [{"text": "You work in a box."}]},
                "tools": [{"functionDeclarations": [
                    {"name": "bash", "description": "does bash", "parametersJsonSchema":
                        {"type": "object", "properties": {"command": {"type": "string"}}}},
                    {"name": "ping", "description": "does ping"},
                ]}],
                "generationConfig": {"maxOutputTokens": 1_000},
                "contents": [
                    {"role": "user", "parts": [{"text": "list"}]},
                    {"role": "model", "parts": [{"text": "I look."},
                        {"functionCall": {"id": "c-7", "name": "bash", "args": {"command": "ls"}}}]},
                    {"role": "user", "parts": [
                        {"functionResponse": {"id": "c-7", "name": "bash", "response": {"result": "a.rs"}}},
                        {"text": "note"}]},
                ],
            })
        );
    }

    #[test]
    fn a_signature_goes_back_byte_for_byte_on_its_own_part_and_to_its_own_model_only() {
        let lone = r#"{"thoughtSignature":"Ab\/+\u003d="}"#;
        let thought = r#"{"text" : "so \u003cb\u003e","thought":true}"#;
        let turn = |model: &str| {
            said(
                Role::Assistant,
                vec![
                    reasoning(model, thought),
                    reasoning(model, lone),
                    call("a"),
                    call("b"),
                    reasoning(model, r#"{"text":"","thoughtSignature":"Zz"}"#),
                ],
            )
        };
        let results = said(Role::User, vec![result("a", false), result("b", true)]);
        let (bytes, body) = encoded(
            vec![Message::user("x"), turn("gemini-3-pro"), results.clone()],
            "gemini-3-pro",
        );
        assert!(bytes.contains(thought), "{bytes}");
        assert!(
            bytes.contains(r#"}},"thoughtSignature":"Ab\/+\u003d="}"#),
            "{bytes}"
        );
        let parts = &body["contents"][1]["parts"];
        assert_eq!(parts[1]["thoughtSignature"], "Ab/+==");
        assert_eq!(parts[2].get("thoughtSignature"), None);
        assert_eq!(parts[3], json!({"text": "", "thoughtSignature": "Zz"}));
        let answers = &body["contents"][2]["parts"];
        assert_eq!(
            answers[1]["functionResponse"]["response"],
            json!({"error": "a.rs"})
        );

        let (bytes, body) = encoded(
            vec![Message::user("x"), turn("gemini-2.5-pro"), results],
            "gemini-3-pro",
        );
        assert!(
            !bytes.contains("Ab") && !bytes.contains("Zz") && !bytes.contains("thought\":true")
        );
        assert_eq!(
            body["contents"][1]["parts"][0]["thoughtSignature"],
            NO_SIGNATURE
        );
        assert_eq!(
            body["contents"][1]["parts"][1].get("thoughtSignature"),
            None
        );
    }

    #[test]
    fn made_up_ids_and_what_the_dialect_refuses_stay_away() {
        let mut taken = std::collections::HashSet::new();
        let minted = fit_id("", &mut taken);
        let (_, body) = encoded(
            vec![
                said(Role::Assistant, vec![text("first"), call(minted.as_str())]),
                said(Role::User, vec![result(minted.as_str(), false), text(" ")]),
                said(
                    Role::Assistant,
                    vec![reasoning(
                        "gemini-3-pro",
                        r#"{"text":"cut","thought":true}"#,
                    )],
                ),
                Message::user("on"),
            ],
            "gemini-3-pro",
        );
        let contents = body["contents"].as_array().expect("contents");
        let roles: Vec<_> = contents
            .iter()
            .map(|c| c["role"].as_str().expect("role"))
            .collect();
        assert_eq!(roles, ["user", "model", "user"]);
        assert_eq!(contents[1]["parts"][1]["functionCall"].get("id"), None);
        assert_eq!(contents[2]["parts"].as_array().expect("parts").len(), 2);
        let quirks = Quirks::default();
        let empty = encode(&request(vec![]), &target("m", &quirks));
        assert!(matches!(empty, Err(Unsendable::Empty)));
    }

    #[test]
    fn each_call_begins_with_the_bytes_of_the_call_before() {
        let mut messages = vec![Message::user("start")];
        let mut before = String::new();
        for turn in 0..5 {
            let (bytes, _) = encoded(messages.clone(), "gemini-3-pro");
            let open = bytes.trim_end_matches("]}").to_owned();
            assert!(bytes.starts_with(&before), "turn {turn}");
            before = open;
            let id = format!("c{turn}");
            messages.push(said(Role::Assistant, vec![call(&id)]));
            messages.push(said(Role::User, vec![result(&id, false)]));
        }
    }

    #[test]
    fn the_version_is_read_from_the_name() {
        for (model, wants) in [
            ("gemini-3-pro-preview", true),
            ("publishers/google/models/gemini-3.6-flash", true),
            ("gemini-10-pro", true),
            ("gemini-2.5-pro", false),
            ("gemma-3", false),
            ("gemini-flash-latest", false),
        ] {
            assert_eq!(wants_signature(model), wants, "{model}");
        }
    }
}
