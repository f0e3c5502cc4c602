//! The grammar of what is about the record: `audit`, `why`, `certificate`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `provost audit …`
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Verify chains and signed checkpoints; name each edit, gap, reorder, cut or forgery
    Verify(VerifyArgs),
    /// Write the chains as lines that others can keep, search and verify
    Export(ExportArgs),
}

/// `provost why`
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The session, or `last`
    pub(crate) session: String,
    /// The call, by its id or its number from 1 [default: the last]
    pub(crate) call: Option<String>,
    /// One object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `provost audit verify`
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// One session only
    pub(crate) session: Option<String>,
    /// A head that was kept elsewhere (SESSION:SEQ:HASH, as each run prints it), or a file of them
    /// as `--audit-head` writes it; may be given again
    #[arg(long, value_name = "HEAD|FILE")]
    pub(crate) head: Vec<String>,
    /// A copy of audit.pub that was kept elsewhere: only its keys are believed
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Vec<PathBuf>,
    /// Verify a file that `audit export` wrote instead of the record
    #[arg(long, value_name = "FILE", conflicts_with = "session")]
    pub(crate) export: Option<PathBuf>,
    /// One object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `provost audit export`
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// One session only
    pub(crate) session: Option<String>,
    /// The form of the lines
    #[arg(long, value_enum, default_value = "jsonl")]
    pub(crate) format: AuditFormat,
    /// A new file to write to [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Forms of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditFormat {
    /// Records and checkpoints as they are hashed and signed; `audit verify --export` reads them
    Jsonl,
    /// Events in the shape of the Open Cybersecurity Schema Framework
    Ocsf,
}

/// `provost certificate`
#[derive(Debug, Args)]
pub(crate) struct CertificateArgs {
    /// The session, or `last`
    pub(crate) session: String,
    /// The whole certificate as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
