//! The rules of the shape. Each answers with its objections, one sentence each; none is empty of cause.

use std::collections::{BTreeMap, BTreeSet};

use super::{Crate, Workspace, drawn, tcb};

/// The graph as drawn equals the graph as it is, in both directions; the houses do not name each
/// other, not even in tests; and each arrow is used.
#[must_use]
pub fn arrows(workspace: &Workspace) -> Vec<String> {
    let mut objections = Vec::new();
    let table: BTreeMap<&str, &[&str]> = drawn::ARROWS.iter().copied().collect();
    let house_of: BTreeMap<&str, Option<&str>> = workspace
        .crates
        .iter()
        .map(|one| (one.name.as_str(), drawn::house(&one.folder)))
        .collect();
    for name in table.keys().filter(|name| !house_of.contains_key(**name)) {
        objections.push(format!("`{name}` is drawn and does not exist"));
    }
    for one in workspace
        .crates
        .iter()
        .filter(|one| one.name != drawn::TESTS)
    {
        let Some(named) = table.get(one.name.as_str()) else {
            objections.push(format!("`{}` exists and is not drawn", one.name));
            continue;
        };
        let named: BTreeSet<String> = named.iter().map(|name| (*name).to_owned()).collect();
        for extra in one.arrows.difference(&named) {
            objections.push(format!(
                "`{}` names `{extra}`, which is not drawn",
                one.name
            ));
        }
        for missing in named.difference(&one.arrows) {
            objections.push(format!(
                "`{}` → `{missing}` is drawn and not there",
                one.name
            ));
        }
        for other in one.arrows.union(&one.test_arrows) {
            let (ours, theirs) = (drawn::house(&one.folder), house_of.get(other.as_str()));
            if let (Some(ours), Some(Some(theirs))) = (ours, theirs)
                && ours != *theirs
            {
                objections.push(format!(
                    "`{}` of the house {ours} names `{other}` of the house {theirs}",
                    one.name
                ));
            }
        }
        let unused = one
            .arrows
            .iter()
            .chain(&one.outsiders)
            .filter(|name| !is_used(one, name));
        objections.extend(
            unused.map(|name| format!("`{}` depends on `{name}` and never uses it", one.name)),
        );
    }
    objections
}

fn is_used(one: &Crate, dependency: &str) -> bool {
    let word = dependency.replace('-', "_");
    // A build script counts; a dependency only for tests belongs with those for tests.
    one.sources().any(|file| file.count(&word) > 0)
}

/// The crates that decide and confine name the listed outsiders and no others, and the pure ones
/// touch nothing of the world.
#[must_use]
pub fn outsiders(workspace: &Workspace) -> Vec<String> {
    const WORLD: &[&str] = &[
        "std::fs",
        "std::net",
        "std::env",
        "std::process",
        "std::thread",
        "std::os",
        "std::time::Instant",
        "std::time::SystemTime",
        "Instant",
        "SystemTime",
        "async",
        "await",
    ];
    let mut objections = Vec::new();
    for (name, listed) in drawn::OUTSIDERS {
        let Some(one) = find(workspace, name, &mut objections) else {
            continue;
        };
        let listed: BTreeSet<String> = listed.iter().map(|name| (*name).to_owned()).collect();
        for extra in one.outsiders.difference(&listed) {
            objections.push(format!("`{name}` names `{extra}`, which is not listed"));
        }
        for gone in listed.difference(&one.outsiders) {
            objections.push(format!(
                "`{name}` is listed with `{gone}` and does not name it any more"
            ));
        }
    }
    for (outsider, keepers) in drawn::KEPT_APART {
        for one in workspace
            .crates
            .iter()
            .filter(|one| one.name != drawn::TESTS)
        {
            if one.outsiders.contains(*outsider) && !keepers.contains(&one.name.as_str()) {
                objections.push(format!(
                    "`{}` names `{outsider}`, which is not its to name",
                    one.name
                ));
            }
        }
    }
    for name in drawn::PURE {
        let Some(one) = find(workspace, name, &mut objections) else {
            continue;
        };
        for file in one.sources().filter(|file| file.path != "build.rs") {
            for word in WORLD.iter().filter(|word| file.count(word) > 0) {
                objections.push(format!(
                    "{}/{}: `{word}` in a pure crate",
                    one.folder, file.path
                ));
            }
        }
    }
    objections
}

/// Unsafe code is forbidden by every manifest but the drawn ones, and stands in one file of each.
#[must_use]
pub fn unsafe_code(workspace: &Workspace) -> Vec<String> {
    let mut objections = Vec::new();
    for (exception, _) in drawn::UNSAFE {
        find(workspace, exception, &mut objections);
    }
    for one in &workspace.crates {
        let inherits = one.manifest.contains("[lints]\nworkspace = true");
        let own = one
            .manifest
            .contains("[lints.rust]\nunsafe_code = \"deny\"");
        let file_of_it = drawn::UNSAFE
            .iter()
            .find(|(name, _)| *name == one.name)
            .map(|(_, file)| *file);
        match file_of_it {
            Some(file) if !own => objections.push(format!(
                "`{}` does not deny unsafe code outside of `{file}`",
                one.name
            )),
            None if !inherits => objections.push(format!(
                "`{}` does not inherit the workspace's lints",
                one.name
            )),
            _ => {}
        }
        for file in &one.files {
            let allowed = file_of_it.is_some_and(|of_it| {
                file.path == of_it || (one.name == "worker-jail" && file.is_test)
            });
            if file.count("unsafe") > 0 && !allowed {
                objections.push(format!("{}/{}: unsafe code", one.folder, file.path));
            }
        }
    }
    objections
}

/// Each file begins with what it is for, and no name says nothing.
#[must_use]
pub fn first_lines_and_names(workspace: &Workspace) -> Vec<String> {
    let mut objections = Vec::new();
    for (one, file) in every_file(workspace) {
        let said = file
            .first
            .strip_prefix("//! ")
            .is_some_and(|words| words.trim().len() >= 10);
        if !said {
            objections.push(format!(
                "{}/{}: the first line does not say what it is for",
                one.folder, file.path
            ));
        }
        let names = file.path.trim_end_matches(".rs").split('/');
        for name in names.filter(|name| drawn::BANNED_NAMES.contains(name)) {
            objections.push(format!(
                "{}/{}: `{name}` says nothing",
                one.folder, file.path
            ));
        }
    }
    objections
}

/// Each file can be read in one sitting.
#[must_use]
pub fn lengths(workspace: &Workspace) -> Vec<String> {
    let mut objections = Vec::new();
    for (one, file) in every_file(workspace).filter(|(_, file)| !file.is_test) {
        let is_main = file.path == "src/main.rs";
        let limit = if is_main {
            drawn::MAIN_LINES
        } else {
            drawn::FILE_LINES
        };
        if file.lines > limit {
            let lines = file.lines;
            objections.push(format!(
                "{}/{}: {lines} lines, at most {limit}",
                one.folder, file.path
            ));
        }
    }
    objections
}

/// The trusted base stays under its ceilings.
#[must_use]
pub fn ceilings(workspace: &Workspace) -> Vec<String> {
    let mut objections = Vec::new();
    for ceiling in drawn::CEILINGS {
        let Some(one) = find(workspace, ceiling.name, &mut objections) else {
            continue;
        };
        let weight = tcb::Weight::of(one);
        let figures = [
            ("lines", weight.lines, ceiling.lines),
            (
                "places with unsafe code",
                weight.unsafe_places,
                ceiling.unsafe_places,
            ),
            (
                "crates from outside that it names",
                weight.direct,
                ceiling.direct,
            ),
            (
                "crates from outside that it links",
                weight.reached,
                ceiling.reached,
            ),
        ];
        for (what, is, limit) in figures.iter().filter(|(_, is, limit)| is > limit) {
            objections.push(format!(
                "`{}` has {is} {what}, at most {limit}",
                ceiling.name
            ));
        }
    }
    objections
}

/// A scan that saw nearly nothing objects.
#[must_use]
pub fn floors(workspace: &Workspace) -> Vec<String> {
    let files = every_file(workspace).count();
    let lines: usize = every_file(workspace).map(|(_, file)| file.lines).sum();
    let seen = [
        ("crates", workspace.crates.len(), drawn::LEAST_CRATES),
        ("files", files, drawn::LEAST_FILES),
        ("lines", lines, drawn::LEAST_LINES),
    ];
    let short = seen.iter().filter(|(_, is, least)| is < least);
    short
        .map(|(what, is, least)| format!("only {is} {what} were scanned, at least {least} exist"))
        .collect()
}

fn find<'w>(
    workspace: &'w Workspace,
    name: &str,
    objections: &mut Vec<String>,
) -> Option<&'w Crate> {
    let found = workspace.crates.iter().find(|one| one.name == name);
    if found.is_none() {
        objections.push(format!("`{name}` is in a table and does not exist"));
    }
    found
}

fn every_file(workspace: &Workspace) -> impl Iterator<Item = (&Crate, &super::SourceFile)> {
    workspace
        .crates
        .iter()
        .flat_map(|one| one.files.iter().map(move |file| (one, file)))
}
