//! The loop of pid 1: one thread, one poll, orders in, reports out.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use protocol::{CommandId, Failure, FailureClass, Order, Report, bounds};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::{Mode, OFlags},
    io::Errno,
};
use worker_jail::{Child, Hands, News, Streams, reap_strangers};

use crate::{
    link::{Link, LinkFault},
    preimage::{PreImage, Progress},
    put::{Outcome, put, read},
    resolve::resolve,
};

/// How long what runs may take to end at the session's end; then pid 1 leaves and the kernel ends it.
const LAST_WAIT: Duration = Duration::from_millis(500);

/// Why hands left, other than by order.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The link.
    #[error(transparent)]
    Link(#[from] LinkFault),
    /// The workspace is not in the view.
    #[error("cannot open the workspace: {0}")]
    Workspace(Errno),
    /// The kernel does not tell of children.
    #[error("cannot hear of children that left: {0}")]
    Children(io::Error),
    /// A warden is gone, and what it stood over with it is nobody's: only the end of the session is
    /// certain to end that too.
    #[error("a command's warden died: the session ends with it")]
    Warden,
    /// The wait itself failed.
    #[error("cannot wait for orders: {0}")]
    Wait(Errno),
}

/// Who a child is to the supervisor.
#[derive(Debug)]
enum Name {
    Agent,
    Command(CommandId),
}

#[derive(Debug)]
struct Running {
    name: Name,
    child: Child,
    /// Its last news were told.
    over: bool,
}

#[derive(Debug)]
struct Serving {
    hands: Hands,
    link: Link,
    agent: Option<OwnedFd>,
    root: OwnedFd,
    running: Vec<Running>,
    images: Vec<PreImage>,
    ending: bool,
}

/// Carries out orders until the supervisor says *end* or closes its link; then ends everything.
///
/// # Errors
/// [`ServeError`]; the process must leave then, and as pid 1 takes everything with it.
pub fn serve(
    hands: Hands,
    link: OwnedFd,
    agent: OwnedFd,
    workspace: &str,
) -> Result<(), ServeError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(workspace, flags, Mode::empty()).map_err(ServeError::Workspace)?;
    let children = hands.child_signal().map_err(ServeError::Children)?;
    let mut serving = Serving {
        hands,
        link: Link::new(link),
        agent: Some(agent),
        root,
        running: Vec::new(),
        images: Vec::new(),
        ending: false,
    };
    let result = serving.run(children.as_fd());
    serving.end_all();
    serving.hands.end_the_rest();
    match result {
        // End-of-file is how a session ends when its supervisor is gone.
        Err(ServeError::Link(LinkFault::Closed)) => Ok(()),
        other => other,
    }
}

impl Serving {
    fn run(&mut self, children: BorrowedFd<'_>) -> Result<(), ServeError> {
        while !self.ending {
            if self.wait(children)? {
                self.link.receive()?;
                while !self.ending
                    && let Some((order, descriptors)) = self.link.next_order()?
                {
                    self.carry_out(order, descriptors)?;
                }
            }
            // Emptied before anybody is reaped, so that no later signal is lost.
            let mut signals = [0_u8; 1024];
            while rustix::io::read(children, &mut signals).is_ok_and(|count| count > 0) {}
            self.tell_news()?;
            self.pump_images()?;
            self.link.flush()?;
        }
        Ok(())
    }

    /// Waits for anything; says whether the link has something to read.
    fn wait(&self, children: BorrowedFd<'_>) -> Result<bool, ServeError> {
        let mut link = PollFlags::empty();
        // A supervisor that does not read gets no further order carried out.
        link.set(PollFlags::IN, !self.link.is_full());
        link.set(PollFlags::OUT, self.link.has_outgoing());
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.link.socket(), link),
            PollFd::from_borrowed_fd(children, PollFlags::IN),
        ];
        fds.extend(
            self.running
                .iter()
                .map(|run| PollFd::from_borrowed_fd(run.child.watch(), PollFlags::IN)),
        );
        fds.extend(
            self.images
                .iter()
                .map(|image| PollFd::from_borrowed_fd(image.pipe(), PollFlags::OUT)),
        );
        let timeout = self.timeout();
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(ServeError::Wait(errno)),
        }
        let seen = fds
            .first()
            .map(PollFd::revents)
            .unwrap_or(PollFlags::empty());
        let gone = seen.intersects(PollFlags::HUP | PollFlags::ERR);
        Ok(gone || seen.contains(PollFlags::IN))
    }

    /// Until the first pre-image counts as standing still; for ever if none is on its way.
    fn timeout(&self) -> Option<Timespec> {
        let first = self.images.iter().map(PreImage::deadline).min()?;
        let left = first.saturating_duration_since(Instant::now());
        Some(Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        })
    }

    fn carry_out(&mut self, order: Order, descriptors: Vec<OwnedFd>) -> Result<(), ServeError> {
        let mut descriptors = descriptors.into_iter();
        // `Link::next_order` gave each order as many descriptors as it has.
        let mut next = || descriptors.next().ok_or(LinkFault::Descriptors);
        match order {
            Order::StartAgent => self.start_agent()?,
            Order::Spawn(spawn) => {
                let output = next()?;
                let mut streams = Streams::of(output);
                let further = [
                    (spawn.stdin, &mut streams.stdin),
                    (spawn.errors, &mut streams.errors),
                    (spawn.program, &mut streams.program),
                ];
                for (brought, place) in further {
                    if brought {
                        *place = Some(next()?);
                    }
                }
                self.start(&spawn.command, |hands| hands.spawn(&spawn, streams))?;
            }
            Order::Probe {
                command,
                domain,
                plan,
            } => {
                let findings = next()?;
                self.start(&command, |hands| hands.probe(domain, &plan, findings))?;
            }
            Order::Kill { command } => {
                let known = self
                    .running
                    .iter_mut()
                    .find(|run| run.is(&command) && !run.over);
                match known {
                    Some(run) => run.child.end(),
                    None => self.failed_command(
                        &command,
                        Failure {
                            class: FailureClass::NotFound,
                            message: format!("no command `{command}` runs"),
                        },
                    )?,
                }
            }
            Order::Resolve { order, path } => {
                let report = match resolve(self.root.as_fd(), &path) {
                    Ok(found) => Report::Resolved { order, found },
                    Err(failure) => failed_order(order, failure),
                };
                self.link.report(&report)?;
            }
            Order::Read { order, path } => {
                let pipe = next()?;
                let image = match self.room() {
                    Ok(()) => read(self.root.as_fd(), order, &path, pipe),
                    Err(failure) => Err(failure),
                };
                match image {
                    Ok(image) => self.images.push(image),
                    Err(failure) => self.link.report(&failed_order(order, failure))?,
                }
            }
            Order::Put(order) => {
                let pipe = next()?;
                self.put(&order, pipe)?;
            }
            Order::End => self.ending = true,
        }
        Ok(())
    }

    fn start_agent(&mut self) -> Result<(), ServeError> {
        let failure = match self.agent.take() {
            Some(link) => match self.hands.start_agent(link) {
                Ok(child) => {
                    self.running.push(Running {
                        name: Name::Agent,
                        child,
                        over: false,
                    });
                    return Ok(());
                }
                Err(failure) => failure,
            },
            None => Failure {
                class: FailureClass::Limit,
                message: "the agent was started before: a session has one".to_owned(),
            },
        };
        Ok(self.link.report(&Report::Failed {
            order: None,
            command: None,
            failure,
        })?)
    }

    fn start(
        &mut self,
        command: &CommandId,
        start: impl FnOnce(&Hands) -> Result<Child, Failure>,
    ) -> Result<(), ServeError> {
        let commands = self
            .running
            .iter()
            .filter(|run| matches!(run.name, Name::Command(_)));
        let limit = |message| Failure {
            class: FailureClass::Limit,
            message,
        };
        let started = if self.running.iter().any(|run| run.is(command)) {
            Err(limit(format!("a command `{command}` runs already")))
        } else if commands.count() >= bounds::COMMANDS {
            let bound = bounds::COMMANDS;
            Err(limit(format!(
                "{bound} commands run already: wait for one or end one"
            )))
        } else {
            start(&self.hands)
        };
        match started {
            Ok(child) => {
                let name = Name::Command(command.clone());
                self.running.push(Running {
                    name,
                    child,
                    over: false,
                });
                Ok(())
            }
            Err(failure) => self.failed_command(command, failure),
        }
    }

    /// Whether one more content may be held.
    fn room(&self) -> Result<(), Failure> {
        let bound = bounds::PUTS;
        if self.images.len() < bound {
            return Ok(());
        }
        Err(Failure {
            class: FailureClass::Limit,
            message: format!("{bound} changes wait for their old content to be read"),
        })
    }

    fn put(&mut self, order: &protocol::Put, pipe: OwnedFd) -> Result<(), ServeError> {
        let busy: Vec<&str> = self.images.iter().filter_map(PreImage::temp).collect();
        let outcome = match self.room() {
            Ok(()) => put(self.root.as_fd(), order, pipe, &busy),
            Err(failure) => Err(failure),
        };
        match outcome {
            Ok(Outcome::Done(done)) => Ok(self.link.report(&Report::PutDone {
                order: order.order,
                done,
            })?),
            Ok(Outcome::Pending(image)) => {
                self.images.push(*image);
                Ok(())
            }
            Err(failure) => Ok(self.link.report(&failed_order(order.order, failure))?),
        }
    }

    fn failed_command(&mut self, command: &CommandId, failure: Failure) -> Result<(), ServeError> {
        let command = Some(command.clone());
        Ok(self.link.report(&Report::Failed {
            order: None,
            command,
            failure,
        })?)
    }

    /// Tells what became of what runs, then reaps orphans that came to pid 1.
    fn tell_news(&mut self) -> Result<(), ServeError> {
        for run in &mut self.running {
            while !run.over
                && let Some(news) = run.child.news()
            {
                run.over = !matches!(news, News::Started);
                let lost = matches!(&news, News::Failed(why) if why.class == FailureClass::Unknown);
                self.link.report(&run.name.report(news))?;
                if lost && self.hands.needs_every_warden() {
                    return Err(ServeError::Warden);
                }
            }
        }
        self.running.retain(|run| !run.over);
        let known: Vec<i32> = self.running.iter().map(|run| run.child.pid()).collect();
        reap_strangers(&known);
        Ok(())
    }

    fn pump_images(&mut self) -> Result<(), ServeError> {
        let now = Instant::now();
        for mut image in std::mem::take(&mut self.images) {
            let order = image.order();
            match image.pump(now) {
                Progress::Waiting => self.images.push(image),
                Progress::Through => self.link.report(&image.finish())?,
                Progress::Broken => {
                    let failure = image.take_back();
                    self.link.report(&failed_order(order, failure))?;
                }
            }
        }
        Ok(())
    }

    /// Ends everything below; bounded, because pid 1's own end does the rest.
    fn end_all(&mut self) {
        // What the supervisor has not got in full is taken back.
        for image in self.images.drain(..) {
            image.take_back();
        }
        for run in &mut self.running {
            run.child.end();
        }
        let deadline = Instant::now() + LAST_WAIT;
        while !self.running.is_empty() && Instant::now() < deadline {
            for run in &mut self.running {
                while !run.over
                    && let Some(news) = run.child.news()
                {
                    run.over = !matches!(news, News::Started);
                }
            }
            self.running.retain(|run| !run.over);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Running {
    fn is(&self, command: &CommandId) -> bool {
        matches!(&self.name, Name::Command(own) if own == command)
    }
}

impl Name {
    fn report(&self, news: News) -> Report {
        match (self, news) {
            (Self::Agent, News::Started) => Report::AgentStarted,
            (Self::Agent, News::Ended { exit, .. }) => Report::AgentGone(exit),
            (Self::Agent, News::Failed(failure)) => Report::Failed {
                order: None,
                command: None,
                failure,
            },
            (Self::Command(id), News::Started) => Report::Spawned {
                command: id.clone(),
            },
            (Self::Command(id), News::Ended { exit, left_running }) => Report::Exited {
                command: id.clone(),
                exit,
                left_running,
            },
            (Self::Command(id), News::Failed(failure)) => Report::Failed {
                order: None,
                command: Some(id.clone()),
                failure,
            },
        }
    }
}

fn failed_order(order: u64, failure: Failure) -> Report {
    Report::Failed {
        order: Some(order),
        command: None,
        failure,
    }
}
