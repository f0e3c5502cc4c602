//! Asks the worker which attacks its probe knows.

use std::{
    io,
    process::{Command, Stdio},
};

use protocol::escape::Attack;

use crate::worker::WorkerBinary;

/// The attacks of the escape suite, as the worker's probe lists them. The worker is run without a jail,
/// for this one word, with an empty environment: it is the product's own file, and nothing of a
/// stranger's reaches it.
///
/// # Errors
/// It did not start, left badly, or what it said does not decode.
pub fn list_attacks(worker: &WorkerBinary) -> io::Result<Vec<Attack>> {
    let done = Command::new(worker.program())
        .args(["probe", "list"])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    if !done.status.success() {
        let path = worker.path().display();
        return Err(io::Error::other(format!(
            "`{path}` does not list its attacks: install provost and provost-worker from one release"
        )));
    }
    serde_json::from_slice(&done.stdout).map_err(io::Error::from)
}
