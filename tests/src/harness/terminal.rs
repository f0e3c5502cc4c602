//! A real pseudo-terminal with a program on it: what it draws, and keys pressed by the test.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use nix::pty::{Winsize, openpty};

use super::{Done, Live, fail, must, until};

/// A program whose standard input and error are a terminal; its output is a pipe.
#[derive(Debug)]
pub struct Terminal {
    live: Live,
    keys: File,
    drawn: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Starts the program on a terminal of its own.
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        let size = Winsize {
            ws_row: 50,
            ws_col: 200,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pair = must("a terminal", openpty(Some(&size), None));
        let error = must("a handle", pair.slave.try_clone());
        command
            .stdin(Stdio::from(pair.slave))
            .stderr(Stdio::from(error))
            .stdout(Stdio::piped());
        let live = Live::adopt(must("start", command.spawn()));
        // The command holds the terminal's other end; with it gone, the program's end is an end of file.
        drop(command);
        let drawn = Arc::new(Mutex::new(Vec::new()));
        let mut screen = File::from(must("a handle", pair.master.try_clone()));
        let heard = Arc::clone(&drawn);
        std::thread::spawn(move || {
            let mut chunk = vec![0_u8; 16 * 1024];
            while let Ok(got @ 1..) = screen.read(&mut chunk) {
                if let Ok(mut heard) = heard.lock() {
                    heard.extend_from_slice(chunk.get(..got).unwrap_or_default());
                }
            }
        });
        Self {
            live,
            keys: File::from(pair.master),
            drawn,
        }
    }

    /// What was drawn so far, the echo of keys included.
    #[must_use]
    pub fn drawn(&self) -> String {
        let bytes = self
            .drawn
            .lock()
            .map(|bytes| bytes.clone())
            .unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until the words were drawn at least so many times.
    pub fn await_drawn(&mut self, words: &str, times: usize) {
        until(
            &format!("`{words}` drawn {times} time(s)"),
            Duration::from_secs(30),
            || {
                let drawn = self.drawn();
                if drawn.matches(words).count() >= times {
                    return Some(());
                }
                if self.live.has_ended() {
                    fail(&format!(
                        "ended without drawing `{words}` {times} time(s):\n{drawn}"
                    ));
                }
                None
            },
        );
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        must("press", self.keys.write_all(keys.as_bytes()));
    }

    /// Interrupts the program.
    pub fn interrupt(&self) {
        self.live.signal(nix::sys::signal::Signal::SIGINT);
    }

    /// Waits for the end; what was drawn stands as standard error.
    #[must_use]
    pub fn wait(self, bound: Duration) -> Done {
        let mut done = self.live.wait(bound);
        let bytes = self
            .drawn
            .lock()
            .map(|bytes| bytes.clone())
            .unwrap_or_default();
        done.stderr = String::from_utf8_lossy(&bytes).into_owned();
        done
    }
}
