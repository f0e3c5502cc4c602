//! Approvals at the terminal: one question at a time, drawn by us, answered by a key and Return.
//!
//! Keystrokes that were typed before the prompt was drawn never answer it: the terminal's queue is
//! flushed and lines that are on their way are dropped when a question appears.

use std::{
    collections::VecDeque,
    io::BufRead as _,
    time::{Duration, Instant},
};

use protocol::{CallId, bounds};
use supervisor_core::{Question, QuestionAnswer, Scope, escape::escape};
use tokio::sync::mpsc;

use crate::{operator, output};

/// Questions that may wait at once; a flood beyond it is denied.
const WAITING: usize = 32;
/// Longest answer.
const ANSWER: usize = 4_096;

/// Something to ask.
#[derive(Debug)]
pub(crate) enum Prompt {
    /// An approval.
    Approval(Question),
    /// The model's own question.
    Words {
        /// The call.
        call: CallId,
        /// The question.
        question: String,
        /// Answers on offer.
        choices: Vec<String>,
    },
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Answered {
    /// An approval.
    Approval {
        /// The question.
        question: u64,
        /// Its nonce, from the prompt that was drawn.
        nonce: String,
        /// The answer.
        answer: QuestionAnswer,
    },
    /// Words for the model.
    Words {
        /// The call.
        call: CallId,
        /// The words.
        text: String,
    },
}

/// The terminal's side.
#[derive(Debug)]
pub(crate) struct Approver {
    lines: Option<mpsc::UnboundedReceiver<String>>,
    waiting: VecDeque<Prompt>,
    /// When the prompt that stands was drawn.
    drawn: Instant,
}

impl Approver {
    /// Reads the terminal on a thread of its own, which lives as long as the process; without a
    /// terminal nothing is read.
    pub(crate) fn new(interactive: bool) -> Self {
        let lines = interactive.then(|| {
            let (send, lines) = mpsc::unbounded_channel();
            std::thread::spawn(move || {
                for line in std::io::stdin().lock().lines() {
                    let Ok(mut line) = line else { return };
                    let end = (0..=ANSWER).rev().find(|&at| line.is_char_boundary(at));
                    if line.len() > ANSWER {
                        line.truncate(end.unwrap_or(0));
                    }
                    if send.send(line).is_err() {
                        return;
                    }
                }
            });
            lines
        });
        Self {
            lines,
            waiting: VecDeque::new(),
            drawn: Instant::now(),
        }
    }

    /// Queues a prompt; draws it if it is the first. Gives it back when too many wait.
    pub(crate) fn ask(&mut self, prompt: Prompt) -> Option<Prompt> {
        if self.lines.is_none() || self.waiting.len() >= WAITING {
            return Some(prompt);
        }
        self.waiting.push_back(prompt);
        if self.waiting.len() == 1 {
            self.draw();
        }
        None
    }

    /// Takes down what a call of the model's own asked and somebody else has answered.
    pub(crate) fn withdraw_call(&mut self, call: &CallId) {
        let is_it = |prompt: &Prompt| matches!(prompt, Prompt::Words { call: c, .. } if c == call);
        self.take_down(&is_it);
    }

    /// Withdraws a question.
    pub(crate) fn withdraw(&mut self, question: u64) {
        let is_it = |prompt: &Prompt| matches!(prompt, Prompt::Approval(q) if q.id == question);
        self.take_down(&is_it);
    }

    fn take_down(&mut self, is_it: &dyn Fn(&Prompt) -> bool) {
        let first = self.waiting.front().is_some_and(is_it);
        self.waiting.retain(|prompt| !is_it(prompt));
        if first {
            output::err("  (the question is closed)\n");
            self.draw();
        }
    }

    /// The next answer to the prompt that is drawn. Waits for ever without a terminal.
    pub(crate) async fn answered(&mut self) -> Answered {
        loop {
            let line = match &mut self.lines {
                Some(lines) => lines.recv().await,
                None => std::future::pending().await,
            };
            // A closed terminal answers nothing: time denies.
            let Some(line) = line else {
                self.lines = None;
                continue;
            };
            // Meant for something else: nobody reads and answers so fast.
            if !self.waiting.is_empty() && self.drawn.elapsed() < bounds::PROMPT_STANDS {
                output::err("  (typed before the question could be read: dropped)\n  > ");
                continue;
            }
            let Some(prompt) = self.waiting.pop_front() else {
                continue;
            };
            match read_answer(prompt, line.trim()) {
                Ok(answered) => {
                    self.draw();
                    return answered;
                }
                Err(prompt) => {
                    output::err(
                        "  please answer with o, t, s or n (n may be followed by a word for the model)\n",
                    );
                    self.waiting.push_front(*prompt);
                    self.draw();
                }
            }
        }
    }

    /// Draws the first prompt after throwing away whatever was typed before it.
    fn draw(&mut self) {
        let Some(prompt) = self.waiting.front() else {
            return;
        };
        let text = match prompt {
            Prompt::Approval(question) => approval(question),
            Prompt::Words {
                question, choices, ..
            } => words(question, choices),
        };
        // The reading thread may hold a line already: give it a moment to arrive, then drop it.
        let _ = nix::sys::termios::tcflush(std::io::stdin(), nix::sys::termios::FlushArg::TCIFLUSH);
        std::thread::sleep(Duration::from_millis(5));
        if let Some(lines) = &mut self.lines {
            while lines.try_recv().is_ok() {}
        }
        output::err(&text);
        self.drawn = Instant::now();
    }
}

fn approval(question: &Question) -> String {
    let scope = if question.once_only {
        ""
    } else {
        "   [t] this very action for the turn   [s] for the session"
    };
    format!(
        "\n{}\n  [o] once{scope}   [n] no   — 10 minutes, then no\n  > ",
        operator::shown(question).text()
    )
}

fn words(question: &str, choices: &[String]) -> String {
    let mut text = format!("\n  ── the agent asks\n  │ {}\n", escape(question, false));
    for (number, choice) in choices.iter().enumerate() {
        text.push_str(&format!("  {}. {}\n", number + 1, escape(choice, false)));
    }
    text.push_str("  > ");
    text
}

fn read_answer(prompt: Prompt, line: &str) -> Result<Answered, Box<Prompt>> {
    match prompt {
        Prompt::Words { call, choices, .. } => {
            let number = line.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
            let chosen = number.and_then(|n| choices.get(n)).cloned();
            Ok(Answered::Words {
                call,
                text: chosen.unwrap_or_else(|| line.to_owned()),
            })
        }
        Prompt::Approval(question) => {
            let (key, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let answer = match key {
                "o" | "once" => QuestionAnswer::Allow(Scope::Once),
                "t" | "turn" if !question.once_only => QuestionAnswer::Allow(Scope::Turn),
                "s" | "session" if !question.once_only => QuestionAnswer::Allow(Scope::Session),
                "n" | "no" => {
                    let rest = rest.trim();
                    QuestionAnswer::Deny((!rest.is_empty()).then(|| rest.to_owned()))
                }
                _ => return Err(Box::new(Prompt::Approval(question))),
            };
            Ok(Answered::Approval {
                question: question.id,
                nonce: question.nonce,
                answer,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(once_only: bool) -> Question {
        Question {
            id: 7,
            nonce: "abc".into(),
            call: CallId::parse("c1").expect("valid"),
            tool: "bash".into(),
            shown: "git push".into(),
            preview: None,
            reason: "releases are made by people".into(),
            rule: Some("no-push".into()),
            once_only,
            advice: Vec::new(),
            not_covered: Vec::new(),
        }
    }

    #[test]
    fn a_prompt_says_how_much_of_a_file_it_does_not_show() {
        let mut asked = question(false);
        asked.preview = Some("line\n".repeat(40));
        assert!(!approval(&asked).contains("NOT shown"));
        asked.preview = Some("line\n".repeat(43));
        assert!(approval(&asked).contains("3 more line(s) are NOT shown"));
    }

    #[test]
    fn an_empty_line_or_a_stray_key_answers_nothing() {
        for line in ["", "y", "yes", "O", "once-more"] {
            assert!(
                read_answer(Prompt::Approval(question(false)), line).is_err(),
                "{line:?}"
            );
        }
        assert!(
            read_answer(Prompt::Approval(question(true)), "s").is_err(),
            "no scope on offer"
        );
    }

    #[test]
    fn a_no_may_carry_a_word() {
        let answered = read_answer(Prompt::Approval(question(false)), "n use a branch");
        let Ok(Answered::Approval {
            question: 7,
            nonce,
            answer,
        }) = answered
        else {
            panic!("not an answer")
        };
        assert_eq!(nonce, "abc");
        assert_eq!(answer, QuestionAnswer::Deny(Some("use a branch".into())));
    }
}
