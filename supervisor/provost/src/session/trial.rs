//! What a box must hold: the trial of one that nobody works in, and the refusal of one that does not.

use std::sync::Arc;

use protocol::bounds;
use supervisor_core::{Certificate, Entry};
use supervisor_sandbox::WorkerBinary;
use tokio::sync::mpsc;

use super::{Store, backend, certify, end, links, place, stand};
use crate::exit::{BUG, Failure, REFUSED_AT_START};

/// Builds a box around an empty folder, proves it as a session's is proven, and takes it down again.
///
/// # Errors
/// What a session here would fail with.
pub(crate) fn trial(
    places: &supervisor_record::Places,
    worker: WorkerBinary,
    policy: &policies::Policy,
    identity: Option<protocol::jail::Identity>,
    folder: &std::path::Path,
) -> Result<Certificate, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(BUG, format!("no runtime: {error}")))?;
    let worker = Arc::new(worker);
    let proven = async {
        let session = place::session_id()?;
        let (backend, group) = backend::of(places, &policy.settings, &session)?;
        let mut ground = place::Trial {
            places,
            session,
            policy,
            identity,
            folder,
        };
        let confinement = &policy.settings.confinement;
        let stood = stand::stand(&mut ground, confinement, &backend, &worker).await?;
        let (spec, jail, _attendant) = (stood.spec, stood.jail, stood.attendant);
        let bounds = certify::Bounds::of(&jail, group, spec.limits.processes)?;
        let lost = |error: std::io::Error| {
            Failure::new(REFUSED_AT_START, format!("a link failed: {error}"))
        };
        let (inbox, _messages) = mpsc::unbounded_channel();
        let link = jail.hands.try_clone().map_err(lost)?;
        let explainer = jail.process.explainer();
        let hands = links::Hands::start(link, inbox, explainer).map_err(lost)?;
        let at = certify::Circumstances {
            places,
            spec: &spec,
            policy,
            worker: &worker,
            facts: &jail.facts,
            nonce: place::random_hex(16)?,
            hidden: Vec::new(),
            folder,
            bounds: &bounds,
        };
        let certificate = certify::certify(&hands, &at).await;
        end(jail).await;
        certificate.map_err(|why| {
            Failure::new(
                REFUSED_AT_START,
                format!("the box could not be proven: {why}"),
            )
        })
    };
    let certificate = tokio::task::LocalSet::new().block_on(&runtime, proven);
    runtime.shutdown_timeout(bounds::COMMAND_GRACE);
    certificate
}

/// Refuses a session whose box lacks a required right, naming right, cause and remedy.
pub(super) fn refuse_if_broken(certificate: &Certificate, store: &Store) -> Result<(), Failure> {
    let broken: Vec<_> = certificate.broken().collect();
    if broken.is_empty() {
        return Ok(());
    }
    let lines = broken.iter().map(|state| {
        let found = state.probes.iter().filter(|probe| !probe.held());
        let mut found: Vec<_> = found
            .map(|p| format!("{} in the {:?} domain: {}", p.case, p.domain, p.answer))
            .collect();
        if found.is_empty() {
            found.push(state.state.as_str().to_owned());
        }
        let remedy = supervisor_sandbox::row_of(state.right).map_or("", |row| row.remedy);
        format!(
            "\n  {} (by {}): {}; remedy: {remedy}",
            state.right,
            state.by,
            found.join("; ")
        )
    });
    let message = format!(
        "a required right is not held here:{}",
        lines.collect::<String>()
    );
    let entry = Entry::Ended {
        outcome: "refused".to_owned(),
        reason: message.clone(),
        usage: protocol::Usage::default(),
        calls: 0,
        refusals: 0,
    };
    // The refusal stands whether or not it could be recorded.
    let _ = store.append(&[entry]);
    Err(Failure::new(REFUSED_AT_START, message)
        .help("`provost doctor` names a remedy; a right may be made `preferred` in [confinement.rights] of a policy"))
}
