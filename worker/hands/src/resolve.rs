//! Tells what a path is: an explanation for the record and for people, never an authority.

use std::{
    fs::File,
    io::Read as _,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use protocol::{Digest, Entry, EntryKind, Failure, FailureClass, Resolved, bounds};
use rustix::{
    fs::{FileType, OFlags, Stat},
    io::Errno,
};

use crate::beneath;

/// Resolves `path` beneath `root`.
///
/// # Errors
/// [`Failure`] when it leaves the workspace, cannot be read, or changed meanwhile.
pub(crate) fn resolve(root: BorrowedFd<'_>, path: &str) -> Result<Resolved, Failure> {
    if path.is_empty() {
        return Ok(Resolved::Other(EntryKind::Folder));
    }
    let (names, last) = beneath::parts(path)?;
    let fail = |errno| beneath::failure(errno, path);
    let folder = match beneath::folder(root, &names) {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(Resolved::Absent),
        Err(errno) => return Err(fail(errno)),
    };
    // A handle on the path itself opens nothing: no FIFO waits, no device wakes.
    let handle = match beneath::entry(folder.as_fd(), last, OFlags::PATH) {
        Ok(handle) => handle,
        Err(Errno::NOENT) => return Ok(Resolved::Absent),
        Err(errno) => return Err(fail(errno)),
    };
    let stat = rustix::fs::fstat(&handle).map_err(fail)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Ok(Resolved::Other(EntryKind::Folder)),
        FileType::Symlink => return Ok(Resolved::Other(EntryKind::Symlink)),
        _ => return Ok(Resolved::Other(EntryKind::Special)),
    }
    let changed = || Failure {
        class: FailureClass::Changed,
        message: format!("`{path}`: it was replaced while it was resolved: resolve it again"),
    };
    let file = regular(folder.as_fd(), last).map_err(|_| changed())?;
    let opened = rustix::fs::fstat(&file).map_err(fail)?;
    if identity(&opened) != identity(&stat) {
        return Err(changed());
    }
    let digest = match content(file) {
        Ok(bytes) => Some(Digest::of(&bytes)),
        Err(Errno::FBIG) => None,
        Err(errno) => return Err(fail(errno)),
    };
    Ok(Resolved::File(Entry {
        device: opened.st_dev,
        inode: opened.st_ino,
        size: u64::try_from(opened.st_size).unwrap_or_default(),
        mode: opened.st_mode & 0o7777,
        links: opened.st_nlink,
        digest,
    }))
}

/// Opens a regular file for reading, without waiting for anything.
pub(crate) fn regular(folder: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let file = beneath::entry(
        folder,
        name,
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
    )?;
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        Ok(file)
    } else {
        Err(Errno::INVAL)
    }
}

/// The whole content, at most [`bounds::FILE_READ`]; `FBIG` beyond.
pub(crate) fn content(file: OwnedFd) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    let mut limited = File::from(file).take(bounds::FILE_READ + 1);
    limited
        .read_to_end(&mut bytes)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if bytes.len() as u64 > bounds::FILE_READ {
        Err(Errno::FBIG)
    } else {
        Ok(bytes)
    }
}

/// Device and inode.
pub(crate) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}
