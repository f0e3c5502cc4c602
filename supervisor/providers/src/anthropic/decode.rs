//! A Messages stream, or one whole document, to an answer. The only good end is `message_stop`.

use std::borrow::Cow;

use protocol::{Inference, Message, StopReason, Usage};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::blocks::Blocks;
use crate::{
    classify::Upstream,
    dialect::{
        StreamFault, Target,
        answer::Who,
        lenient::place,
        stream::{Framing, Grammar, OnText, SoFar, Streamed},
    },
};

/// The answer as far as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    who: Who,
    blocks: Blocks,
    usage: Usage,
    stop: Option<StopReason>,
    started: bool,
    done: bool,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default, deserialize_with = "place")]
    index: u64,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    #[serde(default)]
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Ending {
    #[serde(default)]
    stop_reason: Option<String>,
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
            blocks: Blocks::default(),
            usage: Usage::default(),
            stop: None,
            started: false,
            done: false,
        }
    }
}

impl Grammar for Answer {
    fn document(&mut self, body: &[u8], on_text: OnText<'_>) -> Result<(), StreamFault> {
        let document: Document<'_> = serde_json::from_slice(body)
            .map_err(|_| StreamFault::Malformed("the answer is neither a stream nor a message"))?;
        if document.kind != "message" {
            return Err(StreamFault::Malformed(
                "the answer is a document of another dialect",
            ));
        }
        self.begin(document, on_text)?;
        if self.stop.is_none() {
            return Err(StreamFault::Malformed("the answer has no stop reason"));
        }
        self.done = true;
        Ok(())
    }

    fn event(&mut self, data: &[u8], on_text: OnText<'_>) -> Result<bool, StreamFault> {
        let event: Event<'_> = serde_json::from_slice(data)
            .map_err(|_| StreamFault::Malformed("an event is not JSON with a type"))?;
        match event.kind.as_ref() {
            "error" => return Err(StreamFault::InBand(Upstream::read(None, data))),
            "message_start" if self.started => {
                return Err(StreamFault::Malformed(
                    "a second message begins in the same stream",
                ));
            }
            "message_start" => {
                self.started = true;
                let message = event.message.map(RawValue::get).unwrap_or("{}");
                let document: Document<'_> = serde_json::from_str(message)
                    .map_err(|_| StreamFault::Malformed("message_start cannot be read"))?;
                self.begin(document, on_text)?;
            }
            "content_block_start" | "content_block_delta" | "message_delta" | "message_stop"
                if !self.started =>
            {
                return Err(StreamFault::Malformed("an event came before message_start"));
            }
            "content_block_start" => {
                let block = event.content_block;
                let block = block.ok_or(StreamFault::Malformed("a content block is missing"))?;
                self.blocks.start(event.index, block, false, on_text)?;
            }
            "content_block_delta" => {
                let delta = event
                    .delta
                    .ok_or(StreamFault::Malformed("a delta is missing"))?;
                self.blocks.change(event.index, delta, on_text)?;
            }
            "message_delta" => {
                self.count(event.usage.as_ref());
                let delta = event.delta.map(RawValue::get).unwrap_or("{}");
                let ending: Ending = serde_json::from_str(delta)
                    .map_err(|_| StreamFault::Malformed("message_delta cannot be read"))?;
                self.ends(ending.stop_reason.as_deref());
            }
            "message_stop" => self.done = true,
            // `ping`, `content_block_stop`, and whatever is added.
            _ => {}
        }
        Ok(self.done)
    }

    fn so_far(&self) -> SoFar {
        SoFar {
            content: self.blocks.used(),
            usage: self.usage,
        }
    }

    fn finish(self) -> Result<Inference, StreamFault> {
        if !self.done {
            return Err(StreamFault::Cut);
        }
        let stop = self.stop.unwrap_or(StopReason::Other);
        Ok(self.who.answer(self.blocks.pieces(), stop, self.usage))
    }
}

impl Answer {
    /// A message begins, possibly with all its content.
    fn begin(&mut self, document: Document<'_>, on_text: OnText<'_>) -> Result<(), StreamFault> {
        self.count(document.usage.as_ref());
        self.ends(document.stop_reason.as_deref());
        for (index, block) in (0..).zip(document.content.unwrap_or_default()) {
            self.blocks.start(index, block, true, on_text)?;
        }
        Ok(())
    }

    fn ends(&mut self, reason: Option<&str>) {
        if let Some(reason) = reason {
            self.stop = Some(match reason {
                "end_turn" | "stop_sequence" => StopReason::End,
                "tool_use" => StopReason::Tool,
                "max_tokens" => StopReason::Length,
                "model_context_window_exceeded" => StopReason::ContextFull,
                "refusal" => StopReason::Filtered,
                "pause_turn" => StopReason::Continue,
                _ => StopReason::Other,
            });
        }
    }

    /// Figures are cumulative. The largest counts: after a compaction on the provider's side the last
    /// one can be smaller than what was billed.
    fn count(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        let figure = |name: &str| usage.get(name).and_then(Value::as_u64);
        let thinking = usage.pointer("/output_tokens_details/thinking_tokens");
        let most = |known: &mut Option<u64>, new: Option<u64>| *known = (*known).max(new);
        most(&mut self.usage.input_uncached, figure("input_tokens"));
        most(
            &mut self.usage.cache_read,
            figure("cache_read_input_tokens"),
        );
        most(
            &mut self.usage.cache_write,
            figure("cache_creation_input_tokens"),
        );
        most(&mut self.usage.output, figure("output_tokens"));
        most(&mut self.usage.reasoning, thinking.and_then(Value::as_u64));
    }
}

#[cfg(test)]
mod tests;
