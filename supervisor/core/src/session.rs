//! A session's state and everything that can happen to it.

use std::collections::{BTreeMap, BTreeSet};

use policies::{Action, Facts, Mode, Policy, Verdict};
use protocol::{
    CallId, CommandId, Digest, Request, TurnEnd, Usage, Welcome, call::Call, frame::Rate,
    phase::Phase,
};

use crate::{EffectOutcome, Entry, ModelName, QuestionAnswer, Tick, bench::Bench, hook::Hooks};

/// What a session is started with; never changes.
#[derive(Debug, Clone)]
pub struct Config {
    /// The law.
    pub policy: Policy,
    /// The mode in force at the start.
    pub mode: Mode,
    /// The mode that no change goes beyond: the organisation's and the workspace's.
    pub ceiling: Mode,
    /// Whether it starts in plan mode.
    pub planning: bool,
    /// What is known of the session.
    pub facts: Facts,
    /// What the agent is told after its greeting.
    pub welcome: Welcome,
    /// Provider of the route's first model.
    pub provider: String,
    /// Its model.
    pub model: String,
    /// Provider and model that answer an ask in mode `auto`; `None` answers none.
    pub classifier: Option<(String, String)>,
    /// The rest of the route.
    pub fallbacks: Vec<ModelName>,
    /// Hooks of the policy, by index, that cannot run, and why.
    pub absent_hooks: BTreeMap<usize, String>,
    /// 32 random bytes, hex: nonces of questions are derived from it.
    pub seed: String,
}

/// Something that happened.
#[derive(Debug)]
pub enum Message {
    /// The agent said something that decodes.
    Agent(Request),
    /// A link brought what no honest worker sends.
    Fault {
        /// `agent` or `hands`.
        link: &'static str,
        /// What.
        what: String,
    },
    /// The agent's link closed, or the agent left.
    AgentGone {
        /// How it ended, if known.
        exit: Option<protocol::Exit>,
    },
    /// hands is gone: the whole jail is.
    HandsGone,
    /// An effect went somewhere.
    Effect(EffectOutcome),
    /// A person answered a question.
    Answer {
        /// The question.
        question: u64,
        /// Must equal the question's.
        nonce: String,
        /// What they said.
        answer: QuestionAnswer,
    },
    /// Start a turn; `None` continues one that was cut.
    Task(Option<String>),
    /// Cancel the turn.
    Cancel,
    /// End the session in order: everything was done, or a signal, a time limit, a person ended it.
    Stop(End),
    /// Somebody wants another mode.
    Mode {
        /// The mode.
        to: Mode,
        /// Who.
        by: By,
    },
    /// Time passed.
    Clock,
}

/// Who changes a mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// A person, by the operator's socket; the account's user id as the kernel tells it.
    Person {
        /// User id.
        uid: u32,
    },
    /// Anything else: it lowers, and never raises.
    Other(&'static str),
}

impl std::fmt::Display for By {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Person { uid } => write!(f, "a person of uid {uid}"),
            Self::Other(who) => f.write_str(who),
        }
    }
}

/// The mode in force and whether plan mode is on, after what the record has.
#[must_use]
pub fn standing(mode: Mode, planning: bool, entries: &[Entry]) -> (Mode, bool) {
    let changed = |entry: &Entry| match entry {
        Entry::Mode { to, planning, .. } => Some((*to, *planning)),
        _ => None,
    };
    entries
        .iter()
        .rev()
        .find_map(changed)
        .unwrap_or((mode, planning))
}

/// How a session ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// `done`, `refused`, `fault`, `outage`, `cap`, `budget`, `cancelled`.
    pub outcome: &'static str,
    /// For people.
    pub reason: String,
}

impl End {
    /// An end.
    #[must_use]
    pub fn new(outcome: &'static str, reason: impl Into<String>) -> Self {
        Self {
            outcome,
            reason: reason.into(),
        }
    }
}

/// A call on its way.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) tool: String,
    pub(crate) since: Tick,
    pub(crate) verdict: &'static str,
    pub(crate) rule: Option<String>,
    pub(crate) state: PendingState,
}

/// Where a pending call stands.
#[derive(Debug, Clone)]
pub(crate) enum PendingState {
    /// A person is asked.
    Asking(Box<Asking>),
    /// The classifier is asked.
    Judging(Box<Judging>),
    /// The agent reads by itself.
    Reading,
    /// An effect runs.
    Running {
        /// The command, if it is one that can be ended.
        command: Option<CommandId>,
    },
}

/// An open question.
#[derive(Debug, Clone)]
pub(crate) struct Asking {
    pub(crate) question: u64,
    pub(crate) nonce: String,
    pub(crate) until: Tick,
    pub(crate) call: Call,
    pub(crate) action: Action,
    pub(crate) verdict: Verdict,
    pub(crate) key: Digest,
}

/// A call that the classifier is asked about.
#[derive(Debug, Clone)]
pub(crate) struct Judging {
    /// The permit of the model call; identical calls wait behind one.
    pub(crate) permit: u64,
    pub(crate) since: Tick,
    pub(crate) until: Tick,
    pub(crate) call: Call,
    pub(crate) action: Action,
    pub(crate) verdict: Verdict,
    pub(crate) key: Digest,
    /// Under which its answer is kept.
    pub(crate) kept: Digest,
}

/// A model call on its way.
#[derive(Debug, Clone)]
pub(crate) struct PendingInfer {
    pub(crate) id: u64,
    pub(crate) since: Tick,
    /// Who was asked last.
    pub(crate) asked: ModelName,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    pub(crate) config: Config,
    /// The mode in force now.
    pub(crate) mode: Mode,
    /// Whether no person has approved the plan yet.
    pub(crate) planning: bool,
    pub(crate) phase: Phase,
    pub(crate) turn: u32,
    pub(crate) infers_in_turn: u32,
    pub(crate) infer: Option<PendingInfer>,
    pub(crate) pending: BTreeMap<CallId, Pending>,
    pub(crate) jobs: BTreeMap<CommandId, bool>,
    pub(crate) grants: BTreeSet<Digest>,
    /// Grants that end with the turn.
    pub(crate) turn_grants: BTreeSet<Digest>,
    /// What people asked for instead of something else: each passes once.
    pub(crate) once_grants: BTreeSet<Digest>,
    /// How often people said no to one and the same action.
    pub(crate) denials: BTreeMap<Digest, u32>,
    /// What the classifier is told, and what it said.
    pub(crate) bench: Bench,
    pub(crate) serial: u64,
    pub(crate) commands: u64,
    pub(crate) questions: u64,
    pub(crate) cancelled: bool,
    pub(crate) rate: Rate,
    pub(crate) notes_left: u32,
    pub(crate) totals: Totals,
    pub(crate) last_turn: Option<TurnEnd>,
    pub(crate) task: Option<Option<String>>,
    /// The text of a turn that waits for its hooks.
    pub(crate) starting: Option<String>,
    pub(crate) ended: bool,
    pub(crate) hooks: Hooks,
}

/// What a session has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Tokens.
    pub usage: Usage,
    /// Tool calls asked for.
    pub calls: u64,
    /// Tool calls refused.
    pub refusals: u64,
    /// Model calls.
    pub infers: u64,
    /// Millionths of a US dollar, as far as prices are known.
    pub micro_usd: u64,
    /// Answers whose price is not known.
    pub unpriced: u64,
}

impl Totals {
    /// Counts the price of one answer.
    pub(crate) fn pay(&mut self, micro_usd: Option<u64>) {
        match micro_usd {
            Some(micro) => self.micro_usd = self.micro_usd.saturating_add(micro),
            None => self.unpriced += 1,
        }
    }
}

impl Session {
    /// A session that waits for its agent's greeting.
    #[must_use]
    pub fn new(config: Config, now: Tick) -> Self {
        let turn = config.welcome.turns_done;
        Self {
            mode: config.mode,
            planning: config.planning,
            config,
            phase: Phase::Greeting,
            turn,
            infers_in_turn: 0,
            infer: None,
            pending: BTreeMap::new(),
            jobs: BTreeMap::new(),
            grants: BTreeSet::new(),
            turn_grants: BTreeSet::new(),
            once_grants: BTreeSet::new(),
            denials: BTreeMap::new(),
            bench: Bench::default(),
            serial: 0,
            commands: 0,
            questions: 0,
            cancelled: false,
            rate: Rate::new(now.0),
            notes_left: NOTES_PER_TURN,
            totals: Totals::default(),
            last_turn: None,
            task: None,
            starting: None,
            ended: false,
            hooks: Hooks::default(),
        }
    }

    /// Numbers used so far (permits, commands, questions), so that a resumed session goes on above them.
    #[must_use]
    pub fn after(mut self, entries: &[Entry]) -> Self {
        (self.mode, self.planning) = standing(self.mode, self.planning, entries);
        for entry in entries {
            self.bench.fold(entry);
            match entry {
                Entry::Intent {
                    permit, command, ..
                } => {
                    self.serial = self.serial.max(*permit);
                    let number = command.as_ref().and_then(|c| c.as_str().strip_prefix('c'));
                    let number = number.and_then(|n| n.parse().ok()).unwrap_or(0);
                    self.commands = self.commands.max(number);
                }
                Entry::InferIntent { permit, .. } => self.serial = self.serial.max(*permit),
                Entry::HookBegan { run, permit, .. } => {
                    self.hooks.runs = self.hooks.runs.max(*run);
                    self.serial = self.serial.max(*permit);
                }
                Entry::Asked { question, .. } => self.questions = self.questions.max(*question),
                Entry::InferOutcome {
                    usage,
                    micro_usd,
                    error,
                    ..
                } => {
                    self.totals.usage = self.totals.usage.plus(*usage);
                    self.totals.infers += 1;
                    if error.is_none() || *usage != Usage::default() {
                        self.totals.pay(*micro_usd);
                    }
                }
                Entry::ClassifyIntent { permit, .. } => self.serial = self.serial.max(*permit),
                Entry::Classified {
                    usage, micro_usd, ..
                } => {
                    if let Some(usage) = usage {
                        self.totals.usage = self.totals.usage.plus(*usage);
                        self.totals.infers += 1;
                        self.totals.pay(*micro_usd);
                    }
                }
                Entry::Verdict { .. } => self.totals.calls += 1,
                Entry::Refused { .. } => self.totals.refusals += 1,
                Entry::Certificate(_)
                | Entry::Started { .. }
                | Entry::TurnBegan { .. }
                | Entry::Message { .. }
                | Entry::InferTried { .. }
                | Entry::BreakerChanged { .. }
                | Entry::Answered { .. }
                | Entry::HookEnded { .. }
                | Entry::Outcome { .. }
                | Entry::Unknown { .. }
                | Entry::Transition(_)
                | Entry::TurnEnded(_)
                | Entry::Fault { .. }
                | Entry::Left { .. }
                | Entry::Notice { .. }
                | Entry::Reviewed { .. }
                | Entry::Resumed { .. }
                | Entry::Mode { .. }
                | Entry::Ended { .. } => {}
            }
        }
        self
    }

    /// Where it stands.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// What was used so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The end of the last turn, if one ended.
    #[must_use]
    pub fn last_turn(&self) -> Option<&TurnEnd> {
        self.last_turn.as_ref()
    }

    /// Commands that run now: background jobs and those that a call waits for.
    pub(crate) fn running_commands(&self) -> usize {
        let jobs = self.jobs.values().filter(|running| **running).count();
        let waited_for = self
            .pending
            .values()
            .filter(|pending| matches!(&pending.state, PendingState::Running { command: Some(_) }));
        jobs + waited_for.count()
    }

    /// When [`Message::Clock`] is due: the nearest approval or classification that runs out.
    #[must_use]
    pub fn deadline(&self) -> Option<Tick> {
        let asking = self
            .pending
            .values()
            .filter_map(|pending| match &pending.state {
                PendingState::Asking(asking) => Some(asking.until),
                PendingState::Judging(judging) => Some(judging.until),
                PendingState::Reading | PendingState::Running { .. } => None,
            });
        asking.min()
    }
}

/// Notes that one turn may send: ten progress marks for each call of a long turn; the rest is cut.
pub(crate) const NOTES_PER_TURN: u32 = 20_000;
