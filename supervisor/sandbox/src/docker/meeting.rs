//! Where a container and its supervisor meet: a folder with a socket and the spec, and nothing else.
//!
//! The container has the folder mounted alone and read-only. Two connections are accepted, each with
//! its peer looked at; then the names are removed and the listener is closed, so that nobody who
//! comes later finds anything.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::{
        fd::{AsFd as _, AsRawFd as _},
        unix::{
            fs::{OpenOptionsExt as _, PermissionsExt as _, chown},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use protocol::{
    bounds,
    frame::FrameFault,
    jail::{JailSpec, MEETING_SOCKET, MEETING_SPEC},
};

use crate::{launch::LaunchError, process::readable};

/// How often it is looked whether the container has left, while its connections are awaited.
const GLANCE: Duration = Duration::from_millis(50);

/// The folder, open for two connections.
#[derive(Debug)]
pub(super) struct Meeting {
    folder: PathBuf,
    listener: UnixListener,
}

impl Meeting {
    /// Opens it for a container whose first process is `uid` and `gid` on this host.
    pub(super) fn open(
        folder: &Path,
        spec: &JailSpec,
        (uid, gid): (u32, u32),
    ) -> Result<Self, LaunchError> {
        let bytes = serde_json::to_vec(spec).map_err(|error| LaunchError::Links(error.into()))?;
        if bytes.len() > bounds::MODEL_FRAME {
            return Err(LaunchError::Spec(FrameFault::TooLong {
                size: bytes.len(),
                bound: bounds::MODEL_FRAME,
            }));
        }
        let path = folder.join(MEETING_SPEC);
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o400)
            .open(&path)?;
        file.write_all(&bytes)?;
        give(&path, uid, gid)?;
        // A socket's name is at most 108 bytes long; through the folder's handle it is short.
        let handle = File::open(folder)?;
        let short = format!("/proc/self/fd/{}/{MEETING_SOCKET}", handle.as_raw_fd());
        let listener = UnixListener::bind(short)?;
        listener.set_nonblocking(true)?;
        let path = folder.join(MEETING_SOCKET);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        give(&path, uid, gid)?;
        give(folder, uid, gid)?;
        Ok(Self {
            folder: folder.to_owned(),
            listener,
        })
    }

    /// Waits for the hands link and the agent link, at most [`bounds::GREETING`] for both. `left` says
    /// that nobody will come any more.
    pub(super) fn accept(
        self,
        uid: u32,
        left: impl Fn() -> bool,
    ) -> Result<[UnixStream; 2], LaunchError> {
        let deadline = Instant::now() + bounds::GREETING;
        let one = || -> Result<UnixStream, LaunchError> {
            loop {
                // Asked before the look at the socket: what came first is not missed.
                let gone = left();
                let glance = (Instant::now() + GLANCE).min(deadline);
                if readable(self.listener.as_fd(), glance) {
                    match self.listener.accept() {
                        Ok((link, _)) => return self::link(link, uid),
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                if gone {
                    return Err(LaunchError::Gone { how: String::new() });
                }
                if Instant::now() >= deadline {
                    return Err(LaunchError::Late);
                }
            }
        };
        let links = [one()?, one()?];
        for name in [MEETING_SOCKET, MEETING_SPEC] {
            fs::remove_file(self.folder.join(name))?;
        }
        Ok(links)
    }
}

/// Gives a path to an account, if it is not its own already.
fn give(path: &Path, uid: u32, gid: u32) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        chown(path, Some(uid), Some(gid))
    } else {
        Ok(())
    }
}

/// A connection of the right account, as a blocking link.
fn link(link: UnixStream, uid: u32) -> Result<UnixStream, LaunchError> {
    let peer = rustix::net::sockopt::socket_peercred(&link).map_err(io::Error::from)?;
    if peer.uid.as_raw() != uid {
        return Err(LaunchError::Fault(format!(
            "user {} connected where only {uid} may",
            peer.uid.as_raw()
        )));
    }
    link.set_nonblocking(false)?;
    Ok(link)
}

/// Makes sure that the process behind a link is the container's first, as the engine names it.
pub(super) fn check_peer(link: &UnixStream, pid: u32) -> Result<(), LaunchError> {
    let peer = rustix::net::sockopt::socket_peercred(link).map_err(io::Error::from)?;
    let found = peer.pid.as_raw_nonzero().get();
    if u32::try_from(found) == Ok(pid) {
        Ok(())
    } else {
        Err(LaunchError::Fault(format!(
            "process {found} connected, and the container's first is {pid}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> (u32, u32) {
        (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        )
    }

    fn spec() -> JailSpec {
        let settings = policies::Settings::default();
        let place = crate::SessionPlace {
            situation: protocol::jail::Situation::Container,
            doors: protocol::jail::Doors::default(),
            session: &protocol::SessionId::parse("s-1-ab").expect("valid"),
            workspace: Path::new("/srv/work"),
            tree: Path::new("/srv/tree"),
            overlay: None,
            settings: &settings,
            identity: None,
            own_reach: false,
            home: Path::new("/home/agent"),
            private: &[],
        };
        crate::jail_spec(&place, &crate::Host::default()).expect("fits")
    }

    #[test]
    fn two_are_accepted_in_order_and_then_nothing_is_left() {
        let folder = tempfile::tempdir().expect("folder");
        // A name far longer than a socket's may be.
        let deep = folder.path().join("d".repeat(120));
        fs::create_dir(&deep).expect("made");
        let meeting = Meeting::open(&deep, &spec(), account()).expect("open");
        let handle = File::open(&deep).expect("open");
        let near = format!("/proc/self/fd/{}/{MEETING_SOCKET}", handle.as_raw_fd());
        let first = UnixStream::connect(&near).expect("connected");
        let _second = UnixStream::connect(&near).expect("connected");
        let third = UnixStream::connect(&near).expect("queued");
        let [hands, agent] = meeting.accept(account().0, || false).expect("two");
        (&first).write_all(b"hands").expect("written");
        drop(first);
        let mut text = String::new();
        io::Read::read_to_string(&mut (&hands), &mut text).expect("read");
        assert_eq!(text, "hands");
        check_peer(&agent, std::process::id()).expect("this process");
        assert!(check_peer(&agent, 1).is_err(), "not another");
        assert_eq!(fs::read_dir(&deep).expect("listed").count(), 0);
        let mut rest = Vec::new();
        let closed = io::Read::read_to_end(&mut (&third), &mut rest);
        assert!(closed.is_err() || rest.is_empty(), "a third is not served");
    }

    #[test]
    fn a_stranger_and_one_who_never_comes_end_the_wait() {
        let folder = tempfile::tempdir().expect("folder");
        let meeting = Meeting::open(folder.path(), &spec(), account()).expect("open");
        let _link = UnixStream::connect(folder.path().join(MEETING_SOCKET)).expect("connected");
        let error = meeting
            .accept(account().0 + 1, || false)
            .expect_err("stranger");
        assert!(matches!(error, LaunchError::Fault(_)), "{error}");

        let folder = tempfile::tempdir().expect("folder");
        let meeting = Meeting::open(folder.path(), &spec(), account()).expect("open");
        let error = meeting.accept(account().0, || true).expect_err("left");
        assert!(matches!(error, LaunchError::Gone { .. }), "{error}");
    }
}
