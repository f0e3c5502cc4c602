//! A Responses stream, or one whole document, to an answer. The end is `response.completed`,
//! `.incomplete` or `.failed`, or an `error` event.

use std::borrow::Cow;

use protocol::{Inference, Message, StopReason, Usage};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::super::usage;
use crate::{
    classify::Upstream,
    dialect::{
        StreamFault, Target,
        answer::{PARTS, Piece, Room, Who},
        lenient::count,
        stream::{Framing, Grammar, OnText, SoFar, Streamed},
    },
};

/// The answer as far as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    who: Who,
    room: Room,
    /// By `output_index`: ids can change on the way.
    items: Vec<(u64, Item)>,
    refused: bool,
    usage: Usage,
    stop: Option<StopReason>,
}

#[derive(Debug)]
enum Item {
    Text(String),
    /// The item as it came, once it is whole.
    Reasoning(Option<String>),
    Call {
        id: String,
        name: String,
        arguments: String,
    },
    /// What the provider carries out itself, or what we do not know.
    Passed,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Cow<'a, str>,
    #[serde(default, deserialize_with = "count")]
    output_index: Option<u64>,
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ItemHead<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    call_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(default)]
    content: Option<Value>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow, default)]
    object: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    status: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(default)]
    incomplete_details: Option<Value>,
    #[serde(borrow, default)]
    output: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    usage: Option<Value>,
}

/// Begins to decode an answer of `target`; the conversation so far says which call ids are taken.
pub(crate) fn decoder(target: &Target<'_>, conversation: &[Message]) -> Streamed<Answer> {
    let answer = Answer {
        who: Who::new(target, conversation),
        room: Room::default(),
        items: Vec::new(),
        refused: false,
        usage: Usage::default(),
        stop: None,
    };
    Streamed::new(answer, Framing::Sse)
}

impl Grammar for Answer {
    fn event(&mut self, data: &[u8], on_text: OnText<'_>) -> Result<bool, StreamFault> {
        // Some hosts close with the mark of Chat; it says nothing here.
        if data.trim_ascii() == b"[DONE]" {
            return Ok(false);
        }
        let event: Event<'_> = serde_json::from_slice(data)
            .map_err(|_| StreamFault::Malformed("an event cannot be read"))?;
        let index = event.output_index.unwrap_or(0);
        match event.kind.as_ref() {
            "error" => return Err(StreamFault::InBand(Upstream::read(None, data))),
            "response.output_item.added" => self.open(index, item(event.item)?, false, on_text)?,
            "response.output_item.done" => self.open(index, item(event.item)?, true, on_text)?,
            "response.output_text.delta" => {
                let text = text(event.delta)?;
                self.say(index, &text, on_text)?;
            }
            "response.refusal.delta" | "response.refusal.done" => self.refused = true,
            "response.function_call_arguments.delta" => {
                let piece = text(event.delta)?;
                self.room.grow(piece.len())?;
                if let Some(Item::Call { arguments, .. }) = self.at(index) {
                    arguments.push_str(&piece);
                }
            }
            "response.function_call_arguments.done" => {
                if let (Some(whole), Some(Item::Call { arguments, .. })) =
                    (event.arguments, self.at(index))
                {
                    *arguments = whole.into_owned();
                }
            }
            "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" => {
                let piece = text(event.delta)?;
                self.room.grow(piece.len())?;
                if self.at(index).is_none() {
                    self.items.push((index, Item::Reasoning(None)));
                }
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => {
                let response = event.response.map_or("{}", RawValue::get);
                self.ends(response, &event.kind, on_text)?;
                return Ok(true);
            }
            // created, queued, in_progress, parts, searches, and whatever is added.
            _ => {}
        }
        Ok(false)
    }

    fn document(&mut self, body: &[u8], on_text: OnText<'_>) -> Result<(), StreamFault> {
        let body = std::str::from_utf8(body)
            .map_err(|_| StreamFault::Malformed("the answer is not text"))?;
        let response: Response<'_> = serde_json::from_str(body)
            .map_err(|_| StreamFault::Malformed("the answer is neither a stream nor a response"))?;
        if response.object.as_deref() != Some("response") && response.output.is_none() {
            return Err(StreamFault::Malformed(
                "the answer is a document of another dialect",
            ));
        }
        self.ends(body, "", on_text)
    }

    fn so_far(&self) -> SoFar {
        SoFar {
            content: self.room.used() + self.items.len(),
            usage: self.usage,
        }
    }

    fn finish(self) -> Result<Inference, StreamFault> {
        let stop = self.stop.ok_or(StreamFault::Cut)?;
        let stop = match stop {
            StopReason::End if self.refused => StopReason::Filtered,
            stop => stop,
        };
        let pieces = self.items.into_iter().filter_map(|(_, item)| match item {
            Item::Text(text) => Some(Piece::Text(text)),
            Item::Reasoning(raw) => raw.map(Piece::Reasoning),
            Item::Call {
                id,
                name,
                arguments,
            } => Some(Piece::Call {
                id,
                name,
                arguments,
            }),
            Item::Passed => None,
        });
        Ok(self.who.answer(pieces.collect(), stop, self.usage))
    }
}

impl Answer {
    fn at(&mut self, index: u64) -> Option<&mut Item> {
        let found = self
            .items
            .iter_mut()
            .rev()
            .find(|(known, _)| *known == index);
        found.map(|(_, item)| item)
    }

    fn say(&mut self, index: u64, text: &str, on_text: OnText<'_>) -> Result<(), StreamFault> {
        self.room.grow(text.len())?;
        match self.at(index) {
            Some(Item::Text(known)) => known.push_str(text),
            Some(_) => return Ok(()),
            None => self.push(index, Item::Text(text.to_owned()))?,
        }
        on_text(text);
        Ok(())
    }

    fn push(&mut self, index: u64, item: Item) -> Result<(), StreamFault> {
        if self.items.len() >= PARTS {
            return Err(StreamFault::TooLarge("too many items"));
        }
        self.items.push((index, item));
        Ok(())
    }

    /// An item opens, or closes with all that it holds; either may be missing.
    fn open(
        &mut self,
        index: u64,
        raw: &RawValue,
        whole: bool,
        on_text: OnText<'_>,
    ) -> Result<(), StreamFault> {
        let head: ItemHead<'_> = serde_json::from_str(raw.get())
            .map_err(|_| StreamFault::Malformed("an item cannot be read"))?;
        match head.kind.as_ref() {
            "message" => {
                let (said, refused) = content(head.content.as_ref());
                self.refused |= refused;
                let known = match self.at(index) {
                    Some(Item::Text(text)) => text.len(),
                    Some(_) => return Ok(()),
                    None => {
                        self.push(index, Item::Text(String::new()))?;
                        0
                    }
                };
                // The deltas are the text; without any, the item is.
                if known == 0 && whole {
                    self.say(index, &said, on_text)?;
                }
            }
            "reasoning" => {
                let new = whole.then(|| raw.get().to_owned());
                self.room.grow(new.as_deref().map_or(0, str::len))?;
                match self.at(index) {
                    Some(Item::Reasoning(known)) => *known = new.or(known.take()),
                    Some(_) => {}
                    None => self.push(index, Item::Reasoning(new))?,
                }
            }
            "function_call" => {
                let given = head.arguments.map(|raw| arguments(raw.get()));
                if let Some(Item::Call {
                    name, arguments, ..
                }) = self.at(index)
                {
                    if let Some(given) = given.filter(|given| whole && !given.is_empty()) {
                        *arguments = given;
                    }
                    if name.is_empty() {
                        *name = head.name.unwrap_or_default().into_owned();
                    }
                    return Ok(());
                }
                let given = given.unwrap_or_default();
                self.room.grow(given.len())?;
                let id = head.call_id.or(head.id).unwrap_or_default().into_owned();
                let item = Item::Call {
                    id,
                    name: head.name.unwrap_or_default().into_owned(),
                    arguments: given,
                };
                self.push(index, item)?;
            }
            _ if self.at(index).is_none() => self.push(index, Item::Passed)?,
            _ => {}
        }
        Ok(())
    }

    /// The response is over, well or badly.
    fn ends(&mut self, raw: &str, event: &str, on_text: OnText<'_>) -> Result<(), StreamFault> {
        let response: Response<'_> = serde_json::from_str(raw)
            .map_err(|_| StreamFault::Malformed("the response cannot be read"))?;
        if let Some(usage) = response.usage.as_ref().filter(|usage| usage.is_object()) {
            self.usage = usage::read(usage);
        }
        if response.error.is_some() {
            return Err(StreamFault::InBand(Upstream::read(None, raw.as_bytes())));
        }
        // A terminal event that holds no output (Codex) is the rule; one after a silent stream tells all.
        if self.items.is_empty() {
            for (index, item) in (0..).zip(response.output.unwrap_or_default()) {
                self.open(index, item, true, on_text)?;
            }
        }
        let status = response.status.as_deref().unwrap_or(match event {
            "response.incomplete" => "incomplete",
            "response.failed" => "failed",
            "response.cancelled" => "cancelled",
            _ => "completed",
        });
        let reason = response.incomplete_details.as_ref();
        let reason = reason.and_then(|details| details.get("reason")?.as_str());
        self.stop = Some(match (status, reason) {
            ("completed" | "complete", _) => StopReason::End,
            ("incomplete", Some("max_output_tokens" | "max_tokens")) => StopReason::Length,
            ("incomplete", Some("content_filter")) => StopReason::Filtered,
            ("incomplete", Some("steered" | "max_messages")) => StopReason::Continue,
            ("incomplete", _) => StopReason::Other,
            _ => {
                let upstream = Upstream {
                    message: format!("the response is {}", crate::failure::one_line(status, 40)),
                    ..Upstream::default()
                };
                return Err(StreamFault::InBand(upstream));
            }
        });
        Ok(())
    }
}

fn item(item: Option<&RawValue>) -> Result<&RawValue, StreamFault> {
    item.ok_or(StreamFault::Malformed("an item is missing"))
}

/// A delta's text.
fn text(raw: Option<&RawValue>) -> Result<Cow<'_, str>, StreamFault> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    let raw = raw.map_or("\"\"", RawValue::get);
    let text: Text<'_> =
        serde_json::from_str(raw).map_err(|_| StreamFault::Malformed("a delta cannot be read"))?;
    Ok(text.0)
}

/// Arguments come as text; a host that sends the object means its text.
fn arguments(raw: &str) -> String {
    match serde_json::from_str(raw) {
        Ok(Value::String(text)) => text,
        Ok(Value::Null) | Err(_) => String::new(),
        Ok(_) => raw.to_owned(),
    }
}

/// The text of a message item, and whether it holds a refusal.
fn content(content: Option<&Value>) -> (String, bool) {
    let mut said = String::new();
    let mut refused = false;
    match content {
        Some(Value::String(text)) => said.push_str(text),
        Some(Value::Array(parts)) => {
            for part in parts {
                match part.get("type").and_then(Value::as_str) {
                    Some("refusal") => refused = true,
                    Some("output_text" | "text") => {
                        said.push_str(part.get("text").and_then(Value::as_str).unwrap_or_default());
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
    (said, refused)
}

#[cfg(test)]
mod tests;
