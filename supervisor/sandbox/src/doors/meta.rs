//! Mode, owner, times and attributes of files: carried out on a handle, if what it leads to lies in
//! a place of the session's own.
//!
//! Why no race leads out: the judged thing is a handle, not a name, and the call is carried out on
//! that very handle. What it names lies beneath a root at the time of the look; to have brought
//! something else there, or to take this away, the session needs rights on a place outside, which
//! Landlock gives it nowhere. Nor can it give a file from outside a second name inside.

use std::{
    ffi::CString,
    os::fd::{AsRawFd as _, OwnedFd},
    path::PathBuf,
};

use rustix::{
    fs::{AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_NOW, Uid, XattrFlags},
    io::Errno,
};

use super::target::Target;

/// Longest name of an attribute, with its end.
const NAME: usize = 256;
/// Largest value of an attribute.
const VALUE: u64 = 64 * 1024;
/// fchmodat2.
const FCHMODAT2: i64 = 452;

/// Carries one out.
pub(super) fn carry_out(target: &Target, roots: &[PathBuf]) -> Result<i64, Errno> {
    let deed = Deed::read(target)?;
    let file = deed.file(target)?;
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    let place = rustix::fs::readlink(&name, Vec::new())?;
    let place = PathBuf::from(
        <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(place.as_bytes()),
    );
    if !roots.iter().any(|root| place.starts_with(root)) {
        return Err(Errno::PERM);
    }
    deed.act(&file, &name)?;
    Ok(0)
}

/// How the file is named.
#[derive(Debug)]
enum Named {
    Descriptor(i32),
    Path {
        folder: i32,
        path: PathBuf,
        follow: bool,
    },
}

/// What is to be changed.
#[derive(Debug)]
enum Change {
    Mode(u32),
    Owner(u32, u32),
    Times(Timestamps),
    Set(CString, Vec<u8>, u32),
    Remove(CString),
}

#[derive(Debug)]
struct Deed {
    named: Named,
    change: Change,
}

impl Deed {
    /// Reads a call, each pointer once.
    fn read(target: &Target) -> Result<Self, Errno> {
        let path = |register: usize, folder: i32, follow: bool| -> Result<Named, Errno> {
            let path = target.path(register)?;
            Ok(Named::Path {
                folder,
                path,
                follow,
            })
        };
        // A folder, a path below it, and flags of which these two are known.
        let at = |flags: Option<usize>| -> Result<Named, Errno> {
            let flags = AtFlags::from_bits_retain(
                flags.map_or(0, |register| target.number(register).cast_unsigned()),
            );
            let known = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
            if !known.contains(flags) {
                return Err(Errno::INVAL);
            }
            let folder = target.number(0);
            match path(1, folder, !flags.contains(AtFlags::SYMLINK_NOFOLLOW))? {
                Named::Path { path, .. }
                    if path.as_os_str().is_empty() && flags.contains(AtFlags::EMPTY_PATH) =>
                {
                    Ok(if folder == libc::AT_FDCWD {
                        Named::Path {
                            folder,
                            path: ".".into(),
                            follow: true,
                        }
                    } else {
                        Named::Descriptor(folder)
                    })
                }
                named => Ok(named),
            }
        };
        let here = |follow| path(0, libc::AT_FDCWD, follow);
        let file = || Named::Descriptor(target.number(0));
        let mode = |register| Change::Mode(target.number(register).cast_unsigned());
        let owner = |register: usize| {
            let id = |register| target.number(register).cast_unsigned();
            Change::Owner(id(register), id(register + 1))
        };
        let name = |register: usize| target.text(target.register(register), NAME);
        let set = || -> Result<Change, Errno> {
            let size = target.register(3);
            if size > VALUE {
                return Err(Errno::TOOBIG);
            }
            let size = usize::try_from(size).map_err(|_| Errno::TOOBIG)?;
            let value = if size == 0 {
                Vec::new()
            } else {
                target.memory(target.register(2), size)?
            };
            Ok(Change::Set(
                name(1)?,
                value,
                target.number(4).cast_unsigned(),
            ))
        };
        let (named, change) = match i64::from(target.held.number) {
            libc::SYS_fchmod => (file(), mode(1)),
            libc::SYS_fchmodat => (at(None)?, mode(2)),
            FCHMODAT2 => (at(Some(3))?, mode(2)),
            libc::SYS_fchown => (file(), owner(1)),
            libc::SYS_fchownat => (at(Some(4))?, owner(2)),
            // Without a path it is about the descriptor.
            libc::SYS_utimensat if target.register(1) == 0 => (file(), times(target, 2)?),
            libc::SYS_utimensat => (at(Some(3))?, times(target, 2)?),
            libc::SYS_setxattr => (here(true)?, set()?),
            libc::SYS_lsetxattr => (here(false)?, set()?),
            libc::SYS_fsetxattr => (file(), set()?),
            libc::SYS_removexattr => (here(true)?, Change::Remove(name(1)?)),
            libc::SYS_lremovexattr => (here(false)?, Change::Remove(name(1)?)),
            libc::SYS_fremovexattr => (file(), Change::Remove(name(1)?)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod => (here(true)?, mode(1)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chown => (here(true)?, owner(1)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_lchown => (here(false)?, owner(1)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utime => (here(true)?, old_times(target, 1, false)?),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utimes => (here(true)?, old_times(target, 1, true)?),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_futimesat if target.register(1) == 0 => (file(), old_times(target, 2, true)?),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_futimesat => (at(None)?, old_times(target, 2, true)?),
            _ => return Err(Errno::NOSYS),
        };
        Ok(Self { named, change })
    }

    fn file(&self, target: &Target) -> Result<OwnedFd, Errno> {
        match &self.named {
            Named::Descriptor(number) => target.file(*number),
            Named::Path {
                folder,
                path,
                follow,
            } => target.at(*folder, path, *follow),
        }
    }

    /// Changes what `file` holds; `name` is this process' own name for that handle.
    fn act(&self, file: &OwnedFd, name: &str) -> Result<(), Errno> {
        match &self.change {
            Change::Mode(mode) => rustix::fs::chmod(name, Mode::from_raw_mode(mode & 0o7777)),
            Change::Owner(uid, gid) => {
                let uid = (*uid != u32::MAX).then(|| Uid::from_raw(*uid));
                let gid = (*gid != u32::MAX).then(|| Gid::from_raw(*gid));
                rustix::fs::chownat(file, "", uid, gid, AtFlags::EMPTY_PATH)
            }
            Change::Times(times) => {
                match rustix::fs::utimensat(file, "", times, AtFlags::EMPTY_PATH) {
                    // Kernels before 5.8 know no empty path here.
                    Err(Errno::INVAL) => {
                        rustix::fs::utimensat(rustix::fs::CWD, name, times, AtFlags::empty())
                    }
                    other => other,
                }
            }
            Change::Set(attribute, value, flags) => {
                let flags = XattrFlags::from_bits(*flags).ok_or(Errno::INVAL)?;
                rustix::fs::setxattr(name, attribute.as_c_str(), value, flags)
            }
            Change::Remove(attribute) => rustix::fs::removexattr(name, attribute.as_c_str()),
        }
    }
}

const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: UTIME_NOW,
};

/// Both times as they were given, or now.
fn times(target: &Target, register: usize) -> Result<Change, Errno> {
    let address = target.register(register);
    if address == 0 {
        return Ok(Change::Times(both(NOW, NOW)));
    }
    let [a, b, c, d] = words(&target.memory(address, 32)?)?;
    Ok(Change::Times(both(spec(a, b), spec(c, d))))
}

/// As seconds, or as seconds and millionths.
#[cfg(target_arch = "x86_64")]
fn old_times(target: &Target, register: usize, millionths: bool) -> Result<Change, Errno> {
    let address = target.register(register);
    if address == 0 {
        return Ok(Change::Times(both(NOW, NOW)));
    }
    if !millionths {
        let [a, b] = words(&target.memory(address, 16)?)?;
        return Ok(Change::Times(both(spec(a, 0), spec(b, 0))));
    }
    let [a, b, c, d] = words(&target.memory(address, 32)?)?;
    if !(0..1_000_000).contains(&b) || !(0..1_000_000).contains(&d) {
        return Err(Errno::INVAL);
    }
    Ok(Change::Times(both(spec(a, b * 1_000), spec(c, d * 1_000))))
}

fn both(last_access: Timespec, last_modification: Timespec) -> Timestamps {
    Timestamps {
        last_access,
        last_modification,
    }
}

fn spec(tv_sec: i64, tv_nsec: i64) -> Timespec {
    Timespec { tv_sec, tv_nsec }
}

/// The numbers of a piece of memory.
fn words<const COUNT: usize>(bytes: &[u8]) -> Result<[i64; COUNT], Errno> {
    let mut words = [0; COUNT];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = i64::from_ne_bytes(bytes.try_into().map_err(|_| Errno::FAULT)?);
    }
    Ok(words)
}
