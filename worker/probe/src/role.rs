//! The probe's words: what `provost-worker probe` does when it is not the certificate's.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
};

use nix::unistd::{alarm, getppid};
use protocol::escape::{Came, Found, Ground, Way};

use crate::{book, run};

/// Left: it did what it was asked.
const DONE: u8 = 0;
/// Left: no such word.
const USAGE: u8 = 64;
/// Left: it could not try or could not tell.
const BUG: u8 = 70;
/// Seconds that one attack may take.
const TRYING: u32 = 10;
/// Bytes of one answer that are told.
const ANSWER: usize = 200;

/// Does what the words after `probe` say; `None` if they are none of the escape suite's.
#[must_use]
pub fn role(words: &[String]) -> Option<u8> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Some(match words.as_slice() {
        ["list"] => list(),
        ["attack", ground] => ground_of(ground).map_or(USAGE, |ground| attack(&ground)),
        ["one", name, ground] => ground_of(ground).map_or(USAGE, |ground| one(name, &ground)),
        _ => return None,
    })
}

/// The ground as the word itself or as the file that it names.
fn ground_of(word: &str) -> Option<Ground> {
    let text = if word.starts_with('{') {
        word.to_owned()
    } else {
        std::fs::read_to_string(word).ok()?
    };
    let mut ground: Ground = serde_json::from_str(&text).ok()?;
    if ground.hands == 0 {
        ground.hands = getppid().as_raw();
    }
    Some(ground)
}

fn list() -> u8 {
    let told = serde_json::to_vec(&book()).map_err(io::Error::from);
    let told = told.and_then(|text| io::stdout().lock().write_all(&text));
    if told.is_ok() { DONE } else { BUG }
}

fn one(name: &str, ground: &Ground) -> u8 {
    // One that hangs ends as one that did not answer.
    alarm::set(TRYING);
    let Some(outcome) = run(name, ground) else {
        return USAGE;
    };
    let found = Found {
        name: name.to_owned(),
        came: if outcome.refused {
            Came::Refused
        } else {
            Came::Escaped
        },
        answer: outcome.answer,
    };
    if tell(&found).is_ok() { DONE } else { BUG }
}

fn tell(found: &Found) -> io::Result<()> {
    let mut text = serde_json::to_vec(found)?;
    text.push(b'\n');
    io::stdout().lock().write_all(&text)
}

/// Tries every attack of the probe's own, each in a process of its own.
fn attack(ground: &Ground) -> u8 {
    let Ok(ground) = serde_json::to_string(ground) else {
        return BUG;
    };
    // By its name where there is no /proc: the same file, as the command named it.
    let own = Path::new("/proc/self/exe");
    let named = std::env::args_os().next().unwrap_or_default();
    let program = if own.exists() { own } else { Path::new(&named) };
    for attack in book() {
        if attack.way != Way::Probe {
            continue;
        }
        let found = answer(program, &attack.name, &ground);
        if tell(&found).is_err() {
            return BUG;
        }
    }
    DONE
}

/// One attack's answer. One that the kernel ended was refused only if the filter did it.
fn answer(program: &Path, name: &str, ground: &str) -> Found {
    use std::os::unix::process::ExitStatusExt as _;
    let found = |came, answer: String| Found {
        name: name.to_owned(),
        came,
        answer: answer.chars().take(ANSWER).collect(),
    };
    let child = Command::new(program)
        .args(["probe", "one", name, ground])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return found(Came::Escaped, format!("could not be tried: {error}")),
    };
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        // An answer that cannot be read is no answer.
        let _ = BufReader::new(out).read_line(&mut line);
    }
    let status = child.wait();
    if let Ok(told) = serde_json::from_str::<Found>(&line) {
        return found(told.came, told.answer);
    }
    match status.map(|status| status.signal()) {
        Ok(Some(nix::libc::SIGSYS)) => found(Came::Refused, "SIGSYS".to_owned()),
        Ok(Some(signal)) => found(Came::Escaped, format!("no answer: signal {signal}")),
        _ => found(Came::Escaped, "no answer".to_owned()),
    }
}
