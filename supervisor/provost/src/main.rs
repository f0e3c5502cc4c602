//! The shell of the supervisor's house, binary `provost`: command line and wiring. It decides nothing.

mod approve;
mod cli;
mod escape;
mod exit;
mod harden;
mod input;
mod operator;
mod output;
mod prompt;
mod session;
mod telemetry;
mod view;

use std::process::ExitCode;

fn main() -> ExitCode {
    let keys = match harden::harden() {
        Ok(keys) => keys,
        Err(failure) => return failure.report(),
    };
    match cli::run(keys) {
        Ok(code) => output::settle(code),
        Err(failure) => failure.report(),
    }
}
