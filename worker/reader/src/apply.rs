//! Puts a session's changes into the workspace: planned first, then each by exchange, each in the
//! journal.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, fchmod, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use protocol::reader::{Change, Finding, NodeKind, TreeKind};

use crate::failure::{At, Trouble, is_swap};
use crate::journal::{Deed, Journal, Past};
use crate::manifest;
use crate::name;
use crate::place;
use crate::plan::{self, Due, gives_way};
use crate::put::{ASIDE, Means, Put};
use crate::sealed;
use crate::walk::Tree;

/// What to apply, and where.
pub(crate) struct Order<'a> {
    pub(crate) tree: &'a str,
    pub(crate) kind: TreeKind,
    pub(crate) manifest: &'a str,
    pub(crate) workspace: &'a str,
    pub(crate) journal: &'a str,
    pub(crate) changes: &'a [Change],
}

/// Applies; a second time there is nothing left to do, and it says so with zero.
pub(crate) fn apply(order: &Order<'_>, means: Means) -> Result<Finding, Trouble> {
    let manifest = manifest::read(order.manifest)?;
    let tree = sealed::open_root(order.tree)?;
    let workspace = place::open_root(order.workspace)?;
    let (mut journal, past) = Journal::open(order.journal)?;
    clear_away(&workspace, &past, order.changes)?;
    let plan = plan::plan(
        (&tree, order.kind),
        &workspace,
        &manifest,
        order.changes,
        &past,
    )?;
    for change in &plan.already {
        journal.done(&change.path, Deed::Already)?;
    }
    let mut put = Put {
        tree: &tree,
        workspace: &workspace,
        journal: &mut journal,
        means,
        serial: 0,
        touched: BTreeSet::new(),
    };
    let changed = deeds(&mut put, &plan.due);
    // Also after a failure: what was done is done, and the journal says so.
    let durable = put.settle();
    journal.finish()?;
    changed?;
    durable?;
    Ok(Finding::Applied {
        changes: plan.due.len() as u64,
    })
}

/// Removals from the leaves up, folders from the root down, contents, then the folders' own bits.
fn deeds(put: &mut Put<'_>, due: &[Due<'_>]) -> Result<(), Trouble> {
    for due in due
        .iter()
        .rev()
        .filter(|due| !due.clear && !due.made && gives_way(due.change))
    {
        if due
            .change
            .before
            .as_ref()
            .is_some_and(|node| node.kind == NodeKind::Folder)
        {
            remove_folder(put, due)?;
        } else {
            put.take_away(due)?;
        }
    }
    for due in due
        .iter()
        .filter(|due| becomes(due.change, NodeKind::Folder))
    {
        open_folder(put, due)?;
    }
    for due in due {
        if becomes(due.change, NodeKind::File) || becomes(due.change, NodeKind::Symlink) {
            put.put(due)?;
        }
    }
    for due in due
        .iter()
        .rev()
        .filter(|due| becomes(due.change, NodeKind::Folder))
    {
        close_folder(put, due)?;
    }
    Ok(())
}

fn becomes(change: &Change, kind: NodeKind) -> bool {
    change.after.as_ref().is_some_and(|node| node.kind == kind)
}

fn remove_folder(put: &mut Put<'_>, due: &Due<'_>) -> Result<(), Trouble> {
    let path = &due.change.path;
    let (parent, last) = match place::open_parent(put.workspace, &due.path) {
        Ok(found) => found,
        Err(errno) if is_swap(errno) => return Err(moved(path)),
        Err(errno) => return Err(errno).at("cannot open the folder of", path),
    };
    put.journal.begin(path, None)?;
    let deed = match unlinkat(&parent, last.as_c_str(), UnlinkatFlags::RemoveDir) {
        Ok(()) => Deed::Removed,
        // What else lies in it was never part of the session: hidden, or made meanwhile.
        Err(Errno::ENOTEMPTY | Errno::EEXIST) if due.change.after.is_none() => Deed::Kept,
        Err(errno) if is_swap(errno) || errno == Errno::ENOTEMPTY => return Err(moved(path)),
        Err(errno) => return Err(errno).at("cannot remove", path),
    };
    put.touched.insert(name::split(&due.path).0.to_vec());
    put.journal.done(path, deed)
}

/// Makes a new folder, or opens an existing one for writing if its new bits will allow that.
fn open_folder(put: &mut Put<'_>, due: &Due<'_>) -> Result<(), Trouble> {
    let path = &due.change.path;
    put.journal.begin(path, None)?;
    if due
        .change
        .before
        .as_ref()
        .is_some_and(|node| node.kind == NodeKind::Folder)
        || due.made
    {
        let (folder, mode) = held(put.workspace, due)?;
        if mode & 0o700 != 0o700 {
            fchmod(&folder, place::mode(mode | 0o700)).at("cannot open for writing", path)?;
        }
        return Ok(());
    }
    let parent = put.parent(&due.path, path)?;
    let (_, last) = name::split(&due.path);
    match mkdirat(&parent, name::path(last), Mode::S_IRWXU) {
        Ok(()) => {}
        Err(Errno::EEXIST) => return Err(moved(path)),
        Err(errno) => return Err(errno).at("cannot make", path),
    }
    put.journal.done(path, Deed::Folder)?;
    put.adopted(&due.path)
        .at("cannot give to the workspace's owner", path)?;
    put.touched.insert(name::split(&due.path).0.to_vec());
    Ok(())
}

fn close_folder(put: &mut Put<'_>, due: &Due<'_>) -> Result<(), Trouble> {
    let path = &due.change.path;
    let Some(after) = &due.change.after else {
        return Ok(());
    };
    let (folder, _) = held(put.workspace, due)?;
    fchmod(&folder, place::mode(after.mode)).at("cannot set the mode of", path)?;
    put.journal.done(path, Deed::Mode)
}

fn held(workspace: &OwnedFd, due: &Due<'_>) -> Result<(OwnedFd, u32), Trouble> {
    let path = &due.change.path;
    match place::open_beneath(workspace, &due.path, OFlag::O_RDONLY | OFlag::O_DIRECTORY) {
        Ok(folder) => {
            let status = place::status(&folder).at("cannot read", path)?;
            Ok((folder, status.mode))
        }
        Err(errno) if is_swap(errno) => Err(moved(path)),
        Err(errno) => Err(errno).at("cannot open", path),
    }
}

/// Removes what an apply that was interrupted left under a temporary name, if it is provably the old
/// or the new content; anything else is somebody's and stops the apply.
fn clear_away(workspace: &OwnedFd, past: &Past, changes: &[Change]) -> Result<(), Trouble> {
    let changes: BTreeMap<&str, &Change> = changes
        .iter()
        .map(|change| (change.path.as_str(), change))
        .collect();
    let names = past.left.iter().flat_map(|(temporary, path)| {
        [
            (temporary.clone(), path),
            (format!("{temporary}{ASIDE}"), path),
        ]
    });
    for (temporary, path) in names {
        let temporary = temporary.as_str();
        let raw = name::parse(temporary)?;
        let Ok((folder, last)) = place::open_parent(workspace.as_fd(), &raw) else {
            continue;
        };
        let found = plan::look_at(&folder, &last, Tree::Live, None).at("cannot read", temporary)?;
        let plan::Found::Node(node) = found else {
            continue;
        };
        let Some(change) = changes.get(path.as_str()) else {
            continue;
        };
        let ours = [&change.before, &change.after]
            .into_iter()
            .flatten()
            .any(|known| known.kind == node.kind && known.digest == node.digest);
        // A file that was cut off while it was written is ours too: it was never under its own name.
        let half = node.mode == 0o600 && node.kind == NodeKind::File && at_home(workspace, change);
        if !ours && !half {
            return Err(Trouble::Moved(format!(
                "an earlier apply was interrupted and left `{temporary}`, which is neither the old \
                 nor the new `{}`; look at it, then move it away",
                name::shorten(path)
            )));
        }
        unlinkat(&folder, last.as_c_str(), UnlinkatFlags::NoRemoveDir)
            .at("cannot remove", temporary)?;
    }
    Ok(())
}

/// Whether the workspace still has the old node under its own name.
fn at_home(workspace: &OwnedFd, change: &Change) -> bool {
    let Ok(raw) = name::parse(&change.path) else {
        return false;
    };
    let Ok((folder, last)) = place::open_parent(workspace, &raw) else {
        return false;
    };
    plan::look_at(&folder, &last, Tree::Live, None)
        .is_ok_and(|found| found.is(change.before.as_ref()))
}

/// What is said when the workspace changed between plan and deed.
pub(crate) fn moved(path: &str) -> Trouble {
    Trouble::Moved(format!(
        "`{}` changed while the changes were applied; it was left as it is; the journal says what \
         is done, apply again for the rest",
        name::shorten(path)
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::weigh::Bounds;

    /// Copies a small workspace, lets `work` change the copy, and applies with the given means.
    fn applied(
        means: Means,
        work: impl FnOnce(&Path),
        meanwhile: impl FnOnce(&Path),
    ) -> (tempfile::TempDir, Result<Finding, Trouble>) {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
        let (workspace, tree, manifest) = (at("workspace"), at("tree"), at("manifest"));
        fs::create_dir(&workspace).expect("makes");
        fs::create_dir(&tree).expect("makes");
        for name in ["changed", "removed", "kept"] {
            fs::write(Path::new(&workspace).join(name), name).expect("writes");
        }
        std::os::unix::fs::symlink("kept", Path::new(&workspace).join("link")).expect("links");
        let bounds = Bounds {
            bytes: 1 << 20,
            entries: 100,
        };
        let order = crate::copy::Order {
            workspace: &workspace,
            tree: &tree,
            manifest: &manifest,
            hide: &[],
            bounds,
            owner: None,
        };
        crate::copy::copy_in(&order).expect("copies");
        work(Path::new(&tree));
        let mut changes = Vec::new();
        let mut keep = |finding: Finding| {
            if let Finding::Changes { changes: page, .. } = finding {
                changes.extend(page);
            }
            Ok(())
        };
        crate::list::list(
            &crate::list::Order {
                tree: &tree,
                kind: TreeKind::Copy,
                manifest: &manifest,
                hide: &[],
                workspace: None,
            },
            &mut keep,
        )
        .expect("lists");
        meanwhile(Path::new(&workspace));
        let journal = at("journal");
        let order = Order {
            tree: &tree,
            kind: TreeKind::Copy,
            manifest: &manifest,
            workspace: &workspace,
            journal: &journal,
            changes: &changes,
        };
        let outcome = apply(&order, means);
        (folder, outcome)
    }

    fn work(tree: &Path) {
        fs::write(tree.join("changed"), "new content").expect("writes");
        fs::write(tree.join("made"), "made").expect("writes");
        fs::remove_file(tree.join("removed")).expect("removes");
        fs::remove_file(tree.join("link")).expect("removes");
        std::os::unix::fs::symlink("made", tree.join("link")).expect("links");
    }

    #[test]
    fn where_names_cannot_be_exchanged_the_old_is_linked_aside_and_the_journal_says_so() {
        for (means, deed) in [(Means::Exchange, "put"), (Means::Aside, "put_aside")] {
            let (folder, outcome) = applied(means, work, |_| {});
            assert_eq!(outcome.expect("applies"), Finding::Applied { changes: 4 });
            let root = folder.path().join("workspace");
            let mut names: Vec<_> = fs::read_dir(&root)
                .expect("lists")
                .map(|entry| entry.expect("an entry").file_name())
                .collect();
            names.sort();
            assert_eq!(names, ["changed", "kept", "link", "made"]);
            assert_eq!(
                fs::read(root.join("changed")).expect("reads"),
                b"new content"
            );
            assert_eq!(
                fs::read_link(root.join("link")).expect("reads"),
                Path::new("made")
            );
            let journal = fs::read_to_string(folder.path().join("journal")).expect("reads");
            let line = format!("{{\"path\":\"changed\",\"deed\":\"{deed}\"}}");
            assert!(journal.lines().any(|l| l == line), "{journal}");
        }
    }

    #[test]
    fn either_way_a_file_that_moved_on_stops_everything() {
        for means in [Means::Exchange, Means::Aside] {
            let (folder, outcome) = applied(means, work, |workspace| {
                fs::write(workspace.join("removed"), "still needed").expect("writes");
            });
            assert!(matches!(outcome, Err(Trouble::Moved(_))), "{outcome:?}");
            let root = folder.path().join("workspace");
            assert_eq!(fs::read(root.join("changed")).expect("reads"), b"changed");
            assert!(!root.join("made").exists());
        }
    }
}
