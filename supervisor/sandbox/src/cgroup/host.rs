//! Where this machine keeps the controllers, and where in them this process stands.

use std::{
    io,
    path::{Component, Path, PathBuf},
};

/// What a controller bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Memory, that in private folders of memory included.
    Memory,
    /// Processes at once.
    Pids,
    /// Processor time.
    Cpu,
}

impl Controller {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Pids, Self::Cpu];

    /// The kernel's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
        }
    }
}

/// The folder of this process' own group, in a hierarchy that has a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Home {
    /// On the host.
    pub(super) folder: PathBuf,
    /// Whether it is the unified hierarchy.
    pub(super) unified: bool,
}

/// Finds the home of a controller, from `/proc/self/mountinfo` and `/proc/self/cgroup`.
pub(super) fn home(controller: Controller) -> io::Result<Home> {
    home_in(controller, &std::fs::read_to_string("/proc/self/cgroup")?)
}

/// The group of a controller that another process stands in, as far as it can be seen from here.
pub(super) fn home_of(controller: Controller, pid: u32) -> io::Result<Home> {
    home_in(
        controller,
        &std::fs::read_to_string(format!("/proc/{pid}/cgroup"))?,
    )
}

fn home_in(controller: Controller, groups: &str) -> io::Result<Home> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    let none = || {
        let word = controller.as_str();
        io::Error::other(format!(
            "no hierarchy of control groups has `{word}` mounted"
        ))
    };
    find(controller, &mounts, groups)
        .filter(|home| !home.unified || offers(&home.folder, controller))
        .ok_or_else(none)
}

/// Whether a unified group may hand the controller to groups below it.
fn offers(folder: &Path, controller: Controller) -> bool {
    std::fs::read_to_string(folder.join("cgroup.controllers"))
        .is_ok_and(|list| list.split_whitespace().any(|w| w == controller.as_str()))
}

/// A v1 hierarchy with the controller, else the unified one.
fn find(controller: Controller, mounts: &str, groups: &str) -> Option<Home> {
    let mut unified = None;
    for line in mounts.lines() {
        // 36 35 98:0 /root /mount/point options - type source super,options
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (Some(root), Some(point)) = (fields.next(), fields.next()) else {
            continue;
        };
        let mut rest = after.split(' ');
        let kind = rest.next().unwrap_or_default();
        let options = rest.nth(1).unwrap_or_default();
        let v1 = kind == "cgroup" && options.split(',').any(|word| word == controller.as_str());
        if !v1 && kind != "cgroup2" {
            continue;
        }
        let Some(own) = own_path(groups, v1.then_some(controller)) else {
            continue;
        };
        // A mount may show a part of the hierarchy: what lies above it is not there.
        let Ok(below) = Path::new(own).strip_prefix(root) else {
            continue;
        };
        // Of a process outside of this one's own namespace of groups.
        if below.components().any(|part| part == Component::ParentDir) {
            continue;
        }
        let home = Home {
            folder: Path::new(point).join(below),
            unified: !v1,
        };
        if v1 {
            return Some(home);
        }
        unified.get_or_insert(home);
    }
    unified
}

/// `4:memory:/a/b`, or `0::/a/b` for the unified hierarchy.
fn own_path(groups: &str, controller: Option<Controller>) -> Option<&str> {
    groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (names, path) = rest.split_once(':')?;
        let mine = match controller {
            Some(controller) => names.split(',').any(|name| name == controller.as_str()),
            None => names.is_empty(),
        };
        mine.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_found_in_either_kind_of_hierarchy() {
        let mounts = "30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
            31 30 0:27 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n\
            32 30 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
            33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let groups = "4:memory:/jobs/a\n1:cpu,cpuacct:/\n0::/unit\n";
        let at = |controller| find(controller, mounts, groups);
        let home = |folder: &str, unified| {
            Some(Home {
                folder: PathBuf::from(folder),
                unified,
            })
        };
        assert_eq!(
            at(Controller::Memory),
            home("/sys/fs/cgroup/memory/jobs/a", false)
        );
        assert_eq!(at(Controller::Cpu), home("/sys/fs/cgroup/cpu/", false));
        assert_eq!(
            at(Controller::Pids),
            home("/sys/fs/cgroup/unified/unit", true)
        );
        let part =
            "40 1 0:30 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot";
        assert_eq!(
            find(Controller::Memory, part, "0::/box/in"),
            home("/sys/fs/cgroup/in", true)
        );
        assert_eq!(find(Controller::Memory, part, "0::/elsewhere"), None);
        assert_eq!(find(Controller::Memory, part, "0::/box/../out"), None);
        assert_eq!(find(Controller::Memory, "", groups), None);
    }
}
