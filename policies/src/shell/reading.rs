//! What the grammar says of a line: flat lists, because judgement looks at every part alike.

use serde::{Deserialize, Serialize};

/// Everything that a line would start or open, as far as it can be known before it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Every simple command, wherever it stands, wrappers unwrapped (the wrapper stands here too).
    pub simples: Vec<Simple>,
    /// Every redirection to or from a file.
    pub redirects: Vec<Redirect>,
    /// Every pipe, for lines whose ends are groups or loops rather than simple commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pipes: Vec<Pipe>,
    /// What loops over a list give to their variables, word by word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loops: Vec<(String, Word)>,
    /// Why the line is not understood as a whole, if it is not; what was found is still listed.
    pub doubt: Option<String>,
}

/// A pipe: everything in `from` may write into everything in `into`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pipe {
    /// Indices of the simple commands before it.
    pub from: std::ops::Range<usize>,
    /// Indices of the simple commands behind it.
    pub into: std::ops::Range<usize>,
}

/// One simple command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Simple {
    /// The program word; `None` for assignments alone.
    pub program: Option<Word>,
    /// Its arguments.
    pub args: Vec<Word>,
    /// Leading assignments: kept for execution, ignored for matching.
    pub assignments: Vec<(String, Word)>,
    /// As written, cut to 400 bytes on a character boundary.
    pub text: String,
    /// Where it stands.
    pub context: Context,
    /// Index of the simple command whose output is piped into this one.
    pub piped_from: Option<usize>,
    /// Index of the wrapper that starts this one (`timeout 5 rm x`: `rm` has the index of `timeout`).
    pub wrapped_by: Option<usize>,
}

impl Simple {
    /// Program name without its folder, lower-cased only where asked; `None` if it is not a literal.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        let literal = self.program.as_ref()?.literal.as_deref()?;
        Some(literal.rsplit('/').next().unwrap_or(literal))
    }

    /// The argument at `index` if it is a literal.
    #[must_use]
    pub fn arg(&self, index: usize) -> Option<&str> {
        self.args.get(index)?.literal.as_deref()
    }

    /// All literal arguments, in order; those that are not literal are skipped.
    pub fn literals(&self) -> impl Iterator<Item = &str> {
        self.args.iter().filter_map(|word| word.literal.as_deref())
    }
}

/// A word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    /// As written.
    pub text: String,
    /// The one string that the shell makes of it, quotes removed; `None` if an expansion, a
    /// substitution, a glob or a brace decides only at run time. `~` at the start stays as `~`.
    pub literal: Option<String>,
}

/// Where a simple command stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Context {
    /// In the line's own lists, pipes, groups, conditions and loops.
    Plain,
    /// In a command or process substitution.
    Substitution,
    /// In a function's body.
    Function,
    /// Started by a wrapper (`env`, `xargs`, `sh -c`, `find -exec`, …).
    Wrapped,
    /// In the background.
    Background,
}

/// What a redirection does to its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Opens it for reading.
    Read,
    /// Opens it for writing (`>`, `>>`, `>|`, `&>`, `<>`).
    Write,
}

/// A redirection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redirect {
    /// What it does.
    pub access: Access,
    /// The file.
    pub target: Word,
    /// As written.
    pub text: String,
    /// Index of the simple command that it belongs to, if any.
    pub simple: Option<usize>,
}
