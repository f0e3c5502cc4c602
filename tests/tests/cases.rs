//! Faults that users of other systems met, each tried on this one from outside. Names hold the ids of the
//! fault cases that they stand for; what belongs to one room stands in that room's own suite.

#[cfg(test)]
mod cases {
    use std::{
        io::{Read as _, Write as _},
        os::unix::{fs::PermissionsExt as _, net::UnixStream},
        path::PathBuf,
        time::{Duration, Instant},
    };

    use provost_tests::harness::{Account, Live, Place, is_root, skipped, until};
    use serde_json::{Value, json};

    const END: Duration = Duration::from_secs(60);
    const ASKS: &str = "version = 1\nname = \"asks\"\nextends = \"default\"\n[[rule]]\nid = \"touch-asks\"\ntool = \"bash\"\ncommand = [\"touch\"]\nverdict = \"ask\"\nreason = \"a touch is asked about\"\nexamples = { match = [\"touch a\"], differ = [\"ls\"] }\n";

    fn script(commands: &[&str]) -> String {
        let mut text = String::new();
        for command in commands {
            let call = json!({ "name": "bash", "input": { "command": command } });
            let line = json!({ "text": "", "tool_calls": [call], "stop": "tool" });
            text.push_str(&format!("{line}\n"));
        }
        text + "{\"text\":\"Done.\",\"stop\":\"end\"}\n"
    }

    /// A session that asks an operator, with its socket.
    fn asking(place: &Place) -> (Live, Value, PathBuf) {
        let policy = place.policy(ASKS).display().to_string();
        let more = ["--policy", &policy, "--approvals", "operator"];
        let live = place.start_play(&script(&["touch a"]), &more);
        let asked = until("a question", END, || {
            let list = place.run(["approvals", "list", "--json"]).json();
            list["open"].as_array()?.first().cloned()
        });
        let folder = place.root().join("run/operators");
        let mut names = std::fs::read_dir(folder).expect("a folder").flatten();
        let socket = names.next().expect("a socket").path();
        (live, asked, socket)
    }

    fn said(socket: &PathBuf, message: &Value) -> String {
        let mut stream = UnixStream::connect(socket).expect("connects");
        let body = message.to_string();
        let length = u32::try_from(body.len()).expect("short").to_be_bytes();
        stream.write_all(&length).expect("said");
        stream.write_all(body.as_bytes()).expect("said");
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut told = Vec::new();
        let _ = stream.read_to_end(&mut told);
        String::from_utf8_lossy(&told).into_owned()
    }

    /// The folders of all sessions' groups, in every hierarchy.
    fn groups() -> Vec<PathBuf> {
        let mut open = vec![PathBuf::from("/sys/fs/cgroup")];
        let mut found = Vec::new();
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                if entry.file_name() == "provost" {
                    found.push(entry.path());
                }
                open.push(entry.path());
            }
        }
        found
    }

    #[test]
    fn es_026_an_answer_cannot_bring_a_mode_along() {
        let place = Place::new();
        let (live, asked, socket) = asking(&place);
        let (number, nonce) = (&asked["question"]["question"], &asked["question"]["nonce"]);
        let answers = [
            json!({ "ask": "answer", "question": number, "nonce": nonce, "answer": { "say": "once" }, "permissionMode": "bypass" }),
            json!({ "ask": "answer", "question": number, "nonce": nonce, "answer": { "say": "once", "mode": "bypass" } }),
            json!({ "ask": "answer", "question": number, "nonce": nonce, "answer": { "say": "bypass" } }),
        ];
        for answer in answers {
            let told = said(&socket, &answer);
            assert!(told.contains("refused"), "{answer}: {told}");
        }
        let open = place.run(["approvals", "list", "--json"]).json();
        assert_eq!(open["open"][0]["id"], asked["id"], "still open");
        let id = asked["id"].as_str().expect("an id");
        assert_eq!(place.run(["deny", id]).code, Some(0));
        assert_eq!(live.wait(END).code, Some(0));
    }

    #[test]
    fn es_039_rs_024_a_socket_is_closed_to_others_and_to_peers_without_end() {
        let place = Place::new();
        let policy = place.policy(ASKS).display().to_string();
        let play = place.play_command(
            &script(&["touch a"]),
            &["--policy", &policy, "--approvals", "operator"],
        );
        // A umask that gives everything away.
        let mut shell = place.program(
            std::path::Path::new("/bin/sh"),
            ["-c", "umask 000; exec \"$@\"", "sh"],
        );
        shell.arg(play.get_program()).args(play.get_args());
        shell.current_dir(place.root());
        let live = Live::start(shell);
        let asked = until("a question", END, || {
            let list = place.run(["approvals", "list", "--json"]).json();
            list["open"].as_array()?.first().cloned()
        });
        let folder = place.root().join("run/operators");
        let mode = |path: &PathBuf| path.metadata().expect("there").permissions().mode() & 0o777;
        let mut names = std::fs::read_dir(&folder).expect("a folder").flatten();
        let socket = names.next().expect("a socket").path();
        assert_eq!((mode(&folder), mode(&socket)), (0o700, 0o600));
        let tree = place.tree(&place.session().expect("a session"));
        assert_eq!(mode(&tree) & 0o022, 0, "the tree is its account's");
        for group in groups() {
            assert_eq!(mode(&group) & 0o022, 0, "{}", group.display());
        }

        // A claim of two gigabytes is refused by its length, before a byte of it.
        let mut stream = UnixStream::connect(&socket).expect("connects");
        stream
            .write_all(&[0x7f, 0xff, 0xff, 0xff, 1])
            .expect("said");
        let _ = stream.set_read_timeout(Some(END));
        let mut told = Vec::new();
        let _ = stream.read_to_end(&mut told);
        let told = String::from_utf8_lossy(&told).into_owned();
        assert!(told.contains("refused"), "{told}");

        // Many that say nothing: further ones are turned away, another session answers at once.
        let silent: Vec<_> = (0..40)
            .filter_map(|_| UnixStream::connect(&socket).ok())
            .collect();
        assert!(!silent.is_empty());
        let other = Place::new();
        let (second, question, _) = asking(&other);
        let began = Instant::now();
        let id = question["id"].as_str().expect("an id");
        assert_eq!(other.run(["deny", id]).code, Some(0));
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
        assert_eq!(second.wait(END).code, Some(0));
        drop(silent);
        let id = asked["id"].as_str().expect("an id");
        until("it answers again", END, || {
            (place.run(["deny", id]).code == Some(0)).then_some(())
        });
        assert_eq!(live.wait(END).code, Some(0));
    }

    #[test]
    fn rs_013_a_cut_never_falls_inside_a_character() {
        let place = Place::new();
        // Around the bounds of what a model is shown, one byte more and less, of two, three and four.
        for character in ["é", "€", "😀"] {
            for extra in 0..4 {
                let line = format!(
                    "printf '%0.sx' $(seq {extra}); python3 -c 'print(\"{character}\"*40000)' 2>/dev/null || perl -e 'print \"{character}\" x 40000'"
                );
                let done = place.call("bash", &json!({ "command": line }), &["--mode", "bypass"]);
                assert_eq!(done.code, Some(0), "{character} {extra}: {done}");
                let told = done.json()["output"].as_str().expect("text").to_owned();
                assert!(!told.contains('\u{fffd}'), "{character} {extra}");
            }
        }
        let task = "€".repeat(20_000);
        let mut command = place.command(["run", "--workspace"]);
        command
            .arg(place.work())
            .arg("--script")
            .arg(place.script(&script(&["true"])));
        let done = Live::start({
            command.arg(&task);
            command
        })
        .wait(END);
        assert_eq!(done.code, Some(0), "{done}");
        let session = done.session();
        for shown in [
            place.run(["sessions", "list"]),
            place.run(["sessions", "show", &session]),
        ] {
            assert_eq!(shown.code, Some(0), "{shown}");
            assert!(!shown.stdout.contains('\u{fffd}'));
        }
    }

    #[test]
    fn rs_015_a_command_that_reads_what_it_writes_is_ended_by_the_quota() {
        let place = Place::new();
        place.write("work/out/a", "seed of a loop\n");
        let policy =
            "version = 1\nname = \"tight\"\nextends = \"default\"\n[limits]\ndisk = \"32MiB\"\n";
        let policy = place.policy(policy).display().to_string();
        let input = json!({ "command": "touch out/self; while :; do cat out/* >> out/self2; cat out/self2 >> out/self; done" });
        let began = Instant::now();
        let done = place.call("bash", &input, &["--policy", &policy, "--mode", "bypass"]);
        assert!(began.elapsed() < END, "{:?}", began.elapsed());
        assert!(done.to_string().contains("disk_limit"), "{done}");
    }

    #[test]
    fn rs_017_a_full_disk_is_said_and_nothing_is_lost() {
        if skipped(is_root(), "a file system to fill needs root") {
            return;
        }
        let place = Place::new();
        let more = "{\"text\":\"Went on.\",\"stop\":\"end\"}\n";
        let first = place.play(&(script(&["echo one > kept"]) + more), &[]);
        assert_eq!(first.code, Some(0), "{first}");
        let session = first.session();
        // The state on a file system of its own, and then nothing free in it.
        let state = place.state();
        let small = place.root().join("small");
        std::fs::rename(&state, &small).expect("moved");
        std::fs::create_dir(&state).expect("a folder");
        std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).expect("mode");
        let mount = |args: &[&str]| {
            let done = std::process::Command::new(args[0])
                .args(&args[1..])
                .output();
            let done = done.expect("mount");
            assert!(done.status.success(), "{args:?}: {done:?}");
        };
        let at = state.display().to_string();
        mount(&[
            "mount",
            "-t",
            "tmpfs",
            "-o",
            "size=8m,mode=700",
            "none",
            &at,
        ]);
        mount(&["cp", "-aT", &small.display().to_string(), &at]);
        let filler = state.join("filler");
        let mut file = std::fs::File::create(&filler).expect("a file");
        let chunk = vec![0_u8; 64 * 1024];
        while file.write(&chunk).is_ok_and(|n| n > 0) {}
        drop(file);

        let refused = place.play(&script(&["echo two > more"]), &[]);
        let shown = place.run(["sessions", "list"]);
        let audit = place.run(["audit", "verify"]);
        std::fs::remove_file(&filler).expect("freed");
        let again = place.run(["resume", &session, "go on"]);
        let last = place.run(["audit", "verify"]);
        mount(&["umount", &at]);
        assert_ne!(refused.code, Some(0), "{refused}");
        let said = refused.stderr.to_lowercase();
        assert!(
            said.contains("no space") || said.contains("full"),
            "{refused}"
        );
        assert_eq!(shown.code, Some(0), "{shown}");
        assert!(shown.stdout.contains(&session), "{shown}");
        assert_eq!(audit.code, Some(0), "{audit}");
        assert_eq!(again.code, Some(0), "{again}");
        assert_eq!(last.code, Some(0), "{last}");
    }

    #[test]
    fn dk_007_a_job_that_has_ended_is_told_as_ended() {
        let place = Place::new();
        let start =
            json!({ "name": "bash", "input": { "command": "exit 7", "run_in_background": true } });
        let look = json!({ "name": "job_output", "input": { "job_id": "j1", "wait_seconds": 5 } });
        let mut text = String::new();
        for call in [start, look] {
            let line = json!({ "text": "", "tool_calls": [call], "stop": "tool" });
            text.push_str(&format!("{line}\n"));
        }
        text.push_str("{\"text\":\"Done.\",\"stop\":\"end\"}\n");
        for account in Account::all() {
            let place = Place::of(account);
            let done = place.play(&text, &["--mode", "bypass"]);
            assert_eq!(done.code, Some(0), "{done}");
            let told = format!("{:?}", place.told(&done.session()));
            assert!(told.contains("exit") && told.contains('7'), "{told}");
            assert!(!told.contains("\"running\""), "{told}");
        }
        drop(place);
    }
}
