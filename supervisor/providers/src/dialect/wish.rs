//! What is asked for beside the conversation: an answer of a given form, and what a person attaches.

use base64::Engine as _;
use serde_json::{Value, json, value::RawValue};

use super::{Target, Unsendable};

/// What a call asks for beside its conversation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wish {
    /// The JSON Schema that the answer's text must fit.
    pub schema: Option<Value>,
    /// What goes with the last words of the person.
    pub attachments: Vec<Attachment>,
}

/// A file for the model to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// How it is looked at.
    pub kind: Kind,
    /// Its media type (`image/png`).
    pub media: &'static str,
    /// Its name.
    pub name: String,
    /// Its content, base64.
    pub data: String,
}

/// How a file is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// As a picture.
    Image,
    /// As a document.
    Document,
}

/// The name that dialects want for a schema.
pub(crate) const NAME: &str = "answer";

impl Attachment {
    /// What a file is by its first bytes and the end of its name; `None` where no provider takes it.
    #[must_use]
    pub fn media(kind: Kind, name: &str, bytes: &[u8]) -> Option<&'static str> {
        let riff = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
        match kind {
            Kind::Image if bytes.starts_with(b"\x89PNG\r\n\x1a\n") => Some("image/png"),
            Kind::Image if bytes.starts_with(b"\xff\xd8\xff") => Some("image/jpeg"),
            Kind::Image if bytes.starts_with(b"GIF8") => Some("image/gif"),
            Kind::Image if riff => Some("image/webp"),
            Kind::Image => None,
            Kind::Document if bytes.starts_with(b"%PDF-") => Some("application/pdf"),
            Kind::Document if std::str::from_utf8(bytes).is_err() => None,
            Kind::Document if name.ends_with(".md") => Some("text/markdown"),
            Kind::Document if name.ends_with(".html") => Some("text/html"),
            Kind::Document if name.ends_with(".csv") => Some("text/csv"),
            Kind::Document => Some("text/plain"),
        }
    }

    /// The content of a document that is text.
    pub(crate) fn text(&self) -> String {
        let bytes = base64::engine::general_purpose::STANDARD.decode(&self.data);
        String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
    }

    pub(crate) fn url(&self) -> String {
        format!("data:{};base64,{}", self.media, self.data)
    }

    /// The end of a file's name that stands for its media type.
    pub(crate) fn format(&self) -> &'static str {
        match self.media {
            "application/pdf" => "pdf",
            "text/markdown" => "md",
            "text/html" => "html",
            "text/csv" => "csv",
            "text/plain" => "txt",
            "image/jpeg" => "jpeg",
            "image/gif" => "gif",
            "image/webp" => "webp",
            _ => "png",
        }
    }
}

impl<'a> Target<'a> {
    /// The schema that the answer must fit.
    pub(crate) fn schema(&self) -> Option<&'a Value> {
        self.wish.and_then(|wish| wish.schema.as_ref())
    }

    /// What is attached, each as the dialect's `form` writes it.
    pub(crate) fn attached(
        &self,
        form: impl Fn(&Attachment) -> Option<Value>,
    ) -> Result<Vec<Value>, Unsendable> {
        let all = self.wish.map(|wish| wish.attachments.as_slice());
        let each = all.unwrap_or_default().iter().map(|attachment| {
            form(attachment).ok_or_else(|| Unsendable::Untaken {
                provider: self.provider.to_owned(),
                model: self.model.to_owned(),
                what: match attachment.kind {
                    Kind::Image => "images",
                    Kind::Document => "documents",
                },
                media: attachment.media,
            })
        });
        each.collect()
    }
}

/// Parts as the raw text that a list of content takes.
pub(crate) fn raw(parts: Vec<Value>) -> Vec<Box<RawValue>> {
    let raws = parts
        .into_iter()
        .map(|part| serde_json::value::to_raw_value(&part));
    // A value always encodes.
    raws.filter_map(Result::ok).collect()
}

/// Whether strict modes take a schema: each object closed, each of its fields required.
pub(crate) fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            let properties = fields.get("properties").and_then(Value::as_object);
            let required = fields.get("required").and_then(Value::as_array);
            let all = properties.is_none_or(|properties| {
                let named = |name: &String| {
                    required.is_some_and(|list| list.iter().any(|item| item.as_str() == Some(name)))
                };
                fields.get("additionalProperties") == Some(&Value::Bool(false))
                    && properties.keys().all(named)
            });
            all && fields.values().all(is_strict)
        }
        Value::Array(items) => items.iter().all(is_strict),
        _ => true,
    }
}

/// `response_format` of Chat.
pub(crate) fn response_format(schema: &Value, object_only: bool) -> Value {
    if object_only {
        return json!({"type": "json_object"});
    }
    json!({"type": "json_schema", "json_schema": {"name": NAME, "schema": schema, "strict": is_strict(schema)}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Dialect, Quirks, golden};
    use protocol::Message;

    const PNG: &str = "iVBORw0KGgo=";

    fn body(dialect: Dialect, quirks: &Quirks, wish: &Wish) -> Result<Value, Unsendable> {
        let target = Target {
            wish: Some(wish),
            ..golden::target(quirks)
        };
        let request = golden::request(vec![Message::user("look")]);
        let outgoing = dialect.encode(&request, &target)?;
        Ok(serde_json::from_slice(&outgoing.body).expect("JSON"))
    }

    fn attached(kind: Kind, media: &'static str, name: &str) -> Wish {
        let attachment = Attachment {
            kind,
            media,
            name: name.into(),
            data: PNG.into(),
        };
        Wish {
            schema: None,
            attachments: vec![attachment],
        }
    }

    #[test]
    fn each_dialect_is_asked_for_a_form_in_its_own_words() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
            "additionalProperties": false});
        let wish = Wish {
            schema: Some(schema.clone()),
            attachments: Vec::new(),
        };
        let open = Wish {
            schema: Some(json!({"type": "object", "properties": {"a": {}}})),
            attachments: Vec::new(),
        };
        let of = |dialect, wish| body(dialect, &Quirks::default(), wish).expect("sendable");
        let anthropic = of(Dialect::Anthropic, &wish);
        assert_eq!(
            anthropic["output_config"],
            json!({"format": {"type": "json_schema", "schema": schema}})
        );
        let chat = of(Dialect::OpenaiChat, &wish);
        let format = json!({"name": "answer", "schema": schema, "strict": true});
        assert_eq!(
            chat["response_format"],
            json!({"type": "json_schema", "json_schema": format})
        );
        assert_eq!(
            of(Dialect::OpenaiChat, &open)["response_format"]["json_schema"]["strict"],
            false
        );
        let responses = of(Dialect::OpenaiResponses, &wish);
        let format =
            json!({"type": "json_schema", "name": "answer", "schema": schema, "strict": true});
        assert_eq!(responses["text"], json!({"format": format}));
        let gemini = of(Dialect::Gemini, &wish);
        assert_eq!(
            gemini["generationConfig"],
            json!({"maxOutputTokens": 1_000, "responseMimeType": "application/json", "responseJsonSchema": schema})
        );
        let bedrock = of(Dialect::Bedrock, &wish);
        let structure = json!({"jsonSchema": {"name": "answer", "schema": schema.to_string()}});
        assert_eq!(
            bedrock["outputConfig"]["textFormat"],
            json!({"type": "json_schema", "structure": structure})
        );
        assert_eq!(of(Dialect::Ollama, &wish)["format"], schema);

        // Hosts that know JSON and no schema are told it in words.
        let quirks = Quirks {
            no_schema: true,
            ..Quirks::default()
        };
        let told = body(Dialect::OpenaiChat, &quirks, &wish).expect("sendable");
        assert_eq!(told["response_format"], json!({"type": "json_object"}));
        assert!(
            told["messages"][0]["content"]
                .as_str()
                .is_some_and(|words| words.contains(&schema.to_string()))
        );
    }

    #[test]
    fn each_dialect_takes_a_picture_in_its_own_words() {
        let wish = attached(Kind::Image, "image/png", "a.png");
        let of = |dialect| body(dialect, &Quirks::default(), &wish).expect("sendable");
        let url = format!("data:image/png;base64,{PNG}");
        let source = json!({"type": "base64", "media_type": "image/png", "data": PNG});
        let anthropic = &of(Dialect::Anthropic)["messages"][0]["content"];
        assert_eq!(anthropic[0], json!({"type": "image", "source": source}));
        assert_eq!(
            (
                &anthropic[1]["text"],
                anthropic[1]["cache_control"].is_object()
            ),
            (&json!("look"), true)
        );
        let chat = of(Dialect::OpenaiChat);
        assert_eq!(
            chat["messages"][1]["content"],
            json!([{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "look"}])
        );
        let responses = of(Dialect::OpenaiResponses);
        assert_eq!(
            responses["input"][0]["content"],
            json!([{"type": "input_image", "image_url": url}, {"type": "input_text", "text": "look"}])
        );
        let gemini = of(Dialect::Gemini);
        let inline = json!({"mimeType": "image/png", "data": PNG});
        assert_eq!(
            gemini["contents"][0]["parts"],
            json!([{"inlineData": inline}, {"text": "look"}])
        );
        let bedrock = of(Dialect::Bedrock);
        let image = json!({"format": "png", "source": {"bytes": PNG}});
        assert_eq!(
            bedrock["messages"][0]["content"][0],
            json!({"image": image})
        );
        let ollama = of(Dialect::Ollama);
        assert_eq!(
            ollama["messages"][1],
            json!({"role": "user", "content": "look", "images": [PNG]})
        );
    }

    #[test]
    fn documents_go_where_they_are_taken_and_elsewhere_the_error_says_who_does_not() {
        let wish = attached(Kind::Document, "application/pdf", "a b.pdf");
        let quirks = Quirks::default();
        let of = |dialect| body(dialect, &quirks, &wish).expect("sendable");
        let anthropic = &of(Dialect::Anthropic)["messages"][0]["content"][0];
        assert_eq!(anthropic["type"], "document");
        assert_eq!(anthropic["source"]["media_type"], "application/pdf");
        let file = &of(Dialect::OpenaiChat)["messages"][1]["content"][0];
        assert_eq!(
            (&file["type"], &file["file"]["filename"]),
            (&json!("file"), &json!("a b.pdf"))
        );
        let file = &of(Dialect::OpenaiResponses)["input"][0]["content"][0];
        assert_eq!(
            (&file["type"], &file["filename"]),
            (&json!("input_file"), &json!("a b.pdf"))
        );
        assert_eq!(
            of(Dialect::Gemini)["contents"][0]["parts"][0]["inlineData"]["mimeType"],
            "application/pdf"
        );
        let document = &of(Dialect::Bedrock)["messages"][0]["content"][0]["document"];
        assert_eq!(
            (&document["format"], &document["name"]),
            (&json!("pdf"), &json!("a b pdf"))
        );

        let refused = |dialect, quirks: &Quirks, wish: &Wish| {
            body(dialect, quirks, wish)
                .expect_err("not taken")
                .to_string()
        };
        let words = refused(Dialect::Ollama, &quirks, &wish);
        assert!(
            words.contains("`p` takes no documents of the type application/pdf (model `m`)"),
            "{words}"
        );
        let blind = Quirks {
            no_attachments: true,
            ..Quirks::default()
        };
        let image = attached(Kind::Image, "image/png", "a.png");
        assert!(refused(Dialect::OpenaiChat, &blind, &image).contains("takes no images"));
    }

    #[test]
    fn a_file_is_known_by_its_bytes() {
        let of = Attachment::media;
        assert_eq!(
            of(Kind::Image, "x", b"\x89PNG\r\n\x1a\n.."),
            Some("image/png")
        );
        assert_eq!(of(Kind::Image, "x.png", b"<svg>"), None);
        assert_eq!(of(Kind::Image, "x", b"RIFF....WEBPVP8"), Some("image/webp"));
        assert_eq!(
            of(Kind::Document, "x", b"%PDF-1.7"),
            Some("application/pdf")
        );
        assert_eq!(of(Kind::Document, "x.md", b"# x"), Some("text/markdown"));
        assert_eq!(of(Kind::Document, "x", b"\xff\xfe"), None);
    }
}
