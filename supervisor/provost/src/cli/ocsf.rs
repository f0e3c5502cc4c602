//! Audit records in the shape of the Open Cybersecurity Schema Framework, for log systems.
//!
//! Each record becomes one event of the class that fits best; the entry itself stands whole under
//! `unmapped.provost`. <https://schema.ocsf.io/1.4.0/>

use serde_json::{Value, json};
use supervisor_core::Entry;
use supervisor_record::ExportedRecord;

/// Version of the schema that the shape follows.
const SCHEMA: &str = "1.4.0";

/// A class of events with its category: `class_uid`, `class_name`, `category_uid`, `category_name`.
type Class = (u32, &'static str, u32, &'static str);

const FILE: Class = (1001, "File System Activity", 1, "System Activity");
const PROCESS: Class = (1007, "Process Activity", 1, "System Activity");
const FINDING: Class = (2004, "Detection Finding", 2, "Findings");
const AUTHORIZE: Class = (3003, "Authorize Session", 3, "Identity & Access Management");
const LIFECYCLE: Class = (6002, "Application Lifecycle", 6, "Application Activity");
const API: Class = (6003, "API Activity", 6, "Application Activity");
const DATASTORE: Class = (6005, "Datastore Activity", 6, "Application Activity");

/// `activity_id` for what no activity of a class fits.
const OTHER: u32 = 99;

/// What an entry is in the schema's words.
struct Event {
    class: Class,
    activity: u32,
    /// 1 success, 2 failure, 0 unknown.
    status: u32,
    /// 1 informational, 3 medium, 4 high.
    severity: u32,
    message: String,
}

/// One record as an event. A record whose body is none of ours is an event that says so.
pub(super) fn event(record: &ExportedRecord) -> Value {
    let body: Value = serde_json::from_str(record.body.get()).unwrap_or(Value::Null);
    let entry = serde_json::from_value::<Entry>(body.clone()).ok();
    let event = entry.as_ref().map_or_else(
        || Event {
            class: FINDING,
            activity: 1,
            status: 0,
            severity: 3,
            message: format!("a record of kind `{}` that cannot be read", record.kind),
        },
        |entry| of(entry, &record.kind),
    );
    let (class_uid, class_name, category_uid, category_name) = event.class;
    json!({
        "class_uid": class_uid, "class_name": class_name,
        "category_uid": category_uid, "category_name": category_name,
        "activity_id": event.activity, "type_uid": class_uid * 100 + event.activity,
        "severity_id": event.severity, "status_id": event.status,
        "time": record.time_ms, "message": event.message,
        "actor": { "session": { "uid": record.session } },
        "metadata": {
            "version": SCHEMA, "uid": format!("{}:{}", record.session, record.seq),
            "sequence": record.seq, "event_code": record.kind,
            "product": { "name": "Provost", "vendor_name": "Provost", "version": env!("CARGO_PKG_VERSION") },
        },
        "unmapped": { "provost": { "prev": record.prev, "hash": record.hash, "entry": body } },
    })
}

fn of(entry: &Entry, kind: &str) -> Event {
    let event = |class, activity, status, severity, message: String| Event {
        class,
        activity,
        status,
        severity,
        message,
    };
    match entry {
        Entry::Certificate(certificate) => {
            let broken = certificate.broken().next().is_some();
            let (status, severity) = if broken { (2, 4) } else { (1, 1) };
            event(LIFECYCLE, OTHER, status, severity, certificate.line())
        }
        Entry::Started { task, .. } => {
            event(LIFECYCLE, 3, 1, 1, format!("session started: {task}"))
        }
        Entry::Resumed { .. } => event(LIFECYCLE, 3, 1, 1, "session resumed".to_owned()),
        Entry::Ended {
            outcome, reason, ..
        } => {
            let (status, severity) = if outcome == "done" { (1, 1) } else { (2, 3) };
            event(
                LIFECYCLE,
                4,
                status,
                severity,
                format!("session ended, {outcome}: {reason}"),
            )
        }
        Entry::Verdict { tool, verdict, .. } => {
            let word = serde_json::to_value(verdict).unwrap_or_default();
            let word = word
                .get("verdict")
                .and_then(Value::as_str)
                .unwrap_or("judged");
            let message = format!("{tool}: {word}");
            event(API, OTHER, u32::from(word == "allow"), 1, message)
        }
        Entry::Refused { tool, refusal, .. } => {
            let message = format!("{tool} refused: {}", refusal.reason);
            event(FINDING, 1, 1, 3, message)
        }
        Entry::ClassifyIntent { by, .. } => event(
            AUTHORIZE,
            OTHER,
            0,
            1,
            format!("the classifier was asked: {by}"),
        ),
        Entry::Classified {
            by, answer, cached, ..
        } => {
            let (word, why) = classified(answer);
            let granted = word == "allow";
            event(
                AUTHORIZE,
                if granted { 1 } else { OTHER },
                if granted { 1 } else { 2 },
                1,
                format!(
                    "the classifier {by} said {word}{}: {why}",
                    if *cached { " before" } else { "" }
                ),
            )
        }
        Entry::Asked { shown, .. } => event(
            AUTHORIZE,
            OTHER,
            0,
            1,
            format!("a person was asked: {shown}"),
        ),
        Entry::Answered { answer, .. } => {
            let granted = !matches!(answer.as_str(), "deny" | "timeout" | "nobody");
            let status = if granted { 1 } else { 2 };
            event(
                AUTHORIZE,
                if granted { 1 } else { OTHER },
                status,
                1,
                format!("answered: {answer}"),
            )
        }
        Entry::HookEnded {
            hook,
            outcome,
            what,
            ..
        } => {
            let good = !matches!(outcome.as_str(), "failed" | "absent");
            let message = format!("hook {hook}: {outcome} {what}");
            let (status, severity) = if good { (1, 1) } else { (2, 3) };
            event(API, OTHER, status, severity, message.trim_end().to_owned())
        }
        Entry::Intent { effect, what, .. } => {
            let (class, activity) = match effect.as_str() {
                "command" => (PROCESS, 1),
                "kill" => (PROCESS, 2),
                "put" => (FILE, 3),
                "read" => (FILE, 2),
                "query" | "tables" => (DATASTORE, 1),
                _ => (API, OTHER),
            };
            event(class, activity, 0, 1, format!("{effect}: {what}"))
        }
        Entry::Outcome { ok, what, .. } => {
            event(API, OTHER, if *ok { 1 } else { 2 }, 1, what.clone())
        }
        Entry::Unknown { .. } => event(
            API,
            OTHER,
            0,
            3,
            "an effect in flight: its outcome is not known".to_owned(),
        ),
        Entry::Fault { link, what } => event(
            FINDING,
            1,
            1,
            4,
            format!("the worker broke the treaty on {link}: {what}"),
        ),
        Entry::InferIntent {
            provider, model, ..
        } => event(API, OTHER, 0, 1, format!("model call: {provider}/{model}")),
        Entry::InferOutcome {
            provider,
            model,
            error,
            ..
        } => {
            let status = if error.is_some() { 2 } else { 1 };
            let message = error.clone().unwrap_or_else(|| "answered".to_owned());
            event(
                API,
                OTHER,
                status,
                1,
                format!("{provider}/{model}: {message}"),
            )
        }
        Entry::InferTried { attempt, .. } => event(
            API,
            OTHER,
            2,
            1,
            format!(
                "{}/{}: attempt {}: {}",
                attempt.provider, attempt.model, attempt.number, attempt.class
            ),
        ),
        Entry::BreakerChanged { provider, from, to } => event(
            LIFECYCLE,
            OTHER,
            0,
            3,
            format!(
                "circuit breaker of {provider}: {} after {}",
                to.as_str(),
                from.as_str()
            ),
        ),
        Entry::Mode { from, to, by, .. } => {
            let raise = from.is_raised_by(*to);
            let (from, to) = (from.as_str(), to.as_str());
            let severity = if raise { 3 } else { 1 };
            let text = format!("mode {from} → {to}, by {by}");
            event(AUTHORIZE, OTHER, 1, severity, text)
        }
        Entry::Notice { text } => event(LIFECYCLE, OTHER, 0, 1, text.clone()),
        _ => event(LIFECYCLE, OTHER, 0, 1, kind.to_owned()),
    }
}

/// The word of a classifier's answer, and why.
fn classified(answer: &policies::classify::Answer) -> (&'static str, &str) {
    use policies::classify::Answer::{Allow, Deny, Unsure};
    match answer {
        Allow(why) => ("allow", why),
        Deny(why) => ("deny", why),
        Unsure(why) => ("unsure", why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: &str, body: &str) -> ExportedRecord {
        serde_json::from_str(&format!(
            r#"{{"v":1,"session":"s-1","seq":3,"time_ms":1700000000000,"kind":"{kind}","prev":"aa","hash":"bb","body":{body}}}"#
        ))
        .expect("a record")
    }

    #[test]
    fn a_command_is_process_activity_and_nothing_of_it_is_lost() {
        let body = r#"{"kind":"intent","call":"c1","effect":"command","command":null,"what":"make test","permit":4}"#;
        let event = event(&record("intent", body));
        assert_eq!(event["class_uid"], 1007);
        assert_eq!(event["type_uid"], 100_701);
        assert_eq!(event["metadata"]["uid"], "s-1:3");
        assert_eq!(event["time"], 1_700_000_000_000_u64);
        assert_eq!(event["unmapped"]["provost"]["entry"]["what"], "make test");
    }

    #[test]
    fn a_breach_of_the_treaty_is_a_finding_and_so_is_what_cannot_be_read() {
        let fault = event(&record(
            "fault",
            r#"{"kind":"fault","link":"hands","what":"a forged report"}"#,
        ));
        assert_eq!(
            (fault["class_uid"].as_u64(), fault["severity_id"].as_u64()),
            (Some(2004), Some(4))
        );
        let odd = event(&record("odd", r#"{"kind":"nothing of ours"}"#));
        assert_eq!(odd["class_uid"], 2004);
        assert!(
            odd["message"]
                .as_str()
                .is_some_and(|text| text.contains("cannot be read"))
        );
    }
}
