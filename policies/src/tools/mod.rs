//! The tool contracts: name, description, input schema, and the typed input that the law reads.
//!
//! A tool is a table of [`Field`]s. The JSON Schema that the model reads and the check that an
//! input passes are both made from that table, so that they cannot drift apart. One file a tool;
//! [`CONTRACTS`] is the one registry, sorted by name.

mod ask_user;
mod bash;
mod edit_file;
mod field;
mod glob;
mod grep;
mod input;
mod job_kill;
mod job_output;
mod list_directory;
mod list_tables;
mod read_file;
mod run_sql;
mod submit_plan;
mod write_file;

use std::time::Duration;

use protocol::{DatabaseInfo, ToolSpec};
use serde::{Deserialize, Serialize};

pub use ask_user::AskUser;
pub use bash::Bash;
pub use edit_file::{EditFile, NoEdit};
pub use field::{Field, Kind};
pub use glob::Glob;
pub use grep::{Grep, OutputMode};
pub use input::{Input, input};
pub use job_kill::JobKill;
pub use job_output::JobOutput;
pub use list_directory::ListDirectory;
pub use read_file::ReadFile;
pub use run_sql::RunSql;
pub use submit_plan::SubmitPlan;
pub use write_file::WriteFile;

macro_rules! tools {
    ($($(#[$doc:meta])* $variant:ident = $word:literal in $file:ident;)*) => {
        /// The tools, sorted by name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Tool {
            $($(#[$doc])* $variant,)*
        }

        impl Tool {
            /// All tools, sorted by name.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name that the model uses.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// Parses a name; exact, as the model must write it.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }

            /// The tool's contract.
            #[must_use]
            pub fn contract(self) -> &'static Contract {
                match self { $(Self::$variant => &$file::CONTRACT,)* }
            }
        }

        /// The registry: every tool's contract, sorted by name.
        pub static CONTRACTS: &[&Contract] = &[$(&$file::CONTRACT),*];
    };
}

tools! {
    /// Ask the person.
    AskUser = "ask_user" in ask_user;
    /// Run a shell line.
    Bash = "bash" in bash;
    /// Replace text in a file.
    EditFile = "edit_file" in edit_file;
    /// Find paths.
    Glob = "glob" in glob;
    /// Search contents.
    Grep = "grep" in grep;
    /// End a job.
    JobKill = "job_kill" in job_kill;
    /// Look at a job.
    JobOutput = "job_output" in job_output;
    /// List a folder.
    ListDirectory = "list_directory" in list_directory;
    /// List tables.
    ListTables = "list_tables" in list_tables;
    /// Read a text file.
    ReadFile = "read_file" in read_file;
    /// Query a database.
    RunSql = "run_sql" in run_sql;
    /// Hand a plan in.
    SubmitPlan = "submit_plan" in submit_plan;
    /// Write a file.
    WriteFile = "write_file" in write_file;
}

impl std::fmt::Display for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who carries the tool out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The agent itself, within its read-only view.
    Reads,
    /// Hands, on an order.
    Hands,
    /// The supervisor (a database, a person).
    Supervisor,
}

/// What a tool promises to the model and to us.
#[derive(Debug)]
pub struct Contract {
    /// The tool.
    pub tool: Tool,
    /// What the model is told, given the databases of the session.
    describe: fn(&[DatabaseInfo]) -> String,
    /// The input's fields, required ones first.
    pub fields: &'static [Field],
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether it may run beside other calls.
    pub concurrency_safe: bool,
    /// Who carries it out.
    pub effect: Effect,
    /// How long it may take at most.
    pub time_limit: Duration,
}

impl Contract {
    /// The name that the model uses.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.tool.as_str()
    }

    /// What the model is told.
    #[must_use]
    pub fn description(&self, databases: &[DatabaseInfo]) -> String {
        (self.describe)(databases)
    }

    /// The input's JSON Schema (2020-12); unknown properties are refused.
    #[must_use]
    pub fn schema(&self) -> serde_json::Value {
        field::schema(self.fields)
    }

    /// The tool as the model sees it. A field that only matters with several databases is left out
    /// when there is one.
    #[must_use]
    pub fn spec(&self, databases: &[DatabaseInfo]) -> ToolSpec {
        let shown: Vec<&Field> = self
            .fields
            .iter()
            .filter(|field| !(field.only_with_several_databases && databases.len() < 2))
            .collect();
        ToolSpec {
            name: self.name().to_owned(),
            description: self.description(databases),
            input_schema: field::schema(shown),
        }
    }
}

#[cfg(test)]
mod tests;
