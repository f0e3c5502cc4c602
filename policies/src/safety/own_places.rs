//! Provost's own places: its configuration, record, sockets and the commands by which a person
//! answers it. What is confined must not speak to its keeper in a person's name.

use super::{
    Finding,
    spelling::{code, files, spelled},
};
use crate::{Action, Decision, Facts, ViewPath, shell::Simple};

/// The detector's id.
pub(super) const ID: &str = "own-places";

const WHY: &str = "it reaches for Provost's own files or commands";
const INSTEAD: &str = "leave it to a person: say in the answer what should be changed";

/// Folders by components, at any depth: the defaults of an account, and those of the service.
const FOLDERS: &[&[&str]] = &[
    &[".config", "provost"],
    &[".local", "state", "provost"],
    &[".local", "share", "provost"],
    &["xdg_runtime_dir", "provost"],
    &["etc", "provost"],
    &["var", "lib", "provost"],
    &["run", "provost"],
    &["provost", "record.db"],
];

/// What of its own folder a session may look at: the binary that runs inside.
const WORKER: &str = "/run/provost/worker";

/// Subcommands by which a person decides.
const DECIDING: &[&str] = &[
    "approve",
    "deny",
    "approvals",
    "policy",
    "login",
    "logout",
    "apply",
    "discard",
    "undo",
    "serve",
    "audit",
    "exec",
    "run",
    "chat",
    "resume",
    "sessions",
];

/// Looks for it.
pub(super) fn detect(action: &Action, facts: &Facts, findings: &mut Vec<Finding>) {
    let found = |object: &str| Finding::new(ID, Decision::Deny, WHY, object, INSTEAD);
    match action {
        Action::File(access) if is_own(access.path.as_str()) => {
            findings.push(found(access.path.as_str()));
        }
        Action::Run(run) => {
            for (index, simple) in run.reading.simples.iter().enumerate() {
                if let Some(object) = command(simple, facts) {
                    findings.push(found(&object).at(index));
                }
            }
            for (index, redirect) in run.reading.redirects.iter().enumerate() {
                if is_own(&absolute(&spelled(&redirect.target), facts)) {
                    let part = run.reading.simples.len() + index;
                    findings.push(found(&redirect.target.text).at(part));
                }
            }
        }
        _ => {}
    }
}

fn absolute(word: &str, facts: &Facts) -> String {
    ViewPath::new(word, &facts.workspace, &facts.home)
        .map_or_else(|| word.to_owned(), |path| path.to_string())
}

fn is_own(path: &str) -> bool {
    let lower = path.to_lowercase();
    if lower == WORKER {
        return false;
    }
    let parts: Vec<&str> = lower.split('/').filter(|part| !part.is_empty()).collect();
    let by_folder = FOLDERS.iter().any(|folder| match *folder {
        // The service's folders are meant at the root only: a project may have an `etc/provost`.
        ["etc" | "var" | "run", ..] => lower.starts_with('/') && parts.starts_with(folder),
        _ => parts.windows(folder.len()).any(|window| window == *folder),
    });
    // `/run/user/1000/provost`, `/var/run/provost`
    let by_runtime = matches!(
        parts.as_slice(),
        ["run", "user", _, "provost", ..] | ["var", "run", "provost", ..]
    );
    by_folder || by_runtime
}

fn command(simple: &Simple, facts: &Facts) -> Option<String> {
    let set = simple
        .assignments
        .iter()
        .find(|(name, _)| name.starts_with("PROVOST_"));
    if let Some((name, _)) = set {
        return Some(name.clone());
    }
    if simple.name() == Some("provost") {
        let first = simple.args.iter().find(|word| !word.text.starts_with('-'));
        let decides = first.is_some_and(|word| {
            word.literal
                .as_deref()
                .is_none_or(|literal| DECIDING.contains(&literal))
        });
        if decides {
            return Some(simple.text.clone());
        }
    }
    let speaks = matches!(
        simple.name(),
        Some("echo" | "printf" | "git" | "grep" | "rg")
    );
    let program = simple
        .program
        .as_ref()
        .map(spelled)
        .filter(|text| is_own(&absolute(text, facts)));
    if program.is_some() || speaks {
        return program;
    }
    for word in &simple.args {
        let text = spelled(word);
        if text.contains("$PROVOST_") || text.contains("${PROVOST_") || text.starts_with("PROVOST_")
        {
            return Some(word.text.clone());
        }
        let runtime = text.replace("${XDG_RUNTIME_DIR}", "/xdg_runtime_dir");
        let runtime = runtime.replace("$XDG_RUNTIME_DIR", "/xdg_runtime_dir");
        let configured = runtime.replace("${XDG_CONFIG_HOME}", "~/.config");
        let configured = configured.replace("$XDG_CONFIG_HOME", "~/.config");
        let stated = configured.replace("${XDG_STATE_HOME}", "~/.local/state");
        let stated = stated.replace("$XDG_STATE_HOME", "~/.local/state");
        if is_own(&absolute(&stated, facts))
            || files(word)
                .iter()
                .any(|file| is_own(&absolute(file, facts)))
        {
            return Some(word.text.clone());
        }
    }
    let apart = |c: char| c.is_whitespace() || "'\"`()[]{},;<>=|&+".contains(c);
    code(simple)
        .iter()
        .flat_map(|text| text.split(apart))
        .find(|token| token.contains('/') && is_own(&absolute(token, facts)))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::table::holds;

    #[test]
    fn its_own_places_are_told_from_a_projects() {
        let d = Decision::Deny;
        holds(
            ID,
            &[
                ("cat ~/.config/provost/providers.toml", d),
                ("ls /etc/provost", d),
                ("sqlite3 $HOME/.local/state/provost/record.db .dump", d),
                ("cat \"$XDG_RUNTIME_DIR/provost/sock\"", d),
                ("nc -U /run/user/1000/provost/operator.sock", d),
                ("echo x > ~/.config/provost/policies/default.toml", d),
                ("provost approve 3", d),
                ("provost --json approvals list", d),
                ("/usr/bin/provost policy explain bash", d),
                ("PROVOST_CONFIG_DIR=/tmp provost doctor", d),
                ("export PROVOST_STATE_DIR=/tmp/x", d),
                ("ls /run/provost", d),
                ("python3 -c \"open('/etc/provost/keys/anthropic')\"", d),
            ],
            &[
                "ls -l /run/provost/worker",
                "cat docs/provost.md",
                "cat etc/provost/example.toml",
                "grep -r /etc/provost docs",
                "git commit -m 'read /etc/provost'",
                "provost --version",
                "cargo run -p provost",
                "ls src/provost",
            ],
        );
    }
}
