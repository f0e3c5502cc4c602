//! A SHA-256 digest as 64 lower-case hex digits; how content is named everywhere.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::Malformed;

/// SHA-256 of some bytes, as 64 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    /// Hashes `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::of_parts([bytes])
    }

    /// Hashes the concatenation of `parts` without joining them in memory.
    #[must_use]
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part);
        }
        Self::from_raw(&hash.finalize())
    }

    fn from_raw(raw: &[u8]) -> Self {
        let mut hex = String::with_capacity(64);
        for byte in raw {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
        }
        Self(hex)
    }

    /// Hashes everything that `read` yields, in chunks of 64 KiB.
    ///
    /// # Errors
    /// Whatever `read` answers.
    pub fn of_reader(read: &mut dyn std::io::Read) -> std::io::Result<(Self, u64)> {
        let mut hash = Sha256::new();
        let mut chunk = vec![0_u8; 64 * 1024];
        let mut total = 0_u64;
        loop {
            let n = read.read(&mut chunk)?;
            let Some(part) = chunk.get(..n).filter(|part| !part.is_empty()) else {
                return Ok((Self::from_raw(&hash.finalize()), total));
            };
            hash.update(part);
            total = total.saturating_add(n as u64);
        }
    }

    /// Parses 64 lower-case hex digits.
    ///
    /// # Errors
    /// [`Malformed`] when the word is anything else.
    pub fn parse(word: &str) -> Result<Self, Malformed> {
        let fits = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if word.len() == 64 && word.bytes().all(fits) {
            return Ok(Self(word.to_owned()));
        }
        Err(Malformed {
            what: "digest",
            word: word.chars().take(80).collect(),
            rule: "64 lower-case hex digits",
        })
    }

    /// The 64 hex digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first 12 digits, for people.
    #[must_use]
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = Malformed;
    fn try_from(word: String) -> Result<Self, Malformed> {
        Self::parse(&word)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.0
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_nothing_and_of_abc_are_the_published_ones() {
        assert_eq!(
            Digest::of(b"").as_str(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of_parts([&b"a"[..], b"bc"]).as_str(), abc);
        let (read, total) = Digest::of_reader(&mut &b"abc"[..]).expect("reads");
        assert_eq!((read.as_str(), total), (abc, 3));
    }
}
