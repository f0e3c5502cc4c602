//! The circuit breaker of one provider: a provider that keeps failing is left alone for a minute.
//!
//! Closed, every call is admitted, and [`FAILURES`] failures in a row open it. Open, every call is
//! turned away for [`OPEN_MS`] without touching the provider. Then it is half-open and lends
//! [`TRIALS`] trial permits: all of them must succeed for it to close, one failure opens it again.
//!
//! A permit is a lease: it comes back with a neutral outcome (a client error says nothing about the
//! provider, a cancelled call neither) and, when its holder died and renews it no more, after
//! [`LEASE_MS`]. Each change of state has its own generation, so what a call of an older state reports changes nothing.
//! Time is passed in as milliseconds of the wall clock, because the state outlives the process.

use serde::{Deserialize, Serialize};

/// Failures in a row that open a closed breaker: one bad minute of a provider, not one bad call.
pub const FAILURES: u32 = 5;
/// How long it stays open, in milliseconds.
pub const OPEN_MS: u64 = 60_000;
/// Trial calls of a half-open breaker, all of which must succeed.
pub const TRIALS: usize = 3;
/// After this many milliseconds without a word of its holder a trial permit is taken back. A holder
/// that lives renews it ([`Breaker::renew`]), however long its call takes; one that died does not.
pub const LEASE_MS: u64 = 30_000;

/// The breaker of one provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Breaker {
    generation: u64,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        since_ms: u64,
    },
    HalfOpen {
        /// Trials that succeeded.
        succeeded: usize,
        /// Trials under way.
        leased: Vec<Trial>,
        /// Names the next trial.
        next: u64,
    },
}

impl Default for State {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trial {
    id: u64,
    since_ms: u64,
}

/// The right to make one call; whoever has it owes the breaker an outcome.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a lease whose outcome is never observed holds a trial permit until it expires"]
pub struct Lease {
    generation: u64,
    trial: Option<u64>,
}

impl Lease {
    /// Whether it is one of the few of a half-open breaker, to be renewed while its call runs.
    #[must_use]
    pub fn is_trial(&self) -> bool {
        self.trial.is_some()
    }
}

/// What a call says about its provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It answered to the end.
    Success,
    /// It could not be reached, was overloaded, or ran into a time limit.
    Failure,
    /// Nothing: the request was at fault, or the call was cancelled.
    Neutral,
}

/// The call is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the circuit breaker is open; next trial in {retry_after_ms} ms")]
pub struct Open {
    /// When asking again may help.
    pub retry_after_ms: u64,
}

/// The state without its figures, to show and to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Calls pass.
    Closed,
    /// Calls are turned away.
    Open,
    /// Trial calls pass.
    HalfOpen,
}

impl Phase {
    /// The word for people and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

impl Breaker {
    /// The state to show. An open breaker whose time is over shows as open until the next call.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.state {
            State::Closed { .. } => Phase::Closed,
            State::Open { .. } => Phase::Open,
            State::HalfOpen { .. } => Phase::HalfOpen,
        }
    }

    /// Asks to make a call.
    ///
    /// # Errors
    /// [`Open`] says when asking again may help.
    pub fn admit(&mut self, now_ms: u64) -> Result<Lease, Open> {
        if let State::Open { since_ms } = &mut self.state {
            // A clock that was set back must not keep the provider shut out for longer than promised.
            *since_ms = (*since_ms).min(now_ms);
            let waited = now_ms - *since_ms;
            if waited < OPEN_MS {
                return Err(Open {
                    retry_after_ms: OPEN_MS - waited,
                });
            }
            self.enter(State::HalfOpen {
                succeeded: 0,
                leased: Vec::new(),
                next: 0,
            });
        }
        let generation = self.generation;
        let State::HalfOpen {
            succeeded,
            leased,
            next,
        } = &mut self.state
        else {
            return Ok(Lease {
                generation,
                trial: None,
            });
        };
        for trial in leased.iter_mut() {
            trial.since_ms = trial.since_ms.min(now_ms);
        }
        leased.retain(|trial| now_ms - trial.since_ms < LEASE_MS);
        if *succeeded + leased.len() >= TRIALS {
            // How long the trials take is not known; a second is soon enough to look again.
            return Err(Open {
                retry_after_ms: 1_000,
            });
        }
        let id = *next;
        *next += 1;
        leased.push(Trial {
            id,
            since_ms: now_ms,
        });
        Ok(Lease {
            generation,
            trial: Some(id),
        })
    }

    /// Takes a call's outcome; what belongs to an older state or to an expired lease changes nothing.
    pub fn observe(&mut self, lease: Lease, outcome: Outcome, now_ms: u64) {
        if lease.generation != self.generation {
            return;
        }
        match &mut self.state {
            State::Closed { failures } => match outcome {
                Outcome::Success => *failures = 0,
                Outcome::Neutral => {}
                Outcome::Failure => {
                    *failures += 1;
                    if *failures >= FAILURES {
                        self.enter(State::Open { since_ms: now_ms });
                    }
                }
            },
            State::Open { .. } => {}
            State::HalfOpen {
                succeeded, leased, ..
            } => {
                let Some(at) = leased
                    .iter()
                    .position(|trial| Some(trial.id) == lease.trial)
                else {
                    return;
                };
                leased.remove(at);
                match outcome {
                    Outcome::Neutral => {}
                    Outcome::Failure => self.enter(State::Open { since_ms: now_ms }),
                    Outcome::Success => {
                        *succeeded += 1;
                        if *succeeded >= TRIALS {
                            self.enter(State::Closed { failures: 0 });
                        }
                    }
                }
            }
        }
    }

    /// The holder of a trial permit lives: its deadline begins anew. One that has expired stays so.
    pub fn renew(&mut self, lease: &Lease, now_ms: u64) {
        if let State::HalfOpen { leased, .. } = &mut self.state
            && lease.generation == self.generation
            && let Some(trial) = leased.iter_mut().find(|t| Some(t.id) == lease.trial)
            && now_ms.saturating_sub(trial.since_ms) < LEASE_MS
        {
            trial.since_ms = now_ms;
        }
    }

    fn enter(&mut self, state: State) {
        self.generation = self.generation.wrapping_add(1);
        self.state = state;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(breaker: &mut Breaker, times: u32, now: u64) {
        for _ in 0..times {
            let lease = breaker.admit(now).expect("admitted");
            breaker.observe(lease, Outcome::Failure, now);
        }
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::default();
        fail(&mut breaker, FAILURES, 1_000);
        assert_eq!(breaker.phase(), Phase::Open);
        breaker
    }

    fn trials(breaker: &mut Breaker, now: u64) -> Vec<Lease> {
        (0..TRIALS)
            .map(|_| breaker.admit(now).expect("a trial"))
            .collect()
    }

    #[test]
    fn five_failures_in_a_row_open_it_and_a_success_between_starts_the_count_again() {
        let mut breaker = Breaker::default();
        fail(&mut breaker, FAILURES - 1, 0);
        let lease = breaker.admit(0).expect("closed");
        breaker.observe(lease, Outcome::Success, 0);
        fail(&mut breaker, FAILURES - 1, 0);
        let lease = breaker.admit(0).expect("closed");
        breaker.observe(lease, Outcome::Neutral, 0);
        assert_eq!(breaker.phase(), Phase::Closed);
        fail(&mut breaker, 1, 7);
        assert_eq!(breaker.phase(), Phase::Open);
        assert_eq!(
            breaker.admit(8),
            Err(Open {
                retry_after_ms: OPEN_MS - 1
            })
        );
    }

    #[test]
    fn after_a_minute_three_trials_pass_and_all_must_succeed() {
        let mut breaker = opened();
        assert!(breaker.admit(1_000 + OPEN_MS - 1).is_err());
        let leases = trials(&mut breaker, 1_000 + OPEN_MS);
        assert!(breaker.admit(1_000 + OPEN_MS).is_err(), "no fourth trial");
        for (done, lease) in leases.into_iter().enumerate() {
            assert_eq!(breaker.phase(), Phase::HalfOpen, "after {done} successes");
            breaker.observe(lease, Outcome::Success, 70_000);
        }
        assert_eq!(breaker.phase(), Phase::Closed);
    }

    #[test]
    fn one_failed_trial_opens_it_again_and_the_others_come_too_late() {
        let mut breaker = opened();
        let mut leases = trials(&mut breaker, 100_000);
        breaker.observe(leases.remove(0), Outcome::Failure, 100_001);
        let before = breaker.clone();
        for lease in leases {
            breaker.observe(lease, Outcome::Success, 100_002);
        }
        assert_eq!(breaker, before);
        assert_eq!(
            breaker.admit(100_001),
            Err(Open {
                retry_after_ms: OPEN_MS
            })
        );
    }

    #[test]
    fn a_trial_permit_comes_back_with_a_neutral_outcome_and_after_its_holder_died() {
        let mut breaker = opened();
        let mut leases = trials(&mut breaker, 100_000);
        breaker.observe(leases.remove(0), Outcome::Neutral, 100_001);
        let again = breaker.admit(100_002).expect("given back");
        breaker.observe(again, Outcome::Success, 100_003);
        assert!(breaker.admit(100_003).is_err());
        assert!(
            breaker.admit(100_000 + LEASE_MS).is_ok(),
            "the lost leases have expired"
        );
        for late in leases {
            breaker.observe(late, Outcome::Failure, 100_001 + LEASE_MS);
        }
        assert_eq!(
            breaker.phase(),
            Phase::HalfOpen,
            "an expired lease says nothing"
        );
    }

    #[test]
    fn a_holder_that_renews_keeps_its_trial_and_one_that_expired_cannot() {
        let mut breaker = opened();
        let mut leases = trials(&mut breaker, 100_000);
        let (slow, dead) = (leases.remove(0), leases.remove(0));
        assert!(slow.is_trial());
        breaker.renew(&slow, 100_000 + LEASE_MS - 1);
        let _again = breaker.admit(100_000 + LEASE_MS).expect("the dead one's");
        let _other = breaker
            .admit(100_000 + LEASE_MS)
            .expect("another dead one's");
        assert!(
            breaker.admit(100_000 + LEASE_MS).is_err(),
            "the slow one has its own"
        );
        breaker.renew(&dead, 100_001 + LEASE_MS);
        breaker.observe(dead, Outcome::Failure, 100_002 + LEASE_MS);
        assert_eq!(breaker.phase(), Phase::HalfOpen, "it came too late");
        breaker.observe(slow, Outcome::Failure, 100_003 + LEASE_MS);
        assert_eq!(breaker.phase(), Phase::Open);
    }

    #[test]
    fn a_clock_set_back_keeps_nobody_out_for_longer_than_a_minute() {
        let mut breaker = Breaker::default();
        fail(&mut breaker, FAILURES, 10_000_000);
        assert_eq!(
            breaker.admit(5),
            Err(Open {
                retry_after_ms: OPEN_MS
            })
        );
        assert!(breaker.admit(5 + OPEN_MS).is_ok());
    }

    #[test]
    fn the_state_survives_a_restart() {
        let mut breaker = opened();
        let lease = breaker.admit(200_000).expect("a trial");
        let text = serde_json::to_string(&breaker).expect("encodes");
        let mut back: Breaker = serde_json::from_str(&text).expect("decodes");
        assert_eq!(back, breaker);
        back.observe(lease, Outcome::Failure, 200_001);
        assert_eq!(back.phase(), Phase::Open);
    }
}

#[cfg(test)]
mod model {
    //! The breaker beside a reference that keeps the whole history of leases and thinks no further.

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Copy)]
    enum Move {
        Admit,
        Observe(usize, Outcome),
        Drop(usize),
        Renew(usize),
        Wait(u64),
    }

    fn moves() -> impl Strategy<Value = Vec<Move>> {
        let outcome = prop_oneof![
            3 => Just(Outcome::Failure),
            3 => Just(Outcome::Success),
            1 => Just(Outcome::Neutral),
        ];
        let one = prop_oneof![
            6 => Just(Move::Admit),
            6 => (0..8_usize, outcome).prop_map(|(at, outcome)| Move::Observe(at, outcome)),
            1 => (0..8_usize).prop_map(Move::Drop),
            2 => (0..8_usize).prop_map(Move::Renew),
            2 => prop_oneof![1..1_000_u64, Just(OPEN_MS - 1), Just(OPEN_MS), Just(LEASE_MS / 2), Just(LEASE_MS)]
                .prop_map(Move::Wait),
        ];
        proptest::collection::vec(one, 0..200)
    }

    /// Epoch = stretch of time in one state; a permit remembers the epoch that it was given in.
    struct Reference {
        epoch: usize,
        phase: Phase,
        opened: u64,
        run: u32,
        won: usize,
        out: Vec<(usize, u64)>,
        given: usize,
    }

    impl Reference {
        fn turn(&mut self, phase: Phase, now: u64) {
            *self = Self {
                epoch: self.epoch + 1,
                phase,
                opened: now,
                run: 0,
                won: 0,
                out: Vec::new(),
                given: self.given,
            };
        }

        fn admit(&mut self, now: u64) -> Option<(usize, usize)> {
            if self.phase == Phase::Open && now - self.opened >= OPEN_MS {
                self.turn(Phase::HalfOpen, now);
            }
            self.out.retain(|(_, since)| now - since < LEASE_MS);
            let full = self.won + self.out.len() >= TRIALS;
            if self.phase == Phase::Open || (self.phase == Phase::HalfOpen && full) {
                return None;
            }
            self.given += 1;
            if self.phase == Phase::HalfOpen {
                self.out.push((self.given, now));
            }
            Some((self.epoch, self.given))
        }

        fn renew(&mut self, (epoch, id): (usize, usize), now: u64) {
            if epoch == self.epoch {
                let mine = self.out.iter_mut().filter(|(other, _)| *other == id);
                for (_, since) in mine.filter(|(_, since)| now - *since < LEASE_MS) {
                    *since = now;
                }
            }
        }

        fn observe(&mut self, (epoch, id): (usize, usize), outcome: Outcome, now: u64) {
            if epoch != self.epoch {
                return;
            }
            if self.phase == Phase::Closed {
                match outcome {
                    Outcome::Success => self.run = 0,
                    Outcome::Failure => self.run += 1,
                    Outcome::Neutral => {}
                }
                if self.run == FAILURES {
                    self.turn(Phase::Open, now);
                }
                return;
            }
            let before = self.out.len();
            self.out.retain(|(other, _)| *other != id);
            if self.out.len() == before {
                return;
            }
            match outcome {
                Outcome::Neutral => {}
                Outcome::Failure => self.turn(Phase::Open, now),
                Outcome::Success => {
                    self.won += 1;
                    if self.won == TRIALS {
                        self.turn(Phase::Closed, now);
                    }
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

        #[test]
        fn it_does_what_the_reference_does(moves in moves()) {
            let mut breaker = Breaker::default();
            let mut reference = Reference {
                epoch: 0, phase: Phase::Closed, opened: 0, run: 0, won: 0, out: Vec::new(), given: 0,
            };
            let mut held: Vec<(Lease, (usize, usize))> = Vec::new();
            let mut now = 1_u64;
            for step in moves {
                match step {
                    Move::Admit => {
                        let ours = breaker.admit(now);
                        let theirs = reference.admit(now);
                        prop_assert_eq!(ours.is_ok(), theirs.is_some());
                        if let Err(open) = &ours {
                            prop_assert!(open.retry_after_ms > 0 && open.retry_after_ms <= OPEN_MS);
                        }
                        if let (Ok(lease), Some(permit)) = (ours, theirs) {
                            held.push((lease, permit));
                        }
                    }
                    Move::Observe(at, outcome) if at < held.len() => {
                        let (lease, permit) = held.remove(at);
                        breaker.observe(lease, outcome, now);
                        reference.observe(permit, outcome, now);
                    }
                    Move::Drop(at) if at < held.len() => drop(held.remove(at)),
                    Move::Renew(at) if at < held.len() => {
                        let (lease, permit) = &held[at];
                        breaker.renew(lease, now);
                        reference.renew(*permit, now);
                    }
                    Move::Observe(..) | Move::Drop(_) | Move::Renew(_) => {}
                    Move::Wait(ms) => now += ms,
                }
                prop_assert_eq!(breaker.phase(), reference.phase);
                let text = serde_json::to_string(&breaker).expect("encodes");
                breaker = serde_json::from_str(&text).expect("decodes");
            }
        }
    }
}
