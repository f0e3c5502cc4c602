//! Makes a SQLite database from a script: `load_sql SCRIPT DATABASE`. For the demo and the docs, where
//! no `sqlite3` program can be taken for granted.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let (Some(script), Some(database), None) = (args.next(), args.next(), args.next()) else {
        return fail("usage: load_sql SCRIPT DATABASE");
    };
    let text = match std::fs::read_to_string(&script) {
        Ok(text) => text,
        Err(error) => return fail(&format!("cannot read `{}`: {error}", script.display())),
    };
    let made = rusqlite::Connection::open(&database).and_then(|db| db.execute_batch(&text));
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("cannot make `{}`: {error}", database.display())),
    }
}

fn fail(why: &str) -> ExitCode {
    use std::io::Write as _;
    // Nobody reads a closed standard error.
    let _ = writeln!(std::io::stderr().lock(), "load_sql: {why}");
    ExitCode::FAILURE
}
