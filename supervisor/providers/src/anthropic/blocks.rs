//! The content blocks of one answer while it streams, and the message that becomes of them.

use std::{borrow::Cow, collections::HashSet};

use protocol::{CallId, Inference, Message, Part, Role, StopReason, Usage, bounds};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::decode::StreamFault;

/// Blocks of one answer: real ones have a handful, a hundred calls would be ten batches.
const BLOCKS: usize = 1_024;

/// The blocks that have arrived.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    list: Vec<(u64, Block)>,
    bytes: usize,
}

#[derive(Debug)]
enum Block {
    Text(String),
    Thinking {
        thinking: String,
        signature: String,
    },
    /// A block that goes back exactly as it came.
    Whole(String),
    Call {
        id: String,
        name: String,
        input: Option<String>,
        json: String,
    },
    /// Something that the provider carries out itself, or that we do not know.
    Passed,
}

#[derive(Deserialize)]
struct Start<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Cow<'a, str>,
    #[serde(default)]
    text: String,
    #[serde(default)]
    thinking: String,
    #[serde(default)]
    signature: String,
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Change<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Cow<'a, str>,
    #[serde(default)]
    text: String,
    #[serde(default)]
    thinking: String,
    #[serde(default)]
    signature: String,
    #[serde(default)]
    partial_json: String,
}

impl Blocks {
    /// A block opens. `whole` says that it came in one piece, so that reasoning is kept as it stands.
    pub(super) fn start(
        &mut self,
        index: u64,
        raw: &RawValue,
        whole: bool,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<(), StreamFault> {
        if self.list.len() >= BLOCKS {
            return Err(StreamFault::TooLarge("too many content blocks"));
        }
        if self.list.iter().any(|(known, _)| *known == index) {
            return Err(StreamFault::Malformed("a content block was opened twice"));
        }
        let start: Start<'_> = serde_json::from_str(raw.get())
            .map_err(|_| StreamFault::Malformed("a content block cannot be read"))?;
        self.grow(raw.get().len())?;
        let block = match start.kind.as_ref() {
            "text" => {
                on_text(&start.text);
                Block::Text(start.text)
            }
            "thinking" if whole => Block::Whole(raw.get().to_owned()),
            "thinking" => Block::Thinking {
                thinking: start.thinking,
                signature: start.signature,
            },
            "redacted_thinking" => Block::Whole(raw.get().to_owned()),
            "tool_use" => Block::Call {
                id: start.id,
                name: start.name,
                input: start.input.map(|input| input.get().to_owned()),
                json: String::new(),
            },
            _ => Block::Passed,
        };
        self.list.push((index, block));
        Ok(())
    }

    /// A block grows.
    pub(super) fn change(
        &mut self,
        index: u64,
        raw: &RawValue,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<(), StreamFault> {
        let change: Change<'_> = serde_json::from_str(raw.get())
            .map_err(|_| StreamFault::Malformed("a delta cannot be read"))?;
        let more = [
            &change.text,
            &change.thinking,
            &change.signature,
            &change.partial_json,
        ];
        self.grow(more.iter().map(|part| part.len()).sum())?;
        let block = self
            .list
            .iter_mut()
            .rev()
            .find(|(known, _)| *known == index);
        let Some((_, block)) = block else {
            return Err(StreamFault::Malformed(
                "a delta belongs to no content block",
            ));
        };
        match (block, change.kind.as_ref()) {
            (Block::Text(text), "text_delta") => {
                on_text(&change.text);
                text.push_str(&change.text);
            }
            (Block::Thinking { thinking, .. }, "thinking_delta") => {
                thinking.push_str(&change.thinking);
            }
            (Block::Thinking { signature, .. }, "signature_delta") => {
                signature.push_str(&change.signature);
            }
            (Block::Call { json, .. }, "input_json_delta") => json.push_str(&change.partial_json),
            // Citations, and whatever comes next year.
            _ => {}
        }
        Ok(())
    }

    fn grow(&mut self, more: usize) -> Result<(), StreamFault> {
        self.bytes = self.bytes.saturating_add(more);
        if self.bytes > bounds::ANSWER {
            return Err(StreamFault::TooLarge("the answer is longer than 8 MiB"));
        }
        Ok(())
    }

    /// The whole answer.
    pub(super) fn finish(
        self,
        provider: &str,
        model: &str,
        mut stop: StopReason,
        usage: Usage,
        mut taken: HashSet<String>,
    ) -> Inference {
        let cut = matches!(stop, StopReason::Length | StopReason::ContextFull);
        let last = self.list.len().saturating_sub(1);
        let mut parts = Vec::new();
        for (at, (_, block)) in self.list.into_iter().enumerate() {
            let reasoning = |raw: String| Part::Reasoning {
                provider: provider.to_owned(),
                model: model.to_owned(),
                raw,
            };
            match block {
                Block::Text(text) if text.is_empty() => {}
                Block::Text(text) => parts.push(Part::Text { text }),
                Block::Whole(raw) => parts.push(reasoning(raw)),
                Block::Thinking {
                    thinking,
                    signature,
                } => {
                    parts.push(reasoning(thinking_block(&thinking, &signature)));
                }
                Block::Call {
                    id,
                    name,
                    input,
                    json,
                } => {
                    let text = if json.is_empty() {
                        input.as_deref()
                    } else {
                        Some(json.as_str())
                    };
                    let (input, whole) = arguments(text, cut && at == last);
                    if !whole && !cut {
                        stop = StopReason::Malformed;
                    }
                    parts.push(Part::ToolCall {
                        id: fit_id(&id, &mut taken),
                        name,
                        input,
                    });
                }
                Block::Passed => {}
            }
        }
        Inference {
            message: Message {
                role: Role::Assistant,
                parts,
            },
            stop,
            usage,
            provider: provider.to_owned(),
            model: model.to_owned(),
        }
    }
}

/// A call's input: the parsed object, or `{"_invalid": text}` and false, which nobody may run.
///
/// Nothing at all means an empty object, except where the output limit cut the answer: there it is a
/// call whose arguments never came.
fn arguments(text: Option<&str>, cut: bool) -> (serde_json::Value, bool) {
    let text = text.unwrap_or_default();
    let nothing = text.trim().is_empty() || text.trim() == "{}";
    if nothing && !cut {
        return (serde_json::Value::Object(serde_json::Map::new()), true);
    }
    match serde_json::from_str(text) {
        Ok(serde_json::Value::Object(input)) if !nothing => (input.into(), true),
        _ => (serde_json::json!({"_invalid": text}), false),
    }
}

fn thinking_block(thinking: &str, signature: &str) -> String {
    #[derive(Serialize)]
    struct Thinking<'a> {
        r#type: &'static str,
        thinking: &'a str,
        signature: &'a str,
    }
    let block = Thinking {
        r#type: "thinking",
        thinking,
        signature,
    };
    // Strings always encode; an empty block would be left out on the way back.
    serde_json::to_string(&block).unwrap_or_default()
}

/// The provider's id where it fits the treaty and is new in this conversation, else one of our own.
fn fit_id(id: &str, taken: &mut HashSet<String>) -> CallId {
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

/// FNV-1a: tells ids apart, nothing more.
pub(super) fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_that_is_no_object_is_marked_and_never_empty_by_mistake() {
        let empty = serde_json::json!({});
        for nothing in [None, Some(""), Some(" \n"), Some("{}")] {
            assert_eq!(arguments(nothing, false), (empty.clone(), true));
            assert!(!arguments(nothing, true).1, "a cut call has no arguments");
        }
        for broken in ["{\"a\": \"b", "0", "\"\"", "[1]", "{} {}"] {
            let marked = serde_json::json!({"_invalid": broken});
            assert_eq!(arguments(Some(broken), false), (marked, false), "{broken}");
        }
        assert!(arguments(Some("{\"a\":1}"), true).1, "whole before the cut");
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
    }
}
