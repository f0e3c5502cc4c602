//! The canonical conversation: what a model said, what tools answered, what a call used.

use serde::{Deserialize, Serialize};

use crate::CallId;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person, the loop's own notes, and tool results.
    User,
    /// The model.
    Assistant,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What was said, in order.
    pub parts: Vec<Part>,
}

impl Message {
    /// A user message of one text.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self {
            role: Role::User,
            parts: vec![Part::Text { text: text.into() }],
        }
    }

    /// All text parts, joined by nothing.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            Part::Reasoning { .. } | Part::ToolCall { .. } | Part::ToolResult { .. } => None,
        });
        texts.collect()
    }
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Part {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// A provider's reasoning block, byte for byte, valid for that provider and model only.
    Reasoning {
        /// Provider name.
        provider: String,
        /// Model name.
        model: String,
        /// The block as JSON text, exactly as received.
        raw: String,
    },
    /// The model asks for a tool.
    ToolCall {
        /// The model's id for it.
        id: CallId,
        /// The tool's name as the model wrote it.
        name: String,
        /// The input. An input that was not valid JSON stands here as `{"_invalid": "text"}`.
        input: serde_json::Value,
    },
    /// The answer to a tool call; each call has exactly one.
    ToolResult {
        /// The call.
        id: CallId,
        /// What the model reads.
        content: String,
        /// Whether it is an error.
        is_error: bool,
    },
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// Name.
    pub name: String,
    /// Description.
    pub description: String,
    /// JSON Schema 2020-12 of the input.
    pub input_schema: serde_json::Value,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It was done.
    End,
    /// It asks for tools.
    Tool,
    /// The output limit cut it.
    Length,
    /// The context is full.
    ContextFull,
    /// The provider filtered the answer.
    Filtered,
    /// The answer was malformed.
    Malformed,
    /// The provider paused; send the same again.
    Continue,
    /// Anything else.
    Other,
}

/// What one model call used, in tokens; unknown figures are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Input without cached tokens.
    pub input_uncached: Option<u64>,
    /// Input read from a cache.
    pub cache_read: Option<u64>,
    /// Input written to a cache.
    pub cache_write: Option<u64>,
    /// Output, reasoning included.
    pub output: Option<u64>,
    /// Reasoning alone.
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Adds another call's figures; an unknown figure counts as nothing, two unknowns stay unknown.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let add = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        Self {
            input_uncached: add(self.input_uncached, other.input_uncached),
            cache_read: add(self.cache_read, other.cache_read),
            cache_write: add(self.cache_write, other.cache_write),
            output: add(self.output, other.output),
            reasoning: add(self.reasoning, other.reasoning),
        }
    }
}

/// A whole model answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inference {
    /// The assistant message.
    pub message: Message,
    /// Why it stopped.
    pub stop: StopReason,
    /// What it used.
    pub usage: Usage,
    /// Provider that answered.
    pub provider: String,
    /// Model that answered.
    pub model: String,
}
