//! The gate of model calls: what is left of tokens, money and calls, then the permit.

use crate::{Infer, Permit, Session};

/// The gate of a model call: budgets, then the permit.
///
/// # Errors
/// A sentence for the loop when a budget is spent.
pub(crate) fn pass_infer(
    session: &mut Session,
    request: protocol::Infer,
) -> Result<Permit<Infer>, String> {
    within_budget(session)?;
    // The loop counts iterations; this bound holds against a loop that lies. Each iteration may be
    // tried four times (three recoveries), and nothing else asks the model.
    let limits = &session.config.policy.settings.limits;
    let bound = limits.iterations.saturating_mul(4);
    if session.infers_in_turn >= bound {
        return Err(format!("{bound} model calls in one turn, the bound"));
    }
    session.infers_in_turn += 1;
    let (provider, model) = (
        session.config.provider.clone(),
        session.config.model.clone(),
    );
    let fallbacks = session.config.fallbacks.clone();
    Ok(session.mint(Infer {
        request,
        provider,
        model,
        fallbacks,
    }))
}

/// The gate of a question to the classifier: the session's own budgets, and bounds of its own.
///
/// # Errors
/// A sentence when it may not be asked.
pub(crate) fn pass_classify(
    session: &mut Session,
    request: protocol::Infer,
) -> Result<Permit<Infer>, String> {
    let Some((provider, model)) = session.config.classifier.clone() else {
        return Err("no classifier can be asked in this session".to_owned());
    };
    within_budget(session)?;
    session.bench.count()?;
    Ok(session.mint(Infer {
        request,
        provider,
        model,
        fallbacks: Vec::new(),
    }))
}

/// Tokens and money that are left.
fn within_budget(session: &Session) -> Result<(), String> {
    let limits = &session.config.policy.settings.limits;
    let usage = session.totals.usage;
    let spent = [
        usage.input_uncached,
        usage.cache_read,
        usage.cache_write,
        usage.output,
    ];
    let spent: u64 = spent.into_iter().flatten().fold(0, u64::saturating_add);
    if let Some(bound) = limits.tokens.filter(|bound| spent >= *bound) {
        return Err(format!(
            "{spent} tokens are used, the policy's bound is {bound}"
        ));
    }
    if let Some(bound) = limits.cost_usd {
        // Fail closed: what cannot be priced cannot be bounded.
        if session.totals.unpriced > 0 && !limits.unpriced {
            return Err(
                "the price of this model is not known, and the policy bounds the cost".to_owned(),
            );
        }
        let spent = session.totals.micro_usd;
        if spent as f64 >= bound * 1e6 {
            let spent = spent as f64 / 1e6;
            return Err(format!(
                "${spent:.4} are spent, the policy's bound is ${bound:.2}"
            ));
        }
    }
    if let Some(bound) = limits.calls.filter(|bound| session.totals.infers >= *bound) {
        let made = session.totals.infers;
        return Err(format!(
            "{made} model calls are made, the policy's bound is {bound}"
        ));
    }
    Ok(())
}
