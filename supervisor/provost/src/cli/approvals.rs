//! `provost approvals list`, `provost approve`, `provost deny`.

use std::{io::IsTerminal as _, process::ExitCode};

use protocol::SessionId;
use serde_json::json;
use supervisor_record::Places;

use super::args::{ApprovalsCommand, ApproveArgs, DenyArgs, ScopeWord};
use crate::{
    exit::{ENDED, Failure, REFUSED_AT_START, USAGE},
    operator::{
        ask,
        words::{Ask, Said, Shown, Tell},
    },
    output,
    session::own_places,
};

fn failed(error: &std::io::Error) -> Failure {
    Failure::new(
        REFUSED_AT_START,
        format!("cannot ask the sessions: {error}"),
    )
}

/// `provost approvals …`
pub(super) fn run(command: ApprovalsCommand) -> Result<ExitCode, Failure> {
    let ApprovalsCommand::List { json } = command;
    let places = own_places()?;
    let open = ask::open(&places, None).map_err(|error| failed(&error))?;
    if json {
        let list: Vec<_> = open
            .iter()
            .flat_map(|(session, questions)| {
                questions.iter().map(move |shown| {
                    json!({ "id": format!("{session}/{}", shown.question), "session": session, "question": shown })
                })
            })
            .collect();
        output::out(&format!("{}\n", json!({ "v": 1, "open": list })));
        return Ok(ExitCode::SUCCESS);
    }
    for (session, questions) in &open {
        for shown in questions {
            let head = format!(
                "{session}/{} · {} s left",
                shown.question, shown.seconds_left
            );
            output::out(&format!("{head}\n{}\n", shown.text()));
        }
    }
    if open.iter().all(|(_, questions)| questions.is_empty()) {
        output::out("nothing is asked\n");
    }
    Ok(ExitCode::SUCCESS)
}

/// `provost approve`
pub(super) fn approve(args: &ApproveArgs) -> Result<ExitCode, Failure> {
    let answer = match (&args.say, &args.instead) {
        (Some(text), _) => Said::Words { text: text.clone() },
        (None, Some(text)) => {
            let input = serde_json::from_str(text).map_err(|error| {
                Failure::new(USAGE, format!("--instead is not JSON: {error}"))
                    .help("give the tool's whole input, for example '{\"command\":\"git push origin topic\"}'")
            })?;
            Said::Instead { input }
        }
        (None, None) => match args.scope {
            ScopeWord::Once => Said::Once {},
            ScopeWord::Turn => Said::Turn {},
            ScopeWord::Session => Said::Session {},
        },
    };
    answer_to(&args.id, args.nonce.as_deref(), answer, true)
}

/// `provost deny`
pub(super) fn deny(args: &DenyArgs) -> Result<ExitCode, Failure> {
    let message = args.message.clone();
    answer_to(
        &args.id,
        args.nonce.as_deref(),
        Said::Deny { message },
        false,
    )
}

/// Answers one question. A yes needs the nonce, which whoever saw the question has, or a terminal
/// where it is drawn and confirmed now; a no needs neither.
fn answer_to(
    id: &str,
    nonce: Option<&str>,
    answer: Said,
    careful: bool,
) -> Result<ExitCode, Failure> {
    let places = own_places()?;
    let (session, shown) = find(&places, id)?;
    let nonce = match nonce {
        Some(nonce) => nonce.to_owned(),
        None => {
            if careful {
                confirm(&session, &shown)?;
            }
            shown.nonce.clone()
        }
    };
    let asked = Ask::Answer {
        question: shown.question,
        nonce,
        answer,
    };
    match ask::say(&places, &session, &asked).map_err(|error| failed(&error))? {
        Tell::Taken {} => {
            output::err(&format!("{session}/{}: answered\n", shown.question));
            Ok(ExitCode::SUCCESS)
        }
        Tell::Refused { why } => Err(Failure::new(ENDED, why)),
        Tell::Open { .. } | Tell::Mode { .. } => {
            Err(Failure::new(ENDED, "the session did not answer"))
        }
    }
}

/// Draws the question and takes a whole `yes`, typed after it was drawn.
fn confirm(session: &SessionId, shown: &Shown) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() || !output::err_is_terminal() {
        return Err(
            Failure::new(USAGE, "an approval needs the nonce of what was seen")
                .help("`provost approvals list` shows it: give --nonce, or approve at a terminal"),
        );
    }
    let _ = nix::sys::termios::tcflush(std::io::stdin(), nix::sys::termios::FlushArg::TCIFLUSH);
    output::err(&format!(
        "{session}/{}\n{}\napprove it? type yes: ",
        shown.question,
        shown.text()
    ));
    let drawn = std::time::Instant::now();
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    let stood = drawn.elapsed() >= protocol::bounds::PROMPT_STANDS;
    if read.is_ok() && stood && line.trim() == "yes" {
        return Ok(());
    }
    Err(Failure::new(ENDED, "nothing was approved"))
}

/// The open question that `SESSION/NUMBER`, `last/NUMBER` or `NUMBER` names.
fn find(places: &Places, id: &str) -> Result<(SessionId, Shown), Failure> {
    let usage = || {
        Failure::new(USAGE, format!("`{id}` names no question"))
            .help("an id is SESSION/NUMBER, as `provost approvals list` shows it")
    };
    let (session, number) = match id.rsplit_once('/') {
        Some((session, number)) => (Some(session), number),
        None => (None, id),
    };
    let number: u64 = number.parse().map_err(|_| usage())?;
    let only = match session {
        Some(word) => Some(SessionId::parse(word).map_err(|_| usage())?),
        None => None,
    };
    let open = ask::open(places, only.as_ref()).map_err(|error| failed(&error))?;
    let found = open.into_iter().flat_map(|(session, questions)| {
        questions
            .into_iter()
            .filter(|shown| shown.question == number)
            .map(move |shown| (session.clone(), shown))
    });
    let mut found: Vec<_> = found.collect();
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (Some(_), false) => Err(Failure::new(
            USAGE,
            format!("several sessions ask a question {number}"),
        )
        .help("write SESSION/NUMBER, as `provost approvals list` shows it")),
        (None, _) => Err(Failure::new(
            ENDED,
            format!("no open question `{id}`: it was answered, withdrawn, or its time is over"),
        )),
    }
}
