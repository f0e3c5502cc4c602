//! Puts a session's changes into the workspace: planned first, then each by exchange, each in the
//! journal.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, fchmod, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use protocol::reader::{Change, Finding, NodeKind};

use crate::failure::{At, Trouble, is_swap};
use crate::journal::{Deed, Journal, Past};
use crate::manifest;
use crate::name;
use crate::place;
use crate::plan::{self, Due};
use crate::put::{ASIDE, Means, Put};
use crate::sealed;
use crate::walk::Tree;

/// What to apply, and where.
pub(crate) struct Order<'a> {
    pub(crate) tree: &'a str,
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
    let plan = plan::plan(&tree, &workspace, &manifest, order.changes, &past)?;
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

/// Whether the old node must be gone before the new one can come.
fn gives_way(change: &Change) -> bool {
    match (&change.before, &change.after) {
        (Some(_), None) => true,
        (Some(before), Some(after)) => {
            (before.kind == NodeKind::Folder) != (after.kind == NodeKind::Folder)
        }
        (None, _) => false,
    }
}

fn remove_folder(put: &mut Put<'_>, due: &Due<'_>) -> Result<(), Trouble> {
    let path = &due.change.path;
    let (parent, last) = match place::open_parent(put.workspace, &due.path) {
        Ok(found) => found,
        Err(errno) if is_swap(errno) => return Err(moved(path)),
        Err(errno) => return Err(errno).at("cannot open the folder of", path),
    };
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
