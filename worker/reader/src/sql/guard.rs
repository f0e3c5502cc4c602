//! Makes a read-only connection refuse once more whatever is not reading, and bounds what reading
//! may cost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use protocol::bounds;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;

use crate::sql::words::Words;

/// Engine instructions between two looks at the clock: some tens of microseconds.
const INSTRUCTIONS: i32 = 1_000;

/// Functions that reach beyond the database; none is built in, all are refused should one ever be.
const REFUSED: &[&str] = &[
    "load_extension",
    "readfile",
    "writefile",
    "edit",
    "fts3_tokenizer",
    "lsmode",
    "fsdir",
    "zipfile",
    "sqlar_compress",
    "sqlar_uncompress",
    "eval",
    "shell_add_schema",
    "shell_module_schema",
    "sqlite_log",
];

/// Table-valued functions over their own arguments, no table of the database.
const PURE: &[&str] = &["json_each", "json_tree"];

/// The time of one query.
pub(crate) struct Clock {
    expired: Arc<AtomicBool>,
    limit: Duration,
}

impl Clock {
    /// Says `time limit` where the engine only says that it was interrupted.
    pub(crate) fn explain(&self, words: Words) -> Words {
        if self.expired.load(Ordering::Relaxed) {
            Words::TimeLimit(self.limit)
        } else {
            words
        }
    }
}

/// Everything that is set before a query is prepared.
pub(crate) fn guard(
    connection: &mut Connection,
    tables: &[String],
    limit: Duration,
) -> Result<Clock, Words> {
    bound(connection)?;
    let clock = clock(connection, limit)?;
    let law = Law::new(connection, tables)?;
    open_virtual(connection)?;
    connection.authorizer(Some(move |context: AuthContext<'_>| law.judge(&context)))?;
    Ok(clock)
}

/// Opens the virtual tables before there is an authorizer: some prepare their own writing statements
/// on opening, which are never run, but would be refused. A broken one says so when it is queried.
fn open_virtual(connection: &Connection) -> Result<(), Words> {
    let mut statement = connection.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage = 0 LIMIT 100",
    )?;
    let names = statement.query_map([], |row| row.get::<_, String>(0))?;
    for name in names.flatten() {
        let quoted = name.replace('"', "\"\"");
        drop(connection.prepare(&format!("SELECT 1 FROM \"{quoted}\"")));
    }
    Ok(())
}

/// Flags and limits.
pub(crate) fn bound(connection: &Connection) -> Result<(), Words> {
    for (flag, value) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE, false),
    ] {
        let held = connection.set_db_config(flag, value)?;
        if held != value {
            return Err(Words::Operational(
                "a safety flag of the engine does not hold".into(),
            ));
        }
    }
    let memory = bounds::SQL_MEMORY;
    connection.execute_batch(&format!(
        "PRAGMA query_only = ON; PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0; \
         PRAGMA cell_size_check = ON; PRAGMA hard_heap_limit = {memory};"
    ))?;
    let value = i32::try_from(bounds::SQL_VALUE).unwrap_or(i32::MAX);
    let text = i32::try_from(bounds::COMMAND_LINE).unwrap_or(i32::MAX);
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_LENGTH, value),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, text),
        (Limit::SQLITE_LIMIT_COLUMN, 2_000),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 100),
        (Limit::SQLITE_LIMIT_VDBE_OP, 250_000),
        (Limit::SQLITE_LIMIT_FUNCTION_ARG, 100),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
        // Index modules bind a few of their own; a query with parameters is refused elsewhere.
        (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 100),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, most)?;
    }
    Ok(())
}

/// Starts the time: the engine looks at it every thousand instructions.
pub(crate) fn clock(connection: &mut Connection, limit: Duration) -> Result<Clock, Words> {
    let expired = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&expired);
    let until = Instant::now().checked_add(limit);
    let over = move || {
        let over = until.is_none_or(|until| Instant::now() >= until);
        if over {
            flag.store(true, Ordering::Relaxed);
        }
        over
    };
    connection.progress_handler(INSTRUCTIONS, Some(over))?;
    Ok(Clock { expired, limit })
}

/// What a statement may do: read, call functions, recurse.
struct Law {
    /// Tables that may be read, lower case; `None` means all.
    allowed: Option<BTreeSet<String>>,
    /// Every table and view there is, lower case.
    known: BTreeSet<String>,
}

impl Law {
    fn new(connection: &Connection, tables: &[String]) -> Result<Self, Words> {
        if tables.is_empty() {
            return Ok(Self {
                allowed: None,
                known: BTreeSet::new(),
            });
        }
        let mut statement = connection.prepare("SELECT name FROM sqlite_schema")?;
        let names = statement.query_map([], |row| row.get::<_, String>(0))?;
        let known = names.map(|name| name.map(|name| name.to_ascii_lowercase()));
        Ok(Self {
            allowed: Some(
                tables
                    .iter()
                    .map(|name| name.to_ascii_lowercase())
                    .collect(),
            ),
            known: known.collect::<Result<_, _>>()?,
        })
    }

    fn judge(&self, context: &AuthContext<'_>) -> Authorization {
        let allowed = match context.action {
            AuthAction::Select | AuthAction::Recursive => true,
            AuthAction::Function { function_name } => !REFUSED
                .iter()
                .any(|name| name.eq_ignore_ascii_case(function_name)),
            // How the full-text index asks whether somebody else has written; it tells nothing.
            AuthAction::Pragma {
                pragma_name,
                pragma_value,
            } => pragma_name.eq_ignore_ascii_case("data_version") && pragma_value.is_none(),
            AuthAction::Read {
                table_name,
                column_name,
            } => self.reads(table_name, column_name),
            _ => false,
        };
        if allowed {
            Authorization::Allow
        } else {
            Authorization::Deny
        }
    }

    /// The name of the view or subquery that reads is not asked: a query chooses such names itself,
    /// so a view is readable only where the tables below it are.
    fn reads(&self, table: &str, column: &str) -> bool {
        let Some(allowed) = &self.allowed else {
            return true;
        };
        let table = table.to_ascii_lowercase();
        if allowed.contains(&table) || PURE.contains(&table.as_str()) {
            return true;
        }
        // The engine asks for "no column" of a common table expression too: its name is no table's.
        let special = table.starts_with("sqlite_") || table.starts_with("pragma_");
        column.is_empty() && !special && !self.known.contains(&table) && table != "dbstat"
    }
}
