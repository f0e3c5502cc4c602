//! The content blocks of one answer while it streams, and the message that becomes of them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::dialect::{
    StreamFault,
    answer::{PARTS, Piece, Room},
    lenient::or_default,
};

/// The blocks that have arrived.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    list: Vec<(u64, Block)>,
    room: Room,
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
    #[serde(default, deserialize_with = "or_default")]
    text: String,
    #[serde(default, deserialize_with = "or_default")]
    thinking: String,
    #[serde(default, deserialize_with = "or_default")]
    signature: String,
    #[serde(default, deserialize_with = "or_default")]
    id: String,
    #[serde(default, deserialize_with = "or_default")]
    name: String,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Change<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Cow<'a, str>,
    #[serde(default, deserialize_with = "or_default")]
    text: String,
    #[serde(default, deserialize_with = "or_default")]
    thinking: String,
    #[serde(default, deserialize_with = "or_default")]
    signature: String,
    #[serde(default, deserialize_with = "or_default")]
    partial_json: String,
}

impl Blocks {
    /// Bytes of content so far.
    pub(super) fn used(&self) -> usize {
        self.room.used()
    }

    /// A block opens. `whole` says that it came in one piece, so that reasoning is kept as it stands.
    pub(super) fn start(
        &mut self,
        index: u64,
        raw: &RawValue,
        whole: bool,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<(), StreamFault> {
        if self.list.len() >= PARTS {
            return Err(StreamFault::TooLarge("too many content blocks"));
        }
        if self.list.iter().any(|(known, _)| *known == index) {
            return Err(StreamFault::Malformed("a content block was opened twice"));
        }
        let start: Start<'_> = serde_json::from_str(raw.get())
            .map_err(|_| StreamFault::Malformed("a content block cannot be read"))?;
        self.room.grow(raw.get().len())?;
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
        self.room.grow(more.iter().map(|part| part.len()).sum())?;
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

    /// The blocks as parts of an answer.
    pub(super) fn pieces(self) -> Vec<Piece> {
        let piece = |(_, block)| match block {
            Block::Text(text) => Some(Piece::Text(text)),
            Block::Whole(raw) => Some(Piece::Reasoning(raw)),
            Block::Thinking {
                thinking,
                signature,
            } => Some(Piece::Reasoning(thinking_block(&thinking, &signature))),
            Block::Call {
                id,
                name,
                input,
                json,
            } => Some(Piece::Call {
                id,
                name,
                arguments: if json.is_empty() {
                    input.unwrap_or_default()
                } else {
                    json
                },
            }),
            Block::Passed => None,
        };
        self.list.into_iter().filter_map(piece).collect()
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
