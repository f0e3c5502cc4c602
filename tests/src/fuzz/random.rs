//! Numbers that look random and repeat: one seed, one run.

/// A stream of numbers (SplitMix64): small, fast, and the same on every machine.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// The stream of a seed.
    #[must_use]
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let Ok(wide) = u64::try_from(bound) else {
            return 0;
        };
        let drawn = self.next().checked_rem(wide).unwrap_or(0);
        usize::try_from(drawn).unwrap_or(0)
    }

    /// True once in `times`.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of a list; `None` if it is empty.
    pub(super) fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.below(list.len()))
    }

    /// A range within `length`, at most `longest` long.
    pub(super) fn range(&mut self, length: usize, longest: usize) -> std::ops::Range<usize> {
        let start = self.below(length.saturating_add(1));
        let room = length.saturating_sub(start).min(longest);
        let end = start.saturating_add(self.below(room.saturating_add(1)));
        start..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_stays_in_its_bounds() {
        let (mut one, mut two) = (Random::new(7), Random::new(7));
        for _ in 0..1_000 {
            let drawn = one.below(10);
            assert!(drawn < 10);
            assert_eq!(drawn, two.below(10));
            let range = one.range(20, 5);
            assert!(range.end <= 20 && range.len() <= 5);
            assert_eq!(range, two.range(20, 5));
        }
        assert_ne!(Random::new(1).next(), Random::new(2).next());
        assert_eq!(Random::new(1).below(0), 0);
    }
}
