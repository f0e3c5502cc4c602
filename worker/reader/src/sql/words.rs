//! The words of refusals and errors, and the reading of a query's text: exactly one statement, and
//! one that begins as a read.

use std::time::Duration;

use rusqlite::ffi;

/// Why a query got no rows, in the contract's words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Words {
    #[error("empty query")]
    Empty,
    #[error("more than one statement")]
    Several,
    #[error("not a read (starts with {0})")]
    NotARead(String),
    #[error("{}", engine(.0))]
    Engine(#[from] rusqlite::Error),
    #[error("OperationalError: time limit reached: the query was stopped after {} s; narrow it, or \
             count first", .0.as_secs())]
    TimeLimit(Duration),
    #[error("OperationalError: {0}")]
    Operational(String),
    #[error("DataError: {0}")]
    Data(String),
    #[error("DatabaseError: the file cannot be read as a database")]
    Broken,
}

/// `Class: message`, with Python's class names.
fn engine(error: &rusqlite::Error) -> String {
    let (code, message) = match error {
        rusqlite::Error::SqliteFailure(code, message) => (code.extended_code, message.clone()),
        rusqlite::Error::SqlInputError { error, msg, .. } => {
            (error.extended_code, Some(msg.clone()))
        }
        rusqlite::Error::NulError(_) => (
            ffi::SQLITE_ERROR,
            Some("the query contains a null character".to_owned()),
        ),
        other => (ffi::SQLITE_ERROR, Some(other.to_string())),
    };
    let class = match code & 0xff {
        ffi::SQLITE_AUTH | ffi::SQLITE_NOTADB | ffi::SQLITE_CORRUPT => "DatabaseError",
        ffi::SQLITE_TOOBIG => "DataError",
        ffi::SQLITE_CONSTRAINT => "IntegrityError",
        _ => "OperationalError",
    };
    let message = message.unwrap_or_else(|| ffi::code_to_str(code).to_owned());
    format!("{class}: {message}")
}

/// Reads the text as the contract orders: empty, more than one, not a read.
pub(crate) fn read(query: &str) -> Result<(), Words> {
    if query.contains('\0') {
        return Err(Words::Operational(
            "the query contains a null character".into(),
        ));
    }
    let starts = statements(query);
    let mut starts = starts.iter();
    let first = starts.next().ok_or(Words::Empty)?;
    if starts.next().is_some() {
        return Err(Words::Several);
    }
    let word: String = first
        .chars()
        .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
        .take(40)
        .collect::<String>()
        .to_ascii_uppercase();
    match word.as_str() {
        "SELECT" | "WITH" => Ok(()),
        "" => Err(Words::NotARead(first.chars().take(1).collect())),
        _ => Err(Words::NotARead(word)),
    }
}

/// Where each statement begins, white space and comments left out; an empty one is none.
fn statements(query: &str) -> Vec<&str> {
    let mut starts = Vec::new();
    let mut inside = false;
    let mut rest = query;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            ';' => {
                inside = false;
                1
            }
            letter if is_space(letter) => 1,
            '-' if rest.starts_with("--") => rest.find('\n').map_or(rest.len(), |at| at + 1),
            '/' if rest.starts_with("/*") => rest
                .get(2..)
                .and_then(|t| t.find("*/"))
                .map_or(rest.len(), |at| at + 4),
            letter => {
                if !inside {
                    starts.push(rest);
                    inside = true;
                }
                match letter {
                    '\'' | '"' | '`' => quoted(rest, letter),
                    '[' => rest.find(']').map_or(rest.len(), |at| at + 1),
                    other => other.len_utf8(),
                }
            }
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    starts
}

/// What the engine's tokenizer takes for space.
fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\n' | '\r' | '\x0c')
}

/// Length of a quoted token; a doubled quote is part of it, a missing end takes the rest.
fn quoted(text: &str, quote: char) -> usize {
    let mut at = 1;
    while let Some(next) = text.get(at..).and_then(|rest| rest.find(quote)) {
        at += next + 1;
        if !text.get(at..).is_some_and(|rest| rest.starts_with(quote)) {
            return at;
        }
        at += 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(query: &str) -> String {
        read(query).map_or_else(|words| words.to_string(), |()| "ok".to_owned())
    }

    #[test]
    fn the_checks_come_in_order_and_in_the_contracts_words() {
        for (query, words) in [
            ("", "empty query"),
            (" \n\t", "empty query"),
            ("-- only a comment", "empty query"),
            ("/* a */ ; ;", "empty query"),
            ("/* never closed", "empty query"),
            (
                "SELECT COUNT(*) FROM rooms; DROP TABLE rooms",
                "more than one statement",
            ),
            ("DELETE FROM rooms; SELECT 1", "more than one statement"),
            (
                "/* c */ COMMIT; CREATE TABLE t(a)",
                "more than one statement",
            ),
            ("SELECT 1;;SELECT 2", "more than one statement"),
            ("DELETE FROM rooms", "not a read (starts with DELETE)"),
            (
                "-- x\n delete from rooms",
                "not a read (starts with DELETE)",
            ),
            ("VALUES (1)", "not a read (starts with VALUES)"),
            ("EXPLAIN SELECT 1", "not a read (starts with EXPLAIN)"),
            ("PRAGMA user_version", "not a read (starts with PRAGMA)"),
            ("(SELECT 1)", "not a read (starts with ()"),
            ("SELECT ';--'", "ok"),
            ("SELECT \";\", [;], `;` FROM t", "ok"),
            ("SELECT 'it''s; fine';", "ok"),
            ("SELECT 1 --", "ok"),
            ("; /* x */ select 1 ; -- end;", "ok"),
            ("WITH x AS (SELECT 1) SELECT * FROM x", "ok"),
            ("SELECT 'open; DROP", "ok"),
            (
                "SELECT 1\0; DROP TABLE x",
                "OperationalError: the query contains a null character",
            ),
        ] {
            assert_eq!(said(query), words, "{query:?}");
        }
    }

    #[test]
    fn statements_end_where_the_engine_says_they_end() {
        let memory = rusqlite::Connection::open_in_memory().expect("opens");
        memory
            .execute_batch("CREATE TABLE t(a, \";\", [b;c])")
            .expect("creates");
        for query in [
            "SELECT ';--'",
            "SELECT ';' /* ; */ , \";\" FROM t -- ; end",
            "SELECT 1; SELECT 2",
            "SELECT 'a''; b'; SELECT 2",
            "SELECT [b;c] FROM t;",
            "SELECT 1 /* open ; SELECT 2",
            "SELECT 1;-- x\n;/* y */",
            "SELECT `;` FROM t; SELECT `;` FROM t",
            "SELECT 1 - - 1; SELECT 2 /1",
            "SELECT x'00;'",
        ] {
            let several = match memory.prepare(query) {
                Ok(_) => false,
                Err(rusqlite::Error::MultipleStatement) => true,
                // Not SQL at all: the engine will say so.
                Err(_) => continue,
            };
            assert_eq!(statements(query).len() > 1, several, "{query:?}");
        }
    }
}
