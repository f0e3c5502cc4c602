//! Reads back what the kernel holds a box to beside its control group.

use std::fs;

use protocol::{Probe, Right};

use crate::cgroup::outside;

/// That hands, and with it everything that it starts, may not have more than `processes` at once, and
/// that they are counted apart from the account's others: in a user namespace of their own.
#[must_use]
pub fn process_limit(hands: u32, processes: u64) -> Probe {
    let limits = fs::read_to_string(format!("/proc/{hands}/limits")).unwrap_or_default();
    let line = limits.lines().find_map(|l| l.strip_prefix("Max processes"));
    let hard = line.and_then(|line| line.split_whitespace().nth(1));
    let refused = hard
        .and_then(|hard| hard.parse::<u64>().ok())
        .is_some_and(|hard| hard <= processes);
    let apart = namespace(&format!("/proc/{hands}/ns/user"));
    let twin = apart.is_some() && apart != namespace("/proc/self/ns/user");
    let answer = match (hard, twin) {
        (Some(hard), true) => format!("RLIMIT_NPROC {hard} in a user namespace of its own"),
        (Some(hard), false) => format!("RLIMIT_NPROC {hard}, counted with the account's others"),
        (None, _) => "RLIMIT_NPROC cannot be read".to_owned(),
    };
    outside(
        Right::Processes,
        "rlimit.processes".to_owned(),
        refused,
        twin,
        answer,
    )
}

fn namespace(path: &str) -> Option<std::path::PathBuf> {
    fs::read_link(path).ok()
}
