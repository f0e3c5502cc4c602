//! Walks a tree without recursion and through held handles, so that no name is ever resolved twice
//! and no depth is too deep for the stack.

use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::vec::IntoIter;

use nix::errno::Errno;
use nix::sys::stat::fchmod;
use protocol::bounds;

use crate::failure::{At, Trouble, is_swap};
use crate::name;
use crate::place::{self, Kind, Status};

/// One entry while its folder is held open.
pub(crate) struct Spot<'a> {
    /// The folder that holds it.
    pub(crate) folder: &'a OwnedFd,
    /// Its name in that folder.
    pub(crate) name: &'a CStr,
    /// Its path from the root.
    pub(crate) path: &'a [u8],
}

/// What is done with the entries of a tree.
pub(crate) trait Visit {
    /// Whether the entry is looked at; asked before it is opened.
    fn wants(&mut self, path: &[u8], is_folder: bool) -> bool;
    /// A folder, before its entries; `status` comes from its handle. Says whether to go in.
    fn enter(
        &mut self,
        spot: &Spot<'_>,
        folder: &OwnedFd,
        status: &Status,
    ) -> Result<bool, Trouble>;
    /// The same folder, after its entries.
    fn leave(&mut self, status: &Status) -> Result<(), Trouble>;
    /// A file or a link.
    fn leaf(&mut self, spot: &Spot<'_>, status: &Status) -> Result<(), Trouble>;
    /// A mark that a name is gone; only an overlay's layer means it so.
    fn whiteout(&mut self, path: &[u8]) {
        self.skip(path, "device");
    }
    /// An entry that is left out, and why.
    fn skip(&mut self, path: &[u8], reason: &str);
    /// How many entries one folder may hold from here on.
    fn room(&self) -> u64;
    /// What is said when a folder holds more.
    fn full(&self, path: &[u8]) -> Trouble;
}

/// Whether anybody else can change the tree meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tree {
    /// A person's workspace: nothing in it is changed, anything in it may change.
    Live,
    /// A dead session's tree: only we can reach it; closed folders are opened and closed again.
    Sealed,
}

impl Tree {
    /// Opens the regular file `name` in `folder`; `None` if it is anything else.
    pub(crate) fn open_file(
        self,
        folder: &OwnedFd,
        name: &CStr,
    ) -> nix::Result<Option<(OwnedFd, Status)>> {
        match self {
            Self::Live => place::open_file(folder, name),
            Self::Sealed => place::open_sealed_file(folder, name),
        }
    }
}

struct Level {
    folder: OwnedFd,
    names: IntoIter<CString>,
    status: Status,
    path: usize,
    reopened: bool,
}

/// Walks everything below `root`, in the order of names.
pub(crate) fn walk(root: &OwnedFd, tree: Tree, visitor: &mut impl Visit) -> Result<(), Trouble> {
    let mut path = Vec::new();
    let top = root.try_clone().at("cannot hold", ".")?;
    let status = place::status(&top).at("cannot read", ".")?;
    let names = list(&top, &path, visitor)?;
    let mut levels = vec![Level {
        folder: top,
        names,
        status,
        path: 0,
        reopened: false,
    }];
    loop {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else {
            return Ok(());
        };
        path.truncate(level.path);
        let Some(entry) = level.names.next() else {
            let Some(done) = levels.pop() else {
                return Ok(());
            };
            if done.reopened {
                fchmod(&done.folder, place::mode(done.status.mode))
                    .at("cannot restore the mode of", &name::escape(&path))?;
            }
            if !levels.is_empty() {
                visitor.leave(&done.status)?;
            }
            continue;
        };
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(entry.to_bytes());
        if path.len() > name::LONGEST {
            visitor.skip(&path, "path too long");
            continue;
        }
        let spot = Spot {
            folder: &level.folder,
            name: &entry,
            path: &path,
        };
        if let Some(next) = step(&spot, tree, depth, visitor)? {
            levels.push(next);
        }
    }
}

fn step(
    spot: &Spot<'_>,
    tree: Tree,
    depth: usize,
    visitor: &mut impl Visit,
) -> Result<Option<Level>, Trouble> {
    let shown = || name::escape(spot.path);
    let status = match place::status_at(spot.folder, spot.name) {
        Ok(status) => status,
        // Removed since the folder was listed.
        Err(Errno::ENOENT) => return Ok(None),
        Err(Errno::EACCES) => {
            visitor.skip(spot.path, "permission denied");
            return Ok(None);
        }
        Err(errno) => return Err(errno).at("cannot read", &shown()),
    };
    if status.kind == Kind::Whiteout {
        visitor.whiteout(spot.path);
        return Ok(None);
    }
    if !visitor.wants(spot.path, status.kind == Kind::Folder) {
        return Ok(None);
    }
    match status.kind {
        Kind::Whiteout => visitor.whiteout(spot.path),
        Kind::Special(what) => visitor.skip(spot.path, what),
        Kind::File | Kind::Symlink => visitor.leaf(spot, &status)?,
        Kind::Folder if depth >= bounds::TREE_DEPTH => {
            visitor.skip(spot.path, "too many folders deep");
        }
        Kind::Folder => return descend(spot, tree, &status, visitor),
    }
    Ok(None)
}

fn descend(
    spot: &Spot<'_>,
    tree: Tree,
    seen: &Status,
    visitor: &mut impl Visit,
) -> Result<Option<Level>, Trouble> {
    let shown = || name::escape(spot.path);
    let reopened = tree == Tree::Sealed && seen.mode & 0o700 != 0o700;
    if reopened {
        place::set_mode(spot.folder, spot.name, seen.mode | 0o700).at("cannot open", &shown())?;
    }
    let folder = match place::open_folder(spot.folder, spot.name) {
        Ok(folder) => folder,
        Err(Errno::EACCES | Errno::EPERM) => {
            visitor.skip(spot.path, "permission denied");
            return Ok(None);
        }
        Err(errno) if tree == Tree::Live && is_swap(errno) => {
            visitor.skip(spot.path, "changed while it was opened");
            return Ok(None);
        }
        Err(errno) => return Err(errno).at("cannot open", &shown()),
    };
    let mut status = place::status(&folder).at("cannot read", &shown())?;
    if reopened {
        status.mode = seen.mode;
    }
    if !visitor.enter(spot, &folder, &status)? {
        return Ok(None);
    }
    let names = list(&folder, spot.path, visitor)?;
    Ok(Some(Level {
        folder,
        names,
        status,
        path: spot.path.len(),
        reopened,
    }))
}

fn list(
    folder: &OwnedFd,
    path: &[u8],
    visitor: &mut impl Visit,
) -> Result<IntoIter<CString>, Trouble> {
    match place::names(folder, visitor.room()) {
        Ok(Some(names)) => Ok(names.into_iter()),
        Ok(None) => Err(visitor.full(path)),
        Err(Errno::EACCES) => {
            visitor.skip(path, "permission denied");
            Ok(Vec::new().into_iter())
        }
        Err(errno) => Err(errno).at("cannot list", &name::escape(path)),
    }
}
