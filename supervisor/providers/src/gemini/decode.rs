//! A stream, or one whole document, to an answer. The end is the last `finishReason` **and** the end
//! of the body: `STOP` can come twice with the answer after the first.

use protocol::{Inference, Message, StopReason, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::parts::Parts;
use crate::{
    classify::Upstream,
    dialect::{
        StreamFault, Target,
        answer::Who,
        lenient::{count, place},
        stream::{Framing, Grammar, OnText, SoFar, Streamed},
    },
};

/// The answer as far as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    who: Who,
    parts: Parts,
    usage: Figures,
    stop: Option<StopReason>,
}

/// The figures as they come, each the last that was sent.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Figures {
    #[serde(deserialize_with = "count")]
    prompt_token_count: Option<u64>,
    #[serde(deserialize_with = "count")]
    tool_use_prompt_token_count: Option<u64>,
    #[serde(deserialize_with = "count")]
    cached_content_token_count: Option<u64>,
    #[serde(deserialize_with = "count")]
    candidates_token_count: Option<u64>,
    #[serde(deserialize_with = "count")]
    thoughts_token_count: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow, default)]
    candidates: Option<Vec<Candidate<'a>>>,
    #[serde(default)]
    prompt_feedback: Option<Feedback>,
    #[serde(default)]
    usage_metadata: Option<Figures>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(default, deserialize_with = "place")]
    index: u64,
    #[serde(borrow, default)]
    content: Option<Content<'a>>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    parts: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    #[serde(default)]
    block_reason: Option<String>,
}

/// Begins to decode an answer of `target`; the conversation so far says which call ids are taken.
pub(crate) fn decoder(target: &Target<'_>, conversation: &[Message]) -> Streamed<Answer> {
    let answer = Answer {
        who: Who::new(target, conversation),
        parts: Parts::default(),
        usage: Figures::default(),
        stop: None,
    };
    Streamed::new(answer, Framing::Sse)
}

impl Grammar for Answer {
    fn event(&mut self, data: &[u8], on_text: OnText<'_>) -> Result<bool, StreamFault> {
        // Some hosts end every stream the way another dialect does.
        if data.trim_ascii() != b"[DONE]" {
            self.chunk(data, on_text)?;
        }
        Ok(false)
    }

    /// One chunk, or the array of chunks that a host sends which was not asked for events.
    fn document(&mut self, body: &[u8], on_text: OnText<'_>) -> Result<(), StreamFault> {
        if body.trim_ascii_start().starts_with(b"[") {
            let chunks: Vec<&RawValue> = serde_json::from_slice(body)
                .map_err(|_| StreamFault::Malformed("the answer is no array of chunks"))?;
            for chunk in chunks {
                self.chunk(chunk.get().as_bytes(), on_text)?;
            }
        } else {
            self.chunk(body, on_text)?;
        }
        if self.stop.is_none() {
            return Err(StreamFault::Malformed("the answer has no finish reason"));
        }
        Ok(())
    }

    fn so_far(&self) -> SoFar {
        SoFar {
            content: self.parts.used(),
            usage: self.usage.canonical(),
        }
    }

    fn finish(self) -> Result<Inference, StreamFault> {
        let stop = self.stop.ok_or(StreamFault::Cut)?;
        let cut = matches!(stop, StopReason::Length | StopReason::ContextFull);
        let pieces = self.parts.pieces(cut);
        Ok(self.who.answer(pieces, stop, self.usage.canonical()))
    }
}

impl Answer {
    fn chunk(&mut self, data: &[u8], on_text: OnText<'_>) -> Result<(), StreamFault> {
        let chunk: Chunk<'_> = serde_json::from_slice(data)
            .map_err(|_| StreamFault::Malformed("an event is not the JSON of an answer"))?;
        if chunk.error.is_some_and(|error| error.get() != "null") {
            return Err(StreamFault::InBand(Upstream::read(None, data)));
        }
        if let Some(usage) = chunk.usage_metadata {
            self.usage.update(usage);
        }
        let blocked = chunk.prompt_feedback.and_then(|f| f.block_reason);
        if blocked.is_some_and(|reason| reason != "BLOCK_REASON_UNSPECIFIED") {
            self.stop = Some(StopReason::Filtered);
        }
        let candidates = chunk.candidates.unwrap_or_default();
        // One answer was asked for; a second candidate is nobody's.
        for candidate in candidates.into_iter().filter(|c| c.index == 0) {
            let parts = candidate.content.and_then(|content| content.parts);
            for part in parts.unwrap_or_default() {
                self.parts.push(part, on_text)?;
            }
            let reason = candidate.finish_reason.unwrap_or_default();
            if !matches!(reason.as_str(), "" | "FINISH_REASON_UNSPECIFIED") {
                self.stop = Some(stop(&reason));
            }
        }
        Ok(())
    }
}

impl Figures {
    fn update(&mut self, new: Self) {
        let last = |known: &mut Option<u64>, new: Option<u64>| *known = new.or(*known);
        last(&mut self.prompt_token_count, new.prompt_token_count);
        last(
            &mut self.tool_use_prompt_token_count,
            new.tool_use_prompt_token_count,
        );
        last(
            &mut self.cached_content_token_count,
            new.cached_content_token_count,
        );
        last(&mut self.candidates_token_count, new.candidates_token_count);
        last(&mut self.thoughts_token_count, new.thoughts_token_count);
    }

    /// Ours: the prompt's figure includes what was cached, the candidates' one leaves thoughts out.
    fn canonical(self) -> Usage {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        let input = sum(self.prompt_token_count, self.tool_use_prompt_token_count);
        let cached = self.cached_content_token_count;
        Usage {
            input_uncached: input.map(|all| all.saturating_sub(cached.unwrap_or(0))),
            cache_read: cached,
            cache_write: None,
            output: sum(self.candidates_token_count, self.thoughts_token_count),
            reasoning: self.thoughts_token_count,
        }
    }
}

fn stop(reason: &str) -> StopReason {
    match reason {
        "STOP" => StopReason::End,
        "MAX_TOKENS" => StopReason::Length,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "LANGUAGE"
        | "MODEL_ARMOR" => StopReason::Filtered,
        image if image.starts_with("IMAGE_") => StopReason::Filtered,
        "MALFORMED_FUNCTION_CALL"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MISSING_THOUGHT_SIGNATURE"
        | "MALFORMED_RESPONSE" => StopReason::Malformed,
        "CONTINUATION" => StopReason::Continue,
        _ => StopReason::Other,
    }
}

#[cfg(test)]
mod tests;
