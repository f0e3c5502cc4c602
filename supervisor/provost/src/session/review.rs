//! What a dead session changed: listed, shown, written as a patch, applied or thrown away. All reading
//! of the tree is a reader's work; nothing here opens a file of it.

use std::{
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use protocol::{
    BUILD, SessionId,
    jail::Identity,
    reader::{Change, Errand, Finding, NodeKind, ReaderFailure, ReaderSpec, Step},
};
use supervisor_record::{Places, SessionLock};
use supervisor_sandbox::{WorkerBinary, find_worker, run_reader};

use super::{Saved, place, queries};
use crate::exit::{ENDED, Failure, REFUSED_AT_START};

/// A session's layer, sealed: its lock is held and its jail is dead.
#[derive(Debug)]
pub(crate) struct Layer {
    worker: Arc<WorkerBinary>,
    session: SessionId,
    folder: PathBuf,
    pub(crate) saved: Saved,
    /// Held so that nobody resumes the session meanwhile.
    _lock: Option<SessionLock>,
}

/// Changes, those of protected names apart.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// All that `apply` takes.
    pub(crate) plain: Vec<Change>,
    /// Protected names with the name that protects them; taken only by digest.
    pub(crate) protected: Vec<(Change, String)>,
    /// What can never be applied: special files, hidden names, paths that are too deep or too long.
    pub(crate) skipped: Vec<String>,
}

impl Layer {
    /// Takes a session's layer.
    pub(crate) fn take(
        places: &Places,
        session: &SessionId,
        saved: Saved,
    ) -> Result<Self, Failure> {
        let refused =
            |error: &dyn std::fmt::Display| Failure::new(REFUSED_AT_START, error.to_string());
        let lock = SessionLock::take(places, session).map_err(|error| refused(&error))?;
        let lock =
            lock.ok_or_else(|| refused(&format!("session {session} still runs: end it first")))?;
        let worker = Arc::new(find_worker().map_err(|error| refused(&error))?);
        Self::of(places, session, saved, worker, Some(lock))
    }

    /// The layer of a session whose lock the caller holds.
    pub(crate) fn of(
        places: &Places,
        session: &SessionId,
        saved: Saved,
        worker: Arc<WorkerBinary>,
        lock: Option<SessionLock>,
    ) -> Result<Self, Failure> {
        let folder = places.session_folder(session);
        if !folder.join("tree").is_dir() {
            return Err(Failure::new(
                ENDED,
                format!("session {session} has no layer any more: it was discarded"),
            ));
        }
        Ok(Self {
            worker,
            session: session.clone(),
            folder,
            saved,
            _lock: lock,
        })
    }

    /// The account that the session works for, which readers become.
    fn account(&self) -> Option<Identity> {
        self.saved.account.as_ref().map(|account| account.identity)
    }

    fn path(&self, name: &str) -> String {
        let path = match name {
            "tree" => super::tree_of(&self.folder),
            name => super::beside(&self.folder, name),
        };
        path.display().to_string()
    }

    /// Lists the changes.
    pub(crate) fn changes(&self) -> Result<Changes, Failure> {
        let errand = Errand::List {
            tree: self.path("tree"),
            kind: self.saved.holding.tree(),
            manifest: self.path("manifest.jsonl"),
            hide: self.saved.setup.hide.clone(),
            workspace: Some(self.saved.setup.workspace.display().to_string()),
        };
        let spec = ReaderSpec {
            build: BUILD.to_owned(),
            session: self.session.clone(),
            account: self.account(),
            errand,
        };
        let (mut all, mut left, mut bad) = (Vec::new(), Vec::new(), None);
        run_reader(&self.worker, &spec, &mut |finding| match finding {
            Finding::Changes {
                changes, skipped, ..
            } => {
                all.extend(changes);
                left.extend(skipped);
            }
            other => bad = Some(queries::why(&other)),
        })
        .map_err(|error| Failure::new(ENDED, format!("cannot list the changes: {error}")))?;
        if let Some(why) = bad {
            return Err(Failure::new(
                ENDED,
                format!("cannot list the changes: {why}"),
            ));
        }
        let extra = &self.saved.setup.policy.settings.filesystem.protect;
        let repositories = new_repositories(&all);
        let mut changes = Changes {
            skipped: left,
            ..Changes::default()
        };
        for change in all {
            let by = policies::protected(&change.path, extra)
                .or_else(|| is_git_link(&change).then(|| "a .git that is no folder".to_owned()))
                .or_else(|| {
                    is_new_head(&change)
                        .then(|| "a HEAD can make its folder a repository".to_owned())
                })
                .or_else(|| {
                    let inside = |root: &String| below(&change.path, root);
                    repositories
                        .iter()
                        .any(inside)
                        .then(|| "a new repository".to_owned())
                });
            match by {
                Some(by) => changes.protected.push((change, by)),
                None => changes.plain.push(change),
            }
        }
        Ok(changes)
    }

    /// Writes the plain changes as a patch into `out`.
    pub(crate) fn patch(&self, changes: &Changes, out: &Path) -> Result<u64, Failure> {
        let inside = self.path("session.patch");
        let errand = Errand::Patch {
            tree: self.path("tree"),
            kind: self.saved.holding.tree(),
            manifest: self.path("manifest.jsonl"),
            workspace: self.saved.setup.workspace.display().to_string(),
            out: inside.clone(),
            hide: self.saved.setup.hide.clone(),
            skip: changes
                .protected
                .iter()
                .map(|(change, _)| change.path.clone())
                .collect(),
        };
        let failed = |why: String| Failure::new(ENDED, format!("cannot write the patch: {why}"));
        let bytes = match queries::one_errand(&self.worker, &self.session, self.account(), errand)
            .map_err(failed)?
        {
            Finding::Patched { bytes, .. } => bytes,
            other => return Err(failed(queries::why(&other))),
        };
        let copied = copy_out(Path::new(&inside), out);
        if self.account().is_none() {
            let _ = std::fs::remove_file(&inside);
        }
        copied.map_err(|error| failed(format!("`{}`: {error}", out.display())))?;
        Ok(bytes)
    }

    /// The patch as text for people; the caller escapes it.
    pub(crate) fn patch_text(&self, changes: &Changes) -> Result<Vec<u8>, Failure> {
        let out = self.folder.join("shown.patch");
        let result = self.patch(changes, &out).and_then(|_| {
            std::fs::read(&out)
                .map_err(|error| Failure::new(ENDED, format!("cannot read the patch: {error}")))
        });
        let _ = std::fs::remove_file(&out);
        result
    }

    /// Puts exactly these changes into the workspace.
    pub(crate) fn apply(&self, changes: Vec<Change>) -> Result<u64, Failure> {
        if changes.is_empty() {
            return Ok(0);
        }
        let errand = Errand::Apply {
            tree: self.path("tree"),
            kind: self.saved.holding.tree(),
            manifest: self.path("manifest.jsonl"),
            workspace: self.saved.setup.workspace.display().to_string(),
            journal: self.path("apply.jsonl"),
            changes,
        };
        let failed = |why: String| Failure::new(ENDED, format!("cannot apply: {why}"));
        match queries::one_errand(&self.worker, &self.session, self.account(), errand).map_err(failed)? {
            Finding::Applied { changes } => Ok(changes),
            Finding::Failed { class: ReaderFailure::Moved, message } => {
                Err(failed(message).help("the workspace moved on underneath: look with `provost diff`, or take the changes as a patch"))
            }
            other => Err(failed(queries::why(&other))),
        }
    }

    /// Puts back what tools changed.
    pub(crate) fn restore(&self, steps: Vec<Step>) -> Result<u64, Failure> {
        if steps.is_empty() {
            return Ok(0);
        }
        let errand = Errand::Restore {
            tree: self.path("tree"),
            kind: self.saved.holding.tree(),
            manifest: self.path("manifest.jsonl"),
            steps,
        };
        let failed = |why: String| Failure::new(ENDED, format!("cannot undo: {why}"));
        // Pre-images lie where only the supervisor reads; nothing but the session's own tree is written.
        match queries::one_errand(&self.worker, &self.session, None, errand).map_err(failed)? {
            Finding::Restored { files } => Ok(files),
            other => Err(failed(queries::why(&other))),
        }
    }

    /// Throws the layer away.
    pub(crate) fn discard(&self) -> Result<(), Failure> {
        let failed = |why: String| Failure::new(ENDED, format!("cannot discard: {why}"));
        place::remove_layer(&self.worker, &self.session, &self.folder).map_err(failed)?;
        for name in super::WRITTEN.iter().chain(&["shown.patch"]) {
            let _ = std::fs::remove_file(self.folder.join(name));
        }
        Ok(())
    }
}

/// Copies what a reader wrote, never through a link.
fn copy_out(from: &Path, out: &Path) -> std::io::Result<u64> {
    let mut from = std::fs::File::options()
        .read(true)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(from)?;
    let mut out = std::fs::File::create(out)?;
    std::io::copy(&mut from, &mut out)
}

/// A `.git` that became a file or a link sends git elsewhere, where nobody looked.
fn is_git_link(change: &Change) -> bool {
    let name = change.path.rsplit('/').next().unwrap_or_default();
    let after = change.after.as_ref().map(|node| node.kind);
    name.eq_ignore_ascii_case(".git") && after.is_some_and(|kind| kind != NodeKind::Folder)
}

/// A new HEAD outside `.git`: what else git needs to take its folder for a repository may have been
/// there before, or lie elsewhere by a `commondir`.
fn is_new_head(change: &Change) -> bool {
    let (folder, name) = change.path.rsplit_once('/').unwrap_or(("", &change.path));
    let in_git = folder
        .split('/')
        .any(|part| part.eq_ignore_ascii_case(".git"));
    change.before.is_none()
        && change.after.is_some()
        && name.eq_ignore_ascii_case("HEAD")
        && !in_git
}

/// Folders that got a HEAD, objects and refs: git takes each for a repository, hooks and all.
fn new_repositories(changes: &[Change]) -> Vec<String> {
    let added = |path: String| {
        changes.iter().any(|change| {
            change.after.is_some() && (change.path == path || below(&change.path, &path))
        })
    };
    let heads = changes
        .iter()
        .filter(|change| change.before.is_none() && change.after.is_some());
    let parents = heads.filter_map(|change| {
        let (parent, name) = change.path.rsplit_once('/').unwrap_or(("", &change.path));
        name.eq_ignore_ascii_case("HEAD").then(|| parent.to_owned())
    });
    let join = |parent: &str, name: &str| {
        if parent.is_empty() {
            name.to_owned()
        } else {
            format!("{parent}/{name}")
        }
    };
    parents
        .filter(|p| added(join(p, "objects")) && added(join(p, "refs")))
        .collect()
}

/// Whether a path lies below a folder, by components; everything lies below the root.
fn below(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path
            .strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use protocol::reader::Node;

    use super::*;

    fn added(path: &str, kind: NodeKind) -> Change {
        let node = Node {
            kind,
            mode: 0o644,
            size: 0,
            digest: None,
        };
        Change {
            path: path.into(),
            after: Some(node),
            before: None,
            lines: None,
        }
    }

    #[test]
    fn a_git_file_and_a_planted_repository_are_seen() {
        assert!(is_git_link(&added("sub/.git", NodeKind::File)));
        assert!(is_git_link(&added(".GIT", NodeKind::Symlink)));
        assert!(!is_git_link(&added("sub/.git", NodeKind::Folder)));
        let planted = ["x/HEAD", "x/objects/a", "x/refs", "y/HEAD", "y/refs"];
        let planted = planted.map(|path| added(path, NodeKind::File));
        assert_eq!(new_repositories(&planted), ["x"]);
        // With a `commondir` the rest of the repository lies anywhere, or came with an earlier apply.
        assert!(is_new_head(&added("x/HEAD", NodeKind::File)));
        assert!(is_new_head(&added("head", NodeKind::Symlink)));
        assert!(!is_new_head(&added(".git/HEAD", NodeKind::File)));
        assert!(!is_new_head(&added(".git/logs/HEAD", NodeKind::File)));
        assert!(below("x/hooks/post-checkout", "x") && !below("xy/a", "x"));
    }
}
