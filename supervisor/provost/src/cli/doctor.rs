//! `provost doctor`: what this machine holds, each right by what, and one exact remedy each.

use std::process::ExitCode;

use policies::parse::Source;
use protocol::{Floor, Right, bounds};
use serde_json::json;
use supervisor_sandbox::{find_worker, free_uid, situation};

use super::args::DoctorArgs;
use crate::{
    exit::{DONE, Failure, REFUSED_AT_START},
    output,
    session::{held_by, own_places, setup},
};

/// `provost doctor`
pub(super) fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let refused = |error: &dyn std::fmt::Display| Failure::new(REFUSED_AT_START, error.to_string());
    let places = own_places()?;
    let worker = find_worker().map_err(|error| refused(&error))?;
    let source = setup::find("default", &places).ok_or_else(|| refused(&"no default policy"))?;
    let sources: [Source; 1] = [source];
    let policy =
        policies::parse::load(&sources, &|name| setup::find(name, &places)).map_err(|faults| {
            refused(
                &faults
                    .first()
                    .map(|f| f.rendered.clone())
                    .unwrap_or_default(),
            )
        })?;
    let claim = nix::unistd::geteuid()
        .is_root()
        .then(|| free_uid(places.runtime(), None))
        .transpose();
    let claim = claim.map_err(|error| refused(&error))?;
    let scratch = places
        .runtime()
        .join(format!("doctor-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).map_err(|error| refused(&error))?;
    let found = situation(&worker, &policy.settings, &scratch, claim.as_ref());
    // An empty folder of ours; one that stays is swept with the runtime folder.
    let _ = std::fs::remove_dir(&scratch);

    let starts = found.namespaces.is_ok() && found.landlock_abi.is_some() && found.arch_ok;
    let remedy = found.namespaces.as_ref().err().cloned();
    let rights: Vec<_> = Right::ALL
        .iter()
        .map(|&right| {
            let floor = policy
                .settings
                .confinement
                .rights
                .get(&right)
                .copied()
                .unwrap_or(Floor::Required);
            (right, floor, held_by(right, true))
        })
        .collect();
    if args.json {
        let rights: Vec<_> = rights
            .iter()
            .map(|(right, floor, by)| json!({ "right": right, "floor": floor, "held": starts, "by": by, "remedy": remedy }))
            .collect();
        let object = json!({
            "v": 1, "starts": starts, "kernel": found.kernel, "arch": found.arch,
            "landlock_abi": found.landlock_abi, "situation": if starts { "A" } else { "none" },
            "cause": remedy, "worker": worker.path().display().to_string(), "rights": rights,
            "bounds": bounds::TABLE.iter().map(|b| json!({ "name": b.name, "value": b.value, "reason": b.reason })).collect::<Vec<_>>(),
        });
        output::out(&format!("{object}\n"));
    } else {
        let abi = found
            .landlock_abi
            .map_or_else(|| "not reached".to_owned(), |abi| format!("ABI {abi}"));
        output::out(&format!(
            "kernel    {} ({})\nlandlock  {abi}\nworker    {}\n",
            found.kernel,
            found.arch,
            worker.path().display()
        ));
        match &remedy {
            None => output::out(
                "jail      situation A: namespaces, Landlock, seccomp; a real box was built and taken down\n\n",
            ),
            Some(cause) => output::out(&format!("jail      cannot be built here: {cause}\n\n")),
        }
        for (right, floor, by) in rights {
            let state = if starts { "held" } else { "NOT held" };
            output::out(&format!(
                "{:<20} {:<9} {state:<9} {by}\n",
                right.as_str(),
                format!("{floor:?}").to_lowercase()
            ));
        }
        output::out(
            "\nEach session proves these by probes from inside its own jail: provost certificate SESSION\n",
        );
    }
    Ok(ExitCode::from(if starts { DONE } else { REFUSED_AT_START }))
}
