//! What is spent and what is held: each model call holds its estimate from before it is made until its
//! outcome is recorded, so that supervisors of one account cannot overrun a budget together.
//!
//! What a dead supervisor held stays held until its session is taken over, and is then recorded as
//! spent at the estimate: the provider may have answered and billed, and a budget must hold.

use protocol::{SessionId, Usage};
use rusqlite::{OptionalExtension as _, Transaction, TransactionBehavior, params};
use supervisor_core::budget::Amount;

use crate::schema::{from_db, to_db};
use crate::{AppendError, Record};

/// A model call that is about to be made.
#[derive(Debug, Clone, Copy)]
pub struct Holding<'a> {
    /// Its session.
    pub session: &'a SessionId,
    /// Its number there.
    pub infer: u64,
    /// Its route: provider and model of each.
    pub route: &'a [(String, String)],
    /// When, Unix time in milliseconds.
    pub now_ms: u64,
    /// When the day began.
    pub day_ms: u64,
}

/// What is spent, what is held included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// By the session.
    pub session: Amount,
    /// By the account today.
    pub day: Amount,
    /// By the account ever.
    pub account: Amount,
    /// By the model of the route that spent the most today.
    pub model_day: Amount,
}

impl Record {
    /// Shows `decide` what is spent and keeps what it holds; nobody else spends or holds meanwhile.
    /// The inner error is its refusal: nothing is held then.
    ///
    /// # Errors
    /// [`AppendError`] when the record cannot be read or written; nothing is held.
    pub fn hold<E>(
        &mut self,
        holding: &Holding<'_>,
        decide: impl FnOnce(&Spent) -> Result<Amount, E>,
    ) -> Result<Result<(), E>, AppendError> {
        let places = self.places.clone();
        let failed = |source| AppendError::of(source, &places);
        let id = self.id(holding.session).map_err(failed)?;
        let id = id.ok_or_else(|| AppendError::Unknown {
            session: holding.session.clone(),
        })?;
        let tx = self
            .db
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        let spent = spent(&tx, id, holding).map_err(failed)?;
        let hold = match decide(&spent) {
            Ok(hold) => hold,
            Err(refused) => return Ok(Err(refused)),
        };
        let (provider, model) = holding
            .route
            .first()
            .map_or(("", ""), |(provider, model)| (provider, model));
        tx.prepare_cached(
            "INSERT OR REPLACE INTO held (session, infer, time_ms, provider, model, micro_usd, input, output)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )
        .and_then(|mut insert| {
            insert.execute(params![
                id,
                to_db(holding.infer),
                to_db(holding.now_ms),
                provider,
                model,
                to_db(hold.micro_usd),
                to_db(hold.input),
                to_db(hold.output),
            ])
        })
        .map_err(failed)?;
        tx.commit().map_err(failed)?;
        Ok(Ok(()))
    }

    /// What a call that was never settled holds, as usage and price; `None` if it holds nothing.
    pub(crate) fn held(
        &mut self,
        session: &SessionId,
        infer: u64,
    ) -> Result<Option<(Usage, u64)>, AppendError> {
        let places = self.places.clone();
        let failed = |source| AppendError::of(source, &places);
        let Some(id) = self.id(session).map_err(failed)? else {
            return Ok(None);
        };
        let row = self
            .db
            .prepare_cached(
                "SELECT micro_usd, input, output FROM held WHERE session = ?1 AND infer = ?2",
            )
            .and_then(|mut query| {
                query
                    .query_row(params![id, to_db(infer)], |row| {
                        let figure = |column: usize| row.get::<_, i64>(column).map(from_db);
                        Ok((figure(0)?, figure(1)?, figure(2)?))
                    })
                    .optional()
            })
            .map_err(failed)?;
        Ok(row.map(|(micro_usd, input, output)| {
            let usage = Usage {
                input_uncached: Some(input),
                output: Some(output),
                ..Usage::default()
            };
            (usage, micro_usd)
        }))
    }
}

/// A call is settled: it holds nothing any more.
pub(crate) fn release(tx: &Transaction<'_>, id: i64, infer: u64) -> rusqlite::Result<()> {
    tx.prepare_cached("DELETE FROM held WHERE session = ?1 AND infer = ?2")?
        .execute(params![id, to_db(infer)])?;
    Ok(())
}

fn spent(tx: &Transaction<'_>, id: i64, holding: &Holding<'_>) -> rusqlite::Result<Spent> {
    let mut query = tx.prepare_cached(
        "SELECT COALESCE(SUM(micro_usd), 0), COALESCE(SUM(input), 0), COALESCE(SUM(output), 0), COUNT(*)
         FROM (
            SELECT micro_usd, COALESCE(input_uncached, 0) + COALESCE(cache_read, 0)
                + COALESCE(cache_write, 0) AS input, COALESCE(output, 0) AS output
            FROM usage WHERE (?1 IS NULL OR session = ?1) AND time_ms >= ?2
                AND (?3 IS NULL OR (provider = ?3 AND model = ?4))
            UNION ALL
            SELECT micro_usd, input, output
            FROM held WHERE (?1 IS NULL OR session = ?1) AND time_ms >= ?2
                AND (?3 IS NULL OR (provider = ?3 AND model = ?4))
         )",
    )?;
    let mut sum = |session: Option<i64>, since: u64, model: Option<(&str, &str)>| {
        let (provider, model) = model.unzip();
        query.query_row(params![session, to_db(since), provider, model], |row| {
            let figure = |column: usize| row.get::<_, i64>(column).map(from_db);
            Ok(Amount {
                micro_usd: figure(0)?,
                input: figure(1)?,
                output: figure(2)?,
                calls: figure(3)?,
            })
        })
    };
    let mut spent = Spent {
        session: sum(Some(id), 0, None)?,
        day: sum(None, holding.day_ms, None)?,
        account: sum(None, 0, None)?,
        model_day: Amount::default(),
    };
    for (provider, model) in holding.route {
        let one = sum(None, holding.day_ms, Some((provider, model)))?;
        spent.model_day = spent.model_day.max(one);
    }
    Ok(spent)
}
