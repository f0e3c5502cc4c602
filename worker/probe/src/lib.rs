//! ATTACKS: the escape suite's attempts, as the unprivileged side of a jail makes them.
//!
//! ```text
//! provost-worker probe list                 the table: every attack, its rows, its script
//! provost-worker probe attack GROUND        tries all that are the probe's own, each in a process
//! provost-worker probe one NAME GROUND      tries one
//! ```
//!
//! This wall keeps attack code out of what must be trusted: nothing that confines, decides or carries
//! out names it; the worker's shell alone does, to offer the words above. What is absent: any wall, and
//! any judgement. Each attack is one deed and one answer; whether that is an escape's end of a session
//! is for whoever drives the suite.

mod attacks;
mod outcome;
mod role;
mod scripts;

use protocol::escape::{Attack, Ground, Way};
use worker_jail::Outcome;

pub use role::role;

/// An attack that the probe makes itself.
#[derive(Debug, Clone, Copy)]
struct Own {
    name: &'static str,
    rows: &'static [&'static str],
    ours: bool,
    tries: &'static str,
    run: fn(&Ground) -> Outcome,
}

/// Every attack of the suite.
#[must_use]
pub fn book() -> Vec<Attack> {
    let text = |rows: &[&str]| rows.iter().map(|&row| row.to_owned()).collect();
    let own = attacks::own().into_iter().map(|attack| Attack {
        name: attack.name.to_owned(),
        rows: text(attack.rows),
        tries: attack.tries.to_owned(),
        ours: attack.ours,
        way: Way::Probe,
    });
    let jail = attacks::jails().map(|(name, rows, ours)| Attack {
        name: name.to_owned(),
        rows: text(rows),
        tries: format!("the certificate's own deed `{name}`"),
        ours,
        way: Way::Probe,
    });
    jail.chain(own).chain(scripts::all()).collect()
}

/// Tries one attack from where this process stands; `None` if the probe has none of that name. Some
/// change the process: one process, one attack. The process must be single-threaded.
#[must_use]
pub fn run(name: &str, ground: &Ground) -> Option<Outcome> {
    let mut own = attacks::own().into_iter();
    if let Some(attack) = own.find(|attack| attack.name == name) {
        return Some((attack.run)(ground));
    }
    worker_jail::attack::run(name, &ground.plan, ground.hands)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_attack_has_a_name_of_its_own_and_says_what_it_stands_for() {
        let book = book();
        let names: BTreeSet<_> = book.iter().map(|attack| &attack.name).collect();
        assert_eq!(names.len(), book.len());
        assert!(book.len() >= 150, "{} attacks", book.len());
        for attack in &book {
            assert!(!attack.rows.is_empty(), "{}", attack.name);
            assert!(attack.tries.len() > 5, "{}", attack.name);
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            assert!(attack.name.chars().all(plain), "{}", attack.name);
        }
    }

    /// Rows of the published list of bypasses that need what this release has not: a proxy, a dialler,
    /// a resolver, interception, credentials for hosts; or that other suites hold.
    #[test]
    fn every_bypass_and_every_kind_of_scenario_has_an_attack() {
        let rows: BTreeSet<String> = book().into_iter().flat_map(|attack| attack.rows).collect();
        let elsewhere = [4, 5, 6, 11, 12, 14, 16, 17, 18, 23, 24, 25];
        for row in (1..=26).filter(|row| !elsewhere.contains(row)) {
            assert!(rows.contains(&format!("bypass {row}")), "bypass {row}");
        }
        for kind in ["orchestration", "runtime", "kernel"] {
            let of = rows
                .iter()
                .filter(|row| row.starts_with(&format!("scenario {kind}")));
            assert!(of.count() >= 4, "scenarios of {kind}");
        }
        for kind in ["escape", "exfiltration", "secret"] {
            let of = rows
                .iter()
                .filter(|row| row.starts_with(&format!("sandbox {kind}")));
            assert!(of.count() >= 3, "sandbox {kind}");
        }
    }
}
