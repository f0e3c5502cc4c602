//! Runs hooks: an order to hands like any command's, one JSON object in, bounded words out.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    io::Write as _,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    rc::Rc,
    time::{Duration, Instant},
};

use policies::LayerName;
use protocol::{CommandId, Exit, Order, Spawn, bounds};
use supervisor_core::{EffectOutcome, HookEnd, Message, Permit, RunHook};
use supervisor_sandbox::{pipe_pair, program_file};
use tokio::{io::AsyncReadExt as _, net::unix::pipe, sync::Semaphore, time::timeout};

use super::{Found, Program};
use crate::session::{
    commands::Frame,
    links::{Hands, Inbox},
};

/// Where hooks run.
#[derive(Debug, Clone)]
pub(crate) struct Runner {
    /// Whoever starts them.
    pub(crate) hands: Hands,
    /// What each of them gets.
    pub(crate) frame: Rc<Frame>,
}

/// A run that has started: who ends it, and by which name.
type Live = (Hands, CommandId);

/// The hooks of a session while it lives.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    found: Rc<Vec<Found>>,
    /// The session's own jail: hooks of the user and the project.
    inside: Runner,
    /// The jail of the organisation's hooks.
    house: Option<Runner>,
    inbox: Inbox,
    slots: Rc<Semaphore>,
    /// Runs that are under way; `None` until it has started.
    live: Rc<RefCell<BTreeMap<u64, Option<Live>>>>,
}

impl Running {
    pub(crate) fn new(
        found: Vec<Found>,
        inside: Runner,
        house: Option<Runner>,
        inbox: Inbox,
    ) -> Self {
        Self {
            found: Rc::new(found),
            inside,
            house,
            inbox,
            slots: Rc::new(Semaphore::new(bounds::HOOKS_AT_ONCE)),
            live: Rc::default(),
        }
    }

    /// Runs a hook; its end comes as a message, within its time and a moment.
    pub(crate) fn run(&self, permit: Permit<RunHook>) {
        let this = self.clone();
        this.live.borrow_mut().insert(permit.action().run, None);
        tokio::task::spawn_local(async move {
            let RunHook { run, hook, input } = permit.spend();
            // The semaphore is never closed.
            let _slot = this.slots.acquire().await;
            let began = Instant::now();
            let end = match this.live.borrow().contains_key(&run) {
                true => None,
                false => Some(HookEnd::Failed("it was cancelled".to_owned())),
            };
            let end = match end {
                Some(end) => end,
                None => match this.carry_out(run, hook, input).await {
                    Ok(end) => end,
                    Err(why) => HookEnd::Failed(why),
                },
            };
            this.live.borrow_mut().remove(&run);
            let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let outcome = EffectOutcome::Hook { run, end, ms };
            let _ = this.inbox.send(Message::Effect(outcome));
        });
    }

    /// Ends a hook.
    pub(crate) fn end(&self, run: u64) {
        if let Some(Some((hands, command))) = self.live.borrow_mut().remove(&run) {
            let _ = hands.order(&Order::Kill { command }, &[]);
        }
    }

    async fn carry_out(&self, run: u64, hook: usize, input: String) -> Result<HookEnd, String> {
        let found = self.found.get(hook).ok_or("the policy has no such hook")?;
        let runner = match found.hook.layer {
            LayerName::BuiltIn | LayerName::Organisation => self
                .house
                .as_ref()
                .ok_or("the organisation's hooks have no jail here")?,
            LayerName::User | LayerName::Project | LayerName::Session | LayerName::SubAgent => {
                &self.inside
            }
        };
        let program = match found.program.as_ref().map_err(Clone::clone)? {
            Program::System => None,
            Program::File(bytes) => Some(program_file(bytes).map_err(started)?),
        };
        let command = CommandId::parse(&format!("hook{run}")).map_err(|error| error.to_string())?;
        let (input_inside, feed) = pipe_pair().map_err(started)?;
        let (out, out_inside) = pipe_pair().map_err(started)?;
        let (err, err_inside) = pipe_pair().map_err(started)?;
        let spawn = Spawn {
            command: command.clone(),
            argv: found.hook.command.clone(),
            cwd: runner.frame.cwd.clone(),
            env: runner.frame.env.clone(),
            domain: runner.frame.domain.clone(),
            limits: runner.frame.limits,
            stdin: true,
            errors: true,
            program: program.is_some(),
        };
        let mut handles: Vec<BorrowedFd<'_>> =
            vec![out_inside.as_fd(), input_inside.as_fd(), err_inside.as_fd()];
        handles.extend(program.as_ref().map(OwnedFd::as_fd));
        let mut ordered = runner
            .hands
            .start_command(&command, &Order::Spawn(spawn), &handles)
            .map_err(started)?;
        drop(handles);
        drop((out_inside, input_inside, err_inside, program));
        if let Some(place) = self.live.borrow_mut().get_mut(&run) {
            *place = Some((runner.hands.clone(), command.clone()));
        }
        // A thread of its own, which ends when all is written or the hook closed its end.
        std::thread::spawn(move || {
            let _ = std::fs::File::from(feed).write_all(input.as_bytes());
        });
        let over = Rc::new(std::cell::Cell::new(false));
        let words = async {
            let words = (listen(out, &over), listen(err, &over));
            let exited = async {
                match (&mut ordered.started).await {
                    Ok(Ok(())) => {}
                    Ok(Err(failure)) => {
                        return Err(format!("it cannot be started: {}", failure.message));
                    }
                    Err(_) => return Err("its jail is gone".to_owned()),
                }
                let exit = (&mut ordered.exited).await;
                exit.map(|(exit, _)| exit)
                    .map_err(|_| "its jail is gone".to_owned())
            };
            let heard = async { tokio::join!(words.0, words.1) };
            tokio::pin!(heard);
            tokio::pin!(exited);
            let mut spoken = None;
            let exit = loop {
                tokio::select! {
                    exit = &mut exited => break exit?,
                    words = &mut heard, if spoken.is_none() => {
                        if over.get() {
                            return Err(format!("it wrote more than {} KiB", bounds::HOOK_OUTPUT / 1024));
                        }
                        spoken = Some(words);
                    }
                }
            };
            // Everything below it is dead: what is in the pipes is all there is.
            let (out, err) = match spoken {
                Some(words) => words,
                None => timeout(bounds::COMMAND_GRACE, &mut heard)
                    .await
                    .map_err(|_| "its output does not end".to_owned())?,
            };
            match over.get() {
                true => Err(format!(
                    "it wrote more than {} KiB",
                    bounds::HOOK_OUTPUT / 1024
                )),
                false => Ok((exit, out, err)),
            }
        };
        let time = Duration::from_secs(found.hook.timeout);
        let ended = timeout(time, words).await;
        let (exit, out, err) = match ended {
            Ok(Ok(ended)) => ended,
            Ok(Err(why)) => {
                self.kill(&runner.hands, command);
                return Err(why);
            }
            Err(_) => {
                self.kill(&runner.hands, command);
                return Err(format!("it was ended after {} s", time.as_secs()));
            }
        };
        Ok(match exit {
            Exit {
                signal: Some(signal),
                ..
            } => HookEnd::Failed(format!("signal {signal} ended it")),
            Exit {
                code: Some(code), ..
            } => HookEnd::Exited {
                code,
                out: String::from_utf8(out).map_err(|_| "its output is not UTF-8")?,
                err: String::from_utf8_lossy(&err).into_owned(),
            },
            Exit {
                code: None,
                signal: None,
            } => HookEnd::Failed("nobody knows how it ended".to_owned()),
        })
    }

    /// What has ended already is not there to be killed, and that is no fault.
    fn kill(&self, hands: &Hands, command: CommandId) {
        let _ = hands.order(&Order::Kill { command }, &[]);
    }
}

fn started(error: std::io::Error) -> String {
    format!("it cannot be started: {error}")
}

/// Reads to the end, or to the bound: then `over` is set.
async fn listen(from: OwnedFd, over: &std::cell::Cell<bool>) -> Vec<u8> {
    let mut all = Vec::new();
    let Ok(mut pipe) = pipe::Receiver::from_owned_fd(from) else {
        return all;
    };
    let mut chunk = vec![0_u8; 16 * 1024];
    while let Ok(got @ 1..) = pipe.read(&mut chunk).await {
        all.extend_from_slice(chunk.get(..got).unwrap_or_default());
        if all.len() > bounds::HOOK_OUTPUT {
            over.set(true);
            break;
        }
    }
    all
}
