//! The commands as people and programs meet them: every exit code, every output, word for word where a
//! contract says so.

#[cfg(test)]
mod commands {
    use std::{path::Path, time::Duration};

    use nix::sys::signal::Signal;
    use provost_tests::harness::{
        Account, Done, Live, Place, is_root, must, schema, settled, skipped,
    };
    use serde_json::{Value, json};

    const END: Duration = Duration::from_secs(60);

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

    fn outcome_of(done: &Done) -> Value {
        let object = done.json();
        fits("json.json", &object);
        object
    }

    // ---- exit codes of a run ----

    #[test]
    fn done_is_0_although_calls_were_refused() {
        let place = Place::new();
        let script = format!("{}{}", calls("rm -rf /"), ends("bye"));
        let done = place.play(&script, &["--output", "json"]);
        assert_eq!(done.code, Some(0), "{done}");
        let object = outcome_of(&done);
        assert_eq!(object["outcome"], "done");
        assert_eq!(object["refusals"], 1);
        assert_eq!(object["text"], "bye");
        assert_eq!(object["calls"][0]["verdict"], "deny");
        assert_eq!(object["calls"][0]["ok"], false);
    }

    #[test]
    fn an_outage_is_1() {
        let place = Place::new();
        let script = line(&json!({ "text": "", "error": { "status": 401, "body": "no" } }));
        let done = place.play(&script, &["--output", "json"]);
        assert_eq!(done.code, Some(1), "{done}");
        assert_eq!(outcome_of(&done)["outcome"], "outage", "{done}");
    }

    #[test]
    fn the_cap_on_iterations_is_2() {
        let place = Place::new();
        let policy = place
            .policy("version = 1\nname = \"t\"\nextends = \"default\"\n[limits]\niterations = 2\n");
        let script = format!(
            "{}{}{}{}",
            calls("echo 1"),
            calls("echo 2"),
            calls("echo 3"),
            ends("bye")
        );
        let done = place.play(
            &script,
            &[
                "--policy",
                &policy.display().to_string(),
                "--output",
                "json",
            ],
        );
        assert_eq!(done.code, Some(2), "{done}");
        assert_eq!(outcome_of(&done)["outcome"], "cap");
    }

    #[test]
    fn a_budget_of_time_is_3_and_what_was_done_is_kept() {
        let place = Place::new();
        let script = format!(
            "{}{}{}",
            calls("echo kept > a.txt"),
            calls("sleep 600"),
            ends("bye")
        );
        let done = place.play(&script, &["--timeout", "3s", "--output", "json"]);
        assert_eq!(done.code, Some(3), "{done}");
        let object = outcome_of(&done);
        assert_eq!(object["outcome"], "budget");
        let tree = place.tree(object["session"].as_str().expect("a session"));
        assert_eq!(
            must("kept", std::fs::read_to_string(tree.join("a.txt"))),
            "kept\n"
        );
    }

    #[test]
    fn a_budget_of_tokens_is_3() {
        let place = Place::new();
        let policy = place
            .policy("version = 1\nname = \"t\"\nextends = \"default\"\n[limits]\ntokens = 1000\n");
        let usage = json!({ "input_uncached": 900, "cache_read": 0, "cache_write": 0, "output": 200, "reasoning": null });
        let call = json!({ "text": "", "tool_calls": [{ "name": "bash", "input": { "command": "echo 1" } }], "stop": "tool", "usage": usage });
        let script = format!("{}{}{}", line(&call), line(&call), ends("bye"));
        let done = place.play(
            &script,
            &[
                "--policy",
                &policy.display().to_string(),
                "--output",
                "json",
            ],
        );
        assert_eq!(done.code, Some(3), "{done}");
        assert_eq!(outcome_of(&done)["outcome"], "budget");
    }

    #[test]
    fn usage_is_64() {
        let place = Place::new();
        let work = place.work().display().to_string();
        let script = place.script(&ends("bye")).display().to_string();
        let cases: &[&[&str]] = &[
            &[],
            &["fly"],
            &["run"],
            &["run", "--fly", "x"],
            &["run", "--workspace", &work, "--script", &script, " "],
            &[
                "run",
                "--workspace",
                &work,
                "--script",
                &script,
                "--timeout",
                "soon",
                "x",
            ],
            &[
                "run",
                "--workspace",
                &work,
                "--script",
                &script,
                "--mode",
                "yolo",
                "x",
            ],
            &[
                "run",
                "--workspace",
                &work,
                "--script",
                &script,
                "--database",
                "reservo",
                "x",
            ],
            &[
                "run",
                "--workspace",
                "/nowhere/at/all",
                "--script",
                &script,
                "x",
            ],
            &[
                "tools",
                "call",
                "bash",
                "--input",
                "{",
                "--workspace",
                &work,
            ],
            &[
                "tools",
                "call",
                "fly",
                "--input",
                "{}",
                "--workspace",
                &work,
            ],
            &["sessions", "show", "s-none"],
        ];
        for case in cases {
            let done = place.run(*case);
            assert_eq!(done.code, Some(64), "{case:?}: {done}");
            assert!(!done.stderr.trim().is_empty(), "{case:?} says nothing");
            assert_eq!(done.stdout, "", "{case:?}: programs read stdout");
        }
        let help = place.run(["--help"]);
        assert_eq!(help.code, Some(0), "{help}");
        assert!(help.stdout.contains("doctor"), "{help}");
    }

    #[test]
    fn a_place_or_a_worker_that_is_unfit_is_77() {
        let place = Place::new();
        let script = format!("{}{}", calls("true"), ends("bye"));
        let mut command = place.play_command(&script, &[]);
        command.env("PROVOST_WORKER", "/nowhere/provost-worker");
        let done = Live::start(command).wait(END);
        assert_eq!(done.code, Some(77), "{done}");
        assert!(done.stderr.starts_with("provost: "), "{done}");
        assert!(done.stderr.contains("provost-worker"), "{done}");

        let root = place.root().display().to_string();
        let done = place.run(["run", "--workspace", &root, "--script", "script.jsonl", "x"]);
        assert_eq!(
            done.code,
            Some(77),
            "its own record would be in the view: {done}"
        );
        assert!(
            done.stderr.contains("PROVOST_STATE_DIR"),
            "the remedy: {done}"
        );

        place.mode("state", 0o777);
        let done = place.play(&script, &[]);
        assert_eq!(
            done.code,
            Some(77),
            "anybody could change the record: {done}"
        );
        assert!(done.stderr.contains("chmod 700"), "the remedy: {done}");
        place.mode("state", 0o700);
        assert_eq!(place.play(&script, &[]).code, Some(0), "and then it starts");
    }

    #[test]
    fn without_namespaces_it_is_77_with_cause_and_remedy() {
        if skipped(is_root(), "another account can only be become by root") {
            return;
        }
        let place = Place::of(Account::Ordinary);
        let script = place.script(&format!("{}{}", calls("true"), ends("bye")));
        // Within a user namespace of its own that may have no more of them: nothing of the host changes.
        let inside = r#"echo 0 > /proc/sys/user/max_user_namespaces || exit 99
            exec setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all -- "$@""#;
        let run = |arguments: &[&str]| {
            let provost = place.command(["--help"]).get_program().to_owned();
            let mut command = place.program(
                Path::new("unshare"),
                [
                    "-U",
                    "--map-current-user",
                    "--keep-caps",
                    "sh",
                    "-c",
                    inside,
                    "sh",
                ],
            );
            command.arg(provost).args(arguments);
            Live::start(command).wait(END)
        };
        let work = place.work().display().to_string();
        let script = script.display().to_string();
        let done = run(&["run", "--workspace", &work, "--script", &script, "x"]);
        if skipped(
            done.code != Some(99) && !done.stderr.contains("unshare:"),
            &done.stderr,
        ) {
            return;
        }
        assert_eq!(done.code, Some(77), "{done}");
        assert!(done.stderr.contains("namespace"), "the cause: {done}");
        assert!(done.stderr.contains("help:"), "the remedy: {done}");
        let doctor = run(&["doctor", "--json"]);
        assert_eq!(doctor.code, Some(77), "{doctor}");
        let object = doctor.json();
        assert_eq!(object["starts"], false);
        assert!(
            object["cause"]
                .as_str()
                .is_some_and(|cause| cause.contains("namespace")),
            "{object}"
        );
    }

    #[test]
    fn a_bad_policy_is_78_with_a_caret_under_it() {
        let place = Place::new();
        let text = "version = 1\nname = \"t\"\nextends = \"default\"\n[[rule]]\nid = \"x\"\ntool = \"bash\"\ncommand = [\"git push\"]\nverdict = \"maybe\"\nreason = \"r\"\n";
        let policy = place.policy(text).display().to_string();
        for done in [
            place.play(&ends("bye"), &["--policy", &policy]),
            place.run(["policy", "check", &policy]),
        ] {
            assert_eq!(done.code, Some(78), "{done}");
            let lines: Vec<&str> = done.stderr.lines().collect();
            let at = lines
                .iter()
                .position(|line| line.contains("verdict = \"maybe\""));
            let at = at.unwrap_or_else(|| panic!("the line is shown: {done}"));
            assert!(lines[at + 1].contains('^'), "{done}");
            assert!(done.stderr.contains("policy.toml:8:"), "file, line: {done}");
        }
        let false_example =
            text.replace("\"maybe\"", "\"deny\"") + "examples = { match = [\"git status\"] }\n";
        let policy = place.policy(&false_example).display().to_string();
        let done = place.run(["policy", "check", &policy]);
        assert_eq!(done.code, Some(78), "an example that does not hold: {done}");
        assert!(done.stderr.contains("git status"), "{done}");
        let done = place.play(&ends("bye"), &["--policy", "nobody-wrote-it"]);
        assert_eq!(done.code, Some(78), "{done}");
    }

    #[test]
    fn no_key_is_78_and_names_the_three_ways() {
        let place = Place::new();
        let work = place.work().display().to_string();
        let done = place.run([
            "run",
            "--workspace",
            &work,
            "--model",
            "anthropic/claude-sonnet-5",
            "x",
        ]);
        assert_eq!(done.code, Some(78), "{done}");
        for way in ["keys/", "ANTHROPIC_API_KEY", "--script"] {
            assert!(done.stderr.contains(way), "{way}: {done}");
        }
    }

    fn running(place: &Place) -> Live {
        let script = format!("{}{}", calls("echo begun > begun; sleep 600"), ends("bye"));
        let mut live = place.start_play(&script, &[]);
        live.await_stderr("certificate");
        provost_tests::harness::until("the command runs", Duration::from_secs(30), || {
            place
                .tree(&place.session()?)
                .join("begun")
                .exists()
                .then_some(())
        });
        live
    }

    #[test]
    fn an_interrupt_cancels_the_turn_and_is_130() {
        for account in Account::all() {
            let place = Place::of(account);
            let live = running(&place);
            live.signal(Signal::SIGINT);
            let done = live.wait(END);
            assert_eq!(done.code, Some(130), "{done}");
            assert!(done.stderr.contains("cancelled"), "{done}");
            assert!(settled(place.root()).is_empty());
            let session = done.session();
            let last = place.told(&session);
            let end = last
                .iter()
                .rev()
                .find(|entry| entry["kind"] == "turn_ended")
                .expect("an end");
            assert_eq!(end["reason"], "cancelled", "the history is whole: {end}");
            // The layer is there, and what was done before the cancel is in it.
            assert!(place.tree(&session).join("begun").exists());
        }
    }

    #[test]
    fn two_interrupts_end_the_session_and_are_130() {
        let place = Place::new();
        let live = running(&place);
        live.signal(Signal::SIGINT);
        std::thread::sleep(Duration::from_millis(5));
        live.signal(Signal::SIGINT);
        let done = live.wait(END);
        // The second one may come when everything is over.
        assert!(done.code == Some(130) || done.signal == Some(2), "{done}");
    }

    #[test]
    fn a_termination_ends_in_order_and_is_143() {
        let place = Place::new();
        let live = running(&place);
        live.signal(Signal::SIGTERM);
        let done = live.wait(END);
        assert_eq!(done.code, Some(143), "{done}");
        assert!(settled(place.root()).is_empty());
        let entries = place.told(&done.session());
        let end = entries
            .iter()
            .find(|entry| entry["kind"] == "ended")
            .expect("an end");
        assert_eq!(end["outcome"], "cancelled", "{end}");
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

        let certificate = place.run(["certificate", &first]).json();
        assert_eq!(certificate["backend"], "landlock");
        assert_eq!(certificate["capabilities"], "0000000000000000");
        let rights = certificate["rights"].as_array().expect("rights");
        assert!(
            rights.len() >= 15 && rights.iter().all(|right| right["held"] == true),
            "{certificate}"
        );
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
}
