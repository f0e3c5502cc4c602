//! One model call from permit to answer: along the route, with its breakers and attempts. Success is
//! the terminal event.
//!
//! From cheapest to most drastic: the same model again, the next of the route, the failure. Only what
//! passes is tried again or elsewhere, and only while nothing has been forwarded: what was shown cannot
//! be taken back here. Each model of a route gets the request encoded anew, for its limits and grammar.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use protocol::Inference;
use supervisor_core::{Attempt, Infer, Permit, breaker::Breaker};

use crate::{
    BreakerChange, BreakerStore, Class, Config, Credential, InferError, Limits, Row, Script,
    attempt::{Call, Piece},
    breakers::{Held, Own},
    dialect::{SoFar, Wish},
    http::Http,
    retry::{self, Backoff},
};

mod count;

pub use count::Counted;

/// What is heard of a call while it goes on.
#[derive(Debug)]
pub enum Heard<'a> {
    /// Text as it streams; if the call fails after that, it is to be withdrawn.
    Text(&'a str),
    /// What has come so far of the attempt that runs, for a bill if it is cut.
    SoFar {
        /// Who answers.
        provider: &'a str,
        /// As which model.
        model: &'a str,
        /// What.
        so_far: SoFar,
    },
    /// An attempt failed.
    Tried(Attempt),
    /// A breaker changed its state.
    Breaker(BreakerChange),
}

/// Told what is heard.
pub type OnHeard<'a> = &'a mut (dyn FnMut(Heard<'_>) + Send);

/// Credentials that were lent for one call.
#[derive(Debug, Default)]
pub struct Lent<'a>(BTreeMap<String, &'a Credential>);

impl<'a> Lent<'a> {
    /// Nothing yet.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// And a provider's.
    #[must_use]
    pub fn and(mut self, provider: &str, credential: Option<&'a Credential>) -> Self {
        if let Some(credential) = credential {
            self.0.insert(provider.to_owned(), credential);
        }
        self
    }

    /// A provider's.
    #[must_use]
    pub fn get(&self, provider: &str) -> Option<&'a Credential> {
        self.0.get(provider).copied()
    }
}

/// The providers of this supervisor.
#[derive(Debug)]
pub struct Providers {
    pub(crate) config: Config,
    pub(crate) http: Arc<Http>,
    backoff: Backoff,
    pub(crate) script: Mutex<Option<Script>>,
    breakers: Arc<dyn BreakerStore>,
    pub(crate) wish: Wish,
}

impl Providers {
    /// Providers with the limits of the treaty and breakers of their own.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self::with_limits(config, Limits::default())
    }

    /// Providers with limits of one's own.
    #[must_use]
    pub fn with_limits(config: Config, limits: Limits) -> Self {
        Self {
            config,
            http: Arc::new(Http::new(limits)),
            backoff: Backoff::default(),
            script: Mutex::new(None),
            breakers: Arc::new(Own::default()),
            wish: Wish::default(),
        }
    }

    /// The same, whose breakers stand elsewhere.
    #[must_use]
    pub fn sharing(mut self, breakers: Arc<dyn BreakerStore>) -> Self {
        self.breakers = breakers;
        self
    }

    /// The conversation that the `script` provider plays from now on.
    pub fn set_script(&self, script: Script) {
        *lock(&self.script) = Some(script);
    }

    /// What every call asks for from now on, beside its conversation.
    pub fn set_wish(&mut self, wish: Wish) {
        self.wish = wish;
    }

    /// Rows and models.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Makes a permitted model call, along its route. Dropping the future cancels the call.
    ///
    /// # Errors
    /// [`InferError`] of the last attempt, with its class; the message is masked and may be shown.
    pub async fn infer(
        &self,
        permit: Permit<Infer>,
        lent: &Lent<'_>,
        on_heard: OnHeard<'_>,
    ) -> Result<Inference, InferError> {
        self.walk(&permit.spend(), lent, on_heard).await
    }

    /// Makes a permitted model call once: no second attempt, no fallback, and no breaker asked or told.
    ///
    /// # Errors
    /// [`InferError`] with its class; the message is masked and may be shown.
    pub async fn infer_once(
        &self,
        permit: Permit<Infer>,
        lent: &Lent<'_>,
        on_heard: OnHeard<'_>,
    ) -> Result<Inference, InferError> {
        let infer = permit.spend();
        let call = Call {
            row: self.known(&infer.provider)?,
            model: &infer.model,
            request: &infer.request,
            credential: lent.get(&infer.provider),
        };
        let began = Instant::now();
        let mut on_piece = |piece: Piece<'_>| hear(call, piece, on_heard);
        let mut result = self.attempt(call, &mut on_piece).await;
        if let Err(failure) = &mut result {
            failure.attempts = 1;
            on_heard(Heard::Tried(told(call, failure, 1, began, 0, None)));
        }
        result
    }

    fn known(&self, provider: &str) -> Result<&Row, InferError> {
        self.config.row(provider).ok_or_else(|| {
            let words = format!("no provider is named `{provider}`");
            InferError::new(Class::Client, words)
        })
    }

    /// The same call, once its permit is spent: from one model of the route to the next.
    pub(crate) async fn walk(
        &self,
        infer: &Infer,
        lent: &Lent<'_>,
        on_heard: OnHeard<'_>,
    ) -> Result<Inference, InferError> {
        let mut route = infer.route().peekable();
        let mut made = 0;
        while let Some((provider, model)) = route.next() {
            let call = Call {
                row: self.known(provider)?,
                model,
                request: &infer.request,
                credential: lent.get(provider),
            };
            let next = route
                .peek()
                .map(|(provider, model)| format!("{provider}/{model}"));
            match self.stay(call, next, made, on_heard).await {
                Ok(answer) => return Ok(answer),
                Err(Stayed::Over(failure)) => return Err(failure),
                Err(Stayed::Next { attempts }) => made = attempts,
            }
        }
        // The last model has no next one, so its failure has been returned.
        Err(InferError::new(Class::Client, "the route names no model"))
    }

    /// Asks one model until it answers or is given up.
    async fn stay(
        &self,
        call: Call<'_>,
        next: Option<String>,
        made: u32,
        on_heard: OnHeard<'_>,
    ) -> Result<Inference, Stayed> {
        let provider = call.row.name.as_str();
        let mut last: Option<InferError> = None;
        let mut attempt = 0;
        loop {
            let began = Instant::now();
            let mut forwarded = false;
            let mut failure = {
                let mut changed = |change| on_heard(Heard::Breaker(change));
                match Held::take(&*self.breakers, provider, &mut changed) {
                    Err(mut open) => {
                        if let Some(last) = &last {
                            open.message = format!("{}; last: {}", open.message, last.message);
                        }
                        open
                    }
                    Ok(lease) => {
                        attempt += 1;
                        let result = self.held(call, &lease, &mut forwarded, on_heard).await;
                        lease.observe(&result, &mut |change| on_heard(Heard::Breaker(change)));
                        match result {
                            Ok(answer) => return Ok(answer),
                            Err(failure) => failure,
                        }
                    }
                }
            };
            failure.attempts = made + attempt;
            // One that is silent or slow has cost its whole limit already: the next one is asked.
            let late = failure.limit.is_some_and(crate::Limit::is_late) && next.is_some();
            let chance = retry::chance();
            let stays = !failure.untouched && !late;
            let wait = stays
                .then(|| retry::wait(&failure, attempt, forwarded, self.backoff, chance))
                .flatten();
            let again = wait.map(|_| format!("{provider}/{}", call.model));
            let elsewhere = next
                .as_ref()
                .filter(|_| failure.class.retryable() && !forwarded);
            let then = again.or_else(|| elsewhere.cloned());
            let ms = wait.map_or(0, |wait| {
                u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
            });
            let number = failure.attempts;
            let tried = told(call, &failure, number, began, ms, then.clone());
            on_heard(Heard::Tried(tried));
            let Some(wait) = wait else {
                return Err(match then {
                    Some(_) => Stayed::Next { attempts: number },
                    None => Stayed::Over(failure),
                });
            };
            last = Some(failure);
            tokio::time::sleep(wait).await;
        }
    }

    /// One attempt under a lease, which is renewed as long as the attempt runs.
    async fn held(
        &self,
        call: Call<'_>,
        lease: &Held<'_>,
        forwarded: &mut bool,
        on_heard: OnHeard<'_>,
    ) -> Result<Inference, InferError> {
        let mut on_piece = |piece: Piece<'_>| {
            if let Piece::Text(text) = piece {
                *forwarded |= !text.is_empty();
            }
            hear(call, piece, on_heard);
        };
        let mut attempt = std::pin::pin!(self.attempt(call, &mut on_piece));
        let Some(every) = lease.renewal() else {
            return attempt.await;
        };
        loop {
            if let Ok(result) = tokio::time::timeout(every, &mut attempt).await {
                return result;
            }
            lease.renew();
        }
    }

    #[cfg(test)]
    pub(crate) async fn infer_with(
        &self,
        infer: &Infer,
        credential: Option<&Credential>,
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Inference, InferError> {
        let lent = Lent::none().and(&infer.provider, credential);
        let mut on_heard = |heard: Heard<'_>| {
            if let Heard::Text(text) = heard {
                on_delta(text);
            }
        };
        self.walk(infer, &lent, &mut on_heard).await
    }

    /// The state of a provider's breaker, to show.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn breaker(&self, provider: &str) -> Result<Breaker, String> {
        let mut found = Breaker::default();
        self.breakers
            .with(provider, &mut |breaker| found = breaker.clone())?;
        Ok(found)
    }

    #[cfg(test)]
    pub(crate) fn restore_breaker(&self, provider: &str, state: Breaker) {
        let mut state = Some(state);
        let restored = self.breakers.with(provider, &mut |breaker| {
            if let Some(state) = state.take() {
                *breaker = state;
            }
        });
        assert_eq!(restored, Ok(()));
    }

    #[cfg(test)]
    pub(crate) fn set_backoff(&mut self, backoff: Backoff) {
        self.backoff = backoff;
    }
}

/// Why one model of a route has given no answer.
enum Stayed {
    /// The call has failed.
    Over(InferError),
    /// The next of the route is asked.
    Next { attempts: u32 },
}

fn hear(call: Call<'_>, piece: Piece<'_>, on_heard: OnHeard<'_>) {
    match piece {
        Piece::Text("") => {}
        Piece::Text(text) => on_heard(Heard::Text(text)),
        Piece::SoFar(so_far) => on_heard(Heard::SoFar {
            provider: &call.row.name,
            model: call.model,
            so_far,
        }),
    }
}

fn told(
    call: Call<'_>,
    failure: &InferError,
    number: u32,
    began: Instant,
    wait_ms: u64,
    next: Option<String>,
) -> Attempt {
    let class = match failure.untouched {
        true => "breaker_open",
        false => failure.class.as_str(),
    };
    Attempt {
        number,
        provider: call.row.name.clone(),
        model: call.model.to_owned(),
        class: class.to_owned(),
        limit: failure.limit.map(|limit| limit.as_str().to_owned()),
        message: failure.message.clone(),
        ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        wait_ms,
        next,
    }
}

/// A poisoned lock only says that a panic happened elsewhere; the state behind it is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
