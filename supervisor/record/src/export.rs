//! The chains as lines that others can keep, search and verify without this record.
//!
//! One JSON object a line. A record: `{"v":1,"session","seq","time_ms","kind","prev","hash","body":{…}}`;
//! `body` stands byte for byte as it was hashed. A checkpoint: `{"v":1,"checkpoint":{…}}`.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, Read as _},
};

use protocol::{SessionId, bounds};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    AuditFault, AuditHead, Checkpoint, FaultKind, ReadError, Record, chain, checkpoint,
    schema::from_db, verify::checkpoints,
};

/// Longest line of an export: the longest entry, and what stands around it.
const LINE: u64 = bounds::RECORD_ENTRY as u64 + 64 * 1024;

/// One line of an export.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Exported {
    /// A record of a session's chain.
    Record(ExportedRecord),
    /// A checkpoint.
    Checkpoint {
        /// The form's version.
        v: u32,
        /// The checkpoint.
        checkpoint: Checkpoint,
    },
}

/// A record of a session's chain, whole.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedRecord {
    /// The form's version.
    pub v: u32,
    /// The session.
    pub session: String,
    /// Its number in the chain, from 1.
    pub seq: u64,
    /// Unix time in milliseconds.
    pub time_ms: u64,
    /// The entry's kind.
    pub kind: String,
    /// Hash of the record before.
    pub prev: String,
    /// Its hash.
    pub hash: String,
    /// The entry, as it was hashed.
    pub body: Box<RawValue>,
}

/// Why an export stopped.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The record cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The lines cannot be written or read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A line that is none of an export.
    #[error("line {line} is no line of an export: {why}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// Why.
        why: String,
    },
}

impl Record {
    /// Hands out every record of one session, or of all in the order of their starts, and then the
    /// checkpoints (of that session). All are of one moment. Answers with the number of lines.
    ///
    /// # Errors
    /// [`ExportError`]; what was handed out before is whole.
    pub fn export(
        &self,
        session: Option<&SessionId>,
        each: &mut dyn FnMut(&Exported) -> io::Result<()>,
    ) -> Result<u64, ExportError> {
        if let Some(session) = session {
            self.known(session)?;
        }
        let failed = |source| ReadError::of(source, &self.places);
        let tx = self.db.unchecked_transaction().map_err(failed)?;
        let mut lines = 0;
        let mut query = tx
            .prepare(
                "SELECT s.name, a.seq, a.time_ms, a.kind, a.body, a.prev_hash, a.hash
                 FROM audit a JOIN sessions s ON s.id = a.session
                 WHERE ?1 IS NULL OR s.name = ?1 ORDER BY a.session, a.seq",
            )
            .map_err(failed)?;
        let mut rows = query
            .query([session.map(SessionId::as_str)])
            .map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let record = exported(row).map_err(failed)?;
            each(&Exported::Record(record))?;
            lines += 1;
        }
        for checkpoint in checkpoint::all(&tx).map_err(failed)? {
            if session.is_none_or(|session| session.as_str() == checkpoint.session) {
                each(&Exported::Checkpoint { v: 1, checkpoint })?;
                lines += 1;
            }
        }
        Ok(lines)
    }
}

fn exported(row: &rusqlite::Row<'_>) -> rusqlite::Result<ExportedRecord> {
    let figure = |column: usize| row.get::<_, i64>(column).map(from_db);
    let body: String = row.get(4)?;
    // What is no JSON was not written by us: it goes out as the text that it is, and does not verify.
    let body = RawValue::from_string(body.clone())
        .or_else(|_| serde_json::value::to_raw_value(&body))
        .map_err(|error| {
            let text = rusqlite::types::Type::Text;
            rusqlite::Error::FromSqlConversionFailure(4, text, Box::new(error))
        })?;
    Ok(ExportedRecord {
        v: 1,
        session: row.get(0)?,
        seq: figure(1)?,
        time_ms: figure(2)?,
        kind: row.get(3)?,
        prev: row.get(5)?,
        hash: row.get(6)?,
        body,
    })
}

/// Verifies an export against heads and public keys that were kept elsewhere: each session's chain,
/// and the checkpoints' content and signatures. Without keys signatures are only checked against the
/// key that they name. Answers with the number of sessions and what is wrong.
///
/// # Errors
/// [`ExportError::Line`] at the first line that is none, [`ExportError::Io`].
pub fn verify_export(
    mut text: impl BufRead,
    heads: &[AuditHead],
    keys: &[String],
) -> Result<(usize, Vec<AuditFault>), ExportError> {
    let mut chains: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
    let mut standing: Vec<Checkpoint> = Vec::new();
    let mut faults = Vec::new();
    let mut number = 0;
    loop {
        let mut line = String::new();
        if text.by_ref().take(LINE).read_line(&mut line)? == 0 {
            break;
        }
        number += 1;
        let wrong = |why: String| ExportError::Line { line: number, why };
        if !line.ends_with('\n') {
            return Err(wrong("it is cut or too long".to_owned()));
        }
        match Line::read(&line).map_err(|error| wrong(error.to_string()))? {
            Line::Checkpoint { checkpoint } => standing.push(checkpoint),
            Line::Record(record) => {
                let session =
                    SessionId::parse(&record.session).map_err(|error| wrong(error.to_string()))?;
                let chain = chains.entry(record.session.clone()).or_default();
                let (before, carried) = chain
                    .last()
                    .cloned()
                    .unwrap_or_else(|| (0, chain::genesis(&session).to_string()));
                let made = chain::link(
                    &record.prev,
                    record.seq,
                    record.time_ms,
                    &record.kind,
                    record.body.get(),
                );
                let kind = if made.as_str() != record.hash {
                    Some((record.seq, FaultKind::Edit))
                } else if record.seq <= before {
                    Some((
                        record.seq,
                        FaultKind::Reorder {
                            made_as: record.seq,
                        },
                    ))
                } else if record.seq > before + 1 {
                    Some((before + 1, FaultKind::Gap { to: record.seq - 1 }))
                } else if record.prev != carried {
                    Some((before, FaultKind::Rewritten))
                } else {
                    None
                };
                faults.extend(kind.map(|(seq, kind)| AuditFault {
                    session: Some(session),
                    seq,
                    kind,
                }));
                chain.push((record.seq, record.hash));
            }
        }
    }
    let named: Vec<String> = standing
        .iter()
        .filter_map(|checkpoint| checkpoint.signature.as_ref().map(|(key, _)| key.clone()))
        .collect();
    let (wrong, mut known) = checkpoints(&standing, if keys.is_empty() { &named } else { keys });
    // An export of one session holds its own checkpoints alone: gaps between them are not faults.
    let whole = chains.len() != 1;
    faults.extend(wrong.into_iter().filter(|fault| {
        whole || !matches!(fault.kind, FaultKind::Gap { .. } | FaultKind::Rewritten)
    }));
    known.extend(heads.iter().cloned());
    for head in known {
        let chain = chains
            .get(head.session.as_str())
            .map_or(&[][..], Vec::as_slice);
        let ends_at = chain.last().map_or(0, |(seq, _)| *seq);
        let kind = match chain.iter().find(|(seq, _)| *seq == head.seq) {
            None if head.seq > ends_at => FaultKind::Truncated { ends_at },
            Some((_, hash)) if hash != head.hash.as_str() => FaultKind::Forked,
            _ => continue,
        };
        faults.push(AuditFault {
            session: Some(head.session),
            seq: head.seq,
            kind,
        });
    }
    Ok((chains.len(), faults))
}

enum Line {
    Checkpoint { checkpoint: Checkpoint },
    Record(ExportedRecord),
}

impl Line {
    /// Not by an untagged enum: it would parse the body, whose very bytes are what was hashed.
    fn read(line: &str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Noted {
            #[serde(rename = "v")]
            _v: u32,
            checkpoint: Checkpoint,
        }
        if line.starts_with("{\"v\":1,\"checkpoint\":") {
            let Noted { checkpoint, .. } = serde_json::from_str(line)?;
            return Ok(Self::Checkpoint { checkpoint });
        }
        serde_json::from_str(line).map(Self::Record)
    }
}
