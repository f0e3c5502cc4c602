//! Checkpoints: they chain the heads of all sessions, and each is signed, so that a cut tail or a
//! removed session shows, also to somebody who keeps only one line elsewhere.

use protocol::{Digest, SessionId};
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use serde::{Deserialize, Serialize};

use crate::{
    AuditHead, chain,
    schema::{from_db, to_db},
    sign::Key,
};

/// One checkpoint as it stands in the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// Its number, from 1.
    pub seq: u64,
    /// Unix time in milliseconds.
    pub time_ms: u64,
    /// The session whose head it notes.
    pub session: String,
    /// Number of that head's record.
    pub audit_seq: u64,
    /// Hash of that head's record.
    pub head: String,
    /// Hash of the checkpoint before.
    pub prev: String,
    /// Its hash.
    pub hash: String,
    /// Public key (hex) and signature (hex); `None` if it carries none.
    pub signature: Option<(String, String)>,
}

impl Checkpoint {
    /// The head that it notes, if it is well formed.
    #[must_use]
    pub fn noted(&self) -> Option<AuditHead> {
        let Self {
            session,
            audit_seq,
            head,
            ..
        } = self;
        format!("{session}:{audit_seq}:{head}").parse().ok()
    }

    /// The line that is sent elsewhere: the head, the checkpoint's hash, key and signature.
    #[must_use]
    pub fn line(&self) -> String {
        let Self {
            session,
            audit_seq,
            head,
            hash,
            ..
        } = self;
        let (key, signature) = self.signature.clone().unwrap_or_default();
        format!(
            "{session}:{audit_seq}:{head} checkpoint={}:{hash} key={key} signature={signature}",
            self.seq
        )
    }

    /// The hash that its content has.
    pub(crate) fn made(&self) -> Digest {
        let noted = format!("{}:{}:{}", self.session, self.audit_seq, self.head);
        chain::link(&self.prev, self.seq, self.time_ms, "checkpoint", &noted)
    }
}

/// Writes one for a session's head.
pub(crate) fn write(
    tx: &Transaction<'_>,
    key: &Key,
    session: &SessionId,
    audit_seq: u64,
    head: &str,
    now_ms: u64,
) -> rusqlite::Result<Checkpoint> {
    let last: Option<(i64, String)> = tx
        .prepare_cached("SELECT seq, hash FROM checkpoints ORDER BY seq DESC LIMIT 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (seq, prev) = last.unwrap_or_else(|| (0, chain::checkpoint_genesis().to_string()));
    let mut made = Checkpoint {
        seq: from_db(seq) + 1,
        time_ms: now_ms,
        session: session.as_str().to_owned(),
        audit_seq,
        head: head.to_owned(),
        prev,
        hash: String::new(),
        signature: None,
    };
    let hash = made.made();
    let signature = key.sign(&hash);
    made.hash = hash.to_string();
    let mut insert = tx.prepare_cached(
        "INSERT INTO checkpoints (seq, time_ms, session, audit_seq, head, prev_hash, hash, key, signature)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    insert.execute(params![
        to_db(made.seq),
        to_db(now_ms),
        made.session,
        to_db(audit_seq),
        head,
        made.prev,
        made.hash,
        key.public(),
        signature,
    ])?;
    made.signature = Some((key.public().to_owned(), signature));
    Ok(made)
}

/// All, in order.
pub(crate) fn all(db: &Connection) -> rusqlite::Result<Vec<Checkpoint>> {
    let mut query = db.prepare(
        "SELECT seq, time_ms, session, audit_seq, head, prev_hash, hash, key, signature
         FROM checkpoints ORDER BY seq",
    )?;
    let rows = query.query_map([], |row| {
        let figure = |column: usize| row.get::<_, i64>(column).map(from_db);
        let key: Option<String> = row.get(7)?;
        let signature: Option<String> = row.get(8)?;
        Ok(Checkpoint {
            seq: figure(0)?,
            time_ms: figure(1)?,
            session: row.get(2)?,
            audit_seq: figure(3)?,
            head: row.get(4)?,
            prev: row.get(5)?,
            hash: row.get(6)?,
            signature: key.zip(signature),
        })
    })?;
    rows.collect()
}
