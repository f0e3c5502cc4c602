//! Reads: the tools that the agent carries out itself, within its read-only view, and the words in
//! which every tool's outcome reaches the model.
//!
//! A read opens what is there without ever waiting for it (a FIFO does not hang the agent), is
//! bounded in bytes, entries and time, and answers with one JSON object that begins with `ok`.
//! File changes are only prepared here: what was read, what it becomes. Hands carries them out.
//!
//! What is absent: writing, starting, connecting, threads. The jail is the wall; nothing here is.

mod change;
mod cut;
mod find;
mod list;
mod outcome;
mod read;
mod search;
mod view;
mod walk;

pub use change::Unprepared;
pub use outcome::{Formatted, format, refused, trouble};
pub use view::View;

use std::{collections::BTreeMap, time::Instant};

use policies::{Facts, ViewPath, tools::Input};
use protocol::{Digest, bounds, call::Prepared};

/// The reads of one session, and what they remember: which files were read, and as what.
#[derive(Debug)]
pub struct Reads {
    view: View,
    seen: BTreeMap<ViewPath, Digest>,
}

/// Names of project instructions, ours first.
const PROJECT_FILES: [&str; 3] = ["PROVOST.md", "AGENTS.md", "CLAUDE.md"];
/// Bytes of such a file; a larger one is not instructions.
const PROJECT_FILE: u64 = 1024 * 1024;

impl Reads {
    /// The reads of a session with these facts.
    #[must_use]
    pub fn new(facts: Facts) -> Self {
        Self {
            view: View::new(facts),
            seen: BTreeMap::new(),
        }
    }

    /// Carries a read out; `None` if the tool is not one that the agent carries out itself.
    #[must_use]
    pub fn carry_out(&mut self, input: &Input, deadline: Instant) -> Option<Formatted> {
        match input {
            Input::ReadFile(input) => {
                let read = read::read_file(&self.view, input);
                if let Ok(done) = &read {
                    self.remember(done.path.clone(), done.digest.clone());
                }
                Some(outcome::read(read.map(|done| done.shown)))
            }
            Input::ListDirectory(input) => {
                Some(outcome::read(list::list_directory(&self.view, input)))
            }
            Input::Glob(input) => Some(outcome::read(find::glob(&self.view, input, deadline))),
            Input::Grep(input) => Some(outcome::read(search::grep(&self.view, input, deadline))),
            Input::AskUser(_)
            | Input::Bash(_)
            | Input::EditFile(_)
            | Input::JobKill(_)
            | Input::JobOutput(_)
            | Input::ListTables
            | Input::RunSql(_)
            | Input::SubmitPlan(_)
            | Input::WriteFile(_) => None,
        }
    }

    /// Works a file change out; `None` if the tool changes no file.
    ///
    /// # Errors
    /// [`Unprepared`] says what stands in the way and what to do.
    pub fn prepare(&self, input: &Input) -> Result<Option<Prepared>, Unprepared> {
        match input {
            Input::EditFile(input) => change::edit_file(&self.view, &self.seen, input).map(Some),
            Input::WriteFile(input) => change::write_file(&self.view, &self.seen, input).map(Some),
            Input::AskUser(_)
            | Input::Bash(_)
            | Input::Glob(_)
            | Input::Grep(_)
            | Input::JobKill(_)
            | Input::JobOutput(_)
            | Input::ListDirectory(_)
            | Input::ListTables
            | Input::ReadFile(_)
            | Input::RunSql(_)
            | Input::SubmitPlan(_) => Ok(None),
        }
    }

    /// Remembers that a file was written: what one wrote, one has read.
    pub fn wrote(&mut self, path: &str, digest: Digest) {
        if let Some(path) = self.view.path(path) {
            self.remember(path, digest);
        }
    }

    /// The project's own instructions: the first of these files in the workspace root that has text.
    #[must_use]
    pub fn project_instructions(&self) -> Option<(String, String)> {
        PROJECT_FILES.iter().find_map(|name| {
            let path = self.view.path(name)?;
            let bytes = self.view.read(&path, PROJECT_FILE).ok()?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            (!text.trim().is_empty()).then(|| ((*name).to_owned(), text))
        })
    }

    fn remember(&mut self, path: ViewPath, digest: Digest) {
        if self.seen.len() >= bounds::FILES_READ && !self.seen.contains_key(&path) {
            self.seen.pop_first();
        }
        self.seen.insert(path, digest);
    }
}

#[cfg(test)]
mod tests;
