//! Finds the worker binary and holds it open: what is executed is the handle, not the name.

use std::{
    fs::File,
    io,
    os::{
        fd::AsRawFd as _,
        unix::fs::{FileExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread::JoinHandle,
};

use protocol::Digest;

/// Name of the worker's file.
const NAME: &str = "provost-worker";
/// Where packages put it.
const INSTALLED: &str = "/usr/libexec/provost";
/// Names another worker; for tests.
const OVERRIDE: &str = "PROVOST_WORKER";

/// The worker, opened.
#[derive(Debug)]
pub struct WorkerBinary {
    handle: Arc<File>,
    path: PathBuf,
    digest: OnceLock<Digest>,
    /// Hashes the file while a session is prepared: it takes longer than the jail.
    hashing: Mutex<Option<JoinHandle<io::Result<Digest>>>>,
}

/// Why there is no worker to start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerMissing {
    /// It lies in none of the places.
    #[error(
        "`provost-worker` was not found in {places}: install it beside `provost` or in {INSTALLED}, or build it with `make`"
    )]
    NotFound {
        /// Where it was looked for.
        places: String,
    },
    /// It is there and cannot be used.
    #[error("cannot use the worker `{}`: {why}", path.display())]
    Unfit {
        /// Which file.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
}

impl WorkerBinary {
    /// Opens the worker at `path`.
    ///
    /// # Errors
    /// [`WorkerMissing::Unfit`] if it is no executable file, or one that others may change.
    pub fn open(path: &Path) -> Result<Self, WorkerMissing> {
        let unfit = |why: String| WorkerMissing::Unfit {
            path: path.to_owned(),
            why,
        };
        let handle = File::open(path).map_err(|error| unfit(error.to_string()))?;
        let facts = handle
            .metadata()
            .map_err(|error| unfit(error.to_string()))?;
        if !facts.is_file() || facts.mode() & 0o111 == 0 {
            return Err(unfit("it is not an executable file".to_owned()));
        }
        if facts.mode() & 0o002 != 0 {
            return Err(unfit("everybody may write it: chmod o-w it".to_owned()));
        }
        if rustix::process::geteuid().is_root() && facts.uid() != 0 {
            return Err(unfit(format!(
                "user {} owns it and root would run it: chown it to root",
                facts.uid()
            )));
        }
        Ok(Self {
            handle: Arc::new(handle),
            path: path.to_owned(),
            digest: OnceLock::new(),
            hashing: Mutex::new(None),
        })
    }

    /// Starts hashing on a thread of its own, so that [`Self::digest`] finds it done.
    pub fn start_digest(&self) {
        let handle = Arc::clone(&self.handle);
        let mut hashing = self.hashing.lock().unwrap_or_else(PoisonError::into_inner);
        if hashing.is_none() && self.digest.get().is_none() {
            *hashing = Some(std::thread::spawn(move || hash(&handle)));
        }
    }

    /// Where it was found.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Digest of the whole file, for the certificate; of the opened handle, which is what is executed.
    ///
    /// # Errors
    /// When the file cannot be read any more.
    pub fn digest(&self) -> io::Result<&Digest> {
        if let Some(digest) = self.digest.get() {
            return Ok(digest);
        }
        let started = self
            .hashing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let digest = match started.map(JoinHandle::join) {
            Some(Ok(digest)) => digest?,
            // Not started, or its thread died: here and now.
            Some(Err(_)) | None => hash(&self.handle)?,
        };
        Ok(self.digest.get_or_init(|| digest))
    }

    /// The name under which a child of this process executes the handle.
    pub(crate) fn program(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.handle.as_raw_fd()))
    }
}

/// Hashes a whole file without moving its offset, which the handle's copies share.
fn hash(handle: &File) -> io::Result<Digest> {
    struct At<'a>(&'a File, u64);
    impl io::Read for At<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let got = self.0.read_at(into, self.1)?;
            self.1 += got as u64;
            Ok(got)
        }
    }
    Digest::of_reader(&mut At(handle, 0)).map(|(digest, _)| digest)
}

/// Finds the worker: `PROVOST_WORKER`, beside `provost`'s own file, in the build tree, in
/// `/usr/libexec/provost/`.
///
/// # Errors
/// [`WorkerMissing`] with the places, or with why the file there cannot be used.
pub fn find_worker() -> Result<WorkerBinary, WorkerMissing> {
    if let Some(path) = std::env::var_os(OVERRIDE) {
        return WorkerBinary::open(Path::new(&path));
    }
    let own = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let places = places(&own);
    for place in &places {
        if place.is_file() {
            return WorkerBinary::open(place);
        }
    }
    let shown: Vec<String> = places
        .iter()
        .map(|place| place.display().to_string())
        .collect();
    Err(WorkerMissing::NotFound {
        places: shown.join(", "),
    })
}

/// Where the worker may lie, seen from `provost`'s own file.
fn places(own: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some(folder) = own.parent() {
        places.push(folder.join(NAME));
        // A build tree: target/{debug,release}/provost beside target/TRIPLE/release/provost-worker.
        let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        if let Some(above) = folder.parent() {
            places.push(above.join(triple).join("release").join(NAME));
        }
    }
    places.push(Path::new(INSTALLED).join(NAME));
    places
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_worker_is_looked_for_beside_in_the_build_tree_and_where_it_is_installed() {
        let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        assert_eq!(
            places(Path::new("/b/target/debug/provost")),
            [
                PathBuf::from("/b/target/debug/provost-worker"),
                PathBuf::from(format!("/b/target/{triple}/release/provost-worker")),
                PathBuf::from("/usr/libexec/provost/provost-worker"),
            ]
        );
    }

    #[test]
    fn a_worker_that_others_may_change_or_that_is_no_program_is_refused() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("provost-worker");
        std::fs::write(&path, b"#!/bin/sh\n").expect("written");
        let mode = |bits| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(bits)).expect("mode");
        };
        mode(0o644);
        assert!(WorkerBinary::open(&path).is_err(), "not executable");
        mode(0o757);
        assert!(WorkerBinary::open(&path).is_err(), "writable by everybody");
        mode(0o755);
        let worker = WorkerBinary::open(&path).expect("fit");
        assert_eq!(worker.digest().expect("read"), &Digest::of(b"#!/bin/sh\n"));
        assert!(WorkerBinary::open(folder.path()).is_err(), "a folder");
    }
}
