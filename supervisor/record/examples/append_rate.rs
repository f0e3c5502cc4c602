//! How long an append takes, beside SQLite's own insert in the same run: `cargo run --release --example append_rate`.

use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use protocol::{CallId, SessionId, Usage};
use rusqlite::Connection;
use supervisor_core::Entry;
use supervisor_record::{NewSession, Places, Record, SessionLock};

const ROUNDS: u64 = 5_000;
const FULL_ROUNDS: u64 = 500;

fn main() -> Result<(), Box<dyn Error>> {
    let home = tempfile::tempdir()?;
    let places = Places::from_environment(|name| {
        (name == "HOME").then(|| home.path().as_os_str().to_owned())
    })?;
    let mut record = Record::open(&places)?;
    let session = SessionId::parse("bench")?;
    let lock = SessionLock::take(&places, &session)?.ok_or("locked")?;
    record.create_session(&lock, &NewSession::default(), 1)?;

    let call = CallId::parse("call-1")?;
    let what = "cargo test --workspace".to_owned();
    let intent = Entry::Intent {
        call,
        effect: "command".into(),
        command: None,
        what,
        permit: 1,
    };
    let ended = Entry::Ended {
        outcome: "done".into(),
        reason: String::new(),
        usage: Usage::default(),
        calls: 0,
        refusals: 0,
    };
    let mut rows = vec![(
        "sqlite: one insert, NORMAL",
        plain(home.path(), "normal", ROUNDS)?,
    )];
    rows.push((
        "append: one audit entry, NORMAL",
        time(ROUNDS, |n| {
            Ok(record.append(&session, std::slice::from_ref(&intent), n)?)
        })?,
    ));
    let batch = vec![intent; 10];
    rows.push((
        "append: ten audit entries, NORMAL",
        time(ROUNDS / 10, |n| Ok(record.append(&session, &batch, n)?))?,
    ));
    rows.push((
        "sqlite: one insert, FULL",
        plain(home.path(), "full", FULL_ROUNDS)?,
    ));
    rows.push((
        "append: an end, FULL",
        time(FULL_ROUNDS, |n| {
            Ok(record.append(&session, std::slice::from_ref(&ended), n)?)
        })?,
    ));
    let mut blob = vec![1_u8; 64 * 1024];
    rows.push((
        "put_blob: 64 KiB, synced",
        time(200, |n| {
            if let Some(first) = blob.first_chunk_mut::<8>() {
                *first = n.to_be_bytes();
            }
            record.put_blob(&session, &blob)?;
            Ok(n)
        })?,
    ));
    let mut out = std::io::stdout().lock();
    for (name, (p50, p95)) in rows {
        writeln!(out, "{name:36} p50 {p50:>10.1?}  p95 {p95:>10.1?}")?;
    }
    Ok(())
}

/// SQLite's own insert of a row of the same size.
fn plain(folder: &Path, level: &str, rounds: u64) -> Result<(Duration, Duration), Box<dyn Error>> {
    let db = Connection::open(folder.join(format!("{level}.db")))?;
    db.pragma_update(None, "journal_mode", "wal")?;
    db.pragma_update(None, "synchronous", level)?;
    db.execute_batch("CREATE TABLE rows (id INTEGER PRIMARY KEY, body TEXT)")?;
    let body = "x".repeat(250);
    time(rounds, |n| {
        db.prepare_cached("INSERT INTO rows (body) VALUES (?1)")?
            .execute([&body])?;
        Ok(n)
    })
}

fn time(
    rounds: u64,
    mut run: impl FnMut(u64) -> Result<u64, Box<dyn Error>>,
) -> Result<(Duration, Duration), Box<dyn Error>> {
    let mut times = Vec::new();
    for round in 0..rounds {
        let before = Instant::now();
        run(round)?;
        times.push(before.elapsed());
    }
    times.sort_unstable();
    let at = |percent: usize| {
        times
            .get(times.len() * percent / 100)
            .copied()
            .unwrap_or_default()
    };
    Ok((at(50), at(95)))
}
