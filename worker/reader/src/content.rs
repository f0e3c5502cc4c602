//! Reads one node's content whole and proves it by digest: what is shown is what was meant.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use nix::errno::Errno;
use protocol::Digest;
use protocol::reader::{Node, NodeKind};

use crate::place;
use crate::walk::Tree;

/// The content of a file or the target of a link, below `root`, if it is still the one named by
/// `node` and no longer than `most`. `None` if it is anything else.
pub(crate) fn read(
    root: impl AsFd,
    tree: Tree,
    path: &[u8],
    node: &Node,
    most: u64,
) -> std::io::Result<Option<Vec<u8>>> {
    let (folder, name) = match place::open_parent(root, path) {
        Ok(found) => found,
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EXDEV) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let content = match node.kind {
        NodeKind::Folder => return Ok(None),
        NodeKind::Symlink => match place::target(&folder, &name) {
            Ok(target) => target.into_vec(),
            Err(Errno::ENOENT | Errno::EINVAL) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        },
        NodeKind::File => match tree.open_file(&folder, &name) {
            Ok(Some((file, status))) if status.size <= most => whole(file, most)?,
            Ok(_) | Err(Errno::ENOENT | Errno::ELOOP) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        },
    };
    Ok((node.digest.as_ref() == Some(&Digest::of(&content))).then_some(content))
}

fn whole(file: OwnedFd, most: u64) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::from(file)
        .take(most.saturating_add(1))
        .read_to_end(&mut content)?;
    Ok(content)
}
