//! Turns rows into the contract's JSON: integers exact, blobs and broken text marked, and every cap
//! said in the result.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol::bounds;
use protocol::call::{SqlAnswer, Table};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::{Value, json};

use crate::sql::words::Words;

/// Runs the one statement; `max_rows` rows, and one more to learn of truncation.
pub(crate) fn answer(
    connection: &Connection,
    query: &str,
    max_rows: u32,
) -> Result<SqlAnswer, Words> {
    let mut statement = connection.prepare(query).map_err(|error| match error {
        rusqlite::Error::MultipleStatement => Words::Several,
        rusqlite::Error::Empty => Words::Empty,
        other => Words::Engine(other),
    })?;
    if statement.parameter_count() > 0 {
        return Err(Words::Operational(
            "the query has parameters; write the values into it".into(),
        ));
    }
    if !statement.readonly() {
        return Err(Words::Operational(
            "attempt to write a readonly database".into(),
        ));
    }
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut bytes = columns.iter().map(|name| name.len() + 3).sum::<usize>();
    let mut rows = Vec::new();
    let mut truncated = false;
    let mut found = statement.raw_query();
    while let Some(row) = found.next()? {
        if rows.len() as u64 >= u64::from(max_rows) {
            truncated = true;
            break;
        }
        let mut cells = Vec::with_capacity(columns.len());
        for index in 0..columns.len() {
            let cell = cell(row.get_ref(index)?);
            bytes = bytes.saturating_add(size(&cell));
            cells.push(cell);
        }
        if bytes > bounds::SQL_BYTES {
            if rows.is_empty() {
                return Err(Words::Data(format!(
                    "one row is larger than {} KiB; select fewer columns, or parts of them with \
                     substr",
                    bounds::SQL_BYTES / 1024
                )));
            }
            truncated = true;
            break;
        }
        rows.push(cells);
    }
    Ok(SqlAnswer::Rows {
        ok: true,
        columns,
        rows,
        truncated,
    })
}

fn cell(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::from(number),
        ValueRef::Real(number) if number.is_finite() => Value::from(number),
        ValueRef::Real(number) => json!({ "real": number.to_string() }),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(whole) if whole.len() <= bounds::SQL_CELL => Value::from(whole),
            Ok(whole) => {
                let mut end = bounds::SQL_CELL;
                while !whole.is_char_boundary(end) {
                    end -= 1;
                }
                json!({ "text": whole.get(..end), "bytes": text.len(), "cut": true })
            }
            Err(_) => marked("text_lossy", text, |part| String::from_utf8_lossy(part)),
        },
        ValueRef::Blob(blob) => marked("base64", blob, |part| STANDARD.encode(part).into()),
    }
}

fn marked<'a>(key: &str, whole: &'a [u8], shown: impl Fn(&'a [u8]) -> Cow<'a, str>) -> Value {
    let part = whole.get(..bounds::SQL_CELL).unwrap_or(whole);
    let mut cell = serde_json::Map::new();
    cell.insert(key.to_owned(), Value::from(shown(part).into_owned()));
    cell.insert("bytes".to_owned(), Value::from(whole.len()));
    if part.len() < whole.len() {
        cell.insert("cut".to_owned(), Value::from(true));
    }
    Value::Object(cell)
}

/// Bytes of a cell as JSON, with its comma.
fn size(cell: &Value) -> usize {
    serde_json::to_string(cell)
        .map_or(usize::MAX, |text| text.len())
        .saturating_add(1)
}

/// Tables, views and virtual tables with their columns, sorted by name.
pub(crate) fn tables(
    connection: &Connection,
    database: &str,
    allowed: &[String],
    most: usize,
) -> Result<Vec<Table>, Words> {
    let mut names = connection.prepare(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' \
         AND type IN ('table', 'view', 'virtual') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
         ORDER BY name",
    )?;
    let mut found = names.raw_query();
    let mut tables = Vec::new();
    let mut bytes = 0_usize;
    while let Some(row) = found.next()? {
        let name = row.get_ref(0)?.as_bytes().map_err(rusqlite::Error::from)?;
        let name = String::from_utf8_lossy(name).into_owned();
        if !allowed.is_empty()
            && !allowed
                .iter()
                .any(|table| table.eq_ignore_ascii_case(&name))
        {
            continue;
        }
        let columns = columns(connection, &name)?;
        bytes += columns
            .iter()
            .map(|(name, kind)| name.len() + kind.len() + 8)
            .sum::<usize>();
        tables.push(Table {
            database: database.to_owned(),
            name,
            columns,
        });
        if tables.len() > most || bytes > bounds::SQL_BYTES {
            return Err(Words::Data(format!(
                "it has more than {most} tables or {} KiB of columns; name those of interest in the \
                 policy",
                bounds::SQL_BYTES / 1024
            )));
        }
    }
    Ok(tables)
}

/// A view whose tables are gone has no columns to tell.
fn columns(connection: &Connection, table: &str) -> Result<Vec<(String, String)>, Words> {
    let quoted = table.replace('\'', "''");
    let query = format!(
        "SELECT name, type FROM pragma_table_xinfo('{quoted}') WHERE hidden <> 1 ORDER BY cid"
    );
    let Ok(mut statement) = connection.prepare(&query) else {
        return Ok(Vec::new());
    };
    let mut rows = statement.raw_query();
    let mut columns = Vec::new();
    while let Ok(Some(row)) = rows.next() {
        let text = |index| -> Result<String, rusqlite::Error> {
            let bytes = row
                .get_ref(index)?
                .as_bytes_or_null()
                .map_err(rusqlite::Error::from)?;
            Ok(String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned())
        };
        columns.push((text(0)?, text(1)?));
    }
    Ok(columns)
}
