//! Tool calls: judged, asked, passed or refused.

use policies::{Decision, HookEvent, classify};
use protocol::{
    Digest, Reply, bounds,
    call::{Call, Outcome, Refusal, Stage},
};

use super::Turn;
use super::modes::plan_verdict;
use crate::{
    Effect, Entry, Question, Tick, ViewEvent,
    escape::{cut, escape},
    gate::{self, Gate, Passed},
    hook::{Point, ToAsk},
    session::{Asking, Pending, PendingState},
};

impl Turn {
    pub(super) fn calls(&mut self, calls: Vec<Call>) {
        if calls.is_empty() || calls.len() > bounds::BATCH {
            let what = format!(
                "a batch of {} calls, the bound is {}",
                calls.len(),
                bounds::BATCH
            );
            return self.fault("agent", what);
        }
        for call in calls {
            if self.session.pending.contains_key(&call.id) || self.session.hooks.holds(&call.id) {
                return self.fault("agent", format!("call `{}` is asked for twice", call.id));
            }
            self.call(call);
        }
    }

    pub(super) fn call(&mut self, call: Call) {
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
        if let Some(why) = self.session.hooks.halted.clone() {
            let refusal = Refusal {
                stage: Stage::Hook,
                rule: None,
                layer: None,
                reason: why,
                instead: None,
            };
            return self.refuse(&call, refusal, None);
        }
        // What is no call at all is refused before any hook is asked about it.
        let hooks = &self.session.config.policy.settings.hooks;
        let asked = |hook: &policies::Hook| hook.is_for(HookEvent::PreTool, Some(&call.tool));
        if !hooks.iter().any(asked) {
            return self.judged(call);
        }
        if let Gate::Refused(refusal) = gate::judge(&self.session, &call) {
            return self.refuse(&call, refusal, None);
        }
        self.at(Point::PreTool(Box::new(call)));
    }

    /// The hooks of a call have let it pass: it is judged as they left it.
    pub(super) fn judged(&mut self, call: Call) {
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
            Decision::Allow if self.wants_approval(&action) => {
                let verdict = plan_verdict(verdict);
                self.ask(call, action, verdict, key);
            }
            Decision::Allow => self.pass(call, action, &verdict),
            Decision::Ask => self.ask(call, action, verdict, key),
        }
    }

    pub(super) fn ask(
        &mut self,
        call: Call,
        action: policies::Action,
        verdict: policies::Verdict,
        key: Digest,
    ) {
        let granted = [&self.session.grants, &self.session.turn_grants];
        if !verdict.once_only && granted.iter().any(|grants| grants.contains(&key)) {
            return self.pass(call, action, &verdict);
        }
        // What a person wrote themselves was answered when they wrote it.
        if self.session.once_grants.remove(&key) {
            return self.pass(call, action, &verdict);
        }
        // A no of a person's to this very action stands: a machine does not lift it.
        if classify::answers(self.session.mode, &verdict)
            && !self.session.denials.contains_key(&key)
        {
            return self.classify(call, action, verdict, key);
        }
        self.question(call, action, verdict, key);
    }

    /// Puts an ask to a person, or refuses it where that cannot be.
    pub(super) fn question(
        &mut self,
        call: Call,
        action: policies::Action,
        verdict: policies::Verdict,
        key: Digest,
    ) {
        if !self.session.config.facts.interactive {
            let mut refusal = gate::refusal(&verdict);
            if refusal.stage == Stage::Permissions {
                refusal.stage = Stage::Mode;
            }
            refusal.reason = format!(
                "{}, and nobody can be asked in this session",
                refusal.reason
            );
            return self.refuse(&call, refusal, Some(&verdict));
        }
        if let Some(why) = self.too_much(&key) {
            let mut refusal = gate::refusal(&verdict);
            refusal.stage = Stage::Mode;
            refusal.reason = why.to_owned();
            return self.refuse(&call, refusal, Some(&verdict));
        }
        self.at(Point::Permission(Box::new(ToAsk {
            call,
            action,
            verdict,
            key,
        })));
    }

    /// The hooks of a question have let it pass: a person is asked.
    pub(super) fn put_question(&mut self, asked: ToAsk, advice: Vec<String>) {
        let ToAsk {
            call,
            action,
            verdict,
            key,
        } = asked;
        if let Some((question, nonce, until)) = self.same_question(&key, verdict.once_only) {
            return self.await_answer(call, action, verdict, key, (question, nonce, until));
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
            // Whole, as far as anybody reads: what is cut is said with its length.
            shown: shown(&action, 16 * 1024),
            preview: call
                .prepared
                .as_ref()
                .map(|p| escape(&cut(&p.content, 4_096), true)),
            reason: escape(&verdict.reason, false),
            rule: verdict.rule.clone(),
            once_only: verdict.once_only,
            advice,
            not_covered: not_covered(&action, &self.session.config.facts),
        };
        let until = self
            .now
            .plus(u64::try_from(bounds::APPROVAL.as_millis()).unwrap_or(u64::MAX));
        self.effects.push(Effect::Approve(question));
        self.await_answer(call, action, verdict, key, (id, nonce, until));
    }

    /// Why a person is not asked at all: too many questions are open, or this one was denied often
    /// enough.
    fn too_much(&self, key: &Digest) -> Option<&'static str> {
        let asking = |pending: &&Pending| matches!(pending.state, PendingState::Asking(_));
        if self.session.pending.values().filter(asking).count() >= bounds::QUESTIONS_OPEN {
            return Some("too many questions are open: the flood is refused");
        }
        let said = self.session.denials.get(key).copied().unwrap_or(0);
        (said >= bounds::DENIALS)
            .then_some("a person said no to this very action before: it is not asked again")
    }

    /// A question that is open for the very same action.
    fn same_question(&self, key: &Digest, once_only: bool) -> Option<(u64, String, Tick)> {
        let mut waiting = self.session.pending.values();
        let asking = |pending: &Pending| match &pending.state {
            PendingState::Asking(asking) if asking.key == *key => {
                Some((asking.question, asking.nonce.clone(), asking.until))
            }
            PendingState::Asking(_)
            | PendingState::Judging(_)
            | PendingState::Reading
            | PendingState::Running { .. } => None,
        };
        // A safety ask is answered one by one.
        (!once_only).then(|| waiting.find_map(asking)).flatten()
    }

    fn await_answer(
        &mut self,
        call: Call,
        action: policies::Action,
        verdict: policies::Verdict,
        key: Digest,
        (question, nonce, until): (u64, String, Tick),
    ) {
        self.entries.push(Entry::Asked {
            call: call.id.clone(),
            question,
            shown: shown(&action, 4_096),
            rule: verdict.rule.clone(),
        });
        let pending = Pending {
            tool: call.tool.clone(),
            since: self.now,
            verdict: "ask",
            rule: verdict.rule.clone(),
            state: PendingState::Asking(Box::new(Asking {
                question,
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

    pub(super) fn pass(
        &mut self,
        call: Call,
        action: policies::Action,
        verdict: &policies::Verdict,
    ) {
        let (state, name, what, permit, command) =
            match gate::pass(&mut self.session, &call, action) {
                Passed::Refused(refusal) => return self.refuse(&call, refusal, Some(verdict)),
                Passed::Planned => return self.approved_plan(call, verdict),
                Passed::Answered(outcome) => return self.answer_at_once(call, outcome, verdict),
                Passed::Read { what } => {
                    let outcome = Box::new(Outcome::Proceed);
                    let reply = Reply::Outcome {
                        call: call.id.clone(),
                        outcome,
                    };
                    self.effects.push(Effect::Reply(reply));
                    (PendingState::Reading, "read", what, 0, None)
                }
                Passed::Effect {
                    effect,
                    name,
                    what,
                    serial,
                    command,
                } => {
                    self.effects.push(effect);
                    (
                        PendingState::Running {
                            command: command.clone(),
                        },
                        name,
                        what,
                        serial,
                        command,
                    )
                }
            };
        let bench = &mut self.session.bench;
        bench.saw(&call.id, &call.tool, &call.input, Decision::Allow);
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

    /// Nothing is started: the call's own text is the answer.
    pub(super) fn answer_at_once(
        &mut self,
        call: Call,
        outcome: Outcome,
        verdict: &policies::Verdict,
    ) {
        let pending = Pending {
            tool: call.tool,
            since: self.now,
            verdict: gate::word(verdict.decision),
            rule: verdict.rule.clone(),
            state: PendingState::Running { command: None },
        };
        self.session.pending.insert(call.id.clone(), pending);
        self.call_outcome(call.id, outcome, None, None);
    }

    pub(super) fn refuse(
        &mut self,
        call: &Call,
        refusal: Refusal,
        verdict: Option<&policies::Verdict>,
    ) {
        self.session.totals.refusals += 1;
        if verdict.is_some() {
            let bench = &mut self.session.bench;
            bench.saw(&call.id, &call.tool, &call.input, Decision::Deny);
        }
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
            // What the law allowed and a bound or a person refused is refused all the same.
            verdict: match verdict.map(|verdict| verdict.decision) {
                Some(Decision::Ask) => "ask",
                Some(Decision::Allow | Decision::Deny) | None => "deny",
            },
            rule: refusal.rule.clone(),
        }));
        let outcome = Box::new(Outcome::Refused(refusal));
        self.effects.push(Effect::Reply(Reply::Outcome {
            call: call.id.clone(),
            outcome,
        }));
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
        Action::Query { database, query } if database.is_empty() => query.clone(),
        Action::Query { database, query } => format!("{database}: {query}"),
        Action::ListTables => "tables of the declared databases".to_owned(),
        Action::AskPerson { question, .. } => question.clone(),
        // A plan is read line by line.
        Action::SubmitPlan { plan } => return escape(&cut(plan, max), true),
        Action::Job { job, kill: true } => format!("end {job}"),
        Action::Job { job, kill: false } => format!("look at {job}"),
    };
    escape(&cut(&text, max), false)
}

/// Programs of a line that lie where the session can write: a background job may change them while a
/// person reads, so an answer covers the line and not what it runs. The jail is the limit.
fn not_covered(action: &policies::Action, facts: &policies::Facts) -> Vec<String> {
    let policies::Action::Run(run) = action else {
        return Vec::new();
    };
    let mut named = Vec::new();
    for word in run
        .line
        .split(|c: char| c.is_whitespace() || ";|&()<>\"'`".contains(c))
    {
        let below = |folder: &str| {
            !folder.is_empty()
                && word
                    .strip_prefix(folder)
                    .is_some_and(|rest| rest.starts_with('/'))
        };
        let script = [".sh", ".py", ".js", ".pl", ".rb", ".mk"]
            .iter()
            .any(|end| word.ends_with(end));
        let written = word.starts_with("./")
            || word.starts_with("../")
            || below(&facts.workspace)
            || below(&facts.home)
            || below("/tmp")
            || (script && !word.starts_with('/'));
        let word = escape(&cut(word, 200), false);
        if written && named.len() < 8 && !named.contains(&word) {
            named.push(word);
        }
    }
    named
}
