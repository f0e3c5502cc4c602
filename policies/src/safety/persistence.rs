//! Persistence: what would start again by itself when the session is over.

use super::{
    Finding,
    spelling::{files, spelled},
};
use crate::{
    Action, Decision, Facts, FileVerb, ViewPath,
    shell::{self, Access, Simple},
};

/// The detector's id.
pub(super) const ID: &str = "persistence";

const WHY: &str = "it makes something start again by itself";
const INSTEAD: &str = "run it now, or say in the answer what a person should set up";

/// Files and folders of a home by which something starts, by their beginning, lower case.
const OF_HOME: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".xprofile",
    ".xinitrc",
    ".xsessionrc",
    ".pam_environment",
    ".config/systemd",
    ".config/autostart",
    ".config/fish",
    ".config/environment.d",
    ".local/share/systemd",
    "library/launchagents",
    ".config/git/hooks",
];

/// The same of a machine.
const OF_SYSTEM: &[&str] = &[
    "/etc/cron",
    "/etc/anacrontab",
    "/var/spool/cron",
    "/etc/systemd",
    "/lib/systemd",
    "/usr/lib/systemd",
    "/usr/local/lib/systemd",
    "/etc/init.d",
    "/etc/rc",
    "/etc/profile",
    "/etc/bash",
    "/etc/zsh",
    "/etc/ld.so.preload",
    "/etc/environment",
    "/etc/xdg/autostart",
    "/library/launch",
    "/etc/sudoers",
    "/etc/pam.d",
];

/// Looks for it.
pub(super) fn detect(action: &Action, facts: &Facts, findings: &mut Vec<Finding>) {
    let found = |object: &str| Finding::new(ID, Decision::Ask, WHY, object, INSTEAD);
    match action {
        Action::File(access) if access.verb == FileVerb::Write && starts(&access.path, facts) => {
            findings.push(found(access.path.as_str()));
        }
        Action::Run(run) => {
            let path = |word: &str| ViewPath::new(word, &facts.workspace, &facts.home);
            for (index, simple) in run.reading.simples.iter().enumerate() {
                let writes = is_writer(simple);
                let named = simple
                    .args
                    .iter()
                    .filter(|_| writes)
                    .flat_map(files)
                    .find(|word| path(word).is_some_and(|path| starts(&path, facts)));
                let object = named.or_else(|| installs(simple).then(|| simple.text.clone()));
                findings.extend(object.map(|object| found(&object).at(index)));
            }
            for (index, redirect) in run.reading.redirects.iter().enumerate() {
                let target = spelled(&redirect.target);
                if redirect.access == Access::Write
                    && path(&target).is_some_and(|path| starts(&path, facts))
                {
                    findings.push(found(&target).at(run.reading.simples.len() + index));
                }
            }
        }
        _ => {}
    }
}

/// Whether something starts by what lies there. The workspace has its protected names.
fn starts(path: &ViewPath, facts: &Facts) -> bool {
    if path.below(&facts.workspace).is_some() {
        return false;
    }
    let lower = path.as_str().to_lowercase();
    let home = path.below(&facts.home).map(str::to_lowercase);
    let homes = ["/root/", "/home/", "/users/"].iter().find_map(|root| {
        let rest = lower.strip_prefix(root)?;
        Some(
            if *root == "/root/" {
                rest
            } else {
                rest.split_once('/')?.1
            }
            .to_owned(),
        )
    });
    let of_home = home.or(homes).is_some_and(|rest| {
        OF_HOME.iter().any(|known| {
            rest.strip_prefix(known)
                .is_some_and(|tail| tail.is_empty() || tail.starts_with('/'))
        })
    });
    of_home || OF_SYSTEM.iter().any(|known| lower.starts_with(known))
}

/// Programs that only look at what they name.
fn is_writer(simple: &Simple) -> bool {
    let looks = [
        "source", ".", "echo", "printf", "grep", "rg", "test", "[", "[[", "ls", "cat", "diff",
        "git", "less", "head", "tail", "bash", "sh", "zsh", "sed", "awk",
    ];
    let edits = simple
        .literals()
        .any(|word| word.starts_with("-i") || word.starts_with("--in-place"));
    !shell::is_proven_read(simple)
        && simple
            .name()
            .is_some_and(|name| !looks.contains(&name) || (name == "sed" && edits))
}

/// Programs that set a clock, a unit or an agent.
fn installs(simple: &Simple) -> bool {
    let words: Vec<&str> = simple.literals().collect();
    let has = |list: &[&str]| words.iter().any(|word| list.contains(word));
    match simple.name() {
        Some("crontab") => !has(&["-l", "-V", "--help"]),
        Some("at" | "batch") => !has(&["-l", "-V", "-c"]),
        Some("systemctl") => has(&[
            "enable",
            "link",
            "edit",
            "set-default",
            "add-wants",
            "preset",
        ]),
        Some("systemd-run") => words.iter().any(|word| word.starts_with("--on-")),
        Some("launchctl") => has(&["load", "bootstrap", "enable", "submit"]),
        Some("update-rc.d" | "chkconfig" | "rc-update" | "visudo") => true,
        Some("schtasks" | "schtasks.exe") => has(&["/create", "/Create", "/CREATE"]),
        Some("loginctl") => has(&["enable-linger"]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::table::holds;

    #[test]
    fn what_starts_again_is_told_from_what_runs_now() {
        let ask = Decision::Ask;
        holds(
            ID,
            &[
                ("crontab x", ask),
                ("(crontab -l; echo '* * * * * x') | crontab -", ask),
                ("echo x | at now", ask),
                ("systemctl --user enable x", ask),
                ("echo x >> ~/.bashrc", ask),
                ("echo x >> $HOME/.profile", ask),
                ("tee -a ~/.zshrc < x", ask),
                ("cp x.service ~/.config/systemd/user/", ask),
                ("sed -i s/a/b/ ~/.bashrc", ask),
                ("cp x /etc/cron.d/x", ask),
                ("ln -s x /etc/systemd/system/x.service", ask),
                ("launchctl load x.plist", ask),
                ("P=~/.bashrc; echo x >> $P", ask),
            ],
            &[
                "crontab -l",
                "systemctl status x",
                "cat ~/.bashrc",
                "grep x ~/.bashrc",
                "source ~/.bashrc",
                "echo x >> bashrc.txt",
                "cp x.service deploy/systemd/",
                "cat /etc/profile",
                "at -l",
            ],
        );
    }
}
