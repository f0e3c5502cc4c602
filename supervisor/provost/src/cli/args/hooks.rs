//! The grammar of `hooks`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `provost hooks …`
#[derive(Debug, Subcommand)]
pub(crate) enum HooksCommand {
    /// Show the hooks that a session would have, where each runs, and whether it can
    List {
        #[command(flatten)]
        given: HooksArgs,
        /// One object on standard output (docs/schema/hooks.json)
        #[arg(long)]
        json: bool,
    },
    /// Let a hook of the workspace run with exactly the bytes that it has now
    Approve {
        /// The hook
        id: String,
        /// The digest that `list` shows; without one the hook is drawn and confirmed here
        #[arg(long, value_name = "DIGEST")]
        digest: Option<String>,
        #[command(flatten)]
        given: HooksArgs,
    },
    /// Take the approval of a workspace's hook back
    Revoke {
        /// The hook
        id: String,
        #[command(flatten)]
        given: HooksArgs,
    },
}

/// Whose hooks.
#[derive(Debug, Args)]
pub(crate) struct HooksArgs {
    /// The workspace [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// A policy by name or file
    #[arg(long, value_name = "NAME|FILE", default_value = "default")]
    pub(crate) policy: String,
}
