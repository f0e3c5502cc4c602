//! Hooks: which run at a point, what their answers change, and how the session goes on from there.

use policies::Hook;
use protocol::{
    InferFailure, Reply, TurnEnd, bounds,
    call::{Call, Refusal, Stage},
    phase::Phase,
};
use serde_json::Value;

use super::Turn;
use crate::{
    Effect, End, Entry, ViewEvent,
    escape::{cut, escape},
    gate::{self, Gate},
    hook::{Chain, Done, Heard, HookEnd, Point, Said, hear},
};

impl Turn {
    /// Stands still at a point until its hooks have answered; without any it goes on at once.
    pub(super) fn at(&mut self, point: Point) {
        let (event, tool) = (point.event(), point.call().map(|(_, tool)| tool));
        let all = &self.session.config.policy.settings.hooks;
        let mine = all.iter().enumerate();
        let mine = mine.filter(|(_, hook)| hook.is_for(event, tool));
        let hooks = mine.map(|(index, _)| index).collect();
        self.go_on(Chain {
            point,
            hooks,
            next: 0,
            rewrites: 0,
            advice: Vec::new(),
        });
    }

    /// Starts the next hook of a chain, or passes the point.
    fn go_on(&mut self, mut chain: Chain) {
        while let Some(&index) = chain.hooks.get(chain.next) {
            chain.next += 1;
            let Some(hook) = self
                .session
                .config
                .policy
                .settings
                .hooks
                .get(index)
                .cloned()
            else {
                continue;
            };
            let failed = match self.session.config.absent_hooks.get(&index) {
                // Said at the start, and not again with each call.
                Some(_) if !hook.required => continue,
                Some(why) => why.clone(),
                None => match self.start(&hook, index, chain) {
                    Ok(()) => return,
                    Err((back, why)) => {
                        chain = *back;
                        why
                    }
                },
            };
            self.entries.push(Entry::HookEnded {
                run: 0,
                hook: hook.name(),
                event: hook.event.as_str().to_owned(),
                call: chain.point.call().map(|(id, _)| id.clone()),
                outcome: "absent".to_owned(),
                what: failed.clone(),
                ms: 0,
            });
            match self.failed(chain, &hook, failed) {
                Some(back) => chain = back,
                None => return,
            }
        }
        self.passed(chain);
    }

    fn start(
        &mut self,
        hook: &Hook,
        index: usize,
        chain: Chain,
    ) -> Result<(), (Box<Chain>, String)> {
        let input = self.told(hook, &chain.point).to_string();
        if input.len() > bounds::HOOK_INPUT {
            let why = format!(
                "what it would be told has {} bytes, the bound is {}",
                input.len(),
                bounds::HOOK_INPUT
            );
            return Err((Box::new(chain), why));
        }
        self.session.hooks.runs += 1;
        let run = self.session.hooks.runs;
        let permit = gate::pass_hook(&mut self.session, run, index, input);
        self.entries.push(Entry::HookBegan {
            run,
            hook: hook.name(),
            event: hook.event.as_str().to_owned(),
            call: chain.point.call().map(|(id, _)| id.clone()),
            permit: permit.serial(),
        });
        self.effects.push(Effect::Hook(permit));
        self.session.hooks.open.insert(run, chain);
        Ok(())
    }

    /// A hook has ended. One that was given up is passed over.
    pub(super) fn hook_ended(&mut self, run: u64, end: HookEnd, ms: u64) {
        let Some(chain) = self.session.hooks.open.remove(&run) else {
            return;
        };
        let index = chain.next.checked_sub(1).and_then(|at| chain.hooks.get(at));
        let hooks = &self.session.config.policy.settings.hooks;
        let Some(hook) = index.and_then(|&index| hooks.get(index)).cloned() else {
            return;
        };
        let Heard { said, context } = hear(hook.event, end);
        self.entries.push(Entry::HookEnded {
            run,
            hook: hook.name(),
            event: hook.event.as_str().to_owned(),
            call: chain.point.call().map(|(id, _)| id.clone()),
            outcome: said.word().to_owned(),
            what: escape(&cut(&said.what(), 4_096), true),
            ms,
        });
        if let Some(words) = context {
            self.session.hooks.say(&hook, &words);
        }
        let back = match said {
            Said::Nothing => Some(chain),
            Said::Advice(words) => Some(advised(chain, &hook, &words)),
            Said::Deny(reason) => self.denied(chain, &hook, reason),
            Said::Failed(why) => self.failed(chain, &hook, why),
            Said::Rewrite(input) => self.rewritten(chain, &hook, input),
            Said::Continue(words) => self.once_more(chain, &hook, &words),
        };
        if let Some(chain) = back {
            self.go_on(chain);
        }
    }

    /// A hook said no. The chain comes back where there is nothing to deny.
    fn denied(&mut self, chain: Chain, hook: &Hook, reason: String) -> Option<Chain> {
        let refusal = refusal(hook, reason.clone());
        match chain.point {
            Point::PreTool(call) => self.refuse(&call, refusal, None),
            Point::Permission(asked) => {
                self.refuse(&asked.call, refusal, Some(&asked.verdict));
            }
            Point::Iteration(infer) => {
                let words = format!("hook {}: {}", hook.name(), escape(&reason, false));
                self.infer_failed(infer.id, "stopped", &words);
            }
            // The effect is there already: the model is told what is wrong with it.
            Point::PostTool(_) | Point::ToolUses(_) => {
                self.session.hooks.say(hook, &reason);
                return Some(chain);
            }
            Point::SessionStart
            | Point::QueryStart
            | Point::Stop(_)
            | Point::QueryComplete(_)
            | Point::SessionEnd(_) => {
                let event = hook.event.as_str();
                let text = format!("says no, but `{event}` only observes: {reason}");
                self.tell(hook, &text);
                return Some(chain);
            }
        }
        None
    }

    /// A hook gave no answer that counts: a denial if it is required, else told.
    fn failed(&mut self, chain: Chain, hook: &Hook, why: String) -> Option<Chain> {
        self.tell(hook, &format!("failed: {why}"));
        if !hook.required {
            return Some(chain);
        }
        let reason = format!("this required hook failed: {why}");
        match chain.point {
            Point::PreTool(_) | Point::Permission(_) | Point::Iteration(_) => {
                return self.denied(chain, hook, reason);
            }
            Point::SessionStart | Point::QueryStart | Point::PostTool(_) | Point::ToolUses(_) => {
                let words = format!("hook {}: {reason}", hook.name());
                self.session.hooks.halted.get_or_insert(words);
            }
            // Nothing is left to deny.
            Point::Stop(_) | Point::QueryComplete(_) | Point::SessionEnd(_) => {}
        }
        Some(chain)
    }

    /// A hook wants another input: it is normalised and judged anew, and every hook sees it again.
    fn rewritten(&mut self, mut chain: Chain, hook: &Hook, input: Value) -> Option<Chain> {
        let Point::PreTool(call) = &chain.point else {
            return Some(chain);
        };
        if input == call.input {
            return Some(chain);
        }
        if chain.rewrites >= bounds::HOOK_REWRITES {
            let why = "the hooks of this call change its input again and again".to_owned();
            return self.denied(chain, hook, why);
        }
        let words = cut(&input.to_string(), 4_000);
        let Some(changed) = with_input(call, input) else {
            let why = format!("it wants this input instead, ask for exactly that: {words}");
            return self.denied(chain, hook, why);
        };
        if let Gate::Refused(refused) = gate::judge(&self.session, &changed) {
            let why = format!(
                "it wants an input that is none ({}): {words}",
                refused.reason
            );
            return self.denied(chain, hook, why);
        }
        let text = format!("the input of call {} was changed to {words}", changed.id);
        self.session.hooks.say(hook, &text);
        chain.point = Point::PreTool(Box::new(changed));
        chain.rewrites += 1;
        chain.next = 0;
        chain.advice.clear();
        Some(chain)
    }

    /// A hook wants one more cycle; it gets one in each turn.
    fn once_more(&mut self, chain: Chain, hook: &Hook, words: &str) -> Option<Chain> {
        if self.session.hooks.continued || self.session.hooks.halted.is_some() {
            self.tell(
                hook,
                &format!("asks for one more cycle, but had its one: {words}"),
            );
            return Some(chain);
        }
        self.session.hooks.continued = true;
        self.session.phase = Phase::Turn;
        let text = format!("[Hook {} asks to go on: {words}]", hook.name());
        self.entries.push(Entry::Message {
            message: protocol::Message::user(text.clone()),
        });
        self.tell(hook, &format!("asks for one more cycle: {words}"));
        let number = self.session.turn;
        self.effects
            .push(Effect::Reply(Reply::Turn(protocol::TurnStart {
                number,
                text: Some(text),
            })));
        None
    }

    /// Every hook of a point has let it pass.
    fn passed(&mut self, chain: Chain) {
        match chain.point {
            Point::SessionStart => self.begin_turn(),
            Point::QueryStart => self.turn_runs(),
            Point::ToolUses(infer) => self.at(Point::Iteration(infer)),
            Point::Iteration(infer) => self.infer_now(*infer),
            Point::PreTool(call) => self.judged(*call),
            Point::Permission(asked) => self.put_question(*asked, chain.advice),
            Point::PostTool(done) => self.done(*done),
            Point::Stop(end) => self.finish_turn(end),
            Point::QueryComplete(end) => self.turn_over(end),
            Point::SessionEnd(end) => self.close(end),
        }
    }

    /// A call is done and its hooks are: the agent hears of it, and a model call that waited goes on.
    pub(super) fn done(&mut self, done: Done) {
        if let Some(outcome) = done.outcome
            && self.session.phase == Phase::Turn
        {
            self.effects.push(Effect::Reply(Reply::Outcome {
                call: done.call,
                outcome: Box::new(outcome),
            }));
        }
        self.infer_if_ready();
    }

    /// Gives the hooks up that run, and goes on as after a cancel.
    pub(super) fn cut_hooks(&mut self, why: &'static str) {
        let open = std::mem::take(&mut self.session.hooks.open);
        if let Some(held) = self.session.hooks.held.take() {
            self.infer_failed(held.id, "cancelled", why);
        }
        for (run, chain) in open {
            self.give_up(run, &chain);
            match chain.point {
                Point::SessionStart => self.begin_turn(),
                Point::QueryStart => {
                    self.turn_runs();
                    self.cancel();
                }
                Point::ToolUses(infer) | Point::Iteration(infer) => {
                    self.infer_failed(infer.id, "cancelled", why);
                }
                Point::PreTool(call) => self.refuse(&call, cancelled(why), None),
                Point::Permission(asked) => {
                    self.refuse(&asked.call, cancelled(why), Some(&asked.verdict));
                }
                Point::PostTool(done) => self.done(*done),
                Point::Stop(end) => self.finish_turn(end),
                Point::QueryComplete(end) => self.turn_over(end),
                Point::SessionEnd(end) => self.close(end),
            }
        }
    }

    /// Gives the hooks of calls up: their turn is over.
    pub(super) fn leave_calls(&mut self) {
        let open = std::mem::take(&mut self.session.hooks.open);
        self.session.hooks.held = None;
        for (run, chain) in open {
            match &chain.point {
                Point::PreTool(call) => {
                    self.give_up(run, &chain);
                    self.refuse(&call.clone(), cancelled("the turn is over"), None);
                }
                Point::Permission(asked) => {
                    self.give_up(run, &chain);
                    let asked = asked.clone();
                    self.refuse(
                        &asked.call,
                        cancelled("the turn is over"),
                        Some(&asked.verdict),
                    );
                }
                Point::ToolUses(_) | Point::Iteration(_) => self.give_up(run, &chain),
                Point::SessionStart
                | Point::QueryStart
                | Point::PostTool(_)
                | Point::Stop(_)
                | Point::QueryComplete(_)
                | Point::SessionEnd(_) => {
                    self.session.hooks.open.insert(run, chain);
                }
            }
        }
    }

    /// Ends every hook without going on: the session ends.
    pub(super) fn drop_hooks(&mut self) {
        self.session.hooks.held = None;
        for (run, chain) in std::mem::take(&mut self.session.hooks.open) {
            self.give_up(run, &chain);
        }
    }

    fn give_up(&mut self, run: u64, chain: &Chain) {
        self.effects.push(Effect::EndHook { run });
        let index = chain.next.checked_sub(1).and_then(|at| chain.hooks.get(at));
        let hooks = &self.session.config.policy.settings.hooks;
        let hook = index.and_then(|&index| hooks.get(index));
        self.entries.push(Entry::HookEnded {
            run,
            hook: hook.map(Hook::name).unwrap_or_default(),
            event: chain.point.event().as_str().to_owned(),
            call: chain.point.call().map(|(id, _)| id.clone()),
            outcome: "cancelled".to_owned(),
            what: String::new(),
            ms: 0,
        });
    }

    fn tell(&mut self, hook: &Hook, text: &str) {
        let words = escape(&cut(text, 1_000), false);
        let text = format!("hook {} ({}) {words}", hook.name(), hook.event.as_str());
        self.effects.push(Effect::View(ViewEvent::Notice(text)));
    }

    // ---- the loop's own points -------------------------------------------------------------------

    /// A model call is asked for: hooks of calls that are done come first, then its own.
    pub(super) fn infer_if_ready(&mut self) {
        if self.session.hooks.after_calls() {
            return;
        }
        let Some(infer) = self.session.hooks.held.take() else {
            return;
        };
        if let Some(why) = self.session.hooks.halted.clone() {
            return self.infer_failed(infer.id, "stopped", &escape(&why, false));
        }
        if self.session.hooks.used.is_empty() {
            return self.at(Point::Iteration(infer));
        }
        // A clone, so that the hooks of this point are still told.
        self.at(Point::ToolUses(infer));
    }

    /// What hooks have said, as a message of the conversation, once.
    pub(super) fn said_by_hooks(&mut self) -> Option<protocol::Message> {
        self.session.hooks.used.clear();
        let said = std::mem::take(&mut self.session.hooks.context);
        (!said.is_empty()).then(|| protocol::Message::user(said.join("\n")))
    }

    /// The turn is over for good.
    pub(super) fn finish_turn(&mut self, end: TurnEnd) {
        self.session.turn_grants.clear();
        self.session.hooks.used.clear();
        self.entries.push(Entry::TurnEnded(end.clone()));
        self.at(Point::QueryComplete(end));
    }

    pub(super) fn turn_over(&mut self, end: TurnEnd) {
        self.effects
            .push(Effect::View(ViewEvent::TurnEnded(end.clone())));
        self.session.last_turn = Some(end);
        self.begin_turn();
    }

    /// While the session's last hooks run: outcomes still come, and an end that does not wait.
    pub(super) fn while_closing(&mut self, message: crate::Message, end: End) {
        use crate::Message;
        match message {
            Message::Effect(outcome) => self.outcome(outcome),
            Message::Cancel | Message::Stop(_) => {
                self.drop_hooks();
                self.close(end);
            }
            Message::Agent(_)
            | Message::Fault { .. }
            | Message::AgentGone { .. }
            | Message::HandsGone
            | Message::Answer { .. }
            | Message::Mode { .. }
            | Message::Task(_)
            | Message::Clock => {}
        }
    }
}

/// A word in favour is kept for the person who will be asked; it lowers nothing.
fn advised(mut chain: Chain, hook: &Hook, words: &str) -> Chain {
    let words = escape(&cut(words, 400), false);
    let colon = if words.is_empty() { "" } else { ": " };
    chain
        .advice
        .push(format!("hook {} advises yes{colon}{words}", hook.name()));
    chain
}

fn refusal(hook: &Hook, reason: String) -> Refusal {
    Refusal {
        stage: Stage::Hook,
        rule: Some(hook.id.clone()),
        layer: Some(hook.layer.as_str().to_owned()),
        reason,
        instead: None,
    }
}

fn cancelled(why: &str) -> Refusal {
    Refusal {
        stage: Stage::Mode,
        rule: None,
        layer: None,
        reason: why.to_owned(),
        instead: None,
    }
}

/// The call with another input, where what is carried out follows from the input alone: the agent does
/// reads by itself, and works out what an edit makes of a file.
fn with_input(call: &Call, input: Value) -> Option<Call> {
    let mut changed = Call {
        input,
        ..call.clone()
    };
    match (call.tool.as_str(), &mut changed.prepared) {
        ("bash" | "run_sql" | "ask_user" | "job_output" | "job_kill", None) => Some(changed),
        ("write_file", Some(prepared))
            if changed.input.get("file_path") == call.input.get("file_path") =>
        {
            prepared.content = changed.input.get("content")?.as_str()?.to_owned();
            Some(changed)
        }
        _ => None,
    }
}

/// A failed model call.
pub(super) fn failure(id: u64, class: &str, message: &str) -> InferFailure {
    InferFailure {
        id,
        class: class.to_owned(),
        retryable: false,
        message: message.to_owned(),
        retry_after_ms: None,
    }
}
