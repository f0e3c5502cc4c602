//! `provost doctor`: what this machine holds, each right by what, and one exact remedy each.
//!
//! It builds a real box around an empty folder and proves it as a session's is proven.

use std::{path::Path, process::ExitCode};

use policies::parse::Source;
use protocol::{State, bounds, jail::Identity};
use serde_json::json;
use supervisor_core::Certificate;
use supervisor_record::Places;
use supervisor_sandbox::{
    ClaimedUid, Engine, EngineFault, EngineLook, RIGHTS, find_worker, free_uid,
};

use super::{args::DoctorArgs, rights};
use crate::{
    exit::{DONE, Failure, REFUSED_AT_START},
    output,
    session::{leave_tree, own_places, setup, trial},
};

/// `provost doctor`
pub(super) fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let refused = |error: &dyn std::fmt::Display| Failure::new(REFUSED_AT_START, error.to_string());
    let places = own_places()?;
    let worker = find_worker().map_err(|error| refused(&error))?;
    let path = worker.path().display().to_string();
    let policy = default_policy(&places)?;
    let root = nix::unistd::geteuid().is_root();
    let claim = root.then(|| free_uid(places.runtime(), None)).transpose();
    let claim = claim.map_err(|error| refused(&error))?;
    let identity = claim.as_ref().map(ClaimedUid::identity);
    let scratch = places
        .runtime()
        .join(format!("doctor-{}", std::process::id()));
    let proven = prepare(&scratch, identity)
        .map_err(|error| refused(&error))
        .and_then(|()| trial(&places, worker, &policy, identity, &scratch));
    // Folders of ours with nothing in them; what stays is swept with the runtime folder.
    if let Ok(tree) = std::fs::read_link(scratch.join("tree")) {
        let _ = std::fs::remove_dir_all(tree.with_file_name(supervisor_sandbox::HOME));
        leave_tree(&scratch);
    }
    let _ = std::fs::remove_dir_all(&scratch);

    let engine = Engine::find().and_then(|engine| {
        let look = engine.look()?;
        Ok((engine.socket().display().to_string(), look))
    });
    let starts = proven
        .as_ref()
        .is_ok_and(|certificate| certificate.broken().next().is_none());
    if args.json {
        output::out(&format!(
            "{}\n",
            as_json(&path, &policy, &engine, &proven, starts)
        ));
    } else {
        tell(&path, &engine, &proven);
    }
    Ok(ExitCode::from(if starts { DONE } else { REFUSED_AT_START }))
}

fn default_policy(places: &Places) -> Result<policies::Policy, Failure> {
    let refused = |why: String| Failure::new(REFUSED_AT_START, why);
    let source =
        setup::find("default", places).ok_or_else(|| refused("no default policy".to_owned()))?;
    let sources: [Source; 1] = [source];
    policies::parse::load(&sources, &|name| setup::find(name, places)).map_err(|faults| {
        refused(
            faults
                .first()
                .map(|fault| fault.rendered.clone())
                .unwrap_or_default(),
        )
    })
}

/// An empty folder that the box can own.
fn prepare(scratch: &Path, identity: Option<Identity>) -> std::io::Result<()> {
    let tree = scratch.join("tree");
    std::fs::create_dir_all(&tree)?;
    if let Some(identity) = identity {
        std::os::unix::fs::chown(&tree, Some(identity.uid), Some(identity.gid))?;
    }
    Ok(())
}

/// A container engine with its socket, or why there is none and what to do.
type Engines = Result<(String, EngineLook), EngineFault>;

/// Situation C on this machine.
fn engine_json(engine: &Engines) -> serde_json::Value {
    match engine {
        Ok((socket, look)) => json!({
            "reachable": true, "socket": socket, "version": look.version, "runtime": look.runtime,
            "runtimes": look.runtimes, "rootless": look.rootless,
            "warning": look.runtime_too_old(&look.runtime),
        }),
        Err(fault) => json!({ "reachable": false, "remedy": fault.to_string() }),
    }
}

/// The same for people.
fn engine_line(engine: &Engines) -> String {
    match engine {
        Ok((socket, look)) => {
            let access = if look.rootless {
                "rootless"
            } else {
                "who may use it is root"
            };
            let warning = look.runtime_too_old(&look.runtime);
            let warning = warning.map_or_else(String::new, |text| format!("; {text}"));
            format!(
                "Docker {} at {socket} ({access}); runtimes {}: --backend docker --image NAME{warning}",
                look.version,
                look.runtimes.join(", ")
            )
        }
        Err(fault) => format!("none: {fault}"),
    }
}

fn as_json(
    worker: &str,
    policy: &policies::Policy,
    engine: &Engines,
    proven: &Result<Certificate, Failure>,
    starts: bool,
) -> serde_json::Value {
    let certificate = proven.as_ref().ok();
    let rights = RIGHTS.iter().map(|row| {
        let state = certificate.and_then(|found| {
            let mut states = found.rights.iter();
            states.find(|state| state.right == row.right)
        });
        let floor = policy.settings.confinement.rights.get(&row.right);
        let [a, b, c] = row.by;
        let cause = || proven.as_ref().err().map(|failure| failure.message.clone());
        json!({
            "right": row.right, "floor": floor, "held": state.is_some_and(|state| state.held),
            "state": state.map_or(State::Absent, |state| state.state),
            "by": state.map_or(a, |state| state.by.as_str()),
            "table": { "A": a, "B": b, "C": c },
            "remedy": state.map_or_else(cause, rights::remedy),
        })
    });
    let bounds = bounds::TABLE.iter();
    let bounds = bounds.map(|b| json!({ "name": b.name, "value": b.value, "reason": b.reason }));
    json!({
        "v": 1, "starts": starts, "worker": worker,
        "kernel": kernel(), "arch": std::env::consts::ARCH,
        "situation": certificate.map_or("none", |certificate| certificate.situation.as_str()),
        "landlock_abi": certificate.map(|certificate| certificate.abi),
        "cause": proven.as_ref().err().map(|failure| failure.message.clone()),
        "engine": engine_json(engine),
        "rights": rights.collect::<Vec<_>>(), "bounds": bounds.collect::<Vec<_>>(),
    })
}

fn tell(worker: &str, engine: &Engines, proven: &Result<Certificate, Failure>) {
    let mut text = format!(
        "kernel    {} ({})\nworker    {worker}\n",
        kernel(),
        std::env::consts::ARCH
    );
    text.push_str(&match proven {
        Ok(certificate) => format!(
            "jail      built, proven and taken down: {}\n",
            certificate.line()
        ),
        Err(failure) => format!("jail      cannot be built here: {}\n", failure.message),
    });
    text.push_str(&format!("engine    {}\n\n", engine_line(engine)));
    if let Ok(certificate) = proven {
        text.push_str(&rights::table(&certificate.rights));
    } else {
        for row in RIGHTS {
            let [a, b, c] = row.by;
            text.push_str(&format!(
                "{:<20} not proven: A {a}; B {b}; C {c}\n",
                row.right.as_str()
            ));
        }
    }
    output::out(&text);
}

fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    release
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}
