//! Attempts at objects that the kernel shares between processes, and at devices.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::OpenOptionsExt as _,
};

use nix::{
    mqueue::{MQ_OFlag, mq_close, mq_open},
    sys::stat::{Mode, SFlag, makedev, mknod},
};

use super::{Ground, Outcome, own};
use crate::{poke::Poke, sys};

/// A message queue that the supervisor made on the host for the probes. SysV objects live in the same
/// namespace: who cannot reach this one cannot reach them either.
pub(crate) fn queue_of_host(ground: &Ground<'_>) -> Outcome {
    let opened = mq_open(
        ground.plan.queue.as_str(),
        MQ_OFlag::O_RDONLY | MQ_OFlag::O_NONBLOCK,
        Mode::empty(),
        None,
    );
    Outcome::of(opened.and_then(mq_close).map_err(io::Error::from))
}

/// A name of the host's /dev/shm.
pub(crate) fn shared_memory_of_host(ground: &Ground<'_>) -> Outcome {
    let opened = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&ground.plan.shared_memory);
    Outcome::of(opened)
}

/// This process' keyring, which it shares with its account.
pub(crate) fn keyring(_: &Ground<'_>) -> Outcome {
    super::call(Poke::Keyctl)
}

/// A key of no type: only a filter stops it before its arguments are looked at.
pub(crate) fn add_key(_: &Ground<'_>) -> Outcome {
    super::call(Poke::AddKey)
}

/// SysV shared memory: those of others are kept away by an own namespace or by a filter.
pub(crate) fn segments(ground: &Ground<'_>) -> Outcome {
    let host = &ground.plan.ipc_namespace;
    let here = fs::read_link("/proc/self/ns/ipc").ok();
    if here.is_some_and(|here| !host.is_empty() && here.as_os_str() != host.as_str()) {
        return Outcome {
            refused: true,
            answer: "own namespace".to_owned(),
        };
    }
    Outcome::by_filter(sys::poke(Poke::Shmget))
}

/// Devices that show or change the machine, and ones that an account may often open.
const DEVICES: [&str; 14] = [
    "/dev/mem",
    "/dev/port",
    "/dev/kmsg",
    "/dev/sda",
    "/dev/vda",
    "/dev/nvme0n1",
    "/dev/loop-control",
    "/dev/mapper/control",
    "/dev/kvm",
    "/dev/fuse",
    "/dev/net/tun",
    "/dev/input/event0",
    "/dev/dri/card0",
    "/dev/snd/seq",
];

/// Opening any device of the host.
pub(crate) fn open_device(_: &Ground<'_>) -> Outcome {
    for path in DEVICES {
        let opened = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path);
        match opened.as_ref().err().and_then(io::Error::raw_os_error) {
            Some(libc::ENOENT | libc::EACCES | libc::EPERM) => {}
            // The kernel was asked: whatever it says, no wall of ours stood before it.
            _ => {
                return Outcome {
                    refused: false,
                    answer: format!("{path} can be opened"),
                };
            }
        }
    }
    Outcome {
        refused: true,
        answer: "none".to_owned(),
    }
}

/// A node for the machine's memory, in the private /tmp.
pub(crate) fn make_device(ground: &Ground<'_>) -> Outcome {
    let path = own(&ground.plan.tmp, "device");
    let made = mknod(&path, SFlag::S_IFCHR, Mode::S_IRUSR, makedev(1, 1));
    let _ = fs::remove_file(&path);
    Outcome::of(made.map_err(io::Error::from))
}

/// Reading from a device that every program has.
pub(crate) fn opens_null(_: &Ground<'_>) -> bool {
    let null = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY)
        .open("/dev/null");
    null.is_ok()
}
