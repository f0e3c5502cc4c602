//! Sessions in containers of a real Docker engine: the same as elsewhere, every fault of the engine an
//! explained end, and nothing left with it. Names hold the ids of the fault cases that they stand for.

#[cfg(test)]
mod docker {
    use std::{
        os::unix::fs::{MetadataExt as _, PermissionsExt as _},
        time::{Duration, Instant},
    };

    use nix::sys::signal::Signal;
    use provost_tests::harness::{
        Account, Done, Live, Place,
        engine::{self, Door, IMAGE, Pass, docker, has_container, has_engine},
        is_root, settled, skipped, some, until,
    };
    use serde_json::{Value, json};

    const LONGEST: Duration = Duration::from_secs(100);
    const CONTAINED: [&str; 4] = ["--backend", "docker", "--image", IMAGE];

    fn through(_: &str) -> Pass {
        Pass::Through
    }

    /// `provost tools call` in a container.
    fn call(place: &Place, host: Option<&str>, tool: &str, input: &Value, more: &[&str]) -> Done {
        let mut command = place.command(["tools", "call", tool, "--input"]);
        command.arg(input.to_string()).arg("--workspace");
        command.arg(place.work()).args(["--mode", "bypass"]);
        command.args(if more.is_empty() { &CONTAINED } else { more });
        if let Some(host) = host {
            command.env("DOCKER_HOST", host);
        }
        Live::start(command).wait(LONGEST)
    }

    fn bash(place: &Place, line: &str) -> Value {
        let done = call(place, None, "bash", &json!({ "command": line }), &[]);
        assert_eq!(done.code, Some(0), "{done}");
        done.json()
    }

    /// One bash call a line, then the end.
    fn script(lines: &[&str]) -> String {
        let mut script = String::new();
        for line in lines {
            let call = json!({ "name": "bash", "input": { "command": line } });
            let calls = json!({ "text": "", "tool_calls": [call], "stop": "tool" });
            script.push_str(&format!("{calls}\n"));
        }
        script + "{\"text\":\"{{last_result}}\",\"stop\":\"end\"}\n"
    }

    /// A session whose first command has begun and sleeps.
    fn sleeping(place: &Place, host: Option<&str>) -> (Live, String) {
        let script = script(&["echo > begun; sleep 600", "echo on"]);
        let mut command = place.play_command(&script, &CONTAINED);
        command.args(["--mode", "bypass", "--output", "json"]);
        if let Some(host) = host {
            command.env("DOCKER_HOST", host);
        }
        let live = Live::start(command);
        let session = until("the command runs", LONGEST, || {
            let session = place.session()?;
            let begun = place.tree(&session).join("begun");
            begun.exists().then_some(session)
        });
        (live, session)
    }

    /// Refused at the start, with these words, and nothing is left with the engine.
    #[track_caller]
    fn refused(done: &Done, code: i32, words: &[&str]) {
        assert_eq!(done.code, Some(code), "{done}");
        for word in words {
            assert!(done.stderr.contains(word), "`{word}`: {done}");
        }
    }

    #[test]
    fn a_session_is_the_same_as_under_landlock() {
        if !has_engine() {
            return;
        }
        let told = |more: &[&str]| {
            let place = Place::new();
            place.write("work/a.txt", "one\n");
            let lines = [
                json!({ "text": "", "stop": "tool", "tool_calls": [
                    { "name": "read_file", "input": { "file_path": "a.txt" } },
                    { "name": "bash", "input": { "command": "cat a.txt; echo two >> a.txt; mkdir d; echo x > d/new" } },
                    { "name": "bash", "input": { "command": "sudo reboot" } },
                    { "name": "write_file", "input": { "file_path": "/etc/motd", "content": "x" } },
                ] }),
                json!({ "text": "", "stop": "tool", "tool_calls": [
                    { "name": "write_file", "input": { "file_path": "b.txt", "content": "three\n" } },
                    { "name": "bash", "input": { "command": "exit 3" } },
                ] }),
                json!({ "text": "Done.", "stop": "end" }),
            ];
            let script: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let mut all = more.to_vec();
            all.extend(["--output", "json", "--apply", "--mode", "bypass"]);
            let done = place.play(&script, &all);
            assert_eq!(done.code, Some(0), "{done}");
            let shown = done.json();
            let calls: Vec<_> = shown["calls"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|call| ["tool", "verdict", "rule", "ok"].map(|key| call[key].clone()))
                .collect();
            let files = ["work/a.txt", "work/b.txt", "work/d/new"].map(|name| place.read(name));
            let refusals = shown["refusals"].clone();
            (
                shown["outcome"].clone(),
                calls,
                files,
                refusals,
                shown["certificate"].clone(),
            )
        };
        let (landlock, container) = (told(&["--backend", "landlock"]), told(&CONTAINED));
        assert_eq!(landlock.0, "done");
        assert_eq!(container.2[0].as_deref(), Some("one\ntwo\n"));
        assert_eq!((&landlock.0, &landlock.1), (&container.0, &container.1));
        assert_eq!((&landlock.2, &landlock.3), (&container.2, &container.3));
        let certificate = container.4;
        assert_eq!(certificate["situation"], "C", "{certificate}");
        let made = &certificate["container"];
        let id = docker(&["image", "inspect", "--format", "{{.Id}}", IMAGE]);
        assert_eq!(made["image_id"].as_str(), id.as_deref());
        let access = made["engine_access"].as_str().unwrap_or_default();
        assert!(
            access.starts_with("root, sources") || access.contains("rootless"),
            "{made}"
        );
        assert!(landlock.4["container"].is_null());
    }

    /// DK-013, DK-014, DK-016: what is made belongs to the workspace's owner, whoever that is.
    #[test]
    fn dk_013_files_belong_to_the_owner_of_the_workspace() {
        if !has_engine() {
            return;
        }
        for account in Account::all() {
            let place = Place::of(account);
            place.write("work/closed", "0600\n");
            place.mode("work/closed", 0o600);
            let door = Door::at(&place.root().join("engine.sock"), through);
            let script = script(&[
                "cat closed; touch new; mkdir d; touch d/deep; stat -c %u:%a new closed; id -u",
            ]);
            let mut command = place.play_command(&script, &CONTAINED);
            command.args(["--mode", "bypass", "--apply", "--output", "json"]);
            command.env("DOCKER_HOST", door.host());
            let done = Live::start(command).wait(LONGEST);
            assert_eq!(done.code, Some(0), "{done}");
            let shown = done.json();
            let text = shown["text"].as_str().unwrap_or_default().to_owned();
            assert!(text.contains("0600"), "{text}");
            let facts = |name: &str| std::fs::metadata(place.work().join(name)).expect(name);
            let owner = facts("closed").uid();
            for name in ["new", "d", "d/deep"] {
                assert_eq!(facts(name).uid(), owner, "{account:?}: {name}");
            }
            assert_eq!(facts("closed").permissions().mode() & 0o777, 0o600);
            let access = shown["certificate"]["container"]["engine_access"].clone();
            let by = if account == Account::Own && is_root() {
                "handle"
            } else {
                "name"
            };
            assert!(
                access.as_str().unwrap_or_default().ends_with(by),
                "{access}"
            );
        }
    }

    /// DK-001, DK-002: the engine is in nobody's reach from inside, under no name.
    #[test]
    fn dk_001_the_engine_is_not_in_the_container() {
        if !has_engine() {
            return;
        }
        let place = Place::new();
        // Every name of a socket in all of the container, on every mount of it.
        let line =
            "ls /var/run/docker.sock /run/docker.sock 2>&1; find / -type s 2>/dev/null | wc -l";
        let told = bash(&place, line);
        let text = told["output"].as_str().unwrap_or_default();
        assert_eq!(text.matches("No such file").count(), 2, "{text}");
        assert!(text.ends_with("\n0\n"), "{text}");
        let session = some("a session", place.session());
        assert!(!has_container(&session));
    }

    /// DK-005, DK-006: the first process reaps whatever comes to it.
    #[test]
    fn dk_005_no_zombies_are_left() {
        if !has_engine() {
            return;
        }
        let place = Place::new();
        let made = "for i in $(seq 200); do (sleep 0.01 &) ; done; sleep 1";
        let count = "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l";
        let more = [&CONTAINED[..], &["--mode", "bypass", "--output", "json"]].concat();
        let done = place.play(&script(&[made, count]), &more);
        assert_eq!(done.code, Some(0), "{done}");
        let text = done.json()["text"].as_str().unwrap_or_default().to_owned();
        assert!(text.contains("\"output\":\"0\\n\""), "{text}");
    }

    #[test]
    fn what_an_engine_cannot_do_is_said_before_anything_is_made() {
        if !has_engine() {
            return;
        }
        let place = Place::new();
        let ask = |host: Option<&str>, more: &[&str]| {
            call(&place, host, "bash", &json!({ "command": "true" }), more)
        };
        let nowhere = format!("unix://{}/nowhere.sock", place.root().display());
        refused(
            &ask(Some(&nowhere), &[]),
            77,
            &["no Docker engine answers", "systemctl start docker"],
        );
        refused(
            &ask(Some("tcp://127.0.0.1:2375"), &[]),
            77,
            &["unset DOCKER_HOST"],
        );
        let image = |name: &'static str| ["--backend", "docker", "--image", name];
        refused(
            &ask(None, &image("provost-none:1")),
            77,
            &["no image `provost-none:1`", "docker pull", "make images"],
        );
        refused(
            &ask(None, &image("../x?force=1")),
            77,
            &["not the name or digest"],
        );
        let mut runtime = CONTAINED.to_vec();
        runtime.extend(["--runtime", "warp"]);
        refused(&ask(None, &runtime), 77, &["no runtime `warp`", "runc"]);
        refused(
            &ask(None, &["--backend", "docker"]),
            78,
            &["needs an image"],
        );
        refused(
            &ask(None, &["--image", IMAGE]),
            78,
            &["is for the backend docker"],
        );
        refused(
            &ask(None, &["--backend", "podman"]),
            64,
            &["no backend `podman`"],
        );
        assert_eq!(settled(place.root()), []);
        // By its id the same image is found.
        let id = some(
            "an id",
            docker(&["image", "inspect", "--format", "{{.Id}}", IMAGE]),
        );
        let done = ask(None, &["--backend", "docker", "--image", &id]);
        assert_eq!(done.code, Some(0), "{done}");
    }

    #[test]
    fn an_account_without_the_engine_hears_what_to_do() {
        if !has_engine() || skipped(is_root(), "only root can become another account") {
            return;
        }
        let place = Place::of(Account::Ordinary);
        let done = call(&place, None, "bash", &json!({ "command": "true" }), &[]);
        refused(&done, 77, &["may not use the Docker engine", "rootless"]);
    }

    /// DK-008: a start that fails after the container was made leaves none.
    #[test]
    fn dk_008_a_failed_start_leaves_no_container() {
        if !has_engine() {
            return;
        }
        let broken = |line: &str| {
            if line.contains("/start ") {
                Pass::Answer(500, "driver failed: no space left on device")
            } else {
                Pass::Through
            }
        };
        let place = Place::new();
        let door = Door::at(&place.root().join("engine.sock"), broken);
        let mut command = place.command(["tools", "call", "bash", "--input"]);
        command.arg(json!({ "command": "true" }).to_string());
        command.arg("--workspace").arg(place.work()).args(CONTAINED);
        command.env("DOCKER_HOST", door.host());
        let live = Live::start(command);
        let mine = format!("label=provost.supervisor.pid={}", live.pid());
        let done = live.wait(LONGEST);
        refused(
            &done,
            77,
            &["no space is left on its disk", "docker system df"],
        );
        // Other tests' containers come and go meanwhile.
        let left = docker(&["ps", "-aq", "--filter", &mine]);
        assert_eq!(left.as_deref(), Some(""), "made and never started");
    }

    /// DK-012: an engine that never answers costs a bounded time.
    #[test]
    fn dk_012_a_start_has_a_deadline() {
        if !has_engine() {
            return;
        }
        let silent = |line: &str| {
            if line.contains("/containers/create") {
                Pass::Never
            } else {
                Pass::Through
            }
        };
        let place = Place::new();
        let door = Door::at(&place.root().join("engine.sock"), silent);
        let began = Instant::now();
        let done = call(
            &place,
            Some(&door.host()),
            "bash",
            &json!({ "command": "true" }),
            &[],
        );
        refused(&done, 77, &["did not make the container within 20 s"]);
        assert!(
            began.elapsed() < Duration::from_secs(40),
            "{:?}",
            began.elapsed()
        );
    }

    /// Ended with a fault, exit 1, and the reason holds these words.
    #[track_caller]
    fn ended(place: &Place, live: Live, session: &str, words: &[&str]) {
        let done = live.wait(LONGEST);
        assert_eq!(done.code, Some(1), "{done}");
        let shown = done.json();
        assert_eq!(shown["outcome"], "fault", "{done}");
        let reason = shown["reason"].as_str().unwrap_or_default();
        for word in words {
            assert!(reason.contains(word), "`{word}`: {reason}");
        }
        assert_eq!(settled(place.root()), []);
        assert!(!has_container(session));
    }

    /// DK-009: a container that somebody removes or kills ends the session at once, with the reason.
    #[test]
    fn dk_009_a_container_that_is_gone_is_an_explained_end() {
        if !has_engine() {
            return;
        }
        let place = Place::new();
        let (live, session) = sleeping(&place, None);
        assert!(docker(&["rm", "-f", &format!("provost-{session}")]).is_some());
        ended(
            &place,
            live,
            &session,
            &["container was", "from outside", "provost resume"],
        );

        let place = Place::new();
        let (live, session) = sleeping(&place, None);
        assert!(docker(&["kill", &format!("provost-{session}")]).is_some());
        ended(
            &place,
            live,
            &session,
            &["ended from outside", "provost resume"],
        );
    }

    #[test]
    fn a_lost_engine_is_an_explained_end_and_the_next_start_cleans_up() {
        if !has_engine() {
            return;
        }
        let place = Place::new();
        let door = Door::at(&place.root().join("engine.sock"), through);
        let (live, session) = sleeping(&place, Some(&door.host()));
        door.slam();
        let done = live.wait(LONGEST);
        assert_eq!(done.code, Some(1), "{done}");
        let reason = done.json()["reason"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(reason.contains("engine was lost"), "{reason}");
        assert_eq!(
            settled(place.root()),
            [],
            "without the engine nothing runs on"
        );
        let swept = call(&place, None, "bash", &json!({ "command": "true" }), &[]);
        assert_eq!(swept.code, Some(0), "{swept}");
        // By this start, or by another test's: whoever starts next.
        assert!(!has_container(&session));
    }

    /// DK-010: after the supervisor's death nothing runs on; the next start removes what is left, leaves
    /// the containers of those that live alone, and the session goes on in a new one.
    #[test]
    fn dk_010_a_killed_supervisor_leaves_what_the_next_start_removes() {
        if !has_engine() {
            return;
        }
        let other = Place::new();
        let (living, lives) = sleeping(&other, None);
        let place = Place::new();
        let (live, session) = sleeping(&place, None);
        live.signal(Signal::SIGKILL);
        assert_eq!(live.wait(LONGEST).signal, Some(9));
        assert_eq!(
            settled(place.root()),
            [],
            "the container ends with its supervisor"
        );

        let swept = call(&place, None, "bash", &json!({ "command": "true" }), &[]);
        assert_eq!(swept.code, Some(0), "{swept}");
        assert!(!has_container(&session), "{swept}");
        assert!(has_container(&lives), "another's that lives");
        let resumed = place.run(["resume", session.as_str(), "--output", "json"]);
        assert_eq!(resumed.code, Some(0), "{resumed}");
        assert_eq!(resumed.json()["certificate"]["situation"], "C");
        living.signal(Signal::SIGTERM);
        assert_eq!(living.wait(LONGEST).code, Some(143));
        assert!(!has_container(&lives));
    }

    #[test]
    fn a_command_without_memory_dies_alone_and_is_told_why() {
        if !has_engine() {
            return;
        }
        let place = Place::new();
        let policy = format!(
            "version = 1\n[confinement]\nbackend = \"docker\"\nimage = \"{IMAGE}\"\n[limits]\nmemory = \"64MiB\"\n"
        );
        let policy = place.policy(&policy).display().to_string();
        let last = |line: &str| {
            let more = ["--policy", &policy, "--mode", "bypass", "--output", "json"];
            let done = place.play(&script(&[line]), &more);
            let shown = done.json();
            let said = |key: &str| shown[key].as_str().unwrap_or_default().to_owned();
            (said("outcome"), said("text") + &said("reason"))
        };
        // A folder in memory is full before the memory is.
        let (outcome, text) = last("dd if=/dev/zero of=/tmp/full bs=1M count=200 2>&1; echo on");
        assert_eq!(outcome, "done", "{text}");
        assert!(text.contains("No space left"), "{text}");
        // None of these is too large for one process; together they are.
        let (outcome, text) = last(
            "for i in 1 2 3 4; do (x=$(head -c 30000000 /dev/zero | tr '\\0' a); sleep 1) & done; wait; echo on",
        );
        let told = text.contains("memory was used up") || text.contains("ran out of memory");
        assert!(told, "{outcome}: {text}");
    }

    #[test]
    fn what_the_engine_holds_is_read_back_and_a_lifted_limit_ends_the_session() {
        if !has_engine() || skipped(is_root(), "the engine's groups are root's") {
            return;
        }
        let place = Place::new();
        let rights = ["memory", "processes", "cpu"];
        let floors: String = rights.map(|r| format!("{r} = \"required\"\n")).concat();
        let text = format!(
            "version = 1\n[confinement]\nbackend = \"docker\"\nimage = \"{IMAGE}\"\n[confinement.rights]\n{floors}[limits]\nmemory = \"96MiB\"\ncpu = 0.5\n"
        );
        let policy = place.policy(&text).display().to_string();
        let play = script(&["echo > begun; sleep 3", "echo not reached"]);
        let more = ["--policy", &policy, "--mode", "bypass"];
        let live = place.start_play(&play, &more);
        let session = until("a session", LONGEST, || place.session());
        let begun = || place.tree(&session).join("begun").exists().then_some(());
        until("the first command runs", LONGEST, begun);
        let told = place.told(&session);
        let certificate = told.iter().find(|entry| entry["kind"] == "certificate");
        let certificate = &some("a certificate", certificate)["rights"];
        for right in rights {
            let mut states = certificate.as_array().into_iter().flatten();
            let state = states.find(|state| state["right"] == right);
            let state = some(right, state);
            assert_eq!(state["state"], "enforced", "{state}");
        }
        assert!(
            certificate.to_string().contains("100663296"),
            "{certificate}"
        );

        let name = format!("provost-{session}");
        let lifted = docker(&["update", "--memory", "1g", "--memory-swap", "1g", &name]);
        let lifted = some("an update", lifted);
        assert!(lifted.contains(&name), "{lifted}");
        let done = live.wait(LONGEST);
        assert_eq!(done.code, Some(1), "{done}");
        let told = place.told(&session);
        let end = some("an end", told.iter().find(|entry| entry["kind"] == "ended"));
        assert!(end.to_string().contains("required right memory"), "{end}");
    }

    #[test]
    fn an_image_without_a_shell_says_so_and_the_file_tools_work() {
        if !has_engine() {
            return;
        }
        let place = Place::new();
        place.write("work/a.txt", "kept\n");
        place.write("tree/etc/empty", "");
        let tree = place.root().join("tree").display().to_string();
        let made = format!("tar -C {tree} -c . | docker import - provost-test-empty:1");
        let made = std::process::Command::new("sh")
            .args(["-c", &made])
            .output();
        assert!(made.expect("sh").status.success());
        let empty = ["--backend", "docker", "--image", "provost-test-empty:1"];
        let done = call(&place, None, "bash", &json!({ "command": "true" }), &empty);
        let text = done.to_string();
        assert!(text.contains("neither /bin/bash nor /bin/sh"), "{text}");
        let done = call(
            &place,
            None,
            "read_file",
            &json!({ "file_path": "a.txt" }),
            &empty,
        );
        assert_eq!(done.code, Some(0), "{done}");
        assert!(done.stdout.contains("kept"), "{done}");
        let _ = docker(&["image", "rm", "provost-test-empty:1"]);
    }

    /// Only in an image with git and a compiler.
    #[test]
    fn git_and_a_compiler_work_in_the_debian_image() {
        if !has_engine() {
            return;
        }
        let there = docker(&["image", "inspect", "provost-debian:latest"]).is_some();
        if skipped(
            there,
            "the image provost-debian is not there: `make images`",
        ) {
            return;
        }
        let place = Place::new();
        place.write("work/a.c", "int main(void) { return 0; }\n");
        let line = "git init -q . && git add a.c && git -c user.name=a -c user.email=a@b commit -qm one \
             && git log --oneline | wc -l && make a && ./a && echo built";
        let debian = ["--backend", "docker", "--image", "provost-debian:latest"];
        let done = call(&place, None, "bash", &json!({ "command": line }), &debian);
        assert_eq!(done.code, Some(0), "{done}");
        let text = done.json()["output"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(text.contains("1\n") && text.ends_with("built\n"), "{text}");
    }

    #[test]
    fn doctor_tells_of_the_engine() {
        if !has_engine() {
            return;
        }
        let place = Place::new();
        let done = place.run(["doctor"]);
        assert!(done.stdout.contains("engine    Docker "), "{done}");
        let mut command = place.command(["doctor", "--json"]);
        command.env(
            "DOCKER_HOST",
            format!("unix://{}/nowhere", place.root().display()),
        );
        let done = Live::start(command).wait(LONGEST);
        let told = &done.json()["engine"];
        assert_eq!(told["reachable"], false, "{told}");
        assert!(
            told["remedy"]
                .as_str()
                .unwrap_or_default()
                .contains("systemctl start docker"),
            "{told}"
        );
        assert_eq!(engine::SOCKET, "/var/run/docker.sock");
    }
}
