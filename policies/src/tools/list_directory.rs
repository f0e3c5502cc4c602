//! `list_directory`: the entries of one folder.

use std::time::Duration;

use protocol::DatabaseInfo;

use super::{
    Contract, Effect, Tool,
    field::{Checked, Field, Kind},
};

/// Input of `list_directory`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListDirectory {
    /// The folder; the workspace root by default.
    pub path: String,
}

impl ListDirectory {
    pub(super) fn from_checked(input: &Checked<'_>) -> Self {
        Self {
            path: input.maybe("path").unwrap_or_else(|| ".".to_owned()),
        }
    }
}

pub(super) static CONTRACT: Contract = Contract {
    tool: Tool::ListDirectory,
    describe,
    fields: &[Field::optional(
        "path",
        Kind::Text {
            min: 1,
            max: 4_096,
            nul: false,
        },
        "The folder, absolute or relative to the workspace root; the root itself by default.",
    )],
    read_only: true,
    concurrency_safe: true,
    effect: Effect::Reads,
    time_limit: Duration::from_secs(30),
};

fn describe(_: &[DatabaseInfo]) -> String {
    "Lists one folder, hidden and ignored entries included, sorted by name. Returns {ok: true, path, \
     entries, truncated}: each entry has name, kind (file, folder, link, other) and bytes for a \
     file. Use glob to find files below a folder."
        .to_owned()
}
