//! SQL that does more than read: a query for `run_sql` that writes, attaches, loads or leaves its
//! connection, and a database's shell that is told to run programs or to empty what it holds.

use super::{Finding, spelling::spelled};
use crate::{Action, Decision, shell::Simple, sql};

/// The detector's id.
pub(super) const ID: &str = "sql-effect";

const INSTEAD: &str =
    "write one SELECT that names its tables; a change of data is made by a person";

/// Looks for it.
pub(super) fn detect(action: &Action, findings: &mut Vec<Finding>) {
    match action {
        // What is no single read has its own answer, word for word; this is about what looks like one.
        Action::Query { query, .. } if sql::check(query).is_ok() => {
            if let Some(effect) = sql::effect(query) {
                findings.push(Finding::new(
                    ID,
                    Decision::Deny,
                    effect.why(),
                    query,
                    INSTEAD,
                ));
            }
        }
        Action::Run(run) => {
            for (index, simple) in run.reading.simples.iter().enumerate() {
                if let Some((why, object)) = command(simple) {
                    findings.push(Finding::new(ID, Decision::Ask, why, &object, INSTEAD).at(index));
                }
            }
        }
        _ => {}
    }
}

/// A database's shell.
fn command(simple: &Simple) -> Option<(&'static str, String)> {
    let name = simple.name()?;
    let local = matches!(name, "sqlite3" | "sqlite" | "duckdb");
    let remote = matches!(
        name,
        "psql"
            | "mysql"
            | "mariadb"
            | "sqlcmd"
            | "sqlplus"
            | "clickhouse-client"
            | "cockroach"
            | "mongosh"
            | "mongo"
    );
    if !local && !remote {
        return None;
    }
    for word in simple.args.iter().take(256) {
        let text = spelled(word);
        let lower = text.trim_start().to_lowercase();
        let lower = lower.strip_prefix("-c").unwrap_or(&lower).trim_start();
        let leaves = [
            ".shell",
            ".system",
            ".sh ",
            ".load",
            ".once |",
            ".output |",
            ".excel",
            ".import |",
            ".import \"|",
            "\\!",
            "\\o |",
            "\\copy ",
            "system ",
        ];
        if leaves.iter().any(|known| lower.starts_with(known))
            || lower.contains("\\! ")
            || lower.contains("\n.shell")
            || lower.contains("\n.system")
        {
            return Some(("it leaves the database's shell and runs a program", text));
        }
        if !text.contains([' ', '\t', '\n']) {
            continue;
        }
        match sql::effect(&text) {
            Some(effect @ (sql::Effect::Loads | sql::Effect::Leaves)) => {
                return Some((effect.why(), text));
            }
            Some(effect @ sql::Effect::Attaches) if local => return Some((effect.why(), text)),
            Some(sql::Effect::Writes) if remote && sql::destroys(&text) => {
                return Some(("it destroys what a database that others use holds", text));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::table::{holds, said};

    fn query(text: &str) -> Option<Decision> {
        let action = Action::Query {
            database: "d".into(),
            query: text.into(),
        };
        said(ID, &action)
    }

    #[test]
    fn a_query_that_looks_like_a_read_and_is_none_is_denied() {
        for text in [
            "WITH x AS (SELECT 1) DELETE FROM t",
            "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
            "with x as (delete from t returning *) select * from x",
            "WITH x AS (SELECT 1)/* c */UPDATE t SET a=1",
            "WITH x AS (SELECT 1) REPLACE INTO t VALUES(1)",
            "SELECT * INTO backup FROM users",
            "SELECT load_extension('x')",
            "SELECT LOAD_EXTENSION ('x.so', 'f')",
            "SELECT \"load_extension\"('x')",
            "SELECT writefile('/tmp/x', 'y')",
            "SELECT readfile('/etc/passwd')",
            "SELECT edit('x')",
            "SELECT * FROM fsdir('/')",
            "SELECT fts3_tokenizer('x')",
            "SELECT pg_read_file('/etc/passwd')",
            "SELECT lo_export(1, '/tmp/x')",
            "SELECT * FROM dblink('h', 'q') AS t(a int)",
            "SELECT pg_sleep(100)",
            "SELECT 1 INTO OUTFILE '/tmp/x'",
            "SELECT * FROM read_csv('/etc/passwd')",
            "SELECT sys_exec('id')",
        ] {
            assert_eq!(query(text), Some(Decision::Deny), "{text}");
        }
        for text in [
            "SELECT 1",
            "SELECT 'delete from t'",
            "SELECT \"update\" FROM t",
            "SELECT replace(name, 'a', 'b') FROM t",
            "SELECT updated_at, deleted FROM t",
            "WITH x AS (SELECT 1) SELECT * FROM x",
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c WHERE n<9) SELECT * FROM c",
            "SELECT count(*) FROM t -- DROP TABLE t",
            "SELECT /* attach */ 1",
            "SELECT * FROM pragma_table_info('t')",
            "SELECT insert_date FROM t ORDER BY drop_count",
            // These have the contract's own answers.
            "DELETE FROM t",
            "SELECT 1; DROP TABLE t",
        ] {
            assert_eq!(query(text), None, "{text}");
        }
    }

    #[test]
    fn a_databases_shell_is_for_queries() {
        let ask = Decision::Ask;
        holds(
            ID,
            &[
                ("sqlite3 app.db '.shell id'", ask),
                ("sqlite3 app.db '.load ./x'", ask),
                ("sqlite3 app.db \"ATTACH '/srv/other.db' AS o\"", ask),
                ("sqlite3 app.db \"SELECT load_extension('x')\"", ask),
                ("sqlite3 app.db \"SELECT writefile('x','y')\"", ask),
                ("psql -c '\\! id'", ask),
                ("psql -c \"COPY t TO PROGRAM 'id'\"", ask),
                ("psql -c 'DROP TABLE users'", ask),
                ("mysql -e 'TRUNCATE TABLE users'", ask),
                ("psql db -c 'DELETE FROM users'", ask),
                ("mysql -e \"SELECT 1 INTO OUTFILE '/tmp/x'\"", ask),
            ],
            &[
                "sqlite3 app.db 'SELECT 1'",
                "sqlite3 app.db .schema",
                "sqlite3 app.db '.tables'",
                "sqlite3 app.db 'CREATE TABLE t(a)'",
                "sqlite3 app.db < schema.sql",
                "psql -c 'SELECT count(*) FROM users'",
                "psql -c 'DELETE FROM users WHERE id = 1'",
                "mysql -e 'SHOW TABLES'",
                "echo 'DROP TABLE x'",
            ],
        );
    }
}
