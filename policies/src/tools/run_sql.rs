//! `run_sql`: a read-only query on a declared database.

use protocol::{DatabaseInfo, bounds};

use super::{
    Contract, Effect, Tool,
    field::{Checked, Field, Kind},
};

/// Input of `run_sql`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSql {
    /// The query, byte for byte; what is wrong with it is the contract's own words, not this check's.
    pub query: String,
    /// The database, if there are several.
    pub database: Option<String>,
}

impl RunSql {
    pub(super) fn from_checked(input: &Checked<'_>) -> Self {
        Self {
            query: input.text("query"),
            database: input.maybe("database"),
        }
    }
}

pub(super) static CONTRACT: Contract = Contract {
    tool: Tool::RunSql,
    describe,
    fields: &[
        Field::needed(
            "query",
            Kind::Text {
                min: 0,
                max: bounds::COMMAND_LINE,
                nul: true,
            },
            "One SELECT statement (it may begin with WITH).",
        ),
        Field {
            name: "database",
            kind: Kind::Text {
                min: 1,
                max: 200,
                nul: false,
            },
            required: false,
            only_with_several_databases: true,
            description: "The database to query; the first one by default.",
        },
    ],
    read_only: true,
    concurrency_safe: true,
    effect: Effect::Supervisor,
    time_limit: bounds::SQL_TIME,
};

fn describe(databases: &[DatabaseInfo]) -> String {
    const RETURNS: &str =
        "Returns {ok, columns, rows} on success, or {ok: false, error} on failure.";
    match databases {
        [] => format!(
            "Runs a READ-ONLY SQL query (SELECT) against a declared database (SQLite) and returns \
             the resulting rows. No database is declared in this session. {RETURNS}"
        ),
        [one] => format!(
            "Runs a READ-ONLY SQL query (SELECT) against the {} database (SQLite) and returns the \
             resulting rows. {}{RETURNS}",
            title(&one.name),
            about(one),
        ),
        several => {
            let mut text = "Runs a READ-ONLY SQL query (SELECT) against one of the declared \
                            databases (SQLite) and returns the resulting rows. "
                .to_owned();
            for database in several {
                text.push_str(&format!("Database {}: {}", database.name, about(database)));
            }
            text + RETURNS
        }
    }
}

/// What is known of a database's tables and money, as sentences that end with a blank.
fn about(database: &DatabaseInfo) -> String {
    let mut text = String::new();
    if !database.tables.is_empty() {
        text.push_str(&format!("The tables are: {}. ", database.tables.join(", ")));
    }
    if let Some(money) = database
        .money
        .as_deref()
        .map(str::trim)
        .filter(|m| !m.is_empty())
    {
        text.push_str(money);
        text.push_str(if money.ends_with('.') { " " } else { ". " });
    }
    text
}

fn title(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_uppercase().collect::<String>());
    first.unwrap_or_default() + letters.as_str()
}
