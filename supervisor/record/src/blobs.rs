//! Content by digest: pre-images and spools, one file each, within the quota of their session.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use protocol::{Digest, SessionId, bounds};
use rusqlite::{OptionalExtension as _, TransactionBehavior, params};

use crate::schema::{from_db, to_db};
use crate::{AppendError, Record, SessionLock};

/// Why a blob is neither kept nor found.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// The session keeps as much as it may.
    #[error("session `{session}` keeps {entries} blobs of {bytes} bytes; another of {more} would pass its limit of {max_entries} blobs or {max_bytes} bytes", max_entries = bounds::KEPT_ENTRIES, max_bytes = bounds::KEPT_BYTES)]
    Quota {
        /// The session.
        session: SessionId,
        /// Blobs that it keeps.
        entries: u64,
        /// Their bytes.
        bytes: u64,
        /// Bytes of the one that does not fit.
        more: u64,
    },
    /// A blob above [`bounds::BLOB`].
    #[error("a blob of {bytes} bytes is larger than what is kept ({limit} bytes)", limit = bounds::BLOB)]
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// What lies under a digest has another one.
    #[error("the blob `{path}` is damaged: its content does not have the digest of its name")]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The quota cannot be kept count of.
    #[error(transparent)]
    Record(#[from] AppendError),
    /// No space.
    #[error("the disk that holds `{path}` is full: free space there; nothing was changed")]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be written or read.
    #[error("cannot use the blob `{path}`: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Record {
    /// Keeps `content` for a session and answers with its digest. The quota is reserved before the
    /// file is written; content that exists already is not written again. When it returns, the
    /// content is on the disk.
    ///
    /// # Errors
    /// [`BlobError`]; then the quota is as it was.
    pub fn put_blob(&mut self, session: &SessionId, content: &[u8]) -> Result<Digest, BlobError> {
        let bytes = content.len() as u64;
        if bytes > bounds::BLOB {
            return Err(BlobError::TooLarge { bytes });
        }
        let digest = Digest::of(content);
        let reserved = self.reserve(session, &digest, bytes)?;
        match self.store(session, &digest, content) {
            Ok(()) => Ok(digest),
            Err(error) => {
                if reserved {
                    self.give_back(session, &digest, bytes)?;
                }
                Err(error)
            }
        }
    }

    /// The content under a digest; `None` if there is none.
    ///
    /// # Errors
    /// [`BlobError`] when it cannot be read or is not what its name says.
    pub fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, BlobError> {
        let path = self.blob_path(digest);
        let failed = |source| BlobError::File {
            path: path.clone(),
            source,
        };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let mut content = Vec::new();
        file.take(bounds::BLOB + 1)
            .read_to_end(&mut content)
            .map_err(failed)?;
        if &Digest::of(&content) != digest {
            return Err(BlobError::Damaged { path });
        }
        Ok(Some(content))
    }

    /// Blobs and bytes that a session keeps.
    ///
    /// # Errors
    /// [`BlobError`] when there is no such session or the database cannot be read.
    pub fn kept(&mut self, session: &SessionId) -> Result<(u64, u64), BlobError> {
        let places = self.places.clone();
        let failed = |source| AppendError::of(source, &places);
        let id = self.id(session).map_err(failed)?;
        let id = id.ok_or_else(|| AppendError::Unknown {
            session: session.clone(),
        })?;
        Ok(self
            .db
            .query_row(
                "SELECT kept_entries, kept_bytes FROM sessions WHERE id = ?1",
                [id],
                |row| Ok((from_db(row.get(0)?), from_db(row.get(1)?))),
            )
            .map_err(failed)?)
    }

    /// The file that keeps the content under a digest, whether or not it is there; for a reader that
    /// proves it by the digest.
    #[must_use]
    pub fn blob_path(&self, digest: &Digest) -> PathBuf {
        let (folder, name) = digest
            .as_str()
            .split_at_checked(2)
            .unwrap_or(("", digest.as_str()));
        self.places.blobs().join(folder).join(name)
    }

    /// Counts a blob against its session; `false` if the session has counted it already.
    fn reserve(
        &mut self,
        session: &SessionId,
        digest: &Digest,
        bytes: u64,
    ) -> Result<bool, BlobError> {
        let places = self.places.clone();
        let failed = |source| AppendError::of(source, &places);
        let id = self.id(session).map_err(failed)?;
        let id = id.ok_or_else(|| AppendError::Unknown {
            session: session.clone(),
        })?;
        let tx = self
            .db
            .transaction_with_behavior(TransactionBehavior::Immediate);
        let tx = tx.map_err(failed)?;
        let counted: Option<i64> = tx
            .query_row(
                "SELECT bytes FROM kept WHERE session = ?1 AND digest = ?2",
                params![id, digest.as_str()],
                |row| row.get(0),
            )
            .optional()
            .map_err(failed)?;
        if counted.is_some() {
            return Ok(false);
        }
        let (entries, kept): (i64, i64) = tx
            .query_row(
                "SELECT kept_entries, kept_bytes FROM sessions WHERE id = ?1",
                [id],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .map_err(failed)?;
        let (entries, kept) = (from_db(entries), from_db(kept));
        if entries >= bounds::KEPT_ENTRIES || kept.saturating_add(bytes) > bounds::KEPT_BYTES {
            let session = session.clone();
            return Err(BlobError::Quota {
                session,
                entries,
                bytes: kept,
                more: bytes,
            });
        }
        let count = || -> rusqlite::Result<()> {
            tx.execute(
                "INSERT INTO kept (session, digest, bytes) VALUES (?1, ?2, ?3)",
                params![id, digest.as_str(), to_db(bytes)],
            )?;
            tx.execute(
                "UPDATE sessions SET kept_entries = kept_entries + 1, kept_bytes = kept_bytes + ?2
                 WHERE id = ?1",
                params![id, to_db(bytes)],
            )?;
            Ok(())
        };
        count().map_err(failed)?;
        tx.commit().map_err(failed)?;
        Ok(true)
    }

    fn give_back(
        &mut self,
        session: &SessionId,
        digest: &Digest,
        bytes: u64,
    ) -> Result<(), AppendError> {
        let places = self.places.clone();
        let failed = |source| AppendError::of(source, &places);
        let Some(id) = self.id(session).map_err(failed)? else {
            return Ok(());
        };
        let tx = self
            .db
            .transaction_with_behavior(TransactionBehavior::Immediate);
        let tx = tx.map_err(failed)?;
        tx.execute(
            "DELETE FROM kept WHERE session = ?1 AND digest = ?2",
            params![id, digest.as_str()],
        )
        .map_err(failed)?;
        tx.execute(
            "UPDATE sessions SET kept_entries = kept_entries - 1, kept_bytes = kept_bytes - ?2
             WHERE id = ?1",
            params![id, to_db(bytes)],
        )
        .map_err(failed)?;
        tx.commit().map_err(failed)
    }

    /// Writes a temporary file in the session's folder, whose lock its writer holds, and renames it:
    /// under a digest there is all of the content or nothing.
    fn store(
        &mut self,
        session: &SessionId,
        digest: &Digest,
        content: &[u8],
    ) -> Result<(), BlobError> {
        let path = self.blob_path(digest);
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => BlobError::DiskFull { path: path.clone() },
            _ => BlobError::File {
                path: path.clone(),
                source,
            },
        };
        if std::fs::metadata(&path).is_ok_and(|meta| meta.len() == content.len() as u64) {
            return Ok(());
        }
        self.temporary += 1;
        let name = format!("{LEFTOVER}{}-{}", std::process::id(), self.temporary);
        let folder = self
            .places
            .make_session_folder(session)
            .map_err(|error| BlobError::File {
                path: path.clone(),
                source: io::Error::other(error),
            })?;
        let temporary = folder.join(name);
        let written = write_whole(&temporary, content).and_then(|()| {
            let folder = path.parent().unwrap_or(&path);
            match DirBuilder::new().mode(0o700).create(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => std::fs::rename(&temporary, &path),
            }
        });
        written.map_err(|error| {
            // What cannot be removed now is removed when the session is taken over.
            let _ = std::fs::remove_file(&temporary);
            failed(error)
        })
    }
}

/// First part of the names of temporary files.
const LEFTOVER: &str = ".blob-";

fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(content)?;
    file.sync_data()
}

/// Removes what a dead supervisor was writing; best effort, it is only space.
pub(crate) fn remove_leftovers(lock: &SessionLock) {
    let Ok(entries) = std::fs::read_dir(lock.folder()) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(LEFTOVER) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
