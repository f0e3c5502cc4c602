//! The grammar of what is about the law and the people who answer: `policy`, `approvals`, `approve`, `deny`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `provost approvals …`
#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// Show what live sessions ask now
    List {
        /// One object on standard output
        #[arg(long)]
        json: bool,
    },
}

/// `provost approve`
#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    /// The question, as `approvals list` shows it: SESSION/NUMBER
    pub(crate) id: String,
    /// The nonce that was shown with it; without one the question is drawn and confirmed here
    #[arg(long, value_name = "NONCE")]
    pub(crate) nonce: Option<String>,
    /// How long the answer holds for this very action
    #[arg(long, value_enum, default_value = "once")]
    pub(crate) scope: ScopeWord,
    /// Allow this input of the tool instead (JSON), once; the model is told
    #[arg(long, value_name = "JSON", conflicts_with = "scope")]
    pub(crate) instead: Option<String>,
    /// Answer a question of the agent's own in words
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["scope", "instead"])]
    pub(crate) say: Option<String>,
}

/// Scopes of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeWord {
    /// This call
    Once,
    /// Until the turn ends
    Turn,
    /// Until the session ends
    Session,
}

/// `provost deny`
#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    /// The question, as `approvals list` shows it: SESSION/NUMBER
    pub(crate) id: String,
    /// The nonce that was shown with it
    #[arg(long, value_name = "NONCE")]
    pub(crate) nonce: Option<String>,
    /// A word for the model
    #[arg(long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

/// `provost mode`
#[derive(Debug, Args)]
pub(crate) struct ModeArgs {
    /// The live session
    pub(crate) session: String,
    /// The mode to put in force: onRequest, auto, acceptEdits, bypass, never, granular
    pub(crate) mode: Option<String>,
    /// Also if it lets more through than the one before
    #[arg(long, requires = "mode")]
    pub(crate) raise: bool,
    /// One object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `provost policy …`
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Check a policy file: every fault with its place
    Check {
        /// The file
        file: PathBuf,
        /// One object on standard output
        #[arg(long)]
        json: bool,
    },
    /// Explain what the law says of one call, by the same code as at run time
    Explain {
        /// The tool
        tool: String,
        /// Its input as JSON
        #[arg(long, value_name = "JSON")]
        input: String,
        /// Policy name or file
        #[arg(long, value_name = "P", default_value = "default")]
        policy: String,
        /// Mode [default: the policy's]
        #[arg(long, value_name = "M")]
        mode: Option<String>,
        /// As before a person has approved the plan: what is no proven read is denied
        #[arg(long)]
        plan: bool,
        /// The workspace [default: the current folder]
        #[arg(long, value_name = "DIR")]
        workspace: Option<PathBuf>,
        /// One object on standard output
        #[arg(long)]
        json: bool,
    },
    /// Run a policy's examples and every `*.cases.toml` beside it; 1 if a case does not hold
    Test {
        /// The file, or a shipped policy
        file: PathBuf,
        /// A further file of cases; may be given again
        #[arg(long, value_name = "FILE")]
        cases: Vec<PathBuf>,
        /// One object on standard output
        #[arg(long)]
        json: bool,
    },
    /// Tell what policy B newly allows beside policy A
    Diff {
        /// Policy A, a name or file
        #[arg(value_name = "A")]
        before: String,
        /// Policy B, a name or file
        #[arg(value_name = "B")]
        after: String,
        /// Exit with 1 if B newly allows anything
        #[arg(long)]
        exit_code: bool,
        /// One object on standard output
        #[arg(long)]
        json: bool,
    },
    /// Suggest the smallest rules that would not ask about recorded calls again
    Suggest {
        /// Calls, one object a line: {"tool":"bash","input":{"command":"git push"}}
        #[arg(required_unless_present = "from_session")]
        calls: Option<PathBuf>,
        /// What a session was asked about, or `last` (`run --learn` counts it)
        #[arg(long, value_name = "SESSION", conflicts_with = "calls")]
        from_session: Option<String>,
        /// The policy that asked [default: the session's own, else default]
        #[arg(long, value_name = "P")]
        policy: Option<String>,
        /// One object on standard output
        #[arg(long)]
        json: bool,
    },
    /// Measure a model as the classifier of mode auto on labelled calls; 1 if it allows what people deny
    ClassifyCheck {
        /// The model, as PROVIDER/MODEL [default: the policy's classifier, else its route]
        #[arg(long, value_name = "PROVIDER/MODEL")]
        model: Option<String>,
        /// Play a conversation file instead of asking a model
        #[arg(long, value_name = "FILE", conflicts_with = "model")]
        script: Option<PathBuf>,
        /// Labelled calls of one's own: label, message and line of bash, with tabs between [default: those that ship]
        #[arg(long, value_name = "FILE")]
        set: Option<PathBuf>,
        /// The policy that asks
        #[arg(long, value_name = "P", default_value = "default")]
        policy: String,
        /// One object on standard output
        #[arg(long)]
        json: bool,
    },
    /// Translate another agent's rules; what cannot be said is listed on standard error
    Import {
        /// What the file is
        #[arg(long, value_enum)]
        from: ImportFrom,
        /// The file
        file: PathBuf,
        /// Name of the policy [default: imported]
        #[arg(long)]
        name: Option<String>,
    },
}

/// What `provost policy import` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFrom {
    /// A settings.json with permissions
    ClaudeSettings,
    /// A .rules file with prefix_rule(…)
    CodexRules,
}
