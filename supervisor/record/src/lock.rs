//! One supervisor a session: a lock on a file in the session's folder, held for life.
//!
//! An open-file-description lock: the kernel drops it when its holder dies by whatever cause, it
//! excludes within one process too, and whether somebody holds it can be asked without taking it.
//! The descriptor closes on exec, so that no child keeps a dead supervisor's lock.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use protocol::SessionId;

use crate::{PlaceError, Places};

/// The right to serve a session, until dropped.
#[derive(Debug)]
#[must_use = "a lock that is dropped is given up"]
pub struct SessionLock {
    session: SessionId,
    folder: PathBuf,
    // Held, never read: the lock lives as long as this descriptor.
    _file: File,
}

/// Why a session's lock can be neither taken nor found to be held.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The session's folder is unfit.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The lock file cannot be used.
    #[error("cannot lock the session at `{path}`: {source}")]
    File {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl SessionLock {
    /// Takes the lock, making the session's folder if it is missing; `None` if a live supervisor
    /// holds it. Never waits.
    ///
    /// # Errors
    /// [`LockError`] when the folder or the file is unfit.
    pub fn take(places: &Places, session: &SessionId) -> Result<Option<Self>, LockError> {
        let folder = places.make_session_folder(session)?;
        let path = folder.join(FILE);
        let failed = |source| LockError::File {
            path: path.clone(),
            source,
        };
        let file = open(&path, true).map_err(failed)?;
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&WHOLE)) {
            Ok(_) => {}
            Err(nix::Error::EAGAIN | nix::Error::EACCES) => return Ok(None),
            Err(errno) => return Err(failed(errno.into())),
        }
        // Whoever removed the folder meanwhile held the lock of another file.
        let same =
            |a: &std::fs::Metadata, b: &std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        let locked = file.metadata().map_err(failed)?;
        match std::fs::metadata(&path) {
            Ok(now) if same(&now, &locked) => Ok(Some(Self {
                session: session.clone(),
                folder,
                _file: file,
            })),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Whether a live supervisor holds the lock; asking does not take it.
    ///
    /// # Errors
    /// [`LockError`] when the file cannot be asked.
    pub fn is_held(places: &Places, session: &SessionId) -> Result<bool, LockError> {
        let path = places.session_folder(session).join(FILE);
        let failed = |source| LockError::File {
            path: path.clone(),
            source,
        };
        let file = match open(&path, false) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        let mut answer = WHOLE;
        fcntl(&file, FcntlArg::F_OFD_GETLK(&mut answer)).map_err(|errno| failed(errno.into()))?;
        Ok(answer.l_type != UNLOCKED)
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// The session's folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Name of the lock file in a session's folder.
const FILE: &str = "lock";

const UNLOCKED: libc::c_short = short(libc::F_UNLCK);

/// An exclusive lock on the whole file.
const WHOLE: libc::flock = libc::flock {
    l_type: short(libc::F_WRLCK),
    l_whence: short(libc::SEEK_SET),
    l_start: 0,
    l_len: 0,
    l_pid: 0,
};

/// The kernel's constants are small; the field for them is a short.
const fn short(constant: libc::c_int) -> libc::c_short {
    let [.., high, low] = constant.to_be_bytes();
    libc::c_short::from_be_bytes([high, low])
}

fn open(path: &Path, create: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // std opens with O_CLOEXEC.
    options
        .read(true)
        .write(true)
        .create(create)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(root: &Path) -> Places {
        Places::from_environment(|name| (name == "HOME").then(|| root.as_os_str().to_owned()))
            .expect("places")
    }

    #[test]
    fn one_holder_at_a_time_also_within_a_process() {
        let home = tempfile::tempdir().expect("folder");
        let places = places(home.path());
        let session = SessionId::parse("s-1").expect("valid");
        assert!(!SessionLock::is_held(&places, &session).expect("asked"));
        let lock = SessionLock::take(&places, &session)
            .expect("taken")
            .expect("free");
        assert!(
            SessionLock::take(&places, &session)
                .expect("asked")
                .is_none()
        );
        assert!(SessionLock::is_held(&places, &session).expect("asked"));
        drop(lock);
        assert!(!SessionLock::is_held(&places, &session).expect("asked"));
        assert!(
            SessionLock::take(&places, &session)
                .expect("asked")
                .is_some()
        );
    }

    #[test]
    fn a_child_does_not_inherit_the_lock() {
        let home = tempfile::tempdir().expect("folder");
        let places = places(home.path());
        let session = SessionId::parse("s-1").expect("valid");
        let lock = SessionLock::take(&places, &session)
            .expect("taken")
            .expect("free");
        let mut child = std::process::Command::new("sleep")
            .arg("30")
            .spawn()
            .expect("started");
        drop(lock);
        // For a moment after its start a child has what its exec is about to close.
        let mut again = None;
        for _ in 0..200 {
            again = SessionLock::take(&places, &session).expect("asked");
            if again.is_some() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        child.kill().expect("ended");
        child.wait().expect("reaped");
        assert!(again.is_some(), "the child held the lock");
    }

    #[test]
    fn a_lock_on_a_file_that_was_exchanged_is_not_a_lock() {
        let home = tempfile::tempdir().expect("folder");
        let places = places(home.path());
        let session = SessionId::parse("s-1").expect("valid");
        let folder = places.make_session_folder(&session).expect("made");
        std::os::unix::fs::symlink("/etc/passwd", folder.join(FILE)).expect("linked");
        assert!(
            SessionLock::take(&places, &session).is_err(),
            "a link is not followed"
        );
    }
}
