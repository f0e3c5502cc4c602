//! Reasoning of a Chat answer: kept in the field that it came in, so that it can go back in it.

use serde_json::{Map, Value};

/// The reasoning so far, by field.
#[derive(Debug, Default)]
pub(super) struct Reasoning {
    content: Option<String>,
    plain: Option<String>,
    details: Vec<Map<String, Value>>,
    /// Mistral's: chunks of a content list.
    thinking: Option<String>,
    signature: Option<Value>,
}

impl Reasoning {
    pub(super) fn content(&mut self, text: &str) {
        append(&mut self.content, text);
    }

    pub(super) fn plain(&mut self, text: &str) {
        append(&mut self.plain, text);
    }

    /// A piece of a content list's thinking: `[{"type":"text","text":…}]`, or plain text.
    pub(super) fn thinking(&mut self, chunk: &Value) {
        if let Some(signature) = chunk.get("signature").filter(|s| !s.is_null()) {
            self.signature = Some(signature.clone());
        }
        match chunk.get("thinking") {
            Some(Value::String(text)) => append(&mut self.thinking, text),
            Some(Value::Array(list)) => {
                for text in list.iter().filter_map(|part| part.get("text")?.as_str()) {
                    append(&mut self.thinking, text);
                }
            }
            _ => {}
        }
    }

    /// An item of `reasoning_details`: pieces of one index and type are one item.
    pub(super) fn detail(&mut self, item: Value) {
        let Value::Object(item) = item else { return };
        let same = |known: &Map<String, Value>| {
            known.get("index") == item.get("index")
                && known.get("type") == item.get("type")
                && item.contains_key("index")
                // A sealed item is whole: the next one is another.
                && !known.contains_key("data")
        };
        let Some(known) = self.details.iter_mut().rev().find(|known| same(known)) else {
            self.details.push(item);
            return;
        };
        for (key, value) in item {
            match (known.get_mut(&key), value) {
                (_, Value::Null) => {}
                (Some(Value::String(text)), Value::String(more))
                    if matches!(key.as_str(), "text" | "summary") =>
                {
                    text.push_str(&more);
                }
                (_, value) => {
                    known.insert(key, value);
                }
            }
        }
    }

    /// The reasoning as the fields of an assistant message, if there was any.
    pub(super) fn finish(self) -> Option<String> {
        let mut fields = Map::new();
        let mut text = |key: &str, value: Option<String>| {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                fields.insert(key.into(), value.into());
            }
        };
        text("reasoning_content", self.content);
        text("reasoning", self.plain);
        if !self.details.is_empty() {
            fields.insert("reasoning_details".into(), self.details.into());
        }
        if let Some(thinking) = self.thinking.filter(|text| !text.is_empty()) {
            let mut chunk = serde_json::json!({
                "type": "thinking",
                "thinking": [{"type": "text", "text": thinking}],
            });
            if let (Some(chunk), Some(signature)) = (chunk.as_object_mut(), self.signature) {
                chunk.insert("signature".into(), signature);
            }
            fields.insert("content".into(), serde_json::json!([chunk]));
        }
        (!fields.is_empty()).then(|| Value::from(fields).to_string())
    }
}

fn append(known: &mut Option<String>, text: &str) {
    known.get_or_insert_default().push_str(text);
}
