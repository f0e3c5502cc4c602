//! `provost selftest --escape`.

use std::process::ExitCode;

use super::args::SelftestArgs;
use crate::{
    escape::{self, Asked},
    exit::Failure,
    harden::Keys,
};

/// `provost selftest`
pub(super) fn run(args: &SelftestArgs, keys: &Keys) -> Result<ExitCode, Failure> {
    // The one suite that there is; the flag is there so that a second one changes no command line.
    debug_assert!(args.escape);
    let asked = Asked {
        backend: &args.backend,
        namespaces: &args.namespaces,
        image: args.image.as_deref(),
        report: args.report.as_deref(),
        json: args.json,
    };
    escape::run(&asked, keys)
}
