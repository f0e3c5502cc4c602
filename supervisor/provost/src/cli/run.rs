//! `provost run` and `provost resume`.

use std::{io::IsTerminal as _, path::Path, process::ExitCode, sync::Arc};

use protocol::TurnReason;
use serde_json::json;
use supervisor_core::Entry;
use supervisor_providers::Wish;
use supervisor_record::{Places, Record, SessionLock};

use super::{
    announce::{announce, learned},
    args::{Approvals, Format, ResumeArgs, RunArgs},
    models::{self, Asked},
    sessions,
};
use crate::{
    exit::{self, Failure},
    harden::Keys,
    output,
    session::{
        self, Account, AskedWhere, Conducted, Heads, Place, Plan, Ran, RunsAs, Saved, now_ms,
        own_places, review::Layer, session_id, setup,
    },
    telemetry::Telemetry,
    view::{View, time},
};

/// What is done with the changes at the end.
struct After<'a> {
    learn: bool,
    apply: bool,
    patch: Option<&'a Path>,
    format: Format,
    /// The last answer must be an object.
    formed: bool,
}

/// Asks for answers that fit a schema, where one is given.
fn form(models: &mut models::Chosen, schema: Option<&Path>) -> Result<bool, Failure> {
    let Some(path) = schema else { return Ok(false) };
    let schema = super::providers::schema("--output-schema", path)?;
    models.providers.set_wish(Wish {
        schema: Some(schema),
        attachments: Vec::new(),
    });
    Ok(true)
}

/// `provost run`
pub(crate) fn run(args: RunArgs, keys: Keys) -> Result<ExitCode, Failure> {
    if args.task.trim().is_empty() {
        return Err(Failure::new(exit::USAGE, "the task is empty")
            .help("say what is to be done: provost run \"…\""));
    }
    let account = args.r#as.as_deref().map(Account::find).transpose()?;
    let places = own_places()?;
    take_over(&places)?;
    let mut setup = setup::setup(
        &args.setup,
        &places,
        account.as_ref().map(|account| account.identity),
    )?;
    setup.plan = args.plan;
    session::sweep_containers(&places, &setup.policy.settings)?;
    let wall = args.timeout.as_deref().map(setup::seconds).transpose()?;
    let wall = wall.unwrap_or(setup.policy.settings.limits.wall);
    let script = args
        .script
        .as_deref()
        .map(models::read_script)
        .transpose()?;
    let named = args.model.iter().chain(&args.fallback).chain(&args.route);
    let asked = Asked {
        route: named.map(String::as_str).collect(),
        script: script.as_deref(),
        done: 0,
        max_cost: None,
    };
    let max_cost = args.max_cost.as_deref().map(dollars).transpose()?;
    let asked = Asked { max_cost, ..asked };
    let mut models = models::choose(&asked, (&setup.policy, setup.mode), &keys, &places)?;
    let formed = form(&mut models, args.output_schema.as_deref())?;
    let session = session_id()?;
    let heads = args.audit_head.as_deref().map(Heads::open).transpose()?;
    let _telemetry = Telemetry::start(&keys, args.metrics.as_deref())?;
    let runs_as = account.as_ref().map_or(RunsAs::Own, RunsAs::Account);
    let mut place = Place::new(places.clone(), &session, runs_as)?;
    place.heads = heads;
    let mut view = View::new(args.output, session.as_str());
    let asking = asked_where(args.output, args.approvals);
    let saved = Saved {
        setup,
        provider: models.provider,
        model: models.model,
        fallbacks: models.fallbacks,
        script,
        wall,
        max_cost,
        uid: None,
        account,
        hidden: Vec::new(),
        tools: Vec::new(),
        holding: session::Holding::Copy,
    };
    announce(
        &mut view,
        session.as_str(),
        &saved,
        (saved.setup.mode, saved.setup.plan),
        models.classifier.as_ref(),
        asking,
    );
    for notice in &models.notices {
        view.head("note", notice);
    }
    let plan = Plan {
        saved: saved.clone(),
        task: Some(args.task),
        providers: models.providers,
        vault: models.vault,
        classifier: models.classifier,
        history: None,
        entries: Vec::new(),
        asking,
        view,
    };
    let result = session::run(place, plan).inspect_err(|_| sweep(&places, &session, &saved));
    let ran = result?;
    let after = After {
        learn: args.learn,
        apply: args.apply,
        patch: args.patch.as_deref(),
        format: args.output,
        formed,
    };
    finish(ran, &after)
}

/// `provost resume`
pub(crate) fn resume(args: ResumeArgs, keys: Keys) -> Result<ExitCode, Failure> {
    let places = own_places()?;
    let heads = args.audit_head.as_deref().map(Heads::open).transpose()?;
    let _telemetry = Telemetry::start(&keys, args.metrics.as_deref())?;
    let mut record = session::open_record(&places)?;
    let id = sessions::find(&record, &args.session)?;
    let refused =
        |error: &dyn std::fmt::Display| Failure::new(exit::REFUSED_AT_START, error.to_string());
    let lock = SessionLock::take(&places, &id).map_err(|error| refused(&error))?;
    let lock = lock.ok_or_else(|| {
        refused(&format!(
            "session {id} is busy: another supervisor serves it"
        ))
    })?;
    let orphan = record
        .take_over(lock, now_ms())
        .map_err(|error| refused(&error))?;
    let entries: Vec<Entry> = sessions::entries(&record, &id)?;
    let mut saved = sessions::saved(&entries, &id)?;
    if let Some(cost) = &args.max_cost {
        saved.max_cost = Some(dollars(cost)?);
    }
    if !places.session_folder(&id).join("tree").is_dir() {
        return Err(Failure::new(
            exit::ENDED,
            format!("session {id} has no layer any more: it was discarded"),
        )
        .help("start a new one with `provost run`"));
    }
    let cut = sessions::is_cut(&entries);
    if args.message.is_none() && !cut {
        return Err(Failure::new(
            exit::USAGE,
            format!("session {id} was not cut: its last turn ended"),
        )
        .help(format!("say something more: provost resume {id} \"…\"")));
    }
    // A call that was cut or cancelled is asked again, so its line is played again.
    let answered = |entry: &&Entry| match entry {
        Entry::InferOutcome { error, .. } => error
            .as_deref()
            .is_none_or(|error| !error.starts_with("unknown") && error != "cancelled"),
        // The classifier plays from the same conversation if its provider is that.
        Entry::Classified {
            by,
            permit: Some(_),
            ..
        } => by.starts_with("script/"),
        _ => false,
    };
    session::sweep_containers(&places, &saved.setup.policy.settings)?;
    let done = entries.iter().filter(answered).count();
    let asked = Asked {
        route: Vec::new(),
        script: saved.script.as_deref(),
        done,
        max_cost: None,
    };
    let mut models = models::again(&asked, &saved, &keys, &places)?;
    let formed = form(&mut models, args.output_schema.as_deref())?;
    let worker = supervisor_sandbox::find_worker().map_err(|error| refused(&error))?;
    let mut place = Place::with(
        places.clone(),
        orphan.lock,
        record,
        worker.into(),
        RunsAs::of(&saved),
    )?;
    place.heads = heads;
    let mut view = View::new(args.output, id.as_str());
    let asking = asked_where(args.output, args.approvals);
    announce(
        &mut view,
        id.as_str(),
        &saved,
        supervisor_core::standing(saved.setup.mode, saved.setup.plan, &entries),
        models.classifier.as_ref(),
        asking,
    );
    for call in &orphan.history.unknown {
        view.head(
            "unknown",
            &format!(
                "call {call} was in flight when the session was cut: its outcome is not known"
            ),
        );
    }
    let plan = Plan {
        saved: saved.clone(),
        task: args.message,
        providers: models.providers,
        vault: models.vault,
        classifier: models.classifier,
        history: Some(orphan.history),
        entries,
        asking,
        view,
    };
    let ran = session::run(place, plan)?;
    let after = After {
        learn: false,
        apply: args.apply,
        patch: args.patch.as_deref(),
        format: args.output,
        formed,
    };
    finish(ran, &after)
}

/// An amount of money as people write it.
fn dollars(word: &str) -> Result<f64, Failure> {
    let amount = word.strip_prefix('$').unwrap_or(word).parse::<f64>().ok();
    amount
        .filter(|usd| usd.is_finite() && *usd > 0.0 && *usd <= 1_000_000.0)
        .ok_or_else(|| {
            let words = format!("--max-cost: `{word}` is no amount of money");
            Failure::new(exit::USAGE, words).help("write US dollars: --max-cost 2.50")
        })
}

/// Ends what a supervisor that died has left: its jail died with it, its calls are told as unknown.
fn take_over(places: &Places) -> Result<(), Failure> {
    let mut record = session::open_record(places)?;
    let orphans = record
        .orphans(now_ms())
        .map_err(|error| Failure::new(exit::REFUSED_AT_START, error.to_string()))?;
    for orphan in orphans {
        // A socket of the probes, if it died while it proved a box anew.
        let _ = std::fs::remove_file(orphan.lock.folder().join("probe.sock"));
        let unknown = orphan.unknown.len();
        if unknown > 0 {
            let id = &orphan.session;
            output::err(&format!(
                "provost: session {id} was cut with {unknown} call(s) in flight; `provost resume {id}` goes on with it\n"
            ));
        }
    }
    session::sweep_unentered(places, &record).map_err(|error| {
        Failure::new(
            exit::REFUSED_AT_START,
            format!("cannot look at the sessions' folder: {error}"),
        )
    })?;
    Ok(())
}

/// Who can be asked: at a terminal whoever sits there; elsewhere nobody, unless the run says that
/// somebody answers by `provost approve`.
pub(super) fn asked_where(format: Format, given: Approvals) -> AskedWhere {
    let terminal =
        format == Format::Text && std::io::stdin().is_terminal() && output::err_is_terminal();
    match given {
        Approvals::Operator => AskedWhere::Operator,
        Approvals::Terminal if terminal => AskedWhere::Terminal,
        Approvals::Terminal => AskedWhere::Nowhere,
    }
}

/// A session that never started leaves no folder behind, unless the record knows it.
pub(crate) fn sweep(places: &Places, session: &protocol::SessionId, saved: &Saved) {
    let known = session::open_record(places)
        .ok()
        .and_then(|record| record.session(session).ok())
        .flatten();
    if known.is_some() {
        return;
    }
    if let Ok(layer) = Layer::take(places, session, saved.clone()) {
        // What cannot be removed now is found by `sessions list` as a folder without a session.
        let _ = layer.discard();
    }
    let _ = std::fs::remove_dir_all(places.session_folder(session));
}

/// Review, bill, output, exit code.
fn finish(ran: Ran, after: &After<'_>) -> Result<ExitCode, Failure> {
    let Ran {
        conducted,
        certificate,
        place,
        saved,
    } = ran;
    let Conducted {
        end,
        totals,
        last_turn,
        mut view,
        store,
        terminated,
        took,
    } = conducted;
    let session = store.session().clone();
    let worker = Arc::clone(&place.worker);
    let layer = Layer::of(&place.places, &session, saved.clone(), worker, None)?;
    let reviewed = review(&layer, &store, &mut view, end.outcome, after);
    let text = last_turn
        .as_ref()
        .map(|turn| turn.text.clone())
        .unwrap_or_default();
    let head = store
        .with(|record: &mut Record| record.audit_head(&session))
        .ok()
        .flatten();
    let cost = models::cost(&saved.provider, totals);
    let reason = match last_turn.as_ref().map(|turn| turn.reason) {
        Some(TurnReason::Done) if end.outcome == "done" => "the model was done".to_owned(),
        _ => end.reason.clone(),
    };
    match after.format {
        Format::Text => {
            bill(
                &mut view,
                end.outcome,
                &reason,
                totals,
                took,
                cost.as_deref(),
            );
            if let Some(head) = head {
                view.head("audit head", &head.to_string());
            }
            output::out(&format!(
                "{}\n",
                supervisor_core::escape::escape(text.trim_end(), true)
            ));
        }
        Format::Json | Format::StreamJson => {
            let calls: Vec<_> = view.calls().iter().map(|call| json!(call)).collect();
            let body = json!({
                "outcome": end.outcome, "reason": reason, "text": text, "calls": calls,
                "refusals": totals.refusals, "usage": totals.usage, "tried": view.tried(),
                "certificate": certificate,
            });
            if after.format == Format::Json {
                let mut object = json!({ "v": 1, "session": session });
                if let (Some(object), serde_json::Value::Object(body)) =
                    (object.as_object_mut(), body)
                {
                    object.extend(body);
                }
                output::out(&format!("{object}\n"));
            } else {
                view.emit("end", body);
            }
        }
    }
    if after.learn {
        learned(&store, &mut view)?;
    }
    reviewed?;
    if after.formed && end.outcome == "done" && !super::providers::is_object(&text) {
        let why = "the last answer is no JSON object, which --output-schema asks for";
        return Err(Failure::new(exit::ENDED, why)
            .help("ask again: provost resume SESSION \"…\" --output-schema FILE"));
    }
    Ok(ExitCode::from(exit::of_outcome(end.outcome, terminated)))
}

/// What changed, and what becomes of it.
fn review(
    layer: &Layer,
    store: &session::Store,
    view: &mut View,
    outcome: &str,
    after: &After<'_>,
) -> Result<(), Failure> {
    let changes = layer.changes()?;
    let session = store.session().clone();
    let all = changes.plain.len() + changes.protected.len();
    if after.format == Format::Text {
        super::review::summarise(view, &changes);
    }
    if let Some(out) = after.patch {
        let bytes = layer.patch(&changes, out)?;
        record(store, "patched", bytes, &changes.plain)?;
        view.head("patch", &format!("{} · {bytes} bytes", out.display()));
    }
    if after.apply && outcome == "done" {
        let digest = changes.plain.clone();
        let count = layer.apply(changes.plain)?;
        record(store, "applied", count, &digest)?;
        view.head("applied", &format!("{count} change(s)"));
    } else if all > 0 && after.patch.is_none() {
        view.head(
            "next",
            &format!(
                "provost diff {session} · provost apply {session} · provost discard {session}"
            ),
        );
    }
    Ok(())
}

fn record(
    store: &session::Store,
    what: &str,
    count: u64,
    changes: &[protocol::reader::Change],
) -> Result<(), Failure> {
    let entry = super::review::reviewed(what, count, changes);
    store.append(&[entry]).map_err(|error| {
        Failure::new(
            exit::ENDED,
            format!("the record cannot be written: {error}"),
        )
    })
}

fn bill(
    view: &mut View,
    outcome: &str,
    reason: &str,
    totals: supervisor_core::Totals,
    took: std::time::Duration,
    cost: Option<&str>,
) {
    let known = |figure: Option<u64>| figure.map_or_else(|| "?".to_owned(), |n| n.to_string());
    let cost = cost.map(|cost| format!(" · {cost}")).unwrap_or_default();
    view.head("outcome", &format!("{outcome}: {reason}"));
    view.head(
        "bill",
        &format!(
            "{} · {} model call(s), {} tokens in, {} out{cost} · {} tool call(s), {} refused",
            time(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
            totals.infers,
            known(totals.usage.input_uncached),
            known(totals.usage.output),
            totals.calls,
            totals.refusals,
        ),
    );
}
