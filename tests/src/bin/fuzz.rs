//! `fuzz [TARGET…] [--seconds N] [--seed N] [--longest BYTES] [--crashes DIR]`: fuzzes the targets that
//! are named, or all, one after the other, each in a process of its own; `fuzz TARGET --replay FILE`
//! feeds one input. Leaves with 1 if one found a fault, whose input is then in the folder of crashes.

use std::{
    io::{self, Write as _},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use protocol::Digest;
use provost_tests::fuzz::{self, Run, TARGETS, Target};

/// Seconds of one target, unless told.
const SECONDS: u64 = 60;
/// Bytes of one input, unless told.
const LONGEST: usize = 16 * 1024;
/// How long a process may go on beyond its time: one last input, and its end.
const GRACE: Duration = Duration::from_secs(30);

/// The command line.
#[derive(Debug)]
struct Asked {
    targets: Vec<Target>,
    run: Run,
    crashes: PathBuf,
    replay: Option<PathBuf>,
    /// This process is one target's own.
    within: bool,
}

fn main() -> ExitCode {
    let done = read(std::env::args().skip(1)).map_err(|why| (why, 64));
    let done = done.and_then(|asked| act(&asked).map_err(|error| (error.to_string(), 70)));
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err((why, code)) => {
            say(&format!("fuzz: {why}"));
            ExitCode::from(code)
        }
    }
}

fn say(text: &str) {
    // Who does not listen is told nothing.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

fn read(words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked {
        targets: Vec::new(),
        run: Run {
            time: Duration::from_secs(SECONDS),
            seed: 1,
            longest: LONGEST,
            trying: PathBuf::new(),
        },
        crashes: PathBuf::from("target/fuzz"),
        replay: None,
        within: false,
    };
    let mut words = words;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} wants a value"));
        let number = |text: String| {
            text.parse::<u64>()
                .map_err(|_| format!("`{text}`: a number"))
        };
        match word.as_str() {
            "--seconds" => asked.run.time = Duration::from_secs(number(value()?)?),
            "--seed" => asked.run.seed = number(value()?)?,
            "--longest" => {
                asked.run.longest = usize::try_from(number(value()?)?).unwrap_or(LONGEST);
            }
            "--crashes" => asked.crashes = value()?.into(),
            "--replay" => asked.replay = Some(value()?.into()),
            "--within" => {
                asked.within = true;
                asked.run.trying = value()?.into();
            }
            name => asked.targets.push(Target::find(name).ok_or_else(|| {
                let known: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
                format!("no target `{name}`; there are {}", known.join(", "))
            })?),
        }
    }
    if asked.targets.is_empty() {
        asked.targets = TARGETS.to_vec();
    }
    Ok(asked)
}

fn act(asked: &Asked) -> io::Result<bool> {
    if let Some(file) = &asked.replay {
        let input = std::fs::read(file)?;
        for target in &asked.targets {
            let said = target.feed(&input);
            say(&format!("{}: {}", target.name, said.unwrap_or_default()));
        }
        return Ok(true);
    }
    if let (true, Some(target)) = (asked.within, asked.targets.first()) {
        let seen = fuzz::fuzz(*target, &asked.run)?;
        let (inputs, answers) = (seen.inputs, seen.answers);
        writeln!(io::stdout().lock(), "{inputs} inputs, {answers} answers")?;
        return Ok(true);
    }
    std::fs::create_dir_all(&asked.crashes)?;
    let mut well = true;
    for target in &asked.targets {
        well &= watch(*target, asked)?;
    }
    Ok(well)
}

/// Runs one target in a process of its own, and keeps the input that it did not survive.
fn watch(target: Target, asked: &Asked) -> io::Result<bool> {
    let trying = asked.crashes.join(format!("{}.trying", target.name));
    let told = asked.crashes.join(format!("{}.said", target.name));
    let (seconds, seed) = (asked.run.time.as_secs(), asked.run.seed);
    let mut child = Command::new(std::env::current_exe()?)
        .args([target.name, "--seconds", &seconds.to_string()])
        .args(["--seed", &seed.to_string()])
        .args(["--longest", &asked.run.longest.to_string()])
        .arg("--within")
        .arg(&trying)
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&told)?)
        .spawn()?;
    let end = Instant::now() + asked.run.time + GRACE;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= end {
            child.kill()?;
            break child.wait()?;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let said = std::fs::read_to_string(&told)?;
    std::fs::remove_file(&told)?;
    if status.success() {
        let _ = std::fs::remove_file(&trying);
        say(&format!("{:<14} {}, seed {seed}", target.name, said.trim()));
        return Ok(true);
    }
    // 70: the harness itself could not work; there is no input to blame.
    if status.code() == Some(70) {
        return Err(io::Error::other(format!("`{}` did not run", target.name)));
    }
    let how = how(status);
    match crash(&trying, target, asked)? {
        Some(path) => say(&format!(
            "{:<14} {how}: `{}`\n  again: cargo run -p provost-tests --bin fuzz -- {} --replay {}",
            target.name,
            path.display(),
            target.name,
            path.display()
        )),
        None => say(&format!("{:<14} {how}, before any input", target.name)),
    }
    Ok(false)
}

fn how(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(14), _) => format!("an input took more than {} s", fuzz::HANG),
        (Some(signal), _) => format!("died of signal {signal}"),
        (None, Some(code)) => format!("left with {code}"),
        (None, None) => "left".to_owned(),
    }
}

/// Keeps the input under a name of its content.
fn crash(trying: &Path, target: Target, asked: &Asked) -> io::Result<Option<PathBuf>> {
    let Some(input) = fuzz::kept(trying) else {
        return Ok(None);
    };
    let digest = Digest::of(&input);
    let short: String = digest.as_str().chars().take(12).collect();
    let path = asked.crashes.join(format!("{}-crash-{short}", target.name));
    std::fs::write(&path, input)?;
    std::fs::remove_file(trying)?;
    Ok(Some(path))
}
