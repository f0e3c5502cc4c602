//! Reading a query's text: one statement, and a read; shared by both houses.
//!
//! The text is only the first layer: the connection's authorizer and the jail hold what it promises.

mod effect;
mod lexer;

pub use effect::{Effect, destroys, effect};

use lexer::{Lexeme, lex};

/// Checks a query in the contract's order: empty, more than one, not a read.
///
/// # Errors
/// The contract's words.
pub fn check(query: &str) -> Result<(), String> {
    let lexemes = lex(query);
    let mut statements = lexemes
        .split(|lexeme| matches!(lexeme, Lexeme::Semicolon))
        .filter(|part| !part.is_empty());
    let Some(statement) = statements.next() else {
        return Err("empty query".to_owned());
    };
    if statements.next().is_some() {
        return Err("more than one statement".to_owned());
    }
    let word = match statement.first() {
        Some(Lexeme::Word(word)) => word
            .chars()
            .take(40)
            .collect::<String>()
            .to_ascii_uppercase(),
        Some(other) => other.text().chars().take(40).collect(),
        None => String::new(),
    };
    match word.as_str() {
        "SELECT" | "WITH" => Ok(()),
        _ => Err(format!("not a read (starts with {word})")),
    }
}

/// Whether `query` could read `table`: a name or a string of that spelling stands anywhere in it.
///
/// Says yes too often and never too seldom, views apart, which the connection's authorizer sees.
#[must_use]
pub fn could_read(query: &str, table: &str) -> bool {
    lex(query).iter().any(|lexeme| match lexeme {
        Lexeme::Word(name) | Lexeme::Name(name) | Lexeme::Text(name) => {
            name.eq_ignore_ascii_case(table)
        }
        _ => false,
    })
}

/// The tables of a query, if every place where one can stand is plainly written; `None` if unsure.
#[must_use]
pub fn tables(query: &str) -> Option<Vec<String>> {
    let lexemes = lex(query);
    let mut tables: Vec<String> = Vec::new();
    let mut expected = false;
    let mut in_from = false;
    let mut rest = lexemes.iter().peekable();
    while let Some(lexeme) = rest.next() {
        let word = match lexeme {
            Lexeme::Word(word) => word.to_ascii_uppercase(),
            _ => String::new(),
        };
        if word == "WITH" || word == "TABLE" || matches!(lexeme, Lexeme::Broken(_)) {
            return None;
        }
        if expected {
            expected = false;
            match lexeme {
                Lexeme::Word(name) | Lexeme::Name(name) => {
                    let mut name = name.clone();
                    if rest
                        .next_if(|next| matches!(next, Lexeme::Mark('.')))
                        .is_some()
                    {
                        match rest.next() {
                            Some(Lexeme::Word(inner) | Lexeme::Name(inner)) => name = inner.clone(),
                            _ => return None,
                        }
                    }
                    // A function that yields a table.
                    if rest
                        .peek()
                        .is_some_and(|next| matches!(next, Lexeme::Mark('(')))
                    {
                        return None;
                    }
                    tables.push(name.to_ascii_lowercase());
                }
                // A sub-query names its own tables.
                Lexeme::Mark('(') => expected = !select_follows(rest.peek().copied()),
                _ => return None,
            }
            continue;
        }
        match word.as_str() {
            "FROM" | "JOIN" => {
                expected = true;
                in_from = true;
            }
            "WHERE" | "GROUP" | "ORDER" | "LIMIT" | "HAVING" | "SELECT" | "UNION" | "WINDOW" => {
                in_from = false;
            }
            // `x IN rooms` reads a table without FROM.
            "IN" if !matches!(rest.peek(), Some(Lexeme::Mark('('))) => return None,
            _ if in_from && matches!(lexeme, Lexeme::Mark(',')) => expected = true,
            _ => {}
        }
    }
    tables.sort();
    tables.dedup();
    Some(tables)
}

fn select_follows(next: Option<&Lexeme>) -> bool {
    matches!(next, Some(Lexeme::Word(word)) if word.eq_ignore_ascii_case("select"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contract_is_word_for_word() {
        let rows = [
            ("", Err("empty query")),
            ("  ;; -- x", Err("empty query")),
            ("/* only */", Err("empty query")),
            (
                "SELECT COUNT(*) FROM rooms; DROP TABLE rooms",
                Err("more than one statement"),
            ),
            ("DELETE FROM rooms", Err("not a read (starts with DELETE)")),
            ("delete from rooms", Err("not a read (starts with DELETE)")),
            ("VALUES (1)", Err("not a read (starts with VALUES)")),
            ("EXPLAIN SELECT 1", Err("not a read (starts with EXPLAIN)")),
            (
                "PRAGMA user_version",
                Err("not a read (starts with PRAGMA)"),
            ),
            ("(SELECT 1)", Err("not a read (starts with ()")),
            ("SELECT ';--'", Ok(())),
            ("SELECT \"a;b\", [c;d], `e;f` FROM t", Ok(())),
            ("SELECT 1;", Ok(())),
            ("SELECT 1 ; -- the end", Ok(())),
            ("select 1 --", Ok(())),
            ("/* c */ SELECT 'it''s'; /* d */ ;", Ok(())),
            (
                "/* c */ COMMIT; CREATE TABLE t(a)",
                Err("more than one statement"),
            ),
            ("WITH x AS (SELECT 1) SELECT * FROM x", Ok(())),
            ("SELECT 1; SELECT", Err("more than one statement")),
            (
                "SELECT 1\u{0}; DROP TABLE t",
                Err("more than one statement"),
            ),
            ("SELECT 'open; DROP TABLE t", Ok(())),
            ("SELECT 1 /* open ; DROP TABLE t", Ok(())),
        ];
        for (query, expected) in rows {
            assert_eq!(check(query), expected.map_err(str::to_owned), "{query}");
        }
    }

    #[test]
    fn tables_are_named_or_it_is_unsure() {
        let names = |query: &str| tables(query).map(|names| names.join(" "));
        assert_eq!(
            names("SELECT * FROM rooms r, Members"),
            Some("members rooms".into())
        );
        assert_eq!(
            names("SELECT 1 FROM main.rooms JOIN \"bookings\" b ON 1"),
            Some("bookings rooms".into())
        );
        assert_eq!(
            names("SELECT (SELECT 1 FROM payments)"),
            Some("payments".into())
        );
        assert_eq!(
            names("SELECT * FROM (SELECT id, n FROM rooms) x"),
            Some("rooms".into())
        );
        assert_eq!(names("SELECT * FROM (rooms)"), Some("rooms".into()));
        assert_eq!(names("WITH a AS (SELECT 1) SELECT * FROM a"), None);
        assert_eq!(names("SELECT * FROM pragma_table_info('rooms')"), None);
        assert_eq!(names("SELECT 1 WHERE 1 IN payments"), None);
        assert_eq!(names("SELECT * FROM 'rooms'"), None);
        assert!(could_read("SELECT * FROM 'Rooms'", "rooms"));
        assert!(!could_read("SELECT * FROM bookings -- rooms", "rooms"));
    }
}
