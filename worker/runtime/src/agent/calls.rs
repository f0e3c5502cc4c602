//! Tool calls in the agent: found, checked, prepared, asked for, and the reads carried out.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use policies::{
    Decision, evaluate, normalise,
    tools::{Input, Tool, input},
};
use protocol::{
    CallId, Digest, Note, Reply, Request, Settled, bounds,
    call::{Call, Outcome, Refusal, Stage},
};
use worker_agent::{CallResult, Readiness, Requested, wrap};
use worker_tools::{Formatted, Reads, format, refused, trouble};

use super::{
    link::{Link, Lost, Said, Stream},
    session::Law,
};

/// How long the supervisor may take beyond a tool's own limit and a person's time to answer.
const MARGIN: Duration = Duration::from_secs(60);
/// Refusals that are remembered.
const REFUSALS: usize = 1_000;

/// Where the calls of a session are worked on.
#[derive(Debug)]
pub(super) struct Desk {
    reads: Reads,
    law: Option<Law>,
    tools: Vec<Tool>,
    /// Inputs of the answer that is worked on, typed.
    inputs: BTreeMap<CallId, (Tool, Input)>,
    /// What the supervisor refused by its law: asked again, it is refused here, by the same law.
    refusals: BTreeMap<Digest, Refusal>,
}

impl Desk {
    pub(super) fn new(reads: Reads, law: Option<Law>, tools: Vec<Tool>) -> Self {
        Self {
            reads,
            law,
            tools,
            inputs: BTreeMap::new(),
            refusals: BTreeMap::new(),
        }
    }

    /// Finds each call's tool and checks its input.
    pub(super) fn prepare(&mut self, calls: &[Requested]) -> Vec<Readiness> {
        self.inputs.clear();
        calls.iter().map(|call| self.ready(call)).collect()
    }

    fn ready(&mut self, call: &Requested) -> Readiness {
        let found = Tool::parse(&call.tool).filter(|tool| self.tools.contains(tool));
        let Some(tool) = found else {
            let names: Vec<&str> = self.tools.iter().map(|tool| tool.as_str()).collect();
            let name: String = call.tool.chars().take(80).collect();
            return Readiness::Failed(result(
                call,
                &refused(&refusal(
                    Stage::Resolve,
                    format!("`{name}` is not a tool of this session"),
                    Some(format!("the tools are {}", names.join(", "))),
                )),
            ));
        };
        match input(tool, &call.input) {
            Ok(input) => {
                self.inputs.insert(call.id.clone(), (tool, input));
                if tool.contract().concurrency_safe {
                    Readiness::Safe
                } else {
                    Readiness::Alone
                }
            }
            Err(why) => {
                Readiness::Failed(result(call, &refused(&refusal(Stage::Input, why, None))))
            }
        }
    }

    /// A call that the person's cancel kept from being asked for.
    pub(super) fn not_run(&self, call: &Requested) -> CallResult {
        let words = "cancelled: the person stopped the turn before this call ran; nothing was done";
        result(call, &trouble(words))
    }

    /// Runs a batch: asks for all of it at once and carries out the reads that are allowed. Tells
    /// whether the person cancelled meanwhile; a call that is missing then has no known outcome.
    pub(super) fn run<S: Stream>(
        &mut self,
        link: &mut Link<S>,
        calls: Vec<Requested>,
        grace: Duration,
    ) -> Result<(Vec<CallResult>, bool), Lost> {
        let mut results = Vec::new();
        let mut asked: Vec<(Requested, Tool, Digest)> = Vec::new();
        let mut batch = Vec::new();
        for call in calls {
            progress(link, &call.id, 0)?;
            match self.draft(&call) {
                Ok((tool, key, draft)) => {
                    progress(link, &call.id, 25)?;
                    asked.push((call, tool, key));
                    batch.push(draft);
                }
                Err(early) => {
                    note(link, &format!("{}: {}", call.tool, early.text))?;
                    progress(link, &call.id, 100)?;
                    results.push(result(&call, &early));
                }
            }
        }
        if batch.is_empty() {
            return Ok((results, false));
        }
        let limit = asked
            .iter()
            .map(|(_, tool, _)| tool.contract().time_limit)
            .max();
        let mut until = Instant::now() + limit.unwrap_or_default() + bounds::APPROVAL + MARGIN;
        if link.say(&Request::Calls { calls: batch })? == Said::TooLong {
            let words =
                "limit reached: the batch is larger than a request may be; ask for less at once";
            results.extend(asked.iter().map(|(call, ..)| result(call, &trouble(words))));
            return Ok((results, false));
        }
        let mut cancelled = false;
        while !asked.is_empty() {
            match link.hear(Some(until))? {
                Some(Reply::Outcome { call, outcome }) => {
                    let Some(at) = asked.iter().position(|(asked, ..)| asked.id == call) else {
                        continue;
                    };
                    let (call, tool, key) = asked.remove(at);
                    let formatted = self.settle(link, &call, tool, key, *outcome, cancelled)?;
                    progress(link, &call.id, 100)?;
                    results.push(result(&call, &formatted));
                }
                Some(Reply::Standing { law, .. }) => self.stand(&law),
                Some(Reply::Cancel) if !cancelled => {
                    cancelled = true;
                    until = Instant::now() + grace;
                }
                Some(_) => {}
                None => break,
            }
        }
        Ok((results, cancelled))
    }

    /// Makes the request of a call, or tells at once why there is none.
    fn draft(&self, call: &Requested) -> Result<(Tool, Digest, Call), Formatted> {
        let Some((tool, input)) = self.inputs.get(&call.id) else {
            return Err(trouble("bug: the call was not prepared; send it again"));
        };
        let mut draft = Call {
            id: call.id.clone(),
            tool: call.tool.clone(),
            input: call.input.clone(),
            prepared: None,
        };
        let key = key(&draft);
        let denied = self.denied(&draft);
        // Refused once already, and refused by the same law again: no need to ask. What is refused
        // for the first time is asked for, so that the record knows of it.
        if let Some(before) = self.refusals.get(&key).filter(|_| denied) {
            return Err(refused(before));
        }
        // What the law refuses anyway is not worked out first: its reason is the one to read.
        if !denied {
            let prepared = catch_unwind(AssertUnwindSafe(|| self.reads.prepare(input)));
            draft.prepared = match prepared {
                Ok(Ok(prepared)) => prepared,
                Ok(Err(why)) => return Err(trouble(&why.to_string())),
                Err(_) => return Err(panicked(*tool)),
            };
        }
        if let Some(size) = too_large(&draft) {
            return Err(trouble(&format!(
                "limit reached: the input has {size} bytes as JSON, at most {} are taken; work in \
                 smaller pieces",
                bounds::TOOL_INPUT
            )));
        }
        Ok((*tool, key, draft))
    }

    /// Another mode is in force: what was refused under the last one is asked again.
    pub(super) fn stand(&mut self, mode: &serde_json::Value) {
        self.refusals.clear();
        match (&mut self.law, serde_json::from_value(mode.clone())) {
            (Some(law), Ok(mode)) => law.mode = mode,
            // A law that cannot be read here is no courtesy: every call is asked.
            (law, _) => *law = None,
        }
    }

    /// The worker's reading of the law: a courtesy.
    fn denied(&self, call: &Call) -> bool {
        let Some(law) = &self.law else { return false };
        let read = || {
            let action = normalise::normalise(call, &law.facts).ok()?;
            Some(evaluate::evaluate(&law.policy, law.mode, &action, &law.facts).decision)
        };
        matches!(
            catch_unwind(AssertUnwindSafe(read)),
            Ok(Some(Decision::Deny))
        )
    }

    /// What became of a call: a read that is allowed is carried out now.
    fn settle<S: Stream>(
        &mut self,
        link: &mut Link<S>,
        call: &Requested,
        tool: Tool,
        key: Digest,
        outcome: Outcome,
        cancelled: bool,
    ) -> Result<Formatted, Lost> {
        match &outcome {
            Outcome::Proceed => return self.read(link, call, tool, cancelled),
            Outcome::Refused(refusal)
                if matches!(refusal.stage, Stage::Safety | Stage::Permissions)
                    && self.refusals.len() < REFUSALS =>
            {
                self.refusals.insert(key, refusal.clone());
            }
            Outcome::Written { path, digest, .. } => self.reads.wrote(path, digest.clone()),
            _ => {}
        }
        Ok(format(tool, &outcome))
    }

    fn read<S: Stream>(
        &mut self,
        link: &mut Link<S>,
        call: &Requested,
        tool: Tool,
        cancelled: bool,
    ) -> Result<Formatted, Lost> {
        progress(link, &call.id, 66)?;
        let since = Instant::now();
        let formatted = if cancelled {
            trouble("cancelled: the person stopped the turn before this call ran; nothing was done")
        } else {
            let deadline = since + tool.contract().time_limit;
            let input = self.inputs.get(&call.id).map(|(_, input)| input.clone());
            let reads = &mut self.reads;
            let done = catch_unwind(AssertUnwindSafe(|| {
                input.and_then(|input| reads.carry_out(&input, deadline))
            }));
            match done {
                Ok(Some(formatted)) => formatted,
                Ok(None) => trouble(&format!("bug: `{tool}` is not a read of the agent's own")),
                Err(_) => panicked(tool),
            }
        };
        progress(link, &call.id, 90)?;
        link.say(&Request::Settled(Settled {
            call: call.id.clone(),
            ok: formatted.ok,
            bytes: formatted.text.len() as u64,
            ms: u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX),
        }))?;
        Ok(formatted)
    }
}

/// Names a call by what it asks; its id is another each time.
fn key(call: &Call) -> Digest {
    Digest::of_parts([
        call.tool.as_bytes(),
        b"\n",
        call.input.to_string().as_bytes(),
    ])
}

fn too_large(call: &Call) -> Option<usize> {
    let prepared = call
        .prepared
        .as_ref()
        .map_or(0, |prepared| prepared.content.len());
    let size = call.input.to_string().len();
    (size > bounds::TOOL_INPUT || prepared > bounds::TOOL_INPUT).then_some(size.max(prepared))
}

fn panicked(tool: Tool) -> Formatted {
    trouble(&format!(
        "bug: `{tool}` failed on this input; try another way"
    ))
}

fn refusal(stage: Stage, reason: String, instead: Option<String>) -> Refusal {
    Refusal {
        stage,
        rule: None,
        layer: None,
        reason,
        instead,
    }
}

fn result(call: &Requested, formatted: &Formatted) -> CallResult {
    CallResult {
        id: call.id.clone(),
        content: wrap(&call.tool, &formatted.text),
        is_error: !formatted.ok,
        essence: formatted.essence.clone(),
    }
}

fn progress<S: Stream>(link: &mut Link<S>, call: &CallId, percent: u8) -> Result<(), Lost> {
    link.note(Note::Progress {
        call: call.clone(),
        percent,
    })
}

fn note<S: Stream>(link: &mut Link<S>, text: &str) -> Result<(), Lost> {
    // 500 characters stay within the 2 KiB of a log line.
    let text = text.chars().take(500).collect();
    link.note(Note::Log { text })
}
