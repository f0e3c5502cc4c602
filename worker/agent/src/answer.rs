//! After a model's answer: run its calls, or decide whether the turn is over.

use protocol::{Inference, Message, Role, StopReason, bounds};

use crate::{Intent, Reason, State, announces_next_step, calls, history, recovery, turn};

const RESUME: &str = "[The output limit cut your answer. Resume exactly where it stopped, without \
                      apology or recap. Work in smaller pieces: shorter answers, one file at a time.]";
const NUDGE: &str = "[You announced a next step and stopped. Take it now with the tools, or say \
                     plainly that you are finished and what the result is.]";
const EMPTY: &str =
    "[Your last answer was empty. Go on with the task, or give the final answer as text.]";
const MALFORMED: &str = "[Your last answer could not be read. Send it again; call tools only with \
                         inputs that are whole JSON objects.]";

/// Takes a whole answer.
pub(crate) fn take(state: &mut State, answer: Inference, out: &mut Vec<Intent>) {
    let Inference { message, stop, .. } = answer;
    let (message, running) = calls::requested(message, stop, &state.setup.tools);
    let text = message.text();
    let empty = history::is_empty(&message);
    if !text.trim().is_empty() {
        state.turn.last_text.clone_from(&text);
    }
    history::push(
        &mut state.history,
        Message {
            role: Role::Assistant,
            parts: message.parts,
        },
    );
    if let Some(running) = running {
        state.turn.recoveries = 0;
        return calls::begin(state, running, out);
    }
    match stop {
        StopReason::Length => resume(state, out),
        StopReason::ContextFull => {
            let detail = "the conversation no longer fits the model's context".to_owned();
            turn::end(state, Reason::ContextFull, Some(detail), out);
        }
        StopReason::Filtered => {
            let detail = "the provider refused or filtered the answer".to_owned();
            turn::end(state, Reason::AnswerFiltered, Some(detail), out);
        }
        StopReason::Malformed => malformed(state, out),
        // Bounded by the iterations.
        StopReason::Continue => turn::go_on(state, Reason::ProviderPaused, out),
        StopReason::End | StopReason::Tool | StopReason::Other if empty => no_answer(state, out),
        StopReason::End | StopReason::Tool | StopReason::Other => {
            state.turn.recoveries = 0;
            stop_or_nudge(state, &text, out);
        }
    }
}

fn resume(state: &mut State, out: &mut Vec<Intent>) {
    if state.turn.resumes >= bounds::RESUMES {
        let detail = format!(
            "the output limit cut the answer {} times in a row",
            bounds::RESUMES + 1
        );
        return turn::end(state, Reason::OutputLimitReached, Some(detail), out);
    }
    state.turn.resumes += 1;
    turn::note(state, RESUME, out);
    turn::go_on(state, Reason::OutputLimitResume, out);
}

fn malformed(state: &mut State, out: &mut Vec<Intent>) {
    if !recovery::count(state) {
        let detail = "the model's answers could not be read".to_owned();
        return turn::end(state, Reason::RecoveryError, Some(detail), out);
    }
    turn::note(state, MALFORMED, out);
    turn::go_on(state, Reason::MalformedAnswer, out);
}

fn no_answer(state: &mut State, out: &mut Vec<Intent>) {
    if state.turn.empties >= bounds::EMPTY_ANSWERS {
        let detail = "no answer from the model: it sent nothing twice".to_owned();
        return turn::end(state, Reason::NoAnswer, Some(detail), out);
    }
    state.turn.empties += 1;
    turn::note(state, EMPTY, out);
    turn::go_on(state, Reason::EmptyAnswerRetry, out);
}

fn stop_or_nudge(state: &mut State, text: &str, out: &mut Vec<Intent>) {
    if !state.turn.tools_used || !announces_next_step(text) {
        return turn::end(state, Reason::StopReasonTerminal, None, out);
    }
    if state.turn.nudges >= bounds::NUDGES {
        let detail = "the model announced a next step again and again and never took it".to_owned();
        return turn::end(state, Reason::NudgesExhausted, Some(detail), out);
    }
    state.turn.nudges += 1;
    turn::note(state, NUDGE, out);
    turn::go_on(state, Reason::ContinuationNudge, out);
}
