//! What flows where in a line: which commands read, by pipes, what others write.

use std::collections::BTreeSet;

use super::spelling::with_wrappers;
use crate::{Run, shell::Simple};

/// For each simple command what may reach its standard input, by what `source` says of the commands
/// before it.
pub(super) fn fed<T: Copy>(run: &Run, source: impl Fn(&Simple) -> Option<T>) -> Vec<Option<T>> {
    let simples = &run.reading.simples;
    let wrappers: Vec<Vec<usize>> = (0..simples.len())
        .map(|index| with_wrappers(&run.reading, index))
        .collect();
    let mut fed: Vec<Option<T>> = vec![None; simples.len()];
    let mut waiting: Vec<(usize, T)> = simples
        .iter()
        .enumerate()
        .filter_map(|(index, simple)| source(simple).map(|why| (index, why)))
        .collect();
    // Each command is fed once and each source comes once, so this ends.
    while let Some((from, why)) = waiting.pop() {
        let around = wrappers.get(from).map(Vec::as_slice).unwrap_or_default();
        let was_fed = fed.get(from).copied().flatten().is_some();
        let mut reached: BTreeSet<usize> = BTreeSet::new();
        for (index, simple) in simples.iter().enumerate() {
            // `sudo curl … | sh`: what a wrapper starts writes where the wrapper does, and reads what
            // the wrapper is given.
            let piped = simple
                .piped_from
                .is_some_and(|before| around.contains(&before));
            if piped || (was_fed && simple.wrapped_by == Some(from)) {
                reached.insert(index);
            }
        }
        // A group or a loop before or behind the pipe.
        let grouped = run
            .reading
            .pipes
            .iter()
            .filter(|pipe| pipe.from.contains(&from));
        reached.extend(grouped.flat_map(|pipe| pipe.into.clone().take(simples.len())));
        for index in reached {
            if let Some(slot @ None) = fed.get_mut(index) {
                *slot = Some(why);
                waiting.push((index, why));
            }
        }
    }
    fed
}
