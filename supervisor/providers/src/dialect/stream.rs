//! Bytes to events, whatever the chunking: server-sent events, lines of JSON, or one whole document.

use protocol::{Inference, Usage, bounds};

use crate::{
    classify::Upstream,
    sse::{Sse, TooLong},
};

/// Forwards text while it streams.
pub type OnText<'a> = &'a mut dyn FnMut(&str);

/// Bytes of white space before the first byte that says what a body is.
const BLANKS: usize = 64 * 1024;

/// Why a stream gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamFault {
    /// The provider said so itself.
    InBand(Upstream),
    /// It ended before its dialect's terminal event.
    Cut,
    /// It is not what the dialect says.
    Malformed(&'static str),
    /// A bound was reached.
    TooLarge(&'static str),
}

impl From<TooLong> for StreamFault {
    fn from(bound: TooLong) -> Self {
        Self::TooLarge(match bound {
            TooLong::Line => "one event is longer than 4 MiB",
            TooLong::Stream => "the stream is longer than 128 MiB",
        })
    }
}

/// What has come of an answer that is not whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SoFar {
    /// Bytes of content, whether they are forwarded or not: text, reasoning, calls.
    pub content: usize,
    /// What the provider has counted.
    pub usage: Usage,
}

/// Decodes one answer.
pub trait Decode: std::fmt::Debug + Send {
    /// Takes bytes in whatever pieces; text goes to `on_text` as it comes. True when the answer is
    /// whole: what may follow is not read.
    ///
    /// # Errors
    /// [`StreamFault`]; the stream is dead then.
    fn push(&mut self, bytes: &[u8], on_text: OnText<'_>) -> Result<bool, StreamFault>;

    /// What has come so far.
    fn so_far(&self) -> SoFar;

    /// The answer, once the bytes are over (cleanly: a broken connection never comes here).
    ///
    /// # Errors
    /// [`StreamFault::Cut`] when the terminal event never came.
    fn finish(self: Box<Self>, on_text: OnText<'_>) -> Result<Inference, StreamFault>;
}

/// A dialect's grammar above its framing.
pub(crate) trait Grammar: std::fmt::Debug + Send {
    /// One event of a stream. True when nothing more is to be read.
    fn event(&mut self, data: &[u8], on_text: OnText<'_>) -> Result<bool, StreamFault>;

    /// A whole answer in one document. Error documents are sorted out before by [`Streamed`].
    fn document(&mut self, body: &[u8], on_text: OnText<'_>) -> Result<(), StreamFault>;

    /// What has come so far.
    fn so_far(&self) -> SoFar;

    /// The answer, or [`StreamFault::Cut`] if its terminal event never came.
    fn finish(self) -> Result<Inference, StreamFault>;
}

/// How events are cut out of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events; a body that begins with `{` or `[` is one document.
    Sse,
    /// One JSON object a line.
    Lines,
}

/// A grammar with its framing.
#[derive(Debug)]
pub(crate) struct Streamed<G> {
    grammar: G,
    framing: Framing,
    body: Body,
    total: usize,
    done: bool,
    failed: Option<StreamFault>,
}

#[derive(Debug)]
enum Body {
    /// Nothing but blanks so far.
    Unknown(Vec<u8>),
    Events(Sse),
    Document(Vec<u8>),
    /// The line that has begun.
    Line(Vec<u8>),
}

impl<G: Grammar> Streamed<G> {
    pub(crate) fn new(grammar: G, framing: Framing) -> Self {
        Self {
            grammar,
            framing,
            body: Body::Unknown(Vec::new()),
            total: 0,
            done: false,
            failed: None,
        }
    }

    fn take(&mut self, bytes: &[u8], on_text: OnText<'_>) -> Result<(), StreamFault> {
        if let Body::Unknown(begun) = &mut self.body {
            begun.extend_from_slice(bytes);
            let Some(at) = first(begun) else {
                if begun.len() > BLANKS {
                    return Err(StreamFault::Malformed("the answer is blank"));
                }
                return Ok(());
            };
            let begun = std::mem::take(begun);
            let rest = begun.get(at..).unwrap_or_default();
            let whole = matches!(rest.first(), Some(b'{' | b'['));
            self.body = match self.framing {
                Framing::Lines => Body::Line(Vec::new()),
                Framing::Sse if whole => Body::Document(Vec::new()),
                Framing::Sse => Body::Events(Sse::default()),
            };
            return self.take_known(rest, on_text);
        }
        self.take_known(bytes, on_text)
    }

    fn take_known(&mut self, bytes: &[u8], on_text: OnText<'_>) -> Result<(), StreamFault> {
        let (grammar, done) = (&mut self.grammar, &mut self.done);
        match &mut self.body {
            Body::Unknown(_) => Ok(()),
            Body::Document(document) => {
                if document.len() + bytes.len() > bounds::ANSWER {
                    return Err(StreamFault::TooLarge("the answer is longer than 8 MiB"));
                }
                document.extend_from_slice(bytes);
                Ok(())
            }
            Body::Events(sse) => sse.push(bytes, &mut |data: &[u8]| {
                // A keep-alive in disguise; some hosts send it while a call is queued.
                if data.trim_ascii().is_empty() {
                    return Ok(true);
                }
                *done = one(grammar, data, on_text)?;
                Ok::<_, StreamFault>(!*done)
            }),
            Body::Line(line) => {
                self.total = self.total.saturating_add(bytes.len());
                if self.total > bounds::STREAM {
                    return Err(TooLong::Stream.into());
                }
                let mut rest = bytes;
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let (head, tail) = rest.split_at_checked(end).unwrap_or((rest, &[]));
                    rest = tail.get(1..).unwrap_or_default();
                    grow(line, head)?;
                    let whole = std::mem::take(line);
                    if whole.trim_ascii().is_empty() {
                        continue;
                    }
                    *done = one(grammar, whole.trim_ascii(), on_text)?;
                    if *done {
                        return Ok(());
                    }
                }
                grow(line, rest)
            }
        }
    }
}

/// One event. What its dialect cannot read, or would pass over in silence, may be an error in the words of
/// the host that stands before the model.
fn one<G: Grammar>(grammar: &mut G, data: &[u8], on_text: OnText<'_>) -> Result<bool, StreamFault> {
    if crate::classify::is_foreign_error(data) {
        return Err(StreamFault::InBand(Upstream::read(None, data)));
    }
    grammar.event(data, on_text)
}

impl<G: Grammar> Decode for Streamed<G> {
    fn push(&mut self, bytes: &[u8], on_text: OnText<'_>) -> Result<bool, StreamFault> {
        if let Some(fault) = &self.failed {
            return Err(fault.clone());
        }
        if !self.done
            && let Err(fault) = self.take(bytes, on_text)
        {
            self.failed = Some(fault.clone());
            return Err(fault);
        }
        Ok(self.done)
    }

    fn so_far(&self) -> SoFar {
        self.grammar.so_far()
    }

    fn finish(mut self: Box<Self>, on_text: OnText<'_>) -> Result<Inference, StreamFault> {
        if let Some(fault) = self.failed {
            return Err(fault);
        }
        match self.body {
            Body::Document(document) => {
                if crate::classify::is_error_document(&document) {
                    return Err(StreamFault::InBand(Upstream::read(None, &document)));
                }
                // A document that broke off is no document at all: the connection's fault.
                if serde_json::from_slice::<serde::de::IgnoredAny>(&document).is_err() {
                    return Err(StreamFault::Cut);
                }
                self.grammar.document(&document, on_text)?;
            }
            // The last line of a body may lack its end; half a line is no line.
            Body::Line(line) if !self.done => {
                let line = line.trim_ascii();
                if !line.is_empty() {
                    if serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err() {
                        return Err(StreamFault::Cut);
                    }
                    self.grammar.event(line, on_text)?;
                }
            }
            Body::Unknown(_) | Body::Events(_) | Body::Line(_) => {}
        }
        self.grammar.finish()
    }
}

/// The first byte that is neither blank nor of a byte-order mark.
fn first(begun: &[u8]) -> Option<usize> {
    let mark = [0xef, 0xbb, 0xbf];
    let from = if begun.starts_with(&mark) { 3 } else { 0 };
    if from == 0 && begun.len() < 3 && mark.starts_with(begun) {
        return None;
    }
    let rest = begun.get(from..).unwrap_or_default();
    let at = rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
    Some(from + at)
}

fn grow(line: &mut Vec<u8>, more: &[u8]) -> Result<(), StreamFault> {
    if line.len() + more.len() > bounds::STREAM_LINE {
        return Err(TooLong::Line.into());
    }
    line.extend_from_slice(more);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes what it is given; ends at an event `stop`.
    #[derive(Debug, Default)]
    struct Notes(Vec<String>);

    impl Grammar for Notes {
        fn event(&mut self, data: &[u8], on_text: OnText<'_>) -> Result<bool, StreamFault> {
            let data = String::from_utf8_lossy(data).into_owned();
            on_text(&data);
            self.0.push(data);
            Ok(self.0.last().is_some_and(|data| data == "stop"))
        }
        fn document(&mut self, body: &[u8], on_text: OnText<'_>) -> Result<(), StreamFault> {
            on_text(&format!("whole {}", String::from_utf8_lossy(body)));
            Ok(())
        }
        fn so_far(&self) -> SoFar {
            SoFar::default()
        }
        fn finish(self) -> Result<Inference, StreamFault> {
            Err(StreamFault::Cut)
        }
    }

    fn seen(framing: Framing, body: &str, size: usize) -> (String, bool) {
        let mut decoder = Box::new(Streamed::new(Notes::default(), framing));
        let mut text = Vec::new();
        let mut done = false;
        for piece in body.as_bytes().chunks(size) {
            done = decoder
                .push(piece, &mut |data| text.push(data.to_owned()))
                .expect("good");
            if done {
                break;
            }
        }
        let _ = decoder.finish(&mut |data| text.push(data.to_owned()));
        (text.join("|"), done)
    }

    #[test]
    fn a_body_is_known_by_its_first_byte_in_any_pieces() {
        let table = [
            (
                Framing::Sse,
                "\u{feff} \r\n{\"a\": 1}\n",
                "whole {\"a\": 1}\n",
                false,
            ),
            (Framing::Sse, "[1]", "whole [1]", false),
            (
                Framing::Sse,
                "\u{feff}\n\ndata: a\n\ndata:\n\ndata: b\n\n",
                "a|b",
                false,
            ),
            (
                Framing::Sse,
                ": x\n\ndata: a\r\n\r\ndata: stop\n\ndata: no\n\n",
                "a|stop",
                true,
            ),
            (Framing::Sse, "", "", false),
            (
                Framing::Lines,
                "\u{feff}{\"a\":1}\r\n\n{\"b\":2}",
                "{\"a\":1}|{\"b\":2}",
                false,
            ),
            (Framing::Lines, "{\"a\":1}\n{\"b\":", "{\"a\":1}", false),
            (Framing::Lines, "stop\nno\n", "stop", true),
        ];
        for (framing, body, expected, done) in table {
            for size in 1..=body.len().max(1) {
                let got = seen(framing, body, size);
                assert_eq!(got, (expected.to_owned(), done), "{body:?} by {size}");
            }
        }
    }

    #[test]
    fn an_error_document_and_half_a_document_are_no_answers() {
        let end = |body: &str| {
            let mut decoder = Box::new(Streamed::new(Notes::default(), Framing::Sse));
            decoder.push(body.as_bytes(), &mut |_| {}).expect("good");
            decoder.finish(&mut |_| {})
        };
        assert!(matches!(
            end("{\"error\":{\"message\":\"no\"}}"),
            Err(StreamFault::InBand(_))
        ));
        assert_eq!(end("{\"a\":"), Err(StreamFault::Cut));
    }

    #[test]
    fn a_line_has_a_longest_length() {
        let mut decoder = Streamed::new(Notes::default(), Framing::Lines);
        let long = vec![b'x'; bounds::STREAM_LINE + 1];
        assert!(matches!(
            decoder.push(&long, &mut |_| {}),
            Err(StreamFault::TooLarge(_))
        ));
        assert!(decoder.push(b"\n", &mut |_| {}).is_err(), "dead for good");
    }
}
