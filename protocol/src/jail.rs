//! The jail spec: the supervisor writes it, the worker's `jail` applies it to itself.

use serde::{Deserialize, Serialize};

use crate::{SessionId, version};

/// Where the worker binary lies inside every view.
pub const WORKER_INSIDE: &str = "/run/provost/worker";

/// The folder of a container in which its first process finds [`MEETING_SPEC`] and [`MEETING_SOCKET`].
pub const MEETING_INSIDE: &str = "/run/provost/link";

/// The jail's spec in the folder where a container and its supervisor meet.
pub const MEETING_SPEC: &str = "spec";

/// The socket there: the first connection becomes the hands link, the second the agent link, and a
/// third is not accepted.
pub const MEETING_SOCKET: &str = "socket";

/// The argument of the role `jail` in a container.
pub const CONTAINED: &str = "contained";

/// The word in the name of each step that lays an overlay: where one fails, a copy may do.
pub const OVERLAY: &str = "overlay";

/// The worker binary where nothing can be mounted: whoever runs it executes itself again.
pub const WORKER_ITSELF: &str = "/proc/self/exe";

/// Steps of the worker's jail that fail where namespaces, or what is mounted in them, are not to be
/// had; a session may then stand without.
pub const NAMESPACE_STEPS: [&str; 7] = [
    "make namespaces",
    "deny setgroups",
    "map the user",
    "map the group",
    "make mounts private",
    "make the root",
    "mount `/proc`",
];

/// The step at which calls could not be given to the supervisor; a session may stand without.
pub const STEP_DOORS: &str = "open the doors";

/// How the names begin under which hands writes a file before it takes its place. A killed put may
/// leave one; it is nobody's change.
pub const PUT_TEMP: &str = ".provost-put-";

/// Everything that `provost-worker jail` needs, on descriptor 2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JailSpec {
    /// Build of the writer; must equal the reader's.
    pub build: String,
    /// The session.
    pub session: SessionId,
    /// What holds the box together on this host.
    pub situation: Situation,
    /// The identity to take when the supervisor is root; `None` keeps the account's own.
    pub identity: Option<Identity>,
    /// The identity is an account's that somebody works under: it reaches by itself whatever the
    /// view takes from the host, and root opens nothing for it.
    #[serde(default)]
    pub own_reach: bool,
    /// The view, in the order of mounting.
    pub view: Vec<Mount>,
    /// Workspace root inside the view.
    pub workspace: String,
    /// HOME inside the view.
    pub home: String,
    /// The private folder for temporary files inside the view: `/tmp`, but where nothing is mounted
    /// a folder below HOME.
    pub tmp: String,
    /// What the supervisor carries out itself because no other layer can judge it here.
    pub doors: Doors,
    /// Limits of the whole session.
    pub limits: JailLimits,
    /// What the agent may read; it may write and execute nothing.
    pub agent_read: Vec<String>,
    /// The session's ceiling: no command, and not hands itself, has more.
    pub ceiling: Domain,
    /// Pretend that the kernel's Landlock ABI is at most this (a test switch).
    pub pretend_abi: Option<u32>,
}

impl JailSpec {
    /// Whether the spec was written by this build.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.build == version::BUILD
    }

    /// The worker binary as it is executed inside: its own mount, or where nothing is mounted the
    /// kernel's own link to the binary that runs.
    #[must_use]
    pub fn worker(&self) -> &'static str {
        match self.situation {
            Situation::Namespaces | Situation::Container => WORKER_INSIDE,
            Situation::Landlock => WORKER_ITSELF,
        }
    }
}

/// Calls that the kernel holds until the supervisor has answered them (seccomp notification); both
/// are closed where a network namespace and read-only mounts hold the same rights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Doors {
    /// `bind`, `listen` and `connect` of TCP sockets: without it no socket can be made at all.
    pub sockets: bool,
    /// Mode, owner, times and attributes of files: without it those calls are the kernel's own.
    pub meta: bool,
}

impl Doors {
    /// Whether any is there, and with it a listener among the set-up handles.
    #[must_use]
    pub fn any(self) -> bool {
        self.sockets || self.meta
    }
}

/// What holds a box together: ARCHITECTURE.md, "Host situations".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Situation {
    /// A: namespaces of our own, then Landlock and seccomp.
    Namespaces,
    /// B: Landlock and seccomp alone, in the view that the account has.
    Landlock,
    /// C: a container's namespaces, then Landlock and seccomp.
    Container,
}

impl Situation {
    /// The letter that certificates and `doctor` use.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Self::Namespaces => "A",
            Self::Landlock => "B",
            Self::Container => "C",
        }
    }
}

/// A user and group id outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// One piece of the view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Mount {
    /// A tree or file of the host, read-only, recursive, nosuid, nodev.
    ReadOnly {
        /// Path on the host.
        source: String,
        /// Path inside.
        target: String,
    },
    /// A folder of the host, writable, nosuid, nodev.
    Writable {
        /// Path on the host.
        source: String,
        /// Path inside.
        target: String,
    },
    /// A folder of the host that nothing reaches: what is changed in it lies in a layer above.
    Overlay {
        /// The folder on the host, read-only.
        lower: String,
        /// The layer that takes the changes: a folder on the host outside every view.
        upper: String,
        /// The kernel's own folder, beside `upper`.
        work: String,
        /// Path inside.
        target: String,
        /// Who owns everything in `lower`, when the session runs under another identity: shown
        /// inside as the session's own.
        owner: Option<Identity>,
    },
    /// An empty private folder in memory.
    Tmpfs {
        /// Path inside.
        target: String,
        /// Bytes.
        bytes: u64,
        /// Inodes.
        inodes: u64,
        /// Permission bits.
        mode: u32,
    },
    /// A device node of the host by name below `/dev` (`null`, `zero`, `full`, `random`, `urandom`).
    Device {
        /// The name.
        name: String,
    },
    /// A private pseudo-terminal file system at `/dev/pts`.
    Terminals,
    /// A fresh proc with the dangerous files masked.
    Proc,
    /// A symbolic link (`/bin` → `usr/bin`).
    Link {
        /// Path inside.
        target: String,
        /// What it says.
        to: String,
    },
    /// A small read-only file with the given content (`/etc/passwd`, `/etc/resolv.conf`).
    File {
        /// Path inside.
        target: String,
        /// Its content.
        content: String,
    },
    /// The worker binary itself at [`WORKER_INSIDE`].
    Worker,
}

/// What a process may touch, by paths inside the view; each path with everything below it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    /// Read and list.
    pub read: Vec<String>,
    /// Read, list, write, make, remove, rename.
    pub write: Vec<String>,
    /// Read and execute.
    pub exec: Vec<String>,
}

/// Limits of a whole session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JailLimits {
    /// Processes.
    pub processes: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Bytes of one file.
    pub file_size: u64,
}

/// Where the probes find what they must not reach, and the twins that they must.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbePlan {
    /// A file of the host that exists and is outside the view (the record).
    pub outside_file: String,
    /// A folder of the host where nothing may be written.
    pub outside_folder: String,
    /// Paths of the workspace that are hidden from the session, relative to its root.
    pub hidden: Vec<String>,
    /// A TCP port on 127.0.0.1 of the host that listens while the probes run.
    pub tcp_port: u16,
    /// A Unix socket path of the host that listens while the probes run.
    pub unix_path: String,
    /// An abstract Unix socket of the host that listens while the probes run.
    pub unix_abstract: String,
    /// A message queue of the host that everybody may open while the probes run; empty if the host
    /// could not make one.
    pub queue: String,
    /// The IPC namespace of the host as its link says (`ipc:[4026531839]`).
    pub ipc_namespace: String,
    /// A name of the host's `/dev/shm` that everybody may read while the probes run; empty if the
    /// host could not make one.
    pub shared_memory: String,
    /// The supervisor's pid on the host.
    pub supervisor_pid: i32,
    /// Workspace root inside.
    pub workspace: String,
    /// The private /tmp inside.
    pub tmp: String,
}
