//! What surrounds a session: environment, descriptors, sockets, shared memory, devices, secrets.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    os::unix::{fs::FileTypeExt as _, net::UnixStream},
    path::PathBuf,
};

use nix::mqueue::{MQ_OFlag, mq_open};
use nix::sys::stat::Mode;
use protocol::escape::Ground;
use worker_jail::Outcome;

use super::{kernels, ours};
use crate::{
    Own,
    outcome::{escaped, from, of, refused},
};

pub(super) const TABLE: &[Own] = &[
    ours(
        "own-environment",
        &["ES-029", "sandbox secret: the environment"],
        "find more in its environment than is documented",
        environment,
    ),
    ours(
        "descriptors-at-birth",
        &["ES-007", "bypass 20", "scenario runtime: CVE-2024-21626"],
        "find more open than 0, 1 and 2",
        descriptors,
    ),
    ours(
        "folder-behind-descriptors",
        &["ES-007", "scenario runtime: CVE-2024-21626"],
        "find a folder of the host behind a descriptor",
        folder_behind,
    ),
    ours(
        "sockets-in-sight",
        &["ES-009", "DK-002", "bypass 9", "bypass 26"],
        "connect to any Unix socket that has a name",
        sockets_in_sight,
    ),
    ours(
        "shared-memory-of-host",
        &["bypass 10"],
        "read a shared memory object of the host",
        shared_memory,
    ),
    ours(
        "segments-of-host",
        &["bypass 10"],
        "see a System V segment of the host",
        segments,
    ),
    ours(
        "queue-of-host",
        &["bypass 10"],
        "open a message queue of the host",
        queue,
    ),
    ours(
        "devices-beyond-five",
        &["scenario runtime: privileged"],
        "find a device beside the five harmless ones",
        devices,
    ),
    kernels(
        "engine-sockets",
        &[
            "ES-009",
            "DK-001",
            "DK-002",
            "scenario runtime: docker socket",
            "sandbox escape: docker socket",
        ],
        "connect to a container engine by its usual names",
        engines,
    ),
    kernels(
        "session-bus",
        &["bypass 9"],
        "connect to the desktop's and the system's bus",
        buses,
    ),
    kernels(
        "service-account",
        &["scenario orchestration: service account"],
        "read a cluster's service account token",
        service_account,
    ),
    kernels(
        "home-secrets",
        &["sandbox secret: files of the home"],
        "read keys and tokens by their usual names",
        home_secrets,
    ),
    kernels(
        "password-file",
        &["sandbox secret: system files"],
        "read the host's password file",
        shadow,
    ),
];

/// The documented names, and those that a shell sets by itself.
const NAMES: [&str; 13] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "LANG",
    "TERM",
    "GIT_CONFIG_SYSTEM",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "_",
];

/// Any variable beyond the documented ones, or the marker in any of them.
fn environment(ground: &Ground) -> Outcome {
    for (name, value) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        // What the suite's own runner says to its scripts.
        if name.starts_with("ESCAPE_") {
            continue;
        }
        if !NAMES.contains(&name.as_str()) || value.to_string_lossy().contains(&ground.marker) {
            return escaped(&name);
        }
    }
    for path in ["/proc/self/environ", "/proc/thread-self/environ"] {
        let bytes = fs::read(path).unwrap_or_default();
        if String::from_utf8_lossy(&bytes).contains(&ground.marker)
            && std::env::vars().all(|(name, _)| !name.starts_with("ESCAPE_"))
            && !std::env::args().any(|word| word.contains(&ground.marker))
        {
            return escaped(path);
        }
    }
    refused("only the documented names")
}

/// Anything open beyond 0, 1 and 2.
fn descriptors(_: &Ground) -> Outcome {
    if fs::read_link("/proc/self/fd/0").is_err() {
        return refused("absent: no /proc; the script of the same aim needs none");
    }
    let open = |number: &u32| fs::read_link(format!("/proc/self/fd/{number}")).is_ok();
    match (3..1_024).find(open) {
        Some(number) => escaped(&format!("{number} is open")),
        None => refused("0, 1 and 2"),
    }
}

/// A folder behind any descriptor, walked up.
fn folder_behind(ground: &Ground) -> Outcome {
    for number in 0..64 {
        let up = "../".repeat(20);
        let path = format!("/proc/self/fd/{number}/{up}{}", ground.plan.outside_file);
        if File::open(path).is_ok_and(|mut file| file.read(&mut [0; 1]).is_ok()) {
            return escaped(&format!("through {number}"));
        }
    }
    refused("none leads out")
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
                return escaped("connected");
            }
            if kind.is_dir() && depth < 3 && looked < 20_000 {
                open.push((entry.path(), depth + 1));
            }
        }
    }
    refused("none takes a connection")
}

fn shared_memory(ground: &Ground) -> Outcome {
    let read = |path| File::open(path).and_then(|mut file| file.read(&mut [0; 1]));
    of(read(format!("/dev/shm/{}", ground.shm)))
}

fn segments(ground: &Ground) -> Outcome {
    let Some(wanted) = ground.segment else {
        return refused("absent: no segment could be planted");
    };
    let text = match fs::read_to_string("/proc/sysvipc/shm") {
        Ok(text) => text,
        Err(error) => return of::<()>(Err(error)),
    };
    let wanted = wanted.to_string();
    let seen = text
        .lines()
        .any(|line| line.split_whitespace().nth(1) == Some(&wanted));
    if seen {
        escaped("listed")
    } else {
        refused("not listed")
    }
}

fn queue(ground: &Ground) -> Outcome {
    let name = ground.plan.queue.as_str();
    if name.is_empty() {
        return refused("absent: no queue could be planted");
    }
    from(mq_open(name, MQ_OFlag::O_RDONLY, Mode::empty(), None))
}

fn devices(_: &Ground) -> Outcome {
    const KNOWN: [&str; 7] = ["null", "zero", "full", "random", "urandom", "tty", "ptmx"];
    for entry in fs::read_dir("/dev").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let device = entry
            .file_type()
            .is_ok_and(|kind| kind.is_char_device() || kind.is_block_device());
        if device && !KNOWN.contains(&name.as_str()) && File::open(entry.path()).is_ok() {
            return escaped(&name);
        }
    }
    refused("none that opens")
}

fn connects(names: &[&str]) -> Outcome {
    let mut last = refused("no names");
    for name in names {
        last = of(UnixStream::connect(name));
        if !last.refused {
            return escaped(name);
        }
    }
    last
}

fn engines(_: &Ground) -> Outcome {
    connects(&[
        "/var/run/docker.sock",
        "/run/docker.sock",
        "/run/podman/podman.sock",
        "/run/containerd/containerd.sock",
        "/run/crio/crio.sock",
        "/run/libvirt/libvirt-sock",
    ])
}

fn buses(_: &Ground) -> Outcome {
    connects(&[
        "/run/dbus/system_bus_socket",
        "/run/systemd/private",
        "/run/systemd/notify",
        "/run/user/0/bus",
        "/run/user/1000/bus",
        "/run/user/1000/systemd/private",
        "/tmp/.X11-unix/X0",
    ])
}

fn reads_any(names: &[String]) -> Outcome {
    let mut last: io::Result<()> = Err(io::ErrorKind::NotFound.into());
    for name in names {
        last = File::open(name).and_then(|mut file| file.read(&mut [0; 1]).map(drop));
        if last.is_ok() {
            return escaped(name);
        }
    }
    of(last)
}

fn service_account(_: &Ground) -> Outcome {
    let folder = "/var/run/secrets/kubernetes.io/serviceaccount";
    reads_any(&[format!("{folder}/token"), format!("{folder}/ca.crt")])
}

fn home_secrets(_: &Ground) -> Outcome {
    let mut homes = vec!["/root".to_owned()];
    let found = fs::read_dir("/home").into_iter().flatten().flatten();
    homes.extend(found.map(|entry| entry.path().display().to_string()));
    homes.extend(std::env::var("HOME"));
    let names = [
        ".ssh/id_rsa",
        ".ssh/id_ed25519",
        ".aws/credentials",
        ".netrc",
        ".git-credentials",
        ".docker/config.json",
        ".kube/config",
        ".config/gh/hosts.yml",
        ".npmrc",
        ".pypirc",
        ".bash_history",
    ];
    let all: Vec<String> = homes
        .iter()
        .flat_map(|home| names.map(|name| format!("{home}/{name}")))
        .collect();
    reads_any(&all)
}

fn shadow(_: &Ground) -> Outcome {
    reads_any(&[
        "/etc/shadow".to_owned(),
        "/etc/gshadow".to_owned(),
        "/etc/sudoers".to_owned(),
    ])
}
