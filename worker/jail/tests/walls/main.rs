//! Real boxes, as root and as an ordinary account: each test starts this very binary as a box, and
//! the box starts it again as agent, probe and attack. So it has its own `main` and no harness.

mod cases;
mod inside;
mod scene;

use std::{io::Write as _, process::ExitCode, time::Instant};

/// What a test says: nothing, or what was wrong.
type Verdict = Result<(), String>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    match word(0) {
        "box" => inside::enter(word(1), word(2), word(3)),
        "agent" => inside::agent(word(1)),
        "probe" => ExitCode::from(worker_jail::probe_role(word(1))),
        "attack" => inside::attack(word(1), word(2), word(3)),
        "reader" => inside::reader(word(1), word(2)),
        "none" => ExitCode::from(64),
        _ => run(&words),
    }
}

/// Runs the tests whose names hold the first plain word.
fn run(words: &[String]) -> ExitCode {
    let filter = words
        .iter()
        .find(|word| !word.starts_with('-'))
        .map_or("", String::as_str);
    let mut out = std::io::stdout().lock();
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in cases::ALL.iter().filter(|(name, _)| name.contains(filter)) {
        let start = Instant::now();
        let verdict = test();
        let took = start.elapsed().as_millis();
        match verdict {
            Ok(()) => {
                passed += 1;
                let _ = writeln!(out, "test {name} ... ok ({took} ms)");
            }
            Err(why) => {
                failed += 1;
                let _ = writeln!(out, "test {name} ... FAILED ({took} ms)\n    {why}");
            }
        }
    }
    let _ = writeln!(out, "walls: {passed} passed, {failed} failed");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
