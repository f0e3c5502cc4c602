//! Masking of a text that comes in pieces: what may be the beginning of a key waits for the rest.

use super::{Masker, Match};

/// A text on its way through a [`Masker`].
#[derive(Debug)]
pub struct MaskStream<'m> {
    masker: &'m Masker,
    held: String,
}

/// Bytes that may wait; beyond it they go out masked as far as they are known.
const HELD: usize = 64 * 1024;

impl Masker {
    /// A text that comes in pieces.
    #[must_use]
    pub fn stream(&self) -> MaskStream<'_> {
        MaskStream {
            masker: self,
            held: String::new(),
        }
    }
}

impl MaskStream<'_> {
    /// Takes the next piece; what is safe to show comes back.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let bytes = self.held.as_bytes();
        let mut until = bytes.len();
        let mut at = 0;
        while at < bytes.len() {
            match self.masker.at(bytes, at) {
                Match::End(end) => at = end,
                Match::Partial if bytes.len() - at <= HELD => {
                    until = at;
                    break;
                }
                Match::Partial | Match::No => at += 1,
            }
        }
        let (out, done) = self.masker.masked(&self.held, until);
        self.held = self.held.get(done..).unwrap_or("").to_owned();
        out
    }

    /// The text is over; what waited comes back.
    #[must_use]
    pub fn finish(self) -> String {
        self.masker.masked(&self.held, self.held.len()).0
    }
}
