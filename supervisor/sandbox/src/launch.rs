//! Starts a box and listens to its first words: hello, the set-up handles, ready. After *ready* no
//! descriptor is ever received again.

use std::{
    fs::File,
    io::{self, IoSliceMut, Seek as _, Write as _},
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::{net::UnixStream, process::CommandExt as _},
    },
    process::{Command, Stdio},
    sync::Arc,
    time::Instant,
};

use protocol::{
    ROLE_HANDS, Report, bounds,
    frame::{Decoder, FrameFault},
    jail::{JailSpec, Situation},
    phase::{HandsPhase, hands_may},
};
use rustix::{
    fs::{MemfdFlags, SealFlags},
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags},
};
use serde::Serialize;

use crate::{
    cgroup::Group,
    docker::{ContainerFacts, EngineFault},
    process::{Process, readable},
    spawner,
    worker::WorkerBinary,
};

/// A box that stands; nothing untrusted has run in it yet.
#[derive(Debug)]
pub struct Jail {
    /// The agent link (blocking).
    pub agent: UnixStream,
    /// The hands link (blocking). Receive from it without a control buffer: nothing goes up.
    pub hands: UnixStream,
    /// What hands said at *ready*.
    pub facts: Facts,
    /// The processes; dropping it kills them.
    pub process: Process,
    /// The listener of the calls that the supervisor carries out, if the spec has any: they wait
    /// until [`crate::attend`] has it.
    pub doors: Option<OwnedFd>,
}

/// What came up before *ready*, each of the kind that its name says.
#[derive(Debug)]
pub(crate) struct Handles {
    pub(crate) pidfd: OwnedFd,
    pub(crate) life: Option<OwnedFd>,
    pub(crate) doors: Option<OwnedFd>,
}

impl Handles {
    /// Sorts what came; exactly what the spec calls for, once each.
    fn sort(
        spec: &JailSpec,
        names: &[String],
        handles: Vec<OwnedFd>,
        started: u32,
    ) -> Result<Self, LaunchError> {
        let open = spec.situation == Situation::Landlock;
        let mut wanted = vec!["pidfd"];
        if open {
            wanted.push("life");
        }
        if open && spec.doors.any() {
            wanted.push("doors");
        }
        if names != wanted || handles.len() != wanted.len() {
            let wanted = wanted.join(", ");
            return Err(LaunchError::Fault(format!(
                "set-up handles other than {wanted}, once"
            )));
        }
        let mut handles = handles.into_iter();
        let Some(pidfd) = handles.next() else {
            return Err(LaunchError::Fault("no set-up handle".to_owned()));
        };
        check_pidfd(&pidfd, started)?;
        let (life, doors) = (handles.next(), handles.next());
        for (handle, kind) in [(&life, "pipe:["), (&doors, "anon_inode:seccomp")] {
            let Some(handle) = handle else { continue };
            let link = std::fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd()))?;
            if !link.to_string_lossy().starts_with(kind) {
                let link = link.display();
                return Err(LaunchError::Fault(format!(
                    "a set-up handle is `{link}` and no `{kind}`"
                )));
            }
        }
        Ok(Self { pidfd, life, doors })
    }
}

/// What hands said at *ready*: explains, proves nothing; the probes do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Landlock's ABI as used.
    pub abi: u32,
    /// Landlock's errata bits.
    pub errata: u32,
    /// User id inside.
    pub uid: u32,
    /// Effective capabilities as hex.
    pub capabilities: String,
    /// What holds the box together.
    pub situation: Situation,
    /// What a container engine said of it, where one has made it.
    pub container: Option<ContainerFacts>,
}

/// Why no box stands. Nothing of it is left when this is returned.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The worker did not start.
    #[error("cannot start the worker `{path}`: {source}")]
    Start {
        /// Its file.
        path: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel refused something on our side (descriptors, memory).
    #[error("cannot prepare the jail's links: {0}")]
    Links(#[from] io::Error),
    /// The spec does not fit.
    #[error("cannot write the jail's spec: {0}")]
    Spec(FrameFault),
    /// The container engine did not do its part.
    #[error(transparent)]
    Engine(#[from] EngineFault),
    /// This host cannot hold the box.
    #[error("cannot build the jail: {step}: {message}")]
    Unfit {
        /// The step that failed.
        step: String,
        /// What, and what to do.
        message: String,
    },
    /// It left without a word.
    #[error(
        "the worker left before the jail stood ({how}): see the kernel's log for a refused call"
    )]
    Gone {
        /// Its exit, for people.
        how: String,
    },
    /// It took too long.
    #[error("the jail was not ready within {} s: the machine is overloaded or a mount hangs", bounds::GREETING.as_secs())]
    Late,
    /// It broke the treaty.
    #[error("the worker broke the treaty while the jail was built: {0}")]
    Fault(String),
}

/// Starts a box from `spec` and waits until it stands, at most [`bounds::GREETING`].
///
/// # Errors
/// [`LaunchError`]; whatever was started is dead by then.
pub fn launch(spec: &JailSpec, worker: &WorkerBinary) -> Result<Jail, LaunchError> {
    launch_in(spec, worker, None)
}

/// As [`launch`], with every process of the box in `group` before anything untrusted runs.
///
/// # Errors
/// As [`launch`]; also where the kernel refuses a process its group.
pub fn launch_in(
    spec: &JailSpec,
    worker: &WorkerBinary,
    group: Option<&Arc<Group>>,
) -> Result<Jail, LaunchError> {
    let (hands, hands_inside) = UnixStream::pair()?;
    let (agent, agent_inside) = UnixStream::pair()?;
    let mut process = start(
        worker,
        "jail",
        [
            OwnedFd::from(hands_inside).into(),
            OwnedFd::from(agent_inside).into(),
        ],
        spec,
        group.cloned(),
    )?;
    match greet(&hands, spec, process.pid()) {
        Ok((facts, handles)) => {
            if let Some(group) = group {
                let hands = pid_of(&handles.pidfd).unwrap_or(process.pid());
                group.adopt(&[process.pid(), hands])?;
            }
            process.adopt(handles.pidfd, handles.life);
            Ok(Jail {
                agent,
                hands,
                facts,
                process,
                doors: handles.doors,
            })
        }
        Err(LaunchError::Gone { .. }) => Err(LaunchError::Gone {
            how: process.how_it_left(),
        }),
        Err(error) => Err(error),
    }
}

/// Starts the worker in `role` with two descriptors and a spec as its third, and nothing else.
pub(crate) fn start(
    worker: &WorkerBinary,
    role: &str,
    [first, second]: [Stdio; 2],
    spec: &impl Serialize,
    group: Option<Arc<Group>>,
) -> Result<Process, LaunchError> {
    let spec = sealed(spec)?;
    let mut command = Command::new(worker.program());
    command
        .arg0("provost-worker")
        .arg(role)
        .env_clear()
        .current_dir("/")
        .stdin(first)
        .stdout(second)
        .stderr(Stdio::from(spec));
    let child = spawner::start(command, group).map_err(|source| LaunchError::Start {
        path: worker.path().display().to_string(),
        source,
    })?;
    Ok(Process::new(child))
}

/// A spec as a sealed file in memory: nobody can change it after it was written.
fn sealed(spec: &impl Serialize) -> Result<OwnedFd, LaunchError> {
    let bytes = serde_json::to_vec(spec).map_err(|error| LaunchError::Links(error.into()))?;
    if bytes.len() > bounds::MODEL_FRAME {
        let bound = bounds::MODEL_FRAME;
        return Err(LaunchError::Spec(FrameFault::TooLong {
            size: bytes.len(),
            bound,
        }));
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let handle = rustix::fs::memfd_create("spec", flags).map_err(io::Error::from)?;
    let mut file = File::from(handle);
    file.write_all(&bytes)?;
    file.rewind()?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals).map_err(io::Error::from)?;
    Ok(file.into())
}

/// Hears hello, the handle and ready, and nothing else.
pub(crate) fn greet(
    hands: &UnixStream,
    spec: &JailSpec,
    started: u32,
) -> Result<(Facts, Handles), LaunchError> {
    let deadline = Instant::now() + bounds::GREETING;
    let fault = |why: &str| LaunchError::Fault(why.to_owned());
    let mut decoder = Decoder::new(bounds::FRAME);
    let mut handles: Vec<OwnedFd> = Vec::new();
    let mut sorted = None;
    let mut phase = HandsPhase::Greeting;
    loop {
        let Some(report) = decoder
            .next_message::<Report>()
            .map_err(|f| LaunchError::Fault(f.to_string()))?
        else {
            receive(hands, &mut decoder, &mut handles, deadline)?;
            continue;
        };
        if !hands_may(phase, &report) {
            return Err(fault("a report that its phase does not permit"));
        }
        match report {
            Report::Hello(hello) => {
                hello
                    .check(ROLE_HANDS, &spec.session)
                    .map_err(|mismatch| LaunchError::Fault(mismatch.to_string()))?;
                phase = HandsPhase::SettingUp;
            }
            Report::Handles { names } => {
                if sorted.is_some() {
                    return Err(fault("set-up handles twice"));
                }
                let received = std::mem::take(&mut handles);
                sorted = Some(Handles::sort(spec, &names, received, started)?);
            }
            Report::Ready {
                abi,
                errata,
                uid,
                capabilities,
                situation,
            } => {
                let Some(sorted) = sorted.filter(|_| handles.is_empty() && !decoder.is_midway())
                else {
                    return Err(fault("ready without its handle, or with more behind it"));
                };
                return Ok((
                    Facts {
                        abi,
                        errata,
                        uid,
                        capabilities,
                        situation,
                        container: None,
                    },
                    sorted,
                ));
            }
            Report::Unfit { step, message } => return Err(LaunchError::Unfit { step, message }),
            Report::AgentStarted
            | Report::AgentGone(_)
            | Report::Spawned { .. }
            | Report::Exited { .. }
            | Report::Resolved { .. }
            | Report::PutDone { .. }
            | Report::Failed { .. } => return Err(fault("an answer without an order")),
        }
    }
}

/// Receives bytes and, before *ready* only, handles.
fn receive(
    hands: &UnixStream,
    decoder: &mut Decoder,
    handles: &mut Vec<OwnedFd>,
    deadline: Instant,
) -> Result<(), LaunchError> {
    if !readable(hands.as_fd(), deadline) {
        return Err(LaunchError::Late);
    }
    let mut bytes = [0_u8; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(bounds::SETUP_HANDLES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let got = match rustix::net::recvmsg(
        hands,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        flags,
    ) {
        Ok(got) => got,
        Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => return Ok(()),
        // The peer left with bytes of ours unread.
        Err(rustix::io::Errno::CONNRESET) => return Err(LaunchError::Gone { how: String::new() }),
        Err(error) => return Err(LaunchError::Links(error.into())),
    };
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            handles.extend(received);
        }
    }
    if got.flags.contains(ReturnFlags::CTRUNC) || handles.len() > bounds::SETUP_HANDLES {
        return Err(LaunchError::Fault(
            "more set-up handles than the bound".to_owned(),
        ));
    }
    if got.bytes == 0 {
        return Err(LaunchError::Gone { how: String::new() });
    }
    decoder.push(bytes.get(..got.bytes).unwrap_or_default());
    Ok(())
}

/// Makes sure that a handle is the pidfd of a process of this very box, before it is ever used to
/// kill: the kernel tells its pid, and its parents lead to the process that was started.
fn check_pidfd(handle: &OwnedFd, started: u32) -> Result<(), LaunchError> {
    let fault = || LaunchError::Fault("the handle of pid 1 is not one of this jail".to_owned());
    let pid = pid_of(handle).ok_or_else(fault)?;
    if pid == started {
        return Ok(());
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).map_err(|_| fault())?;
    let parent: u32 = field(&status, "PPid:").ok_or_else(fault)?;
    // `jail` may have left it to us, the nearest subreaper.
    if parent == started || parent == std::process::id() {
        Ok(())
    } else {
        Err(fault())
    }
}

/// The pid on the host that a pidfd is of; `None` if it is none, or its process is gone.
pub(crate) fn pid_of(handle: &OwnedFd) -> Option<u32> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd())).ok()?;
    field(&info, "Pid:")
}

fn field(text: &str, name: &str) -> Option<u32> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[cfg(test)]
mod tests;
