//! The parts of an answer, from whatever dialect, to the canonical message.

use std::collections::HashSet;

use protocol::{CallId, Inference, Message, Part, Role, StopReason, Usage, bounds};

use super::{StreamFault, Target};

/// Parts of one answer: real ones have a handful, a hundred calls would be ten batches.
pub(crate) const PARTS: usize = 1_024;

/// A part of an answer as its dialect gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text.
    Text(String),
    /// Reasoning: JSON text that goes back as it stands.
    Reasoning(String),
    /// A call for the client.
    Call {
        /// The provider's id; it may be empty or used before.
        id: String,
        /// The tool.
        name: String,
        /// The arguments as text, as far as they came.
        arguments: String,
    },
}

/// Who answers, and which call ids the conversation has used.
#[derive(Debug, Clone)]
pub(crate) struct Who {
    provider: String,
    model: String,
    taken: HashSet<String>,
}

impl Who {
    pub(crate) fn new(target: &Target<'_>, conversation: &[Message]) -> Self {
        let parts = conversation.iter().flat_map(|message| &message.parts);
        let calls = parts.filter_map(|part| match part {
            Part::ToolCall { id, .. } => Some(id.as_str().to_owned()),
            _ => None,
        });
        Self {
            provider: target.provider.to_owned(),
            model: target.model.to_owned(),
            taken: calls.collect(),
        }
    }

    /// The whole answer.
    ///
    /// Empty texts are left out. A call whose arguments are no object is marked so that nobody runs
    /// it; if the output limit did not cut it, the answer is malformed. An answer with calls that says
    /// it is at its end asks for tools.
    pub(crate) fn answer(
        mut self,
        pieces: Vec<Piece>,
        mut stop: StopReason,
        usage: Usage,
    ) -> Inference {
        let cut = matches!(stop, StopReason::Length | StopReason::ContextFull);
        let last = pieces.len().saturating_sub(1);
        let calls = pieces.iter().any(|p| matches!(p, Piece::Call { .. }));
        if calls && stop == StopReason::End {
            stop = StopReason::Tool;
        }
        let mut parts = Vec::new();
        for (at, piece) in pieces.into_iter().enumerate() {
            match piece {
                Piece::Text(text) if text.is_empty() => {}
                Piece::Text(text) => parts.push(Part::Text { text }),
                Piece::Reasoning(raw) => parts.push(Part::Reasoning {
                    provider: self.provider.clone(),
                    model: self.model.clone(),
                    raw,
                }),
                Piece::Call {
                    id,
                    name,
                    arguments,
                } => {
                    let (input, whole) = input(&arguments, cut && at == last);
                    if !whole && !cut {
                        stop = StopReason::Malformed;
                    }
                    parts.push(Part::ToolCall {
                        id: fit_id(&id, &mut self.taken),
                        name,
                        input,
                    });
                }
            }
        }
        Inference {
            message: Message {
                role: Role::Assistant,
                parts,
            },
            stop,
            usage,
            provider: self.provider,
            model: self.model,
        }
    }
}

/// The room that one answer may take.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Room(usize);

impl Room {
    /// Bytes so far.
    pub(crate) fn used(self) -> usize {
        self.0
    }

    /// Counts more bytes.
    pub(crate) fn grow(&mut self, more: usize) -> Result<(), StreamFault> {
        self.0 = self.0.saturating_add(more);
        if self.0 > bounds::ANSWER {
            return Err(StreamFault::TooLarge("the answer is longer than 8 MiB"));
        }
        Ok(())
    }
}

/// A call's input: the parsed object, or `{"_invalid": text}` and false, which nobody may run.
///
/// Nothing at all means an empty object, except where the output limit cut the answer: there it is a
/// call whose arguments never came.
pub(crate) fn input(text: &str, cut: bool) -> (serde_json::Value, bool) {
    // Some models write `null` for a tool without arguments.
    let nothing = matches!(text.trim(), "" | "{}" | "null");
    if nothing && !cut {
        return (serde_json::Value::Object(serde_json::Map::new()), true);
    }
    match serde_json::from_str(text) {
        Ok(serde_json::Value::Object(input)) if !nothing => (input.into(), true),
        _ => (serde_json::json!({"_invalid": text}), false),
    }
}

/// Whether an input is the mark of arguments that nobody may run.
#[must_use]
pub fn is_invalid(input: &serde_json::Value) -> bool {
    let object = input.as_object();
    object.is_some_and(|o| o.len() == 1 && o.get("_invalid").is_some_and(|v| v.is_string()))
}

/// The provider's id where it fits the treaty and is new in this conversation, else one of our own.
pub(crate) fn fit_id(id: &str, taken: &mut HashSet<String>) -> CallId {
    let mut word = id.to_owned();
    let mut tries = 0_u32;
    loop {
        if !taken.contains(&word)
            && let Ok(fits) = CallId::parse(&word)
        {
            taken.insert(word);
            return fits;
        }
        word = format!("call_{:016x}_{tries}", hash(id));
        tries = tries.wrapping_add(1);
    }
}

/// Whether an id was made up by [`fit_id`]: it means nothing to any provider.
pub(crate) fn is_minted(id: &str) -> bool {
    let parts = id
        .strip_prefix("call_")
        .and_then(|rest| rest.split_once('_'));
    parts.is_some_and(|(hash, tries)| {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        hash.len() == 16
            && hash.bytes().all(hex)
            && !tries.is_empty()
            && tries.bytes().all(|b| b.is_ascii_digit())
    })
}

/// FNV-1a: tells ids apart, nothing more.
pub(crate) fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_that_is_no_object_is_marked_and_never_empty_by_mistake() {
        let empty = serde_json::json!({});
        for nothing in ["", " \n", "{}", "null"] {
            assert_eq!(input(nothing, false), (empty.clone(), true));
            assert!(!input(nothing, true).1, "a cut call has no arguments");
        }
        for broken in ["{\"a\": \"b", "0", "\"\"", "[1]", "{} {}"] {
            let marked = serde_json::json!({"_invalid": broken});
            assert!(is_invalid(&marked));
            assert_eq!(input(broken, false), (marked, false), "{broken}");
        }
        assert!(input("{\"a\":1}", true).1, "whole before the cut");
        assert!(!is_invalid(&serde_json::json!({"_invalid": "x", "a": 1})));
    }

    #[test]
    fn ids_are_kept_where_they_fit_and_unique_always() {
        let mut taken = HashSet::from(["toolu_9".to_owned()]);
        let mut ids = HashSet::new();
        for id in [
            "toolu_1",
            "toolu_1",
            "toolu_9",
            "",
            "",
            "a b",
            &"x".repeat(99),
            "functions.a:0",
        ] {
            assert!(
                ids.insert(fit_id(id, &mut taken).as_str().to_owned()),
                "{id}"
            );
        }
        assert!(ids.contains("toolu_1") && ids.contains("functions.a:0"));
        let minted = ids.iter().filter(|id| is_minted(id)).count();
        assert_eq!(minted, ids.len() - 2, "{ids:?}");
    }
}
