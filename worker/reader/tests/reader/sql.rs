//! The contract of `run_sql`, line by line, and what must not get through.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use protocol::Digest;
use protocol::call::SqlAnswer;
use protocol::reader::{Errand, Finding, ReaderFailure};
use rusqlite::{Connection, OpenFlags};

use crate::support::*;

/// The long queries of this file one after another: they count time on shared cores.
static SLOW: Mutex<()> = Mutex::new(());

fn slowly() -> MutexGuard<'static, ()> {
    SLOW.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn make(scene: &Scene, name: &str, script: &str) -> PathBuf {
    let path = scene.at(name);
    let made = Connection::open(&path).expect("opens");
    made.execute_batch(script).expect("the script runs");
    made.close().expect("closes");
    path
}

fn reservo(scene: &Scene) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/reservo.sql");
    make(
        scene,
        "reservo.db",
        &fs::read_to_string(script).expect("reads"),
    )
}

fn ask_with(database: &Path, query: &str, max_rows: u32, tables: &[&str]) -> SqlAnswer {
    let errand = Errand::Query {
        database: database.to_str().expect("text").to_owned(),
        query: query.to_owned(),
        max_rows,
        tables: strings(tables),
    };
    match one(&errand) {
        Finding::Rows(answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn ask(database: &Path, query: &str) -> String {
    serde_json::to_string(&ask_with(database, query, 100, &[])).expect("encodes")
}

fn error(words: &str) -> String {
    serde_json::to_string(&SqlAnswer::error(words)).expect("encodes")
}

fn files(folder: &Path) -> Vec<(String, Digest)> {
    let mut all: Vec<_> = fs::read_dir(folder)
        .expect("lists")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .map(|path| {
            (
                path.display().to_string(),
                Digest::of(&fs::read(path).expect("reads")),
            )
        })
        .collect();
    all.sort();
    all
}

#[test]
fn every_line_of_the_contract_holds_word_for_word() {
    let scene = Scene::new();
    let db = reservo(&scene);
    for (query, answer) in [
        (
            "SELECT name, capacity FROM rooms WHERE capacity >= 4 ORDER BY capacity",
            r#"{"ok":true,"columns":["name","capacity"],"rows":[["Studio",4],["Lounge",6],["Boardroom",10]],"truncated":false}"#,
        ),
        (
            "SELECT tier, COUNT(*) AS n FROM members GROUP BY tier",
            r#"{"ok":true,"columns":["tier","n"],"rows":[["basic",4],["pro",4]],"truncated":false}"#,
        ),
        (
            "SELECT COUNT(*) FROM rooms",
            r#"{"ok":true,"columns":["COUNT(*)"],"rows":[[5]],"truncated":false}"#,
        ),
        (
            "SELECT COUNT(*) FROM bookings",
            r#"{"ok":true,"columns":["COUNT(*)"],"rows":[[23]],"truncated":false}"#,
        ),
        (
            "SELECT SUM(b.total) FROM bookings b",
            r#"{"ok":false,"error":"OperationalError: no such column: b.total"}"#,
        ),
        (
            "DELETE FROM rooms",
            r#"{"ok":false,"error":"not a read (starts with DELETE)"}"#,
        ),
        (
            "SELECT COUNT(*) FROM rooms; DROP TABLE rooms",
            r#"{"ok":false,"error":"more than one statement"}"#,
        ),
        ("", r#"{"ok":false,"error":"empty query"}"#),
        (
            "SELECT ';--'",
            r#"{"ok":true,"columns":["';--'"],"rows":[[";--"]],"truncated":false}"#,
        ),
    ] {
        assert_eq!(ask(&db, query), answer, "{query}");
    }
    let three = ask_with(&db, "SELECT name FROM rooms ORDER BY id", 3, &[]);
    assert_eq!(
        serde_json::to_string(&three).expect("encodes"),
        r#"{"ok":true,"columns":["name"],"rows":[["Focus"],["Studio"],["Boardroom"]],"truncated":true}"#
    );
    let five = ask_with(&db, "SELECT name FROM rooms ORDER BY id", 5, &[]);
    assert!(matches!(five, SqlAnswer::Rows { truncated: false, rows, .. } if rows.len() == 5));
}

#[test]
fn sq_009_a_direct_delete_on_the_read_only_connection_is_refused_by_the_engine() {
    let scene = Scene::new();
    let db = reservo(&scene);
    let before = files(&scene.at(""));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let direct = Connection::open_with_flags(&db, flags).expect("opens");
    let said = direct
        .execute("DELETE FROM bookings", [])
        .expect_err("refused");
    assert_eq!(said.to_string(), "attempt to write a readonly database");
    drop(direct);
    assert_eq!(
        ask(&db, "SELECT COUNT(*) AS n FROM bookings"),
        r#"{"ok":true,"columns":["n"],"rows":[[23]],"truncated":false}"#
    );
    assert_eq!(files(&scene.at("")), before);
}

#[test]
fn sq_001_sq_005_sq_009_sq_010_sq_016_nothing_but_one_read_runs_and_no_byte_changes() {
    let scene = Scene::new();
    let db = reservo(&scene);
    let before = files(&scene.at(""));
    let copy = scene.text("copy.db");
    for query in [
        "/* c */ COMMIT; CREATE TABLE t(a)".to_owned(),
        "COMMIT; DROP TABLE users; --".to_owned(),
        "BEGIN IMMEDIATE".to_owned(),
        format!("VACUUM INTO '{copy}'"),
        "REPLACE INTO rooms VALUES (1, 'x', 1, 1)".to_owned(),
        "WITH x AS (SELECT 1) DELETE FROM rooms".to_owned(),
        "WITH x AS (SELECT 1) INSERT INTO rooms SELECT 9, 'x', 1, 1".to_owned(),
        "WITH x AS (SELECT 1) UPDATE rooms SET name = 'x'".to_owned(),
        "PRAGMA journal_mode = DELETE; PRAGMA user_version = 7".to_owned(),
        "PRAGMA user_version = 7".to_owned(),
        "EXPLAIN DELETE FROM rooms".to_owned(),
        "ANALYZE".to_owned(),
        "REINDEX".to_owned(),
        "SELECT * FROM pragma_user_version".to_owned(),
        "SELECT * FROM pragma_journal_mode('delete')".to_owned(),
        "SELECT load_extension('/tmp/x')".to_owned(),
        "SELECT writefile('/tmp/x', 'y')".to_owned(),
        "SELECT readfile('/etc/passwd')".to_owned(),
        "SELECT fts3_tokenizer('simple', x'00')".to_owned(),
        "SELECT ?1".to_owned(),
    ] {
        let answer = ask(&db, &query);
        assert!(
            answer.starts_with(r#"{"ok":false,"error":""#),
            "{query}: {answer}"
        );
    }
    assert_eq!(files(&scene.at("")), before);
    assert_eq!(
        ask(&db, "WITH x AS (SELECT 1) DELETE FROM rooms"),
        error("DatabaseError: not authorized")
    );
}

#[test]
fn sq_008_sq_011_no_other_file_can_be_attached() {
    let scene = Scene::new();
    let db = reservo(&scene);
    let other = make(
        &scene,
        "other.db",
        "CREATE TABLE t(secret); INSERT INTO t VALUES (42)",
    );
    let before = files(&scene.at(""));
    let attach = format!("ATTACH DATABASE '{}' AS o", other.display());
    assert_eq!(ask(&db, &attach), error("not a read (starts with ATTACH)"));
    for query in [
        format!("{attach}; SELECT * FROM o.t"),
        "SELECT * FROM o.t".to_owned(),
        format!("SELECT * FROM \"{}\".t", other.display()),
    ] {
        assert!(ask(&db, &query).starts_with(r#"{"ok":false"#), "{query}");
    }
    assert_eq!(files(&scene.at("")), before);
}

#[test]
fn sq_006_a_comment_at_the_end_swallows_nothing() {
    let scene = Scene::new();
    let db = reservo(&scene);
    for query in [
        "SELECT 1 --",
        "SELECT 1 /* open",
        "SELECT 1; -- done",
        ";;SELECT 1;;",
    ] {
        let answer = ask(&db, query);
        assert!(
            answer.ends_with(r#""rows":[[1]],"truncated":false}"#),
            "{query}: {answer}"
        );
    }
}

#[test]
fn sq_013_a_query_without_rows_ends_at_its_time_and_says_so() {
    let _turn = slowly();
    let scene = Scene::new();
    let db = make(
        &scene,
        "big.db",
        "CREATE TABLE t(n); WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c \
         WHERE x < 10000) INSERT INTO t SELECT x FROM c",
    );
    let started = Instant::now();
    let answer = ask(
        &db,
        "SELECT * FROM t a, t b, t c, t d WHERE a.n < 0 OR b.n + c.n + d.n < 0",
    );
    assert!(answer.contains("OperationalError: time limit"), "{answer}");
    assert!(
        started.elapsed() < Duration::from_secs(14),
        "{:?}",
        started.elapsed()
    );
    assert!(
        ask(&db, "SELECT 1").starts_with(r#"{"ok":true"#),
        "the next query works"
    );
}

#[test]
fn sq_014_sq_015_one_slow_query_does_not_hold_up_another() {
    let _turn = slowly();
    let scene = Scene::new();
    let db = reservo(&scene);
    // No table, no LIMIT to rewrite, mixed case.
    let endless = "WITH x(n) AS (SELECT 1), y(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM y) \
                   SeLeCt COUNT(*) FROM y";
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| ask(&db, &endless.replace("WITH", "WITH ReCuRsIvE")));
        std::thread::sleep(Duration::from_millis(200));
        let started = Instant::now();
        assert!(ask(&db, "SELECT COUNT(*) FROM rooms").starts_with(r#"{"ok":true"#));
        assert!(
            started.elapsed() < Duration::from_secs(1),
            "{:?}",
            started.elapsed()
        );
        let said = slow.join().expect("ends");
        assert!(said.contains("time limit"), "{said}");
    });
}

#[test]
fn one_step_of_the_engine_that_never_looks_up_is_given_up_in_time() {
    let _turn = slowly();
    let scene = Scene::new();
    let db = reservo(&scene);
    let started = Instant::now();
    // One call of a built-in function over 15 MiB, quadratic inside.
    let answer = ask(
        &db,
        "SELECT instr(hex(zeroblob(7000000)), hex(zeroblob(3000000)) || '1')",
    );
    assert!(
        answer.contains("time limit") || answer.contains("[[0]]"),
        "{answer}"
    );
    assert!(
        started.elapsed() < Duration::from_secs(14),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn values_arrive_exact_or_marked() {
    let scene = Scene::new();
    let db = make(
        &scene,
        "values.db",
        "CREATE TABLE v(x); INSERT INTO v VALUES (9007199254740993), (-9223372036854775808), \
         (NULL), (1.5), (x'00ff10'), ('größe'), (CAST(x'61ff62' AS TEXT)), (9e999), (''), (x'')",
    );
    assert_eq!(
        ask(&db, "SELECT x FROM v"),
        "{\"ok\":true,\"columns\":[\"x\"],\"rows\":[[9007199254740993],[-9223372036854775808],\
         [null],[1.5],[{\"base64\":\"AP8Q\",\"bytes\":3}],[\"größe\"],\
         [{\"bytes\":3,\"text_lossy\":\"a\u{fffd}b\"}],[{\"real\":\"inf\"}],[\"\"],\
         [{\"base64\":\"\",\"bytes\":0}]],\"truncated\":false}"
    );
}

#[test]
fn caps_on_cells_rows_and_all_are_said_in_the_result() {
    let scene = Scene::new();
    let db = make(
        &scene,
        "large.db",
        "CREATE TABLE t(x); INSERT INTO t VALUES (printf('%.*c', 20000, 'ä')), (zeroblob(20000))",
    );
    let SqlAnswer::Rows { rows, .. } = ask_with(&db, "SELECT x FROM t", 100, &[]) else {
        panic!("an error")
    };
    let text = &rows[0][0];
    assert_eq!(
        (&text["bytes"], &text["cut"]),
        (&40_000.into(), &true.into())
    );
    assert_eq!(text["text"].as_str().expect("text").chars().count(), 8_192);
    assert_eq!(
        (&rows[1][0]["bytes"], &rows[1][0]["cut"]),
        (&20_000.into(), &true.into())
    );
    let many = ask_with(
        &db,
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 1000) \
         SELECT n, printf('%.*c', 10000, 'x') FROM c",
        1_000,
        &[],
    );
    let encoded = serde_json::to_string(&many).expect("encodes");
    let SqlAnswer::Rows {
        rows, truncated, ..
    } = many
    else {
        panic!("an error")
    };
    assert!(
        truncated && rows.len() == 26 && encoded.len() < 300_000,
        "{}",
        rows.len()
    );
    let columns = vec!["printf('%.*c', 16000, 'x')"; 20].join(", ");
    let wide = ask(&db, &format!("SELECT {columns}"));
    assert!(
        wide.contains("DataError: one row is larger than 256 KiB"),
        "{wide}"
    );
    assert_eq!(
        ask(&db, "SELECT zeroblob(20000000)"),
        error("DataError: string or blob too big")
    );
}

#[test]
fn engine_errors_carry_their_class() {
    let scene = Scene::new();
    let db = reservo(&scene);
    fs::write(
        scene.at("text.db"),
        "this is no database, only text ".repeat(40),
    )
    .expect("writes");
    assert_eq!(
        ask(&scene.at("text.db"), "SELECT 1"),
        error("DatabaseError: file is not a database")
    );
    assert_eq!(
        ask(&db, "SELECT nope FROM rooms"),
        error("OperationalError: no such column: nope")
    );
    assert_eq!(
        ask(&db, "SELECT * FROM nope"),
        error("OperationalError: no such table: nope")
    );
    assert_eq!(
        ask(&db, "SELECT 1 FROM"),
        error("OperationalError: incomplete input")
    );
    let mut bytes = fs::read(&db).expect("reads");
    for byte in &mut bytes[4096..] {
        *byte = 0xa5;
    }
    fs::write(scene.at("broken.db"), bytes).expect("writes");
    assert_eq!(
        ask(&scene.at("broken.db"), "SELECT * FROM rooms"),
        error("DatabaseError: database disk image is malformed")
    );
    for (path, words) in [
        (scene.at("none.db"), "No such file"),
        (scene.at("workspace"), "not a file"),
        (PathBuf::from("relative.db"), "not absolute"),
    ] {
        let said = ask(&path, "SELECT 1");
        assert!(
            said.contains("OperationalError: unable to open database file") && said.contains(words),
            "{said}"
        );
    }
    nix::unistd::mkfifo(&scene.at("pipe.db"), nix::sys::stat::Mode::S_IRWXU).expect("makes");
    assert!(ask(&scene.at("pipe.db"), "SELECT 1").contains("not a file"));
    fs::write(scene.at("empty.db"), "").expect("writes");
    assert!(ask(&scene.at("empty.db"), "SELECT 1").starts_with(r#"{"ok":true"#));
}

#[test]
fn a_wal_database_is_read_truly_or_refused() {
    let scene = Scene::new();
    let script = "PRAGMA journal_mode = WAL; CREATE TABLE t(x); INSERT INTO t VALUES (1)";
    let closed = make(&scene, "closed.db", script);
    let one = |n: u32| format!(r#"{{"ok":true,"columns":["n"],"rows":[[{n}]],"truncated":false}}"#);
    let count = "SELECT COUNT(*) AS n FROM t";
    assert!(!scene.at("closed.db-wal").exists(), "closed cleanly");
    assert_eq!(ask(&closed, count), one(1));
    assert!(!scene.at("closed.db-wal").exists() && !scene.at("closed.db-shm").exists());
    // A live writer: every commit is seen, also what is only in the log.
    let live = scene.at("live.db");
    let writer = Connection::open(&live).expect("opens");
    writer.execute_batch(script).expect("runs");
    writer
        .execute_batch("INSERT INTO t VALUES (2)")
        .expect("runs");
    let before = files(&scene.at(""));
    assert_eq!(ask(&live, count), one(2));
    let names = |all: Vec<(String, Digest)>| all.into_iter().map(|f| f.0).collect::<Vec<_>>();
    assert_eq!(names(files(&scene.at(""))), names(before));
    // A crash: the log without its index would be ignored without a word.
    let crashed = scene.at("crashed.db");
    fs::copy(&live, &crashed).expect("copies");
    fs::copy(scene.at("live.db-wal"), scene.at("crashed.db-wal")).expect("copies");
    let said = ask(&crashed, count);
    assert!(
        said.contains("was not closed") && said.contains("open it once with SQLite"),
        "{said}"
    );
    drop(writer);
    // An empty log is no log.
    fs::write(scene.at("closed.db-wal"), "").expect("writes");
    assert_eq!(ask(&closed, count), one(1));
}

#[test]
fn a_symbolic_link_to_a_database_finds_the_side_files_of_the_real_one() {
    let scene = Scene::new();
    let script = "PRAGMA journal_mode = WAL; CREATE TABLE t(x); INSERT INTO t VALUES (1)";
    let live = scene.at("odd name?#%.db");
    let writer = Connection::open(&live).expect("opens");
    writer.execute_batch(script).expect("runs");
    link(&live, scene.at("link.db"));
    assert!(ask(&scene.at("link.db"), "SELECT * FROM t").contains("[[1]]"));
    drop(writer);
}

#[test]
fn only_named_tables_can_be_read_and_no_name_gets_around_that() {
    let scene = Scene::new();
    let db = make(
        &scene,
        "two.db",
        "CREATE TABLE open(a); INSERT INTO open VALUES (1), (2); \
         CREATE TABLE secret(s); INSERT INTO secret VALUES ('hidden'); \
         CREATE VIEW window AS SELECT s FROM secret; \
         CREATE TABLE child(s); CREATE INDEX by_s ON secret(s)",
    );
    let asked = |query: &str| {
        let answer = ask_with(&db, query, 100, &["Open", "window"]);
        serde_json::to_string(&answer).expect("encodes")
    };
    for query in [
        "SELECT * FROM open",
        "SELECT COUNT(*) FROM OPEN",
        "WITH c AS (SELECT a FROM open) SELECT COUNT(*) FROM c",
        "SELECT value FROM json_each('[1,2]')",
        "SELECT (SELECT MAX(a) FROM open) + 1",
    ] {
        assert!(
            asked(query).starts_with(r#"{"ok":true"#),
            "{query}: {}",
            asked(query)
        );
    }
    for query in [
        "SELECT * FROM secret",
        "SELECT COUNT(*) FROM secret",
        "SELECT 1 FROM secret",
        "SELECT a FROM open WHERE EXISTS (SELECT 1 FROM SECRET WHERE s LIKE 'h%')",
        "WITH open AS (SELECT * FROM secret) SELECT * FROM open",
        "WITH window AS (SELECT s FROM secret) SELECT s FROM window",
        "SELECT * FROM window",
        "SELECT sql FROM sqlite_schema",
        "SELECT COUNT(*) FROM sqlite_master",
        "SELECT name FROM dbstat",
        "SELECT name FROM pragma_table_list",
    ] {
        let said = asked(query);
        assert!(
            said.starts_with(r#"{"ok":false,"error":"DatabaseError: "#),
            "{query}: {said}"
        );
        assert!(!said.contains("hidden"), "{said}");
    }
}

#[test]
fn full_text_and_spatial_tables_can_be_read() {
    let scene = Scene::new();
    let db = make(
        &scene,
        "virtual.db",
        "CREATE VIRTUAL TABLE notes USING fts5(body); INSERT INTO notes VALUES ('a red fox'); \
         CREATE VIRTUAL TABLE boxes USING rtree(id, x0, x1); INSERT INTO boxes VALUES (1, 0, 5)",
    );
    let red = ask(&db, "SELECT body FROM notes WHERE notes MATCH 'red'");
    assert!(red.contains("a red fox"), "{red}");
    let hit = ask(&db, "SELECT id FROM boxes WHERE x0 <= 1 AND x1 >= 1");
    assert!(hit.contains("[[1]]"), "{hit}");
}

#[test]
fn tables_are_listed_with_their_columns_and_only_those_allowed() {
    let scene = Scene::new();
    let db = reservo(&scene);
    let listed = |tables: &[&str]| {
        let errand = Errand::Tables {
            name: "reservo".into(),
            database: db.to_str().expect("text").to_owned(),
            tables: strings(tables),
        };
        match one(&errand) {
            Finding::Tables { tables } => tables,
            other => panic!("{other:?}"),
        }
    };
    let all = listed(&[]);
    let names: Vec<&str> = all.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, vec!["bookings", "members", "payments", "rooms"]);
    assert!(all.iter().all(|table| table.database == "reservo"));
    assert_eq!(
        all[3].columns,
        [
            ("id", "INTEGER"),
            ("name", "TEXT"),
            ("capacity", "INTEGER"),
            ("hourly_rate_cents", "INTEGER")
        ]
        .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
    );
    assert!(!all[0].columns.iter().any(|(name, _)| name == "total"));
    assert_eq!(listed(&["ROOMS"]).len(), 1);
    let errand = Errand::Tables {
        name: "none".into(),
        database: scene.text("none.db"),
        tables: vec![],
    };
    let (class, said) = failed(one(&errand));
    assert!(
        class == ReaderFailure::Unfit && said.contains("`none`"),
        "{said}"
    );
}
