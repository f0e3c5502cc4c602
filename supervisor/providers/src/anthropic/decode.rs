//! A Messages stream, or one whole document, to an answer. The only good end is `message_stop`.

use std::{borrow::Cow, collections::HashSet};

use protocol::{Inference, Message, Part, StopReason, Usage, bounds};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::blocks::Blocks;
use crate::{
    classify::{self, Upstream},
    sse::{Sse, TooLong},
};

/// Why a stream gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamFault {
    /// The provider said so itself.
    InBand(Upstream),
    /// It ended before `message_stop`.
    Cut,
    /// It is not what the dialect says.
    Malformed(&'static str),
    /// A bound was reached.
    TooLarge(&'static str),
}

impl From<TooLong> for StreamFault {
    fn from(bound: TooLong) -> Self {
        Self::TooLarge(match bound {
            TooLong::Line => "one event is longer than 4 MiB",
            TooLong::Stream => "the stream is longer than 128 MiB",
        })
    }
}

/// Decodes one stream.
#[derive(Debug)]
pub struct Decoder {
    sse: Sse,
    answer: Answer,
}

#[derive(Debug)]
struct Answer {
    provider: String,
    model: String,
    taken: HashSet<String>,
    blocks: Blocks,
    usage: Usage,
    stop: Option<StopReason>,
    started: bool,
    done: bool,
    failed: Option<StreamFault>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
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
    content: Vec<&'a RawValue>,
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

impl Decoder {
    /// Begins a stream of `model` at `provider`; the conversation so far says which call ids are taken.
    #[must_use]
    pub fn new(provider: &str, model: &str, conversation: &[Message]) -> Self {
        Self {
            sse: Sse::default(),
            answer: Answer::new(provider, model, conversation),
        }
    }

    /// Takes bytes in whatever pieces; text goes to `on_text` as it comes. True when the answer is
    /// whole: what may follow is not read.
    ///
    /// # Errors
    /// [`StreamFault`]; the stream is dead then.
    pub fn push(
        &mut self,
        bytes: &[u8],
        on_text: &mut dyn FnMut(&str),
    ) -> Result<bool, StreamFault> {
        if let Some(fault) = &self.answer.failed {
            return Err(fault.clone());
        }
        if self.answer.done {
            return Ok(true);
        }
        let answer = &mut self.answer;
        let pushed = self.sse.push(bytes, &mut |data| {
            answer.event(data, on_text)?;
            Ok::<_, StreamFault>(!answer.done)
        });
        if let Err(fault) = pushed {
            self.answer.failed = Some(fault.clone());
            return Err(fault);
        }
        Ok(self.answer.done)
    }

    /// The answer, once the bytes are over.
    ///
    /// # Errors
    /// [`StreamFault::Cut`] when `message_stop` never came.
    pub fn finish(self) -> Result<Inference, StreamFault> {
        match self.answer.failed {
            Some(fault) => Err(fault),
            None if self.answer.done => Ok(self.answer.finish()),
            None => Err(StreamFault::Cut),
        }
    }
}

/// Decodes an answer that came as one JSON document.
///
/// # Errors
/// [`StreamFault`]; an error document under a good status is [`StreamFault::InBand`].
pub fn decode_document(
    provider: &str,
    model: &str,
    conversation: &[Message],
    body: &[u8],
    on_text: &mut dyn FnMut(&str),
) -> Result<Inference, StreamFault> {
    if classify::is_error_document(body) {
        return Err(StreamFault::InBand(Upstream::read(None, body)));
    }
    if body.len() > bounds::ANSWER {
        return Err(StreamFault::TooLarge("the answer is longer than 8 MiB"));
    }
    let document: Document<'_> = serde_json::from_slice(body)
        .map_err(|_| StreamFault::Malformed("the answer is neither a stream nor a message"))?;
    if document.kind != "message" {
        return Err(StreamFault::Malformed(
            "the answer is a document of another dialect",
        ));
    }
    let mut answer = Answer::new(provider, model, conversation);
    answer.begin(document, on_text)?;
    if answer.stop.is_none() {
        return Err(StreamFault::Malformed("the answer has no stop reason"));
    }
    Ok(answer.finish())
}

impl Answer {
    fn new(provider: &str, model: &str, conversation: &[Message]) -> Self {
        let calls = conversation
            .iter()
            .flat_map(|message| &message.parts)
            .filter_map(|part| match part {
                Part::ToolCall { id, .. } => Some(id.as_str().to_owned()),
                Part::Text { .. } | Part::Reasoning { .. } | Part::ToolResult { .. } => None,
            });
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            taken: calls.collect(),
            blocks: Blocks::default(),
            usage: Usage::default(),
            stop: None,
            started: false,
            done: false,
            failed: None,
        }
    }

    fn event(&mut self, data: &[u8], on_text: &mut dyn FnMut(&str)) -> Result<(), StreamFault> {
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
        Ok(())
    }

    /// A message begins, possibly with all its content.
    fn begin(
        &mut self,
        document: Document<'_>,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<(), StreamFault> {
        self.count(document.usage.as_ref());
        self.ends(document.stop_reason.as_deref());
        for (index, block) in (0..).zip(document.content) {
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

    fn finish(self) -> Inference {
        let stop = self.stop.unwrap_or(StopReason::Other);
        self.blocks
            .finish(&self.provider, &self.model, stop, self.usage, self.taken)
    }
}

#[cfg(test)]
mod tests;
