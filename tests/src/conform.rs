//! The attacks of the conformance suite: those of the jail's own library, and these, which need
//! nothing but safe calls. Each is one process' one deed, tried inside a session and bare.

mod attacks;

use std::io;

use protocol::jail::ProbePlan;
use serde::{Deserialize, Serialize};
use worker_jail::Outcome;

pub use attacks::OWN;

/// What an attack finds around it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ground {
    /// Where to find what must not be reached. The supervisor's pid may be any victim's.
    pub plan: ProbePlan,
    /// Hands, as seen from where the attack stands; bare, a process of the same account.
    pub hands: i32,
    /// A UDP port of the host that answers.
    pub udp_port: u16,
    /// A shared memory object of the host, by its name below `/dev/shm`.
    pub shm: String,
    /// A System V shared memory segment of the host.
    pub segment: Option<u64>,
    /// A variable that the supervisor had in its environment.
    pub marker: String,
}

/// What an attack of this suite must do bare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bare {
    /// It succeeds: only a layer of ours refuses it.
    Succeeds,
    /// The kernel refuses it to an ordinary account, or only some hosts let it through.
    Kernel,
}

/// One attack of this suite.
#[derive(Debug, Clone, Copy)]
pub struct Attack {
    /// Its name, with the ids of the cases that it stands for.
    pub name: &'static str,
    /// What it does bare.
    pub bare: Bare,
    run: fn(&Ground) -> Outcome,
}

/// Single calls that an ordinary account may make bare, so that only our filter refuses them. The
/// rest of the jail's calls need rights that the account lacks anyway.
const CALLS_OF_ACCOUNTS: [&str; 5] = [
    "call.unshare",
    "call.clone",
    "call.clone3",
    "call.io_uring",
    "call.keyctl",
];

/// The fault cases that attacks of the jail's library stand for; this suite's own names hold theirs.
const CASES: [(&str, &str); 9] = [
    ("type-into-terminal", "ES-017"),
    ("call.tioclinux", "ES-018"),
    ("type-with-high-bits", "ES-018"),
    ("signal-supervisor", "ES-022"),
    ("trace-supervisor", "ES-022"),
    ("read-environment-of-supervisor", "ES-022"),
    ("read-memory-of-hands", "ES-022"),
    ("connect-abstract", "ES-022"),
    ("connect-unix", "ES-009"),
];

/// An attack's name with the fault case that it stands for.
#[must_use]
pub fn titled(name: &str) -> String {
    let case = CASES.iter().find(|(known, _)| *known == name);
    case.map_or_else(|| name.to_owned(), |(_, case)| format!("{name}/{case}"))
}

/// Every attack's name and what it must do bare.
#[must_use]
pub fn all() -> Vec<(&'static str, Bare)> {
    let bare = |ours: bool| if ours { Bare::Succeeds } else { Bare::Kernel };
    let library = worker_jail::attack::names().into_iter().map(|name| {
        let known = worker_jail::attack::ATTACKS
            .iter()
            .find(|attack| attack.name == name);
        let ours = known.map_or_else(|| CALLS_OF_ACCOUNTS.contains(&name), |attack| attack.ours);
        (name, bare(ours))
    });
    library
        .chain(OWN.iter().map(|attack| (attack.name, attack.bare)))
        .collect()
}

/// Tries one attack from where this process stands; `None` if there is none of that name.
#[must_use]
pub fn run(name: &str, ground: &Ground) -> Option<Outcome> {
    if let Some(attack) = OWN.iter().find(|attack| attack.name == name) {
        return Some((attack.run)(ground));
    }
    worker_jail::attack::run(name, &ground.plan, ground.hands)
}

/// Any error is a refusal.
fn of<T>(result: io::Result<T>) -> Outcome {
    match result {
        Ok(_) => succeeded("succeeded"),
        Err(error) => refused(&error.raw_os_error().map_or_else(
            || error.to_string(),
            |errno| format!("{:?}", nix::errno::Errno::from_raw(errno)),
        )),
    }
}

fn refused(answer: &str) -> Outcome {
    Outcome {
        refused: true,
        answer: answer.to_owned(),
    }
}

fn succeeded(answer: &str) -> Outcome {
    Outcome {
        refused: false,
        answer: answer.to_owned(),
    }
}
