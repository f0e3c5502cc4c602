//! One file that holds one provider's key: read only if nobody else could, written whole or not at all.

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use nix::{
    fcntl::{Flock, FlockArg},
    libc,
};
use protocol::bounds;
use supervisor_core::Secret;

use super::{KeyFailure, seal};

/// Pause between two tries for a lock.
const TRY: Duration = Duration::from_millis(50);

/// Who may have written a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// This account alone, and nobody else may read it.
    Own,
    /// systemd for this unit: root or this account; its group is how it reaches us.
    Systemd,
}

/// A provider's key file.
#[derive(Debug, Clone)]
pub struct KeyFile {
    path: PathBuf,
    provider: String,
    owner: Owner,
    /// Opens a sealed file, and seals what is written.
    passphrase: Option<Arc<Secret>>,
}

impl KeyFile {
    /// `keys/PROVIDER` of a configuration folder. With a passphrase it is written sealed.
    #[must_use]
    pub fn own(folder: &Path, provider: &str, passphrase: Option<Arc<Secret>>) -> Self {
        Self {
            path: folder.join("keys").join(provider),
            provider: provider.to_owned(),
            owner: Owner::Own,
            passphrase,
        }
    }

    /// A credential that systemd has laid down for this unit.
    pub(super) fn systemd(folder: &Path, name: &str, passphrase: Option<Arc<Secret>>) -> Self {
        Self {
            path: folder.join(name),
            provider: name.to_owned(),
            owner: Owner::Systemd,
            passphrase,
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn failed(&self, source: std::io::Error) -> KeyFailure {
        KeyFailure::Read {
            file: self.name(),
            source,
        }
    }

    fn unfit(&self, problem: impl Into<String>) -> KeyFailure {
        KeyFailure::Unfit {
            file: self.name(),
            problem: problem.into(),
        }
    }

    /// Its content, opened if it is sealed; `None` if there is no such file.
    ///
    /// # Errors
    /// [`KeyFailure`], without any of it.
    pub fn read(&self) -> Result<Option<Secret>, KeyFailure> {
        let Some(text) = self.raw()? else {
            return Ok(None);
        };
        if !seal::is_sealed(&text) {
            return Ok(Some(text));
        }
        let Some(passphrase) = &self.passphrase else {
            return Err(KeyFailure::Sealed { file: self.name() });
        };
        let opened = seal::open(&self.provider, passphrase, &text);
        opened.map(Some).map_err(|problem| self.unfit(problem))
    }

    /// Whether it is there and sealed.
    ///
    /// # Errors
    /// [`KeyFailure`], without any of it.
    pub fn is_sealed(&self) -> Result<bool, KeyFailure> {
        Ok(self.raw()?.is_some_and(|text| seal::is_sealed(&text)))
    }

    fn raw(&self) -> Result<Option<Secret>, KeyFailure> {
        // Not through a link (its target may be anybody's), and never waiting on a FIFO.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&self.path);
        let file = match file {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                return Err(self.unfit("is a symbolic link: put the key itself there"));
            }
            Err(error) => return Err(self.failed(error)),
        };
        self.check(&file)?;
        // Room for the whole, so that no half of it is left behind by a growing buffer.
        let size = usize::try_from(bounds::KEY_FILE).unwrap_or(usize::MAX);
        let mut text = zeroize::Zeroizing::new(Vec::with_capacity(size + 1));
        file.take(bounds::KEY_FILE + 1)
            .read_to_end(&mut text)
            .map_err(|error| self.failed(error))?;
        if text.len() > size {
            return Err(self.unfit("is larger than 32 KiB: it is no key"));
        }
        match std::str::from_utf8(&text) {
            Ok(text) => Ok(Some(Secret::new(text.to_owned()))),
            Err(_) => Err(self.unfit("is not text")),
        }
    }

    fn check(&self, file: &File) -> Result<(), KeyFailure> {
        let facts = file.metadata().map_err(|error| self.failed(error))?;
        if !facts.is_file() {
            return Err(self.unfit("is not a regular file"));
        }
        let own = facts.uid() == nix::unistd::geteuid().as_raw();
        let (owned, others) = match self.owner {
            Owner::Own => (own, 0o077),
            Owner::Systemd => (own || facts.uid() == 0, 0o007),
        };
        if !owned {
            let uid = facts.uid();
            return Err(self.unfit(format!("belongs to user {uid}: chown it to yourself")));
        }
        if facts.mode() & others != 0 {
            let mode = facts.mode() & 0o7777;
            let problem = format!("has mode {mode:04o}, so others may read it: chmod 600 it");
            return Err(self.unfit(problem));
        }
        if facts.len() > bounds::KEY_FILE {
            return Err(self.unfit("is larger than 32 KiB: it is no key"));
        }
        Ok(())
    }

    /// Writes it, mode 0600: beside it first, then in its place, so that a crash leaves the old or the
    /// new one. Sealed if there is a passphrase.
    ///
    /// # Errors
    /// [`KeyFailure`], without any of it.
    pub fn write(&self, content: &Secret) -> Result<(), KeyFailure> {
        let failed = |error| self.failed(error);
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(folder).map_err(failed)?;
        let sealed = match &self.passphrase {
            Some(passphrase) => Some(
                seal::seal(&self.provider, passphrase, content)
                    .map_err(|problem| self.unfit(problem))?,
            ),
            None => None,
        };
        let beside = folder.join(format!(".{}.new", self.provider));
        // What a crash has left; a link there is removed, not followed.
        let _ = std::fs::remove_file(&beside);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)
            .map_err(failed)?;
        let text = sealed.as_deref().unwrap_or_else(|| content.expose());
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| {
                if text.ends_with('\n') {
                    Ok(())
                } else {
                    file.write_all(b"\n")
                }
            })
            .and_then(|()| file.sync_all())
            .and_then(|()| std::fs::rename(&beside, &self.path))
            .and_then(|()| File::open(folder)?.sync_all());
        written.map_err(|error| {
            let _ = std::fs::remove_file(&beside);
            self.failed(error)
        })
    }

    /// Removes it; false if there was none.
    ///
    /// # Errors
    /// [`KeyFailure::Read`] when it cannot be removed.
    pub fn remove(&self) -> Result<bool, KeyFailure> {
        match std::fs::remove_file(&self.path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Keeps other supervisors from writing it until the handle is dropped.
    pub(crate) async fn lock(&self) -> Result<Flock<OwnedFd>, KeyFailure> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let path = folder.join(format!(".{}.lock", self.provider));
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path);
        let mut handle = OwnedFd::from(file.map_err(|error| self.failed(error))?);
        let began = Instant::now();
        loop {
            match Flock::lock(handle, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(lock),
                Err((again, nix::errno::Errno::EWOULDBLOCK))
                    if began.elapsed() < bounds::KEY_LOCK =>
                {
                    handle = again;
                    tokio::time::sleep(TRY).await;
                }
                Err((_, errno)) => return Err(self.failed(errno.into())),
            }
        }
    }
}
