//! Hooks of the user, the project and the organisation in real sessions: what they may do, what they
//! may not, where they run, and what is told of them.

#[cfg(test)]
mod hooks {
    use std::{
        fmt::Write as _,
        path::Path,
        process::Command,
        time::{Duration, Instant},
    };

    use nix::sys::signal::Signal;
    use provost_tests::harness::{Account, Done, Live, Place, is_root, schema, skipped};
    use serde_json::{Value, json};

    const END: Duration = Duration::from_secs(60);

    /// One answer of the model with one command.
    fn bash(command: &str) -> String {
        let call = json!({ "text": "", "tool_calls": [{ "name": "bash", "input": { "command": command } }], "stop": "tool" });
        format!("{call}\n")
    }

    fn says(text: &str) -> String {
        format!("{}\n", json!({ "text": text, "stop": "end" }))
    }

    /// A policy with these hooks: `(id, event, more keys)`; each runs `./ID.sh` beside the policy.
    fn policy(hooks: &[(&str, &str, &str)], more: &str) -> String {
        let mut text = String::from("version = 1\nname = \"test\"\nextends = \"default\"\n");
        for (id, event, keys) in hooks {
            let _ = write!(
                text,
                "[[hook]]\nid = \"{id}\"\nevent = \"{event}\"\ncommand = [\"./{id}.sh\"]\n{keys}\n"
            );
        }
        text + more
    }

    fn hook(place: &Place, id: &str, body: &str) {
        place.write(&format!("{id}.sh"), format!("#!/bin/sh\n{body}\n"));
    }

    fn play(place: &Place, policy: &str, script: &str) -> Done {
        let policy = place.policy(policy).display().to_string();
        place.play(script, &["--policy", &policy])
    }

    fn told(place: &Place, kind: &str) -> Vec<Value> {
        let entries = place.told(&place.session().expect("a session"));
        let mine = entries.into_iter().filter(|entry| entry["kind"] == kind);
        mine.collect()
    }

    /// What the model read of its calls.
    fn results(place: &Place) -> Vec<String> {
        let parts = told(place, "message").into_iter();
        let parts = parts.filter_map(|entry| entry["message"]["parts"].as_array().cloned());
        let results = parts
            .flatten()
            .filter_map(|part| part["tool_result"]["content"].as_str().map(str::to_owned));
        results.collect()
    }

    /// What people and hooks said to the model.
    fn words(place: &Place) -> Vec<String> {
        let messages = told(place, "message").into_iter();
        let users = messages.filter(|entry| entry["message"]["role"] == "user");
        let parts = users.filter_map(|entry| entry["message"]["parts"].as_array().cloned());
        let texts = parts
            .flatten()
            .filter_map(|part| part["text"]["text"].as_str().map(str::to_owned));
        texts.collect()
    }

    /// Name and outcome of every hook that ended.
    fn ends(place: &Place) -> Vec<(String, String)> {
        let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let ended = told(place, "hook_ended");
        let ended = ended
            .iter()
            .map(|entry| (text(entry, "hook"), text(entry, "outcome")));
        ended.collect()
    }

    fn made(place: &Place, name: &str) -> bool {
        place
            .tree(&place.session().expect("a session"))
            .join(name)
            .exists()
    }

    /// The same in the tree of one of several sessions.
    fn made_in(place: &Place, done: &Done, name: &str) -> bool {
        place.tree(&done.session()).join(name).exists()
    }

    #[test]
    fn exit_two_denies_with_the_reason_and_the_record_names_the_hook() {
        for account in Account::all() {
            let place = Place::of(account);
            hook(
                &place,
                "no-a",
                "if grep -q '\"touch a\"'; then echo 'a is taken' >&2; exit 2; fi; echo chatter >&2",
            );
            let policy = policy(&[("no-a", "pre_tool", "tool = [\"bash\"]")], "");
            let script = bash("touch a") + &bash("touch b") + &says("done");
            let done = play(&place, &policy, &script);
            assert_eq!(done.code, Some(0), "{done}");
            let results = results(&place);
            assert!(
                results[0].contains("a hook said no: a is taken (rule no-a)"),
                "{results:?}"
            );
            assert!(!made(&place, "a") && made(&place, "b"), "{done}");
            let ends = ends(&place);
            let name = |word: &str| ("user/no-a".to_owned(), word.to_owned());
            assert_eq!(ends, [name("deny"), name("passed")]);
            let began = told(&place, "hook_began");
            assert_eq!(began.len(), 2, "an intent before each run");
            let why = place.run(["why", "last", "1"]);
            assert!(
                why.stdout.contains("user/no-a at pre_tool: deny")
                    && why.stdout.contains("a is taken"),
                "{why}"
            );
            let audit = place.run(["audit", "verify"]);
            assert_eq!(audit.code, Some(0), "{audit}");
        }
    }

    #[test]
    fn a_rewritten_input_is_what_runs_and_it_is_judged_anew() {
        let place = Place::new();
        hook(
            &place,
            "swap",
            r#"case "$(cat)" in
*'"touch a"'*) echo '{"decision":"rewrite","input":{"command":"touch b"}}' ;;
*'"touch c"'*) echo '{"decision":"rewrite","input":{"command":"rm d"}}' ;;
*'"touch e"'*) echo '{"decision":"rewrite","input":{"line":1}}' ;;
*'"read_file"'*) echo '{"decision":"rewrite","input":{"file_path":"other"}}' ;;
esac"#,
        );
        let rule = "[[rule]]\nid = \"no-rm\"\ntool = \"bash\"\ncommand = [\"rm\"]\nverdict = \"deny\"\nreason = \"nothing is removed\"\nexamples = { match = [\"rm d\"], differ = [\"ls\"] }\n";
        let policy = policy(&[("swap", "pre_tool", "")], rule);
        place.write("work/d", "d");
        let read = json!({ "text": "", "tool_calls": [{ "name": "read_file", "input": { "file_path": "d" } }], "stop": "tool" });
        let script = bash("touch a")
            + &bash("touch c")
            + &bash("touch e")
            + &format!("{read}\n")
            + &says("done");
        let done = play(&place, &policy, &script);
        assert_eq!(done.code, Some(0), "{done}");
        assert!(made(&place, "b") && !made(&place, "a"), "{done}");
        let results = results(&place);
        // The rewritten line meets the rule as any other.
        assert!(results[1].contains("nothing is removed"), "{results:?}");
        assert!(results[2].contains("an input that is none"), "{results:?}");
        assert!(
            results[3].contains("wants this input instead"),
            "what the agent does by itself is not changed behind its back: {results:?}"
        );
        let said = words(&place).join("\n");
        assert!(
            said.contains("was changed to {\"command\":\"touch b\"}"),
            "{said}"
        );
        // The verdict is about what ran.
        let verdicts = told(&place, "verdict");
        assert_eq!(verdicts[0]["input"]["command"], "touch b");
    }

    #[test]
    fn a_word_in_favour_lowers_neither_a_deny_nor_an_ask() {
        let place = Place::new();
        hook(
            &place,
            "yes",
            "cat >/dev/null; echo '{\"decision\":\"allow\",\"reason\":\"trust me\"}'",
        );
        let rules = "[[rule]]\nid = \"no-rm\"\ntool = \"bash\"\ncommand = [\"rm\"]\nverdict = \"deny\"\nreason = \"never\"\nexamples = { match = [\"rm d\"], differ = [\"ls\"] }\n[[rule]]\nid = \"ask-touch\"\ntool = \"bash\"\ncommand = [\"touch\"]\nverdict = \"ask\"\nreason = \"a person sees it\"\nexamples = { match = [\"touch d\"], differ = [\"ls\"] }\n";
        let hooks = [("yes", "pre_tool", "")];
        let script = bash("rm d") + &bash("touch d") + &says("done");
        let done = play(&place, &policy(&hooks, rules), &script);
        assert_eq!(done.code, Some(0), "{done}");
        let results = results(&place);
        assert!(
            results[0].contains("permission denied: never"),
            "{results:?}"
        );
        assert!(results[1].contains("nobody can be asked"), "{results:?}");
        assert!(!made(&place, "d"));
        assert!(ends(&place).iter().all(|(_, outcome)| outcome == "allow"));
    }

    #[test]
    fn a_required_hook_that_gives_no_answer_denies_and_another_is_reported() {
        for (body, why) in [
            ("exit 7", "exit code 7"),
            ("kill -9 $$", "signal 9"),
            ("echo nonsense", "is not an answer"),
            ("sleep 30", "ended after 1 s"),
            ("yes", "more than 1024 KiB"),
        ] {
            for required in [true, false] {
                let place = Place::new();
                hook(&place, "odd", body);
                let keys = format!("required = {required}\ntimeout = \"1s\"");
                let policy = policy(&[("odd", "pre_tool", &keys)], "");
                let began = Instant::now();
                let done = play(&place, &policy, &(bash("touch a") + &says("done")));
                assert_eq!(done.code, Some(0), "{body}: {done}");
                assert!(began.elapsed() < Duration::from_secs(25), "{body}");
                assert_eq!(made(&place, "a"), !required, "{body}: {done}");
                let ended = told(&place, "hook_ended");
                assert_eq!(ended[0]["outcome"], "failed", "{body}");
                let what = ended[0]["what"].as_str().expect("why");
                assert!(what.contains(why), "{body}: {what}");
                assert!(done.stderr.contains(why), "it is reported: {done}");
                if required {
                    let results = results(&place);
                    assert!(results[0].contains("required hook failed"), "{results:?}");
                }
            }
        }
    }

    #[test]
    fn a_projects_hook_runs_when_exactly_its_bytes_are_approved() {
        for account in Account::all() {
            let place = Place::of(account);
            let text = "version = 1\n[[hook]]\nid = \"own\"\nevent = \"pre_tool\"\ncommand = [\"./own.sh\"]\n";
            place.write("work/.provost.toml", text);
            let script = "#!/bin/sh\ntouch ran\n";
            place.write("work/own.sh", script);
            let conversation = bash("ls") + &says("done");
            let work = place.work().display().to_string();
            let hooks = |words: &[&str]| {
                let mut args = vec!["hooks"];
                args.extend(words);
                args.extend(["--workspace", &work]);
                place.run(args)
            };
            let digest = || {
                let listed = hooks(&["list", "--json"]);
                assert_eq!(
                    schema::against("hooks.json", &listed.json()),
                    Vec::<String>::new()
                );
                let found = listed.json()["hooks"][0].clone();
                (
                    found["state"].as_str().expect("a state").to_owned(),
                    found["digest"].as_str().expect("a digest").to_owned(),
                )
            };

            let done = place.play(&conversation, &[]);
            assert_eq!(done.code, Some(0), "{done}");
            assert!(done.stderr.contains("nobody has approved it"), "{done}");
            assert!(
                !made_in(&place, &done, "ran"),
                "opening a workspace starts nothing"
            );

            // Without a terminal only the digest of what was seen approves.
            assert_eq!(hooks(&["approve", "own"]).code, Some(64));
            let (state, first) = digest();
            assert_eq!(state, "unapproved");
            let approved = hooks(&["approve", "own", "--digest", &first]);
            assert_eq!(approved.code, Some(0), "{approved}");
            assert_eq!(digest(), ("runs".to_owned(), first.clone()));
            let done = place.play(&conversation, &[]);
            assert_eq!(done.code, Some(0), "{done}");
            assert!(made_in(&place, &done, "ran"), "{done}");

            // One byte more, and it is nobody's again; so it is with another argument.
            place.write("work/own.sh", format!("{script}\n"));
            assert_eq!(digest().0, "unapproved");
            let done = place.play(&conversation, &[]);
            assert!(!made_in(&place, &done, "ran"), "{done}");
            assert_eq!(
                hooks(&["approve", "own", "--digest", &first]).code,
                Some(1),
                "a digest of other bytes"
            );
            place.write("work/own.sh", script);
            assert_eq!(digest(), ("runs".to_owned(), first.clone()));
            place.write(
                "work/.provost.toml",
                text.replace("own.sh\"", "own.sh\", \"x\""),
            );
            assert_eq!(digest().0, "unapproved");
            place.write("work/.provost.toml", text);

            assert_eq!(hooks(&["revoke", "own"]).code, Some(0));
            assert_eq!(digest().0, "unapproved");
            assert_eq!(hooks(&["revoke", "own"]).code, Some(1));
        }
    }

    #[test]
    fn the_approved_bytes_run_whatever_the_session_writes_over_them() {
        let place = Place::new();
        let text = "version = 1\n[[hook]]\nid = \"own\"\nevent = \"pre_tool\"\ncommand = [\"./own.sh\"]\nrequired = true\n";
        place.write("work/.provost.toml", text);
        place.write(
            "work/own.sh",
            "#!/bin/sh\nif grep -q forbidden; then exit 2; fi\n",
        );
        let work = place.work().display().to_string();
        let listed = place.run(["hooks", "list", "--json", "--workspace", &work]);
        let digest = listed.json()["hooks"][0]["digest"].clone();
        let digest = digest.as_str().expect("a digest");
        let approved = place.run([
            "hooks",
            "approve",
            "own",
            "--digest",
            digest,
            "--workspace",
            &work,
        ]);
        assert_eq!(approved.code, Some(0), "{approved}");
        let script = bash("printf '#!/bin/sh\\nexit 0\\n' > own.sh; chmod +x own.sh; cat own.sh")
            + &bash("touch forbidden")
            + &says("done");
        let done = place.play(&script, &[]);
        assert_eq!(done.code, Some(0), "{done}");
        let results = results(&place);
        assert!(
            results[0].contains("exit 0"),
            "it was overwritten: {results:?}"
        );
        assert!(results[1].contains("a hook said no"), "{results:?}");
        assert!(!made(&place, "forbidden"));
    }

    #[test]
    fn a_required_hook_that_nobody_approved_denies() {
        let place = Place::new();
        let text = "version = 1\n[[hook]]\nid = \"own\"\nevent = \"pre_tool\"\ncommand = [\"./own.sh\"]\nrequired = true\n";
        place.write("work/.provost.toml", text);
        place.write("work/own.sh", "#!/bin/sh\n");
        let done = place.play(&(bash("touch a") + &says("done")), &[]);
        assert_eq!(done.code, Some(0), "{done}");
        assert!(!made(&place, "a"));
        assert!(results(&place)[0].contains("nobody has approved it"));
        assert_eq!(
            ends(&place),
            [("project/own".to_owned(), "absent".to_owned())]
        );
    }

    #[test]
    fn a_users_hook_is_confined_as_a_command_is() {
        for account in Account::all() {
            let place = Place::of(account);
            let canary = place.write("canary", "seen");
            let body = format!(
                r#"cat > input.json
c=shut; cat {} && c=open
n=shut; (exec 3<>/dev/tcp/127.0.0.1/1) 2>/dev/null && n=open
k=none; env | grep -qi 'key\|token' && k=some
echo "{{\"context\":\"canary $c, net $n, keys $k\"}}""#,
                canary.display()
            );
            hook(&place, "look", &body);
            let policy = policy(&[("look", "pre_tool", "")], "");
            let done = play(&place, &policy, &(bash("ls") + &says("done")));
            assert_eq!(done.code, Some(0), "{done}");
            let said = words(&place).join("\n");
            assert!(
                said.contains("[Hook user/look: canary shut, net shut, keys none]"),
                "{said}\n{done}"
            );
            // The twin: it does work there, in the session's own tree.
            let tree = place.tree(&place.session().expect("a session"));
            let input = std::fs::read_to_string(tree.join("input.json")).expect("written");
            let input: Value = serde_json::from_str(&input).expect("one object");
            assert_eq!(input["event"], "pre_tool");
            assert_eq!(input["tool"], "bash");
            assert_eq!(input["input"]["command"], "ls");
            assert_eq!(input["hook"], "user/look");
            assert!(!place.work().join("input.json").exists());
        }
    }

    #[test]
    fn every_event_of_a_session_is_told_in_its_order() {
        let place = Place::new();
        let events = [
            "session_start",
            "query_start",
            "iteration_start",
            "pre_tool",
            "post_tool",
            "tool_uses_complete",
            "stop",
            "query_complete",
            "session_end",
        ];
        let hooks: Vec<(&str, &str, &str)> = events
            .iter()
            .map(|event| (*event, *event, "required = true"))
            .collect();
        for event in events {
            hook(&place, event, "cat >> told; echo >> told");
        }
        let read = json!({ "text": "", "tool_calls": [{ "name": "read_file", "input": { "file_path": "d" } }], "stop": "tool" });
        place.write("work/d", "d");
        let script = format!("{read}\n") + &bash("true") + &says("bye");
        let done = play(&place, &policy(&hooks, ""), &script);
        assert_eq!(done.code, Some(0), "{done}");
        let tree = place.tree(&place.session().expect("a session"));
        let told = std::fs::read_to_string(tree.join("told")).expect("told");
        let lines: Vec<Value> = told
            .lines()
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_str(line).expect("one object"))
            .collect();
        let order: Vec<&str> = lines
            .iter()
            .map(|line| line["event"].as_str().expect("an event"))
            .collect();
        let round = [
            "iteration_start",
            "pre_tool",
            "post_tool",
            "tool_uses_complete",
        ];
        let wanted = [
            &events[..2],
            &round,
            &round,
            &["iteration_start", "stop", "query_complete", "session_end"],
        ];
        assert_eq!(order, wanted.concat(), "{done}");
        let last = &lines[lines.len() - 1];
        assert_eq!(
            (&last["outcome"], &last["calls"]),
            (&json!("done"), &json!(2))
        );
        let used = lines
            .iter()
            .rfind(|line| line["event"] == "tool_uses_complete");
        assert_eq!(used.expect("told")["calls"][0]["tool"], "bash");
    }

    #[test]
    fn a_stop_hook_gets_one_more_cycle_and_no_second() {
        let place = Place::new();
        hook(
            &place,
            "more",
            "cat > /dev/null; echo 'the tests were not run' >&2; exit 2",
        );
        let policy = policy(&[("more", "stop", "")], "");
        let script = says("I am done") + &bash("touch tested") + &says("now it is done");
        let done = play(&place, &policy, &script);
        assert_eq!(done.code, Some(0), "{done}");
        assert!(made(&place, "tested"), "{done}");
        assert!(done.stdout.contains("now it is done"), "{done}");
        assert_eq!(
            ends(&place),
            [("user/more".to_owned(), "continue".to_owned())],
            "the second end is not asked about"
        );
        assert!(
            words(&place)
                .join("\n")
                .contains("asks to go on: the tests were not run")
        );
        assert_eq!(told(&place, "turn_ended").len(), 1);
    }

    #[test]
    fn a_hook_stops_a_turn_before_the_model_is_asked() {
        let place = Place::new();
        hook(
            &place,
            "enough",
            r#"if grep -q '"iteration":2'; then echo '{"decision":"deny","reason":"one is enough"}'; fi"#,
        );
        let policy = policy(&[("enough", "iteration_start", "")], "");
        let done = play(&place, &policy, &(bash("touch a") + &says("never said")));
        assert_eq!(done.code, Some(1), "{done}");
        assert!(made(&place, "a"));
        assert_eq!(told(&place, "infer_intent").len(), 1, "{done}");
        let ended = told(&place, "turn_ended");
        assert_eq!(ended[0]["reason"], "stopped", "{ended:?}");
        assert!(done.stderr.contains("one is enough"), "{done}");
    }

    #[test]
    fn an_interrupt_ends_a_hook_that_runs() {
        let place = Place::new();
        hook(&place, "slow", "touch began; sleep 25; touch ended");
        let policy = policy(
            &[("slow", "pre_tool", "required = true\ntimeout = \"30s\"")],
            "",
        );
        let policy = place.policy(&policy).display().to_string();
        let mut live = place.start_play(&(bash("touch a") + &says("bye")), &["--policy", &policy]);
        live.await_stderr("certificate");
        provost_tests::harness::until("the hook to run", END, || {
            let session = place.session()?;
            let layer = place.tree(&session).join("began");
            layer.exists().then_some(())
        });
        let began = Instant::now();
        live.signal(Signal::SIGINT);
        let done = live.wait(END);
        assert_eq!(done.code, Some(130), "{done}");
        assert!(began.elapsed() < Duration::from_secs(10), "{done}");
        assert!(!made(&place, "a") && !made(&place, "ended"));
        assert_eq!(
            ends(&place),
            [("user/slow".to_owned(), "cancelled".to_owned())]
        );
    }

    /// Runs a prepared command where `/etc/provost` is this folder, and nobody else's.
    fn with_organisation(
        place: &Place,
        account: Account,
        folder: &Path,
        command: &Command,
    ) -> Live {
        let layer = place.root().join("etc");
        let uid = if account == Account::Ordinary {
            "65534"
        } else {
            "0"
        };
        let setup = r#"set -e
mkdir "$1"; mount -t tmpfs tmpfs "$1"; mkdir "$1/u" "$1/w"
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/u,workdir=$1/w" /etc
mkdir -p /etc/provost; cp -R "$2"/. /etc/provost/; chmod -R a+rX /etc/provost
uid=$3; shift 3
if [ "$uid" = 0 ]; then exec "$@"; fi
exec setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@""#;
        let mut outer = Command::new("unshare");
        outer.args(["-m", "--", "/bin/sh", "-c", setup, "sh"]);
        outer.arg(&layer).arg(folder).arg(uid);
        outer.arg(command.get_program()).args(command.get_args());
        outer.env_clear();
        outer.envs(
            command
                .get_envs()
                .filter_map(|(key, value)| Some((key, value?))),
        );
        outer
            .current_dir(place.root())
            .stdin(std::process::Stdio::null());
        Live::start(outer)
    }

    #[test]
    fn the_organisations_hooks_run_in_a_jail_of_their_own_and_see_what_others_left() {
        if skipped(is_root(), "only root can show a session another /etc") {
            return;
        }
        for account in Account::all() {
            let place = Place::of(account);
            hook(
                &place,
                "swap",
                r#"case "$(cat)" in *'"touch a"'*) echo '{"decision":"rewrite","input":{"command":"touch secret"}}' ;; esac"#,
            );
            let user = policy(&[("swap", "pre_tool", "")], "");
            let policy = place.policy(&user).display().to_string();
            let canary = place.write("canary", "seen");
            place.write("work/inside", "seen");
            place.write("org/policy.toml", "version = 1\n[[hook]]\nid = \"dlp\"\nevent = \"pre_tool\"\ncommand = [\"hooks/dlp.sh\"]\nrequired = true\n");
            let body = format!(
                r#"#!/bin/sh
input=$(cat)
case "$input" in *secret*) echo 'nothing secret is touched' >&2; exit 2 ;; esac
c=shut; cat {canary} {work}/inside >/dev/null 2>&1 && c=open
w=shut; (echo x > /usr/x) 2>/dev/null && w=open
echo "{{\"context\":\"uid $(id -u), files $c, system $w, at $(pwd)\"}}""#,
                canary = canary.display(),
                work = place.work().display()
            );
            place.write("org/hooks/dlp.sh", body);
            let script = bash("touch a") + &bash("touch b") + &says("done");
            let command = place.play_command(&script, &["--policy", &policy]);
            let folder = place.root().join("org");
            let done = with_organisation(&place, account, &folder, &command).wait(END);
            assert_eq!(done.code, Some(0), "{done}");
            let results = results(&place);
            assert!(
                results[0].contains("nothing secret is touched"),
                "the organisation sees what the user's hook made of it: {results:?}\n{done}"
            );
            assert!(!made(&place, "secret") && made(&place, "b"), "{done}");
            let said = words(&place).join("\n");
            assert!(
                said.contains("files shut, system shut, at /srv/provost-hooks"),
                "{said}"
            );
            let uid = match account {
                Account::Own => "uid 0,",
                Account::Ordinary => "uid 1,",
            };
            assert!(!said.contains(uid), "never as root: {said}");
        }
    }
}
