//! One step of a session: a message in; what to record and what to do out. Pure.

mod calls;
mod classified;
mod hooks;
mod modes;
mod outcomes;
mod people;
mod told;

use protocol::{
    Digest, Message as Said, Note, Reply, Request, Role, Transition, TurnReason, TurnStart,
    call::EndedBy,
    phase::{Phase, RequestKind, agent_may},
};

use crate::{
    Effect, End, Entry, Message, ModelName, Session, Tick, ViewEvent,
    escape::{cut, escape},
    gate,
    hook::Point,
    session::{NOTES_PER_TURN, Pending, PendingInfer, PendingState},
};

/// What a step gives: the session as it is now, entries to record first, effects to start after.
#[derive(Debug)]
#[must_use = "entries must be recorded and effects started"]
pub struct Step {
    /// The session.
    pub session: Session,
    /// Durable before any effect of this step starts.
    pub entries: Vec<Entry>,
    /// To start, in order.
    pub effects: Vec<Effect>,
}

/// Takes a session one step on.
pub fn step(session: Session, message: Message, now: Tick) -> Step {
    let mut turn = Turn {
        session,
        now,
        entries: Vec::new(),
        effects: Vec::new(),
    };
    if !turn.session.ended {
        turn.take(message);
    }
    Step {
        session: turn.session,
        entries: turn.entries,
        effects: turn.effects,
    }
}

struct Turn {
    session: Session,
    now: Tick,
    entries: Vec<Entry>,
    effects: Vec<Effect>,
}

impl Turn {
    fn take(&mut self, message: Message) {
        if let Some(end) = self.session.hooks.closing.clone() {
            return self.while_closing(message, end);
        }
        match message {
            Message::Agent(request) => self.agent(request),
            Message::Fault { link, what } => self.fault(link, what),
            Message::AgentGone { exit } => {
                self.entries.push(Entry::Left {
                    who: "agent".to_owned(),
                    exit,
                });
                let how = match exit {
                    Some(protocol::Exit {
                        signal: Some(signal),
                        ..
                    }) => format!("ended by signal {signal}"),
                    Some(protocol::Exit {
                        code: Some(code), ..
                    }) => format!("exit code {code}"),
                    Some(_) | None => "its link closed".to_owned(),
                };
                self.end(End::new("fault", format!("the agent process left ({how})")));
            }
            Message::HandsGone => {
                self.entries.push(Entry::Left {
                    who: "hands".to_owned(),
                    exit: None,
                });
                self.end(End::new("fault", "hands left: the whole jail has ended"));
            }
            Message::Effect(outcome) => self.outcome(outcome),
            Message::Answer {
                question,
                nonce,
                answer,
            } => self.answer(question, &nonce, answer),
            Message::Task(text) => {
                self.session.task = Some(text);
                self.begin_turn();
            }
            Message::Cancel => self.cancel(),
            Message::Stop(end) => self.end(end),
            Message::Mode { to, by } => self.change_mode(to, &by),
            Message::Clock => self.clock(),
        }
    }

    // ---- what the agent says -------------------------------------------------------------------

    fn agent(&mut self, request: Request) {
        if let Err(fault) = self.session.rate.admit(self.now.0) {
            return self.fault("agent", fault.to_string());
        }
        let kind = RequestKind::of(&request);
        if !agent_may(self.session.phase, kind) {
            let what = format!(
                "`{kind:?}` is not permitted in phase `{:?}`",
                self.session.phase
            );
            return self.fault("agent", what);
        }
        match request {
            Request::Hello(hello) => {
                let welcome = self.session.config.welcome.clone();
                if let Err(mismatch) = hello.check(protocol::ROLE_AGENT, &welcome.hello.session) {
                    return self.fault("agent", mismatch.to_string());
                }
                self.session.phase = Phase::Idle;
                self.effects
                    .push(Effect::Reply(Reply::Welcome(Box::new(welcome))));
                self.at(Point::SessionStart);
            }
            Request::Infer(infer) => self.infer(infer),
            Request::Calls { calls } => self.calls(calls),
            Request::Settled(settled) => {
                let reading = |pending: &&Pending| matches!(pending.state, PendingState::Reading);
                if self
                    .session
                    .pending
                    .get(&settled.call)
                    .filter(reading)
                    .is_none()
                {
                    let what = format!(
                        "`{}` was settled, but no read of that id was allowed",
                        settled.call
                    );
                    return self.fault("agent", what);
                }
                let what = match settled.ok {
                    true => format!("{} bytes", settled.bytes),
                    false => format!("an error of {} bytes went to the model", settled.bytes),
                };
                let kept = outcomes::Kept::default();
                self.settle(&settled.call, settled.ok, what, kept, None);
            }
            Request::Append(message) => {
                if message.role != Role::User {
                    return self.fault(
                        "agent",
                        "only the supervisor records what a model said".to_owned(),
                    );
                }
                self.entries.push(Entry::Message { message });
            }
            Request::Transition(transition) => self.transition(transition),
            Request::Note(note) => self.note(note),
            Request::TurnEnded(end) => {
                self.session.phase = Phase::Idle;
                self.leave_calls();
                self.abandon_pending(EndedBy::Cancelled);
                let done = end.reason == TurnReason::Done && !self.session.cancelled;
                match done && !self.session.hooks.continued {
                    true => self.at(Point::Stop(end)),
                    false => self.finish_turn(end),
                }
            }
        }
    }

    fn begin_turn(&mut self) {
        let mut open = self.session.hooks.open.values();
        if self.session.phase != Phase::Idle || open.any(|c| c.point.is_between_turns()) {
            return;
        }
        let Some(text) = self.session.task.take() else {
            return;
        };
        let settings = &self.session.config.policy.settings;
        if self.session.turn >= settings.limits.turns {
            return self.end(End::new(
                "cap",
                format!("{} turns, the bound of a session", self.session.turn),
            ));
        }
        self.session.turn += u32::from(text.is_some() || self.session.turn == 0);
        self.session.infers_in_turn = 0;
        self.session.bench.begin_turn();
        self.session.hooks.continued = false;
        self.session.cancelled = false;
        self.session.notes_left = NOTES_PER_TURN;
        let number = self.session.turn;
        self.entries.push(Entry::TurnBegan {
            number,
            text: text.clone(),
        });
        if let Some(text) = &text {
            self.session.bench.hear(text);
            self.entries.push(Entry::Message {
                message: Said::user(text.clone()),
            });
        }
        self.effects
            .push(Effect::View(ViewEvent::TurnBegan { number }));
        self.session.starting = text;
        self.at(Point::QueryStart);
    }

    /// The turn's own hooks have seen it: the agent begins.
    fn turn_runs(&mut self) {
        self.session.phase = Phase::Turn;
        let (number, text) = (self.session.turn, self.session.starting.take());
        self.effects
            .push(Effect::Reply(Reply::Turn(TurnStart { number, text })));
    }

    fn infer(&mut self, request: protocol::Infer) {
        if self.session.infer.is_some() || self.session.hooks.holds_infer() {
            return self.fault(
                "agent",
                "a second model call while one is running".to_owned(),
            );
        }
        let id = request.id;
        if self.session.cancelled {
            return self.infer_failed(id, "cancelled", "the turn is cancelled");
        }
        self.session.hooks.held = Some(Box::new(request));
        self.infer_if_ready();
    }

    /// The hooks of a model call have let it pass.
    fn infer_now(&mut self, mut request: protocol::Infer) {
        let id = request.id;
        if let Some(message) = self.said_by_hooks() {
            request.messages.push(message.clone());
            self.effects
                .push(Effect::Reply(Reply::Context(message.clone())));
            self.entries.push(Entry::Message { message });
        }
        let digest = Digest::of(&serde_json::to_vec(&request).unwrap_or_default());
        match gate::pass_infer(&mut self.session, request) {
            Ok(permit) => {
                self.entries.push(Entry::InferIntent {
                    id,
                    provider: permit.action().provider.clone(),
                    model: permit.action().model.clone(),
                    request: digest,
                    permit: permit.serial(),
                });
                self.session.infer = Some(PendingInfer {
                    id,
                    since: self.now,
                    asked: ModelName {
                        provider: permit.action().provider.clone(),
                        model: permit.action().model.clone(),
                    },
                });
                self.effects.push(Effect::Infer(permit));
            }
            Err(why) => self.infer_failed(id, "budget", &why),
        }
    }

    fn infer_failed(&mut self, id: u64, class: &str, message: &str) {
        self.effects
            .push(Effect::Reply(Reply::InferFailed(hooks::failure(
                id, class, message,
            ))));
    }

    fn transition(&mut self, transition: Transition) {
        let fits = transition.reason.len() <= 64
            && transition
                .reason
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !fits {
            return self.fault("agent", "a transition with a malformed reason".to_owned());
        }
        let text = format!("{:?} {}", transition.kind, transition.reason);
        let iteration = transition.iteration;
        self.effects
            .push(Effect::View(ViewEvent::Transition { iteration, text }));
        self.entries.push(Entry::Transition(transition));
    }

    fn note(&mut self, note: Note) {
        // Notes are the worker's word and bounded: past the bound they are dropped, once said.
        match self.session.notes_left.checked_sub(1) {
            None => return,
            Some(0) => {
                let text =
                    "the worker's notes reached their bound; the rest of this turn's are dropped";
                self.entries.push(Entry::Notice {
                    text: text.to_owned(),
                });
                self.session.notes_left = 0;
                return;
            }
            Some(left) => self.session.notes_left = left,
        }
        let event = match note {
            Note::Progress { call, percent } if self.session.pending.contains_key(&call) => {
                ViewEvent::Progress {
                    call,
                    percent: percent.min(100),
                }
            }
            Note::Progress { .. } => return,
            Note::Log { text } => ViewEvent::Log(escape(&cut(&text, 2_048), false)),
        };
        self.effects.push(Effect::View(event));
    }
}

/// How a session ends after a turn that ended so.
#[must_use]
pub fn end_of(reason: TurnReason) -> &'static str {
    match reason {
        TurnReason::Done => "done",
        TurnReason::MaxIterationsReached
        | TurnReason::MaxTurnsReached
        | TurnReason::NoProgress
        | TurnReason::ContextFull => "cap",
        TurnReason::Cancelled => "cancelled",
        TurnReason::ModelFailed => "outage",
        TurnReason::BudgetReached => "budget",
        TurnReason::Stopped | TurnReason::Filtered => "refused",
        TurnReason::Bug => "fault",
    }
}
