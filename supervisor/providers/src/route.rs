//! One model call from permit to answer: row, breaker, attempts. Success is the terminal event.

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use protocol::{Inference, Part};
use supervisor_core::{
    Infer, Masker, Permit,
    breaker::{Breaker, Lease, Outcome, Phase},
};

use crate::{
    Class, Config, Credential, Dialect, InferError, Limits, Row, Script, auth,
    classify::{Hints, Upstream},
    dialect::{self, Decode, StreamFault, Target, Wish},
    http::{Answer, Http, Post},
    retry::{self, Backoff},
    script::Play,
};

mod count;

pub use count::Counted;

/// Changes of breakers that are kept until somebody asks for them.
const CHANGES: usize = 256;

/// Forwards text while it streams.
type OnDelta<'a> = &'a mut (dyn FnMut(&str) + Send);

/// The providers of this supervisor.
#[derive(Debug)]
pub struct Providers {
    config: Config,
    http: Arc<Http>,
    backoff: Backoff,
    script: Mutex<Option<Script>>,
    breakers: Mutex<Breakers>,
    wish: Wish,
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

#[derive(Debug, Default)]
struct Breakers {
    by_provider: BTreeMap<String, Breaker>,
    changes: VecDeque<BreakerChange>,
}

impl Providers {
    /// Providers with the limits of the treaty.
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
            breakers: Mutex::default(),
            wish: Wish::default(),
        }
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

    /// Makes a permitted model call. Text goes to `on_delta` as it comes; if the call fails after
    /// that, what was forwarded is to be withdrawn. Dropping the future cancels the call.
    ///
    /// # Errors
    /// [`InferError`] with its class; the message is masked and may be shown.
    pub async fn infer(
        &self,
        permit: Permit<Infer>,
        credential: Option<&Credential>,
        on_delta: OnDelta<'_>,
    ) -> Result<Inference, InferError> {
        self.infer_with(&permit.spend(), credential, on_delta).await
    }

    /// Makes a permitted model call once: no second attempt, and no breaker asked or told.
    ///
    /// # Errors
    /// [`InferError`] with its class; the message is masked and may be shown.
    pub async fn infer_once(
        &self,
        permit: Permit<Infer>,
        credential: Option<&Credential>,
        on_delta: OnDelta<'_>,
    ) -> Result<Inference, InferError> {
        let infer = permit.spend();
        let Some(row) = self.config.row(&infer.provider) else {
            let words = format!("no provider is named `{}`", infer.provider);
            return Err(InferError::new(Class::Client, words));
        };
        let result = self.attempt(row, &infer, credential, on_delta).await;
        result.map_err(|mut failure| {
            failure.attempts = 1;
            failure
        })
    }

    /// The same call, once its permit is spent.
    pub(crate) async fn infer_with(
        &self,
        infer: &Infer,
        credential: Option<&Credential>,
        on_delta: OnDelta<'_>,
    ) -> Result<Inference, InferError> {
        let Some(row) = self.config.row(&infer.provider) else {
            let words = format!("no provider is named `{}`", infer.provider);
            return Err(InferError::new(Class::Client, words));
        };
        let mut last: Option<InferError> = None;
        let mut attempt = 0;
        loop {
            let lease = match self.admit(&row.name) {
                Ok(lease) => lease,
                Err(mut open) => {
                    open.attempts = attempt;
                    if let Some(last) = last {
                        open.message = format!("{}; last: {}", open.message, last.message);
                    }
                    return Err(open);
                }
            };
            attempt += 1;
            let mut forwarded = false;
            let mut forward = |text: &str| {
                if !text.is_empty() {
                    forwarded = true;
                    on_delta(text);
                }
            };
            let result = self.attempt(row, infer, credential, &mut forward).await;
            lease.observe(&result);
            let mut failure = match result {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            failure.attempts = attempt;
            let wait = retry::wait(&failure, attempt, forwarded, self.backoff, retry::chance());
            let Some(wait) = wait else {
                return Err(failure);
            };
            last = Some(failure);
            tokio::time::sleep(wait).await;
        }
    }

    async fn attempt(
        &self,
        row: &Row,
        infer: &Infer,
        credential: Option<&Credential>,
        on_text: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Inference, InferError> {
        match row.dialect {
            Dialect::Script => self.play(infer, on_text).await,
            _ => self.ask(row, infer, credential, on_text).await,
        }
    }

    async fn play(
        &self,
        infer: &Infer,
        on_text: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Inference, InferError> {
        let play = {
            let mut script = lock(&self.script);
            let Some(script) = script.as_mut() else {
                let words = "the `script` provider has no conversation to play: pass --script FILE";
                return Err(InferError::new(Class::Client, words));
            };
            script.play(&infer.request, &infer.model)
        };
        let Play { delay, deltas, end } = play;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        for delta in deltas {
            on_text(&delta);
            // Lets a cancel or another effect in between two deltas.
            tokio::task::yield_now().await;
        }
        end
    }

    async fn ask(
        &self,
        row: &Row,
        infer: &Infer,
        credential: Option<&Credential>,
        on_text: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Inference, InferError> {
        let name = row.name.as_str();
        let client = |words: String| InferError::new(Class::Client, words);
        let (window, max_output) = self.config.models.limits(name, &infer.model);
        let speech = row.speech(&infer.model);
        let target = Target {
            provider: name,
            model: &infer.model,
            max_output,
            window,
            quirks: speech.quirks,
            // Number 0 is the classifier's question, whose answer has a form of its own.
            wish: (infer.request.id != 0).then_some(&self.wish),
        };
        let base = row.address(&speech).map_err(client)?;
        let outgoing = speech
            .dialect
            .encode(&infer.request, &target)
            .map_err(|error| client(error.to_string()))?;
        let decoder = speech.dialect.decoder(&target, &infer.request.messages);
        let decoder = decoder.ok_or_else(|| client("this dialect has no wire".into()))?;
        let url = row.url(&dialect::join(&base, &outgoing.path));
        let mut renewed = false;
        let (answer, masker) = loop {
            let proof = auth::prove(row, credential, &self.http, &url, &outgoing).await?;
            let masker = auth::masker(credential, &proof);
            let own = row
                .headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()));
            let dialect = outgoing
                .headers
                .iter()
                .map(|(name, value)| (*name, value.as_str()));
            let post = Post {
                url: &url,
                accept: outgoing.accept,
                headers: own.chain(dialect).collect(),
                proof,
                body: outgoing.body.clone(),
            };
            let answer = self.http.post(post).await;
            let answer = answer.map_err(|fault| fault.failure(name, &masker))?;
            if answer.status == 200 {
                break (answer, masker);
            }
            let (status, hints) = (answer.status, answer.hints.clone());
            let mut upstream = Upstream::read(Some(status), &answer.error_body().await);
            if let (true, Some(kind)) = (upstream.kind.is_empty(), &hints.kind) {
                upstream.kind = kind.split(':').next().unwrap_or_default().to_owned();
            }
            // A token that was taken back before its time: another one, once.
            let stale = status == 401 || upstream.kind.starts_with("ExpiredToken");
            if let Some(credential) = credential.filter(|c| stale && !renewed && c.is_renewable()) {
                renewed = true;
                credential.spoil().await;
                continue;
            }
            return Err(upstream.failure(name, &masker, &hints, now_ms() / 1_000));
        };
        if answer.media.contains("html") {
            let words = format!("{name} answered a web page, not a model: check base_url");
            return Err(InferError::new(Class::Other, words));
        }
        let mut stream = masker.stream();
        let mut forward = |text: &str| on_text(&stream.push(text));
        let answer = read(name, decoder, answer, &masker, &mut forward).await?;
        on_text(&stream.finish());
        Ok(clean(answer, &masker))
    }

    fn admit(&self, provider: &str) -> Result<Held<'_>, InferError> {
        let now = now_ms();
        let admitted = self.with_breaker(provider, now, |breaker| breaker.admit(now));
        match admitted {
            Ok(lease) => Ok(Held {
                providers: self,
                provider: provider.to_owned(),
                lease: Some(lease),
            }),
            Err(open) => {
                let words =
                    format!("{provider} has failed again and again and is left alone: {open}");
                let mut failure = InferError::new(Class::Overload, words);
                failure.retry_after_ms = Some(open.retry_after_ms);
                Err(failure)
            }
        }
    }

    fn with_breaker<T>(
        &self,
        provider: &str,
        at_ms: u64,
        act: impl FnOnce(&mut Breaker) -> T,
    ) -> T {
        let mut breakers = lock(&self.breakers);
        let Breakers {
            by_provider,
            changes,
        } = &mut *breakers;
        let breaker = by_provider.entry(provider.to_owned()).or_default();
        let from = breaker.phase();
        let result = act(breaker);
        let to = breaker.phase();
        if from != to {
            changes.truncate(CHANGES - 1);
            changes.push_front(BreakerChange {
                provider: provider.to_owned(),
                from,
                to,
                at_ms,
            });
        }
        result
    }

    /// The state of every breaker that was used, to show and to record.
    #[must_use]
    pub fn breakers(&self) -> BTreeMap<String, Breaker> {
        lock(&self.breakers).by_provider.clone()
    }

    /// Takes over the recorded state of a breaker.
    pub fn restore_breaker(&self, provider: &str, breaker: Breaker) {
        lock(&self.breakers)
            .by_provider
            .insert(provider.to_owned(), breaker);
    }

    /// What breakers did since the last time somebody asked, oldest first; of a flood the newest.
    #[must_use]
    pub fn take_breaker_changes(&self) -> Vec<BreakerChange> {
        lock(&self.breakers).changes.drain(..).rev().collect()
    }

    #[cfg(test)]
    pub(crate) fn set_backoff(&mut self, backoff: Backoff) {
        self.backoff = backoff;
    }
}

/// Reads an answer whose head was good, as a stream or as one document, whatever it calls itself.
async fn read(
    name: &str,
    mut decoder: Box<dyn Decode>,
    mut answer: Answer,
    masker: &Masker,
    forward: &mut (dyn FnMut(&str) + Send),
) -> Result<Inference, InferError> {
    let fault = |fault: StreamFault| stream_failure(name, masker, fault);
    while let Some(piece) = answer.next().await.map_err(|f| f.failure(name, masker))? {
        if decoder.push(&piece, forward).map_err(fault)? {
            break;
        }
    }
    decoder.finish(forward).map_err(fault)
}

fn stream_failure(name: &str, masker: &Masker, fault: StreamFault) -> InferError {
    match fault {
        StreamFault::InBand(upstream) => upstream.failure(name, masker, &Hints::default(), 0),
        StreamFault::Cut => InferError::new(
            Class::Network,
            format!("{name}: the answer broke off before its end"),
        ),
        StreamFault::Malformed(what) => InferError::new(
            Class::Network,
            format!("{name}: the answer is damaged: {what}"),
        ),
        StreamFault::TooLarge(what) => InferError::new(Class::Other, format!("{name}: {what}")),
    }
}

/// A provider that echoes the key into an answer must not hand it to the worker that way.
fn clean(mut answer: Inference, masker: &Masker) -> Inference {
    let mask = |text: &mut String| {
        if let Cow::Owned(masked) = masker.mask(text) {
            *text = masked;
        }
    };
    for part in &mut answer.message.parts {
        match part {
            Part::Text { text } => mask(text),
            Part::Reasoning { raw, .. } => mask(raw),
            Part::ToolCall { input, name, .. } => {
                mask(name);
                masker.mask_value(input);
            }
            Part::ToolResult { content, .. } => mask(content),
        }
    }
    answer
}

/// A lease that is given back whatever happens to its call.
struct Held<'a> {
    providers: &'a Providers,
    provider: String,
    lease: Option<Lease>,
}

impl Held<'_> {
    fn observe(mut self, result: &Result<Inference, InferError>) {
        let outcome = match result {
            Ok(_) => Outcome::Success,
            Err(failure) if failure.class.counts() => Outcome::Failure,
            Err(_) => Outcome::Neutral,
        };
        self.settle(outcome);
    }

    fn settle(&mut self, outcome: Outcome) {
        if let Some(lease) = self.lease.take() {
            let now = now_ms();
            self.providers
                .with_breaker(&self.provider, now, |b| b.observe(lease, outcome, now));
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.settle(Outcome::Neutral);
    }
}

/// A poisoned lock only says that a panic happened elsewhere; the state behind it is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Milliseconds since 1970: a breaker's state outlives the process, so it needs the wall clock.
fn now_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
