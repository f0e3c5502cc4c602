//! What the supervisor orders hands to do. A dozen verbs; each effect after a recorded decision.

use serde::{Deserialize, Serialize};

use crate::{CommandId, Digest, ProbeDomain, jail::Domain};

/// Supervisor → hands. Descriptors travel down with the order that needs them, in the order named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// Start the agent on the agent link that `jail` brought; hands closes its own copy.
    StartAgent,
    /// Start a command under a warden of its own. Descriptors: the write end of its output pipe
    /// (standard output and error), then, if `stdin`, the read end of its input pipe, if `errors`, the
    /// write end of a pipe for its standard error, and if `program`, the file that is executed.
    Spawn(Spawn),
    /// Run the probe role in a domain, through the path by which agent or commands start.
    /// Descriptor: the write end of a pipe for its findings (one JSON [`crate::Probe`] a line).
    Probe {
        /// Names the process.
        command: CommandId,
        /// In whose domain.
        domain: ProbeDomain,
        /// What to look for: see [`crate::jail::ProbePlan`].
        plan: crate::jail::ProbePlan,
    },
    /// End a command and everything below it.
    Kill {
        /// The command.
        command: CommandId,
    },
    /// Tell what a path is, beneath the workspace.
    Resolve {
        /// Numbers the order; the answer carries it.
        order: u64,
        /// Path relative to the workspace root; no `..`, no leading `/`.
        path: String,
    },
    /// Tell what a file is, and its content. Descriptor: the write end of a pipe for the content; the
    /// answer comes when all of it is through.
    Read {
        /// Numbers the order; the answer carries it.
        order: u64,
        /// Path relative to the workspace root; no `..`, no leading `/`.
        path: String,
    },
    /// Change a file. Descriptor: the write end of a pipe for the pre-image.
    Put(Put),
    /// End everything and leave.
    End,
}

/// A command to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spawn {
    /// Names it.
    pub command: CommandId,
    /// Program and arguments; the program is an absolute path inside the view, unless `program`.
    pub argv: Vec<String>,
    /// Working directory, an absolute path inside the view.
    pub cwd: String,
    /// The whole environment; nothing is inherited.
    pub env: Vec<(String, String)>,
    /// What it may touch; never more than the session's ceiling.
    pub domain: Domain,
    /// Its limits.
    pub limits: CommandLimits,
    /// Whether a descriptor is its standard input; else `/dev/null`.
    pub stdin: bool,
    /// Whether a descriptor is its standard error; else that goes where its output goes.
    pub errors: bool,
    /// Whether a descriptor is the program itself, whatever the view holds under its name.
    pub program: bool,
}

/// Limits of one command, set by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandLimits {
    /// Seconds of processor time for one process.
    pub cpu_seconds: u64,
    /// Bytes of private writable memory of one process (RLIMIT_DATA: what is only reserved does not
    /// count, so that runtimes which reserve much still start); 0 sets none.
    pub data: u64,
    /// Bytes of the largest file it may write.
    pub file_size: u64,
    /// Open files of one process.
    pub open_files: u64,
}

/// A file change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Put {
    /// Numbers the order; the answer carries it.
    pub order: u64,
    /// Path relative to the workspace root; no `..`, no leading `/`.
    pub path: String,
    /// Digest that the file must have now; `None` if it must not exist.
    pub expected: Option<Digest>,
    /// The whole new content.
    pub content: String,
    /// Whether missing parent folders are made.
    pub make_parents: bool,
}
