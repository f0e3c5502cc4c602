//! `grep`: contents by regular expression.

use std::time::Duration;

use protocol::DatabaseInfo;

use super::{
    Contract, Effect, Tool,
    field::{Checked, Field, Kind},
};

/// What a search returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputMode {
    /// Paths of files that match.
    FilesWithMatches,
    /// The lines that match.
    Content,
    /// How many lines match in each file.
    Count,
}

/// Input of `grep`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grep {
    /// The regular expression.
    pub pattern: String,
    /// File or folder to search; the workspace root by default.
    pub path: String,
    /// What to return.
    pub output_mode: OutputMode,
    /// Lines before and after each match.
    pub context: u64,
    /// Most results.
    pub head_limit: u64,
}

impl Grep {
    pub(super) fn from_checked(input: &Checked<'_>) -> Self {
        Self {
            pattern: input.text("pattern"),
            path: input.maybe("path").unwrap_or_else(|| ".".to_owned()),
            output_mode: match input.maybe("output_mode").as_deref() {
                Some("content") => OutputMode::Content,
                Some("count") => OutputMode::Count,
                _ => OutputMode::FilesWithMatches,
            },
            context: input.number("context"),
            head_limit: input.number("head_limit"),
        }
    }
}

pub(super) static CONTRACT: Contract = Contract {
    tool: Tool::Grep,
    describe,
    fields: &[
        Field::needed(
            "pattern",
            Kind::Text {
                min: 1,
                max: 4_096,
                nul: false,
            },
            "A regular expression as ripgrep reads it; `(?i)` in front ignores case.",
        ),
        Field::optional(
            "path",
            Kind::Text {
                min: 1,
                max: 4_096,
                nul: false,
            },
            "File or folder, absolute or relative to the workspace root; the root by default.",
        ),
        Field::optional(
            "output_mode",
            Kind::Word(&["files_with_matches", "content", "count"]),
            "Paths only, the matching lines, or the number of matching lines in each file.",
        ),
        Field::optional(
            "context",
            Kind::Integer {
                min: 0,
                max: 20,
                default: 0,
            },
            "Lines to show before and after each match (output_mode content).",
        ),
        Field::optional(
            "head_limit",
            Kind::Integer {
                min: 1,
                max: 1_000,
                default: 250,
            },
            "Most paths, lines or counts to return.",
        ),
    ],
    read_only: true,
    concurrency_safe: true,
    effect: Effect::Reads,
    time_limit: Duration::from_secs(30),
};

fn describe(_: &[DatabaseInfo]) -> String {
    "Searches file contents with a regular expression. Files that .gitignore excludes, binary files \
     and the .git folder are left out. Returns {ok: true, mode, results, truncated}; results are \
     paths, {path, line, text} objects (context lines have context: true), or {path, count} objects, \
     by output_mode. Use this instead of running grep in bash."
        .to_owned()
}
