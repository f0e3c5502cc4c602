//! After a failed model call: wait and try again, or end with the reason.

use std::time::Duration;

use protocol::{InferFailure, bounds};

use crate::{Intent, Reason, State, state::At, turn};

/// Takes a failure.
pub(crate) fn take(state: &mut State, failure: &InferFailure, out: &mut Vec<Intent>) {
    let said = format!(
        "the model call failed ({}): {}",
        failure.class, failure.message
    );
    if !failure.retryable {
        return turn::end(state, terminal(&failure.class), Some(said), out);
    }
    if let Some(ms) = failure
        .retry_after_ms
        .filter(|ms| *ms > ms_of(bounds::RETRY_AFTER))
    {
        let detail = format!("{said}; the provider asks to wait {} s", ms / 1_000);
        return turn::end(state, Reason::ApiErrorTerminal, Some(detail), out);
    }
    if !count(state) {
        let detail = format!(
            "{said}; it failed {} times in a row",
            bounds::RECOVERIES + 1
        );
        return turn::end(state, Reason::RecoveryError, Some(detail), out);
    }
    let own = backoff(state.turn.recoveries, next_random(&mut state.seed));
    out.push(turn::transition(state, passing(&failure.class)));
    out.push(Intent::Wait {
        ms: own.max(failure.retry_after_ms.unwrap_or(0)),
    });
    state.at = At::Waiting;
}

/// Counts one recovery; false when none is left.
pub(crate) fn count(state: &mut State) -> bool {
    if state.turn.recoveries >= bounds::RECOVERIES {
        return false;
    }
    state.turn.recoveries += 1;
    true
}

fn terminal(class: &str) -> Reason {
    match class {
        "budget" => Reason::BudgetReached,
        "refusal" => Reason::AnswerFiltered,
        "context_too_long" => Reason::ContextFull,
        "stopped" => Reason::HookStopped,
        _ => Reason::ApiErrorTerminal,
    }
}

fn passing(class: &str) -> Reason {
    match class {
        "rate_limit" | "quota" => Reason::RecoverableRateLimit,
        "network" => Reason::RecoverableNetwork,
        "overload" => Reason::RecoverableOverload,
        _ => Reason::RecoverableOther,
    }
}

/// The wait before the `nth` try again (from 1): doubled each time, capped, up to a quarter more.
fn backoff(nth: u32, random: u64) -> u64 {
    let doubled = ms_of(bounds::BACKOFF_FIRST)
        .saturating_mul(1_u64.checked_shl(nth.saturating_sub(1)).unwrap_or(u64::MAX));
    let base = doubled.min(ms_of(bounds::BACKOFF_LONGEST));
    let jitter = random % (base / 4 + 1);
    (base + jitter).min(ms_of(bounds::BACKOFF_LONGEST))
}

fn ms_of(bound: Duration) -> u64 {
    u64::try_from(bound.as_millis()).unwrap_or(u64::MAX)
}

/// One step of splitmix64: no secret hangs on it, it only keeps sessions from knocking together.
fn next_random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_stay_below_the_cap_with_at_most_a_quarter_of_jitter() {
        for (nth, base) in [
            (1, 250),
            (2, 500),
            (3, 1_000),
            (7, 16_000),
            (8, 30_000),
            (200, 30_000),
        ] {
            for random in [0, 1, 7_777, u64::MAX] {
                let ms = backoff(nth, random);
                assert!(
                    ms >= base && ms <= (base + base / 4).min(ms_of(bounds::BACKOFF_LONGEST)),
                    "{nth}: {ms}"
                );
            }
        }
        let (mut one, mut other) = (1, 2);
        assert_ne!(next_random(&mut one), next_random(&mut other));
    }
}
