//! One step of a session: a message in; what to record and what to do out. Pure.

use policies::Decision;
use protocol::{
    CallId, Digest, InferFailure, Message as Said, Note, Reply, Request, Role, Transition,
    TurnReason, TurnStart, bounds,
    call::{Call, EndedBy, Outcome, Refusal, Stage},
    phase::{Phase, RequestKind, agent_may},
};

use crate::{
    Effect, EffectOutcome, End, Entry, Message, Question, QuestionAnswer, Scope, Session, Tick,
    ViewEvent,
    escape::{cut, escape},
    gate::{self, Gate, Passed},
    session::{Asking, NOTES_PER_TURN, Pending, PendingInfer, PendingState},
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
    let mut turn = Turn { session, now, entries: Vec::new(), effects: Vec::new() };
    if !turn.session.ended {
        turn.take(message);
    }
    Step { session: turn.session, entries: turn.entries, effects: turn.effects }
}

struct Turn {
    session: Session,
    now: Tick,
    entries: Vec<Entry>,
    effects: Vec<Effect>,
}

impl Turn {
    fn take(&mut self, message: Message) {
        match message {
            Message::Agent(request) => self.agent(request),
            Message::Fault { link, what } => self.fault(link, what),
            Message::AgentGone { exit } => {
                self.entries.push(Entry::Left { who: "agent".to_owned(), exit });
                let how = match exit {
                    Some(protocol::Exit { signal: Some(signal), .. }) => format!("ended by signal {signal}"),
                    Some(protocol::Exit { code: Some(code), .. }) => format!("exit code {code}"),
                    Some(_) | None => "its link closed".to_owned(),
                };
                self.end(End::new("fault", format!("the agent process left ({how})")));
            }
            Message::HandsGone => {
                self.entries.push(Entry::Left { who: "hands".to_owned(), exit: None });
                self.end(End::new("fault", "hands left: the whole jail has ended"));
            }
            Message::Effect(outcome) => self.outcome(outcome),
            Message::Answer { question, nonce, answer } => self.answer(question, &nonce, answer),
            Message::Task(text) => {
                self.session.task = Some(text);
                self.begin_turn();
            }
            Message::Cancel => self.cancel(),
            Message::Stop(end) => self.end(end),
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
            let what = format!("`{kind:?}` is not permitted in phase `{:?}`", self.session.phase);
            return self.fault("agent", what);
        }
        match request {
            Request::Hello(hello) => {
                let welcome = self.session.config.welcome.clone();
                if let Err(mismatch) = hello.check(protocol::ROLE_AGENT, &welcome.hello.session) {
                    return self.fault("agent", mismatch.to_string());
                }
                self.session.phase = Phase::Idle;
                self.effects.push(Effect::Reply(Reply::Welcome(Box::new(welcome))));
                self.begin_turn();
            }
            Request::Infer(infer) => self.infer(infer),
            Request::Calls { calls } => self.calls(calls),
            Request::Settled(settled) => {
                let reading = |pending: &&Pending| matches!(pending.state, PendingState::Reading);
                if self.session.pending.get(&settled.call).filter(reading).is_none() {
                    let what = format!("`{}` was settled, but no read of that id was allowed", settled.call);
                    return self.fault("agent", what);
                }
                let what = format!("{} bytes", settled.bytes);
                self.settle(&settled.call, settled.ok, what, None, None);
            }
            Request::Append(message) => {
                if message.role != Role::User {
                    return self.fault("agent", "only the supervisor records what a model said".to_owned());
                }
                self.entries.push(Entry::Message { message });
            }
            Request::Transition(transition) => self.transition(transition),
            Request::Note(note) => self.note(note),
            Request::TurnEnded(end) => {
                self.session.phase = Phase::Idle;
                self.entries.push(Entry::TurnEnded(end.clone()));
                self.effects.push(Effect::View(ViewEvent::TurnEnded(end.clone())));
                self.session.last_turn = Some(end);
                self.abandon_pending(EndedBy::Cancelled);
            }
        }
    }

    fn begin_turn(&mut self) {
        if self.session.phase != Phase::Idle {
            return;
        }
        let Some(text) = self.session.task.take() else { return };
        let settings = &self.session.config.policy.settings;
        if self.session.turn >= settings.limits.turns {
            return self.end(End::new("cap", format!("{} turns, the bound of a session", self.session.turn)));
        }
        self.session.turn += u32::from(text.is_some() || self.session.turn == 0);
        self.session.phase = Phase::Turn;
        self.session.infers_in_turn = 0;
        self.session.cancelled = false;
        self.session.notes_left = NOTES_PER_TURN;
        let number = self.session.turn;
        self.entries.push(Entry::TurnBegan { number, text: text.clone() });
        if let Some(text) = &text {
            self.entries.push(Entry::Message { message: Said::user(text.clone()) });
        }
        self.effects.push(Effect::View(ViewEvent::TurnBegan { number }));
        self.effects.push(Effect::Reply(Reply::Turn(TurnStart { number, text })));
    }

    fn infer(&mut self, request: protocol::Infer) {
        if self.session.infer.is_some() {
            return self.fault("agent", "a second model call while one is running".to_owned());
        }
        let id = request.id;
        if self.session.cancelled {
            return self.infer_failed(id, "cancelled", "the turn is cancelled");
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
                self.session.infer = Some(PendingInfer { id, since: self.now });
                self.effects.push(Effect::Infer(permit));
            }
            Err(why) => self.infer_failed(id, "budget", &why),
        }
    }

    fn infer_failed(&mut self, id: u64, class: &str, message: &str) {
        self.effects.push(Effect::Reply(Reply::InferFailed(InferFailure {
            id,
            class: class.to_owned(),
            retryable: false,
            message: message.to_owned(),
            retry_after_ms: None,
        })));
    }

    fn transition(&mut self, transition: Transition) {
        let fits = transition.reason.len() <= 64
            && transition.reason.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !fits {
            return self.fault("agent", "a transition with a malformed reason".to_owned());
        }
        let text = format!("{:?} {}", transition.kind, transition.reason);
        let iteration = transition.iteration;
        self.effects.push(Effect::View(ViewEvent::Transition { iteration, text }));
        self.entries.push(Entry::Transition(transition));
    }

    fn note(&mut self, note: Note) {
        // Notes are the worker's word and bounded: past the bound they are dropped, once said.
        match self.session.notes_left.checked_sub(1) {
            None => return,
            Some(0) => {
                let text = "the worker's notes reached their bound; the rest of this turn's are dropped";
                self.entries.push(Entry::Notice { text: text.to_owned() });
                self.session.notes_left = 0;
                return;
            }
            Some(left) => self.session.notes_left = left,
        }
        let event = match note {
            Note::Progress { call, percent } if self.session.pending.contains_key(&call) => {
                ViewEvent::Progress { call, percent: percent.min(100) }
            }
            Note::Progress { .. } => return,
            Note::Log { text } => ViewEvent::Log(escape(&cut(&text, 2_048), false)),
        };
        self.effects.push(Effect::View(event));
    }

    // ---- tool calls ----------------------------------------------------------------------------

    fn calls(&mut self, calls: Vec<Call>) {
        if calls.is_empty() || calls.len() > bounds::BATCH {
            let what = format!("a batch of {} calls, the bound is {}", calls.len(), bounds::BATCH);
            return self.fault("agent", what);
        }
        for call in calls {
            if self.session.pending.contains_key(&call.id) {
                return self.fault("agent", format!("call `{}` is asked for twice", call.id));
            }
            self.call(call);
        }
    }

    fn call(&mut self, call: Call) {
        self.session.totals.calls += 1;
        if self.session.cancelled {
            let refusal = Refusal {
                stage: Stage::Mode,
                rule: None,
                layer: None,
                reason: "the turn is cancelled".to_owned(),
                instead: None,
            };
            return self.refuse(&call, refusal, None);
        }
        let (action, verdict) = match gate::judge(&self.session, &call) {
            Gate::Refused(refusal) => return self.refuse(&call, refusal, None),
            Gate::Judged(judged) => *judged,
        };
        let key = gate::key(&call);
        self.entries.push(Entry::Verdict {
            call: call.id.clone(),
            tool: call.tool.clone(),
            action: key.clone(),
            input: recorded(&call.input),
            verdict: verdict.clone(),
        });
        self.effects.push(Effect::View(ViewEvent::Judged {
            call: call.id.clone(),
            tool: call.tool.clone(),
            what: shown(&action, 200),
            verdict: gate::word(verdict.decision),
            rule: verdict.rule.clone(),
            reason: verdict.reason.clone(),
        }));
        match verdict.decision {
            Decision::Deny => self.refuse(&call, gate::refusal(&verdict), Some(&verdict)),
            Decision::Allow => self.pass(call, action, &verdict),
            Decision::Ask => self.ask(call, action, verdict, key),
        }
    }

    fn ask(&mut self, call: Call, action: policies::Action, verdict: policies::Verdict, key: Digest) {
        if !verdict.once_only && self.session.grants.contains(&key) {
            return self.pass(call, action, &verdict);
        }
        if !self.session.config.facts.interactive {
            let mut refusal = gate::refusal(&verdict);
            if refusal.stage == Stage::Permissions {
                refusal.stage = Stage::Mode;
            }
            refusal.reason = format!("{}, and nobody can be asked in this session", refusal.reason);
            return self.refuse(&call, refusal, Some(&verdict));
        }
        self.session.questions += 1;
        let id = self.session.questions;
        let seed = self.session.config.seed.as_bytes();
        let nonce = Digest::of_parts([seed, &id.to_be_bytes(), key.as_str().as_bytes()]);
        let nonce = nonce.short().to_owned();
        let question = Question {
            id,
            nonce: nonce.clone(),
            call: call.id.clone(),
            tool: call.tool.clone(),
            shown: shown(&action, 4_096),
            preview: call.prepared.as_ref().map(|p| escape(&cut(&p.content, 4_096), true)),
            reason: escape(&verdict.reason, false),
            rule: verdict.rule.clone(),
            once_only: verdict.once_only,
        };
        self.entries.push(Entry::Asked {
            call: call.id.clone(),
            question: id,
            shown: question.shown.clone(),
            rule: verdict.rule.clone(),
        });
        let until = self.now.plus(u64::try_from(bounds::APPROVAL.as_millis()).unwrap_or(u64::MAX));
        self.effects.push(Effect::Approve(question));
        let pending = Pending {
            tool: call.tool.clone(),
            since: self.now,
            verdict: "ask",
            rule: verdict.rule.clone(),
            state: PendingState::Asking(Box::new(Asking {
                question: id,
                nonce,
                until,
                call: call.clone(),
                action,
                verdict,
                key,
            })),
        };
        self.session.pending.insert(call.id, pending);
    }

    fn pass(&mut self, call: Call, action: policies::Action, verdict: &policies::Verdict) {
        let (state, name, what, permit, command) = match gate::pass(&mut self.session, &call, action) {
            Passed::Refused(refusal) => return self.refuse(&call, refusal, Some(verdict)),
            Passed::Read { what } => {
                let outcome = Box::new(Outcome::Proceed);
                let reply = Reply::Outcome { call: call.id.clone(), outcome };
                self.effects.push(Effect::Reply(reply));
                (PendingState::Reading, "read", what, 0, None)
            }
            Passed::Effect { effect, name, what, serial, command } => {
                self.effects.push(effect);
                (PendingState::Running { command: command.clone() }, name, what, serial, command)
            }
        };
        // Entries of a step are durable before its effects start: intent before effect.
        self.entries.push(Entry::Intent {
            call: call.id.clone(),
            effect: name.to_owned(),
            command,
            what,
            permit,
        });
        let pending = Pending {
            tool: call.tool,
            since: self.now,
            verdict: gate::word(verdict.decision),
            rule: verdict.rule.clone(),
            state,
        };
        self.session.pending.insert(call.id, pending);
    }

    fn refuse(&mut self, call: &Call, refusal: Refusal, verdict: Option<&policies::Verdict>) {
        self.session.totals.refusals += 1;
        self.entries.push(Entry::Refused {
            call: call.id.clone(),
            tool: escape(&cut(&call.tool, 80), false),
            refusal: refusal.clone(),
        });
        self.effects.push(Effect::View(ViewEvent::Settled {
            call: call.id.clone(),
            tool: escape(&cut(&call.tool, 80), false),
            ok: false,
            what: escape(&refusal.sentence(), false),
            ms: 0,
            verdict: verdict.map_or("deny", |v| gate::word(v.decision)),
            rule: refusal.rule.clone(),
        }));
        let outcome = Box::new(Outcome::Refused(refusal));
        self.effects.push(Effect::Reply(Reply::Outcome { call: call.id.clone(), outcome }));
    }

    // ---- people, time, ends --------------------------------------------------------------------

    fn answer(&mut self, question: u64, nonce: &str, answer: QuestionAnswer) {
        let open = self.session.pending.iter().find_map(|(id, pending)| match &pending.state {
            PendingState::Asking(asking) if asking.question == question => {
                Some((id.clone(), asking.nonce == nonce))
            }
            PendingState::Asking(_) | PendingState::Reading | PendingState::Running { .. } => None,
        });
        // A late or a wrong answer changes nothing: the question is gone or stays open.
        let Some((id, true)) = open else { return };
        let Some(PendingState::Asking(asking)) = self.session.pending.remove(&id).map(|p| p.state) else {
            return;
        };
        let Asking { call, action, verdict, key, .. } = *asking;
        let (word, message) = match &answer {
            QuestionAnswer::Allow(Scope::Once) => ("once", None),
            // A safety ask is answered for once, whatever was said.
            QuestionAnswer::Allow(Scope::Session) if verdict.once_only => ("once", None),
            QuestionAnswer::Allow(Scope::Session) => ("session", None),
            QuestionAnswer::Deny(message) => ("deny", message.clone()),
        };
        self.entries.push(Entry::Answered {
            call: id,
            question,
            answer: word.to_owned(),
            message: message.clone(),
        });
        match answer {
            QuestionAnswer::Allow(_) => {
                if word == "session" {
                    self.session.grants.insert(key);
                }
                self.pass(call, action, &verdict);
            }
            QuestionAnswer::Deny(_) => {
                let mut refusal = gate::refusal(&verdict);
                refusal.stage = Stage::Mode;
                refusal.reason = match message {
                    Some(words) => format!("a person said no: {}", cut(&words, 1_000)),
                    None => "a person said no".to_owned(),
                };
                self.refuse(&call, refusal, Some(&verdict));
            }
        }
    }

    fn clock(&mut self) {
        let now = self.now;
        let due = self.session.pending.iter().filter_map(|(id, pending)| match &pending.state {
            PendingState::Asking(asking) if asking.until <= now => Some(id.clone()),
            PendingState::Asking(_) | PendingState::Reading | PendingState::Running { .. } => None,
        });
        let due: Vec<CallId> = due.collect();
        for id in due {
            self.close_question(&id, "timeout", "nobody answered in time");
        }
    }

    fn close_question(&mut self, id: &CallId, word: &str, reason: &str) {
        let Some(pending) = self.session.pending.remove(id) else { return };
        let PendingState::Asking(asking) = pending.state else { return };
        self.entries.push(Entry::Answered {
            call: id.clone(),
            question: asking.question,
            answer: word.to_owned(),
            message: None,
        });
        self.effects.push(Effect::Withdraw { question: asking.question });
        let mut refusal = gate::refusal(&asking.verdict);
        refusal.stage = Stage::Mode;
        refusal.reason = format!("{}, and {reason}", refusal.reason);
        self.refuse(&asking.call, refusal, Some(&asking.verdict));
    }

    fn cancel(&mut self) {
        if self.session.phase != Phase::Turn || self.session.cancelled {
            return;
        }
        self.session.cancelled = true;
        self.effects.push(Effect::Reply(Reply::Cancel));
        if self.session.infer.is_some() {
            self.effects.push(Effect::CancelInfer);
        }
        self.abandon_pending(EndedBy::Cancelled);
    }

    /// Ends what calls wait for; background jobs go on. Outcomes still come and are recorded.
    fn abandon_pending(&mut self, why: EndedBy) {
        let ids: Vec<CallId> = self.session.pending.keys().cloned().collect();
        for id in ids {
            let state = self.session.pending.get(&id).map(|pending| pending.state.clone());
            match state {
                Some(PendingState::Asking(_)) => {
                    self.close_question(&id, "cancelled", "the turn was cancelled");
                }
                Some(PendingState::Running { command: Some(command) }) => {
                    self.effects.push(Effect::EndCommand { command, why });
                }
                Some(PendingState::Reading) if self.session.phase != Phase::Turn => {
                    self.settle(&id, false, "the turn ended first".to_owned(), None, None);
                }
                Some(PendingState::Reading | PendingState::Running { command: None }) | None => {}
            }
        }
    }

    fn fault(&mut self, link: &'static str, what: String) {
        let what = escape(&cut(&what, 400), false);
        self.entries.push(Entry::Fault { link: link.to_owned(), what: what.clone() });
        self.end(End::new("fault", format!("the worker broke the treaty on the {link} link: {what}")));
    }

    fn end(&mut self, end: End) {
        self.session.ended = true;
        self.session.phase = Phase::Ended;
        // What is in flight now has no known outcome: the kill may come before or after the effect.
        for (call, pending) in std::mem::take(&mut self.session.pending) {
            match pending.state {
                PendingState::Running { .. } => self.entries.push(Entry::Unknown { call }),
                PendingState::Asking(asking) => {
                    self.effects.push(Effect::Withdraw { question: asking.question });
                }
                PendingState::Reading => {}
            }
        }
        let totals = self.session.totals;
        self.entries.push(Entry::Ended {
            outcome: end.outcome.to_owned(),
            reason: end.reason.clone(),
            usage: totals.usage,
            calls: totals.calls,
            refusals: totals.refusals,
        });
        self.effects.push(Effect::Reply(Reply::Bye));
        self.effects.push(Effect::End(end));
    }

    // ---- outcomes ------------------------------------------------------------------------------

    fn outcome(&mut self, outcome: EffectOutcome) {
        match outcome {
            EffectOutcome::Call { call, outcome, before, spool } => {
                self.call_outcome(call, outcome, before, spool);
            }
            EffectOutcome::Infer { id, result } => self.inferred(id, result),
            EffectOutcome::Delta { id, text } => {
                if self.session.infer.as_ref().is_some_and(|infer| infer.id == id) {
                    self.effects.push(Effect::View(ViewEvent::Text(text.clone())));
                    self.effects.push(Effect::Reply(Reply::Delta(protocol::Delta { id, text })));
                }
            }
            EffectOutcome::JobEnded { command } => {
                if let Some(running) = self.session.jobs.get_mut(&command) {
                    *running = false;
                }
            }
        }
    }

    fn call_outcome(
        &mut self,
        call: CallId,
        outcome: Outcome,
        before: Option<Digest>,
        spool: Option<Digest>,
    ) {
        let Some(pending) = self.session.pending.get(&call) else { return };
        if let (Outcome::JobStarted { .. }, PendingState::Running { command: Some(command) }) =
            (&outcome, &pending.state)
        {
            self.session.jobs.insert(command.clone(), true);
        }
        if let (Outcome::Job { job, running, .. }, _) = (&outcome, &pending.state)
            && let Some(known) = self.session.jobs.get_mut(job)
        {
            *known = *running;
        }
        let (ok, what) = summary(&outcome);
        self.settle(&call, ok, what, before, spool);
        if self.session.phase == Phase::Turn {
            let reply = Reply::Outcome { call, outcome: Box::new(outcome) };
            self.effects.push(Effect::Reply(reply));
        }
    }

    fn settle(
        &mut self,
        call: &CallId,
        ok: bool,
        what: String,
        before: Option<Digest>,
        spool: Option<Digest>,
    ) {
        let Some(pending) = self.session.pending.remove(call) else { return };
        let ms = self.now.0.saturating_sub(pending.since.0);
        let what = escape(&cut(&what, 400), false);
        self.entries.push(Entry::Outcome {
            call: call.clone(),
            ok,
            what: what.clone(),
            ms,
            before,
            spool,
        });
        self.effects.push(Effect::View(ViewEvent::Settled {
            call: call.clone(),
            tool: pending.tool,
            ok,
            what,
            ms,
            verdict: pending.verdict,
            rule: pending.rule,
        }));
    }

    fn inferred(&mut self, id: u64, result: Result<Box<protocol::Inference>, InferFailure>) {
        let Some(infer) = self.session.infer.take_if(|infer| infer.id == id) else { return };
        let ms = self.now.0.saturating_sub(infer.since.0);
        let (provider, model) = (self.session.config.provider.clone(), self.session.config.model.clone());
        self.session.totals.infers += 1;
        match result {
            Ok(answer) => {
                self.session.totals.usage = self.session.totals.usage.plus(answer.usage);
                self.entries.push(Entry::InferOutcome {
                    id,
                    provider: answer.provider.clone(),
                    model: answer.model.clone(),
                    usage: answer.usage,
                    error: None,
                    ms,
                });
                self.entries.push(Entry::Message { message: answer.message.clone() });
                self.effects.push(Effect::View(ViewEvent::Inferred {
                    input: answer.usage.input_uncached,
                    output: answer.usage.output,
                    ms,
                }));
                if self.session.phase == Phase::Turn {
                    self.effects.push(Effect::Reply(Reply::Inferred { id, answer }));
                }
            }
            Err(failure) => {
                self.entries.push(Entry::InferOutcome {
                    id,
                    provider,
                    model,
                    usage: protocol::Usage::default(),
                    error: Some(failure.class.clone()),
                    ms,
                });
                self.effects.push(Effect::View(ViewEvent::InferFailed {
                    class: failure.class.clone(),
                    message: escape(&failure.message, false),
                }));
                if self.session.phase == Phase::Turn {
                    self.effects.push(Effect::Reply(Reply::InferFailed(failure)));
                }
            }
        }
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

/// An input as the record keeps it: whole if it is small, else its size and digest.
fn recorded(input: &serde_json::Value) -> serde_json::Value {
    let text = input.to_string();
    if text.len() <= 16 * 1024 {
        return input.clone();
    }
    serde_json::json!({ "_bytes": text.len(), "_digest": Digest::of(text.as_bytes()) })
}

/// An action as people read it, every odd character escaped.
fn shown(action: &policies::Action, max: usize) -> String {
    use policies::{Action, FileVerb};
    let text = match action {
        Action::Run(run) => run.line.clone(),
        Action::File(access) => match access.verb {
            FileVerb::Read => access.path.to_string(),
            FileVerb::Write => format!("write {}", access.path),
        },
        Action::Query { database, query } => format!("{database}: {query}"),
        Action::ListTables => "tables of the declared databases".to_owned(),
        Action::AskPerson { question, .. } => question.clone(),
        Action::Job { job, kill: true } => format!("end {job}"),
        Action::Job { job, kill: false } => format!("look at {job}"),
    };
    escape(&cut(&text, max), false)
}

/// Whether an outcome is a success, and one line about it.
fn summary(outcome: &Outcome) -> (bool, String) {
    match outcome {
        Outcome::Refused(refusal) => (false, refusal.sentence()),
        Outcome::Proceed => (true, String::new()),
        Outcome::Command(result) => {
            let end = match (result.ended_by, result.exit, result.signal) {
                (Some(EndedBy::TimeLimit), ..) => "ended: time limit".to_owned(),
                (Some(EndedBy::OutputLimit), ..) => "ended: output limit".to_owned(),
                (Some(EndedBy::Cancelled), ..) => "ended: cancelled".to_owned(),
                (Some(EndedBy::Killed), ..) => "ended: job_kill".to_owned(),
                (None, Some(code), _) => format!("exit {code}"),
                (None, None, Some(signal)) => format!("signal {signal}"),
                (None, None, None) => "ended".to_owned(),
            };
            (result.exit == Some(0) && result.ended_by.is_none(), format!("{end}, {} bytes", result.output.total))
        }
        Outcome::JobStarted { job } => (true, format!("job {job} started")),
        Outcome::Job { job, running, .. } => {
            (true, format!("job {job} {}", if *running { "runs" } else { "has ended" }))
        }
        Outcome::Written { created, bytes, .. } => {
            (true, format!("{} {bytes} bytes", if *created { "created," } else { "replaced," }))
        }
        Outcome::Rows(protocol::call::SqlAnswer::Rows { rows, truncated, .. }) => {
            (true, format!("{} rows{}", rows.len(), if *truncated { ", more exist" } else { "" }))
        }
        Outcome::Rows(protocol::call::SqlAnswer::Error { error, .. }) => (false, error.clone()),
        Outcome::Tables { tables } => (true, format!("{} tables", tables.len())),
        Outcome::Answer { .. } => (true, "answered".to_owned()),
        Outcome::Failed { message, .. } => (false, message.clone()),
    }
}
