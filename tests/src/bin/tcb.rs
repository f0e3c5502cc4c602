//! Prints how much of the workspace must be trusted; fails where a ceiling is passed.

use std::io::Write as _;
use std::process::ExitCode;

use provost_tests::shape::{Workspace, rules, tcb};

fn main() -> ExitCode {
    let mut out = std::io::stdout().lock();
    let workspace = match Workspace::read() {
        Ok(workspace) => workspace,
        Err(error) => {
            let _ = writeln!(std::io::stderr().lock(), "tcb: {error}");
            return ExitCode::from(70);
        }
    };
    let objections = rules::ceilings(&workspace);
    let mut text = tcb::table(&workspace);
    for objection in &objections {
        text.push_str(&format!("over its ceiling: {objection}\n"));
    }
    let written = out.write_all(text.as_bytes());
    if written.is_ok() && objections.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
