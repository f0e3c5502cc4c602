//! Drives the machine: carries its intents out over the link, and hears a cancel at any time.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use protocol::{Infer, InferFailure, Message, Reply, Request, TurnEnd, bounds};
use worker_agent::{Event, Intent, Phase, State, step};

use super::{
    calls::Desk,
    link::{Link, Lost, Said, Stream},
};

/// Characters of a last answer that is too long for a frame: six bytes each, at worst, and room.
const END_TEXT: usize = 128 * 1024;

/// The turns of one session.
pub(super) struct Turns<S> {
    link: Link<S>,
    desk: Desk,
    /// Taken while a step runs.
    state: Option<State>,
    /// The person cancelled the running turn.
    cancelled: bool,
    /// A model call that was given up and whose answer is still to come.
    owed: Option<u64>,
}

impl<S: Stream> Turns<S> {
    pub(super) fn new(link: Link<S>, desk: Desk, state: State) -> Self {
        Self {
            link,
            desk,
            state: Some(state),
            cancelled: false,
            owed: None,
        }
    }

    /// Waits for the next turn and runs it. What else comes between turns is late and passed over.
    pub(super) fn next(&mut self) -> Result<(), Lost> {
        match self.link.hear(None)? {
            Some(Reply::Turn(start)) => self.run(Event::Turn(start)),
            Some(reply) => {
                self.notice(&reply);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn run(&mut self, first: Event) -> Result<(), Lost> {
        self.cancelled = false;
        let mut events = VecDeque::from([first]);
        while let Some(event) = events.pop_front() {
            let Some(state) = self.state.take() else {
                return Ok(());
            };
            let (state, intents) = step(state, event);
            self.state = Some(state);
            for intent in intents {
                events.extend(self.carry_out(intent)?);
            }
        }
        // Each intent that waits was answered above, so that only an idle machine is left over.
        let idle = self
            .state
            .as_ref()
            .is_none_or(|state| state.phase() == Phase::Idle);
        if idle {
            Ok(())
        } else {
            Err(Lost::Broken(std::io::Error::other("the loop stands still")))
        }
    }

    fn carry_out(&mut self, intent: Intent) -> Result<Vec<Event>, Lost> {
        match intent {
            Intent::Append(message) => append(&mut self.link, message)?,
            Intent::Transition(transition) => {
                self.link.say(&Request::Transition(transition))?;
            }
            Intent::TurnEnded(end) => self.ended(end)?,
            Intent::Infer(infer) => return self.infer(*infer),
            Intent::Wait { ms } => return self.wait(ms),
            Intent::Prepare(calls) => {
                if self.look_for_cancel()? {
                    return Ok(vec![Event::Cancel]);
                }
                return Ok(vec![Event::Prepared(self.desk.prepare(&calls))]);
            }
            Intent::Run(calls) => {
                if self.look_for_cancel()? {
                    let results = calls.iter().map(|call| self.desk.not_run(call)).collect();
                    return Ok(vec![Event::Cancel, Event::Results(results)]);
                }
                let (results, cancelled) =
                    self.desk.run(&mut self.link, calls, bounds::CANCEL_GRACE)?;
                self.cancelled |= cancelled;
                let cancel = self.cancelled.then_some(Event::Cancel);
                return Ok(cancel
                    .into_iter()
                    .chain([Event::Results(results)])
                    .collect());
            }
        }
        Ok(Vec::new())
    }

    /// Says how the turn ended; a text that no frame holds is cut, the record has it whole.
    fn ended(&mut self, end: TurnEnd) -> Result<(), Lost> {
        let request = Request::TurnEnded(end);
        if self.link.say(&request)? == Said::Sent {
            return Ok(());
        }
        let Request::TurnEnded(mut end) = request else {
            return Ok(());
        };
        let text: String = end.text.chars().take(END_TEXT).collect();
        end.text = format!("{text}… (cut; the whole answer stands in the record)");
        self.link.say(&Request::TurnEnded(end)).map(|_| ())
    }

    /// Asks the model. An answer that crosses a cancel is taken into the history all the same: the
    /// supervisor has recorded it.
    fn infer(&mut self, infer: Infer) -> Result<Vec<Event>, Lost> {
        if self.look_for_cancel()? {
            return Ok(vec![Event::Cancel]);
        }
        self.settle_debt()?;
        let id = infer.id;
        let failed = |class: &str, message: &str| {
            Event::InferFailed(InferFailure {
                id,
                class: class.to_owned(),
                retryable: false,
                message: message.to_owned(),
                retry_after_ms: None,
            })
        };
        if self.link.say(&Request::Infer(infer))? == Said::TooLong {
            let words = "the conversation is larger than a request may be";
            return Ok(vec![failed("context_too_long", words)]);
        }
        let mut until = Instant::now() + bounds::INFER_TIME;
        loop {
            match self.link.hear(Some(until))? {
                Some(Reply::Inferred { id: of, answer }) if of == id => {
                    return Ok(vec![Event::Inferred { id, answer }]);
                }
                Some(Reply::InferFailed(failure)) if failure.id == id => {
                    return Ok(vec![if self.cancelled {
                        Event::Cancel
                    } else {
                        Event::InferFailed(failure)
                    }]);
                }
                Some(Reply::Context(message)) => self.add(message),
                Some(Reply::Cancel) if !self.cancelled => {
                    self.cancelled = true;
                    until = Instant::now() + bounds::CANCEL_GRACE;
                }
                Some(reply @ Reply::Standing { .. }) => self.notice(&reply),
                Some(_) => {}
                None => {
                    self.owed = Some(id);
                    return Ok(vec![if self.cancelled {
                        Event::Cancel
                    } else {
                        failed("network", "no answer came in time")
                    }]);
                }
            }
        }
    }

    /// Adds a message to the conversation; the supervisor has it already.
    fn add(&mut self, message: Message) {
        if let Some(state) = self.state.take() {
            let (state, _) = step(state, Event::Context(message));
            self.state = Some(state);
        }
    }

    /// Waits out a backoff, or until the person cancels.
    fn wait(&mut self, ms: u64) -> Result<Vec<Event>, Lost> {
        let until = Instant::now() + Duration::from_millis(ms);
        while !self.cancelled {
            match self.link.hear(Some(until))? {
                Some(reply) => self.notice(&reply),
                None => return Ok(vec![Event::Waited]),
            }
        }
        Ok(vec![Event::Cancel])
    }

    /// Takes what has come meanwhile, without waiting; tells whether the turn is cancelled.
    fn look_for_cancel(&mut self) -> Result<bool, Lost> {
        while !self.cancelled {
            match self.link.hear(Some(Instant::now()))? {
                Some(reply) => self.notice(&reply),
                None => break,
            }
        }
        Ok(self.cancelled)
    }

    /// The supervisor runs one model call at a time: the answer of one that was given up comes first.
    fn settle_debt(&mut self) -> Result<(), Lost> {
        let until = Instant::now() + bounds::CANCEL_GRACE;
        while self.owed.is_some() {
            match self.link.hear(Some(until))? {
                Some(reply) => self.notice(&reply),
                None => self.owed = None,
            }
        }
        Ok(())
    }

    /// A reply that nothing waits for.
    fn notice(&mut self, reply: &Reply) {
        let settled = match reply {
            Reply::Standing { law, .. } => {
                self.desk.stand(law);
                None
            }
            Reply::Cancel => {
                // Between turns there is nothing to cancel; a turn begins uncancelled.
                self.cancelled = true;
                None
            }
            Reply::Inferred { id, .. } => Some(*id),
            Reply::InferFailed(failure) => Some(failure.id),
            Reply::Welcome(_)
            | Reply::Turn(_)
            | Reply::Delta(_)
            | Reply::Context(_)
            | Reply::Outcome { .. }
            | Reply::Bye => None,
        };
        if settled.is_some() && settled == self.owed {
            self.owed = None;
        }
    }
}

/// Appends a message; results that no frame holds together go one by one.
pub(super) fn append<S: Stream>(link: &mut Link<S>, message: Message) -> Result<(), Lost> {
    let request = Request::Append(message);
    if link.say(&request)? == Said::Sent {
        return Ok(());
    }
    let Request::Append(Message { role, parts }) = request else {
        return Ok(());
    };
    for part in parts {
        let message = Message {
            role,
            parts: vec![part],
        };
        link.say(&Request::Append(message))?;
    }
    Ok(())
}
