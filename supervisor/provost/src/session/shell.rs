//! Which shell a box has: this machine's is known, an image's is tried.

use std::os::fd::AsFd as _;

use protocol::{CommandId, Order, Spawn, bounds, jail::Situation};
use supervisor_sandbox::pipe_pair;
use tokio::time::timeout;

use super::{commands::Frame, links::Hands};

/// A shell and its arguments before the line.
type Shell = &'static [&'static str];

const BASH: Shell = &["/bin/bash", "--noprofile", "--norc", "-c"];
/// In order of preference. A smaller shell reads the same line; what it does not know it says.
const SHELLS: [Shell; 3] = [
    BASH,
    &["/usr/bin/bash", "--noprofile", "--norc", "-c"],
    &["/bin/sh", "-c"],
];

/// The shell of a box; `None` if it has none.
pub(super) async fn find(
    hands: &Hands,
    frame: &Frame,
    situation: Situation,
) -> Result<Option<Vec<String>>, String> {
    let owned = |shell: Shell| -> Vec<String> { shell.iter().map(|&word| word.into()).collect() };
    if situation != Situation::Container {
        return Ok(Some(owned(BASH)));
    }
    for (number, shell) in SHELLS.into_iter().enumerate() {
        let mut argv = owned(shell);
        argv.push(":".to_owned());
        if works(hands, frame, &format!("sh{number}"), argv).await? {
            return Ok(Some(owned(shell)));
        }
    }
    Ok(None)
}

/// Whether a shell does nothing, and that well.
async fn works(
    hands: &Hands,
    frame: &Frame,
    name: &str,
    argv: Vec<String>,
) -> Result<bool, String> {
    let command = CommandId::parse(name).map_err(|error| error.to_string())?;
    let (_read, write) = pipe_pair().map_err(|error| format!("no pipe: {error}"))?;
    let spawn = Spawn {
        command: command.clone(),
        argv,
        cwd: "/".to_owned(),
        env: frame.env.clone(),
        domain: frame.domain.clone(),
        limits: frame.limits,
        stdin: false,
        errors: false,
        program: false,
    };
    let ordered = hands
        .start_command(&command, &Order::Spawn(spawn), &[write.as_fd()])
        .map_err(|error| format!("cannot try the image's shell: {error}"))?;
    drop(write);
    let tried = timeout(bounds::GREETING, async {
        match ordered.started.await {
            Ok(Ok(())) => ordered
                .exited
                .await
                .ok()
                .map(|(exit, _)| exit.code == Some(0)),
            Ok(Err(_)) => Some(false),
            Err(_) => None,
        }
    });
    tried
        .await
        .ok()
        .flatten()
        .ok_or_else(|| "hands did not answer while the image's shell was tried".to_owned())
}
