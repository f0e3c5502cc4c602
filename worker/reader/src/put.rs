//! Puts one file or link in place by exchange, and looks at what came out: it is the old content, or
//! it goes back.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, RenameFlags, openat, renameat, renameat2};
use nix::sys::stat::{Mode, fchmod, mkdirat};
use nix::unistd::{
    Gid, LinkatFlags, Uid, UnlinkatFlags, fchown, fchownat, fsync, geteuid, linkat, symlinkat,
    unlinkat,
};
use protocol::Digest;
use protocol::reader::{Node, NodeKind};

use crate::apply::moved;
use crate::failure::{At, Trouble, is_swap};
use crate::journal::{Deed, Journal};
use crate::name;
use crate::place::{self, Status};
use crate::plan::{self, Due, Found};
use crate::walk::Tree;

/// The one failure after which the temporary name holds what was in the workspace.
const PUT_BACK: &str = "cannot put back what lies beside it under a temporary name,";

/// What a temporary name gets at its end when it is the second name of the old content.
pub(crate) const ASIDE: &str = "-old";

/// How many temporary names are tried.
const TRIES: u32 = 64;

/// How a file changes place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Means {
    /// The kernel exchanges two names in one step.
    Exchange,
    /// The file system refuses that: the old one is linked aside and renamed over.
    Aside,
}

/// The hand that changes the workspace.
pub(crate) struct Put<'a> {
    pub(crate) tree: &'a OwnedFd,
    pub(crate) workspace: &'a OwnedFd,
    pub(crate) journal: &'a mut Journal,
    pub(crate) means: Means,
    pub(crate) serial: u32,
    /// Folders whose entries changed: made durable at the end.
    pub(crate) touched: BTreeSet<Vec<u8>>,
}

impl Put<'_> {
    /// Opens the folder of `path`, making what of it is missing.
    pub(crate) fn parent(&self, path: &[u8], shown: &str) -> Result<OwnedFd, Trouble> {
        let folder = name::split(path).0;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let slashes = folder
            .iter()
            .enumerate()
            .filter(|(_, b)| **b == b'/')
            .map(|(at, _)| at);
        let mut handle = place::open_beneath(self.workspace, folder, flags);
        if matches!(handle, Err(Errno::ENOENT)) {
            for end in slashes.chain([folder.len()]) {
                let part = folder.get(..end).unwrap_or(folder);
                handle = place::open_beneath(self.workspace, part, flags);
                if matches!(handle, Err(Errno::ENOENT)) {
                    let (above, last) = name::split(part);
                    handle = place::open_beneath(self.workspace, above, flags)
                        .and_then(|above| mkdirat(&above, name::path(last), place::mode(0o755)))
                        .and_then(|()| self.adopted(part));
                }
            }
        }
        match handle {
            Ok(handle) => Ok(handle),
            Err(errno) if is_swap(errno) || errno == Errno::EEXIST => Err(moved(shown)),
            Err(errno) => Err(errno).at("cannot open the folder of", shown),
        }
    }

    /// Puts the new content of a file or link in place.
    pub(crate) fn put(&mut self, due: &Due<'_>) -> Result<(), Trouble> {
        let path = &due.change.path;
        let Some(after) = &due.change.after else {
            return Ok(());
        };
        let parent = self.parent(&due.path, path)?;
        let last = c_name(&due.path).at("cannot name", path)?;
        let old = due
            .change
            .before
            .as_ref()
            .filter(|node| !due.clear && node.kind != NodeKind::Folder);
        let temporary = self.announce(&parent, due)?;
        if let Err(trouble) = self.make(&parent, &temporary, due, after) {
            // Never under its own name, so it is nobody's but ours.
            let _ = unlinkat(&parent, temporary.as_c_str(), UnlinkatFlags::NoRemoveDir);
            return Err(trouble);
        }
        let deed = match old {
            Some(old) => self.exchange(&parent, &last, &temporary, old, path),
            None => self.place(&parent, &last, &temporary, path),
        };
        match deed {
            Ok(deed) => {
                self.touched.insert(name::split(&due.path).0.to_vec());
                self.journal.done(path, deed)
            }
            Err(trouble) => Err(self.leave(&parent, &temporary, after, path, trouble)),
        }
    }

    /// After a failure: removes the temporary name if it holds what we made, and only then.
    fn leave(
        &self,
        parent: &OwnedFd,
        temporary: &CStr,
        after: &Node,
        path: &str,
        trouble: Trouble,
    ) -> Trouble {
        match plan::look_at(parent, temporary, Tree::Live, None) {
            Ok(Found::Nothing) => trouble,
            Ok(found) if found.is(Some(after)) => {
                let _ = unlinkat(parent, temporary, UnlinkatFlags::NoRemoveDir);
                trouble
            }
            // Somebody saved the file between our exchange and our putting it back.
            _ => Trouble::Moved(format!(
                "`{}` changed twice while it was applied; what was saved in between lies beside it \
                 as `{}`",
                name::shorten(path),
                temporary.to_string_lossy()
            )),
        }
    }

    /// Takes a file or link away, if it is still the one that the session started from.
    pub(crate) fn take_away(&mut self, due: &Due<'_>) -> Result<(), Trouble> {
        let path = &due.change.path;
        let parent = match place::open_parent(self.workspace, &due.path) {
            Ok((parent, _)) => parent,
            Err(errno) if is_swap(errno) => return Err(moved(path)),
            Err(errno) => return Err(errno).at("cannot open the folder of", path),
        };
        let last = c_name(&due.path).at("cannot name", path)?;
        let temporary = self.announce(&parent, due)?;
        match self.free(&parent, &last, &temporary) {
            Ok(()) => {}
            Err(errno) if is_swap(errno) => return Err(moved(path)),
            Err(errno) => return Err(errno).at("cannot take away", path),
        }
        let same = self.came_out(&parent, &temporary, due.change.before.as_ref(), path);
        if !matches!(same, Ok(true)) {
            self.free(&parent, &temporary, &last).at(PUT_BACK, path)?;
            same?;
            return Err(moved(path));
        }
        unlinkat(&parent, temporary.as_c_str(), UnlinkatFlags::NoRemoveDir)
            .at("cannot remove", path)?;
        self.touched.insert(name::split(&due.path).0.to_vec());
        self.journal.done(path, Deed::Removed)
    }

    /// Finds a free temporary name beside the path and writes it down before it is used.
    fn announce(&mut self, parent: &OwnedFd, due: &Due<'_>) -> Result<CString, Trouble> {
        let path = &due.change.path;
        for _ in 0..TRIES {
            self.serial = self.serial.wrapping_add(1);
            let name = format!(".provost-put-{}-{}", std::process::id(), self.serial);
            let name = CString::new(name)
                .map_err(io::Error::from)
                .at("cannot name", path)?;
            match place::status_at(parent, &name) {
                Err(Errno::ENOENT) => {}
                Ok(_) => continue,
                Err(errno) => return Err(errno).at("cannot read the folder of", path),
            }
            let folder = name::split(&due.path).0;
            let whole = if folder.is_empty() {
                name.to_bytes().to_vec()
            } else {
                [folder, b"/", name.to_bytes()].concat()
            };
            self.journal.begin(path, Some(name::escape(&whole)))?;
            return Ok(name);
        }
        Err(Errno::EEXIST).at("cannot find a free name beside", path)
    }

    /// Writes the new content under the temporary name and proves it by digest.
    fn make(
        &self,
        parent: &OwnedFd,
        temporary: &CStr,
        due: &Due<'_>,
        after: &Node,
    ) -> Result<(), Trouble> {
        let path = &due.change.path;
        let (folder, last) = place::open_parent(self.tree, &due.path)
            .at("cannot open in the session's tree", path)?;
        let changed = || {
            Trouble::Hostile(format!(
                "`{}` in the session's tree changed while it was applied; end every process of the \
                 session first",
                name::shorten(path)
            ))
        };
        if after.kind == NodeKind::Symlink {
            let target = place::target(&folder, &last).at("cannot read", path)?;
            if Some(Digest::of(target.as_bytes())) != after.digest {
                return Err(changed());
            }
            symlinkat(target.as_os_str(), parent, temporary).at("cannot write", path)?;
            let adopted = self.owner(parent, due).map_or(Ok(()), |(uid, gid)| {
                let flag = AtFlags::AT_SYMLINK_NOFOLLOW;
                fchownat(parent, temporary, Some(uid), Some(gid), flag)
            });
            return adopted.at("cannot give to the workspace's owner", path);
        }
        let Some((source, _)) = place::open_sealed_file(&folder, &last).at("cannot read", path)?
        else {
            return Err(changed());
        };
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = openat(parent, temporary, flags, Mode::S_IRUSR | Mode::S_IWUSR)
            .at("cannot write beside", path)?;
        let mut tee = Tee {
            from: File::from(source),
            to: File::from(file),
        };
        let (digest, size) = Digest::of_reader(&mut tee).at("cannot copy", path)?;
        if Some(&digest) != after.digest.as_ref() || size != after.size {
            return Err(changed());
        }
        if let Some((uid, gid)) = self.owner(parent, due) {
            fchown(&tee.to, Some(uid), Some(gid))
                .at("cannot give to the workspace's owner", path)?;
        }
        fchmod(&tee.to, place::mode(after.mode)).at("cannot set the mode of", path)?;
        fsync(&tee.to).at("cannot write out", path)
    }

    /// Exchanges the new file with the old one and proves what came out.
    fn exchange(
        &mut self,
        parent: &OwnedFd,
        last: &CStr,
        temporary: &CStr,
        old: &Node,
        path: &str,
    ) -> Result<Deed, Trouble> {
        if self.means == Means::Exchange {
            match swap(parent, temporary, last) {
                Ok(()) => {
                    let same = self.came_out(parent, temporary, Some(old), path);
                    if matches!(same, Ok(true)) {
                        unlinkat(parent, temporary, UnlinkatFlags::NoRemoveDir)
                            .at("cannot remove the old", path)?;
                        return Ok(Deed::Put);
                    }
                    swap(parent, temporary, last).at(PUT_BACK, path)?;
                    same?;
                    return Err(moved(path));
                }
                Err(errno) if is_refused(errno) => self.means = Means::Aside,
                Err(errno) if is_swap(errno) => return Err(moved(path)),
                Err(errno) => return Err(errno).at("cannot exchange", path),
            }
        }
        self.over(parent, last, temporary, old, path)
    }

    /// Where two names cannot be exchanged: the old one keeps a second name until the new one is in.
    fn over(
        &mut self,
        parent: &OwnedFd,
        last: &CStr,
        temporary: &CStr,
        old: &Node,
        path: &str,
    ) -> Result<Deed, Trouble> {
        let mut aside = temporary.to_bytes().to_vec();
        aside.extend_from_slice(ASIDE.as_bytes());
        let aside = CString::new(aside)
            .map_err(io::Error::from)
            .at("cannot name", path)?;
        match linkat(parent, last, parent, aside.as_c_str(), LinkatFlags::empty()) {
            Ok(()) => {}
            Err(errno) if is_swap(errno) || errno == Errno::EPERM => return Err(moved(path)),
            Err(errno) => return Err(errno).at("cannot link aside", path),
        }
        let same = self.came_out(parent, &aside, Some(old), path);
        let put = match same {
            Ok(true) => renameat(parent, temporary, parent, last).at("cannot rename over", path),
            Ok(false) => Err(moved(path)),
            Err(trouble) => Err(trouble),
        };
        unlinkat(parent, aside.as_c_str(), UnlinkatFlags::NoRemoveDir)
            .at("cannot remove the old", path)?;
        put.map(|()| Deed::PutAside)
    }

    /// Gives a new file its name, which must be free.
    fn place(
        &mut self,
        parent: &OwnedFd,
        last: &CStr,
        temporary: &CStr,
        path: &str,
    ) -> Result<Deed, Trouble> {
        match self.free(parent, temporary, last) {
            Ok(()) if self.means == Means::Exchange => Ok(Deed::Put),
            Ok(()) => Ok(Deed::PutAside),
            Err(errno) if is_swap(errno) || errno == Errno::EEXIST => Err(moved(path)),
            Err(errno) => Err(errno).at("cannot name", path),
        }
    }

    /// Renames to a name that must be free.
    fn free(&mut self, parent: &OwnedFd, from: &CStr, to: &CStr) -> nix::Result<()> {
        if self.means == Means::Exchange {
            match renameat2(parent, from, parent, to, RenameFlags::RENAME_NOREPLACE) {
                Err(errno) if is_refused(errno) => self.means = Means::Aside,
                other => return other,
            }
        }
        linkat(parent, from, parent, to, LinkatFlags::empty())?;
        unlinkat(parent, from, UnlinkatFlags::NoRemoveDir)
    }

    fn came_out(
        &self,
        parent: &OwnedFd,
        name: &CStr,
        old: Option<&Node>,
        path: &str,
    ) -> Result<bool, Trouble> {
        let found =
            plan::look_at(parent, name, Tree::Live, None).at("cannot read the old", path)?;
        Ok(found.is(old))
    }

    /// Who a new node shall belong to, when we are root: the owner of what it replaces, else of the
    /// folder. An account's own files are its own already.
    fn owner(&self, parent: &OwnedFd, due: &Due<'_>) -> Option<(Uid, Gid)> {
        if !geteuid().is_root() {
            return None;
        }
        let replaced = c_name(&due.path)
            .ok()
            .and_then(|last| place::status_at(parent, &last).ok());
        let status: Status = replaced.or_else(|| place::status(parent).ok())?;
        Some((Uid::from_raw(status.owner.0), Gid::from_raw(status.owner.1)))
    }

    /// Opens a folder that was just made, given to the owner of the folder that holds it when we are
    /// root.
    pub(crate) fn adopted(&self, path: &[u8]) -> nix::Result<OwnedFd> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let folder = place::open_beneath(self.workspace, path, flags)?;
        if geteuid().is_root() {
            let (parent, _) = place::open_parent(self.workspace, path)?;
            let (uid, gid) = place::status(&parent)?.owner;
            fchown(&folder, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        Ok(folder)
    }

    /// Makes the changed folders' entries durable.
    pub(crate) fn settle(&self) -> Result<(), Trouble> {
        for path in &self.touched {
            match place::open_beneath(self.workspace, path, OFlag::O_RDONLY | OFlag::O_DIRECTORY) {
                Ok(folder) => fsync(&folder).at("cannot write out", &name::escape(path))?,
                // Gone or moved meanwhile: there is nothing to make durable.
                Err(errno) if is_swap(errno) => {}
                Err(errno) => return Err(errno).at("cannot write out", &name::escape(path)),
            }
        }
        Ok(())
    }
}

fn swap(parent: &OwnedFd, one: &CStr, other: &CStr) -> nix::Result<()> {
    renameat2(
        parent.as_fd(),
        one,
        parent.as_fd(),
        other,
        RenameFlags::RENAME_EXCHANGE,
    )
}

/// Whether the file system does not know the flag.
fn is_refused(errno: Errno) -> bool {
    matches!(errno, Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP)
}

fn c_name(path: &[u8]) -> io::Result<CString> {
    CString::new(name::split(path).1).map_err(io::Error::from)
}

/// Writes what it reads, so that what is hashed is what is written.
struct Tee {
    from: File,
    to: File,
}

impl io::Read for Tee {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(buffer)?;
        io::Write::write_all(&mut self.to, buffer.get(..n).unwrap_or_default())?;
        Ok(n)
    }
}
