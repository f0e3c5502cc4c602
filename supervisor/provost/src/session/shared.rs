//! What the sessions of an account share through the record beside their own: circuit breakers.

use std::sync::{Mutex, PoisonError};

use supervisor_core::breaker::Breaker;
use supervisor_providers::BreakerStore;
use supervisor_record::{Places, Record};

use super::{now_ms, open_record};
use crate::exit::Failure;

/// Breakers in the record, by a connection of their own: a call asks them while its session writes.
#[derive(Debug)]
pub(crate) struct SharedBreakers(Mutex<Record>);

impl SharedBreakers {
    /// Opens the record of these places.
    ///
    /// # Errors
    /// What to do about a record that cannot be opened.
    pub(crate) fn open(places: &Places) -> Result<Self, Failure> {
        Ok(Self(Mutex::new(open_record(places)?)))
    }
}

impl BreakerStore for SharedBreakers {
    fn with(&self, provider: &str, act: &mut dyn FnMut(&mut Breaker)) -> Result<(), String> {
        // A panic elsewhere leaves at most a transaction that is rolled back.
        let mut record = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        record
            .with_breaker(provider, now_ms(), act)
            .map_err(|error| error.to_string())
    }
}
