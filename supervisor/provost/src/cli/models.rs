//! Which model a run asks, and with which key; the three ways to give one when there is none.

use std::path::Path;

use policies::{Mode, Policy};
use supervisor_core::Totals;
use supervisor_providers::{Config, Providers, Script, Vault};
use supervisor_record::Places;

use crate::{
    exit::{CONFIG, Failure, USAGE},
    harden::Keys,
    input,
    session::Saved,
};

/// Longest conversation file.
const SCRIPT: u64 = 16 * 1024 * 1024;

/// What the command line asks for.
pub(crate) struct Asked<'a> {
    /// `PROVIDER/MODEL`.
    pub(crate) model: Option<&'a str>,
    /// Text of a conversation file.
    pub(crate) script: Option<&'a str>,
    /// Model calls already answered (resume): the conversation file goes on after them.
    pub(crate) done: usize,
}

/// The provider side of a run.
pub(crate) struct Chosen {
    pub(crate) providers: Providers,
    pub(crate) vault: Vault,
    pub(crate) provider: String,
    pub(crate) model: String,
    /// Who answers an ask in mode `auto`.
    pub(crate) classifier: Option<(String, String)>,
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
    let word = match (asked.script, asked.model, models.route.first()) {
        (Some(_), _, _) => "script/conversation".to_owned(),
        (None, Some(model), _) => model.to_owned(),
        (None, None, Some(route)) => route.clone(),
        (None, None, None) => {
            return Err(no_model(
                "neither --model nor the policy's [models] route names one",
            ));
        }
    };
    let (provider, model) = word
        .split_once('/')
        .filter(|(p, m)| !p.is_empty() && !m.is_empty())
        .ok_or_else(|| {
            Failure::new(USAGE, format!("`{word}` is not PROVIDER/MODEL"))
                .help("for example --model anthropic/claude-sonnet-5")
        })?;
    let allowed = |pattern: &String| is_allowed(pattern, &word);
    if asked.script.is_none() && !models.allow.is_empty() && !models.allow.iter().any(allowed) {
        return Err(Failure::new(
            CONFIG,
            format!("the policy does not allow the model `{word}`"),
        )
        .help(format!("it allows: {}", models.allow.join(", "))));
    }
    let mut chosen = open(asked, provider, model, keys, places)?;
    seat(&mut chosen, policy, mode, keys, places)?;
    let priced = chosen
        .providers
        .config()
        .models
        .price(provider, model)
        .is_some();
    if policy.settings.limits.cost_usd.is_some() && asked.script.is_none() && !priced {
        return Err(Failure::new(
            CONFIG,
            format!("the policy bounds the cost, and the price of `{word}` is not known"),
        )
        .help("give its price in models.toml of the configuration folder, or take cost_usd out of the policy"));
    }
    Ok(chosen)
}

/// For a session that goes on.
pub(crate) fn again(
    asked: &Asked<'_>,
    saved: &Saved,
    keys: &Keys,
    places: &Places,
) -> Result<Chosen, Failure> {
    let mut chosen = open(asked, &saved.provider, &saved.model, keys, places)?;
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
    provider: &str,
    model: &str,
    keys: &Keys,
    places: &Places,
) -> Result<Chosen, Failure> {
    let bad = |error: &dyn std::fmt::Display| Failure::new(CONFIG, error.to_string());
    let environment = |name: &str| keys.get(name);
    let config = Config::load(Some(places.config()), &environment).map_err(|error| bad(&error))?;
    let word = format!("{provider}/{model}");
    config.resolve(&word).map_err(|error| bad(&error))?;
    let row = config
        .row(provider)
        .ok_or_else(|| bad(&format!("no provider `{provider}`")))?;
    let mut vault = Vault::new();
    super::keys::take(&mut vault, row, places, keys)
        .map_err(|error| no_model(&error.to_string()))?;
    let providers = Providers::new(config);
    if let Some(text) = asked.script {
        let mut script = Script::parse("conversation", text).map_err(|error| bad(&error))?;
        script.skip(asked.done as u64);
        providers.set_script(script);
    }
    Ok(Chosen {
        providers,
        vault,
        provider: provider.to_owned(),
        model: model.to_owned(),
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
    known.then(|| format!("${}.{:04}", micro / 1_000_000, micro % 1_000_000 / 100))
}
