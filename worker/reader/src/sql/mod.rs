//! Answers queries on one declared database that nobody may write: what tools.md calls `run_sql`.
//!
//! The file is opened read-only, the connection refuses writes once more (`query_only`, defensive,
//! an authorizer that knows only reading), one statement is prepared, and time, memory and size have
//! bounds. The jail around this process is the wall behind all of that.

mod answer;
mod guard;
mod open;
mod words;

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use protocol::bounds;
use protocol::call::{SqlAnswer, Table};

use crate::failure::Trouble;
use crate::sql::words::Words;

/// What a query gets beyond its time before it is given up from outside.
const GRACE: Duration = Duration::from_secs(1);

/// Tables that are told of one database.
const TABLES: usize = 1_000;

/// Runs one query.
///
/// It runs on a thread of its own: a single step inside the engine, as a `replace` on two long
/// texts, cannot be interrupted, and the caller gets its answer in time all the same. The process
/// leaves right after its one errand and takes the thread with it.
pub(crate) fn query(database: &str, query: &str, max_rows: u32, tables: &[String]) -> SqlAnswer {
    let job = Job {
        database: database.to_owned(),
        query: query.to_owned(),
        max_rows,
        tables: tables.to_vec(),
    };
    let (send, receive) = sync_channel(1);
    let own = job.clone();
    let started = thread::Builder::new().name("query".into()).spawn(move || {
        // Nobody listens any more once the time is up.
        let _ = send.send(own.run());
    });
    let outcome = match started {
        Err(_) => job.run(),
        Ok(_) => match receive.recv_timeout(bounds::SQL_TIME.saturating_add(GRACE)) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => Err(Words::TimeLimit(bounds::SQL_TIME)),
            Err(RecvTimeoutError::Disconnected) => Err(Words::Broken),
        },
    };
    outcome.unwrap_or_else(|words| SqlAnswer::error(words.to_string()))
}

#[derive(Clone)]
struct Job {
    database: String,
    query: String,
    max_rows: u32,
    tables: Vec<String>,
}

impl Job {
    fn run(self) -> Result<SqlAnswer, Words> {
        words::read(&self.query)?;
        let mut opened = open::open(&self.database)?;
        let clock = guard::guard(&mut opened.connection, &self.tables, bounds::SQL_TIME)?;
        let answer = answer::answer(&opened.connection, &self.query, self.max_rows)
            .map_err(|words| clock.explain(words))?;
        opened.settle()?;
        Ok(answer)
    }
}

/// Lists tables and views with their columns.
pub(crate) fn tables(
    name: &str,
    database: &str,
    allowed: &[String],
) -> Result<Vec<Table>, Trouble> {
    list(name, database, allowed)
        .map_err(|words| Trouble::Unfit(format!("the database `{name}` cannot be listed: {words}")))
}

fn list(name: &str, database: &str, allowed: &[String]) -> Result<Vec<Table>, Words> {
    let mut opened = open::open(database)?;
    guard::bound(&opened.connection)?;
    let clock = guard::clock(&mut opened.connection, bounds::SQL_TIME)?;
    let started = Instant::now();
    let tables = answer::tables(&opened.connection, name, allowed, TABLES)
        .map_err(|words| clock.explain(words))?;
    if started.elapsed() > bounds::SQL_TIME {
        return Err(Words::TimeLimit(bounds::SQL_TIME));
    }
    opened.settle()?;
    Ok(tables)
}
