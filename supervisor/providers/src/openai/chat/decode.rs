//! A Chat Completions stream, or one whole document, to an answer. The end is a `finish_reason`; what
//! follows it (figures, the same chunk again) is read up to `[DONE]` or the end of the body.

use std::borrow::Cow;

use protocol::{Inference, Message, StopReason, Usage};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{super::usage, reasoning::Reasoning};
use crate::{
    Class,
    classify::Upstream,
    dialect::{
        StreamFault, Target,
        answer::{PARTS, Piece, Room, Who},
        compact,
        lenient::count,
        stream::{Framing, Grammar, OnText, SoFar, Streamed},
        tags::Tags,
    },
};

/// The answer as far as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    who: Who,
    room: Room,
    reasoning: Reasoning,
    tags: Option<Tags>,
    text: String,
    calls: Vec<Call>,
    refused: bool,
    usage: Usage,
    stop: Option<StopReason>,
    /// `[DONE]` came.
    done: bool,
}

#[derive(Debug)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    object: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default, deserialize_with = "count")]
    index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    message: Option<Delta<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(default)]
    finish_reason: Option<Value>,
    /// A broker's word for what the model's own host said: its own can hide that the limit cut a call.
    #[serde(default)]
    native_finish_reason: Option<Value>,
    #[serde(default)]
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning: Option<&'a RawValue>,
    #[serde(default)]
    reasoning_details: Option<Value>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
    #[serde(borrow, default)]
    function_call: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    #[serde(default, deserialize_with = "count")]
    index: Option<u64>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    function: Option<Function<'a>>,
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
    Streamed::new(Answer::new(target, conversation), Framing::Sse)
}

impl Answer {
    /// The grammar alone, for a carrier with frames of its own.
    pub(crate) fn new(target: &Target<'_>, conversation: &[Message]) -> Self {
        Self {
            who: Who::new(target, conversation),
            room: Room::default(),
            reasoning: Reasoning::default(),
            tags: target.quirks.think_tags.then(Tags::default),
            text: String::new(),
            calls: Vec::new(),
            refused: false,
            usage: Usage::default(),
            stop: None,
            done: false,
        }
    }
}

impl Grammar for Answer {
    fn event(&mut self, data: &[u8], on_text: OnText<'_>) -> Result<bool, StreamFault> {
        if data.trim_ascii() == b"[DONE]" {
            self.done = true;
            return Ok(true);
        }
        self.room.grow(0)?;
        self.chunk(data, on_text)?;
        Ok(false)
    }

    fn document(&mut self, body: &[u8], on_text: OnText<'_>) -> Result<(), StreamFault> {
        let seen = self.chunk(body, on_text)?;
        if !seen {
            return Err(StreamFault::Malformed(
                "the answer is a document of another dialect",
            ));
        }
        self.done = true;
        // A document is whole; some hosts leave the reason out.
        self.stop.get_or_insert(StopReason::End);
        Ok(())
    }

    fn so_far(&self) -> SoFar {
        SoFar {
            content: self.room.used(),
            usage: self.usage,
        }
    }

    fn finish(mut self) -> Result<Inference, StreamFault> {
        let stop = match self.stop {
            Some(stop) => stop,
            None if self.done => StopReason::Other,
            None => return Err(StreamFault::Cut),
        };
        let stop = match stop {
            StopReason::End if self.refused => StopReason::Filtered,
            stop => stop,
        };
        if let Some(tags) = self.tags.take() {
            let (thought, said) = tags.finish();
            self.reasoning.content(&thought);
            self.text.push_str(&said);
        }
        let reasoning = self.reasoning.finish().map(Piece::Reasoning);
        let mut pieces: Vec<Piece> = reasoning.into_iter().collect();
        pieces.push(Piece::Text(self.text));
        pieces.extend(self.calls.into_iter().map(|call| Piece::Call {
            id: call.id,
            name: call.name,
            arguments: call.arguments,
        }));
        Ok(self.who.answer(pieces, stop, self.usage))
    }
}

impl Answer {
    /// One chunk, or a whole document. Whether it held a choice.
    fn chunk(&mut self, data: &[u8], on_text: OnText<'_>) -> Result<bool, StreamFault> {
        let chunk: Chunk<'_> = serde_json::from_slice(data)
            .map_err(|_| StreamFault::Malformed("a chunk cannot be read"))?;
        // Some hosts send an error in the place of a chunk.
        if chunk.error.is_some() || chunk.object.as_deref() == Some("error") {
            return Err(StreamFault::InBand(Upstream::read(None, data)));
        }
        self.count(chunk.usage.as_ref());
        let mut seen = false;
        for choice in chunk.choices.unwrap_or_default() {
            // Only one answer was asked for.
            if choice.index.unwrap_or(0) != 0 {
                continue;
            }
            seen = true;
            if let Some(error) = choice.error {
                let body = format!("{{\"error\":{}}}", error.get());
                return Err(StreamFault::InBand(Upstream::read(None, body.as_bytes())));
            }
            self.count(choice.usage.as_ref());
            for delta in [choice.delta, choice.message].into_iter().flatten() {
                self.delta(delta, on_text)?;
            }
            if let Some(Value::String(reason)) = choice.finish_reason {
                let native = choice.native_finish_reason.as_ref().and_then(Value::as_str);
                let cut = native.is_some_and(|native| {
                    matches!(
                        native,
                        "length" | "max_tokens" | "max_output_tokens" | "MAX_TOKENS"
                    )
                });
                let hidden = cut && matches!(reason.as_str(), "stop" | "tool_calls");
                self.ends(if hidden { "length" } else { &reason })?;
            }
        }
        Ok(seen)
    }

    fn delta(&mut self, delta: Delta<'_>, on_text: OnText<'_>) -> Result<(), StreamFault> {
        if let Some(text) = string(delta.reasoning_content) {
            self.room.grow(text.len())?;
            self.reasoning.content(&text);
        }
        if let Some(text) = string(delta.reasoning) {
            self.room.grow(text.len())?;
            self.reasoning.plain(&text);
        }
        if let Some(Value::Array(items)) = delta.reasoning_details {
            for item in items {
                self.room.grow(item.to_string().len())?;
                self.reasoning.detail(item);
            }
        }
        if string(delta.refusal).is_some_and(|text| !text.is_empty()) {
            self.refused = true;
        }
        if let Some(content) = delta.content {
            self.content(content, on_text)?;
        }
        for call in delta.tool_calls.unwrap_or_default() {
            self.call(call)?;
        }
        // The form of before tools: one call, without an index.
        if let Some(function) = delta.function_call {
            self.call(CallDelta {
                index: Some(0),
                id: None,
                function: Some(function),
            })?;
        }
        Ok(())
    }

    fn content(&mut self, content: &RawValue, on_text: OnText<'_>) -> Result<(), StreamFault> {
        self.room.grow(content.get().len())?;
        if let Some(text) = string(Some(content)) {
            self.say(&text, on_text);
            return Ok(());
        }
        match serde_json::from_str(content.get()) {
            Ok(Value::Array(parts)) => {
                for part in parts {
                    let kind = part.get("type").and_then(Value::as_str);
                    match (kind, part.get("text").and_then(Value::as_str)) {
                        (Some("thinking"), _) => self.reasoning.thinking(&part),
                        (Some("text" | "output_text") | None, Some(text)) => {
                            self.say(text, on_text);
                        }
                        (Some("refusal"), _) => self.refused = true,
                        _ => {}
                    }
                }
            }
            // An answer under a schema may come as the object itself.
            Ok(Value::Object(_)) => self.say(&compact(content.get()), on_text),
            _ => {}
        }
        Ok(())
    }

    fn say(&mut self, text: &str, on_text: OnText<'_>) {
        match &mut self.tags {
            None => {
                on_text(text);
                self.text.push_str(text);
            }
            Some(tags) => {
                let (thought, said) = tags.push(text);
                self.reasoning.content(&thought);
                on_text(&said);
                self.text.push_str(&said);
            }
        }
    }

    /// A call opens or grows. It is known by its index; the first id and name count.
    fn call(&mut self, delta: CallDelta<'_>) -> Result<(), StreamFault> {
        let id = delta.id.unwrap_or_default();
        let (name, arguments) = match delta.function {
            Some(function) => (function.name.unwrap_or_default(), function.arguments),
            None => (Cow::default(), None),
        };
        let known = match delta.index {
            Some(_) => self
                .calls
                .iter()
                .rposition(|call| call.index == delta.index),
            // Without an index a piece belongs to the last call, unless it names another.
            None if id.is_empty() && name.is_empty() => self.calls.len().checked_sub(1),
            None => self
                .calls
                .iter()
                .rposition(|call| call.index.is_none() && !id.is_empty() && call.id == id),
        };
        // Some hosts give every call the index 0: another id after a whole call opens another call.
        let known = known.filter(|at| {
            let other = |call: &Call| {
                !id.is_empty() && !name.is_empty() && call.id != id && is_whole(&call.arguments)
            };
            !self.calls.get(*at).is_some_and(other)
        });
        let at = match known {
            Some(at) => at,
            None if self.calls.len() >= PARTS => {
                return Err(StreamFault::TooLarge("too many tool calls"));
            }
            None => {
                self.calls.push(Call {
                    index: delta.index,
                    id: String::new(),
                    name: String::new(),
                    arguments: String::new(),
                });
                self.calls.len() - 1
            }
        };
        let Some(call) = self.calls.get_mut(at) else {
            return Ok(());
        };
        self.room.grow(id.len() + name.len())?;
        if call.id.is_empty() {
            call.id = id.into_owned();
        }
        if call.name.is_empty() {
            call.name = name.into_owned();
        }
        if let Some(arguments) = arguments.filter(|raw| raw.get() != "null") {
            let piece = string(Some(arguments)).unwrap_or(Cow::Borrowed(arguments.get()));
            self.room.grow(piece.len())?;
            call.arguments.push_str(&piece);
        }
        Ok(())
    }

    fn ends(&mut self, reason: &str) -> Result<(), StreamFault> {
        let broken = |class: Class, kind: &str| {
            StreamFault::InBand(Upstream::of(
                class,
                kind,
                "the provider ended its answer with it",
            ))
        };
        let stop = match reason {
            "" => return Ok(()),
            "stop" | "eos" | "end_turn" | "completed" | "stop_sequence" => StopReason::End,
            "tool_calls" | "function_call" | "tool_use" => StopReason::Tool,
            "length" | "max_tokens" => StopReason::Length,
            "model_length" | "model_context_window_exceeded" => StopReason::ContextFull,
            "content_filter" | "sensitive" | "safety" | "refusal" => StopReason::Filtered,
            "error" => StopReason::Malformed,
            "network_error" => return Err(broken(Class::Network, reason)),
            "insufficient_system_resource" => return Err(broken(Class::Overload, reason)),
            _ => StopReason::Other,
        };
        // The chunk may come twice; a filter has the last word.
        if self.stop.is_none() || stop == StopReason::Filtered {
            self.stop = Some(stop);
        }
        Ok(())
    }

    /// The last figures count: they are those of the whole answer.
    fn count(&mut self, usage: Option<&Value>) {
        if let Some(usage) = usage.filter(|usage| usage.is_object()) {
            let new = usage::read(usage);
            if new != Usage::default() {
                self.usage = new;
            }
        }
    }
}

fn is_whole(arguments: &str) -> bool {
    serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object())
}

/// A JSON string, borrowed where it has no escapes.
fn string(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    let raw = raw?.get();
    if !raw.starts_with('"') {
        return None;
    }
    let text: Text<'_> = serde_json::from_str(raw).ok()?;
    Some(text.0)
}

#[cfg(test)]
mod tests;
