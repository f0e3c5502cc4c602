//! `provost providers list|show|test|call`: the rows, what is known of their models, and one call
//! without a session.

pub(super) mod ask;
mod breaker;
mod count;
mod offer;
mod wish;

pub(super) use wish::{is_object, schema};

use std::process::ExitCode;

use protocol::{Inference, Part, Usage, bounds};
use serde_json::{Value, json};
use supervisor_core::{
    ModelName,
    breaker::{Breaker, Phase},
    escape::escape,
};
use supervisor_providers::{
    Config, Heard, InferError, KeyFailure, KeySource, Model, Row, Vault, Wish, dialect::is_invalid,
};
use supervisor_record::Places;

use self::{
    ask::{Ask, Asked},
    breaker::breakers,
    count::{count, formed},
    offer::tools,
};
use super::{
    args::{CallArgs, ProvidersCommand},
    models::named,
};
use crate::{
    exit::{CONFIG, ENDED, Failure, USAGE},
    harden::Keys,
    output,
    session::own_places,
    view::what_next,
};

/// What `test` asks: as few tokens as an answer can have.
const PROBE: &str = "Reply with the word OK.";
/// The least that every dialect takes as a limit of output.
const PROBE_OUTPUT: u32 = 16;
/// `provost providers …`
pub(super) fn run(command: ProvidersCommand, keys: &Keys) -> Result<ExitCode, Failure> {
    let places = own_places()?;
    let environment = |name: &str| keys.get(name);
    let config = Config::load(Some(places.config()), &environment)
        .map_err(|error| Failure::new(CONFIG, error.to_string()))?;
    match command {
        ProvidersCommand::List { json } => list(&config, keys, &places, json),
        ProvidersCommand::Show { provider, json } => show(&config, &provider, keys, &places, json),
        ProvidersCommand::Test {
            provider,
            model,
            json,
        } => test(&config, &provider, model.as_deref(), keys, &places, json),
        ProvidersCommand::Call(args) => call(config, &args, keys, &places),
    }
}

/// Where a provider's key comes from, or why there is none.
fn key(row: &Row, keys: &Keys, places: &Places) -> Result<KeySource, String> {
    match super::keys::find(&mut Vault::new(), row, places, keys) {
        Ok(KeySource::Guess(words)) => Err(format!("none, unless {words} gives one")),
        Ok(source) => Ok(source),
        // It is there; its passphrase is asked for when it is used.
        Err(KeyFailure::Sealed { file }) => Ok(KeySource::File(file.into())),
        Err(error) => Err(error.to_string()),
    }
}

fn in_words(source: &KeySource) -> String {
    match source {
        KeySource::File(file) => format!("file {}", file.display()),
        KeySource::Systemd(file) => format!("credential {}", file.display()),
        KeySource::Environment(name) => format!("variable {name}"),
        KeySource::Elsewhere(words) | KeySource::Guess(words) => words.clone(),
        KeySource::HandOver => "handed over".into(),
        KeySource::None => "none needed".into(),
    }
}

fn list(config: &Config, keys: &Keys, places: &Places, json: bool) -> Result<ExitCode, Failure> {
    let breakers = breakers(places)?;
    let of = |row: &Row| {
        breakers
            .get(&row.name)
            .map_or(Phase::Closed, Breaker::phase)
    };
    let rows = config.rows().map(|row| (row, key(row, keys, places)));
    if json {
        let rows: Vec<Value> = rows
            .map(|(row, key)| row_json(row, &key, of(row)))
            .collect();
        output::out(&format!("{}\n", json!({"v": 1, "providers": rows})));
        return Ok(ExitCode::SUCCESS);
    }
    for (row, key) in rows {
        let key = match key {
            Ok(KeySource::None) => "free",
            // An account of this machine may be there; only a call can tell.
            Ok(KeySource::Elsewhere(_)) => "host",
            Ok(_) => "key",
            Err(_) => "-",
        };
        output::out(&format!(
            "{:<21} {:<17} {key:<4} {}{}\n",
            row.name,
            row.dialect.as_str(),
            row.base_url.as_deref().unwrap_or("-"),
            match of(row) {
                Phase::Closed => String::new(),
                phase => format!("  breaker {}", phase.as_str()),
            }
        ));
    }
    output::err(
        "key: one is here; host: by this machine's own account; more: provost providers show NAME\n",
    );
    Ok(ExitCode::SUCCESS)
}

fn row_json(row: &Row, key: &Result<KeySource, String>, breaker: Phase) -> Value {
    let address = row.address(&row.speech(""));
    json!({
        "name": row.name,
        "dialect": row.dialect.as_str(),
        "base_url": address.as_deref().ok(),
        "auth": row.auth.as_str(),
        "key": key.as_ref().ok().map(in_words),
        "key_env": row.key_env,
        "breaker": breaker.as_str(),
        "missing": address.as_ref().err().or(key.as_ref().err()),
    })
}

fn row<'a>(config: &'a Config, provider: &str) -> Result<&'a Row, Failure> {
    config.row(provider).ok_or_else(|| {
        let known: Vec<&str> = config.rows().map(|row| row.name.as_str()).collect();
        let words = format!("no provider is named `{}`", escape(provider, false));
        Failure::new(USAGE, words).help(format!("the providers are {}", known.join(", ")))
    })
}

fn show(
    config: &Config,
    provider: &str,
    keys: &Keys,
    places: &Places,
    json: bool,
) -> Result<ExitCode, Failure> {
    let row = row(config, provider)?;
    let key = key(row, keys, places);
    let breakers = breakers(places)?;
    let phase = breakers
        .get(&row.name)
        .map_or(Phase::Closed, Breaker::phase);
    let models = config
        .models
        .iter()
        .filter(|(name, _, _)| *name == row.name);
    if json {
        let models: Vec<Value> = models.map(|(_, id, model)| model_json(id, model)).collect();
        let routes: Vec<Value> = row
            .routes
            .iter()
            .map(|route| json!({"models": route.models, "dialect": route.dialect.as_str()}))
            .collect();
        let mut shown = row_json(row, &key, phase);
        if let Some(object) = shown.as_object_mut() {
            object.insert("v".into(), 1.into());
            object.insert("routes".into(), routes.into());
            object.insert("models".into(), models.into());
        }
        output::out(&format!("{shown}\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let address = row.address(&row.speech(""));
    let lines = [
        ("dialect", row.dialect.as_str().to_owned()),
        ("address", address.unwrap_or_else(|missing| missing)),
        ("auth", row.auth.as_str().to_owned()),
        (
            "key",
            key.map_or_else(|missing| missing, |source| in_words(&source)),
        ),
        ("breaker", phase.as_str().to_owned()),
    ];
    for (name, value) in lines {
        output::out(&format!("{name:<9} {}\n", escape(&value, false)));
    }
    for route in &row.routes {
        output::out(&format!(
            "{:<9} {} by {}\n",
            "models",
            route.models,
            route.dialect.as_str()
        ));
    }
    for (_, id, model) in models {
        let price = model
            .price
            .as_ref()
            .map_or("no price known".into(), |price| {
                let usd = |nano: u64| format!("{}.{:03}", nano / 1_000, nano % 1_000);
                let (input, output) = (usd(price.rates.input), usd(price.rates.output));
                format!("${input} in, ${output} out a million ({})", price.date)
            });
        output::out(&format!(
            "{id:<32} {:>9} window, {:>7} out, {price}\n",
            model.window, model.output
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn model_json(id: &str, model: &Model) -> Value {
    let price = model.price.as_ref().map(|price| {
        let usd = |nano: u64| nano as f64 / 1_000.0;
        json!({"input": usd(price.rates.input), "cache_read": usd(price.rates.cache_read),
            "cache_write": usd(price.rates.cache_write), "output": usd(price.rates.output),
            "date": price.date, "source": price.source})
    });
    json!({"id": id, "window": model.window, "output": model.output, "usd_per_million": price})
}

/// Proves a key with a call of a few tokens, and shows no part of it.
fn test(
    config: &Config,
    provider: &[String],
    model: Option<&str>,
    keys: &Keys,
    places: &Places,
    json: bool,
) -> Result<ExitCode, Failure> {
    if model.is_some() && provider.len() != 1 {
        return Err(Failure::new(
            USAGE,
            "--model needs one provider to ask for it",
        ));
    }
    let rows: Vec<&Row> = if provider.is_empty() {
        // Whether this machine has an account of its own somewhere is not asked without being named.
        let with_key = |row: &&Row| {
            let found = key(row, keys, places);
            found.is_ok_and(|from| !matches!(from, KeySource::None | KeySource::Elsewhere(_)))
        };
        config.rows().filter(with_key).collect()
    } else {
        provider
            .iter()
            .map(|name| row(config, name))
            .collect::<Result<_, _>>()?
    };
    if rows.is_empty() {
        return Err(Failure::new(CONFIG, "no provider has a key to test")
            .help("put one into keys/PROVIDER of the configuration folder (mode 0600), or name a provider"));
    }
    let mut all = true;
    let mut tested = Vec::new();
    for row in rows {
        let Some(model) = model
            .map(str::to_owned)
            .or_else(|| cheapest(config, &row.name))
        else {
            return Err(
                Failure::new(USAGE, format!("no model of `{}` is known", row.name))
                    .help("name one: provost providers test PROVIDER --model MODEL"),
            );
        };
        let ask = Ask {
            provider: &row.name,
            model: &model,
            system: "",
            prompt: PROBE,
            tools: Vec::new(),
            max_output: PROBE_OUTPUT,
            fallbacks: &[],
            retry: false,
            wish: Wish::default(),
        };
        let began = std::time::Instant::now();
        let asked = ask.ask(config.clone(), keys, places, &mut |_| {})?;
        let answer = asked.answer;
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        all &= answer.is_ok();
        if json {
            let error = answer.err().map(|error| error_json(&error));
            tested.push(
                json!({"provider": row.name, "model": model, "ok": error.is_none(),
                "ms": ms, "error": error}),
            );
            continue;
        }
        let said = match answer {
            Ok(_) => format!("ok ({ms} ms)"),
            Err(error) => format!("{}: {}", error.class.as_str(), error.message),
        };
        output::out(&format!("{}/{model}: {}\n", row.name, escape(&said, false)));
    }
    if json {
        output::out(&format!("{}\n", json!({"v": 1, "tested": tested})));
    }
    Ok(if all {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(ENDED)
    })
}

/// The model of a provider that asks the least for its output, of those whose price is known.
fn cheapest(config: &Config, provider: &str) -> Option<String> {
    let own = config
        .models
        .iter()
        .filter(|(name, id, _)| *name == provider && *id != "*");
    let cost = |model: &Model| {
        model
            .price
            .as_ref()
            .map_or(u64::MAX, |price| price.rates.output)
    };
    let best = own.min_by_key(|(_, _, model)| cost(model));
    best.map(|(_, id, _)| id.to_owned())
}

fn call(
    mut config: Config,
    args: &CallArgs,
    keys: &Keys,
    places: &Places,
) -> Result<ExitCode, Failure> {
    let first = match (&args.provider, &args.model) {
        (Some(provider), Some(model)) => Some(ModelName {
            provider: provider.clone(),
            model: model.clone(),
        }),
        _ => None,
    };
    let rest = args.route.iter().map(|word| named(word));
    let route: Vec<ModelName> = first
        .into_iter()
        .map(Ok)
        .chain(rest)
        .collect::<Result<_, Failure>>()?;
    let Some((first, fallbacks)) = route.split_first() else {
        return Err(Failure::new(
            USAGE,
            "no model: give --provider and --model, or --route",
        ));
    };
    if route.len() > bounds::ROUTE {
        let words = format!(
            "a route of {} models, the bound is {}",
            route.len(),
            bounds::ROUTE
        );
        return Err(Failure::new(USAGE, words));
    }
    for name in &route {
        row(&config, &name.provider)?;
    }
    if let Some(url) = &args.base_url {
        config
            .set_base_url(&first.provider, url)
            .map_err(|error| Failure::new(USAGE, error.to_string()))?;
    }
    let ask = Ask {
        provider: &first.provider,
        model: &first.model,
        system: args.system.as_deref().unwrap_or_default(),
        prompt: &args.prompt,
        tools: args
            .tools
            .as_deref()
            .map(tools)
            .transpose()?
            .unwrap_or_default(),
        max_output: args.max_output,
        fallbacks,
        retry: args.retry || !args.route.is_empty(),
        wish: wish::wish(&args.image, &args.document, args.schema.as_deref())?,
    };
    if args.count {
        return count(&ask, config, keys, places, args.json);
    }
    let mut show = |heard: Heard<'_>| match heard {
        Heard::Text(text) if !args.json => output::out(&escape(text, true)),
        Heard::Tried(attempt) => {
            if let Some(text) = what_next(&attempt) {
                output::err(&format!("{text}\n"));
            }
        }
        Heard::Breaker(change) => {
            let (from, to) = (change.from.as_str(), change.to.as_str());
            output::err(&format!(
                "the circuit breaker of {} is {to} now, it was {from}\n",
                change.provider
            ));
        }
        Heard::Text(_) | Heard::SoFar { .. } => {}
    };
    let mut asked = ask.ask(config, keys, places, &mut show)?;
    asked.answer = asked
        .answer
        .and_then(|answer| formed(answer, args.schema.is_some()));
    if args.json {
        output::out(&format!("{}\n", object(&asked)));
    }
    match asked.answer {
        Ok(answer) => {
            if !args.json {
                output::out("\n");
                for (name, input) in calls(&answer) {
                    output::out(&format!("{}\n", escape(&format!("{name} {input}"), false)));
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(_) if args.json => Ok(ExitCode::from(ENDED)),
        Err(error) => Err(Failure::new(
            ENDED,
            format!("{}: {}", error.class.as_str(), error.message),
        )),
    }
}

/// The one object that `call --json` prints; see docs/schema/call.json.
fn object(asked: &Asked) -> Value {
    let Asked {
        answer,
        streamed,
        tried,
    } = asked;
    let none = Usage::default();
    let by = answer.as_ref().ok();
    let (text, reasoning, calls, stop, usage) = match answer {
        Err(_) => (streamed.clone(), false, Vec::new(), Value::Null, none),
        Ok(answer) => {
            let thinks = |part: &Part| matches!(part, Part::Reasoning { .. });
            let calls = calls(answer);
            let calls = calls.map(|(name, input)| {
                // Arguments that were cut or are no object are no input; such a call never runs.
                let input = if is_invalid(input) {
                    &Value::Null
                } else {
                    input
                };
                json!({"name": name, "input": input})
            });
            (
                answer.message.text(),
                answer.message.parts.iter().any(thinks),
                calls.collect(),
                json!(answer.stop),
                answer.usage,
            )
        }
    };
    json!({
        "text": text,
        "reasoning_present": reasoning,
        "tool_calls": calls,
        "stop": stop,
        "usage": usage,
        "provider": by.map(|answer| &answer.provider),
        "model": by.map(|answer| &answer.model),
        "tried": tried,
        "error": answer.as_ref().err().map(error_json),
    })
}

fn error_json(error: &InferError) -> Value {
    json!({"class": error.class.as_str(), "retryable": error.retryable, "message": error.message})
}

fn calls(answer: &Inference) -> impl Iterator<Item = (&str, &Value)> {
    answer.message.parts.iter().filter_map(|part| match part {
        Part::ToolCall { name, input, .. } => Some((name.as_str(), input)),
        _ => None,
    })
}
