//! Reasoning that a model writes into its text, between `<think>` and `</think>`, taken apart.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Where in the text we are. Only reasoning at the very beginning is reasoning.
#[derive(Debug, Default)]
pub(crate) struct Tags {
    state: State,
    held: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    Thinking,
    Said,
}

impl Tags {
    /// Takes text; gives what of it is reasoning and what is text.
    pub(crate) fn push(&mut self, text: &str) -> (String, String) {
        if self.state == State::Said {
            return (String::new(), text.to_owned());
        }
        self.held.push_str(text);
        let (mut thought, mut said) = (String::new(), String::new());
        if self.state == State::Start {
            let begun = self.held.trim_start();
            if let Some(rest) = begun.strip_prefix(OPEN) {
                self.held = rest.to_owned();
                self.state = State::Thinking;
            } else if !OPEN.starts_with(begun) {
                said = std::mem::take(&mut self.held);
                self.state = State::Said;
            }
        }
        if self.state == State::Thinking {
            if let Some((inside, rest)) = self.held.split_once(CLOSE) {
                thought.push_str(inside);
                said = rest.trim_start_matches('\n').to_owned();
                self.held.clear();
                self.state = State::Said;
            } else {
                // What may be the beginning of the end is held back.
                let kept = (1..CLOSE.len()).rev().find(|n| {
                    CLOSE
                        .get(..*n)
                        .is_some_and(|head| self.held.ends_with(head))
                });
                let at = self.held.len() - kept.unwrap_or(0);
                let tail = self.held.split_off(at);
                thought = std::mem::replace(&mut self.held, tail);
            }
        }
        (thought, said)
    }

    /// What was held back.
    pub(crate) fn finish(self) -> (String, String) {
        match self.state {
            State::Thinking => (self.held, String::new()),
            State::Start | State::Said => (String::new(), self.held),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str, size: usize) -> (String, String) {
        let mut tags = Tags::default();
        let (mut thought, mut said) = (String::new(), String::new());
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(size) {
            let (t, s) = tags.push(&piece.iter().collect::<String>());
            thought.push_str(&t);
            said.push_str(&s);
        }
        let (t, s) = tags.finish();
        (thought + &t, said + &s)
    }

    #[test]
    fn reasoning_at_the_beginning_is_taken_out_in_any_pieces() {
        for (text, thought, said) in [
            (
                "\n<think>a </b> ü</think>\n\nb <think>",
                "a </b> ü",
                "b <think>",
            ),
            ("plain", "", "plain"),
            (" <thin", "", " <thin"),
            ("<think>never ends </thin", "never ends </thin", ""),
            ("<think></think>x", "", "x"),
            ("", "", ""),
        ] {
            for size in 1..=text.chars().count().max(1) {
                let got = split(text, size);
                assert_eq!(
                    (got.0.as_str(), got.1.trim_start_matches('\n')),
                    (thought, said),
                    "{text} by {size}"
                );
            }
        }
    }
}
