//! `provost policy test FILE`: its examples, and every file of cases beside it.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use policies::cases;
use serde_json::json;
use supervisor_core::escape::escape;

use super::{alone, print_json, source_of, told};
use crate::{
    exit::{CONFIG, DONE, ENDED, Failure},
    output,
};

/// Files of cases that one run reads.
const FILES: usize = 256;

/// Runs them.
pub(super) fn run(file: &Path, more: &[PathBuf], json: bool) -> Result<ExitCode, Failure> {
    // The examples are checked by loading: one that does not hold is a fault with its place.
    let policy = alone(&file.display().to_string())?;
    let examples: usize = policy
        .layers
        .iter()
        .flat_map(|layer| &layer.rules)
        .map(|rule| rule.examples.r#match.len() + rule.examples.differ.len())
        .sum();
    let facts = crate::session::explained_facts(Path::new("/srv/workspace"));
    let mut files = beside(file)?;
    files.extend(more.iter().cloned());
    files.sort();
    files.dedup();
    let (mut held, mut failed) = (0_usize, Vec::new());
    for path in &files {
        let source = source_of(path)?;
        let found = cases::read(&source).map_err(|faults| told(&faults))?;
        if !more.contains(path) && !is_about(found.policy.as_deref(), file) {
            continue;
        }
        for case in &found.cases {
            match cases::check(&policy, case, &facts) {
                Ok(()) => held += 1,
                Err(why) => failed.push((case.at.clone(), case.name.clone(), why)),
            }
        }
    }
    if json {
        let list: Vec<_> = failed
            .iter()
            .map(|(at, name, why)| json!({ "at": at, "name": name, "why": why }))
            .collect();
        print_json(
            &json!({ "v": 1, "ok": failed.is_empty(), "examples": examples, "cases": held + failed.len(), "failed": list }),
        );
    } else {
        for (at, name, why) in &failed {
            output::err(&format!(
                "{}: `{}`: {}\n",
                escape(at, false),
                escape(name, false),
                escape(why, false)
            ));
        }
        output::out(&format!(
            "{}: {examples} example(s) hold; {held} of {} case(s) hold\n",
            file.display(),
            held + failed.len()
        ));
    }
    Ok(ExitCode::from(if failed.is_empty() { DONE } else { ENDED }))
}

/// Every `*.cases.toml` in the policy's folder.
fn beside(file: &Path) -> Result<Vec<PathBuf>, Failure> {
    // A shipped policy has no folder.
    if !file.is_file() {
        return Ok(Vec::new());
    }
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let unreadable =
        |error: std::io::Error| Failure::new(CONFIG, format!("`{}`: {error}", folder.display()));
    let mut files = Vec::new();
    for entry in folder.read_dir().map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.to_string_lossy().ends_with(".cases.toml") {
            files.push(path);
        }
        if files.len() > FILES {
            return Err(Failure::new(
                CONFIG,
                format!("more than {FILES} files of cases in `{}`", folder.display()),
            ));
        }
    }
    Ok(files)
}

/// Whether a file of cases is about this policy: it says so, or it names none.
fn is_about(named: Option<&str>, file: &Path) -> bool {
    named.is_none_or(|named| {
        let same = |part: Option<&std::ffi::OsStr>| part.is_some_and(|part| part == named);
        same(file.file_name()) || same(file.file_stem())
    })
}
