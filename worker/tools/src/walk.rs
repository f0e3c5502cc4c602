//! Walks a tree below a folder by gitignore's rules: sorted, bounded, without threads or links.
//!
//! The ignore files are opened like any other file of the view, so that a FIFO named `.gitignore`
//! is passed over and not waited for.

use std::{ffi::OsString, time::Instant};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use policies::ViewPath;
use protocol::bounds;

use crate::view::{Unreadable, View};

/// Bytes of an ignore file.
const IGNORE_FILE: u64 = 256 * 1024;

/// A file that a walk found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) path: ViewPath,
    pub(crate) link: bool,
}

/// Whether the walk goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Go {
    On,
    Stop,
}

/// Walks below `root` and shows each file (links too, folders not) to `visit`, sorted by path.
/// Returns whether anything was left out because a bound was reached.
pub(crate) fn walk(
    view: &View,
    root: &ViewPath,
    deadline: Instant,
    visit: &mut dyn FnMut(Found) -> Go,
) -> Result<bool, Unreadable> {
    // The first folder must be readable; below it, what cannot be read is passed over.
    std::fs::read_dir(view.real(root)).map_err(|error| view.explain(root, &error))?;
    let mut walk = Walk {
        view,
        deadline,
        visit,
        left: bounds::WALK_ENTRIES,
        cut: false,
        rules: Vec::new(),
    };
    walk.enter_parents(root);
    walk.folder(root, 0);
    Ok(walk.cut)
}

struct Walk<'a> {
    view: &'a View,
    deadline: Instant,
    visit: &'a mut dyn FnMut(Found) -> Go,
    left: usize,
    cut: bool,
    /// Ignore rules from the outermost folder to the one that is walked.
    rules: Vec<Gitignore>,
}

impl Walk<'_> {
    /// Rules of the folders between the workspace root and the walk's root.
    fn enter_parents(&mut self, root: &ViewPath) {
        let workspace = self.view.workspace().to_owned();
        let Some(below) = root.below(&workspace) else {
            return;
        };
        let mut folder = workspace;
        for part in below.split('/').filter(|part| !part.is_empty()) {
            if let Some(path) = self.view.path(&folder) {
                let rules = self.rules_of(&path);
                self.rules.push(rules);
            }
            folder = format!("{folder}/{part}");
        }
    }

    fn folder(&mut self, folder: &ViewPath, depth: usize) -> Go {
        if depth >= bounds::WALK_DEPTH {
            self.cut = true;
            return Go::On;
        }
        let Ok(read) = std::fs::read_dir(self.view.real(folder)) else {
            return Go::On;
        };
        let mut entries: Vec<(OsString, std::fs::FileType)> = Vec::new();
        for entry in read.flatten() {
            if self.left == 0 {
                self.cut = true;
                break;
            }
            self.left -= 1;
            if let Ok(kind) = entry.file_type() {
                entries.push((entry.file_name(), kind));
            }
        }
        entries.sort_by(|one, other| one.0.cmp(&other.0));
        let rules = self.rules_of(folder);
        self.rules.push(rules);
        let mut go = Go::On;
        for (name, kind) in entries {
            go = self.entry(folder, &name, kind, depth);
            if go == Go::Stop {
                break;
            }
        }
        self.rules.pop();
        go
    }

    fn entry(
        &mut self,
        folder: &ViewPath,
        name: &OsString,
        kind: std::fs::FileType,
        depth: usize,
    ) -> Go {
        if Instant::now() >= self.deadline {
            self.cut = true;
            return Go::Stop;
        }
        // A name that is not text cannot be given back to a tool.
        let Some(name) = name.to_str() else {
            return Go::On;
        };
        let Some(path) = self.view.path(&format!("{}/{name}", folder.as_str())) else {
            return Go::On;
        };
        if name == ".git" || self.ignored(&path, kind.is_dir()) {
            return Go::On;
        }
        if kind.is_dir() {
            return self.folder(&path, depth + 1);
        }
        if kind.is_file() || kind.is_symlink() {
            return (self.visit)(Found {
                path,
                link: kind.is_symlink(),
            });
        }
        Go::On
    }

    /// The innermost folder that has something to say decides.
    fn ignored(&self, path: &ViewPath, folder: bool) -> bool {
        let said = self
            .rules
            .iter()
            .rev()
            .map(|rules| rules.matched(path.as_str(), folder));
        said.into_iter()
            .find(|said| !said.is_none())
            .is_some_and(|said| said.is_ignore())
    }

    fn rules_of(&self, folder: &ViewPath) -> Gitignore {
        let mut builder = GitignoreBuilder::new(folder.as_str());
        // The last rule that matches decides, so that `.ignore` stands above `.gitignore`.
        for name in [".gitignore", ".ignore"] {
            let Some(path) = self.view.path(&format!("{}/{name}", folder.as_str())) else {
                continue;
            };
            if !self.view.real(&path).is_file() {
                continue;
            }
            let Ok(bytes) = self.view.read(&path, IGNORE_FILE) else {
                continue;
            };
            for line in String::from_utf8_lossy(&bytes).lines() {
                // A line that is no pattern ignores nothing, as in git.
                let _ = builder.add_line(None, line);
            }
        }
        builder.build().unwrap_or_else(|_| Gitignore::empty())
    }
}
