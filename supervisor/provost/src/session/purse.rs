//! The money side of model calls: what each may cost is held before it is made, and what it did cost
//! is reckoned after, of attempts that broke off too.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::{Inference, Usage};
use supervisor_core::{
    Bill, Infer, Permit,
    budget::{Budgets, Span},
};
use supervisor_providers::{Providers, SoFar};
use supervisor_record::Holding;

use super::{Store, now_ms};

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;
/// Bytes of an answer that make one token, at the least, where the provider has not counted them.
const BYTES_PER_TOKEN: u64 = 3;

/// Holds and settles for one session.
#[derive(Debug, Clone)]
pub(crate) struct Purse {
    pub(crate) store: Store,
    pub(crate) budgets: Budgets,
}

impl Purse {
    /// Holds what a call can cost, and lowers its output limit to what the budgets leave.
    ///
    /// # Errors
    /// Which budget leaves too little, or why the record cannot be asked: a call that is not held is
    /// not made.
    pub(crate) fn hold(
        &self,
        providers: &Providers,
        permit: Permit<Infer>,
    ) -> Result<(Permit<Infer>, u64), String> {
        let infer = permit.action();
        let ask = providers.estimate(infer);
        let route: Vec<(String, String)> = infer
            .route()
            .map(|(provider, model)| (provider.to_owned(), model.to_owned()))
            .collect();
        let now_ms = now_ms();
        let session = self.store.session().clone();
        let holding = Holding {
            session: &session,
            infer: infer.request.id,
            route: &route,
            now_ms,
            day_ms: now_ms - now_ms % DAY_MS,
        };
        let mut max_output = infer.request.max_output;
        let held = self.store.with(|record| {
            record.hold(&holding, |spent| {
                let of = |span| match span {
                    Span::Session => spent.session,
                    Span::Day => spent.day,
                    Span::Account => spent.account,
                    Span::ModelDay => spent.model_day,
                };
                let grant = self.budgets.admit(of, &ask)?;
                max_output = grant.max_output;
                Ok::<_, supervisor_core::budget::Reached>(grant.hold)
            })
        });
        match held {
            Ok(Ok(())) => Ok((permit.at_most(max_output), ask.input)),
            Ok(Err(reached)) => Err(reached.to_string()),
            Err(error) => Err(format!("the budgets cannot be asked: {error}")),
        }
    }
}

/// What a call has used so far; heard from wherever the call runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter(Arc<Mutex<Used>>);

#[derive(Debug, Default)]
struct Used {
    /// Of the attempt that runs: who answers as which model, and what.
    current: Option<(String, String, SoFar)>,
    /// Of attempts that broke off.
    lost: Vec<(String, String, Usage)>,
    /// Tokens in, as estimated before the call.
    input: u64,
}

impl Used {
    fn break_off(&mut self) {
        let Some((provider, model, so_far)) = self.current.take() else {
            return;
        };
        let mut usage = so_far.usage;
        let content = u64::try_from(so_far.content).unwrap_or(u64::MAX);
        let counted = usage.output.unwrap_or(0);
        usage.output = Some(counted.max(content.div_ceil(BYTES_PER_TOKEN)));
        usage.input_uncached = usage.input_uncached.or(Some(self.input));
        self.lost.push((provider, model, usage));
    }
}

impl Meter {
    /// For one call.
    pub(crate) fn new(input: u64) -> Self {
        let used = Used {
            input,
            ..Used::default()
        };
        Self(Arc::new(Mutex::new(used)))
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        // A poisoned lock only says that a panic happened elsewhere; the figures behind it are whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has come so far of the attempt that runs.
    pub(crate) fn so_far(&self, provider: &str, model: &str, so_far: SoFar) {
        match &mut self.used().current {
            Some((.., known)) => *known = so_far,
            none => *none = Some((provider.to_owned(), model.to_owned(), so_far)),
        }
    }

    /// The attempt that runs has broken off: what came of it is billed all the same.
    pub(crate) fn broke_off(&self) {
        self.used().break_off();
    }

    /// The bill of a call that was answered, or not.
    pub(crate) fn bill(&self, providers: &Providers, answer: Option<&Inference>) -> Bill {
        let mut used = self.used();
        if answer.is_none() {
            used.break_off();
        }
        let mut bill = Bill {
            micro_usd: Some(0),
            estimated: !used.lost.is_empty(),
            ..Bill::default()
        };
        let lost = used.lost.iter().map(|(p, m, usage)| (p, m, *usage));
        let own = answer.map(|answer| (&answer.provider, &answer.model, answer.usage));
        for (provider, model, usage) in lost.chain(own) {
            bill.usage = bill.usage.plus(usage);
            bill.micro_usd = match (bill.micro_usd, price(providers, provider, model, &usage)) {
                (Some(sum), Some(price)) => Some(sum.saturating_add(price)),
                _ => None,
            };
        }
        bill
    }
}

/// What usage costs; nothing for a conversation file.
fn price(providers: &Providers, provider: &str, model: &str, usage: &Usage) -> Option<u64> {
    if providers.is_free(provider) {
        return Some(0);
    }
    let models = &providers.config().models;
    models.cost_micro_usd(provider, model, usage)
}
