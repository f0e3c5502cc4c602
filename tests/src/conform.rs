//! The escape suite's attacks as the tests try them: what each must do bare, and what it is called.

use protocol::escape::{Attack, Way};

pub use protocol::escape::Ground;
use worker_jail::Outcome;

/// Every attack of the suite.
#[must_use]
pub fn book() -> Vec<Attack> {
    worker_probe::book()
}

/// The attacks that the probe makes itself.
#[must_use]
pub fn own() -> Vec<Attack> {
    let mut book = book();
    book.retain(|attack| attack.way == Way::Probe);
    book
}

/// Tries one attack from where this process stands; `None` if there is none of that name.
#[must_use]
pub fn run(name: &str, ground: &Ground) -> Option<Outcome> {
    worker_probe::run(name, ground)
}
