//! `provost policy diff A B`: what B newly allows.

use std::{path::Path, process::ExitCode};

use policies::compare::{Widening, compare};
use serde_json::json;
use supervisor_core::escape::escape;

use super::{alone, print_json};
use crate::{
    exit::{DONE, ENDED, Failure},
    output,
};

/// Compares two policies.
pub(super) fn run(
    before: &str,
    after: &str,
    exit_code: bool,
    json: bool,
) -> Result<ExitCode, Failure> {
    let (old, new) = (alone(before)?, alone(after)?);
    let facts = crate::session::explained_facts(Path::new("/srv/workspace"));
    let found = compare(&old, &new, &facts);
    if json {
        print_json(
            &json!({ "v": 1, "wider": found.wider, "tighter": found.tighter, "calls": found.calls }),
        );
    } else {
        let list = |title: &str, told: &[Widening]| {
            let mut text = format!("{title}: {}\n", told.len());
            for one in told {
                text.push_str(&format!(
                    "  {:<11} {}  ({} → {})\n",
                    one.kind,
                    escape(&one.what, false),
                    escape(&one.before, false),
                    escape(&one.after, false)
                ));
            }
            text
        };
        output::out(&list(
            &format!("{after} newly allows, beside {before}"),
            &found.wider,
        ));
        output::out(&list("it newly asks about or denies", &found.tighter));
        output::out(&format!(
            "settings are compared word for word; rules by {} calls that they and a list of usual ones name\n",
            found.calls
        ));
    }
    let wider = exit_code && !found.wider.is_empty();
    Ok(ExitCode::from(if wider { ENDED } else { DONE }))
}
