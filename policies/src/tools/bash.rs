//! `bash`: a shell line, byte for byte.

use protocol::{DatabaseInfo, bounds};

use super::{
    Contract, Effect, Tool,
    field::{Checked, Field, Kind},
};

/// Input of `bash`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bash {
    /// The line for `bash -c`, byte for byte.
    pub command: String,
    /// Time limit in seconds.
    pub timeout_s: u64,
    /// What it is for, in the model's words; only shown, never trusted.
    pub description: Option<String>,
    /// Whether it outlives the call.
    pub run_in_background: bool,
    /// Text for its standard input; nothing if absent.
    pub stdin: Option<String>,
}

impl Bash {
    pub(super) fn from_checked(input: &Checked<'_>) -> Self {
        Self {
            command: input.text("command"),
            timeout_s: input.number("timeout_s"),
            description: input.maybe("description"),
            run_in_background: input.flag("run_in_background"),
            stdin: input.maybe("stdin"),
        }
    }
}

pub(super) static CONTRACT: Contract = Contract {
    tool: Tool::Bash,
    describe,
    fields: &[
        Field::needed(
            "command",
            Kind::Text {
                min: 1,
                max: bounds::COMMAND_LINE,
                nul: false,
            },
            "The shell line or script, given to `bash -c` byte for byte.",
        ),
        Field::optional(
            "timeout_s",
            Kind::Integer {
                min: 1,
                max: 3_600,
                default: 120,
            },
            "Seconds until the command and everything it started are ended.",
        ),
        Field::optional(
            "description",
            Kind::Text {
                min: 0,
                max: 400,
                nul: false,
            },
            "What the command is for, in five to ten words, for the person who watches.",
        ),
        Field::optional(
            "run_in_background",
            Kind::Flag,
            "Start it and return at once with a job id for job_output and job_kill.",
        ),
        Field::optional(
            "stdin",
            Kind::Text {
                min: 0,
                max: bounds::FILE_CONTENT,
                nul: true,
            },
            "Text for its standard input. Without it, standard input is empty.",
        ),
    ],
    read_only: false,
    concurrency_safe: false,
    effect: Effect::Hands,
    time_limit: bounds::COMMAND_TIME_MAX,
};

fn describe(_: &[DatabaseInfo]) -> String {
    "Runs a shell line with `bash -c` in the workspace root, confined: no network unless the policy \
     grants hosts, writes only in the workspace, HOME and /tmp, no terminal. Each call is a fresh \
     shell: `cd` and variables do not carry over. Use the file tools (read_file, grep, glob, \
     edit_file) instead of cat, grep, find and sed. Returns {ok, exit, signal, ms, output, omitted, \
     left_running, ended_by}: ok is true when exit is 0; output is standard output and error in the \
     order in which they came, with the middle left out when it is long; ended_by says when a limit \
     ended it. With run_in_background it returns {ok: true, job_id} at once."
        .to_owned()
}
