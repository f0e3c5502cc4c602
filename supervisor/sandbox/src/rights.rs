//! The one table of rights: what enforces each, in which situation, and what to do where nothing does.
//! Certificates, `doctor`, refusals and the documentation read it; the probes say whether it is so.

use protocol::{
    Right::{
        self, Cpu, Devices, Disk, Exec, FilesHidden, FilesMeta, FilesRead, FilesWrite, Ipc, Memory,
        NetTcp, NetUdp, NetUnixAbstract, NetUnixPath, ProcLimits, ProcSee, ProcSignal, ProcTrace,
        Processes, Syscalls, Terminal,
    },
    jail::Situation,
};

/// One right's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The right.
    pub right: Right,
    /// What enforces it with namespaces of our own (A), with Landlock and seccomp alone (B), in a
    /// container (C).
    pub by: [&'static str; 3],
    /// What to do where it is not held.
    pub remedy: &'static str,
}

const fn row(right: Right, by: [&'static str; 3], remedy: &'static str) -> Row {
    Row { right, by, remedy }
}

const LANDLOCK: &str = "boot a kernel of 5.13 or newer with `lsm=` naming landlock";
const SECCOMP: &str = "boot a kernel with seccomp filters (CONFIG_SECCOMP_FILTER)";
const NAMESPACES: &str =
    "let accounts make user namespaces (the host's sysctl or AppArmor), or use backend docker";
const DELEGATE: &str = "start Provost as root, or in a scope with delegated controllers: systemd-run --user --scope -p Delegate=yes provost …";

/// The table.
pub const TABLE: &[Row] = &[
    row(
        FilesRead,
        [
            "mount view + Landlock",
            "Landlock",
            "container view + Landlock",
        ],
        LANDLOCK,
    ),
    row(
        FilesWrite,
        [
            "mount view + Landlock",
            "Landlock",
            "container view + Landlock",
        ],
        LANDLOCK,
    ),
    row(
        FilesMeta,
        [
            "read-only mounts",
            "unused uid, or notified calls",
            "container view",
        ],
        NAMESPACES,
    ),
    row(
        FilesHidden,
        [
            "left out of the view",
            "left out of the copy",
            "left out of the view",
        ],
        "use workspace = \"copy\"",
    ),
    row(
        NetTcp,
        [
            "network namespace + Landlock",
            "seccomp",
            "no network + Landlock",
        ],
        NAMESPACES,
    ),
    row(
        NetUdp,
        [
            "network namespace + Landlock",
            "seccomp",
            "no network + seccomp",
        ],
        NAMESPACES,
    ),
    row(
        NetUnixPath,
        ["mount view", "seccomp", "container view"],
        NAMESPACES,
    ),
    row(
        NetUnixAbstract,
        [
            "network namespace + Landlock scope",
            "Landlock scope + seccomp",
            "network namespace + Landlock scope",
        ],
        "boot a kernel of 6.12 or newer, or let accounts make user namespaces",
    ),
    row(
        ProcSignal,
        [
            "pid namespace + Landlock scope",
            "Landlock scope",
            "pid namespace + Landlock scope",
        ],
        "boot a kernel of 6.12 or newer, or let accounts make user namespaces",
    ),
    row(
        ProcTrace,
        [
            "Landlock domains + seccomp",
            "Landlock domains + seccomp",
            "Landlock domains + seccomp",
        ],
        SECCOMP,
    ),
    row(
        ProcSee,
        [
            "pid namespace + hidepid",
            "Landlock, no /proc",
            "pid namespace",
        ],
        NAMESPACES,
    ),
    row(ProcLimits, ["seccomp", "seccomp", "seccomp"], SECCOMP),
    row(
        Exec,
        [
            "seccomp + Landlock (agent)",
            "seccomp + Landlock (agent)",
            "seccomp + Landlock (agent)",
        ],
        SECCOMP,
    ),
    row(
        Terminal,
        [
            "own session + seccomp",
            "own session + seccomp",
            "own session + seccomp",
        ],
        SECCOMP,
    ),
    row(
        Syscalls,
        [
            "seccomp + no capabilities",
            "seccomp + no capabilities",
            "seccomp profile + filter",
        ],
        SECCOMP,
    ),
    row(
        Ipc,
        [
            "ipc namespace + Landlock + seccomp",
            "Landlock + seccomp",
            "ipc namespace + seccomp",
        ],
        NAMESPACES,
    ),
    row(
        Memory,
        [
            "cgroup; else per process only",
            "cgroup; else per process only",
            "the engine's cgroup",
        ],
        DELEGATE,
    ),
    row(
        Processes,
        [
            "RLIMIT_NPROC in a user namespace, cgroup beside it",
            "cgroup, or RLIMIT_NPROC of an unused uid",
            "the engine's cgroup",
        ],
        DELEGATE,
    ),
    row(
        Cpu,
        [
            "cgroup share and quota; else nice only",
            "cgroup share and quota; else nice only",
            "the engine's cgroup",
        ],
        DELEGATE,
    ),
    row(
        Disk,
        [
            "counted while commands run",
            "counted while commands run",
            "counted while commands run",
        ],
        "make `disk` preferred: a real file system can only be watched",
    ),
    row(
        Devices,
        [
            "mount view + no capabilities",
            "Landlock + no capabilities",
            "the engine's device list",
        ],
        NAMESPACES,
    ),
];

/// The row of a right; every right has one.
#[must_use]
pub fn row_of(right: Right) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.right == right)
}

/// What enforces a right in a situation, for people.
#[must_use]
pub fn enforced_by(right: Right, situation: Situation) -> &'static str {
    let Some(row) = row_of(right) else { return "" };
    let [a, b, c] = row.by;
    match situation {
        Situation::Namespaces => a,
        Situation::Landlock => b,
        Situation::Container => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_right_has_one_row_with_something_in_each_column() {
        let rights: Vec<Right> = TABLE.iter().map(|row| row.right).collect();
        assert_eq!(
            rights,
            Right::ALL,
            "one row each, in the certificate's order"
        );
        for row in TABLE {
            assert!(!row.remedy.is_empty(), "{}", row.right);
            assert!(row.by.iter().all(|by| !by.is_empty()), "{}", row.right);
        }
    }

    #[test]
    fn the_documentation_shows_this_table() {
        let page = include_str!("../../../docs/rights.md");
        for row in TABLE {
            let [a, b, c] = row.by;
            let floor = format!("{:?}", row.right.default_floor()).to_lowercase();
            let line = format!("| `{}` | {floor} | {a} | {b} | {c} |", row.right);
            assert!(page.contains(&line), "docs/rights.md lacks:\n{line}");
        }
    }
}
