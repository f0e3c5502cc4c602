//! The Converse grammar, also as Nova wraps it into chunks: events by name, and the whole document.

use protocol::{Inference, Message, StopReason, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::figure;
use crate::dialect::{
    StreamFault, Target,
    answer::{PARTS, Piece, Room, Who},
    lenient::{or_default, place},
    stream::{OnText, SoFar},
};

/// The answer as far as it came.
#[derive(Debug)]
pub(super) struct Answer {
    who: Who,
    list: Vec<(u64, Block)>,
    room: Room,
    usage: Usage,
    stop: Option<StopReason>,
    counted: bool,
    started: bool,
}

#[derive(Debug)]
enum Block {
    Text(String),
    Reasoning(Reasoning),
    /// Reasoning of a document, as it stands there.
    Whole(String),
    Call {
        id: String,
        name: String,
        arguments: String,
    },
    /// Something that the provider carries out itself, or that we do not know.
    Passed,
}

#[derive(Debug, Default)]
struct Reasoning {
    text: String,
    signature: String,
    redacted: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    #[serde(default, deserialize_with = "place")]
    content_block_index: u64,
    #[serde(borrow, default)]
    start: Option<Start<'a>>,
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Start<'a> {
    #[serde(borrow, default)]
    tool_use: Option<ToolUse<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolUse<'a> {
    #[serde(default, deserialize_with = "or_default")]
    tool_use_id: String,
    #[serde(default, deserialize_with = "or_default")]
    name: String,
    #[serde(default)]
    r#type: Option<String>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delta {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    tool_use: Option<InputDelta>,
    #[serde(default)]
    reasoning_content: Option<ReasoningDelta>,
}

#[derive(Deserialize)]
struct InputDelta {
    #[serde(default, deserialize_with = "or_default")]
    input: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReasoningDelta {
    #[serde(default, deserialize_with = "or_default")]
    text: String,
    #[serde(default, deserialize_with = "or_default")]
    signature: String,
    #[serde(default, deserialize_with = "or_default")]
    redacted_content: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    #[serde(borrow)]
    output: Output<'a>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Output<'a> {
    #[serde(borrow)]
    message: Content<'a>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    content: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(default)]
    text: Option<String>,
    #[serde(borrow, default)]
    tool_use: Option<ToolUse<'a>>,
    #[serde(borrow, default)]
    reasoning_content: Option<&'a RawValue>,
}

impl Answer {
    pub(super) fn new(target: &Target<'_>, conversation: &[Message]) -> Self {
        Self {
            who: Who::new(target, conversation),
            list: Vec::new(),
            room: Room::default(),
            usage: Usage::default(),
            stop: None,
            counted: false,
            started: false,
        }
    }

    /// One event. True when nothing more is to be read: the message has ended and the figures are there.
    pub(super) fn event(
        &mut self,
        name: &str,
        payload: &[u8],
        on_text: OnText<'_>,
    ) -> Result<bool, StreamFault> {
        let event: Event<'_> = serde_json::from_slice(payload)
            .map_err(|_| StreamFault::Malformed("an event is not the JSON of its kind"))?;
        match name {
            "messageStart" if std::mem::replace(&mut self.started, true) => {
                return Err(StreamFault::Malformed(
                    "a second message begins in the same stream",
                ));
            }
            "contentBlockStart" => {
                let block = match event.start.and_then(|start| start.tool_use) {
                    Some(call) => call.block(),
                    None => Block::Passed,
                };
                self.add(event.content_block_index, block)?;
            }
            "contentBlockDelta" => {
                let delta = event.delta;
                let delta = delta.ok_or(StreamFault::Malformed("a delta is missing"))?;
                self.change(event.content_block_index, delta, on_text)?;
            }
            "messageStop" => self.stop = Some(stop(event.stop_reason.as_deref())),
            "metadata" => self.count(event.usage.as_ref()),
            // `contentBlockStop`, and whatever is added.
            _ => {}
        }
        Ok(self.stop.is_some() && self.counted)
    }

    fn add(&mut self, index: u64, block: Block) -> Result<(), StreamFault> {
        if self.list.len() >= PARTS {
            return Err(StreamFault::TooLarge("too many content blocks"));
        }
        self.list.push((index, block));
        Ok(())
    }

    fn change(&mut self, index: u64, delta: Delta, on_text: OnText<'_>) -> Result<(), StreamFault> {
        if let Some(text) = delta.text {
            self.room.grow(text.len())?;
            on_text(&text);
            // Text has no start of its own, and Nova counts a block for each token: it goes on the last.
            match self.block(index) {
                Some(Block::Text(known)) => known.push_str(&text),
                Some(_) => {}
                None => match self.list.last_mut() {
                    Some((_, Block::Text(known))) => known.push_str(&text),
                    _ => self.add(index, Block::Text(text))?,
                },
            }
        }
        if let Some(more) = delta.reasoning_content {
            let sizes = [&more.text, &more.signature, &more.redacted_content];
            self.room.grow(sizes.iter().map(|part| part.len()).sum())?;
            if self.block(index).is_none() {
                let goes_on = matches!(self.list.last(), Some((_, Block::Reasoning(r))) if r.signature.is_empty()
                    && r.redacted.is_empty() && more.redacted_content.is_empty());
                if goes_on {
                    if let Some((known, _)) = self.list.last_mut() {
                        *known = index;
                    }
                } else {
                    self.add(index, Block::Reasoning(Reasoning::default()))?;
                }
            }
            if let Some(Block::Reasoning(known)) = self.block(index) {
                known.text.push_str(&more.text);
                known.signature.push_str(&more.signature);
                known.redacted.push_str(&more.redacted_content);
            }
        }
        if let Some(more) = delta.tool_use {
            self.room.grow(more.input.len())?;
            match self.block(index) {
                Some(Block::Call { arguments, .. }) => arguments.push_str(&more.input),
                Some(_) => {}
                None => return Err(StreamFault::Malformed("arguments belong to no call")),
            }
        }
        Ok(())
    }

    fn block(&mut self, index: u64) -> Option<&mut Block> {
        let mut blocks = self.list.iter_mut().rev();
        blocks.find_map(|(known, block)| (*known == index).then_some(block))
    }

    /// A whole answer.
    pub(super) fn document(&mut self, body: &[u8], on_text: OnText<'_>) -> Result<(), StreamFault> {
        let document: Document<'_> = serde_json::from_slice(body)
            .map_err(|_| StreamFault::Malformed("the answer is no document of this dialect"))?;
        for (index, raw) in (0..).zip(document.output.message.content) {
            self.room.grow(raw.get().len())?;
            let part: Part<'_> = serde_json::from_str(raw.get())
                .map_err(|_| StreamFault::Malformed("a content block cannot be read"))?;
            let block = match (part.text, part.tool_use, part.reasoning_content) {
                (Some(text), _, _) => {
                    on_text(&text);
                    Block::Text(text)
                }
                (None, Some(call), _) => call.block(),
                (None, None, Some(_)) => Block::Whole(raw.get().to_owned()),
                (None, None, None) => Block::Passed,
            };
            self.add(index, block)?;
        }
        let reason = document.stop_reason;
        if reason.is_none() {
            return Err(StreamFault::Malformed("the answer has no stop reason"));
        }
        self.stop = Some(stop(reason.as_deref()));
        self.count(document.usage.as_ref());
        Ok(())
    }

    /// Figures; cached tokens are not among the input's.
    fn count(&mut self, usage: Option<&Value>) {
        self.counted = true;
        let Some(usage) = usage else { return };
        let of = |names: [&str; 2]| names.iter().find_map(|name| figure(usage.get(*name)));
        let last = |known: &mut Option<u64>, new: Option<u64>| *known = new.or(*known);
        last(
            &mut self.usage.input_uncached,
            of(["inputTokens", "inputTokenCount"]),
        );
        last(
            &mut self.usage.cache_read,
            of(["cacheReadInputTokens", "cacheReadInputTokenCount"]),
        );
        last(
            &mut self.usage.cache_write,
            of(["cacheWriteInputTokens", "cacheWriteInputTokenCount"]),
        );
        last(
            &mut self.usage.output,
            of(["outputTokens", "outputTokenCount"]),
        );
    }

    /// What has come so far.
    pub(super) fn so_far(&self) -> SoFar {
        SoFar {
            content: self.room.used() + self.list.len(),
            usage: self.usage,
        }
    }

    /// The answer, or that it was cut.
    pub(super) fn finish(self) -> Result<Inference, StreamFault> {
        let stop = self.stop.ok_or(StreamFault::Cut)?;
        let piece = |(_, block)| match block {
            Block::Text(text) => Some(Piece::Text(text)),
            Block::Reasoning(reasoning) => reasoning.block().map(Piece::Reasoning),
            Block::Whole(raw) => Some(Piece::Reasoning(raw)),
            Block::Call {
                id,
                name,
                arguments,
            } => Some(Piece::Call {
                id,
                name,
                arguments,
            }),
            Block::Passed => None,
        };
        let pieces = self.list.into_iter().filter_map(piece).collect();
        Ok(self.who.answer(pieces, stop, self.usage))
    }
}

impl ToolUse<'_> {
    fn block(self) -> Block {
        // `server_tool_use` was carried out already.
        if self.r#type.is_some_and(|kind| kind != "tool_use") {
            return Block::Passed;
        }
        Block::Call {
            id: self.tool_use_id,
            name: self.name,
            arguments: self
                .input
                .map_or_else(String::new, |raw| raw.get().to_owned()),
        }
    }
}

impl Reasoning {
    /// The block as a request takes it.
    fn block(&self) -> Option<String> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        enum Content<'a> {
            ReasoningText {
                text: &'a str,
                #[serde(skip_serializing_if = "str::is_empty")]
                signature: &'a str,
            },
            RedactedContent(&'a str),
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Block<'a> {
            reasoning_content: Content<'a>,
        }
        let content = if !self.redacted.is_empty() {
            Content::RedactedContent(&self.redacted)
        } else if self.text.is_empty() && self.signature.is_empty() {
            return None;
        } else {
            Content::ReasoningText {
                text: &self.text,
                signature: &self.signature,
            }
        };
        serde_json::to_string(&Block {
            reasoning_content: content,
        })
        .ok()
    }
}

pub(super) fn stop(reason: Option<&str>) -> StopReason {
    match reason {
        Some("end_turn" | "stop_sequence") => StopReason::End,
        Some("tool_use") => StopReason::Tool,
        Some("max_tokens") => StopReason::Length,
        Some("model_context_window_exceeded") => StopReason::ContextFull,
        Some("guardrail_intervened" | "content_filtered" | "refusal") => StopReason::Filtered,
        Some("malformed_model_output" | "malformed_tool_use") => StopReason::Malformed,
        Some("pause_turn") => StopReason::Continue,
        _ => StopReason::Other,
    }
}
