//! Masking by value: no key reaches a sink, plain or in the forms in which programs write it.
//!
//! Found are the key itself; with any of its characters escaped as JSON, a shell or C does it
//! (`\"`, `\/`, `\u002f`, `\x2f`, also several layers deep); percent-encoded in part or whole, also
//! twice; as hex in either case; and as base64 of either alphabet, at each of the three alignments
//! that a key has within a longer text, and across line breaks. Not found: a key cut in pieces,
//! reversed or encrypted. The wall against those is that no worker ever holds a key.

use std::borrow::Cow;

use crate::{Entry, Secret};

mod form;
mod piece;
mod stream;

pub use stream::MaskStream;

use form::{Form, Match};

/// What stands where a key was. Fits into ids, so that a masked entry is still one.
pub const MASKED: &str = "masked-secret";

/// Keys shorter than this are not looked for: they would be found in ordinary words, and are no
/// secret by any measure.
const SHORTEST: usize = 8;

/// Knows keys and finds them in what is about to be written.
#[derive(Debug)]
pub struct Masker {
    forms: Vec<Form>,
    /// For each first byte, the forms that may begin with it.
    by_byte: Vec<Vec<usize>>,
    too_short: usize,
}

impl Default for Masker {
    fn default() -> Self {
        Self::new([])
    }
}

impl Masker {
    /// Learns these keys. Keeps copies, wiped when dropped.
    #[must_use]
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut forms = Vec::new();
        let mut too_short = 0;
        for secret in secrets {
            // A key file's line end is not part of what programs print.
            let key = secret.expose().trim();
            if key.len() >= SHORTEST {
                forms.extend(Form::all(key));
            } else if !key.is_empty() {
                too_short += 1;
            }
        }
        let mut by_byte = vec![Vec::new(); 256];
        for (index, form) in forms.iter().enumerate() {
            for (byte, list) in (0..=u8::MAX).zip(&mut by_byte) {
                if form.may_begin_with(byte) {
                    list.push(index);
                }
            }
        }
        Self {
            forms,
            by_byte,
            too_short,
        }
    }

    /// Keys that are too short to be looked for (fewer than 8 bytes): worth a warning.
    #[must_use]
    pub fn too_short(&self) -> usize {
        self.too_short
    }

    /// Whether a key is in the text.
    #[must_use]
    pub fn finds(&self, text: &str) -> bool {
        (0..text.len()).any(|at| matches!(self.at(text.as_bytes(), at), Match::End(_)))
    }

    /// The text without keys.
    #[must_use]
    pub fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.forms.is_empty() || !self.finds(text) {
            return Cow::Borrowed(text);
        }
        Cow::Owned(self.masked(text, text.len()).0)
    }

    /// The keys themselves, as they are looked for.
    fn keys(&self) -> impl Iterator<Item = &str> {
        self.forms.iter().filter_map(Form::key)
    }

    /// A JSON value without keys, neither in texts nor in names nor in figures.
    pub fn mask_value(&self, value: &mut serde_json::Value) {
        match value {
            serde_json::Value::String(text) => {
                if let Cow::Owned(masked) = self.mask(text) {
                    *text = masked;
                }
            }
            serde_json::Value::Number(figure) => {
                if self.finds(&figure.to_string()) {
                    *value = serde_json::Value::String(MASKED.to_owned());
                }
            }
            serde_json::Value::Array(items) => {
                items.iter_mut().for_each(|item| self.mask_value(item));
            }
            serde_json::Value::Object(fields) => {
                let old = std::mem::take(fields);
                for (name, mut field) in old {
                    self.mask_value(&mut field);
                    fields.insert(self.mask(&name).into_owned(), field);
                }
            }
            serde_json::Value::Null | serde_json::Value::Bool(_) => {}
        }
    }

    /// An entry without keys; `None` if it is no entry any more without them.
    #[must_use]
    pub fn mask_entry(&self, entry: &Entry) -> Option<Entry> {
        let mut value = serde_json::to_value(entry).ok()?;
        self.mask_value(&mut value);
        serde_json::from_value(value).ok()
    }

    /// Text without keys up to `until`, or up to where a key may begin that the text cuts; and how
    /// far that is.
    fn masked(&self, text: &str, until: usize) -> (String, usize) {
        let mut out = String::with_capacity(text.len());
        let (mut at, mut copied) = (0, 0);
        while at < until {
            match self.at(text.as_bytes(), at) {
                Match::End(end) => {
                    out.push_str(text.get(copied..at).unwrap_or(""));
                    out.push_str(MASKED);
                    (at, copied) = (end, end);
                }
                Match::Partial | Match::No => at += 1,
            }
        }
        // A match may reach beyond `until`; a character never straddles it.
        out.push_str(text.get(copied..at).unwrap_or(""));
        (out, at)
    }

    /// The longest match that begins at `at`.
    fn at(&self, text: &[u8], at: usize) -> Match {
        let byte = text.get(at).map_or(0, |byte| usize::from(*byte));
        let mut best = Match::No;
        for index in self.by_byte.get(byte).into_iter().flatten() {
            let Some(form) = self.forms.get(*index) else {
                continue;
            };
            best = best.max(form.at(text, at));
        }
        best
    }
}

#[cfg(test)]
mod tests;
