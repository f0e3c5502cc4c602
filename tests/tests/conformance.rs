//! The escape suite: no attack gets out of a session of root or of an ordinary account, in any situation;
//! bare each works whose layer is ours, or the case is broken. And what single attacks cannot show: other
//! sessions, what is planted, what is swapped meanwhile.

#[cfg(test)]
mod conformance {
    use std::{
        collections::BTreeMap,
        fs::File,
        io::Write as _,
        net::{TcpListener, UdpSocket},
        os::{
            fd::AsRawFd as _,
            linux::net::SocketAddrExt as _,
            unix::{
                fs::{PermissionsExt as _, chown},
                net::{SocketAddr, UnixListener, UnixStream},
            },
        },
        path::{Path, PathBuf},
        process::{Child, Command, Stdio},
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use nix::{
        fcntl::{FcntlArg, FdFlag, fcntl},
        sys::signal::{Signal, kill},
        unistd::Pid,
    };
    use protocol::{
        escape::{Attack, Way},
        jail::ProbePlan,
    };
    use provost_tests::{
        conform::{self, Ground},
        harness::{
            Account, Done, Live, Place,
            engine::{IMAGE, has_engine},
            fail, is_root, must, processes_of, settled, skipped, some, until,
        },
        lies,
    };
    use serde_json::{Value, json};

    const LONGEST: Duration = Duration::from_secs(100);
    /// In the environment of every supervisor here, and of every bare attack.
    const MARKER: (&str, &str) = ("CONFORMANCE_MARKER", "marker-7c1d0a52");

    /// What an attack came to.
    #[derive(Debug, Clone)]
    struct Came {
        refused: bool,
        answer: String,
    }

    type Column = BTreeMap<String, Came>;

    /// A host to attack: a planted secret, listeners that count, shared memory, a victim.
    struct Scene {
        place: Place,
        ground: Ground,
        victim: Child,
        /// What reached the host's listeners.
        reached: Arc<AtomicUsize>,
        _unix: (UnixListener, UnixListener),
    }

    impl Scene {
        fn new(account: Account) -> Self {
            let place = Place::of(account);
            place.write("work/readme", "as it was\n");
            place.write("outside/secret", "the planted secret\n");
            // A program outside, which only who may execute outside can start.
            must(
                "a program",
                std::fs::copy("/bin/true", place.root().join("outside/program")),
            );
            place.mode("outside/program", 0o755);
            for (name, mode) in [
                ("outside", 0o777),
                ("outside/secret", 0o666),
                ("work", 0o755),
            ] {
                place.mode(name, mode);
            }
            let reached = Arc::new(AtomicUsize::new(0));
            let tcp_port = listen_tcp(&reached);
            let udp_port = answer_udp(&reached);
            let unix_path = place.root().join("outside/socket");
            let unix = must("a socket", UnixListener::bind(&unix_path));
            place.mode("outside/socket", 0o777);
            let unix_abstract = format!("provost-conformance-{tcp_port}");
            let address = must("a name", SocketAddr::from_abstract_name(&unix_abstract));
            let hidden = must("an abstract socket", UnixListener::bind_addr(&address));
            let shm = format!("provost-conformance-{tcp_port}");
            let path = Path::new("/dev/shm").join(&shm);
            must("shared memory", std::fs::write(&path, "shared"));
            let open = std::fs::Permissions::from_mode(0o666);
            must("a mode", std::fs::set_permissions(&path, open));
            let mut victim = place.program(Path::new("/bin/sleep"), ["600"]);
            victim.env(MARKER.0, MARKER.1).stdout(Stdio::null());
            let victim = must("a victim", victim.spawn());
            let number = i32::try_from(victim.id()).unwrap_or(i32::MAX);
            let text = |path: &Path| path.display().to_string();
            let plan = ProbePlan {
                outside_file: text(&place.root().join("outside/secret")),
                outside_folder: text(&place.root().join("outside")),
                hidden: Vec::new(),
                tcp_port,
                unix_path: text(&unix_path),
                unix_abstract,
                queue: String::new(),
                ipc_namespace: std::fs::read_link("/proc/self/ns/ipc")
                    .expect("a namespace")
                    .display()
                    .to_string(),
                shared_memory: String::new(),
                supervisor_pid: number,
                workspace: text(&place.work()),
                tmp: "/tmp".to_owned(),
            };
            let ground = Ground {
                plan,
                hands: number,
                udp_port,
                shm,
                segment: segment(),
                marker: MARKER.1.to_owned(),
            };
            let scene = Self {
                place,
                ground,
                victim,
                reached,
                _unix: (unix, hidden),
            };
            scene.arm();
            scene
        }

        /// Puts the attacker into the workspace, once plain and once as root's setuid file.
        fn arm(&self) {
            let attacker = some("the attacker", lies::worker());
            for (name, mode) in [("attack", 0o755), ("setuid", 0o4755)] {
                let path = self.place.work().join(name);
                must("a copy", std::fs::copy(&attacker, &path));
                if is_root() {
                    must("an owner", chown(&path, Some(0), Some(0)));
                }
                let mode = std::fs::Permissions::from_mode(mode);
                must("a mode", std::fs::set_permissions(&path, mode));
            }
            let script = "for name in $(cat names); do\n\
                 ./attack attack \"$name\" \"$(cat ground)\"\n\
                 done\n";
            self.place.write("work/run.sh", script);
        }

        /// The session's command, as somebody starts it who has secrets and open files.
        fn session(&self, line: &str) -> Command {
            let input = json!({ "command": line, "timeout_s": 90 }).to_string();
            let mut command = self.place.command(["tools", "call", "bash", "--input"]);
            command.arg(input).arg("--workspace").arg(self.place.work());
            command.args(["--policy", self.place.copying()]);
            command.env(MARKER.0, MARKER.1);
            command
        }

        /// Tries the attacks in one session; the supervisor itself is what they aim at.
        fn inside(&self, names: &[&str]) -> Column {
            let leak = leaked();
            let line = "until test -e go; do sleep 0.05; done; sh run.sh";
            let live = Live::start(self.session(line));
            let tree = self.tree();
            let mut ground = self.ground.clone();
            ground.plan.supervisor_pid = i32::try_from(live.pid()).unwrap_or(i32::MAX);
            ground.hands = 1;
            self.order(&tree, &ground, names);
            let done = live.wait(LONGEST);
            drop(leak);
            assert_eq!(done.code, Some(0), "{done}");
            let output = done.json()["output"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            assert_eq!(
                settled(self.place.root()).len(),
                1,
                "only the victim is left"
            );
            read(&output)
        }

        /// The tree of the session that has just begun.
        fn tree(&self) -> PathBuf {
            until("a tree", LONGEST, || {
                let tree = self.place.tree(&self.place.session()?);
                tree.join("run.sh").exists().then_some(tree)
            })
        }

        /// Says what to try, then that it may begin.
        fn order(&self, tree: &Path, ground: &Ground, names: &[&str]) {
            let text = must("json", serde_json::to_string(ground));
            for (name, content) in [
                ("ground", text),
                ("names", names.join("\n")),
                ("go", String::new()),
            ] {
                let (path, fresh) = (tree.join(name), tree.join(format!(".{name}")));
                must("a file", std::fs::write(&fresh, content));
                let mode = std::fs::Permissions::from_mode(0o644);
                must("a mode", std::fs::set_permissions(&fresh, mode));
                must("a name", std::fs::rename(&fresh, path));
            }
        }

        /// Tries the probe's own attacks without a session, as the account.
        fn bare(&self, attacks: &[Attack]) -> Column {
            let leak = leaked();
            let ground = must("json", serde_json::to_string(&self.ground));
            let attacker = self.place.work().join("attack");
            let mut column = Column::new();
            for attack in attacks {
                let words = ["attack", &attack.name, &ground];
                let mut command = self.place.program(&attacker, words);
                command.env(MARKER.0, MARKER.1);
                column.extend(read(&Live::start(command).wait(LONGEST).stdout));
            }
            drop(leak);
            column
        }

        /// The same for the scripts.
        fn bare_scripts(&self, attacks: &[Attack]) -> Column {
            let leak = leaked();
            let mut column = Column::new();
            for attack in attacks {
                let Way::Script { with, text } = &attack.way else {
                    continue;
                };
                let file = self.place.write("work/script.x", text);
                let mut command = self
                    .place
                    .program(Path::new("/usr/bin/env"), [with.as_str()]);
                command.arg(file).current_dir(self.place.work());
                for (name, value) in self.variables() {
                    command.env(format!("ESCAPE_{name}"), value);
                }
                command.env(MARKER.0, MARKER.1);
                let said = Live::start(command).wait(LONGEST).stdout;
                let words = [
                    ("ESCAPED: ", false),
                    ("refused: ", true),
                    ("absent: ", true),
                ];
                let told = said.lines().rev().find_map(|line| {
                    words.iter().find_map(|(word, refused)| {
                        let answer = line.strip_prefix(word)?;
                        let absent = if *word == "absent: " { "absent: " } else { "" };
                        Some(Came {
                            refused: *refused,
                            answer: format!("{absent}{answer}"),
                        })
                    })
                });
                if let Some(came) = told {
                    column.insert(attack.name.clone(), came);
                }
            }
            drop(leak);
            // What a script leaves behind bare on purpose.
            for process in processes_of(self.place.root()) {
                if process.arguments == "sleep 98763" {
                    let pid = Pid::from_raw(i32::try_from(process.pid).unwrap_or(i32::MAX));
                    let _ = kill(pid, Signal::SIGKILL);
                }
            }
            column
        }

        fn variables(&self) -> Vec<(&'static str, String)> {
            let (ground, plan) = (&self.ground, &self.ground.plan);
            let segment = ground.segment.map(|id| id.to_string()).unwrap_or_default();
            vec![
                ("OUTSIDE_FILE", plan.outside_file.clone()),
                ("OUTSIDE_FOLDER", plan.outside_folder.clone()),
                ("TCP", plan.tcp_port.to_string()),
                ("UDP", ground.udp_port.to_string()),
                ("UNIX", plan.unix_path.clone()),
                ("ABSTRACT", plan.unix_abstract.clone()),
                ("SUPERVISOR", plan.supervisor_pid.to_string()),
                ("SUPERVISOR_NAME", "sleep".to_owned()),
                ("SHM", ground.shm.clone()),
                ("SEGMENT", segment),
                ("DAEMON", "98763".to_owned()),
            ]
        }
    }

    impl Drop for Scene {
        fn drop(&mut self) {
            let _ = self.victim.kill();
            let _ = self.victim.wait();
            let _ = std::fs::remove_file(Path::new("/dev/shm").join(&self.ground.shm));
            if let Some(id) = self.ground.segment {
                let _ = Command::new("ipcrm").arg("-m").arg(id.to_string()).output();
            }
        }
    }

    /// A descriptor that every program started meanwhile is born with: on this very thread's behalf,
    /// as a careless supervisor of the supervisor would leave one open.
    fn leaked() -> File {
        let file = must("a file", File::open("/etc"));
        must("inherit", fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty())));
        assert!(file.as_raw_fd() > 2);
        file
    }

    fn listen_tcp(reached: &Arc<AtomicUsize>) -> u16 {
        let listener = must("a listener", TcpListener::bind("127.0.0.1:0"));
        let port = must("a port", listener.local_addr()).port();
        let reached = Arc::clone(reached);
        std::thread::spawn(move || {
            while let Ok(connected) = listener.accept() {
                reached.fetch_add(1, Ordering::SeqCst);
                drop(connected);
            }
        });
        port
    }

    fn answer_udp(reached: &Arc<AtomicUsize>) -> u16 {
        let socket = must("a socket", UdpSocket::bind("127.0.0.1:0"));
        let port = must("a port", socket.local_addr()).port();
        let reached = Arc::clone(reached);
        std::thread::spawn(move || {
            let mut bytes = [0; 64];
            while let Ok((_, from)) = socket.recv_from(&mut bytes) {
                reached.fetch_add(1, Ordering::SeqCst);
                let _ = socket.send_to(b"here", from);
            }
        });
        port
    }

    /// A System V segment that everybody may read.
    fn segment() -> Option<u64> {
        let made = Command::new("ipcmk")
            .args(["-M", "4096", "-p", "0666"])
            .output()
            .ok()?;
        String::from_utf8_lossy(&made.stdout)
            .split_whitespace()
            .last()?
            .parse()
            .ok()
    }

    fn read(output: &str) -> Column {
        let lines = output.lines().filter_map(|line| {
            let mut words = line.split('\t');
            let (name, word, answer) = (words.next()?, words.next()?, words.next()?);
            let came = Came {
                refused: word == "refused",
                answer: answer.to_owned(),
            };
            Some((name.to_owned(), came))
        });
        lines.collect()
    }

    fn armed() -> bool {
        !skipped(
            lies::worker().is_some(),
            "the attacker is not built: `make liar`",
        )
    }

    /// Printed past the harness' capture: it is what the suite is run for.
    fn show(text: &str) {
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }

    /// What `provost selftest --escape` says of an account's session, started by somebody who has
    /// secrets and open files.
    fn suite(account: Account, more: &[&str]) -> Option<Value> {
        let place = Place::of(account);
        let report = place.root().join("home/report.json");
        let mut command = place.command(["selftest", "--escape", "--report"]);
        command.arg(&report).args(more).env(MARKER.0, MARKER.1);
        let leak = leaked();
        let done = Live::start(command).wait(LONGEST * 3);
        drop(leak);
        // What this machine or this release cannot hold is refused at start, by name.
        if done.code == Some(77) {
            let _ = skipped(
                done.stderr.contains("not built by this release"),
                &done.stderr,
            );
            show(&format!("skipped: {}", done.stderr));
            return None;
        }
        assert_eq!(done.code, Some(0), "{account:?} {more:?}: {done}");
        let report = must("a report", std::fs::read_to_string(&report));
        Some(must("json", serde_json::from_str(&report)))
    }

    /// The suite's own figures, and that each attack of the book stands in the report.
    fn check(title: &str, report: &Value) {
        let totals = &report["totals"];
        show(&format!("{title}: {totals}"));
        assert_eq!(report["held"], true);
        assert_eq!(totals["escaped"], 0, "{title}");
        assert_eq!(totals["unanswered"], 0, "{title}");
        assert!(
            totals["attempts"].as_u64() >= Some(150),
            "{title}: {totals}"
        );
        assert_eq!(totals["attempts"], totals["held"], "{title}");
        let attempts = report["attempts"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        for attack in conform::book() {
            let found = attempts
                .iter()
                .find(|attempt| attempt["name"] == attack.name);
            assert!(
                found.is_some(),
                "{title}: {} is not in the report",
                attack.name
            );
        }
    }

    #[test]
    fn no_attack_gets_out_with_namespaces() {
        for account in Account::all() {
            if let Some(report) = suite(account, &[]) {
                check(&format!("A {account:?}"), &report);
                assert_eq!(report["situation"], "A");
            }
        }
    }

    #[test]
    fn no_attack_gets_out_without_namespaces() {
        for account in Account::all() {
            if let Some(report) = suite(account, &["--namespaces", "off"]) {
                check(&format!("B {account:?}"), &report);
                assert_eq!(report["situation"], "B");
            }
        }
    }

    #[test]
    fn no_attack_gets_out_of_a_container() {
        if !has_engine() {
            return;
        }
        let docker = ["--backend", "docker", "--image", IMAGE];
        if let Some(report) = suite(Account::Own, &docker) {
            check("C", &report);
            assert_eq!(report["situation"], "C");
        }
    }

    /// What is tried bare and lets nothing through there although the layer is ours: what this very
    /// machine or account cannot show.
    fn cannot(name: &str, scene: &Scene) -> bool {
        match name {
            // Only root's own setuid file could give root.
            "setuid-file" => !is_root(),
            "segments-of-host" | "ipcs" => scene.ground.segment.is_none(),
            "queue-of-host" => scene.ground.plan.queue.is_empty(),
            _ => false,
        }
    }

    #[test]
    fn bare_every_attack_gets_through_whose_layer_is_ours() {
        if !armed() {
            return;
        }
        let account = if is_root() {
            Account::Ordinary
        } else {
            Account::Own
        };
        let scene = Scene::new(account);
        let book = conform::book();
        let mut column = scene.bare(&conform::own());
        column.extend(scene.bare_scripts(&book));
        assert!(
            scene.reached.load(Ordering::SeqCst) > 0,
            "the listeners hear nothing"
        );
        let mut wrong = Vec::new();
        let mut counts = BTreeMap::new();
        for attack in &book {
            if matches!(attack.way, Way::Plant { .. }) {
                continue;
            }
            let word = match column.get(&attack.name) {
                None => "SILENT",
                Some(came) if !came.refused => "works",
                Some(came) if came.answer.starts_with("absent") => "absent",
                Some(_) if !attack.ours => "kernel",
                Some(_) if cannot(&attack.name, &scene) => "cannot",
                Some(_) => "BROKEN",
            };
            *counts.entry(word).or_insert(0) += 1;
            if word == "BROKEN" || (word == "SILENT" && attack.ours) {
                let answer = column.get(&attack.name).map(|came| came.answer.clone());
                wrong.push(format!("{}: {word} ({answer:?})", attack.name));
            }
        }
        show(&format!("bare: {counts:?}"));
        assert!(wrong.is_empty(), "\n  {}\n", wrong.join("\n  "));
    }

    fn each_account(test: impl Fn(Account)) {
        if !armed() {
            return;
        }
        for account in Account::all() {
            test(account);
        }
    }

    /// A whole session from a script of bash lines, one call each.
    fn lines(place: &Place, lines: &[&str], more: &[&str]) -> Done {
        let mut script = String::new();
        for line in lines {
            let call = json!({ "name": "bash", "input": { "command": line } });
            let calls = json!({ "text": "", "tool_calls": [call], "stop": "tool" });
            script.push_str(&format!("{calls}\n"));
        }
        script.push_str("{\"text\":\"{{last_result}}\",\"stop\":\"end\"}\n");
        let done = place.play(&script, more);
        assert_eq!(done.code, Some(0), "{done}");
        done
    }

    #[test]
    fn es_021_the_certificate_says_what_attacks_find() {
        each_account(|account| {
            let scene = Scene::new(account);
            let names = [
                "signal-supervisor",
                "see-supervisor",
                "connect-tcp",
                "read-outside",
            ];
            assert!(scene.inside(&names).values().all(|came| came.refused));
            let session = some("a session", scene.place.session());
            let told = scene.place.told(&session);
            let certificate = some(
                "a certificate",
                told.iter().find(|entry| entry["kind"] == "certificate"),
            );
            for right in ["proc.signal", "proc.see", "net.tcp", "files.read"] {
                let rights = certificate["rights"]
                    .as_array()
                    .map(Vec::as_slice)
                    .unwrap_or_default();
                let state = some(right, rights.iter().find(|state| state["right"] == right));
                assert_eq!(state["held"], true, "{account:?}: {state}");
            }
        });
    }

    #[test]
    fn es_022_other_sessions_are_out_of_reach() {
        each_account(|account| {
            let scene = Scene::new(account);
            // One session keeps a secret in memory, in shared memory and in a segment.
            let line = "echo theirs > /dev/shm/theirs; ipcmk -M 64 >/dev/null 2>&1; \
                        exec sh -c 'sleep 4321; : the-memory-of-another'";
            scene.place.write("other/readme", "another\n");
            let input = json!({ "command": line }).to_string();
            let mut other = scene.place.command(["tools", "call", "bash", "--input"]);
            other
                .arg(input)
                .arg("--workspace")
                .arg(scene.place.root().join("other"));
            let other = Live::start(other);
            let target = until("the other session's command", LONGEST, || {
                let all = processes_of(scene.place.root());
                let found = all.iter().find(|process| process.arguments == "sleep 4321");
                found.map(|process| process.pid)
            });
            let first = some("a session", scene.place.session());
            let live = Live::start(scene.session(
                "until test -e go; do sleep 0.05; done; sh run.sh; ls /dev/shm; ipcs -m | grep -c 0x; ls -d /proc/[0-9]* | wc -l",
            ));
            let tree = until("a second tree", LONGEST, || {
                let session = std::fs::read_dir(scene.place.state().join("sessions")).ok()?;
                let mut names = session
                    .flatten()
                    .map(|entry| entry.file_name().to_string_lossy().into_owned());
                let tree = scene.place.tree(&names.find(|name| *name != first)?);
                tree.join("run.sh").exists().then_some(tree)
            });
            let mut ground = scene.ground.clone();
            ground.plan.supervisor_pid = i32::try_from(target).unwrap_or(i32::MAX);
            ground.hands = ground.plan.supervisor_pid;
            let names = [
                "signal-supervisor",
                "trace-supervisor",
                "see-supervisor",
                "limit-supervisor",
                "read-environment-of-supervisor",
                "read-memory-of-hands",
                "open-memory-of-hands",
                "through-hands-root",
                "slow-supervisor",
            ];
            scene.order(&tree, &ground, &names);
            let done = live.wait(LONGEST);
            let output = done.json()["output"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let column = read(&output);
            for name in names {
                let came = some(name, column.get(name));
                assert!(came.refused, "{account:?}: {name}: {}", came.answer);
            }
            assert!(!output.contains("theirs"), "{account:?}: {output}");
            let alive = processes_of(scene.place.root())
                .iter()
                .any(|process| process.pid == target);
            assert!(alive, "{account:?}: the other session's command is gone");
            other.signal(Signal::SIGTERM);
            assert!(other.wait(LONGEST).code.is_some(), "it has ended by itself");
        });
    }

    #[test]
    fn es_023_nothing_outside_reaches_a_socket_that_a_session_makes() {
        each_account(|account| {
            let scene = Scene::new(account);
            let name = format!("inside-{}", scene.ground.plan.tcp_port);
            let perl = format!(
                "perl -MSocket -MIO::Socket::INET -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) or die; \
                 bind(S, pack(\"S\", AF_UNIX) . \"\\0{name}\") or die $!; listen(S, 1) or die; \
                 system(\"touch\", \"listening\"); sleep 30'"
            );
            if skipped(
                Path::new("/usr/bin/perl").exists(),
                "no perl to listen with",
            ) {
                return;
            }
            let mut live = Live::start(scene.session(&perl));
            let tree = scene.tree();
            until("the listener inside", LONGEST, || {
                tree.join("listening").exists().then_some(())
            });
            let address = must("a name", SocketAddr::from_abstract_name(&name));
            let connected = UnixStream::connect_addr(&address);
            assert!(connected.is_err(), "{account:?}: the outside reached it");
            assert!(!live.has_ended(), "it listened: {}", live.stdout());
            live.signal(Signal::SIGTERM);
            let _ = live.wait(LONGEST);
        });
    }

    #[test]
    fn es_024_without_a_path_and_a_home_a_session_is_as_confined() {
        each_account(|account| {
            let scene = Scene::new(account);
            let leak = leaked();
            let mut command = scene.session("until test -e go; do sleep 0.05; done; sh run.sh");
            command
                .env_remove("PATH")
                .env_remove("HOME")
                .env_remove("LANG");
            let live = Live::start(command);
            let tree = scene.tree();
            let mut ground = scene.ground.clone();
            (ground.plan.supervisor_pid, ground.hands) =
                (i32::try_from(live.pid()).unwrap_or(i32::MAX), 1);
            let names = [
                "read-outside",
                "write-outside",
                "connect-tcp",
                "signal-supervisor",
                "call.unshare",
            ];
            scene.order(&tree, &ground, &names);
            let done = live.wait(LONGEST);
            drop(leak);
            let column = read(done.json()["output"].as_str().unwrap_or_default());
            assert_eq!(column.len(), names.len(), "{account:?}: {done}");
            assert!(
                column.values().all(|came| came.refused),
                "{account:?}: {column:?}"
            );
        });
    }

    #[test]
    fn a_daemon_ends_with_its_command() {
        each_account(|account| {
            let place = Place::of(account);
            place.write("work/readme", "x\n");
            let daemon = "setsid sh -c 'setsid sh -c \"exec setsid sleep 98763\" & exit' </dev/null >/dev/null 2>&1 & sleep 0.3; echo left";
            let mut script = String::new();
            for line in [
                daemon,
                "until test -e go; do sleep 0.05; done; touch seen; sleep 1",
            ] {
                let call = json!({ "name": "bash", "input": { "command": line } });
                script.push_str(&format!(
                    "{}\n",
                    json!({ "text": "", "tool_calls": [call], "stop": "tool" })
                ));
            }
            script.push_str("{\"text\":\"done\",\"stop\":\"end\"}\n");
            let more = ["--output", "json", "--policy", place.copying()];
            let live = place.start_play(&script, &more);
            let session = until("a session", LONGEST, || place.session());
            // The second command runs: the first and all that it left are over.
            until("the second command", LONGEST, || {
                let all = processes_of(place.root());
                all.iter()
                    .any(|process| process.arguments.contains("until test -e go"))
                    .then_some(())
            });
            let left = processes_of(place.root());
            assert!(
                !left
                    .iter()
                    .any(|process| process.arguments == "sleep 98763"),
                "{account:?}: {left:?}"
            );
            must(
                "the word to go on",
                std::fs::write(place.tree(&session).join("go"), ""),
            );
            let done = live.wait(LONGEST);
            assert_eq!(done.code, Some(0), "{account:?}: {done}");
            assert_eq!(settled(place.root()), [], "{account:?}");
            // Bare the same line leaves it behind, or the case is broken.
            let mut bare = place.program(Path::new("/bin/sh"), ["-c", daemon]);
            bare.stdout(Stdio::null());
            assert!(must("a shell", bare.status()).success());
            let stays = processes_of(place.root());
            let stays = some(
                "the daemon",
                stays
                    .iter()
                    .find(|process| process.arguments == "sleep 98763"),
            );
            must(
                "end it",
                kill(
                    Pid::from_raw(i32::try_from(stays.pid).unwrap_or(i32::MAX)),
                    Signal::SIGKILL,
                ),
            );
        });
    }

    /// Plants `path` by a shell line, and looks at what a bulk apply makes of it.
    fn planted(path: &str, line: &str) {
        for account in Account::all() {
            let place = Place::of(account);
            place.write("work/readme", "x\n");
            place.write("work/.git/HEAD", "ref: refs/heads/main\n");
            place.write(
                "work/.git/config",
                "[core]\n\trepositoryformatversion = 0\n",
            );
            let before = place.read("work/.git/config");
            // In a script, so that the law does not see it coming: the kernel lets it be made in the
            // session's copy, and it must end there.
            let script = format!("set -e\ntouch plain\n{line}\ntest -e '{path}'\necho planted\n");
            place.write("work/plant.sh", script);
            let done = lines(&place, &["sh plant.sh"], &["--apply"]);
            assert!(
                done.stdout.contains("planted"),
                "{account:?}: the case is broken: {done}"
            );
            assert!(
                place.work().join("plain").exists(),
                "{account:?}: nothing was applied: {done}"
            );
            let planted = place.work().join(path);
            if path == ".git/config" {
                assert_eq!(
                    place.read("work/.git/config"),
                    before,
                    "{account:?}: it was applied"
                );
            } else {
                assert!(!planted.exists(), "{account:?}: {path} was applied: {done}");
            }
        }
    }

    macro_rules! plants {
        ($($name:ident: $path:literal, $line:literal;)*) => {
            $(
                #[test]
                fn $name() {
                    planted($path, $line);
                }
            )*
        };
    }

    plants! {
        es_002_a_git_hook_does_not_reach_the_workspace: ".git/hooks/pre-commit",
            "mkdir -p .git/hooks; printf '#!/bin/sh\\nid\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit";
        es_003_nor_a_hook_of_a_nested_repository: "vendor/sub/.git/hooks/pre-commit",
            "mkdir -p vendor/sub/.git/hooks; echo x > vendor/sub/.git/hooks/pre-commit";
        es_005_nor_another_hooks_folder: ".githooks/pre-push",
            "mkdir .githooks; echo x > .githooks/pre-push";
        es_005_nor_the_path_to_one: ".git/config",
            "printf '[core]\\n\\thooksPath = .githooks\\n' >> .git/config";
        es_006_nor_a_hook_folder_of_other_tools: ".github/hooks/start.json",
            "mkdir -p .github/hooks; echo '{}' > .github/hooks/start.json";
        es_035_nor_editor_settings: ".vscode/settings.json",
            "mkdir .vscode; echo '{\"chat.tools.autoApprove\": true}' > .vscode/settings.json";
        es_044_nor_git_settings_of_a_worktree: ".git/config.worktree",
            "printf '[core]\\n\\tfsmonitor = ./x.sh\\n' > .git/config.worktree";
        pa_016_nor_a_git_folder_in_other_letters: ".GIT/hooks/pre-commit",
            "mkdir -p .GIT/hooks; echo x > .GIT/hooks/pre-commit";
    }

    #[test]
    fn es_013_es_014_es_045_nothing_that_a_workspace_names_is_started() {
        each_account(|account| {
            let place = Place::of(account);
            let touched = place.root().join("outside");
            place.write("outside/readme", "x\n");
            place.mode("outside", 0o777);
            let touch = |name: &str| format!("touch {}", touched.join(name).display());
            let servers =
                json!({ "mcpServers": { "x": { "command": "sh", "args": ["-c", touch("mcp")] } } });
            let hooks = json!({ "hooks": { "SessionStart": [{ "hooks": [{ "type": "command", "command": touch("hook") }] }] } });
            let tasks = json!({ "tasks": [{ "command": touch("task"), "runOptions": { "runOn": "folderOpen" } }] });
            for (name, content) in [
                (".mcp.json", servers.to_string()),
                (".claude/settings.json", hooks.to_string()),
                (".vscode/tasks.json", tasks.to_string()),
                (".envrc", touch("envrc")),
                (
                    ".git/hooks/post-checkout",
                    format!("#!/bin/sh\n{}\n", touch("git")),
                ),
                ("readme", "x\n".to_owned()),
            ] {
                place.write(&format!("work/{name}"), content);
            }
            place.mode("work/.git/hooks/post-checkout", 0o755);
            lines(&place, &["echo well"], &["--apply"]);
            let names: Vec<_> = must("a folder", std::fs::read_dir(&touched))
                .flatten()
                .map(|entry| entry.file_name())
                .collect();
            assert_eq!(names, ["readme"], "{account:?}");
        });
    }

    /// What a tool answers in a workspace with these links.
    fn through(account: Account, tool: &str, input: &Value) -> (Done, Place) {
        let place = Place::of(account);
        place.write("work/readme", "x\n");
        place.write("outside/secret", "the planted secret\n");
        place.mode("outside", 0o777);
        place.mode("outside/secret", 0o666);
        for (name, to) in [
            ("escape", PathBuf::from("/")),
            ("out", place.root().join("outside")),
        ] {
            must(
                "a link",
                std::os::unix::fs::symlink(to, place.work().join(name)),
            );
        }
        let input: Value = must(
            "json",
            serde_json::from_str(
                &input
                    .to_string()
                    .replace("@ROOT@", &place.root().display().to_string()),
            ),
        );
        (place.call(tool, &input, &[]), place)
    }

    #[test]
    fn pa_001_a_link_to_the_root_leads_no_tool_out() {
        each_account(|account| {
            for (tool, input) in [
                (
                    "read_file",
                    json!({ "file_path": "escape@ROOT@/outside/secret" }),
                ),
                (
                    "grep",
                    json!({ "pattern": "planted", "path": "escape@ROOT@/outside" }),
                ),
                (
                    "glob",
                    json!({ "pattern": "*", "path": "escape@ROOT@/outside" }),
                ),
                ("list_directory", json!({ "path": "escape@ROOT@/outside" })),
                (
                    "bash",
                    json!({ "command": "cat escape@ROOT@/outside/secret; ls escape@ROOT@/outside" }),
                ),
            ] {
                let (done, _place) = through(account, tool, &input);
                let seen =
                    done.stdout.contains("planted secret") || done.stdout.contains("\"secret\"");
                assert!(!seen, "{account:?}, {tool}: {done}");
            }
        });
    }

    #[test]
    fn st_013_a_link_out_of_the_workspace_leads_no_tool_out() {
        each_account(|account| {
            for (tool, input) in [
                ("read_file", json!({ "file_path": "out/secret" })),
                (
                    "write_file",
                    json!({ "file_path": "out/owned", "content": "x" }),
                ),
                (
                    "edit_file",
                    json!({ "file_path": "out/secret", "old_string": "planted", "new_string": "changed" }),
                ),
                (
                    "bash",
                    json!({ "command": "cat out/secret; echo x > out/owned" }),
                ),
            ] {
                let (done, place) = through(account, tool, &input);
                assert!(
                    !done.stdout.contains("planted secret"),
                    "{account:?}, {tool}: {done}"
                );
                assert!(
                    !place.root().join("outside/owned").exists(),
                    "{account:?}, {tool}: {done}"
                );
                assert_eq!(
                    place.read("outside/secret").as_deref(),
                    Some("the planted secret\n")
                );
            }
        });
    }

    #[test]
    fn st_006_st_007_a_swapped_link_leads_no_tool_out() {
        each_account(|account| {
            let place = Place::of(account);
            place.write("work/ok/f", "safe\n");
            place.write("work/readme", "x\n");
            place.write("outside/f", "the planted secret\n");
            place.mode("outside", 0o777);
            place.mode("outside/f", 0o666);
            let outside = place.root().join("outside");
            let toggle = format!(
                "end=$(($(date +%s)+6)); while test $(date +%s) -lt $end; do \
                 ln -sfn ok link; ln -sfn {} link; ln -sfn /etc link; done",
                outside.display()
            );
            let mut script = String::new();
            let toggling =
                json!({ "name": "bash", "input": { "command": toggle, "background": true } });
            script.push_str(&format!(
                "{}\n",
                json!({ "text": "", "tool_calls": [toggling], "stop": "tool" })
            ));
            for round in 0..40 {
                let write = json!({ "name": "write_file", "input": { "file_path": format!("link/new{round}"), "content": "swapped" } });
                let read = json!({ "name": "read_file", "input": { "file_path": "link/f" } });
                script.push_str(&format!(
                    "{}\n",
                    json!({ "text": "", "tool_calls": [write, read], "stop": "tool" })
                ));
            }
            script.push_str("{\"text\":\"done\",\"stop\":\"end\"}\n");
            let done = place.play(&script, &["--output", "json"]);
            let names: Vec<_> = must("a folder", std::fs::read_dir(&outside))
                .flatten()
                .map(|entry| entry.file_name())
                .collect();
            assert_eq!(names, ["f"], "{account:?}: a write went out: {done}");
            let session = some("a session", place.session());
            let told = place.told(&session);
            let text = format!("{told:?}");
            assert!(
                !text.contains("the planted secret"),
                "{account:?}: a read went out"
            );
            let tried = told
                .iter()
                .filter(|entry| entry["kind"] == "verdict" || entry["kind"] == "refused")
                .count();
            assert!(
                tried > 40,
                "{account:?}: only {tried} calls were tried: {done}"
            );
        });
    }

    #[test]
    fn what_is_armed_is_of_this_build() {
        if !armed() {
            return;
        }
        let liar = some("the attacker", lies::worker());
        let said = must("a version", Command::new(&liar).arg("--version").output());
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        if !said.contains(protocol::BUILD) {
            fail(&format!(
                "`{}` is of another build: `make liar`",
                liar.display()
            ));
        }
    }
}
