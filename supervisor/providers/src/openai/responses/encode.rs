//! A request to a Responses body. Order on the wire is instructions, tools, then items from the oldest
//! on, so that each call begins with the bytes of the call before.

use protocol::{Infer, Part};
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::super::chat::arguments;
use crate::dialect::{
    Kind, Outgoing, Target, Unsendable,
    history::{self, Turn, WireIds},
    segment, wish,
};

/// The dialect refuses a smaller output limit.
const LEAST_OUTPUT: u32 = 16;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Value>,
    #[serde(flatten)]
    more: &'a Map<String, Value>,
    instructions: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    input: Vec<Item<'a>>,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    /// Strict mode refuses schemas with optional keys.
    strict: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    Message {
        r#type: &'static str,
        role: &'static str,
        content: [Content<'a>; 1],
    },
    Call {
        r#type: &'static str,
        call_id: String,
        name: &'a str,
        arguments: String,
    },
    Output {
        r#type: &'static str,
        call_id: String,
        output: &'a str,
    },
    Raw(Box<RawValue>),
}

#[derive(Serialize)]
struct Content<'a> {
    r#type: &'static str,
    text: &'a str,
}

/// Encodes a request as the bytes of a streaming call.
///
/// # Errors
/// [`Unsendable`] when there is nothing to send.
pub(crate) fn encode(request: &Infer, target: &Target<'_>) -> Result<Outgoing, Unsendable> {
    let turns = history::turns(&request.messages, target);
    if turns.is_empty() {
        return Err(Unsendable::Empty);
    }
    let quirks = target.quirks;
    let limit = request.max_output.min(target.max_output).max(LEAST_OUTPUT);
    let tools = request.tools.iter().map(|tool| Tool {
        r#type: "function",
        name: &tool.name,
        description: &tool.description,
        parameters: &tool.input_schema,
        strict: false,
    });
    let mut input = items(&turns, target);
    attach(&mut input, target)?;
    let body = Body {
        model: target.model,
        stream: true,
        store: false,
        include: if quirks.no_sealed_reasoning {
            Vec::new()
        } else {
            vec!["reasoning.encrypted_content"]
        },
        max_output_tokens: (!quirks.no_output_limit).then_some(limit),
        text: target.schema().map(|schema| {
            json!({"format": {"type": "json_schema", "name": wish::NAME, "schema": schema,
                "strict": wish::is_strict(schema)}})
        }),
        more: &quirks.body,
        instructions: &request.system,
        tools: tools.collect(),
        input,
    };
    let path = quirks.path.as_deref().unwrap_or("/responses");
    Ok(Outgoing {
        path: path.replace("{model}", &segment(target.model)),
        headers: Vec::new(),
        accept: "text/event-stream, application/json",
        body: serde_json::to_vec(&body)?,
    })
}

/// Puts what is attached before the last words of the person.
fn attach(input: &mut [Item<'_>], target: &Target<'_>) -> Result<(), Unsendable> {
    let mut parts = target.attached(|file| {
        Some(match file.kind {
            Kind::Image => json!({"type": "input_image", "image_url": file.url()}),
            Kind::Document => {
                json!({"type": "input_file", "filename": file.name, "file_data": file.url()})
            }
        })
    })?;
    let said = |item: &&mut Item<'_>| matches!(item, Item::Message { role: "user", .. });
    let last = input.iter_mut().rfind(said).filter(|_| !parts.is_empty());
    if let Some(last) = last
        && let Item::Message {
            content: [words], ..
        } = last
    {
        parts.push(json!({"type": words.r#type, "text": words.text}));
        let message = json!({"type": "message", "role": "user", "content": parts});
        *last = Item::Raw(serde_json::value::to_raw_value(&message)?);
    }
    Ok(())
}

fn items<'a>(turns: &[Turn<'a>], target: &Target<'_>) -> Vec<Item<'a>> {
    let mut ids = WireIds::default();
    let mut items = Vec::new();
    for turn in turns {
        match turn {
            Turn::User { results, texts } => {
                items.extend(results.iter().map(|result| Item::Output {
                    r#type: "function_call_output",
                    call_id: ids.of(result.id, target),
                    output: result.content,
                }));
                items.extend(texts.iter().map(|text| message("user", "input_text", text)));
            }
            Turn::Assistant { parts } => {
                for part in parts {
                    match part {
                        Part::Text { text } => {
                            items.push(message("assistant", "output_text", text));
                        }
                        Part::Reasoning { raw, .. } => items.extend(sealed(raw).map(Item::Raw)),
                        Part::ToolCall { id, name, input } => items.push(Item::Call {
                            r#type: "function_call",
                            call_id: ids.of(id.as_str(), target),
                            name,
                            arguments: arguments(input),
                        }),
                        Part::ToolResult { .. } => {}
                    }
                }
            }
        }
    }
    items
}

fn message<'a>(role: &'static str, kind: &'static str, text: &'a str) -> Item<'a> {
    Item::Message {
        r#type: "message",
        role,
        content: [Content { r#type: kind, text }],
    }
}

/// A reasoning item that means something to a provider that has stored nothing: one with a seal, or
/// one whose text is in it.
fn sealed(raw: &str) -> Option<Box<RawValue>> {
    let item: Value = serde_json::from_str(raw).ok()?;
    let seal = item.get("encrypted_content").and_then(Value::as_str);
    let content = item.get("content").and_then(Value::as_array);
    let whole = seal.is_some_and(|s| !s.is_empty()) || content.is_some_and(|c| !c.is_empty());
    whole.then(|| RawValue::from_string(raw.to_owned()).ok())?
}

#[cfg(test)]
mod tests;
