//! Calls that open the kernel, or that act on the machine as a whole. Each names nothing, so that a
//! kernel that lets it through does nothing either.

use std::{fs::File, os::fd::AsFd as _, time::Duration};

use nix::{
    kmod::{DeleteModuleFlags, delete_module},
    mount::{MntFlags, MsFlags},
    sched::CloneFlags,
    sys::personality::{self, Persona},
};
use protocol::escape::Ground;
use rustix::mount::{FsOpenFlags, FsPickFlags, MoveMountFlags, OpenTreeFlags};
use worker_jail::Outcome;

use super::{kernels, ours};
use crate::{
    Own,
    outcome::{by_filter, from, of},
};

pub(super) const TABLE: &[Own] = &[
    ours(
        "unshare-user",
        &[
            "scenario runtime: SYS_ADMIN",
            "sandbox escape: a namespace of its own",
        ],
        "make a user namespace",
        |_| unshare(CloneFlags::CLONE_NEWUSER),
    ),
    ours(
        "unshare-all",
        &["scenario runtime: SYS_ADMIN"],
        "make a user namespace and all others in it",
        |_| {
            unshare(
                CloneFlags::CLONE_NEWUSER
                    | CloneFlags::CLONE_NEWNS
                    | CloneFlags::CLONE_NEWPID
                    | CloneFlags::CLONE_NEWNET,
            )
        },
    ),
    ours(
        "old-personality",
        &["bypass 8"],
        "switch to a personality that maps at zero",
        |_| by_filter(personality::set(Persona::MMAP_PAGE_ZERO)),
    ),
    kernels(
        "unshare-mounts",
        &["scenario runtime: SYS_ADMIN"],
        "make a mount namespace",
        |_| unshare(CloneFlags::CLONE_NEWNS),
    ),
    kernels(
        "unshare-network",
        &["scenario runtime: SYS_ADMIN"],
        "make a network namespace",
        |_| unshare(CloneFlags::CLONE_NEWNET),
    ),
    kernels(
        "unshare-processes",
        &["scenario runtime: SYS_ADMIN"],
        "make a pid namespace",
        |_| unshare(CloneFlags::CLONE_NEWPID),
    ),
    kernels(
        "unshare-ipc",
        &["scenario runtime: SYS_ADMIN"],
        "make an IPC namespace",
        |_| unshare(CloneFlags::CLONE_NEWIPC),
    ),
    kernels(
        "unshare-names",
        &["scenario runtime: SYS_ADMIN"],
        "make a namespace of host names",
        |_| unshare(CloneFlags::CLONE_NEWUTS),
    ),
    kernels(
        "unshare-cgroups",
        &[
            "scenario runtime: SYS_ADMIN",
            "scenario kernel: release_agent",
        ],
        "make a cgroup namespace",
        |_| unshare(CloneFlags::CLONE_NEWCGROUP),
    ),
    kernels(
        "join-hands-namespaces",
        &["sandbox escape: another process' namespaces"],
        "enter hands' namespaces",
        join_hands,
    ),
    kernels(
        "join-supervisor-namespaces",
        &["sandbox escape: another process' namespaces"],
        "enter the supervisor's namespaces",
        join_supervisor,
    ),
    kernels("chroot", &["certificate"], "change its root", |_| {
        from(nix::unistd::chroot("/"))
    }),
    kernels("pivot-root", &["certificate"], "exchange its root", |_| {
        from(nix::unistd::pivot_root(".", "."))
    }),
    kernels(
        "mount-tmpfs",
        &["scenario runtime: SYS_ADMIN"],
        "mount memory over a folder",
        mount_tmpfs,
    ),
    kernels(
        "mount-proc",
        &["scenario kernel: pid namespace exposure"],
        "mount a second proc",
        mount_proc,
    ),
    kernels(
        "mount-bind",
        &["scenario runtime: writable host mount"],
        "bind a folder onto another",
        mount_bind,
    ),
    kernels(
        "mount-cgroup",
        &["scenario kernel: release_agent"],
        "mount a cgroup hierarchy",
        mount_cgroup,
    ),
    kernels(
        "mount-disk",
        &[
            "scenario runtime: privileged",
            "sandbox escape: the host's disk",
        ],
        "mount the host's first disk",
        mount_disk,
    ),
    kernels("unmount", &["certificate"], "take a mask off proc", |_| {
        from(nix::mount::umount2("/proc/kcore", MntFlags::MNT_DETACH))
    }),
    kernels(
        "new-filesystem",
        &["certificate"],
        "prepare a file system the new way",
        |_| from(rustix::mount::fsopen("tmpfs", FsOpenFlags::empty())),
    ),
    kernels(
        "pick-filesystem",
        &["certificate"],
        "pick a mounted file system to change it",
        |_| {
            from(rustix::mount::fspick(
                rustix::fs::CWD,
                "/",
                FsPickFlags::empty(),
            ))
        },
    ),
    kernels(
        "clone-tree",
        &["certificate"],
        "clone the tree of mounts",
        |_| {
            from(rustix::mount::open_tree(
                rustix::fs::CWD,
                "/",
                OpenTreeFlags::OPEN_TREE_CLONE,
            ))
        },
    ),
    kernels("move-mount", &["certificate"], "move a mount", move_mount),
    kernels(
        "remove-module",
        &["scenario runtime: SYS_MODULE"],
        "remove a kernel module that is not there",
        |_| {
            from(delete_module(
                c"provost_none",
                DeleteModuleFlags::O_NONBLOCK,
            ))
        },
    ),
    kernels(
        "load-module",
        &["scenario runtime: SYS_MODULE"],
        "load a kernel module of no bytes",
        |_| from(nix::kmod::init_module(&[], c"")),
    ),
    kernels(
        "load-module-file",
        &["scenario runtime: SYS_MODULE"],
        "load a kernel module from a file",
        load_module_file,
    ),
    kernels("host-name", &["certificate"], "name the host", host_name),
    kernels(
        "set-clock",
        &["certificate"],
        "set the host's clock to what it says",
        set_clock,
    ),
    kernels(
        "pipe-splice",
        &["scenario kernel: Dirty Pipe"],
        "splice a read-only file into a pipe and write there",
        dirty_pipe,
    ),
    kernels(
        "kernel-log",
        &["certificate"],
        "read the kernel's log",
        |_| of(File::open("/dev/kmsg")),
    ),
    kernels(
        "host-memory",
        &["scenario runtime: privileged"],
        "open the machine's memory",
        |_| of(File::open("/dev/mem")),
    ),
    kernels(
        "virtual-machines",
        &["scenario runtime: privileged"],
        "open the hypervisor",
        |_| of(File::options().read(true).write(true).open("/dev/kvm")),
    ),
    kernels(
        "user-file-systems",
        &["scenario runtime: SYS_ADMIN"],
        "open FUSE",
        |_| of(File::options().read(true).write(true).open("/dev/fuse")),
    ),
    kernels(
        "tunnels",
        &["scenario runtime: privileged"],
        "open a network tunnel",
        |_| of(File::options().read(true).write(true).open("/dev/net/tun")),
    ),
    kernels(
        "release-agent",
        &[
            "scenario kernel: release_agent",
            "sandbox escape: cgroup release agent",
        ],
        "write a cgroup's release agent",
        release_agent,
    ),
    kernels(
        "kernel-settings",
        &["scenario runtime: privileged"],
        "write a setting of the kernel's",
        |_| {
            of(File::options()
                .append(true)
                .open("/proc/sys/kernel/hostname"))
        },
    ),
];

fn unshare(flags: CloneFlags) -> Outcome {
    by_filter(nix::sched::unshare(flags))
}

fn join(pid: i32) -> Outcome {
    let mut last = of::<()>(Err(std::io::ErrorKind::NotFound.into()));
    for kind in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        let opened = File::open(format!("/proc/{pid}/ns/{kind}"));
        last = match opened {
            Ok(file) => from(nix::sched::setns(file, CloneFlags::empty())),
            Err(error) => of::<()>(Err(error)),
        };
        if !last.refused {
            return last;
        }
    }
    last
}

fn join_hands(ground: &Ground) -> Outcome {
    join(ground.hands)
}

fn join_supervisor(ground: &Ground) -> Outcome {
    join(ground.plan.supervisor_pid)
}

fn mount(source: &str, target: &str, kind: &str, flags: MsFlags) -> Outcome {
    from(nix::mount::mount(
        Some(source),
        target,
        Some(kind),
        flags,
        None::<&str>,
    ))
}

fn mount_tmpfs(ground: &Ground) -> Outcome {
    mount("none", &ground.plan.tmp, "tmpfs", MsFlags::empty())
}

fn mount_proc(ground: &Ground) -> Outcome {
    mount("proc", &ground.plan.tmp, "proc", MsFlags::empty())
}

fn mount_bind(ground: &Ground) -> Outcome {
    mount("/", &ground.plan.tmp, "none", MsFlags::MS_BIND)
}

fn mount_cgroup(ground: &Ground) -> Outcome {
    mount("cgroup", &ground.plan.tmp, "cgroup2", MsFlags::empty())
}

fn mount_disk(ground: &Ground) -> Outcome {
    mount("/dev/sda1", &ground.plan.tmp, "ext4", MsFlags::MS_RDONLY)
}

fn move_mount(_: &Ground) -> Outcome {
    let here = rustix::fs::CWD;
    from(rustix::mount::move_mount(
        here,
        "/proc",
        here,
        "/tmp",
        MoveMountFlags::empty(),
    ))
}

fn load_module_file(_: &Ground) -> Outcome {
    use nix::kmod::{ModuleInitFlags, finit_module};
    let file = match File::open("/proc/self/exe") {
        Ok(file) => file,
        Err(error) => return of::<()>(Err(error)),
    };
    from(finit_module(file, c"", ModuleInitFlags::empty()))
}

/// As it is named.
fn host_name(_: &Ground) -> Outcome {
    let name = nix::unistd::gethostname().unwrap_or_default();
    from(nix::unistd::sethostname(name))
}

/// To what it says: a host that lets it through loses nothing.
fn set_clock(_: &Ground) -> Outcome {
    let clock = rustix::time::ClockId::Realtime;
    from(rustix::time::clock_settime(
        clock,
        rustix::time::clock_gettime(clock),
    ))
}

/// Splices a byte of a read-only file into a pipe, then writes to the pipe: on a kernel with the fault
/// the page that the file lives in is overwritten.
fn dirty_pipe(ground: &Ground) -> Outcome {
    use std::io::Write as _;
    // A file of its own, opened for reading: the fault is the kernel's, and no file of the host is hurt.
    let path = format!("{}/.pipe-{}", ground.plan.tmp, std::process::id());
    let before = b"as it was".to_vec();
    let tried = || -> std::io::Result<()> {
        std::fs::write(&path, &before)?;
        let file = File::open(&path)?;
        let (read, write) = nix::unistd::pipe()?;
        // Filled and drained once: every slot of the ring keeps the flag that allowed merging.
        let mut write = File::from(write);
        let chunk = [0_u8; 4096];
        for _ in 0..16 {
            write.write_all(&chunk)?;
        }
        let mut drain = File::from(read.try_clone()?);
        let mut sink = vec![0_u8; 65_536];
        std::io::Read::read_exact(&mut drain, &mut sink)?;
        let mut offset = 1_i64;
        nix::fcntl::splice(
            file.as_fd(),
            Some(&mut offset),
            write.as_fd(),
            None,
            1,
            nix::fcntl::SpliceFFlags::empty(),
        )?;
        write.write_all(b"DIRTY")?;
        Ok(())
    };
    let done = tried();
    std::thread::sleep(Duration::from_millis(1));
    let after = std::fs::read(&path).unwrap_or_default();
    let _ = std::fs::remove_file(&path);
    match (before == after || after.is_empty(), done) {
        (false, _) => crate::outcome::escaped("a read-only file changed"),
        (true, Ok(())) => crate::outcome::refused("the file is as it was"),
        (true, Err(error)) => of::<()>(Err(error)),
    }
}

fn release_agent(_: &Ground) -> Outcome {
    let mut last = of::<()>(Err(std::io::ErrorKind::NotFound.into()));
    for path in [
        "/sys/fs/cgroup/release_agent",
        "/sys/fs/cgroup/memory/release_agent",
        "/sys/fs/cgroup/cgroup.procs",
        "/sys/kernel/uevent_helper",
    ] {
        last = of(File::options().append(true).open(path));
        if !last.refused {
            return last;
        }
    }
    last
}
