//! Whole sessions: a conversation is played, the record's transcript is held against a golden one, and
//! the workspace is looked at. `PROVOST_BLESS=1` writes the golden files anew.

#[cfg(test)]
mod scenarios {
    use std::{path::Path, process::Command};

    use provost_tests::harness::{Account, Done, Place, transcript};
    use serde_json::{Value, json};

    const PUSH: &str = r#"
version = 1
name = "test"
extends = "default"

[[rule]]
id = "no-push"
tool = "bash"
command = ["git push"]
verdict = "deny"
reason = "releases are made by people"
instead = "leave the commit, a person pushes it"
examples = { match = ["git push origin main"], differ = ["git status"] }
"#;

    fn read(name: &str) -> Option<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("scenarios")
            .join(name);
        std::fs::read_to_string(path).ok()
    }

    /// Plays `scenarios/NAME.jsonl` and holds its transcript against `NAME.golden`.
    fn golden(place: &Place, name: &str, more: &[&str]) -> Done {
        let script = read(&format!("{name}.jsonl")).expect("the conversation");
        let done = place.play(&script, more);
        assert_eq!(done.code, Some(0), "{done}");
        let found = transcript(place, &done.session());
        if std::env::var_os("PROVOST_BLESS").is_some() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
            std::fs::write(path.join(format!("{name}.golden")), &found).expect("written");
        }
        let wanted = read(&format!("{name}.golden")).expect("the golden transcript");
        for (at, (found, wanted)) in found.lines().zip(wanted.lines()).enumerate() {
            assert_eq!(found, wanted, "line {} of {name}.golden", at + 1);
        }
        assert_eq!(
            found.lines().count(),
            wanted.lines().count(),
            "{name}: {found}"
        );
        done
    }

    /// The object that the model read as the result of a call.
    fn result(place: &Place, session: &str, call: &str) -> Value {
        let entries = place.told(session);
        let parts = entries
            .iter()
            .filter_map(|entry| entry["message"]["parts"].as_array());
        let text = parts
            .flatten()
            .find(|part| part["tool_result"]["id"] == call)
            .and_then(|part| part["tool_result"]["content"].as_str())
            .unwrap_or_else(|| panic!("no result of {call}: {entries:#?}"));
        let object = &text[text.find('{').expect("an object")..=text.rfind('}').expect("its end")];
        serde_json::from_str(object).expect("an object")
    }

    fn bash(command: &str) -> String {
        bash_with(json!({ "command": command }))
    }

    fn bash_with(input: Value) -> String {
        let call = json!({ "text": "", "tool_calls": [{ "name": "bash", "input": input }], "stop": "tool" });
        format!("{call}\n{}\n", json!({ "text": "Done.", "stop": "end" }))
    }

    fn edits() -> String {
        let calls = json!([
            { "name": "write_file", "input": { "file_path": "new/deep/a.txt", "content": "a\n" } },
            { "name": "bash", "input": { "command": "echo b >> kept.txt; rm gone.txt; ln -s kept.txt link; chmod 755 run.sh; printf '\\000\\001\\377' > bin" } },
        ]);
        let first = json!({ "text": "", "tool_calls": calls, "stop": "tool" });
        format!("{first}\n{}\n", json!({ "text": "Done.", "stop": "end" }))
    }

    fn workspace(place: &Place) {
        place.write("work/kept.txt", "a\n");
        place.write("work/gone.txt", "g\n");
        place.write("work/run.sh", "#!/bin/sh\n");
    }

    fn edited(folder: &Path) {
        let read = |name: &str| std::fs::read(folder.join(name)).ok();
        assert_eq!(read("new/deep/a.txt").as_deref(), Some(&b"a\n"[..]));
        assert_eq!(read("kept.txt").as_deref(), Some(&b"a\nb\n"[..]));
        assert_eq!(read("gone.txt"), None);
        assert_eq!(read("bin").as_deref(), Some(&[0, 1, 255][..]));
        let link = std::fs::read_link(folder.join("link")).expect("a link");
        assert_eq!(link, Path::new("kept.txt"));
        use std::os::unix::fs::PermissionsExt as _;
        let mode = folder
            .join("run.sh")
            .metadata()
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o755);
    }

    #[test]
    fn an_ordinary_task_is_the_same_for_every_account() {
        for account in Account::all() {
            let place = Place::of(account);
            place.sample();
            let reservo = place.reservo();
            let database = format!("reservo={}", reservo.display());
            let done = golden(&place, "ordinary", &["--database", &database]);
            assert_eq!(done.stdout, "Done: cents below ten keep their zero.\n");
            let before = place.read("work/tally.awk").expect("there");
            assert!(
                before.contains("%d.%d"),
                "the workspace is untouched until it is applied"
            );
            let tree = place.tree(&done.session());
            let after = std::fs::read_to_string(tree.join("tally.awk")).expect("there");
            assert!(after.contains("%d.%02d"));
        }
    }

    #[test]
    fn every_refusal_says_what_layer_why_and_what_instead() {
        let place = Place::new();
        let policy = place.policy(PUSH);
        let done = golden(
            &place,
            "refusals",
            &["--policy", &policy.display().to_string()],
        );
        assert!(done.stderr.contains("no-push"), "{done}");
    }

    #[test]
    fn background_jobs_are_looked_at_killed_and_end_with_the_session() {
        for account in Account::all() {
            let place = Place::of(account);
            golden(&place, "jobs", &[]);
            // Dropping the place finds the job that was left running, if it is.
        }
    }

    #[test]
    fn hidden_files_are_in_nobodys_view() {
        let place = Place::new();
        let policy = place.policy(
            "version = 1\nname = \"test\"\nextends = \"default\"\n[filesystem]\nhide = [\".env*\", \"secrets/\"]\n",
        );
        place.write("work/.env", "TOKEN=HIDDEN\n");
        place.write("work/deep/.env.local", "TOKEN=HIDDEN\n");
        place.write("work/secrets/key.txt", "HIDDEN\n");
        place.write("work/seen.txt", "seen\n");
        // In a file, so that the text of the call shows nothing: the view alone must hold.
        place.write(
            "work/look.sh",
            "cat .env deep/.env.local secrets/key.txt; ls -A; ls -A deep; ls -A secrets\n",
        );
        let done = golden(
            &place,
            "hidden",
            &["--policy", &policy.display().to_string(), "--apply"],
        );
        let tree = place.tree(&done.session());
        let looked = result(&place, &done.session(), "script_2_0");
        assert!(!looked.to_string().contains("TOKEN"), "{looked}");
        assert!(looked.to_string().contains("seen.txt"), "{looked}");
        // In an overlay a mark that nothing can be read from stands there.
        let readable = |name: &str| std::fs::read(tree.join(name)).is_ok();
        assert!(!readable(".env") && !readable("secrets/key.txt"));
        let kept = place
            .read("work/.env")
            .expect("a hidden file is not taken for a deleted one");
        assert_eq!(kept, "TOKEN=HIDDEN\n");
        assert!(place.read("work/secrets/key.txt").is_some());
    }

    #[test]
    fn a_flood_is_cut_and_what_was_kept_lies_in_the_spool() {
        let place = Place::new();
        let done = place.play(&bash("seq 1 300000"), &[]);
        assert_eq!(done.code, Some(0), "{done}");
        let session = done.session();
        let result = result(&place, &session, "script_1_0");
        let output = result["output"].as_str().expect("output");
        assert!(output.starts_with("1\n2\n"), "the head is there");
        assert!(output.contains("300000"), "the tail is there: {result}");
        assert!(output.len() <= 80 * 1024, "{} bytes", output.len());
        let omitted = result["omitted"].as_u64().expect("a number");
        assert!(omitted > 1_000_000, "{omitted}");
        let entries = place.told(&session);
        let outcome = entries
            .iter()
            .find(|entry| entry["kind"] == "outcome")
            .expect("an outcome");
        let spool = outcome["spool"].as_str().expect("a spool");
        let blob = place
            .state()
            .join("blobs")
            .join(&spool[..2])
            .join(&spool[2..]);
        let kept = std::fs::read_to_string(blob).expect("the spool");
        assert_eq!(kept.lines().count(), 300_000);
    }

    #[test]
    fn an_endless_flood_ends_its_command_and_not_the_session() {
        let place = Place::new();
        let done = place.play(&bash("yes"), &[]);
        assert_eq!(done.code, Some(0), "{done}");
        let result = result(&place, &done.session(), "script_1_0");
        assert_eq!(result["ended_by"], "output_limit", "{result}");
    }

    #[test]
    fn output_is_cut_between_characters() {
        let place = Place::new();
        for shift in ["", "x", "xx", "xxx"] {
            let done = place.play(
                &bash(&format!(
                    "printf %s {shift}; yes '\u{1f980}' | head -c 400000"
                )),
                &[],
            );
            let session = done.session();
            let result = result(&place, &session, "script_1_0");
            let output = result["output"].as_str().expect("output");
            // 400,000 is a whole number of lines, so a broken character can only be our cut.
            assert!(
                !output.contains('\u{fffd}'),
                "cut within a character after {shift:?}"
            );
            assert!(result["omitted"].as_u64() > Some(0), "{shift:?}");
        }
    }

    #[test]
    fn a_command_over_its_time_ends_with_all_its_children() {
        let place = Place::new();
        let line = "echo before; (sleep 300 & sleep 300) & sleep 300; echo after";
        let done = place.play(&bash_with(json!({ "command": line, "timeout_s": 1 })), &[]);
        assert_eq!(done.code, Some(0), "{done}");
        let result = result(&place, &done.session(), "script_1_0");
        assert_eq!(result["ended_by"], "time_limit", "{result}");
        assert_eq!(result["output"], "before\n", "what was said is kept");
        assert!(result["ms"].as_u64() < Some(20_000), "{result}");
    }

    #[test]
    fn apply_at_the_end_changes_the_workspace() {
        for account in Account::all() {
            let place = Place::of(account);
            workspace(&place);
            let done = place.play(&edits(), &["--apply"]);
            assert_eq!(done.code, Some(0), "{done}");
            edited(&place.work());
        }
    }

    #[test]
    fn the_patch_is_what_git_applies() {
        let place = Place::new();
        workspace(&place);
        let patch = place.root().join("out.patch");
        let done = place.play(&edits(), &["--patch", &patch.display().to_string()]);
        assert_eq!(done.code, Some(0), "{done}");
        assert_eq!(
            place.read("work/kept.txt").as_deref(),
            Some("a\n"),
            "a patch applies nothing"
        );
        let git = |arguments: &[&str]| {
            let mut command = Command::new("git");
            command
                .args(arguments)
                .current_dir(place.work())
                .env("HOME", place.root());
            let status = command.status().expect("git");
            assert!(status.success(), "git {arguments:?}");
        };
        git(&["init", "-q"]);
        git(&["apply", &patch.display().to_string()]);
        edited(&place.work());
    }

    #[test]
    fn changes_are_listed_shown_applied_once_and_discarded() {
        let place = Place::new();
        workspace(&place);
        let session = place.play(&edits(), &[]).session();
        let listed = place.run(["diff", "--list", &session]);
        assert_eq!(listed.code, Some(0), "{listed}");
        for line in [
            "A bin",
            "A link",
            "A new/deep/a.txt",
            "D gone.txt",
            "M kept.txt",
            "M run.sh",
        ] {
            assert!(listed.stdout.contains(line), "{line}: {listed}");
        }
        let json = place.run(["diff", "--json", "last"]).json();
        assert!(
            json["changes"].as_array().is_some_and(|all| all.len() >= 6),
            "{json}"
        );
        let shown = place.run(["diff", &session]);
        assert!(shown.stdout.contains("+b\n"), "{shown}");
        assert_eq!(place.read("work/kept.txt").as_deref(), Some("a\n"));

        let applied = place.run(["apply", &session]);
        assert_eq!(applied.code, Some(0), "{applied}");
        edited(&place.work());
        let discarded = place.run(["discard", &session]);
        assert_eq!(discarded.code, Some(0), "{discarded}");
        assert!(!place.tree(&session).exists(), "the layer is gone");
        edited(&place.work());
        let again = place.run(["apply", &session]);
        assert_ne!(again.code, Some(0), "nothing is there to apply: {again}");
    }

    #[test]
    fn protected_names_wait_for_their_digest() {
        let place = Place::new();
        place.write("work/a.txt", "a\n");
        // The text of the call shows nothing of it: only the review at the edge can tell.
        place.write(
            "work/make.sh",
            "mkdir -p .git/hooks .github/workflows\necho 'touch /tmp/x' > .git/hooks/pre-commit\n\
             chmod +x .git/hooks/pre-commit\necho 'on: push' > .github/workflows/ci.yml\n",
        );
        let line = "echo b >> a.txt; sh make.sh";
        let done = place.play(&bash(line), &["--apply"]);
        assert_eq!(done.code, Some(0), "{done}");
        assert_eq!(
            place.read("work/a.txt").as_deref(),
            Some("a\nb\n"),
            "the rest is applied"
        );
        assert_eq!(place.read("work/.git/hooks/pre-commit"), None);
        let session = done.session();
        let json = place.run(["diff", "--json", &session]).json();
        let protected = json["protected"].to_string();
        assert!(protected.contains(".git/hooks/pre-commit"), "{json}");
        let listed = place.run(["diff", "--list", &session]);
        let line = listed
            .stdout
            .lines()
            .find(|line| line.contains("pre-commit") && line.contains("--protected"));
        let line = line.unwrap_or_else(|| panic!("{listed}"));
        let word = line.split("--protected ").nth(1).expect("the word to give");
        let word = word.trim_end_matches(')');
        let (path, digest) = word.split_once('=').expect("PATH=DIGEST");
        let wrong = place.run([
            "apply",
            &session,
            "--protected",
            &format!("{path}=0000000000"),
        ]);
        assert_eq!(wrong.code, Some(64), "{wrong}");
        assert_eq!(place.read("work/.git/hooks/pre-commit"), None);
        let right = place.run([
            "apply",
            &session,
            "--protected",
            &format!("{path}={digest}"),
        ]);
        assert_eq!(right.code, Some(0), "{right}");
        let hook = place.read("work/.git/hooks/pre-commit");
        assert_eq!(hook.as_deref(), Some("touch /tmp/x\n"), "{right}");
    }

    #[test]
    fn a_workspace_that_moved_on_is_not_overwritten() {
        let place = Place::new();
        place.write("work/a.txt", "1\n");
        place.write("work/b.txt", "1\n");
        let session = place
            .play(&bash("echo 2 > a.txt; echo 2 > b.txt"), &[])
            .session();
        place.write("work/b.txt", "somebody else\n");
        let applied = place.run(["apply", &session]);
        assert_ne!(applied.code, Some(0), "{applied}");
        assert!(applied.stderr.contains("b.txt"), "it is named: {applied}");
        assert_eq!(place.read("work/b.txt").as_deref(), Some("somebody else\n"));
        assert_eq!(
            place.read("work/a.txt").as_deref(),
            Some("1\n"),
            "all or nothing"
        );
    }

    #[test]
    fn a_workspaces_own_policy_only_tightens() {
        let place = Place::new();
        place.write(
            "work/.provost.toml",
            "version = 1\nname = \"project\"\n[[rule]]\nid = \"no-rm\"\ntool = \"bash\"\ncommand = [\"rm\"]\nverdict = \"deny\"\nreason = \"nothing is removed here\"\n",
        );
        place.write("work/a.txt", "a\n");
        let done = place.play(&bash("rm a.txt"), &[]);
        assert_eq!(done.code, Some(0), "{done}");
        assert!(
            done.stderr.contains("no-rm") && done.stderr.contains(".provost.toml"),
            "{done}"
        );
        let listed = place.run(["diff", "--list", &done.session()]);
        assert_eq!(listed.stdout, "", "nothing was removed: {listed}");

        place.write(
            "work/.provost.toml",
            "version = 1\nname = \"project\"\n[[rule]]\nid = \"push-freely\"\ntool = \"bash\"\ncommand = [\"git push\"]\nverdict = \"allow\"\nreason = \"I say so\"\n",
        );
        let refused = place.call("bash", &json!({ "command": "git push" }), &[]);
        assert!(
            refused.code == Some(78) || refused.code == Some(1),
            "an allow from the workspace is a fault or has no effect: {refused}"
        );
    }

    #[test]
    fn a_second_task_of_a_session_goes_on_with_its_tree() {
        let place = Place::new();
        let script = format!(
            "{}{}",
            bash("echo one > a.txt"),
            bash("cat a.txt; echo two > b.txt")
        );
        let session = place.play(&script, &[]).session();
        let more = place.run(["resume", &session, "go on"]);
        assert_eq!(more.code, Some(0), "{more}");
        let tree = place.tree(&session);
        assert!(
            tree.join("a.txt").exists() && tree.join("b.txt").exists(),
            "{more}"
        );
        let verified = place.run(["audit", "verify", &session]);
        assert_eq!(verified.code, Some(0), "{verified}");
    }
}
