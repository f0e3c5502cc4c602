//! `provost-worker`: one static binary, one entry, the roles of the unprivileged house.

mod agent;
mod jail;
mod reader;
mod spec;

use std::{ffi::CString, process::ExitCode};

/// Left: a fault or an outage; the reason went over the link if there still was one.
const FAULT: u8 = 1;
/// Left: started in a way that no supervisor starts it.
const USAGE: u8 = 64;
/// Left: a bug of ours.
const BUG: u8 = 70;
/// Left: the walls cannot be raised here.
const UNFIT: u8 = 77;

/// A role: its word, what it may do, and its body.
struct Role {
    word: &'static str,
    may: &'static str,
    run: fn(argument: &str) -> ExitCode,
}

/// All roles. A command's warden is no role of its own: hands forks it.
const ROLES: [Role; 4] = [
    Role {
        word: "jail",
        may: "builds the box, hands the set-up handle over, becomes hands: pid 1, which acts on orders only",
        run: |_| jail::run(),
    },
    Role {
        word: "agent",
        may: "runs the loop: reads the workspace, asks over its link; no write, no exec, no socket",
        run: |_| agent::run(),
    },
    Role {
        word: "reader",
        may: "does one errand on the paths that its spec names; no socket, no exec, no other path",
        run: |_| reader::run(),
    },
    Role {
        word: "probe",
        may: "tries what must fail beside what must work, in the walls that its argument names",
        run: |argument| worker_jail::probe_role(argument).into(),
    },
];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let word = words.next().unwrap_or_default();
    let argument = words.next().unwrap_or_default();
    if let Some(role) = ROLES.iter().find(|role| role.word == word) {
        call_it(role.word);
        return (role.run)(&argument);
    }
    if word == "--version" {
        let text = format!("provost-worker {}\n", protocol::BUILD);
        return write(&mut std::io::stdout().lock(), &text, 0);
    }
    write(&mut std::io::stderr().lock(), &explanation(), USAGE)
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
