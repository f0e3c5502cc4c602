//! In what a provider differs from its dialect: data of its row, not code.

use serde::{Deserialize, Serialize};

/// Differences of one provider; the default is the dialect as its inventor wrote it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quirks {
    /// How the output limit is called (Chat).
    pub output_limit: OutputLimit,
    /// Do not ask for figures at the end of a stream: the provider refuses the question (Chat).
    pub no_stream_options: bool,
    /// How reasoning goes back (Chat).
    pub replay: Replay,
    /// Which call ids are taken.
    pub call_ids: CallIds,
    /// The provider writes its reasoning into the text, between `<think>` and `</think>` (Chat).
    pub think_tags: bool,
    /// The system prompt is a message of this role instead of `system` (Chat).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_role: Option<String>,
    /// The path of a call, with `{model}`, where it is not the dialect's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The version that stands in the body, which then names no model (Anthropic on clouds).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_version: Option<String>,
    /// Do not send the output limit (Codex).
    pub no_output_limit: bool,
    /// Do not ask for sealed reasoning: the model has none and refuses the question (Responses).
    pub no_sealed_reasoning: bool,
    /// What a person says after a tool's result goes into the result (Chat).
    pub no_user_after_tool: bool,
    /// Mark what a prompt cache may keep, as Anthropic does (Chat).
    pub cache_marks: bool,
    /// The provider knows JSON as a form of answers, and no schema (Chat).
    pub no_schema: bool,
    /// The provider's models see neither pictures nor documents (Chat).
    pub no_attachments: bool,
    /// Documents are a `document_url` of the content, not a `file` (Chat).
    pub document_urls: bool,
    /// Keys that are added to each body.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub body: serde_json::Map<String, serde_json::Value>,
}

/// The name of the output limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLimit {
    /// `max_completion_tokens`.
    #[default]
    MaxCompletionTokens,
    /// `max_tokens`.
    MaxTokens,
}

/// How reasoning of earlier turns goes back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replay {
    /// By the field that it came in.
    #[default]
    AsReceived,
    /// So too, but only in turns that called tools.
    WithCalls,
    /// Not at all.
    Never,
}

/// The call ids that a provider takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallIds {
    /// Any.
    #[default]
    Any,
    /// Letters, digits, `_` and `-`, at most 64.
    Word,
    /// Nine letters and digits.
    Nine,
}

impl CallIds {
    /// The id as it goes to the provider: itself where it fits, else always the same other one, told
    /// apart from its neighbours by a hash.
    #[must_use]
    pub fn wire(self, id: &str) -> String {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        match self {
            Self::Any => id.to_owned(),
            Self::Word if id.len() <= 64 && !id.is_empty() && id.chars().all(word) => id.to_owned(),
            Self::Word => {
                let kept = id.chars().map(|c| if word(c) { c } else { '_' });
                let kept: String = kept.take(40).collect();
                format!("{kept}_{:016x}", super::answer::hash(id))
            }
            Self::Nine if id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()) => {
                id.to_owned()
            }
            Self::Nine => nine(super::answer::hash(id)),
        }
    }
}

/// Nine characters of base 62, 53 bits of the hash.
fn nine(mut hash: u64) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut id = String::with_capacity(9);
    for _ in 0..9 {
        let at = usize::try_from(hash % 62).unwrap_or(0);
        id.push(char::from(DIGITS.get(at).copied().unwrap_or(b'0')));
        hash /= 62;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_rewritten_always_to_the_same_and_told_apart() {
        for rule in [CallIds::Word, CallIds::Nine] {
            let mut seen = std::collections::HashSet::new();
            for id in [
                "functions.a:0",
                "functions_a_0",
                "functions.a:1",
                &"x".repeat(99),
            ] {
                let wire = rule.wire(id);
                assert_eq!(wire, rule.wire(id));
                assert_eq!(wire, rule.wire(&wire), "a fitting id stays");
                assert!(seen.insert(wire), "{id}");
            }
        }
        assert_eq!(CallIds::Nine.wire("Ab3dEf9hI"), "Ab3dEf9hI");
        assert_eq!(CallIds::Nine.wire("toolu_1").len(), 9);
        assert_eq!(CallIds::Any.wire("functions.a:0"), "functions.a:0");
    }
}
