//! Changes a file by exchange: a temporary file beside it is written and synced, then takes its
//! place in one step. What came out is hashed: it *is* the pre-image, with no window between check
//! and effect. If it is not what was expected, the two are exchanged back.
//!
//! Nothing is ever written *through* a name: a link, a FIFO or a folder in the file's place is
//! refused, and of a file with several names (hard links) only this name gets the new content.

use std::{
    fs::File,
    io::Write as _,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    time::Instant,
};

use protocol::{
    Digest, Entry, Failure, FailureClass, Put, PutDone, Resolved, bounds, jail::PUT_TEMP,
};
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags},
    io::Errno,
};

use crate::{
    beneath,
    preimage::PreImage,
    resolve::{content, identity, regular},
};

/// How the names begin under which the only copy of something is kept.
const KEPT: &str = ".provost-kept-";

/// What came of a put.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Done, there was no pre-image.
    Done(PutDone),
    /// In place; done when the pre-image is through the pipe.
    Pending(Box<PreImage>),
}

/// A temporary file beside its target; removed when dropped unless it was handed on.
#[derive(Debug)]
pub(crate) struct Temp {
    /// The folder of both, held.
    folder: OwnedFd,
    /// The target's name.
    name: String,
    /// The temporary name.
    temp: String,
    /// Identity of the file that we wrote.
    ours: (u64, u64),
    /// Whether the temporary name is still to be removed.
    armed: bool,
}

/// Carries out a put. `busy` are the temporary names of puts that still wait.
///
/// # Errors
/// [`Failure`]: nothing was changed, unless its class is [`FailureClass::Unknown`].
pub(crate) fn put(
    root: BorrowedFd<'_>,
    order: &Put,
    pipe: OwnedFd,
    busy: &[&str],
) -> Result<Outcome, Failure> {
    let (names, last) = beneath::parts(&order.path)?;
    if order.content.len() > bounds::FILE_CONTENT {
        return Err(limit(
            &order.path,
            "the content is larger than one call may write",
        ));
    }
    if last.starts_with(PUT_TEMP) {
        return Err(Failure {
            class: FailureClass::Denied,
            message: format!(
                "`{}`: names that begin so are those of files on their way",
                order.path
            ),
        });
    }
    let mut made = Vec::new();
    let result = (|| {
        let folder = open_parents(root, &names, order.make_parents, &mut made)
            .map_err(|errno| beneath::failure(errno, &order.path))?;
        sweep(folder.as_fd(), busy);
        place(folder, last, order, pipe)
    })();
    if result.is_err() {
        // Nothing was changed: also no empty folder stays.
        for (parent, name) in made.iter().rev() {
            let _ = rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
        }
    }
    result
}

/// Opens the folder of the target; makes what is missing, one by one, each in its held parent.
fn open_parents(
    root: BorrowedFd<'_>,
    names: &[&str],
    make: bool,
    made: &mut Vec<(OwnedFd, String)>,
) -> Result<OwnedFd, Errno> {
    match beneath::folder(root, names) {
        Err(Errno::NOENT) if make => {}
        other => return other,
    }
    // The longest part that is there, links followed beneath the root; from then on no link.
    let mut held = beneath::folder(root, &[])?;
    let mut there = 0;
    for count in 1..names.len() {
        match beneath::folder(root, names.get(..count).unwrap_or_default()) {
            Ok(folder) => (held, there) = (folder, count),
            Err(Errno::NOENT) => break,
            Err(errno) => return Err(errno),
        }
    }
    for &name in names.get(there..).unwrap_or_default() {
        let mode = Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH;
        let new = match rustix::fs::mkdirat(&held, name, mode) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno),
        };
        let next = beneath::entry(held.as_fd(), name, OFlags::PATH | OFlags::DIRECTORY);
        let parent = match next {
            Ok(next) => std::mem::replace(&mut held, next),
            Err(errno) => return Err(errno),
        };
        if new {
            made.push((parent, name.to_owned()));
        }
    }
    Ok(held)
}

/// Writes the temporary file and lets it take its place.
fn place(folder: OwnedFd, name: &str, order: &Put, pipe: OwnedFd) -> Result<Outcome, Failure> {
    let path = &order.path;
    let fail = |errno| beneath::failure(errno, path);
    let mode = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
            if order.expected.is_none() {
                return Err(changed(path, "a file is there that was not expected"));
            }
            if u64::try_from(stat.st_size).unwrap_or(u64::MAX) > bounds::FILE_READ {
                return Err(limit(
                    path,
                    "the file there is larger than what can be kept for undo",
                ));
            }
            // Permission bits only: setuid, setgid and sticky never survive new content.
            Mode::from_raw_mode(stat.st_mode & 0o777)
        }
        Ok(_) => return Err(wrong_kind(path)),
        Err(Errno::NOENT) if order.expected.is_some() => {
            return Err(changed(path, "the file is gone"));
        }
        Err(Errno::NOENT) => Mode::from_raw_mode(0o644),
        Err(errno) => return Err(fail(errno)),
    };
    let temp = Temp::write(folder, name, order.content.as_bytes(), mode).map_err(fail)?;
    let digest = Digest::of(order.content.as_bytes());
    match &order.expected {
        None => {
            temp.move_in().map_err(|errno| match errno {
                Errno::EXIST => changed(path, "a file is there that was not expected"),
                other => fail(other),
            })?;
            Ok(Outcome::Done(PutDone {
                created: true,
                digest,
                before: None,
            }))
        }
        Some(expected) => {
            temp.exchange().map_err(|errno| match errno {
                Errno::NOENT => changed(path, "the file is gone"),
                other => fail(other),
            })?;
            match temp.came_out(path) {
                Ok(bytes) if Digest::of(&bytes) == *expected => {
                    let before = Some((expected.clone(), bytes.len() as u64));
                    let done = PutDone {
                        created: false,
                        digest,
                        before,
                    };
                    let deadline = Instant::now() + bounds::ORDER_TIME;
                    let image = PreImage::new(order, temp, bytes, pipe, done, deadline);
                    Ok(Outcome::Pending(Box::new(image)))
                }
                Ok(_) => {
                    Err(temp.take_back(path, changed(path, "its content is not what was read")))
                }
                Err(failure) => Err(temp.take_back(path, failure)),
            }
        }
    }
}

impl Temp {
    fn write(folder: OwnedFd, name: &str, bytes: &[u8], mode: Mode) -> Result<Self, Errno> {
        let mut random = [0_u8; 8];
        getrandom::fill(&mut random).map_err(|_| Errno::IO)?;
        let temp = format!("{PUT_TEMP}{:016x}", u64::from_ne_bytes(random));
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(&folder, &temp, flags, Mode::RUSR | Mode::WUSR)?;
        let mut this = Self {
            folder,
            name: name.to_owned(),
            temp,
            ours: (0, 0),
            armed: true,
        };
        this.ours = identity(&rustix::fs::fstat(&handle)?);
        let mut file = File::from(handle);
        let io = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        file.write_all(bytes).map_err(io)?;
        rustix::fs::fchmod(&file, mode)?;
        rustix::fs::fsync(&file)?;
        Ok(this)
    }

    /// The temporary name.
    pub(crate) fn temporary(&self) -> &str {
        &self.temp
    }

    /// Takes the place of nothing.
    fn move_in(mut self) -> Result<(), Errno> {
        let flags = RenameFlags::NOREPLACE;
        rustix::fs::renameat_with(&self.folder, &self.temp, &self.folder, &self.name, flags)?;
        self.armed = false;
        Ok(())
    }

    /// Changes places with what is there.
    fn exchange(&self) -> Result<(), Errno> {
        let flags = RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(&self.folder, &self.temp, &self.folder, &self.name, flags)
    }

    /// What came out: the content of a regular file.
    fn came_out(&self, path: &str) -> Result<Vec<u8>, Failure> {
        match regular(self.folder.as_fd(), &self.temp).and_then(content) {
            Ok(bytes) => Ok(bytes),
            // A FIFO or a device, a socket, a link.
            Err(Errno::INVAL | Errno::NXIO | Errno::LOOP | Errno::NODEV) => Err(wrong_kind(path)),
            Err(Errno::FBIG) => Err(limit(
                path,
                "the file there is larger than what can be kept for undo",
            )),
            Err(errno) => Err(beneath::failure(errno, path)),
        }
    }

    /// Exchanges back; gives `why`, or says that the outcome is not known.
    pub(crate) fn take_back(mut self, path: &str, why: Failure) -> Failure {
        match self.exchange() {
            Ok(()) => {
                let now = rustix::fs::statat(&self.folder, &self.temp, AtFlags::SYMLINK_NOFOLLOW);
                if now.is_ok_and(|stat| identity(&stat) == self.ours) {
                    // Ours again, under the temporary name: the drop removes it.
                    return why;
                }
                // Somebody has put a third file in the place meanwhile: it goes home.
                let _ = self.exchange();
            }
            // Somebody has removed the new file: the old one goes home.
            Err(Errno::NOENT) => {
                let flags = RenameFlags::NOREPLACE;
                let (folder, temp, name) = (&self.folder, &self.temp, &self.name);
                if rustix::fs::renameat_with(folder, temp, folder, name, flags).is_ok() {
                    self.armed = false;
                    return why;
                }
            }
            Err(_) => {}
        }
        // What lies under the temporary name may be the only copy: it stays, under a name that no
        // later put sweeps away.
        self.armed = false;
        let kept = self.temp.replacen(PUT_TEMP, KEPT, 1);
        let flags = RenameFlags::NOREPLACE;
        let renamed =
            rustix::fs::renameat_with(&self.folder, &self.temp, &self.folder, &kept, flags);
        let lies = if renamed.is_ok() { &kept } else { &self.temp };
        Failure {
            class: FailureClass::Unknown,
            message: format!(
                "`{path}`: others changed it at the same time; what was there lies beside it as `{lies}`"
            ),
        }
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if self.armed {
            let _ = rustix::fs::unlinkat(&self.folder, &self.temp, AtFlags::empty());
        }
    }
}

/// Removes what a killed put left in this folder; bounded, and silent: it explains nothing.
fn sweep(folder: BorrowedFd<'_>, busy: &[&str]) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(handle) = rustix::fs::openat(folder, ".", flags, Mode::empty()) else {
        return;
    };
    let Ok(entries) = Dir::read_from(handle) else {
        return;
    };
    for entry in entries.take(bounds::SWEEP).flatten() {
        let Ok(name) = entry.file_name().to_str() else {
            continue;
        };
        let Some(rest) = name.strip_prefix(PUT_TEMP) else {
            continue;
        };
        let ours = rest.len() == 16 && rest.bytes().all(|b| b.is_ascii_hexdigit());
        if ours && !busy.contains(&name) {
            let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
        }
    }
}

/// Reads a file that a put will change, for the supervisor to keep before it orders the put.
///
/// # Errors
/// [`Failure`] with the words that the put itself would have.
pub(crate) fn read(
    root: BorrowedFd<'_>,
    order: u64,
    path: &str,
    pipe: OwnedFd,
) -> Result<PreImage, Failure> {
    let (names, last) = beneath::parts(path)?;
    let fail = |errno| match errno {
        Errno::NOENT => changed(path, "the file is gone"),
        other => beneath::failure(other, path),
    };
    let folder = beneath::folder(root, &names).map_err(fail)?;
    let stat = rustix::fs::statat(&folder, last, AtFlags::SYMLINK_NOFOLLOW).map_err(fail)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(wrong_kind(path));
    }
    let file = regular(folder.as_fd(), last).map_err(fail)?;
    let bytes = content(file).map_err(|errno| match errno {
        Errno::FBIG => limit(
            path,
            "the file there is larger than what can be kept for undo",
        ),
        other => fail(other),
    })?;
    let found = Resolved::File(Entry {
        device: stat.st_dev,
        inode: stat.st_ino,
        size: bytes.len() as u64,
        mode: stat.st_mode & 0o7777,
        links: stat.st_nlink,
        digest: Some(Digest::of(&bytes)),
    });
    let deadline = Instant::now() + bounds::ORDER_TIME;
    Ok(PreImage::read(order, path, bytes, pipe, found, deadline))
}

fn changed(path: &str, what: &str) -> Failure {
    let message = format!("`{path}`: {what}: read it again before writing");
    Failure {
        class: FailureClass::Changed,
        message,
    }
}

fn limit(path: &str, what: &str) -> Failure {
    Failure {
        class: FailureClass::Limit,
        message: format!("`{path}`: {what}"),
    }
}

fn wrong_kind(path: &str) -> Failure {
    let what = "a folder, a link, a FIFO, a socket or a device is there, which tools do not write";
    Failure {
        class: FailureClass::WrongKind,
        message: format!("`{path}`: {what}"),
    }
}
