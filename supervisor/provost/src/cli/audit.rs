//! `provost audit verify` and `provost certificate`.

use std::process::ExitCode;

use serde_json::json;
use supervisor_core::Entry;
use supervisor_record::AuditHead;

use super::{
    args::{AuditCommand, SessionArg},
    sessions,
};
use crate::{
    exit::{ENDED, Failure, REFUSED_AT_START, USAGE},
    output,
    session::{self, own_places},
};

/// `provost audit …`
pub(super) fn run(command: AuditCommand) -> Result<ExitCode, Failure> {
    let AuditCommand::Verify {
        session: word,
        head,
        json,
    } = command;
    let places = own_places()?;
    let record = session::open_record(&places)?;
    let refused = |error: &dyn std::fmt::Display| Failure::new(REFUSED_AT_START, error.to_string());
    let head = head.map(|word| word.parse::<AuditHead>()).transpose();
    let head = head.map_err(|error| Failure::new(USAGE, error.to_string()))?;
    let heads: Vec<AuditHead> = head.into_iter().collect();
    let (checked, faults) = match word {
        Some(word) => {
            let id = sessions::find(&record, &word)?;
            let faults = record
                .verify(&id, &heads)
                .map_err(|error| refused(&error))?;
            (1, faults)
        }
        None => {
            let count = record.sessions().map_err(|error| refused(&error))?.len();
            (
                count,
                record.verify_all(&heads).map_err(|error| refused(&error))?,
            )
        }
    };
    if json {
        let list: Vec<_> = faults.iter().map(|fault| json!({ "session": fault.session, "seq": fault.seq, "kind": fault.kind, "what": fault.to_string() })).collect();
        output::out(&format!(
            "{}\n",
            json!({ "v": 1, "sessions": checked, "faults": list })
        ));
    } else if faults.is_empty() {
        output::out(&format!(
            "{checked} chain(s) verified: no edit, gap, reorder or cut\n"
        ));
    } else {
        for fault in &faults {
            output::out(&format!("{fault}\n"));
        }
    }
    Ok(ExitCode::from(if faults.is_empty() { 0 } else { ENDED }))
}

/// `provost certificate`
pub(super) fn certificate(args: &SessionArg) -> Result<ExitCode, Failure> {
    let places = own_places()?;
    let record = session::open_record(&places)?;
    let id = sessions::find(&record, &args.session)?;
    let entries = sessions::entries(&record, &id)?;
    let found = entries.iter().rev().find_map(|entry| match entry {
        Entry::Certificate(certificate) => Some(certificate),
        _ => None,
    });
    let certificate =
        found.ok_or_else(|| Failure::new(ENDED, format!("session {id} has no certificate")))?;
    let text = serde_json::to_string_pretty(certificate).unwrap_or_default();
    output::out(&format!("{text}\n"));
    Ok(ExitCode::SUCCESS)
}
