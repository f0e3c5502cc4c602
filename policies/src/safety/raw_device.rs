//! Raw devices: disks below their file systems, the memory of the machine, its kernel and firmware.
//! What overwrites a device is destruction; this is about reaching it at all.

use super::{
    Finding,
    spelling::{code, files, spelled},
};
use crate::{Action, Decision, Facts, ViewPath, shell::Simple};

/// The detector's id.
pub(super) const ID: &str = "raw-device";

const WHY: &str =
    "it reaches a device, the memory or the kernel of the machine below every file right";
const INSTEAD: &str = "use the files of the workspace; a session needs no device";

/// Devices by the beginning of their names below `/dev`.
const DEVICES: &[&str] = &[
    "sd",
    "hd",
    "vd",
    "xvd",
    "nvme",
    "mmcblk",
    "dm-",
    "md",
    "loop",
    "sr",
    "mapper/",
    "disk/",
    "block/",
    "mem",
    "kmem",
    "port",
    "kmsg",
    "nbd",
    "zvol/",
    "ram",
    "mtd",
    "cpu/",
    "msr",
    "vfio",
    "uinput",
    "input/",
    "bus/usb",
    "watchdog",
    "rtc",
    "tpm",
    "ppp",
    "raw/",
    "bsg/",
    "sg",
    "i2c-",
    "spidev",
    "hidraw",
    "vhost-",
    "userfaultfd",
    "efi",
];
/// Files by which the kernel is read or steered.
const KERNEL: &[&str] = &[
    "/proc/kcore",
    "/proc/kmem",
    "/proc/sysrq-trigger",
    "/proc/kallsyms",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/fs/binfmt_misc",
    "/sys/firmware",
    "/sys/kernel/debug",
    "/sys/kernel/security",
    "/sys/fs/cgroup/release_agent",
    "/sys/kernel/uevent_helper",
];
/// Programs that are about devices and the kernel whatever they name.
const PROGRAMS: &[&str] = &[
    "insmod",
    "modprobe",
    "rmmod",
    "kexec",
    "losetup",
    "dmsetup",
    "nvme",
    "flashrom",
    "fwupdmgr",
    "efibootmgr",
    "grub-install",
    "debugfs",
    "dumpe2fs",
    "tune2fs",
    "resize2fs",
    "e2fsck",
    "xfs_repair",
    "hdparm",
    "sdparm",
    "smartctl",
    "setpci",
    "wrmsr",
    "rdmsr",
    "mknod",
    "bpftool",
    "bpftrace",
];

/// Looks for them.
pub(super) fn detect(action: &Action, facts: &Facts, findings: &mut Vec<Finding>) {
    let found = |object: &str| Finding::new(ID, Decision::Deny, WHY, object, INSTEAD);
    match action {
        Action::File(access) if is_raw(access.path.as_str()) => {
            findings.push(found(access.path.as_str()));
        }
        Action::Run(run) => {
            for (index, simple) in run.reading.simples.iter().enumerate() {
                if let Some(object) = command(simple, facts) {
                    findings.push(found(&object).at(index));
                }
            }
            for (index, redirect) in run.reading.redirects.iter().enumerate() {
                if is_raw(&absolute(&spelled(&redirect.target), facts)) {
                    let part = run.reading.simples.len() + index;
                    findings.push(found(&redirect.target.text).at(part));
                }
            }
        }
        _ => {}
    }
}

fn absolute(word: &str, facts: &Facts) -> String {
    ViewPath::new(word, &facts.workspace, &facts.home)
        .map_or_else(|| word.to_owned(), |path| path.to_string())
}

fn is_raw(path: &str) -> bool {
    if let Some(name) = path.strip_prefix("/dev/") {
        return DEVICES.iter().any(|device| {
            name.strip_prefix(device).is_some_and(|rest| {
                device.ends_with(['/', '-'])
                    || rest.is_empty()
                    || device.len() == 2
                    || rest.starts_with(|c: char| c.is_ascii_digit() || "/-_*?[".contains(c))
                    || matches!(*device, "vd" | "xvd")
            })
        }) && !name.starts_with("shm");
    }
    KERNEL.iter().any(|known| {
        path.strip_prefix(known)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }) || (path.starts_with("/proc/") && path.ends_with("/mem"))
        || path.ends_with("/release_agent")
}

fn command(simple: &Simple, facts: &Facts) -> Option<String> {
    let name = simple.name()?;
    let asks_help = simple
        .literals()
        .any(|word| matches!(word, "--help" | "--version" | "-V"));
    if PROGRAMS.contains(&name) && !asks_help {
        // `mknod x p` makes a pipe.
        let pipe = name == "mknod" && simple.literals().last() == Some("p");
        return (!pipe).then(|| simple.text.clone());
    }
    if matches!(name, "sysctl") {
        let writes = simple
            .literals()
            .any(|word| word == "-w" || word.contains('=') || word == "-p");
        return writes.then(|| simple.text.clone());
    }
    let speaks = [
        "echo", "printf", "grep", "rg", "git", "test", "[", "[[", "ls", "stat", "df", "du",
    ];
    if speaks.contains(&name) {
        return None;
    }
    let named = simple
        .args
        .iter()
        .flat_map(files)
        .find(|file| file.contains('/') && is_raw(&absolute(file, facts)));
    let apart = |c: char| c.is_whitespace() || "'\"`()[]{},;<>=|&+".contains(c);
    named.or_else(|| {
        code(simple)
            .iter()
            .flat_map(|text| text.split(apart))
            .find(|token| token.starts_with('/') && is_raw(token))
            .map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::table::holds;

    #[test]
    fn devices_are_told_from_what_every_program_uses() {
        let d = Decision::Deny;
        holds(
            ID,
            &[
                ("dd if=/dev/sda of=x bs=1M count=1", d),
                ("cat /dev/mem", d),
                ("strings /dev/nvme0n1", d),
                ("xxd /proc/kcore", d),
                ("echo b > /proc/sysrq-trigger", d),
                ("echo '|/tmp/x' > /proc/sys/kernel/core_pattern", d),
                ("cat /proc/1/mem", d),
                ("cp /dev/mapper/root x", d),
                ("head -c 512 < /dev/vda", d),
                ("insmod x.ko", d),
                ("modprobe vfio", d),
                ("mknod sda b 8 0", d),
                ("debugfs -R 'cat /etc/shadow' /dev/sda1", d),
                ("sysctl -w kernel.randomize_va_space=0", d),
                ("cat x >/dev/dm-0", d),
                ("python3 -c \"open('/dev/mem','rb').read(9)\"", d),
                ("echo x > /sys/fs/cgroup/x/release_agent", d),
                ("grub-install /dev/sda", d),
            ],
            &[
                "cat /dev/null > x",
                "head -c 16 /dev/urandom | xxd",
                "dd if=/dev/zero of=x bs=1M count=1",
                "ls -l /dev/sda",
                "cat /proc/cpuinfo",
                "cat /proc/self/status",
                "echo x > /dev/stderr",
                "cat /dev/shm/x",
                "cat dev/sda.txt",
                "df -h",
                "mknod p p",
                "sysctl kernel.hostname",
                "grep /dev/sda doc.md",
                "echo hi > /dev/tty",
            ],
        );
    }
}
