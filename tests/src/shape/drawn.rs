//! The drawn shape: the figure of ARCHITECTURE.md as tables. A change here is a change of the design.

/// Which crate may name which, and does. There are no other arrows.
pub const ARROWS: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("policies", &["protocol"]),
    ("supervisor-core", &["policies", "protocol"]),
    ("supervisor-providers", &["protocol", "supervisor-core"]),
    ("supervisor-sandbox", &["policies", "protocol"]),
    ("supervisor-record", &["protocol", "supervisor-core"]),
    (
        "provost",
        &[
            "policies",
            "protocol",
            "supervisor-core",
            "supervisor-providers",
            "supervisor-record",
            "supervisor-sandbox",
        ],
    ),
    ("worker-agent", &["protocol"]),
    ("worker-tools", &["policies", "protocol"]),
    ("worker-jail", &["protocol"]),
    ("worker-hands", &["protocol", "worker-jail"]),
    ("worker-probe", &["protocol", "worker-jail"]),
    ("worker-reader", &["protocol"]),
    (
        "provost-worker",
        &[
            "policies",
            "protocol",
            "worker-agent",
            "worker-hands",
            "worker-jail",
            "worker-probe",
            "worker-reader",
            "worker-tools",
        ],
    ),
];

/// The crate that may name all others, and that none names.
pub const TESTS: &str = "provost-tests";

/// The crates from outside that the crates which decide and confine name, and no others.
pub const OUTSIDERS: &[(&str, &[&str])] = &[
    ("protocol", &["serde", "serde_json", "sha2", "thiserror"]),
    ("policies", &["serde", "serde_json", "thiserror", "toml"]),
    (
        "supervisor-core",
        &["serde", "serde_json", "thiserror", "zeroize"],
    ),
    ("worker-agent", &["serde", "serde_json"]),
    (
        "worker-jail",
        &[
            "landlock",
            "libc",
            "nix",
            "seccompiler",
            "serde_json",
            "thiserror",
        ],
    ),
];

/// Crates from outside that only these may name: what speaks HTTP or gRPC, and what parses a database.
pub const KEPT_APART: &[(&str, &[&str])] = &[
    ("reqwest", &["supervisor-providers"]),
    ("opentelemetry-otlp", &["provost"]),
    ("rusqlite", &["supervisor-record", "worker-reader"]),
];

/// The crates that know no clock, file, socket, process, thread or environment.
pub const PURE: &[&str] = &["protocol", "policies", "supervisor-core", "worker-agent"];

/// The crates with unsafe code, and the one file of each: the calls by which a jail is built, and the
/// requests by which the supervisor hears what a box without namespaces has held for it.
pub const UNSAFE: &[(&str, &str)] = &[
    ("worker-jail", "src/sys.rs"),
    ("supervisor-sandbox", "src/sys.rs"),
];

/// How much one who must be right may weigh.
#[derive(Debug, Clone, Copy)]
pub struct Ceiling {
    /// The crate.
    pub name: &'static str,
    /// Lines before tests, comments included.
    pub lines: usize,
    /// Places where `unsafe` is written.
    pub unsafe_places: usize,
    /// Crates from outside that it names.
    pub direct: usize,
    /// Crates from outside that are linked into it.
    pub reached: usize,
}

/// The trusted base: whatever decides or confines. Raising a figure is a line that a reviewer sees.
pub const CEILINGS: &[Ceiling] = &[
    Ceiling {
        name: "protocol",
        // Each bound is three lines of the table.
        lines: 2_900,
        unsafe_places: 0,
        direct: 4,
        reached: 30,
    },
    Ceiling {
        name: "policies",
        lines: 21_500,
        unsafe_places: 0,
        direct: 4,
        reached: 45,
    },
    Ceiling {
        name: "supervisor-core",
        // The last rises: the classifier's side of a session, plan mode, and modes that change; routes
        // and their attempts in the record, leases that are renewed, budgets; hooks and their answers.
        lines: 6_200,
        unsafe_places: 0,
        direct: 4,
        reached: 50,
    },
    Ceiling {
        name: "worker-jail",
        // A third of the last rise but one is names: the base filter in a container engine's words.
        lines: 7_000,
        unsafe_places: 40,
        direct: 6,
        reached: 45,
    },
];

/// The house of a crate, by its folder: two houses never name each other.
#[must_use]
pub fn house(folder: &str) -> Option<&'static str> {
    ["supervisor", "worker"].into_iter().find(|house| {
        folder
            .strip_prefix(house)
            .is_some_and(|rest| rest.starts_with('/'))
    })
}

/// Longest file before its tests.
pub const FILE_LINES: usize = 500;

/// Longest `main.rs`.
pub const MAIN_LINES: usize = 80;

/// Names that say nothing.
pub const BANNED_NAMES: &[&str] = &[
    "utils", "util", "helpers", "helper", "common", "misc", "types",
];

/// What a scan must have seen at least; a gate that scans nothing passes in silence.
pub const LEAST_CRATES: usize = 14;
/// Files that a scan must have seen at least.
pub const LEAST_FILES: usize = 150;
/// Lines that a scan must have seen at least.
pub const LEAST_LINES: usize = 20_000;
