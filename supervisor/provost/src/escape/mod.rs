//! The escape suite: attacks by name, run as a session's own commands in a real session's jail, against
//! what this process plants outside.
//!
//! What an attack says of itself is not believed alone: what was planted is looked at afterwards, and
//! a secret that is told anywhere was reached, whoever says what.

mod play;
mod report;
mod scene;

use std::{path::Path, process::ExitCode};

use protocol::escape::Attack;
use supervisor_core::Certificate;
use supervisor_record::Places;
use supervisor_sandbox::{WorkerBinary, find_worker, list_attacks};

use crate::{
    cli::SetupArgs,
    exit::{BUG, DONE, ENDED, Failure, REFUSED_AT_START},
    harden::Keys,
    output,
    session::{self, own_places, setup},
};

use report::{Attempt, Report};
use scene::Scene;

/// What the suite is asked for.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    /// `[confinement] backend`.
    pub(crate) backend: &'a str,
    /// `[confinement] namespaces`.
    pub(crate) namespaces: &'a str,
    /// `[confinement] image`.
    pub(crate) image: Option<&'a str>,
    /// Where the report goes.
    pub(crate) report: Option<&'a Path>,
    /// Whether the report is also written for programs.
    pub(crate) json: bool,
}

/// Runs the suite.
///
/// # Errors
/// No session like that can be started here, or the suite itself could not work.
pub(crate) fn run(asked: &Asked<'_>, keys: &Keys) -> Result<ExitCode, Failure> {
    let places = own_places()?;
    let worker = find_worker().map_err(|error| refused(&error))?;
    let attacks = list_attacks(&worker)
        .map_err(|error| refused(&format!("the worker's attacks: {error}")))?;
    let scene = Scene::plant().map_err(|error| bug(&format!("cannot plant the scene: {error}")))?;
    let report = attempt(asked, &places, &worker, &attacks, &scene, keys);
    scene.clear();
    let report = report?;
    let text = report.json().to_string();
    if let Some(path) = asked.report {
        std::fs::write(path, format!("{text}\n")).map_err(|error| {
            Failure::new(ENDED, format!("cannot write `{}`: {error}", path.display()))
        })?;
    }
    if asked.json {
        output::out(&format!("{text}\n"));
    } else {
        output::out(&report.text());
    }
    Ok(ExitCode::from(if report.is_held() { DONE } else { ENDED }))
}

fn refused(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(REFUSED_AT_START, error.to_string())
}

fn bug(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(BUG, error.to_string())
}

/// One session, everything in it, and what is seen from outside afterwards.
fn attempt(
    asked: &Asked<'_>,
    places: &Places,
    worker: &WorkerBinary,
    attacks: &[Attack],
    scene: &Scene,
    keys: &Keys,
) -> Result<Report, Failure> {
    let policy = scene
        .policy(asked)
        .map_err(|error| bug(&format!("cannot write the policy: {error}")))?;
    let args = SetupArgs {
        workspace: Some(scene.work()),
        policy: policy.display().to_string(),
        ..SetupArgs::default()
    };
    let setup = setup::setup(&args, places, None)?;
    session::sweep_containers(places, &setup.policy.settings)?;
    // Inside namespaces and containers hands is the first process; elsewhere it is the command's
    // parent's, whom the probe finds itself.
    let hands = i32::from(asked.backend != "landlock" || asked.namespaces != "off");
    scene
        .arm(attacks, worker.path(), hands)
        .map_err(|error| bug(&format!("cannot arm the workspace: {error}")))?;
    let played = play::play(places, setup, attacks, keys)?;
    let mut attempts = report::judge(attacks, &played.said, scene.marker());
    if asked.backend == "docker" {
        report::excuse(&mut attempts);
    }
    attempts.extend(probes(&played.certificate));
    attempts.extend(plants(attacks, scene));
    attempts.extend(scene.canaries());
    Ok(Report::new(asked, &played.certificate, attempts))
}

/// The certificate's own probes: attempts in the agent's domain and in a command's.
fn probes(certificate: &Certificate) -> Vec<Attempt> {
    let rights = certificate.rights.iter();
    let probes = rights.flat_map(|state| {
        let required = state.floor == protocol::Floor::Required;
        state.probes.iter().map(move |probe| (required, probe))
    });
    let attempt = |(required, probe): (bool, &protocol::Probe)| {
        let domain = serde_json::to_value(probe.domain).unwrap_or_default();
        let domain = domain.as_str().unwrap_or("a").to_owned();
        Attempt {
            name: format!("{domain}.{}.{}", probe.right.as_str(), probe.case),
            rows: vec!["certificate".to_owned(), "ES-021".to_owned()],
            tries: format!(
                "the certificate's probe `{}` in the {domain}'s domain",
                probe.case
            ),
            way: domain,
            ours: true,
            verdict: match (probe.held(), required) {
                (true, _) => report::Verdict::Held,
                // The certificate itself says that this right is not held: nobody is deceived.
                (false, false) => report::Verdict::Absent,
                (false, true) if probe.refused => report::Verdict::Unanswered,
                (false, true) => report::Verdict::Escaped,
            },
            answer: probe.answer.clone(),
        }
    };
    probes.map(attempt).collect()
}

/// What the session planted for later, after everything plain was applied in bulk.
fn plants(attacks: &[Attack], scene: &Scene) -> Vec<Attempt> {
    let plants = attacks.iter().filter_map(|attack| match &attack.way {
        protocol::escape::Way::Plant { path, .. } => Some((attack, path)),
        _ => None,
    });
    plants
        .map(|(attack, path)| {
            let there = scene.work().join(path).symlink_metadata().is_ok();
            let (verdict, answer) = if there {
                (report::Verdict::Escaped, "it was applied")
            } else {
                (report::Verdict::Held, "left in the session")
            };
            Attempt {
                verdict,
                answer: answer.to_owned(),
                ..Attempt::of(attack, "apply")
            }
        })
        .collect()
}
