//! The attacks themselves.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    net::UdpSocket,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::{
            fs::{FileTypeExt as _, OpenOptionsExt as _},
            net::UnixStream,
        },
    },
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        stat::{Mode, SFlag, UtimensatFlags, makedev, mknod, utimensat},
        time::TimeSpec,
    },
    unistd::{Pid, geteuid},
};
use protocol::jail::WORKER_INSIDE;
use rustix::net::{AddressFamily, SocketType};
use worker_jail::Outcome;

use super::{
    Attack,
    Bare::{Kernel, Succeeds},
    Ground, of, refused, succeeded,
};

const fn attack(name: &'static str, bare: super::Bare, run: fn(&Ground) -> Outcome) -> Attack {
    Attack { name, bare, run }
}

/// Everything that the jail's library does not have.
pub const OWN: &[Attack] = &[
    attack("utime-outside", Succeeds, utime_outside),
    attack("reopen-by-path-handle", Succeeds, reopen),
    attack("walk-up-from-workspace", Succeeds, walk_up),
    attack("through-own-root/ES-030", Succeeds, own_root),
    attack("through-own-link/ES-030", Succeeds, own_link),
    attack("through-hands-root", Succeeds, hands_root),
    attack("environment-of-hands/ES-022", Succeeds, environ_of_hands),
    attack("list-processes", Succeeds, list_processes),
    attack("own-environment/ES-029", Succeeds, environment),
    attack("open-descriptors/ES-007", Succeeds, descriptors),
    attack("sockets-in-sight/ES-009", Succeeds, sockets_in_sight),
    attack("send-udp-to-host", Succeeds, send_udp),
    attack("shared-memory-of-host", Succeeds, shared_memory),
    attack("segments-of-host", Succeeds, segments),
    attack("devices-beyond-five", Succeeds, devices),
    attack("new-privileges", Succeeds, new_privileges),
    attack("setuid-file", Succeeds, setuid_file),
    attack("slow-supervisor", Succeeds, slow_supervisor),
    attack("slow-hands", Succeeds, slow_hands),
    attack("pin-hands", Succeeds, pin_hands),
    attack("fork-bomb", Succeeds, fork_bomb),
    attack("become-root", Kernel, become_root),
    attack("packet-socket", Kernel, packet_socket),
    attack("raw-socket", Kernel, raw_socket),
    attack("remount-writable", Kernel, remount),
    attack("make-device", Kernel, make_device),
    attack("write-core-pattern", Kernel, write_core_pattern),
    attack("write-sysrq/ES-011", Kernel, write_sysrq),
    attack("write-own-program", Kernel, write_program),
    attack("raise-own-limit", Kernel, raise_limit),
    attack("write-below-usr", Kernel, write_usr),
];

fn outside(ground: &Ground) -> &Path {
    Path::new(&ground.plan.outside_file)
}

fn reads(path: impl AsRef<Path>) -> io::Result<()> {
    File::open(path).and_then(|mut file| file.read(&mut [0; 1]).map(drop))
}

fn pid(number: i32) -> Pid {
    Pid::from_raw(number)
}

fn utime_outside(ground: &Ground) -> Outcome {
    let now = TimeSpec::UTIME_NOW;
    let flags = UtimensatFlags::FollowSymlink;
    of(
        utimensat(nix::fcntl::AT_FDCWD, outside(ground), &now, &now, flags)
            .map_err(io::Error::from),
    )
}

/// A handle that opens nothing, opened again by its name in proc.
fn reopen(ground: &Ground) -> Outcome {
    let handle = File::options()
        .read(true)
        .custom_flags(nix::libc::O_PATH)
        .open(outside(ground));
    of(handle.and_then(|handle| reads(format!("/proc/self/fd/{}", handle.as_raw_fd()))))
}

/// More steps up than any path has, then down by the host's names.
fn walk_up(ground: &Ground) -> Outcome {
    let up = "../".repeat(40);
    let down = ground.plan.outside_file.trim_start_matches('/');
    of(reads(
        Path::new(&ground.plan.workspace).join(format!("{up}{down}")),
    ))
}

fn own_root(ground: &Ground) -> Outcome {
    let file = &ground.plan.outside_file;
    let tried = ["self", "thread-self"].map(|who| reads(format!("/proc/{who}/root{file}")));
    let worked = tried.iter().any(Result::is_ok);
    let [first, _] = tried;
    if worked { succeeded("read") } else { of(first) }
}

/// A link of its own to a link of proc.
fn own_link(ground: &Ground) -> Outcome {
    let link = format!("{}/.link-{}", ground.plan.tmp, std::process::id());
    let target = format!("/proc/self/root{}", ground.plan.outside_file);
    let tried = std::os::unix::fs::symlink(target, &link).and_then(|()| reads(&link));
    let _ = fs::remove_file(&link);
    of(tried)
}

fn hands_root(ground: &Ground) -> Outcome {
    let path = format!("/proc/{}/root{}", ground.hands, ground.plan.outside_file);
    of(reads(path))
}

fn environ_of_hands(ground: &Ground) -> Outcome {
    of(File::open(format!("/proc/{}/environ", ground.hands)))
}

fn list_processes(ground: &Ground) -> Outcome {
    let hands = ground.hands.to_string();
    let seen = fs::read_dir("/proc").map(|entries| {
        let mut names = entries.flatten().map(|entry| entry.file_name());
        names.any(|name| name.to_str() == Some(&hands))
    });
    match seen {
        Ok(true) => succeeded("listed"),
        Ok(false) => refused("not listed"),
        Err(error) => of::<()>(Err(error)),
    }
}

/// The documented names, and those that a shell sets by itself.
const NAMES: [&str; 12] = [
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "TERM", "PWD", "OLDPWD", "SHLVL",
    "_",
];

/// Any variable beyond the documented ones, or the supervisor's marker in any form of it.
fn environment(ground: &Ground) -> Outcome {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if !NAMES.contains(&name.as_str()) {
            return succeeded(&name);
        }
    }
    for path in ["/proc/self/environ", "/proc/thread-self/environ"] {
        let bytes = fs::read(path).unwrap_or_default();
        if String::from_utf8_lossy(&bytes).contains(&ground.marker) {
            return succeeded(path);
        }
    }
    refused("only the documented names")
}

/// Anything open beyond 0, 1 and 2.
fn descriptors(_: &Ground) -> Outcome {
    let mut more = Vec::new();
    for number in 3..1_024 {
        if fs::read_link(format!("/proc/self/fd/{number}")).is_ok() {
            more.push(number);
        }
    }
    match more.first() {
        Some(number) => succeeded(&format!("{number} is open")),
        None => refused("0, 1 and 2"),
    }
}

/// Any Unix socket with a name that takes a connection.
fn sockets_in_sight(ground: &Ground) -> Outcome {
    let roots = [
        "/run",
        "/var/run",
        "/tmp",
        "/dev",
        &ground.plan.outside_folder,
    ];
    let mut open: Vec<(PathBuf, u32)> = roots.iter().map(|root| (root.into(), 0)).collect();
    let mut looked = 0;
    while let Some((folder, depth)) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            looked += 1;
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_socket() && UnixStream::connect(entry.path()).is_ok() {
                return succeeded("connected");
            }
            if kind.is_dir() && depth < 3 && looked < 20_000 {
                open.push((entry.path(), depth + 1));
            }
        }
    }
    refused("none takes a connection")
}

/// Only an answer counts: a datagram into a network of its own goes nowhere.
fn send_udp(ground: &Ground) -> Outcome {
    let tried = || -> io::Result<()> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(Duration::from_millis(500)))?;
        socket.send_to(b"conformance", ("127.0.0.1", ground.udp_port))?;
        socket.recv(&mut [0; 16]).map(drop)
    };
    of(tried())
}

fn shared_memory(ground: &Ground) -> Outcome {
    of(reads(format!("/dev/shm/{}", ground.shm)))
}

fn segments(ground: &Ground) -> Outcome {
    let text = match fs::read_to_string("/proc/sysvipc/shm") {
        Ok(text) => text,
        Err(error) => return of::<()>(Err(error)),
    };
    let wanted = ground.segment.map(|id| id.to_string());
    let seen = text.lines().any(|line| {
        let id = line.split_whitespace().nth(1);
        id.is_some() && id == wanted.as_deref()
    });
    if seen {
        succeeded("listed")
    } else {
        refused("not listed")
    }
}

fn devices(_: &Ground) -> Outcome {
    const KNOWN: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
    for entry in fs::read_dir("/dev").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let device = entry
            .file_type()
            .is_ok_and(|kind| kind.is_char_device() || kind.is_block_device());
        if device && !KNOWN.contains(&name.as_str()) {
            return succeeded(&name);
        }
    }
    refused("the five")
}

fn new_privileges(_: &Ground) -> Outcome {
    match fs::read_to_string("/proc/self/status") {
        Ok(text) if text.contains("NoNewPrivs:\t1") => refused("no_new_privs is set"),
        Ok(_) => succeeded("no_new_privs is not set"),
        Err(error) => of::<()>(Err(error)),
    }
}

/// The setuid copy of this very program that the workspace holds.
fn setuid_file(ground: &Ground) -> Outcome {
    let Ok(text) = serde_json::to_string(ground) else {
        return succeeded("the ground has no text");
    };
    let program = Path::new(&ground.plan.workspace).join("setuid");
    match Command::new(program)
        .args(["attack", "become-root", &text])
        .output()
    {
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains("\tsucceeded\t") => {
            succeeded("root")
        }
        Ok(_) => refused("not root"),
        Err(error) => of::<()>(Err(error)),
    }
}

/// How many processes the bomb makes at most, also bare.
const BOMB: usize = 600;

/// Makes processes that wait, until the kernel refuses one or the bound is reached; then ends them.
fn fork_bomb(_: &Ground) -> Outcome {
    let mut made = Vec::new();
    let mut failed = None;
    while made.len() < BOMB && failed.is_none() {
        match Command::new("/bin/sleep").arg("60").spawn() {
            Ok(child) => made.push(child),
            Err(error) => failed = Some(error),
        }
    }
    let count = made.len();
    for child in &mut made {
        // One that cannot be ended is ended with its command, and found by the residue check.
        let _ = child.kill().and_then(|()| child.wait());
    }
    match failed {
        Some(error) if error.kind() == io::ErrorKind::WouldBlock => {
            refused(&format!("EAGAIN after {count}"))
        }
        Some(error) => succeeded(&error.to_string()),
        None => succeeded(&format!("{count} processes")),
    }
}

fn become_root(_: &Ground) -> Outcome {
    if geteuid().is_root() {
        return succeeded("root");
    }
    of(nix::unistd::setuid(0.into()).map_err(io::Error::from))
}

fn slow(number: i32) -> Outcome {
    let Some(pid) = rustix::process::Pid::from_raw(number) else {
        return refused("no pid");
    };
    of(rustix::process::setpriority_process(Some(pid), 19).map_err(io::Error::from))
}

fn slow_supervisor(ground: &Ground) -> Outcome {
    slow(ground.plan.supervisor_pid)
}

fn slow_hands(ground: &Ground) -> Outcome {
    slow(ground.hands)
}

/// To the processors that it may use anyway.
fn pin_hands(ground: &Ground) -> Outcome {
    let set = sched_getaffinity(pid(0)).unwrap_or_else(|_| CpuSet::new());
    of(sched_setaffinity(pid(ground.hands), &set).map_err(io::Error::from))
}

fn socket(family: AddressFamily, kind: SocketType) -> Outcome {
    let made: io::Result<OwnedFd> =
        rustix::net::socket(family, kind, None).map_err(io::Error::from);
    of(made)
}

fn packet_socket(_: &Ground) -> Outcome {
    socket(AddressFamily::PACKET, SocketType::RAW)
}

fn raw_socket(_: &Ground) -> Outcome {
    socket(AddressFamily::INET, SocketType::RAW)
}

fn remount(_: &Ground) -> Outcome {
    let flags = rustix::mount::MountFlags::BIND;
    of(rustix::mount::mount_remount("/usr", flags, "").map_err(io::Error::from))
}

fn make_device(ground: &Ground) -> Outcome {
    let path = format!("{}/.device-{}", ground.plan.tmp, std::process::id());
    let made = mknod(
        path.as_str(),
        SFlag::S_IFCHR,
        Mode::S_IRUSR | Mode::S_IWUSR,
        makedev(1, 1),
    );
    let _ = fs::remove_file(&path);
    of(made.map_err(io::Error::from))
}

fn opens_for_writing(path: &str) -> Outcome {
    of(File::options().append(true).open(path))
}

fn write_core_pattern(_: &Ground) -> Outcome {
    opens_for_writing("/proc/sys/kernel/core_pattern")
}

fn write_sysrq(_: &Ground) -> Outcome {
    opens_for_writing("/proc/sysrq-trigger")
}

/// The worker where there is one, and the program that runs.
fn write_program(_: &Ground) -> Outcome {
    if Path::new(WORKER_INSIDE).exists() {
        let worker = opens_for_writing(WORKER_INSIDE);
        if !worker.refused {
            return worker;
        }
    }
    opens_for_writing("/proc/self/exe")
}

fn raise_limit(_: &Ground) -> Outcome {
    let raised = getrlimit(Resource::RLIMIT_NPROC).and_then(|(_, hard)| {
        let more = hard.saturating_add(1);
        if more == hard {
            return Err(nix::errno::Errno::EPERM);
        }
        setrlimit(Resource::RLIMIT_NPROC, more, more)
    });
    of(raised.map_err(io::Error::from))
}

fn write_usr(_: &Ground) -> Outcome {
    let path = format!("/usr/bin/.conformance-{}", std::process::id());
    let made = File::create_new(&path);
    let _ = fs::remove_file(&path);
    of(made)
}
