//! A lying worker under the real supervisor: one test for each lie. Whatever it says, the session ends
//! as documented, the record names the lie, nothing of what the lie was for has happened, and nothing
//! is left.

#[cfg(test)]
mod hostile {
    use std::{
        net::TcpListener,
        os::{linux::net::SocketAddrExt as _, unix::net::UnixListener},
        path::Path,
        time::{Duration, Instant},
    };

    use protocol::{
        jail::ProbePlan,
        phase::{Phase, RequestKind, agent_may},
    };
    use provost_tests::{
        harness::{Done, Live, Place, must, settled, skipped, some, until},
        lies::{self, Chosen, FILE, MOMENT, OWNED},
    };
    use serde_json::{Value, json};

    /// Longest that a session of a liar may take; a hang is a failure.
    const LONGEST: Duration = Duration::from_secs(40);

    /// A model that answers at length, and slowly enough that it is still at it.
    fn slow_answer() -> String {
        let line = json!({ "text": "a word ", "delay_ms": 1_500, "stop": "end" });
        format!("{line}\n{line}\n")
    }

    /// A model that lets a command announce the moment and stay.
    fn moment() -> String {
        let command = format!("touch {MOMENT}; sleep 4");
        let call = json!({ "name": "bash", "input": { "command": command } });
        let calls = json!({ "text": "", "tool_calls": [call], "stop": "tool" });
        format!("{calls}\n{}\n", json!({ "text": "done", "stop": "end" }))
    }

    /// A place whose workspace asks for a lie, and what the lie tries to reach.
    struct Scene {
        place: Place,
        _tcp: TcpListener,
        _unix: UnixListener,
        _abstract: UnixListener,
    }

    impl Scene {
        fn new(lie: &str) -> Self {
            let place = Place::new();
            place.write("work/readme", "as it was\n");
            place.write("outside/secret", "the secret\n");
            let tcp = must("a listener", TcpListener::bind("127.0.0.1:0"));
            let path = place.root().join("outside/socket");
            let unix = must("a socket", UnixListener::bind(&path));
            let port = must("a port", tcp.local_addr()).port();
            let name = format!("provost-hostile-{port}");
            let address = std::os::unix::net::SocketAddr::from_abstract_name(&name);
            let hidden = address.and_then(|address| UnixListener::bind_addr(&address));
            let text = |path: &Path| path.display().to_string();
            let plan = ProbePlan {
                outside_file: text(&place.root().join("outside/secret")),
                outside_folder: text(&place.root().join("outside")),
                hidden: Vec::new(),
                tcp_port: port,
                unix_path: text(&path),
                unix_abstract: name,
                queue: String::new(),
                ipc_namespace: std::fs::read_link("/proc/self/ns/ipc")
                    .expect("a namespace")
                    .display()
                    .to_string(),
                shared_memory: String::new(),
                supervisor_pid: i32::try_from(std::process::id()).unwrap_or(i32::MAX),
                workspace: text(&place.work()),
                tmp: "/tmp".to_owned(),
            };
            let lie = lie.to_owned();
            let chosen = must("json", serde_json::to_string(&Chosen { lie, plan }));
            place.write(&format!("work/{FILE}"), chosen);
            Self {
                place,
                _tcp: tcp,
                _unix: unix,
                _abstract: must("an abstract socket", hidden),
            }
        }

        fn start(&self, worker: &Path, script: &str) -> Live {
            let mut command = self.place.play_command(script, &["--output", "json"]);
            command.env("PROVOST_WORKER", worker);
            Live::start(command)
        }

        /// Everything that the record has of the session.
        fn told(&self) -> Vec<Value> {
            self.place.told(&some("a session", self.place.session()))
        }

        /// Nothing of what a lie is for, and nothing left.
        fn is_clean(&self, lie: &str) {
            let session = some("a session", self.place.session());
            for folder in [self.place.work(), self.place.tree(&session)] {
                assert!(!folder.join(OWNED).exists(), "{lie}: it had its effect");
                let readme = folder.join("readme");
                // The layer of an overlay says nothing of what nobody changed.
                if folder == self.place.work() || readme.symlink_metadata().is_ok() {
                    let text = std::fs::read_to_string(readme);
                    assert_eq!(must("readme", text), "as it was\n", "{lie}");
                }
            }
            let secret = self.place.read("outside/secret");
            assert_eq!(secret.as_deref(), Some("the secret\n"), "{lie}");
            assert_eq!(settled(self.place.root()), [], "{lie}: processes are left");
            let verified = self.place.run(["audit", "verify"]);
            assert_eq!(verified.code, Some(0), "{lie}: {verified}");
        }
    }

    fn kinds<'e>(entries: &'e [Value], kind: &'e str) -> impl Iterator<Item = &'e Value> {
        entries.iter().filter(move |entry| entry["kind"] == kind)
    }

    /// Tells the lie, and gives how the session ended; `None` if there is no liar here.
    fn tell(lie: &str, script: &str) -> Option<(Scene, Done)> {
        let worker = lies::worker();
        if skipped(
            worker.is_some(),
            "the lying worker is not built: `make liar`",
        ) {
            return None;
        }
        let scene = Scene::new(lie);
        let done = scene.start(&some("the liar", worker), script).wait(LONGEST);
        Some((scene, done))
    }

    /// The session ends as a fault of that link, in those words.
    fn is_a_fault(lie: &str, script: &str, link: &str, words: &str) {
        let Some((scene, done)) = tell(lie, script) else {
            return;
        };
        assert_eq!(done.code, Some(1), "{lie}: {done}");
        assert_eq!(done.json()["outcome"], "fault", "{lie}: {done}");
        let entries = scene.told();
        let faults: Vec<_> = kinds(&entries, "fault").collect();
        assert_eq!(faults.len(), 1, "{lie}: {entries:#?}");
        let what = faults[0]["what"].as_str().unwrap_or_default();
        assert!(what.contains(words), "{lie}: {what}");
        assert_eq!(faults[0]["link"], link, "{lie}");
        let ended = some("an end", kinds(&entries, "ended").next());
        assert_eq!(ended["outcome"], "fault", "{lie}");
        assert!(
            ended["reason"]
                .as_str()
                .is_some_and(|why| why.contains(words)),
            "{lie}: {ended}"
        );
        scene.is_clean(lie);
    }

    fn agent(lie: &str, words: &str) {
        is_a_fault(lie, &slow_answer(), "agent", words);
    }

    /// A lie for which its phase is the fault.
    fn out_of_phase(lie: &str, words: &str) {
        agent(lie, words);
    }

    /// Hands' lie beside its honest answers.
    fn hands(lie: &str, words: &str) {
        is_a_fault(lie, &moment(), "hands", words);
    }

    /// The agent is not there any more, and the record says how it left.
    fn left(lie: &str, how: &str) {
        let Some((scene, done)) = tell(lie, &slow_answer()) else {
            return;
        };
        assert_eq!(done.code, Some(1), "{lie}: {done}");
        assert_eq!(done.json()["outcome"], "fault", "{lie}: {done}");
        let entries = scene.told();
        let gone: Vec<_> = kinds(&entries, "left").collect();
        assert_eq!(gone.len(), 1, "{lie}: {entries:#?}");
        let reason = done.json()["reason"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(reason.contains(how), "{lie}: {reason}");
        scene.is_clean(lie);
    }

    /// The deed is answered with death: the kernel's filter, and nobody else.
    fn killed(lie: &str) {
        left(lie, "ended by signal 31");
        // `left` has looked at everything; that it came to the deed is in the record as well.
    }

    /// The deed is refused and survived; the session ends in order.
    fn refused(lie: &str) {
        let Some((scene, done)) = tell(lie, &slow_answer()) else {
            return;
        };
        assert_eq!(done.code, Some(0), "{lie}: {done}");
        let text = done.json()["text"].as_str().unwrap_or_default().to_owned();
        let deed = lie.strip_prefix("deed_").unwrap_or(lie);
        assert!(text.starts_with(&format!("{deed}: ")), "{lie}: {text}");
        assert!(!text.contains("succeeded"), "{lie}: {text}");
        let entries = scene.told();
        assert_eq!(kinds(&entries, "transition").count(), 1, "{lie}");
        scene.is_clean(lie);
    }

    /// The one call is answered with a refusal or a failure, and the session goes on to its end.
    fn answered(lie: &str, words: &str) {
        let Some((scene, done)) = tell(lie, &slow_answer()) else {
            return;
        };
        assert_eq!(done.code, Some(0), "{lie}: {done}");
        let text = done.json()["text"].as_str().unwrap_or_default().to_owned();
        assert!(text.contains(words), "{lie}: {text}");
        scene.is_clean(lie);
    }

    /// A jail that greets falsely is no session: refused at start, in those words.
    fn refused_at_start(lie: &str, words: &str) {
        let Some((scene, done)) = tell(lie, &slow_answer()) else {
            return;
        };
        assert_eq!(done.code, Some(77), "{lie}: {done}");
        assert!(done.stderr.contains(words), "{lie}: {done}");
        assert_eq!(settled(scene.place.root()), [], "{lie}: processes are left");
        let listed = scene.place.run(["sessions", "list", "--json"]);
        assert!(!listed.stdout.contains("\"done\""), "{lie}: {listed}");
    }

    macro_rules! lies {
        ($($check:ident { $($lie:ident $(: $words:literal)?;)* })*) => {
            $($(
                #[test]
                fn $lie() {
                    $check(stringify!($lie) $(, $words)?);
                }
            )*)*

            /// Every lie that the macro has made a test of.
            const TOLD: &[&str] = &[$($(stringify!($lie)),*),*];
        };
    }

    lies! {
        // Every row of the treaty's table for the agent.
        out_of_phase {
            in_greeting_infer: "`Infer` is not permitted in phase `Greeting`";
            in_greeting_calls: "`Calls` is not permitted in phase `Greeting`";
            in_greeting_settled: "`Settled` is not permitted in phase `Greeting`";
            in_greeting_append: "`Append` is not permitted in phase `Greeting`";
            in_greeting_transition: "`Transition` is not permitted in phase `Greeting`";
            in_greeting_note: "`Note` is not permitted in phase `Greeting`";
            in_greeting_turn_ended: "`TurnEnded` is not permitted in phase `Greeting`";
            in_idle_hello: "`Hello` is not permitted in phase `Idle`";
            in_idle_infer: "`Infer` is not permitted in phase `Idle`";
            in_idle_calls: "`Calls` is not permitted in phase `Idle`";
            in_idle_settled: "`Settled` is not permitted in phase `Idle`";
            in_idle_transition: "`Transition` is not permitted in phase `Idle`";
            in_idle_turn_ended: "`TurnEnded` is not permitted in phase `Idle`";
            greets_twice: "`Hello` is not permitted in phase `Turn`";
            // After the end nothing is heard: the first fault is the only one, and no call is judged.
            in_ended_hello: "`never` was settled";
            in_ended_infer: "`never` was settled";
            in_ended_calls: "`never` was settled";
            in_ended_settled: "`never` was settled";
            in_ended_append: "`never` was settled";
            in_ended_transition: "`never` was settled";
            in_ended_note: "`never` was settled";
            in_ended_turn_ended: "`never` was settled";
        }
        agent {
            of_another_build: "install both from one release";
            of_another_version: "install both from one release";
            in_another_role: "expected the role `agent`";
            in_another_session: "names another session";
            never_greets: "no greeting within 5 s";
            an_oversize_frame: "a frame of 2147483648 bytes exceeds the bound";
            deep_nesting: "nests deeper than";
            garbage: "does not decode";
            an_empty_frame: "does not decode";
            two_values_in_a_frame: "does not decode";
            an_unknown_tag: "unknown variant";
            an_unknown_field: "unknown field";
            a_call_twice: "call `a` is asked for twice";
            a_call_twice_in_a_batch: "call `a` is asked for twice";
            a_batch_of_11: "a batch of 11 calls";
            a_batch_of_none: "a batch of 0 calls";
            settled_never_asked: "`never` was settled, but no read of that id was allowed";
            settled_an_effect: "`a` was settled, but no read of that id was allowed";
            settled_a_refusal: "`a` was settled, but no read of that id was allowed";
            settled_twice: "`a` was settled, but no read of that id was allowed";
            appends_as_the_model: "only the supervisor records what a model said";
            infers_twice: "a second model call while one is running";
            a_malformed_reason: "a malformed reason";
            a_long_reason: "a malformed reason";
            a_large_frame_for_a_small_word: "that is no model request";
            a_flood_of_notes: "more than 2000 frames a second";
            half_a_frame: "closed within a frame";
        }
        left {
            closes_at_once: "the agent process left (exit code 0)";
        }
        answered {
            forged_content: "the prepared content is not the content of the input";
            forged_base: "changed";
            an_unknown_tool: "resolve";
        }
        // Law 2: who ignores a refusal and tries it itself meets the kernel.
        killed {
            deed_write;
            deed_write_tmp;
            deed_truncate;
            // No shared mapping writes to a file that was not opened so.
            deed_open_for_both;
            deed_execute;
            deed_signal_hands;
            deed_signal_parent;
            deed_trace_hands;
            deed_limit_hands;
            deed_limit_supervisor;
            deed_connect_tcp;
            deed_connect_unix;
            deed_connect_abstract;
            deed_write_outside;
            deed_append_outside;
            deed_netlink;
            deed_listen;
            deed_call_mount;
            deed_call_unshare;
            deed_call_setns;
            deed_call_bpf;
            deed_call_io_uring;
            deed_call_keyctl;
            deed_add_key;
            deed_read_memory_of_hands;
        }
        refused {
            deed_make_folder;
            deed_rename;
            deed_remove;
            deed_link;
            deed_symlink;
            deed_thread;
            deed_pair;
            deed_pass_descriptor;
            deed_read_outside;
            deed_open_memory_of_hands;
            deed_see_hands;
            deed_list_outside;
            deed_chmod_outside;
        }
        hands {
            hands_an_exit_of_nothing: "`c99` was not running";
            hands_a_start_of_nothing: "`c99` was not ordered";
            hands_a_start_twice: "`c1` was not ordered, or ran already";
            hands_a_put_of_nothing: "order 4242 was not open";
            hands_a_resolve_of_nothing: "order 4242 was not open";
            hands_a_failure_of_nothing: "order 4242 was not open";
            hands_a_failed_agent: "the agent could not be started";
            hands_a_second_hello: "a set-up report after ready";
            hands_a_second_ready: "a set-up report after ready";
            hands_late_handles: "a set-up report after ready";
            hands_late_unfit: "a set-up report after ready";
            hands_an_oversize_frame: "a frame of 2147483648 bytes exceeds the bound";
            hands_garbage: "does not decode";
            hands_an_unknown_tag: "unknown variant";
            hands_deep_nesting: "nests deeper than";
            // The kernel has closed what came up the link: only then is this said.
            hands_a_descriptor: "order 4242 was not open";
        }
        refused_at_start {
            birth_never_greets: "not ready within 5 s";
            birth_closes_at_once: "left before the jail stood";
            birth_garbage: "does not decode";
            birth_an_oversize_frame: "exceeds the bound";
            birth_ready_first: "a report that its phase does not permit";
            birth_of_another_build: "install both from one release";
            birth_in_another_role: "expected the role `hands`";
            birth_ready_without_a_handle: "ready without its handle";
            birth_the_supervisors_own_pidfd: "is not one of this jail";
            birth_a_handle_that_is_no_pidfd: "is not one of this jail";
            birth_two_handles: "set-up handles other than";
            // It says that it stands. No probe answers, so it is not believed.
            birth_no_walls: "could not be proven";
        }
    }

    #[test]
    fn every_row_of_the_treaty_has_its_lie() {
        let phases = [
            (Phase::Greeting, "greeting"),
            (Phase::Idle, "idle"),
            (Phase::Turn, "turn"),
            (Phase::Ended, "ended"),
        ];
        let mut rows = 0;
        for (phase, word) in phases {
            for kind in RequestKind::ALL
                .into_iter()
                .filter(|kind| !agent_may(phase, *kind))
            {
                let kind = match kind {
                    RequestKind::TurnEnded => "turn_ended".to_owned(),
                    kind => format!("{kind:?}").to_lowercase(),
                };
                let name = match (word, kind.as_str()) {
                    ("turn", "hello") => "greets_twice".to_owned(),
                    (word, kind) => format!("in_{word}_{kind}"),
                };
                assert!(TOLD.contains(&name.as_str()), "no lie `{name}`");
                rows += 1;
            }
        }
        assert_eq!(rows, 7 + 6 + 1 + 8);
    }

    #[test]
    fn without_a_lie_the_same_call_has_its_effect() {
        let Some((scene, done)) = tell("nothing", &slow_answer()) else {
            return;
        };
        assert_eq!(done.code, Some(0), "{done}");
        let session = some("a session", scene.place.session());
        assert!(scene.place.tree(&session).join(OWNED).exists(), "{done}");
        assert!(!scene.place.work().join(OWNED).exists(), "before the apply");
    }

    #[test]
    fn never_reads() {
        // More pieces than may wait for it, and than any socket holds.
        let long = json!({ "text": "0123456789".repeat(6_000), "chunk": 1, "stop": "end" });
        is_a_fault(
            "never_reads",
            &format!("{long}\n"),
            "agent",
            "does not read its link",
        );
    }

    #[test]
    fn ends_with_open_calls() {
        // No lie by the table: the turn's end takes its open calls with it, and says so.
        let Some((scene, done)) = tell("ends_with_open_calls", &slow_answer()) else {
            return;
        };
        let entries = scene.told();
        assert_eq!(kinds(&entries, "intent").count(), 1, "{done}");
        let settled = ["unknown", "outcome"].map(|kind| kinds(&entries, kind).count());
        assert_eq!(settled.iter().sum::<usize>(), 1, "{entries:#?}");
        scene.is_clean("ends_with_open_calls");
    }

    #[test]
    fn hands_the_agents_end() {
        // It explains and raises nothing: the session ends, and the command with it.
        let Some((scene, done)) = tell("hands_the_agents_end", &moment()) else {
            return;
        };
        assert_eq!(done.code, Some(1), "{done}");
        let entries = scene.told();
        assert_eq!(kinds(&entries, "left").count(), 1, "{entries:#?}");
        assert_eq!(kinds(&entries, "unknown").count(), 1, "{entries:#?}");
        scene.is_clean("hands_the_agents_end");
    }

    #[test]
    fn hands_a_flood() {
        // Half a million harmless reports hold nothing up and are kept nowhere.
        let began = Instant::now();
        let Some((scene, done)) = tell("hands_a_flood", &moment()) else {
            return;
        };
        assert!(began.elapsed() < Duration::from_secs(30), "{done}");
        assert!(scene.told().len() < 100, "the record holds the flood");
        scene.is_clean("hands_a_flood");
    }

    #[test]
    fn a_lie_is_the_liars_alone() {
        let worker = lies::worker();
        if skipped(
            worker.is_some(),
            "the lying worker is not built: `make liar`",
        ) {
            return;
        }
        let scene = Scene::new("a_flood_of_notes");
        // An honest session of the same account and record, with the product's own worker.
        let command = "until test -e go; do sleep 0.1; done; echo well";
        let call = json!({ "name": "bash", "input": { "command": command } });
        let calls = json!({ "text": "", "tool_calls": [call], "stop": "tool" });
        let end = json!({ "text": "{{last_result}}", "stop": "end" });
        scene.place.write("honest/readme", "honest\n");
        let path = scene
            .place
            .write("honest.jsonl", format!("{calls}\n{end}\n"));
        let mut command = scene
            .place
            .command(["run", "--output", "json", "--workspace"]);
        command.arg(scene.place.root().join("honest"));
        command.args(["--policy", scene.place.copying()]);
        command.arg("--script").arg(path).arg("the task");
        let mut honest = Live::start(command);
        let tree = until("a tree", LONGEST, || {
            let tree = scene.place.tree(&scene.place.session()?);
            tree.join("readme").exists().then_some(tree)
        });
        for _ in 0..2 {
            let done = scene.start(&some("the liar", worker.clone()), &slow_answer());
            assert_eq!(done.wait(LONGEST).code, Some(1));
        }
        assert!(
            !honest.has_ended(),
            "it ran beside the liars: {}",
            honest.stdout()
        );
        must("the word to go on", std::fs::write(tree.join("go"), ""));
        let done = honest.wait(LONGEST);
        assert_eq!(done.code, Some(0), "{done}");
        let text = done.json()["text"].as_str().unwrap_or_default().to_owned();
        assert!(text.contains("well"), "{done}");
    }
}
