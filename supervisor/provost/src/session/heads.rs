//! Sends each signed checkpoint elsewhere, so that a cut tail shows to whoever keeps the lines.

use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    os::unix::{fs::OpenOptionsExt as _, net::UnixDatagram},
    path::{Path, PathBuf},
    time::Duration,
};

use supervisor_record::Checkpoint;

use crate::exit::{Failure, REFUSED_AT_START};

/// Where the system's log listens.
const SYSLOG: &str = "/dev/log";
/// Facility authpriv (10), severity info (6).
const PRIORITY: u8 = 10 * 8 + 6;
/// Longest that the system's log may hold us up.
const WAIT: Duration = Duration::from_secs(2);

/// An open way out.
#[derive(Debug)]
pub(crate) enum Heads {
    /// Lines are appended to a file.
    File(File, PathBuf),
    /// Datagrams to a log.
    Log(UnixDatagram, PathBuf),
}

impl Heads {
    /// `FILE`, `syslog`, or `syslog:SOCKET`.
    ///
    /// # Errors
    /// It cannot be opened: a session that promised to send its heads out does not start.
    pub(crate) fn open(word: &str) -> Result<Self, Failure> {
        let failed = |path: &Path, error: std::io::Error| {
            let message = format!("--audit-head: cannot write `{}`: {error}", path.display());
            Failure::new(REFUSED_AT_START, message).help(
                "name a file that can be appended to, or `syslog` where a log listens on /dev/log",
            )
        };
        let socket = match word {
            "syslog" => Some(SYSLOG),
            _ => word.strip_prefix("syslog:"),
        };
        if let Some(path) = socket {
            let path = PathBuf::from(path);
            let open = || {
                let log = UnixDatagram::unbound()?;
                log.connect(&path)?;
                log.set_write_timeout(Some(WAIT))?;
                Ok(log)
            };
            return open()
                .map(|log| Self::Log(log, path.clone()))
                .map_err(|error| failed(&path, error));
        }
        let path = PathBuf::from(word);
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            // A FIFO must not hold us up, and nobody's link is followed.
            .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
            .open(&path);
        file.map(|file| Self::File(file, path.clone()))
            .map_err(|error| failed(&path, error))
    }

    /// Sends one line.
    ///
    /// # Errors
    /// Why it was not taken, for people.
    pub(crate) fn send(&mut self, checkpoint: &Checkpoint) -> Result<(), String> {
        let line = checkpoint.line();
        let (sent, path) = match self {
            // In one write: the lines of two supervisors do not mix.
            Self::File(file, path) => (file.write_all(format!("{line}\n").as_bytes()), path),
            Self::Log(log, path) => {
                let text = format!(
                    "<{PRIORITY}>provost[{}]: audit-head {line}",
                    std::process::id()
                );
                (log.send(text.as_bytes()).map(drop), path)
            }
        };
        sent.map_err(|error| {
            format!(
                "the audit head cannot be sent to `{}`: {error}",
                path.display()
            )
        })
    }
}
