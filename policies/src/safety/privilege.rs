//! Privilege tools: programs and options by which a process gets more rights than it was given.

use super::{Finding, spelling::spelled};
use crate::{Action, Decision, shell::Simple};

/// The detector's id.
pub(super) const ID: &str = "privilege-tool";

const WHY: &str = "it asks for more rights than the session has";
const INSTEAD: &str = "run the program itself; the session's own rights are all that it gets";

/// Programs that change who one is, or where.
const PROGRAMS: &[&str] = &[
    "sudo",
    "sudoedit",
    "doas",
    "su",
    "pkexec",
    "run0",
    "runuser",
    "gosu",
    "su-exec",
    "setpriv",
    "capsh",
    "nsenter",
    "unshare",
    "chroot",
    "pivot_root",
    "mount",
    "umount",
    "setcap",
    "newuidmap",
    "newgidmap",
    "usermod",
    "useradd",
    "adduser",
    "groupadd",
    "gpasswd",
    "chpasswd",
    "chsh",
    "chfn",
    "visudo",
    "vipw",
    "vigr",
    "swapon",
    "swapoff",
    "iptables",
    "ip6tables",
    "nft",
    "ufw",
    "setenforce",
    "aa-disable",
    "aa-teardown",
    "apparmor_parser",
    "ptrace",
    "bwrap",
    "firejail",
    "systemd-nspawn",
];

/// Looks for them.
pub(super) fn detect(action: &Action, findings: &mut Vec<Finding>) {
    let Action::Run(run) = action else { return };
    for (index, simple) in run.reading.simples.iter().enumerate() {
        if raises(simple) {
            findings.push(Finding::new(ID, Decision::Ask, WHY, &simple.text, INSTEAD).at(index));
        }
    }
}

fn raises(simple: &Simple) -> bool {
    let Some(name) = simple.name() else {
        return false;
    };
    let words: Vec<String> = simple.args.iter().take(256).map(spelled).collect();
    let only =
        |list: &[&str]| !words.is_empty() && words.iter().all(|word| list.contains(&word.as_str()));
    match name {
        _ if only(&["--version", "--help", "-V", "-h"]) => false,
        "sudo" if only(&["-l", "-n", "-v", "-k", "-K"]) => false,
        // Alone they list.
        "mount" if words.is_empty() || only(&["-l"]) => false,
        "iptables" | "ip6tables" | "nft" | "ufw" => !words
            .iter()
            .any(|word| ["-L", "-S", "list", "status", "--list"].contains(&word.as_str())),
        _ if PROGRAMS.contains(&name) => true,
        "passwd" => words.first().is_none_or(|word| word != "-S"),
        "chmod" => words.iter().any(|word| sets_id(word)),
        "chown" | "chgrp" => words
            .iter()
            .find(|word| !word.starts_with('-'))
            .is_some_and(|owner| {
                owner == "root"
                    || owner.starts_with("root:")
                    || owner == "0"
                    || owner.starts_with("0:")
            }),
        "install" => words
            .iter()
            .zip(words.iter().skip(1))
            .any(|(option, mode)| (option == "-m" || option == "--mode") && sets_id(mode)),
        "docker" | "podman" | "nerdctl" => container(&words),
        "kubectl" | "oc" => words
            .iter()
            .any(|word| word == "--privileged" || word.contains("\"privileged\":true")),
        "gdb" | "strace" | "ltrace" | "perf" => words
            .iter()
            .zip(words.iter().skip(1))
            .any(|(option, pid)| (option == "-p" || option == "--pid") && pid == "1"),
        _ => false,
    }
}

/// A mode that sets the user's or group's id on execution.
fn sets_id(mode: &str) -> bool {
    let octal = mode.trim_start_matches('0');
    let by_number = octal.len() == 4
        && octal.bytes().all(|b| b.is_ascii_digit())
        && octal.starts_with(['2', '4', '6', '3', '5', '7']);
    let by_letter = mode.split(',').any(|part| {
        part.split_once(['+', '=']).is_some_and(|(who, rights)| {
            rights.contains('s') && who.chars().all(|c| "ugoa".contains(c))
        })
    });
    by_number || by_letter
}

/// A container that is no wall: privileged, with the host's namespaces, its root or the engine's socket.
fn container(words: &[String]) -> bool {
    let runs = words
        .iter()
        .any(|word| ["run", "create", "exec", "up"].contains(&word.as_str()));
    runs && words.iter().enumerate().any(|(at, word)| {
        let next = words.get(at + 1).map_or("", String::as_str);
        let value = |options: &[&str]| {
            options.iter().find_map(|option| {
                if word == option {
                    Some(next)
                } else {
                    word.strip_prefix(option)?.strip_prefix('=')
                }
            })
        };
        let host = [
            "--pid",
            "--net",
            "--network",
            "--ipc",
            "--uts",
            "--userns",
            "--cgroupns",
        ];
        word == "--privileged"
            || word.starts_with("--privileged=t")
            || value(&host).is_some_and(|value| value == "host")
            || value(&["--cap-add"]).is_some_and(|cap| {
                let cap = cap.to_ascii_uppercase();
                [
                    "ALL",
                    "SYS_ADMIN",
                    "SYS_PTRACE",
                    "SYS_MODULE",
                    "NET_ADMIN",
                    "SYS_RAWIO",
                    "DAC_READ_SEARCH",
                    "CAP_SYS_ADMIN",
                ]
                .contains(&cap.as_str())
            })
            || value(&["--security-opt"])
                .is_some_and(|text| text.contains("unconfined") || text.contains("disable"))
            || value(&["--device"]).is_some_and(|device| device.starts_with("/dev/"))
            || value(&["-v", "--volume", "--mount"]).is_some_and(mounts_host)
            || word
                .strip_prefix("-v")
                .filter(|rest| rest.starts_with('/'))
                .is_some_and(mounts_host)
    })
}

fn mounts_host(text: &str) -> bool {
    let source = match text
        .split_once("source=")
        .or_else(|| text.split_once("src="))
    {
        Some((_, rest)) => rest.split(',').next().unwrap_or(rest),
        None => text.split(':').next().unwrap_or(text),
    };
    let source = match source.trim_end_matches('/') {
        "" if source.starts_with('/') => "/",
        other => other,
    };
    let grave = [
        "~", "$HOME", "${HOME}", "/", "/etc", "/root", "/home", "/var", "/usr", "/proc", "/sys",
        "/dev", "/boot", "/run",
    ];
    grave.contains(&source)
        || source.ends_with("docker.sock")
        || source.ends_with("podman.sock")
        || source.ends_with("containerd.sock")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::table::holds;

    #[test]
    fn what_raises_rights_is_told_from_what_uses_them() {
        let ask = Decision::Ask;
        holds(
            ID,
            &[
                ("sudo apt-get install x", ask),
                ("cat f | sudo tee g", ask),
                ("doas ls", ask),
                ("su -c id", ask),
                ("pkexec x", ask),
                ("nsenter -t 1 -m -p sh", ask),
                ("unshare -Ur sh", ask),
                ("chroot /mnt sh", ask),
                ("mount --bind a b", ask),
                ("setcap cap_net_raw+ep x", ask),
                ("chmod u+s x", ask),
                ("chmod 4755 x", ask),
                ("chmod 02755 x", ask),
                ("chown root:root x", ask),
                ("install -m 4755 x y", ask),
                ("usermod -aG docker u", ask),
                ("docker run --privileged x", ask),
                ("docker run -v /:/host x", ask),
                ("docker run -v /var/run/docker.sock:/s x", ask),
                ("docker run --mount type=bind,source=/etc,target=/e x", ask),
                ("docker run -v $HOME:/h x", ask),
                ("docker run --pid=host x", ask),
                ("docker run --network host x", ask),
                ("docker run --cap-add SYS_ADMIN x", ask),
                ("podman run --security-opt seccomp=unconfined x", ask),
                ("env sudo id", ask),
                ("/usr/bin/sudo id", ask),
                ("bash -c 'sudo id'", ask),
            ],
            &[
                "mount",
                "sudo --version",
                "chmod +x x",
                "chmod 755 x",
                "chmod 0644 x",
                "chmod g+w,o-r x",
                "chown u:u x",
                "docker run --rm -v \"$PWD\":/app x",
                "docker run -v /srv/app:/app x",
                "docker ps",
                "docker build .",
                "iptables -L",
                "echo sudo",
                "ls sudo",
                "git commit -m 'no sudo'",
                "strace ls",
                "install -m 755 x y",
            ],
        );
    }
}
