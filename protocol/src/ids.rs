//! Identifiers that cross a boundary: each is a newtype whose only constructor is its parser.

use serde::{Deserialize, Serialize};

/// Why a word is not a valid identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what} `{word}`: {rule}")]
pub struct Malformed {
    /// What was being parsed ("session id").
    pub what: &'static str,
    /// The word as given, cut to 80 characters.
    pub word: String,
    /// The rule that it breaks.
    pub rule: &'static str,
}

fn parse(
    what: &'static str,
    rule: &'static str,
    max: usize,
    word: &str,
    fits: impl Fn(u8) -> bool,
) -> Result<String, Malformed> {
    if !word.is_empty() && word.len() <= max && word.bytes().all(fits) {
        return Ok(word.to_owned());
    }
    Err(Malformed {
        what,
        word: word.chars().take(80).collect(),
        rule,
    })
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:literal, $rule:literal, $fits:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Parses the identifier.
            ///
            /// # Errors
            /// [`Malformed`] names the rule that the word breaks.
            pub fn parse(word: &str) -> Result<Self, Malformed> {
                parse($what, $rule, $max, word, $fits).map(Self)
            }

            /// The identifier as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = Malformed;
            fn try_from(word: String) -> Result<Self, Malformed> {
                Self::parse(&word)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

identifier!(
    /// A session: lower-case letters, digits and `-`, at most 40 bytes; safe as a file name.
    SessionId,
    "session id",
    40,
    "lower-case letters, digits and `-`, 1 to 40 bytes",
    |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'
);
identifier!(
    /// A tool call, as the model named it: printable ASCII without blanks, at most 64 bytes.
    CallId,
    "call id",
    64,
    "letters, digits, `_`, `-`, `.`, `:`, 1 to 64 bytes",
    |b: u8| b.is_ascii_alphanumeric() || b"_-.:".contains(&b)
);
identifier!(
    /// A command started by hands, unique within its session (`c1`, `c2`, …); a background job's id too.
    CommandId,
    "command id",
    16,
    "letters and digits, 1 to 16 bytes",
    |b: u8| b.is_ascii_alphanumeric()
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_that_could_walk_a_path_or_break_a_line_is_refused() {
        for word in ["", "../x", "a/b", "A", "a b", "a\n", &"a".repeat(41)] {
            assert!(SessionId::parse(word).is_err(), "{word:?}");
        }
        assert!(serde_json::from_str::<SessionId>("\"..\"").is_err());
        assert_eq!(SessionId::parse("s-01").expect("valid").as_str(), "s-01");
    }
}
