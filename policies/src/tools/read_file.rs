//! `read_file`: a text file, by lines.

use std::time::Duration;

use protocol::DatabaseInfo;

use super::{
    Contract, Effect, Tool,
    field::{Checked, Field, Kind},
};

/// Lines that are read when no limit is given.
const LINES: u64 = 2_000;

/// Input of `read_file`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadFile {
    /// The file.
    pub file_path: String,
    /// First line, from 1.
    pub offset: u64,
    /// Most lines.
    pub limit: u64,
}

impl ReadFile {
    pub(super) fn from_checked(input: &Checked<'_>) -> Self {
        Self {
            file_path: input.text("file_path"),
            offset: input.number("offset"),
            limit: input.number("limit"),
        }
    }
}

pub(super) static CONTRACT: Contract = Contract {
    tool: Tool::ReadFile,
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
        Field::optional(
            "offset",
            Kind::Integer {
                min: 1,
                max: 100_000_000,
                default: 1,
            },
            "First line to read, counted from 1.",
        ),
        Field::optional(
            "limit",
            Kind::Integer {
                min: 1,
                max: 100_000,
                default: LINES,
            },
            "Most lines to read.",
        ),
    ],
    read_only: true,
    concurrency_safe: true,
    effect: Effect::Reads,
    time_limit: Duration::from_secs(30),
};

fn describe(_: &[DatabaseInfo]) -> String {
    "Reads a text file (UTF-8). Returns {ok: true, path, first_line, lines, total_lines, truncated, \
     content}: content is the text itself without line numbers; truncated is true when more of the \
     file follows, then go on with offset. Very long lines are cut and marked. Returns {ok: false, \
     error} for a missing file, a folder, or a file that is not text."
        .to_owned()
}
