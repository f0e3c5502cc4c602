//! Mode `auto`: an ask goes to the classifier first. Only its plain yes allows and only its plain no
//! denies; whatever else comes of it is a person's to answer, or a no where nobody can be asked.

use policies::{
    Action, Decision, Verdict,
    classify::{self, Answer},
};
use protocol::{
    CallId, Digest, InferFailure, Inference, Message as Said, Part, StopReason, Usage, bounds,
    call::Call,
};

use super::Turn;
use crate::{
    Effect, Entry, ViewEvent, bench,
    escape::{cut, escape},
    gate,
    session::{Judging, Pending, PendingState},
};

/// What a model call for the classifier used.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    permit: Option<u64>,
    usage: Option<Usage>,
    micro_usd: Option<u64>,
    ms: u64,
}

/// What is asked about.
struct Matter {
    call: Call,
    action: Action,
    verdict: Verdict,
    key: Digest,
    kept: Digest,
}

impl Turn {
    /// Asks the classifier, or takes its answer from before.
    pub(super) fn classify(&mut self, call: Call, action: Action, verdict: Verdict, key: Digest) {
        let by = self.classifier();
        if self.session.bench.is_spent() {
            let mut verdict = verdict;
            verdict.reason = format!(
                "{}; the classifier said no too often, so it is not asked any more",
                verdict.reason
            );
            return self.question(call, action, verdict, key);
        }
        let workspace = &self.session.config.facts.workspace;
        let kept = self.session.bench.key(&key, workspace, &verdict, &by);
        let matter = Matter {
            call,
            action,
            verdict,
            key,
            kept,
        };
        if let Some(answer) = self.session.bench.known(&matter.kept) {
            return self.decide(matter, answer, true, Spent::default());
        }
        if let Some((permit, until)) = self.same_matter(&matter.kept) {
            return self.await_classifier(matter, permit, until);
        }
        match self.put_to_classifier(&matter, &by) {
            Ok(permit) => {
                let time = u64::try_from(bounds::CLASSIFIER_TIME.as_millis()).unwrap_or(u64::MAX);
                let until = self.now.plus(time);
                self.await_classifier(matter, permit, until);
            }
            Err(why) => self.decide(matter, Answer::Unsure(why), false, Spent::default()),
        }
    }

    fn classifier(&self) -> String {
        let named = self.session.config.classifier.as_ref();
        named.map_or_else(|| "none".to_owned(), |(p, m)| format!("{p}/{m}"))
    }

    /// A question that is open about the very same matter.
    fn same_matter(&self, kept: &Digest) -> Option<(u64, crate::Tick)> {
        self.session
            .pending
            .values()
            .find_map(|pending| match &pending.state {
                PendingState::Judging(open) if open.kept == *kept => {
                    Some((open.permit, open.until))
                }
                PendingState::Judging(_)
                | PendingState::Asking(_)
                | PendingState::Reading
                | PendingState::Running { .. } => None,
            })
    }

    /// The permit of the question, or why it is not put.
    fn put_to_classifier(&mut self, matter: &Matter, by: &str) -> Result<u64, String> {
        if bench::open(self.session.pending.values()) >= bounds::CLASSIFICATIONS_OPEN {
            return Err("too many calls wait for the classifier".to_owned());
        }
        // What an edit makes of a file stands in its prepared content, and is shown with it.
        let mut input = matter.call.input.clone();
        if let (Some(made), Some(object)) = (&matter.call.prepared, input.as_object_mut())
            && !object.contains_key("content")
        {
            object.insert("_the_file_becomes".to_owned(), made.content.as_str().into());
        }
        let (tool, input) = (&matter.call.tool, input.to_string());
        let request = self
            .session
            .bench
            .request(tool, &input, &matter.verdict.reason)
            .ok_or("the call is too large to be shown whole")?;
        let request = protocol::Infer {
            id: 0,
            system: request.system,
            messages: vec![Said::user(request.user)],
            tools: Vec::new(),
            max_output: bounds::CLASSIFIER_OUTPUT,
        };
        let digest = Digest::of(&serde_json::to_vec(&request).unwrap_or_default());
        let permit = gate::pass_classify(&mut self.session, request)?;
        let serial = permit.serial();
        self.entries.push(Entry::ClassifyIntent {
            call: matter.call.id.clone(),
            by: by.to_owned(),
            request: digest,
            permit: serial,
        });
        self.effects.push(Effect::Classify(permit));
        Ok(serial)
    }

    fn await_classifier(&mut self, matter: Matter, permit: u64, until: crate::Tick) {
        let Matter {
            call,
            action,
            verdict,
            key,
            kept,
        } = matter;
        let pending = Pending {
            tool: call.tool.clone(),
            since: self.now,
            verdict: "ask",
            rule: verdict.rule.clone(),
            state: PendingState::Judging(Box::new(Judging {
                permit,
                since: self.now,
                until,
                call: call.clone(),
                action,
                verdict,
                key,
                kept,
            })),
        };
        self.session.pending.insert(call.id, pending);
    }

    /// The classifier's model answered, or failed to.
    pub(super) fn classified(
        &mut self,
        permit: u64,
        result: Result<Box<Inference>, InferFailure>,
        micro_usd: Option<u64>,
    ) {
        let (answer, usage) = match result {
            Ok(said) => (reading(&said), Some(said.usage)),
            Err(failure) => {
                let why = format!(
                    "it failed: {}: {}",
                    failure.class,
                    cut(&failure.message, 200)
                );
                (Answer::Unsure(why), None)
            }
        };
        if let Some(usage) = usage {
            self.session.totals.usage = self.session.totals.usage.plus(usage);
            self.session.totals.infers += 1;
            self.session.totals.pay(micro_usd);
        }
        self.resolve(permit, &answer, usage, micro_usd);
    }

    /// Questions whose time is over.
    pub(super) fn classifier_is_late(&mut self) {
        let now = self.now;
        let due = |pending: &Pending| match &pending.state {
            PendingState::Judging(open) if open.until <= now => Some(open.permit),
            PendingState::Judging(_)
            | PendingState::Asking(_)
            | PendingState::Reading
            | PendingState::Running { .. } => None,
        };
        let mut late: Vec<u64> = self.session.pending.values().filter_map(due).collect();
        late.dedup();
        for permit in late {
            self.effects.push(Effect::CancelClassify { permit });
            let why = format!(
                "it did not answer within {} s",
                bounds::CLASSIFIER_TIME.as_secs()
            );
            self.resolve(permit, &Answer::Unsure(why), None, None);
        }
    }

    /// Gives an answer to every call that waits for it.
    fn resolve(
        &mut self,
        permit: u64,
        answer: &Answer,
        usage: Option<Usage>,
        micro_usd: Option<u64>,
    ) {
        let mine = |pending: &Pending| matches!(&pending.state, PendingState::Judging(open) if open.permit == permit);
        let waiting = self.session.pending.iter();
        let waiting: Vec<CallId> = waiting
            .filter(|(_, pending)| mine(pending))
            .map(|(id, _)| id.clone())
            .collect();
        for (at, id) in waiting.into_iter().enumerate() {
            let Some(PendingState::Judging(open)) = self
                .session
                .pending
                .remove(&id)
                .map(|pending| pending.state)
            else {
                continue;
            };
            let first = at == 0;
            if first {
                self.session.bench.note(open.kept.clone(), answer);
            }
            let spent = Spent {
                permit: first.then_some(permit),
                usage: usage.filter(|_| first),
                micro_usd: micro_usd.filter(|_| first),
                ms: self.now.0.saturating_sub(open.since.0),
            };
            let matter = Matter {
                call: open.call,
                action: open.action,
                verdict: open.verdict,
                key: open.key,
                kept: open.kept,
            };
            self.decide(matter, answer.clone(), !first, spent);
        }
    }

    /// Records an answer and does what it says.
    fn decide(&mut self, matter: Matter, answer: Answer, cached: bool, spent: Spent) {
        let by = self.classifier();
        let (word, why) = match &answer {
            Answer::Allow(why) => ("allow", why),
            Answer::Deny(why) => ("deny", why),
            Answer::Unsure(why) => ("unsure", why),
        };
        self.effects.push(Effect::View(ViewEvent::Classified {
            call: matter.call.id.clone(),
            by: by.clone(),
            answer: word,
            why: escape(&cut(why, 400), false),
            cached,
            ms: spent.ms,
        }));
        self.entries.push(Entry::Classified {
            call: matter.call.id.clone(),
            by,
            answer: answer.clone(),
            cached,
            permit: spent.permit,
            usage: spent.usage,
            micro_usd: spent.micro_usd,
            ms: spent.ms,
        });
        let Matter {
            call,
            action,
            verdict,
            key,
            ..
        } = matter;
        let interactive = self.session.config.facts.interactive;
        let settled = classify::settle(verdict, &answer, interactive);
        match settled.decision {
            Decision::Allow => self.pass(call, action, &settled),
            Decision::Deny => self.refuse(&call, gate::refusal(&settled), Some(&settled)),
            Decision::Ask => self.question(call, action, settled, key),
        }
    }

    /// Nobody waits for the classifier any more.
    pub(super) fn close_classification(&mut self, id: &CallId, reason: &str) {
        let Some(PendingState::Judging(open)) =
            self.session.pending.remove(id).map(|pending| pending.state)
        else {
            return;
        };
        self.withdraw_classification(&open, reason);
        let mut refusal = gate::refusal(&open.verdict);
        refusal.stage = protocol::call::Stage::Mode;
        refusal.reason = format!("{}, and {reason}", refusal.reason);
        self.refuse(&open.call, refusal, Some(&open.verdict));
    }

    /// Records that an open question to the classifier is given up.
    pub(super) fn withdraw_classification(&mut self, open: &Judging, reason: &str) {
        self.effects.push(Effect::CancelClassify {
            permit: open.permit,
        });
        self.entries.push(Entry::Classified {
            call: open.call.id.clone(),
            by: self.classifier(),
            answer: Answer::Unsure(reason.to_owned()),
            cached: false,
            permit: None,
            usage: None,
            micro_usd: None,
            ms: self.now.0.saturating_sub(open.since.0),
        });
    }
}

/// An answer that came to its end and is words alone; anything else is none.
fn reading(said: &Inference) -> Answer {
    let calls = |part: &Part| matches!(part, Part::ToolCall { .. } | Part::ToolResult { .. });
    if said.stop != StopReason::End || said.message.parts.iter().any(calls) {
        return Answer::Unsure("its answer was cut, or no plain answer".to_owned());
    }
    classify::read(&said.message.text())
}
