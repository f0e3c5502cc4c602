//! An action: what a call really asks, after normalisation. What is judged is what is executed.

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
}

impl Facts {
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
