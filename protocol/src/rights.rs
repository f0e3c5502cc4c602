//! The rights that a policy removes, by capability and never by mechanism, and what a probe found.

use serde::{Deserialize, Serialize};

macro_rules! rights {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $floor:ident;)*) => {
        /// A right that a session may not have.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Right {
            $($(#[$doc])* #[serde(rename = $word)] $variant,)*
        }

        impl Right {
            /// All rights, in the order of the certificate.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The word used in policies.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// Parses the word.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }

            /// What a policy that says nothing insists on. Required, but for what only a host that
            /// hands over cgroups can hold (memory, cpu) and what a real file system cannot (disk).
            #[must_use]
            pub fn default_floor(self) -> Floor {
                match self { $(Self::$variant => Floor::$floor,)* }
            }
        }
    };
}

rights! {
    /// Reading files outside the view.
    FilesRead = "files.read", Required;
    /// Writing files outside the write list.
    FilesWrite = "files.write", Required;
    /// Changing mode, owner, times or attributes of files outside.
    FilesMeta = "files.meta", Required;
    /// Seeing what the policy hides inside the workspace.
    FilesHidden = "files.hidden", Required;
    /// TCP to anywhere.
    NetTcp = "net.tcp", Required;
    /// UDP and other datagrams.
    NetUdp = "net.udp", Required;
    /// Unix sockets by path.
    NetUnixPath = "net.unix.path", Required;
    /// Abstract Unix sockets.
    NetUnixAbstract = "net.unix.abstract", Required;
    /// Signalling processes outside its own domain.
    ProcSignal = "proc.signal", Required;
    /// Tracing or reading the memory of other processes.
    ProcTrace = "proc.trace", Required;
    /// Seeing other processes.
    ProcSee = "proc.see", Required;
    /// Changing the limits of other processes.
    ProcLimits = "proc.limits", Required;
    /// Starting programs (agent domain).
    Exec = "exec", Required;
    /// Reaching a terminal.
    Terminal = "terminal", Required;
    /// The kernel's dangerous calls.
    Syscalls = "syscalls", Required;
    /// Reaching other processes' shared memory, semaphores, message queues and keyrings.
    Ipc = "ipc", Required;
    /// Memory beyond the session's limit.
    Memory = "memory", Preferred;
    /// More processes at once than the session's limit.
    Processes = "processes", Preferred;
    /// Processor time beyond the session's share.
    Cpu = "cpu", Preferred;
    /// Disk beyond the session's limit.
    Disk = "disk", Preferred;
    /// Devices of the host, and making nodes for them.
    Devices = "devices", Required;
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How much a policy insists on a right's removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Floor {
    /// Not removed.
    Off,
    /// Removed where possible; the certificate says if not.
    Preferred,
    /// Removed, or the session does not start.
    Required,
}

/// How firmly a right is taken away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nothing that was proven takes it away.
    #[default]
    Absent,
    /// It is counted, and who crosses the limit is ended.
    Watched,
    /// The kernel refuses it.
    Enforced,
}

impl State {
    /// The word for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Watched => "watched",
            Self::Enforced => "enforced",
        }
    }
}

/// How the outer box is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// Landlock, seccomp and namespaces.
    Landlock,
    /// A container of a Docker engine, with Landlock and seccomp inside.
    Docker,
    /// No confinement at all; tests only.
    Bare,
}

/// In whose domain a probe ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeDomain {
    /// The agent's.
    Agent,
    /// A command's.
    Command,
    /// In none: the supervisor read it back from outside.
    Outside,
}

impl Right {
    /// Where a right must be proven to count as held. A domain that said nothing proves nothing.
    #[must_use]
    pub fn domains(self) -> &'static [ProbeDomain] {
        match self {
            // Commands are made to execute.
            Self::Exec => &[ProbeDomain::Agent],
            // What only the outside can see.
            Self::Memory | Self::Processes | Self::Cpu | Self::Disk => &[ProbeDomain::Outside],
            _ => &[ProbeDomain::Agent, ProbeDomain::Command],
        }
    }
}

/// What one probe found: an attempt that must fail beside a twin that must succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// The right.
    pub right: Right,
    /// The case, unique within the right (`read.outside`).
    pub case: String,
    /// In whose domain.
    pub domain: ProbeDomain,
    /// Whether the attempt was refused.
    pub refused: bool,
    /// Whether the twin succeeded.
    pub twin: bool,
    /// What the kernel answered, for people (`EACCES`, `ENOENT`, `succeeded`).
    pub answer: String,
}

impl Probe {
    /// Held: the attempt failed and the twin worked.
    #[must_use]
    pub fn held(&self) -> bool {
        self.refused && self.twin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_rights_are_one_to_one() {
        for &right in Right::ALL {
            assert_eq!(Right::parse(right.as_str()), Some(right));
        }
        assert_eq!(Right::parse("files"), None);
        assert!(Floor::Required > Floor::Preferred);
    }
}
