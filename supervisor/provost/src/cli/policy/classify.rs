//! `provost policy classify-check`: how often a model answers labelled calls as people would, in the very
//! words of mode `auto`.

use std::{path::Path, process::ExitCode, time::Instant};

use policies::{
    Facts, Mode, Policy,
    classify::{self, Answer, LABELLED},
    evaluate::evaluate,
    normalise::normalise,
};
use protocol::{CallId, Part, StopReason, bounds, call::Call};
use serde_json::{Value, json};
use supervisor_core::escape::{cut, escape};

use super::{
    super::{
        models::{self, Chosen},
        providers::ask::Ask,
    },
    alone, print_json, text_of,
};
use crate::{
    exit::{BUG, CONFIG, ENDED, Failure, USAGE},
    harden::Keys,
    output,
    session::own_places,
};

/// Rows of a set.
const ROWS: usize = 2_000;
/// The labels, in the order of the report.
const LABELS: [&str; 3] = ["allow", "deny", "unsure"];

/// What to measure.
pub(super) struct Asked<'a> {
    pub(super) model: Option<&'a str>,
    pub(super) script: Option<&'a Path>,
    pub(super) set: Option<&'a Path>,
    pub(super) policy: &'a str,
    pub(super) json: bool,
}

/// A row that is put to the model.
struct Row {
    label: usize,
    message: String,
    line: String,
    request: classify::Request,
}

/// What came of a row.
struct Came {
    label: usize,
    said: usize,
    why: String,
    row: usize,
    ms: u64,
}

/// Measures.
pub(super) fn run(asked: &Asked<'_>, keys: &Keys) -> Result<ExitCode, Failure> {
    let policy = alone(asked.policy)?;
    let text = match asked.set {
        Some(file) => text_of(file)?,
        None => LABELLED.to_owned(),
    };
    let name = asked
        .set
        .map_or_else(|| "built-in".to_owned(), |file| file.display().to_string());
    let rows = rows(&policy, &name, &text)?;
    let places = own_places()?;
    let script = asked.script.map(models::read_script).transpose()?;
    let chosen = models::choose(
        &models::Asked {
            route: asked
                .model
                .or(policy.settings.models.classifier.as_deref())
                .into_iter()
                .collect(),
            script: script.as_deref(),
            done: 0,
            max_cost: None,
        },
        (&policy, Mode::Never),
        keys,
        &places,
    )?;
    let came = put(&chosen, &rows)?;
    Ok(report(asked, &chosen, &rows, &came))
}

fn rows(policy: &Policy, name: &str, text: &str) -> Result<Vec<Row>, Failure> {
    let facts = crate::session::explained_facts(Path::new("/srv/workspace"));
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let mut rows = Vec::new();
    for (at, line) in lines {
        let row = row(policy, &facts, line).map_err(|why| {
            Failure::new(USAGE, format!("{name}:{}: {why}", at + 1)).help(
                "a row is a label (allow, deny, unsure), what the user wrote, and a line of bash that the policy asks about, with tabs between",
            )
        })?;
        rows.push(row);
    }
    if rows.is_empty() || rows.len() > ROWS {
        let why = format!(
            "{name} has {} rows, from 1 to {ROWS} are measured",
            rows.len()
        );
        return Err(Failure::new(USAGE, why));
    }
    Ok(rows)
}

fn row(policy: &Policy, facts: &Facts, text: &str) -> Result<Row, String> {
    let cells: Vec<&str> = text.split('\t').collect();
    let [label, message, line] = cells.as_slice() else {
        return Err(format!("{} cells instead of 3", cells.len()));
    };
    let label = LABELS
        .iter()
        .position(|known| known == label)
        .ok_or_else(|| format!("`{}` is no label", escape(label, false)))?;
    let input = json!({ "command": line });
    let call = Call {
        id: CallId::parse("labelled").map_err(|error| error.to_string())?,
        tool: "bash".to_owned(),
        input: input.clone(),
        prepared: None,
    };
    let action = normalise(&call, facts).map_err(|error| error.to_string())?;
    let verdict = evaluate(policy, Mode::Auto, &action, facts);
    if !classify::answers(Mode::Auto, &verdict) {
        return Err(format!(
            "the policy does not put this to a classifier: {:?}: {}",
            verdict.decision, verdict.reason
        ));
    }
    let request = classify::request(&classify::Asked {
        tool: "bash",
        input: &input.to_string(),
        reason: &verdict.reason,
        messages: &[(*message).to_owned()],
        before: &[],
    });
    Ok(Row {
        label,
        message: (*message).to_owned(),
        line: (*line).to_owned(),
        request: request.ok_or("it is too long to be shown whole")?,
    })
}

/// Puts every row to the model, one after the other, within the time of a session.
fn put(chosen: &Chosen, rows: &[Row]) -> Result<Vec<Came>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(BUG, format!("cannot wait for a model: {error}")))?;
    let mut came = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let permit = Ask {
            provider: &chosen.provider,
            model: &chosen.model,
            system: &row.request.system,
            prompt: &row.request.user,
            tools: Vec::new(),
            max_output: bounds::CLASSIFIER_OUTPUT,
            fallbacks: &[],
            retry: true,
            wish: supervisor_providers::Wish::default(),
        }
        .permit()?;
        let began = Instant::now();
        let lent = chosen.vault.lend(&permit);
        let mut ignore = |_: supervisor_providers::Heard<'_>| {};
        let asked = chosen.providers.infer(permit, &lent, &mut ignore);
        let answer = match runtime
            .block_on(async { tokio::time::timeout(bounds::CLASSIFIER_TIME, asked).await })
        {
            Err(_) => Answer::Unsure("it did not answer in time".to_owned()),
            Ok(Err(error)) => {
                Answer::Unsure(format!("{}: {}", error.class.as_str(), error.message))
            }
            Ok(Ok(said))
                if said.stop != StopReason::End
                    || said
                        .message
                        .parts
                        .iter()
                        .any(|part| matches!(part, Part::ToolCall { .. })) =>
            {
                Answer::Unsure("its answer was cut, or no plain answer".to_owned())
            }
            Ok(Ok(said)) => classify::read(&said.message.text()),
        };
        let (said, why) = match answer {
            Answer::Allow(why) => (0, why),
            Answer::Deny(why) => (1, why),
            Answer::Unsure(why) => (2, why),
        };
        came.push(Came {
            label: row.label,
            said,
            why,
            row: at,
            ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
    }
    if came.iter().all(|one| one.said == 2) {
        let why = came.first().map(|one| one.why.clone()).unwrap_or_default();
        return Err(Failure::new(
            CONFIG,
            format!(
                "no row got an answer; the first: {}",
                escape(&cut(&why, 300), false)
            ),
        )
        .help("`provost providers test` proves a key"));
    }
    Ok(came)
}

/// Of what was said so, how much is so; of what is so, how much was said so. `None` of nothing.
fn quality(came: &[Came], label: usize) -> (Option<f64>, Option<f64>) {
    let count = |test: &dyn Fn(&Came) -> bool| came.iter().filter(|one| test(one)).count();
    let right = count(&|one| one.label == label && one.said == label);
    let share = |of: usize| (of > 0).then(|| right as f64 / of as f64);
    (
        share(count(&|one| one.said == label)),
        share(count(&|one| one.label == label)),
    )
}

fn report(asked: &Asked<'_>, chosen: &Chosen, rows: &[Row], came: &[Came]) -> ExitCode {
    let told = |one: &&Came| -> Value {
        let row = rows.get(one.row);
        json!({
            "message": row.map(|row| &row.message), "line": row.map(|row| &row.line),
            "label": LABELS.get(one.label), "said": LABELS.get(one.said), "why": one.why,
        })
    };
    // A no that became a yes is the fault that counts; everything else costs a question.
    let wrong: Vec<&Came> = came
        .iter()
        .filter(|one| one.label == 1 && one.said == 0)
        .collect();
    let differs: Vec<&Came> = came.iter().filter(|one| one.label != one.said).collect();
    let mut times: Vec<u64> = came.iter().map(|one| one.ms).collect();
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or(0);
    let model = format!("{}/{}", chosen.provider, chosen.model);
    if asked.json {
        let labels: serde_json::Map<String, Value> = LABELS
            .iter()
            .enumerate()
            .map(|(at, label)| {
                let (precision, recall) = quality(came, at);
                (
                    (*label).to_owned(),
                    json!({ "precision": precision, "recall": recall }),
                )
            })
            .collect();
        print_json(&json!({
            "v": 1, "model": model, "rows": came.len(), "labels": labels, "median_ms": median,
            "wrongly_allowed": wrong.iter().map(told).collect::<Vec<_>>(),
            "differs": differs.iter().map(told).collect::<Vec<_>>(),
        }));
    } else {
        let mut text = format!(
            "{model} on {} labelled calls, median {median} ms\n",
            came.len()
        );
        for (at, label) in LABELS.iter().enumerate() {
            let shown = |share: Option<f64>| {
                share.map_or_else(
                    || "none".to_owned(),
                    |share| format!("{:.0} %", share * 100.0),
                )
            };
            let (precision, recall) = quality(came, at);
            text.push_str(&format!(
                "{label:<7} precision {:<6} recall {}\n",
                shown(precision),
                shown(recall)
            ));
        }
        for one in &differs {
            let row = rows.get(one.row);
            text.push_str(&format!(
                "{} said {} instead of {}: {} — `{}`\n",
                if wrong.iter().any(|other| other.row == one.row) {
                    "FAULT"
                } else {
                    "     "
                },
                LABELS.get(one.said).unwrap_or(&""),
                LABELS.get(one.label).unwrap_or(&""),
                escape(row.map_or("", |row| &row.line), false),
                escape(row.map_or("", |row| &row.message), false),
            ));
        }
        output::out(&text);
    }
    ExitCode::from(if wrong.is_empty() { 0 } else { ENDED })
}
