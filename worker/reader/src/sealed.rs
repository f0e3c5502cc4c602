//! Opens and removes what a dead session left, whatever lies in it.

use std::collections::hash_map::RandomState;
use std::ffi::CString;
use std::hash::{BuildHasher as _, Hasher as _};
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, RenameFlags, openat, renameat2};
use nix::sys::stat::{FchmodatFlags, Mode, fchmod, fchmodat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::failure::{At, Trouble};
use crate::name;
use crate::place::{self, Kind};

/// Names that are read at once, so that a folder of millions costs no more memory.
const BATCH: u64 = 10_000;

/// Levels below the root from which a folder is moved up to the root: each step costs Landlock a walk
/// over all levels above it, and a session's tree may be a hundred thousand deep.
const DEEP: usize = 128;

/// Opens the root of a sealed tree; a session may have closed its own root folder.
pub(crate) fn open_root(path: &str) -> Result<OwnedFd, Trouble> {
    match place::open_root(path) {
        Err(Trouble::Io { source, .. }) if source.raw_os_error() == Some(Errno::EACCES as i32) => {
            let mode = Mode::S_IRWXU;
            fchmodat(AT_FDCWD, path, mode, FchmodatFlags::FollowSymlink).at("cannot open", path)?;
            place::open_root(path)
        }
        other => other,
    }
}

struct Level {
    /// Name in its parent.
    name: CString,
    identity: (u64, u64),
    /// Folders in it that still hold something.
    pending: Vec<CString>,
}

/// Removes everything in `folder`, which stays.
///
/// One handle at a time: the way back up is the kernel's `..`, proven by identity, so that no depth
/// runs out of descriptors or of stack.
pub(crate) fn remove(folder: &str) -> Result<(), Trouble> {
    if folder.trim_end_matches('/').is_empty() {
        return Err(Trouble::Unfit(format!(
            "`{folder}` is not a session's folder"
        )));
    }
    let mut here = open_root(folder)?;
    let status = place::status(&here).at("cannot read", folder)?;
    if status.mode & 0o700 != 0o700 {
        fchmod(&here, Mode::S_IRWXU).at("cannot open", folder)?;
    }
    let identity = status.identity;
    let root = here.try_clone().at("cannot open", folder)?;
    // A name that the session could not take beforehand.
    let mut free = RandomState::new().build_hasher().finish();
    let mut levels = vec![Level {
        name: c"".to_owned(),
        identity,
        pending: Vec::new(),
    }];
    while let Some(level) = levels.last_mut() {
        if level.pending.is_empty() {
            level.pending = sweep(&here, folder)?;
        }
        if let Some(name) = level.pending.pop() {
            if levels.len() > DEEP
                && let Some(up) = lift(&here, &name, &root, &mut free)
                && let Some(top) = levels.first_mut()
            {
                top.pending.push(up);
                continue;
            }
            let (next, identity) = open_closed(&here, &name).at("cannot open in", folder)?;
            levels.push(Level {
                name,
                identity,
                pending: Vec::new(),
            });
            here = next;
            continue;
        }
        let Some(done) = levels.pop() else { break };
        let Some(above) = levels.last() else { break };
        let up = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        here = openat(&here, c"..", up, Mode::empty()).at("cannot go up in", folder)?;
        if place::status(&here).at("cannot read", folder)?.identity != above.identity {
            return Err(Trouble::Hostile(format!(
                "a folder below `{folder}` was moved while it was removed; end every process of \
                 the session first"
            )));
        }
        match unlinkat(&here, done.name.as_c_str(), UnlinkatFlags::RemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno).at("cannot remove", &shown(folder, &done.name)),
        }
    }
    Ok(())
}

/// Moves a folder up to the root under a name that is free; `None` leaves it where it is, and it is
/// emptied there.
fn lift(here: &OwnedFd, name: &CString, root: &OwnedFd, free: &mut u64) -> Option<CString> {
    *free = free.wrapping_add(1);
    // The kernel moves a folder only if its `..` can be written.
    open_closed(here, name).ok()?;
    let up = CString::new(format!(".provost-deep-{free:x}")).ok()?;
    let flags = RenameFlags::RENAME_NOREPLACE;
    renameat2(here, name.as_c_str(), root, up.as_c_str(), flags).ok()?;
    Some(up)
}

/// Removes what can go at once; answers the folders that must be emptied first. Nothing to answer
/// means that the folder is empty.
fn sweep(here: &OwnedFd, folder: &str) -> Result<Vec<CString>, Trouble> {
    loop {
        let (names, whole) = place::some_names(here, BATCH).at("cannot list", folder)?;
        let mut pending = Vec::new();
        for name in names {
            if !take_off(here, &name).at("cannot remove", &shown(folder, &name))? {
                pending.push(name);
            }
        }
        if !pending.is_empty() || whole {
            return Ok(pending);
        }
    }
}

/// Removes a node unless it is a folder that holds something.
fn take_off(here: &OwnedFd, name: &CString) -> nix::Result<bool> {
    match unlinkat(here, name.as_c_str(), UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => return Ok(true),
        Err(Errno::EISDIR | Errno::EPERM) => {}
        Err(errno) => return Err(errno),
    }
    match unlinkat(here, name.as_c_str(), UnlinkatFlags::RemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(true),
        // Not empty, or closed so that the kernel cannot tell.
        Err(Errno::ENOTEMPTY | Errno::EEXIST | Errno::EACCES) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Opens a folder for emptying: readable, searchable and writable for its owner.
fn open_closed(here: &OwnedFd, name: &CString) -> nix::Result<(OwnedFd, (u64, u64))> {
    let status = place::status_at(here, name)?;
    if status.kind == Kind::Folder && status.mode & 0o700 != 0o700 {
        place::set_mode(here, name, 0o700)?;
    }
    let next = place::open_folder(here, name)?;
    let status = place::status(&next)?;
    if status.mode & 0o700 != 0o700 {
        fchmod(&next, Mode::S_IRWXU)?;
    }
    Ok((next, status.identity))
}

fn shown(folder: &str, name: &CString) -> String {
    format!(
        "{folder}/…/{}",
        name::shorten(&name::escape(name.to_bytes()))
    )
}
