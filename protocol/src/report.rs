//! What hands reports. It explains; it never raises authority.

use serde::{Deserialize, Serialize};

use crate::{CommandId, Digest, Hello, jail::Situation};

/// Hands → supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Report {
    /// The greeting, first and once.
    Hello(Hello),
    /// The set-up handles that come with this very frame, once, before `ready`.
    Handles {
        /// Their names in order: `pidfd` (of pid 1).
        names: Vec<String>,
    },
    /// The box stands and nothing untrusted has run yet. After it no descriptor goes up.
    Ready {
        /// Landlock's ABI on this kernel, as used.
        abi: u32,
        /// Landlock's errata bits.
        errata: u32,
        /// User id inside.
        uid: u32,
        /// Effective capabilities as hex; all zero.
        capabilities: String,
        /// What holds the box together.
        situation: Situation,
    },
    /// The box could not be built; the session does not start.
    Unfit {
        /// The step that failed ("mount proc").
        step: String,
        /// What, and what to do.
        message: String,
    },
    /// The agent runs.
    AgentStarted,
    /// The agent has left.
    AgentGone(Exit),
    /// A command runs.
    Spawned {
        /// The command.
        command: CommandId,
    },
    /// A command has left and everything below it has ended.
    Exited {
        /// The command.
        command: CommandId,
        /// How.
        exit: Exit,
        /// Processes that were still running when the leader had left.
        left_running: u32,
    },
    /// The answer to `resolve` and to `read`.
    Resolved {
        /// The order.
        order: u64,
        /// What the path is.
        found: Resolved,
    },
    /// The answer to `put`.
    PutDone {
        /// The order.
        order: u64,
        /// What was done.
        done: PutDone,
    },
    /// An order could not be carried out; nothing was changed.
    Failed {
        /// The order's number, if it has one.
        order: Option<u64>,
        /// The command, if it is about one.
        command: Option<CommandId>,
        /// Why.
        failure: Failure,
    },
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exit {
    /// Exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// Signal number that ended it.
    pub signal: Option<i32>,
}

/// What a path is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Resolved {
    /// Nothing is there.
    Absent,
    /// A regular file.
    File(Entry),
    /// Something else, which tools do not write.
    Other(EntryKind),
}

/// A regular file's identity and content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Names of the file (hard links).
    pub links: u64,
    /// Digest of the content, unless larger than [`crate::bounds::FILE_READ`].
    pub digest: Option<Digest>,
}

/// What kind of entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A symbolic link.
    Symlink,
    /// A FIFO, a socket or a device.
    Special,
    /// A regular file with more than one name where one is required.
    HardLink,
}

/// What a put did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutDone {
    /// Whether the file is new.
    pub created: bool,
    /// Digest of the new content.
    pub digest: Digest,
    /// Digest and bytes of the pre-image that went through the pipe; `None` if there was none.
    pub before: Option<(Digest, u64)>,
}

/// Why an order failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// What kind.
    pub class: FailureClass,
    /// What, where, what to do; no path outside the view.
    pub message: String,
}

/// What kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// Nothing is there.
    NotFound,
    /// Something is there that the order does not take (a folder, a link, a FIFO, a hard link).
    WrongKind,
    /// The content is not what was expected: it changed since it was read.
    Changed,
    /// The path leaves the workspace, or was swapped while it was resolved.
    Outside,
    /// The kernel refused.
    Denied,
    /// No space, too many files, too many processes.
    Exhausted,
    /// A bound of ours.
    Limit,
    /// The tripwire found a wall missing; nothing was started.
    Tripwire,
    /// The outcome is not known: the effect was in flight when a process died.
    Unknown,
    /// Anything else.
    Other,
}
