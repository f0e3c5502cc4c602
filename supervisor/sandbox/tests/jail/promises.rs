//! The promises, one after the other; each under root and under an ordinary account.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        linux::net::SocketAddrExt as _,
        unix::{
            fs::{MetadataExt as _, PermissionsExt as _, chown},
            net::SocketAddr,
            process::CommandExt as _,
        },
    },
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use policies::{Confinement, Filesystem, Limits, Mode, Models, Network, Settings, WorkspaceMode};
use protocol::{
    CommandId, CommandLimits, Digest, Exit, Failure, FailureClass, Order, Probe, ProbeDomain, Put,
    PutDone, Report, Request, Resolved, SessionId, Spawn, bounds,
    frame::Decoder,
    jail::{JailSpec, Mount, ProbePlan, Situation},
    reader::{Errand, Finding, ReaderSpec},
};
use supervisor_sandbox::{
    ClaimedUid, Host, Jail, LaunchError, SessionPlace, WorkerBinary, command_environment,
    find_worker, free_uid, jail_spec, launch, pipe_pair, run_reader, send_order,
};

/// An id that is surely nobody's: the overflow account.
const ACCOUNT: u32 = 65_534;
/// Says to a copy of this test that it runs as the account.
const AS_ACCOUNT: &str = "PROVOST_TEST_AS_ACCOUNT";

fn settings() -> Settings {
    Settings {
        mode: Mode::OnRequest,
        confinement: Confinement {
            backend: policies::Backend::Landlock,
            image: None,
            runtime: None,
            namespaces: true,
            workspace: Some(WorkspaceMode::Copy),
            rights: BTreeMap::new(),
        },
        filesystem: Filesystem::default(),
        network: Network::default(),
        limits: Limits {
            memory: bounds::MEMORY,
            processes: bounds::PROCESSES,
            cpu: None,
            disk: bounds::DISK,
            wall: 60,
            output: 1,
            turns: 1,
            iterations: 1,
            ..Limits::default()
        },
        models: Models::default(),
        databases: Vec::new(),
        hooks: Vec::new(),
    }
}

fn worker() -> WorkerBinary {
    if let Ok(worker) = find_worker() {
        return worker;
    }
    // target/debug/deps/jail-… → target/TRIPLE/release/provost-worker
    let own = std::env::current_exe().expect("known");
    let target = own.ancestors().nth(3).expect("a target folder");
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let path = target.join(triple).join("release/provost-worker");
    WorkerBinary::open(&path).expect("build the worker first: `make worker`")
}

/// A session's folder, its tree, and its identity.
struct Session {
    folder: tempfile::TempDir,
    claim: Option<ClaimedUid>,
    worker: WorkerBinary,
    spec: JailSpec,
}

impl Session {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let tree = folder.path().join("tree");
        fs::create_dir(&tree).expect("made");
        fs::write(tree.join("hello"), "hello\n").expect("written");
        let root = rustix::process::geteuid().is_root();
        let claim = root.then(|| free_uid(folder.path(), None).expect("a free id"));
        if let Some(claim) = &claim {
            let id = claim.identity();
            for path in [tree.clone(), tree.join("hello")] {
                chown(path, Some(id.uid), Some(id.gid)).expect("owned");
            }
        }
        let id = SessionId::parse("s-test").expect("valid");
        let settings = settings();
        let place = SessionPlace {
            situation: protocol::jail::Situation::Namespaces,
            doors: protocol::jail::Doors::default(),
            session: &id,
            workspace: Path::new("/srv/work"),
            tree: &tree,
            overlay: None,
            settings: &settings,
            identity: claim.as_ref().map(ClaimedUid::identity),
            own_reach: false,
            home: Path::new("/home/u"),
            private: &[],
        };
        let spec = jail_spec(&place, &Host::look()).expect("drawn");
        Self {
            folder,
            claim,
            worker: worker(),
            spec,
        }
    }

    fn uid(&self) -> u32 {
        let own = || rustix::process::getuid().as_raw();
        self.claim
            .as_ref()
            .map_or_else(own, |claim| claim.identity().uid)
    }

    fn tree(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    fn start(&self) -> Running<'_> {
        let jail = launch(&self.spec, &self.worker).expect("the jail stands");
        jail.hands
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("set");
        Running {
            session: self,
            jail,
            decoder: Decoder::new(bounds::FRAME),
        }
    }
}

struct Running<'a> {
    session: &'a Session,
    jail: Jail,
    decoder: Decoder,
}

impl Running<'_> {
    fn order(&self, order: &Order, fds: &[BorrowedFd<'_>]) {
        send_order(&self.jail.hands, order, fds).expect("sent");
    }

    fn report(&mut self) -> Report {
        loop {
            if let Some(report) = self.decoder.next_message().expect("of the treaty") {
                return report;
            }
            let mut bytes = [0_u8; 4096];
            let got = (&self.jail.hands)
                .read(&mut bytes)
                .expect("hands answers in time");
            assert_ne!(got, 0, "hands is alive");
            self.decoder.push(&bytes[..got]);
        }
    }

    fn spawn(&self, command: &str, script: &str, stdin: Option<&OwnedFd>) -> OwnedFd {
        let (read, write) = pipe_pair().expect("pipe");
        let order = Order::Spawn(Spawn {
            command: CommandId::parse(command).expect("valid"),
            argv: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            cwd: self.session.spec.workspace.clone(),
            env: command_environment(&self.session.spec),
            domain: self.session.spec.ceiling.clone(),
            limits: CommandLimits {
                cpu_seconds: 20,
                data: 0,
                file_size: bounds::MIB,
                open_files: 64,
            },
            stdin: stdin.is_some(),
            errors: false,
            program: false,
        });
        let mut fds = vec![write.as_fd()];
        fds.extend(stdin.map(OwnedFd::as_fd));
        self.order(&order, &fds);
        read
    }

    /// Runs a command to its end and gives what it said and how it left.
    fn run(&mut self, script: &str) -> (String, Exit, u32) {
        let output = self.spawn("c1", script, None);
        let text = read_all(output);
        let spawned = self.report();
        assert!(
            matches!(spawned, Report::Spawned { .. }),
            "{spawned:?} {text}"
        );
        match self.report() {
            Report::Exited {
                exit, left_running, ..
            } => (text, exit, left_running),
            other => panic!("{other:?}"),
        }
    }
}

fn read_all(fd: OwnedFd) -> String {
    let mut text = String::new();
    fs::File::from(fd).read_to_string(&mut text).expect("utf-8");
    text
}

fn id(command: &str) -> CommandId {
    CommandId::parse(command).expect("valid")
}

/// Processes of this machine whose command line holds `word`.
fn holding(word: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("proc");
    let own = std::process::id().to_string();
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy() != own)
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).into_owned())
        .filter(|line| line.contains(word))
        .collect()
}

fn assert_gone(word: &str) {
    let start = Instant::now();
    while !holding(word).is_empty() {
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "left: {:?}",
            holding(word)
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// No worker, alive or zombie, is a child of this process.
fn assert_no_worker_left() {
    let own = format!("PPid:\t{}\n", std::process::id());
    let entries = fs::read_dir("/proc").expect("proc");
    let statuses = entries
        .flatten()
        .filter_map(|e| fs::read_to_string(e.path().join("status")).ok());
    let left: Vec<String> = statuses
        .filter(|status| status.contains(&own) && status.starts_with("Name:\tprovost-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Each promise of a box, one after the other, under whoever runs it.
fn all_promises() {
    commands_run_in_the_view();
    files_change_by_exchange();
    kill_is_complete();
    the_agent_starts_once_and_its_end_is_told();
    the_probes_speak();
    bounds_hold();
    every_end_is_an_end();
    an_unfit_view_names_its_step();
    a_reader_does_its_errand_and_no_other();
}

fn commands_run_in_the_view() {
    let session = Session::new();
    let mut running = session.start();
    let facts = running.jail.facts.clone();
    assert_eq!(
        (facts.uid, facts.situation),
        (session.uid(), Situation::Namespaces)
    );
    assert!(
        facts.abi >= 1 && facts.capabilities.bytes().all(|b| b == b'0'),
        "{facts:?}"
    );
    let (text, exit, left) =
        running.run("id -u; cat hello; echo err >&2; ls -d /* | tr '\\n' ' '; echo $HOME $$");
    assert_eq!(
        (exit, left),
        (
            Exit {
                code: Some(0),
                signal: None
            },
            0
        ),
        "{text}"
    );
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some(session.uid().to_string().as_str()),
        "{text}"
    );
    assert_eq!(
        (lines.next(), lines.next()),
        (Some("hello"), Some("err")),
        "{text}"
    );
    let last = lines.next().expect("a listing");
    for hidden in ["/root", "/sys", "/work", "/boot", "/mnt"] {
        assert!(!last.split(' ').any(|name| name == hidden), "{last}");
    }
    assert!(last.contains("/home/u "), "{last}");
    let (text, exit, _) = running.run("cat; echo x > made && ls -n made");
    assert_eq!(exit.code, Some(0), "standard input is /dev/null: {text}");
    let made = fs::metadata(session.tree().join("made")).expect("in the tree");
    assert_eq!((made.uid(), made.len()), (session.uid(), 2));
    // Standard input comes when asked for.
    let (read, write) = pipe_pair().expect("pipe");
    let output = running.spawn("c2", "tr a-z A-Z", Some(&read));
    drop(read);
    fs::File::from(write).write_all(b"shout").expect("written");
    assert_eq!(read_all(output), "SHOUT");
    assert!(matches!(running.report(), Report::Spawned { command } if command == id("c2")));
    assert!(matches!(running.report(), Report::Exited { .. }));
    let (_, exit, _) = running.run("kill -TERM $$");
    assert_eq!(
        exit,
        Exit {
            code: None,
            signal: Some(15)
        }
    );
}

fn files_change_by_exchange() {
    let session = Session::new();
    let mut running = session.start();
    running.order(
        &Order::Resolve {
            order: 1,
            path: "hello".into(),
        },
        &[],
    );
    let Report::Resolved {
        order: 1,
        found: Resolved::File(entry),
    } = running.report()
    else {
        panic!("a file")
    };
    assert_eq!(entry.digest, Some(Digest::of(b"hello\n")));
    let put = |order, path: &str, expected, content: &str| {
        let put = Put {
            order,
            path: path.to_owned(),
            expected,
            content: content.to_owned(),
            make_parents: true,
        };
        let (read, write) = pipe_pair().expect("pipe");
        running.order(&Order::Put(put), &[write.as_fd()]);
        drop(write);
        read_all(read)
    };
    assert_eq!(put(2, "hello", entry.digest.clone(), "new"), "hello\n");
    assert_eq!(put(3, "a/b/c", None, "deep"), "");
    assert_eq!(put(4, "hello", entry.digest, "stale"), "");
    let before = Some((Digest::of(b"hello\n"), 6));
    let done = PutDone {
        created: false,
        digest: Digest::of(b"new"),
        before,
    };
    assert_eq!(running.report(), Report::PutDone { order: 2, done });
    assert!(matches!(running.report(), Report::PutDone { order: 3, done } if done.created));
    let Report::Failed {
        order: Some(4),
        failure,
        ..
    } = running.report()
    else {
        panic!("failed")
    };
    assert_eq!(failure.class, FailureClass::Changed);
    assert_eq!(
        fs::read_to_string(session.tree().join("hello")).expect("read"),
        "new"
    );
    assert_eq!(
        fs::read_to_string(session.tree().join("a/b/c")).expect("read"),
        "deep"
    );
    assert_eq!(
        fs::metadata(session.tree().join("a/b/c"))
            .expect("there")
            .uid(),
        session.uid()
    );
}

fn kill_is_complete() {
    let session = Session::new();
    let mut running = session.start();
    let word = format!("8{}", std::process::id());
    let script = format!("setsid sleep {word} & (sleep {word} & sleep {word}) & echo up; wait");
    let output = running.spawn("c1", &script, None);
    assert!(matches!(running.report(), Report::Spawned { .. }));
    let mut up = [0_u8; 3];
    let mut output = fs::File::from(output);
    output.read_exact(&mut up).expect("up");
    while holding(&word).len() < 4 {
        std::thread::yield_now();
    }
    running.order(&Order::Kill { command: id("c1") }, &[]);
    let report = running.report();
    assert!(
        matches!(&report, Report::Exited { command, .. } if *command == id("c1")),
        "{report:?}"
    );
    assert_gone(&word);
    let mut rest = Vec::new();
    assert_eq!(output.read_to_end(&mut rest).expect("closed"), 0);
    running.order(&Order::Kill { command: id("c1") }, &[]);
    let Report::Failed {
        command,
        failure: Failure { class, .. },
        ..
    } = running.report()
    else {
        panic!("failed")
    };
    assert_eq!((command, class), (Some(id("c1")), FailureClass::NotFound));
    // What a leader leaves running is ended and told.
    let (text, exit, left) = running.run(&format!("sleep {word} >/dev/null 2>&1 & echo left"));
    assert_eq!((text.as_str(), exit.code), ("left\n", Some(0)));
    assert_eq!(left, 1);
    assert_gone(&word);
}

fn the_agent_starts_once_and_its_end_is_told() {
    let session = Session::new();
    let mut running = session.start();
    running.order(&Order::StartAgent, &[]);
    assert_eq!(running.report(), Report::AgentStarted);
    let mut agent = &running.jail.agent;
    agent
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("set");
    let mut decoder = Decoder::new(bounds::FRAME);
    let hello = loop {
        if let Some(request) = decoder.next_message::<Request>().expect("of the treaty") {
            break request;
        }
        let mut bytes = [0_u8; 4096];
        let got = agent.read(&mut bytes).expect("the agent greets in time");
        assert_ne!(got, 0, "the agent is alive");
        decoder.push(&bytes[..got]);
    };
    let Request::Hello(hello) = hello else {
        panic!("{hello:?}")
    };
    hello
        .check(protocol::ROLE_AGENT, &session.spec.session)
        .expect("ours");
    running.order(&Order::StartAgent, &[]);
    let Report::Failed {
        order: None,
        command: None,
        failure,
    } = running.report()
    else {
        panic!("a second agent")
    };
    assert_eq!(failure.class, FailureClass::Limit);
    // End-of-file on its link ends it.
    running
        .jail
        .agent
        .shutdown(std::net::Shutdown::Both)
        .expect("shut");
    assert!(matches!(running.report(), Report::AgentGone(_)));
    // Commands live on without it.
    assert_eq!(running.run("echo still").0, "still\n");
}

fn the_probes_speak() {
    let session = Session::new();
    let mut running = session.start();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let secret = session.folder.path().join("secret");
    fs::write(&secret, "secret").expect("written");
    let path = session.folder.path().join("socket");
    let _unix = std::os::unix::net::UnixListener::bind(&path).expect("bound");
    let unheard = format!("provost-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&unheard).expect("an address");
    let _abstract = std::os::unix::net::UnixListener::bind_addr(&address).expect("bound");
    let text = |path: &Path| path.to_str().expect("utf-8").to_owned();
    let plan = ProbePlan {
        outside_file: text(&secret),
        outside_folder: text(session.folder.path()),
        hidden: Vec::new(),
        tcp_port: tcp.local_addr().expect("bound").port(),
        unix_path: text(&path),
        unix_abstract: unheard,
        queue: String::new(),
        ipc_namespace: std::fs::read_link("/proc/self/ns/ipc")
            .expect("a namespace")
            .display()
            .to_string(),
        shared_memory: String::new(),
        supervisor_pid: i32::try_from(std::process::id()).expect("fits"),
        workspace: session.spec.workspace.clone(),
        tmp: "/tmp".to_owned(),
    };
    for (name, domain) in [("p1", ProbeDomain::Agent), ("p2", ProbeDomain::Command)] {
        let (read, write) = pipe_pair().expect("pipe");
        let probe = Order::Probe {
            command: id(name),
            domain,
            plan: plan.clone(),
        };
        running.order(&probe, &[write.as_fd()]);
        drop(write);
        let found = read_all(read);
        assert!(
            matches!(running.report(), Report::Spawned { .. }),
            "{found}"
        );
        assert!(
            matches!(
                running.report(),
                Report::Exited {
                    exit: Exit { code: Some(0), .. },
                    ..
                }
            ),
            "{found}"
        );
        let probes: Vec<Probe> = found
            .lines()
            .map(|line| serde_json::from_str(line).expect("a probe"))
            .collect();
        assert!(probes.len() > 5 && probes.iter().all(|probe| probe.domain == domain));
        let open: Vec<_> = probes.iter().filter(|probe| !probe.held()).collect();
        assert!(open.is_empty(), "{open:?}");
    }
}

fn bounds_hold() {
    let session = Session::new();
    let mut running = session.start();
    let word = format!("7{}", std::process::id());
    let outputs: Vec<OwnedFd> = (0..bounds::COMMANDS)
        .map(|n| running.spawn(&format!("b{n}"), &format!("exec sleep {word}"), None))
        .collect();
    for _ in 0..bounds::COMMANDS {
        let report = running.report();
        assert!(matches!(report, Report::Spawned { .. }), "{report:?}");
    }
    for name in ["one", "b0"] {
        let output = running.spawn(name, "true", None);
        let Report::Failed {
            command, failure, ..
        } = running.report()
        else {
            panic!("failed")
        };
        assert_eq!(
            (command, failure.class),
            (Some(id(name)), FailureClass::Limit)
        );
        assert_eq!(read_all(output), "");
    }
    running.jail.process.kill().expect("ended");
    for output in outputs {
        assert_eq!(read_all(output), "");
    }
    assert_gone(&word);
}

fn every_end_is_an_end() {
    let session = Session::new();
    let word = format!("6{}", std::process::id());
    let begin = || {
        let mut running = session.start();
        running.spawn("c1", &format!("setsid sleep {word} & sleep {word}"), None);
        assert!(matches!(running.report(), Report::Spawned { .. }));
        while holding(&word).len() < 2 {
            std::thread::yield_now();
        }
        running
    };
    // By order.
    let mut running = begin();
    running.order(&Order::End, &[]);
    running.jail.process.wait().expect("ended");
    assert_gone(&word);
    // By the supervisor's end: only the links close.
    let Running { jail, .. } = begin();
    let Jail {
        agent,
        hands,
        mut process,
        ..
    } = jail;
    drop((agent, hands));
    process.wait().expect("ended");
    assert_gone(&word);
    // By force; and a second time is no fault.
    let mut running = begin();
    running.jail.process.kill().expect("ended");
    running.jail.process.kill().expect("still");
    assert!(running.jail.process.has_ended());
    assert_gone(&word);
    // By garbage: hands believes nobody who breaks the treaty.
    let mut running = begin();
    (&running.jail.hands)
        .write_all(b"\0\0\0\x02{}")
        .expect("sent");
    running.jail.process.wait().expect("ended");
    assert_gone(&word);
    // By being dropped.
    drop(begin());
    assert_gone(&word);
    assert_no_worker_left();
}

fn an_unfit_view_names_its_step() {
    let mut session = Session::new();
    session.spec.view.insert(
        0,
        Mount::ReadOnly {
            source: "/nowhere/at/all".into(),
            target: "/nowhere".into(),
        },
    );
    match launch(&session.spec, &session.worker) {
        Err(LaunchError::Unfit { step, message }) => {
            assert!(
                step.contains("/nowhere") || message.contains("/nowhere"),
                "{step}: {message}"
            );
        }
        other => panic!("{other:?}"),
    }
}

fn a_reader_does_its_errand_and_no_other() {
    let session = Session::new();
    let at = |name: &str| {
        session
            .folder
            .path()
            .join(name)
            .to_str()
            .expect("utf-8")
            .to_owned()
    };
    fs::create_dir_all(session.folder.path().join("work/src")).expect("made");
    fs::write(at("work/src/main"), "text").expect("written");
    fs::create_dir(at("copy")).expect("made");
    let errand = |tree: &str| Errand::CopyIn {
        workspace: at("work"),
        tree: tree.to_owned(),
        manifest: at("manifest"),
        hide: Vec::new(),
        max_bytes: 1000,
        max_entries: 10,
        owner: session.claim.as_ref().map(ClaimedUid::identity),
    };
    let run = |errand| {
        let session = SessionId::parse("s-test").expect("valid");
        let spec = ReaderSpec {
            build: protocol::BUILD.to_owned(),
            session,
            account: None,
            errand,
        };
        let mut findings = Vec::new();
        let result = run_reader(&worker(), &spec, &mut |finding| findings.push(finding));
        (findings, result)
    };
    let (findings, result) = run(errand(&at("copy")));
    result.expect("whole");
    assert!(
        matches!(findings.as_slice(), [Finding::Copied { bytes: 4, .. }]),
        "{findings:?}"
    );
    assert_eq!(
        fs::read_to_string(at("copy/src/main")).expect("copied"),
        "text"
    );
    assert_eq!(
        fs::metadata(at("copy/src/main")).expect("copied").uid(),
        session.uid()
    );
    let (findings, result) = run(Errand::List {
        kind: protocol::reader::TreeKind::Copy,
        tree: at("copy"),
        manifest: at("manifest"),
        hide: Vec::new(),
        workspace: Some(at("work")),
    });
    result.expect("whole");
    let [
        Finding::Changes {
            changes,
            more: false,
            ..
        },
    ] = findings.as_slice()
    else {
        panic!("{findings:?}")
    };
    assert!(changes.is_empty(), "{changes:?}");
    // What cannot be done is a finding, and the reader leaves.
    let (findings, result) = run(errand(&at("no/such/folder")));
    result.expect("told");
    assert!(
        matches!(findings.as_slice(), [Finding::Failed { .. }]),
        "{findings:?}"
    );
    // Another build's reader is refused before it touches anything.
    let spec = ReaderSpec {
        build: "0+0".to_owned(),
        session: SessionId::parse("s-test").expect("valid"),
        account: None,
        errand: Errand::Remove { folder: at("copy") },
    };
    let mut findings = Vec::new();
    run_reader(&worker(), &spec, &mut |finding| findings.push(finding)).expect("told");
    assert!(
        matches!(findings.as_slice(), [Finding::Failed { .. }]),
        "{findings:?}"
    );
    assert!(fs::exists(at("copy/src/main")).expect("looked"));
    assert_no_worker_left();
}

#[test]
fn a_box_keeps_its_promises() {
    all_promises();
}

#[test]
fn a_box_keeps_its_promises_to_an_ordinary_account() {
    if std::env::var_os(AS_ACCOUNT).is_some() || !rustix::process::geteuid().is_root() {
        // Then the other test is this one.
        return;
    }
    // Copies that the account can reach, wherever the build lies.
    let folder = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir()
        .expect("folder");
    let (test, binary) = (
        folder.path().join("test"),
        folder.path().join("provost-worker"),
    );
    fs::copy(std::env::current_exe().expect("known"), &test).expect("copied");
    fs::copy(worker().path(), &binary).expect("copied");
    let output = Command::new(&test)
        .args([
            "--exact",
            "promises::a_box_keeps_its_promises",
            "--nocapture",
        ])
        .uid(ACCOUNT)
        .gid(ACCOUNT)
        .env_clear()
        .env(AS_ACCOUNT, "1")
        .env("PROVOST_WORKER", &binary)
        .current_dir("/")
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}
