//! The words of the escape suite: what the supervisor plants, what the probe tries, what it found.

use serde::{Deserialize, Serialize};

use crate::jail::ProbePlan;

/// What an attack finds around it, planted by whoever drives the suite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ground {
    /// Where to find what must not be reached. The supervisor's pid may be any victim's.
    pub plan: ProbePlan,
    /// Hands, as seen from where the attack stands; bare, a process of the same account. 0: the
    /// parent of the command.
    pub hands: i32,
    /// A UDP port of the host that answers.
    pub udp_port: u16,
    /// A shared memory object of the host, by its name below `/dev/shm`.
    pub shm: String,
    /// A System V shared memory segment of the host.
    pub segment: Option<u64>,
    /// A random word in the planted secret and in a neighbour's environment: where an attack tells
    /// it, the attack got through, whatever it says itself.
    pub marker: String,
}

/// How an attack is tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Way {
    /// By the static probe program itself.
    Probe,
    /// A script, run as a command.
    Script {
        /// The program that reads it (`sh`, `python3`, `perl`).
        with: String,
        /// Its text.
        text: String,
    },
    /// A script that plants a path in the workspace, which a bulk apply must leave in the session.
    Plant {
        /// The path, relative to the workspace.
        path: String,
        /// The script's text, for `sh`.
        text: String,
    },
}

/// One attack of the suite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attack {
    /// Its name, unique.
    pub name: String,
    /// What it stands for: fault cases (`ES-009`), rows of a published list (`bypass 8`), scenarios.
    pub rows: Vec<String>,
    /// What it tries, in one line.
    pub tries: String,
    /// Whether a layer of ours refuses it: bare, as an ordinary account on an ordinary host, it gets
    /// through. Where not, the kernel refuses it bare as well, or only on some hosts.
    pub ours: bool,
    /// How.
    pub way: Way,
}

/// What an attack came to, as the probe or the script says itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The attack.
    pub name: String,
    /// How it ended.
    pub came: Came,
    /// The kernel's answer, for people.
    pub answer: String,
}

/// How an attack ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Came {
    /// It was refused, or met nothing.
    Refused,
    /// It got through.
    Escaped,
    /// What it needs is not here (an interpreter, a device): it was not tried.
    Absent,
}
