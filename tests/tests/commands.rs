//! The commands as people and programs meet them: each output, word for word where a contract says so.

#[cfg(test)]
mod commands {
    use provost_tests::harness::{Account, Place, must, schema, settled};
    use serde_json::{Value, json};

    fn calls(command: &str) -> String {
        line(
            &json!({ "text": "", "tool_calls": [{ "name": "bash", "input": { "command": command } }], "stop": "tool" }),
        )
    }

    fn line(object: &Value) -> String {
        format!("{object}\n")
    }

    fn ends(text: &str) -> String {
        line(&json!({ "text": text, "stop": "end" }))
    }

    fn fits(schema: &str, object: &Value) {
        let wrong = schema::against(schema, object);
        assert!(wrong.is_empty(), "{schema}: {wrong:#?}\n{object}");
    }

    // ---- outputs ----

    #[test]
    fn a_stream_is_a_line_an_event_and_ends_with_the_end() {
        let place = Place::new();
        place.write("work/a.txt", "a\n");
        let script = format!("{}{}{}", calls("cat a.txt"), calls("git push"), ends("bye"));
        let done = place.play(&script, &["--output", "stream-json"]);
        assert_eq!(done.code, Some(0), "{done}");
        let lines: Vec<Value> = done
            .stdout
            .lines()
            .map(|line| must("a line", serde_json::from_str(line)))
            .collect();
        for (at, line) in lines.iter().enumerate() {
            fits("stream-json.json", line);
            assert_eq!(line["seq"], at + 1, "no line is missing");
        }
        let kinds: Vec<&str> = lines
            .iter()
            .filter_map(|line| line["type"].as_str())
            .collect();
        for kind in [
            "session",
            "certificate",
            "turn",
            "verdict",
            "call",
            "text",
            "turn_ended",
        ] {
            assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
        }
        assert_eq!(kinds.last(), Some(&"end"));
    }

    #[test]
    fn people_read_stderr_and_programs_stdout() {
        let place = Place::new();
        let script = format!("{}{}", calls("echo 1"), ends("The answer."));
        let done = place.play(&script, &[]);
        assert_eq!(done.stdout, "The answer.\n");
        for word in [
            "session",
            "certificate",
            "bash echo 1",
            "outcome",
            "bill",
            "audit head",
            "no terminal",
        ] {
            assert!(done.stderr.contains(word), "{word}: {done}");
        }
    }

    #[test]
    fn what_a_model_says_cannot_draw_on_the_terminal() {
        let place = Place::new();
        let script = ends("red \u{1b}[31m, title \u{1b}]0;owned\u{7}, reverse \u{202e}txt.exe");
        let done = place.play(&script, &[]);
        for text in [&done.stdout, &done.stderr] {
            assert!(
                !text.contains('\u{1b}') && !text.contains('\u{7}'),
                "{text:?}"
            );
            assert!(!text.contains('\u{202e}'), "{text:?}");
        }
        assert!(done.stdout.contains("txt.exe"), "{done}");
    }

    // ---- policy, tools, doctor ----

    #[test]
    fn a_verdict_is_explained_in_the_shape_of_the_contract() {
        let place = Place::new();
        let explain = |command: &str| {
            let input = json!({ "command": command }).to_string();
            let work = place.work().display().to_string();
            let done = place.run([
                "policy",
                "explain",
                "bash",
                "--input",
                &input,
                "--workspace",
                &work,
                "--json",
            ]);
            assert_eq!(done.code, Some(0), "{done}");
            let object = done.json();
            for key in [
                "verdict", "stage", "rule", "layer", "reason", "instead", "parts",
            ] {
                assert!(object.get(key).is_some(), "{key}: {object}");
            }
            object
        };
        let allowed = explain("git status");
        assert_eq!(allowed["verdict"], "allow", "{allowed}");
        let asked = explain("git status && git push");
        assert_eq!(asked["verdict"], "ask", "{asked}");
        assert_eq!(asked["rule"], "push-asks", "{asked}");
        assert_eq!(asked["parts"].as_array().map(Vec::len), Some(2), "{asked}");
        let denied = explain("rm -rf /");
        assert_eq!(denied["verdict"], "deny", "{denied}");
        assert_eq!(denied["stage"], "safety", "{denied}");
        assert!(denied["instead"].is_string(), "{denied}");
        assert!(
            settled(place.root()).is_empty(),
            "nothing is started to explain"
        );
    }

    #[test]
    fn a_good_policy_is_said_to_be_good() {
        let place = Place::new();
        let policy = place
            .policy("version = 1\nname = \"mine\"\nextends = \"ci\"\n")
            .display()
            .to_string();
        let done = place.run(["policy", "check", &policy, "--json"]);
        assert_eq!(done.code, Some(0), "{done}");
        let object = done.json();
        assert_eq!(
            (&object["ok"], &object["name"]),
            (&json!(true), &json!("mine")),
            "{object}"
        );
    }

    #[test]
    fn policies_are_tested_compared_learned_and_imported() {
        let place = Place::new();
        let policy = place
            .policy("version = 1\nname = \"mine\"\nextends = \"ci\"\n")
            .display()
            .to_string();
        let folder = std::path::Path::new(&policy)
            .parent()
            .expect("a folder")
            .to_owned();
        let write = |name: &str, text: &str| -> String {
            let file = folder.join(name);
            std::fs::write(&file, text).expect("written");
            file.display().to_string()
        };
        let cases = "version = 1\n[[case]]\ncommand = \"git push\"\nverdict = \"deny\"\nrule = \"no-push\"\n";
        write("mine.cases.toml", cases);
        let done = place.run(["policy", "test", &policy]);
        assert_eq!(done.code, Some(0), "{done}");
        assert!(done.stdout.contains("1 of 1 case(s) hold"), "{done}");
        let wrong = write("wrong.txt", &cases.replace("deny", "allow"));
        let done = place.run(["policy", "test", &policy, "--cases", &wrong, "--json"]);
        assert_eq!(done.code, Some(1), "{done}");
        assert!(done.stdout.contains("wanted allow"), "{done}");
        let broken = write("broken.txt", "version = 1\n[[case]]\ncomand = \"x\"\n");
        let done = place.run(["policy", "test", &policy, "--cases", &broken]);
        assert_eq!(done.code, Some(78), "{done}");
        assert!(done.stderr.contains("unknown key `comand`"), "{done}");

        let done = place.run(["policy", "diff", "ci", "default", "--exit-code"]);
        assert_eq!(done.code, Some(1), "{done}");
        assert!(done.stdout.contains("never → onRequest"), "{done}");
        let done = place.run(["policy", "diff", "ci", &policy, "--exit-code"]);
        assert_eq!(done.code, Some(0), "{done}");

        let calls = write(
            "calls.jsonl",
            "{\"tool\":\"bash\",\"input\":{\"command\":\"git push origin main\"}}\n",
        );
        let done = place.run(["policy", "suggest", &calls]);
        assert_eq!(done.code, Some(0), "{done}");
        assert!(
            done.stdout.contains("command = [\"git push origin main\"]"),
            "{done}"
        );

        let settings = write(
            "settings.json",
            "{\"permissions\":{\"deny\":[\"Bash(curl:*)\",\"WebSearch\"]}}",
        );
        let done = place.run(["policy", "import", "--from", "claude-settings", &settings]);
        assert_eq!(done.code, Some(0), "{done}");
        assert!(done.stderr.contains("WebSearch"), "{done}");
        let imported = write("imported.toml", &done.stdout);
        let done = place.run(["policy", "check", &imported]);
        assert_eq!(done.code, Some(0), "{done}");
        let done = place.run(["policy", "import", "--from", "codex-rules", &settings]);
        assert_eq!(done.code, Some(78), "{done}");
    }

    #[test]
    fn tools_are_listed_with_closed_schemas() {
        let place = Place::new();
        let done = place.run(["tools", "list", "--json"]);
        assert_eq!(done.code, Some(0), "{done}");
        let object = done.json();
        let tools = object["tools"].as_array().expect("a list");
        let names: Vec<&str> = tools
            .iter()
            .filter_map(|tool| tool["name"].as_str())
            .collect();
        let wanted = [
            "ask_user",
            "bash",
            "edit_file",
            "glob",
            "grep",
            "job_kill",
            "job_output",
            "list_directory",
            "list_tables",
            "read_file",
            "run_sql",
            "submit_plan",
            "write_file",
        ];
        assert_eq!(names, wanted);
        for tool in tools {
            assert_eq!(
                tool["input_schema"]["additionalProperties"], false,
                "{tool}"
            );
        }
        let shown = place.run(["tools", "list"]);
        assert_eq!(shown.stdout.lines().count(), wanted.len(), "{shown}");
    }

    #[test]
    fn a_tool_call_is_0_when_it_ran_and_1_when_it_was_refused() {
        for account in Account::all() {
            let place = Place::of(account);
            let ran = place.call("bash", &json!({ "command": "echo out; exit 7" }), &[]);
            assert_eq!(ran.code, Some(0), "it ran, whatever it returned: {ran}");
            let object = ran.json();
            assert_eq!(
                (&object["exit"], &object["output"]),
                (&json!(7), &json!("out\n"))
            );
            let refused = place.call("bash", &json!({ "command": "rm -rf /" }), &[]);
            assert_eq!(refused.code, Some(1), "{refused}");
            fits("refused.json", &refused.json());
            assert_eq!(refused.json()["refused"]["stage"], "safety");
            let wrong = place.call("bash", &json!({ "commnd": "ls" }), &[]);
            assert_eq!(wrong.code, Some(1), "{wrong}");
            assert_eq!(wrong.json()["refused"]["stage"], "input", "{wrong}");
            let session = place.session().expect("a session");
            assert!(!place.tree(&session).exists(), "a trial leaves no layer");
        }
    }

    #[test]
    fn a_call_is_judged_under_the_mode_that_was_asked_for() {
        let place = Place::new();
        let push = json!({ "command": "git push" });
        let asked = place.call("bash", &push, &[]);
        assert_eq!(asked.json()["refused"]["stage"], "mode", "{asked}");
        let never = place.call("bash", &push, &["--mode", "never"]);
        assert_eq!(never.code, Some(1), "{never}");
        let bypassed = place.call("bash", &push, &["--mode", "bypass"]);
        assert_eq!(bypassed.code, Some(0), "{bypassed}");
        let safe = place.call(
            "bash",
            &json!({ "command": "rm -rf /" }),
            &["--mode", "bypass"],
        );
        assert_eq!(
            safe.code,
            Some(1),
            "no mode bypasses the safety check: {safe}"
        );
    }

    #[test]
    fn run_sql_answers_word_for_word() {
        let place = Place::new();
        let database = format!("reservo={}", place.reservo().display());
        let ask = |query: &str| {
            let done = place.call(
                "run_sql",
                &json!({ "query": query }),
                &["--database", &database],
            );
            assert_eq!(done.code, Some(0), "{done}");
            done.stdout
        };
        let table = [
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
                "SELECT name, capacity FROM rooms WHERE capacity >= 4 ORDER BY capacity",
                r#"{"ok":true,"columns":["name","capacity"],"rows":[["Studio",4],["Lounge",6],["Boardroom",10]],"truncated":false}"#,
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
                "SELECT tier, COUNT(*) AS n FROM members GROUP BY tier",
                r#"{"ok":true,"columns":["tier","n"],"rows":[["basic",4],["pro",4]],"truncated":false}"#,
            ),
            (
                "SELECT ';--'",
                r#"{"ok":true,"columns":["';--'"],"rows":[[";--"]],"truncated":false}"#,
            ),
        ];
        for (query, answer) in table {
            assert_eq!(ask(query), format!("{answer}\n"), "{query}");
        }
        for query in [
            "VALUES (1)",
            "EXPLAIN SELECT 1",
            "PRAGMA table_info(rooms)",
            "ATTACH 'x' AS y",
        ] {
            let answer = ask(query);
            let first = query.split(' ').next().unwrap_or_default();
            let wanted = format!(r#"{{"ok":false,"error":"not a read (starts with {first})"}}"#);
            assert_eq!(answer, format!("{wanted}\n"), "{query}");
        }
    }

    #[test]
    fn run_sql_keeps_the_cap_of_the_policy() {
        let place = Place::new();
        let file = place.reservo();
        let policy = format!(
            "version = 1\nname = \"t\"\nextends = \"default\"\n[[database]]\nname = \"reservo\"\npath = \"{}\"\nmax_rows = 3\n",
            file.display()
        );
        let policy = place.policy(&policy).display().to_string();
        let done = place.call(
            "run_sql",
            &json!({ "query": "SELECT name FROM rooms ORDER BY id" }),
            &["--policy", &policy],
        );
        let wanted = r#"{"ok":true,"columns":["name"],"rows":[["Focus"],["Studio"],["Boardroom"]],"truncated":true}"#;
        assert_eq!(done.stdout, format!("{wanted}\n"), "{done}");
    }

    #[test]
    fn a_declared_database_is_in_nobodys_view() {
        let place = Place::new();
        let outside = place.reservo();
        let inside = place.work().join("data.db");
        must("a copy", std::fs::copy(&outside, &inside));
        place.mode("work/data.db", 0o644);
        let database = format!("reservo={}", inside.display());
        let more = ["--database", database.as_str()];
        let looked = place.call(
            "bash",
            &json!({ "command": "ls -A; cat data.db | head -c 15; cat @ | true" }),
            &more,
        );
        assert!(!looked.stdout.contains("SQLite format"), "{looked}");
        let answered = place.call(
            "run_sql",
            &json!({ "query": "SELECT COUNT(*) FROM rooms" }),
            &more,
        );
        assert!(answered.stdout.contains("[[5]]"), "{answered}");
    }

    #[test]
    fn the_doctor_tells_each_right_by_what_and_the_bounds() {
        let place = Place::new();
        let done = place.run(["doctor", "--json"]);
        assert_eq!(done.code, Some(0), "{done}");
        let object = done.json();
        assert_eq!(object["starts"], true);
        assert_eq!(object["situation"], "A");
        assert!(object["landlock_abi"].as_u64() >= Some(1), "{object}");
        let rights = object["rights"].as_array().expect("rights");
        assert!(rights.len() >= 15, "{object}");
        for right in rights {
            assert!(
                right["by"].as_str().is_some_and(|by| !by.is_empty()),
                "{right}"
            );
        }
        let shown = place.run(["doctor"]);
        assert_eq!(shown.code, Some(0), "{shown}");
        assert!(shown.stdout.contains("net.tcp"), "{shown}");
    }

    // ---- the record ----

    #[test]
    fn sessions_are_listed_and_shown_and_certified() {
        let place = Place::new();
        let first = place
            .play(&format!("{}{}", calls("echo 1"), ends("one")), &[])
            .session();
        let second = place.play(&ends("two"), &[]).session();
        let list = place.run(["sessions", "list", "--json"]).json();
        let ids: Vec<&str> = list["sessions"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|row| row["id"].as_str())
            .collect();
        assert_eq!(ids.len(), 2, "{list}");
        assert!(ids.contains(&first.as_str()) && ids.contains(&second.as_str()));
        let shown = place.run(["sessions", "list"]);
        assert!(
            shown.stdout.contains("done") && shown.stdout.contains("the task"),
            "{shown}"
        );

        let shown = place.run(["sessions", "show", &first, "--transitions"]);
        for word in [
            "certificate",
            "started",
            "verdict",
            "intent",
            "outcome",
            "transition",
            "turn ended",
            "ended",
        ] {
            assert!(shown.stdout.contains(word), "{word}: {shown}");
        }
        let entries = place.entries(&first);
        for (at, entry) in entries.iter().enumerate() {
            assert_eq!(entry["seq"], at + 1, "no entry is missing");
        }
        assert!(
            !entries
                .iter()
                .any(|entry| entry.to_string().contains("is damaged")),
            "all can be read"
        );

        let certificate = place.run(["certificate", &first, "--json"]).json();
        assert_eq!(certificate["backend"], "landlock");
        assert_eq!(certificate["capabilities"], "0000000000000000");
        let rights = certificate["rights"].as_array().expect("rights");
        assert!(
            rights.len() >= 21
                && rights
                    .iter()
                    .all(|right| right["held"] == true || right["floor"] == "preferred"),
            "{certificate}"
        );
        let shown = place.run(["certificate", &first]);
        for word in [
            "files.read",
            "read.outside",
            "twin works",
            "disk",
            "watched",
        ] {
            assert!(shown.stdout.contains(word), "{word}: {shown}");
        }
    }

    #[test]
    fn an_edited_record_is_named() {
        let place = Place::new();
        let script = format!("{}{}", calls("echo 1"), ends("one"));
        let done = place.play(&script, &[]);
        let session = done.session();
        let head = done
            .stderr
            .lines()
            .find_map(|line| line.strip_prefix("audit head"));
        let head = head.expect("a head").trim().to_owned();
        let clean = place.run(["audit", "verify", "--head", &head]);
        assert_eq!(clean.code, Some(0), "{clean}");

        let record =
            || rusqlite::Connection::open(place.state().join("record.db")).expect("the record");
        let changed = record()
            .execute(
                "UPDATE audit SET body = replace(body, 'echo 1', 'echo 2') WHERE kind = 'intent'",
                [],
            )
            .expect("edited");
        assert_eq!(changed, 1);
        let edited = place.run(["audit", "verify"]);
        assert_eq!(edited.code, Some(1), "{edited}");
        assert!(
            edited.stdout.contains("edit") && edited.stdout.contains(&session),
            "{edited}"
        );
        let json = place.run(["audit", "verify", "--json"]);
        assert_eq!(json.json()["faults"][0]["kind"]["fault"], "edit", "{json}");

        record()
            .execute(
                "UPDATE audit SET body = replace(body, 'echo 2', 'echo 1') WHERE kind = 'intent'",
                [],
            )
            .expect("mended");
        assert_eq!(place.run(["audit", "verify"]).code, Some(0), "as it was");
        let last = "DELETE FROM audit WHERE seq = (SELECT MAX(seq) FROM audit)";
        assert_eq!(record().execute(last, []).expect("cut"), 1);
        let cut = place.run(["audit", "verify", "--head", &head]);
        assert_eq!(
            cut.code,
            Some(1),
            "a cut tail shows against a head kept elsewhere: {cut}"
        );
    }

    #[test]
    fn an_export_is_verified_elsewhere_with_the_key_and_the_heads_that_were_kept() {
        let place = Place::new();
        let kept = place.root().join("work/heads.txt");
        let script = format!("{}{}", calls("printf 'x\\n{}\\n'"), ends("one"));
        let to = kept.display().to_string();
        let done = place.play(&script, &["--audit-head", &to]);
        assert_eq!(done.code, Some(0), "{done}");
        let session = done.session();
        let heads = std::fs::read_to_string(&kept).expect("heads were sent");
        assert!(heads.lines().count() >= 2, "certificate and end: {heads}");
        assert!(
            heads.lines().all(|line| line.starts_with(&session)),
            "{heads}"
        );

        let public = place.root().join("work/public");
        std::fs::copy(place.state().join("audit.pub"), &public).expect("kept elsewhere");
        let public = public.display().to_string();
        let own = place.run(["audit", "verify", "--key", &public, "--head", &to]);
        assert_eq!(own.code, Some(0), "{own}");

        let file = place.root().join("work/audit.jsonl");
        let file = file.display().to_string();
        let export = place.run(["audit", "export", "--out", &file]);
        assert_eq!(export.code, Some(0), "{export}");
        let again = place.run(["audit", "export", "--out", &file]);
        assert_eq!(
            again.code,
            Some(78),
            "evidence is not written over: {again}"
        );
        let check = || {
            place.run([
                "audit", "verify", "--export", &file, "--key", &public, "--head", &to,
            ])
        };
        assert_eq!(check().code, Some(0), "{}", check());
        let text = std::fs::read_to_string(&file).expect("the export");
        let edited = text.replacen("\"permit\":", "\"permit\": ", 1);
        assert_ne!(edited, text, "something was edited");
        std::fs::write(&file, edited).expect("edited");
        let found = check();
        assert_eq!(found.code, Some(1), "{found}");
        assert!(found.stdout.contains("edit"), "{found}");

        let events = place.run(["audit", "export", &session, "--format", "ocsf"]);
        let kinds: Vec<serde_json::Value> = events
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).expect("an event a line"))
            .collect();
        let classes = |class: u64| kinds.iter().any(|event| event["class_uid"] == class);
        assert!(classes(6002) && classes(1007) && classes(6003), "{events}");
    }

    #[test]
    fn heads_go_to_a_log_and_a_log_that_is_gone_is_told() {
        let place = Place::new();
        let socket = place.root().join("work/log.sock");
        let log = std::os::unix::net::UnixDatagram::bind(&socket).expect("a log");
        log.set_read_timeout(Some(std::time::Duration::from_secs(5)))
            .expect("bounded");
        let word = format!("syslog:{}", socket.display());
        let done = place.play(&ends("one"), &["--audit-head", &word]);
        assert_eq!(done.code, Some(0), "{done}");
        let mut line = [0; 2_048];
        let got = log.recv(&mut line).expect("a line");
        let line = String::from_utf8_lossy(&line[..got]).into_owned();
        assert!(
            line.starts_with("<86>provost[") && line.contains(&done.session()),
            "{line}"
        );
        drop(log);
        std::fs::remove_file(&socket).expect("gone");
        let refused = place.play(&ends("one"), &["--audit-head", &word]);
        assert_eq!(refused.code, Some(77), "{refused}");
        assert!(refused.stderr.contains("--audit-head"), "{refused}");
    }
}
