//! A tool call on its way: what the agent asks, what it is told, how it ended.

use serde::{Deserialize, Serialize};

use crate::{CallId, CommandId, Digest, FailureClass};

/// One tool call as the agent asks for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The model's id.
    pub id: CallId,
    /// The tool's name.
    pub tool: String,
    /// The input, validated by the agent as a courtesy and by the supervisor for real.
    pub input: serde_json::Value,
    /// For `edit_file` and `write_file`: the content that the agent worked out, and what it read before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared: Option<Prepared>,
}

/// A file change as the agent worked it out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepared {
    /// Digest of the content that was read before, `None` if the file must not exist yet.
    pub base: Option<Digest>,
    /// The whole new content.
    pub content: String,
}

/// Which stage refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The tool is unknown or not enabled.
    Resolve,
    /// The input is not what the tool takes.
    Input,
    /// The safety check.
    Safety,
    /// The rules.
    Permissions,
    /// The mode, or a person.
    Mode,
    /// A budget or a bound.
    Budget,
    /// A hook.
    Hook,
}

/// Why a call was refused, in words that help.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// Which stage.
    pub stage: Stage,
    /// Rule or detector id.
    pub rule: Option<String>,
    /// Layer of the rule (`safety`, `built-in`, `organisation`, `user`, `project`, `session`).
    pub layer: Option<String>,
    /// Why.
    pub reason: String,
    /// What would work instead.
    pub instead: Option<String>,
}

impl Refusal {
    /// What the model reads: `permission denied: …`, `safety check blocked: …`, and so on.
    #[must_use]
    pub fn sentence(&self) -> String {
        let head = match self.stage {
            Stage::Resolve => "tool not found",
            Stage::Input => "invalid input",
            Stage::Safety => "safety check blocked",
            Stage::Permissions => "permission denied",
            Stage::Mode => "confirmation required",
            Stage::Budget => "limit reached",
            Stage::Hook => "a hook said no",
        };
        let mut text = format!("{head}: {}", self.reason);
        if let Some(rule) = &self.rule {
            text.push_str(&format!(" (rule {rule})"));
        }
        if let Some(instead) = &self.instead {
            text.push_str(&format!("; instead: {instead}"));
        }
        text
    }
}

/// Head and tail of an output, cut on character boundaries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Excerpt {
    /// The beginning; all of it if nothing was omitted.
    pub head: String,
    /// The end; empty if nothing was omitted.
    pub tail: String,
    /// Bytes between head and tail that are not shown.
    pub omitted: u64,
    /// All bytes that were produced.
    pub total: u64,
    /// Digest of the spool that holds what was kept, if anything was omitted.
    pub spool: Option<Digest>,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandResult {
    /// Exit code, unless a signal ended it.
    pub exit: Option<i32>,
    /// The signal's number that ended it.
    pub signal: Option<i32>,
    /// Wall time in milliseconds.
    pub ms: u64,
    /// Why it was ended by us: a time limit, the output limit, a cancel.
    pub ended_by: Option<EndedBy>,
    /// Processes that were still running when the leader had left, and were ended.
    pub left_running: u32,
    /// Standard output and error, in the order in which they came.
    pub output: Excerpt,
}

/// Why we ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// Its time was up.
    TimeLimit,
    /// It wrote more than is kept.
    OutputLimit,
    /// The turn was cancelled.
    Cancelled,
    /// job_kill.
    Killed,
    /// The session's memory was used up: the kernel ended the largest process.
    MemoryLimit,
    /// The session's tree grew beyond its limit.
    DiskLimit,
}

/// What the agent hears about one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Outcome {
    /// Refused.
    Refused(Refusal),
    /// Allowed, a pure read: the agent does it itself, then says `settled`.
    Proceed,
    /// A command has ended.
    Command(CommandResult),
    /// A background job has started.
    JobStarted {
        /// Its id, for job_output and job_kill.
        job: CommandId,
    },
    /// A background job's output since the last look.
    Job {
        /// Its id.
        job: CommandId,
        /// Whether it still runs.
        running: bool,
        /// How it ended, if it has.
        result: Option<CommandResult>,
        /// What it wrote since the last look.
        output: Excerpt,
    },
    /// A file was written.
    Written {
        /// Path as the session sees it.
        path: String,
        /// Whether it is new.
        created: bool,
        /// Bytes written.
        bytes: u64,
        /// Digest of the new content.
        digest: Digest,
    },
    /// A database answered; key order and words as the contract of run_sql says.
    Rows(SqlAnswer),
    /// The tables of a database.
    Tables {
        /// Name and columns of each.
        tables: Vec<Table>,
    },
    /// A person answered a question.
    Answer {
        /// What they said.
        text: String,
    },
    /// The world failed: neither refused nor done.
    Failed {
        /// What kind.
        class: FailureClass,
        /// What, where, what to do.
        message: String,
    },
}

/// A table as list_tables tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Database name.
    pub database: String,
    /// Table or view name.
    pub name: String,
    /// Column names with their declared types.
    pub columns: Vec<(String, String)>,
}

/// The result object of run_sql, in the contract's key order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SqlAnswer {
    /// It ran.
    Rows {
        /// Always true.
        ok: bool,
        /// Column names.
        columns: Vec<String>,
        /// Rows of JSON values.
        rows: Vec<Vec<serde_json::Value>>,
        /// Whether more rows exist.
        truncated: bool,
    },
    /// It did not.
    Error {
        /// Always false.
        ok: bool,
        /// The contract's words.
        error: String,
    },
}

impl SqlAnswer {
    /// An error answer.
    #[must_use]
    pub fn error(words: impl Into<String>) -> Self {
        Self::Error {
            ok: false,
            error: words.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_reads_as_the_contract_says() {
        let refusal = Refusal {
            stage: Stage::Permissions,
            rule: Some("no-push".into()),
            layer: Some("user".into()),
            reason: "releases are made by people".into(),
            instead: Some("leave the commit".into()),
        };
        assert_eq!(
            refusal.sentence(),
            "permission denied: releases are made by people (rule no-push); instead: leave the commit"
        );
    }

    #[test]
    fn sql_answers_keep_the_contracts_key_order() {
        let rows = SqlAnswer::Rows {
            ok: true,
            columns: vec!["name".into()],
            rows: vec![vec!["Focus".into()]],
            truncated: true,
        };
        let text = serde_json::to_string(&rows).expect("encodes");
        assert_eq!(
            text,
            r#"{"ok":true,"columns":["name"],"rows":[["Focus"]],"truncated":true}"#
        );
        assert_eq!(
            serde_json::from_str::<SqlAnswer>(&text).expect("decodes"),
            rows
        );
    }
}
