//! Modes that change while a session runs, and the end of plan mode.

use policies::{Action, Decision, Mode, Stage, Verdict};
use protocol::{
    CallId, Reply,
    call::{Call, Outcome},
    phase::Phase,
};

use super::Turn;
use crate::{
    Effect, Entry, ViewEvent, gate,
    session::{By, Pending, PendingState},
};

impl Turn {
    /// Whether the action is a plan that a person must approve.
    pub(super) fn wants_approval(&self, action: &Action) -> bool {
        self.session.planning && matches!(action, Action::SubmitPlan { .. })
    }

    /// A person has approved the plan: plan mode is over, nothing else changes.
    pub(super) fn approved_plan(&mut self, call: Call, verdict: &Verdict) {
        self.session.planning = false;
        let mode = self.session.mode;
        self.stand(mode, "a person approved the plan".to_owned());
        let text = "the plan is approved, and plan mode is over: carry it out".to_owned();
        self.answer_at_once(call, Outcome::Answer { text }, verdict);
    }

    /// Another mode: a raise is a person's alone, and nobody goes beyond the ceiling.
    pub(super) fn change_mode(&mut self, to: Mode, by: &By) {
        let from = self.session.mode;
        if to == from {
            return;
        }
        let is_raise = from.is_raised_by(to);
        let ceiling = self.session.config.ceiling;
        let refused = match by {
            By::Other(_) if is_raise => Some("only a person raises a mode".to_owned()),
            _ if !to.at_most(ceiling) => Some(format!(
                "the organisation's or the workspace's policy bounds it to {}",
                ceiling.as_str()
            )),
            By::Other(_) | By::Person { .. } => None,
        };
        if let Some(why) = refused {
            let text = format!(
                "{by} wanted mode {} instead of {}: {why}",
                to.as_str(),
                from.as_str()
            );
            self.entries.push(Entry::Notice { text: text.clone() });
            return self.effects.push(Effect::View(ViewEvent::Notice(text)));
        }
        self.stand(to, by.to_string());
        self.judge_anew();
    }

    /// Puts a mode in force and says so to everybody.
    fn stand(&mut self, to: Mode, by: String) {
        let from = std::mem::replace(&mut self.session.mode, to);
        let planning = self.session.planning;
        self.entries.push(Entry::Mode {
            from,
            to,
            planning,
            by: by.clone(),
        });
        self.effects.push(Effect::View(ViewEvent::Mode {
            mode: to,
            planning,
            by,
        }));
        if matches!(self.session.phase, Phase::Idle | Phase::Turn) {
            self.effects.push(Effect::Reply(Reply::Standing {
                mode: to.as_str().to_owned(),
                law: serde_json::to_value(to).unwrap_or_default(),
            }));
        }
    }

    /// What waits for an answer under another mode: what is now denied is denied, and the classifier is
    /// asked about nothing any more unless this is its mode.
    fn judge_anew(&mut self) {
        let open = |pending: &Pending| {
            matches!(
                pending.state,
                PendingState::Asking(_) | PendingState::Judging(_)
            )
        };
        let waiting = self.session.pending.iter();
        let waiting: Vec<CallId> = waiting
            .filter(|(_, pending)| open(pending))
            .map(|(id, _)| id.clone())
            .collect();
        let reason = format!("the mode is {} now", self.session.mode.as_str());
        for id in waiting {
            let Some(pending) = self.session.pending.get(&id) else {
                continue;
            };
            match &pending.state {
                PendingState::Asking(asking) => {
                    if self.is_denied(&asking.action) {
                        self.close_question(&id, "mode", &reason);
                    }
                }
                PendingState::Judging(open) => {
                    let denied = self.is_denied(&open.action);
                    let open = open.clone();
                    if denied {
                        self.close_classification(&id, &reason);
                    } else if self.session.mode != Mode::Auto {
                        self.session.pending.remove(&id);
                        self.withdraw_classification(&open, &reason);
                        self.question(open.call, open.action, open.verdict, open.key);
                    }
                }
                PendingState::Reading | PendingState::Running { .. } => {}
            }
        }
    }

    fn is_denied(&self, action: &Action) -> bool {
        gate::verdict(&self.session, action).decision == Decision::Deny
    }
}

/// The question about a plan: a person's, once, whatever the mode.
pub(super) fn plan_verdict(mut verdict: Verdict) -> Verdict {
    verdict.decision = Decision::Ask;
    verdict.stage = Stage::Mode;
    verdict.rule = Some("plan-mode".to_owned());
    verdict.layer = None;
    verdict.reason = "until a person approves the plan, nothing but reads is allowed".to_owned();
    verdict.once_only = true;
    verdict
}
