//! `provost policy …`: the same code as at run time.

mod check;
mod classify;
mod compare;
mod explain;
mod import;
mod suggest;
mod test;

use std::{path::Path, process::ExitCode};

use policies::{
    Policy,
    parse::{self, Diagnostic, Source},
};

use super::args::PolicyCommand;
use crate::{
    exit::{CONFIG, Failure},
    harden::Keys,
    output,
    session::{own_places, setup},
};

/// `provost policy …`
pub(super) fn run(command: PolicyCommand, keys: &Keys) -> Result<ExitCode, Failure> {
    match command {
        PolicyCommand::Check { file, json } => check::run(&file, json),
        PolicyCommand::Explain {
            tool,
            input,
            policy,
            mode,
            plan,
            workspace,
            json,
        } => explain::run(&explain::Asked {
            tool: &tool,
            input: &input,
            policy: &policy,
            mode: mode.as_deref(),
            plan,
            workspace: workspace.as_deref(),
            json,
        }),
        PolicyCommand::Test { file, cases, json } => test::run(&file, &cases, json),
        PolicyCommand::Diff {
            before,
            after,
            exit_code,
            json,
        } => compare::run(&before, &after, exit_code, json),
        PolicyCommand::Suggest {
            calls,
            from_session,
            policy,
            json,
        } => suggest::run(
            calls.as_deref(),
            from_session.as_deref(),
            policy.as_deref(),
            json,
        ),
        PolicyCommand::ClassifyCheck {
            model,
            script,
            set,
            policy,
            json,
        } => classify::run(
            &classify::Asked {
                model: model.as_deref(),
                script: script.as_deref(),
                set: set.as_deref(),
                policy: &policy,
                json,
            },
            keys,
        ),
        PolicyCommand::Import { from, file, name } => import::run(from, &file, name.as_deref()),
    }
}

/// A policy by name or file, as the user layer, without organisation or workspace.
fn alone(name: &str) -> Result<Policy, Failure> {
    let places = own_places()?;
    let source = setup::find(name, &places).ok_or_else(|| {
        Failure::new(CONFIG, format!("no policy `{name}`")).help(format!(
            "name a file or a shipped one ({})",
            parse::PROFILES.join(", ")
        ))
    })?;
    parse::load(&[source], &|name| setup::find(name, &places)).map_err(|faults| told(&faults))
}

/// Faults as one failure.
fn told(faults: &[Diagnostic]) -> Failure {
    let shown: Vec<&str> = faults
        .iter()
        .map(|fault| fault.rendered.trim_end())
        .collect();
    Failure::new(
        CONFIG,
        format!("{} fault(s)\n{}", faults.len(), shown.join("\n")),
    )
}

/// The text of a file that must be there.
fn text_of(file: &Path) -> Result<String, Failure> {
    setup::read_policy(file, false)?
        .ok_or_else(|| Failure::new(CONFIG, format!("no file `{}`", file.display())))
}

/// A file as a source of the user layer.
fn source_of(file: &Path) -> Result<Source, Failure> {
    Ok(Source {
        name: file.display().to_string(),
        text: text_of(file)?,
        layer: policies::LayerName::User,
    })
}

/// A value as a line of JSON on standard output.
fn print_json(value: &serde_json::Value) {
    output::out(&format!("{value}\n"));
}
