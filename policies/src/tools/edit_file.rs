//! `edit_file`: replaces text in a file that was read before.

use protocol::{DatabaseInfo, bounds};

use super::{
    Contract, Effect, Tool,
    field::{Checked, Field, Kind},
};

/// Input of `edit_file`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditFile {
    /// The file.
    pub file_path: String,
    /// The text to replace; occurs once unless `replace_all`.
    pub old_string: String,
    /// What takes its place.
    pub new_string: String,
    /// Whether every occurrence is replaced.
    pub replace_all: bool,
}

/// Why an edit makes nothing of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoEdit {
    /// The text does not occur.
    NoMatch,
    /// It occurs more than once, at these bytes.
    Ambiguous(Vec<usize>),
    /// The new text would have so many bytes.
    TooLarge(usize),
}

impl EditFile {
    /// What the edit makes of a file's text: the one reckoning, for whoever proposes an edit and for
    /// whoever carries it out.
    ///
    /// # Errors
    /// [`NoEdit`] when it makes nothing of it.
    pub fn apply(&self, text: &str) -> Result<String, NoEdit> {
        let (old, new) = with_line_ends_of(text, &self.old_string, &self.new_string);
        let places: Vec<usize> = text.match_indices(old.as_str()).map(|(at, _)| at).collect();
        if places.is_empty() {
            return Err(NoEdit::NoMatch);
        }
        if places.len() > 1 && !self.replace_all {
            return Err(NoEdit::Ambiguous(places));
        }
        // Reckoned first, so that a replacement of every letter cannot fill the memory.
        let rest = text
            .len()
            .saturating_sub(places.len().saturating_mul(old.len()));
        let size = rest.saturating_add(places.len().saturating_mul(new.len()));
        if size > bounds::FILE_CONTENT {
            return Err(NoEdit::TooLarge(size));
        }
        Ok(text.replace(old.as_str(), &new))
    }
    pub(super) fn from_checked(input: &Checked<'_>) -> Result<Self, String> {
        let edit = Self {
            file_path: input.text("file_path"),
            old_string: input.text("old_string"),
            new_string: input.text("new_string"),
            replace_all: input.flag("replace_all"),
        };
        if edit.old_string == edit.new_string {
            return Err(
                "`old_string` and `new_string` are the same: nothing would change".to_owned(),
            );
        }
        Ok(edit)
    }
}

pub(super) static CONTRACT: Contract = Contract {
    tool: Tool::EditFile,
    describe,
    fields: &[
        Field::needed(
            "file_path",
            Kind::Text {
                min: 1,
                max: 4_096,
                nul: false,
            },
            "The file, absolute or relative to the workspace root.",
        ),
        Field::needed(
            "old_string",
            Kind::Text {
                min: 1,
                max: bounds::FILE_CONTENT,
                nul: true,
            },
            "The exact text to replace, with its white space, without line numbers.",
        ),
        Field::needed(
            "new_string",
            Kind::Text {
                min: 0,
                max: bounds::FILE_CONTENT,
                nul: true,
            },
            "The text that takes its place; must differ from old_string.",
        ),
        Field::optional(
            "replace_all",
            Kind::Flag,
            "Replace every occurrence. Without it, old_string must occur exactly once.",
        ),
    ],
    read_only: false,
    concurrency_safe: false,
    effect: Effect::Hands,
    time_limit: bounds::ORDER_TIME,
};

fn describe(_: &[DatabaseInfo]) -> String {
    "Replaces text in a file. Read the file with read_file first; the edit is refused when it was \
     not read or has changed since. old_string must match exactly and occur once: add surrounding \
     lines to make it unique, or set replace_all. Returns {ok: true, path, created, bytes} on \
     success, or {ok: false, error} with what to do."
        .to_owned()
}

/// A file whose lines end in CRLF keeps them, also when the model writes plain ends.
fn with_line_ends_of(text: &str, old: &str, new: &str) -> (String, String) {
    let plain = |text: &str| text.contains('\n') && !text.contains("\r\n");
    if !text.contains(old) && text.contains("\r\n") && !old.contains("\r\n") {
        let new = if plain(new) {
            new.replace('\n', "\r\n")
        } else {
            new.to_owned()
        };
        return (old.replace('\n', "\r\n"), new);
    }
    if text.contains("\r\n") && !text.replace("\r\n", "").contains('\n') && plain(new) {
        return (old.to_owned(), new.replace('\n', "\r\n"));
    }
    (old.to_owned(), new.to_owned())
}
