//! `write_file`: makes or replaces a whole file.

use protocol::{DatabaseInfo, bounds};

use super::{
    Contract, Effect, Tool,
    field::{Checked, Field, Kind},
};

/// Input of `write_file`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteFile {
    /// The file.
    pub file_path: String,
    /// Its whole new content.
    pub content: String,
}

impl WriteFile {
    pub(super) fn from_checked(input: &Checked<'_>) -> Self {
        Self {
            file_path: input.text("file_path"),
            content: input.text("content"),
        }
    }
}

pub(super) static CONTRACT: Contract = Contract {
    tool: Tool::WriteFile,
    describe,
    fields: &[
        Field::needed(
            "file_path",
            Kind::Text {
                min: 1,
                max: 4_096,
                nul: false,
            },
            "The file, absolute or relative to the workspace root. Missing folders are made.",
        ),
        Field::needed(
            "content",
            Kind::Text {
                min: 0,
                max: bounds::FILE_CONTENT,
                nul: true,
            },
            "The whole new content of the file.",
        ),
    ],
    read_only: false,
    concurrency_safe: false,
    effect: Effect::Hands,
    time_limit: bounds::ORDER_TIME,
};

fn describe(_: &[DatabaseInfo]) -> String {
    "Makes a file, or replaces the whole content of one that you have read with read_file. Use \
     edit_file to change a part of a file. Refused when the file exists and was not read, or has \
     changed since. Returns {ok: true, path, created, bytes} on success, or {ok: false, error} with \
     what to do."
        .to_owned()
}
