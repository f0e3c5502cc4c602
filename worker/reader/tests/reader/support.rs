//! A workspace, a session's tree and what lies beside them, in a folder that goes away.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use protocol::bounds;
use protocol::reader::{Change, Errand, Finding, ReaderFailure};
use tempfile::TempDir;

/// One session's places.
pub(crate) struct Scene {
    folder: TempDir,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// In memory where there is a place for that: for tests that make and remove very much.
    pub(crate) fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        let folder = tempfile::tempdir_in(memory);
        if folder.is_ok() {
            Self::below(memory)
        } else {
            Self::new()
        }
    }

    fn below(place: &Path) -> Self {
        let folder = tempfile::tempdir_in(place).expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("opens");
        for name in ["workspace", "tree"] {
            fs::create_dir(folder.path().join(name)).expect("makes");
        }
        Self { folder }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.at(name).to_str().expect("text").to_owned()
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.at("workspace")
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.at("tree")
    }

    pub(crate) fn errand_copy(&self, hide: &[&str]) -> Errand {
        Errand::CopyIn {
            workspace: self.text("workspace"),
            tree: self.text("tree"),
            manifest: self.text("manifest"),
            hide: strings(hide),
            max_bytes: bounds::COPY_BYTES,
            max_entries: bounds::COPY_ENTRIES,
            owner: None,
        }
    }

    /// Copies, and answers what was hidden and what was skipped.
    pub(crate) fn copy(&self, hide: &[&str]) -> (u64, Vec<String>, Vec<String>) {
        match one(&self.errand_copy(hide)) {
            Finding::Copied {
                entries,
                hidden,
                skipped,
                ..
            } => (entries, hidden, skipped),
            other => panic!("{other:?}"),
        }
    }

    /// Lists, and answers changes and skips.
    pub(crate) fn list(&self, hide: &[&str]) -> (Vec<Change>, Vec<String>) {
        let errand = Errand::List {
            kind: protocol::reader::TreeKind::Copy,
            tree: self.text("tree"),
            manifest: self.text("manifest"),
            hide: strings(hide),
            workspace: Some(self.text("workspace")),
        };
        let (mut all, mut skips) = (Vec::new(), Vec::new());
        let mut ended = false;
        for finding in findings(&errand) {
            match finding {
                Finding::Changes {
                    changes,
                    more,
                    skipped,
                } => {
                    assert!(!ended && changes.len() <= bounds::CHANGES_PAGE);
                    ended = !more;
                    all.extend(changes);
                    skips.extend(skipped);
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(ended, "the last page says so");
        (all, skips)
    }

    /// The changes in short: `A path`, `D path`, `M path`, with kinds where they are no files.
    pub(crate) fn brief(&self) -> Vec<String> {
        self.list(&[]).0.iter().map(brief).collect()
    }

    pub(crate) fn errand_apply(&self, changes: &[Change]) -> Errand {
        Errand::Apply {
            kind: protocol::reader::TreeKind::Copy,
            tree: self.text("tree"),
            manifest: self.text("manifest"),
            workspace: self.text("workspace"),
            journal: self.text("journal"),
            changes: changes.to_vec(),
        }
    }

    pub(crate) fn apply(&self, changes: &[Change]) -> Finding {
        one(&self.errand_apply(changes))
    }

    pub(crate) fn journal(&self) -> String {
        fs::read_to_string(self.at("journal")).unwrap_or_default()
    }
}

pub(crate) fn brief(change: &Change) -> String {
    let kind = |node: &protocol::reader::Node| format!("{:?}", node.kind).to_lowercase();
    let word = match (&change.before, &change.after) {
        (None, Some(after)) => format!("A {}", kind(after)),
        (Some(before), None) => format!("D {}", kind(before)),
        (Some(before), Some(after)) if before.kind != after.kind => {
            format!("T {} {}", kind(before), kind(after))
        }
        (Some(before), Some(after)) if before.digest == after.digest => {
            format!("m {:o} {:o}", before.mode, after.mode)
        }
        (Some(_), Some(after)) => format!("M {}", kind(after)),
        (None, None) => "?".to_owned(),
    };
    format!("{word} {}", change.path)
}

pub(crate) fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

pub(crate) fn findings(errand: &Errand) -> Vec<Finding> {
    let mut all = Vec::new();
    let mut keep = |finding: Finding| -> io::Result<()> {
        let frame = serde_json::to_vec(&finding)?;
        assert!(frame.len() < bounds::FRAME, "a finding fits a frame");
        all.push(serde_json::from_slice(&frame)?);
        Ok(())
    };
    worker_reader::run(errand, &mut keep).expect("the link holds");
    all
}

pub(crate) fn one(errand: &Errand) -> Finding {
    let mut all = findings(errand);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

pub(crate) fn failed(finding: Finding) -> (ReaderFailure, String) {
    match finding {
        Finding::Failed { class, message } => (class, message),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    let path = path.as_ref();
    fs::create_dir_all(path.parent().expect("a folder")).expect("makes");
    fs::write(path, content).expect("writes");
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("sets");
}

pub(crate) fn mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("sets");
}

pub(crate) fn link(target: impl AsRef<Path>, path: impl AsRef<Path>) {
    symlink(target, path).expect("links");
}

/// Everything below `root`: kind, permission bits and content by path.
pub(crate) fn snapshot(root: &Path) -> BTreeMap<PathBuf, (char, u32, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("lists") {
            let path = entry.expect("an entry").path();
            let meta = fs::symlink_metadata(&path).expect("reads");
            let bits = meta.mode() & 0o7777;
            let short = path.strip_prefix(root).expect("below").to_path_buf();
            let state = if meta.is_dir() {
                folders.push(path);
                ('d', bits, Vec::new())
            } else if meta.is_symlink() {
                let target = fs::read_link(&path).expect("reads");
                ('l', 0o777, target.into_os_string().into_encoded_bytes())
            } else if meta.is_file() {
                ('f', bits, fs::read(&path).expect("reads"))
            } else {
                ('s', bits, Vec::new())
            };
            all.insert(short, state);
        }
    }
    all
}

/// A workspace with a bit of everything.
pub(crate) fn furnish(root: &Path) {
    write(root.join("README.md"), "# project\n");
    write(root.join("src/main.rs"), "fn main() {\n    old();\n}\n");
    write(root.join("src/run.sh"), "#!/bin/sh\n");
    mode(root.join("src/run.sh"), 0o755);
    write(root.join("data/blob.bin"), [0_u8, 1, 2, 255, 254]);
    write(root.join("data/gone.txt"), "one\ntwo\nthree\n");
    write(root.join("old/a.txt"), "a\n");
    write(root.join("old/deep/b.txt"), "b");
    fs::create_dir(root.join("empty")).expect("makes");
    link("README.md", root.join("readme-link"));
    link("../nowhere/at all", root.join("src/dangling"));
}
