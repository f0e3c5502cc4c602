//! The things that rules are asked about: each simple command, each redirection, each file, each query.

use std::collections::BTreeSet;

use super::{carried, embedded, outputs};
use crate::{
    Action, Facts, FileVerb, Policy, Rule, ViewPath,
    resolve::resolved,
    safety::spelling::{files, spelled},
    shell::{self, Access, Reading, Simple, Word},
    tools::Tool,
};

/// One thing to judge.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    /// The tool of the call.
    pub(super) tool: Tool,
    /// What it is.
    pub(super) kind: Kind<'a>,
    /// As written, for people.
    pub(super) text: String,
}

/// What a subject is.
#[derive(Debug)]
pub(super) enum Kind<'a> {
    /// A simple command.
    Command {
        /// The command.
        simple: &'a Simple,
        /// Files that its arguments could name.
        touches: Vec<Touch>,
        /// Files that it writes because its arguments say so.
        writes: Vec<Write>,
        /// Hosts that its arguments name.
        hosts: Vec<String>,
        /// Lines inside its arguments.
        embedded: Vec<Reading>,
        /// Arguments among which a command may stand that it starts.
        carries: Vec<Word>,
    },
    /// A redirection.
    Redirect {
        /// What it opens.
        touch: Touch,
        /// Where that could lie, run-time words as they are spelled.
        spelled: Vec<ViewPath>,
    },
    /// A file tool's access.
    File(Touch),
    /// A query.
    Query {
        /// The database.
        database: &'a str,
        /// The query.
        query: &'a str,
    },
    /// A line that is not understood: it could be anything.
    Opaque {
        /// Why.
        doubt: &'a str,
    },
    /// A call without an object of its own.
    Plain,
}

/// A file that a command writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    /// Where it could lie.
    pub(super) paths: Vec<ViewPath>,
    /// Whether it is written, rather than that it could be.
    pub(super) sure: bool,
}

/// A file access: the paths that it could mean; none if only run time knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Touch {
    /// The paths.
    pub(super) paths: Vec<ViewPath>,
    /// Read or write.
    pub(super) verb: FileVerb,
}

/// The subjects of an action.
pub(super) fn of<'a>(action: &'a Action, policy: &'a Policy, facts: &Facts) -> Vec<Subject<'a>> {
    let plain = |tool: Tool| {
        vec![Subject {
            tool,
            kind: Kind::Plain,
            text: String::new(),
        }]
    };
    match action {
        Action::Run(run) => {
            let mut subjects = of_reading(&run.reading, facts);
            if let Some(doubt) = run.reading.doubt.as_deref() {
                subjects.push(Subject {
                    tool: Tool::Bash,
                    kind: Kind::Opaque { doubt },
                    text: run.line.chars().take(200).collect(),
                });
            }
            if subjects.is_empty() {
                return plain(Tool::Bash);
            }
            subjects
        }
        Action::File(access) => vec![Subject {
            tool: access.tool,
            kind: Kind::File(Touch {
                paths: vec![access.path.clone()],
                verb: access.verb,
            }),
            text: access.path.to_string(),
        }],
        Action::Query { database, query } => vec![Subject {
            tool: Tool::RunSql,
            kind: Kind::Query {
                database: policy
                    .database(database)
                    .map_or(database, |found| &found.name),
                query,
            },
            text: query.chars().take(200).collect(),
        }],
        Action::ListTables => plain(Tool::ListTables),
        Action::AskPerson { .. } => plain(Tool::AskUser),
        Action::SubmitPlan { .. } => plain(Tool::SubmitPlan),
        Action::Job { kill: true, .. } => plain(Tool::JobKill),
        Action::Job { kill: false, .. } => plain(Tool::JobOutput),
    }
}

/// The commands and redirections of a line.
pub(super) fn of_reading<'a>(reading: &'a Reading, facts: &Facts) -> Vec<Subject<'a>> {
    let known = resolved(reading);
    let folders = folders(&known, facts);
    let wrappers: BTreeSet<usize> = reading
        .simples
        .iter()
        .filter_map(|simple| simple.wrapped_by)
        .collect();
    let bases = |index: usize| -> Vec<&str> {
        let here = folders.get(index).or_else(|| folders.last());
        let mut bases = vec![facts.workspace.as_str()];
        bases.extend(
            here.map(String::as_str)
                .filter(|here| *here != facts.workspace),
        );
        bases
    };
    let commands = reading.simples.iter().enumerate().map(|(index, simple)| {
        let known = known.simples.get(index).unwrap_or(simple);
        let bases = bases(index);
        let reads = shell::is_proven_read(simple);
        let quiet = reads || wrappers.contains(&index);
        let writes = if elsewhere(reading, index) {
            Vec::new()
        } else {
            writes(known, quiet, &bases, facts)
        };
        let carries = carried::words(reading, index, known);
        Subject {
            tool: Tool::Bash,
            kind: Kind::Command {
                simple,
                touches: touches(
                    known,
                    reads || outputs::only_reads(known),
                    &writes,
                    &bases,
                    facts,
                ),
                writes,
                hosts: known
                    .literals()
                    .take(OPERANDS)
                    .filter_map(host_of)
                    .collect(),
                embedded: embedded::of(known, !carries.is_empty()),
                carries,
            },
            text: simple.text.clone(),
        }
    });
    let redirects = known.redirects.iter().map(|redirect| {
        let bases = bases(redirect.simple.unwrap_or(usize::MAX));
        let verb = match redirect.access {
            Access::Read => FileVerb::Read,
            Access::Write => FileVerb::Write,
        };
        let literal = redirect.target.literal.as_deref();
        let paths = literal.map_or_else(Vec::new, |literal| resolve(literal, &bases, facts));
        let spelled = resolve(&spelled(&redirect.target), &bases, facts);
        Subject {
            tool: Tool::Bash,
            kind: Kind::Redirect {
                touch: Touch { paths, verb },
                spelled,
            },
            text: redirect.text.clone(),
        }
    });
    let subjects = commands.chain(redirects);
    subjects.collect()
}

/// Whether a command runs on another machine or in a container, whose files are not these.
fn elsewhere(reading: &Reading, index: usize) -> bool {
    let mut next = reading.simples.get(index).and_then(|s| s.wrapped_by);
    // Wrappers stand before what they start, so that this ends.
    while let Some(at) = next {
        let Some(wrapper) = reading.simples.get(at) else {
            return false;
        };
        let names = ["docker", "podman", "nerdctl", "kubectl", "ssh"];
        if wrapper.name().is_some_and(|name| names.contains(&name)) {
            return true;
        }
        next = wrapper.wrapped_by.filter(|before| *before < at);
    }
    false
}

/// Files that a command writes.
fn writes(simple: &Simple, quiet: bool, bases: &[&str], facts: &Facts) -> Vec<Write> {
    let outputs = outputs::of(simple, quiet).into_iter();
    outputs
        .map(|output| Write {
            paths: resolve(&output.path, bases, facts),
            sure: output.sure,
        })
        .collect()
}

/// The subject of a path's, table's or MCP tool's example.
pub(super) fn of_example<'a>(rule: &Rule, example: &'a str, facts: &Facts) -> Option<Subject<'a>> {
    let tool = Tool::parse(&rule.tool);
    let kind = if !rule.table.is_empty() {
        match example.split_once('.') {
            _ if example.contains(' ') => Kind::Query {
                database: "",
                query: example,
            },
            Some((database, table)) => Kind::Query {
                database,
                query: table,
            },
            None => Kind::Query {
                database: "",
                query: example,
            },
        }
    } else if rule.path.is_empty() {
        Kind::Plain
    } else {
        let path = ViewPath::new(example, &facts.workspace, &facts.home)?;
        Kind::File(Touch {
            paths: vec![path],
            verb: FileVerb::Write,
        })
    };
    let default = if rule.table.is_empty() {
        Tool::WriteFile
    } else {
        Tool::RunSql
    };
    Some(Subject {
        tool: tool.unwrap_or(default),
        kind,
        text: example.to_owned(),
    })
}

/// For each simple command the folder in which it runs if every `cd` before it did, and one more for
/// the end of the line. Which of them ran is not known, so the workspace root always counts beside it.
pub(crate) fn folders(reading: &Reading, facts: &Facts) -> Vec<String> {
    let mut here = facts.workspace.clone();
    let mut folders = vec![here.clone()];
    for simple in &reading.simples {
        if matches!(simple.name(), Some("cd" | "pushd")) {
            let target = match simple.args.iter().find(|word| !word.text.starts_with('-')) {
                None => Some("~"),
                Some(word) => word.literal.as_deref(),
            };
            let path = target.and_then(|word| ViewPath::new(word, &here, &facts.home));
            // No kernel follows a longer one.
            if let Some(path) = path.filter(|path| path.as_str().len() <= 4096) {
                here = path.as_str().to_owned();
            }
        }
        folders.push(here.clone());
    }
    folders
}

/// A word as a path from each base.
fn resolve(word: &str, bases: &[&str], facts: &Facts) -> Vec<ViewPath> {
    let mut paths: Vec<ViewPath> = bases
        .iter()
        .filter_map(|base| ViewPath::new(word, base, &facts.home))
        .collect();
    paths.dedup();
    paths
}

/// Arguments of one command that are looked at one by one.
const OPERANDS: usize = 1_000;

/// What an argument could name: itself, what stands after `=`, and what is glued to a short option.
fn operands(word: &Word) -> Vec<String> {
    if word.text.contains(['$', '`']) && word.literal.is_none() {
        return Vec::new();
    }
    let text = spelled(word);
    let mut named = files(word);
    if text.starts_with('-') {
        let plain = text.starts_with("--");
        named.retain(|file| *file != text && (plain || file.contains(['/', '.', '='])));
    }
    named.retain(|file| !file.is_empty());
    named
}

/// Files that arguments could name; a proven read only reads them.
fn touches(
    simple: &Simple,
    reads: bool,
    writes: &[Write],
    bases: &[&str],
    facts: &Facts,
) -> Vec<Touch> {
    let verbs: &[FileVerb] = if reads {
        &[FileVerb::Read]
    } else {
        &[FileVerb::Read, FileVerb::Write]
    };
    let mut touches = Vec::new();
    let mut note = |paths: Vec<ViewPath>, verbs: &[FileVerb]| {
        touches.extend(verbs.iter().map(|&verb| Touch {
            paths: paths.clone(),
            verb,
        }));
    };
    for operand in simple.args.iter().take(OPERANDS).flat_map(operands) {
        let paths = resolve(&operand, bases, facts);
        if !paths.is_empty() {
            note(paths, verbs);
        }
    }
    for write in writes {
        note(write.paths.clone(), &[FileVerb::Write]);
    }
    if simple.args.len() > OPERANDS {
        // What was not looked at could be anything.
        note(Vec::new(), verbs);
    }
    touches
}

/// The host of a URL.
fn host_of(word: &str) -> Option<String> {
    let (scheme, rest) = word.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?.to_ascii_lowercase();
    if host.is_empty() {
        return None;
    }
    let port = match scheme {
        _ if host.contains(':') => return Some(host),
        "http" => 80,
        "https" => 443,
        _ => return Some(host),
    };
    Some(format!("{host}:{port}"))
}
