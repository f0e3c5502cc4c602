//! A program that runs: what it has said so far, signals to it, and its end within a bound.

use std::{
    fmt,
    io::{Read, Write as _},
    os::unix::process::ExitStatusExt as _,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{fail, must, some, until};

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal.
    pub signal: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Done {
    /// The one JSON object on standard output.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        must(
            &format!("one object on standard output\n{self}"),
            serde_json::from_str(&self.stdout),
        )
    }

    /// The session, as the live view names it.
    #[must_use]
    pub fn session(&self) -> String {
        let line = self
            .stderr
            .lines()
            .find_map(|line| line.strip_prefix("session "));
        let word = line.and_then(|line| line.split_whitespace().next());
        some(&format!("a session\n{self}"), word).to_owned()
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (code, signal) = (self.code, self.signal);
        let (out, err) = (&self.stdout, &self.stderr);
        write!(
            f,
            "exit {code:?}, signal {signal:?}\n--- stdout\n{out}\n--- stderr\n{err}"
        )
    }
}

type Heard = Arc<Mutex<Vec<u8>>>;

/// A program that runs. Dropped, it is killed.
#[derive(Debug)]
pub struct Live {
    child: Child,
    out: Heard,
    err: Heard,
    readers: Vec<JoinHandle<()>>,
}

impl Live {
    /// Starts it; what it says is read all the time.
    pub fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::adopt(must("start", command.spawn()))
    }

    /// Takes a child over, with the pipes that it has.
    #[must_use]
    pub fn adopt(mut child: Child) -> Self {
        let (out, err) = (Heard::default(), Heard::default());
        let mut readers = Vec::new();
        if let Some(pipe) = child.stdout.take() {
            readers.push(hear(pipe, Arc::clone(&out)));
        }
        if let Some(pipe) = child.stderr.take() {
            readers.push(hear(pipe, Arc::clone(&err)));
        }
        Self {
            child,
            out,
            err,
            readers,
        }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        text(&self.err)
    }

    /// Standard output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        text(&self.out)
    }

    /// Waits until standard error holds the words.
    pub fn await_stderr(&mut self, words: &str) {
        until(
            &format!("`{words}` on standard error"),
            Duration::from_secs(30),
            || {
                if self.stderr().contains(words) {
                    return Some(());
                }
                if self.has_ended() && !self.stderr().contains(words) {
                    fail(&format!(
                        "ended without saying `{words}`:\n{}",
                        self.stderr()
                    ));
                }
                None
            },
        );
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        must("look at the child", self.child.try_wait()).is_some()
    }

    /// Sends a signal to it alone.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX));
        must("send a signal", kill(pid, signal));
    }

    /// Waits for its end. A program that is still there after the bound is killed and fails the test.
    pub fn wait(mut self, bound: Duration) -> Done {
        let end = Instant::now() + bound;
        let status = loop {
            if let Some(status) = must("wait", self.child.try_wait()) {
                break status;
            }
            if Instant::now() >= end {
                let _ = self.child.kill();
                let (out, err) = (self.stdout(), self.stderr());
                fail(&format!(
                    "no end within {bound:?}\n--- stdout\n{out}\n--- stderr\n{err}"
                ));
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        // A pipe that somebody else still holds is residue; it is found by its own check.
        let dry = Instant::now() + Duration::from_secs(5);
        while self.readers.iter().any(|reader| !reader.is_finished()) && Instant::now() < dry {
            std::thread::sleep(Duration::from_millis(2));
        }
        Done {
            code: status.code(),
            signal: status.signal(),
            stdout: self.stdout(),
            stderr: self.stderr(),
        }
    }

    /// Writes to its standard input, which must be a pipe.
    pub fn feed(&mut self, text: &str) {
        let pipe = some("standard input", self.child.stdin.as_mut());
        must("feed", pipe.write_all(text.as_bytes()));
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // Ended already, or killed now: either way nothing of ours goes on.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(heard: &Heard) -> String {
    let bytes = heard.lock().map(|bytes| bytes.clone()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hear(mut pipe: impl Read + Send + 'static, heard: Heard) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut chunk = vec![0_u8; 64 * 1024];
        while let Ok(got @ 1..) = pipe.read(&mut chunk) {
            let bytes = chunk.get(..got).unwrap_or_default();
            if let Ok(mut heard) = heard.lock() {
                heard.extend_from_slice(bytes);
            }
        }
    })
}
