//! Frames to events, chunks to the grammar of the model that they are of, one document to an answer.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use protocol::{Inference, Message, bounds};
use serde::Deserialize;
use serde_json::Value;

use super::{
    converse, figure,
    frame::{Frame, Frames},
    plain,
};
use crate::{
    anthropic,
    classify::{self, Upstream},
    dialect::{
        Decode, StreamFault, Target,
        stream::{Grammar as _, OnText, SoFar},
    },
    openai::chat,
};

/// Decodes one answer.
#[derive(Debug)]
pub(crate) struct Decoder {
    body: Body,
    answer: Answer,
    done: bool,
    failed: Option<StreamFault>,
}

#[derive(Debug)]
enum Body {
    /// Nothing but blanks so far.
    Unknown,
    Frames(Frames),
    Document(Vec<u8>),
}

/// Every grammar is ready; the first event says which one speaks.
#[derive(Debug)]
struct Answer {
    grammar: Option<Grammar>,
    converse: converse::Answer,
    messages: anthropic::Answer,
    plain: plain::Answer,
    chat: chat::Answer,
    /// What Bedrock itself counted, where the model's own events do not say.
    metrics: Option<(Option<u64>, Option<u64>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grammar {
    Converse,
    Messages,
    Plain,
    /// Chat Completions, chunk by chunk: the open models.
    Chat,
}

#[derive(Deserialize)]
struct Chunk {
    bytes: String,
}

/// Begins to decode an answer of `target`; the conversation so far says which call ids are taken.
pub(crate) fn decoder(target: &Target<'_>, conversation: &[Message]) -> Decoder {
    Decoder {
        body: Body::Unknown,
        answer: Answer {
            grammar: None,
            converse: converse::Answer::new(target, conversation),
            messages: anthropic::Answer::new(target, conversation),
            plain: plain::Answer::new(target, conversation),
            chat: chat::Answer::new(target, conversation),
            metrics: None,
        },
        done: false,
        failed: None,
    }
}

impl Decoder {
    fn take(&mut self, bytes: &[u8], on_text: OnText<'_>) -> Result<bool, StreamFault> {
        let mut bytes = bytes;
        if let Body::Unknown = self.body {
            // A frame begins with a length below 4 MiB: its first byte is zero and no blank.
            let at = bytes.iter().position(|byte| !byte.is_ascii_whitespace());
            let Some(at) = at else { return Ok(false) };
            bytes = bytes.get(at..).unwrap_or_default();
            self.body = match bytes.first() {
                Some(b'{') => Body::Document(Vec::new()),
                _ => Body::Frames(Frames::default()),
            };
        }
        match &mut self.body {
            Body::Unknown => Ok(false),
            Body::Document(document) => {
                if document.len() + bytes.len() > bounds::ANSWER {
                    return Err(StreamFault::TooLarge("the answer is longer than 8 MiB"));
                }
                document.extend_from_slice(bytes);
                Ok(false)
            }
            Body::Frames(frames) => {
                let (answer, done) = (&mut self.answer, &mut self.done);
                frames.push(bytes, &mut |frame| {
                    *done = answer.frame(frame, on_text)?;
                    Ok(!*done)
                })?;
                Ok(*done)
            }
        }
    }
}

impl Decode for Decoder {
    fn push(&mut self, bytes: &[u8], on_text: OnText<'_>) -> Result<bool, StreamFault> {
        if let Some(fault) = &self.failed {
            return Err(fault.clone());
        }
        if self.done {
            return Ok(true);
        }
        let taken = self.take(bytes, on_text);
        if let Err(fault) = &taken {
            self.failed = Some(fault.clone());
        }
        taken
    }

    fn so_far(&self) -> SoFar {
        self.answer.so_far()
    }

    fn finish(mut self: Box<Self>, on_text: OnText<'_>) -> Result<Inference, StreamFault> {
        if let Some(fault) = self.failed {
            return Err(fault);
        }
        match self.body {
            Body::Unknown => return Err(StreamFault::Cut),
            Body::Frames(frames) if frames.is_within() && !self.done => {
                return Err(StreamFault::Cut);
            }
            Body::Frames(_) => {}
            Body::Document(document) => self.answer.document(&document, on_text)?,
        }
        self.answer.finish()
    }
}

impl Answer {
    fn frame(&mut self, frame: &Frame<'_>, on_text: OnText<'_>) -> Result<bool, StreamFault> {
        match frame.kind {
            "event" if frame.name == "chunk" => {
                let damaged = StreamFault::Malformed("a chunk cannot be read");
                let chunk: Chunk =
                    serde_json::from_slice(frame.payload).map_err(|_| damaged.clone())?;
                let inner = STANDARD
                    .decode(chunk.bytes.as_bytes())
                    .map_err(|_| damaged)?;
                self.chunk(&inner, on_text)
            }
            "event" if frame.name == "initial-response" => Ok(false),
            "event" => {
                self.speak(Grammar::Converse)?;
                self.converse.event(frame.name, frame.payload, on_text)
            }
            "exception" => Err(StreamFault::InBand(exception(frame))),
            "error" => Err(StreamFault::InBand(Upstream {
                kind: frame.name.to_owned(),
                message: frame.message.to_owned(),
                ..Upstream::default()
            })),
            _ => Err(StreamFault::Malformed("a frame is of no known kind")),
        }
    }

    fn speak(&mut self, grammar: Grammar) -> Result<(), StreamFault> {
        if *self.grammar.get_or_insert(grammar) == grammar {
            Ok(())
        } else {
            Err(StreamFault::Malformed("one stream speaks in two grammars"))
        }
    }

    fn chunk(&mut self, inner: &[u8], on_text: OnText<'_>) -> Result<bool, StreamFault> {
        let value: Value = serde_json::from_slice(inner)
            .map_err(|_| StreamFault::Malformed("a chunk holds no JSON"))?;
        if let Some(metrics) = value.get("amazon-bedrock-invocationMetrics") {
            let of = |name: &str| figure(metrics.get(name));
            self.metrics = Some((of("inputTokenCount"), of("outputTokenCount")));
        }
        if value.get("type").is_some_and(Value::is_string) {
            self.speak(Grammar::Messages)?;
            return self.messages.event(inner, on_text);
        }
        if plain::Answer::knows(&value) {
            self.speak(Grammar::Plain)?;
            self.plain.chunk(&value, on_text)?;
            return Ok(false);
        }
        if value.get("choices").is_some() {
            self.speak(Grammar::Chat)?;
            return self.chat.event(inner, on_text);
        }
        let events = [
            "messageStart",
            "contentBlockStart",
            "contentBlockDelta",
            "contentBlockStop",
            "messageStop",
            "metadata",
        ];
        let event = events
            .iter()
            .find_map(|name| Some((name, value.get(*name)?)));
        match event {
            Some((name, event)) => {
                self.speak(Grammar::Converse)?;
                self.converse
                    .event(name, event.to_string().as_bytes(), on_text)
            }
            // A chunk of figures, or of something new.
            None => Ok(false),
        }
    }

    fn document(&mut self, body: &[u8], on_text: OnText<'_>) -> Result<(), StreamFault> {
        // A document that broke off is no document at all: the connection's fault.
        let value: Value = serde_json::from_slice(body).map_err(|_| StreamFault::Cut)?;
        if classify::is_error_document(body) {
            return Err(StreamFault::InBand(Upstream::read(None, body)));
        }
        if value.get("output").is_some() {
            self.speak(Grammar::Converse)?;
            return self.converse.document(body, on_text);
        }
        if value.get("type").is_some() {
            self.speak(Grammar::Messages)?;
            return self.messages.document(body, on_text);
        }
        if plain::Answer::knows(&value) {
            self.speak(Grammar::Plain)?;
            return self.plain.chunk(&value, on_text);
        }
        if value.get("choices").is_some() {
            self.speak(Grammar::Chat)?;
            return self.chat.document(body, on_text);
        }
        let error = value.get("message").or_else(|| value.get("Message"));
        Err(match error.and_then(Value::as_str) {
            Some(_) => StreamFault::InBand(Upstream::read(None, body)),
            None => StreamFault::Malformed("the answer is a document of another dialect"),
        })
    }

    fn so_far(&self) -> SoFar {
        let mut so_far = match self.grammar {
            None => return SoFar::default(),
            Some(Grammar::Converse) => self.converse.so_far(),
            Some(Grammar::Messages) => self.messages.so_far(),
            Some(Grammar::Plain) => self.plain.so_far(),
            Some(Grammar::Chat) => self.chat.so_far(),
        };
        if let Some((input, output)) = self.metrics {
            let usage = &mut so_far.usage;
            usage.input_uncached = usage.input_uncached.or(input);
            usage.output = usage.output.or(output);
        }
        so_far
    }

    fn finish(self) -> Result<Inference, StreamFault> {
        let mut answer = match self.grammar {
            None => return Err(StreamFault::Cut),
            Some(Grammar::Converse) => self.converse.finish(),
            Some(Grammar::Messages) => self.messages.finish(),
            Some(Grammar::Plain) => self.plain.finish(),
            Some(Grammar::Chat) => self.chat.finish(),
        }?;
        if let Some((input, output)) = self.metrics {
            let usage = &mut answer.usage;
            usage.input_uncached = usage.input_uncached.or(input);
            usage.output = usage.output.or(output);
        }
        Ok(answer)
    }
}

/// `{"message": …}` with its type in the frame's header; a model's own error tells its first status.
fn exception(frame: &Frame<'_>) -> Upstream {
    let body: Value = serde_json::from_slice(frame.payload).unwrap_or_default();
    let text = |names: [&str; 3]| {
        let mut texts = names.iter().filter_map(|name| body.get(*name)?.as_str());
        texts.next().unwrap_or_default().to_owned()
    };
    Upstream {
        kind: frame.name.to_owned(),
        message: text(["message", "Message", "originalMessage"]),
        ..Upstream::default()
    }
}

#[cfg(test)]
mod tests;
