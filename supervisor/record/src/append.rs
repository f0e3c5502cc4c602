//! Writing: one transaction for a step's entries, durable before it returns.

use std::path::PathBuf;

use protocol::{SessionId, bounds};
use rusqlite::{ErrorCode, OptionalExtension as _, Transaction, TransactionBehavior, params};
use supervisor_core::Entry;

use crate::money::release;
use crate::schema::{from_db, is_busy, to_db};
use crate::{Checkpoint, Places, Record, chain, checkpoint, sign::Key};

/// `PRAGMA synchronous` for what must survive the death of any process.
pub(crate) const DURABLE_NORMAL: &str = "normal";
/// And for what must survive a power cut.
const DURABLE_FULL: &str = "full";

/// Why nothing was written. What was to be recorded must not be done.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// No such session.
    #[error("the record has no session `{session}`")]
    Unknown {
        /// The session.
        session: SessionId,
    },
    /// The session exists already.
    #[error("the record has a session `{session}` already")]
    Known {
        /// The session.
        session: SessionId,
    },
    /// An entry above [`bounds::RECORD_ENTRY`].
    #[error("an entry of kind `{kind}` has {bytes} bytes, more than the record takes ({limit})", limit = bounds::RECORD_ENTRY)]
    TooLarge {
        /// The entry's kind.
        kind: &'static str,
        /// Its size as JSON.
        bytes: usize,
    },
    /// An entry holds a key in a way that cannot be masked.
    #[error(
        "an entry of kind `{kind}` holds key material that cannot be masked: it was not recorded"
    )]
    Unmaskable {
        /// The entry's kind.
        kind: &'static str,
    },
    /// An entry that has no JSON form.
    #[error("an entry of kind `{kind}` cannot be written as JSON: {source}")]
    Unwritable {
        /// The entry's kind.
        kind: &'static str,
        /// Why.
        source: serde_json::Error,
    },
    /// Other supervisors wrote for too long.
    #[error("other supervisors kept the record `{path}` busy for {seconds} s: try again, or look for a stopped process that has it open", seconds = bounds::RECORD_WAIT.as_secs())]
    Busy {
        /// The database.
        path: PathBuf,
    },
    /// No space.
    #[error(
        "the disk that holds the record `{path}` is full: free space there; nothing was started"
    )]
    DiskFull {
        /// The database.
        path: PathBuf,
    },
    /// Anything else.
    #[error("cannot write the record `{path}`: {source}")]
    Database {
        /// The database.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
}

impl AppendError {
    pub(crate) fn of(source: rusqlite::Error, places: &Places) -> Self {
        let path = places.record_file();
        match source.sqlite_error_code() {
            _ if is_busy(&source) => Self::Busy { path },
            Some(ErrorCode::DiskFull) => Self::DiskFull { path },
            _ => Self::Database { path, source },
        }
    }
}

/// An entry as it will stand in the record.
struct Line<'a> {
    entry: &'a Entry,
    body: String,
}

impl Record {
    /// Appends a step's entries in one transaction and answers with the sequence number of the last.
    /// All are events; those that [`is_audit`](Entry::is_audit) are links of the session's chain too.
    /// When it returns they are durable.
    ///
    /// # Errors
    /// [`AppendError`]; then none of them was written.
    pub fn append(
        &mut self,
        session: &SessionId,
        entries: &[Entry],
        now_ms: u64,
    ) -> Result<u64, AppendError> {
        let lines = self.lines(entries)?;
        let full = entries.iter().any(Entry::is_full);
        let places = self.places.clone();
        let failed = |source| AppendError::of(source, &places);

        let id = self.id(session).map_err(failed)?;
        let id = id.ok_or_else(|| AppendError::Unknown {
            session: session.clone(),
        })?;
        self.set_durability(if full { DURABLE_FULL } else { DURABLE_NORMAL })
            .map_err(failed)?;
        let tx = self
            .db
            .transaction_with_behavior(TransactionBehavior::Immediate);
        let tx = tx.map_err(failed)?;
        let (last, made) = write(&tx, &self.key, id, session, &lines, now_ms).map_err(failed)?;
        tx.commit().map_err(failed)?;
        self.checkpoint = made.or_else(|| self.checkpoint.take());
        Ok(last)
    }

    fn lines<'a>(&self, entries: &'a [Entry]) -> Result<Vec<Line<'a>>, AppendError> {
        let line = |entry: &'a Entry| {
            let kind = entry.kind();
            let json = |entry: &Entry| {
                serde_json::to_string(entry)
                    .map_err(|source| AppendError::Unwritable { kind, source })
            };
            let mut body = json(entry)?;
            if self.masker.finds(&body) {
                let masked = self.masker.mask_entry(entry);
                body = json(&masked.ok_or(AppendError::Unmaskable { kind })?)?;
                if self.masker.finds(&body) {
                    return Err(AppendError::Unmaskable { kind });
                }
            }
            if body.len() > bounds::RECORD_ENTRY {
                return Err(AppendError::TooLarge {
                    kind,
                    bytes: body.len(),
                });
            }
            Ok(Line { entry, body })
        };
        entries.iter().map(line).collect()
    }

    /// Sets how much the next commit waits for; cannot be changed within a transaction.
    fn set_durability(&mut self, wanted: &'static str) -> rusqlite::Result<()> {
        if self.synchronous != wanted {
            self.db.pragma_update(None, "synchronous", wanted)?;
            self.synchronous = wanted;
        }
        Ok(())
    }
}

fn write(
    tx: &Transaction<'_>,
    key: &Key,
    id: i64,
    session: &SessionId,
    lines: &[Line<'_>],
    now_ms: u64,
) -> rusqlite::Result<(u64, Option<Checkpoint>)> {
    let mut seq: i64 = tx
        .prepare_cached("SELECT COALESCE(MAX(seq), 0) FROM events WHERE session = ?1")?
        .query_row([id], |row| row.get(0))?;
    let tail: Option<(i64, String)> = tx
        .prepare_cached("SELECT seq, hash FROM audit WHERE session = ?1 ORDER BY seq DESC LIMIT 1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (mut audit_seq, mut head) =
        tail.unwrap_or_else(|| (0, chain::genesis(session).to_string()));
    let before = from_db(audit_seq);

    let mut event = tx.prepare_cached(
        "INSERT INTO events (session, seq, time_ms, kind, audit, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let mut link = tx.prepare_cached(
        "INSERT INTO audit (session, seq, time_ms, kind, body, prev_hash, hash)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for line in lines {
        let (kind, body, time) = (line.entry.kind(), &line.body, to_db(now_ms));
        seq += 1;
        if line.entry.is_audit() {
            audit_seq += 1;
            let hash = chain::link(&head, from_db(audit_seq), now_ms, kind, body).to_string();
            link.execute(params![id, audit_seq, time, kind, body, head, hash])?;
            event.execute(params![id, seq, time, kind, audit_seq, None::<&str>])?;
            head = hash;
        } else {
            event.execute(params![id, seq, time, kind, None::<i64>, body])?;
        }
        settle(tx, id, line.entry, now_ms)?;
    }
    let after = from_db(audit_seq);
    let due = before / bounds::CHECKPOINT_EVERY != after / bounds::CHECKPOINT_EVERY;
    let due = due || lines.iter().any(|line| line.entry.is_full());
    let made = (after > before && due)
        .then(|| checkpoint::write(tx, key, session, after, &head, now_ms))
        .transpose()?;
    Ok((from_db(seq), made))
}

/// What an entry means for the other tables.
fn settle(tx: &Transaction<'_>, id: i64, entry: &Entry, now_ms: u64) -> rusqlite::Result<()> {
    match entry {
        Entry::Ended {
            outcome, reason, ..
        } => {
            let mut end = tx.prepare_cached(
                "UPDATE sessions SET outcome = ?2, reason = ?3, ended_ms = ?4 WHERE id = ?1",
            )?;
            end.execute(params![id, outcome, reason, to_db(now_ms)])?;
        }
        Entry::Resumed { .. } => {
            let mut again = tx.prepare_cached(
                "UPDATE sessions SET outcome = NULL, reason = NULL, ended_ms = NULL WHERE id = ?1",
            )?;
            again.execute([id])?;
        }
        Entry::InferOutcome {
            id: infer,
            provider,
            model,
            usage,
            micro_usd,
            estimated,
            error,
            ms,
        } => {
            release(tx, id, *infer)?;
            let (by, failed) = ((provider.as_str(), model.as_str()), error.is_some());
            let bill = (usage, *micro_usd, *estimated);
            used(tx, id, now_ms, by, failed, *ms, bill)?;
        }
        Entry::Classified {
            by,
            permit: Some(_),
            usage,
            micro_usd,
            ms,
            ..
        } => {
            let by = by.split_once('/').unwrap_or((by.as_str(), ""));
            let failed = usage.is_none();
            let usage = usage.unwrap_or_default();
            used(tx, id, now_ms, by, failed, *ms, (&usage, *micro_usd, false))?;
        }
        Entry::Certificate(_)
        | Entry::Classified { .. }
        | Entry::Started { .. }
        | Entry::TurnBegan { .. }
        | Entry::Message { .. }
        | Entry::InferIntent { .. }
        | Entry::Verdict { .. }
        | Entry::Refused { .. }
        | Entry::ClassifyIntent { .. }
        | Entry::Mode { .. }
        | Entry::Asked { .. }
        | Entry::Answered { .. }
        | Entry::HookBegan { .. }
        | Entry::HookEnded { .. }
        | Entry::Intent { .. }
        | Entry::Outcome { .. }
        | Entry::Unknown { .. }
        | Entry::Transition(_)
        | Entry::TurnEnded(_)
        | Entry::InferTried { .. }
        | Entry::BreakerChanged { .. }
        | Entry::Fault { .. }
        | Entry::Left { .. }
        | Entry::Notice { .. }
        | Entry::Reviewed { .. } => {}
    }
    Ok(())
}

/// Counts what one model call used.
fn used(
    tx: &Transaction<'_>,
    id: i64,
    now_ms: u64,
    (provider, model): (&str, &str),
    failed: bool,
    ms: u64,
    (usage, micro_usd, estimated): (&protocol::Usage, Option<u64>, bool),
) -> rusqlite::Result<()> {
    let figure = |figure: Option<u64>| figure.map(to_db);
    let mut used = tx.prepare_cached(
        "INSERT INTO usage (session, time_ms, provider, model, failed, ms, input_uncached,
            cache_read, cache_write, output, reasoning, micro_usd, estimated)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?;
    used.execute(params![
        id,
        to_db(now_ms),
        provider,
        model,
        i64::from(failed),
        to_db(ms),
        figure(usage.input_uncached),
        figure(usage.cache_read),
        figure(usage.cache_write),
        figure(usage.output),
        figure(usage.reasoning),
        figure(micro_usd),
        i64::from(estimated),
    ])?;
    Ok(())
}
