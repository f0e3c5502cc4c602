//! One container from its making to its removal, and what became of it.

use std::{
    fs, io,
    os::fd::{AsFd as _, OwnedFd},
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bollard::{Docker, errors::Error, query_parameters::WaitContainerOptions};
use futures_util::StreamExt as _;
use protocol::bounds;
use rustix::process::Signal;

use super::{engine::Engine, stage::Folder};

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    /// Its first process left.
    Left {
        /// Its exit code.
        code: i64,
        /// Whether the kernel ended it for want of memory.
        memory: bool,
        /// Whether somebody has removed it since.
        removed: bool,
    },
    /// The engine does not tell any more.
    EngineLost(String),
}

#[derive(Debug, Default)]
struct Known {
    end: Option<End>,
    /// The first process, to end it when the engine is lost.
    first: Option<OwnedFd>,
    /// Where the kernel counts what it has ended for want of memory.
    counter: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct Fate {
    known: Mutex<Known>,
    changed: Condvar,
}

impl Fate {
    fn set(&self, end: End) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.end.is_some() {
            return;
        }
        if let (End::EngineLost(_), Some(first)) = (&end, &known.first) {
            // Nobody would remove it at its end, or say how it ended: it ends now. An error means
            // that it has ended.
            let _ = rustix::process::pidfd_send_signal(first, Signal::KILL);
        }
        known.end = Some(end);
        self.changed.notify_all();
    }

    fn within(&self, bound: Duration) -> Option<End> {
        let until = Instant::now() + bound;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if known.end.is_some() || left.is_zero() {
                return known.end.clone();
            }
            known = self
                .changed
                .wait_timeout(known, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

/// Tells how a container ended, also after it was removed.
#[derive(Debug, Clone)]
pub struct Explainer {
    fate: Arc<Fate>,
}

impl Explainer {
    /// How it ended, in one sentence; waits a moment for the engine to know. `None` if it runs.
    #[must_use]
    pub fn explain(&self) -> Option<String> {
        self.fate.within(bounds::END_TIME).map(|end| sentence(&end))
    }
}

impl Explainer {
    /// How many of its processes the kernel has ended for want of memory so far.
    #[must_use]
    pub fn memory_kills(&self) -> u64 {
        let known = self
            .fate
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let text = known
            .counter
            .as_ref()
            .and_then(|path| fs::read_to_string(path).ok());
        text.as_deref().and_then(kills).unwrap_or(0)
    }
}

/// The count in a group's file, of either version.
fn kills(text: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// The file of a process' memory group that holds the count; `None` where this process sees none.
fn counter(pid: u32) -> Option<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let files = text.lines().filter_map(|line| {
        let mut words = line.splitn(3, ':');
        let (_, controllers, path) = (words.next()?, words.next()?, words.next()?);
        let path = path.trim_start_matches('/');
        if controllers.split(',').any(|word| word == "memory") {
            Some(format!("/sys/fs/cgroup/memory/{path}/memory.oom_control"))
        } else {
            (controllers.is_empty()).then(|| format!("/sys/fs/cgroup/{path}/memory.events"))
        }
    });
    files.map(PathBuf::from).find(|file| file.is_file())
}

fn sentence(end: &End) -> String {
    match end {
        End::EngineLost(why) => format!(
            "the Docker engine was lost ({why}), so the container was ended: see whether it runs (`systemctl status docker`); the next start removes what is left"
        ),
        End::Left { memory: true, .. } => "the container ran out of memory and the kernel ended its first process: raise [limits] memory, or let commands do less at once".to_owned(),
        End::Left { removed: true, .. } => "the container was removed from outside (docker rm, docker system prune): `provost resume` goes on in a new one".to_owned(),
        End::Left { code: 137 | 143, .. } => "the container was ended from outside (docker kill, docker stop, or a restart of the engine): `provost resume` goes on in a new one".to_owned(),
        End::Left { code, .. } => format!("the container's first process left with code {code}"),
    }
}

/// A container. Dropped, it is ended and removed, with its folder on the host.
#[derive(Debug)]
pub(crate) struct Container {
    engine: Arc<Engine>,
    name: String,
    folder: Option<Folder>,
    fate: Arc<Fate>,
}

impl Container {
    /// One that is about to be made under this name.
    pub(super) fn new(engine: Arc<Engine>, name: String, folder: Folder) -> Self {
        Self {
            engine,
            name,
            folder: Some(folder),
            fate: Arc::default(),
        }
    }

    /// Listens for its end from now on.
    pub(super) fn watch(&self) {
        let (docker, name) = (self.engine.docker().clone(), self.name.clone());
        let fate = Arc::clone(&self.fate);
        self.engine.spawn(async move {
            fate.set(end_of(&docker, &name).await);
        });
    }

    /// Whether its first process has left, as far as the engine has said.
    pub(super) fn has_left(&self) -> bool {
        self.fate.within(Duration::ZERO).is_some()
    }

    /// It stands: the stages go, and a lost engine ends it from now on.
    pub(super) fn settle(&self, first: &OwnedFd, pid: u32) -> io::Result<()> {
        let copy = first.as_fd().try_clone_to_owned()?;
        {
            let mut known = self
                .fate
                .known
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            known.first = Some(copy);
            known.counter = counter(pid);
        }
        match &self.folder {
            Some(folder) => folder.unstage(),
            None => Ok(()),
        }
    }

    /// How it ended.
    pub(super) fn explain(&self) -> Option<String> {
        self.explainer().explain()
    }

    /// The same, for whoever outlives it.
    pub(crate) fn explainer(&self) -> Explainer {
        Explainer {
            fate: Arc::clone(&self.fate),
        }
    }

    /// Removes it and its folder, within [`bounds::ENGINE_CALL`]. What cannot be removed is found by the
    /// next start.
    pub(crate) fn remove(&mut self) {
        if let Some(folder) = self.folder.take() {
            let _ = self.engine.remove(&self.name, bounds::ENGINE_CALL);
            drop(folder);
        }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Waits for a container's end, however long that takes: the engine keeps the answer open.
async fn end_of(docker: &Docker, name: &str) -> End {
    let options = WaitContainerOptions {
        condition: "not-running".to_owned(),
    };
    let mut waiting = docker.wait_container(name, Some(options));
    let code = match waiting.next().await {
        Some(Ok(answer)) => answer.status_code,
        Some(Err(Error::DockerContainerWaitError { code, .. })) => code,
        Some(Err(Error::DockerResponseServerError {
            status_code: 404, ..
        })) => {
            return End::Left {
                code: 137,
                memory: false,
                removed: true,
            };
        }
        Some(Err(error)) => return End::EngineLost(error.to_string()),
        None => return End::EngineLost("it hung up".to_owned()),
    };
    let asked = docker.inspect_container(name, None);
    let (memory, removed) = match tokio::time::timeout(bounds::END_TIME, asked).await {
        Ok(Ok(found)) => {
            let state = found.state.unwrap_or_default();
            (state.oom_killed == Some(true) && code == 137, false)
        }
        Ok(Err(Error::DockerResponseServerError {
            status_code: 404, ..
        })) => (false, true),
        Ok(Err(_)) | Err(_) => (false, false),
    };
    End::Left {
        code,
        memory,
        removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_a_group_count_alike() {
        let first = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(kills(first), Some(3));
        assert_eq!(kills("low 0\nhigh 0\nmax 7\noom 2\noom_kill 2\n"), Some(2));
        assert_eq!(kills("oom_group_kill 1\n"), None);
    }

    #[test]
    fn the_first_word_on_an_end_stays() {
        let fate = Fate::default();
        assert_eq!(fate.within(Duration::from_millis(1)), None);
        fate.set(End::EngineLost("reset".to_owned()));
        fate.set(End::Left {
            code: 0,
            memory: false,
            removed: false,
        });
        let text = sentence(&fate.within(Duration::ZERO).expect("known"));
        assert!(text.contains("engine was lost (reset)"), "{text}");
    }
}
