//! Reads the workspace: `cargo metadata` for the graph, the folders for the text.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{Crate, SourceFile, Workspace};

/// Why the workspace cannot be read; nothing is skipped in silence.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// cargo cannot be run.
    #[error("cannot run `cargo metadata`: {0}")]
    Cargo(io::Error),
    /// cargo failed.
    #[error("`cargo metadata` failed: {0}")]
    Failed(String),
    /// cargo's answer is not what it is documented to be.
    #[error("`cargo metadata` answered without {0}")]
    Answer(&'static str),
    /// A file or folder cannot be read.
    #[error("cannot read `{path}`: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Workspace {
    /// Reads the workspace that this package belongs to.
    ///
    /// # Errors
    /// [`Unreadable`] when anything at all cannot be read.
    pub fn read() -> Result<Self, Unreadable> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = here.parent().unwrap_or(here);
        let metadata = metadata(root)?;
        let graph = Graph::of(&metadata)?;
        let mut crates = Vec::new();
        for id in &graph.members {
            let Some(package) = graph.packages.get(id.as_str()) else {
                return Err(Unreadable::Answer("a member's package"));
            };
            crates.push(graph.describe(id, package)?);
        }
        crates.sort_by(|a, b| a.folder.cmp(&b.folder));
        Ok(Self { crates })
    }
}

fn metadata(root: &Path) -> Result<Value, Unreadable> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
        ])
        .current_dir(root)
        .output()
        .map_err(Unreadable::Cargo)?;
    if !output.status.success() {
        return Err(Unreadable::Failed(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ));
    }
    serde_json::from_slice(&output.stdout).map_err(|_| Unreadable::Answer("JSON"))
}

/// A field; null if it is missing, which whoever reads it then objects to.
fn at<'m>(value: &'m Value, field: &str) -> &'m Value {
    value.get(field).unwrap_or(&Value::Null)
}

/// What `cargo metadata` says, by package id.
struct Graph<'m> {
    members: Vec<String>,
    packages: BTreeMap<&'m str, Package>,
    /// For each package, those it names: id and whether it is for tests only.
    edges: BTreeMap<&'m str, Vec<(&'m str, bool)>>,
}

struct Package {
    name: String,
    folder: PathBuf,
}

impl<'m> Graph<'m> {
    fn of(metadata: &'m Value) -> Result<Self, Unreadable> {
        let list = |value: &'m Value, what| value.as_array().ok_or(Unreadable::Answer(what));
        let text = |value: &'m Value, what| value.as_str().ok_or(Unreadable::Answer(what));
        let mut packages = BTreeMap::new();
        for package in list(at(metadata, "packages"), "packages")? {
            let manifest = Path::new(text(at(package, "manifest_path"), "a manifest's path")?);
            let described = Package {
                name: text(at(package, "name"), "a package's name")?.to_owned(),
                folder: manifest.parent().unwrap_or(manifest).to_owned(),
            };
            packages.insert(text(at(package, "id"), "a package's id")?, described);
        }
        let mut edges = BTreeMap::new();
        for node in list(at(at(metadata, "resolve"), "nodes"), "the resolved graph")? {
            let mut named = Vec::new();
            for dependency in list(at(node, "deps"), "a node's dependencies")? {
                let kinds = list(at(dependency, "dep_kinds"), "a dependency's kinds")?;
                // Tests only, if no kind is the ordinary one or for the build.
                let only_tests = kinds
                    .iter()
                    .all(|kind| at(kind, "kind").as_str() == Some("dev"));
                named.push((
                    text(at(dependency, "pkg"), "a dependency's package")?,
                    only_tests,
                ));
            }
            edges.insert(text(at(node, "id"), "a node's id")?, named);
        }
        let members = list(at(metadata, "workspace_members"), "members")?
            .iter()
            .map(|id| text(id, "a member's id").map(str::to_owned))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            members,
            packages,
            edges,
        })
    }

    fn describe(&self, id: &str, package: &Package) -> Result<Crate, Unreadable> {
        let mut described = Crate {
            name: package.name.clone(),
            ..Crate::default()
        };
        described.folder = relative(&package.folder);
        for (to, only_tests) in self.edges.get(id).into_iter().flatten() {
            let name = self.packages.get(to).map(|package| package.name.clone());
            let name = name.ok_or(Unreadable::Answer("a dependency's package"))?;
            let set = match (self.members.iter().any(|member| member == to), only_tests) {
                (true, false) => &mut described.arrows,
                (true, true) => &mut described.test_arrows,
                (false, false) => &mut described.outsiders,
                (false, true) => continue,
            };
            set.insert(name);
        }
        described.reached = self.reached(id);
        let manifest = package.folder.join("Cargo.toml");
        described.manifest = read(&manifest)?;
        collect(&package.folder, &package.folder, &mut described.files)?;
        described.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(described)
    }

    /// Everything from outside that a crate links, directly or not.
    fn reached(&self, id: &str) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        let mut open = vec![id];
        while let Some(at) = open.pop() {
            for (to, only_tests) in self.edges.get(at).into_iter().flatten() {
                if !only_tests && seen.insert(*to) {
                    open.push(to);
                }
            }
        }
        let outside = seen
            .into_iter()
            .filter(|id| !self.members.iter().any(|member| member == id));
        outside
            .filter_map(|id| self.packages.get(id))
            .map(|package| package.name.clone())
            .collect()
    }
}

/// The folder from the workspace's root: its last two names, or the last one of a top-level crate.
fn relative(folder: &Path) -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent().unwrap_or(here);
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let below = folder.strip_prefix(&root).unwrap_or(folder);
    below.display().to_string()
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<SourceFile>) -> Result<(), Unreadable> {
    let failed = |source| Unreadable::File {
        path: folder.to_owned(),
        source,
    };
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            let name = path.file_name().unwrap_or_default();
            if name != "target" && !path.join("Cargo.toml").exists() {
                collect(root, &path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let relative = path
                .strip_prefix(root)
                .unwrap_or(&path)
                .display()
                .to_string();
            files.push(SourceFile::new(relative, read(&path)?));
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, Unreadable> {
    std::fs::read_to_string(path).map_err(|source| Unreadable::File {
        path: path.to_owned(),
        source,
    })
}
