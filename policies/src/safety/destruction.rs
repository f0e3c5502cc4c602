//! System destruction: removing, overwriting or re-owning what a machine or a home consists of.

use super::{
    Finding,
    spelling::{code, spelled},
};
use crate::{
    Action, Decision, Facts, Run, ViewPath,
    evaluate::folders,
    shell::{Access, Simple},
};

/// The detector's id.
pub(super) const ID: &str = "system-destruction";

const INSTEAD: &str = "name exactly the files below the workspace that should go";

const UNSET: &str = "write `${NAME:?}`, so that it stops where the variable is empty";

/// Looks for destruction.
pub(super) fn detect(action: &Action, facts: &Facts, findings: &mut Vec<Finding>) {
    let Action::Run(run) = action else { return };
    let folders = folders(&run.reading, facts);
    for ((index, simple), here) in run.reading.simples.iter().enumerate().zip(folders) {
        let view = View { facts, here };
        let told = command(simple, &view).or_else(|| by_code(simple, &view));
        if let Some((why, object)) = told {
            findings.push(Finding::new(ID, Decision::Deny, why, &object, INSTEAD).at(index));
        } else if let Some(object) = perhaps_all(simple) {
            let why = "it removes everything if a variable is empty";
            findings.push(Finding::new(ID, Decision::Ask, why, &object, UNSET).at(index));
        }
    }
    redirects(run, facts, findings);
}

fn redirects(run: &Run, facts: &Facts, findings: &mut Vec<Finding>) {
    for (index, redirect) in run.reading.redirects.iter().enumerate() {
        let Some(path) = ViewPath::new(&spelled(&redirect.target), &facts.workspace, &facts.home)
        else {
            continue;
        };
        if redirect.access == Access::Write && is_raw_device(&path) {
            let part = run.reading.simples.len() + index;
            let why = "it overwrites a device";
            findings.push(Finding::new(ID, Decision::Deny, why, path.as_str(), INSTEAD).at(part));
        }
    }
}

struct View<'a> {
    facts: &'a Facts,
    here: String,
}

impl View<'_> {
    fn path(&self, word: &str) -> Option<ViewPath> {
        ViewPath::new(word, &self.here, &self.facts.home)
    }

    /// Whether losing `word` is losing the machine, a home, or the whole workspace.
    fn is_grave(&self, word: &str, workspace_counts: bool) -> bool {
        let mut word = word.trim_end_matches('/');
        // Everything in a folder is the folder.
        for all in ["/*", "/.*", "/{*,.*}", "/**", "/.[!.]*", "/{,.}*"] {
            word = word.strip_suffix(all).unwrap_or(word);
        }
        let emptied = match word {
            "" => "/",
            "*" | ".*" | "{*,.*}" | "**" => ".",
            _ => word,
        };
        if emptied.contains(['$', '`', '*', '?']) {
            return false;
        }
        let Some(path) = self.path(emptied) else {
            return false;
        };
        let text = path.as_str();
        let above = |inner: &str| {
            ViewPath::new(inner, "/", "/").is_some_and(|inner| inner.below(text).is_some())
        };
        if text == "/" {
            return true;
        }
        let workspace = self.facts.workspace.as_str();
        if path.below(workspace).is_some_and(|rest| !rest.is_empty()) {
            return false;
        }
        if text == workspace {
            return workspace_counts;
        }
        if above(workspace) || above(&self.facts.home) {
            return true;
        }
        let whole = [
            "/home", "/root", "/var", "/opt", "/srv", "/mnt", "/media", "/run", "/Users",
        ];
        let deep = [
            "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/boot", "/dev", "/sys",
            "/proc",
        ];
        let parent = text.rsplit_once('/').map_or("", |(parent, _)| parent);
        whole.contains(&text)
            || (text.starts_with("/var/") && text.matches('/').count() == 2 && text != "/var/tmp")
            || parent == "/home"
            || deep
                .iter()
                .any(|root| path.below(root).is_some() && path.below("/dev/shm").is_none())
    }
}

/// `kill -9 -1`: the target stands for every process.
fn operands_after_signal(simple: &Simple) -> bool {
    let words: Vec<&str> = simple.literals().collect();
    words.len() > 1 && words.iter().skip(1).any(|word| *word == "-1")
}

/// A device that is not one of the harmless ones.
fn is_raw_device(path: &ViewPath) -> bool {
    let Some(name) = path.below("/dev") else {
        return false;
    };
    let first = name.split('/').next().unwrap_or("");
    let harmless = [
        "", "null", "zero", "full", "random", "urandom", "stdin", "stdout", "stderr", "tty",
        "ptmx", "pts", "fd", "shm", "tcp", "udp",
    ];
    !harmless.contains(&first)
}

fn has_letter(simple: &Simple, letters: &[char], long: &[&str]) -> bool {
    simple
        .literals()
        .take_while(|word| *word != "--")
        .any(|word| {
            if word.len() > 3 && word.starts_with("--") {
                return long.iter().any(|long| long.starts_with(word));
            }
            word.starts_with('-') && !word.starts_with("--") && word.contains(letters)
        })
}

fn operands(simple: &Simple) -> Vec<String> {
    let mut only_operands = false;
    let mut operands = Vec::new();
    for word in &simple.args {
        let text = spelled(word);
        if !only_operands && text == "--" {
            only_operands = true;
        } else if only_operands || !text.starts_with('-') || text == "-" {
            operands.push(text);
        }
    }
    operands
}

fn command(simple: &Simple, view: &View<'_>) -> Option<(&'static str, String)> {
    let name = simple.name()?;
    let grave = |workspace: bool| {
        operands(simple)
            .into_iter()
            .find(|word| view.is_grave(word, workspace))
    };
    let device = || {
        operands(simple)
            .into_iter()
            .find(|word| view.path(word).is_some_and(|path| is_raw_device(&path)))
    };
    match name {
        "rm" => {
            if simple.literals().any(|word| word == "--no-preserve-root") {
                return Some(("it removes even the root folder", simple.text.clone()));
            }
            has_letter(simple, &['r', 'R'], &["--recursive"])
                .then(|| grave(true))
                .flatten()
                .map(|word| ("it removes a whole system, home or workspace", word))
        }
        "rmdir" | "unlink" => grave(false).map(|word| ("it removes a system folder", word)),
        "find" | "fd" | "fdfind" => find(simple, view),
        "shred" | "wipe" | "srm" | "scrub" => grave(true)
            .or_else(device)
            .map(|word| ("it destroys what cannot be restored", word)),
        "mv" => {
            let mut sources = operands(simple);
            sources.pop();
            sources
                .into_iter()
                .find(|word| view.is_grave(word, true))
                .map(|word| ("it moves a whole system, home or workspace away", word))
                .or_else(|| device().map(|word| ("it overwrites a device", word)))
        }
        "chmod" | "chown" | "chgrp" | "setfacl" | "chattr" | "chcon" => {
            let recursive = has_letter(simple, &['R'], &["--recursive"]);
            recursive
                .then(|| grave(false))
                .flatten()
                .map(|word| ("it changes the rights of a whole system or home", word))
        }
        "dd" => simple
            .args
            .iter()
            .map(spelled)
            .filter_map(|word| word.strip_prefix("of=").map(str::to_owned))
            .find(|word| view.path(word).is_some_and(|path| is_raw_device(&path)))
            .map(|word| ("it overwrites a device", word)),
        "tee" | "cp" | "install" | "truncate" | "ln" => {
            device().map(|word| ("it overwrites a device", word))
        }
        "wipefs" | "blkdiscard" | "fdisk" | "sfdisk" | "gdisk" | "sgdisk" | "parted" | "cfdisk"
        | "mkswap" | "cryptsetup" | "badblocks" | "hdparm" | "nvme" | "pvcreate" | "vgremove"
        | "lvremove" | "zpool" => device().map(|word| ("it rewrites a disk", word)),
        "shutdown" | "reboot" | "halt" | "poweroff" | "telinit" => {
            Some(("it stops the machine", simple.text.clone()))
        }
        "kill" | "killall5" if name == "killall5" || operands_after_signal(simple) => {
            Some(("it ends every process", simple.text.clone()))
        }
        "init" if matches!(simple.arg(0), Some("0" | "6")) => {
            Some(("it stops the machine", simple.text.clone()))
        }
        "systemctl"
            if simple.literals().any(|word| {
                ["poweroff", "reboot", "halt", "kexec", "rescue", "emergency"].contains(&word)
            }) =>
        {
            Some(("it stops the machine", simple.text.clone()))
        }
        _ if name == "mkfs" || name.starts_with("mkfs.") || name.starts_with("mke2fs") => {
            device().map(|word| ("it makes a new file system over a device", word))
        }
        _ => None,
    }
}

/// `rm -rf "$dir"/*`: with an empty variable it is `rm -rf /*`.
fn perhaps_all(simple: &Simple) -> Option<String> {
    if simple.name() != Some("rm") || !has_letter(simple, &['r', 'R'], &["--recursive"]) {
        return None;
    }
    operands(simple).into_iter().find(|word| {
        let Some(rest) = word.strip_prefix('$') else {
            return false;
        };
        let rest = rest.trim_start_matches('{');
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, tail) = rest
            .split_at_checked(end.unwrap_or(rest.len()))
            .unwrap_or((rest, ""));
        let tail = tail.strip_prefix('}').unwrap_or(tail);
        let tail = tail.trim_start_matches('/');
        let set = ["TMPDIR", "PWD", "OLDPWD", "HOME"].contains(&name) || name.starts_with("XDG_");
        let slash = rest.contains('/');
        !name.is_empty() && !set && slash && ["", "*", ".*", "{*,.*}"].contains(&tail)
    })
}

/// Code on the command line that removes: what it names in quotes is looked at as `rm` would.
fn by_code(simple: &Simple, view: &View<'_>) -> Option<(&'static str, String)> {
    let removes = [
        "rmtree",
        "rm -",
        "rmSync",
        "rm_rf",
        "rm_r",
        "remove_tree",
        "rimraf",
        "rmdirSync",
        "remove_dir_all",
    ];
    for text in code(simple) {
        if !removes.iter().any(|word| text.contains(word)) {
            continue;
        }
        for piece in text.split(['"', '\'', '`']) {
            let last = piece.rsplit(char::is_whitespace).next().unwrap_or("");
            let is_path = last.starts_with(['/', '~']);
            if is_path && (piece == last || piece.contains("rm -")) && view.is_grave(last, true) {
                return Some((
                    "it removes a whole system, home or workspace",
                    last.to_owned(),
                ));
            }
        }
    }
    None
}

/// `find` that deletes what it finds: grave from a grave start; in the workspace only without a test.
fn find(simple: &Simple, view: &View<'_>) -> Option<(&'static str, String)> {
    let words: Vec<String> = simple.args.iter().map(spelled).collect();
    let runs = [
        "-exec",
        "-execdir",
        "-ok",
        "-okdir",
        "-x",
        "-X",
        "--exec",
        "--exec-batch",
    ];
    let removers = ["rm", "shred", "unlink", "srm", "/bin/rm", "/usr/bin/rm"];
    let removes = words.iter().any(|word| word == "-delete")
        || words
            .iter()
            .zip(words.iter().skip(1))
            .any(|(run, program)| {
                runs.contains(&run.as_str()) && removers.contains(&program.as_str())
            });
    if !removes {
        return None;
    }
    let tests = [
        "-name",
        "-iname",
        "-path",
        "-ipath",
        "-wholename",
        "-regex",
        "-iregex",
        "-newer",
        "-mtime",
        "-mmin",
        "-ctime",
        "-atime",
        "-size",
        "-empty",
        "-user",
        "-perm",
        "-samefile",
        "-inum",
        "-lname",
    ];
    let tested = words.iter().any(|word| tests.contains(&word.as_str()));
    let mut starts: Vec<String> = words
        .iter()
        .skip_while(|word| ["-H", "-L", "-P"].contains(&word.as_str()))
        .take_while(|word| !word.starts_with('-') && !word.starts_with(['(', '!']))
        .cloned()
        .collect();
    if starts.is_empty() {
        starts.push(".".to_owned());
    }
    starts
        .into_iter()
        .find(|start| view.is_grave(start, !tested))
        .map(|start| ("it deletes everything that it finds below", start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::table::holds;

    #[test]
    fn destruction_is_told_from_cleaning_up() {
        let d = Decision::Deny;
        holds(
            ID,
            &[
                ("rm -rf /", d),
                ("rm -fr /*", d),
                ("rm -r -f ~", d),
                ("rm -rf $HOME", d),
                ("rm -rf \"${HOME}\"/*", d),
                ("rm --recursive --force /etc", d),
                ("rm --recurs /home", d),
                ("sudo rm -rf /usr/lib", d),
                ("rm -rf .", d),
                ("rm -rf ..", d),
                ("rm -rf /srv/app", d),
                ("rm -rf /srv/app/", d),
                ("rm -rf ../app", d),
                ("cd / && rm -rf *", Decision::Deny),
                ("rm -rf --no-preserve-root x", d),
                ("/bin/rm -rf /", d),
                ("r''m -rf /", d),
                ("true; timeout 5 rm -rf /home/other", d),
                ("find / -delete", d),
                ("find . -delete", d),
                ("find ~ -name '*.c' -exec rm {} +", d),
                ("mkfs.ext4 /dev/sda1", d),
                ("dd if=/dev/zero of=/dev/sda bs=1M", d),
                ("echo x > /dev/nvme0n1", d),
                ("cat img | tee /dev/sdb", d),
                ("chmod -R 777 /", d),
                ("chown -R me /etc", d),
                ("shred -u /dev/sda", d),
                ("mv / /tmp/x", d),
                ("mv ~ /dev/null", d),
                ("shutdown -h now", d),
                ("wipefs -a /dev/sda", d),
            ],
            &[
                "rm -rf build",
                "rm -rf ./target dist",
                "rm -rf /srv/app/build",
                "rm -rf /tmp/x",
                "cd build && rm -rf *",
                "rm file",
                "rm -rf \"$DIR\"",
                "rm -rf /srv/app/../app/target",
                "find . -name '*.pyc' -delete",
                "find build -delete",
                "dd if=/dev/zero of=disk.img count=1",
                "echo x > /dev/null",
                "chmod -R u+w .",
                "chmod 755 /srv/app/x",
                "mkfs.ext4 disk.img",
                "mv build /tmp/x",
                "git rm -r old",
                "grep -rf patterns /etc",
                "echo rm -rf /",
            ],
        );
    }
}
