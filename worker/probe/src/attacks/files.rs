//! Files outside the view, by every road that leads to one.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    os::{fd::AsRawFd as _, unix::fs::OpenOptionsExt as _},
    path::Path,
    process::Command,
};

use nix::{
    fcntl::{AT_FDCWD, AtFlags, OFlag, OpenHow, ResolveFlag, openat2},
    sys::{
        stat::{Mode, SFlag, UtimensatFlags, makedev, mknod, utimensat},
        time::TimeSpec,
    },
    unistd::{Gid, Uid, fchownat},
};
use protocol::{escape::Ground, jail::WORKER_INSIDE};
use worker_jail::Outcome;

use super::{kernels, ours};
use crate::{
    Own,
    outcome::{escaped, from, of, refused},
};

pub(super) const TABLE: &[Own] = &[
    ours(
        "utime-outside",
        &["certificate"],
        "set the times of a file outside",
        utime_outside,
    ),
    ours(
        "truncate-outside",
        &["certificate"],
        "cut a file outside to its own length",
        truncate_outside,
    ),
    ours(
        "rename-outside",
        &["certificate"],
        "rename a file outside to its own name",
        rename_outside,
    ),
    ours(
        "remove-outside",
        &["certificate"],
        "make and remove a folder outside",
        folder_outside,
    ),
    ours(
        "fifo-outside",
        &["RS-018"],
        "make a FIFO outside",
        fifo_outside,
    ),
    ours(
        "reopen-by-path-handle",
        &["ES-030"],
        "open a file outside by its handle's name in proc",
        reopen,
    ),
    ours(
        "walk-up-from-workspace",
        &["ES-030", "bypass 3"],
        "walk up from the workspace and down again",
        walk_up,
    ),
    ours(
        "through-own-root",
        &["ES-030"],
        "read outside through /proc/self/root",
        own_root,
    ),
    ours(
        "through-own-link",
        &["ES-030", "bypass 3"],
        "read outside through a link of its own to /proc/self/root",
        own_link,
    ),
    ours(
        "through-hands-root",
        &["ES-030"],
        "read outside through hands' root",
        hands_root,
    ),
    ours(
        "through-hands-folder",
        &["ES-007", "scenario runtime: CVE-2024-21626"],
        "read outside from hands' working folder",
        hands_folder,
    ),
    ours(
        "in-root-resolution",
        &["bypass 3"],
        "read outside by openat2 that takes the root for its beneath",
        in_root,
    ),
    ours(
        "working-folder-outside",
        &["ES-007", "bypass 1"],
        "make a folder outside its working folder",
        folder_as_cwd,
    ),
    ours(
        "map-outside",
        &["certificate"],
        "map a file outside into memory",
        map_outside,
    ),
    ours(
        "run-outside",
        &["certificate"],
        "execute a file outside",
        run_outside,
    ),
    ours(
        "setuid-file",
        &["certificate"],
        "run a setuid file of root's from the workspace",
        setuid_file,
    ),
    kernels(
        "own-outside",
        &["certificate"],
        "give a file outside to another account",
        own_outside,
    ),
    kernels(
        "make-disk",
        &["scenario runtime: privileged"],
        "make a device node of the host's first disk",
        make_disk,
    ),
    kernels(
        "write-own-program",
        &["scenario runtime: CVE-2019-5736"],
        "write the program that runs, which the host starts again",
        write_program,
    ),
    kernels(
        "write-below-usr",
        &["scenario runtime: writable host mount"],
        "write where the host's programs lie",
        write_usr,
    ),
    kernels(
        "remount-writable",
        &["scenario runtime: SYS_ADMIN"],
        "mount the host's programs writable again",
        remount,
    ),
    kernels(
        "write-core-pattern",
        &["scenario runtime: privileged"],
        "name a program for the kernel to start at a crash",
        write_core_pattern,
    ),
    kernels(
        "write-sysrq",
        &["ES-011"],
        "speak to the kernel through its trigger",
        write_sysrq,
    ),
    kernels(
        "write-modprobe",
        &["scenario runtime: privileged"],
        "name a program for the kernel to load modules with",
        write_modprobe,
    ),
];

fn outside(ground: &Ground) -> &Path {
    Path::new(&ground.plan.outside_file)
}

fn reads(path: impl AsRef<Path>) -> io::Result<()> {
    File::open(path).and_then(|mut file| file.read(&mut [0; 1]).map(drop))
}

/// A name of this process's own in the folder outside.
fn fresh(ground: &Ground) -> String {
    format!(
        "{}/.escape-{}",
        ground.plan.outside_folder,
        std::process::id()
    )
}

fn utime_outside(ground: &Ground) -> Outcome {
    let now = TimeSpec::UTIME_NOW;
    let flags = UtimensatFlags::FollowSymlink;
    from(utimensat(AT_FDCWD, outside(ground), &now, &now, flags))
}

fn truncate_outside(ground: &Ground) -> Outcome {
    let length = fs::metadata(outside(ground)).map_or(0, |facts| facts.len());
    let length = i64::try_from(length).unwrap_or(0);
    from(nix::unistd::truncate(outside(ground), length))
}

fn rename_outside(ground: &Ground) -> Outcome {
    of(fs::rename(outside(ground), outside(ground)))
}

fn folder_outside(ground: &Ground) -> Outcome {
    let path = fresh(ground);
    of(fs::create_dir(&path).and_then(|()| fs::remove_dir(&path)))
}

fn fifo_outside(ground: &Ground) -> Outcome {
    let path = fresh(ground);
    let made = nix::unistd::mkfifo(path.as_str(), Mode::S_IRUSR);
    let _ = fs::remove_file(&path);
    from(made)
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
    if worked { escaped("read") } else { of(first) }
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

fn hands_folder(ground: &Ground) -> Outcome {
    let path = format!(
        "/proc/{}/cwd/{}{}",
        ground.hands,
        "../".repeat(20),
        ground.plan.outside_file
    );
    of(reads(path))
}

fn in_root(ground: &Ground) -> Outcome {
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT);
    let root = match File::open("/") {
        Ok(root) => root,
        Err(error) => return of::<()>(Err(error)),
    };
    let up = format!("{}{}", "../".repeat(20), ground.plan.outside_file);
    from(openat2(&root, up.as_str(), how))
}

fn folder_as_cwd(ground: &Ground) -> Outcome {
    let moved = std::env::set_current_dir(&ground.plan.outside_folder);
    of(moved.and_then(|()| fs::read_dir(".").map(drop)))
}

fn map_outside(ground: &Ground) -> Outcome {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    // By a copy within the kernel: what was never opened for reading cannot be sent.
    let tried = || -> io::Result<()> {
        let source = File::open(outside(ground))?;
        let target = memfd_create("copy", MFdFlags::MFD_CLOEXEC)?;
        nix::sys::sendfile::sendfile(target, source, None, 1)?;
        Ok(())
    };
    of(tried())
}

/// A copy of the shell that lies outside, if one does; else the file outside, which is no program: the
/// kernel says so only to who may execute it.
fn run_outside(ground: &Ground) -> Outcome {
    let program = format!("{}/program", ground.plan.outside_folder);
    match Command::new(&program).arg("-c").arg("exit 0").status() {
        Ok(_) => escaped("it ran"),
        Err(error) => of::<()>(Err(error)),
    }
}

/// The setuid copy of this very program that the workspace holds.
fn setuid_file(ground: &Ground) -> Outcome {
    let Ok(text) = serde_json::to_string(ground) else {
        return escaped("the ground has no text");
    };
    let program = Path::new(&ground.plan.workspace).join("setuid");
    match Command::new(program)
        .args(["probe", "one", "become-root", &text])
        .output()
    {
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains("\"escaped\"") => {
            escaped("root")
        }
        Ok(_) => refused("not root"),
        Err(error) => of::<()>(Err(error)),
    }
}

/// To root, which an ordinary account may not do anywhere.
fn own_outside(ground: &Ground) -> Outcome {
    let (user, group) = (Uid::from_raw(0), Gid::from_raw(0));
    let none = AtFlags::empty();
    from(fchownat(
        AT_FDCWD,
        outside(ground),
        Some(user),
        Some(group),
        none,
    ))
}

fn make_disk(ground: &Ground) -> Outcome {
    let path = format!("{}/.device-{}", ground.plan.tmp, std::process::id());
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let made = mknod(path.as_str(), SFlag::S_IFBLK, mode, makedev(8, 0));
    let _ = fs::remove_file(&path);
    from(made)
}

fn opens_for_writing(path: &str) -> Outcome {
    of(File::options().append(true).open(path))
}

/// The worker where there is one, and the program that runs, if it is not of the account's own.
fn write_program(_: &Ground) -> Outcome {
    if Path::new(WORKER_INSIDE).exists() {
        let worker = opens_for_writing(WORKER_INSIDE);
        if !worker.refused {
            return worker;
        }
    }
    opens_for_writing("/proc/self/exe")
}

fn write_usr(_: &Ground) -> Outcome {
    let path = format!("/usr/bin/.escape-{}", std::process::id());
    let made = File::create_new(&path);
    let _ = fs::remove_file(&path);
    of(made)
}

fn remount(_: &Ground) -> Outcome {
    let flags = rustix::mount::MountFlags::BIND;
    from(rustix::mount::mount_remount("/usr", flags, ""))
}

fn write_core_pattern(_: &Ground) -> Outcome {
    opens_for_writing("/proc/sys/kernel/core_pattern")
}

fn write_modprobe(_: &Ground) -> Outcome {
    opens_for_writing("/proc/sys/kernel/modprobe")
}

fn write_sysrq(_: &Ground) -> Outcome {
    opens_for_writing("/proc/sysrq-trigger")
}
