//! Models of InvokeModel that write text and nothing else: Titan, Llama and Mistral, in their own words.

use protocol::{Inference, Message, StopReason, Usage};
use serde_json::Value;

use super::figure;
use crate::dialect::{
    StreamFault, Target,
    answer::{Piece, Room, Who},
    stream::{OnText, SoFar},
};

/// The answer as far as it came.
#[derive(Debug)]
pub(super) struct Answer {
    who: Who,
    text: String,
    room: Room,
    usage: Usage,
    stop: Option<StopReason>,
    /// No stop reason came, but what comes with the last chunk only.
    over: bool,
}

impl Answer {
    pub(super) fn new(target: &Target<'_>, conversation: &[Message]) -> Self {
        Self {
            who: Who::new(target, conversation),
            text: String::new(),
            room: Room::default(),
            usage: Usage::default(),
            stop: None,
            over: false,
        }
    }

    /// Whether a chunk or document is one of theirs.
    pub(super) fn knows(chunk: &Value) -> bool {
        let names = ["outputText", "results", "generation", "outputs"];
        // Completions of the old kind: a choice that holds text instead of a delta.
        names.iter().any(|name| chunk.get(*name).is_some())
            || chunk.pointer("/choices/0/text").is_some()
    }

    /// One chunk, or the whole document. Never the last by itself: a body's end ends it.
    pub(super) fn chunk(&mut self, chunk: &Value, on_text: OnText<'_>) -> Result<(), StreamFault> {
        let inner = ["results", "outputs", "choices"];
        let first = inner.iter().find_map(|name| chunk.get(*name)?.get(0));
        let part = first.unwrap_or(chunk);
        let of = |names: &[&str]| names.iter().find_map(|name| part.get(*name));
        if let Some(text) = of(&["outputText", "generation", "text"]).and_then(Value::as_str) {
            self.room.grow(text.len())?;
            on_text(text);
            self.text.push_str(text);
        }
        let reason = of(&["completionReason", "stop_reason"]).and_then(Value::as_str);
        if let Some(reason) = reason {
            self.stop = Some(match reason {
                "FINISH" | "FINISHED" | "stop" | "STOP_CRITERIA_MET" => StopReason::End,
                "LENGTH" | "length" => StopReason::Length,
                "CONTENT_FILTERED" => StopReason::Filtered,
                _ => StopReason::Other,
            });
        }
        let last = |known: &mut Option<u64>, new: Option<u64>| *known = new.or(*known);
        let metrics = chunk.get("amazon-bedrock-invocationMetrics");
        self.over |= metrics.is_some();
        let metric = |name: &str| figure(metrics.and_then(|m| m.get(name)));
        let input = figure(chunk.get("inputTextTokenCount"));
        let input = input.or_else(|| figure(chunk.get("prompt_token_count")));
        let output = figure(of(&[
            "totalOutputTextTokenCount",
            "tokenCount",
            "generation_token_count",
        ]));
        last(
            &mut self.usage.input_uncached,
            input.or_else(|| metric("inputTokenCount")),
        );
        last(
            &mut self.usage.output,
            output.or_else(|| metric("outputTokenCount")),
        );
        if chunk.get("amazon-bedrock-guardrailAction") == Some(&Value::from("INTERVENED")) {
            self.stop = Some(StopReason::Filtered);
        }
        Ok(())
    }

    /// What has come so far.
    pub(super) fn so_far(&self) -> SoFar {
        SoFar {
            content: self.room.used(),
            usage: self.usage,
        }
    }

    /// The answer, or that it was cut.
    pub(super) fn finish(self) -> Result<Inference, StreamFault> {
        let stop = match self.stop {
            Some(stop) => stop,
            None if self.over => StopReason::Other,
            None => return Err(StreamFault::Cut),
        };
        Ok(self
            .who
            .answer(vec![Piece::Text(self.text)], stop, self.usage))
    }
}
