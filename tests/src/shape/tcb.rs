//! How much of the workspace must be trusted, in figures.

use super::{Crate, Workspace, drawn};

/// The rings, from the inside out, and what each is trusted with.
const RINGS: &[(&str, &[&str])] = &[
    (
        "decide and confine",
        &["protocol", "policies", "supervisor-core", "worker-jail"],
    ),
    (
        "privileged, decide nothing",
        &[
            "supervisor-providers",
            "supervisor-sandbox",
            "supervisor-record",
            "provost",
        ],
    ),
    (
        "confined",
        &[
            "worker-hands",
            "worker-reader",
            "worker-agent",
            "worker-tools",
            "provost-worker",
        ],
    ),
];

/// What a crate weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight {
    /// Lines before tests, comments included.
    pub lines: usize,
    /// Those of them that are code.
    pub code_lines: usize,
    /// Places where `unsafe` is written.
    pub unsafe_places: usize,
    /// Crates from outside that it names.
    pub direct: usize,
    /// Crates from outside that are linked into it.
    pub reached: usize,
}

impl Weight {
    /// Weighs a crate.
    #[must_use]
    pub fn of(one: &Crate) -> Self {
        Self {
            lines: one.sources().map(|file| file.lines).sum(),
            code_lines: one.sources().map(|file| file.code_lines).sum(),
            unsafe_places: one.sources().map(|file| file.count("unsafe")).sum(),
            direct: one.outsiders.len(),
            reached: one.reached.len(),
        }
    }
}

/// The table that `make tcb` prints. A figure with a ceiling is written `figure/ceiling`.
#[must_use]
pub fn table(workspace: &Workspace) -> String {
    let mut out = format!(
        "{:22} {:>13} {:>7} {:>8} {:>7} {:>9}\n",
        "", "lines", "code", "unsafe", "direct", "linked"
    );
    for (ring, names) in RINGS {
        out.push_str(&format!("{ring}\n"));
        for name in *names {
            let Some(one) = workspace.crates.iter().find(|one| one.name == *name) else {
                out.push_str(&format!("  {name}: missing\n"));
                continue;
            };
            let weight = Weight::of(one);
            let ceiling = drawn::CEILINGS.iter().find(|ceiling| ceiling.name == *name);
            let figure = |is: usize, limit: Option<usize>| match limit {
                Some(limit) => format!("{is}/{limit}"),
                None => is.to_string(),
            };
            out.push_str(&format!(
                "  {name:20} {:>13} {:>7} {:>8} {:>7} {:>9}\n",
                figure(weight.lines, ceiling.map(|ceiling| ceiling.lines)),
                weight.code_lines,
                figure(
                    weight.unsafe_places,
                    ceiling.map(|ceiling| ceiling.unsafe_places)
                ),
                figure(weight.direct, ceiling.map(|ceiling| ceiling.direct)),
                figure(weight.reached, ceiling.map(|ceiling| ceiling.reached)),
            ));
        }
    }
    out.push_str(
        "lines: before tests, comments included · unsafe: places · direct, linked: crates from outside\n",
    );
    out
}
