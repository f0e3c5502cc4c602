//! An action: what a call really asks, after normalisation. What is judged is what is executed.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{Place, ViewPath, shell::Reading, tools::Tool};

/// What is known of the session when a call is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Workspace root inside the view, absolute.
    pub workspace: String,
    /// HOME inside the view, absolute.
    pub home: String,
    /// Read-only system folders of the view.
    pub system: Vec<String>,
    /// Whether a person can be asked.
    pub interactive: bool,
    /// Where the workspace's files really lie inside, if not at the workspace's own name: programs
    /// tell this name, and the law knows only the workspace's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
}

impl Facts {
    /// A shell line as it is judged: as [`Facts::named`], if the workspace's name is one word of any
    /// shell. A name with other characters would be read as something else than what is replaced.
    #[must_use]
    pub fn named_line<'a>(&self, line: &'a str) -> Cow<'a, str> {
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '_' | '-' | '.' | '+' | '@');
        if self.workspace.chars().all(plain) {
            self.named(line)
        } else {
            Cow::Borrowed(line)
        }
    }

    /// A text as it is judged: each name of the place where the workspace's files really lie is
    /// replaced by the workspace's own. A name that is spelled in pieces stays, and is then judged
    /// as a place outside.
    #[must_use]
    pub fn named<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(tree) = self.tree.as_deref().filter(|tree| text.contains(tree)) else {
            return Cow::Borrowed(text);
        };
        let mut named = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(tree) {
            let (before, found) = rest.split_at(at);
            named.push_str(before);
            let after = found.get(tree.len()..).unwrap_or_default();
            let name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
            // Only a whole name: neither a longer one that begins so, nor one below another folder.
            let whole = !before.ends_with(name) && !after.starts_with(name);
            named.push_str(if whole { &self.workspace } else { tree });
            rest = after;
        }
        named.push_str(rest);
        Cow::Owned(named)
    }

    /// Where `path` lies. The workspace wins over the private and system places around it.
    #[must_use]
    pub fn place(&self, path: &ViewPath) -> Place {
        if let Some(rest) = path.below(&self.workspace) {
            return Place::Workspace(rest.to_owned());
        }
        let private = [self.home.as_str(), "/tmp", "/dev/shm", "/var/tmp"];
        if private.iter().any(|root| path.below(root).is_some()) {
            return Place::Private;
        }
        let devices = ["/dev"];
        let system = self.system.iter().map(String::as_str).chain(devices);
        if system.into_iter().any(|root| path.below(root).is_some()) {
            return Place::System;
        }
        Place::Outside
    }
}

/// What a call really asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Run a shell line.
    Run(Run),
    /// Touch a file or folder by a tool of ours.
    File(FileAccess),
    /// Query a declared database.
    Query {
        /// Database name; must be declared.
        database: String,
        /// The query, byte for byte.
        query: String,
    },
    /// List the tables of the declared databases.
    ListTables,
    /// Ask the person a question.
    AskPerson {
        /// The question.
        question: String,
        /// Answers on offer.
        choices: Vec<String>,
    },
    /// Hand a plan in for a person's approval.
    SubmitPlan {
        /// The plan.
        plan: String,
    },
    /// Look at or end a background job of this session.
    Job {
        /// Its id.
        job: String,
        /// Whether it is ended.
        kill: bool,
    },
}

/// A shell line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The line, byte for byte as it will be given to `bash -c`.
    pub line: String,
    /// What the grammar says of it.
    pub reading: Reading,
    /// Time limit in seconds.
    pub timeout_s: u64,
    /// Whether it outlives the call.
    pub background: bool,
    /// Text for its standard input.
    pub stdin: Option<String>,
}

/// What a file tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileVerb {
    /// Read a file, list a folder, search below a folder.
    Read,
    /// Make or replace a file.
    Write,
}

/// A file tool's access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileAccess {
    /// The tool.
    pub tool: Tool,
    /// Read or write.
    pub verb: FileVerb,
    /// The path, normalised.
    pub path: ViewPath,
    /// Where it lies.
    pub place: Place,
}

/// Why a call has no action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No tool of that name.
    #[error("no tool is named `{name}`; the tools are: {known}")]
    UnknownTool {
        /// The name as given, cut to 80 characters.
        name: String,
        /// The known names.
        known: String,
    },
    /// The input is not what the tool takes.
    #[error("{0}")]
    Input(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_the_files_is_judged_by_the_workspaces_name() {
        let facts = Facts {
            workspace: "/srv/app".to_owned(),
            home: "/s/1/home".to_owned(),
            system: Vec::new(),
            interactive: false,
            tree: Some("/s/1/tree".to_owned()),
        };
        for (text, judged) in [
            ("cat /s/1/tree/a '/s/1/tree'", "cat /srv/app/a '/srv/app'"),
            ("cat /s/1/trees/a", "cat /s/1/trees/a"),
            ("cat x/s/1/tree/a", "cat x/s/1/tree/a"),
            ("ls /s/1/home", "ls /s/1/home"),
            ("/s/1/tree", "/srv/app"),
        ] {
            assert_eq!(facts.named(text), judged);
            assert_eq!(facts.named_line(text), judged);
        }
        let odd = Facts {
            workspace: "/srv/a; b".to_owned(),
            ..facts
        };
        assert_eq!(odd.named_line("cat /s/1/tree/a"), "cat /s/1/tree/a");
        assert_eq!(odd.named("/s/1/tree/a"), "/srv/a; b/a");
    }
}
