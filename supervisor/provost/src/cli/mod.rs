//! The command line: one file per command.

mod announce;
mod approvals;
mod args;
mod audit;
mod doctor;
mod hooks;
mod keys;
mod login;
mod mode;
mod models;
mod ocsf;
mod policy;
mod providers;
mod review;
mod rights;
mod run;
mod selftest;
mod sessions;
mod tools;
mod undo;
mod usage;
mod why;

use std::process::ExitCode;

use clap::Parser as _;

pub(crate) use args::{Format, SetupArgs};
pub(crate) use models::{Asked, choose};
pub(crate) use run::sweep;
pub(crate) use sessions::entries;

use crate::{
    exit::{self, Failure},
    harden::Keys,
    output,
};

/// Parses the command line and runs the command.
pub(crate) fn run(keys: Keys) -> Result<ExitCode, Failure> {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let text = error.render().to_string();
            if error.use_stderr() {
                output::err(&text);
                return Ok(ExitCode::from(exit::USAGE));
            }
            output::out(&text);
            return Ok(ExitCode::SUCCESS);
        }
    };
    match cli.command {
        args::Command::Run(args) => run::run(*args, keys),
        args::Command::Resume(args) => run::resume(args, keys),
        args::Command::Diff(args) => review::diff(&args),
        args::Command::Apply(args) => review::apply(&args),
        args::Command::Discard(args) => review::discard(&args),
        args::Command::Undo(args) => undo::undo(&args),
        args::Command::Sessions { command } => sessions::run(command),
        args::Command::Usage(args) => usage::run(&args),
        args::Command::Approvals { command } => approvals::run(command),
        args::Command::Approve(args) => approvals::approve(&args),
        args::Command::Deny(args) => approvals::deny(&args),
        args::Command::Mode(args) => mode::run(&args),
        args::Command::Policy { command } => policy::run(command, &keys),
        args::Command::Hooks { command } => hooks::run(command),
        args::Command::Tools { command } => tools::run(command, keys),
        args::Command::Providers { command } => providers::run(command, &keys),
        args::Command::Audit { command } => audit::run(command),
        args::Command::Why(args) => why::run(&args),
        args::Command::Certificate(args) => audit::certificate(&args),
        args::Command::Doctor(args) => doctor::run(&args),
        args::Command::Login(args) => login::login(&args, &keys),
        args::Command::Logout(args) => login::logout(&args, &keys),
        args::Command::Selftest(args) => selftest::run(&args, &keys),
    }
}
