//! What happens inside a box: scenarios that pid 1 plays, and the roles that it starts.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use nix::{
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::pipe2,
};
use protocol::{
    CommandId, CommandLimits, Exit, Failure, Probe, ProbeDomain, Spawn, bounds,
    jail::{JailSpec, ProbePlan, Situation, WORKER_INSIDE, WORKER_ITSELF},
};
use worker_jail::{Child, Hands, News, Outcome, Role, Streams, View, attack as attacks, build};

use crate::Verdict;

/// The box: plays a scenario as pid 1 and tells on standard output.
pub(crate) fn enter(scenario: &str, spec: &str, plan: &str) -> ExitCode {
    let played = || -> Verdict {
        let spec: JailSpec = serde_json::from_str(spec).map_err(told)?;
        let plan: ProbePlan = serde_json::from_str(plan).map_err(told)?;
        match build(&spec, &[]).map_err(|unfit| format!("unfit: {unfit}"))? {
            Role::Outside(outside) => match outside.wait().map_err(told)? {
                Exit { code: Some(0), .. } => Ok(()),
                exit => Err(format!("pid 1 left with {exit:?}")),
            },
            Role::PidOne(view) => play(scenario, view, &plan),
        }
    };
    match played() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(&why);
            ExitCode::FAILURE
        }
    }
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// The agent role: raises its walls, then tells over its link what it can read.
pub(crate) fn agent(walls: &str) -> ExitCode {
    let Ok(link) = worker_jail::agent_link() else {
        return ExitCode::from(70);
    };
    let mut link = File::from(link);
    if let Err(unfit) = worker_jail::confine_agent(walls) {
        let _ = writeln!(link, "{unfit}");
        return ExitCode::from(77);
    }
    let mut text = String::new();
    for path in [
        "/workspace/readme",
        "/workspace/out",
        "/proc/self/status",
        "/etc/passwd",
    ] {
        let read = std::fs::read_to_string(path).map(|text| text.trim().to_owned());
        text.push_str(&format!(
            "{path} {}\n",
            read.unwrap_or_else(|error| error.to_string())
        ));
    }
    let made = std::thread::Builder::new().spawn(|| {}).is_ok();
    text.push_str(&format!("thread {made}\n"));
    let told = link.write_all(text.as_bytes()).is_ok();
    // End of file on the link is the law that ends a process.
    let ended = link.read(&mut [0; 1]).is_ok_and(|read| read == 0);
    if told && ended {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The reader role: raises its walls, then tells what it can still do. `write` is a folder that
/// it may change, `read` one that it may read.
pub(crate) fn reader(write: &str, read: &str) -> ExitCode {
    let (write, read) = (Path::new(write), Path::new(read));
    if let Err(unfit) = worker_jail::confine_reader(&[write], &[read], &[]) {
        say(&format!("unfit: {unfit}"));
        return ExitCode::from(77);
    }
    let root = nix::unistd::geteuid().is_root();
    let parent = nix::unistd::getppid();
    let status = |_: &str| -> bool {
        // Root keeps four, an account none; both are read back by the walls themselves, and here by
        // what they do: changing the owner of a file to another account.
        let other = if root { Some(1) } else { None };
        std::os::unix::fs::chown(write.join("secret"), other, None).is_ok()
    };
    let tries: [(&str, bool); 13] = [
        ("write", std::fs::write(write.join("new"), "x").is_ok()),
        ("rename", {
            let made = std::fs::create_dir(write.join("sub")).is_ok();
            made && std::fs::rename(write.join("new"), write.join("sub/new")).is_ok()
        }),
        ("read", std::fs::read(read.join("readme")).is_ok()),
        ("chown", status("secret")),
        (
            "capabilities",
            !root || std::fs::read(write.join("secret")).is_ok(),
        ),
        (
            "write-read-only",
            std::fs::write(read.join("new"), "x").is_ok(),
        ),
        ("read-elsewhere", std::fs::read("/etc/passwd").is_ok()),
        ("list-root", std::fs::read_dir("/").is_ok()),
        ("socket", std::net::UdpSocket::bind("127.0.0.1:0").is_ok()),
        (
            "exec",
            std::process::Command::new("/bin/true").status().is_ok(),
        ),
        ("fork", std::thread::Builder::new().spawn(|| {}).is_ok()),
        ("signal", nix::sys::signal::kill(parent, None).is_ok()),
        ("limits", worker_jail::attack::limits_of(parent.as_raw())),
    ];
    for (name, worked) in tries {
        say(&format!("{name} {worked}"));
    }
    ExitCode::SUCCESS
}

/// The attack role: one attack, its outcome on standard output.
pub(crate) fn attack(name: &str, plan: &str, hands: &str) -> ExitCode {
    let tried = || -> Option<Outcome> {
        let plan: ProbePlan = serde_json::from_str(plan).ok()?;
        attacks::run(name, &plan, hands.parse().ok()?)
    };
    match tried() {
        Some(outcome) => {
            let word = if outcome.refused {
                "refused"
            } else {
                "succeeded"
            };
            say(&format!("{word} {}", outcome.answer));
            ExitCode::SUCCESS
        }
        None => ExitCode::from(64),
    }
}

fn play(scenario: &str, view: View, plan: &ProbePlan) -> Verdict {
    if scenario == "unconfined" {
        return unconfined(plan);
    }
    let hands = view
        .confine_hands(&[])
        .map_err(|unfit| format!("unfit: {unfit}"))?;
    match scenario {
        "stands" => stands(&hands),
        "probes" => probes(&hands, plan),
        "commands" => commands(&hands),
        "ends" => ends(&hands),
        "scopes" => scopes(&hands),
        "agent" => start_agent(&hands),
        "attacks" => all_attacks(&hands, plan),
        // The parent is the supervisor here: of the same account, and in sight.
        "supervised" => probes(
            &hands,
            &ProbePlan {
                supervisor_pid: nix::unistd::getppid().as_raw(),
                ..plan.clone()
            },
        ),
        "rest" => rest(&hands),
        "hang" => hang(&hands),
        "times" => times(&hands),
        other => Err(format!("no scenario `{other}`")),
    }
}

/// Without hands' walls, in the same view: what only Landlock and seccomp hold is not held.
fn unconfined(plan: &ProbePlan) -> Verdict {
    let (hands, raise) = (1, worker_jail::Raise::Nothing);
    match worker_jail::try_all(ProbeDomain::Command, hands, plan, raise) {
        Ok(probes) => probes.iter().try_for_each(|probe| {
            say(&serde_json::to_string(probe).map_err(told)?);
            Ok(())
        }),
        Err(error) => Err(told(error)),
    }
}

fn stands(hands: &Hands) -> Verdict {
    say(&serde_json::to_string(&hands.standing().report()).map_err(told)?);
    Ok(())
}

/// A pipe whose write end goes to a child.
fn output() -> Result<(File, OwnedFd), String> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC).map_err(told)?;
    Ok((read.into(), write))
}

/// A child's next news, waited for as hands waits.
fn next(child: &mut Child) -> Result<News, String> {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(news) = child.news() {
            return Ok(news);
        }
        let mut watched = [PollFd::new(child.watch(), PollFlags::POLLIN)];
        let _ = poll(&mut watched, PollTimeout::from(1_000_u16));
        if Instant::now() > until {
            return Err("no news for ten seconds".to_owned());
        }
    }
}

/// The binary as it is executed inside.
fn worker(hands: &Hands) -> &'static str {
    match hands.standing().situation {
        Situation::Landlock => WORKER_ITSELF,
        Situation::Namespaces | Situation::Container => WORKER_INSIDE,
    }
}

fn order(hands: &Hands, argv: &[&str]) -> Result<Spawn, String> {
    let mut domain = hands.ceiling().clone();
    domain.exec.push(worker(hands).to_owned());
    let workspace = domain.write.first().cloned().unwrap_or_default();
    Ok(Spawn {
        command: CommandId::parse("c1").map_err(told)?,
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
        cwd: workspace,
        env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        domain,
        limits: CommandLimits {
            cpu_seconds: 20,
            data: 0,
            file_size: bounds::MIB,
            open_files: 64,
        },
        stdin: false,
        errors: false,
        program: false,
    })
}

/// What a command wrote and how it ended.
struct Ran {
    text: String,
    exit: Exit,
    left_running: u32,
}

fn run(
    hands: &Hands,
    order: &Spawn,
    stdin: Option<OwnedFd>,
) -> Result<Result<Ran, Failure>, String> {
    let (mut read, write) = output()?;
    let mut child = match hands.spawn(
        order,
        Streams {
            stdin,
            ..Streams::of(write)
        },
    ) {
        Ok(child) => child,
        Err(failure) => return Ok(Err(failure)),
    };
    let mut text = String::new();
    match next(&mut child)? {
        News::Started => {}
        News::Failed(failure) => return Ok(Err(failure)),
        News::Ended { exit, .. } => return Err(format!("ended before it started: {exit:?}")),
    }
    read.read_to_string(&mut text).map_err(told)?;
    match next(&mut child)? {
        News::Ended { exit, left_running } => Ok(Ok(Ran {
            text,
            exit,
            left_running,
        })),
        other => Err(format!("{other:?} after the start")),
    }
}

/// A shell line, which must start.
fn shell(hands: &Hands, line: &str) -> Result<Ran, String> {
    run(hands, &order(hands, &["/bin/sh", "-c", line])?, None)?
        .map_err(|failure| format!("`{line}`: {}", failure.message))
}

fn check(holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(what()) }
}

fn probes(hands: &Hands, plan: &ProbePlan) -> Verdict {
    for domain in [ProbeDomain::Agent, ProbeDomain::Command] {
        let start = Instant::now();
        let (mut read, write) = output()?;
        let mut child = hands
            .probe(domain, plan, write)
            .map_err(|failure| failure.message)?;
        let mut text = String::new();
        read.read_to_string(&mut text).map_err(told)?;
        let took = start.elapsed();
        loop {
            match next(&mut child)? {
                News::Started => {}
                News::Ended {
                    exit: Exit { code: Some(0), .. },
                    ..
                } => break,
                other => return Err(format!("the probe: {other:?}")),
            }
        }
        let _ = write!(std::io::stdout().lock(), "{text}");
        say(&format!("took {domain:?} {}", took.as_micros()));
        for line in text.lines() {
            serde_json::from_str::<Probe>(line).map_err(told)?;
        }
    }
    Ok(())
}

fn commands(hands: &Hands) -> Verdict {
    let ran = shell(hands, "echo out; echo err >&2; cat /workspace/readme")?;
    check(ran.text == "out\nerr\nhello", || {
        format!("output `{}`", ran.text)
    })?;
    check(
        ran.exit
            == Exit {
                code: Some(0),
                signal: None,
            },
        || format!("{:?}", ran.exit),
    )?;
    check(ran.left_running == 0, || {
        format!("{} left", ran.left_running)
    })?;

    let ran = shell(hands, "exit 7")?;
    check(ran.exit.code == Some(7), || format!("{:?}", ran.exit))?;
    let ran = shell(hands, "kill -TERM $$")?;
    check(ran.exit.signal == Some(15), || format!("{:?}", ran.exit))?;

    // The environment is exactly the order's (the shell adds PWD), the descriptors exactly three.
    let ran = shell(
        hands,
        "env | sort; ls -l /proc/self/fd | wc -l; pwd; ulimit -n; ulimit -c",
    )?;
    let wanted = "PATH=/usr/bin:/bin\nPWD=/workspace\n5\n/workspace\n64\n0\n";
    let text = ran
        .text
        .replace("_=/usr/bin/env\n", "")
        .replace("SHLVL=0\n", "");
    check(text == wanted, || format!("`{text}`"))?;

    // Standard input when it is asked for, /dev/null otherwise.
    let ran = shell(hands, "cat")?;
    check(ran.text.is_empty(), || ran.text.clone())?;
    let (read, write) = pipe2(OFlag::O_CLOEXEC).map_err(told)?;
    File::from(write).write_all(b"typed").map_err(told)?;
    let mut asked = order(hands, &["/bin/cat"])?;
    asked.stdin = true;
    let ran = run(hands, &asked, Some(read))?.map_err(|failure| failure.message)?;
    check(ran.text == "typed", || ran.text.clone())?;

    // Writing where it may, nowhere else; renaming across folders works.
    let ran = shell(
        hands,
        "mkdir -p a b && echo x > a/f && mv a/f b/f && cat b/f && touch /tmp/t && rm -r a b; \
         touch /usr/x 2>/dev/null || echo no; touch /etc/x 2>/dev/null || echo no; \
         (echo x >> /home/agent/.gitconfig) 2>/dev/null || echo no; ls / >/dev/null 2>&1 || echo no; \
         cat out 2>/dev/null || echo no",
    )?;
    check(ran.text == "x\nno\nno\nno\nno\nno\n", || {
        format!("`{}`", ran.text)
    })?;

    // No capability, no new privileges, filtered, in a session of its own.
    let ran = shell(
        hands,
        "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status",
    )?;
    for line in ran.text.lines() {
        let (name, value) = line.split_once(':').ok_or("no colon")?;
        let wanted = match name {
            "NoNewPrivs" => "1",
            "Seccomp" => "2",
            _ => "0000000000000000",
        };
        check(value.trim() == wanted, || line.to_owned())?;
    }
    check(ran.text.lines().count() == 7, || ran.text.clone())?;

    // A narrower domain than the ceiling.
    let mut narrow = order(
        hands,
        &[
            "/bin/sh",
            "-c",
            "cat readme; (echo x > new) 2>/dev/null || echo no",
        ],
    )?;
    narrow.domain.write = vec!["/tmp".to_owned()];
    narrow.domain.read.push("/workspace".to_owned());
    let ran = run(hands, &narrow, None)?.map_err(|failure| failure.message)?;
    check(
        ran.text.ends_with("no\n") && ran.text.starts_with("hello"),
        || ran.text.clone(),
    )?;

    // A wider one gains nothing.
    let mut wide = order(hands, &["/bin/sh", "-c", "ls /run || echo no"])?;
    wide.domain.read.push("/run".to_owned());
    let ran = run(hands, &wide, None)?.map_err(|failure| failure.message)?;
    check(ran.text.ends_with("no\n"), || ran.text.clone())?;

    // Limits.
    let ran = shell(
        hands,
        "head -c 2000000 /dev/zero > big; stat -c %s big; rm big",
    )?;
    check(ran.text.contains("1048576"), || ran.text.clone())?;

    // What cannot start says why.
    let missing = run(hands, &order(hands, &["/usr/bin/nothing-here"])?, None)?;
    let class = missing.err().map(|failure| failure.class);
    check(class == Some(protocol::FailureClass::NotFound), || {
        format!("{class:?}")
    })?;
    let mut nowhere = order(hands, &["/bin/true"])?;
    nowhere.cwd = "/nowhere".to_owned();
    let class = run(hands, &nowhere, None)?
        .err()
        .map(|failure| failure.class);
    check(class == Some(protocol::FailureClass::NotFound), || {
        format!("{class:?}")
    })?;
    let mut denied = order(hands, &["/workspace/readme"])?;
    denied.domain.exec.clear();
    let class = run(hands, &denied, None)?
        .err()
        .map(|failure| failure.class);
    check(class == Some(protocol::FailureClass::Denied), || {
        format!("{class:?}")
    })?;
    let relative = run(hands, &order(hands, &["true"])?, None)?
        .err()
        .map(|failure| failure.class);
    check(relative == Some(protocol::FailureClass::WrongKind), || {
        format!("{relative:?}")
    })
}

/// How many processes there are inside, warden and hands included. Where proc is closed to hands,
/// only whether there is any beside it: then the answer is 1 or many.
fn alive() -> usize {
    let (mut open, mut found) = (vec![std::process::id()], 0);
    while let Some(pid) = open.pop() {
        found += 1;
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let Ok(children) = children else {
            return if childless() { 1 } else { 99 };
        };
        open.extend(
            children
                .split_ascii_whitespace()
                .filter_map(|word| word.parse::<u32>().ok()),
        );
    }
    found
}

/// Whether this process, to which all orphans come, has no child any more.
fn childless() -> bool {
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    loop {
        match waitid(Id::All, look) {
            Err(_) => return true,
            Ok(WaitStatus::StillAlive) => return false,
            Ok(status) => {
                // An orphan that nobody waits for.
                let Some(pid) = status.pid() else {
                    return false;
                };
                let _ = waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG);
            }
        }
    }
}

/// A program whose descendants leave their session and start successors without end.
const CHAIN: &str = "chain() { setsid sh -c \"$1\" _ \"$1\" & }; \
     S='for i in 1 2 3; do (sleep 0.01; exec setsid sh -c \"$1\" _ \"$1\") & done; exit 0'; ";

/// Everything below a command ends, and nothing else.
fn ends(hands: &Hands) -> Verdict {
    // A leader that leaves something behind: it is told, and nothing is left.
    let ran = shell(hands, "setsid sleep 100 & sleep 100 & echo gone")?;
    check(ran.left_running == 2, || {
        format!("{} left running", ran.left_running)
    })?;
    check(alive() == 1, || format!("{} processes", alive()))?;

    // A grace is enough for what finishes by itself.
    let ran = shell(hands, "(sleep 0.05; echo late) & echo early")?;
    check(ran.left_running == 0, || {
        format!("{} left running", ran.left_running)
    })?;
    check(ran.text == "early\nlate\n", || ran.text.clone())?;

    // Ended from outside while it forks and leaves sessions as fast as it can.
    for _ in 0..3 {
        let line = format!("{CHAIN} setsid sh -c \"$S\" _ \"$S\" & sleep 100");
        let (_read, write) = output()?;
        let order = order(hands, &["/bin/sh", "-c", &line])?;
        let mut child = hands
            .spawn(&order, Streams::of(write))
            .map_err(|failure| failure.message)?;
        check(next(&mut child)? == News::Started, || {
            "not started".to_owned()
        })?;
        std::thread::sleep(Duration::from_millis(150));
        check(alive() > 4, || {
            format!("only {} processes: the chain is broken", alive())
        })?;
        let start = Instant::now();
        child.end();
        let news = next(&mut child)?;
        check(matches!(news, News::Ended { .. }), || format!("{news:?}"))?;
        check(start.elapsed() < Duration::from_secs(2), || {
            format!("{:?}", start.elapsed())
        })?;
        check(alive() == 1, || {
            format!("{} processes after the kill", alive())
        })?;
    }

    // Two commands at once: ending one leaves the other.
    let start = |line: &str| -> Result<(File, Child), String> {
        let (read, write) = output()?;
        let order = order(hands, &["/bin/sh", "-c", line])?;
        let mut child = hands
            .spawn(&order, Streams::of(write))
            .map_err(|failure| failure.message)?;
        check(next(&mut child)? == News::Started, || {
            "not started".to_owned()
        })?;
        Ok((read, child))
    };
    let (_one_out, mut one) = start("sleep 100")?;
    let (mut other_out, mut other) = start("sleep 0.3; echo still here")?;
    one.end();
    let news = next(&mut one)?;
    check(matches!(news, News::Ended { .. }), || format!("{news:?}"))?;
    let mut text = String::new();
    other_out.read_to_string(&mut text).map_err(told)?;
    check(text == "still here\n", || text.clone())?;
    let news = next(&mut other)?;
    let fine = News::Ended {
        exit: Exit {
            code: Some(0),
            signal: None,
        },
        left_running: 0,
    };
    check(news == fine, || format!("{news:?}"))?;

    // Its own warden and hands are out of its reach.
    let ran = shell(
        hands,
        "kill -9 1; kill -9 $PPID; kill -9 -1; kill -9 -- -$PPID; echo after",
    )?;
    check(ran.text.contains("after"), || ran.text.clone())
}

/// A shell line that goes on running.
fn start(hands: &Hands, line: &str) -> Result<(File, Child), String> {
    let (read, write) = output()?;
    let order = order(hands, &["/bin/sh", "-c", line])?;
    let mut child = hands
        .spawn(&order, Streams::of(write))
        .map_err(|failure| failure.message)?;
    check(next(&mut child)? == News::Started, || {
        "not started".to_owned()
    })?;
    Ok((read, child))
}

/// With the signal scope: a command cannot reach another.
fn scopes(hands: &Hands) -> Verdict {
    let (_out, mut victim) = start(hands, "sleep 100")?;
    let line = format!(
        "kill -9 {}; for p in 2 3 4 5 6 7 8 9; do [ $p = $$ ] || kill -9 $p; done; echo after",
        victim.pid()
    );
    let ran = shell(hands, &line)?;
    check(ran.text.contains("after"), || ran.text.clone())?;
    check(victim.news().is_none(), || "the victim is gone".to_owned())?;
    victim.end();
    let news = next(&mut victim)?;
    check(matches!(news, News::Ended { .. }), || format!("{news:?}"))
}

fn start_agent(hands: &Hands) -> Verdict {
    let (mut ours, theirs) = UnixStream::pair().map_err(told)?;
    let mut child = hands
        .start_agent(theirs.into())
        .map_err(|failure| failure.message)?;
    check(next(&mut child)? == News::Started, || {
        "not started".to_owned()
    })?;
    let mut text = String::new();
    let mut bytes = [0; 1_024];
    // Its last line is about the thread that it tried to make; then it waits for our end.
    while !text.contains("thread ") {
        let read = ours.read(&mut bytes).map_err(told)?;
        check(read > 0, || format!("the agent left: {text}"))?;
        text.push_str(&String::from_utf8_lossy(
            bytes.get(..read).unwrap_or_default(),
        ));
    }
    let open = std::fs::read_dir(format!("/proc/{}/fd", child.pid()))
        .map_err(told)?
        .count();
    check(open == 4, || format!("the agent has {open} descriptors"))?;
    say(&text);
    drop(ours);
    let news = next(&mut child)?;
    let fine = News::Ended {
        exit: Exit {
            code: Some(0),
            signal: None,
        },
        left_running: 0,
    };
    check(news == fine, || format!("{news:?}: {text}"))?;

    // Ended by order.
    let (_ours, theirs) = UnixStream::pair().map_err(told)?;
    let mut child = hands
        .start_agent(theirs.into())
        .map_err(|failure| failure.message)?;
    check(next(&mut child)? == News::Started, || {
        "not started".to_owned()
    })?;
    child.end();
    let news = next(&mut child)?;
    check(
        matches!(
            news,
            News::Ended {
                exit: Exit {
                    signal: Some(9),
                    ..
                },
                ..
            }
        ),
        || format!("{news:?}"),
    )?;
    check(
        worker_jail::reap_strangers(&[]) == 0 && alive() == 1,
        || "something is left".to_owned(),
    )
}

fn all_attacks(hands: &Hands, plan: &ProbePlan) -> Verdict {
    let plan = serde_json::to_string(plan).map_err(told)?;
    for name in attacks::names() {
        let me = std::process::id().to_string();
        let order = order(hands, &[worker(hands), "attack", name, &plan, &me])?;
        let ran = run(hands, &order, None)?.map_err(|failure| failure.message)?;
        say(&format!("{name} {}", ran.text.trim()));
    }
    check(alive() == 1, || {
        format!("{} processes after the attacks", alive())
    })
}

/// Ends the rest as hands does last: what lost its warden too.
fn rest(hands: &Hands) -> Verdict {
    let line = format!("{CHAIN} setsid sh -c \"$S\" _ \"$S\" & sleep 100");
    let (_out, child) = start(hands, &line)?;
    std::thread::sleep(Duration::from_millis(100));
    // Nothing inside can do it; the machine's memory may end.
    let warden = nix::unistd::Pid::from_raw(child.pid());
    nix::sys::signal::kill(warden, nix::sys::signal::Signal::SIGKILL).map_err(told)?;
    std::thread::sleep(Duration::from_millis(50));
    check(alive() > 1, || "nothing is left to end".to_owned())?;
    hands.end_the_rest();
    check(alive() == 1, || format!("{} processes at the end", alive()))
}

/// Stays, with a command that stays: for the tests that kill from outside.
fn hang(hands: &Hands) -> Verdict {
    let (_read, write) = output()?;
    let order = order(hands, &["/bin/sleep", "98765"])?;
    let mut child = hands
        .spawn(&order, Streams::of(write))
        .map_err(|failure| failure.message)?;
    check(next(&mut child)? == News::Started, || {
        "not started".to_owned()
    })?;
    say("up");
    std::thread::sleep(Duration::from_secs(60));
    Err("nobody ended the box".to_owned())
}

fn times(hands: &Hands) -> Verdict {
    let mut took = Vec::new();
    for _ in 0..40 {
        let start = Instant::now();
        let order = order(hands, &["/bin/true"])?;
        run(hands, &order, None)?.map_err(|failure| failure.message)?;
        took.push(start.elapsed().as_micros());
    }
    took.sort_unstable();
    say(&format!("{:?}", took.get(20)));
    Ok(())
}
