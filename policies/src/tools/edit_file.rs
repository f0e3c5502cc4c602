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

impl EditFile {
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
