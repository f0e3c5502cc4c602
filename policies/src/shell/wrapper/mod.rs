//! Wrappers: programs and builtins that start other commands, taken apart by a table of their own
//! options. What is not in a table is a doubt; a wrapper is never read by guessing.

mod builtin;
mod container;
mod git;
mod options;
mod prefix;
mod script;
mod search;
mod shells;

use super::{Simple, Word};
use options::Doubt;

/// A command inside a command.
#[derive(Debug)]
pub(super) enum Inner {
    /// A program and its arguments.
    Argv {
        /// `NAME=value` of `env` and its kin.
        assignments: Vec<(String, Word)>,
        /// The program, then its arguments.
        words: Vec<Word>,
    },
    /// A text that a shell reads.
    Line(String),
    /// Whatever stands on the standard input, read by a shell.
    Input,
}

/// What a simple command starts or changes.
#[derive(Debug, Default)]
pub(super) struct Unwrapped {
    /// Commands inside it.
    pub(super) inner: Vec<Inner>,
    /// Names that it gives a value which could be more than a number.
    pub(super) sets: Vec<String>,
    /// Names that are assigned in plain sight, and whether to text that could be a number only.
    pub(super) assigns: Vec<(String, bool)>,
    /// Texts that it evaluates as arithmetic.
    pub(super) evaluates: Vec<String>,
    /// Why it is not understood.
    pub(super) doubt: Option<Doubt>,
}

impl Unwrapped {
    /// Adds a command, if there is one.
    fn argv(&mut self, words: &[Word]) {
        if !words.is_empty() {
            self.inner.push(Inner::Argv {
                assignments: Vec::new(),
                words: words.to_vec(),
            });
        }
    }

    /// Adds a text that a shell reads; a text that is decided at run time is a doubt.
    fn line(&mut self, word: &Word, program: &str) -> Result<(), Doubt> {
        match &word.literal {
            Some(text) => {
                self.inner.push(Inner::Line(text.clone()));
                Ok(())
            }
            None => Err(options::undecided(program, word)),
        }
    }

    /// Adds words that are joined by blanks and read by a shell.
    fn joined(&mut self, words: &[Word], program: &str) -> Result<(), Doubt> {
        let mut text = String::new();
        for word in words {
            let Some(literal) = &word.literal else {
                return Err(options::undecided(program, word));
            };
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(literal);
        }
        if !text.is_empty() {
            self.inner.push(Inner::Line(text));
        }
        Ok(())
    }
}

/// Takes a simple command apart.
pub(super) fn unwrap(simple: &Simple) -> Unwrapped {
    let mut out = Unwrapped::default();
    let Some(program) = simple.name() else {
        return out;
    };
    let args = simple.args.as_slice();
    if let Err(doubt) = dispatch(program, args, &mut out) {
        out.doubt = Some(doubt);
    }
    out
}

fn dispatch(program: &str, args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    match program {
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "mksh" | "ash" | "rbash" | "fish" | "csh"
        | "tcsh" | "yash" | "posh" | "oksh" | "lksh" | "pdksh" | "bosh" | "osh" => {
            shells::shell(program, args, out)
        }
        "pwsh" | "powershell" | "nu" | "elvish" | "xonsh" | "ysh" | "ion" | "murex" => {
            shells::foreign(program, args, out)
        }
        "at" | "batch" => shells::later(program, args, out),
        "crontab" => shells::table(args),
        "newgrp" => {
            out.inner.push(Inner::Input);
            Ok(())
        }
        "sg" => shells::group(args, out),
        "jobs" => {
            let runs = |word: &Word| word.literal.as_deref() == Some("-x");
            if let Some(at) = args.iter().position(runs) {
                out.argv(args.get(at + 1..).unwrap_or_default());
            }
            Ok(())
        }
        "su" => shells::su(args, out),
        "runuser" => shells::runuser(args, out),
        "ssh" => shells::ssh(args, out),
        "eval" => shells::eval(args, out),
        "trap" => shells::trap(args, out),
        "watch" => shells::watch(args, out),
        "parallel" => shells::parallel(args, out),
        "find" | "gfind" | "bfs" => search::find(args, out),
        "fd" | "fdfind" => search::fd(args, out),
        "xargs" | "gxargs" => search::xargs(args, out),
        "rg" => search::ripgrep(args, out),
        "tar" | "gtar" | "bsdtar" => search::tar(args, out),
        "sort" => search::sort(args, out),
        "sed" | "gsed" => script::sed(args),
        "awk" | "gawk" | "mawk" | "nawk" => script::awk(program, args),
        "git" => git::git(args, out),
        "docker" | "podman" | "nerdctl" => container::docker(program, args, out),
        "kubectl" => container::kubectl(args, out),
        "uv" | "poetry" | "pipenv" | "pdm" | "rye" | "hatch" | "bundle" | "mise" | "direnv"
        | "npm" | "pnpm" | "yarn" | "bun" | "conda" | "nix" => prefix::runner(program, args, out),
        // The script of a virtual environment, which is run as any other script of the workspace is.
        "source" | "."
            if matches!(args, [only] if only
                .literal
                .as_deref()
                .is_some_and(|path| path.ends_with("/bin/activate"))) =>
        {
            Ok(())
        }
        "source" | "." => Err(format!("`{program}` reads commands from a file")),
        // A program of git's own folder is the subcommand of its name.
        _ if program.starts_with("git-") => {
            let mut words = vec![options::literal_word(program.trim_start_matches("git-"))];
            words.extend_from_slice(args);
            git::git(&words, out)
        }
        _ => match prefix::find(program) {
            Some(wrapper) => prefix::unwrap(program, wrapper, args, out),
            None => builtin::builtin(program, args, out),
        },
    }
}
