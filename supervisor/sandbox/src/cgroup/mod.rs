//! Control groups of a session: the limits that hold for all its processes together.
//!
//! A group lies below the supervisor's own one, as `provost/SESSION`, so that whatever bounds the
//! supervisor bounds its sessions too. With v1 controllers the thread that starts a box stands in the
//! group while it does so, hence everything of the box is born in it: moving another process costs the
//! kernel ten milliseconds, moving oneself none. In the unified hierarchy threads cannot do that, and
//! the box is moved before anything untrusted runs in it. No file of a group is in any view.

mod host;
mod knobs;

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use protocol::{Probe, ProbeDomain, Right, SessionId, bounds};

pub use host::Controller;
use knobs::knobs;

/// Name of the folder that holds the groups of all sessions.
const FOLDER: &str = "provost";
/// Microseconds of one period of a processor quota.
const PERIOD: u64 = 100_000;
/// Processor share beside other work, where 1024 (v1) or 100 (v2) is usual.
const SHARES: u64 = 256;
const WEIGHT: u64 = 25;
/// A group with no process that is younger may be one whose box is just being started.
const YOUNG: Duration = Duration::from_secs(60);

/// What holds for a whole session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Bytes.
    pub memory: u64,
    /// Processes.
    pub processes: u64,
    /// Processors; `None` bounds the share only.
    pub cpu: Option<f64>,
}

/// One file of a group: its name and the value it must have.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Knob {
    file: &'static str,
    value: String,
    /// A kernel without it is as good (swap accounting).
    optional: bool,
}

/// A session's place in one controller's hierarchy.
#[derive(Debug)]
struct Part {
    controller: Controller,
    folder: PathBuf,
    home: PathBuf,
    unified: bool,
    knobs: Vec<Knob>,
}

/// The groups of one session; removed when dropped, with whatever is still in them.
#[derive(Debug)]
pub struct Group {
    parts: Vec<Part>,
    absent: Vec<(Controller, String)>,
    /// What an engine was told to hold its container to, in groups that it makes itself.
    engine: Option<Limits>,
}

/// What the kernel counted in a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Events {
    /// Processes that it ended because memory ran out.
    pub memory: u64,
    /// Processes that it did not make because there were enough.
    pub processes: u64,
}

impl Group {
    /// Makes a session's groups with their limits; what cannot be made is told, not an error.
    #[must_use]
    pub fn make(session: &SessionId, limits: &Limits) -> Self {
        let mut group = Self {
            parts: Vec::new(),
            absent: Vec::new(),
            engine: None,
        };
        for controller in Controller::ALL {
            match Part::make(controller, session, limits) {
                Ok(part) => group.parts.push(part),
                Err(why) => group.absent.push((controller, why.to_string())),
            }
        }
        group
    }

    /// Groups that a container's engine makes, to be read back only.
    #[must_use]
    pub fn of_engine(limits: Limits) -> Self {
        Self {
            parts: Vec::new(),
            absent: Vec::new(),
            engine: Some(limits),
        }
    }

    /// Moves the calling thread in, where threads can be; the answer brings it back.
    pub(crate) fn enter(&self) -> io::Result<Stay> {
        let mut stay = Stay { homes: Vec::new() };
        for part in self.parts.iter().filter(|part| !part.unified) {
            stay.homes.push(part.home.join("tasks"));
            fs::write(part.folder.join("tasks"), "0")?;
        }
        Ok(stay)
    }

    /// Moves processes in where no thread could be; what is made below them follows.
    ///
    /// # Errors
    /// The kernel refused one.
    pub fn adopt(&self, pids: &[u32]) -> io::Result<()> {
        // One hierarchy holds all unified parts.
        let Some(part) = self.parts.iter().find(|part| part.unified) else {
            return Ok(());
        };
        for pid in pids {
            fs::write(part.folder.join("cgroup.procs"), pid.to_string())?;
        }
        Ok(())
    }

    /// Reads back that process `pid` stands in each group and that each limit is what it should be.
    #[must_use]
    pub fn read_back(&self, pid: u32) -> Vec<Probe> {
        if let Some(limits) = &self.engine {
            let probe = |&controller: &Controller| of_engine(controller, pid, limits);
            return Controller::ALL.iter().map(probe).collect();
        }
        let own = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let mut probes: Vec<Probe> = self.parts.iter().map(|part| part.probe(&own)).collect();
        probes.extend(self.absent.iter().map(|(controller, why)| {
            let case = format!("cgroup.{}", controller.as_str());
            outside(right(*controller), case, false, true, why.clone())
        }));
        probes
    }

    /// What enforces a right here, if a group does.
    #[must_use]
    pub fn by(&self, right_of: Right) -> Option<String> {
        let part = self
            .parts
            .iter()
            .find(|part| right(part.controller) == right_of)?;
        let version = if part.unified { "v2" } else { "v1" };
        let file = part.knobs.first().map_or("", |knob| knob.file);
        Some(format!("cgroup {version} {file}"))
    }

    /// What the kernel counted so far.
    #[must_use]
    pub fn events(&self) -> Events {
        let mut events = Events::default();
        for part in &self.parts {
            let count = |file: &str, name: &str| {
                let text = fs::read_to_string(part.folder.join(file)).unwrap_or_default();
                let found = text.lines().find_map(|line| line.strip_prefix(name));
                found.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
            };
            match (part.controller, part.unified) {
                (Controller::Memory, true) => events.memory = count("memory.events", "oom_kill "),
                (Controller::Memory, false) => {
                    events.memory = count("memory.oom_control", "oom_kill ");
                }
                (Controller::Pids, _) => events.processes = count("pids.events", "max "),
                (Controller::Cpu, _) => {}
            }
        }
        events
    }

    /// Whether it bounds anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let until = Instant::now() + bounds::END_TIME;
        for part in &self.parts {
            // What cannot be removed now is swept at the next start.
            let _ = remove(&part.folder, until);
            if let Some(parent) = part.folder.parent() {
                // Only the last session's end removes it.
                let _ = fs::remove_dir(parent);
            }
        }
    }
}

/// A thread away from home; dropped, it is back.
#[derive(Debug)]
pub(crate) struct Stay {
    homes: Vec<PathBuf>,
}

impl Drop for Stay {
    fn drop(&mut self) {
        for tasks in &self.homes {
            // A home that is gone leaves the thread where it is: bounded, and no wall of anybody's.
            let _ = fs::write(tasks, "0");
        }
    }
}

impl Part {
    fn make(controller: Controller, session: &SessionId, limits: &Limits) -> io::Result<Self> {
        let home = host::home(controller)?;
        let parent = home.folder.join(FOLDER);
        let part = Self {
            controller,
            folder: parent.join(session.as_str()),
            home: home.folder,
            unified: home.unified,
            knobs: knobs(controller, home.unified, limits),
        };
        if part.unified {
            hand_down(&part.home, controller)?;
        } else {
            // A thread that goes in comes back, or it would end with the group.
            let tasks = part.home.join("tasks");
            fs::OpenOptions::new()
                .write(true)
                .open(&tasks)
                .map_err(|error| io::Error::other(format!("{}: {error}", tasks.display())))?;
        }
        make_folder(&parent)?;
        if part.unified {
            hand_down(&parent, controller)?;
        }
        // A session's last end may have removed the folder above in between.
        if make_folder(&part.folder).is_err() {
            make_folder(&parent)?;
            make_folder(&part.folder)?;
        }
        for knob in &part.knobs {
            let file = part.folder.join(knob.file);
            match fs::write(&file, &knob.value) {
                Err(_) if knob.optional && !file.exists() => {}
                Err(error) => {
                    let _ = fs::remove_dir(&part.folder);
                    let why = format!("{}: {error}", file.display());
                    return Err(io::Error::other(why));
                }
                Ok(()) => {}
            }
        }
        Ok(part)
    }

    /// Refused: each limit is in place. Twin: the process is in the group that the limits are of.
    fn probe(&self, own: &str) -> Probe {
        let name = self.folder.file_name().unwrap_or_default();
        let tail = format!("/{FOLDER}/{}", name.to_string_lossy());
        self.judge(own.lines().any(|line| {
            let names = line.split(':').nth(1).unwrap_or_default();
            let here = if self.unified {
                names.is_empty()
            } else {
                names.split(',').any(|n| n == self.controller.as_str())
            };
            here && line.ends_with(&tail)
        }))
    }

    fn judge(&self, inside: bool) -> Probe {
        let mut wrong = Vec::new();
        let mut shown = Vec::new();
        for knob in &self.knobs {
            let file = self.folder.join(knob.file);
            match fs::read_to_string(&file) {
                Ok(now) if same(now.trim(), &knob.value) => {
                    shown.push(format!("{} {}", knob.file, now.trim()));
                }
                Ok(now) => wrong.push(format!(
                    "{} is {} instead of {}",
                    knob.file,
                    now.trim(),
                    knob.value
                )),
                Err(_) if knob.optional && !file.exists() => {}
                Err(error) => wrong.push(format!("{}: {error}", file.display())),
            }
        }
        if !inside {
            wrong.push("the box is not in its group".to_owned());
        }
        let refused = wrong.is_empty();
        let answer = if refused { shown } else { wrong }.join(", ");
        let case = format!("cgroup.{}", self.controller.as_str());
        outside(right(self.controller), case, refused, inside, answer)
    }
}

/// What holds a container's first process, in the group where its engine has put it. The twin: it is not
/// the group of the supervisor.
fn of_engine(controller: Controller, pid: u32, limits: &Limits) -> Probe {
    let found = host::home_of(controller, pid);
    let home = match found {
        Ok(home) => home,
        Err(why) => {
            let case = format!("cgroup.{}", controller.as_str());
            return outside(right(controller), case, false, true, why.to_string());
        }
    };
    let apart = host::home(controller).map_or(true, |own| own.folder != home.folder);
    let mut knobs = knobs(controller, home.unified, limits);
    // Shares beside other work are left as the engine gives them.
    knobs.retain(|knob| !matches!(knob.file, "cpu.shares" | "cpu.weight"));
    let part = Part {
        controller,
        folder: home.folder.clone(),
        home: home.folder,
        unified: home.unified,
        knobs,
    };
    part.judge(apart)
}

/// What the kernel answers is what was written, rounded down to a page.
fn same(now: &str, wanted: &str) -> bool {
    if now == wanted {
        return true;
    }
    match (now.parse::<u64>(), wanted.parse::<u64>()) {
        (Ok(now), Ok(wanted)) => now <= wanted && wanted - now < 64 * bounds::KIB,
        _ => false,
    }
}

fn right(controller: Controller) -> Right {
    match controller {
        Controller::Memory => Right::Memory,
        Controller::Pids => Right::Processes,
        Controller::Cpu => Right::Cpu,
    }
}

/// A finding of the supervisor's own.
pub(crate) fn outside(
    right: Right,
    case: String,
    refused: bool,
    twin: bool,
    answer: String,
) -> Probe {
    Probe {
        right,
        case,
        domain: ProbeDomain::Outside,
        refused,
        twin,
        answer,
    }
}

/// Makes a folder that only its owner writes, whatever the umask, or takes one that is so already: whoever
/// else could write there would make groups of its own and take processes out of ours.
fn make_folder(folder: &Path) -> io::Result<()> {
    let told =
        |why: &dyn std::fmt::Display| io::Error::other(format!("{}: {why}", folder.display()));
    match fs::DirBuilder::new().mode(0o755).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let facts = fs::symlink_metadata(folder).map_err(|error| told(&error))?;
            let ours = [0, rustix::process::geteuid().as_raw()].contains(&facts.uid());
            if ours && facts.mode() & 0o022 == 0 {
                return Ok(());
            }
            Err(told(
                &"it is another account's, or others may write there: remove it",
            ))
        }
        Err(error) => Err(told(&error)),
        Ok(()) => Ok(()),
    }
}

/// Lets the groups below a unified group have the controller.
fn hand_down(folder: &Path, controller: Controller) -> io::Result<()> {
    let file = folder.join("cgroup.subtree_control");
    let has = |text: String| text.split_whitespace().any(|w| w == controller.as_str());
    if fs::read_to_string(&file).is_ok_and(has) {
        return Ok(());
    }
    fs::write(&file, format!("+{}", controller.as_str())).map_err(|error| {
        let why = match error.raw_os_error() {
            Some(16) => "processes stand in it: start Provost in a scope of its own (systemd-run --user --scope -p Delegate=yes provost …)",
            _ => "it was not handed over: start Provost with systemd-run --user --scope -p Delegate=yes provost …",
        };
        io::Error::other(format!("{}: {error}: {why}", file.display()))
    })
}

/// Ends whatever is in a group and removes it.
fn remove(folder: &Path, until: Instant) -> io::Result<()> {
    loop {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if Instant::now() >= until => return Err(error),
            Err(_) => {
                kill(folder);
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(()) => return Ok(()),
        }
    }
}

/// Kills what is in a group: at once where the kernel can, else one by one.
fn kill(folder: &Path) {
    if fs::write(folder.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    let list = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    for pid in list.lines().filter_map(|line| line.parse().ok()) {
        // Never this process, should a thread of it not have come back.
        let other = |pid: &rustix::process::Pid| *pid != rustix::process::getpid();
        if let Some(pid) = rustix::process::Pid::from_raw(pid).filter(other) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

/// Removes groups that supervisors which died have left. `is_over` says of a session whether nobody
/// serves it any more.
pub fn sweep(is_over: &dyn Fn(&SessionId) -> bool) {
    for controller in Controller::ALL {
        let Ok(home) = host::home(controller) else {
            continue;
        };
        let Ok(found) = fs::read_dir(home.folder.join(FOLDER)) else {
            continue;
        };
        for entry in found.flatten().filter(|entry| entry.path().is_dir()) {
            let name = entry.file_name();
            let session = name.to_str().and_then(|name| SessionId::parse(name).ok());
            let age = entry.metadata().and_then(|facts| facts.modified());
            let young = age.map_or(true, |at| at.elapsed().is_ok_and(|age| age < YOUNG));
            match session {
                Some(session) if is_over(&session) => {
                    let _ = remove(&entry.path(), Instant::now() + bounds::END_TIME);
                }
                // Of another record, or of doctor: only if nothing is in it, which rmdir itself tells.
                Some(_) if !young => drop(fs::remove_dir(entry.path())),
                _ => {}
            }
        }
        let _ = fs::remove_dir(home.folder.join(FOLDER));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn es_039_a_folder_that_others_may_write_holds_no_groups() {
        use std::os::unix::fs::PermissionsExt as _;

        let above = tempfile::tempdir().expect("a folder");
        let folder = above.path().join("provost");
        make_folder(&folder).expect("made");
        make_folder(&folder).expect("taken");
        let mode = folder.metadata().expect("there").mode() & 0o777;
        assert_eq!(mode & 0o022, 0, "{mode:o}");
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(&folder, open).expect("opened");
        make_folder(&folder).expect_err("others may write there");
    }

    #[test]
    fn limits_become_files_of_either_version() {
        let limits = Limits {
            memory: 1 << 30,
            processes: 64,
            cpu: Some(1.5),
        };
        let told = |controller, unified| -> Vec<String> {
            knobs(controller, unified, &limits)
                .into_iter()
                .map(|knob| format!("{}={}", knob.file, knob.value))
                .collect()
        };
        assert_eq!(
            told(Controller::Memory, true),
            ["memory.max=1073741824", "memory.swap.max=0"]
        );
        assert_eq!(
            told(Controller::Cpu, true),
            ["cpu.max=150000 100000", "cpu.weight=25"]
        );
        assert_eq!(
            told(Controller::Cpu, false)[..2],
            ["cpu.cfs_quota_us=150000", "cpu.cfs_period_us=100000"]
        );
        assert_eq!(told(Controller::Pids, true), ["pids.max=64"]);
        assert!(same("1048576", "1050000") && !same("1048576", "9000000"));
        assert!(!same("max", "1050000"), "no limit is not this limit");
    }

    #[test]
    fn a_group_holds_who_was_started_in_it_and_is_gone_when_dropped() {
        let session =
            SessionId::parse(&format!("s-cgroup-test-{}", std::process::id())).expect("an id");
        let limits = Limits {
            memory: 64 << 20,
            processes: 20,
            cpu: None,
        };
        let group = Group::make(&session, &limits);
        if group.is_empty() {
            // An ordinary account without delegation: then each right says why.
            assert_eq!(group.absent.len(), Controller::ALL.len());
            return;
        }
        let folders: Vec<PathBuf> = group.parts.iter().map(|p| p.folder.clone()).collect();
        let before = fs::read_to_string("/proc/thread-self/cgroup").expect("read");
        let stay = group.enter().expect("entered");
        let mut child = std::process::Command::new("/bin/sleep")
            .arg("60")
            .spawn()
            .expect("started");
        drop(stay);
        assert_eq!(
            fs::read_to_string("/proc/thread-self/cgroup").expect("read"),
            before
        );
        group.adopt(&[child.id()]).expect("adopted");
        let held = |group: &Group| group.read_back(child.id()).iter().all(Probe::held);
        assert!(
            held(&group) || !group.absent.is_empty(),
            "{:?}",
            group.read_back(child.id())
        );
        // Who is not in it is seen, and so is a limit that somebody changed.
        assert!(!group.read_back(std::process::id()).iter().any(Probe::held));
        let pids = group
            .parts
            .iter()
            .find(|part| part.controller == Controller::Pids);
        if let Some(part) = pids {
            fs::write(part.folder.join("pids.max"), "max").expect("changed");
            let seen = group.read_back(child.id());
            assert!(
                seen.iter().any(|probe| probe.right == Right::Processes
                    && probe.answer.contains("instead of 20")
                    && !probe.held()),
                "{seen:?}"
            );
        }
        drop(group);
        for folder in folders {
            assert!(!folder.exists(), "{}", folder.display());
        }
        let status = child.wait().expect("ended");
        assert!(!status.success(), "what was in it is killed: {status}");
    }
}
