//! The overlay of a workspace: what is below stays as it is, what a session changes lies in a layer
//! outside every view.

use std::{
    ffi::CString,
    fs, io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat2},
    mount::{MntFlags, umount2},
    sched::{CloneFlags, unshare},
    sys::{
        signal::{Signal, kill},
        wait::waitpid,
    },
    unistd::{Pid, UnlinkatFlags, pipe2, read, unlinkat},
};
use protocol::jail::Identity;

use crate::{sys, sys::Fork, view};

/// Where the pieces are attached while the overlay is made of them; nothing is left there.
const BELOW: &str = "/run/provost/below";
const ABOVE: &str = "/run/provost/above";

/// The pieces of an overlay, opened.
pub(crate) struct Pieces<'a> {
    pub(crate) lower: &'a str,
    pub(crate) upper: &'a str,
    pub(crate) work: &'a str,
    /// Who owns what lies below, where that is not who asks.
    pub(crate) owner: Option<Identity>,
    /// Who the session will be, if not who asks.
    pub(crate) identity: Option<Identity>,
}

/// Opens them: the lower folder on a mount of its own (read-only, its owners shown as the session's),
/// the mount that the layer's two folders share, and the two folders.
pub(crate) fn open(pieces: &Pieces<'_>) -> io::Result<Vec<OwnedFd>> {
    let lower = sys::clone_mount(path(pieces.lower)?.as_fd())?;
    sys::set_mount(
        lower.as_fd(),
        view::READ_ONLY | view::NO_SUID | view::NO_DEV,
        false,
    )?;
    if let (Some(from), Some(to)) = (pieces.owner, pieces.identity) {
        let namespace = owners(from, to)?;
        sys::map_owners(lower.as_fd(), namespace.as_fd()).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("the workspace's file system cannot show other owners ({error})"),
            )
        })?;
    }
    let (parent, upper) = split(pieces.upper)?;
    let (other, work) = split(pieces.work)?;
    if parent != other {
        return Err(io::Error::other("the layer's two folders lie apart"));
    }
    // Both must lie on the very same mount, which a clone of each would not be.
    let shared = sys::clone_mount(path(parent)?.as_fd())?;
    sys::set_mount(shared.as_fd(), view::NO_SUID | view::NO_DEV, false)?;
    let beneath = |name: &str| {
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
        openat2(&shared, name, how)
    };
    let (upper, work) = (beneath(upper)?, beneath(work)?);
    Ok(vec![lower, shared, upper, work])
}

/// Lays the overlay; its pieces are attached nowhere afterwards.
pub(crate) fn lay(root: BorrowedFd<'_>, pieces: &[OwnedFd], target: &str) -> io::Result<()> {
    let [lower, shared, upper, work] = pieces else {
        return Err(io::Error::other("the layers were not opened"));
    };
    let target = view::make(root, target, true)?;
    // Older kernels take no detached mount as a layer.
    for (piece, place) in [(lower, BELOW), (shared, ABOVE)] {
        let place = view::make(root, place, true)?;
        sys::move_mount(piece.as_fd(), place.as_fd())?;
    }
    let made = make(lower, upper, work);
    for (piece, place) in [(lower, BELOW), (shared, ABOVE)] {
        umount2(name_of(piece).as_str(), MntFlags::MNT_DETACH)?;
        unlinkat(
            root,
            place.trim_start_matches('/'),
            UnlinkatFlags::RemoveDir,
        )?;
    }
    sys::move_mount(made?.as_fd(), target.as_fd())
}

fn make(lower: &OwnedFd, upper: &OwnedFd, work: &OwnedFd) -> io::Result<OwnedFd> {
    let text = |fd: &OwnedFd| CString::new(name_of(fd));
    let (lower, upper, work) = (text(lower)?, text(upper)?, text(work)?);
    let options = [
        (c"lowerdir", lower.as_c_str()),
        (c"upperdir", upper.as_c_str()),
        (c"workdir", work.as_c_str()),
        // Marks of an account's own kind; the kernel's other kind is for those who may all.
        (c"userxattr", c""),
        // No index: nothing of a layer depends on handles of the lower file system.
        (c"index", c"off"),
    ];
    sys::new_filesystem(c"overlay", &options, view::NO_SUID | view::NO_DEV)
}

/// The kernel's own name for a handle.
fn name_of(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

fn path(path: &str) -> io::Result<OwnedFd> {
    if !path.starts_with('/') {
        return Err(io::Error::other("a source is an absolute path"));
    }
    view::open_path(Path::new(path))
}

fn split(path: &str) -> io::Result<(&str, &str)> {
    path.rsplit_once('/')
        .filter(|(parent, name)| !parent.is_empty() && !name.is_empty())
        .ok_or_else(|| io::Error::other("a layer's folder is an absolute path"))
}

/// A user namespace in which what belongs to `from` belongs to `to`, and everything else to nobody.
/// Somebody must live in it while its map is written; then its handle keeps it.
fn owners(from: Identity, to: Identity) -> io::Result<OwnedFd> {
    let (there, told) = pipe2(OFlag::O_CLOEXEC)?;
    let (hold, held) = pipe2(OFlag::O_CLOEXEC)?;
    let pid = match sys::fork()? {
        Fork::Child => {
            drop((there, held));
            let made = unshare(CloneFlags::CLONE_NEWUSER).is_ok();
            let _ = nix::unistd::write(&told, &[u8::from(made)]);
            // Until the map is written; nobody writes here, so its end is the end.
            let _ = read(&hold, &mut [0]);
            sys::leave(0)
        }
        Fork::Parent(pid) => pid,
    };
    drop((told, hold));
    let mut made = [0_u8];
    let answer = match read(&there, &mut made) {
        Ok(1) if made == [1] => map(pid, from, to),
        Ok(_) => Err(io::Error::other("no user namespace for the owners' map")),
        Err(errno) => Err(errno.into()),
    };
    drop(held);
    let child = Pid::from_raw(pid);
    let _ = kill(child, Signal::SIGKILL);
    while waitpid(child, None) == Err(Errno::EINTR) {}
    answer
}

fn map(pid: i32, from: Identity, to: Identity) -> io::Result<OwnedFd> {
    let line = |from: u32, to: u32| format!("{from} {to} 1");
    fs::write(format!("/proc/{pid}/uid_map"), line(from.uid, to.uid))?;
    fs::write(format!("/proc/{pid}/gid_map"), line(from.gid, to.gid))?;
    Ok(fs::File::open(format!("/proc/{pid}/ns/user"))?.into())
}
