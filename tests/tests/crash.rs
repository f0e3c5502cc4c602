//! Deaths at any moment: of the supervisor, of the agent, of hands. What was committed stays, nothing
//! is left running, what was in flight is told as unknown, and the session goes on.

#[cfg(test)]
mod crash {
    use std::{os::unix::process::ExitStatusExt as _, time::Duration};

    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };
    use provost_tests::harness::{
        Account, Done, Live, Place, Process, processes_of, settled, until,
    };
    use serde_json::{Value, json};

    const END: Duration = Duration::from_secs(60);
    const SOON: Duration = Duration::from_secs(30);

    fn line(object: &Value) -> String {
        format!("{object}\n")
    }

    fn calls(command: &str) -> String {
        line(
            &json!({ "text": "", "tool_calls": [{ "name": "bash", "input": { "command": command } }], "stop": "tool" }),
        )
    }

    fn ends() -> String {
        line(&json!({ "text": "All went on.", "stop": "end" }))
    }

    /// A command that marks its begin and would mark its end.
    fn long() -> String {
        calls("echo >> begun; sleep 600; echo >> finished")
    }

    fn begun(place: &Place) -> String {
        until("the command runs", SOON, || {
            let session = place.session()?;
            place
                .tree(&session)
                .join("begun")
                .exists()
                .then_some(session)
        })
    }

    /// Kinds of the events by number, as another process reads them from the database.
    fn events(place: &Place) -> Vec<String> {
        place.ask_record("SELECT seq || ' ' || kind FROM events ORDER BY seq")
    }

    fn killed(live: Live) -> Done {
        live.signal(Signal::SIGKILL);
        let done = live.wait(END);
        assert_eq!(done.signal, Some(9), "{done}");
        done
    }

    fn role(place: &Place, name: &str) -> Process {
        until(&format!("the process of {name}"), SOON, || {
            role_now(place, name)
        })
    }

    fn role_now(place: &Place, name: &str) -> Option<Process> {
        processes_of(place.root()).into_iter().find(|process| {
            let comm = std::fs::read_to_string(format!("/proc/{}/comm", process.pid));
            comm.is_ok_and(|comm| comm.trim() == name)
        })
    }

    fn end_process(process: &Process) {
        let pid = Pid::from_raw(i32::try_from(process.pid).expect("a pid"));
        // It may have ended by itself in this very moment.
        let _ = kill(pid, Signal::SIGKILL);
    }

    fn alone(place: &Place) {
        let left = settled(place.root());
        assert!(left.is_empty(), "still running after 3 s: {left:#?}");
    }

    /// Takes the session up again and looks that it came to its end.
    fn goes_on(place: &Place, session: &str) -> Done {
        let done = place.run(["resume", session]);
        assert_eq!(done.code, Some(0), "{done}");
        assert_eq!(done.stdout, "All went on.\n", "{done}");
        let verified = place.run(["audit", "verify", session]);
        assert_eq!(verified.code, Some(0), "{verified}");
        done
    }

    #[test]
    fn a_supervisor_that_dies_during_a_command_leaves_nothing_and_is_told() {
        for account in Account::all() {
            let place = Place::of(account);
            let live = place.start_play(&format!("{}{}", long(), ends()), &[]);
            let session = begun(&place);
            assert!(
                processes_of(place.root()).len() >= 5,
                "the search sees the jail"
            );
            killed(live);
            alone(&place);
            let before = place.told(&session);
            let intent = before
                .iter()
                .find(|entry| entry["kind"] == "intent")
                .expect("an intent");
            assert!(
                !before.iter().any(|entry| entry["kind"] == "outcome"),
                "{before:#?}"
            );
            let listed = place.run(["sessions", "list"]);
            assert!(listed.stdout.contains("cut"), "{listed}");

            let done = goes_on(&place, &session);
            assert!(done.stderr.contains("was in flight"), "{done}");
            let after = place.told(&session);
            assert_eq!(
                after[..before.len()],
                before[..],
                "what was committed stands"
            );
            let unknown: Vec<_> = after
                .iter()
                .filter(|entry| entry["kind"] == "unknown")
                .collect();
            assert_eq!(unknown.len(), 1, "{after:#?}");
            assert_eq!(unknown[0]["call"], intent["call"]);
            let told = after.iter().any(|entry| {
                let text = entry["message"].to_string();
                text.contains("tool_result") && text.contains("unknown")
            });
            assert!(told, "the model hears of it");
            let tree = place.tree(&session);
            let times = std::fs::read_to_string(tree.join("begun")).expect("begun");
            assert_eq!(times, "\n", "it was not repeated");
            assert!(!tree.join("finished").exists());
        }
    }

    #[test]
    fn a_supervisor_that_dies_while_the_model_thinks_asks_again() {
        let place = Place::new();
        let slow = json!({ "text": "", "tool_calls": [{ "name": "bash", "input": { "command": "echo 2 > b" } }], "stop": "tool", "delay_ms": 4_000 });
        let script = format!("{}{}{}", calls("echo 1 > a"), line(&slow), ends());
        let live = place.start_play(&script, &[]);
        let session = until("the second model call", SOON, || {
            let session = place.session()?;
            let begun = place.state().join("record.db").exists()
                && place.tree(&session).join("a").exists()
                && place
                    .ask_record("SELECT kind FROM audit WHERE kind = 'infer_intent'")
                    .len()
                    == 2;
            begun.then_some(session)
        });
        let before = events(&place);
        killed(live);
        alone(&place);
        goes_on(&place, &session);
        let after = events(&place);
        assert_eq!(after[..before.len()], before[..], "no event is lost");
        let tree = place.tree(&session);
        assert!(tree.join("a").exists() && tree.join("b").exists());
        let runs = place.told(&session);
        let first = runs.iter().filter(|entry| {
            entry["kind"] == "intent" && entry["what"].to_string().contains("echo 1")
        });
        assert_eq!(first.count(), 1, "what was done is not done again");
    }

    /// Writes and writes again: `f.txt` changes between two whole contents, `gN.txt` come new.
    fn row_of_writes(new: &str) -> String {
        let mut script = String::new();
        for round in 0..12 {
            let content = if round % 2 == 0 { new } else { "old\n" };
            let calls = json!([
                { "name": "read_file", "input": { "file_path": "f.txt", "limit": 1 } },
                { "name": "write_file", "input": { "file_path": "f.txt", "content": content } },
                { "name": "write_file", "input": { "file_path": format!("g{round}.txt"), "content": new } },
            ]);
            script.push_str(&line(
                &json!({ "text": "", "tool_calls": calls, "stop": "tool" }),
            ));
        }
        script + &ends()
    }

    fn none_is_torn(place: &Place, session: &str, new: &str, may_hold_temporary: bool) {
        for entry in std::fs::read_dir(place.tree(session))
            .expect("the tree")
            .flatten()
        {
            let name = entry.file_name().into_string().expect("a name");
            if may_hold_temporary && name.starts_with(".provost-") {
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).expect("a file");
            let old = !text.is_empty() && text.lines().all(|line| line == "old");
            assert!(old || text == new, "`{name}` is torn: {} bytes", text.len());
        }
    }

    #[test]
    fn a_death_at_any_moment_of_a_row_of_writes_tears_no_file() {
        let new = "new\n".repeat(20_000);
        let cases = ["supervisor", "provost-agent", "provost-hands"];
        for (who, moment) in cases
            .iter()
            .flat_map(|who| [0, 15, 40, 90].map(|ms| (*who, ms)))
        {
            let place = Place::new();
            place.write("work/f.txt", "old\n".repeat(20_000));
            let mut live = place.start_play(&row_of_writes(&new), &[]);
            let session = until("the first file", SOON, || {
                let session = place.session()?;
                place
                    .tree(&session)
                    .join("g0.txt")
                    .exists()
                    .then_some(session)
            });
            std::thread::sleep(Duration::from_millis(moment));
            let before = events(&place);
            if who == "supervisor" {
                if !live.has_ended() {
                    live.signal(Signal::SIGKILL);
                }
            } else if let Some(process) = role_now(&place, who) {
                end_process(&process);
            }
            let done = live.wait(END);
            alone(&place);
            none_is_torn(&place, &session, &new, true);
            // On a fast machine all may have been written before the blow fell.
            if done.code != Some(0) {
                goes_on(&place, &session);
            }
            let after = events(&place);
            assert_eq!(
                after[..before.len()],
                before[..],
                "no event is lost: {who} after {moment} ms"
            );
            none_is_torn(&place, &session, &new, false);
            assert!(
                place.tree(&session).join("g11.txt").exists(),
                "{who} after {moment} ms"
            );
        }
    }

    #[test]
    fn an_agent_that_dies_ends_its_session_and_the_session_goes_on() {
        for account in Account::all() {
            let place = Place::of(account);
            let live = place.start_play(&format!("{}{}", long(), ends()), &[]);
            let session = begun(&place);
            end_process(&role(&place, "provost-agent"));
            let done = live.wait(END);
            assert_eq!(done.code, Some(1), "{done}");
            alone(&place);
            let entries = place.told(&session);
            let end = entries
                .iter()
                .find(|entry| entry["kind"] == "ended")
                .expect("an end");
            assert_eq!(end["outcome"], "fault", "{end}");
            let done = place.run(["resume", &session]);
            assert_eq!(done.code, Some(0), "{done}");
            assert_eq!(done.stdout, "All went on.\n", "{done}");
            assert_eq!(place.run(["audit", "verify"]).code, Some(0));
            assert!(!place.tree(&session).join("finished").exists());
        }
    }

    #[test]
    fn hands_that_die_end_their_session_and_the_session_goes_on() {
        for account in Account::all() {
            let place = Place::of(account);
            let live = place.start_play(&format!("{}{}", long(), ends()), &[]);
            let session = begun(&place);
            end_process(&role(&place, "provost-hands"));
            let done = live.wait(END);
            assert_eq!(done.code, Some(1), "{done}");
            alone(&place);
            let entries = place.told(&session);
            assert!(
                entries.iter().any(|entry| entry["kind"] == "ended"),
                "{entries:#?}"
            );
            let done = place.run(["resume", &session]);
            assert_eq!(done.code, Some(0), "{done}");
            assert_eq!(place.run(["audit", "verify"]).code, Some(0));
        }
    }

    #[test]
    fn a_warden_that_dies_takes_its_command_along_and_nothing_else() {
        let place = Place::new();
        let script = format!("{}{}{}", long(), calls("echo next > next"), ends());
        let live = place.start_play(&script, &[]);
        let session = begun(&place);
        end_process(&role(&place, "warden"));
        let done = live.wait(END);
        alone(&place);
        assert!(!place.tree(&session).join("finished").exists(), "{done}");
        assert!(
            place.tree(&session).join("next").exists() || done.code == Some(1),
            "the command failed and the session went on, or it ended as a fault: {done}"
        );
    }

    #[test]
    fn a_supervisor_that_dies_at_any_moment_of_its_start_leaves_nothing() {
        for moment in [1_u64, 5, 10, 20, 30, 45, 60, 80] {
            let place = Place::new();
            place.write("work/a.txt", "a\n");
            let live = place.start_play(&format!("{}{}", calls("echo 1 > a.txt"), ends()), &[]);
            std::thread::sleep(Duration::from_millis(moment));
            live.signal(Signal::SIGKILL);
            live.wait(END);
            alone(&place);
            // The next one starts, whatever the first had begun.
            let done = place.play(&ends(), &[]);
            assert_eq!(done.code, Some(0), "after {moment} ms: {done}");
            assert_eq!(
                place.run(["audit", "verify"]).code,
                Some(0),
                "after {moment} ms"
            );
        }
    }

    #[test]
    fn a_session_that_is_served_is_taken_over_by_nobody() {
        let place = Place::new();
        let live = place.start_play(&format!("{}{}", long(), ends()), &[]);
        let session = begun(&place);
        let second = place.run(["resume", &session]);
        assert_eq!(second.code, Some(77), "{second}");
        assert!(second.stderr.contains("busy"), "{second}");
        let beside = place.play(&ends(), &[]);
        assert_eq!(
            beside.code,
            Some(0),
            "another session starts beside it: {beside}"
        );
        let entries = place.told(&session);
        assert!(
            !entries.iter().any(|entry| entry["kind"] == "unknown"),
            "it was not marked"
        );
        killed(live);
        alone(&place);
    }

    #[test]
    fn sixteen_supervisors_share_one_record() {
        let place = Place::new();
        let script = place
            .script(&format!("{}{}", calls("echo 1"), ends()))
            .display()
            .to_string();
        let work = place.work().display().to_string();
        let all: Vec<Live> = (0..16)
            .map(|_| place.start(["run", "--workspace", &work, "--script", &script, "x"]))
            .collect();
        for live in all {
            let done = live.wait(Duration::from_secs(120));
            assert_eq!(done.code, Some(0), "{done}");
        }
        let verified = place.run(["audit", "verify", "--json"]).json();
        assert_eq!(verified, json!({ "v": 1, "sessions": 16, "faults": [] }));
    }

    #[test]
    fn the_harness_tells_a_kill_from_an_exit() {
        let status = std::process::Command::new("sh")
            .args(["-c", "kill -9 $$"])
            .status();
        assert_eq!(status.expect("sh").signal(), Some(9));
    }
}
