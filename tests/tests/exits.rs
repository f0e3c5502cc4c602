//! Every exit code of the documents, each one reached for real.

#[cfg(test)]
mod exits {
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

    fn outcome_of(done: &Done) -> Value {
        let object = done.json();
        let wrong = schema::against("json.json", &object);
        assert!(wrong.is_empty(), "{wrong:#?}\n{object}");
        object
    }

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
    fn without_namespaces_it_is_situation_b_and_77_where_a_required_right_is_not_held() {
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
        // Never silently: the start line and the certificate say what holds instead, and why.
        assert_eq!(done.code, Some(0), "{done}");
        assert!(done.stderr.contains("situation   B"), "{done}");
        assert!(
            done.stderr.contains("user namespaces are not available"),
            "the cause: {done}"
        );
        assert!(
            done.stderr.contains("user.max_user_namespaces"),
            "the remedy: {done}"
        );
        assert!(done.stderr.contains("landlock situation B"), "{done}");
        let policy = place.policy(
            "version = 1\nname = \"t\"\nextends = \"default\"\n[confinement.rights]\nmemory = \"required\"\n",
        );
        let policy = policy.display().to_string();
        let strict = run(&[
            "run",
            "--workspace",
            &work,
            "--script",
            &script,
            "--policy",
            &policy,
            "x",
        ]);
        assert_eq!(strict.code, Some(77), "{strict}");
        assert!(strict.stderr.contains("memory"), "the right: {strict}");
        assert!(strict.stderr.contains("help:"), "the remedy: {strict}");
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
}
