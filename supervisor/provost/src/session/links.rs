//! The supervisor's ends of the two links: bytes in, messages out; nothing is decided here.

use std::{cell::RefCell, collections::BTreeMap, os::fd::BorrowedFd, rc::Rc};

use protocol::{
    CommandId, Exit, Failure, FailureClass, Order, PutDone, Reply, Report, Request, Resolved,
    bounds,
    frame::{self, Decoder},
    phase::{HandsPhase, hands_may},
};
use supervisor_core::Message;
use supervisor_sandbox::Explainer;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixStream, unix::OwnedReadHalf, unix::OwnedWriteHalf},
    sync::{mpsc, oneshot},
};

/// Messages to the conducting loop. Unbounded in type, bounded in fact: each sender is (frames by the
/// rate, deltas by the answer's bound, outcomes by the commands and the batch).
pub(crate) type Inbox = mpsc::UnboundedSender<Message>;

/// Frames that may wait for an agent that does not read.
const WAITING: usize = 4_096;

/// Reads the agent's requests until its link closes or it breaks the treaty.
pub(crate) async fn hear_agent(mut link: OwnedReadHalf, inbox: Inbox) {
    let mut decoder = Decoder::new(bounds::MODEL_FRAME);
    let mut chunk = vec![0_u8; 64 * 1024];
    let fault = |what: String| Message::Fault {
        link: "agent",
        what,
    };
    loop {
        let got = match link.read(&mut chunk).await {
            Ok(0) | Err(_) => {
                let cut = decoder
                    .is_midway()
                    .then(|| fault("its link closed within a frame".to_owned()));
                if cut.is_none() {
                    // Hands knows how it left, and says so in a moment: that is the better word.
                    tokio::time::sleep(bounds::COMMAND_GRACE).await;
                }
                let _ = inbox.send(cut.unwrap_or(Message::AgentGone { exit: None }));
                return;
            }
            Ok(got) => got,
        };
        decoder.push(chunk.get(..got).unwrap_or_default());
        loop {
            let payload = match decoder.next_frame() {
                Ok(None) => break,
                Ok(Some(payload)) => payload,
                Err(error) => {
                    let _ = inbox.send(fault(error.to_string()));
                    return;
                }
            };
            let message = match frame::decode::<Request>(&payload) {
                // Only a model request may be longer than the usual frame.
                Ok(request)
                    if payload.len() > bounds::FRAME && !matches!(request, Request::Infer(_)) =>
                {
                    fault(format!(
                        "a frame of {} bytes that is no model request",
                        payload.len()
                    ))
                }
                Ok(request) => Message::Agent(request),
                Err(error) => fault(error.to_string()),
            };
            let ends = matches!(message, Message::Fault { .. });
            if inbox.send(message).is_err() || ends {
                return;
            }
        }
    }
}

/// The way to the agent: a bounded queue before a writing task.
#[derive(Debug)]
pub(crate) struct AgentSpeaker {
    queue: mpsc::Sender<Vec<u8>>,
    written: oneshot::Receiver<()>,
}

impl AgentSpeaker {
    /// Starts the writing task.
    pub(crate) fn start(mut link: OwnedWriteHalf) -> Self {
        let (queue, mut frames) = mpsc::channel::<Vec<u8>>(WAITING);
        let (done, written) = oneshot::channel();
        tokio::task::spawn_local(async move {
            while let Some(bytes) = frames.recv().await {
                // An agent that left is noticed by the reading side.
                if link.write_all(&bytes).await.is_err() {
                    break;
                }
            }
            let _ = done.send(());
        });
        Self { queue, written }
    }

    /// Queues a reply.
    pub(crate) fn say(&self, reply: &Reply) -> Result<(), String> {
        let bytes = frame::encode(reply, bounds::MODEL_FRAME).map_err(|e| e.to_string())?;
        match self.queue.try_send(bytes) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => {
                Err(format!("it does not read its link: {WAITING} frames wait"))
            }
        }
    }

    /// Lets what is queued go out, for a moment only.
    pub(crate) async fn finish(self) {
        drop(self.queue);
        let _ = tokio::time::timeout(bounds::COMMAND_GRACE, self.written).await;
    }
}

/// That hands is gone; a container engine knows more about it.
async fn gone(explainer: Option<Explainer>) -> Message {
    let Some(explainer) = explainer else {
        return Message::HandsGone;
    };
    // It waits a moment for the engine, so not here.
    let told = tokio::task::spawn_blocking(move || explainer.explain()).await;
    match told.ok().flatten() {
        Some(what) => Message::Fault {
            link: "hands",
            what,
        },
        None => Message::HandsGone,
    }
}

/// What waits for hands' answers.
#[derive(Debug, Default)]
struct Waiting {
    orders: BTreeMap<u64, oneshot::Sender<Result<Answer, Failure>>>,
    commands: BTreeMap<CommandId, CommandWait>,
    next_order: u64,
}

/// What answers an order about a file.
#[derive(Debug)]
enum Answer {
    Put(PutDone),
    Read(Resolved),
}

#[derive(Debug)]
struct CommandWait {
    started: Option<oneshot::Sender<Result<(), Failure>>>,
    exited: Option<oneshot::Sender<(Exit, u32)>>,
}

/// The hands link: orders go down, reports find whoever waits for them.
#[derive(Debug, Clone)]
pub(crate) struct Hands {
    link: Rc<std::os::unix::net::UnixStream>,
    waiting: Rc<RefCell<Waiting>>,
    explainer: Option<Explainer>,
}

/// A command that was ordered.
#[derive(Debug)]
pub(crate) struct Ordered {
    /// Resolves when it runs, or could not be started.
    pub(crate) started: oneshot::Receiver<Result<(), Failure>>,
    /// Resolves when it and everything below it has ended.
    pub(crate) exited: oneshot::Receiver<(Exit, u32)>,
}

impl Hands {
    /// Takes the link over and starts hearing it.
    pub(crate) fn start(
        link: std::os::unix::net::UnixStream,
        inbox: Inbox,
        explainer: Option<Explainer>,
    ) -> std::io::Result<Self> {
        link.set_nonblocking(true)?;
        let reading = UnixStream::from_std(link.try_clone()?)?;
        let hands = Self {
            link: Rc::new(link),
            waiting: Rc::default(),
            explainer,
        };
        let ears = hands.clone();
        tokio::task::spawn_local(async move { ears.hear(reading, inbox).await });
        Ok(hands)
    }

    async fn hear(self, mut link: UnixStream, inbox: Inbox) {
        let mut decoder = Decoder::new(bounds::FRAME);
        let mut chunk = vec![0_u8; 64 * 1024];
        loop {
            // A plain read: a descriptor that was sent with the bytes is closed by the kernel.
            let got = match link.read(&mut chunk).await {
                Ok(0) | Err(_) => {
                    let _ = inbox.send(gone(self.explainer).await);
                    return;
                }
                Ok(got) => got,
            };
            decoder.push(chunk.get(..got).unwrap_or_default());
            loop {
                let heard = match decoder.next_message::<Report>() {
                    Ok(None) => break,
                    Ok(Some(report)) if !hands_may(HandsPhase::Ready, &report) => {
                        Err("a set-up report after ready".to_owned())
                    }
                    Ok(Some(report)) => self.route(report, &inbox),
                    Err(error) => Err(error.to_string()),
                };
                if let Err(what) = heard {
                    let _ = inbox.send(Message::Fault {
                        link: "hands",
                        what,
                    });
                    return;
                }
            }
        }
    }

    /// Gives a report to whoever waits for it; one that nobody waits for is a fault.
    fn route(&self, report: Report, inbox: &Inbox) -> Result<(), String> {
        let mut waiting = self.waiting.borrow_mut();
        match report {
            Report::AgentStarted => {}
            Report::AgentGone(exit) if exit.signal == Some(9) && self.memory_kills() > 0 => {
                let what = "the container ran out of memory and the kernel ended the agent: raise [limits] memory, or let commands do less at once";
                let _ = inbox.send(Message::Fault {
                    link: "agent",
                    what: what.to_owned(),
                });
            }
            Report::AgentGone(exit) => {
                let _ = inbox.send(Message::AgentGone { exit: Some(exit) });
            }
            Report::Spawned { command } => {
                let wait = waiting
                    .commands
                    .get_mut(&command)
                    .and_then(|wait| wait.started.take());
                let started =
                    wait.ok_or_else(|| format!("`{command}` was not ordered, or ran already"))?;
                let _ = started.send(Ok(()));
            }
            Report::Exited {
                command,
                exit,
                left_running,
            } => {
                let wait = waiting.commands.remove(&command);
                let mut wait = wait.ok_or_else(|| format!("`{command}` was not running"))?;
                if let Some(started) = wait.started.take() {
                    let _ = started.send(Ok(()));
                }
                if let Some(exited) = wait.exited.take() {
                    let _ = exited.send((exit, left_running));
                }
            }
            Report::PutDone { order, done } => {
                let wait = waiting.orders.remove(&order);
                let _ = wait
                    .ok_or_else(|| format!("order {order} was not open"))?
                    .send(Ok(Answer::Put(done)));
            }
            Report::Resolved { order, found } => {
                let wait = waiting.orders.remove(&order);
                let _ = wait
                    .ok_or_else(|| format!("order {order} was not open"))?
                    .send(Ok(Answer::Read(found)));
            }
            Report::Failed {
                order: Some(order),
                failure,
                ..
            } => {
                let wait = waiting.orders.remove(&order);
                let _ = wait
                    .ok_or_else(|| format!("order {order} was not open"))?
                    .send(Err(failure));
            }
            Report::Failed {
                command: Some(command),
                failure,
                ..
            } => {
                let wait = waiting
                    .commands
                    .get_mut(&command)
                    .and_then(|wait| wait.started.take());
                if let Some(started) = wait {
                    waiting.commands.remove(&command);
                    let _ = started.send(Err(failure));
                } else if failure.class == FailureClass::Unknown {
                    // Its warden died: no end will be told, and who waits for one hears so.
                    waiting.commands.remove(&command);
                }
                // Else a kill of what has just ended failed, and nobody waits for that.
            }
            // Only the agent's start has neither an order's number nor a command.
            Report::Failed {
                order: None,
                command: None,
                failure,
            } => {
                return Err(format!(
                    "the agent could not be started: {}",
                    failure.message
                ));
            }
            Report::Hello(_)
            | Report::Handles { .. }
            | Report::Ready { .. }
            | Report::Unfit { .. } => {
                return Err("a set-up report after ready".to_owned());
            }
        }
        Ok(())
    }

    /// How many processes of the box the kernel has ended for want of memory, where that is known.
    pub(crate) fn memory_kills(&self) -> u64 {
        self.explainer.as_ref().map_or(0, Explainer::memory_kills)
    }

    /// Sends an order that no answer is awaited for.
    pub(crate) fn order(&self, order: &Order, handles: &[BorrowedFd<'_>]) -> std::io::Result<()> {
        supervisor_sandbox::send_order(&*self.link, order, handles)
    }

    /// Orders a process and says how to wait for it.
    pub(crate) fn start_command(
        &self,
        command: &CommandId,
        order: &Order,
        handles: &[BorrowedFd<'_>],
    ) -> std::io::Result<Ordered> {
        let (started, is_started) = oneshot::channel();
        let (exited, is_exited) = oneshot::channel();
        let wait = CommandWait {
            started: Some(started),
            exited: Some(exited),
        };
        self.waiting
            .borrow_mut()
            .commands
            .insert(command.clone(), wait);
        if let Err(error) = self.order(order, handles) {
            self.waiting.borrow_mut().commands.remove(command);
            return Err(error);
        }
        Ok(Ordered {
            started: is_started,
            exited: is_exited,
        })
    }

    /// Orders a put and waits for its answer, at most [`bounds::ORDER_TIME`].
    pub(crate) async fn put(
        &self,
        mut put: protocol::Put,
        pre_image: BorrowedFd<'_>,
    ) -> Result<PutDone, Failure> {
        let order = |number| {
            put.order = number;
            Order::Put(put)
        };
        match self.ask(order, pre_image).await? {
            Answer::Put(done) => Ok(done),
            Answer::Read(_) => Err(nonsense()),
        }
    }

    /// Orders a file's content and waits until it is through, at most [`bounds::ORDER_TIME`].
    pub(crate) async fn read(
        &self,
        path: String,
        content: BorrowedFd<'_>,
    ) -> Result<Resolved, Failure> {
        let order = |order| Order::Read { order, path };
        match self.ask(order, content).await? {
            Answer::Read(found) => Ok(found),
            Answer::Put(_) => Err(nonsense()),
        }
    }

    async fn ask(
        &self,
        order: impl FnOnce(u64) -> Order,
        pipe: BorrowedFd<'_>,
    ) -> Result<Answer, Failure> {
        let (answer, answered) = oneshot::channel();
        let number = {
            let mut waiting = self.waiting.borrow_mut();
            waiting.next_order += 1;
            let number = waiting.next_order;
            waiting.orders.insert(number, answer);
            number
        };
        let failed = |class, message: String| Failure { class, message };
        self.order(&order(number), &[pipe])
            .map_err(|error| failed(FailureClass::Other, format!("cannot reach hands: {error}")))?;
        match tokio::time::timeout(bounds::ORDER_TIME, answered).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(failed(
                FailureClass::Unknown,
                "hands left while the file was written: the outcome is not known; read the file before writing it again".to_owned(),
            )),
            Err(_) => Err(failed(
                FailureClass::Unknown,
                format!("hands did not answer within {} s: the outcome is not known", bounds::ORDER_TIME.as_secs()),
            )),
        }
    }
}

/// Hands answered another order than it was given.
fn nonsense() -> Failure {
    Failure {
        class: FailureClass::Unknown,
        message: "hands answered another order: the outcome is not known".to_owned(),
    }
}
