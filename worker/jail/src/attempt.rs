//! Single attempts at walls, shared by the probes and the attacks: each does one thing and says what
//! the kernel answered.

mod objects;
mod twins;

use std::{
    fs::{self, File},
    io::{self, Read as _},
    net::{SocketAddr, TcpStream, UdpSocket},
    os::{
        fd::AsFd as _,
        linux::net::SocketAddrExt as _,
        unix::{
            fs::{OpenOptionsExt as _, PermissionsExt as _},
            net::{SocketAddr as UnixAddress, UnixStream},
        },
    },
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::signal::kill,
    unistd::{Pid, getppid},
};
use protocol::jail::{ProbePlan, WORKER_INSIDE};

use crate::{command::NOWHERE, poke::Poke, sys};

pub(crate) use objects::{
    add_key, keyring, make_device, open_device, opens_null, queue_of_host, segments,
    shared_memory_of_host,
};
pub(crate) use twins::{
    changes_own_mode, lists_workspace, reads_own_limits, sees_itself, signals_itself,
    talks_abstract, talks_by_path, talks_over_a_pair, writes_tmp,
};

/// What the kernel answered to an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Whether it was refused.
    pub refused: bool,
    /// The answer (`EACCES`, `succeeded`).
    pub answer: String,
}

/// Where attempts find what they try to reach.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub(crate) plan: &'a ProbePlan,
    /// Hands, as seen from here.
    pub(crate) hands: i32,
}

fn name(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(errno) => format!("{:?}", Errno::from_raw(errno)),
        None => error.kind().to_string(),
    }
}

impl Outcome {
    /// Any error is a refusal.
    pub(crate) fn of<T>(result: io::Result<T>) -> Self {
        match result {
            Ok(_) => Self {
                refused: false,
                answer: "succeeded".to_owned(),
            },
            Err(error) => Self {
                refused: true,
                answer: name(&error),
            },
        }
    }

    /// Only the given errors are refusals; every other means that the kernel looked at the
    /// arguments, so the call was let through.
    fn only<T>(result: io::Result<T>, refusals: &[i32]) -> Self {
        let errno = result.as_ref().err().and_then(io::Error::raw_os_error);
        let refused = errno.is_some_and(|errno| refusals.contains(&errno));
        Self {
            refused,
            ..Self::of(result)
        }
    }

    /// Refused by a seccomp filter.
    fn by_filter<T>(result: io::Result<T>) -> Self {
        Self::only(result, &[libc::EPERM, libc::ENOSYS])
    }

    /// A socket family refused by a filter, or absent from the kernel.
    fn by_family<T>(result: io::Result<T>) -> Self {
        let absent = [
            libc::EAFNOSUPPORT,
            libc::EPROTONOSUPPORT,
            libc::ESOCKTNOSUPPORT,
        ];
        let [a, b, c] = absent;
        Self::only(result, &[libc::EPERM, libc::ENOSYS, a, b, c])
    }
}

fn workspace(ground: &Ground<'_>) -> PathBuf {
    PathBuf::from(&ground.plan.workspace)
}

/// A name of this process's own below a folder.
fn own(folder: &str, stem: &str) -> PathBuf {
    Path::new(folder).join(format!(".provost-{stem}-{}", std::process::id()))
}

/// Makes a file and removes it again.
fn make_and_remove(path: &Path) -> io::Result<()> {
    File::options().write(true).create_new(true).open(path)?;
    fs::remove_file(path)
}

// Files.

pub(crate) fn read_outside(ground: &Ground<'_>) -> Outcome {
    Outcome::of(File::open(&ground.plan.outside_file).and_then(|mut file| file.read(&mut [0; 1])))
}

pub(crate) fn list_outside(ground: &Ground<'_>) -> Outcome {
    Outcome::of(fs::read_dir(&ground.plan.outside_folder))
}

/// By the path that leads out through another process: its root is the host's.
pub(crate) fn read_through_proc(ground: &Ground<'_>) -> Outcome {
    let path = format!(
        "/proc/{}/root{}",
        ground.plan.supervisor_pid, ground.plan.outside_file
    );
    Outcome::of(File::open(path))
}

pub(crate) fn write_outside(ground: &Ground<'_>) -> Outcome {
    Outcome::of(make_and_remove(&own(&ground.plan.outside_folder, "probe")))
}

/// A folder, which is no call that kills.
pub(crate) fn make_folder_outside(ground: &Ground<'_>) -> Outcome {
    let path = own(&ground.plan.outside_folder, "folder");
    Outcome::of(fs::create_dir(&path).and_then(|()| fs::remove_dir(&path)))
}

/// Over an existing file, opened for appending: nothing is changed.
pub(crate) fn append_outside(ground: &Ground<'_>) -> Outcome {
    Outcome::of(File::options().append(true).open(&ground.plan.outside_file))
}

/// The root of the view.
pub(crate) fn write_root(_: &Ground<'_>) -> Outcome {
    Outcome::of(make_and_remove(&own("/", "probe")))
}

pub(crate) fn write_workspace(ground: &Ground<'_>) -> Outcome {
    Outcome::of(make_and_remove(&own(&ground.plan.workspace, "probe")))
}

/// The mode that it has already.
pub(crate) fn chmod_outside(ground: &Ground<'_>) -> Outcome {
    let path = &ground.plan.outside_file;
    let mode = fs::metadata(path).map_or(0o600, |found| found.permissions().mode());
    Outcome::of(fs::set_permissions(path, fs::Permissions::from_mode(mode)))
}

pub(crate) fn read_hidden(ground: &Ground<'_>, hidden: &str) -> Outcome {
    let path = workspace(ground).join(hidden);
    Outcome::of(
        File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path),
    )
}

/// A link in the private /tmp, then through it.
pub(crate) fn symlink_outside(ground: &Ground<'_>) -> Outcome {
    let link = own(&ground.plan.tmp, "link");
    let tried = std::os::unix::fs::symlink(&ground.plan.outside_file, &link)
        .and_then(|()| File::open(&link).map(drop));
    let _ = fs::remove_file(&link);
    Outcome::of(tried)
}

/// A second name for a file outside.
pub(crate) fn hardlink_outside(ground: &Ground<'_>) -> Outcome {
    let link = own(&ground.plan.tmp, "name");
    let tried = fs::hard_link(&ground.plan.outside_file, &link);
    let _ = fs::remove_file(&link);
    Outcome::of(tried)
}

/// What the kernel would pick first when memory ends.
pub(crate) fn write_proc(ground: &Ground<'_>) -> Outcome {
    let path = format!("/proc/{}/oom_score_adj", ground.plan.supervisor_pid);
    let tried = fs::read_to_string(&path).and_then(|now| fs::write(&path, now));
    Outcome::of(tried)
}

/// The kernel's memory, through a file that a fresh proc would have.
pub(crate) fn read_kernel(_: &Ground<'_>) -> Outcome {
    for path in ["/proc/kcore", "/proc/kallsyms", "/proc/keys", "/proc/kmsg"] {
        let opened = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path);
        if let Ok(mut file) = opened
            && file.read(&mut [0; 1]).is_ok_and(|read| read > 0)
        {
            return Outcome {
                refused: false,
                answer: format!("{path} told something"),
            };
        }
    }
    Outcome {
        refused: true,
        answer: "masked".to_owned(),
    }
}

// Network.

/// How long a connection may take before it counts as on its way.
const ON_ITS_WAY: Duration = Duration::from_millis(100);

/// A connection that does not answer in time was routed: that is success enough.
fn dial(address: SocketAddr) -> Outcome {
    match TcpStream::connect_timeout(&address, ON_ITS_WAY) {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Outcome {
            refused: false,
            answer: "routed".to_owned(),
        },
        other => Outcome::of(other),
    }
}

pub(crate) fn tcp_host(ground: &Ground<'_>) -> Outcome {
    dial(SocketAddr::from(([127, 0, 0, 1], ground.plan.tcp_port)))
}

pub(crate) fn tcp_nowhere(_: &Ground<'_>) -> Outcome {
    match NOWHERE.parse() {
        Ok(address) => dial(address),
        Err(_) => Outcome {
            refused: false,
            answer: "not an address".to_owned(),
        },
    }
}

pub(crate) fn tcp_multipath(_: &Ground<'_>) -> Outcome {
    let kind = libc::SOCK_STREAM;
    Outcome::by_family(sys::socket(libc::AF_INET, kind, libc::IPPROTO_MPTCP))
}

pub(crate) fn tcp_fast_open(ground: &Ground<'_>) -> Outcome {
    let tried = || -> io::Result<()> {
        let socket = sys::socket(libc::AF_INET, libc::SOCK_STREAM, 0)?;
        sys::send_fast_open(socket.as_fd(), ground.plan.tcp_port)
    };
    let outcome = tried();
    let errno = outcome.as_ref().err().and_then(io::Error::raw_os_error);
    if errno == Some(libc::EINPROGRESS) {
        return Outcome {
            refused: false,
            answer: "on its way".to_owned(),
        };
    }
    Outcome::only(outcome, &[libc::EPERM, libc::EACCES, libc::ENOSYS])
}

pub(crate) fn udp_nowhere(_: &Ground<'_>) -> Outcome {
    Outcome::of(UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.connect(NOWHERE)))
}

pub(crate) fn vsock(_: &Ground<'_>) -> Outcome {
    Outcome::by_family(sys::socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0))
}

pub(crate) fn netlink(_: &Ground<'_>) -> Outcome {
    Outcome::by_family(sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, 0))
}

pub(crate) fn alg(_: &Ground<'_>) -> Outcome {
    Outcome::by_family(sys::socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0))
}

pub(crate) fn unix_path(ground: &Ground<'_>) -> Outcome {
    Outcome::of(UnixStream::connect(&ground.plan.unix_path))
}

pub(crate) fn unix_abstract(ground: &Ground<'_>) -> Outcome {
    let address = UnixAddress::from_abstract_name(&ground.plan.unix_abstract);
    Outcome::of(address.and_then(|address| UnixStream::connect_addr(&address)))
}

// Processes.

/// Whether a number of the host's is, by chance, one of the probe's own inside the pid namespace.
fn is_ours(ground: &Ground<'_>, pid: i32) -> bool {
    let mother = getppid().as_raw();
    ground.hands == 1 && (mother..mother.saturating_add(64)).contains(&pid)
}

fn ours() -> Outcome {
    Outcome {
        refused: true,
        answer: "the number is one of the probe's own inside".to_owned(),
    }
}

fn signal(pid: i32) -> Outcome {
    Outcome::of(kill(Pid::from_raw(pid), None).map_err(io::Error::from))
}

pub(crate) fn signal_supervisor(ground: &Ground<'_>) -> Outcome {
    let pid = ground.plan.supervisor_pid;
    if is_ours(ground, pid) {
        ours()
    } else {
        signal(pid)
    }
}

pub(crate) fn signal_hands(ground: &Ground<'_>) -> Outcome {
    signal(ground.hands)
}

pub(crate) fn trace_hands(ground: &Ground<'_>) -> Outcome {
    Outcome::of(sys::poke(Poke::PtraceSeize(ground.hands)))
}

pub(crate) fn trace_supervisor(ground: &Ground<'_>) -> Outcome {
    Outcome::of(sys::poke(Poke::PtraceSeize(ground.plan.supervisor_pid)))
}

pub(crate) fn memory_of_hands(ground: &Ground<'_>) -> Outcome {
    Outcome::of(sys::poke(Poke::ProcessVmReadv(ground.hands)))
}

pub(crate) fn memory_file_of_hands(ground: &Ground<'_>) -> Outcome {
    Outcome::of(File::open(format!("/proc/{}/mem", ground.hands)))
}

pub(crate) fn environment_of_supervisor(ground: &Ground<'_>) -> Outcome {
    let pid = ground.plan.supervisor_pid;
    if is_ours(ground, pid) {
        return ours();
    }
    Outcome::of(File::open(format!("/proc/{pid}/environ")))
}

pub(crate) fn descriptors_of_others(_: &Ground<'_>) -> Outcome {
    Outcome::by_filter(sys::poke(Poke::PidfdGetfd))
}

pub(crate) fn see_hands(ground: &Ground<'_>) -> Outcome {
    Outcome::of(File::open(format!("/proc/{}/status", ground.hands)))
}

pub(crate) fn see_supervisor(ground: &Ground<'_>) -> Outcome {
    let pid = ground.plan.supervisor_pid;
    if is_ours(ground, pid) {
        return ours();
    }
    Outcome::of(File::open(format!("/proc/{pid}/status")))
}

pub(crate) fn limit_hands(ground: &Ground<'_>) -> Outcome {
    Outcome::of(sys::poke(Poke::Prlimit(ground.hands)))
}

pub(crate) fn limit_supervisor(ground: &Ground<'_>) -> Outcome {
    Outcome::of(sys::poke(Poke::Prlimit(ground.plan.supervisor_pid)))
}

// Terminals and calls.

pub(crate) fn controlling_terminal(_: &Ground<'_>) -> Outcome {
    Outcome::of(
        File::options()
            .read(true)
            .custom_flags(libc::O_NOCTTY)
            .open("/dev/tty"),
    )
}

pub(crate) fn type_into_terminal(_: &Ground<'_>) -> Outcome {
    call(Poke::Terminal(0x5412))
}

/// A call that the filter must answer itself.
pub(crate) fn call(poke: Poke) -> Outcome {
    Outcome::by_filter(sys::poke(poke))
}

/// Becomes another program; does not return if that works. The program is this one, with a role
/// that it does not know.
pub(crate) fn execute(_: &Ground<'_>) -> Outcome {
    let argv = [c"provost-worker", c"none"];
    let none: [&std::ffi::CStr; 0] = [];
    let mut answer = Errno::ENOENT;
    for program in [WORKER_INSIDE, "/proc/self/exe"] {
        let Ok(program) = std::ffi::CString::new(program) else {
            continue;
        };
        let Err(errno) = nix::unistd::execve(&program, &argv, &none);
        answer = errno;
        if errno != Errno::ENOENT {
            break;
        }
    }
    Outcome::of::<()>(Err(answer.into()))
}
