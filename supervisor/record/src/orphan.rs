//! Sessions whose supervisor died: taken over, and what was in flight is told as unknown.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{CallId, SessionId, Usage};
use supervisor_core::Entry;

use crate::{AppendError, History, LockError, ReadError, Record, SessionLock, history};

/// A session whose supervisor died, with the lock that its taker now holds.
#[derive(Debug)]
pub struct Orphan {
    /// The session.
    pub session: SessionId,
    /// Its lock.
    pub lock: SessionLock,
    /// Calls that were in flight and have just been recorded as unknown.
    pub unknown: Vec<CallId>,
    /// The session so far, these entries included.
    pub history: History,
}

/// Why an orphan could not be taken over.
#[derive(Debug, thiserror::Error)]
pub enum OrphanError {
    /// The record cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The record cannot be written.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// A lock is unfit.
    #[error(transparent)]
    Lock(#[from] LockError),
}

impl Record {
    /// Takes over every session that did not end and whose lock is free, and records what was in
    /// flight as unknown. Called at a supervisor's start, before it makes a session of its own.
    ///
    /// # Errors
    /// [`OrphanError`]; what was taken over before it is given up again.
    pub fn orphans(&mut self, now_ms: u64) -> Result<Vec<Orphan>, OrphanError> {
        let mut orphans = Vec::new();
        for session in self.cut_sessions(None)? {
            // A lock that is held belongs to a live supervisor: its session is not cut.
            let Some(lock) = SessionLock::take(&self.places, &session)? else {
                continue;
            };
            // It may have ended between the list and the lock.
            if !self.cut_sessions(Some(&session))?.is_empty() {
                orphans.push(self.take_over(lock, now_ms)?);
            }
        }
        Ok(orphans)
    }

    /// Sessions without an end, all or one; reads no other row, so that a start does not get slower
    /// with each session that has ended.
    fn cut_sessions(&self, one: Option<&SessionId>) -> Result<Vec<SessionId>, ReadError> {
        let failed = |source| ReadError::of(source, &self.places);
        let mut query = self
            .db
            .prepare_cached(
                "SELECT name FROM sessions
                 WHERE outcome IS NULL AND (?1 IS NULL OR name = ?1) ORDER BY id",
            )
            .map_err(failed)?;
        let names = query.query_map([one.map(SessionId::as_str)], |row| row.get::<_, String>(0));
        let names: Vec<String> = names.and_then(Iterator::collect).map_err(failed)?;
        // A name that is no id was not written by us: verify names it, and nothing is taken over.
        Ok(names
            .iter()
            .filter_map(|name| SessionId::parse(name).ok())
            .collect())
    }

    /// Records what was in flight in a session whose lock is held as unknown; what `resume` does
    /// for the one session that it goes on with.
    ///
    /// # Errors
    /// [`OrphanError`] when the record cannot be read or written.
    pub fn take_over(&mut self, lock: SessionLock, now_ms: u64) -> Result<Orphan, OrphanError> {
        let session = lock.session().clone();
        crate::blobs::remove_leftovers(&lock);
        let stored = self.entries(&session)?;
        let (calls, infers) = in_flight(stored.iter().map(|stored| &stored.entry));
        let unknown: Vec<CallId> = calls.into_iter().collect();
        let mut entries: Vec<Entry> = unknown
            .iter()
            .map(|call| Entry::Unknown { call: call.clone() })
            .collect();
        for (id, (provider, model)) in infers {
            // What it held counts as spent: the provider may have answered and billed.
            let held = self.held(&session, id)?;
            let estimated = held.is_some();
            let (usage, micro_usd) = held.map_or((Usage::default(), None), |(usage, micro_usd)| {
                (usage, Some(micro_usd))
            });
            entries.push(Entry::InferOutcome {
                id,
                provider,
                model,
                usage,
                micro_usd,
                estimated,
                error: Some("unknown: the supervisor died while the call was in flight".to_owned()),
                ms: 0,
            });
        }
        let stored = if entries.is_empty() {
            stored
        } else {
            self.append(&session, &entries, now_ms)?;
            self.entries(&session)?
        };
        Ok(Orphan {
            session,
            lock,
            unknown,
            history: history(&stored),
        })
    }
}

/// Calls and model calls with an intent and no outcome.
type InFlight = (BTreeSet<CallId>, BTreeMap<u64, (String, String)>);

pub(crate) fn in_flight<'a>(entries: impl Iterator<Item = &'a Entry>) -> InFlight {
    let mut calls = BTreeSet::new();
    let mut infers = BTreeMap::new();
    for entry in entries {
        match entry {
            Entry::Intent { call, .. } => {
                calls.insert(call.clone());
            }
            Entry::Outcome { call, .. } | Entry::Unknown { call } => {
                calls.remove(call);
            }
            Entry::InferIntent {
                id,
                provider,
                model,
                ..
            } => {
                infers.insert(*id, (provider.clone(), model.clone()));
            }
            Entry::InferOutcome { id, .. } => {
                infers.remove(id);
            }
            Entry::Certificate(_)
            | Entry::Started { .. }
            | Entry::TurnBegan { .. }
            | Entry::Message { .. }
            | Entry::Verdict { .. }
            | Entry::Refused { .. }
            | Entry::ClassifyIntent { .. }
            | Entry::Mode { .. }
            | Entry::Classified { .. }
            | Entry::Asked { .. }
            | Entry::Answered { .. }
            | Entry::HookBegan { .. }
            | Entry::HookEnded { .. }
            | Entry::Transition(_)
            | Entry::TurnEnded(_)
            | Entry::InferTried { .. }
            | Entry::BreakerChanged { .. }
            | Entry::Fault { .. }
            | Entry::Left { .. }
            | Entry::Notice { .. }
            | Entry::Reviewed { .. }
            | Entry::Resumed { .. }
            | Entry::Ended { .. } => {}
        }
    }
    (calls, infers)
}
