//! The words in which every outcome reaches the model: one JSON object that begins with `ok`.

use policies::tools::Tool;
use protocol::{
    CommandId, FailureClass, bounds,
    call::{CommandResult, EndedBy, Excerpt, Outcome, Refusal, SqlAnswer, Table},
};
use serde::Serialize;

use crate::{cut, view::Unreadable};

/// A result as the model reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Formatted {
    /// The JSON object, at most [`bounds::OUTPUT_TO_MODEL`] bytes.
    pub text: String,
    /// Whether it is a result and not an error.
    pub ok: bool,
    /// The object without what differs each time (durations).
    pub essence: String,
}

/// What the fields around an output may take.
const AROUND: usize = 1024;
/// Longest error in words.
const ERROR: usize = 8 * 1024;

#[derive(Serialize)]
struct Good<T: Serialize> {
    ok: bool,
    #[serde(flatten)]
    body: T,
}

#[derive(Serialize)]
struct Bad<'a> {
    ok: bool,
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<FailureClass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<&'a Refusal>,
}

/// What bash tells.
#[derive(Serialize)]
struct Ran {
    ok: bool,
    exit: Option<i32>,
    signal: Option<i32>,
    ms: u64,
    output: String,
    omitted: u64,
    left_running: u32,
    ended_by: Option<EndedBy>,
}

/// What is told of a job.
#[derive(Serialize)]
struct Job<'a> {
    ok: bool,
    job_id: &'a CommandId,
    running: bool,
    output: String,
    omitted: u64,
    exit: Option<i32>,
    signal: Option<i32>,
    ms: Option<u64>,
    ended_by: Option<EndedBy>,
}

#[derive(Serialize)]
struct Column<'a> {
    name: &'a str,
    r#type: &'a str,
}

#[derive(Serialize)]
struct TableShown<'a> {
    database: &'a str,
    name: &'a str,
    columns: Vec<Column<'a>>,
}

/// Formats what the supervisor said of a call. [`Outcome::Proceed`] is no outcome yet and reads as
/// one that is missing.
#[must_use]
pub fn format(tool: Tool, outcome: &Outcome) -> Formatted {
    match outcome {
        Outcome::Refused(refusal) => refused(refusal),
        Outcome::Proceed => trouble("outcome unknown: the call was allowed and never carried out"),
        Outcome::Command(result) => command(result),
        Outcome::JobStarted { job } => good(&serde_json::json!({ "job_id": job })),
        Outcome::Job {
            job,
            running,
            result,
            output,
        } => job_told(job, *running, result.as_ref(), output),
        Outcome::Written {
            path,
            created,
            bytes,
            ..
        } => {
            #[derive(Serialize)]
            struct Written<'a> {
                path: &'a str,
                created: bool,
                bytes: u64,
            }
            good(&Written {
                path,
                created: *created,
                bytes: *bytes,
            })
        }
        Outcome::Rows(answer) => rows(answer),
        Outcome::Tables { tables } => tables_told(tables),
        Outcome::Answer { text } => {
            let (answer, _) = fitted(text, bounds::OUTPUT_TO_MODEL - AROUND);
            good(&serde_json::json!({ "answer": answer }))
        }
        Outcome::Failed { class, message } => failed(tool, *class, message),
    }
}

/// A read of the agent's own.
pub(crate) fn read<T: Serialize>(result: Result<T, Unreadable>) -> Formatted {
    match result {
        Ok(body) => good(&body),
        Err(why) => trouble(&why.to_string()),
    }
}

/// An error in words of our own.
#[must_use]
pub fn trouble(words: &str) -> Formatted {
    let words = cut::line(words, ERROR);
    encoded(
        false,
        &Bad {
            ok: false,
            error: &words,
            class: None,
            refused: None,
        },
        None,
    )
}

/// A refusal.
#[must_use]
pub fn refused(refusal: &Refusal) -> Formatted {
    let sentence = cut::line(&refusal.sentence(), ERROR);
    let mut shown = refusal.clone();
    shown.reason = cut::line(&shown.reason, ERROR);
    shown.instead = shown.instead.map(|instead| cut::line(&instead, ERROR));
    encoded(
        false,
        &Bad {
            ok: false,
            error: &sentence,
            class: None,
            refused: Some(&shown),
        },
        None,
    )
}

fn failed(tool: Tool, class: FailureClass, message: &str) -> Formatted {
    let message = cut::line(message, ERROR);
    let words = match class {
        FailureClass::Unknown if !message.starts_with("outcome unknown") => {
            format!("outcome unknown: {message}; check what {tool} did before you repeat it")
        }
        FailureClass::Changed => {
            format!("{message}; read the file again, then make the change anew")
        }
        _ => message,
    };
    encoded(
        false,
        &Bad {
            ok: false,
            error: &words,
            class: Some(class),
            refused: None,
        },
        None,
    )
}

fn command(result: &CommandResult) -> Formatted {
    let (output, omitted) = excerpt(&result.output);
    let ran = |ms| Ran {
        ok: result.exit == Some(0),
        exit: result.exit,
        signal: result.signal,
        ms,
        output: output.clone(),
        omitted,
        left_running: result.left_running,
        ended_by: result.ended_by,
    };
    encoded(result.exit == Some(0), &ran(result.ms), Some(&ran(0)))
}

fn job_told(
    job: &CommandId,
    running: bool,
    result: Option<&CommandResult>,
    output: &Excerpt,
) -> Formatted {
    let (output, omitted) = excerpt(output);
    let told = |ms: Option<u64>| Job {
        ok: true,
        job_id: job,
        running,
        output: output.clone(),
        omitted,
        exit: result.and_then(|result| result.exit),
        signal: result.and_then(|result| result.signal),
        ms,
        ended_by: result.and_then(|result| result.ended_by),
    };
    encoded(
        true,
        &told(result.map(|result| result.ms)),
        Some(&told(None)),
    )
}

/// The contract's object as it stands; rows that do not fit are left off and said to be.
fn rows(answer: &SqlAnswer) -> Formatted {
    let SqlAnswer::Rows { columns, rows, .. } = answer else {
        return encoded(false, answer, None);
    };
    let whole = encoded(true, answer, None);
    if whole.text.len() <= bounds::OUTPUT_TO_MODEL {
        return whole;
    }
    let head = serde_json::to_string(columns).map_or(0, |text| text.len());
    let mut left = bounds::OUTPUT_TO_MODEL.saturating_sub(head + AROUND);
    let mut kept = Vec::new();
    for row in rows {
        let cost = serde_json::to_string(row).map_or(usize::MAX, |text| text.len() + 1);
        if cost > left {
            break;
        }
        left -= cost;
        kept.push(row.clone());
    }
    if kept.is_empty() {
        return trouble(
            "the first row is larger than a result may be; select fewer columns, or substr()",
        );
    }
    encoded(
        true,
        &SqlAnswer::Rows {
            ok: true,
            columns: columns.clone(),
            rows: kept,
            truncated: true,
        },
        None,
    )
}

fn tables_told(tables: &[Table]) -> Formatted {
    let mut left = bounds::OUTPUT_TO_MODEL - AROUND;
    let (mut shown, mut truncated) = (Vec::new(), false);
    for table in tables {
        let columns = table
            .columns
            .iter()
            .map(|(name, kind)| Column { name, r#type: kind });
        let told = TableShown {
            database: &table.database,
            name: &table.name,
            columns: columns.collect(),
        };
        let cost = serde_json::to_string(&told).map_or(usize::MAX, |text| text.len() + 1);
        if cost > left {
            truncated = true;
            break;
        }
        left -= cost;
        shown.push(told);
    }
    #[derive(Serialize)]
    struct Tables<'a> {
        tables: Vec<TableShown<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
    }
    good(&Tables {
        tables: shown,
        truncated,
    })
}

/// Head, a line that says what is missing, tail; within the bound.
fn excerpt(output: &Excerpt) -> (String, u64) {
    let budget = bounds::OUTPUT_TO_MODEL - AROUND;
    if output.omitted == 0 {
        let whole = format!("{}{}", output.head, output.tail);
        return fitted(&whole, budget);
    }
    let budget = budget - 64;
    let head = cut::head(&output.head, budget / 5 * 2);
    let tail = cut::tail(&output.tail, budget - cut::costs(head));
    let kept = output.head.len() + output.tail.len() - head.len() - tail.len();
    let omitted = output.omitted.saturating_add(kept as u64);
    (joined(head, tail, omitted), omitted)
}

/// A text within the budget, with a line in its middle that says what is missing.
fn fitted(text: &str, budget: usize) -> (String, u64) {
    let (head, tail, omitted) = cut::middle(text, budget - 64);
    if omitted == 0 {
        return (text.to_owned(), 0);
    }
    (joined(head, tail, omitted), omitted)
}

fn joined(head: &str, tail: &str, omitted: u64) -> String {
    format!("{head}\n… {omitted} bytes omitted …\n{tail}")
}

fn good<T: Serialize>(body: &T) -> Formatted {
    encoded(true, &Good { ok: true, body }, None)
}

/// Encodes an object; `steady` is what it is compared by.
fn encoded<T: Serialize>(ok: bool, object: &T, steady: Option<&T>) -> Formatted {
    match serde_json::to_string(object) {
        Ok(text) => {
            let essence = steady.and_then(|object| serde_json::to_string(object).ok());
            Formatted {
                essence: essence.unwrap_or_else(|| text.clone()),
                text,
                ok,
            }
        }
        Err(_) => {
            let text = "{\"ok\":false,\"error\":\"the result has no JSON form\"}".to_owned();
            Formatted {
                essence: text.clone(),
                text,
                ok: false,
            }
        }
    }
}
