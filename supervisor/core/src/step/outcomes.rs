//! What became of effects.

use protocol::{
    CallId, Digest, InferFailure, Reply, Usage,
    call::{EndedBy, Outcome},
    phase::Phase,
};

use super::Turn;
use crate::{
    Attempt, Bill, Effect, EffectOutcome, Entry, ModelName, ViewEvent, Written,
    escape::{cut, escape},
    hook::{Done, Point},
    session::PendingState,
};

/// What the record keeps of an effect beside its words.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Digest of a pre-image.
    pub(super) before: Option<Digest>,
    /// Digest of a spool.
    pub(super) spool: Option<Digest>,
    /// The file that was written.
    pub(super) written: Option<Written>,
}

impl Turn {
    pub(super) fn outcome(&mut self, outcome: EffectOutcome) {
        match outcome {
            EffectOutcome::Call {
                call,
                outcome,
                before,
                spool,
            } => {
                self.call_outcome(call, *outcome, before, spool);
            }
            EffectOutcome::Infer { id, result, bill } => self.inferred(id, result, bill),
            EffectOutcome::Classified {
                permit,
                result,
                micro_usd,
            } => self.classified(permit, result, micro_usd),
            EffectOutcome::Delta { id, text } => {
                if self
                    .session
                    .infer
                    .as_ref()
                    .is_some_and(|infer| infer.id == id)
                {
                    self.effects
                        .push(Effect::View(ViewEvent::Text(text.clone())));
                    self.effects
                        .push(Effect::Reply(Reply::Delta(protocol::Delta { id, text })));
                }
            }
            EffectOutcome::Tried { id, attempt } => self.tried(id, attempt),
            EffectOutcome::Breaker { provider, from, to } => {
                let text = format!(
                    "the circuit breaker of {provider} is {} now, it was {}",
                    to.as_str(),
                    from.as_str()
                );
                self.effects.push(Effect::View(ViewEvent::Notice(text)));
                self.entries
                    .push(Entry::BreakerChanged { provider, from, to });
            }
            EffectOutcome::Hook { run, end, ms } => self.hook_ended(run, end, ms),
            EffectOutcome::JobEnded { command } => {
                if let Some(running) = self.session.jobs.get_mut(&command) {
                    *running = false;
                }
            }
        }
    }

    pub(super) fn call_outcome(
        &mut self,
        call: CallId,
        outcome: Outcome,
        before: Option<Digest>,
        spool: Option<Digest>,
    ) {
        let Some(pending) = self.session.pending.get(&call) else {
            return;
        };
        if let (
            Outcome::JobStarted { .. },
            PendingState::Running {
                command: Some(command),
            },
        ) = (&outcome, &pending.state)
        {
            self.session.jobs.insert(command.clone(), true);
        }
        if let (Outcome::Job { job, running, .. }, _) = (&outcome, &pending.state)
            && let Some(known) = self.session.jobs.get_mut(job)
        {
            *known = *running;
        }
        let (ok, what) = summary(&outcome);
        let written = match &outcome {
            Outcome::Written { path, digest, .. } => Some(Written {
                path: path.clone(),
                after: digest.clone(),
            }),
            _ => None,
        };
        let kept = Kept {
            before,
            spool,
            written,
        };
        self.settle(&call, ok, what, kept, Some(outcome));
    }

    /// A call is done; `outcome` is what the agent waits for, if it does.
    pub(super) fn settle(
        &mut self,
        call: &CallId,
        ok: bool,
        what: String,
        kept: Kept,
        outcome: Option<Outcome>,
    ) {
        let Some(pending) = self.session.pending.remove(call) else {
            return;
        };
        let ms = self.now.0.saturating_sub(pending.since.0);
        let what = escape(&cut(&what, 400), false);
        self.entries.push(Entry::Outcome {
            call: call.clone(),
            ok,
            what: what.clone(),
            ms,
            before: kept.before,
            spool: kept.spool,
            written: kept.written,
        });
        self.effects.push(Effect::View(ViewEvent::Settled {
            call: call.clone(),
            tool: pending.tool.clone(),
            ok,
            what: what.clone(),
            ms,
            verdict: pending.verdict,
            rule: pending.rule,
        }));
        let used = serde_json::json!({
            "call": call, "tool": pending.tool, "ok": ok, "what": what.clone(),
        });
        self.session.hooks.used.push(used);
        self.at(Point::PostTool(Box::new(Done {
            call: call.clone(),
            tool: pending.tool,
            ok,
            what,
            outcome,
        })));
    }

    /// An attempt of the model call that runs has failed.
    fn tried(&mut self, id: u64, mut attempt: Attempt) {
        let Some(infer) = self.session.infer.as_mut().filter(|infer| infer.id == id) else {
            return;
        };
        attempt.message = escape(&cut(&attempt.message, 700), false);
        infer.asked = ModelName {
            provider: attempt.provider.clone(),
            model: attempt.model.clone(),
        };
        self.effects
            .push(Effect::View(ViewEvent::Tried(attempt.clone())));
        self.entries.push(Entry::InferTried { id, attempt });
    }

    pub(super) fn inferred(
        &mut self,
        id: u64,
        result: Result<Box<protocol::Inference>, InferFailure>,
        bill: Bill,
    ) {
        let Some(infer) = self.session.infer.take_if(|infer| infer.id == id) else {
            return;
        };
        let ms = self.now.0.saturating_sub(infer.since.0);
        let ModelName { provider, model } = infer.asked;
        let Bill {
            usage,
            micro_usd,
            estimated,
        } = bill;
        self.session.totals.infers += 1;
        self.session.totals.usage = self.session.totals.usage.plus(usage);
        if result.is_ok() || usage != Usage::default() {
            self.session.totals.pay(micro_usd);
        }
        match result {
            Ok(answer) => {
                self.entries.push(Entry::InferOutcome {
                    id,
                    provider: answer.provider.clone(),
                    model: answer.model.clone(),
                    usage,
                    micro_usd,
                    estimated,
                    error: None,
                    ms,
                });
                self.entries.push(Entry::Message {
                    message: answer.message.clone(),
                });
                self.effects.push(Effect::View(ViewEvent::Inferred {
                    input: answer.usage.input_uncached,
                    output: answer.usage.output,
                    ms,
                }));
                if self.session.phase == Phase::Turn {
                    self.effects
                        .push(Effect::Reply(Reply::Inferred { id, answer }));
                }
            }
            Err(failure) => {
                self.entries.push(Entry::InferOutcome {
                    id,
                    provider,
                    model,
                    usage,
                    micro_usd,
                    estimated,
                    error: Some(failure.class.clone()),
                    ms,
                });
                self.effects.push(Effect::View(ViewEvent::InferFailed {
                    class: failure.class.clone(),
                    message: escape(&failure.message, false),
                }));
                if self.session.phase == Phase::Turn {
                    self.effects
                        .push(Effect::Reply(Reply::InferFailed(failure)));
                }
            }
        }
    }
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
                (Some(EndedBy::MemoryLimit), ..) => "ended: memory limit".to_owned(),
                (Some(EndedBy::DiskLimit), ..) => "ended: disk limit".to_owned(),
                (None, Some(code), _) => format!("exit {code}"),
                (None, None, Some(signal)) => format!("signal {signal}"),
                (None, None, None) => "ended".to_owned(),
            };
            (
                result.exit == Some(0) && result.ended_by.is_none(),
                format!("{end}, {} bytes", result.output.total),
            )
        }
        Outcome::JobStarted { job } => (true, format!("job {job} started")),
        Outcome::Job { job, running, .. } => (
            true,
            format!("job {job} {}", if *running { "runs" } else { "has ended" }),
        ),
        Outcome::Written { created, bytes, .. } => (
            true,
            format!(
                "{} {bytes} bytes",
                if *created { "created," } else { "replaced," }
            ),
        ),
        Outcome::Rows(protocol::call::SqlAnswer::Rows {
            rows, truncated, ..
        }) => (
            true,
            format!(
                "{} rows{}",
                rows.len(),
                if *truncated { ", more exist" } else { "" }
            ),
        ),
        Outcome::Rows(protocol::call::SqlAnswer::Error { error, .. }) => (false, error.clone()),
        Outcome::Tables { tables } => (true, format!("{} tables", tables.len())),
        Outcome::Answer { .. } => (true, "answered".to_owned()),
        Outcome::Failed { message, .. } => (false, message.clone()),
    }
}
