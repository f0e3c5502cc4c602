//! The roles of the unprivileged house behind one entry: what the binary `provost-worker` is.
//!
//! A library beside the binary, so that a test can play two of its parts otherwise while everything
//! else stays the product's own: see [`Parts`].

mod agent;
mod jail;
mod reader;
mod spec;

use std::{ffi::CString, os::fd::OwnedFd, process::ExitCode};

use worker_hands::ServeError;
use worker_jail::Hands;

/// Left: a fault or an outage; the reason went over the link if there still was one.
const FAULT: u8 = 1;
/// Left: started in a way that no supervisor starts it.
const USAGE: u8 = 64;
/// Left: a bug of ours.
const BUG: u8 = 70;
/// Left: the walls cannot be raised here.
const UNFIT: u8 = 77;

/// What hands does from *ready* on: itself, its link, the agent's link, the workspace.
pub type Serve = fn(Hands, OwnedFd, OwnedFd, &str) -> Result<(), ServeError>;

/// The two parts that the supervisor trusts least: each is spoken to over a link and may say anything.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// The role agent, from its first instruction on.
    pub agent: fn() -> ExitCode,
    /// Hands behind its walls.
    pub serve: Serve,
}

impl Parts {
    /// As the product plays them.
    pub const OURS: Self = Self {
        agent: agent::run,
        serve: worker_hands::serve,
    };
}

/// A role: its word, what it may do, and its body.
struct Role {
    word: &'static str,
    may: &'static str,
    run: fn(parts: &Parts, argument: &str) -> ExitCode,
}

/// All roles. A command's warden is no role of its own: hands forks it.
const ROLES: [Role; 5] = [
    Role {
        word: "jail",
        may: "builds the box, hands the set-up handle over, becomes hands: pid 1, which acts on orders only",
        run: |parts, argument| jail::run(parts.serve, argument),
    },
    Role {
        word: "agent",
        may: "runs the loop: reads the workspace, asks over its link; no write, no exec, no socket",
        run: |parts, _| (parts.agent)(),
    },
    Role {
        word: "reader",
        may: "does one errand on the paths that its spec names; no socket, no exec, no other path",
        run: |_, _| reader::run(),
    },
    Role {
        word: "probe",
        may: "tries what must fail beside what must work, in the walls that its argument names",
        run: |_, argument| probe(argument),
    },
    Role {
        word: "seccomp",
        may: "says the base filter in a container engine's words, and leaves",
        run: |_, _| {
            let text = format!("{}\n", worker_jail::profile());
            write(&mut std::io::stdout().lock(), &text, 0)
        },
    },
];

/// Plays the role that the first argument names.
#[must_use]
pub fn run(parts: &Parts) -> ExitCode {
    let mut words = std::env::args().skip(1);
    let word = words.next().unwrap_or_default();
    let argument = words.next().unwrap_or_default();
    if let Some(role) = ROLES.iter().find(|role| role.word == word) {
        call_it(role.word);
        return (role.run)(parts, &argument);
    }
    if word == "--version" {
        let text = format!("provost-worker {}\n", protocol::BUILD);
        return write(&mut std::io::stdout().lock(), &text, 0);
    }
    write(&mut std::io::stderr().lock(), &explanation(), USAGE)
}

/// The certificate's probes by their charge; the escape suite's by their words.
fn probe(argument: &str) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let code = worker_probe::role(&words);
    code.unwrap_or_else(|| worker_jail::probe_role(argument))
        .into()
}

/// Names the process after its role, for `ps` and for who looks for what is left.
fn call_it(role: &str) {
    if let Ok(name) = CString::new(format!("provost-{role}")) {
        // A name explains; nothing depends on it.
        let _ = nix::sys::prctl::set_name(&name);
    }
}

/// For a person who starts it by hand.
fn explanation() -> String {
    let mut text = concat!(
        "provost-worker: started by `provost`, not by people; run `provost run \"TASK\"`.\n",
        "It has a role for each of its processes:\n",
    )
    .to_owned();
    for role in &ROLES {
        text.push_str(&format!("  {:<7} {}\n", role.word, role.may));
    }
    text
}

fn write(out: &mut dyn std::io::Write, text: &str, code: u8) -> ExitCode {
    // A closed pipe is the reader's choice.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    ExitCode::from(code)
}
