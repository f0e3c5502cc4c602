//! `provost hooks …`: which hooks a session would have, and the approval of a workspace's by their bytes.

use std::{io::IsTerminal as _, path::PathBuf, process::ExitCode};

use protocol::Digest;
use serde_json::{Value, json};
use supervisor_core::escape::escape;
use supervisor_record::{Grant, GrantKind, Record};

use super::args::{HooksArgs, HooksCommand};
use crate::{
    exit::{CONFIG, ENDED, Failure, REFUSED_AT_START, USAGE},
    output,
    session::{self, FoundHook, HookProgram, own_places, setup},
};

/// What is looked at.
struct Seen {
    workspace: PathBuf,
    found: Vec<FoundHook>,
    approved: Vec<Grant>,
    record: Record,
}

/// `provost hooks …`
pub(super) fn run(command: HooksCommand) -> Result<ExitCode, Failure> {
    match command {
        HooksCommand::List { given, json } => list(&see(&given)?, json),
        HooksCommand::Approve { id, digest, given } => {
            approve(see(&given)?, &id, digest.as_deref())
        }
        HooksCommand::Revoke { id, given } => revoke(see(&given)?, &id),
    }
}

fn see(given: &HooksArgs) -> Result<Seen, Failure> {
    let places = own_places()?;
    let workspace = setup::workspace(given.workspace.as_deref())?;
    let (policy, ..) = setup::policy(&given.policy, None, &workspace, &places)?;
    let record = session::open_record(&places)?;
    let approved = record
        .grants(GrantKind::Hook, Some(&workspace.display().to_string()))
        .map_err(|error| Failure::new(REFUSED_AT_START, error.to_string()))?;
    Ok(Seen {
        found: session::find_hooks(&policy, &workspace),
        workspace,
        approved,
        record,
    })
}

impl Seen {
    /// `runs`, `not approved`, or why it cannot.
    fn state(&self, one: &FoundHook) -> (&'static str, Option<String>) {
        let approved = self.approved.iter().any(|grant| grant.digest == one.digest);
        match &one.program {
            Err(why) => ("absent", Some(why.clone())),
            Ok(_) if one.hook.layer.is_outer() || approved => ("runs", None),
            Ok(_) => {
                let why = "nobody has approved it as it is now".to_owned();
                ("unapproved", Some(why))
            }
        }
    }

    /// The workspace's hook of that id.
    fn project(&self, id: &str) -> Result<&FoundHook, Failure> {
        let id = id.strip_prefix("project/").unwrap_or(id);
        let mut own = self.found.iter().filter(|one| !one.hook.layer.is_outer());
        own.find(|one| one.hook.id == id).ok_or_else(|| {
            let shown = escape(id, false);
            Failure::new(CONFIG, format!("the workspace has no hook `{shown}`"))
                .help("`provost hooks list` shows them; hooks of the user and the organisation need no approval")
        })
    }
}

fn where_it_runs(one: &FoundHook) -> &'static str {
    match one.hook.layer {
        policies::LayerName::BuiltIn | policies::LayerName::Organisation => {
            "a jail of the organisation's hooks"
        }
        _ => "the session's jail",
    }
}

fn list(seen: &Seen, as_json: bool) -> Result<ExitCode, Failure> {
    if as_json {
        let hooks: Vec<Value> = seen.found.iter().map(|one| object(seen, one)).collect();
        output::out(&format!("{}\n", json!({ "v": 1, "hooks": hooks })));
        return Ok(ExitCode::SUCCESS);
    }
    for one in &seen.found {
        let (state, why) = seen.state(one);
        let hook = &one.hook;
        let required = if hook.required { " · required" } else { "" };
        output::out(&format!(
            "{} · {} · {state}{required} · {} s · in {}\n  {}\n  digest {}\n",
            hook.name(),
            hook.event.as_str(),
            hook.timeout,
            where_it_runs(one),
            escape(&hook.command.join(" "), false),
            one.digest
        ));
        if let Some(why) = why {
            output::out(&format!("  {}\n", escape(&why, false)));
        }
    }
    if seen.found.is_empty() {
        output::out("no hooks\n");
    }
    Ok(ExitCode::SUCCESS)
}

fn object(seen: &Seen, one: &FoundHook) -> Value {
    let (state, why) = seen.state(one);
    let hook = &one.hook;
    json!({
        "hook": hook.name(), "event": hook.event.as_str(), "command": hook.command,
        "tool": hook.tool, "required": hook.required, "timeout_s": hook.timeout,
        "at": hook.at, "runs_in": where_it_runs(one), "state": state, "why": why,
        "digest": one.digest,
    })
}

fn approve(mut seen: Seen, id: &str, digest: Option<&str>) -> Result<ExitCode, Failure> {
    let one = seen.project(id)?.clone();
    let program = one
        .program
        .as_ref()
        .map_err(|why| Failure::new(CONFIG, format!("hook {}: {why}", one.hook.name())))?;
    match digest {
        Some(given) => {
            let same = Digest::parse(given).is_ok_and(|given| given == one.digest);
            if !same {
                let message = format!(
                    "hook {} is not what `{}` names",
                    one.hook.name(),
                    escape(given, false)
                );
                return Err(Failure::new(ENDED, message).help(
                    "look at it again with `provost hooks list`: its digest changes with each byte",
                ));
            }
        }
        None => confirm(&one, program)?,
    }
    let shown = format!(
        "{} {}: {}",
        one.hook.name(),
        one.hook.event.as_str(),
        escape(&one.hook.command.join(" "), false)
    );
    let place = seen.workspace.display().to_string();
    seen.record
        .grant(
            GrantKind::Hook,
            &place,
            &one.digest,
            (&shown, ""),
            session::now_ms(),
        )
        .map_err(|error| Failure::new(REFUSED_AT_START, error.to_string()))?;
    output::err(&format!("approved for `{place}`, as it is now: {shown}\n"));
    Ok(ExitCode::SUCCESS)
}

/// Draws the hook with all its bytes and takes a whole `yes`, typed after it was drawn.
fn confirm(one: &FoundHook, program: &HookProgram) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() || !output::err_is_terminal() {
        return Err(
            Failure::new(USAGE, "an approval needs the digest of what was seen")
                .help("`provost hooks list` shows it: give --digest, or approve at a terminal"),
        );
    }
    let mut text = format!(
        "{} runs at {} in the session's jail:\n  {}\n",
        one.hook.name(),
        one.hook.event.as_str(),
        escape(&one.hook.command.join(" "), false)
    );
    if let HookProgram::File(bytes) = program {
        for line in String::from_utf8_lossy(bytes).lines() {
            text.push_str(&format!("  │ {}\n", escape(line, false)));
        }
    }
    let _ = nix::sys::termios::tcflush(std::io::stdin(), nix::sys::termios::FlushArg::TCIFLUSH);
    output::err(&format!("{text}approve exactly this? type yes: "));
    let drawn = std::time::Instant::now();
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    let stood = drawn.elapsed() >= protocol::bounds::PROMPT_STANDS;
    if read.is_ok() && stood && line.trim() == "yes" {
        return Ok(());
    }
    Err(Failure::new(ENDED, "nothing was approved"))
}

/// Takes back every approval of that id, of whatever bytes.
fn revoke(mut seen: Seen, id: &str) -> Result<ExitCode, Failure> {
    let id = id.strip_prefix("project/").unwrap_or(id);
    let head = format!("project/{id} ");
    let mut gone = 0;
    for grant in seen
        .approved
        .iter()
        .filter(|grant| grant.shown.starts_with(&head))
    {
        let revoked = seen.record.revoke(GrantKind::Hook, grant.id);
        let revoked = revoked.map_err(|error| Failure::new(REFUSED_AT_START, error.to_string()))?;
        gone += u32::from(revoked);
    }
    if gone == 0 {
        let shown = escape(id, false);
        return Err(Failure::new(
            ENDED,
            format!("no approval of a hook `{shown}` stands here"),
        ));
    }
    output::err(&format!(
        "{gone} approval(s) taken back; sessions that run keep theirs\n"
    ));
    Ok(ExitCode::SUCCESS)
}
