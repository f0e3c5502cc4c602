//! Which model a run asks, and with which key; the three ways to give one when there is none.

use std::{path::Path, sync::Arc};

use policies::{Mode, Policy};
use protocol::bounds;
use supervisor_core::{
    ModelName, Totals,
    budget::{Budgets, dollars},
    escape::escape,
};
use supervisor_providers::{Config, KeyFailure, Providers, Script, Vault};
use supervisor_record::Places;

use crate::{
    exit::{CONFIG, Failure, USAGE},
    harden::Keys,
    input,
    session::{Saved, SharedBreakers},
};

/// Longest conversation file.
const SCRIPT: u64 = 16 * 1024 * 1024;

/// What the command line asks for.
#[derive(Default)]
pub(crate) struct Asked<'a> {
    /// `PROVIDER/MODEL`s, the first one first; empty leaves it to the policy.
    pub(crate) route: Vec<&'a str>,
    /// Text of a conversation file.
    pub(crate) script: Option<&'a str>,
    /// Model calls already answered (resume): the conversation file goes on after them.
    pub(crate) done: usize,
    /// What the session may cost by the command line.
    pub(crate) max_cost: Option<f64>,
}

/// The provider side of a run.
pub(crate) struct Chosen {
    pub(crate) providers: Providers,
    pub(crate) vault: Vault,
    pub(crate) provider: String,
    pub(crate) model: String,
    /// Who answers an ask in mode `auto`.
    pub(crate) classifier: Option<(String, String)>,
    pub(crate) fallbacks: Vec<ModelName>,
    /// What of a policy's route is left out, and why.
    pub(crate) notices: Vec<String>,
}

/// Reads a conversation file.
pub(crate) fn read_script(path: &Path) -> Result<String, Failure> {
    let failed = |why: &str| Failure::new(CONFIG, format!("--script `{}`: {why}", path.display()));
    let text = input::read(path, SCRIPT, false).map_err(|why| failed(&why))?;
    text.ok_or_else(|| failed("there is no such file"))
}

/// For a new session.
pub(crate) fn choose(
    asked: &Asked<'_>,
    (policy, mode): (&Policy, Mode),
    keys: &Keys,
    places: &Places,
) -> Result<Chosen, Failure> {
    let models = &policy.settings.models;
    // A route that was asked for must be whole; a policy's serves accounts with fewer keys too.
    let (words, whole): (Vec<&str>, bool) = match (asked.script, asked.route.as_slice()) {
        (Some(_), given) => {
            let played = std::iter::once(SCRIPTED);
            (played.chain(given.iter().copied()).collect(), true)
        }
        (None, []) => (models.route.iter().map(String::as_str).collect(), false),
        (None, given) => (given.to_vec(), true),
    };
    let route: Vec<ModelName> = words
        .into_iter()
        .map(named)
        .collect::<Result<_, Failure>>()?;
    if route.is_empty() {
        return Err(no_model(
            "neither --model nor the policy's [models] route names one",
        ));
    }
    if route.len() > bounds::ROUTE {
        let words = format!(
            "a route of {} models, the bound is {}",
            route.len(),
            bounds::ROUTE
        );
        return Err(Failure::new(USAGE, words));
    }
    for name in &route {
        let word = name.to_string();
        if word == SCRIPTED && asked.script.is_some() {
            continue;
        }
        let allowed = |pattern: &String| is_allowed(pattern, &word);
        if !models.allow.is_empty() && !models.allow.iter().any(allowed) {
            return Err(Failure::new(
                CONFIG,
                format!("the policy does not allow the model `{word}`"),
            )
            .help(format!("it allows: {}", models.allow.join(", "))));
        }
    }
    let mut chosen = open(asked, route, whole, keys, places)?;
    seat(&mut chosen, policy, mode, keys, places)?;
    let config = chosen.providers.config();
    let limits = policy.settings.limits;
    let budgets = Budgets {
        limits,
        max_cost: asked.max_cost,
    };
    let first = ModelName {
        provider: chosen.provider.clone(),
        model: chosen.model.clone(),
    };
    for name in std::iter::once(&first).chain(&chosen.fallbacks) {
        let priced = config.models.price(&name.provider, &name.model).is_some();
        if budgets.bound_money() && !limits.unpriced && name.provider != "script" && !priced {
            return Err(Failure::new(
                CONFIG,
                format!("the policy or --max-cost bounds the cost, and the price of `{name}` is not known"),
            )
            .help("give its price in models.toml of the configuration folder, or say [limits] unpriced = true in the policy"));
        }
    }
    Ok(chosen)
}

/// What a conversation file is called where a model is named.
const SCRIPTED: &str = "script/conversation";

/// A word of a route.
pub(crate) fn named(word: &str) -> Result<ModelName, Failure> {
    let split = word
        .split_once('/')
        .filter(|(provider, model)| !provider.is_empty() && !model.is_empty());
    let (provider, model) = split.ok_or_else(|| {
        let words = format!("`{}` is not PROVIDER/MODEL", escape(word, false));
        Failure::new(USAGE, words).help("for example --model anthropic/claude-sonnet-5")
    })?;
    Ok(ModelName {
        provider: provider.to_owned(),
        model: model.to_owned(),
    })
}

/// For a session that goes on.
pub(crate) fn again(
    asked: &Asked<'_>,
    saved: &Saved,
    keys: &Keys,
    places: &Places,
) -> Result<Chosen, Failure> {
    let first = ModelName {
        provider: saved.provider.clone(),
        model: saved.model.clone(),
    };
    let route = std::iter::once(first).chain(saved.fallbacks.iter().cloned());
    let mut chosen = open(asked, route.collect(), true, keys, places)?;
    let setup = &saved.setup;
    seat(&mut chosen, &setup.policy, setup.mode, keys, places)?;
    Ok(chosen)
}

/// Finds who answers in mode `auto`: the policy's classifier, else the session's own model. In that
/// mode it must be there; in another one it may be missing, and then answers nothing if the mode changes.
fn seat(
    chosen: &mut Chosen,
    policy: &Policy,
    mode: Mode,
    keys: &Keys,
    places: &Places,
) -> Result<(), Failure> {
    let models = &policy.settings.models;
    let Some(word) = &models.classifier else {
        chosen.classifier = Some((chosen.provider.clone(), chosen.model.clone()));
        return Ok(());
    };
    match find_classifier(chosen, word, &models.allow, keys, places) {
        Ok(found) => chosen.classifier = Some(found),
        Err(why) if mode == Mode::Auto => {
            return Err(Failure::new(
                CONFIG,
                format!("mode auto: the classifier `{word}` cannot be asked: {why}"),
            )
            .help("mend [models] classifier, leave it out (the session's own model is asked), or choose another --mode"));
        }
        Err(_) => chosen.classifier = None,
    }
    Ok(())
}

fn find_classifier(
    chosen: &mut Chosen,
    word: &str,
    allow: &[String],
    keys: &Keys,
    places: &Places,
) -> Result<(String, String), String> {
    if !allow.is_empty() && !allow.iter().any(|pattern| is_allowed(pattern, word)) {
        return Err("the policy does not allow that model".to_owned());
    }
    let config = chosen.providers.config();
    let (provider, model) = config.resolve(word).map_err(|error| error.to_string())?;
    let row = config.row(provider).ok_or("there is no such provider")?;
    if !chosen.vault.has(provider) {
        super::keys::take(&mut chosen.vault, row, places, keys)
            .map_err(|error| error.to_string())?;
    }
    Ok((provider.to_owned(), model.to_owned()))
}

/// Whether a pattern of `[models] allow` names a model.
fn is_allowed(pattern: &str, word: &str) -> bool {
    pattern == word
        || pattern
            .strip_suffix('*')
            .is_some_and(|start| word.starts_with(start))
}

fn open(
    asked: &Asked<'_>,
    route: Vec<ModelName>,
    whole: bool,
    keys: &Keys,
    places: &Places,
) -> Result<Chosen, Failure> {
    let bad = |error: &dyn std::fmt::Display| Failure::new(CONFIG, error.to_string());
    let environment = |name: &str| keys.get(name);
    let config = Config::load(Some(places.config()), &environment).map_err(|error| bad(&error))?;
    let mut vault = Vault::new();
    let (mut usable, mut notices, mut missing) = (Vec::new(), Vec::new(), None);
    for name in route {
        config
            .resolve(&name.to_string())
            .map_err(|error| bad(&error))?;
        let row = config
            .row(&name.provider)
            .ok_or_else(|| bad(&format!("no provider `{}`", name.provider)))?;
        if vault.has(&name.provider) {
            usable.push(name);
            continue;
        }
        match super::keys::take(&mut vault, row, places, keys) {
            Ok(_) => usable.push(name),
            // A key that is there and unfit is never passed over in silence.
            Err(error @ KeyFailure::Missing { .. }) if !whole => {
                notices.push(format!("{name} of the policy's route is left out: {error}"));
                missing.get_or_insert(error);
            }
            Err(error) => return Err(no_model(&error.to_string())),
        }
    }
    let mut usable = usable.into_iter();
    let Some(ModelName { provider, model }) = usable.next() else {
        return Err(no_model(&missing.map_or_else(
            || "the route is empty".to_owned(),
            |why| why.to_string(),
        )));
    };
    let shared = SharedBreakers::open(places)?;
    let providers = Providers::new(config).sharing(Arc::new(shared));
    if let Some(text) = asked.script {
        let mut script = Script::parse("conversation", text).map_err(|error| bad(&error))?;
        script.skip(asked.done as u64);
        providers.set_script(script);
    }
    Ok(Chosen {
        providers,
        vault,
        provider,
        model,
        fallbacks: usable.collect(),
        notices,
        classifier: None,
    })
}

fn no_model(why: &str) -> Failure {
    Failure::new(CONFIG, format!("no model to ask: {why}")).help(
        "three ways: put a key into the configuration folder's keys/PROVIDER (mode 0600); \
         set the provider's variable (ANTHROPIC_API_KEY); or play a conversation with --script FILE, which needs no key",
    )
}

/// What a session cost, for people; `None` when nothing was paid for or a price is not known.
pub(crate) fn cost(provider: &str, totals: Totals) -> Option<String> {
    let micro = totals.micro_usd;
    let known = provider != "script" && totals.unpriced == 0;
    known.then(|| dollars(micro))
}
