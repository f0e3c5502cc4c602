//! What a session may have left behind: processes, mounts, sockets, files that nobody documented.

use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::FileTypeExt as _},
    path::Path,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// How long what was ended may take to be gone.
const GONE: Duration = Duration::from_secs(3);

/// A process that belongs to a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its arguments.
    pub arguments: String,
}

/// Every process whose arguments, environment or mounts name the folder. Sessions mount their tree
/// from below it, so that a jail's processes show it whatever they have become.
#[must_use]
pub fn processes_of(folder: &Path) -> Vec<Process> {
    let Some(word) = folder.file_name().map(OsStrExt::as_bytes) else {
        return Vec::new();
    };
    let own = std::process::id();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let names =
            |file: &str| fs::read(entry.path().join(file)).is_ok_and(|text| holds(&text, word));
        if pid != own
            && ["cmdline", "environ", "mountinfo"]
                .iter()
                .any(|file| names(file))
        {
            let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
            found.push(Process {
                pid,
                arguments: arguments.trim().to_owned(),
            });
        }
    }
    found
}

/// Waits until no process of the folder is left, and tells those that stay.
#[must_use]
pub fn settled(folder: &Path) -> Vec<Process> {
    let end = Instant::now() + GONE;
    loop {
        let left = processes_of(folder);
        if left.is_empty() || Instant::now() >= end {
            return left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Everything that is left of a place whose programs have ended. Processes are ended on the way.
pub(super) fn of(root: &Path) -> Vec<String> {
    let mut left = Vec::new();
    for process in settled(root) {
        left.push(format!("process {}: {}", process.pid, process.arguments));
        // Started below this place by this test: it must not outlive it.
        let _ = kill(
            Pid::from_raw(i32::try_from(process.pid).unwrap_or(i32::MAX)),
            Signal::SIGKILL,
        );
    }
    let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
    for line in mounts.split(|byte| *byte == b'\n') {
        if root
            .file_name()
            .is_some_and(|name| holds(line, name.as_bytes()))
        {
            left.push(format!("mount {}", String::from_utf8_lossy(line)));
        }
    }
    look(&root.join("run"), &mut left, &|name| {
        let id = name.strip_prefix("uids/").unwrap_or("x");
        ["uids", "operators", "containers"].contains(&name)
            || id.bytes().all(|byte| byte.is_ascii_digit())
    });
    look(&root.join("state"), &mut left, &documented);
    for folder in ["work", "config"] {
        look(&root.join(folder), &mut left, &|name| {
            !name.contains(".provost-")
        });
    }
    left
}

/// Whether a path of the state folder is one that day one's page knows: the record, its signing key, blobs by digest,
/// and a session's lock and layer (its manifest, its tree, the journal of what was applied).
fn documented(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    let hex = |word: &str, long: usize| {
        word.len() == long && word.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    match parts.as_slice() {
        ["record.db" | "record.db-wal" | "record.db-shm" | "audit.key" | "audit.pub"] => true,
        ["blobs" | "sessions"] => true,
        ["blobs", folder] => hex(folder, 2),
        ["blobs", folder, blob] => hex(folder, 2) && hex(blob, 62),
        ["sessions", _] => true,
        [
            "sessions",
            _,
            "lock" | "manifest.jsonl" | "apply.jsonl" | "tree" | "work",
        ] => true,
        ["sessions", _, "tree" | "work", ..] => true,
        _ => false,
    }
}

fn look(folder: &Path, left: &mut Vec<String>, known: &dyn Fn(&str) -> bool) {
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = path
                .strip_prefix(folder)
                .unwrap_or(&path)
                .to_string_lossy()
                .into_owned();
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            // What a command makes in its own layer is the layer's.
            let layer = name.contains("/tree/");
            if !known(&name) || (!layer && (kind.is_socket() || kind.is_fifo())) {
                left.push(format!("file {}", path.display()));
            }
            if kind.is_dir() {
                open.push(path);
            }
        }
    }
}

pub(super) fn holds(text: &[u8], word: &[u8]) -> bool {
    !word.is_empty() && text.windows(word.len()).any(|window| window == word)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixListener, process::Command};

    use super::{of, processes_of};
    use crate::harness::until;

    #[test]
    fn what_is_left_is_found() {
        let folder = tempfile::Builder::new().prefix("provost-test-").tempdir();
        let folder = folder.expect("a folder");
        assert_eq!(of(folder.path()), Vec::<String>::new());
        for name in [
            "run/uids",
            "state/blobs/ab",
            "state/sessions/s-1/tree",
            "work",
        ] {
            std::fs::create_dir_all(folder.path().join(name)).expect("a folder");
        }
        let blob = format!("state/blobs/ab/{}", "0".repeat(62));
        for name in [
            "run/uids/61234",
            "state/record.db-wal",
            &blob,
            "state/sessions/s-1/lock",
        ] {
            std::fs::write(folder.path().join(name), "").expect("a file");
        }
        assert_eq!(
            of(folder.path()),
            Vec::<String>::new(),
            "all of this is documented"
        );
        let odd = [
            "run/agent.sock",
            "state/blobs/ab/cd",
            "state/record.db-journal",
            "state/sessions/s-1/spool",
            "work/.provost-put-1-1",
        ];
        let socket = UnixListener::bind(folder.path().join(odd[0])).expect("a socket");
        for name in &odd[1..] {
            std::fs::write(folder.path().join(name), "").expect("a file");
        }
        let found = of(folder.path());
        for name in odd {
            assert!(
                found.iter().any(|line| line.ends_with(name)),
                "{name}: {found:?}"
            );
        }
        assert_eq!(found.len(), odd.len(), "{found:?}");
        drop(socket);
    }

    #[test]
    fn a_process_of_the_place_is_found_and_ended() {
        let folder = tempfile::Builder::new().prefix("provost-test-").tempdir();
        let folder = folder.expect("a folder");
        let mut child = Command::new("sleep");
        let mut child = child
            .arg("600")
            .env("PLACE", folder.path())
            .spawn()
            .expect("a child");
        // For a moment after its exec a process has no environment to show yet.
        let seen = || Some(processes_of(folder.path())).filter(|all| !all.is_empty());
        let seen = until("the child is seen", super::GONE, seen);
        assert_eq!(seen.len(), 1, "{seen:?}");
        let found = of(folder.path());
        assert!(
            found.len() == 1 && found[0].contains("sleep 600"),
            "{found:?}"
        );
        child.wait().expect("it was ended");
        assert!(processes_of(folder.path()).is_empty());
    }
}
