//! Measures the built programs beside their peers in one run: `bench PROVOST REPORT`.
//!
//! Session start is from the start of `provost run` to the first turn of its agent: places, policy, copy,
//! jail, probes of both domains, certificate in the record, greeting. The peer is `bwrap --unshare-all`
//! with its usual view running `true`. One command is from its verdict to its outcome in a running
//! session, `bash -c true`; the peers are bare fork and exec of the same and of `true` alone. Where a
//! Docker engine answers, the same of the docker backend; its peers are the engine's own create, start,
//! wait and remove of the same image, and a command under Landlock.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use provost_tests::{harness::engine, rates};
use serde_json::{Value, json};

/// Starts that are measured; the first few warm the page cache and are dropped.
const STARTS: usize = 60;
/// Commands that are measured.
const COMMANDS: usize = 200;
/// Containers that are measured: each takes a third of a second.
const CONTAINERS: usize = 20;
/// Runs that are dropped.
const WARM: usize = 5;

type Failed = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(provost), Some(report)) = (args.next(), args.next()) else {
        return tell("usage: bench PROVOST REPORT");
    };
    match bench(&provost, &report) {
        Ok(table) => {
            // A closed pipe has seen enough.
            let _ = std::io::stdout().lock().write_all(table.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => tell(&error.to_string()),
    }
}

fn tell(why: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr().lock(), "bench: {why}");
    ExitCode::FAILURE
}

fn bench(provost: &Path, report: &Path) -> Result<String, Failed> {
    let place = tempfile::tempdir()?;
    std::fs::create_dir(place.path().join("work"))?;
    std::fs::write(place.path().join("work/a.txt"), "a\n")?;

    let (mut start, mut bwrap, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    let one = place.path().join("one.jsonl");
    std::fs::write(&one, "{\"text\":\"done\",\"stop\":\"end\"}\n")?;
    // Interleaved, so that a busy minute falls on all alike.
    for _ in 0..STARTS + WARM {
        start.push(session_start(provost, place.path(), &one, &[])?);
        if let Some(took) = run_bwrap() {
            bwrap.push(took?);
        }
        bare.push(run(&["/bin/true"])?);
    }
    let landlock = commands(provost, place.path(), COMMANDS, &[])?;
    let docker = contained(provost, place.path(), &one)?;
    let mut shell = Vec::new();
    for _ in 0..COMMANDS + WARM {
        shell.push(run(&["/bin/bash", "--noprofile", "--norc", "-c", "true"])?);
    }

    let start = Figure::of("session start: request to the agent's first turn", start);
    let bwrap =
        (!bwrap.is_empty()).then(|| Figure::of("bwrap --unshare-all, usual view, true", bwrap));
    let bare = Figure::of("bare fork+exec of true", bare);
    let command = Figure::of("one command in a session: bash -c true", landlock);
    let shell = Figure::of("bare fork+exec of bash -c true", shell);
    let judged = Figure::of("1,000 verdicts on a line of 100 bytes", verdicts()?);
    let decoded: Vec<Figure> = rates::decoding(STARTS + WARM)
        .into_iter()
        .map(|(what, took)| Figure::of(what, took))
        .collect();

    let mut table = format!("{:<52} {:>9} {:>9}\n", "what", "p50 ms", "p95 ms");
    let figures: Vec<&Figure> = [
        Some(&start),
        bwrap.as_ref(),
        Some(&bare),
        Some(&command),
        Some(&shell),
        Some(&judged),
    ]
    .into_iter()
    .flatten()
    .chain(docker.iter().flatten())
    .chain(&decoded)
    .collect();
    for figure in &figures {
        table.push_str(&format!(
            "{:<52} {:>9.2} {:>9.2}\n",
            figure.what, figure.p50, figure.p95
        ));
    }
    if let Some(bwrap) = &bwrap {
        let (p50, p95) = (start.p50 / bwrap.p50, start.p95 / bwrap.p95);
        table.push_str(&format!(
            "session start / bwrap: p50 {p50:.2} (goal 0.80), p95 {p95:.2} (goal 1.00)\n"
        ));
    } else {
        table.push_str("bwrap is not installed: apt-get install bubblewrap for the peer's row\n");
    }
    let above = command.p50 - shell.p50;
    table.push_str(&format!(
        "one command above bare fork+exec of the same: {above:.2} ms (goal 1.00)\n"
    ));

    match &docker {
        Some([start, plain, inside]) => table.push_str(&format!(
            "docker session start / the engine's own run: p50 {:.2} (goal 1.10); its command / Landlock's: p50 {:.2} (goal 1.20)\n",
            start.p50 / plain.p50,
            inside.p50 / command.p50
        )),
        None => table.push_str("no Docker engine with provost-minimal: `make images` for its rows\n"),
    }

    let rows: Vec<Value> = figures
        .iter()
        .map(|figure| json!({ "what": figure.what, "p50_ms": figure.p50, "p95_ms": figure.p95, "n": figure.n }))
        .collect();
    if let Some(folder) = report.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(
        report,
        serde_json::to_vec_pretty(&json!({ "v": 1, "rows": rows }))?,
    )?;
    table.push_str(&format!("written to {}\n", report.display()));
    Ok(table)
}

/// The rows of the docker backend; `None` where there is no engine.
fn contained(provost: &Path, place: &Path, script: &Path) -> Result<Option<[Figure; 3]>, Failed> {
    if std::os::unix::net::UnixStream::connect(engine::SOCKET).is_err()
        || engine::docker(&["image", "inspect", engine::IMAGE]).is_none()
    {
        return Ok(None);
    }
    let more = ["--backend", "docker", "--image", engine::IMAGE];
    let (mut start, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..CONTAINERS + WARM {
        start.push(session_start(provost, place, script, &more)?);
        plain.push(engine::plain_run()?);
    }
    let inside = commands(provost, place, COMMANDS.min(80), &more)?;
    Ok(Some([
        Figure::of("docker: request to the agent's first turn", start),
        Figure::of("docker: the engine's create, start, wait, remove", plain),
        Figure::of("docker: one command in a session: bash -c true", inside),
    ]))
}

/// A verdict on a usual line of 100 bytes, reading included, under the default profile: a thousand a time.
fn verdicts() -> Result<Vec<Duration>, Failed> {
    const LINE: &str = "cd src && grep -rn --include='*.rs' 'fn main' . | sort -u | head -n 9 > ../target/m.txt 2>&1 || true";
    let source = policies::parse::profile_source("default").ok_or("no default profile")?;
    let policy = policies::parse::load(&[source], &|_| None)
        .map_err(|_| "the default profile does not load")?;
    let facts = policies::Facts {
        workspace: "/srv/app".into(),
        home: "/home/u".into(),
        system: vec!["/usr".into()],
        interactive: true,
        tree: None,
    };
    let mut took = Vec::new();
    for _ in 0..STARTS + WARM {
        let began = Instant::now();
        for _ in 0..1_000 {
            let action = policies::Action::Run(policies::Run {
                line: LINE.to_owned(),
                reading: policies::shell::read(LINE),
                timeout_s: 120,
                background: false,
                stdin: None,
            });
            let verdict =
                policies::evaluate::evaluate(&policy, policies::Mode::OnRequest, &action, &facts);
            std::hint::black_box(&verdict);
        }
        took.push(began.elapsed());
    }
    Ok(took)
}

struct Figure {
    what: &'static str,
    p50: f64,
    p95: f64,
    n: usize,
}

impl Figure {
    fn of(what: &'static str, mut times: Vec<Duration>) -> Self {
        let mut times = times.split_off(WARM.min(times.len()));
        times.sort();
        let at = |share: usize| {
            let index = (times.len() * share / 100).min(times.len().saturating_sub(1));
            times
                .get(index)
                .map_or(0.0, |time| time.as_secs_f64() * 1_000.0)
        };
        Self {
            what,
            p50: at(50),
            p95: at(95),
            n: times.len(),
        }
    }
}

fn provost_run(provost: &Path, place: &Path, script: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(provost);
    command
        .args([
            "run",
            "--output",
            "stream-json",
            "--mode",
            "never",
            "--workspace",
        ])
        .arg(place.join("work"))
        .arg("--script")
        .arg(script)
        .args(more)
        .arg("bench")
        .env("PROVOST_STATE_DIR", place.join("state"))
        .env("PROVOST_CONFIG_DIR", place.join("config"))
        .env("PROVOST_RUNTIME_DIR", place.join("run"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// From the start of the process to its first turn.
fn session_start(
    provost: &Path,
    place: &Path,
    script: &Path,
    more: &[&str],
) -> Result<Duration, Failed> {
    let began = Instant::now();
    let mut child = provost_run(provost, place, script, more).spawn()?;
    let mut took = None;
    for line in BufReader::new(child.stdout.take().ok_or("no output")?).lines() {
        if took.is_none() && kind(&line?).as_deref() == Some("turn") {
            took = Some(began.elapsed());
        }
    }
    let status = child.wait()?;
    took.filter(|_| status.success())
        .ok_or_else(|| format!("provost run: {status}").into())
}

/// From each verdict to its outcome, as the events come.
fn commands(
    provost: &Path,
    place: &Path,
    count: usize,
    more: &[&str],
) -> Result<Vec<Duration>, Failed> {
    let script = place.join("many.jsonl");
    let call = json!({ "tool_calls": [{ "name": "bash", "input": { "command": "true" } }], "stop": "tool" });
    // The same call again and again would be noticed as no progress: each has its own words.
    let mut text = String::new();
    for n in 0..(count + WARM).min(90) {
        let mut call = call.clone();
        if let Some(command) = call.pointer_mut("/tool_calls/0/input/command") {
            *command = json!(format!("true {n}"));
        }
        text.push_str(&format!("{call}\n"));
    }
    text.push_str("{\"text\":\"done\",\"stop\":\"end\"}\n");
    std::fs::write(&script, text)?;
    let mut times = Vec::new();
    while times.len() < count + WARM {
        let mut child = provost_run(provost, place, &script, more).spawn()?;
        let mut began = None;
        for line in BufReader::new(child.stdout.take().ok_or("no output")?).lines() {
            match kind(&line?).as_deref() {
                Some("verdict") => began = Some(Instant::now()),
                Some("call") => times.extend(began.take().map(|began| began.elapsed())),
                _ => {}
            }
        }
        let status = child.wait()?;
        if !status.success() {
            return Err(format!("provost run: {status}").into());
        }
    }
    Ok(times)
}

fn kind(line: &str) -> Option<String> {
    let event: Value = serde_json::from_str(line).ok()?;
    event.get("type")?.as_str().map(str::to_owned)
}

/// `None` where bubblewrap is not installed.
fn run_bwrap() -> Option<Result<Duration, Failed>> {
    let which = ["/usr/bin/bwrap", "/usr/local/bin/bwrap"]
        .into_iter()
        .find(|path| Path::new(path).exists())?;
    Some(run(&[
        which,
        "--unshare-all",
        "--ro-bind",
        "/usr",
        "/usr",
        "--symlink",
        "usr/bin",
        "/bin",
        "--symlink",
        "usr/lib",
        "/lib",
        "--symlink",
        "usr/lib64",
        "/lib64",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
        "/usr/bin/true",
    ]))
}

fn run(argv: &[&str]) -> Result<Duration, Failed> {
    let (program, args) = argv.split_first().ok_or("no program")?;
    let began = Instant::now();
    let status = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    let took = began.elapsed();
    if status.success() {
        Ok(took)
    } else {
        Err(format!("{program}: {status}").into())
    }
}
