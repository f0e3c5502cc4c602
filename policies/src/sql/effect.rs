//! What a query does beside reading, as far as its text tells; the connection holds what it promises.

use super::lexer::{Lexeme, lex};

/// From the least to the gravest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// It changes data, the schema, settings or the state of a transaction.
    Writes,
    /// It takes another database file in.
    Attaches,
    /// It loads code.
    Loads,
    /// It leaves the connection: files, programs, other machines.
    Leaves,
}

impl Effect {
    /// Why that is not a read.
    #[must_use]
    pub fn why(self) -> &'static str {
        match self {
            Self::Writes => "the query writes",
            Self::Attaches => "the query takes another database in",
            Self::Loads => "the query loads code",
            Self::Leaves => "the query leaves its connection: it reaches files, programs or hosts",
        }
    }
}

const WRITES: &str = "DELETE INSERT UPDATE REPLACE MERGE DROP CREATE ALTER TRUNCATE VACUUM REINDEX";
/// The same where a statement begins only: elsewhere these words are names and clauses.
const BEGINNING: &str = "GRANT REVOKE CALL DO SET PRAGMA BEGIN COMMIT ROLLBACK SAVEPOINT RELEASE END \
    ANALYZE LOCK COMMENT REFRESH CLUSTER RENAME START ABORT";
const LOADS: &str = "load_extension install_extension sys_exec sys_eval fts3_tokenizer";
/// Functions that reach out of the connection, of the databases that people use.
const LEAVES: &str = "readfile writefile edit fsdir lsmode sqlar_uncompress eval shell \
    pg_read_file pg_read_binary_file pg_ls_dir pg_stat_file pg_execute_server_program lo_import \
    lo_export dblink dblink_exec dblink_connect pg_sleep pg_terminate_backend pg_cancel_backend \
    pg_reload_conf set_config query_to_xml database_to_xml \
    load_file benchmark sleep get_lock xp_cmdshell openrowset opendatasource utl_http \
    read_csv read_csv_auto read_parquet read_json read_json_auto read_text read_blob glob parquet_scan \
    sniff_csv sqlite_scan postgres_scan mysql_scan url file remote";

fn listed(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace()
        .any(|known| known.eq_ignore_ascii_case(word))
}

/// The gravest effect that a text of SQL has beside reading.
#[must_use]
pub fn effect(query: &str) -> Option<Effect> {
    let lexemes = lex(query);
    let mut worst: Option<Effect> = None;
    let mut note = |effect: Effect| worst = worst.max(Some(effect));
    let mut writing = false;
    for (at, lexeme) in lexemes.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| lexemes.get(at));
        let next = lexemes.get(at + 1);
        let called = matches!(next, Some(Lexeme::Mark('(')));
        let qualified = matches!(before, Some(Lexeme::Mark('.')));
        let name = match lexeme {
            Lexeme::Word(name) | Lexeme::Name(name) => name,
            Lexeme::Semicolon => {
                writing = false;
                continue;
            }
            _ => continue,
        };
        if called && listed(LOADS, name) {
            note(Effect::Loads);
        }
        // `glob(a, b)` and `url(…)` of some databases are harmless in others, but not as a table.
        if called && listed(LEAVES, name) {
            let as_table = match before {
                Some(Lexeme::Word(word)) => listed("FROM JOIN", word),
                _ => false,
            };
            if !listed("glob url file remote edit eval shell", name) || as_table {
                note(Effect::Leaves);
            } else if listed("edit eval shell", name) {
                note(Effect::Loads);
            }
        }
        let Lexeme::Word(word) = lexeme else { continue };
        let starts = matches!(before, None | Some(Lexeme::Semicolon))
            || matches!(before, Some(Lexeme::Word(word)) if listed("EXPLAIN PLAN ANALYZE", word));
        let nested = matches!(before, Some(Lexeme::Mark('(' | ')')));
        if (starts || nested) && !called && !qualified && listed(WRITES, word) {
            note(Effect::Writes);
            writing = true;
        }
        if starts && listed(BEGINNING, word) && !listed("ANALYZE", word) {
            note(Effect::Writes);
        }
        if starts && listed("ATTACH DETACH", word) {
            note(Effect::Attaches);
        }
        if starts && listed("LOAD INSTALL", word) {
            note(Effect::Loads);
        }
        if starts && listed("COPY UNLOAD EXPORT IMPORT", word) {
            note(Effect::Leaves);
        }
        if word.eq_ignore_ascii_case("INTO") && !writing && !qualified {
            let out = matches!(next, Some(Lexeme::Word(word)) if listed("OUTFILE DUMPFILE", word));
            note(if out { Effect::Leaves } else { Effect::Writes });
        }
    }
    worst
}

/// Whether a text of SQL removes a table, a database, or all rows of a table.
#[must_use]
pub fn destroys(query: &str) -> bool {
    let lexemes = lex(query);
    lexemes
        .split(|lexeme| matches!(lexeme, Lexeme::Semicolon))
        .any(|statement| {
            let word = |at: usize| match statement.get(at) {
                Some(Lexeme::Word(word)) => word.to_ascii_uppercase(),
                _ => String::new(),
            };
            let narrowed = statement.iter().any(
                |lexeme| matches!(lexeme, Lexeme::Word(word) if word.eq_ignore_ascii_case("WHERE")),
            );
            match word(0).as_str() {
                "DROP" | "TRUNCATE" => true,
                "DELETE" | "UPDATE" => !narrowed,
                _ => false,
            }
        })
}
