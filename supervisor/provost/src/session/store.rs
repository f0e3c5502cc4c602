//! The session's part of the record; the record itself masks what is written.

use std::{cell::RefCell, rc::Rc};

use protocol::{Digest, SessionId};
use supervisor_core::Entry;
use supervisor_record::Record;

use super::heads::Heads;

/// A shared handle on the record for one session.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    record: Rc<RefCell<Record>>,
    heads: Rc<RefCell<Option<Heads>>>,
    session: SessionId,
}

impl Store {
    /// For one session.
    pub(crate) fn new(record: Record, session: SessionId, heads: Option<Heads>) -> Self {
        Self {
            record: Rc::new(RefCell::new(record)),
            heads: Rc::new(RefCell::new(heads)),
            session,
        }
    }

    /// Writes entries; durable, and their checkpoint sent where it was to be sent, when it returns.
    pub(crate) fn append(&self, entries: &[Entry]) -> Result<(), String> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut record = self.record.borrow_mut();
        let before = record.checkpoint().map(|checkpoint| checkpoint.seq);
        record
            .append(&self.session, entries, now_ms())
            .map_err(|error| error.to_string())?;
        let made = record.checkpoint().filter(|made| Some(made.seq) != before);
        match (made, self.heads.borrow_mut().as_mut()) {
            (Some(made), Some(heads)) => heads.send(made),
            _ => Ok(()),
        }
    }

    /// Keeps bytes by digest; on the disk when it returns.
    ///
    /// # Errors
    /// The session's quota or the disk is full, in words.
    pub(crate) fn keep(&self, bytes: &[u8]) -> Result<Digest, String> {
        let mut record = self.record.borrow_mut();
        record
            .put_blob(&self.session, bytes)
            .map_err(|error| error.to_string())
    }

    /// Looks at the record.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut Record) -> T) -> T {
        look(&mut self.record.borrow_mut())
    }

    /// The session.
    pub(crate) fn session(&self) -> &SessionId {
        &self.session
    }
}

/// Unix time in milliseconds.
pub(crate) fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
