//! Other processes: seeing, signalling, tracing, slowing, outliving, outnumbering them.

use std::{
    fs::{self, File},
    io,
    process::Command,
};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    sys::{
        ptrace,
        resource::{Resource, getrlimit, setrlimit},
        signal::{Signal, kill, killpg},
        uio::{RemoteIoVec, process_vm_readv},
    },
    unistd::{Pid, geteuid},
};
use protocol::escape::Ground;
use worker_jail::Outcome;

use super::{kernels, ours};
use crate::{
    Own,
    outcome::{by_filter, escaped, from, of, refused},
};

pub(super) const TABLE: &[Own] = &[
    ours(
        "environment-of-hands",
        &["ES-022", "sandbox secret: another process' environment"],
        "read hands' environment",
        environ_of_hands,
    ),
    ours(
        "command-line-of-supervisor",
        &["ES-022", "scenario kernel: pid namespace exposure"],
        "read the supervisor's arguments",
        cmdline,
    ),
    ours(
        "maps-of-supervisor",
        &["ES-022"],
        "read where the supervisor's memory lies",
        maps,
    ),
    ours(
        "folder-of-supervisor",
        &["scenario kernel: pid namespace exposure"],
        "enter the supervisor's working folder",
        folder,
    ),
    ours(
        "descriptors-of-supervisor",
        &["ES-007", "bypass 20"],
        "list what the supervisor has open",
        listed,
    ),
    ours(
        "list-processes",
        &["scenario kernel: pid namespace exposure"],
        "list hands among all processes",
        list_processes,
    ),
    ours(
        "attach-supervisor",
        &["ES-022"],
        "attach to the supervisor as a debugger",
        attach,
    ),
    ours(
        "trace-own-parent",
        &["ES-022"],
        "let its parent trace it",
        traceme,
    ),
    ours(
        "memory-of-supervisor",
        &["ES-022"],
        "read the supervisor's memory by a call",
        memory,
    ),
    ours(
        "stop-supervisor-politely",
        &["ES-022", "bypass 10"],
        "send the supervisor a signal that only asks",
        continue_supervisor,
    ),
    ours(
        "signal-group-of-supervisor",
        &["bypass 10"],
        "send the supervisor's group a signal that only asks",
        signal_group,
    ),
    ours(
        "slow-supervisor",
        &["bypass 10"],
        "lower the supervisor's priority",
        slow_supervisor,
    ),
    ours(
        "slow-hands",
        &["bypass 10"],
        "lower hands' priority",
        slow_hands,
    ),
    ours(
        "pin-hands",
        &["bypass 10"],
        "bind hands to a processor",
        pin_hands,
    ),
    ours(
        "fork-bomb",
        &["bypass 22", "RS-021"],
        "make more processes than a session may have",
        fork_bomb,
    ),
    ours(
        "open-descriptors",
        &["bypass 22"],
        "open more files than a process may have",
        open_descriptors,
    ),
    ours(
        "new-privileges",
        &["certificate"],
        "gain privileges by a program's bits",
        new_privileges,
    ),
    kernels(
        "become-root",
        &["certificate"],
        "take root's id",
        become_root,
    ),
    kernels(
        "become-another",
        &["certificate"],
        "take another account's id",
        become_another,
    ),
    kernels(
        "take-groups",
        &["certificate"],
        "take the group of disks and of Docker",
        take_groups,
    ),
    kernels(
        "raise-own-limit",
        &["certificate"],
        "raise its own limit on processes",
        raise_limit,
    ),
    kernels(
        "be-faster",
        &["certificate"],
        "raise its own priority",
        faster,
    ),
    kernels(
        "leave-memory-last",
        &["certificate"],
        "be the last that is ended for memory",
        oom_last,
    ),
];

fn pid(number: i32) -> Pid {
    Pid::from_raw(number)
}

/// Whether the supervisor's number is, by chance, one of this jail's own.
fn stranger(ground: &Ground) -> Option<i32> {
    let number = ground.plan.supervisor_pid;
    let mother = nix::unistd::getppid().as_raw();
    let own = ground.hands == 1 && (mother..mother.saturating_add(64)).contains(&number);
    (!own).then_some(number)
}

fn of_supervisor(ground: &Ground, deed: impl Fn(i32) -> Outcome) -> Outcome {
    stranger(ground).map_or_else(
        || refused("the number is one of the probe's own inside"),
        deed,
    )
}

fn environ_of_hands(ground: &Ground) -> Outcome {
    of(File::open(format!("/proc/{}/environ", ground.hands)))
}

fn cmdline(ground: &Ground) -> Outcome {
    of_supervisor(ground, |pid| of(fs::read(format!("/proc/{pid}/cmdline"))))
}

fn maps(ground: &Ground) -> Outcome {
    of_supervisor(ground, |pid| of(File::open(format!("/proc/{pid}/maps"))))
}

fn folder(ground: &Ground) -> Outcome {
    of_supervisor(ground, |pid| of(fs::read_dir(format!("/proc/{pid}/cwd/"))))
}

fn listed(ground: &Ground) -> Outcome {
    of_supervisor(ground, |pid| of(fs::read_dir(format!("/proc/{pid}/fd"))))
}

fn list_processes(ground: &Ground) -> Outcome {
    let hands = ground.hands.to_string();
    let seen = fs::read_dir("/proc").map(|entries| {
        let mut names = entries.flatten().map(|entry| entry.file_name());
        names.any(|name| name.to_str() == Some(&hands))
    });
    match seen {
        Ok(true) => escaped("listed"),
        Ok(false) => refused("not listed"),
        Err(error) => of::<()>(Err(error)),
    }
}

fn attach(ground: &Ground) -> Outcome {
    let seized = ptrace::seize(pid(ground.plan.supervisor_pid), ptrace::Options::empty());
    by_filter(seized)
}

fn traceme(_: &Ground) -> Outcome {
    by_filter(ptrace::traceme())
}

/// One byte at an address that nothing has: without our layers the answer is that of the address.
fn memory(ground: &Ground) -> Outcome {
    let mut byte = [0];
    let mut local = [io::IoSliceMut::new(&mut byte)];
    let remote = [RemoteIoVec { base: 4096, len: 1 }];
    by_filter(process_vm_readv(
        pid(ground.plan.supervisor_pid),
        &mut local,
        &remote,
    ))
}

/// SIGCONT changes nothing for a process that runs.
fn continue_supervisor(ground: &Ground) -> Outcome {
    of_supervisor(ground, |number| from(kill(pid(number), Signal::SIGCONT)))
}

fn signal_group(ground: &Ground) -> Outcome {
    of_supervisor(ground, |number| {
        let group = nix::unistd::getpgid(Some(pid(number)));
        from(group.and_then(|group| killpg(group, Signal::SIGCONT)))
    })
}

fn slow(number: i32) -> Outcome {
    let Some(pid) = rustix::process::Pid::from_raw(number) else {
        return refused("no pid");
    };
    from(rustix::process::setpriority_process(Some(pid), 19))
}

fn slow_supervisor(ground: &Ground) -> Outcome {
    of_supervisor(ground, slow)
}

fn slow_hands(ground: &Ground) -> Outcome {
    slow(ground.hands)
}

/// To the processors that it may use anyway.
fn pin_hands(ground: &Ground) -> Outcome {
    let set = sched_getaffinity(pid(0)).unwrap_or_else(|_| CpuSet::new());
    from(sched_setaffinity(pid(ground.hands), &set))
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
        Some(error) if count == 0 => refused(&format!("absent: no program to start: {error}")),
        Some(error) => escaped(&error.to_string()),
        None => escaped(&format!("{count} processes")),
    }
}

/// How many files are opened at most, also bare.
const FILES: usize = 8_000;

fn open_descriptors(_: &Ground) -> Outcome {
    let mut open = Vec::new();
    while open.len() < FILES {
        match File::open("/dev/null") {
            Ok(file) => open.push(file),
            Err(error) if error.raw_os_error() == Some(nix::libc::EMFILE) => {
                return refused(&format!("EMFILE after {}", open.len()));
            }
            Err(error) => return escaped(&error.to_string()),
        }
        if open.len() == FILES / 2 {
            // What it may raise itself does not bind it.
            let raised = getrlimit(Resource::RLIMIT_NOFILE)
                .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
            if raised.is_err() {
                return escaped("its own limit cannot be set");
            }
        }
    }
    escaped(&format!("{} files", open.len()))
}

fn new_privileges(_: &Ground) -> Outcome {
    match nix::sys::prctl::get_no_new_privs() {
        Ok(true) => refused("no_new_privs is set"),
        Ok(false) => escaped("no_new_privs is not set"),
        Err(error) => from::<()>(Err(error)),
    }
}

fn become_root(_: &Ground) -> Outcome {
    if geteuid().is_root() {
        return escaped("root");
    }
    from(nix::unistd::setuid(0.into()))
}

fn become_another(_: &Ground) -> Outcome {
    let other = nix::unistd::geteuid().as_raw().saturating_add(1);
    from(nix::unistd::setuid(other.into()))
}

fn take_groups(_: &Ground) -> Outcome {
    from(nix::unistd::setgroups(&[6.into(), 999.into()]))
}

fn raise_limit(_: &Ground) -> Outcome {
    let raised = getrlimit(Resource::RLIMIT_NPROC).and_then(|(_, hard)| {
        let more = hard.saturating_add(1);
        if more == hard {
            return Err(nix::errno::Errno::EPERM);
        }
        setrlimit(Resource::RLIMIT_NPROC, more, more)
    });
    from(raised)
}

fn faster(_: &Ground) -> Outcome {
    from(rustix::process::nice(-5))
}

fn oom_last(_: &Ground) -> Outcome {
    of(fs::write("/proc/self/oom_score_adj", "-1000"))
}
