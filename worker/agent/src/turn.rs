//! A turn's beginning, its iterations and its end.

use protocol::{Infer, Message, Role, Transition, TurnEnd, TurnStart};

use crate::{
    Intent, Reason, State, history,
    state::{At, Turn},
};

/// What the model reads after a person cancelled.
const CANCEL_NOTE: &str = "[The person stopped this turn here. Wait for what they say next.]";

/// What the model reads when a cut turn goes on.
const RESUME_NOTE: &str = "[The session was cut here and goes on. Continue with the task from where \
                           it stands; check what was done before you repeat anything.]";

/// Begins a turn: the cap on turns, the user's message, the first iteration.
pub(crate) fn begin(state: &mut State, start: TurnStart, out: &mut Vec<Intent>) {
    state.turn = Turn::default();
    // A turn that a hook asks to go on keeps its number, and is not counted again.
    let again = start.text.is_some() && start.number == state.last_turn;
    if !again && state.turns_done >= state.setup.turns {
        let detail = format!("the session has had its {} turns", state.setup.turns);
        return end(state, Reason::MaxTurnsReached, Some(detail), out);
    }
    state.last_turn = start.number;
    state.turns_done = state.turns_done.saturating_add(u32::from(!again));
    match start.text {
        // The supervisor recorded the person's message when it started the turn.
        Some(text) => history::push(&mut state.history, Message::user(text)),
        None => match state.history.last().map(|message| message.role) {
            None => {
                let detail = "there is no message to go on from".to_owned();
                return end(state, Reason::NothingToDo, Some(detail), out);
            }
            Some(Role::Assistant) => note(state, RESUME_NOTE, out),
            Some(Role::User) => state.turn.tools_used = history::ends_with_results(&state.history),
        },
    }
    iterate(state, out);
}

/// Starts the next iteration, if one is left.
pub(crate) fn iterate(state: &mut State, out: &mut Vec<Intent>) {
    if state.turn.iteration >= state.setup.iterations {
        let detail = format!("the turn has had its {} iterations", state.setup.iterations);
        return end(state, Reason::MaxIterationsReached, Some(detail), out);
    }
    state.turn.iteration += 1;
    let id = state.next_infer;
    state.next_infer += 1;
    state.at = At::Inferring { id };
    out.push(Intent::Infer(Box::new(Infer {
        id,
        system: state.setup.system.clone(),
        messages: state.history.clone(),
        tools: state
            .setup
            .tools
            .iter()
            .map(|tool| tool.spec.clone())
            .collect(),
        max_output: state.setup.max_output,
    })));
}

/// Goes on to the next iteration for a reason.
pub(crate) fn go_on(state: &mut State, reason: Reason, out: &mut Vec<Intent>) {
    out.push(transition(state, reason));
    iterate(state, out);
}

/// Adds a note of the loop to the history and the record.
pub(crate) fn note(state: &mut State, text: &str, out: &mut Vec<Intent>) {
    let message = Message::user(text);
    history::push(&mut state.history, message.clone());
    out.push(Intent::Append(message));
}

/// Ends the turn for a reason.
pub(crate) fn end(
    state: &mut State,
    reason: Reason,
    detail: Option<String>,
    out: &mut Vec<Intent>,
) {
    state.at = At::Idle;
    out.push(transition(state, reason));
    out.push(Intent::TurnEnded(TurnEnd {
        // Every reason that reaches here ends a turn; one that does not is a fault of the loop.
        reason: reason.end().unwrap_or(protocol::TurnReason::Bug),
        text: std::mem::take(&mut state.turn.last_text),
        detail,
    }));
}

/// Ends the turn because the person said so; the history is whole when this is called.
pub(crate) fn cancelled(state: &mut State, out: &mut Vec<Intent>) {
    note(state, CANCEL_NOTE, out);
    end(
        state,
        Reason::Cancelled,
        Some("the person cancelled the turn".to_owned()),
        out,
    );
}

/// A transition of the current iteration.
pub(crate) fn transition(state: &State, reason: Reason) -> Intent {
    Intent::Transition(Transition {
        iteration: state.turn.iteration.max(1),
        kind: reason.kind(),
        reason: reason.as_str().to_owned(),
    })
}
