//! `lying-worker`: the product's own worker, except that two of its parts lie when a workspace asks
//! for it. It runs under the real supervisor, inside the real walls.
//!
//! Beside the worker's roles it knows the word `attack`: one attack by name, tried from where it
//! stands, for the conformance suite.

mod agent;
mod attack;
mod birth;
mod deeds;
mod hands;
mod wire;

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use provost_tests::lies::{Chosen, FILE};
use provost_worker::Parts;

const PARTS: Parts = Parts {
    agent: agent::run,
    serve: hands::serve,
};

fn main() -> ExitCode {
    let word = std::env::args().nth(1).unwrap_or_default();
    match word.as_str() {
        "attack" => attack::run(),
        "jail" => birth::run().unwrap_or_else(|| provost_worker::run(&PARTS)),
        _ => provost_worker::run(&PARTS),
    }
}

/// The lie that one of these folders asks for.
fn chosen(folders: &[PathBuf]) -> Option<Chosen> {
    let read = |folder: &PathBuf| std::fs::read(folder.join(FILE)).ok();
    let bytes = folders.iter().find_map(read)?;
    serde_json::from_slice(&bytes).ok()
}

/// A folder as [`chosen`] takes it.
fn folder(path: &str) -> Vec<PathBuf> {
    vec![Path::new(path).to_owned()]
}

/// A lie of no name is a mistake of the test: nothing is said, and the exit tells it apart.
fn unknown(lie: &str) -> io::Error {
    io::Error::other(format!("there is no lie `{lie}`"))
}
