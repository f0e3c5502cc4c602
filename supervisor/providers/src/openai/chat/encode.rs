//! A request to a Chat Completions body. Order on the wire is tools, then messages from the oldest on,
//! so that each call begins with the bytes of the call before.

use protocol::{Infer, Part};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::dialect::{
    Kind, Outgoing, OutputLimit, Replay, Target, Unsendable,
    history::{self, Turn, WireIds},
    segment, wish,
};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(flatten)]
    more: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
    messages: Vec<Value>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
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
    let tools = request.tools.iter().map(|tool| Tool {
        r#type: "function",
        function: Function {
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.input_schema,
        },
    });
    let quirks = target.quirks;
    let limit = request.max_output.clamp(1, target.max_output.max(1));
    let limit = (!quirks.no_output_limit).then_some(limit);
    let old_name = quirks.output_limit == OutputLimit::MaxTokens;
    let told = target.schema().filter(|_| quirks.no_schema).map(|schema| {
        let words = "Answer with one JSON object, and nothing else, that fits this JSON Schema:";
        let system = request.system.trim_end();
        format!("{system}\n\n{words}\n{schema}")
            .trim_start()
            .to_owned()
    });
    let system = told.as_deref().unwrap_or(&request.system);
    let mut messages = messages(system, &turns, target);
    attach(&mut messages, target)?;
    let body = Body {
        model: target.model,
        stream: true,
        stream_options: (!quirks.no_stream_options).then_some(StreamOptions {
            include_usage: true,
        }),
        max_tokens: limit.filter(|_| old_name),
        max_completion_tokens: limit.filter(|_| !old_name),
        tools: tools.collect(),
        more: &quirks.body,
        response_format: target
            .schema()
            .map(|schema| wish::response_format(schema, quirks.no_schema)),
        messages,
    };
    let path = quirks.path.as_deref().unwrap_or("/chat/completions");
    Ok(Outgoing {
        path: path.replace("{model}", &segment(target.model)),
        headers: Vec::new(),
        accept: "text/event-stream, application/json",
        body: serde_json::to_vec(&body)?,
    })
}

/// Puts what is attached before the last words of the person.
fn attach(messages: &mut [Value], target: &Target<'_>) -> Result<(), Unsendable> {
    let quirks = target.quirks;
    let mut parts = target.attached(|file| match file.kind {
        _ if quirks.no_attachments => None,
        Kind::Image => Some(json!({"type": "image_url", "image_url": {"url": file.url()}})),
        Kind::Document if quirks.document_urls => Some(
            json!({"type": "document_url", "document_url": file.url(), "document_name": file.name}),
        ),
        Kind::Document => {
            Some(json!({"type": "file", "file": {"filename": file.name, "file_data": file.url()}}))
        }
    })?;
    let last = messages
        .iter_mut()
        .rfind(|message| message["role"] == "user");
    let content = last.and_then(|message| message.get_mut("content"));
    if let (false, Some(content)) = (parts.is_empty(), content) {
        match content.take() {
            Value::Array(said) => parts.extend(said),
            said => parts.push(json!({"type": "text", "text": said})),
        }
        *content = parts.into();
    }
    Ok(())
}

fn messages(system: &str, turns: &[Turn<'_>], target: &Target<'_>) -> Vec<Value> {
    let quirks = target.quirks;
    let mut ids = WireIds::default();
    let mut messages = Vec::new();
    if !system.trim().is_empty() {
        let role = quirks.system_role.as_deref().unwrap_or("system");
        messages.push(json!({"role": role, "content": text(system, quirks.cache_marks)}));
    }
    let users = turns
        .iter()
        .filter(|turn| matches!(turn, Turn::User { .. }));
    let mut users_left = users.count();
    for turn in turns {
        match turn {
            Turn::User { results, texts } => {
                // A prefix ends well where the conversation ended in this call and in the one before.
                let mark = quirks.cache_marks && users_left <= 2;
                users_left -= 1;
                let said = texts.join("\n\n");
                let inside = quirks.no_user_after_tool && !results.is_empty() && !said.is_empty();
                let last = results.len().saturating_sub(1);
                for (at, result) in results.iter().enumerate() {
                    let id = ids.of(result.id, target);
                    let mut content = result.content.to_owned();
                    if inside && at == last {
                        content = format!("{content}\n\n{said}");
                    }
                    let content = text(&content, mark && at == last && texts.is_empty());
                    messages.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
                }
                if !inside && !said.is_empty() {
                    messages.push(json!({"role": "user", "content": text(&said, mark)}));
                }
            }
            Turn::Assistant { parts } => messages.push(assistant(parts, &mut ids, target)),
        }
    }
    messages
}

/// A content: plain text, or one block with a mark for the prompt cache.
fn text(text: &str, mark: bool) -> Value {
    if mark {
        json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}])
    } else {
        json!(text)
    }
}

fn assistant(parts: &[&Part], ids: &mut WireIds, target: &Target<'_>) -> Value {
    let (mut said, mut calls) = (Vec::new(), Vec::new());
    let mut reasoning = Map::new();
    for part in parts {
        match part {
            Part::Text { text } => said.push(text.as_str()),
            Part::Reasoning { raw, .. } => {
                if let Ok(Value::Object(block)) = serde_json::from_str(raw) {
                    merge(&mut reasoning, block);
                }
            }
            Part::ToolCall { id, name, input } => calls.push(json!({
                "id": ids.of(id.as_str(), target),
                "type": "function",
                "function": {"name": name, "arguments": arguments(input)},
            })),
            Part::ToolResult { .. } => {}
        }
    }
    let replayed = match target.quirks.replay {
        Replay::AsReceived => true,
        Replay::WithCalls => !calls.is_empty(),
        Replay::Never => false,
    };
    let mut message = if replayed { reasoning } else { Map::new() };
    let said = said.concat();
    // Thinking that came as a list of content goes back as the head of one.
    match message.remove("content") {
        Some(Value::Array(mut content)) => {
            if !said.is_empty() {
                content.push(json!({"type": "text", "text": said}));
            }
            message.insert("content".into(), content.into());
        }
        _ if said.is_empty() => {
            message.insert("content".into(), Value::Null);
        }
        _ => {
            message.insert("content".into(), said.into());
        }
    }
    message.insert("role".into(), "assistant".into());
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.into());
    }
    message.into()
}

/// Reasoning of several answers in one turn: texts and lists are joined.
fn merge(known: &mut Map<String, Value>, more: Map<String, Value>) {
    for (key, value) in more {
        match (known.get_mut(&key), value) {
            (Some(Value::String(text)), Value::String(more)) => text.push_str(&more),
            (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
            (_, value) => {
                known.insert(key, value);
            }
        }
    }
}

/// Arguments as the text of an object, which hosts parse.
pub(crate) fn arguments(input: &Value) -> String {
    if input.is_object() {
        input.to_string()
    } else {
        json!({"_invalid": input.to_string()}).to_string()
    }
}

#[cfg(test)]
mod tests;
