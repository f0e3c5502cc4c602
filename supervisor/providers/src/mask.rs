//! Keeps keys out of what is written, shown or forwarded: it knows each key and its usual disguises.
//!
//! A match is any run of twelve bytes that a key (or its base64, hex, URL or JSON form) also has, so
//! that half an echoed key is masked as well as a whole one.

use std::collections::HashSet;

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use supervisor_core::Secret;

/// Bytes in common that make a match: long enough to be no coincidence, short enough for a fragment.
const WINDOW: usize = 12;
/// Keys shorter than this are no keys, and masking them would mask everything.
const SHORTEST: usize = 4;
/// What stands in a key's place.
const MASK: &str = "[masked]";

/// Masks a set of keys.
#[derive(Default)]
pub struct Masker {
    /// Every form of every key, for streams and for keys shorter than a window.
    forms: Vec<Vec<u8>>,
    windows: HashSet<[u8; WINDOW]>,
}

impl std::fmt::Debug for Masker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Masker({} forms)", self.forms.len())
    }
}

impl Masker {
    /// Masks the given keys.
    #[must_use]
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut masker = Self::default();
        for secret in secrets {
            masker.learn(secret.expose().as_bytes());
        }
        masker
    }

    fn learn(&mut self, key: &[u8]) {
        if key.len() < SHORTEST {
            return;
        }
        let mut forms = vec![
            key.to_vec(),
            hex(key, b"0123456789abcdef"),
            hex(key, b"0123456789ABCDEF"),
        ];
        forms.push(percent(key));
        forms.push(json(key));
        for offset in 0..3_usize {
            // Within a longer base64 text a key has one of three shapes, by its offset; what the
            // neighbours share with it is left out.
            let padded: Vec<u8> = std::iter::repeat_n(0, offset)
                .chain(key.iter().copied())
                .collect();
            let text = STANDARD_NO_PAD.encode(&padded);
            let lead = [0, 2, 3].get(offset).copied().unwrap_or_default();
            let inner = text
                .get(lead..text.len().saturating_sub(1))
                .unwrap_or_default();
            forms.push(inner.as_bytes().to_vec());
            forms.push(inner.replace('+', "-").replace('/', "_").into_bytes());
        }
        for form in forms {
            if form.len() >= SHORTEST && !self.forms.contains(&form) {
                for window in form.windows(WINDOW) {
                    if let Ok(window) = window.try_into() {
                        self.windows.insert(window);
                    }
                }
                self.forms.push(form);
            }
        }
    }

    /// The text with every key masked.
    #[must_use]
    pub fn mask(&self, text: &str) -> String {
        let runs = self.runs(text);
        if runs.is_empty() {
            return text.to_owned();
        }
        let mut masked = String::with_capacity(text.len());
        let mut at = 0;
        for (start, end) in runs {
            masked.push_str(text.get(at..start).unwrap_or_default());
            masked.push_str(MASK);
            at = end;
        }
        masked.push_str(text.get(at..).unwrap_or_default());
        masked
    }

    /// Whether the text holds a key or a good part of one.
    #[must_use]
    pub fn finds(&self, text: &str) -> bool {
        !self.runs(text).is_empty()
    }

    /// The covered stretches, in order, apart from one another, on character boundaries.
    fn runs(&self, text: &str) -> Vec<(usize, usize)> {
        let bytes = text.as_bytes();
        let mut hits: Vec<(usize, usize)> = Vec::new();
        for (at, window) in bytes.windows(WINDOW).enumerate() {
            if <[u8; WINDOW]>::try_from(window).is_ok_and(|w| self.windows.contains(&w)) {
                hits.push((at, at + WINDOW));
            }
        }
        for form in self.forms.iter().filter(|form| form.len() < WINDOW) {
            for (at, window) in bytes.windows(form.len()).enumerate() {
                if window == form.as_slice() {
                    hits.push((at, at + form.len()));
                }
            }
        }
        hits.sort_unstable();
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for (start, end) in hits {
            let start = (0..=start)
                .rev()
                .find(|at| text.is_char_boundary(*at))
                .unwrap_or(0);
            let end = (end..text.len())
                .find(|at| text.is_char_boundary(*at))
                .unwrap_or(text.len());
            match runs.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => runs.push((start, end)),
            }
        }
        runs
    }

    /// How many bytes at the end of `text` may be the beginning of a key.
    fn pending(&self, text: &str) -> usize {
        let bytes = text.as_bytes();
        let pending = |form: &Vec<u8>| {
            let longest = form.len().saturating_sub(1).min(bytes.len());
            let fits = |n: &usize| bytes.get(bytes.len() - n..) == form.get(..*n);
            (1..=longest).rev().find(fits).unwrap_or(0)
        };
        self.forms.iter().map(pending).max().unwrap_or(0)
    }
}

/// Masks a text that arrives in pieces: what may be the beginning of a key is held back until the
/// next piece shows whether it is one.
#[derive(Debug)]
pub struct StreamMask<'a> {
    masker: &'a Masker,
    held: String,
}

impl<'a> StreamMask<'a> {
    /// Begins a text.
    #[must_use]
    pub fn new(masker: &'a Masker) -> Self {
        Self {
            masker,
            held: String::new(),
        }
    }

    /// Takes a piece and gives what is safe to forward, possibly nothing.
    #[must_use]
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let pending = self.masker.pending(&self.held);
        let cut = self.held.len() - pending;
        let cut = (0..=cut)
            .rev()
            .find(|at| self.held.is_char_boundary(*at))
            .unwrap_or(0);
        let rest = self.held.split_off(cut);
        let ready = std::mem::replace(&mut self.held, rest);
        self.masker.mask(&ready)
    }

    /// What was held back, once nothing more comes.
    #[must_use]
    pub fn finish(self) -> String {
        self.masker.mask(&self.held)
    }
}

fn hex(key: &[u8], digits: &[u8; 16]) -> Vec<u8> {
    let digit = |nibble: u8| digits.get(usize::from(nibble)).copied().unwrap_or(b'0');
    key.iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

fn percent(key: &[u8]) -> Vec<u8> {
    let mut form = Vec::with_capacity(key.len());
    for &byte in key {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            form.push(byte);
        } else {
            form.push(b'%');
            form.extend(hex(&[byte], b"0123456789ABCDEF"));
        }
    }
    form
}

fn json(key: &[u8]) -> Vec<u8> {
    let quoted = serde_json::Value::from(String::from_utf8_lossy(key)).to_string();
    quoted.trim_matches('"').as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-MARKER+\"quoted\"/(.*)-0123456789abcdef";

    fn masker() -> Masker {
        Masker::new([&Secret::new(KEY.to_owned())])
    }

    #[test]
    fn every_disguise_of_a_key_is_masked_and_the_rest_stays() {
        let masker = masker();
        let base64 = |text: String| base64::engine::general_purpose::STANDARD.encode(text);
        let disguises = [
            KEY.to_owned(),
            serde_json::to_string(KEY).expect("encodes"),
            base64(KEY.to_owned()),
            base64(format!("u:{KEY}")),
            base64(format!("user:{KEY}:x")),
            base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(KEY),
            KEY.bytes().map(|b| format!("{b:02x}")).collect(),
            KEY.bytes().map(|b| format!("{b:02X}")).collect(),
            String::from_utf8(percent(KEY.as_bytes())).expect("ascii"),
            KEY[..20].to_owned(),
            KEY[20..].to_owned(),
        ];
        for disguise in disguises {
            let text = format!("grüße {disguise} ende");
            let masked = masker.mask(&text);
            assert!(
                masked.starts_with("grüße ") && masked.ends_with(" ende"),
                "{masked}"
            );
            assert!(masked.contains(MASK), "{masked}");
            assert!(!masker.finds(&masked), "{masked}");
            assert!(
                !masked.contains("MARKER") && !masked.contains("0123456789abcdef"),
                "{masked}"
            );
        }
        assert_eq!(masker.mask("nothing of interest"), "nothing of interest");
        assert!(
            Masker::new([&Secret::new("tiny-key".into())]).mask("a tiny-key b") == "a [masked] b"
        );
    }

    #[test]
    fn a_key_that_arrives_in_pieces_is_masked_however_it_is_cut() {
        let masker = masker();
        let text = format!("before {KEY} after s");
        for size in [1, 2, 3, 7, 64] {
            let mut stream = StreamMask::new(&masker);
            let mut out = String::new();
            for piece in text.as_bytes().chunks(size) {
                out.push_str(&stream.push(std::str::from_utf8(piece).expect("ascii")));
                assert!(!masker.finds(&out), "{out}");
            }
            out.push_str(&stream.finish());
            assert_eq!(out, "before [masked] after s", "in pieces of {size}");
        }
    }
}
