//! Ollama's own chat, both ways and pure: one JSON object a line, calls whole, the end says `done`.

use std::borrow::Cow;

use protocol::{Infer, Inference, Message, Part, StopReason, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};

use crate::{
    classify::Upstream,
    dialect::{
        Kind, Outgoing, StreamFault, Target, Unsendable,
        answer::{PARTS, Piece, Room, Who},
        history::{self, Turn, WireIds},
        lenient::{count, or_default},
        segment,
        stream::{Framing, Grammar, OnText, SoFar, Streamed},
    },
};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    options: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'a Value>,
    #[serde(flatten)]
    more: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    messages: Vec<Value>,
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
    let mut ids = WireIds::default();
    let mut messages = Vec::new();
    if !request.system.trim().is_empty() {
        messages.push(json!({"role": "system", "content": request.system}));
    }
    for turn in &turns {
        match turn {
            Turn::User { results, texts } => {
                for result in results {
                    messages.push(json!({
                        "role": "tool",
                        "content": result.content,
                        "tool_name": result.name,
                        "tool_call_id": ids.of(result.id, target),
                    }));
                }
                if !texts.is_empty() {
                    messages.push(json!({"role": "user", "content": texts.join("\n\n")}));
                }
            }
            Turn::Assistant { parts } => messages.push(assistant(parts, &mut ids, target)),
        }
    }
    let images = target.attached(|file| (file.kind == Kind::Image).then(|| json!(file.data)))?;
    let last = messages
        .iter_mut()
        .rfind(|message| message["role"] == "user");
    if let (false, Some(Value::Object(last))) = (images.is_empty(), last) {
        last.insert("images".into(), images.into());
    }
    let tools = request.tools.iter().map(|tool| {
        json!({"type": "function", "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.input_schema,
        }})
    });
    let tools: Vec<Value> = tools.collect();
    let limit = request.max_output.clamp(1, target.max_output.max(1));
    let body = Body {
        model: target.model,
        stream: true,
        // An overlong prompt is cut in silence from the front where the window is not asked for.
        options: json!({"num_predict": limit, "num_ctx": target.window}),
        format: target.schema(),
        more: &target.quirks.body,
        tools,
        messages,
    };
    let path = target.quirks.path.as_deref().unwrap_or("/api/chat");
    Ok(Outgoing {
        path: path.replace("{model}", &segment(target.model)),
        headers: Vec::new(),
        accept: "application/x-ndjson, application/json",
        body: serde_json::to_vec(&body)?,
    })
}

fn assistant(parts: &[&Part], ids: &mut WireIds, target: &Target<'_>) -> Value {
    let (mut said, mut thought, mut calls) = (String::new(), String::new(), Vec::new());
    for part in parts {
        match part {
            Part::Text { text } => said.push_str(text),
            Part::Reasoning { raw, .. } => {
                let block: Option<Value> = serde_json::from_str(raw).ok();
                let text = block
                    .as_ref()
                    .and_then(|block| block.get("thinking")?.as_str());
                thought.push_str(text.unwrap_or_default());
            }
            Part::ToolCall { id, name, input } => {
                let arguments = if input.is_object() {
                    input.clone()
                } else {
                    json!({"_invalid": input.to_string()})
                };
                calls.push(json!({
                    "id": ids.of(id.as_str(), target),
                    "function": {"name": name, "arguments": arguments},
                }));
            }
            Part::ToolResult { .. } => {}
        }
    }
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    message.insert("content".into(), said.into());
    if !thought.is_empty() {
        message.insert("thinking".into(), thought.into());
    }
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.into());
    }
    message.into()
}

/// The answer as far as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    who: Who,
    room: Room,
    thinking: String,
    text: String,
    calls: Vec<Piece>,
    usage: Usage,
    stop: Option<StopReason>,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<Said<'a>>,
    #[serde(default, deserialize_with = "or_default")]
    done: bool,
    #[serde(borrow, default)]
    done_reason: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "count")]
    prompt_eval_count: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    eval_count: Option<u64>,
}

#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow, default)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<Call<'a>>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// Begins to decode an answer of `target`; the conversation so far says which call ids are taken.
pub(crate) fn decoder(target: &Target<'_>, conversation: &[Message]) -> Streamed<Answer> {
    let answer = Answer {
        who: Who::new(target, conversation),
        room: Room::default(),
        thinking: String::new(),
        text: String::new(),
        calls: Vec::new(),
        usage: Usage::default(),
        stop: None,
    };
    Streamed::new(answer, Framing::Lines)
}

impl Grammar for Answer {
    fn event(&mut self, data: &[u8], on_text: OnText<'_>) -> Result<bool, StreamFault> {
        let line: Line<'_> = serde_json::from_slice(data)
            .map_err(|_| StreamFault::Malformed("a line cannot be read"))?;
        if line.error.is_some() {
            return Err(StreamFault::InBand(Upstream::read(None, data)));
        }
        if let Some(said) = line.message {
            let text = said.content.unwrap_or_default();
            let thinking = said.thinking.unwrap_or_default();
            self.room.grow(text.len() + thinking.len())?;
            if !text.is_empty() {
                on_text(&text);
                self.text.push_str(&text);
            }
            self.thinking.push_str(&thinking);
            for call in said.tool_calls.unwrap_or_default() {
                self.call(call)?;
            }
        }
        if line.prompt_eval_count.is_some() || line.eval_count.is_some() {
            self.usage.input_uncached = line.prompt_eval_count;
            self.usage.output = line.eval_count;
        }
        if line.done {
            self.stop = Some(match line.done_reason.as_deref() {
                Some("stop") | None => StopReason::End,
                Some("length") => StopReason::Length,
                Some(_) => StopReason::Other,
            });
        }
        Ok(line.done)
    }

    fn document(&mut self, body: &[u8], on_text: OnText<'_>) -> Result<(), StreamFault> {
        self.event(body, on_text).map(|_| ())
    }

    fn so_far(&self) -> SoFar {
        SoFar {
            content: self.room.used(),
            usage: self.usage,
        }
    }

    fn finish(self) -> Result<Inference, StreamFault> {
        let stop = self.stop.ok_or(StreamFault::Cut)?;
        let mut pieces = Vec::new();
        if !self.thinking.is_empty() {
            let raw = json!({"thinking": self.thinking}).to_string();
            pieces.push(Piece::Reasoning(raw));
        }
        pieces.push(Piece::Text(self.text));
        pieces.extend(self.calls);
        Ok(self.who.answer(pieces, stop, self.usage))
    }
}

impl Answer {
    fn call(&mut self, call: Call<'_>) -> Result<(), StreamFault> {
        if self.calls.len() >= PARTS {
            return Err(StreamFault::TooLarge("too many tool calls"));
        }
        let raw = call.function.arguments.map_or("", RawValue::get);
        // The object itself; some models write its text instead.
        let arguments = match serde_json::from_str(raw) {
            Ok(Value::String(text)) => text,
            Ok(Value::Null) => String::new(),
            _ => raw.to_owned(),
        };
        self.room.grow(arguments.len())?;
        self.calls.push(Piece::Call {
            id: call.id.unwrap_or_default().into_owned(),
            name: call.function.name.unwrap_or_default().into_owned(),
            arguments,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
