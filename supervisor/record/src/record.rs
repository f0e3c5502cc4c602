//! The record of one account as one supervisor has it open.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

use protocol::SessionId;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::append::{AppendError, DURABLE_NORMAL};
use crate::schema::{self, to_db};
use crate::{Checkpoint, KeyError, Masker, Places, SessionLock, sign::Key};

/// The record. One per supervisor; many may have it open at once.
#[derive(Debug)]
pub struct Record {
    pub(crate) db: Connection,
    pub(crate) places: Places,
    pub(crate) masker: Masker,
    pub(crate) ids: HashMap<SessionId, i64>,
    /// The value that `PRAGMA synchronous` has now.
    pub(crate) synchronous: &'static str,
    /// Signs checkpoints.
    pub(crate) key: Key,
    /// The last checkpoint that this supervisor wrote.
    pub(crate) checkpoint: Option<Checkpoint>,
    /// Numbers this process's temporary files.
    pub(crate) temporary: u64,
}

/// Why the record cannot be opened; a supervisor without a record does not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its checkpoints cannot be signed.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The file cannot be made.
    #[error("cannot open the record `{path}`: {source}")]
    File {
        /// The database.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The database answered with an error.
    #[error("cannot open the record `{path}`: {source}")]
    Database {
        /// The database.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// A newer program wrote it.
    #[error(
        "the record `{path}` has version {found}, this program knows {ours}: use the newer provost, or set PROVOST_STATE_DIR to another folder"
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: i32,
        /// Ours.
        ours: i32,
    },
    /// Not a record.
    #[error(
        "`{path}` is not a record of provost: move it away, or set PROVOST_STATE_DIR to another folder"
    )]
    Foreign {
        /// The database.
        path: PathBuf,
    },
    /// Broken.
    #[error(
        "the record `{path}` is damaged: {source}; move it away with its `-wal` and `-shm` files and restore a copy"
    )]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// No write-ahead log here.
    #[error(
        "the record `{path}` cannot have a write-ahead log here (the journal mode stays `{mode}`): set PROVOST_STATE_DIR to a folder on a local disk"
    )]
    NoLog {
        /// The database.
        path: PathBuf,
        /// The mode that it stayed in.
        mode: String,
    },
    /// No space.
    #[error("the disk that holds the record `{path}` is full: free space there")]
    DiskFull {
        /// The database.
        path: PathBuf,
    },
}

/// What `sessions list` shows of a session from its start on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewSession {
    /// The task.
    pub task: String,
    /// Workspace on the host.
    pub workspace: String,
    /// Policy name.
    pub policy: String,
    /// Mode in force.
    pub mode: String,
    /// `PROVIDER/MODEL`.
    pub model: String,
}

impl Record {
    /// Opens the record of these places, making it if it is missing.
    ///
    /// # Errors
    /// [`OpenError`], with what to do.
    pub fn open(places: &Places) -> Result<Self, OpenError> {
        let key = Key::of(places)?;
        let db = schema::open(&places.record_file(), &key)?;
        Ok(Self {
            db,
            key,
            checkpoint: None,
            places: places.clone(),
            masker: Masker::default(),
            ids: HashMap::new(),
            synchronous: DURABLE_NORMAL,
            temporary: 0,
        })
    }

    /// From now on nothing that `masker` knows is written.
    #[must_use]
    pub fn masked_by(mut self, masker: Masker) -> Self {
        self.masker = masker;
        self
    }

    /// The last checkpoint that this supervisor wrote, for keeping it elsewhere.
    #[must_use]
    pub fn checkpoint(&self) -> Option<&Checkpoint> {
        self.checkpoint.as_ref()
    }

    /// The places that it was opened for.
    #[must_use]
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Enters a session. Whoever holds its lock does it, before the first [`Self::append`].
    ///
    /// # Errors
    /// [`AppendError`]; nothing was written.
    pub fn create_session(
        &mut self,
        lock: &SessionLock,
        session: &NewSession,
        now_ms: u64,
    ) -> Result<(), AppendError> {
        let masked = |text: &str| self.masker.mask(text).into_owned();
        let insert = self.db.execute(
            "INSERT INTO sessions (name, started_ms, task, workspace, policy, mode, model)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                lock.session().as_str(),
                to_db(now_ms),
                masked(&session.task),
                masked(&session.workspace),
                masked(&session.policy),
                masked(&session.mode),
                masked(&session.model),
            ],
        );
        match insert {
            Ok(_) => Ok(()),
            Err(source) if is_constraint(&source) => Err(AppendError::Known {
                session: lock.session().clone(),
            }),
            Err(source) => Err(AppendError::of(source, &self.places)),
        }
    }

    /// The database's number of a session.
    pub(crate) fn id(&mut self, session: &SessionId) -> rusqlite::Result<Option<i64>> {
        if let Some(id) = self.ids.get(session) {
            return Ok(Some(*id));
        }
        let id = find_id(&self.db, session)?;
        if let Some(id) = id {
            self.ids.insert(session.clone(), id);
        }
        Ok(id)
    }
}

pub(crate) fn find_id(db: &Connection, session: &SessionId) -> rusqlite::Result<Option<i64>> {
    let mut find = db.prepare_cached("SELECT id FROM sessions WHERE name = ?1")?;
    find.query_row([session.as_str()], |row| row.get(0))
        .optional()
}

fn is_constraint(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
}
