//! `provost-worker`: one static binary, one entry, the roles of the unprivileged house.

use std::process::ExitCode;

fn main() -> ExitCode {
    provost_worker::run(&provost_worker::Parts::OURS)
}
