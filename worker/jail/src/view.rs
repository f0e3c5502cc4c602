//! The mount view: a tmpfs root that holds exactly what the spec lists, and nothing of the host.

use std::{
    ffi::CString,
    fs::{self, File},
    io::{self, Write as _},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    },
    path::{Component, Path},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat2},
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::stat::{Mode, SFlag, fstat, mkdirat},
    unistd::{fchdir, pivot_root, sethostname, symlinkat},
};
use protocol::jail::{Identity, JailSpec, Mount, OVERLAY, WORKER_INSIDE};

use crate::{
    layers, sys,
    unfit::{Step as _, Unfit},
};

pub(crate) const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
pub(crate) const NO_SUID: u64 = libc::MOUNT_ATTR_NOSUID;
pub(crate) const NO_DEV: u64 = libc::MOUNT_ATTR_NODEV;
const NO_EXEC: u64 = libc::MOUNT_ATTR_NOEXEC;

/// Bytes and inodes of the root: folders, links and small files only, read-only once built.
const ROOT_BYTES: u64 = 4 * 1024 * 1024;
const ROOT_INODES: u64 = 4_096;

/// The device nodes that may be bound: each is harmless in any hands.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Files of a fresh proc that tell of, or act on, the host. Each is covered by an empty file.
const MASKED: [&str; 14] = [
    "kcore",
    "kallsyms",
    "kmsg",
    "keys",
    "key-users",
    "timer_list",
    "sched_debug",
    "latency_stats",
    "config.gz",
    "sysrq-trigger",
    "kpagecount",
    "kpageflags",
    "modules",
    "slabinfo",
];

/// Folders of a fresh proc that tell of the host. Each is covered by an empty folder.
const MASKED_FOLDERS: [&str; 3] = ["acpi", "scsi", "asound"];

/// Pieces of the host, detached from it before the view is laid over the names; empty where a mount
/// takes nothing.
pub(crate) type Source = Vec<OwnedFd>;

/// Opens what the view takes from the host: one entry per mount. The copies are detached and already
/// carry their attributes.
pub(crate) fn open_sources(spec: &JailSpec) -> Result<Vec<Source>, Unfit> {
    let open = |mount| open_source(mount, spec.identity).step(&naming("open", mount));
    spec.view.iter().map(open).collect()
}

fn open_source(mount: &Mount, identity: Option<Identity>) -> io::Result<Source> {
    let (path, attributes) = match mount {
        Mount::ReadOnly { source, .. } => (source.clone(), READ_ONLY | NO_SUID | NO_DEV),
        Mount::Writable { source, .. } => (source.clone(), NO_SUID | NO_DEV),
        Mount::Overlay {
            lower,
            upper,
            work,
            owner,
            ..
        } => {
            return layers::open(&layers::Pieces {
                lower,
                upper,
                work,
                owner: *owner,
                identity,
            });
        }
        Mount::Worker => (own_name()?, READ_ONLY | NO_SUID | NO_DEV),
        Mount::Device { name } => {
            if !DEVICES.contains(&name.as_str()) {
                return Err(io::Error::other(
                    "not one of the devices that a view may hold",
                ));
            }
            // Never NODEV here: /dev/null would answer EACCES.
            (format!("/dev/{name}"), NO_SUID | NO_EXEC)
        }
        Mount::Tmpfs { .. }
        | Mount::Terminals
        | Mount::Proc
        | Mount::Link { .. }
        | Mount::File { .. } => return Ok(Vec::new()),
    };
    if !path.starts_with('/') {
        return Err(io::Error::other("a source is an absolute path"));
    }
    let tree = sys::open_tree(&CString::new(path)?)?;
    if matches!(mount, Mount::Worker) && inode(&tree)? != inode(&File::open(OWN)?)? {
        return Err(io::Error::other(
            "the worker was replaced while it started: start again",
        ));
    }
    sys::set_mount(tree.as_fd(), attributes, true)?;
    Ok(vec![tree])
}

/// The running binary.
const OWN: &str = "/proc/self/exe";

/// Its name. The kernel's own link leads into the mount namespace in which it was executed, where
/// nothing can be cloned from a new one; so it is opened by name and compared.
fn own_name() -> io::Result<String> {
    let name = fs::read_link(OWN)?;
    name.to_str()
        .map(str::to_owned)
        .ok_or_else(|| io::Error::other("the worker's path is not UTF-8: install it elsewhere"))
}

fn inode(file: &impl AsFd) -> io::Result<(u64, u64)> {
    let stat = fstat(file)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// A step's name for one mount, with the path inside.
fn naming(verb: &str, mount: &Mount) -> String {
    let target = match mount {
        Mount::ReadOnly { source, target } | Mount::Writable { source, target } => {
            return format!("{verb} `{source}` for `{target}`");
        }
        Mount::Overlay { lower, target, .. } => {
            return format!("{verb} the {OVERLAY} of `{lower}` for `{target}`");
        }
        Mount::Tmpfs { target, .. } | Mount::Link { target, .. } | Mount::File { target, .. } => {
            target.clone()
        }
        Mount::Device { name } => format!("/dev/{name}"),
        Mount::Terminals => "/dev/pts".to_owned(),
        Mount::Proc => "/proc".to_owned(),
        Mount::Worker => WORKER_INSIDE.to_owned(),
    };
    format!("{verb} `{target}`")
}

/// Lays the view and makes it the root. Runs as pid 1 in fresh namespaces.
pub(crate) fn build(spec: &JailSpec, sources: &[Source]) -> Result<(), Unfit> {
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .step("make mounts private")?;
    let root = new_tmpfs(ROOT_BYTES, ROOT_INODES, 0o755, NO_SUID | NO_DEV).step("make the root")?;
    let place = ["/tmp", "/run", "/mnt", "/var"]
        .iter()
        .find_map(|path| open_path(Path::new(path)).ok())
        .ok_or_else(|| {
            Unfit::new(
                "make the root",
                "the host has none of /tmp, /run, /mnt and /var",
            )
        })?;
    sys::move_mount(root.as_fd(), place.as_fd()).step("make the root")?;
    fchdir(root.as_fd()).step("enter the root")?;

    for (piece, source) in spec.view.iter().zip(sources) {
        lay(root.as_fd(), piece, source).step(&naming("mount", piece))?;
    }
    // The fresh proc had to be laid while the host's was still there; now the host goes.
    pivot_root(".", ".").step("change the root")?;
    umount2(".", MntFlags::MNT_DETACH).step("drop the old root")?;
    std::env::set_current_dir("/").step("enter the root")?;
    sys::set_mount(root.as_fd(), READ_ONLY | NO_SUID | NO_DEV, false)
        .step("make the root read-only")?;

    sethostname("provost").step("set the host name")?;
    let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).step("bring loopback up")?;
    sys::loopback_up(socket.as_fd()).step("bring loopback up")
}

/// Lays one piece.
fn lay(root: BorrowedFd<'_>, piece: &Mount, source: &[OwnedFd]) -> io::Result<()> {
    match piece {
        Mount::Overlay { target, .. } => layers::lay(root, source, target),
        Mount::ReadOnly { target, .. } | Mount::Writable { target, .. } => {
            attach(root, source, target)
        }
        Mount::Worker => attach(root, source, WORKER_INSIDE),
        Mount::Device { name } => attach(root, source, &format!("/dev/{name}")),
        Mount::Tmpfs {
            target,
            bytes,
            inodes,
            mode,
        } => {
            let target = make(root, target, true)?;
            let made = new_tmpfs(*bytes, *inodes, *mode, NO_SUID | NO_DEV)?;
            sys::move_mount(made.as_fd(), target.as_fd())
        }
        Mount::Terminals => {
            let target = make(root, "/dev/pts", true)?;
            // No `gid=`: the terminal group is not mapped.
            let options = [(c"ptmxmode", c"0666"), (c"mode", c"0600")];
            let made = sys::new_filesystem(c"devpts", &options, NO_SUID | NO_EXEC)?;
            sys::move_mount(made.as_fd(), target.as_fd())?;
            link(root, "/dev/ptmx", "pts/ptmx")
        }
        Mount::Proc => lay_proc(root),
        Mount::Link { target, to } => link(root, target, to),
        Mount::File { target, content } => lay_file(root, target, content),
    }
}

/// Attaches a source below the root.
fn attach(root: BorrowedFd<'_>, source: &[OwnedFd], target: &str) -> io::Result<()> {
    let source = source
        .first()
        .ok_or_else(|| io::Error::other("the source was not opened"))?;
    let folder =
        SFlag::from_bits_truncate(fstat(source)?.st_mode & SFlag::S_IFMT.bits()) == SFlag::S_IFDIR;
    let target = make(root, target, folder)?;
    sys::move_mount(source.as_fd(), target.as_fd())
}

/// A fresh proc: who may not trace a process does not see it; what tells of the host is masked.
/// Read-only as a whole: no process inside may move another's oom_score_adj or the like.
fn lay_proc(root: BorrowedFd<'_>) -> io::Result<()> {
    let target = make(root, "/proc", true)?;
    let attributes = READ_ONLY | NO_SUID | NO_DEV | NO_EXEC;
    let made = sys::new_filesystem(c"proc", &[(c"hidepid", c"ptraceable")], attributes).map_err(
        |error| match error.raw_os_error() {
            Some(libc::EPERM) => io::Error::other(
                "a fresh /proc is refused because the host's is partly covered (a container \
                 engine does that): run the container with unmasked system paths",
            ),
            _ => error,
        },
    )?;
    sys::move_mount(made.as_fd(), target.as_fd())?;
    let empty = small_tmpfs_file()?;
    for name in MASKED {
        mask(made.as_fd(), name, || sys::clone_mount(empty.as_fd()))?;
    }
    for name in MASKED_FOLDERS {
        mask(made.as_fd(), name, || {
            new_tmpfs(4_096, 2, 0o555, READ_ONLY | NO_SUID | NO_DEV)
        })?;
    }
    Ok(())
}

/// An empty read-only file on a mount of its own.
fn small_tmpfs_file() -> io::Result<OwnedFd> {
    let made = new_tmpfs(4_096, 4, 0o755, NO_SUID | NO_DEV | NO_EXEC)?;
    let how = OpenHow::new()
        .flags(OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC)
        .mode(Mode::from_bits_truncate(0o444));
    drop(openat2(&made, "empty", how)?);
    let file = openat2(
        &made,
        "empty",
        OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC),
    )?;
    let file = sys::clone_mount(file.as_fd())?;
    sys::set_mount(file.as_fd(), READ_ONLY | NO_SUID | NO_DEV | NO_EXEC, false)?;
    Ok(file)
}

/// Covers one name below `folder`, if it is there.
fn mask(
    folder: BorrowedFd<'_>,
    name: &str,
    cover: impl Fn() -> io::Result<OwnedFd>,
) -> io::Result<()> {
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW);
    match openat2(folder, name, how) {
        Ok(target) => sys::move_mount(cover()?.as_fd(), target.as_fd()),
        Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// A small file, bound read-only onto itself: also below a writable folder it stays what it is.
fn lay_file(root: BorrowedFd<'_>, target: &str, content: &str) -> io::Result<()> {
    let place = make(root, target, false)?;
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&place));
    let mut file = fs::OpenOptions::new().write(true).open(path)?;
    file.write_all(content.as_bytes())?;
    file.set_permissions(fs::Permissions::from_mode(0o444))?;
    drop(file);
    let bound = sys::clone_mount(place.as_fd())?;
    sys::set_mount(bound.as_fd(), READ_ONLY | NO_SUID | NO_DEV | NO_EXEC, false)?;
    sys::move_mount(bound.as_fd(), place.as_fd())
}

/// A symbolic link.
fn link(root: BorrowedFd<'_>, target: &str, to: &str) -> io::Result<()> {
    let (parent, name) = split(target)?;
    let parent = folders(root, parent)?;
    symlinkat(to, &parent, name).map_err(Into::into)
}

/// A tmpfs, detached.
fn new_tmpfs(bytes: u64, inodes: u64, mode: u32, attributes: u64) -> io::Result<OwnedFd> {
    let bytes = CString::new(bytes.to_string())?;
    let inodes = CString::new(inodes.to_string())?;
    let mode = CString::new(format!("{:o}", mode & 0o7777))?;
    let options = [
        (c"size", bytes.as_c_str()),
        (c"nr_inodes", inodes.as_c_str()),
        (c"mode", mode.as_c_str()),
    ];
    sys::new_filesystem(c"tmpfs", &options, attributes)
}

pub(crate) fn open_path(path: &Path) -> io::Result<OwnedFd> {
    let file = fs::File::options()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW)
        .open(path)?;
    Ok(file.into())
}

/// The place of a mount inside, made if it is not there: an empty file or a folder, and its
/// parents. No symbolic link is followed on the way: a workspace laid earlier may hold any.
pub(crate) fn make(root: BorrowedFd<'_>, target: &str, folder: bool) -> io::Result<OwnedFd> {
    let (parent, name) = split(target)?;
    let parent = folders(root, parent)?;
    if folder {
        return folders(parent.as_fd(), Path::new(name));
    }
    let how = beneath(OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW);
    match openat2(&parent, name, how) {
        Ok(there) => return Ok(there),
        Err(Errno::ENOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let made = beneath(OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC)
        .mode(Mode::from_bits_truncate(0o644));
    drop(openat2(&parent, name, made)?);
    openat2(&parent, name, how).map_err(Into::into)
}

fn beneath(flags: OFlag) -> OpenHow {
    OpenHow::new()
        .flags(flags)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS)
}

/// Parent and last name of an absolute path inside.
fn split(target: &str) -> io::Result<(&Path, &str)> {
    let path = Path::new(target);
    let plain = path
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let parent = path.parent().filter(|_| target.starts_with('/') && plain);
    let name = path.file_name().and_then(|name| name.to_str());
    parent
        .zip(name)
        .ok_or_else(|| io::Error::other("a target is an absolute path without `..`"))
}

/// Opens a folder below `from`, making each missing one.
fn folders(from: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let how = beneath(OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_DIRECTORY);
    let mut here = openat2(from, ".", how)?;
    for part in path.components() {
        let Component::Normal(name) = part else {
            continue;
        };
        here = match openat2(&here, name, how) {
            Ok(next) => next,
            Err(Errno::ENOENT) => {
                mkdirat(&here, name, Mode::from_bits_truncate(0o755))?;
                openat2(&here, name, how)?
            }
            Err(errno) => return Err(errno.into()),
        };
    }
    Ok(here)
}
