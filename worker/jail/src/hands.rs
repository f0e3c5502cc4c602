//! Hands behind its walls, and what it may start.

use std::{
    cell::Cell,
    ffi::CString,
    fs::File,
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use nix::{
    errno::Errno,
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, SigmaskHow, Signal, pthread_sigmask},
        signalfd::{SfdFlags, SignalFd},
    },
    unistd::{Pid, geteuid, getppid, pipe2},
};
use protocol::{
    CommandLimits, Failure, FailureClass, ProbeDomain, Report, Spawn, bounds,
    jail::{Domain, JailSpec, ProbePlan, Situation, WORKER_ITSELF},
};

use crate::{
    Child, News, Unfit, View, agent, calls, capabilities,
    child::{Note, read_note},
    command::{Command, Streams, exec_plain},
    descriptors,
    domain::{self, Kernel},
    filter, probe,
    sys::{self, Fork},
    unfit::Step as _,
    warden::{self, Lines},
};

/// What [`Report::Ready`] tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Landlock's ABI as used.
    pub abi: u32,
    /// Landlock's errata bits.
    pub errata: u32,
    /// User id inside.
    pub uid: u32,
    /// Effective capabilities, read back, as hex.
    pub capabilities: String,
    /// What holds the box together.
    pub situation: Situation,
}

impl Standing {
    /// The word of the treaty for it.
    #[must_use]
    pub fn report(&self) -> Report {
        Report::Ready {
            abi: self.abi,
            errata: self.errata,
            uid: self.uid,
            capabilities: self.capabilities.clone(),
            situation: self.situation,
        }
    }
}

/// A process that stands behind hands' walls. Only it can start anything.
#[derive(Debug)]
pub struct Hands {
    spec: Box<JailSpec>,
    kernel: Kernel,
    standing: Standing,
    /// The agent's pid once it was started: where signals cannot be scoped, commands' filters name
    /// it.
    agent: Cell<Option<i32>>,
    /// Held by hands and every warden, where there is one.
    life: Option<OwnedFd>,
    /// The process that hands came from, where no pid namespace hides it: the supervisor.
    outside: Option<i32>,
}

impl View {
    /// Drops all capabilities, enters hands' Landlock domain (the session's ceiling, what the agent
    /// reads, and the worker binary) and the base seccomp filter, and closes every descriptor but 0
    /// to 2 and `keep`.
    ///
    /// # Errors
    /// [`Unfit`] names the wall that could not be raised.
    pub fn confine_hands(self, keep: &[BorrowedFd<'_>]) -> Result<Hands, Unfit> {
        // What was not handed over is closed here, before everything that nobody keeps is.
        drop(self.handles);
        let spec = self.spec;
        let kernel = domain::kernel(spec.pretend_abi)?;
        capabilities::drop_all_but(0)?;
        let agent_read: Vec<&str> = spec.agent_read.iter().map(String::as_str).collect();
        let mut grants = domain::grants(&spec.ceiling);
        grants.extend(domain::read(&agent_read));
        // Reading /proc: the children of a warden that cannot use the signal scope. In a proc that is
        // not the session's own only then.
        if spec.situation != Situation::Landlock || !kernel.scopes() {
            grants.extend(domain::read(&["/proc"]));
        }
        grants.extend(domain::write(&[&spec.workspace]));
        grants.extend(domain::exec(&[spec.worker()]));
        domain::enter(kernel, &grants)
            .map_err(|failure| Unfit::new("confine hands", failure.to_string()))?;
        filter::install(&calls::base(&spec, kernel))
            .map_err(|failure| Unfit::new("confine hands", failure.to_string()))?;
        let mut keep = keep.to_vec();
        keep.extend(self.life.as_ref().map(OwnedFd::as_fd));
        descriptors::close_all_but(&keep).step("close descriptors")?;
        drop(keep);
        let outside = (spec.situation == Situation::Landlock).then(|| getppid().as_raw());
        let standing = Standing {
            abi: kernel.abi,
            errata: kernel.errata,
            uid: geteuid().as_raw(),
            capabilities: capabilities::effective_hex()?,
            situation: spec.situation,
        };
        Ok(Hands {
            spec,
            kernel,
            standing,
            agent: Cell::new(None),
            life: self.life,
            outside,
        })
    }
}

/// What a child told before its exec, `None` at the exec; waits as long as a greeting may take.
fn told_in_time(status: &mut File) -> io::Result<Option<Note>> {
    let bound = PollTimeout::try_from(bounds::GREETING).map_err(io::Error::other)?;
    let mut watched = [PollFd::new(status.as_fd(), PollFlags::POLLIN)];
    loop {
        match poll(&mut watched, bound) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return read_note(status),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// A failure of hands' own doing.
fn failed(error: &io::Error, what: &str) -> Failure {
    let class = match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE) => FailureClass::Exhausted,
        _ => FailureClass::Other,
    };
    Failure {
        class,
        message: format!("{what}: {error}"),
    }
}

impl Hands {
    /// What the walls are.
    #[must_use]
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Whether what a lost warden stood over is beyond anybody's reach but the session's end.
    #[must_use]
    pub fn needs_every_warden(&self) -> bool {
        self.spec.situation == Situation::Landlock
    }

    /// Ends everything that is still there of the session but this process, where the kernel does
    /// not do it at this process' own end. Bounded.
    pub fn end_the_rest(&self) {
        if self.spec.situation == Situation::Landlock {
            warden::end_below(self.kernel);
        }
    }

    /// The session's ceiling: what the widest command may touch.
    #[must_use]
    pub fn ceiling(&self) -> &Domain {
        &self.spec.ceiling
    }

    /// A descriptor that is readable when a child has left, for the poll loop; strangers among them
    /// are reaped by [`crate::reap_strangers`]. Read it empty before that.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn child_signal(&self) -> io::Result<SignalFd> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&mask), None)?;
        SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
            .map_err(Into::into)
    }

    /// Starts the agent (`provost-worker agent WALLS`): descriptors exactly 0 to 2 on `/dev/null`
    /// and 3 = `link`, no environment. It raises its own walls first thing: [`crate::confine_agent`].
    /// The argument is JSON: the paths that it may read, the pretended ABI, the session. It travels
    /// as an argument because the agent has neither an environment nor a fifth descriptor, and because it
    /// tells nothing: a list of the view's own paths.
    ///
    /// # Errors
    /// The kernel refused to fork, or the worker binary is not in the view.
    pub fn start_agent(&self, link: OwnedFd) -> Result<Child, Failure> {
        let spec = &self.spec;
        let walls = agent::encode(&spec.agent_read, spec.pretend_abi, &spec.session);
        let walls = walls.map_err(|error| failed(&error, "the agent cannot be started"))?;
        let child = self.start_direct("agent", &walls, &link)?;
        self.agent.set(Some(child.pid()));
        Ok(child)
    }

    /// Starts a command under a warden of its own.
    ///
    /// # Errors
    /// The order itself is unfit, or the kernel refused to fork. What fails later is news.
    pub fn spawn(&self, order: &Spawn, streams: Streams) -> Result<Child, Failure> {
        let kept = self.agent.get().into_iter().chain(self.outside).collect();
        let command = Command::new(order, kept, streams)?;
        let program = order.argv.first().map_or("", String::as_str);
        let start = || -> io::Result<Child> {
            let (controlled, control) = pipe2(OFlag::O_CLOEXEC)?;
            let (notes, told) = pipe2(OFlag::O_CLOEXEC)?;
            let lines = Lines {
                control: controlled,
                notes: told,
            };
            let hands = Pid::this().as_raw();
            match sys::fork()? {
                Fork::Child => {
                    drop((control, notes));
                    let life = self.life.as_ref();
                    warden::run(self.kernel, hands, life, &lines, command)
                }
                Fork::Parent(pid) => Child::warden(pid, control, notes, program),
            }
        };
        start().map_err(|error| failed(&error, "the command cannot be started"))
    }

    /// Runs the probe role (`provost-worker probe WALLS`) in a domain, through the path by which the
    /// agent or commands start; findings go to `findings`, one JSON [`protocol::Probe`] a line. In a
    /// command's domain that is the widest one: the session's ceiling.
    ///
    /// # Errors
    /// As [`Hands::spawn`].
    pub fn probe(
        &self,
        domain: ProbeDomain,
        plan: &ProbePlan,
        findings: OwnedFd,
    ) -> Result<Child, Failure> {
        let hands = Pid::this().as_raw();
        let charge = probe::Charge {
            domain,
            hands,
            read: &self.spec.agent_read,
            pretend_abi: self.spec.pretend_abi,
            situation: self.spec.situation,
        };
        let walls = probe::encode(&charge, plan).map_err(|error| failed(&error, "the probe"))?;
        match domain {
            ProbeDomain::Agent => self.start_direct("probe", &walls, &findings),
            ProbeDomain::Command => {
                let order = self.probe_order(walls)?;
                self.spawn(&order, Streams::of(findings))
            }
            ProbeDomain::Outside => Err(Failure {
                class: FailureClass::WrongKind,
                message: "nothing in the jail is outside of it".to_owned(),
            }),
        }
    }

    fn probe_order(&self, walls: String) -> Result<Spawn, Failure> {
        let mut domain: Domain = self.spec.ceiling.clone();
        domain.exec.push(self.spec.worker().to_owned());
        let command = protocol::CommandId::parse("probe").map_err(|error| Failure {
            class: FailureClass::Other,
            message: error.to_string(),
        })?;
        Ok(Spawn {
            command,
            argv: vec![self.spec.worker().to_owned(), "probe".to_owned(), walls],
            cwd: "/".to_owned(),
            env: Vec::new(),
            domain,
            limits: CommandLimits {
                cpu_seconds: 10,
                data: 0,
                file_size: bounds::MIB,
                open_files: bounds::OPEN_FILES,
            },
            stdin: false,
            errors: false,
            program: false,
        })
    }

    /// Forks and executes a role of the worker itself, and waits (a moment, bounded) until the exec
    /// is done: nothing of hands is left in the child then.
    fn start_direct(&self, role: &str, walls: &str, third: &OwnedFd) -> Result<Child, Failure> {
        let start = || -> io::Result<(Child, File)> {
            let text = |text: &str| CString::new(text).map_err(io::Error::other);
            // As it is found from inside, then the same binary by the kernel's own name for it.
            let programs = [text(self.spec.worker())?, text(WORKER_ITSELF)?];
            let argv = [text("provost-worker")?, text(role)?, text(walls)?];
            let (status, told) = pipe2(OFlag::O_CLOEXEC)?;
            match sys::fork()? {
                Fork::Child => {
                    exec_plain(&programs, &argv, third, &told);
                    sys::leave(70)
                }
                Fork::Parent(pid) => Ok((
                    Child::direct(pid, sys::pidfd_open(pid)?, role),
                    status.into(),
                )),
            }
        };
        let (mut child, mut status) =
            start().map_err(|error| failed(&error, "the worker cannot be started"))?;
        match told_in_time(&mut status) {
            Ok(None) => Ok(child),
            told => {
                child.end();
                while !matches!(child.news(), None | Some(News::Ended { .. })) {}
                let why = match told {
                    Ok(Some(Note::Failed { errno, .. })) => {
                        io::Error::from_raw_os_error(errno).to_string()
                    }
                    Err(error) => error.to_string(),
                    _ => "it told nonsense".to_owned(),
                };
                Err(Failure {
                    class: FailureClass::Other,
                    message: format!("`{role}` cannot be executed: {why}"),
                })
            }
        }
    }
}
