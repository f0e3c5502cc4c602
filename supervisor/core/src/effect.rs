//! What the shell is to do. Each variant with a consequence outside owns the permit that allows it;
//! the others talk to the agent or to people, or end something, which needs no right.

use protocol::{
    CallId, CommandId, Digest, InferFailure, Inference, Reply, TurnEnd, Usage, call::EndedBy,
    call::Outcome,
};

use crate::{
    AskPerson, Attempt, End, HookEnd, Infer, KillJob, ListTables, Permit, PutFile, QueryDatabase,
    RunCommand, RunHook, breaker::Phase,
};

/// One thing to do.
#[derive(Debug)]
pub enum Effect {
    /// Say something to the agent.
    Reply(Reply),
    /// Ask a model.
    Infer(Permit<Infer>),
    /// Ask the classifier.
    Classify(Permit<Infer>),
    /// Stop asking the classifier; nobody waits for that answer any more.
    CancelClassify {
        /// The permit of the call.
        permit: u64,
    },
    /// Stop asking the model; its outcome still comes, as a failure.
    CancelInfer,
    /// Run a command through hands.
    Run(Permit<RunCommand>),
    /// End a command of this session.
    EndCommand {
        /// The command.
        command: CommandId,
        /// Why.
        why: EndedBy,
    },
    /// End a background job because the agent asked.
    KillJob(Permit<KillJob>),
    /// Tell what a background job wrote since the last look; waits at most `wait_ms` for more.
    LookAtJob {
        /// The call.
        call: CallId,
        /// The job.
        command: CommandId,
        /// Bound of the wait.
        wait_ms: u64,
    },
    /// Write a file through hands.
    Put(Permit<PutFile>),
    /// Query a database through a reader.
    Query(Permit<QueryDatabase>),
    /// List tables through a reader.
    Tables(Permit<ListTables>),
    /// Put a question of the model to the person.
    AskPerson(Permit<AskPerson>),
    /// Run a hook.
    Hook(Permit<RunHook>),
    /// End a hook; what it would have said no longer counts.
    EndHook {
        /// The run.
        run: u64,
    },
    /// Ask a person for approval.
    Approve(Question),
    /// Withdraw a question: it was answered by time or by a cancel.
    Withdraw {
        /// The question.
        question: u64,
    },
    /// Show something.
    View(ViewEvent),
    /// End the session: everything below is killed, then the shell leaves.
    End(End),
}

/// How an effect went.
#[derive(Debug)]
pub enum EffectOutcome {
    /// A tool call's effect.
    Call {
        /// The call.
        call: CallId,
        /// What the agent will hear.
        outcome: Box<Outcome>,
        /// Digest of a kept pre-image.
        before: Option<Digest>,
        /// Digest of a kept spool.
        spool: Option<Digest>,
    },
    /// A model call.
    Infer {
        /// Its number.
        id: u64,
        /// The answer or why there is none.
        result: Result<Box<Inference>, InferFailure>,
        /// What it used.
        bill: Bill,
    },
    /// The classifier's model answered, or failed to.
    Classified {
        /// The permit of the call.
        permit: u64,
        /// The answer or why there is none.
        result: Result<Box<Inference>, InferFailure>,
        /// Its price in millionths of a US dollar, if known.
        micro_usd: Option<u64>,
    },
    /// A piece of a streaming answer.
    Delta {
        /// Its number.
        id: u64,
        /// The text.
        text: String,
    },
    /// One attempt of a model call failed; there may be more.
    Tried {
        /// The call's number.
        id: u64,
        /// The attempt.
        attempt: Attempt,
    },
    /// A circuit breaker has changed its state.
    Breaker {
        /// Whose.
        provider: String,
        /// From which state.
        from: Phase,
        /// To which.
        to: Phase,
    },
    /// A hook.
    Hook {
        /// The run.
        run: u64,
        /// How it ended.
        end: HookEnd,
        /// Milliseconds.
        ms: u64,
    },
    /// A background job has ended by itself.
    JobEnded {
        /// The job.
        command: CommandId,
    },
}

/// What a model call used, with attempts that broke off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bill {
    /// Tokens.
    pub usage: Usage,
    /// Millionths of a US dollar; `None` if the price of something that was used is not known.
    pub micro_usd: Option<u64>,
    /// Whether some of it is an estimate.
    pub estimated: bool,
}

/// A request for approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Its number within the session.
    pub id: u64,
    /// An answer must carry it.
    pub nonce: String,
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// The canonical action, every odd character escaped.
    pub shown: String,
    /// What would change, for a file; escaped.
    pub preview: Option<String>,
    /// Why it is asked.
    pub reason: String,
    /// The rule that asks.
    pub rule: Option<String>,
    /// Whether only "once" is on offer.
    pub once_only: bool,
    /// What hooks say in favour; it decides nothing.
    pub advice: Vec<String>,
    /// What the answer does not cover, though it decides what happens: programs that lie where the
    /// session can write.
    pub not_covered: Vec<String>,
}

/// How long an approval lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// This call only.
    Once,
    /// The very same action for the rest of the turn.
    Turn,
    /// The very same action for the rest of the session.
    Session,
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuestionAnswer {
    /// Yes.
    Allow(Scope),
    /// Not this, but the tool with this input instead: the model is told, and when it asks for exactly
    /// that the answer is there already, once.
    Instead(serde_json::Value),
    /// No, with a word for the model.
    Deny(Option<String>),
}

/// Something to show to people; never decides anything.
#[derive(Debug, Clone, PartialEq)]
pub enum ViewEvent {
    /// A turn began.
    TurnBegan {
        /// Its number.
        number: u32,
    },
    /// Model text while it streams.
    Text(String),
    /// What streamed was withdrawn; the call is tried again.
    Withdrawn,
    /// A model call ended.
    Inferred {
        /// Tokens in, if known.
        input: Option<u64>,
        /// Tokens out, if known.
        output: Option<u64>,
        /// Milliseconds.
        ms: u64,
    },
    /// One attempt of a model call failed.
    Tried(Attempt),
    /// A model call failed.
    InferFailed {
        /// Class.
        class: String,
        /// For people.
        message: String,
    },
    /// A call was judged.
    Judged {
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// The action, escaped, cut.
        what: String,
        /// `allow`, `ask`, `deny`.
        verdict: &'static str,
        /// Rule.
        rule: Option<String>,
        /// Reason.
        reason: String,
    },
    /// The classifier was asked about a call.
    Classified {
        /// The call.
        call: CallId,
        /// `PROVIDER/MODEL`.
        by: String,
        /// `allow`, `deny`, `unsure`.
        answer: &'static str,
        /// Why, escaped.
        why: String,
        /// Whether the answer is one from before.
        cached: bool,
        /// Milliseconds.
        ms: u64,
    },
    /// Another mode is in force, or plan mode is over.
    Mode {
        /// The mode.
        mode: policies::Mode,
        /// Whether plan mode is on.
        planning: bool,
        /// Who did it.
        by: String,
    },
    /// Progress of a call in percent; the worker's word.
    Progress {
        /// The call.
        call: CallId,
        /// 0 to 100.
        percent: u8,
    },
    /// A call ended.
    Settled {
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// Whether it went well.
        ok: bool,
        /// For people.
        what: String,
        /// Milliseconds.
        ms: u64,
        /// The verdict that it had.
        verdict: &'static str,
        /// The rule that decided.
        rule: Option<String>,
    },
    /// The loop moved; the worker's word.
    Transition {
        /// Iteration.
        iteration: u32,
        /// Kind and reason.
        text: String,
    },
    /// A line of the worker.
    Log(String),
    /// A turn ended.
    TurnEnded(TurnEnd),
    /// Something an operator should know.
    Notice(String),
}
