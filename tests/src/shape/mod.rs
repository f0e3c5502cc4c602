//! The shape of the workspace as it is, and what there is to object to it.
//!
//! [`Workspace::read`] takes it from `cargo metadata` and the source text; [`rules`] compares it with
//! [`drawn`], the picture in ARCHITECTURE.md as tables. Both work on plain values, so that a test can
//! hand them a sabotaged workspace and see them object.

pub mod drawn;
mod metadata;
pub mod rules;
mod source;
pub mod tcb;

use std::collections::BTreeSet;

pub use metadata::Unreadable;
pub use source::SourceFile;

/// The workspace.
#[derive(Debug, Clone, Default)]
pub struct Workspace {
    /// Its crates.
    pub crates: Vec<Crate>,
}

/// One crate.
#[derive(Debug, Clone, Default)]
pub struct Crate {
    /// Name in its manifest.
    pub name: String,
    /// Folder from the workspace's root (`supervisor/core`).
    pub folder: String,
    /// Crates of the workspace that it names, those for its tests not included.
    pub arrows: BTreeSet<String>,
    /// Crates of the workspace that its tests name.
    pub test_arrows: BTreeSet<String>,
    /// Crates from outside that it names, those for its tests not included.
    pub outsiders: BTreeSet<String>,
    /// Crates from outside that are linked into it, by whatever way.
    pub reached: BTreeSet<String>,
    /// The text of its manifest.
    pub manifest: String,
    /// Its Rust files.
    pub files: Vec<SourceFile>,
}

impl Crate {
    /// Its files without those that are only tests.
    pub fn sources(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| !file.is_test)
    }
}
