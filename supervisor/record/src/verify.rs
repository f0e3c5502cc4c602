//! Verification: walks the chains and names each edit, gap, reorder and cut tail.

use std::collections::BTreeSet;

use protocol::{SessionId, bounds};
use rusqlite::Connection;

use crate::record::find_id;
use crate::schema::from_db;
use crate::sign::{known_keys, signed_by};
use crate::{AuditFault, AuditHead, Checkpoint, FaultKind, ReadError, Record, chain, checkpoint};

/// Faults of one chain that are listed; a destroyed chain needs no longer list.
const LISTED: usize = 100;

/// Records whose original place is searched for; each search costs as many hashes as the chain has
/// records.
const SEARCHED: usize = 32;

/// A record, reduced to what the walk needs.
struct Link {
    seq: u64,
    prev: String,
    hash: String,
    /// The number that it was made with; `None` if its content was changed.
    origin: Option<u64>,
}

impl Record {
    /// Verifies one session's chain and its checkpoints, also against heads and public keys that were
    /// kept elsewhere; without keys those beside the record are believed. Empty if it holds.
    ///
    /// # Errors
    /// [`ReadError`] when there is no such session and no head names it, or the database cannot be read.
    pub fn verify(
        &self,
        session: &SessionId,
        heads: &[AuditHead],
        keys: &[String],
    ) -> Result<Vec<AuditFault>, ReadError> {
        let failed = |source| ReadError::of(source, &self.places);
        let heads: Vec<AuditHead> = heads
            .iter()
            .filter(|head| &head.session == session)
            .cloned()
            .collect();
        let tx = self.db.unchecked_transaction().map_err(failed)?;
        if heads.is_empty() && find_id(&tx, session).map_err(failed)?.is_none() {
            return Err(ReadError::Unknown {
                session: session.clone(),
            });
        }
        let standing = checkpoint::all(&tx).map_err(failed)?;
        let own = known_keys(&self.places);
        let (wrong, mut known) = checkpoints(&standing, if keys.is_empty() { &own } else { keys });
        // Of the checkpoints between, which are other sessions', `verify_all` speaks.
        let mine: BTreeSet<u64> = standing
            .iter()
            .filter(|checkpoint| checkpoint.session == session.as_str())
            .map(|checkpoint| checkpoint.seq)
            .collect();
        let wrong = wrong.into_iter().filter(|fault| {
            let of_one = matches!(
                fault.kind,
                FaultKind::Edit | FaultKind::Unsigned | FaultKind::Forged
            );
            of_one && mine.contains(&fault.seq)
        });
        known.retain(|head| &head.session == session);
        known.extend(heads);
        let chain = verify_chain(&tx, session, &known).map_err(failed)?;
        Ok(wrong.chain(chain).collect())
    }

    /// Verifies every session's chain and the signed checkpoints that chain them, also against heads
    /// that were kept elsewhere. `keys` are the public keys that were kept elsewhere; without any,
    /// those beside the record are believed. Empty if all holds.
    ///
    /// # Errors
    /// [`ReadError`] when the database cannot be read.
    pub fn verify_all(
        &self,
        heads: &[AuditHead],
        keys: &[String],
    ) -> Result<Vec<AuditFault>, ReadError> {
        let failed = |source| ReadError::of(source, &self.places);
        // One snapshot for everything, whoever writes meanwhile.
        let tx = self.db.unchecked_transaction().map_err(failed)?;
        let own = if keys.is_empty() {
            known_keys(&self.places)
        } else {
            Vec::new()
        };
        let standing = checkpoint::all(&tx).map_err(failed)?;
        let (mut faults, mut known) =
            checkpoints(&standing, if keys.is_empty() { &own } else { keys });
        known.extend(heads.iter().cloned());
        let mut sessions: BTreeSet<SessionId> =
            known.iter().map(|head| head.session.clone()).collect();
        let mut names = tx.prepare("SELECT name FROM sessions").map_err(failed)?;
        let names = names
            .query_map([], |row| row.get::<_, String>(0))
            .map_err(failed)?;
        for name in names {
            let name = name.map_err(failed)?;
            match SessionId::parse(&name) {
                Ok(session) => {
                    sessions.insert(session);
                }
                Err(_) => faults.push(AuditFault {
                    session: None,
                    seq: 0,
                    kind: FaultKind::Edit,
                }),
            }
        }
        for session in sessions {
            let of: Vec<AuditHead> = known
                .iter()
                .filter(|head| head.session == session)
                .cloned()
                .collect();
            faults.extend(verify_chain(&tx, &session, &of).map_err(failed)?);
        }
        Ok(faults)
    }
}

fn verify_chain(
    db: &Connection,
    session: &SessionId,
    heads: &[AuditHead],
) -> rusqlite::Result<Vec<AuditFault>> {
    // A session that only a head or a checkpoint still names has an empty chain.
    let id = find_id(db, session)?.unwrap_or(-1);
    let links = links(db, id)?;
    let mut kinds = walk(&chain::genesis(session).to_string(), &links);
    kinds.extend(against(&links, heads));
    kinds.extend(events(db, id)?);
    let more = kinds.get(LISTED).map(|(seq, _)| (*seq, FaultKind::More));
    kinds.truncate(LISTED);
    kinds.extend(more);
    let fault = |(seq, kind)| AuditFault {
        session: Some(session.clone()),
        seq,
        kind,
    };
    Ok(kinds.into_iter().map(fault).collect())
}

/// Reads a chain and finds, for each record, the number that it was made with.
fn links(db: &Connection, id: i64) -> rusqlite::Result<Vec<Link>> {
    let count: i64 = db.query_row(
        "SELECT COUNT(*) FROM audit WHERE session = ?1",
        [id],
        |row| row.get(0),
    )?;
    // A record that was moved was made with a number near those that stand, gaps included.
    let last: i64 = db.query_row(
        "SELECT COALESCE(MAX(seq), 0) FROM audit WHERE session = ?1",
        [id],
        |row| row.get(0),
    )?;
    let reach = from_db(last.max(count)).saturating_add(bounds::CHECKPOINT_EVERY);
    let mut searched = 0;
    let mut shift = 0;
    let mut query = db.prepare(
        "SELECT seq, time_ms, kind, body, prev_hash, hash FROM audit WHERE session = ?1 ORDER BY seq",
    )?;
    let rows = query.query_map([id], |row| {
        let (seq, time): (i64, i64) = (row.get(0)?, row.get(1)?);
        let (seq, time) = (from_db(seq), from_db(time));
        let (kind, body): (String, String) = (row.get(2)?, row.get(3)?);
        let (prev, hash): (String, String) = (row.get(4)?, row.get(5)?);
        let made_as = |seq: u64| chain::link(&prev, seq, time, &kind, &body).as_str() == hash;
        // A chain from which a record was taken and that was numbered anew is shifted from there on.
        let mut origin = [seq, seq.saturating_add(shift)]
            .into_iter()
            .find(|seq| made_as(*seq));
        if origin.is_none() && searched < SEARCHED {
            searched += 1;
            origin = (1..=reach).find(|seq| made_as(*seq));
        }
        shift = origin
            .and_then(|origin| origin.checked_sub(seq))
            .unwrap_or(shift);
        Ok(Link {
            seq,
            prev,
            hash,
            origin,
        })
    })?;
    rows.collect()
}

/// Walks a chain from its beginning.
fn walk(genesis: &str, links: &[Link]) -> Vec<(u64, FaultKind)> {
    let origins: BTreeSet<u64> = links.iter().filter_map(|link| link.origin).collect();
    let mut faults = Vec::new();
    let mut expected = 1;
    let mut before: Option<&Link> = None;
    for link in links {
        let origin = match link.origin {
            Some(origin) => origin,
            None => {
                faults.push((link.seq, FaultKind::Edit));
                link.seq.max(expected)
            }
        };
        if origin == expected {
            let carried = before.map_or(genesis, |before| before.hash.as_str());
            let whole =
                link.origin.is_some() && before.is_none_or(|before| before.origin.is_some());
            if whole && link.prev != carried {
                faults.push((origin.saturating_sub(1), FaultKind::Rewritten));
            }
            expected = origin.saturating_add(1);
        } else if origin < expected || origins.contains(&expected) {
            faults.push((link.seq, FaultKind::Reorder { made_as: origin }));
            expected = expected.saturating_add(1);
        } else {
            faults.push((
                expected,
                FaultKind::Gap {
                    to: origin.saturating_sub(1),
                },
            ));
            expected = origin.saturating_add(1);
        }
        before = Some(link);
    }
    faults
}

/// Compares a chain with heads that were noted elsewhere.
fn against(links: &[Link], heads: &[AuditHead]) -> Vec<(u64, FaultKind)> {
    let ends_at = links.last().map_or(0, |link| link.seq);
    let mut faults = Vec::new();
    let mut cut: Option<u64> = None;
    for head in heads {
        if head.seq > ends_at {
            cut = cut.max(Some(head.seq));
        } else if let Some(link) = links.iter().find(|link| link.seq == head.seq)
            && link.hash != head.hash.as_str()
            && !faults.contains(&(head.seq, FaultKind::Forked))
        {
            faults.push((head.seq, FaultKind::Forked));
        }
    }
    faults.extend(cut.map(|seq| (seq, FaultKind::Truncated { ends_at })));
    faults
}

/// Events: numbered without a gap, and those that the chain covers stand in it.
fn events(db: &Connection, id: i64) -> rusqlite::Result<Vec<(u64, FaultKind)>> {
    let mut query = db.prepare(
        "SELECT e.seq, e.audit IS NULL, e.body IS NULL,
            a.kind = e.kind AND a.time_ms = e.time_ms
         FROM events e LEFT JOIN audit a ON a.session = e.session AND a.seq = e.audit
         WHERE e.session = ?1 ORDER BY e.seq",
    )?;
    let mut faults = Vec::new();
    let mut expected = 1;
    let mut rows = query.query([id])?;
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        let seq = from_db(seq);
        if seq > expected {
            faults.push((expected, FaultKind::EventGap { to: seq - 1 }));
        }
        expected = seq.saturating_add(1);
        let (plain, bodiless): (bool, bool) = (row.get(1)?, row.get(2)?);
        // An audit record that is missing is a gap of the chain, told there.
        let same: Option<bool> = row.get(3)?;
        if plain == bodiless || (!plain && same == Some(false)) {
            faults.push((seq, FaultKind::Loose));
        }
    }
    let strays: i64 = db.query_row(
        "SELECT COUNT(*) FROM audit a WHERE a.session = ?1 AND NOT EXISTS
            (SELECT 1 FROM events e WHERE e.session = a.session AND e.audit = a.seq)",
        [id],
        |row| row.get(0),
    )?;
    if strays > 0 && faults.is_empty() {
        faults.push((
            expected,
            FaultKind::EventGap {
                to: expected + from_db(strays) - 1,
            },
        ));
    }
    Ok(faults)
}

/// Verifies the chain of checkpoints and answers with the heads that it notes.
pub(crate) fn checkpoints(
    standing: &[Checkpoint],
    keys: &[String],
) -> (Vec<AuditFault>, Vec<AuditHead>) {
    let mut kinds = Vec::new();
    let mut heads = Vec::new();
    let mut expected = 1;
    let genesis = chain::checkpoint_genesis().to_string();
    let mut carried = genesis.as_str();
    for checkpoint in standing {
        let seq = checkpoint.seq;
        if seq > expected {
            kinds.push((expected, FaultKind::Gap { to: seq - 1 }));
        } else if checkpoint.prev != carried {
            kinds.push((seq.saturating_sub(1), FaultKind::Rewritten));
        }
        if checkpoint.made().as_str() == checkpoint.hash {
            heads.extend(checkpoint.noted());
        } else {
            kinds.push((seq, FaultKind::Edit));
        }
        match &checkpoint.signature {
            None => kinds.push((seq, FaultKind::Unsigned)),
            Some((key, signature)) => {
                if !keys.contains(key) || !signed_by(key, &checkpoint.hash, signature) {
                    kinds.push((seq, FaultKind::Forged));
                }
            }
        }
        expected = seq.saturating_add(1);
        carried = &checkpoint.hash;
    }
    kinds.truncate(LISTED);
    let fault = |(seq, kind)| AuditFault {
        session: None,
        seq,
        kind,
    };
    (kinds.into_iter().map(fault).collect(), heads)
}
