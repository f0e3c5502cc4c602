//! The layer of a dead overlay: what it holds is changed, what it marks is gone, everything else is as
//! in the workspace. The marks are the kernel's own: the layer lay outside every view, and what a
//! session writes under their names is stored under others.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use protocol::reader::{ManifestEntry, Node, NodeKind};

use crate::failure::Trouble;
use crate::manifest;
use crate::name;
use crate::place::{self, Kind, Status};
use crate::plan::{self, Found};
use crate::walk::Tree;

/// The mark of a folder that hides what lies below it.
const OPAQUE: &str = "user.overlay.opaque";

/// Whether a folder of the layer hides what lies below it.
pub(crate) fn is_opaque(folder: &OwnedFd) -> std::io::Result<bool> {
    let mut value = [0_u8; 8];
    match rustix::fs::fgetxattr(folder, OPAQUE, &mut value) {
        Ok(length) => Ok(value.get(..length) == Some(&b"y"[..])),
        Err(rustix::io::Errno::NODATA | rustix::io::Errno::RANGE) => Ok(false),
        // A file system without such marks holds no layer.
        Err(rustix::io::Errno::OPNOTSUPP) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// What an entry of the manifest was: as it lies in the workspace now, if the workspace still has the
/// very same; without a digest if it moved on.
pub(crate) fn was(lower: &OwnedFd, path: &str, entry: &ManifestEntry) -> Result<Node, Trouble> {
    let known = manifest::node(entry);
    if entry.kind == NodeKind::Folder || known.digest.is_some() {
        return Ok(known);
    }
    let raw = name::parse(path)?;
    // Whatever stands in the way means that it moved on; `apply` looks again and says so.
    let digest = read(lower, &raw, entry).unwrap_or(None);
    Ok(Node { digest, ..known })
}

fn read(
    lower: &OwnedFd,
    path: &[u8],
    entry: &ManifestEntry,
) -> std::io::Result<Option<protocol::Digest>> {
    let (folder, last) = place::open_parent(lower, path)?;
    let found = place::status_at(&folder, &last)?;
    if !is_same(&found, entry) {
        return Ok(None);
    }
    if entry.kind == NodeKind::Symlink {
        let target = place::target(&folder, &last)?;
        return Ok(Some(protocol::Digest::of(target.as_bytes())));
    }
    let Some((file, status)) = place::open_file(&folder, &last)? else {
        return Ok(None);
    };
    if !is_same(&status, entry) {
        return Ok(None);
    }
    let file = std::fs::File::from(file);
    let (digest, size) = protocol::Digest::of_reader(&mut &file)?;
    // Written while it was read: the digest is of neither state.
    let after = place::status(&file)?;
    Ok((is_same(&after, entry) && size == entry.size).then_some(digest))
}

fn is_same(status: &Status, entry: &ManifestEntry) -> bool {
    let kind = match status.kind {
        Kind::File => NodeKind::File,
        Kind::Folder => NodeKind::Folder,
        Kind::Symlink => NodeKind::Symlink,
        Kind::Whiteout | Kind::Special(_) => return false,
    };
    kind == entry.kind
        && status.identity == entry.identity
        && status.size == entry.size
        && status.ctime_ns == entry.ctime_ns
}

/// What lies at a path of the layer. Nothing only if the layer itself says that it is gone: what is
/// as in the workspace is nobody's change.
pub(crate) fn look(root: &OwnedFd, path: &[u8], before: Option<&Node>) -> std::io::Result<Found> {
    let found = match place::open_parent(root, path) {
        Ok((folder, name)) => match place::status_at(&folder, &name) {
            Ok(status) if status.kind == Kind::Whiteout => return Ok(Found::Nothing),
            _ => plan::look_at(&folder, &name, Tree::Sealed, before)?,
        },
        Err(Errno::ENOENT) => Found::Nothing,
        Err(Errno::ENOTDIR | Errno::ELOOP | Errno::EXDEV) => return Ok(Found::Behind),
        Err(errno) => return Err(errno.into()),
    };
    if found == Found::Nothing && before.is_some() && !is_hidden_from_below(root, path)? {
        return Ok(Found::Untouched);
    }
    Ok(found)
}

/// Whether a folder above the path hides what lies below it.
fn is_hidden_from_below(root: &OwnedFd, path: &[u8]) -> std::io::Result<bool> {
    for folder in plan::ancestors(path) {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        match place::open_beneath(root, folder, flags) {
            Ok(folder) if is_opaque(&folder)? => return Ok(true),
            Ok(_) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(false)
}

/// Whether a change's old state is what the manifest has, as far as the manifest knows it.
pub(crate) fn is_known(entry: Option<&ManifestEntry>, before: Option<&Node>) -> bool {
    let known = entry.map(manifest::node);
    match (known, before) {
        (Some(known), Some(before)) if known.digest.is_none() => {
            let digest = before.digest.clone();
            Node { digest, ..known } == *before
        }
        (known, before) => known.as_ref() == before,
    }
}

/// The tree whose files a change's new side is read from, and how it is looked at.
pub(crate) fn look_in(
    root: &OwnedFd,
    path: &[u8],
    change_before: Option<&Node>,
    is_upper: bool,
) -> std::io::Result<Found> {
    if is_upper {
        look(root, path, change_before)
    } else {
        plan::look(root, path, Tree::Sealed, change_before)
    }
}
