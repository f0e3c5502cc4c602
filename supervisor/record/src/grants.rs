//! What people have allowed beyond one session: kept by the supervisor, for one account and workspace.

use protocol::Digest;
use rusqlite::params;
use serde::Serialize;

use crate::schema::{from_db, to_db};
use crate::{AppendError, ReadError, Record};

/// Made beside the tables of every version: a program that does not know them loses nothing.
pub(crate) const TABLE: &str = "
CREATE TABLE IF NOT EXISTS grants (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, workspace TEXT NOT NULL,
    digest TEXT NOT NULL, shown TEXT NOT NULL, session TEXT NOT NULL, time_ms INTEGER NOT NULL,
    UNIQUE (kind, workspace, digest)
) STRICT;
";

/// What is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantKind {
    /// A hook of the workspace runs, with exactly these bytes.
    Hook,
    /// One very action passes what asks for it.
    Action,
}

impl GrantKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Hook => "hook",
            Self::Action => "action",
        }
    }
}

/// One grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Grant {
    /// Its number in this record.
    pub id: u64,
    /// What is allowed.
    pub kind: GrantKind,
    /// Where: the workspace on the host, canonical.
    pub workspace: String,
    /// Exactly what: the digest of the hook's bytes or of the canonical action.
    pub digest: Digest,
    /// As it was shown to the person, escaped.
    pub shown: String,
    /// The session in which it was given; empty if outside of one.
    pub session: String,
    /// Unix time in milliseconds.
    pub time_ms: u64,
}

impl Record {
    /// Keeps a grant; one that stands already stays as it is. Gives its number, if it is new.
    ///
    /// # Errors
    /// [`AppendError`]; nothing was written.
    pub fn grant(
        &mut self,
        kind: GrantKind,
        workspace: &str,
        digest: &Digest,
        (shown, session): (&str, &str),
        now_ms: u64,
    ) -> Result<Option<u64>, AppendError> {
        let masked = self.masker.mask(shown).into_owned();
        let made = self.db.execute(
            "INSERT OR IGNORE INTO grants (kind, workspace, digest, shown, session, time_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                kind.as_str(),
                workspace,
                digest.as_str(),
                masked,
                session,
                to_db(now_ms)
            ],
        );
        let made = made.map_err(|source| AppendError::of(source, &self.places))?;
        Ok((made > 0).then(|| from_db(self.db.last_insert_rowid())))
    }

    /// Grants of a kind, of one workspace or of all, the oldest first.
    ///
    /// # Errors
    /// [`ReadError`] when the database cannot be read.
    pub fn grants(
        &self,
        kind: GrantKind,
        workspace: Option<&str>,
    ) -> Result<Vec<Grant>, ReadError> {
        let failed = |source| ReadError::of(source, &self.places);
        let mut query = self
            .db
            .prepare_cached(
                "SELECT id, workspace, digest, shown, session, time_ms FROM grants
                 WHERE kind = ?1 AND (?2 IS NULL OR workspace = ?2) ORDER BY id",
            )
            .map_err(failed)?;
        let rows = query.query_map(params![kind.as_str(), workspace], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, String>(2)?,
                row.get::<_, String>(3)?,
                row.get::<_, String>(4)?,
                row.get::<_, i64>(5)?,
            ))
        });
        let mut grants = Vec::new();
        for row in rows.map_err(failed)? {
            let (id, workspace, digest, shown, session, time_ms) = row.map_err(failed)?;
            // A digest that is none grants nothing.
            let Ok(digest) = Digest::parse(&digest) else {
                continue;
            };
            grants.push(Grant {
                id: from_db(id),
                kind,
                workspace,
                digest,
                shown,
                session,
                time_ms: from_db(time_ms),
            });
        }
        Ok(grants)
    }

    /// Takes a grant back; whether there was one.
    ///
    /// # Errors
    /// [`AppendError`]; it still stands.
    pub fn revoke(&mut self, kind: GrantKind, id: u64) -> Result<bool, AppendError> {
        let gone = self.db.execute(
            "DELETE FROM grants WHERE kind = ?1 AND id = ?2",
            params![kind.as_str(), to_db(id)],
        );
        let gone = gone.map_err(|source| AppendError::of(source, &self.places))?;
        Ok(gone > 0)
    }
}
