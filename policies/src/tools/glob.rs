//! `glob`: paths by pattern.

use std::time::Duration;

use protocol::DatabaseInfo;

use super::{
    Contract, Effect, Tool,
    field::{Checked, Field, Kind},
};

/// Input of `glob`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    /// The pattern, from `path`.
    pub pattern: String,
    /// Where to look; the workspace root by default.
    pub path: String,
}

impl Glob {
    pub(super) fn from_checked(input: &Checked<'_>) -> Self {
        Self {
            pattern: input.text("pattern"),
            path: input.maybe("path").unwrap_or_else(|| ".".to_owned()),
        }
    }
}

pub(super) static CONTRACT: Contract = Contract {
    tool: Tool::Glob,
    describe,
    fields: &[
        Field::needed(
            "pattern",
            Kind::Text {
                min: 1,
                max: 1_024,
                nul: false,
            },
            "The pattern in gitignore syntax, without a leading `/` and without `..`: `*.rs` at any \
             depth, `src/**/*.ts` from `path`.",
        ),
        Field::optional(
            "path",
            Kind::Text {
                min: 1,
                max: 4_096,
                nul: false,
            },
            "The folder to search, absolute or relative to the workspace root; the root by default.",
        ),
    ],
    read_only: true,
    concurrency_safe: true,
    effect: Effect::Reads,
    time_limit: Duration::from_secs(30),
};

fn describe(_: &[DatabaseInfo]) -> String {
    "Finds files by name. Files that .gitignore excludes and the .git folder are left out. Returns \
     {ok: true, paths, truncated}: paths are relative to the workspace root (absolute outside it), \
     sorted, at most 1000."
        .to_owned()
}
