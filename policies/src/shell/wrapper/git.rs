//! git: the options and subcommands by which it runs another program.

use super::{
    Inner, Unwrapped,
    options::{Doubt, undecided},
};
use crate::shell::{
    Word,
    word::{listed, may_split},
};

/// Sections and keys of `-c` that name no program.
const BENIGN: &str = "user.name user.email color.ui core.quotepath core.autocrlf core.filemode core.longpaths \
    core.abbrev init.defaultbranch commit.gpgsign tag.gpgsign safe.directory pull.rebase \
    pull.ff push.default rebase.autostash fetch.prune diff.renames diff.algorithm \
    diff.nooprefix log.date log.showsignature merge.conflictstyle status.showuntrackedfiles \
    gc.auto protocol.version";

/// Whether a configured key names no program.
fn benign(setting: &str) -> bool {
    let key = setting
        .split('=')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    listed(BENIGN, &key) || key.starts_with("advice.") || key.starts_with("color.")
}

/// Options of any subcommand whose value is run, in full.
const RUNS: &str = "--upload-pack --receive-pack --exec --extcmd --open-files-in-pager --tree-filter \
    --index-filter --msg-filter --env-filter --commit-filter --parent-filter \
    --tag-name-filter --smtp-server --to-cmd --cc-cmd --sendmail-cmd --remote-cmd";

/// Takes `git` apart.
pub(super) fn git(args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    let mut at = 0;
    while let Some(word) = args.get(at) {
        let Some(text) = word.literal.as_deref() else {
            return Err(undecided("git", word));
        };
        if !text.starts_with('-') {
            break;
        }
        at += 1;
        match text {
            "-C" | "--git-dir" | "--work-tree" | "--namespace" => {
                if args.get(at).is_some_and(may_split) {
                    return Err("a folder of `git` is decided at run time".to_owned());
                }
                at += 1;
            }
            "-c" => {
                let setting = args.get(at).and_then(|word| word.literal.as_deref());
                if !setting.is_some_and(benign) {
                    return Err("a setting of `git -c` that may name a program".to_owned());
                }
                at += 1;
            }
            "-p"
            | "--paginate"
            | "-P"
            | "--no-pager"
            | "--bare"
            | "--no-replace-objects"
            | "--literal-pathspecs"
            | "--no-optional-locks"
            | "--version"
            | "--help"
            | "-v"
            | "-h"
            | "--exec-path"
            | "--html-path"
            | "--man-path"
            | "--no-lazy-fetch"
            | "--no-advice" => {}
            _ if ["--git-dir=", "--work-tree=", "--namespace="]
                .iter()
                .any(|option| text.starts_with(option)) => {}
            _ => return Err("an option of `git` that is not known".to_owned()),
        }
    }
    let Some(subcommand) = args.get(at).and_then(|word| word.literal.as_deref()) else {
        return Ok(());
    };
    let rest = args.get(at + 1..).unwrap_or_default();
    running_option(subcommand, rest)?;
    subcommands(subcommand, rest, out)
}

/// Options that name a program, also shortened: git takes any unambiguous beginning.
fn running_option(subcommand: &str, rest: &[Word]) -> Result<(), Doubt> {
    for word in rest {
        let Some(text) = word.literal.as_deref() else {
            if word.text.starts_with('-') {
                return Err(undecided("git", word));
            }
            continue;
        };
        if text == "--" {
            break;
        }
        let name = text.split('=').next().unwrap_or_default();
        let long = name.len() > 3 && name.starts_with("--");
        let harmless = matches!(
            name,
            "--tags" | "--exec-path" | "--message" | "--index" | "--tag"
        );
        if long
            && !harmless
            && RUNS
                .split_ascii_whitespace()
                .any(|option| option.starts_with(name))
        {
            return Err(format!("`git {subcommand}` is told to run a program"));
        }
        if text.starts_with("ext::") {
            return Err("an address of `git` that runs a program".to_owned());
        }
        let short = match subcommand {
            "rebase" | "difftool" => text.starts_with("-x"),
            "clone" | "fetch-pack" => text.starts_with("-u") || text.starts_with("-c"),
            "grep" => text.starts_with("-O"),
            _ => false,
        };
        if short {
            return Err(format!("`git {subcommand}` is told to run a program"));
        }
    }
    Ok(())
}

fn subcommands(subcommand: &str, rest: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    let literal = |index: usize| rest.get(index).and_then(|word| word.literal.as_deref());
    match subcommand {
        "submodule" => {
            let foreach = rest
                .iter()
                .position(|word| word.literal.as_deref() == Some("foreach"));
            let Some(at) = foreach else { return Ok(()) };
            let mut line = rest.get(at + 1..).unwrap_or_default();
            while let [first, behind @ ..] = line {
                match first.literal.as_deref() {
                    Some("--recursive" | "--quiet" | "-q") => line = behind,
                    _ => break,
                }
            }
            out.joined(line, "git submodule")
        }
        "bisect" if literal(0) == Some("run") => {
            out.argv(rest.get(1..).unwrap_or_default());
            Ok(())
        }
        "filter-branch" | "difftool" | "mergetool" | "daemon" | "instaweb" | "send-email" => {
            Err(format!("`git {subcommand}` runs other programs"))
        }
        "config" => config(rest),
        "for-each-repo" => {
            out.inner.push(Inner::Line(String::new()));
            Err("`git for-each-repo` runs other commands".to_owned())
        }
        _ => Ok(()),
    }
}

/// `git config KEY VALUE`: a key that names a program would be run by a later command.
fn config(rest: &[Word]) -> Result<(), Doubt> {
    let reads = [
        "--get",
        "--get-all",
        "--get-regexp",
        "--list",
        "-l",
        "--unset",
        "--unset-all",
        "get",
        "list",
        "unset",
        "--show-origin",
        "--get-urlmatch",
    ];
    if rest.iter().any(|word| {
        word.literal
            .as_deref()
            .is_some_and(|text| reads.contains(&text))
    }) {
        return Ok(());
    }
    let operands: Vec<&Word> = rest
        .iter()
        .filter(|word| {
            let text = word.literal.as_deref().unwrap_or_default();
            !text.starts_with('-') && text != "set"
        })
        .collect();
    match operands.as_slice() {
        [] | [_] => Ok(()),
        [key, ..] if key.literal.as_deref().is_some_and(benign) => Ok(()),
        _ => Err("`git config` sets a key that may name a program".to_owned()),
    }
}
