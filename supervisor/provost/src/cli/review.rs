//! `provost diff`, `apply` and `discard`.

use std::process::ExitCode;

use protocol::reader::{Change, NodeKind};
use serde_json::json;
use supervisor_core::{Entry, escape::escape};

use super::{
    args::{ApplyArgs, DiffArgs, SessionArg},
    sessions,
};
use crate::{
    exit::{Failure, REFUSED_AT_START, USAGE},
    output,
    session::{
        self, now_ms, own_places,
        review::{Changes, Layer},
    },
    view::View,
};

/// Changes that the summary of a run lists.
const LISTED: usize = 30;

pub(super) fn layer(
    word: &str,
) -> Result<(Layer, supervisor_record::Record, protocol::SessionId), Failure> {
    let places = own_places()?;
    let record = session::open_record(&places)?;
    let id = sessions::find(&record, word)?;
    let entries = sessions::entries(&record, &id)?;
    let saved = sessions::saved(&entries, &id)?;
    let layer = Layer::take(&places, &id, saved)?;
    Ok((layer, record, id))
}

/// `provost diff`
pub(super) fn diff(args: &DiffArgs) -> Result<ExitCode, Failure> {
    let (layer, mut record, id) = layer(&args.session)?;
    let changes = layer.changes()?;
    if args.json {
        let protected: Vec<_> = changes
            .protected
            .iter()
            .map(|(change, by)| json!({ "change": change, "by": by }))
            .collect();
        output::out(&format!(
            "{}\n",
            json!({ "v": 1, "session": id, "changes": changes.plain, "protected": protected })
        ));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(out) = &args.patch {
        let bytes = layer.patch(&changes, out)?;
        append(&mut record, &id, reviewed("patched", bytes, &changes.plain))?;
        output::err(&format!("wrote {bytes} bytes to {}\n", out.display()));
        return Ok(ExitCode::SUCCESS);
    }
    if changes.plain.is_empty() && changes.protected.is_empty() {
        output::err(&format!("session {id} changed nothing\n"));
        return Ok(ExitCode::SUCCESS);
    }
    if args.list {
        for change in &changes.plain {
            output::out(&format!("{}\n", line(change)));
        }
        for (change, by) in &changes.protected {
            output::out(&format!(
                "{} (protected: {by}; apply with --protected {})\n",
                line(change),
                approval(change)
            ));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let text = layer.patch_text(&changes)?;
    output::out(&escape(&String::from_utf8_lossy(&text), true));
    for (change, by) in &changes.protected {
        output::err(&format!("not shown: {} (protected: {by})\n", line(change)));
    }
    Ok(ExitCode::SUCCESS)
}

/// `provost apply`
pub(super) fn apply(args: &ApplyArgs) -> Result<ExitCode, Failure> {
    let (layer, mut record, id) = layer(&args.session)?;
    let changes = layer.changes()?;
    let mut chosen = changes.plain.clone();
    for word in &args.protected {
        let (path, wanted) = word.rsplit_once('=').ok_or_else(|| {
            Failure::new(USAGE, format!("--protected `{word}` is not PATH=DIGEST"))
                .help("`provost diff --list` shows the digests")
        })?;
        let found = changes.protected.iter().find(|(change, _)| {
            let shown = escape(&change.path, false);
            (change.path == path || shown == path) && digest(change) == wanted
        });
        let (change, _) = found.ok_or_else(|| {
            Failure::new(
                USAGE,
                format!("no protected change `{path}` with the digest `{wanted}`"),
            )
            .help("`provost diff --list` shows what there is now")
        })?;
        chosen.push(change.clone());
    }
    chosen.sort_by(|a, b| a.path.cmp(&b.path));
    let left: Vec<_> = changes
        .protected
        .iter()
        .filter(|(change, _)| !chosen.contains(change))
        .collect();
    // The plan is durable before the first write.
    let intent = Entry::Notice {
        text: format!("applying {} change(s)", chosen.len()),
    };
    append(&mut record, &id, intent)?;
    let count = layer.apply(chosen.clone())?;
    append(&mut record, &id, reviewed("applied", count, &chosen))?;
    output::err(&format!(
        "applied {count} change(s) to {}\n",
        layer.saved.setup.workspace.display()
    ));
    for (change, by) in left {
        output::err(&format!(
            "not applied: {} (protected: {by}; --protected {})\n",
            line(change),
            approval(change)
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// `provost discard`
pub(super) fn discard(args: &SessionArg) -> Result<ExitCode, Failure> {
    let (layer, mut record, id) = layer(&args.session)?;
    layer.discard()?;
    append(&mut record, &id, reviewed("discarded", 0, &[]))?;
    output::err(&format!("discarded the changes of session {id}\n"));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn append(
    record: &mut supervisor_record::Record,
    id: &protocol::SessionId,
    entry: Entry,
) -> Result<(), Failure> {
    let done = record.append(id, &[entry], now_ms());
    done.map(drop).map_err(|error| {
        Failure::new(
            REFUSED_AT_START,
            format!("the record cannot be written: {error}"),
        )
    })
}

/// The record's word about a review.
pub(super) fn reviewed(what: &str, count: u64, changes: &[Change]) -> Entry {
    Entry::Reviewed {
        what: what.to_owned(),
        count,
        digest: Some(session::digest_of(&changes)),
    }
}

/// The changes as the end of a run tells them.
pub(super) fn summarise(view: &mut View, changes: &Changes) {
    let all = changes.plain.len() + changes.protected.len();
    if all == 0 {
        view.head("changed", "nothing");
        return;
    }
    view.head(
        "changed",
        &format!("{all} path(s); the workspace itself is untouched until you apply"),
    );
    for change in changes.plain.iter().take(LISTED) {
        view.line(&format!("    {}", line(change)));
    }
    if changes.plain.len() > LISTED {
        view.line(&format!("    … and {} more", changes.plain.len() - LISTED));
    }
    for (change, by) in changes.protected.iter().take(LISTED) {
        view.line(&format!(
            "    {} (protected: {by}; not applied in bulk)",
            line(change)
        ));
    }
    for path in changes.skipped.iter().take(LISTED) {
        view.line(&format!(
            "    left out: {} (it can never be applied)",
            escape(path, false)
        ));
    }
}

/// One change for people.
fn line(change: &Change) -> String {
    let path = escape(&change.path, false);
    let kind = |kind: NodeKind| match kind {
        NodeKind::File => "",
        NodeKind::Folder => "/",
        NodeKind::Symlink => " (link)",
    };
    let lines = change
        .lines
        .map(|(plus, minus)| format!("  +{plus} -{minus}"))
        .unwrap_or_default();
    match (&change.before, &change.after) {
        (None, Some(after)) => format!("A {path}{}{lines}", kind(after.kind)),
        (Some(before), None) => format!("D {path}{}{lines}", kind(before.kind)),
        (Some(before), Some(after))
            if before.digest == after.digest && before.kind == after.kind =>
        {
            format!(
                "M {path}{}  mode {:o} → {:o}",
                kind(after.kind),
                before.mode,
                after.mode
            )
        }
        (_, Some(after)) => format!("M {path}{}{lines}", kind(after.kind)),
        (None, None) => format!("? {path}"),
    }
}

/// The digest by which a protected change is approved.
fn digest(change: &Change) -> String {
    session::digest_of(change).short().to_owned()
}

/// What approves a protected change, as one word of a shell: people paste it, and the name is the
/// session's own.
fn approval(change: &Change) -> String {
    let word = format!("{}={}", escape(&change.path, false), digest(change));
    let plain = |c: char| c.is_ascii_alphanumeric() || "._/=+@%,:-".contains(c);
    if word.chars().all(plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use protocol::reader::Node;

    use super::*;

    #[test]
    fn a_pasted_approval_is_one_word() {
        let shown = |path: &str| {
            approval(&Change {
                path: path.to_owned(),
                before: None,
                after: Some(Node {
                    kind: NodeKind::File,
                    mode: 0o644,
                    size: 0,
                    digest: None,
                }),
                lines: None,
            })
        };
        assert!(shown(".github/x.yml").starts_with(".github/x.yml="));
        assert!(shown(".github/$(id)").starts_with("'.github/$(id)="));
        assert!(shown(".github/a'b").starts_with("'.github/a'\\''b="));
    }
}
