//! Carries out what the gate permitted about commands: run, look at, end. Limits of time and output
//! are kept here, by orders to hands; memory, processes and files are the kernel's business.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    io::Write as _,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use protocol::{
    CallId, CommandId, CommandLimits, Exit, Failure, FailureClass, Order, Spawn, bounds,
    call::{CommandResult, EndedBy, Excerpt, Outcome},
    jail::Domain,
};
use supervisor_core::{EffectOutcome, KillJob, Message, Permit, RunCommand};
use supervisor_sandbox::Group;
use tokio::{io::AsyncReadExt as _, net::unix::pipe, sync::Notify, time::timeout};

use super::{
    capture::Capture,
    links::{Hands, Inbox, Ordered},
    store::Store,
};

/// How often a command that waits for output looks at the clock.
const BREATH: Duration = Duration::from_millis(50);

/// What is added to the output of a command during which memory was used up.
const NO_MEMORY: &[u8] = b"\n[provost: the session's memory was used up ([limits] memory) and the kernel ended a process of it]\n";

/// What every command of a session gets.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// Its working directory: the workspace inside.
    pub(crate) cwd: String,
    /// Its environment, built from nothing.
    pub(crate) env: Vec<(String, String)>,
    /// What it may touch.
    pub(crate) domain: Domain,
    /// Its limits.
    pub(crate) limits: CommandLimits,
    /// Bytes of output that are kept.
    pub(crate) output: u64,
    /// The shell and its arguments before the line; `None` where the box has none.
    pub(crate) shell: Option<Vec<String>>,
}

/// The commands of a session.
#[derive(Debug, Clone)]
pub(crate) struct Commands {
    hands: Hands,
    frame: Rc<Frame>,
    inbox: Inbox,
    store: Store,
    live: Rc<RefCell<BTreeMap<CommandId, Rc<Live>>>>,
    group: Arc<Group>,
}

/// One command, running or ended.
#[derive(Debug)]
struct Live {
    capture: RefCell<Capture>,
    why: Cell<Option<EndedBy>>,
    result: RefCell<Option<CommandResult>>,
    changed: Notify,
}

impl Commands {
    /// None yet.
    pub(crate) fn new(
        hands: Hands,
        frame: Frame,
        inbox: Inbox,
        store: Store,
        group: Arc<Group>,
    ) -> Self {
        Self {
            hands,
            frame: Rc::new(frame),
            inbox,
            store,
            live: Rc::default(),
            group,
        }
    }

    /// Runs a command; its outcome comes as a message.
    pub(crate) fn run(&self, permit: Permit<RunCommand>) {
        let this = self.clone();
        tokio::task::spawn_local(async move {
            let order = permit.spend();
            let (call, command, background) =
                (order.call.clone(), order.command.clone(), order.background);
            match this.start(order) {
                Ok((live, ordered, output, time)) if background => {
                    this.run_background(call, command, live, ordered, output, time)
                        .await;
                }
                Ok((live, ordered, output, time)) => {
                    let outcome = match this.wait(&command, &live, ordered, output, time).await {
                        Ok(result) => Outcome::Command(result),
                        Err(failure) => failed(failure),
                    };
                    this.live.borrow_mut().remove(&command);
                    this.tell(call, outcome, live.capture.borrow().kept());
                }
                Err(error) => {
                    let message = format!("cannot start the command: {error}");
                    this.tell(
                        call,
                        failed(Failure {
                            class: FailureClass::Other,
                            message,
                        }),
                        &[],
                    );
                }
            }
        });
    }

    async fn run_background(
        &self,
        call: CallId,
        command: CommandId,
        live: Rc<Live>,
        mut ordered: Ordered,
        output: pipe::Receiver,
        time: Duration,
    ) {
        let started = timeout(bounds::ORDER_TIME, &mut ordered.started).await;
        if let Ok(Ok(Err(failure))) = started {
            self.live.borrow_mut().remove(&command);
            return self.tell(call, failed(failure), &[]);
        }
        self.tell(
            call,
            Outcome::JobStarted {
                job: command.clone(),
            },
            &[],
        );
        let result = self.wait(&command, &live, ordered, output, time).await;
        let result = result.unwrap_or_else(|_| CommandResult {
            exit: None,
            signal: None,
            ms: 0,
            ended_by: live.why.get(),
            left_running: 0,
            output: live.capture.borrow().excerpt(),
        });
        *live.result.borrow_mut() = Some(result);
        live.changed.notify_waiters();
        let _ = self
            .inbox
            .send(Message::Effect(EffectOutcome::JobEnded { command }));
    }

    fn start(
        &self,
        order: RunCommand,
    ) -> std::io::Result<(Rc<Live>, Ordered, pipe::Receiver, Duration)> {
        let shell = self.frame.shell.as_deref().ok_or_else(|| {
            std::io::Error::new(
                std::io::ErrorKind::NotFound,
                "the session's image has neither /bin/bash nor /bin/sh: choose one with a shell for tasks that run commands; the file tools work",
            )
        })?;
        let (read, write) = supervisor_sandbox::pipe_pair()?;
        let input = order
            .stdin
            .as_ref()
            .map(|_| supervisor_sandbox::pipe_pair())
            .transpose()?;
        let spawn = Spawn {
            command: order.command.clone(),
            argv: [shell, &[order.line]].concat(),
            cwd: self.frame.cwd.clone(),
            env: self.frame.env.clone(),
            domain: self.frame.domain.clone(),
            limits: self.frame.limits,
            stdin: input.is_some(),
            errors: false,
            program: false,
        };
        let mut handles: Vec<BorrowedFd<'_>> = vec![write.as_fd()];
        if let Some((inside, _)) = &input {
            handles.push(inside.as_fd());
        }
        let ordered = self
            .hands
            .start_command(&order.command, &Order::Spawn(spawn), &handles)?;
        drop(handles);
        drop(write);
        if let (Some((_, feed)), Some(text)) = (input, order.stdin) {
            feed_stdin(feed, text);
        }
        let live = Rc::new(Live {
            capture: RefCell::default(),
            why: Cell::new(None),
            result: RefCell::new(None),
            changed: Notify::new(),
        });
        self.live
            .borrow_mut()
            .insert(order.command, Rc::clone(&live));
        let output = pipe::Receiver::from_owned_fd(read)?;
        Ok((live, ordered, output, Duration::from_millis(order.time_ms)))
    }

    /// Reads the output until the command has ended and the pipe is dry, within its limits.
    async fn wait(
        &self,
        command: &CommandId,
        live: &Live,
        mut ordered: Ordered,
        mut output: pipe::Receiver,
        time: Duration,
    ) -> Result<CommandResult, Failure> {
        let began = Instant::now();
        let kills = self.memory_kills();
        let mut chunk = vec![0_u8; 64 * 1024];
        let (mut open, mut exit) = (true, None::<(Exit, u32)>);
        let mut dry_by = None::<Instant>;
        // A background job's start was waited for already, and an answer comes once.
        let mut running = ordered.started.is_terminated();
        while exit.is_none() || (open && dry_by.is_some_and(|by| Instant::now() < by)) {
            tokio::select! {
                got = output.read(&mut chunk), if open => match got {
                    Ok(0) | Err(_) => open = false,
                    Ok(got) => {
                        let bytes = chunk.get(..got).unwrap_or_default();
                        let fits = live.capture.borrow_mut().push(bytes, self.frame.output);
                        live.changed.notify_waiters();
                        if !fits {
                            self.end(command, EndedBy::OutputLimit);
                        }
                    }
                },
                started = &mut ordered.started, if !running => match started {
                    Ok(Ok(())) => running = true,
                    Ok(Err(failure)) => return Err(failure),
                    Err(_) => return Err(gone()),
                },
                ended = &mut ordered.exited, if exit.is_none() => match ended {
                    Ok(ended) => {
                        exit = Some(ended);
                        // Everything below the command is dead: what is in the pipe is all there is.
                        dry_by = Some(Instant::now() + bounds::COMMAND_GRACE);
                    }
                    Err(_) => return Err(gone()),
                },
                () = tokio::time::sleep(BREATH) => {
                    if exit.is_none() && began.elapsed() >= time {
                        self.end(command, EndedBy::TimeLimit);
                    }
                }
            }
        }
        let (exit, left_running) = exit.unwrap_or((
            Exit {
                code: None,
                signal: None,
            },
            0,
        ));
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        if self.memory_kills() > kills {
            // Told where the model reads: a bare signal 9 explains nothing.
            live.capture.borrow_mut().push(NO_MEMORY, u64::MAX);
            // A command that went well in spite of it was not ended by it.
            if live.why.get().is_none() && exit.code != Some(0) {
                live.why.set(Some(EndedBy::MemoryLimit));
            }
        }
        Ok(CommandResult {
            exit: exit.code,
            signal: exit.signal,
            ms,
            ended_by: live.why.get(),
            left_running,
            output: live.capture.borrow().excerpt(),
        })
    }

    /// Ends a command; the first reason stays.
    pub(crate) fn end(&self, command: &CommandId, why: EndedBy) {
        let live = self.live.borrow().get(command).cloned();
        let Some(live) = live else { return };
        if live.why.get().is_none() && live.result.borrow().is_none() {
            live.why.set(Some(why));
            // If hands cannot be reached its link has closed, and the session ends by that.
            let _ = self.hands.order(
                &Order::Kill {
                    command: command.clone(),
                },
                &[],
            );
        }
    }

    /// Processes of the session that the kernel has ended for want of memory, by whoever counts them.
    fn memory_kills(&self) -> u64 {
        let engine = self.hands.memory_kills();
        engine.saturating_add(self.group.events().memory)
    }

    /// Whether any command runs.
    pub(crate) fn busy(&self) -> bool {
        let live = self.live.borrow();
        live.values().any(|live| live.result.borrow().is_none())
    }

    /// Ends every command that runs.
    pub(crate) fn end_all(&self, why: EndedBy) {
        let all: Vec<CommandId> = self.live.borrow().keys().cloned().collect();
        for command in all {
            self.end(&command, why);
        }
    }

    /// Ends a job because the agent asked, and tells what it wrote.
    pub(crate) fn kill_job(&self, permit: Permit<KillJob>) {
        let KillJob { call, command } = permit.spend();
        self.end(&command, EndedBy::Killed);
        self.look(
            call,
            command,
            u64::try_from(bounds::END_TIME.as_millis()).unwrap_or(0),
            true,
        );
    }

    /// Tells what a job wrote since the last look; waits for something new, at most `wait_ms`.
    pub(crate) fn look(&self, call: CallId, command: CommandId, wait_ms: u64, for_end: bool) {
        let this = self.clone();
        tokio::task::spawn_local(async move {
            let live = this.live.borrow().get(&command).cloned();
            let Some(live) = live else {
                let message = format!("job {command} is gone");
                return this.tell(
                    call,
                    failed(Failure {
                        class: FailureClass::NotFound,
                        message,
                    }),
                    &[],
                );
            };
            let until = Instant::now() + Duration::from_millis(wait_ms);
            let before = live.capture.borrow().total();
            while live.result.borrow().is_none()
                && (for_end || live.capture.borrow().total() == before)
                && Instant::now() < until
            {
                let _ = timeout(BREATH, live.changed.notified()).await;
            }
            let result = live.result.borrow().clone();
            let output: Excerpt = live.capture.borrow_mut().look();
            let outcome = Outcome::Job {
                job: command,
                running: result.is_none(),
                result,
                output,
            };
            this.tell(call, outcome, &[]);
        });
    }

    fn tell(&self, call: CallId, mut outcome: Outcome, kept: &[u8]) {
        let mut spool = None;
        if let Outcome::Command(result) = &mut outcome
            && result.output.omitted > 0
        {
            // Without room the output is cut all the same, and the excerpt says how much is missing.
            spool = self.store.keep(kept).ok();
            result.output.spool.clone_from(&spool);
        }
        let outcome = EffectOutcome::Call {
            call,
            outcome: Box::new(outcome),
            before: None,
            spool,
        };
        let _ = self.inbox.send(Message::Effect(outcome));
    }
}

fn failed(failure: Failure) -> Outcome {
    Outcome::Failed {
        class: failure.class,
        message: failure.message,
    }
}

fn gone() -> Failure {
    Failure {
        class: FailureClass::Unknown,
        message: "hands left while the command ran: the outcome is not known".to_owned(),
    }
}

/// Feeds a command's standard input from a thread of its own, which ends when all is written or the
/// command closed its end. At most [`bounds::TOOL_INPUT`] bytes wait in it.
fn feed_stdin(feed: OwnedFd, text: String) {
    std::thread::spawn(move || {
        // A command that does not read its input is no error.
        let _ = std::fs::File::from(feed).write_all(text.as_bytes());
    });
}
