//! `provost mode SESSION [MODE]`: the mode of a live session, shown and changed by the operator's socket.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use policies::Mode;
use protocol::SessionId;
use serde_json::json;
use supervisor_record::Places;

use super::args::ModeArgs;
use crate::{
    exit::{ENDED, Failure, USAGE},
    operator::{
        ask,
        words::{Ask, Tell},
    },
    output,
    session::own_places,
};

/// How long a change may take to be in force.
const IN_FORCE: Duration = Duration::from_secs(5);

/// `provost mode`
pub(super) fn run(args: &ModeArgs) -> Result<ExitCode, Failure> {
    let places = own_places()?;
    let session = SessionId::parse(&args.session).map_err(|_| {
        Failure::new(USAGE, format!("`{}` is no session", args.session))
            .help("`provost sessions list` shows those that run")
    })?;
    let wanted = args.mode.as_deref().map(parse).transpose()?;
    if let Some(to) = wanted {
        change(&places, &session, to, args.raise)?;
    }
    let (mode, planning) = shown(&places, &session)?;
    if args.json {
        let object = json!({ "v": 1, "session": session, "mode": mode.as_str(), "plan": planning });
        output::out(&format!("{object}\n"));
    } else {
        let plan = if planning {
            "; plan mode: nothing but reads until a person approves the plan"
        } else {
            ""
        };
        output::out(&format!("{}: {}{plan}\n", mode.as_str(), mode.describe()));
    }
    Ok(ExitCode::SUCCESS)
}

fn parse(word: &str) -> Result<Mode, Failure> {
    Mode::parse(word).ok_or_else(|| {
        let known = Mode::ALL.map(Mode::as_str).join(", ");
        Failure::new(USAGE, format!("no mode `{word}`")).help(format!("the modes are {known}"))
    })
}

fn change(places: &Places, session: &SessionId, to: Mode, raise: bool) -> Result<(), Failure> {
    let asked = Ask::Mode {
        to: Some(to),
        raise,
    };
    match say(places, session, &asked)? {
        Tell::Taken {} => {}
        Tell::Refused { why } => {
            let failure = Failure::new(ENDED, why.clone());
            return Err(if why.contains("is a raise") {
                failure.help("add --raise if that is meant")
            } else {
                failure
            });
        }
        Tell::Open { .. } | Tell::Mode { .. } => return Err(silent()),
    }
    let until = Instant::now() + IN_FORCE;
    while shown(places, session)?.0 != to {
        if Instant::now() >= until {
            return Err(Failure::new(
                ENDED,
                "the session did not put the mode in force",
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn shown(places: &Places, session: &SessionId) -> Result<(Mode, bool), Failure> {
    let asked = Ask::Mode {
        to: None,
        raise: false,
    };
    match say(places, session, &asked)? {
        Tell::Mode { mode, planning } => Ok((mode, planning)),
        Tell::Refused { why } => Err(Failure::new(ENDED, why)),
        Tell::Open { .. } | Tell::Taken {} => Err(silent()),
    }
}

fn say(places: &Places, session: &SessionId, asked: &Ask) -> Result<Tell, Failure> {
    ask::say(places, session, asked).map_err(|error| {
        let message = format!("session {session} cannot be asked: {error}");
        Failure::new(ENDED, message).help(
            "only a session that runs, and that somebody can answer (a terminal, or --approvals operator), has a mode to change",
        )
    })
}

fn silent() -> Failure {
    Failure::new(ENDED, "the session did not answer")
}
