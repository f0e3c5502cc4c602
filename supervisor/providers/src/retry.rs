//! When to try again and how long to wait: pure, with the randomness passed in.

use std::time::Duration;

use protocol::bounds;

use crate::InferError;

/// The steps of the wait between two attempts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    /// Longest wait before the second attempt; it doubles from there.
    pub(crate) first: Duration,
    /// Longest wait without advice.
    pub(crate) cap: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(500),
            cap: Duration::from_secs(8),
        }
    }
}

/// How long to wait before the next attempt, or `None` if there is none.
///
/// `attempt` counts from 1. What was forwarded cannot be taken back here, so nothing is tried again
/// after the first delta. `chance` is uniform: full jitter keeps many sessions from knocking together.
pub(crate) fn wait(
    failure: &InferError,
    attempt: u32,
    forwarded: bool,
    backoff: Backoff,
    chance: u64,
) -> Option<Duration> {
    let passes = failure.retryable && failure.class.retryable() && !failure.silent;
    if !passes || forwarded || attempt >= bounds::ATTEMPTS {
        return None;
    }
    let advised = Duration::from_millis(failure.retry_after_ms.unwrap_or(0));
    if advised > bounds::RETRY_WAIT {
        return None;
    }
    let longest = backoff
        .first
        .saturating_mul(1 << (attempt - 1).min(16))
        .min(backoff.cap);
    let longest = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
    let jitter = Duration::from_millis(chance % longest.saturating_add(1).max(1));
    Some(advised.saturating_add(jitter).min(bounds::RETRY_WAIT))
}

/// A random number from the kernel; if it has none, the middle.
pub(crate) fn chance() -> u64 {
    getrandom::u64().unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    fn failure(class: Class, retry_after_ms: Option<u64>) -> InferError {
        InferError {
            retry_after_ms,
            ..InferError::new(class, "x")
        }
    }

    #[test]
    fn only_what_passes_is_tried_again_and_at_most_three_times() {
        let all = [
            (Class::Client, false),
            (Class::ContextTooLong, false),
            (Class::Authentication, false),
            (Class::RateLimit, true),
            (Class::Quota, false),
            (Class::Network, true),
            (Class::Overload, true),
            (Class::Refusal, false),
            (Class::Other, false),
        ];
        for (class, again) in all {
            let failure = failure(class, None);
            for attempt in 1..=4 {
                let wait = wait(&failure, attempt, false, Backoff::default(), 7);
                assert_eq!(wait.is_some(), again && attempt < 3, "{class:?} {attempt}");
            }
            assert_eq!(
                wait(&failure, 1, true, Backoff::default(), 7),
                None,
                "after a delta"
            );
        }
        let silent = InferError {
            silent: true,
            ..failure(Class::Network, None)
        };
        assert_eq!(wait(&silent, 1, false, Backoff::default(), 7), None);
        let told = InferError {
            retryable: false,
            ..failure(Class::Overload, None)
        };
        assert_eq!(wait(&told, 1, false, Backoff::default(), 7), None);
    }

    #[test]
    fn the_wait_is_jittered_doubles_and_keeps_the_providers_advice() {
        let plain = failure(Class::Overload, None);
        let longest = |attempt| {
            let waits =
                (0..20_000).map(|chance| wait(&plain, attempt, false, Backoff::default(), chance));
            waits.flatten().max().expect("some")
        };
        assert_eq!(longest(1), Duration::from_millis(500));
        assert_eq!(longest(2), Duration::from_millis(1_000));
        assert_eq!(
            wait(&plain, 1, false, Backoff::default(), 0),
            Some(Duration::ZERO)
        );
        let advised = failure(Class::RateLimit, Some(2_000));
        for chance in 0..1_000 {
            let wait = wait(&advised, 1, false, Backoff::default(), chance).expect("again");
            assert!(wait >= Duration::from_secs(2) && wait <= Duration::from_millis(2_500));
        }
        let hours = failure(Class::RateLimit, Some(45_240_000));
        assert_eq!(
            wait(&hours, 1, false, Backoff::default(), 1),
            None,
            "told, not slept through"
        );
        let most = failure(Class::RateLimit, Some(60_000));
        assert_eq!(
            wait(&most, 1, false, Backoff::default(), 400),
            Some(bounds::RETRY_WAIT)
        );
    }
}
