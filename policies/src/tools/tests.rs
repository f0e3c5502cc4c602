//! Holds every contract: its schema and its check agree, and its words are those of the design.

use serde_json::{Value, json};

use super::*;

fn reservo() -> DatabaseInfo {
    DatabaseInfo {
        name: "reservo".into(),
        tables: ["rooms", "members", "bookings", "payments"]
            .map(str::to_owned)
            .to_vec(),
        money: Some("Money is in cents (INTEGER).".into()),
    }
}

/// The part of JSON Schema that our schemas use; panics on a keyword that it does not know.
fn fits(schema: &Value, value: &Value) -> bool {
    let word = |key: &str| schema.get(key);
    for key in schema.as_object().expect("a schema is an object").keys() {
        let known = [
            "type",
            "properties",
            "required",
            "additionalProperties",
            "description",
            "default",
            "enum",
            "minimum",
            "maximum",
            "minLength",
            "maxLength",
            "items",
            "maxItems",
            "pattern",
        ];
        assert!(known.contains(&key.as_str()), "keyword {key}");
    }
    let number = |key: &str| word(key).and_then(Value::as_u64);
    match word("type")
        .and_then(Value::as_str)
        .expect("every schema has a type")
    {
        "object" => {
            let Some(object) = value.as_object() else {
                return false;
            };
            let properties = word("properties")
                .and_then(Value::as_object)
                .expect("properties");
            assert_eq!(word("additionalProperties"), Some(&Value::Bool(false)));
            let required = word("required")
                .and_then(Value::as_array)
                .expect("required");
            required
                .iter()
                .all(|name| object.contains_key(name.as_str().expect("a name")))
                && object.iter().all(|(name, value)| {
                    properties
                        .get(name)
                        .is_some_and(|schema| fits(schema, value))
                })
        }
        "string" => {
            let Some(text) = value.as_str() else {
                return false;
            };
            let length = text.chars().count() as u64;
            let listed = word("enum").and_then(Value::as_array);
            if let Some(pattern) = word("pattern") {
                assert_eq!(pattern, field::JOB_PATTERN);
                let fits = |c: char| c.is_ascii_alphanumeric();
                return (1..=16).contains(&length) && text.chars().all(fits);
            }
            number("minLength").is_none_or(|min| length >= min)
                && number("maxLength").is_none_or(|max| length <= max)
                && listed.is_none_or(|words| words.contains(value))
        }
        "integer" => {
            let Some(number_of) = value.as_f64().filter(|f| f.fract() == 0.0) else {
                return false;
            };
            number("minimum").is_none_or(|min| number_of >= min as f64)
                && number("maximum").is_none_or(|max| number_of <= max as f64)
        }
        "boolean" => value.is_boolean(),
        "array" => {
            let Some(list) = value.as_array() else {
                return false;
            };
            let items = word("items").expect("items");
            number("maxItems").is_none_or(|max| list.len() as u64 <= max)
                && list.iter().all(|item| fits(items, item))
        }
        other => panic!("type {other}"),
    }
}

#[test]
fn the_registry_is_whole_and_sorted_and_names_parse_back() {
    let names: Vec<&str> = CONTRACTS.iter().map(|contract| contract.name()).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(names, sorted);
    assert_eq!(names.len(), Tool::ALL.len());
    for &tool in Tool::ALL {
        assert_eq!(Tool::parse(tool.as_str()), Some(tool));
        assert_eq!(tool.contract().tool, tool);
        assert_eq!(serde_json::to_value(tool).expect("encodes"), tool.as_str());
        assert!(
            tool.contract()
                .description(&[reservo()])
                .contains("Returns {ok"),
            "{tool}"
        );
        assert!(!tool.contract().time_limit.is_zero());
    }
    for word in ["Bash", "bash ", "", "read-file"] {
        assert_eq!(Tool::parse(word), None, "{word:?}");
    }
}

#[test]
fn only_reads_and_queries_run_beside_others() {
    let safe: Vec<&str> = CONTRACTS
        .iter()
        .filter(|c| c.concurrency_safe)
        .map(|c| c.name())
        .collect();
    assert_eq!(
        safe,
        [
            "glob",
            "grep",
            "list_directory",
            "list_tables",
            "read_file",
            "run_sql"
        ]
    );
    for contract in CONTRACTS {
        assert!(
            contract.read_only || !contract.concurrency_safe,
            "{}",
            contract.name()
        );
        assert!(
            contract.read_only || contract.effect == Effect::Hands,
            "{}",
            contract.name()
        );
    }
}

#[test]
fn schema_and_check_agree() {
    let long = "x".repeat(4_097);
    let samples: &[(Tool, Value, bool)] = &[
        (Tool::AskUser, json!({"question": "Which?"}), true),
        (
            Tool::AskUser,
            json!({"question": "Which?", "choices": ["a", "b"]}),
            true,
        ),
        (
            Tool::AskUser,
            json!({"question": "Which?", "choices": vec!["a"; 9]}),
            false,
        ),
        (
            Tool::AskUser,
            json!({"question": "Which?", "choices": [1]}),
            false,
        ),
        (Tool::AskUser, json!({"question": ""}), false),
        (Tool::SubmitPlan, json!({"plan": "read, then write"}), true),
        (Tool::SubmitPlan, json!({"plan": ""}), false),
        (Tool::SubmitPlan, json!({}), false),
        (Tool::Bash, json!({"command": "ls"}), true),
        (
            Tool::Bash,
            json!({"command": "cat", "stdin": "a", "timeout_s": 3600}),
            true,
        ),
        (
            Tool::Bash,
            json!({"command": "ls", "timeout_s": 120.0}),
            true,
        ),
        (
            Tool::Bash,
            json!({"command": "ls", "timeout_s": 1.5}),
            false,
        ),
        (Tool::Bash, json!({"command": "ls", "timeout_s": 0}), false),
        (
            Tool::Bash,
            json!({"command": "ls", "timeout_s": 3601}),
            false,
        ),
        (Tool::Bash, json!({"command": "ls", "timeout_s": -1}), false),
        (
            Tool::Bash,
            json!({"command": "ls", "timeout_s": "120"}),
            false,
        ),
        (
            Tool::Bash,
            json!({"command": "ls", "run_in_background": "yes"}),
            false,
        ),
        (Tool::Bash, json!({"command": ""}), false),
        (Tool::Bash, json!({"command": null}), false),
        (Tool::Bash, json!({"cmd": "ls"}), false),
        (Tool::Bash, json!({}), false),
        (Tool::Bash, json!("ls"), false),
        (
            Tool::EditFile,
            json!({"file_path": "a", "old_string": "b", "new_string": ""}),
            true,
        ),
        (
            Tool::EditFile,
            json!({"file_path": "a", "old_string": "", "new_string": "b"}),
            false,
        ),
        (
            Tool::EditFile,
            json!({"file_path": "a", "old_string": "b"}),
            false,
        ),
        (Tool::Glob, json!({"pattern": "*.rs", "path": "src"}), true),
        (Tool::Glob, json!({"path": "src"}), false),
        (
            Tool::Grep,
            json!({"pattern": "fn", "output_mode": "count", "head_limit": 1}),
            true,
        ),
        (
            Tool::Grep,
            json!({"pattern": "fn", "output_mode": "lines"}),
            false,
        ),
        (Tool::Grep, json!({"pattern": "fn", "context": 21}), false),
        (Tool::Grep, json!({"pattern": "fn", "head_limit": 0}), false),
        (Tool::JobKill, json!({"job_id": "c1"}), true),
        (Tool::JobKill, json!({"job_id": "c-1"}), false),
        (Tool::JobKill, json!({"job_id": ""}), false),
        (
            Tool::JobOutput,
            json!({"job_id": "c1", "timeout_ms": 600_000}),
            true,
        ),
        (
            Tool::JobOutput,
            json!({"job_id": "c1", "timeout_ms": 600_001}),
            false,
        ),
        (Tool::JobOutput, json!({"job_id": 1}), false),
        (Tool::ListDirectory, json!({}), true),
        (Tool::ListDirectory, json!({"path": "src"}), true),
        (Tool::ListDirectory, json!({"path": ""}), false),
        (Tool::ListDirectory, json!({"dir": "src"}), false),
        (Tool::ListTables, json!({}), true),
        (Tool::ListTables, json!({"database": "reservo"}), false),
        (
            Tool::ReadFile,
            json!({"file_path": "a", "offset": 1, "limit": 10}),
            true,
        ),
        (
            Tool::ReadFile,
            json!({"file_path": "a", "offset": 0}),
            false,
        ),
        (Tool::ReadFile, json!({"file_path": long}), false),
        (Tool::ReadFile, json!({"file_path": ["a"]}), false),
        (Tool::RunSql, json!({"query": ""}), true),
        (
            Tool::RunSql,
            json!({"query": "SELECT 1", "database": "reservo"}),
            true,
        ),
        (Tool::RunSql, json!({"query": 1}), false),
        (Tool::RunSql, json!({"sql": "SELECT 1"}), false),
        (
            Tool::WriteFile,
            json!({"file_path": "a", "content": ""}),
            true,
        ),
        (
            Tool::WriteFile,
            json!({"file_path": "a", "content": {"a": 1}}),
            false,
        ),
        (
            Tool::WriteFile,
            json!({"file_path": "", "content": ""}),
            false,
        ),
    ];
    for (tool, value, good) in samples {
        assert_eq!(
            fits(&tool.contract().schema(), value),
            *good,
            "schema of {tool}: {value}"
        );
        assert_eq!(
            input(*tool, value).is_ok(),
            *good,
            "check of {tool}: {value}"
        );
    }
    for &tool in Tool::ALL {
        let of = samples.iter().filter(|(t, ..)| *t == tool);
        let (good, bad): (Vec<_>, Vec<_>) = of.partition(|(_, _, good)| *good);
        assert!(
            !good.is_empty() && !bad.is_empty(),
            "{tool} has samples of both kinds"
        );
    }
}

#[test]
fn the_words_of_the_check_name_the_field_and_the_remedy() {
    let error = |tool, value: Value| input(tool, &value).expect_err("is refused");
    assert_eq!(error(Tool::Bash, json!({})), "missing field `command`");
    assert_eq!(
        error(Tool::Glob, json!({"pattern": "a", "dir": "b"})),
        "unknown field `dir`; the fields are `pattern`, `path`"
    );
    assert_eq!(
        error(Tool::Bash, json!({"command": ["ls"]})),
        "`command` must be a string, got a list"
    );
    assert_eq!(
        error(Tool::Bash, json!({"command": "ls", "timeout_s": 3601})),
        "`timeout_s` must be from 1 to 3600, got 3601"
    );
    assert_eq!(
        error(Tool::Bash, json!({"command": "ls", "stdin": null})),
        "`stdin` must be a string, got null (leave the field out instead)"
    );
    assert_eq!(
        error(Tool::Grep, json!({"pattern": "a", "output_mode": "lines"})),
        "`output_mode` must be one of files_with_matches, content, count, got `lines`"
    );
    assert_eq!(
        error(Tool::Bash, json!({"command": "a\u{0}b"})),
        "`command` must not hold a NUL byte"
    );
    assert_eq!(
        error(
            Tool::Bash,
            json!({"command": "x".repeat(bounds_line() + 1)})
        ),
        "`command` has 65537 bytes, at most 65536 are taken"
    );
    assert_eq!(
        error(
            Tool::EditFile,
            json!({"file_path": "a", "old_string": "b", "new_string": "b"})
        ),
        "`old_string` and `new_string` are the same: nothing would change"
    );
    assert_eq!(
        error(Tool::ListTables, json!([])),
        "the input must be a JSON object with no fields"
    );
}

fn bounds_line() -> usize {
    protocol::bounds::COMMAND_LINE
}

#[test]
fn defaults_are_filled_in() {
    assert_eq!(
        input(Tool::Bash, &json!({"command": "a  b\n"})),
        Ok(Input::Bash(Bash {
            command: "a  b\n".into(),
            timeout_s: 120,
            description: None,
            run_in_background: false,
            stdin: None,
        }))
    );
    assert_eq!(
        input(Tool::ReadFile, &json!({"file_path": "a"})),
        Ok(Input::ReadFile(ReadFile {
            file_path: "a".into(),
            offset: 1,
            limit: 2_000
        }))
    );
    assert_eq!(
        input(Tool::Grep, &json!({"pattern": "a"})),
        Ok(Input::Grep(Grep {
            pattern: "a".into(),
            path: ".".into(),
            output_mode: OutputMode::FilesWithMatches,
            context: 0,
            head_limit: 250,
        }))
    );
}

#[test]
fn run_sql_is_described_word_for_word() {
    let spec = Tool::RunSql.contract().spec(&[reservo()]);
    assert_eq!(
        spec.description,
        "Runs a READ-ONLY SQL query (SELECT) against the Reservo database (SQLite) and returns the \
         resulting rows. The tables are: rooms, members, bookings, payments. Money is in cents \
         (INTEGER). Returns {ok, columns, rows} on success, or {ok: false, error} on failure."
    );
    assert_eq!(spec.input_schema["required"], json!(["query"]));
    let properties = spec.input_schema["properties"]
        .as_object()
        .expect("properties");
    assert_eq!(properties.keys().collect::<Vec<_>>(), ["query"]);

    let other = DatabaseInfo {
        name: "ledger".into(),
        tables: vec!["accounts".into()],
        money: None,
    };
    let spec = Tool::RunSql.contract().spec(&[reservo(), other]);
    assert!(
        spec.description
            .contains("Database ledger: The tables are: accounts. Returns")
    );
    assert!(spec.input_schema["properties"].get("database").is_some());
}
