//! One session's way: a message in, one pure step, the record, then the effects. Here and nowhere else.

use std::time::{Duration, Instant};

use protocol::{CallId, FailureClass, Order, TurnEnd, bounds, call::Outcome, phase::Phase};
use supervisor_core::{
    AskPerson, Certificate, Effect, EffectOutcome, End, Message, Permit, Question, QuestionAnswer,
    Session, Tick, Totals, ViewEvent, end_of, step,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

use super::{
    certify::Bounds,
    commands::Commands,
    files,
    hooks::Running,
    links::{AgentSpeaker, Hands, Inbox},
    models::Models,
    queries::Databases,
    spans::Spans,
    store::Store,
};
use crate::{
    approve::{Answered, Approver, Prompt},
    operator::{Board, Operator},
    view::View,
};

/// Everything that a running session needs.
#[derive(Debug)]
pub(crate) struct Conduct {
    pub(crate) session: Session,
    pub(crate) store: Store,
    pub(crate) view: View,
    pub(crate) approver: Approver,
    /// What is asked now.
    pub(crate) board: Board,
    /// The socket for people who are not at the terminal.
    pub(crate) operator: Option<Operator>,
    pub(crate) agent: AgentSpeaker,
    pub(crate) hands: Hands,
    pub(crate) commands: Commands,
    pub(crate) databases: Databases,
    pub(crate) hooks: Running,
    pub(crate) models: Models,
    pub(crate) spans: Spans,
    pub(crate) inbox: Inbox,
    pub(crate) messages: mpsc::UnboundedReceiver<Message>,
    pub(crate) wall: Duration,
    /// What bounds the box from outside, and what it was certified to hold.
    pub(crate) bounds: Bounds,
    pub(crate) certificate: Certificate,
}

/// How a session went.
#[derive(Debug)]
pub(crate) struct Conducted {
    /// Its end.
    pub(crate) end: End,
    /// What it used.
    pub(crate) totals: Totals,
    /// The last turn's end.
    pub(crate) last_turn: Option<TurnEnd>,
    /// The view, for the summary.
    pub(crate) view: View,
    /// The record.
    pub(crate) store: Store,
    /// Whether SIGTERM or SIGHUP ended it.
    pub(crate) terminated: bool,
    /// Wall time.
    pub(crate) took: Duration,
}

/// Signals that a session obeys.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

/// What a signal asks for.
enum Asked {
    Interrupt,
    Terminate,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Interrupt,
            _ = self.terminate.recv() => Asked::Terminate,
            _ = self.hangup.recv() => Asked::Terminate,
        }
    }
}

impl Conduct {
    /// Runs the session to its end. The jail is still there afterwards; the caller kills it.
    pub(crate) async fn run(mut self, task: Option<String>) -> Result<Conducted, String> {
        let began = Instant::now();
        let mut signals = Signals::new().map_err(|error| format!("no signals: {error}"))?;
        let mut interrupts = 0_u32;
        let mut terminated = false;
        let mut ticker = tokio::time::interval(Duration::from_secs(1));
        let _ = self.inbox.send(Message::Task(task));
        self.hands
            .order(&Order::StartAgent, &[])
            .map_err(|error| format!("cannot reach hands: {error}"))?;
        loop {
            let due = self
                .session
                .deadline()
                .map(|at| began + Duration::from_millis(at.0));
            let due = due.unwrap_or(began + self.wall).min(began + self.wall);
            let message = tokio::select! {
                biased;
                asked = signals.next() => match asked {
                    Asked::Interrupt if interrupts == 0 => {
                        interrupts = 1;
                        self.view.line("  cancelling the turn; Ctrl-C again ends the session");
                        Message::Cancel
                    }
                    Asked::Interrupt => Message::Stop(End::new("cancelled", "ended by Ctrl-C")),
                    Asked::Terminate => {
                        terminated = true;
                        Message::Stop(End::new("cancelled", "ended by a signal"))
                    }
                },
                answered = self.approver.answered() => answer(answered),
                message = self.messages.recv() => {
                    message.ok_or("every sender of the session is gone")?
                }
                () = tokio::time::sleep_until(due.into()) => {
                    if began.elapsed() >= self.wall {
                        let text = format!("{} s of wall time are over", self.wall.as_secs());
                        Message::Stop(End::new("budget", text))
                    } else {
                        Message::Clock
                    }
                }
                _ = ticker.tick() => {
                    self.view.tick();
                    if self.session.phase() == Phase::Greeting && began.elapsed() > bounds::GREETING {
                        let what = format!("no greeting within {} s", bounds::GREETING.as_secs());
                        Message::Fault { link: "agent", what }
                    } else {
                        continue;
                    }
                }
            };
            self.answered(&message);
            let now = Tick(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
            self.spans.hear(&message);
            let stepped = step(self.session, message, now);
            self.session = stepped.session;
            // Fail closed: what cannot be recorded is not done.
            if let Err(error) = self.store.append(&stepped.entries) {
                let reason = format!("the record cannot be written: {error}");
                let end = End::new("fault", reason);
                return Ok(self.finish(end, terminated, began.elapsed()).await);
            }
            for effect in stepped.effects {
                if let Some(end) = self.start(effect) {
                    return Ok(self.finish(end, terminated, began.elapsed()).await);
                }
            }
        }
    }

    /// Starts one effect; an end comes back.
    fn start(&mut self, effect: Effect) -> Option<End> {
        match effect {
            Effect::Reply(reply) => {
                if let Err(what) = self.agent.say(&reply) {
                    let _ = self.inbox.send(Message::Fault {
                        link: "agent",
                        what,
                    });
                }
            }
            Effect::Infer(permit) => {
                // What the host can take back is looked at again before each step of the model.
                if let Some(why) = self.bounds.lost(&self.certificate) {
                    // By the session's own way, so that the end is recorded with its reason.
                    let _ = self.inbox.send(Message::Stop(End::new("fault", why)));
                    return None;
                }
                self.spans.asks(permit.action());
                self.models.infer(permit);
            }
            Effect::Classify(permit) => self.models.classify(permit),
            Effect::CancelClassify { permit } => self.models.cancel_classify(permit),
            Effect::CancelInfer => self.models.cancel(),
            Effect::Run(permit) => self.commands.run(permit),
            Effect::EndCommand { command, why } => self.commands.end(&command, why),
            Effect::KillJob(permit) => self.commands.kill_job(permit),
            Effect::LookAtJob {
                call,
                command,
                wait_ms,
            } => {
                self.commands.look(call, command, wait_ms, false);
            }
            Effect::Put(permit) => files::put(&self.hands, &self.inbox, &self.store, permit),
            Effect::Query(permit) => self.databases.query(&self.inbox, permit),
            Effect::Tables(permit) => self.databases.tables(&self.inbox, permit),
            Effect::Hook(permit) => self.hooks.run(permit),
            Effect::EndHook { run } => self.hooks.end(run),
            Effect::AskPerson(permit) => self.ask_person(permit),
            Effect::Approve(question) => self.approve(question),
            Effect::Withdraw { question } => {
                self.board.remove(question);
                self.approver.withdraw(question);
            }
            Effect::View(event) => {
                self.spans.see(&event);
                self.view.event(&event);
                if let ViewEvent::Mode { mode, planning, .. } = &event {
                    self.board.stand(*mode, *planning);
                }
                if let ViewEvent::TurnEnded(end) = event {
                    // One task a run: its turn's end is the session's.
                    let reason = end.detail.unwrap_or_else(|| format!("{:?}", end.reason));
                    let _ = self
                        .inbox
                        .send(Message::Stop(End::new(end_of(end.reason), reason)));
                }
            }
            Effect::End(end) => return Some(end),
        }
        None
    }

    /// Whoever answered, at the terminal or elsewhere: the question stands nowhere any more.
    fn answered(&mut self, message: &Message) {
        match message {
            Message::Answer { question, .. } => {
                self.board.remove(*question);
                self.approver.withdraw(*question);
            }
            Message::Effect(EffectOutcome::Call { call, .. }) => {
                self.board.remove_call(call);
                self.approver.withdraw_call(call);
            }
            _ => {}
        }
    }

    fn approve(&mut self, question: Question) {
        self.view.asking(&question);
        let (id, nonce) = (question.id, question.nonce.clone());
        self.board.add(&question);
        let unasked = self.approver.ask(Prompt::Approval(question)).is_some();
        if unasked && self.operator.is_none() {
            let words = "too many questions are open: the flood is refused".to_owned();
            let answer = QuestionAnswer::Deny(Some(words));
            let _ = self.inbox.send(Message::Answer {
                question: id,
                nonce,
                answer,
            });
        }
    }

    fn ask_person(&mut self, permit: Permit<AskPerson>) {
        let AskPerson {
            call,
            question,
            choices,
        } = permit.spend();
        // Known to those alone who were shown the question.
        let nonce = super::place::random_hex(8).unwrap_or_default();
        self.board.add_words(&call, &question, &choices, &nonce);
        let prompt = Prompt::Words {
            call: call.clone(),
            question,
            choices,
        };
        if self.approver.ask(prompt).is_some() && self.operator.is_none() {
            self.board.remove_call(&call);
            let message =
                "nobody can be asked in this session: decide by yourself, or end with what is open";
            let outcome = Outcome::Failed {
                class: FailureClass::Denied,
                message: message.to_owned(),
            };
            let _ = self.inbox.send(outcome_of(call, outcome));
        }
    }

    async fn finish(mut self, end: End, terminated: bool, took: Duration) -> Conducted {
        self.spans.end(&end, &self.session.totals());
        self.agent.finish().await;
        // A jail that ends in order leaves at once; the caller's kill is for one that does not.
        let _ = self.hands.order(&Order::End, &[]);
        Conducted {
            end,
            totals: self.session.totals(),
            last_turn: self.session.last_turn().cloned(),
            view: self.view,
            store: self.store,
            terminated,
            took,
        }
    }
}

fn answer(answered: Answered) -> Message {
    match answered {
        Answered::Approval {
            question,
            nonce,
            answer,
        } => Message::Answer {
            question,
            nonce,
            answer,
        },
        Answered::Words { call, text } => outcome_of(call, Outcome::Answer { text }),
    }
}

fn outcome_of(call: CallId, outcome: Outcome) -> Message {
    Message::Effect(EffectOutcome::Call {
        call,
        outcome: Box::new(outcome),
        before: None,
        spool: None,
    })
}
