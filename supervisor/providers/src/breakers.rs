//! Circuit breakers at work: who may ask whom, and what each call says of its provider.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use protocol::Inference;
use supervisor_core::breaker::{Breaker, LEASE_MS, Lease, Outcome, Phase};

use crate::{Class, InferError};

/// Where breakers stand: in this process, or where several supervisors see them.
pub trait BreakerStore: fmt::Debug + Send + Sync {
    /// Looks at one provider's breaker and changes it; nobody else changes it meanwhile, and what
    /// `act` did is kept when this returns. `act` is called once.
    ///
    /// # Errors
    /// Why it can be neither read nor kept, for people.
    fn with(&self, provider: &str, act: &mut dyn FnMut(&mut Breaker)) -> Result<(), String>;
}

/// Breakers of this process alone.
#[derive(Debug, Default)]
pub(crate) struct Own(Mutex<BTreeMap<String, Breaker>>);

impl BreakerStore for Own {
    fn with(&self, provider: &str, act: &mut dyn FnMut(&mut Breaker)) -> Result<(), String> {
        // A poisoned lock only says that a panic happened elsewhere; the state behind it is whole.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act(all.entry(provider.to_owned()).or_default());
        Ok(())
    }
}

/// A breaker has changed its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerChange {
    /// Whose.
    pub provider: String,
    /// From which state.
    pub from: Phase,
    /// To which.
    pub to: Phase,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
}

/// Told of each change.
pub(crate) type OnChange<'a> = &'a mut (dyn FnMut(BreakerChange) + Send);

/// A lease that is given back whatever happens to its call.
pub(crate) struct Held<'a> {
    store: &'a dyn BreakerStore,
    provider: &'a str,
    lease: Option<Lease>,
}

impl<'a> Held<'a> {
    /// Asks the breaker.
    pub(crate) fn take(
        store: &'a dyn BreakerStore,
        provider: &'a str,
        on_change: OnChange<'_>,
    ) -> Result<Self, InferError> {
        let now = now_ms();
        let admitted = with(store, provider, now, on_change, |b| b.admit(now));
        match admitted? {
            Ok(lease) => Ok(Self {
                store,
                provider,
                lease: Some(lease),
            }),
            Err(open) => {
                let words =
                    format!("{provider} has failed again and again and is left alone: {open}");
                let mut failure = InferError::new(Class::Overload, words);
                failure.retry_after_ms = Some(open.retry_after_ms);
                failure.untouched = true;
                Err(failure)
            }
        }
    }

    /// How often a call must say that it still runs; `None` if nobody waits for its permit.
    pub(crate) fn renewal(&self) -> Option<Duration> {
        let trial = self.lease.as_ref().is_some_and(Lease::is_trial);
        trial.then(|| Duration::from_millis(LEASE_MS / 3))
    }

    /// Says that the call still runs. What cannot be said now is said the next time.
    pub(crate) fn renew(&self) {
        if let Some(lease) = &self.lease {
            let now = now_ms();
            let _ = self.store.with(self.provider, &mut |b| b.renew(lease, now));
        }
    }

    /// Says what the call says of the provider.
    pub(crate) fn observe(
        mut self,
        result: &Result<Inference, InferError>,
        on_change: OnChange<'_>,
    ) {
        let outcome = match result {
            Ok(_) => Outcome::Success,
            Err(failure) if failure.class.counts() => Outcome::Failure,
            Err(_) => Outcome::Neutral,
        };
        self.settle(outcome, on_change);
    }

    fn settle(&mut self, outcome: Outcome, on_change: OnChange<'_>) {
        if let Some(lease) = self.lease.take() {
            let (now, mut lease) = (now_ms(), Some(lease));
            // A state that cannot be kept changes nothing of the call; its permit runs out by time.
            let _ = with(self.store, self.provider, now, on_change, |b| {
                if let Some(lease) = lease.take() {
                    b.observe(lease, outcome, now);
                }
            });
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // A call that nobody waits for any more says nothing of the provider: no change of state.
        self.settle(Outcome::Neutral, &mut |_| {});
    }
}

fn with<T>(
    store: &dyn BreakerStore,
    provider: &str,
    at_ms: u64,
    on_change: OnChange<'_>,
    mut act: impl FnMut(&mut Breaker) -> T,
) -> Result<T, InferError> {
    let mut done = None;
    store
        .with(provider, &mut |breaker| {
            let from = breaker.phase();
            let result = act(breaker);
            done = Some((result, from, breaker.phase()));
        })
        .map_err(|why| {
            let words = format!("the circuit breaker of {provider} cannot be asked: {why}");
            InferError::new(Class::Other, words)
        })?;
    let Some((result, from, to)) = done else {
        let words = format!("the circuit breaker of {provider} did not answer");
        return Err(InferError::new(Class::Other, words));
    };
    if from != to {
        on_change(BreakerChange {
            provider: provider.to_owned(),
            from,
            to,
            at_ms,
        });
    }
    Ok(result)
}

/// Milliseconds since 1970: a breaker's state outlives the process, so it needs the wall clock.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
