//! What is open now. The session's own state decides whether an answer counts; the board only shows.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    time::Instant,
};

use policies::Mode;
use protocol::{CallId, bounds};
use supervisor_core::{Question, escape::escape};

use super::words::Shown;

/// Numbers of the model's own questions begin here: they have none of the session's.
const WORDS_FROM: u64 = 1 << 32;

/// A question that is open.
#[derive(Debug, Clone)]
struct Open {
    shown: Shown,
    since: Instant,
    /// The call, for a question of the model's own.
    words: Option<CallId>,
}

/// The mode of a session, as the operator sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    /// The mode in force.
    pub(crate) mode: Mode,
    /// Whether plan mode is on.
    pub(crate) planning: bool,
    /// The mode that no change goes beyond.
    pub(crate) ceiling: Mode,
}

/// The mode as the model reads it.
pub(crate) fn in_words(mode: Mode, planning: bool) -> String {
    let mode = mode.as_str();
    if planning {
        format!(
            "{mode}; plan mode is on: until a person approves the plan that `submit_plan` hands in, everything but a proven read is denied"
        )
    } else {
        mode.to_owned()
    }
}

/// The open questions of one session, and its mode.
#[derive(Debug, Clone)]
pub(crate) struct Board {
    standing: Rc<Cell<Standing>>,
    open: Rc<RefCell<BTreeMap<u64, Open>>>,
}

impl Board {
    /// With nothing asked yet.
    pub(crate) fn new(standing: Standing) -> Self {
        Self {
            standing: Rc::new(Cell::new(standing)),
            open: Rc::default(),
        }
    }

    /// The mode in force.
    pub(super) fn standing(&self) -> Standing {
        self.standing.get()
    }

    /// Another mode is in force.
    pub(crate) fn stand(&self, mode: Mode, planning: bool) {
        let ceiling = self.standing.get().ceiling;
        self.standing.set(Standing {
            mode,
            planning,
            ceiling,
        });
    }

    /// Shows an approval.
    pub(crate) fn add(&self, question: &Question) {
        self.put(shown(question), None);
    }

    /// Shows a question of the model's own.
    pub(crate) fn add_words(&self, call: &CallId, question: &str, choices: &[String], nonce: &str) {
        let number = self.open.borrow().keys().next_back().copied();
        let shown = Shown {
            question: number.unwrap_or(0).max(WORDS_FROM) + 1,
            nonce: nonce.to_owned(),
            call: call.to_string(),
            tool: "ask_user".to_owned(),
            action: escape(question, false),
            preview: None,
            reason: "the agent asks".to_owned(),
            rule: None,
            once_only: true,
            advice: Vec::new(),
            not_covered: Vec::new(),
            choices: Some(choices.iter().map(|choice| escape(choice, false)).collect()),
            seconds_left: 0,
        };
        self.put(shown, Some(call.clone()));
    }

    fn put(&self, shown: Shown, words: Option<CallId>) {
        let since = Instant::now();
        let open = Open {
            shown,
            since,
            words,
        };
        self.open.borrow_mut().insert(open.shown.question, open);
    }

    /// Takes a question down.
    pub(crate) fn remove(&self, question: u64) {
        self.open.borrow_mut().remove(&question);
    }

    /// Takes down what a call of the model's own asked.
    pub(crate) fn remove_call(&self, call: &CallId) {
        let mut open = self.open.borrow_mut();
        open.retain(|_, open| open.words.as_ref() != Some(call));
    }

    /// What is open, the oldest first.
    pub(super) fn all(&self) -> Vec<Shown> {
        let left = |open: &Open| {
            let left = bounds::APPROVAL.saturating_sub(open.since.elapsed());
            Shown {
                seconds_left: left.as_secs(),
                ..open.shown.clone()
            }
        };
        self.open.borrow().values().map(left).collect()
    }

    /// The open question of that number and nonce: whose call it is if it is the model's own.
    pub(super) fn find(&self, question: u64, nonce: &str) -> Option<(Shown, Option<CallId>)> {
        let open = self.open.borrow();
        let found = open.get(&question)?;
        (found.shown.nonce == nonce).then(|| (found.shown.clone(), found.words.clone()))
    }
}

/// An approval as people see it.
pub(crate) fn shown(question: &Question) -> Shown {
    Shown {
        question: question.id,
        nonce: question.nonce.clone(),
        call: question.call.to_string(),
        tool: question.tool.clone(),
        action: question.shown.clone(),
        preview: question.preview.clone(),
        reason: question.reason.clone(),
        rule: question.rule.clone(),
        once_only: question.once_only,
        advice: question.advice.clone(),
        not_covered: question.not_covered.clone(),
        choices: None,
        seconds_left: bounds::APPROVAL.as_secs(),
    }
}
