//! Held handles: every file is reached from a folder that is already open, one part at a time or by
//! the kernel's own "beneath", never by a path joined as text.

use std::ffi::{CStr, CString, OsString};
use std::os::fd::{AsFd, OwnedFd};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2, readlinkat};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmodat, fstat, fstatat};

use crate::failure::{At, Trouble};
use crate::name;

/// Permission bits that cross a jail's edge; setuid, setgid and sticky never do.
const PERMISSIONS: u32 = 0o777;

/// How often a resolution that the kernel asks to repeat is repeated.
const RETRIES: u32 = 16;

/// What `stat` says of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    pub(crate) size: u64,
    /// Bytes as the file system stores them.
    pub(crate) stored: u64,
    pub(crate) identity: (u64, u64),
    pub(crate) owner: (u32, u32),
    pub(crate) mtime: (i64, i64),
    pub(crate) ctime_ns: i128,
}

/// What a node is, special files included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    Symlink,
    /// The mark by which an overlay's layer says that a name is gone: a device that is none.
    Whiteout,
    /// A socket, FIFO or device: its name for people.
    Special(&'static str),
}

impl From<FileStat> for Status {
    fn from(stat: FileStat) -> Self {
        let format = SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits());
        let kind = match format {
            SFlag::S_IFREG => Kind::File,
            SFlag::S_IFDIR => Kind::Folder,
            SFlag::S_IFLNK => Kind::Symlink,
            SFlag::S_IFCHR if stat.st_rdev == 0 => Kind::Whiteout,
            SFlag::S_IFIFO => Kind::Special("FIFO"),
            SFlag::S_IFSOCK => Kind::Special("socket"),
            _ => Kind::Special("device"),
        };
        Self {
            kind,
            mode: stat.st_mode & PERMISSIONS,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            // The kernel counts blocks of 512 bytes here, whatever the file system's are.
            stored: u64::try_from(stat.st_blocks)
                .unwrap_or(0)
                .saturating_mul(512),
            identity: (stat.st_dev, stat.st_ino),
            owner: (stat.st_uid, stat.st_gid),
            mtime: (stat.st_mtime, stat.st_mtime_nsec),
            ctime_ns: i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec),
        }
    }
}

/// The status of an open node.
pub(crate) fn status(node: impl AsFd) -> nix::Result<Status> {
    fstat(node).map(Status::from)
}

/// The status of `name` in `folder`, of a link itself and not of its target.
pub(crate) fn status_at(folder: impl AsFd, name: &CStr) -> nix::Result<Status> {
    fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW).map(Status::from)
}

/// Opens a root by its absolute path; everything else starts from such a handle.
pub(crate) fn open_root(path: &str) -> Result<OwnedFd, Trouble> {
    if !path.starts_with('/') || path.contains('\0') {
        return Err(Trouble::Unfit(format!(
            "`{}` is not an absolute path",
            name::shorten(path)
        )));
    }
    match nix::fcntl::open(path, folder_flags(), Mode::empty()) {
        Ok(folder) => Ok(folder),
        Err(Errno::ENOENT) => Err(Trouble::Unfit(format!("`{path}` does not exist"))),
        Err(Errno::ENOTDIR | Errno::ELOOP) => Err(Trouble::Unfit(format!(
            "`{path}` is not a folder, or is a link to one"
        ))),
        Err(errno) => Err(errno).at("cannot open", path),
    }
}

/// Opens the folder `name` in `folder` for reading; a link is refused.
pub(crate) fn open_folder(folder: impl AsFd, name: &CStr) -> nix::Result<OwnedFd> {
    openat(folder, name, folder_flags(), Mode::empty())
}

/// Opens the regular file `name` in `folder` for reading; `None` if it is anything else.
///
/// Non-blocking, because opening a FIFO would otherwise wait for its other end for ever.
pub(crate) fn open_file(folder: impl AsFd, name: &CStr) -> nix::Result<Option<(OwnedFd, Status)>> {
    let file = openat(folder, name, file_flags(), Mode::empty())?;
    let status = status(&file)?;
    Ok((status.kind == Kind::File).then_some((file, status)))
}

/// As [`open_file`], in a sealed tree that is ours: a file that may not be read is made readable for
/// the moment of opening and gets its mode back.
pub(crate) fn open_sealed_file(
    folder: impl AsFd,
    name: &CStr,
) -> nix::Result<Option<(OwnedFd, Status)>> {
    match open_file(folder.as_fd(), name) {
        Err(Errno::EACCES) => {}
        other => return other,
    }
    let before = status_at(folder.as_fd(), name)?;
    if before.kind != Kind::File {
        return Ok(None);
    }
    set_mode(folder.as_fd(), name, before.mode | 0o400)?;
    let opened = open_file(folder.as_fd(), name);
    set_mode(folder.as_fd(), name, before.mode)?;
    Ok(opened?.map(|(file, status)| {
        (
            file,
            Status {
                mode: before.mode,
                ..status
            },
        )
    }))
}

/// Changes the mode of `name`; only in trees that nobody else can reach, since it follows links.
pub(crate) fn set_mode(folder: impl AsFd, name: &CStr, mode: u32) -> nix::Result<()> {
    let mode = Mode::from_bits_truncate(mode & PERMISSIONS);
    fchmodat(folder, name, mode, FchmodatFlags::FollowSymlink)
}

/// The permission bits as the kernel's calls take them.
pub(crate) fn mode(bits: u32) -> Mode {
    Mode::from_bits_truncate(bits & PERMISSIONS)
}

/// Opens `path` below `root`, no part of it through a link; the kernel judges the real target.
///
/// An empty path is the root itself.
pub(crate) fn open_beneath(root: impl AsFd, path: &[u8], flags: OFlag) -> nix::Result<OwnedFd> {
    let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(
        ResolveFlag::RESOLVE_BENEATH
            | ResolveFlag::RESOLVE_NO_MAGICLINKS
            | ResolveFlag::RESOLVE_NO_SYMLINKS,
    );
    let path = if path.is_empty() { &b"."[..] } else { path };
    let mut last = Errno::EAGAIN;
    for _ in 0..RETRIES {
        match openat2(root.as_fd(), name::path(path), how) {
            // EAGAIN: something was renamed meanwhile and the kernel could not prove containment.
            Err(errno @ (Errno::EAGAIN | Errno::EINTR)) => last = errno,
            other => return other,
        }
    }
    Err(last)
}

/// Opens the folder that holds `path`, and the last part of it.
pub(crate) fn open_parent(root: impl AsFd, path: &[u8]) -> nix::Result<(OwnedFd, CString)> {
    let (folder, last) = name::split(path);
    let last = CString::new(last).map_err(|_| Errno::EINVAL)?;
    let folder = open_beneath(root, folder, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
    Ok((folder, last))
}

/// The target of the link `name`, as bytes.
pub(crate) fn target(folder: impl AsFd, name: &CStr) -> nix::Result<OsString> {
    readlinkat(folder, name)
}

/// The names in `folder`, sorted by bytes; `None` if there are more than `most`.
pub(crate) fn names(folder: &OwnedFd, most: u64) -> nix::Result<Option<Vec<CString>>> {
    let (mut names, whole) = some_names(folder, most)?;
    names.sort_unstable();
    Ok(whole.then_some(names))
}

/// At most `most` names in `folder` as the kernel gives them, and whether these are all.
pub(crate) fn some_names(folder: &OwnedFd, most: u64) -> nix::Result<(Vec<CString>, bool)> {
    // A handle of its own: the position in a folder is shared by duplicates.
    let own = openat(folder, c".", folder_flags(), Mode::empty())?;
    let mut dir = Dir::from_fd(own)?;
    let mut names = Vec::new();
    for entry in dir.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if names.len() as u64 >= most {
            return Ok((names, false));
        }
        names.push(name.to_owned());
    }
    Ok((names, true))
}

fn folder_flags() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK
}

fn file_flags() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY
}
