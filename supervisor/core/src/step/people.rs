//! People, time, and the ends of turns and sessions.

use policies::HookEvent;
use protocol::{
    CallId, Reply,
    call::{Call, EndedBy, Stage},
    phase::Phase,
};

use super::Turn;
use crate::{
    Effect, End, Entry, QuestionAnswer, Scope,
    escape::{cut, escape},
    gate,
    hook::Point,
    session::{Asking, Pending, PendingState},
};

impl Turn {
    pub(super) fn answer(&mut self, question: u64, nonce: &str, answer: QuestionAnswer) {
        let open = |pending: &Pending| match &pending.state {
            PendingState::Asking(asking) => asking.question == question && asking.nonce == nonce,
            PendingState::Judging(_) | PendingState::Reading | PendingState::Running { .. } => {
                false
            }
        };
        // A late or a wrong answer changes nothing: the question is gone or stays open. Calls for one
        // and the same action wait behind one question.
        let waiting = self.session.pending.iter();
        let waiting: Vec<CallId> = waiting
            .filter(|(_, pending)| open(pending))
            .map(|(id, _)| id.clone())
            .collect();
        for id in waiting {
            let Some(PendingState::Asking(asking)) =
                self.session.pending.remove(&id).map(|p| p.state)
            else {
                continue;
            };
            self.answer_one(id, *asking, &answer);
        }
    }

    fn answer_one(&mut self, id: CallId, asking: Asking, answer: &QuestionAnswer) {
        let Asking {
            question,
            call,
            action,
            verdict,
            key,
            ..
        } = asking;
        let (word, message) = match answer {
            QuestionAnswer::Allow(Scope::Once) => ("once", None),
            // A safety ask is answered for once, whatever was said.
            QuestionAnswer::Allow(_) if verdict.once_only => ("once", None),
            QuestionAnswer::Allow(Scope::Turn) => ("turn", None),
            QuestionAnswer::Allow(Scope::Session) => ("session", None),
            QuestionAnswer::Instead(input) => ("instead", Some(cut(&input.to_string(), 4_096))),
            QuestionAnswer::Deny(message) => ("deny", message.clone()),
        };
        self.session.bench.person_answered();
        self.entries.push(Entry::Answered {
            call: id,
            question,
            answer: word.to_owned(),
            message: message.clone(),
        });
        let reason = match answer {
            QuestionAnswer::Allow(_) => {
                match word {
                    "turn" => self.session.turn_grants.insert(key),
                    "session" => self.session.grants.insert(key),
                    _ => false,
                };
                return self.pass(call, action, &verdict);
            }
            QuestionAnswer::Instead(input) => {
                let instead = Call {
                    input: input.clone(),
                    ..call.clone()
                };
                self.session.once_grants.insert(gate::key(&instead));
                let words = cut(&input.to_string(), 4_000);
                format!("a person wants this instead, and allows it once: {words}")
            }
            QuestionAnswer::Deny(message) => {
                *self.session.denials.entry(key).or_default() += 1;
                match message {
                    Some(words) => format!("a person said no: {}", cut(words, 1_000)),
                    None => "a person said no".to_owned(),
                }
            }
        };
        let mut refusal = gate::refusal(&verdict);
        refusal.stage = Stage::Mode;
        refusal.reason = reason;
        self.refuse(&call, refusal, Some(&verdict));
    }

    pub(super) fn clock(&mut self) {
        self.classifier_is_late();
        let now = self.now;
        let due = self
            .session
            .pending
            .iter()
            .filter_map(|(id, pending)| match &pending.state {
                PendingState::Asking(asking) if asking.until <= now => Some(id.clone()),
                PendingState::Asking(_)
                | PendingState::Judging(_)
                | PendingState::Reading
                | PendingState::Running { .. } => None,
            });
        let due: Vec<CallId> = due.collect();
        for id in due {
            self.close_question(&id, "timeout", "nobody answered in time");
        }
    }

    pub(super) fn close_question(&mut self, id: &CallId, word: &str, reason: &str) {
        let Some(pending) = self.session.pending.remove(id) else {
            return;
        };
        let PendingState::Asking(asking) = pending.state else {
            return;
        };
        self.entries.push(Entry::Answered {
            call: id.clone(),
            question: asking.question,
            answer: word.to_owned(),
            message: None,
        });
        self.effects.push(Effect::Withdraw {
            question: asking.question,
        });
        let mut refusal = gate::refusal(&asking.verdict);
        refusal.stage = Stage::Mode;
        refusal.reason = format!("{}, and {reason}", refusal.reason);
        self.refuse(&asking.call, refusal, Some(&asking.verdict));
    }

    pub(super) fn cancel(&mut self) {
        if self.session.phase == Phase::Turn && !self.session.cancelled {
            self.session.cancelled = true;
            self.effects.push(Effect::Reply(Reply::Cancel));
            if self.session.infer.is_some() {
                self.effects.push(Effect::CancelInfer);
            }
            self.abandon_pending(EndedBy::Cancelled);
        }
        self.cut_hooks("the turn is cancelled");
    }

    /// Ends what calls wait for; background jobs go on. Outcomes still come and are recorded.
    pub(super) fn abandon_pending(&mut self, why: EndedBy) {
        let ids: Vec<CallId> = self.session.pending.keys().cloned().collect();
        for id in ids {
            let state = self
                .session
                .pending
                .get(&id)
                .map(|pending| pending.state.clone());
            match state {
                Some(PendingState::Asking(_)) => {
                    self.close_question(&id, "cancelled", "the turn was cancelled");
                }
                Some(PendingState::Judging(_)) => {
                    self.close_classification(&id, "the turn was cancelled");
                }
                Some(PendingState::Running {
                    command: Some(command),
                }) => {
                    self.effects.push(Effect::EndCommand { command, why });
                }
                Some(PendingState::Reading) if self.session.phase != Phase::Turn => {
                    self.settle(
                        &id,
                        false,
                        "the turn ended first".to_owned(),
                        super::outcomes::Kept::default(),
                        None,
                    );
                }
                Some(PendingState::Reading | PendingState::Running { command: None }) | None => {}
            }
        }
    }

    pub(super) fn fault(&mut self, link: &'static str, what: String) {
        let what = escape(&cut(&what, 400), false);
        self.entries.push(Entry::Fault {
            link: link.to_owned(),
            what: what.clone(),
        });
        self.end(End::new(
            "fault",
            format!("the worker broke the treaty on the {link} link: {what}"),
        ));
    }

    /// Ends the session; its last hooks see that first.
    pub(super) fn end(&mut self, end: End) {
        let hooks = &self.session.config.policy.settings.hooks;
        let last = |hook: &policies::Hook| hook.event == HookEvent::SessionEnd;
        if self.session.hooks.closing.is_some() || !hooks.iter().any(last) {
            self.drop_hooks();
            return self.close(end);
        }
        self.session.phase = Phase::Ended;
        self.session.hooks.closing = Some(end.clone());
        self.drop_hooks();
        if self.session.infer.is_some() {
            self.effects.push(Effect::CancelInfer);
        }
        self.abandon_pending(EndedBy::Cancelled);
        self.at(Point::SessionEnd(end));
    }

    pub(super) fn close(&mut self, end: End) {
        self.session.ended = true;
        self.session.phase = Phase::Ended;
        // What is in flight now has no known outcome: the kill may come before or after the effect.
        for (call, pending) in std::mem::take(&mut self.session.pending) {
            match pending.state {
                PendingState::Running { .. } => self.entries.push(Entry::Unknown { call }),
                PendingState::Asking(asking) => {
                    self.effects.push(Effect::Withdraw {
                        question: asking.question,
                    });
                }
                PendingState::Judging(open) => {
                    self.withdraw_classification(&open, "the session ended first");
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
}
