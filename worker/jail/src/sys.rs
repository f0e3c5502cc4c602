//! Every unsafe call of the product, one thin function each, with its proof.
#![expect(
    unsafe_code,
    reason = "the kernel's calls that no safe wrapper offers; all of them are here"
)]

use std::{
    ffi::CStr,
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
};

use libc::{c_int, c_long, c_uint, c_ulong};
use seccompiler::sock_filter;

use crate::poke::Poke;

/// An absent argument of prctl, which reads whole registers.
const NONE: c_ulong = 0;

/// A call's answer as a result.
fn answer(value: c_long) -> io::Result<c_long> {
    if value < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(value)
    }
}

/// A call's answer that is a new descriptor.
fn descriptor(value: c_long) -> io::Result<OwnedFd> {
    let number = answer(value)?;
    let number = RawFd::try_from(number).map_err(io::Error::other)?;
    // SAFETY: the kernel has just returned this number as a new descriptor of this process, so
    // nobody else owns it; every caller passes the answer of a call that makes one.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Which of the two this is, after [`fork`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fork {
    /// The caller; the child's pid.
    Parent(i32),
    /// The child.
    Child,
}

/// Forks. The roles that call it are single-threaded, so the child may go on in ordinary Rust.
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: fork takes no pointer. The child has only this thread; in a process with more threads
    // a lock held elsewhere could stay locked, but memory stays valid, and glibc's own locks are
    // reset by its fork.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Leaves at once: no destructors, no buffers flushed. For the children of [`fork`].
pub(crate) fn leave(code: u8) -> ! {
    // SAFETY: _exit takes an integer and never returns.
    unsafe { libc::_exit(c_int::from(code)) }
}

/// A copy, close-on-exec and numbered 3 or higher, of a descriptor that this process was born with.
pub(crate) fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl(F_DUPFD_CLOEXEC) takes integers only; a number that is not open answers EBADF.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    descriptor(c_long::from(copy))
}

/// A copy, close-on-exec and numbered 10 or higher: out of the way of what is placed lower.
pub(crate) fn high(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: fcntl(F_DUPFD_CLOEXEC) takes integers only; `fd` is open.
    let copy = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 10) };
    descriptor(c_long::from(copy))
}

/// Puts a copy of `from` at `number`, kept over exec. Only in a child that is about to exec, or for
/// the standard three: what was at `number` is closed, so nobody may own it.
pub(crate) fn place(from: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    if from.as_raw_fd() == number {
        // SAFETY: fcntl(F_SETFD) takes integers only; `from` is open.
        return answer(c_long::from(unsafe {
            libc::fcntl(number, libc::F_SETFD, 0)
        }))
        .map(drop);
    }
    // SAFETY: dup2 takes integers only; `from` is open, and by this function's contract nobody owns
    // `number`.
    answer(c_long::from(unsafe {
        libc::dup2(from.as_raw_fd(), number)
    }))
    .map(drop)
}

/// Closes all descriptors from `first` to `last`. By contract nobody uses an owner of one of them
/// afterwards; a later drop of such an owner answers EBADF and changes nothing.
pub(crate) fn close_range(first: u32, last: u32) -> io::Result<()> {
    if first > last {
        return Ok(());
    }
    // SAFETY: close_range takes integers only.
    answer(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0_u32) }).map(drop)
}

/// The default action for every signal, and none blocked: what a program expects at its start.
pub(crate) fn default_signals() -> io::Result<()> {
    for number in 1..=64 {
        // SAFETY: SIG_DFL installs no handler, so no code of ours can be called; numbers that do not
        // exist or cannot be changed answer SIG_ERR, which changes nothing.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
    nix::sys::signal::SigSet::empty()
        .thread_set_mask()
        .map_err(Into::into)
}

/// A reader that is gone answers EPIPE instead of a signal.
pub(crate) fn ignore_broken_pipes() {
    // SAFETY: SIG_IGN installs no handler, so no code of ours can be called.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Lowers the priority of this process, which what it starts inherits.
pub(crate) fn be_nice(by: c_int) -> io::Result<()> {
    // SAFETY: numbers only; 0 names the calling process.
    let value = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, by) };
    answer(c_long::from(value)).map(drop)
}

/// A pidfd of a process.
pub(crate) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes integers only and answers a new descriptor.
    descriptor(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0_u32) })
}

/// What `landlock_create_ruleset` tells about itself: the ABI (flag 1) or the errata (flag 2).
pub(crate) fn landlock_version(flag: u32) -> io::Result<u32> {
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: with a version flag the kernel demands a null attribute of size 0 and reads nothing.
    let value = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0_usize, flag) };
    u32::try_from(answer(value)?).map_err(io::Error::other)
}

/// Installs a seccomp program with a listener: the calls that it holds are told there. Waiting for
/// the answer can be ended by a kill only, where the kernel knows that (Linux 5.19): a runtime that
/// signals its own threads would else restart the call for ever.
pub(crate) fn listen_to_filter(program: &[sock_filter]) -> io::Result<OwnedFd> {
    let program = libc::sock_fprog {
        len: libc::c_ushort::try_from(program.len()).map_err(io::Error::other)?,
        filter: program.as_ptr().cast_mut().cast(),
    };
    let install = |flags: c_ulong| {
        // SAFETY: `program` names `len` instructions that live over the call; seccompiler's are laid
        // out as the kernel's (`repr(C)`), which only reads them. A new descriptor comes.
        descriptor(unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const program,
            )
        })
    };
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    match install(listener | WAIT_KILLABLE) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => install(listener),
        other => other,
    }
}

/// SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV.
const WAIT_KILLABLE: c_ulong = 1 << 5;

/// A detached copy of the mounts at `path`, with everything mounted below it.
pub(crate) fn open_tree(path: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_RECURSIVE as c_uint;
    // SAFETY: `path` is a NUL-terminated string that lives over the call; a new descriptor comes.
    descriptor(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) })
}

/// A detached copy of the mount that `at` lies on, rooted at `at` itself.
pub(crate) fn clone_mount(at: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_EMPTY_PATH as c_uint;
    // SAFETY: the path is a NUL-terminated constant; `at` is open; a new descriptor comes.
    descriptor(unsafe { libc::syscall(libc::SYS_open_tree, at.as_raw_fd(), c"".as_ptr(), flags) })
}

/// Attaches a detached mount at `target`.
pub(crate) fn move_mount(tree: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    let flags = libc::MOVE_MOUNT_F_EMPTY_PATH | libc::MOVE_MOUNT_T_EMPTY_PATH;
    let (tree, target, none) = (tree.as_raw_fd(), target.as_raw_fd(), c"".as_ptr());
    // SAFETY: both descriptors are open and both paths are NUL-terminated constants.
    let value = unsafe { libc::syscall(libc::SYS_move_mount, tree, none, target, none, flags) };
    answer(value).map(drop)
}

/// Sets attributes (`MOUNT_ATTR_*`) on a mount, or on it and all below it.
pub(crate) fn set_mount(tree: BorrowedFd<'_>, attributes: u64, recursive: bool) -> io::Result<()> {
    change_mount(tree, attributes, None, recursive)
}

/// Shows the owners of a detached mount as another user namespace maps them.
pub(crate) fn map_owners(tree: BorrowedFd<'_>, namespace: BorrowedFd<'_>) -> io::Result<()> {
    change_mount(tree, libc::MOUNT_ATTR_IDMAP, Some(namespace), false)
}

fn change_mount(
    tree: BorrowedFd<'_>,
    attributes: u64,
    namespace: Option<BorrowedFd<'_>>,
    recursive: bool,
) -> io::Result<()> {
    let namespace = namespace.map_or(0, |namespace| namespace.as_raw_fd());
    let wanted = libc::mount_attr {
        attr_set: attributes,
        attr_clr: 0,
        propagation: 0,
        userns_fd: u64::try_from(namespace).map_err(io::Error::other)?,
    };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    let (number, size) = (libc::SYS_mount_setattr, size_of::<libc::mount_attr>());
    let (tree, none) = (tree.as_raw_fd(), c"".as_ptr());
    // SAFETY: `wanted` lives over the call and its size is passed; the path is a constant; `tree` and a
    // namespace are open.
    answer(unsafe { libc::syscall(number, tree, none, flags, &raw const wanted, size) }).map(drop)
}

const FSOPEN_CLOEXEC: c_uint = 1;
const FSCONFIG_SET_FLAG: c_uint = 0;
const FSCONFIG_SET_STRING: c_uint = 1;
const FSCONFIG_CMD_CREATE: c_uint = 6;
const FSMOUNT_CLOEXEC: c_uint = 1;

/// A new file system of a kind, detached, with options (one without a value is a flag) and mount
/// attributes.
pub(crate) fn new_filesystem(
    kind: &CStr,
    options: &[(&CStr, &CStr)],
    attributes: u64,
) -> io::Result<OwnedFd> {
    // SAFETY: `kind` is a NUL-terminated string that lives over the call; a new descriptor comes.
    let context =
        descriptor(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC) })?;
    let fd = context.as_raw_fd();
    for (key, value) in options {
        let (how, value) = if value.is_empty() {
            (FSCONFIG_SET_FLAG, std::ptr::null())
        } else {
            (FSCONFIG_SET_STRING, value.as_ptr())
        };
        let key = key.as_ptr();
        // SAFETY: `fd` is open; the key is a NUL-terminated string that lives over the call, and so is
        // the value, or it is null as a flag demands.
        answer(unsafe { libc::syscall(libc::SYS_fsconfig, fd, how, key, value, 0) })?;
    }
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: FSCONFIG_CMD_CREATE demands null key and value and reads neither.
    answer(unsafe { libc::syscall(libc::SYS_fsconfig, fd, FSCONFIG_CMD_CREATE, none, none, 0) })?;
    // SAFETY: fsmount takes integers only; a new descriptor comes.
    descriptor(unsafe { libc::syscall(libc::SYS_fsmount, fd, FSMOUNT_CLOEXEC, attributes) })
}

/// Brings the loopback interface of this network namespace up.
pub(crate) fn loopback_up(socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut name = [0; libc::IFNAMSIZ];
    for (to, from) in name.iter_mut().zip(c"lo".to_bytes()) {
        *to = libc::c_char::try_from(*from).map_err(io::Error::other)?;
    }
    let flags =
        libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).map_err(io::Error::other)?;
    let request = libc::ifreq {
        ifr_name: name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: flags },
    };
    // SAFETY: SIOCSIFFLAGS reads one ifreq, which lives over the call; its name ends with NUL.
    let value = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    answer(c_long::from(value)).map(drop)
}

/// A prctl that takes integers only.
fn set_process(option: c_int, argument: c_ulong) -> c_int {
    // SAFETY: every caller names an option whose arguments are integers.
    unsafe { libc::prctl(option, argument, NONE, NONE, NONE) }
}

/// Drops one capability from the bounding set; `false` when there is none of that number.
pub(crate) fn drop_bounding(capability: u32) -> io::Result<bool> {
    if set_process(libc::PR_CAPBSET_DROP, c_ulong::from(capability)) == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EINVAL) {
        Ok(false)
    } else {
        Err(error)
    }
}

/// Whether a capability is in the bounding set; `None` when there is none of that number.
pub(crate) fn in_bounding(capability: u32) -> Option<bool> {
    match set_process(libc::PR_CAPBSET_READ, c_ulong::from(capability)) {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// Empties the ambient set.
pub(crate) fn clear_ambient() -> io::Result<()> {
    let all = c_ulong::try_from(libc::PR_CAP_AMBIENT_CLEAR_ALL).map_err(io::Error::other)?;
    answer(c_long::from(set_process(libc::PR_CAP_AMBIENT, all))).map(drop)
}

/// Sets the securebits.
pub(crate) fn set_securebits(bits: u32) -> io::Result<()> {
    let value = set_process(libc::PR_SET_SECUREBITS, c_ulong::from(bits));
    answer(c_long::from(value)).map(drop)
}

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: c_int,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CapabilityHalf {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

/// Sets effective and permitted capabilities to exactly `kept`, inheritable to none.
pub(crate) fn set_capabilities(kept: u64) -> io::Result<()> {
    let header = CapabilityHeader {
        version: CAPABILITY_VERSION_3,
        pid: 0,
    };
    let half = |bits: u64| -> io::Result<CapabilityHalf> {
        let bits = u32::try_from(bits & u64::from(u32::MAX)).map_err(io::Error::other)?;
        Ok(CapabilityHalf {
            effective: bits,
            permitted: bits,
            inheritable: 0,
        })
    };
    let halves = [half(kept)?, half(kept >> 32)?];
    // SAFETY: version 3 reads one header and two halves in exactly this layout; both live over the
    // call.
    let value = unsafe { libc::syscall(libc::SYS_capset, &raw const header, halves.as_ptr()) };
    answer(value).map(drop)
}

/// The effective, permitted and inheritable capabilities.
pub(crate) fn capabilities() -> io::Result<[u64; 3]> {
    let mut header = CapabilityHeader {
        version: CAPABILITY_VERSION_3,
        pid: 0,
    };
    let mut halves = [CapabilityHalf::default(); 2];
    // SAFETY: version 3 reads one header and writes two halves in exactly this layout; both live
    // over the call.
    let value = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, halves.as_mut_ptr()) };
    answer(value)?;
    let [low, high] = halves;
    let whole = |low: u32, high: u32| u64::from(low) | (u64::from(high) << 32);
    Ok([
        whole(low.effective, high.effective),
        whole(low.permitted, high.permitted),
        whole(low.inheritable, high.inheritable),
    ])
}

/// A socket of any family, for what nix does not name.
pub(crate) fn socket(family: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: socket takes integers only; a new descriptor comes.
    descriptor(c_long::from(unsafe {
        libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol)
    }))
}

/// Connects to 127.0.0.1 without `connect`: one byte with the fast-open flag, never waiting.
pub(crate) fn send_fast_open(socket: BorrowedFd<'_>, port: u16) -> io::Result<()> {
    let family = libc::sa_family_t::try_from(libc::AF_INET).map_err(io::Error::other)?;
    let to = libc::sockaddr_in {
        sin_family: family,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes([127, 0, 0, 1]),
        },
        sin_zero: [0; 8],
    };
    let size =
        libc::socklen_t::try_from(size_of::<libc::sockaddr_in>()).map_err(io::Error::other)?;
    let flags = libc::MSG_FASTOPEN | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let byte = [b'x'];
    // SAFETY: buffer and address live over the call, and their true sizes are passed.
    let value = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            byte.as_ptr().cast(),
            byte.len(),
            flags,
            (&raw const to).cast(),
            size,
        )
    };
    answer(c_long::try_from(value).map_err(io::Error::other)?).map(drop)
}

/// Tries it.
pub(crate) fn poke(poke: Poke) -> io::Result<c_long> {
    let (number, [a, b, c, d, e, f]) = poke.words();
    // SAFETY: each row of the table passes null for every pointer parameter of its call, so the kernel
    // reads and writes no memory of ours whether it refuses or not. CLONE_NEWUSER without CLONE_VM
    // makes an ordinary copy of the process, which leaves below.
    let value = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if matches!(poke, Poke::CloneUser) && value == 0 {
        leave(0);
    }
    answer(value)
}
