//! The parts of one answer while it streams, and the message that becomes of them.

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::path;
use crate::dialect::{
    StreamFault,
    answer::{PARTS, Piece, Room},
    lenient::or_default,
    stream::OnText,
};

/// One part as it comes; what is not named here is looked at only as raw text.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    #[serde(default)]
    text: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    thought: bool,
    #[serde(borrow, default)]
    thought_signature: Option<&'a RawValue>,
    #[serde(default)]
    function_call: Option<WireCall>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireCall {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    args: Option<Value>,
    #[serde(default, deserialize_with = "or_default")]
    partial_args: Vec<Partial>,
    #[serde(default, deserialize_with = "or_default")]
    will_continue: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Partial {
    json_path: String,
    #[serde(default)]
    string_value: Option<String>,
    #[serde(default)]
    number_value: Option<serde_json::Number>,
    #[serde(default)]
    bool_value: Option<bool>,
}

/// What has arrived.
#[derive(Debug, Default)]
pub(super) struct Parts {
    list: Vec<Item>,
    /// The last call of the list is still being written.
    open: bool,
    room: Room,
}

#[derive(Debug)]
enum Item {
    /// Text; `signed` keeps what follows apart, so that the signature stays with its own part.
    Text { text: String, signed: bool },
    /// Thoughts without a signature, joined.
    Thought(String),
    /// A wire part, or a lone signature, as it goes back.
    Raw(String),
    Call {
        id: String,
        name: String,
        input: Value,
        whole: bool,
    },
}

impl Parts {
    /// Bytes of content so far.
    pub(super) fn used(&self) -> usize {
        self.room.used()
    }

    /// Takes one part.
    pub(super) fn push(&mut self, raw: &RawValue, on_text: OnText<'_>) -> Result<(), StreamFault> {
        self.room.grow(raw.get().len())?;
        if self.list.len() >= PARTS {
            return Err(StreamFault::TooLarge("too many content parts"));
        }
        let part: Wire<'_> = serde_json::from_str(raw.get())
            .map_err(|_| StreamFault::Malformed("a part cannot be read"))?;
        // `null` and an empty text are no signature.
        let signature = part
            .thought_signature
            .map(RawValue::get)
            .filter(|raw| !matches!(*raw, "null" | "\"\""));
        match (part.function_call, part.text) {
            (Some(call), _) => self.call(call, signature),
            (None, Some(text)) if part.thought => {
                self.open = false;
                match (self.list.last_mut(), signature) {
                    (_, Some(_)) => self.list.push(Item::Raw(raw.get().to_owned())),
                    (Some(Item::Thought(known)), None) => known.push_str(&text),
                    (_, None) => self.list.push(Item::Thought(text)),
                }
                Ok(())
            }
            (None, Some(text)) => {
                self.open = false;
                match signature {
                    Some(_) if text.is_empty() => self.list.push(Item::Raw(raw.get().to_owned())),
                    Some(signature) => {
                        self.list.push(Item::Raw(lone(signature)));
                        on_text(&text);
                        self.list.push(Item::Text { text, signed: true });
                    }
                    None => {
                        on_text(&text);
                        self.text(text);
                    }
                }
                Ok(())
            }
            // Run by the provider itself, or unknown: of use only for its signature.
            (None, None) => {
                if signature.is_some() {
                    self.list.push(Item::Raw(raw.get().to_owned()));
                }
                Ok(())
            }
        }
    }

    fn text(&mut self, text: String) {
        match self.list.last_mut() {
            Some(Item::Text {
                text: known,
                signed: false,
            }) => known.push_str(&text),
            _ if text.is_empty() => {}
            _ => self.list.push(Item::Text {
                text,
                signed: false,
            }),
        }
    }

    fn call(&mut self, call: WireCall, signature: Option<&str>) -> Result<(), StreamFault> {
        let named = call.name.filter(|name| !name.is_empty());
        let Some(name) = named else {
            return self.goes_on(call.args, call.partial_args, call.will_continue);
        };
        if let Some(signature) = signature {
            self.list.push(Item::Raw(lone(signature)));
        }
        let input = match call.args {
            None | Some(Value::Null) => Value::Object(Map::new()),
            Some(input) => input,
        };
        self.list.push(Item::Call {
            id: call.id.unwrap_or_default(),
            name,
            input,
            whole: true,
        });
        self.open = true;
        self.goes_on(None, call.partial_args, call.will_continue)
    }

    /// More of the open call, or its end.
    fn goes_on(
        &mut self,
        args: Option<Value>,
        pieces: Vec<Partial>,
        more: bool,
    ) -> Result<(), StreamFault> {
        if !self.open {
            // An empty call closes what is closed already.
            let nothing = args.is_none() && pieces.is_empty() && !more;
            let fault = StreamFault::Malformed("arguments belong to no call");
            return if nothing { Ok(()) } else { Err(fault) };
        }
        let open = self.list.iter_mut().rev().find_map(|item| match item {
            Item::Call { input, whole, .. } => Some((input, whole)),
            _ => None,
        });
        let Some((input, whole)) = open else {
            return Err(StreamFault::Malformed("arguments belong to no call"));
        };
        if let Some(args @ Value::Object(_)) = args {
            *input = args;
        }
        for piece in pieces {
            let value = match (piece.string_value, piece.number_value, piece.bool_value) {
                (Some(text), _, _) => Value::String(text),
                (None, Some(number), _) => Value::Number(number),
                (None, None, Some(truth)) => Value::Bool(truth),
                (None, None, None) => Value::Null,
            };
            path::put(input, &piece.json_path, value).map_err(StreamFault::Malformed)?;
        }
        *whole = !more;
        self.open = more;
        Ok(())
    }

    /// The parts of the answer; `cut` says that the output limit ended it.
    pub(super) fn pieces(self, cut: bool) -> Vec<Piece> {
        let piece = |item| match item {
            Item::Text { text, .. } => Piece::Text(text),
            Item::Thought(text) => {
                let part = serde_json::json!({"text": text, "thought": true});
                Piece::Reasoning(part.to_string())
            }
            Item::Raw(raw) => Piece::Reasoning(raw),
            Item::Call {
                id,
                name,
                input,
                whole,
            } => {
                let mut arguments = input.to_string();
                // A call that nobody closed is whole where the answer is, and cut where it is: half an
                // object is what nobody runs.
                if cut && !whole {
                    arguments.pop();
                }
                Piece::Call {
                    id,
                    name,
                    arguments,
                }
            }
        };
        let empty = |item: &Item| matches!(item, Item::Thought(text) if text.is_empty());
        let items = self.list.into_iter().filter(|item| !empty(item));
        items.map(piece).collect()
    }
}

/// A signature by itself, its bytes as they came.
fn lone(signature: &str) -> String {
    format!("{{\"thoughtSignature\":{signature}}}")
}
