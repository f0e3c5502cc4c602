//! The reads against real folders, and the words of every outcome.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    time::{Duration, Instant},
};

use policies::tools::{Tool, input};
use protocol::{
    CommandId, FailureClass, bounds,
    call::{CommandResult, EndedBy, Excerpt, Outcome, Refusal, SqlAnswer, Stage, Table},
};
use serde_json::{Value, json};

use super::*;

struct Room {
    folder: tempfile::TempDir,
    reads: Reads,
}

impl Room {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let workspace = folder.path().join("w");
        fs::create_dir(&workspace).expect("a workspace");
        let facts = Facts {
            workspace: workspace.to_str().expect("text").into(),
            home: "/home/nobody".into(),
            system: vec!["/usr".into(), "/etc".into()],
            interactive: false,
            tree: None,
        };
        let room = Self {
            folder,
            reads: Reads::new(facts),
        };
        for (path, text) in files {
            room.put(path, text.as_bytes());
        }
        room
    }

    fn at(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join("w").join(path)
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, bytes).expect("a file");
    }

    fn call(&mut self, tool: Tool, value: Value) -> Value {
        let input = input(tool, &value).expect("a good input");
        let deadline = Instant::now() + Duration::from_secs(20);
        let done = self.reads.carry_out(&input, deadline).expect("a read");
        assert!(
            done.text.len() <= bounds::OUTPUT_TO_MODEL,
            "{} bytes",
            done.text.len()
        );
        assert!(done.text.starts_with(if done.ok {
            "{\"ok\":true"
        } else {
            "{\"ok\":false"
        }));
        serde_json::from_str(&done.text).expect("JSON")
    }

    fn error(&mut self, tool: Tool, value: Value) -> String {
        let result = self.call(tool, value);
        result["error"].as_str().expect("an error").to_owned()
    }

    fn prepare(&self, tool: Tool, value: Value) -> Result<Prepared, String> {
        let input = input(tool, &value).expect("a good input");
        let prepared = self.reads.prepare(&input).map_err(|why| why.to_string())?;
        Ok(prepared.expect("a change"))
    }
}

#[test]
fn read_file_gives_lines_and_says_what_is_left() {
    let mut room = Room::new(&[("a.txt", "one\ntwo\nthree"), ("empty", "")]);
    assert_eq!(
        room.call(Tool::ReadFile, json!({"file_path": "a.txt"})),
        json!({"ok": true, "path": "a.txt", "first_line": 1, "lines": 3, "total_lines": 3,
               "truncated": false, "content": "one\ntwo\nthree"})
    );
    assert_eq!(
        room.call(
            Tool::ReadFile,
            json!({"file_path": "./a.txt", "offset": 2, "limit": 1})
        ),
        json!({"ok": true, "path": "a.txt", "first_line": 2, "lines": 1, "total_lines": 3,
               "truncated": true, "content": "two\n"})
    );
    assert_eq!(
        room.call(Tool::ReadFile, json!({"file_path": "empty"}))["content"],
        ""
    );
    assert_eq!(
        room.error(Tool::ReadFile, json!({"file_path": "a.txt", "offset": 4})),
        "`a.txt` has 3 lines; offset 4 is beyond its end"
    );
}

#[test]
fn read_file_bounds_long_files_and_long_lines_on_whole_characters() {
    let long = "é".repeat(3_000);
    let many = "\u{1b}[31mred \"x\"\n".repeat(20_000);
    let mut room = Room::new(&[("long", &long), ("many", &many)]);
    let result = room.call(Tool::ReadFile, json!({"file_path": "long"}));
    assert_eq!(
        result["content"],
        format!("{}… (4000 bytes cut)", "é".repeat(1_000))
    );
    let result = room.call(
        Tool::ReadFile,
        json!({"file_path": "many", "limit": 100_000}),
    );
    assert_eq!(result["truncated"], true);
    assert!(result["lines"].as_u64().is_some_and(|n| n > 1_000));
    assert!(
        result["content"]
            .as_str()
            .is_some_and(|text| text.ends_with("\"\n"))
    );
}

#[test]
fn read_file_refuses_what_is_not_text_and_never_waits() {
    let mut room = Room::new(&[("folder/x", "")]);
    room.put("binary", b"ab\0cd");
    room.put("latin", b"caf\xe9\n");
    let fifo = room.at("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    let before = Instant::now();
    assert_eq!(
        room.error(Tool::ReadFile, json!({"file_path": "fifo"})),
        "`fifo` is a FIFO, a socket or a device; only regular files are read"
    );
    assert!(
        room.error(Tool::ReadFile, json!({"file_path": "/dev/zero"}))
            .contains("device")
    );
    assert!(before.elapsed() < Duration::from_secs(5));
    assert!(
        room.error(Tool::ReadFile, json!({"file_path": "folder"}))
            .contains("list_directory")
    );
    let error = room.error(Tool::ReadFile, json!({"file_path": "binary"}));
    assert!(
        error.contains("not text (a NUL byte at offset 2)"),
        "{error}"
    );
    let result = room.call(Tool::ReadFile, json!({"file_path": "latin"}));
    assert!(
        result["note"]
            .as_str()
            .is_some_and(|note| note.contains("not UTF-8"))
    );
    let huge = fs::File::create(room.at("huge")).expect("a file");
    huge.set_len(bounds::FILE_READ + 1).expect("sparse");
    assert!(
        room.error(Tool::ReadFile, json!({"file_path": "huge"}))
            .contains("at most 16777216")
    );
}

#[test]
fn what_is_not_in_the_view_is_said_to_be_so() {
    let mut room = Room::new(&[]);
    assert_eq!(
        room.error(Tool::ReadFile, json!({"file_path": "nope"})),
        "`nope` does not exist; list_directory or glob shows what is there"
    );
    let error = room.error(
        Tool::ReadFile,
        json!({"file_path": "/srv/provost-none/secret"}),
    );
    assert!(
        error.contains("is not in this session's view; the workspace is"),
        "{error}"
    );
    symlink("/srv/provost-none/secret", room.at("link")).expect("a link");
    let error = room.error(Tool::ReadFile, json!({"file_path": "link"}));
    assert!(
        error.contains("a link to `/srv/provost-none/secret`"),
        "{error}"
    );
    for tool in [Tool::ListDirectory, Tool::Glob, Tool::Grep] {
        let error = room.error(
            tool,
            if tool == Tool::ListDirectory {
                json!({"path": "/srv/provost-none"})
            } else {
                json!({"path": "/srv/provost-none", "pattern": "x"})
            },
        );
        assert!(
            error.contains("not in this session's view"),
            "{tool}: {error}"
        );
    }
}

#[test]
fn list_directory_is_sorted_and_tells_kinds() {
    let mut room = Room::new(&[("b.txt", "12345"), ("a/x", ""), (".hidden", "")]);
    symlink("b.txt", room.at("link")).expect("a link");
    assert_eq!(
        room.call(Tool::ListDirectory, json!({})),
        json!({"ok": true, "path": ".", "truncated": false, "entries": [
            {"name": ".hidden", "kind": "file", "bytes": 0},
            {"name": "a", "kind": "folder"},
            {"name": "b.txt", "kind": "file", "bytes": 5},
            {"name": "link", "kind": "link"},
        ]})
    );
    assert!(
        room.error(Tool::ListDirectory, json!({"path": "b.txt"}))
            .contains("not a folder")
    );
    for n in 0..1_200 {
        room.put(&format!("many/{n:04}"), b"");
    }
    let result = room.call(Tool::ListDirectory, json!({"path": "many"}));
    assert_eq!(result["truncated"], true);
    assert_eq!(result["entries"].as_array().map(Vec::len), Some(1_000));
}

fn sample() -> Room {
    Room::new(&[
        (".gitignore", "target/\n*.log\n!keep.log\n"),
        ("src/main.rs", "fn main() {\n    todo();\n}\n"),
        ("src/lib.rs", "pub fn todo() {}\n"),
        ("src/.ignore", "lib.rs\n"),
        ("src/deep/a.ts", "todo\n"),
        ("target/main.rs", "todo\n"),
        ("x.log", "todo\n"),
        ("keep.log", "todo\n"),
        (".github/ci.yml", "todo\n"),
        (".git/config", "todo\n"),
    ])
}

#[test]
fn glob_follows_gitignore() {
    let mut room = sample();
    let table = [
        ("*.rs", json!(["src/main.rs"])),
        ("src/**/*.ts", json!(["src/deep/a.ts"])),
        ("**/*.{rs,ts}", json!(["src/deep/a.ts", "src/main.rs"])),
        ("/keep.log", json!(["keep.log"])),
        ("*.log", json!(["keep.log"])),
        ("*.yml", json!([".github/ci.yml"])),
        ("deep", json!(["src/deep/a.ts"])),
        ("config", json!([])),
    ];
    for (pattern, want) in table {
        let result = room.call(Tool::Glob, json!({"pattern": pattern}));
        assert_eq!(
            result,
            json!({"ok": true, "paths": want, "truncated": false}),
            "{pattern}"
        );
    }
    // The rules of the folders above hold too, and the pattern counts from where it looks.
    let result = room.call(Tool::Glob, json!({"pattern": "/*.rs", "path": "src"}));
    assert_eq!(result["paths"], json!(["src/main.rs"]));
    let result = room.call(Tool::Glob, json!({"pattern": "*.rs", "path": "target"}));
    assert_eq!(
        result["paths"],
        json!(["target/main.rs"]),
        "an ignored folder that is named is searched"
    );
    assert!(
        room.error(Tool::Glob, json!({"pattern": "{a"}))
            .contains("pattern is not valid")
    );
    assert!(
        room.error(Tool::Glob, json!({"pattern": "!x"}))
            .contains("may not begin")
    );
}

#[test]
fn a_fifo_named_gitignore_and_a_loop_of_links_hang_nothing() {
    let mut room = Room::new(&[("a.rs", "x\n")]);
    nix::unistd::mkfifo(&room.at(".gitignore"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    nix::unistd::mkfifo(&room.at("pipe.rs"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    symlink(".", room.at("loop")).expect("a link");
    let result = room.call(Tool::Glob, json!({"pattern": "*"}));
    assert_eq!(result["paths"], json!(["a.rs", "loop"]));
    let result = room.call(Tool::Grep, json!({"pattern": "x"}));
    assert_eq!(result["results"], json!(["a.rs"]));
}

#[test]
fn a_walk_ends_at_its_deadline_and_says_that_more_is_there() {
    let mut room = sample();
    let input = input(Tool::Glob, &json!({"pattern": "*.rs"})).expect("good");
    let done = room
        .reads
        .carry_out(&input, Instant::now())
        .expect("a read");
    assert_eq!(done.text, "{\"ok\":true,\"paths\":[],\"truncated\":true}");
}

#[test]
fn grep_searches_in_its_three_modes() {
    let mut room = sample();
    assert_eq!(
        room.call(Tool::Grep, json!({"pattern": "todo"})),
        json!({"ok": true, "mode": "files_with_matches", "truncated": false,
               "results": [".github/ci.yml", "keep.log", "src/deep/a.ts", "src/main.rs"]})
    );
    let result = room.call(
        Tool::Grep,
        json!({"pattern": "to+do", "path": "src", "output_mode": "count"}),
    );
    assert_eq!(
        result["results"],
        json!([{"path": "src/deep/a.ts", "count": 1}, {"path": "src/main.rs", "count": 1}])
    );
    let content = json!({"pattern": "(?i)TODO", "path": "src/main.rs", "output_mode": "content", "context": 1});
    assert_eq!(
        room.call(Tool::Grep, content)["results"],
        json!([
            {"path": "src/main.rs", "line": 1, "text": "fn main() {", "context": true},
            {"path": "src/main.rs", "line": 2, "text": "    todo();"},
            {"path": "src/main.rs", "line": 3, "text": "}", "context": true},
        ])
    );
    let result = room.call(Tool::Grep, json!({"pattern": "todo", "head_limit": 2}));
    assert_eq!(
        (
            result["results"].as_array().map(Vec::len),
            &result["truncated"]
        ),
        (Some(2), &json!(true))
    );
    assert!(
        room.error(Tool::Grep, json!({"pattern": "a("}))
            .contains("pattern is not valid")
    );
    room.put("binary.rs", b"todo\0todo\n");
    let result = room.call(Tool::Grep, json!({"pattern": "todo", "path": "binary.rs"}));
    assert_eq!(result["results"], json!([]));
}

#[test]
fn grep_bounds_what_it_returns() {
    let mut room = Room::new(&[("wide", &"todo é".repeat(200_000))]);
    for n in 0..40 {
        room.put(&format!("f{n}"), "todo line\n".repeat(500).as_bytes());
    }
    let wide = json!({"pattern": "todo", "path": "wide", "output_mode": "content"});
    let result = room.call(Tool::Grep, wide);
    assert!(
        result["results"][0]["text"]
            .as_str()
            .is_some_and(|text| text.ends_with("bytes cut)"))
    );
    let all = json!({"pattern": "todo", "output_mode": "content", "head_limit": 1000});
    let result = room.call(Tool::Grep, all);
    assert_eq!(result["truncated"], true);
}

#[test]
fn a_change_needs_a_read_and_the_file_as_it_was_read() {
    let mut room = Room::new(&[("a.rs", "let x = 1;\nlet y = 1;\n")]);
    let edit =
        |old: &str, new: &str| json!({"file_path": "a.rs", "old_string": old, "new_string": new});
    assert_eq!(
        room.prepare(Tool::EditFile, edit("x", "z")),
        Err("`a.rs` was not read yet; read it with read_file first, then change it".into())
    );
    assert!(
        room.prepare(Tool::WriteFile, json!({"file_path": "a.rs", "content": ""}))
            .is_err()
    );
    let read = json!({"file_path": "a.rs", "limit": 1});
    let _ = room.call(Tool::ReadFile, read.clone());
    let prepared = room
        .prepare(Tool::EditFile, edit("let x = 1;", "let x = 2;"))
        .expect("prepared");
    assert_eq!(prepared.content, "let x = 2;\nlet y = 1;\n");
    assert_eq!(prepared.base, Some(Digest::of(b"let x = 1;\nlet y = 1;\n")));
    assert_eq!(
        room.prepare(Tool::EditFile, edit("= 1", "= 3")),
        Err(
            "`old_string` occurs 2 times in `a.rs` (lines 1, 2); add surrounding lines to make it \
             unique, or set replace_all"
                .into()
        )
    );
    let all =
        json!({"file_path": "a.rs", "old_string": "= 1", "new_string": "= 3", "replace_all": true});
    assert_eq!(
        room.prepare(Tool::EditFile, all).expect("prepared").content,
        "let x = 3;\nlet y = 3;\n"
    );
    let error = room
        .prepare(Tool::EditFile, edit("  let y = 1;", ""))
        .expect_err("no match");
    assert!(error.contains("line 2 with other white space"), "{error}");
    let replaced = room.prepare(
        Tool::WriteFile,
        json!({"file_path": "a.rs", "content": "new"}),
    );
    assert!(replaced.expect("prepared").base.is_some());

    room.put("a.rs", b"let x = 9;\n");
    assert_eq!(
        room.prepare(Tool::EditFile, edit("x", "z")),
        Err("`a.rs` has changed since it was read; read it again, then change it".into())
    );
    // What was written through a tool counts as read.
    room.reads.wrote("a.rs", Digest::of(b"let x = 9;\n"));
    assert!(room.prepare(Tool::EditFile, edit("9", "8")).is_ok());
}

#[test]
fn a_new_file_has_no_base_and_a_link_to_nowhere_is_no_new_file() {
    let room = Room::new(&[]);
    let write = |path: &str| json!({"file_path": path, "content": "x"});
    assert_eq!(
        room.prepare(Tool::WriteFile, write("new/file")),
        Ok(Prepared {
            base: None,
            content: "x".into()
        })
    );
    symlink("/srv/provost-none/x", room.at("link")).expect("a link");
    assert!(room.prepare(Tool::WriteFile, write("link")).is_err());
}

#[test]
fn an_edit_keeps_line_ends_marks_and_what_is_not_text() {
    let mut room = Room::new(&[("dos.txt", "\u{feff}one\r\ntwo\r\nthree\r\n")]);
    room.put("latin", b"caf\xe9\n");
    for file in ["dos.txt", "latin"] {
        let _ = room.call(Tool::ReadFile, json!({"file_path": file}));
    }
    let edit = json!({"file_path": "dos.txt", "old_string": "one\ntwo", "new_string": "1\n2\n2b"});
    let prepared = room.prepare(Tool::EditFile, edit).expect("prepared");
    assert_eq!(prepared.content, "\u{feff}1\r\n2\r\n2b\r\nthree\r\n");
    let edit = json!({"file_path": "dos.txt", "old_string": "three", "new_string": "3\n4"});
    let prepared = room.prepare(Tool::EditFile, edit).expect("prepared");
    assert!(prepared.content.ends_with("two\r\n3\r\n4\r\n"));
    let edit = json!({"file_path": "latin", "old_string": "caf", "new_string": "tea"});
    assert!(
        room.prepare(Tool::EditFile, edit)
            .expect_err("not text")
            .contains("not UTF-8")
    );
}

#[test]
fn an_edit_that_would_fill_the_memory_is_refused_by_its_size() {
    let mut room = Room::new(&[("a", &"a".repeat(400_000))]);
    let _ = room.call(Tool::ReadFile, json!({"file_path": "a"}));
    let edit = json!({"file_path": "a", "old_string": "a", "new_string": "b".repeat(100_000),
                      "replace_all": true});
    let error = room.prepare(Tool::EditFile, edit).expect_err("too large");
    assert!(error.contains("would have 40000000000 bytes"), "{error}");
}

#[test]
fn a_file_that_may_not_be_read_is_told_from_one_that_is_missing() {
    if nix::unistd::geteuid().is_root() {
        // The mode binds nobody who is root; the kernel's own words are tested through `explain`.
        let view = View::new(Facts {
            workspace: "/".into(),
            home: "/h".into(),
            system: vec![],
            interactive: false,
            tree: None,
        });
        let path = view.path("/usr").expect("a path");
        let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        assert!(
            view.explain(&path, &denied)
                .to_string()
                .contains("not open to the file tools")
        );
        return;
    }
    let mut room = Room::new(&[("a", "x")]);
    let mode = fs::Permissions::from_mode(0o000);
    fs::set_permissions(room.at("a"), mode).expect("a mode");
    assert!(
        room.error(Tool::ReadFile, json!({"file_path": "a"}))
            .contains("not open to the file tools")
    );
}

fn command(exit: Option<i32>, output: Excerpt) -> CommandResult {
    CommandResult {
        exit,
        signal: None,
        ms: 12,
        ended_by: None,
        left_running: 0,
        output,
    }
}

fn plain(head: &str) -> Excerpt {
    Excerpt {
        head: head.into(),
        total: head.len() as u64,
        ..Excerpt::default()
    }
}

#[test]
fn every_outcome_is_one_object_with_its_keys_in_order() {
    let job = CommandId::parse("c3").expect("valid");
    let table = [
        (
            Outcome::Command(command(Some(0), plain("hi\n"))),
            r#"{"ok":true,"exit":0,"signal":null,"ms":12,"output":"hi\n","omitted":0,"left_running":0,"ended_by":null}"#,
        ),
        (
            Outcome::Command(CommandResult {
                signal: Some(9),
                ended_by: Some(EndedBy::TimeLimit),
                left_running: 2,
                ..command(
                    None,
                    Excerpt {
                        head: "a".into(),
                        tail: "z".into(),
                        omitted: 7,
                        total: 9,
                        spool: None,
                    },
                )
            }),
            r#"{"ok":false,"exit":null,"signal":9,"ms":12,"output":"a\n… 7 bytes omitted …\nz","omitted":7,"left_running":2,"ended_by":"time_limit"}"#,
        ),
        (
            Outcome::JobStarted { job: job.clone() },
            r#"{"ok":true,"job_id":"c3"}"#,
        ),
        (
            Outcome::Job {
                job,
                running: true,
                result: None,
                output: plain("x"),
            },
            r#"{"ok":true,"job_id":"c3","running":true,"output":"x","omitted":0,"exit":null,"signal":null,"ms":null,"ended_by":null}"#,
        ),
        (
            Outcome::Written {
                path: "a.rs".into(),
                created: false,
                bytes: 4,
                digest: Digest::of(b"abcd"),
            },
            r#"{"ok":true,"path":"a.rs","created":false,"bytes":4}"#,
        ),
        (
            Outcome::Rows(SqlAnswer::Rows {
                ok: true,
                columns: vec!["name".into()],
                rows: vec![vec!["Focus".into()]],
                truncated: true,
            }),
            r#"{"ok":true,"columns":["name"],"rows":[["Focus"]],"truncated":true}"#,
        ),
        (
            Outcome::Rows(SqlAnswer::error("more than one statement")),
            r#"{"ok":false,"error":"more than one statement"}"#,
        ),
        (
            Outcome::Tables {
                tables: vec![Table {
                    database: "reservo".into(),
                    name: "rooms".into(),
                    columns: vec![("id".into(), "INTEGER".into())],
                }],
            },
            r#"{"ok":true,"tables":[{"database":"reservo","name":"rooms","columns":[{"name":"id","type":"INTEGER"}]}]}"#,
        ),
        (
            Outcome::Answer { text: "yes".into() },
            r#"{"ok":true,"answer":"yes"}"#,
        ),
        (
            Outcome::Failed {
                class: FailureClass::NotFound,
                message: "`a` is gone".into(),
            },
            r#"{"ok":false,"error":"`a` is gone","class":"not_found"}"#,
        ),
        (
            Outcome::Failed {
                class: FailureClass::Unknown,
                message: "hands left".into(),
            },
            r#"{"ok":false,"error":"outcome unknown: hands left; check what bash did before you repeat it","class":"unknown"}"#,
        ),
        (
            Outcome::Refused(Refusal {
                stage: Stage::Permissions,
                rule: Some("no-push".into()),
                layer: Some("user".into()),
                reason: "people push".into(),
                instead: None,
            }),
            r#"{"ok":false,"error":"permission denied: people push (rule no-push)","refused":{"stage":"permissions","rule":"no-push","layer":"user","reason":"people push","instead":null}}"#,
        ),
    ];
    for (outcome, want) in table {
        let formatted = format(Tool::Bash, &outcome);
        assert_eq!(formatted.text, want);
        assert_eq!(formatted.ok, want.starts_with("{\"ok\":true"), "{want}");
    }
    assert!(!format(Tool::ReadFile, &Outcome::Proceed).ok);
}

#[test]
fn equal_outcomes_have_equal_essence_whatever_time_they_took() {
    let slow = CommandResult {
        ms: 99,
        ..command(Some(1), plain("no"))
    };
    let one = format(Tool::Bash, &Outcome::Command(command(Some(1), plain("no"))));
    let other = format(Tool::Bash, &Outcome::Command(slow));
    assert_eq!(one.essence, other.essence);
    assert_ne!(one.text, other.text);
}

#[test]
fn no_outcome_exceeds_what_the_model_may_get_and_all_stay_whole_text() {
    let evil = "\u{1}é\"\\日本\n".repeat(30_000);
    let row = |n: usize| vec![Value::from("é\"".repeat(n))];
    let columns = vec!["x".to_owned()];
    let excerpt = Excerpt {
        head: evil.clone(),
        tail: evil.clone(),
        omitted: 5,
        total: 0,
        spool: None,
    };
    let outcomes = [
        Outcome::Command(command(Some(0), plain(&evil))),
        Outcome::Command(command(Some(0), excerpt)),
        Outcome::Answer { text: evil.clone() },
        Outcome::Failed {
            class: FailureClass::Other,
            message: evil.clone(),
        },
        Outcome::Refused(Refusal {
            stage: Stage::Safety,
            rule: None,
            layer: None,
            reason: evil.clone(),
            instead: Some(evil.clone()),
        }),
        Outcome::Rows(SqlAnswer::Rows {
            ok: true,
            columns: columns.clone(),
            rows: vec![row(2_000); 60],
            truncated: false,
        }),
        Outcome::Rows(SqlAnswer::Rows {
            ok: true,
            columns,
            rows: vec![row(40_000)],
            truncated: false,
        }),
        Outcome::Tables {
            tables: vec![
                Table {
                    database: "d".into(),
                    name: "n".repeat(1_000),
                    columns: vec![],
                };
                200
            ],
        },
    ];
    for outcome in outcomes {
        let formatted = format(Tool::Bash, &outcome);
        let size = formatted.text.len();
        assert!(size <= bounds::OUTPUT_TO_MODEL, "{size}");
        let value: Value = serde_json::from_str(&formatted.text).expect("JSON");
        assert!(!formatted.text.contains('\u{fffd}'));
        if let Some(output) = value.get("output").and_then(Value::as_str) {
            assert!(size > 50_000, "the bound is used: {size}");
            let omitted = value["omitted"].as_u64().expect("a count");
            assert!(output.contains(&format!("… {omitted} bytes omitted …")));
        }
        if let Some(rows) = value.get("rows") {
            assert_eq!(value["truncated"], true);
            assert!(rows.as_array().is_some_and(|rows| rows.len() > 3));
        }
    }
}

#[test]
fn the_first_project_file_with_text_is_the_projects_instructions() {
    let mut room = Room::new(&[("CLAUDE.md", "c"), ("AGENTS.md", "  \n")]);
    let found = |room: &Room| room.reads.project_instructions();
    assert_eq!(found(&room), Some(("CLAUDE.md".into(), "c".into())));
    room.put("AGENTS.md", b"a");
    assert_eq!(found(&room), Some(("AGENTS.md".into(), "a".into())));
    room = Room::new(&[]);
    nix::unistd::mkfifo(&room.at("AGENTS.md"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    assert_eq!(found(&room), None);
}

#[test]
fn what_the_agent_does_not_carry_out_is_none() {
    let mut room = Room::new(&[]);
    let bash = input(Tool::Bash, &json!({"command": "ls"})).expect("good");
    assert!(room.reads.carry_out(&bash, Instant::now()).is_none());
    assert_eq!(room.reads.prepare(&bash), Ok(None));
    assert!(Path::new(room.folder.path()).exists());
}
