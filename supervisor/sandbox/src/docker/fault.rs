//! What goes wrong with an engine, each in one sentence with one remedy.

use std::{error::Error as _, io, path::PathBuf, time::Duration};

use bollard::errors::Error;

/// Longest text of the engine's own that is shown.
const SHOWN: usize = 600;

/// Why an engine did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineFault {
    /// Nothing answers.
    #[error("no Docker engine answers at `{}` ({why}): start it (`systemctl start docker`), name another with DOCKER_HOST=unix://PATH, or leave out `backend = \"docker\"`", socket.display())]
    Absent {
        /// Its socket.
        socket: PathBuf,
        /// The kernel's answer.
        why: String,
    },
    /// This account may not speak to it.
    #[error("this account may not use the Docker engine at `{}`: use a rootless engine of the account's own (DOCKER_HOST=unix://$XDG_RUNTIME_DIR/docker.sock); membership in the group `docker` works too and is root on this host", socket.display())]
    Denied {
        /// Its socket.
        socket: PathBuf,
    },
    /// It is elsewhere.
    #[error(
        "DOCKER_HOST names `{host}`: a container is fed from this machine's own folders and sockets, so only `unix://PATH` is used; unset DOCKER_HOST"
    )]
    Remote {
        /// What it says.
        host: String,
    },
    /// It did not answer in time.
    #[error(
        "the Docker engine did not {what} within {seconds} s: it is overloaded or hangs; look at its log (`journalctl -u docker`)"
    )]
    Late {
        /// What it was asked.
        what: &'static str,
        /// The bound.
        seconds: u64,
    },
    /// The image is not there.
    #[error(
        "the Docker engine has no image `{image}`, and a session never pulls one: `docker pull {image}` first, or `make images` for the recommended ones"
    )]
    NoImage {
        /// Its name.
        image: String,
    },
    /// It is no name of an image.
    #[error(
        "`{image}` is not the name or digest of an image: write NAME:TAG, NAME@sha256:… or sha256:…"
    )]
    BadImage {
        /// What was given.
        image: String,
    },
    /// The image is for another machine.
    #[error(
        "the image `{image}` is for {found}, and this engine's sessions are {wanted}: choose another image"
    )]
    Foreign {
        /// Its name.
        image: String,
        /// What it is for.
        found: String,
        /// What is needed.
        wanted: String,
    },
    /// The runtime is not registered.
    #[error(
        "the Docker engine knows no runtime `{runtime}`; it has {known}: register it in the engine's daemon.json, or leave `runtime` out"
    )]
    NoRuntime {
        /// What was asked for.
        runtime: String,
        /// What there is.
        known: String,
    },
    /// It has no room.
    #[error(
        "the Docker engine cannot {what}: no space is left on its disk ({message}): `docker system df` tells what takes it"
    )]
    Full {
        /// What it was asked.
        what: &'static str,
        /// Its own words.
        message: String,
    },
    /// It said no.
    #[error("the Docker engine refuses to {what}: {message}")]
    Refused {
        /// What it was asked.
        what: &'static str,
        /// Its own words.
        message: String,
    },
    /// The connection broke.
    #[error(
        "the Docker engine was lost while it was to {what} ({why}): see whether it runs (`systemctl status docker`)"
    )]
    Lost {
        /// What it was asked.
        what: &'static str,
        /// How.
        why: String,
    },
}

impl EngineFault {
    /// What a failed attempt to connect means.
    pub(super) fn connecting(socket: PathBuf, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied { socket },
            _ => Self::Absent {
                socket,
                why: error.to_string(),
            },
        }
    }

    /// What a failed call means.
    pub(super) fn calling(what: &'static str, error: &Error) -> Self {
        match error {
            Error::DockerResponseServerError { message, .. } => {
                let message = shown(message);
                if message.to_lowercase().contains("no space left") {
                    Self::Full { what, message }
                } else {
                    Self::Refused { what, message }
                }
            }
            Error::RequestTimeoutError => Self::late(what, super::LONGEST_CALL),
            other => Self::Lost {
                what,
                why: deepest(other),
            },
        }
    }

    pub(super) fn late(what: &'static str, bound: Duration) -> Self {
        Self::Late {
            what,
            seconds: bound.as_secs(),
        }
    }
}

/// The last cause of an error: the ones before it only say that there was one.
fn deepest(error: &Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = cause.to_string();
        next = cause.source();
    }
    shown(&text)
}

/// A text of the engine's: one line, bounded.
fn shown(text: &str) -> String {
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(SHOWN)
        .collect();
    line.trim().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_one_line_with_what_to_do() {
        let socket = PathBuf::from("/run/docker.sock");
        let of = |kind: io::ErrorKind| EngineFault::connecting(socket.clone(), &kind.into());
        assert!(matches!(
            of(io::ErrorKind::PermissionDenied),
            EngineFault::Denied { .. }
        ));
        for kind in [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused] {
            assert!(matches!(of(kind), EngineFault::Absent { .. }));
        }
        let said = |message: &str| {
            let message = message.to_owned();
            let error = Error::DockerResponseServerError {
                status_code: 500,
                message,
            };
            EngineFault::calling("start the container", &error)
        };
        assert!(matches!(
            said("write /x: no space left on device"),
            EngineFault::Full { .. }
        ));
        let refused = said("OCI runtime\ncreate failed: \u{1b}[31m");
        assert!(!refused.to_string().contains('\n') && !refused.to_string().contains('\u{1b}'));
    }
}
