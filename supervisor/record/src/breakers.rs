//! Circuit breakers, shared by all supervisors of an account: one row a provider, changed under the
//! record's own write lock.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension as _, TransactionBehavior, params};
use supervisor_core::breaker::Breaker;

use crate::schema::to_db;
use crate::{AppendError, ReadError, Record};

impl Record {
    /// Looks at one provider's breaker and changes it; no other supervisor changes it meanwhile. What
    /// `act` did is written when this returns, if it did anything. `act` is called once.
    ///
    /// # Errors
    /// [`AppendError`] when the record cannot be read or written.
    pub fn with_breaker(
        &mut self,
        provider: &str,
        now_ms: u64,
        act: &mut dyn FnMut(&mut Breaker),
    ) -> Result<(), AppendError> {
        let places = self.places.clone();
        let failed = |source| AppendError::of(source, &places);
        let tx = self
            .db
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        let text: Option<String> = tx
            .prepare_cached("SELECT state FROM breakers WHERE provider = ?1")
            .and_then(|mut query| query.query_row([provider], |row| row.get(0)).optional())
            .map_err(failed)?;
        // A state that cannot be read is a new breaker: the next failures open it again.
        let mut breaker: Breaker = text
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        let before = breaker.clone();
        act(&mut breaker);
        if breaker == before {
            return Ok(());
        }
        let state = serde_json::to_string(&breaker).map_err(|source| AppendError::Unwritable {
            kind: "breaker",
            source,
        })?;
        tx.prepare_cached(
            "INSERT INTO breakers (provider, state, changed_ms) VALUES (?1, ?2, ?3)
             ON CONFLICT (provider) DO UPDATE SET state = ?2, changed_ms = ?3",
        )
        .and_then(|mut write| write.execute(params![provider, state, to_db(now_ms)]))
        .map_err(failed)?;
        tx.commit().map_err(failed)
    }

    /// The breakers of all providers that ever failed.
    ///
    /// # Errors
    /// [`ReadError`] when the record cannot be read.
    pub fn breakers(&self) -> Result<BTreeMap<String, Breaker>, ReadError> {
        let failed = |source| ReadError::of(source, &self.places);
        let mut query = self
            .db
            .prepare_cached("SELECT provider, state FROM breakers")
            .map_err(failed)?;
        let rows = query.query_map([], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        });
        let rows: Vec<(String, String)> = rows.and_then(Iterator::collect).map_err(failed)?;
        let known = rows.into_iter().map(|(provider, state)| {
            let breaker = serde_json::from_str(&state).unwrap_or_default();
            (provider, breaker)
        });
        Ok(known.collect())
    }
}
