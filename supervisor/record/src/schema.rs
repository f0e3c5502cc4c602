//! The database file: how it is opened, what its tables are, and which versions are refused.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use protocol::{Digest, bounds};
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, params};

use crate::{checkpoint, grants, record::OpenError, sign::Key};

/// Version of the tables; raised with each change that an older program would misread.
pub(crate) const VERSION: i32 = 3;

/// Bytes of the log's index, at least.
const INDEX: u64 = 32 * 1024;

/// "Prov": tells our file from another program's.
const APPLICATION: i32 = 0x5072_6f76;

// An event that is a link of the audit chain has its body there and only there, so that what people
// are shown is what the chain covers.
const TABLES: &str = "
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, started_ms INTEGER NOT NULL,
    task TEXT NOT NULL, workspace TEXT NOT NULL, policy TEXT NOT NULL, mode TEXT NOT NULL,
    model TEXT NOT NULL, outcome TEXT, reason TEXT, ended_ms INTEGER,
    kept_bytes INTEGER NOT NULL DEFAULT 0, kept_entries INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX sessions_cut ON sessions (name) WHERE outcome IS NULL;
CREATE TABLE events (
    session INTEGER NOT NULL REFERENCES sessions(id), seq INTEGER NOT NULL,
    time_ms INTEGER NOT NULL, kind TEXT NOT NULL, audit INTEGER, body TEXT,
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE audit (
    session INTEGER NOT NULL REFERENCES sessions(id), seq INTEGER NOT NULL,
    time_ms INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
    prev_hash TEXT NOT NULL, hash TEXT NOT NULL,
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE checkpoints (
    seq INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, session TEXT NOT NULL,
    audit_seq INTEGER NOT NULL, head TEXT NOT NULL, prev_hash TEXT NOT NULL, hash TEXT NOT NULL,
    key TEXT, signature TEXT
) STRICT;
CREATE TABLE usage (
    id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions(id),
    time_ms INTEGER NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL,
    failed INTEGER NOT NULL, ms INTEGER NOT NULL, input_uncached INTEGER, cache_read INTEGER,
    cache_write INTEGER, output INTEGER, reasoning INTEGER, micro_usd INTEGER,
    estimated INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX usage_by_session ON usage (session);
CREATE TABLE kept (
    session INTEGER NOT NULL REFERENCES sessions(id), digest TEXT NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (session, digest)
) STRICT, WITHOUT ROWID;
";

// What came with the version that shares breakers and budgets.
const SHARED: &str = "
CREATE INDEX usage_by_time ON usage (time_ms);
CREATE TABLE breakers (
    provider TEXT PRIMARY KEY, state TEXT NOT NULL, changed_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE held (
    session INTEGER NOT NULL REFERENCES sessions(id), infer INTEGER NOT NULL,
    time_ms INTEGER NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL,
    micro_usd INTEGER NOT NULL, input INTEGER NOT NULL, output INTEGER NOT NULL,
    PRIMARY KEY (session, infer)
) STRICT, WITHOUT ROWID;
CREATE TABLE rates (name TEXT PRIMARY KEY, nanos INTEGER NOT NULL) STRICT, WITHOUT ROWID;
";

/// Opens the database, makes its tables if they are missing, and checks that it is ours.
pub(crate) fn open(path: &Path, key: &Key) -> Result<Connection, OpenError> {
    make(path).map_err(|source| OpenError::File {
        path: path.to_owned(),
        source,
    })?;
    let until = Instant::now() + bounds::RECORD_WAIT;
    loop {
        // The first to come turns the log on, which SQLite does not wait for by itself.
        match attempt(path, key, false) {
            // On a full disk the log's shared index cannot be made. What is kept can be read without it,
            // alone; each write then says that the disk is full.
            Err(error) if is_full(path, &error) => {
                return attempt(path, key, true).map_err(|error| match error {
                    OpenError::Database { path, .. } => OpenError::DiskFull { path },
                    other => other,
                });
            }
            Err(OpenError::Database { source, .. })
                if is_busy(&source) && Instant::now() < until =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            // Another reads alone.
            Err(OpenError::Database { path, source }) if is_busy(&source) && !has_room(&path) => {
                return Err(OpenError::DiskFull { path });
            }
            settled => return settled,
        }
    }
}

/// Makes an empty file with mode 0600, which SQLite's side files follow; SQLite itself would make it
/// readable for others as the umask has it. It is never opened under its own name here: closing that
/// descriptor would drop the locks of another connection of this process.
fn make(path: &Path) -> io::Result<()> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    if path.exists() {
        return Ok(());
    }
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("new-{}-{number}", std::process::id()));
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)?;
    let linked = std::fs::hard_link(&temporary, path);
    std::fs::remove_file(&temporary)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn attempt(path: &Path, key: &Key, alone: bool) -> Result<Connection, OpenError> {
    let failed = |source: rusqlite::Error| match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => OpenError::Damaged {
            path: path.to_owned(),
            source,
        },
        Some(ErrorCode::DiskFull) => OpenError::DiskFull {
            path: path.to_owned(),
        },
        _ => OpenError::Database {
            path: path.to_owned(),
            source,
        },
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut db = Connection::open_with_flags(path, flags).map_err(failed)?;
    wait_boundedly(&mut db).map_err(failed)?;
    db.set_prepared_statement_cache_capacity(64);
    if alone {
        db.pragma_update(None, "locking_mode", "exclusive")
            .map_err(failed)?;
    }
    db.pragma_update(None, "trusted_schema", false)
        .map_err(failed)?;
    db.pragma_update(None, "cell_size_check", true)
        .map_err(failed)?;
    let ours = |db: &Connection| -> rusqlite::Result<(i32, i32, i64)> {
        Ok((
            db.pragma_query_value(None, "application_id", |row| row.get(0))?,
            db.pragma_query_value(None, "user_version", |row| row.get(0))?,
            db.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |row| row.get(0))?,
        ))
    };
    let check = |(application, version, tables): (i32, i32, i64)| match (application, version) {
        (0, 0) if tables == 0 => Ok(()),
        (APPLICATION, 1..=VERSION) => Ok(()),
        (APPLICATION, found) if found > VERSION => Err(OpenError::Newer {
            path: path.to_owned(),
            found,
            ours: VERSION,
        }),
        _ => Err(OpenError::Foreign {
            path: path.to_owned(),
        }),
    };
    // Before anything is written: a newer or a foreign file stays as it is. In one transaction, or
    // another supervisor's making of the tables would be seen half done.
    let tx = db.transaction().map_err(failed)?;
    check(ours(&tx).map_err(failed)?)?;
    drop(tx);
    let mode: String = db
        .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))
        .map_err(failed)?;
    if mode != "wal" {
        return Err(OpenError::NoLog {
            path: path.to_owned(),
            mode,
        });
    }
    db.pragma_update(None, "synchronous", "normal")
        .map_err(failed)?;
    db.pragma_update(None, "foreign_keys", true)
        .map_err(failed)?;
    db.pragma_update(None, "temp_store", "memory")
        .map_err(failed)?;
    db.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)
        .map_err(failed)?;

    let tx = db
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    let found = ours(&tx).map_err(failed)?;
    check(found)?;
    if found.2 == 0 {
        tx.execute_batch(TABLES).map_err(failed)?;
        tx.execute_batch(SHARED).map_err(failed)?;
        tx.pragma_update(None, "application_id", APPLICATION)
            .map_err(failed)?;
        tx.pragma_update(None, "user_version", VERSION)
            .map_err(failed)?;
    }
    if found.1 == 1 {
        sign_what_stands(&tx, key).map_err(failed)?;
        tx.pragma_update(None, "user_version", VERSION)
            .map_err(failed)?;
    }
    if (1..3).contains(&found.1) {
        tx.execute_batch(
            "ALTER TABLE usage ADD COLUMN micro_usd INTEGER;
             ALTER TABLE usage ADD COLUMN estimated INTEGER NOT NULL DEFAULT 0;",
        )
        .map_err(failed)?;
        tx.execute_batch(SHARED).map_err(failed)?;
        tx.pragma_update(None, "user_version", VERSION)
            .map_err(failed)?;
    }
    tx.execute_batch(grants::TABLE).map_err(failed)?;
    tx.commit().map_err(failed)?;
    Ok(db)
}

/// Whether an error is that of a disk without room, which SQLite does not call so when it makes its index.
fn is_full(path: &Path, error: &OpenError) -> bool {
    let OpenError::Database { source, .. } = error else {
        return matches!(error, OpenError::DiskFull { .. });
    };
    source.sqlite_error_code() == Some(ErrorCode::SystemIoFailure) && !has_room(path)
}

/// Whether the file system of the record has room for the log's index, as far as it tells.
fn has_room(path: &Path) -> bool {
    let room = || {
        let facts = nix::sys::statvfs::statvfs(path.parent()?).ok()?;
        facts.blocks_available().checked_mul(facts.fragment_size())
    };
    room().is_none_or(|bytes| bytes >= INDEX)
}

/// From version 1: its checkpoints had no signature. They get this record's, so that from here on one
/// without is a fault.
fn sign_what_stands(tx: &Transaction<'_>, key: &Key) -> rusqlite::Result<()> {
    tx.execute_batch(
        "ALTER TABLE checkpoints ADD COLUMN key TEXT;
         ALTER TABLE checkpoints ADD COLUMN signature TEXT;",
    )?;
    for standing in checkpoint::all(tx)? {
        let Ok(hash) = Digest::parse(&standing.hash) else {
            continue;
        };
        tx.execute(
            "UPDATE checkpoints SET key = ?2, signature = ?3 WHERE seq = ?1",
            params![to_db(standing.seq), key.public(), key.sign(&hash)],
        )?;
    }
    Ok(())
}

/// Waits for another writer in short steps, so that the turn comes soon after its commit (SQLite's
/// own steps grow to 100 ms), and for at most [`bounds::RECORD_WAIT`].
fn wait_boundedly(db: &mut Connection) -> rusqlite::Result<()> {
    let mut until = Instant::now();
    db.busy_handler(Some(move |tries: i32| {
        let now = Instant::now();
        if tries == 0 {
            until = now + bounds::RECORD_WAIT;
        }
        if now >= until {
            return false;
        }
        let step = if tries < 10 {
            Duration::from_micros(100)
        } else {
            Duration::from_millis(1)
        };
        std::thread::sleep(step);
        true
    }))
}

pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(
        code,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

/// A figure for the database, which has signed ones only.
pub(crate) fn to_db(figure: u64) -> i64 {
    i64::try_from(figure).unwrap_or(i64::MAX)
}

/// A figure from the database; a negative one was never written by us.
pub(crate) fn from_db(figure: i64) -> u64 {
    u64::try_from(figure).unwrap_or(0)
}
