//! Notices that a turn goes in circles: the same calls with the same results, three times.

use protocol::{Digest, bounds};

/// The last rounds of a turn; a new user message starts anew.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    rounds: Vec<Digest>,
}

impl Progress {
    /// Notes a round of (tool, input, essence of the result) and tells the circle's length, if the
    /// last rounds are one.
    pub(crate) fn note<'a>(
        &mut self,
        round: impl IntoIterator<Item = (&'a str, &'a serde_json::Value, &'a str)>,
    ) -> Option<usize> {
        let mut text = String::new();
        for (tool, input, essence) in round {
            // Lengths keep one field from running into the next.
            let input = input.to_string();
            text.push_str(&format!(
                "{}:{tool}{}:{input}{}:",
                tool.len(),
                input.len(),
                essence.len()
            ));
            text.push_str(essence);
        }
        self.rounds.push(Digest::of(text.as_bytes()));
        let spare = self
            .rounds
            .len()
            .saturating_sub(bounds::CIRCLE_ROUNDS * bounds::CIRCLE_TIMES);
        self.rounds.drain(..spare);
        (1..=bounds::CIRCLE_ROUNDS).find(|length| self.circles(*length))
    }

    /// Forgets everything: something else happened in between.
    pub(crate) fn reset(&mut self) {
        self.rounds.clear();
    }

    fn circles(&self, length: usize) -> bool {
        let start = self.rounds.len().checked_sub(length * bounds::CIRCLE_TIMES);
        let Some(last) = start.and_then(|start| self.rounds.get(start..)) else {
            return false;
        };
        last.iter()
            .zip(last.iter().skip(length))
            .all(|(one, next)| one == next)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(rounds: &[(&str, &str)]) -> Option<usize> {
        let mut progress = Progress::default();
        let mut last = None;
        for (command, result) in rounds {
            let input = json!({"command": command});
            last = progress.note([("bash", &input, *result)]);
        }
        last
    }

    #[test]
    fn three_times_the_same_is_a_circle_and_twice_is_not() {
        assert_eq!(run(&[("make", "no"), ("make", "no")]), None);
        assert_eq!(
            run(&[("make", "no"), ("make", "no"), ("make", "no")]),
            Some(1)
        );
        assert_eq!(
            run(&[("make", "no"), ("make", "yes"), ("make", "no")]),
            None
        );
        assert_eq!(
            run(&[("a", "x"), ("make", "no"), ("make", "no"), ("make", "no")]),
            Some(1)
        );
    }

    #[test]
    fn two_commands_in_turn_are_a_circle_of_two() {
        let pair = [("install", "no"), ("build", "no")];
        assert_eq!(run(&[pair, pair].concat()), None);
        assert_eq!(run(&[pair, pair, pair].concat()), Some(2));
        let four = [("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")];
        assert_eq!(run(&[four, four, four].concat()), Some(4));
    }
}
