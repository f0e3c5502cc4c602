//! The grammar of the command line.

mod hooks;
mod judging;
mod records;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use hooks::{HooksArgs, HooksCommand};
pub(crate) use judging::{
    ApprovalsCommand, ApproveArgs, DenyArgs, ImportFrom, ModeArgs, PolicyCommand, ScopeWord,
};
pub(crate) use records::{
    AuditCommand, AuditFormat, CertificateArgs, ExportArgs, VerifyArgs, WhyArgs,
};

/// Runs untrusted agents in a jail that proves itself.
#[derive(Debug, Parser)]
#[command(name = "provost", version, about, long_about = None, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Perform a task in a jail of its own
    Run(Box<RunArgs>),
    /// Go on with a session that was cut, or say something more to one that ended
    Resume(ResumeArgs),
    /// Show what a session changed
    Diff(DiffArgs),
    /// Put a session's changes into the workspace
    Apply(ApplyArgs),
    /// Throw a session's changes away
    Discard(SessionArg),
    /// Put back what a session's tools changed, in its layer
    Undo(UndoArgs),
    /// Look at sessions
    Sessions {
        #[command(subcommand)]
        command: SessionsCommand,
    },
    /// Show what model calls used and cost
    Usage(UsageArgs),
    /// Look at what live sessions ask
    Approvals {
        #[command(subcommand)]
        command: ApprovalsCommand,
    },
    /// Say yes to what a session asks
    Approve(ApproveArgs),
    /// Say no to what a session asks
    Deny(DenyArgs),
    /// Show the mode of a live session, or put another one in force
    Mode(ModeArgs),
    /// Look at hooks, and approve those of a workspace
    Hooks {
        #[command(subcommand)]
        command: HooksCommand,
    },
    /// Check policies and explain verdicts
    Policy {
        #[command(subcommand)]
        command: PolicyCommand,
    },
    /// Look at the tools, or call one in a jail
    Tools {
        #[command(subcommand)]
        command: ToolsCommand,
    },
    /// Look at the model providers, prove a key, or make one call
    Providers {
        #[command(subcommand)]
        command: ProvidersCommand,
    },
    /// Verify the audit log, or export it
    Audit {
        #[command(subcommand)]
        command: AuditCommand,
    },
    /// Tell the whole story of one call: verdict, rule, question, answer, effect, outcome
    Why(WhyArgs),
    /// Show which layers held when a session started
    Certificate(CertificateArgs),
    /// Tell what this machine can hold, and one remedy for each thing that it cannot
    Doctor(DoctorArgs),
    /// Keep a provider's key (typed, or from standard input), or sign in to ChatGPT (codex)
    Login(LoginArgs),
    /// Remove what `login` keeps
    Logout(LogoutArgs),
    /// Try to escape from a real session's jail, by every attack that is known
    Selftest(SelftestArgs),
}

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A live view for people, on standard error; the last answer on standard output
    Text,
    /// One object on standard output at the end
    Json,
    /// One object a line on standard output as things happen
    StreamJson,
}

/// Where questions to people go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Approvals {
    /// This terminal (and `provost approve`); without one they are denied at once
    Terminal,
    /// They wait for `provost approve` or `provost deny`, at most 10 minutes
    Operator,
}

/// What `run` and `tools call` share.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SetupArgs {
    /// The folder that the task is about [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// A shipped policy (default, ci, locked-down), one of the configuration folder, or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "default")]
    pub(crate) policy: String,
    /// How an ask is answered: onRequest, auto, acceptEdits, bypass, never, granular [default: the policy's]
    #[arg(long, value_name = "M")]
    pub(crate) mode: Option<String>,
    /// How the box is made: landlock, docker [default: the policy's]
    #[arg(long, value_name = "B")]
    pub(crate) backend: Option<String>,
    /// The image of the backend docker, by name or digest; never pulled [default: the policy's]
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// The OCI runtime of the backend docker, as the engine knows it [default: the policy's]
    #[arg(long, value_name = "R")]
    pub(crate) runtime: Option<String>,
    /// Declare a SQLite database that run_sql can query; may be given again
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) database: Vec<String>,
}

/// `provost run`
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) setup: SetupArgs,
    /// The model, as PROVIDER/MODEL [default: the policy's route]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Another model to ask while the ones before it cannot answer; may be given again, in order
    #[arg(long, value_name = "PROVIDER/MODEL", requires = "model")]
    pub(crate) fallback: Vec<String>,
    /// The whole route in one word: models to ask, the first one first
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', conflicts_with_all = ["model", "script"])]
    pub(crate) route: Vec<String>,
    /// Play a conversation file instead of asking a model: no key, no network
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    pub(crate) script: Option<PathBuf>,
    /// How results are written
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) output: Format,
    /// Apply the changes at the end if the task was done
    #[arg(long)]
    pub(crate) apply: bool,
    /// Write the changes as a patch at the end
    #[arg(long, value_name = "FILE")]
    pub(crate) patch: Option<PathBuf>,
    /// Wall time of the session (90s, 30m, 2h) [default: the policy's]
    #[arg(long, value_name = "T")]
    pub(crate) timeout: Option<String>,
    /// What the session may cost, in US dollars; it then ends with exit 3 and everything kept
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<String>,
    /// Where questions go: this terminal, or people who answer with `provost approve`
    #[arg(long, value_enum, default_value = "terminal")]
    pub(crate) approvals: Approvals,
    /// For root: work for this account, as it and with its rights alone; what is made belongs to it
    #[arg(long, value_name = "ACCOUNT")]
    pub(crate) r#as: Option<String>,
    /// Also append each signed audit head to a file, or send it to the system's log
    #[arg(long, value_name = "FILE|syslog")]
    pub(crate) audit_head: Option<String>,
    /// A JSON Schema that the answers' text must fit; a last answer that is no object ends the run with 1
    #[arg(long, value_name = "FILE")]
    pub(crate) output_schema: Option<PathBuf>,
    /// Write metrics as Prometheus text into a file, or serve them at ADDRESS:PORT/metrics (:PORT on loopback)
    #[arg(long, value_name = "FILE|ADDR")]
    pub(crate) metrics: Option<String>,
    /// Count what is asked, for `policy suggest --from-session`; answers are as ever
    #[arg(long)]
    pub(crate) learn: bool,
    /// Plan first: until a person approves the plan, everything but a proven read is denied
    #[arg(long)]
    pub(crate) plan: bool,
    /// The task
    pub(crate) task: String,
}

/// `provost resume`
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The session
    pub(crate) session: String,
    /// What the whole session may cost, in US dollars [default: what it was started with]
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<String>,
    /// How results are written
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) output: Format,
    /// Apply the changes at the end if the task was done
    #[arg(long)]
    pub(crate) apply: bool,
    /// Write the changes as a patch at the end
    #[arg(long, value_name = "FILE")]
    pub(crate) patch: Option<PathBuf>,
    /// Where questions go: this terminal, or people who answer with `provost approve`
    #[arg(long, value_enum, default_value = "terminal")]
    pub(crate) approvals: Approvals,
    /// Also append each signed audit head to a file, or send it to the system's log
    #[arg(long, value_name = "FILE|syslog")]
    pub(crate) audit_head: Option<String>,
    /// A JSON Schema that the answers' text must fit; a last answer that is no object ends the run with 1
    #[arg(long, value_name = "FILE")]
    pub(crate) output_schema: Option<PathBuf>,
    /// Write metrics as Prometheus text into a file, or serve them at ADDRESS:PORT/metrics (:PORT on loopback)
    #[arg(long, value_name = "FILE|ADDR")]
    pub(crate) metrics: Option<String>,
    /// Something more to say; without it the turn that was cut goes on
    pub(crate) message: Option<String>,
}

/// A session by its id.
#[derive(Debug, Args)]
pub(crate) struct SessionArg {
    /// The session, or `last`
    pub(crate) session: String,
}

/// `provost diff`
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The session, or `last`
    pub(crate) session: String,
    /// Write the patch to a file instead of showing it
    #[arg(long, value_name = "FILE")]
    pub(crate) patch: Option<PathBuf>,
    /// List changes only, one a line
    #[arg(long)]
    pub(crate) list: bool,
    /// One object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `provost apply`
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The session, or `last`
    pub(crate) session: String,
    /// Also apply a protected path, by the digest that `diff --list` shows (PATH=DIGEST); may be given again
    #[arg(long, value_name = "PATH=DIGEST")]
    pub(crate) protected: Vec<String>,
}

/// `provost undo`
#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// The session, or `last`
    pub(crate) session: String,
    /// Undo only what came after this call; the call itself stays [default: everything]
    #[arg(long, value_name = "CALL")]
    pub(crate) to: Option<String>,
}

/// `provost sessions …`
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List sessions, newest first
    List {
        /// One object on standard output
        #[arg(long)]
        json: bool,
    },
    /// Show one session: what was asked, said, judged, done
    Show {
        /// The session, or `last`
        session: String,
        /// Every transition of the loop as well
        #[arg(long)]
        transitions: bool,
        /// One object a line on standard output
        #[arg(long)]
        json: bool,
    },
}

/// `provost tools …`
#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// List the tools
    List {
        /// One object on standard output, with schemas
        #[arg(long)]
        json: bool,
    },
    /// Call one tool through the whole pipeline in a real jail; its result object on standard output
    Call {
        /// The tool
        name: String,
        /// Its input as JSON
        #[arg(long, value_name = "JSON")]
        input: String,
        #[command(flatten)]
        setup: Box<SetupArgs>,
    },
}

/// `provost providers …`
#[derive(Debug, Subcommand)]
pub(crate) enum ProvidersCommand {
    /// List the providers: dialect, whether a key is there, address
    List {
        /// One object on standard output
        #[arg(long)]
        json: bool,
    },
    /// Show one provider and what is known of its models
    Show {
        /// The provider
        provider: String,
        /// One object on standard output
        #[arg(long)]
        json: bool,
    },
    /// Prove keys with a call of a few tokens; no part of a key is shown
    Test {
        /// The providers [default: each that has a key]
        provider: Vec<String>,
        /// The model to ask [default: the cheapest that is known]
        #[arg(long, value_name = "M")]
        model: Option<String>,
        /// One object on standard output
        #[arg(long)]
        json: bool,
    },
    /// Make one call without a session: one attempt (unless --retry or --route), no tool is run
    Call(CallArgs),
}

/// `provost providers call`
#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The provider
    #[arg(
        long,
        value_name = "P",
        required_unless_present = "route",
        requires = "model"
    )]
    pub(crate) provider: Option<String>,
    /// Another address for it; one on this machine needs no key
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// The model
    #[arg(long, value_name = "M", requires = "provider")]
    pub(crate) model: Option<String>,
    /// Models to ask while the ones before cannot answer (after --provider and --model, if given), each
    /// as PROVIDER/MODEL; with tries again and breakers as in a session
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    pub(crate) route: Vec<String>,
    /// The system prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Tools on offer: a JSON list of {name, description, input_schema}
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: Option<PathBuf>,
    /// What the user says
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: String,
    /// A picture to look at (png, jpeg, gif, webp; at most 8 MiB); may be given again
    #[arg(long, value_name = "FILE")]
    pub(crate) image: Vec<PathBuf>,
    /// A document to read (pdf or text; at most 8 MiB); may be given again
    #[arg(long, value_name = "FILE")]
    pub(crate) document: Vec<PathBuf>,
    /// A JSON Schema that the answer must fit
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
    /// Count the tokens of the request instead of asking (docs/schema/count.json)
    #[arg(long, conflicts_with = "retry")]
    pub(crate) count: bool,
    /// Output limit in tokens
    #[arg(long, value_name = "N", default_value_t = 4_096)]
    pub(crate) max_output: u32,
    /// Try again, as a session does, and ask the provider's breaker
    #[arg(long)]
    pub(crate) retry: bool,
    /// One object on standard output (docs/schema/call.json)
    #[arg(long)]
    pub(crate) json: bool,
}

/// `provost usage`
#[derive(Debug, Args)]
pub(crate) struct UsageArgs {
    /// What is added up
    #[arg(long, value_enum, default_value = "model")]
    pub(crate) by: UsageWord,
    /// One session alone, or `last`
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// Since when: a day (2026-11-30, UTC) or a time back from now (90m, 24h, 7d)
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// One object on standard output (docs/schema/usage.json)
    #[arg(long)]
    pub(crate) json: bool,
}

/// What usage is added up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UsageWord {
    /// A row for each session
    Session,
    /// A row for each model
    Model,
    /// A row for each provider
    Provider,
    /// A row for each day, UTC
    Day,
    /// One row
    Account,
}

/// `provost doctor`
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// One object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `provost login`
#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// The provider, as in PROVIDER/MODEL
    pub(crate) provider: String,
    /// Seal it with a passphrase (typed, or PROVOST_PASSPHRASE), which each start then needs
    #[arg(long)]
    pub(crate) seal: bool,
}

/// `provost logout`
#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// The provider, as in PROVIDER/MODEL
    pub(crate) provider: String,
}

/// `provost selftest`
#[derive(Debug, Args)]
pub(crate) struct SelftestArgs {
    /// Run the escape suite
    #[arg(long, required = true)]
    pub(crate) escape: bool,
    /// How the outer box is made
    #[arg(long, value_name = "B", default_value = "landlock", value_parser = ["landlock", "docker"])]
    pub(crate) backend: String,
    /// Whether the box may use namespaces: auto, or off to try Landlock and seccomp alone
    #[arg(long, value_name = "N", default_value = "auto", value_parser = ["auto", "off"])]
    pub(crate) namespaces: String,
    /// The local image of the docker backend
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// Write the whole report to a file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// One object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
