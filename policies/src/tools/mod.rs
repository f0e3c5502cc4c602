//! The tool contracts: name, description, input schema, and the typed input that the law reads.

use serde::{Deserialize, Serialize};

/// The tools, sorted by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tool {
    /// Ask the person.
    AskUser,
    /// Run a shell line.
    Bash,
    /// Replace text in a file.
    EditFile,
    /// Find paths.
    Glob,
    /// Search contents.
    Grep,
    /// End a job.
    JobKill,
    /// Look at a job.
    JobOutput,
    /// List a folder.
    ListDirectory,
    /// List tables.
    ListTables,
    /// Read a text file.
    ReadFile,
    /// Query a database.
    RunSql,
    /// Write a file.
    WriteFile,
}
