//! Plans an apply: proves, before the first write, that the session's tree holds exactly what was
//! shown and that the workspace is still what the session started from.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::statvfs::fstatvfs;
use nix::unistd::{AccessFlags, faccessat};
use protocol::bounds;
use protocol::reader::{Change, ManifestEntry, Node, NodeKind, TreeKind};

use crate::compare;
use crate::failure::{At, Trouble};
use crate::journal::Past;
use crate::name;
use crate::place::{self, Kind};
use crate::upper;
use crate::walk::Tree;
use crate::weigh;

/// Places named when the workspace has moved on.
const NAMED: usize = 5;

/// One change that is still to be made.
pub(crate) struct Due<'a> {
    pub(crate) path: Vec<u8>,
    pub(crate) change: &'a Change,
    /// The old node is already out of the way: there was none, or an earlier apply removed it.
    pub(crate) clear: bool,
    /// An earlier apply made the folder, but it may lack its permission bits.
    pub(crate) made: bool,
}

/// What is to be done, sorted by path.
pub(crate) struct Plan<'a> {
    pub(crate) due: Vec<Due<'a>>,
    /// Changes that the workspace already has.
    pub(crate) already: Vec<&'a Change>,
}

/// What lies at a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    Node(Node),
    /// A socket, FIFO or device.
    Special,
    /// As in the workspace: an overlay's layer says nothing of it.
    Untouched,
    /// The path leads through a link or a file.
    Behind,
}

impl Found {
    /// Whether it is exactly this.
    pub(crate) fn is(&self, node: Option<&Node>) -> bool {
        match (self, node) {
            (Self::Nothing, None) => true,
            (Self::Node(found), Some(node)) => found == node,
            _ => false,
        }
    }
}

/// Looks at `name` in a folder that is held open.
pub(crate) fn look_at(
    folder: &OwnedFd,
    name: &std::ffi::CStr,
    tree: Tree,
    before: Option<&Node>,
) -> std::io::Result<Found> {
    let status = match place::status_at(folder, name) {
        Ok(status) => status,
        Err(Errno::ENOENT) => return Ok(Found::Nothing),
        Err(errno) => return Err(errno.into()),
    };
    // Only what comes out of a session is narrowed; the workspace's own bits are taken as they are.
    let own = Node {
        kind: NodeKind::File,
        mode: 0o777,
        size: 0,
        digest: None,
    };
    let before = if tree == Tree::Sealed {
        before
    } else {
        Some(&own)
    };
    Ok(match status.kind {
        Kind::Special(_) | Kind::Whiteout => Found::Special,
        Kind::Folder => Found::Node(compare::folder_node(&status, before)),
        Kind::Symlink => Found::Node(compare::link_node(place::target(folder, name)?.as_bytes())),
        Kind::File => match tree.open_file(folder, name)? {
            Some((file, status)) => Found::Node(compare::file_node(file, &status, before)?),
            None => Found::Special,
        },
    })
}

pub(crate) fn look(
    root: &OwnedFd,
    path: &[u8],
    tree: Tree,
    before: Option<&Node>,
) -> std::io::Result<Found> {
    match place::open_parent(root, path) {
        Ok((folder, name)) => look_at(&folder, &name, tree, before),
        Err(Errno::ENOENT) => Ok(Found::Nothing),
        Err(Errno::ENOTDIR | Errno::ELOOP | Errno::EXDEV) => Ok(Found::Behind),
        Err(errno) => Err(errno.into()),
    }
}

/// Proves the changes against both trees.
pub(crate) fn plan<'a>(
    (tree, kind): (&OwnedFd, TreeKind),
    workspace: &OwnedFd,
    manifest: &BTreeMap<String, ManifestEntry>,
    changes: &'a [Change],
    past: &Past,
) -> Result<Plan<'a>, Trouble> {
    if changes.len() as u64 > bounds::LIST_ENTRIES {
        return Err(Trouble::Limit(format!(
            "more than {} changes at once",
            bounds::LIST_ENTRIES
        )));
    }
    let mut by_path = BTreeMap::new();
    for change in changes {
        let known = manifest.get(&change.path);
        if !upper::is_known(known, change.before.as_ref())
            || (change.before.is_none() && change.after.is_none())
        {
            return Err(Trouble::Unfit(format!(
                "the change of `{}` does not belong to this session's manifest; list the changes \
                 again",
                name::shorten(&change.path)
            )));
        }
        if by_path.insert(name::parse(&change.path)?, change).is_some() {
            let path = name::shorten(&change.path);
            return Err(Trouble::Unfit(format!(
                "the change of `{path}` is named twice"
            )));
        }
    }
    let mut plan = Plan {
        due: Vec::new(),
        already: Vec::new(),
    };
    let mut moved = Vec::new();
    for (path, change) in &by_path {
        let shown = upper::look_in(tree, path, change.before.as_ref(), kind == TreeKind::Upper)
            .at("cannot read", &change.path)?;
        let gone = shown == Found::Behind && change.after.is_none();
        if !shown.is(change.after.as_ref()) && !gone {
            return Err(Trouble::Hostile(format!(
                "`{}` in the session's tree is not what was shown; nothing was applied; list the \
                 changes again",
                name::shorten(&change.path)
            )));
        }
        let found = look(workspace, path, Tree::Live, None).at("cannot read", &change.path)?;
        let found = if found == Found::Behind && turns(path, &by_path) {
            Found::Nothing
        } else {
            found
        };
        let begun = past.begun.contains(&change.path);
        let removed = begun && found == Found::Nothing && gives_way(change);
        let made = begun
            && is_folder(change.after.as_ref())
            && matches!(&found, Found::Node(node) if is_folder(Some(node)));
        if found.is(change.after.as_ref()) {
            plan.already.push(change);
        } else if found.is(change.before.as_ref()) || removed || made {
            let clear = removed || change.before.is_none();
            plan.due.push(Due {
                path: path.clone(),
                change,
                clear,
                made,
            });
        } else {
            moved.push(format!("`{}`", name::shorten(&change.path)));
        }
    }
    for due in &plan.due {
        if let Some(stranger) = stranger(workspace, due, &by_path)? {
            moved.push(format!("`{}`", name::shorten(&name::escape(&stranger))));
        }
    }
    if !moved.is_empty() {
        let more = moved.len().saturating_sub(NAMED);
        let rest = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        moved.truncate(NAMED);
        return Err(Trouble::Moved(format!(
            "the workspace moved on since the session started, at {}{rest}; nothing was applied; \
             take the other changes without these, or write a patch and merge it",
            moved.join(", ")
        )));
    }
    room(workspace, &plan.due)?;
    doors(workspace, &plan.due, &by_path)?;
    Ok(plan)
}

fn is_folder(node: Option<&Node>) -> bool {
    node.is_some_and(|node| node.kind == NodeKind::Folder)
}

/// Whether the old node must be gone before the new one can come.
pub(crate) fn gives_way(change: &Change) -> bool {
    match (&change.before, &change.after) {
        (Some(_), None) => true,
        (Some(_), Some(_)) => is_folder(change.before.as_ref()) != is_folder(change.after.as_ref()),
        (None, _) => false,
    }
}

/// The folders above a path, the innermost first, without the root.
pub(crate) fn ancestors(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(name::split(path).0), |path| Some(name::split(path).0))
        .take_while(|path| !path.is_empty())
}

/// Whether something above `path` turns from a folder into a file or link, or the other way round,
/// by this very set of changes: then nothing at `path` is what is expected on one of the two sides.
fn turns(path: &[u8], changes: &BTreeMap<Vec<u8>, &Change>) -> bool {
    let is_folder = |node: &Option<Node>| node.as_ref().map(|n| n.kind == NodeKind::Folder);
    ancestors(path)
        .filter_map(|above| changes.get(above))
        .any(|change| {
            matches!(
                (is_folder(&change.before), is_folder(&change.after)),
                (Some(true), Some(false)) | (Some(false), Some(true))
            )
        })
}

/// What in a folder that must make place for a file is not part of the changes.
fn stranger(
    workspace: &OwnedFd,
    due: &Due<'_>,
    changes: &BTreeMap<Vec<u8>, &Change>,
) -> Result<Option<Vec<u8>>, Trouble> {
    let is_folder = |node: &Node| node.kind == NodeKind::Folder;
    let gives_way = due.change.before.as_ref().is_some_and(is_folder)
        && due
            .change
            .after
            .as_ref()
            .is_some_and(|node| !is_folder(node));
    if !gives_way || due.clear {
        return Ok(None);
    }
    let mut folders = vec![due.path.clone()];
    while let Some(path) = folders.pop() {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let folder = match place::open_beneath(workspace, &path, flags) {
            Ok(folder) => folder,
            // An earlier apply has removed it.
            Err(Errno::ENOENT) => continue,
            Err(errno) => return Err(errno).at("cannot open", &name::escape(&path)),
        };
        let names = place::names(&folder, bounds::LIST_ENTRIES)
            .at("cannot list", &name::escape(&path))?
            .unwrap_or_default();
        for entry in names {
            let below = [path.as_slice(), b"/", entry.to_bytes()].concat();
            match changes.get(&below) {
                Some(change) if change.after.is_none() => {
                    if change.before.as_ref().is_some_and(is_folder) {
                        folders.push(below);
                    }
                }
                _ => return Ok(Some(below)),
            }
        }
    }
    Ok(None)
}

/// Refuses what the disk cannot hold, as a disk that fills up in the middle leaves half a change.
fn room(workspace: &OwnedFd, due: &[Due<'_>]) -> Result<(), Trouble> {
    let needed = due
        .iter()
        .filter_map(|due| due.change.after.as_ref())
        .fold(0_u64, |sum, node| sum.saturating_add(node.size));
    let disk = fstatvfs(workspace.as_fd()).at("cannot measure the disk of", "the workspace")?;
    let free = disk.blocks_available().saturating_mul(disk.fragment_size());
    if needed > free {
        return Err(Trouble::Limit(format!(
            "the changes need {}, the workspace's disk has {}; nothing was applied; make room first",
            weigh::size(needed),
            weigh::size(free)
        )));
    }
    Ok(())
}

/// Refuses a folder that may not be written, unless the changes themselves make or open it.
fn doors(
    workspace: &OwnedFd,
    due: &[Due<'_>],
    changes: &BTreeMap<Vec<u8>, &Change>,
) -> Result<(), Trouble> {
    let mut last: Option<Vec<u8>> = None;
    for due in due {
        let folder = name::split(&due.path).0;
        if last.as_deref() == Some(folder) || changes.contains_key(folder) {
            continue;
        }
        last = Some(folder.to_vec());
        let Ok(handle) = place::open_beneath(workspace, folder, OFlag::O_RDONLY) else {
            continue;
        };
        let access = AccessFlags::W_OK | AccessFlags::X_OK;
        let answer = faccessat(&handle, c".", access, AtFlags::AT_EACCESS);
        if let Err(errno @ (Errno::EACCES | Errno::EROFS | Errno::EPERM)) = answer {
            let place = name::escape(folder);
            let place = if place.is_empty() {
                "the workspace".to_owned()
            } else {
                place
            };
            return Err(errno).at("nothing was applied: cannot write in", &place);
        }
    }
    Ok(())
}
