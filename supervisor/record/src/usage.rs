//! What model calls used: sums over the record, by what people ask for.

use protocol::{SessionId, Usage};
use serde::Serialize;

use crate::schema::{from_db, to_db};
use crate::{ReadError, Record};

/// What usage is added up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageBy {
    /// Session.
    Session,
    /// `PROVIDER/MODEL`.
    Model,
    /// Provider.
    Provider,
    /// Day, UTC.
    Day,
    /// Everything of the account in one row.
    Account,
}

impl UsageBy {
    fn column(self) -> &'static str {
        match self {
            Self::Session => "s.name",
            Self::Model => "u.provider || '/' || u.model",
            Self::Provider => "u.provider",
            Self::Day => "strftime('%Y-%m-%d', u.time_ms / 1000, 'unixepoch')",
            Self::Account => "'account'",
        }
    }
}

/// One sum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UsageRow {
    /// Of what.
    pub name: String,
    /// Calls that were made.
    pub calls: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Those whose figures are estimates: they were cut before the provider told.
    pub estimated: u64,
    /// Milliseconds of all calls.
    pub ms: u64,
    /// Tokens.
    pub usage: Usage,
    /// Millionths of a US dollar, as far as prices are known.
    pub micro_usd: u64,
    /// Calls that used something whose price is not known.
    pub unpriced: u64,
}

impl Record {
    /// What was used by one session, or by all, since a time, added up; most recent names last.
    ///
    /// # Errors
    /// [`ReadError`] when there is no such session or the database cannot be read.
    pub fn usage(
        &self,
        session: Option<&SessionId>,
        since_ms: u64,
        by: UsageBy,
    ) -> Result<Vec<UsageRow>, ReadError> {
        let failed = |source| ReadError::of(source, &self.places);
        let id = session.map(|session| self.known(session)).transpose()?;
        let mut query = self
            .db
            .prepare_cached(&format!(
                "SELECT {} AS name, COUNT(*), SUM(u.failed), SUM(u.estimated), SUM(u.ms),
                    SUM(u.input_uncached), SUM(u.cache_read), SUM(u.cache_write), SUM(u.output),
                    SUM(u.reasoning), COALESCE(SUM(u.micro_usd), 0),
                    SUM(u.micro_usd IS NULL AND COALESCE(u.output, u.input_uncached) IS NOT NULL)
                 FROM usage u JOIN sessions s ON s.id = u.session
                 WHERE (?1 IS NULL OR u.session = ?1) AND u.time_ms >= ?2
                 GROUP BY 1 ORDER BY MIN(u.id)",
                by.column()
            ))
            .map_err(failed)?;
        let rows = query.query_map((id, to_db(since_ms)), |row| {
            let figure = |column: usize| row.get::<_, i64>(column).map(from_db);
            let maybe = |column: usize| {
                row.get::<_, Option<i64>>(column)
                    .map(|figure| figure.map(from_db))
            };
            Ok(UsageRow {
                name: row.get(0)?,
                calls: figure(1)?,
                failed: figure(2)?,
                estimated: figure(3)?,
                ms: figure(4)?,
                usage: Usage {
                    input_uncached: maybe(5)?,
                    cache_read: maybe(6)?,
                    cache_write: maybe(7)?,
                    output: maybe(8)?,
                    reasoning: maybe(9)?,
                },
                micro_usd: figure(10)?,
                unpriced: figure(11)?,
            })
        });
        rows.and_then(Iterator::collect).map_err(failed)
    }
}
