//! What holds without any rule: protected names, what is not in the view, what is not understood, and
//! the default for all the rest.

use super::{
    Word, loader,
    subject::{Kind, Subject, Write},
};
use crate::{
    Category, Decision, Facts, FileVerb, Place, Policy, ViewPath, WorkspaceMode, glob::Pattern,
    protected::could_be_protected, shell::Simple,
};

/// The built-in layer's word joined with what the rules said.
pub(super) fn judge(
    policy: &Policy,
    subject: &Subject<'_>,
    said: Option<Word>,
    facts: &Facts,
) -> Word {
    let own = match &subject.kind {
        Kind::Command { simple, writes, .. } => command(policy, simple, writes, facts),
        Kind::Redirect { touch, spelled } => {
            redirect(policy, spelled, touch.verb, &subject.text, facts)
        }
        Kind::File(touch) => touch
            .paths
            .first()
            .and_then(|path| file(policy, path, touch.verb, facts)),
        Kind::Query { database, .. } => query(policy, database),
        Kind::Opaque { doubt } => Some(not_understood(format!(
            "the line is not understood: {doubt}"
        ))),
        Kind::Plain => None,
    };
    match (own, said) {
        // Of two that ask, the rule that a person wrote says more.
        (Some(own), Some(said)) if said.decision == Decision::Ask && !own.unread => {
            said.or_stricter(own)
        }
        (Some(own), Some(said)) => own.or_stricter(said),
        (Some(word), None) | (None, Some(word)) => word,
        (None, None) => direct_edit(policy, subject, facts).unwrap_or_else(contained),
    }
}

/// Nobody spoke: where the workspace is the folder itself, an edit of it leaves the jail at once.
fn direct_edit(policy: &Policy, subject: &Subject<'_>, facts: &Facts) -> Option<Word> {
    if policy.settings.confinement.workspace != Some(WorkspaceMode::Direct) {
        return None;
    }
    let inside = |path: &ViewPath| match facts.place(path) {
        Place::Workspace(relative) => Some(relative),
        _ => None,
    };
    let relative = match &subject.kind {
        Kind::File(touch) if touch.verb == FileVerb::Write => touch.paths.iter().find_map(inside),
        Kind::Redirect { touch, spelled } if touch.verb == FileVerb::Write => {
            spelled.iter().find_map(inside)
        }
        Kind::Command { writes, .. } => writes
            .iter()
            .filter(|write| write.sure)
            .find_map(|write| write.paths.iter().find_map(inside)),
        _ => None,
    }?;
    let reason = format!("`{relative}` is the person's own file: this workspace is no copy");
    let mut word = Word::built_in(Decision::Ask, "direct-edit", reason)
        .instead("run in a copy (`[confinement] workspace`), or in mode acceptEdits");
    word.layer = None;
    word.edit = true;
    Some(word)
}

/// Nobody spoke, and nothing leaves the jail.
pub(super) fn contained() -> Word {
    Word {
        decision: Decision::Allow,
        rule: "default".to_owned(),
        layer: None,
        reason: "it stays within the jail, and no rule speaks of it".to_owned(),
        instead: None,
        unread: false,
        category: Category::Sandbox,
        edit: false,
    }
}

fn not_understood(reason: String) -> Word {
    let mut word = Word::built_in(Decision::Ask, "not-understood", reason)
        .instead("write it plainly, or put it into a script in the workspace and run that");
    word.unread = true;
    word
}

fn command(policy: &Policy, simple: &Simple, writes: &[Write], facts: &Facts) -> Option<Word> {
    let variable = loader::variable(simple).map(|(name, why)| {
        Word::built_in(Decision::Ask, "loader-variable", format!("`{name}` {why}"))
            .instead("run the program without setting it")
    });
    let unread = simple
        .program
        .as_ref()
        .filter(|program| program.literal.is_none())
        .map(|program| {
            let text: String = program.text.chars().take(80).collect();
            not_understood(format!("which program `{text}` is shows only when it runs"))
        });
    let written = writes
        .iter()
        .filter_map(|write| written(policy, write, facts))
        .reduce(Word::or_stricter);
    let started = loader::option(simple).map(|option| {
        let reason = format!("`{option}` starts another program");
        Word::built_in(Decision::Ask, "started-by-option", reason)
            .instead("run that program itself")
    });
    [unread, variable, started, written]
        .into_iter()
        .flatten()
        .reduce(Word::or_stricter)
}

/// A file that a command writes: a protected name, or a place where the session writes nothing.
fn written(policy: &Policy, write: &Write, facts: &Facts) -> Option<Word> {
    let protected = write
        .paths
        .iter()
        .find_map(|path| protected_name(policy, path, facts));
    // Where the folder is not certain, one that is in the view is enough.
    let lies_outside = |path: &ViewPath| match place(policy, path, facts) {
        Place::System => !device(path),
        Place::Outside => path.below("/proc").is_none(),
        Place::Workspace(_) | Place::Private => false,
    };
    protected.or_else(|| {
        let path = write.paths.last()?;
        (write.sure && write.paths.iter().all(lies_outside)).then(|| {
            outside(
                Decision::Ask,
                format!("it writes `{path}`, which the session cannot write in its view"),
            )
        })
    })
}

fn protected_name(policy: &Policy, path: &ViewPath, facts: &Facts) -> Option<Word> {
    let Place::Workspace(relative) = facts.place(path) else {
        return None;
    };
    let why = could_be_protected(&relative, &policy.settings.filesystem.protect)?;
    let reason = format!("writing `{relative}`, a protected name: {why}");
    Some(
        Word::built_in(Decision::Ask, "protected-name", reason)
            .instead("leave it to a person: say in the answer what should change"),
    )
}

/// Where a path lies, with the further trees that the policy names.
fn place(policy: &Policy, path: &ViewPath, facts: &Facts) -> Place {
    let below = |trees: &[String]| trees.iter().any(|tree| path.below(tree).is_some());
    let settings = &policy.settings.filesystem;
    match facts.place(path) {
        Place::Outside if below(&settings.write) => Place::Private,
        Place::Outside if below(&settings.read) => Place::System,
        known => known,
    }
}

/// What a device path is to a redirection.
fn device(path: &ViewPath) -> bool {
    let name = path.below("/dev").unwrap_or("");
    let safe = [
        "null", "zero", "full", "random", "urandom", "stdin", "stdout", "stderr", "tty", "ptmx",
    ];
    safe.contains(&name) || name.starts_with("fd/") || name.starts_with("pts/")
}

fn redirect(
    policy: &Policy,
    paths: &[ViewPath],
    verb: FileVerb,
    text: &str,
    facts: &Facts,
) -> Option<Word> {
    let words = paths.iter().filter_map(|path| {
        if device(path) || path.below("/proc").is_some() && verb == FileVerb::Read {
            return None;
        }
        if path
            .below("/dev/tcp")
            .or_else(|| path.below("/dev/udp"))
            .is_some()
        {
            let reason = format!("`{text}` reaches a host");
            let mut word = Word::built_in(Decision::Ask, "outside-view", reason)
                .instead("there is no network in the jail; use what the workspace holds");
            word.category = Category::Network;
            return Some(word);
        }
        match (place(policy, path, facts), verb) {
            (Place::Workspace(_), FileVerb::Write) => {
                hidden(policy, path, facts).or_else(|| protected_name(policy, path, facts))
            }
            (Place::Workspace(_), FileVerb::Read) => hidden(policy, path, facts),
            (Place::Private, _) | (Place::System, FileVerb::Read) => None,
            (Place::System, FileVerb::Write) => Some(outside(
                Decision::Ask,
                format!("`{path}` is read-only in the session's view"),
            )),
            (Place::Outside, _) => Some(outside(
                Decision::Ask,
                format!("`{path}` is not in the session's view"),
            )),
        }
    });
    words.reduce(Word::or_stricter)
}

fn outside(decision: Decision, reason: String) -> Word {
    Word::built_in(decision, "outside-view", reason)
        .instead("use the workspace, or /tmp for what is only needed meanwhile")
}

fn file(policy: &Policy, path: &ViewPath, verb: FileVerb, facts: &Facts) -> Option<Word> {
    match (place(policy, path, facts), verb) {
        (Place::Workspace(_), FileVerb::Write) => {
            hidden(policy, path, facts).or_else(|| protected_name(policy, path, facts))
        }
        (Place::Workspace(_), FileVerb::Read) => hidden(policy, path, facts),
        (Place::Private, _) | (Place::System, FileVerb::Read) => None,
        (Place::System, FileVerb::Write) => Some(outside(
            Decision::Deny,
            format!(
                "`{path}` is read-only in the session's view, and no rule can change that here"
            ),
        )),
        (Place::Outside, FileVerb::Read) => Some(outside(
            Decision::Deny,
            format!(
                "`{path}` is not in the session's view: only the workspace, HOME, /tmp and the system's read-only folders are"
            ),
        )),
        (Place::Outside, FileVerb::Write) => Some(outside(
            Decision::Deny,
            format!("`{path}` is not in the session's view, and no rule can change that here"),
        )),
    }
}

/// What is left out of the view: `[filesystem] hide`, and the files of declared databases.
fn hidden(policy: &Policy, path: &ViewPath, facts: &Facts) -> Option<Word> {
    let Place::Workspace(relative) = facts.place(path) else {
        return None;
    };
    for database in &policy.settings.databases {
        let Some(file) = ViewPath::new(&database.path, &facts.workspace, &facts.home) else {
            continue;
        };
        let name = path.as_str().strip_prefix(file.as_str());
        if matches!(name, Some("" | "-wal" | "-shm" | "-journal")) {
            let reason = format!("`{relative}` is the declared database `{}`", database.name);
            return Some(
                Word::built_in(Decision::Deny, "hidden", reason)
                    .instead("run_sql is the only door to it"),
            );
        }
    }
    let glob = policy.settings.filesystem.hide.iter().find(|glob| {
        let text = glob
            .strip_prefix('/')
            .map_or_else(|| (*glob).clone(), |rest| format!("./{rest}"));
        Pattern::parse(&text).is_ok_and(|pattern| pattern.covers(&relative, false))
    })?;
    let reason = format!("`{relative}` is hidden by `{glob}` and not in the view");
    Some(Word::built_in(Decision::Deny, "hidden", reason).instead("work without it"))
}

fn query(policy: &Policy, database: &str) -> Option<Word> {
    if policy.database(database).is_some() {
        return None;
    }
    let names: Vec<&str> = policy
        .settings
        .databases
        .iter()
        .map(|database| database.name.as_str())
        .collect();
    let (reason, instead) = match (names.as_slice(), database) {
        ([], _) => (
            "no database is declared".to_owned(),
            "declare one in the policy ([[database]]) or with --database NAME=FILE".to_owned(),
        ),
        (_, "") => (
            "several databases are declared".to_owned(),
            format!("name one of {}", names.join(", ")),
        ),
        (_, other) => {
            let other: String = other
                .chars()
                .take(64)
                .flat_map(char::escape_debug)
                .collect();
            (
                format!("no database is declared as `{other}`"),
                format!("name one of {}", names.join(", ")),
            )
        }
    };
    Some(Word::built_in(Decision::Deny, "undeclared-database", reason).instead(instead))
}
