//! The tool calls of one answer: looked at together, run in batches, answered exactly once each.

use std::{
    collections::{BTreeSet, VecDeque},
    ops::Range,
};

use protocol::{CallId, Message, Part, Role, StopReason, bounds};
use serde_json::Value;

use crate::{CallResult, Intent, Reason, State, ToolFacts, history, state::At, turn, wrap};

/// Bytes of a schema in an error.
const SCHEMA_SHOWN: usize = 2_000;

/// A tool call as the model made it.
#[derive(Debug, Clone, PartialEq)]
pub struct Requested {
    /// The model's id.
    pub id: CallId,
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// The input.
    pub input: Value,
}

/// What preparing a call (find the tool, enabled, schema) found.
#[derive(Debug, Clone, PartialEq)]
pub enum Readiness {
    /// It may run beside others.
    Safe,
    /// It runs alone.
    Alone,
    /// It cannot run; this is its result.
    Failed(CallResult),
}

/// The calls of one answer on their way.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    calls: Vec<Requested>,
    /// What stands in the way of a call, known before it is prepared.
    broken: Vec<Option<String>>,
    plan: Vec<Readiness>,
    batches: VecDeque<Range<usize>>,
    current: Range<usize>,
    results: Vec<CallResult>,
}

/// Cuts a plan into what runs together: a safe call joins the batch (at most
/// [`bounds::BATCH`]), one that is unsafe or failed is a batch of its own. Order is kept.
#[must_use]
pub fn partition(plan: &[Readiness]) -> Vec<Range<usize>> {
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut open = false;
    for (index, readiness) in plan.iter().enumerate() {
        let safe = matches!(readiness, Readiness::Safe);
        match batches
            .last_mut()
            .filter(|last| open && safe && last.len() < bounds::BATCH)
        {
            Some(last) => last.end = index + 1,
            None => batches.push(index..index + 1),
        }
        open = safe;
    }
    batches
}

/// Takes the calls out of an answer. The message that is kept has no empty text and no id twice.
pub(crate) fn requested(
    message: Message,
    stop: StopReason,
    tools: &[ToolFacts],
) -> (Message, Option<Running>) {
    let mut seen = BTreeSet::new();
    let (mut parts, mut calls, mut broken) = (Vec::new(), Vec::new(), Vec::new());
    let last = message.parts.len().saturating_sub(1);
    for (index, part) in message.parts.into_iter().enumerate() {
        match &part {
            Part::Text { text } if text.is_empty() => continue,
            // A model cannot answer its own calls.
            Part::ToolResult { .. } => continue,
            Part::ToolCall { id, .. } if !seen.insert(id.clone()) => continue,
            Part::ToolCall { id, name, input } => {
                let cut = stop == StopReason::Length && index == last && is_blank(input);
                broken.push(obstacle(name, input, cut, calls.len(), tools));
                calls.push(Requested {
                    id: id.clone(),
                    tool: name.clone(),
                    input: input.clone(),
                });
            }
            Part::Text { .. } | Part::Reasoning { .. } => {}
        }
        parts.push(part);
    }
    let running = (!calls.is_empty()).then(|| Running {
        calls,
        broken,
        plan: Vec::new(),
        batches: VecDeque::new(),
        current: 0..0,
        results: Vec::new(),
    });
    (
        Message {
            role: Role::Assistant,
            parts,
        },
        running,
    )
}

/// An input that a cut stream leaves behind when it had not begun: no whole call can be told from it.
fn is_blank(input: &Value) -> bool {
    input.is_null() || input.as_object().is_some_and(serde_json::Map::is_empty)
}

/// What keeps a call from ever being run.
fn obstacle(
    name: &str,
    input: &Value,
    cut: bool,
    before: usize,
    tools: &[ToolFacts],
) -> Option<String> {
    if before >= bounds::CALLS_PER_ANSWER {
        return Some(format!(
            "not run: an answer may hold {} calls; send this one in the next answer",
            bounds::CALLS_PER_ANSWER
        ));
    }
    if cut {
        return Some(
            "invalid input: the output limit cut the answer before this call was complete; it was \
             not run; send it again, in smaller pieces"
                .to_owned(),
        );
    }
    let invalid = input.get("_invalid")?;
    let text = invalid.as_str().unwrap_or_default();
    let why = match serde_json::from_str::<Value>(text) {
        Ok(_) => "it is not a JSON object".to_owned(),
        Err(error) => error.to_string(),
    };
    let schema = tools
        .iter()
        .find(|tool| tool.spec.name == name)
        .map(|tool| {
            let schema: String = tool
                .spec
                .input_schema
                .to_string()
                .chars()
                .take(SCHEMA_SHOWN)
                .collect();
            format!("; the input's schema is {schema}")
        });
    let name: String = name.chars().take(64).collect();
    Some(format!(
        "invalid input: the input of `{name}` is not valid JSON ({why}); it was not run; send the \
         whole call again{}",
        schema.unwrap_or_default()
    ))
}

/// Has the calls prepared.
pub(crate) fn begin(state: &mut State, running: Running, out: &mut Vec<Intent>) {
    let whole: Vec<Requested> = running
        .calls
        .iter()
        .zip(&running.broken)
        .filter(|(_, broken)| broken.is_none())
        .map(|(call, _)| call.clone())
        .collect();
    if whole.is_empty() {
        return prepared(state, running, Vec::new(), out);
    }
    out.push(Intent::Prepare(whole));
    state.at = At::Preparing { running };
}

/// Plans the batches and starts the first.
pub(crate) fn prepared(
    state: &mut State,
    mut running: Running,
    ready: Vec<Readiness>,
    out: &mut Vec<Intent>,
) {
    let mut ready = ready.into_iter();
    running.plan = running
        .calls
        .iter()
        .zip(&running.broken)
        .map(|(call, broken)| match broken {
            Some(why) => Readiness::Failed(failed(call, why)),
            None => ready.next().unwrap_or_else(|| {
                Readiness::Failed(failed(call, "not run: the call was not prepared"))
            }),
        })
        .collect();
    running.batches = partition(&running.plan).into();
    next_batch(state, running, out);
}

/// Runs the next batch; failed calls get their result on the way.
fn next_batch(state: &mut State, mut running: Running, out: &mut Vec<Intent>) {
    while let Some(batch) = running.batches.pop_front() {
        if let Some(Readiness::Failed(result)) = running.plan.get(batch.start) {
            let result = result.clone();
            append(state, &mut running, vec![result], out);
            continue;
        }
        let calls = running
            .calls
            .get(batch.clone())
            .unwrap_or_default()
            .to_vec();
        running.current = batch;
        out.push(Intent::Run(calls));
        state.at = At::Running {
            running,
            cancelled: false,
        };
        return;
    }
    finish(state, &running, out);
}

/// Takes the results of the batch that is out.
pub(crate) fn settled(
    state: &mut State,
    mut running: Running,
    results: Vec<CallResult>,
    cancelled_meanwhile: bool,
    out: &mut Vec<Intent>,
) {
    let calls = running
        .calls
        .get(running.current.clone())
        .unwrap_or_default();
    let in_order = calls
        .iter()
        .map(|call| {
            let found = results.iter().find(|result| result.id == call.id).cloned();
            found.unwrap_or_else(|| {
                failed(
                    call,
                    "outcome unknown: no result came for this call; check what it did before you \
                     repeat it",
                )
            })
        })
        .collect();
    append(state, &mut running, in_order, out);
    if cancelled_meanwhile {
        return cancelled(state, running, out);
    }
    next_batch(state, running, out);
}

/// The person cancelled: what was not started is told so, then the turn ends.
pub(crate) fn cancelled(state: &mut State, mut running: Running, out: &mut Vec<Intent>) {
    let left = running
        .calls
        .get(running.results.len()..)
        .unwrap_or_default();
    let results = left
        .iter()
        .map(|call| {
            failed(
                call,
                "cancelled: the person stopped the turn before this call ran; nothing was done",
            )
        })
        .collect();
    append(state, &mut running, results, out);
    turn::cancelled(state, out);
}

/// Appends results as they come: durable before the next batch begins.
fn append(
    state: &mut State,
    running: &mut Running,
    results: Vec<CallResult>,
    out: &mut Vec<Intent>,
) {
    if results.is_empty() {
        return;
    }
    let parts = results.iter().map(|result| Part::ToolResult {
        id: result.id.clone(),
        content: result.content.clone(),
        is_error: result.is_error,
    });
    let message = Message {
        role: Role::User,
        parts: parts.collect(),
    };
    history::push(&mut state.history, message.clone());
    out.push(Intent::Append(message));
    running.results.extend(results);
}

/// All calls have their results: count what there is to count, and go on.
fn finish(state: &mut State, running: &Running, out: &mut Vec<Intent>) {
    let tried = running
        .plan
        .iter()
        .any(|ready| !matches!(ready, Readiness::Failed(_)));
    let turn = &mut state.turn;
    if tried {
        turn.tools_used = true;
        (turn.nudges, turn.resumes, turn.empties, turn.invalid_rounds) = (0, 0, 0, 0);
    } else {
        turn.invalid_rounds += 1;
    }
    if turn.invalid_rounds >= bounds::INVALID_ROUNDS {
        let rounds = bounds::INVALID_ROUNDS;
        let detail = format!("{rounds} answers in a row held only calls that no tool takes");
        return turn::end(state, Reason::InvalidCalls, Some(detail), out);
    }
    let waits = |call: &Requested| {
        state
            .setup
            .tools
            .iter()
            .any(|tool| tool.waits && tool.spec.name == call.tool)
    };
    if running.calls.iter().all(waits) {
        state.turn.progress.reset();
    } else {
        let round = running.calls.iter().zip(&running.results);
        let round =
            round.map(|(call, result)| (call.tool.as_str(), &call.input, result.essence.as_str()));
        if let Some(length) = state.turn.progress.note(round) {
            let what = match length {
                1 => "the same calls gave the same results".to_owned(),
                n => format!("the same {n} rounds of calls gave the same results"),
            };
            let detail = format!("no progress: {what} three times in a row");
            return turn::end(state, Reason::NoProgress, Some(detail), out);
        }
    }
    turn::go_on(state, Reason::ToolResultsAppended, out);
}

/// An error result of the loop's own.
fn failed(call: &Requested, why: &str) -> CallResult {
    #[derive(serde::Serialize)]
    struct Failed<'a> {
        ok: bool,
        error: &'a str,
    }
    let object = serde_json::to_string(&Failed {
        ok: false,
        error: why,
    });
    CallResult {
        id: call.id.clone(),
        // A bool and a string always have a JSON form.
        content: wrap::wrap(&call.tool, &object.unwrap_or_default()),
        is_error: true,
        essence: why.to_owned(),
    }
}
