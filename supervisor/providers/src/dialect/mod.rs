//! What all wire grammars share: a request becomes one [`Outgoing`], bytes become one answer.
//!
//! A dialect is pure. It gets a [`Target`] (whose grammar, which quirks), writes a body, and reads the
//! answer by a [`Decode`] that takes bytes in any pieces. Success is the dialect's terminal event.

pub(crate) mod answer;
#[cfg(test)]
pub(crate) mod golden;
pub(crate) mod history;
pub(crate) mod lenient;
mod quirks;
pub(crate) mod stream;
pub(crate) mod tags;
pub(crate) mod wish;

use protocol::{Infer, Message};
use serde::{Deserialize, Serialize};

pub use answer::is_invalid;
pub use quirks::{CallIds, OutputLimit, Quirks, Replay};
pub use stream::{Decode, OnText, SoFar, StreamFault};
pub use wish::{Attachment, Kind, Wish};

use crate::{
    anthropic, bedrock, gemini, ollama,
    openai::{chat, responses},
};

/// The wire grammar of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    OpenaiChat,
    /// OpenAI Responses.
    OpenaiResponses,
    /// Gemini `generateContent`.
    Gemini,
    /// Bedrock: Converse frames, and chunk frames of InvokeModel.
    Bedrock,
    /// Ollama's own chat, one JSON object a line.
    Ollama,
    /// The conversation-file player.
    Script,
}

/// Whom a request is encoded for, and whose answer is decoded.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Provider name: reasoning of any other provider is left out.
    pub provider: &'a str,
    /// Model id: reasoning of any other model is left out.
    pub model: &'a str,
    /// The model's output limit in tokens; a larger wish is lowered to it.
    pub max_output: u32,
    /// The model's window in tokens.
    pub window: u32,
    /// In what this provider differs from its dialect.
    pub quirks: &'a Quirks,
    /// What is asked for beside the conversation.
    pub wish: Option<&'a Wish>,
}

/// A request that is ready for the wire, but for its address and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// What is joined to the base address, query included (`/v1/messages`).
    pub path: String,
    /// Headers of the dialect, lower case.
    pub headers: Vec<(&'static str, String)>,
    /// Media types that the answer may have.
    pub accept: &'static str,
    /// The body, JSON.
    pub body: Vec<u8>,
}

/// Why a request cannot be put on the wire.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unsendable {
    /// Nothing for the model to answer.
    #[error("the conversation holds no message with content")]
    Empty,
    /// An attachment that this dialect or this provider has no place for.
    #[error(
        "`{provider}` takes no {what} of the type {media} (model `{model}`): leave it out, or ask another provider"
    )]
    Untaken {
        /// Whom.
        provider: String,
        /// Of its models.
        model: String,
        /// `images`, `documents`.
        what: &'static str,
        /// The media type.
        media: &'static str,
    },
    /// It is no JSON.
    #[error("the request cannot be written as JSON")]
    Json(#[from] serde_json::Error),
    /// This dialect cannot be spoken over HTTP.
    #[error("the dialect `{0}` cannot be spoken by this program")]
    Silent(&'static str),
}

impl Dialect {
    /// The word of `providers.toml`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::Gemini => "gemini",
            Self::Bedrock => "bedrock",
            Self::Ollama => "ollama",
            Self::Script => "script",
        }
    }

    /// Encodes a request as a streaming call.
    ///
    /// # Errors
    /// [`Unsendable`] when there is nothing to send.
    pub fn encode(self, request: &Infer, target: &Target<'_>) -> Result<Outgoing, Unsendable> {
        match self {
            Self::Anthropic => anthropic::encode(request, target),
            Self::OpenaiChat => chat::encode(request, target),
            Self::OpenaiResponses => responses::encode(request, target),
            Self::Ollama => ollama::encode(request, target),
            Self::Gemini => gemini::encode(request, target),
            Self::Bedrock => bedrock::encode(request, target),
            Self::Script => Err(Unsendable::Silent(self.as_str())),
        }
    }

    /// Begins to decode an answer; the conversation so far says which call ids are taken. `None` for a
    /// dialect without a wire.
    #[must_use]
    pub fn decoder(self, target: &Target<'_>, conversation: &[Message]) -> Option<Box<dyn Decode>> {
        match self {
            Self::Anthropic => Some(Box::new(anthropic::decoder(target, conversation))),
            Self::OpenaiChat => Some(Box::new(chat::decoder(target, conversation))),
            Self::OpenaiResponses => Some(Box::new(responses::decoder(target, conversation))),
            Self::Ollama => Some(Box::new(ollama::decoder(target, conversation))),
            Self::Gemini => Some(Box::new(gemini::decoder(target, conversation))),
            Self::Bedrock => Some(Box::new(bedrock::decoder(target, conversation))),
            Self::Script => None,
        }
    }
}

/// Joins a base address, which people write in several ways, and a path: a base that holds the path
/// already stays, and a version that both name stands once.
#[must_use]
pub(crate) fn join(base: &str, path: &str) -> String {
    let base = base.trim_end_matches('/');
    let bare = path.split('?').next().unwrap_or(path);
    let query = path.get(bare.len()..).unwrap_or_default();
    if base.ends_with(bare) {
        return format!("{base}{query}");
    }
    // `/v1` is written at the end of the base as often as not.
    let rest = bare.strip_prefix("/v1/").filter(|_| base.ends_with("/v1"));
    match rest {
        Some(rest) => format!("{base}/{rest}{query}"),
        None => format!("{base}{bare}{query}"),
    }
}

/// JSON text without the blanks between its words, everything else as it came.
#[must_use]
pub(crate) fn compact(json: &str) -> String {
    let (mut inside, mut escaped) = (false, false);
    let keep = |c: &char| {
        let kept = inside || !c.is_ascii_whitespace();
        match c {
            _ if escaped => escaped = false,
            '\\' if inside => escaped = true,
            '"' => inside = !inside,
            _ => {}
        }
        kept
    };
    json.chars().filter(keep).collect()
}

/// A model id as one segment of a path: `/`, `:` and the rest are escaped.
#[must_use]
pub(crate) fn segment(model: &str) -> String {
    let mut out = String::with_capacity(model.len());
    for byte in model.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'@' => {
                out.push(char::from(byte));
            }
            _ => {
                out.push('%');
                for nibble in [byte >> 4, byte & 15] {
                    let digit = char::from_digit(u32::from(nibble), 16).unwrap_or('0');
                    out.push(digit.to_ascii_uppercase());
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_address_is_joined_however_it_is_written() {
        for base in [
            "https://h",
            "https://h/",
            "https://h/v1",
            "https://h/v1/messages",
        ] {
            assert_eq!(
                join(base, "/v1/messages"),
                "https://h/v1/messages",
                "{base}"
            );
        }
        assert_eq!(
            join("https://h/v1", "/chat/completions"),
            "https://h/v1/chat/completions"
        );
        assert_eq!(
            join("https://h/v1beta", "/models/m:stream?alt=sse"),
            "https://h/v1beta/models/m:stream?alt=sse"
        );
        assert_eq!(
            join("https://h/x/chat/completions", "/chat/completions?a=1"),
            "https://h/x/chat/completions?a=1"
        );
    }

    #[test]
    fn only_blanks_between_words_go() {
        let json = "{ \"a b\" : [1, \"\\\\\" ],\n\"\\\" c\": null }";
        let value: serde_json::Value = serde_json::from_str(json).expect("JSON");
        let small = compact(json);
        assert_eq!(small, r#"{"a b":[1,"\\"],"\" c":null}"#);
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&small).expect("JSON"),
            value
        );
    }

    #[test]
    fn a_model_is_one_segment() {
        assert_eq!(segment("us.amazon.nova-v1:0"), "us.amazon.nova-v1%3A0");
        assert_eq!(segment("arn:a/b?c#ü"), "arn%3Aa%2Fb%3Fc%23%C3%BC");
    }
}
