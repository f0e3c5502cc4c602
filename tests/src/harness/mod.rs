//! What the tests of the whole stand on: the built programs in a place of their own, as root and as an
//! ordinary account, and a look at everything that a session may leave behind.

mod collector;
pub mod engine;
mod live;
mod memory;
mod place;
mod programs;
mod provider;
mod residue;
pub mod schema;
mod terminal;
mod transcript;

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

pub use collector::Collector;
pub use live::{Done, Live};
pub use memory::{Needles, find_in_file, find_in_files, find_in_process};
pub use place::{Account, Place};
pub use programs::{Programs, programs};
pub use provider::{Answer, Provider};
pub use residue::{Process, processes_of, settled};
pub use terminal::Terminal;
pub use transcript::transcript;

/// Fails the test that runs.
#[expect(
    clippy::panic,
    reason = "the harness is linked into tests only, and a panic is how a test fails"
)]
pub fn fail(why: &str) -> ! {
    panic!("{why}")
}

/// The value, or the test fails with what was tried.
pub fn must<T, E: Debug>(what: &str, result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| fail(&format!("{what}: {error:?}")))
}

/// The value, or the test fails with what was missing.
pub fn some<T>(what: &str, value: Option<T>) -> T {
    value.unwrap_or_else(|| fail(&format!("missing: {what}")))
}

/// Looks again and again until `found` gives something, for at most `bound`.
pub fn until<T>(what: &str, bound: Duration, mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + bound;
    loop {
        if let Some(value) = found() {
            return value;
        }
        if Instant::now() >= end {
            fail(&format!("not within {} s: {what}", bound.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether this machine cannot run what the test needs. Says why; with `PROVOST_REQUIRE_ALL` a skip
/// is a failure.
#[must_use]
pub fn skipped(unless: bool, why: &str) -> bool {
    if unless {
        return false;
    }
    if std::env::var_os("PROVOST_REQUIRE_ALL").is_some() {
        fail(&format!(
            "PROVOST_REQUIRE_ALL is set, and this cannot run: {why}"
        ));
    }
    use std::io::Write as _;
    // A closed standard error must not fail a test.
    let _ = writeln!(std::io::stderr().lock(), "skipped: {why}");
    true
}

/// Whether the tests run as root.
#[must_use]
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}
