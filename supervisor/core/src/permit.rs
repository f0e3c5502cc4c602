//! The right to do one thing once: minted by the gate alone, spent by the effect that it owns.
//!
//! A [`Permit`] has private fields, no `Clone` and no serde: it cannot be forged by another crate,
//! used twice, or sent over a link. None of these compiles:
//!
//! ```compile_fail,E0451
//! let forged = supervisor_core::Permit { action: 1, serial: 1 };
//! ```
//! ```compile_fail,E0624
//! let forged = supervisor_core::Permit::mint(1, 1);
//! ```
//! ```compile_fail,E0382
//! fn twice(permit: supervisor_core::Permit<u8>) -> (u8, u8) {
//!     (permit.spend(), permit.spend())
//! }
//! ```
//! ```compile_fail,E0277
//! fn sent(permit: supervisor_core::Permit<u8>) -> String {
//!     serde_json::to_string(&permit).unwrap()
//! }
//! ```

use protocol::{CallId, CommandId, Digest};

/// The right to do `A` once.
#[derive(Debug)]
#[must_use = "a permit that is dropped is an effect that was decided and never done"]
pub struct Permit<A> {
    action: A,
    serial: u64,
}

impl<A> Permit<A> {
    /// Minted in the gate only.
    pub(crate) fn mint(action: A, serial: u64) -> Self {
        Self { action, serial }
    }

    /// What it allows, to look at.
    pub fn action(&self) -> &A {
        &self.action
    }

    /// Number of the permit within its session: the record's intent carries it.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Spends it.
    pub fn spend(self) -> A {
        self.action
    }
}

/// A model call.
#[derive(Debug, Clone, PartialEq)]
pub struct Infer {
    /// The request as the worker made it.
    pub request: protocol::Infer,
    /// Provider to ask.
    pub provider: String,
    /// Model to ask for.
    pub model: String,
    /// Whom to ask instead, in this order, while nothing of an answer has come; nobody else.
    pub fallbacks: Vec<ModelName>,
}

/// A model by its provider.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelName {
    /// The provider.
    pub provider: String,
    /// Its name for the model.
    pub model: String,
}

impl std::fmt::Display for ModelName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

impl Infer {
    /// Everybody who may be asked, in order.
    pub fn route(&self) -> impl Iterator<Item = (&str, &str)> {
        let first = (self.provider.as_str(), self.model.as_str());
        let rest = self.fallbacks.iter();
        std::iter::once(first).chain(rest.map(|next| (next.provider.as_str(), next.model.as_str())))
    }
}

impl Permit<Infer> {
    /// The same right with a lower output limit; a higher one is not given.
    pub fn at_most(mut self, max_output: u32) -> Self {
        let limit = &mut self.action.request.max_output;
        *limit = max_output.min(*limit);
        self
    }
}

/// A command to run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunCommand {
    /// The call that asked.
    pub call: CallId,
    /// Names the command.
    pub command: CommandId,
    /// The line for `bash -c`, byte for byte.
    pub line: String,
    /// Time limit in milliseconds.
    pub time_ms: u64,
    /// Whether it outlives the call.
    pub background: bool,
    /// Text for its standard input.
    pub stdin: Option<String>,
}

/// A background job to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KillJob {
    /// The call that asked.
    pub call: CallId,
    /// The job.
    pub command: CommandId,
}

/// A file to write.
#[derive(Debug, Clone, PartialEq)]
pub struct PutFile {
    /// The call that asked.
    pub call: CallId,
    /// Path as the session sees it.
    pub path: String,
    /// Path relative to the workspace root.
    pub relative: String,
    /// Digest that the file must have now; `None` if it must not exist.
    pub expected: Option<Digest>,
    /// The whole new content.
    pub content: String,
    /// The edit that the content must be made by, if the call was one.
    pub edit: Option<policies::tools::EditFile>,
}

/// A query to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryDatabase {
    /// The call that asked.
    pub call: CallId,
    /// Database name.
    pub database: String,
    /// The query.
    pub query: String,
}

/// Tables to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListTables {
    /// The call that asked.
    pub call: CallId,
}

/// A hook to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunHook {
    /// Numbers the run within its session.
    pub run: u64,
    /// Which of the policy's hooks.
    pub hook: usize,
    /// What it is told on its standard input: one JSON object.
    pub input: String,
}

/// A question of the model to the person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskPerson {
    /// The call that asked.
    pub call: CallId,
    /// The question.
    pub question: String,
    /// Answers on offer.
    pub choices: Vec<String>,
}
