//! `provost undo`: puts back what the tools of a session changed, from the contents that were kept
//! before each change.

use std::{collections::BTreeMap, process::ExitCode};

use protocol::{
    CallId, Digest,
    reader::{Kept, Step},
};
use supervisor_core::{Entry, escape::escape};
use supervisor_record::Record;

use super::{args::UndoArgs, review, sessions};
use crate::{
    exit::{Failure, USAGE},
    output,
    session::digest_of,
};

/// `provost undo`
pub(super) fn undo(args: &UndoArgs) -> Result<ExitCode, Failure> {
    let (layer, mut record, id) = review::layer(&args.session)?;
    let entries = sessions::entries(&record, &id)?;
    let workspace = layer.saved.setup.workspace.display().to_string();
    let changes = changes(&entries, &workspace, args.to.as_deref())?;
    let steps = steps(&changes, &record);
    let names: Vec<String> = steps.iter().map(|step| step.path.clone()).collect();
    let digest = digest_of(&names);
    // The plan is durable before the first write.
    let intent = Entry::Notice {
        text: format!("undoing the tools' changes of {} file(s)", steps.len()),
    };
    review::append(&mut record, &id, intent)?;
    let count = layer.restore(steps)?;
    let done = Entry::Reviewed {
        what: "undone".to_owned(),
        count,
        digest: Some(digest),
    };
    review::append(&mut record, &id, done)?;
    output::err(&format!("put {count} file(s) back as they were\n"));
    for name in names.iter().filter(|_| count > 0) {
        output::err(&format!("    {}\n", escape(name, false)));
    }
    Ok(ExitCode::SUCCESS)
}

/// What the tools did to one file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changed {
    /// What it was before the first change that goes; unset while none goes.
    before: Option<Option<Digest>>,
    /// Every content that a tool found or left, so that a partial undo is no stranger's change.
    known: Vec<Digest>,
}

/// The files that tools wrote after the call `to`, or ever.
fn changes(
    entries: &[Entry],
    workspace: &str,
    to: Option<&str>,
) -> Result<BTreeMap<String, Changed>, Failure> {
    let mut open = to.is_none();
    let mut found: BTreeMap<String, Changed> = BTreeMap::new();
    for entry in entries {
        let Entry::Outcome {
            call,
            ok,
            before,
            written,
            ..
        } = entry
        else {
            continue;
        };
        if *ok
            && let Some(written) = written
            && let Some(path) = written.path.strip_prefix(workspace)
        {
            let path = path.trim_start_matches('/').replace('\\', "\\\\");
            let changed = found.entry(path).or_default();
            changed.known.extend(before.clone());
            changed.known.push(written.after.clone());
            if open && changed.before.is_none() {
                changed.before = Some(before.clone());
            }
        }
        open = open || to.is_some_and(|to| CallId::as_str(call) == to);
    }
    if open {
        found.retain(|_, changed| changed.before.is_some());
        return Ok(found);
    }
    let calls = entries.iter().filter_map(|entry| match entry {
        Entry::Outcome {
            call,
            written: Some(_),
            ..
        } => Some(call.as_str()),
        _ => None,
    });
    let calls: Vec<&str> = calls.collect();
    let message = format!(
        "the session has no call `{}`",
        escape(to.unwrap_or_default(), false)
    );
    Err(Failure::new(USAGE, message).help(format!("calls that wrote files: {}", calls.join(", "))))
}

fn steps(changes: &BTreeMap<String, Changed>, record: &Record) -> Vec<Step> {
    let step = |(path, changed): (&String, &Changed)| Step {
        path: path.clone(),
        known: changed.known.clone(),
        before: changed.before.iter().flatten().next().map(|digest| Kept {
            digest: digest.clone(),
            file: record.blob_path(digest).display().to_string(),
        }),
    };
    changes.iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use supervisor_core::Written;

    use super::*;

    fn wrote(call: &str, path: &str, before: Option<&[u8]>, after: &[u8]) -> Entry {
        Entry::Outcome {
            call: CallId::parse(call).expect("an id"),
            ok: true,
            what: String::new(),
            ms: 0,
            before: before.map(Digest::of),
            spool: None,
            written: Some(Written {
                path: path.to_owned(),
                after: Digest::of(after),
            }),
        }
    }

    #[test]
    fn a_file_goes_back_to_before_its_first_change_after_the_call() {
        let entries = [
            wrote("a", "/w/f", Some(b"0"), b"1"),
            wrote("b", "/w/new", None, b"n"),
            wrote("c", "/w/f", Some(b"1"), b"2"),
        ];
        let all = changes(&entries, "/w", None).expect("found");
        let before = |found: &BTreeMap<String, Changed>, name: &str| {
            found.get(name).and_then(|changed| changed.before.clone())
        };
        assert_eq!(before(&all, "f"), Some(Some(Digest::of(b"0"))));
        assert_eq!(before(&all, "new"), Some(None));
        let known = [&b"0"[..], b"1", b"1", b"2"].map(Digest::of);
        assert_eq!(all.get("f").map(|f| f.known.as_slice()), Some(&known[..]));
        let some = changes(&entries, "/w", Some("b")).expect("found");
        assert_eq!(some.len(), 1);
        assert_eq!(before(&some, "f"), Some(Some(Digest::of(b"1"))));
        assert!(changes(&entries, "/w", Some("zz")).is_err());
        assert!(
            changes(&entries, "/w", Some("c"))
                .expect("found")
                .is_empty()
        );
    }
}
