//! Asks the worker for its base filter in an engine's words: one table, two readings, and the houses
//! never name each other.

use std::{
    io::{self, Read as _},
    os::fd::AsFd as _,
    process::{Command, Stdio},
    time::Instant,
};

use protocol::bounds;

use crate::{launch::LaunchError, process::readable, spawner, worker::WorkerBinary};

/// Largest profile; ours is a tenth of it.
const LARGEST: usize = 512 * 1024;

/// The profile as JSON text.
pub(super) fn of(worker: &WorkerBinary) -> Result<String, LaunchError> {
    let mut command = Command::new(worker.program());
    command
        .arg("seccomp")
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = spawner::start(command, None).map_err(|source| LaunchError::Start {
        path: worker.path().display().to_string(),
        source,
    })?;
    let said = match child.stdout.take() {
        Some(mut pipe) => listen(&mut pipe),
        None => Err(io::Error::other("no pipe")),
    };
    // It has said all it has to say, or never will.
    let _ = child.kill();
    let _ = child.wait();
    let text = said?;
    let value: Result<serde_json::Value, _> = serde_json::from_str(&text);
    match value {
        Ok(value)
            if value
                .get("syscalls")
                .is_some_and(|rows| !rows.as_array().is_none_or(Vec::is_empty)) =>
        {
            Ok(text.trim().to_owned())
        }
        _ => Err(LaunchError::Fault("its seccomp profile is none".to_owned())),
    }
}

fn listen(pipe: &mut std::process::ChildStdout) -> io::Result<String> {
    let deadline = Instant::now() + bounds::GREETING;
    let mut text = Vec::new();
    let mut chunk = [0_u8; 16 * 1024];
    loop {
        if !readable(pipe.as_fd(), deadline) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let got = pipe.read(&mut chunk)?;
        if got == 0 {
            return String::from_utf8(text).map_err(io::Error::other);
        }
        text.extend_from_slice(chunk.get(..got).unwrap_or_default());
        if text.len() > LARGEST {
            return Err(io::Error::other("its seccomp profile does not end"));
        }
    }
}
