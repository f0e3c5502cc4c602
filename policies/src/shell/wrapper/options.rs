//! The leading options of a wrapper, by a table: where its own words end and the command begins.

use crate::shell::{
    Word,
    word::{listed, may_split},
};

/// Why a wrapper's words are not understood.
pub(super) type Doubt = String;

/// The options that a program knows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flags {
    /// Single letters without a value.
    pub(super) none: &'static str,
    /// Single letters with a value, attached or as the next word.
    pub(super) value: &'static str,
    /// Single letters whose value is attached or absent.
    pub(super) attached: &'static str,
    /// Long options without a value, without dashes.
    pub(super) long: &'static str,
    /// Long options with a value, `--x=v` or as the next word.
    pub(super) long_value: &'static str,
}

/// Options that were found and where the operands begin.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Option without dashes, and its value. A value that is decided at run time has no literal.
    pub(super) seen: Vec<(String, Option<Word>)>,
    /// Index of the first operand.
    pub(super) rest: usize,
}

impl Found {
    /// Whether any of `names` was given.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.seen
            .iter()
            .any(|(name, _)| names.contains(&name.as_str()))
    }

    /// The last value of any of `names`.
    pub(super) fn value(&self, names: &[&str]) -> Option<&Word> {
        let mut found = self
            .seen
            .iter()
            .rev()
            .filter(|(name, _)| names.contains(&name.as_str()));
        found.find_map(|(_, value)| value.as_ref())
    }
}

/// A word that is only itself.
pub(super) fn literal_word(text: &str) -> Word {
    Word {
        text: text.to_owned(),
        literal: Some(text.to_owned()),
    }
}

/// The literal of an operand that a wrapper reads itself.
pub(super) fn operand(args: &[Word], index: usize, program: &str) -> Result<Option<String>, Doubt> {
    match args.get(index) {
        None => Ok(None),
        Some(word) => match &word.literal {
            Some(text) => Ok(Some(text.clone())),
            None => Err(undecided(program, word)),
        },
    }
}

/// The doubt about a word of a wrapper that is decided at run time.
pub(super) fn undecided(program: &str, word: &Word) -> Doubt {
    format!(
        "`{}` of `{program}` is decided at run time",
        excerpt(&word.text)
    )
}

fn excerpt(text: &str) -> String {
    text.chars().take(24).flat_map(char::escape_debug).collect()
}

impl Flags {
    /// Reads options up to the first operand or `--`.
    pub(super) fn leading(&self, args: &[Word], program: &str) -> Result<Found, Doubt> {
        let mut found = Found::default();
        while let Some(word) = args.get(found.rest) {
            let Some(text) = word.literal.as_deref() else {
                return Err(undecided(program, word));
            };
            if text == "--" {
                found.rest += 1;
                break;
            }
            if !text.starts_with('-') || text == "-" {
                break;
            }
            found.rest += 1;
            self.option(text, args, &mut found, program)?;
        }
        Ok(found)
    }

    /// Reads one word that begins with a dash; `found.rest` is behind it already.
    pub(super) fn option(
        &self,
        text: &str,
        args: &[Word],
        found: &mut Found,
        program: &str,
    ) -> Result<(), Doubt> {
        let unknown = || format!("the option `{}` of `{program}` is not known", excerpt(text));
        if let Some(long) = text.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(literal_word(value))),
                None => (long, None),
            };
            if listed(self.long, name) {
                found.seen.push((name.to_owned(), value));
            } else if listed(self.long_value, name) {
                let value = match value {
                    Some(value) => value,
                    None => next_value(args, found, program)?,
                };
                found.seen.push((name.to_owned(), Some(value)));
            } else {
                return Err(unknown());
            }
            return Ok(());
        }
        let letters = text.strip_prefix('-').unwrap_or_default();
        for (at, letter) in letters.char_indices() {
            let name = letter.to_string();
            let behind = letters.get(at + letter.len_utf8()..).unwrap_or_default();
            if self.none.contains(letter) {
                found.seen.push((name, None));
            } else if self.attached.contains(letter) {
                let value = (!behind.is_empty()).then(|| literal_word(behind));
                found.seen.push((name, value));
                return Ok(());
            } else if self.value.contains(letter) {
                let value = if behind.is_empty() {
                    next_value(args, found, program)?
                } else {
                    literal_word(behind)
                };
                found.seen.push((name, Some(value)));
                return Ok(());
            } else {
                return Err(unknown());
            }
        }
        Ok(())
    }
}

fn next_value(args: &[Word], found: &mut Found, program: &str) -> Result<Word, Doubt> {
    let Some(word) = args.get(found.rest) else {
        return Err(format!("an option of `{program}` has no value"));
    };
    if may_split(word) {
        return Err(undecided(program, word));
    }
    found.rest += 1;
    Ok(word.clone())
}
