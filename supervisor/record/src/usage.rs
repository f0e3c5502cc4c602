//! What model calls used, by provider and model.

use protocol::{SessionId, Usage};
use serde::Serialize;

use crate::schema::{from_db, to_db};
use crate::{ReadError, Record};

/// What one model used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UsageRow {
    /// Provider.
    pub provider: String,
    /// Model.
    pub model: String,
    /// Calls that were made.
    pub calls: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Milliseconds of all calls.
    pub ms: u64,
    /// Tokens.
    pub usage: Usage,
}

impl Record {
    /// What was used by one session, or by all, since a time, by provider and model.
    ///
    /// # Errors
    /// [`ReadError`] when there is no such session or the database cannot be read.
    pub fn usage(
        &self,
        session: Option<&SessionId>,
        since_ms: u64,
    ) -> Result<Vec<UsageRow>, ReadError> {
        let failed = |source| ReadError::of(source, &self.places);
        let id = session.map(|session| self.known(session)).transpose()?;
        let mut query = self
            .db
            .prepare_cached(
                "SELECT provider, model, COUNT(*), SUM(failed), SUM(ms), SUM(input_uncached),
                    SUM(cache_read), SUM(cache_write), SUM(output), SUM(reasoning)
                 FROM usage WHERE (?1 IS NULL OR session = ?1) AND time_ms >= ?2
                 GROUP BY provider, model ORDER BY provider, model",
            )
            .map_err(failed)?;
        let rows = query.query_map((id, to_db(since_ms)), |row| {
            let figure = |column: usize| row.get::<_, i64>(column).map(from_db);
            let maybe = |column: usize| {
                row.get::<_, Option<i64>>(column)
                    .map(|figure| figure.map(from_db))
            };
            Ok(UsageRow {
                provider: row.get(0)?,
                model: row.get(1)?,
                calls: figure(2)?,
                failed: figure(3)?,
                ms: figure(4)?,
                usage: Usage {
                    input_uncached: maybe(5)?,
                    cache_read: maybe(6)?,
                    cache_write: maybe(7)?,
                    output: maybe(8)?,
                    reasoning: maybe(9)?,
                },
            })
        });
        rows.and_then(Iterator::collect).map_err(failed)
    }
}
