//! Reading back: a session's entries, and the list of sessions.

use std::path::PathBuf;

use protocol::SessionId;
use rusqlite::OptionalExtension as _;
use serde::Serialize;
use supervisor_core::Entry;

use crate::record::find_id;
use crate::schema::from_db;
use crate::{AuditHead, LockError, Places, Record, SessionLock};

/// Why the record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No such session.
    #[error("the record has no session `{session}`: `provost sessions list` names them")]
    Unknown {
        /// The session.
        session: SessionId,
    },
    /// A session's lock cannot be asked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Anything else.
    #[error("cannot read the record `{path}`: {source}")]
    Database {
        /// The database.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
}

impl ReadError {
    pub(crate) fn of(source: rusqlite::Error, places: &Places) -> Self {
        Self::Database {
            path: places.record_file(),
            source,
        }
    }
}

/// An entry as it stands in the record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stored {
    /// Its number within the session, from 1.
    pub seq: u64,
    /// Unix time in milliseconds.
    pub time_ms: u64,
    /// The entry. One that cannot be read stands here as a notice that says so.
    pub entry: Entry,
}

/// A session as `sessions list` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionRow {
    /// Its id.
    pub id: SessionId,
    /// When it started, Unix time in milliseconds.
    pub started_ms: u64,
    /// When it ended, if it has.
    pub ended_ms: Option<u64>,
    /// The task.
    pub task: String,
    /// Workspace on the host.
    pub workspace: String,
    /// Policy name.
    pub policy: String,
    /// Mode.
    pub mode: String,
    /// `PROVIDER/MODEL`.
    pub model: String,
    /// How it ended; `None` while it runs or if it was cut.
    pub outcome: Option<String>,
    /// Whether a live supervisor serves it now.
    pub live: bool,
}

impl Record {
    /// All entries of a session, in order. A damaged one is told as a notice in its place; what comes
    /// after it is still read.
    ///
    /// # Errors
    /// [`ReadError`] when there is no such session or the database cannot be read.
    pub fn entries(&self, session: &SessionId) -> Result<Vec<Stored>, ReadError> {
        let failed = |source| ReadError::of(source, &self.places);
        let id = self.known(session)?;
        let mut query = self
            .db
            .prepare_cached(
                "SELECT e.seq, e.time_ms, e.kind, COALESCE(e.body, a.body) FROM events e
                 LEFT JOIN audit a ON a.session = e.session AND a.seq = e.audit
                 WHERE e.session = ?1 ORDER BY e.seq",
            )
            .map_err(failed)?;
        let rows = query.query_map([id], |row| {
            let (seq, time): (i64, i64) = (row.get(0)?, row.get(1)?);
            let kind: String = row.get(2)?;
            let body: Option<String> = row.get(3).unwrap_or(None);
            let parsed = body.ok_or_else(|| "its audit record is missing".to_owned());
            let parsed = parsed
                .and_then(|body| serde_json::from_str(&body).map_err(|error| error.to_string()));
            let entry = parsed.unwrap_or_else(|why: String| Entry::Notice {
                text: format!("record {seq} of kind `{kind}` is damaged and was left out: {why}"),
            });
            Ok(Stored {
                seq: from_db(seq),
                time_ms: from_db(time),
                entry,
            })
        });
        rows.and_then(Iterator::collect).map_err(failed)
    }

    /// All sessions, the newest first.
    ///
    /// # Errors
    /// [`ReadError`] when the database cannot be read or a lock cannot be asked.
    pub fn sessions(&self) -> Result<Vec<SessionRow>, ReadError> {
        self.rows(None)
    }

    /// One session's row; `None` if there is no such session.
    ///
    /// # Errors
    /// As [`Self::sessions`].
    pub fn session(&self, session: &SessionId) -> Result<Option<SessionRow>, ReadError> {
        Ok(self.rows(Some(session))?.pop())
    }

    fn rows(&self, only: Option<&SessionId>) -> Result<Vec<SessionRow>, ReadError> {
        let failed = |source| ReadError::of(source, &self.places);
        let mut query = self
            .db
            .prepare_cached(
                "SELECT name, started_ms, ended_ms, task, workspace, policy, mode, model, outcome
                 FROM sessions WHERE ?1 IS NULL OR name = ?1 ORDER BY started_ms DESC, id DESC",
            )
            .map_err(failed)?;
        let rows = query.query_map([only.map(SessionId::as_str)], |row| {
            let name: String = row.get(0)?;
            let started: i64 = row.get(1)?;
            let ended: Option<i64> = row.get(2)?;
            let id = SessionId::parse(&name).map_err(|error| {
                rusqlite::Error::FromSqlConversionFailure(
                    0,
                    rusqlite::types::Type::Text,
                    Box::new(error),
                )
            })?;
            Ok(SessionRow {
                id,
                started_ms: from_db(started),
                ended_ms: ended.map(from_db),
                task: row.get(3)?,
                workspace: row.get(4)?,
                policy: row.get(5)?,
                mode: row.get(6)?,
                model: row.get(7)?,
                outcome: row.get(8)?,
                live: false,
            })
        });
        let mut sessions: Vec<SessionRow> = rows.and_then(Iterator::collect).map_err(failed)?;
        for session in &mut sessions {
            session.live = SessionLock::is_held(&self.places, &session.id)?;
        }
        Ok(sessions)
    }

    /// The head of a session's audit chain; `None` before its first record.
    ///
    /// # Errors
    /// [`ReadError`] when there is no such session or its head cannot be read.
    pub fn audit_head(&self, session: &SessionId) -> Result<Option<AuditHead>, ReadError> {
        let failed = |source| ReadError::of(source, &self.places);
        let id = self.known(session)?;
        let head = self
            .db
            .prepare_cached(
                "SELECT seq, hash FROM audit WHERE session = ?1 ORDER BY seq DESC LIMIT 1",
            )
            .and_then(|mut query| {
                let row = |row: &rusqlite::Row<'_>| {
                    let (seq, hash): (i64, String) = (row.get(0)?, row.get(1)?);
                    let hash = protocol::Digest::parse(&hash).map_err(|error| {
                        rusqlite::Error::FromSqlConversionFailure(
                            1,
                            rusqlite::types::Type::Text,
                            Box::new(error),
                        )
                    })?;
                    Ok(AuditHead {
                        session: session.clone(),
                        seq: from_db(seq),
                        hash,
                    })
                };
                query.query_row([id], row).optional()
            });
        head.map_err(failed)
    }

    pub(crate) fn known(&self, session: &SessionId) -> Result<i64, ReadError> {
        let id = find_id(&self.db, session).map_err(|error| ReadError::of(error, &self.places))?;
        id.ok_or_else(|| ReadError::Unknown {
            session: session.clone(),
        })
    }
}
