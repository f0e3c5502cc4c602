//! The process that waits in a held call: its memory, its descriptors, its paths.
//!
//! Everything is opened by the thread's number and counts only if the call still waits afterwards:
//! a number is given anew only when its thread has left, and a thread that waits has not.

use std::{
    ffi::CString,
    fs::File,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, fs::FileExt as _},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags},
    io::Errno,
    process::{Pid, PidfdFlags, PidfdGetfdFlags},
};

use super::Door;
use crate::sys::{self, Held};

/// Longest path, with its end.
const PATH: usize = 4_096;
/// Memory is read up to the end of a page at a time: the next one may not be there.
const PAGE: u64 = 4_096;

/// A caller and its call.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) door: Arc<Door>,
    pub(super) held: Held,
}

impl Target {
    pub(super) fn new(door: &Arc<Door>, held: Held) -> Self {
        Self {
            door: Arc::clone(door),
            held,
        }
    }

    /// A register as a number of a file, mode or flags: the kernel looks at the low half only.
    pub(super) fn number(&self, register: usize) -> i32 {
        let value = self.register(register) & u64::from(u32::MAX);
        u32::try_from(value).unwrap_or_default().cast_signed()
    }

    pub(super) fn register(&self, register: usize) -> u64 {
        self.held.registers.get(register).copied().unwrap_or(0)
    }

    fn proc(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.held.thread)
    }

    /// `found`, if the call still waits: then it is this very caller's.
    fn certain<T>(&self, found: T) -> Result<T, Errno> {
        if sys::is_valid(self.door.listener.as_fd(), self.held.id) {
            Ok(found)
        } else {
            Err(Errno::SRCH)
        }
    }

    /// Reads `bytes` of its memory, once.
    pub(super) fn memory(&self, address: u64, bytes: usize) -> Result<Vec<u8>, Errno> {
        let memory = File::open(self.proc("mem")).map_err(errno)?;
        let mut read = vec![0; bytes];
        memory
            .read_exact_at(&mut read, address)
            .map_err(|_| Errno::FAULT)?;
        self.certain(read)
    }

    /// Reads a text up to its NUL byte, at most `bound` bytes.
    pub(super) fn text(&self, address: u64, bound: usize) -> Result<CString, Errno> {
        let memory = File::open(self.proc("mem")).map_err(errno)?;
        let mut text = Vec::new();
        let mut at = address;
        while text.len() < bound {
            let to_the_end = PAGE - at % PAGE;
            let left = u64::try_from(bound - text.len()).unwrap_or(PAGE);
            let size = usize::try_from(to_the_end.min(left)).unwrap_or(0);
            let mut piece = vec![0; size];
            memory
                .read_exact_at(&mut piece, at)
                .map_err(|_| Errno::FAULT)?;
            if let Some(end) = piece.iter().position(|byte| *byte == 0) {
                text.extend(piece.iter().take(end));
                return self.certain(CString::new(text).map_err(|_| Errno::INVAL)?);
            }
            text.extend(piece);
            at = at.saturating_add(to_the_end);
        }
        Err(Errno::NAMETOOLONG)
    }

    /// A path of its memory.
    pub(super) fn path(&self, register: usize) -> Result<PathBuf, Errno> {
        let text = self.text(self.register(register), PATH)?;
        Ok(Path::new(std::ffi::OsStr::from_bytes(text.as_bytes())).to_owned())
    }

    /// A handle on what one of its descriptors is open on. It opens nothing for reading or writing.
    pub(super) fn file(&self, number: i32) -> Result<OwnedFd, Errno> {
        if number < 0 {
            return Err(Errno::BADF);
        }
        let path = self.proc(&format!("fd/{number}"));
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
            Errno::NOENT => Errno::BADF,
            other => other,
        })?;
        self.certain(file)
    }

    /// A handle on what a path leads to from where the caller stands. No link of proc is followed:
    /// it would lead to what is the supervisor's own; those to descriptors are read as what they say.
    pub(super) fn at(&self, folder: i32, path: &Path, follow: bool) -> Result<OwnedFd, Errno> {
        if path.as_os_str().is_empty() {
            return Err(Errno::NOENT);
        }
        if let Some(number) = descriptor_named(path) {
            return self.file(number);
        }
        let mut flags = OFlags::PATH | OFlags::CLOEXEC;
        if !follow {
            flags |= OFlags::NOFOLLOW;
        }
        let open = |from: &OwnedFd| {
            let resolve = ResolveFlags::NO_MAGICLINKS;
            rustix::fs::openat2(from, path, flags, Mode::empty(), resolve)
        };
        let start = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // An absolute path leads from the root that both have: nothing inside may change it.
        let from = if path.is_absolute() {
            rustix::fs::open("/", start, Mode::empty())?
        } else if folder == libc::AT_FDCWD {
            self.certain(rustix::fs::open(self.proc("cwd"), start, Mode::empty())?)?
        } else {
            self.file(folder)?
        };
        open(&from)
    }

    /// The process of the thread, and its pidfd.
    fn process(&self) -> Result<OwnedFd, Errno> {
        let status = std::fs::read_to_string(self.proc("status")).map_err(errno)?;
        let leader = status
            .lines()
            .find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
            .and_then(Pid::from_raw)
            .ok_or(Errno::SRCH)?;
        let process = rustix::process::pidfd_open(leader, PidfdFlags::empty())?;
        self.certain(process)
    }

    /// A copy of one of its descriptors: the same open file.
    pub(super) fn descriptor(&self, number: i32) -> Result<OwnedFd, Errno> {
        if number < 0 {
            return Err(Errno::BADF);
        }
        let process = self.process()?;
        rustix::process::pidfd_getfd(process, number, PidfdGetfdFlags::empty())
    }

    /// The socket's number that one of its descriptors is open on, from proc.
    pub(super) fn socket_number(&self, number: i32) -> Result<u64, Errno> {
        let link = std::fs::read_link(self.proc(&format!("fd/{number}"))).map_err(errno)?;
        self.certain(socket_of(&link).ok_or(Errno::NOTSOCK)?)
    }

    /// The flags of one of its descriptors: whether it never waits, and whether it closes at exec.
    pub(super) fn flags(&self, number: i32) -> Result<(bool, bool), Errno> {
        let path = self.proc(&format!("fdinfo/{number}"));
        let info = std::fs::read_to_string(path).map_err(errno)?;
        let flags = info
            .lines()
            .find_map(|line| u32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok())
            .ok_or(Errno::BADF)?;
        let has = |flag: OFlags| flags & flag.bits() != 0;
        self.certain((has(OFlags::NONBLOCK), has(OFlags::CLOEXEC)))
    }
}

/// The number of `socket:[NUMBER]`.
pub(super) fn socket_of(link: &Path) -> Option<u64> {
    let text = link.to_str()?.strip_prefix("socket:[")?;
    text.strip_suffix(']')?.parse().ok()
}

/// `/proc/self/fd/N` and its like name a descriptor: C libraries change a mode by that name.
fn descriptor_named(path: &Path) -> Option<i32> {
    let text = path.to_str()?;
    let number = ["/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"]
        .iter()
        .find_map(|start| text.strip_prefix(start))?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|_| digits)
}

pub(super) fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_proc_are_read_by_what_they_say() {
        assert_eq!(descriptor_named(Path::new("/proc/self/fd/7")), Some(7));
        assert_eq!(descriptor_named(Path::new("/dev/fd/0")), Some(0));
        for other in [
            "/proc/self/fd/",
            "/proc/self/fd/7/x",
            "/proc/self/fd/-1",
            "/proc/1/fd/7",
        ] {
            assert_eq!(descriptor_named(Path::new(other)), None, "{other}");
        }
        assert_eq!(socket_of(Path::new("socket:[42]")), Some(42));
        assert_eq!(socket_of(Path::new("pipe:[42]")), None);
    }
}
