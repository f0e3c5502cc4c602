//! git's reads: subcommands with the options that neither write, run a program nor reach a host.

use super::accepts;
use super::table::{Operands, Program};
use crate::shell::Word;

const NONE: Program = Program::NONE;

/// Options of everything that shows commits and differences. Absent: `--output`, `--ext-diff`,
/// `--textconv`, `-O`.
const SHOW: &str = "oneline graph all decorate no-decorate stat shortstat numstat dirstat summary patch \
    no-patch raw name-only name-status cached staged check color no-color word-diff \
    word-diff-regex unified minimal patience histogram diff-algorithm diff-filter \
    find-renames find-copies no-renames ignore-all-space ignore-space-change \
    ignore-space-at-eol ignore-blank-lines text exit-code quiet no-ext-diff no-textconv \
    full-index binary abbrev abbrev-commit no-abbrev-commit relative follow first-parent \
    merges no-merges reverse topo-order date-order author-date-order date since after until \
    before author committer grep invert-grep all-match regexp-ignore-case extended-regexp \
    fixed-strings perl-regexp max-count skip pretty format branches tags remotes not \
    walk-reflogs merge-base left-right cherry-pick cherry-mark cherry no-walk stdin \
    function-context inter-hunk-context ignore-submodules submodule src-prefix dst-prefix \
    no-prefix pickaxe-regex pickaxe-all compact-summary boundary simplify-by-decoration \
    full-history ancestry-path no-notes relative-date parents children count cc no-index";
const LOG: Program = Program {
    short: "pustwbaEFPigqRzcm",
    value: "nUGSMCBDLX",
    long: SHOW,
    long_value: "max-count",
    digits: true,
    ..NONE
};
const STATUS: Program = Program {
    short: "sbuvz",
    long: "short branch porcelain long verbose untracked-files ignored ignore-submodules \
            column no-column ahead-behind no-ahead-behind renames no-renames show-stash \
            find-renames",
    ..NONE
};
const REV_PARSE: Program = Program {
    long: "verify quiet short abbrev-ref symbolic symbolic-full-name show-toplevel \
            show-prefix show-cdup git-dir absolute-git-dir git-common-dir is-bare-repository \
            is-inside-work-tree is-inside-git-dir is-shallow-repository all branches tags \
            remotes revs-only no-revs show-superproject-working-tree git-path",
    short: "q",
    ..NONE
};
const LS_FILES: Program = Program {
    short: "cdmoistukzvfrlq",
    value: "xX",
    long: "cached deleted modified others ignored stage directory unmerged killed \
            exclude-standard error-unmatch full-name recurse-submodules abbrev format eol \
            name-only name-status long object-only full-tree deduplicate",
    long_value: "exclude exclude-from",
    ..NONE
};
const BLAME: Program = Program {
    short: "bcefklMCnpstw",
    value: "LS",
    long: "porcelain line-porcelain show-name show-number show-email root date abbrev \
            color-lines color-by-age reverse first-parent show-stats ignore-rev",
    ..NONE
};
const DESCRIBE: Program = Program {
    long: "all tags contains abbrev candidates exact-match long match exclude always \
            first-parent dirty broken",
    ..NONE
};
/// Absent: `--textconv` and `--filters`, which run programs.
const CAT_FILE: Program = Program {
    short: "tpes",
    long: "batch-check batch allow-unknown-type",
    ..NONE
};
const SHORTLOG: Program = Program {
    short: "nsec",
    long: "numbered summary email all since until no-merges",
    ..NONE
};
/// Listing only: an operand would make a branch or tag.
const LIST: Program = Program {
    short: "alrvi",
    long: "all list remotes verbose show-current no-color color column no-column merged \
            no-merged contains no-contains points-at sort format ignore-case abbrev no-abbrev",
    operands: Operands::Most(0),
    ..NONE
};
/// `git config get NAME`, `git config list`.
const CONFIG_VERB: Program = Program {
    short: "lz",
    value: "f",
    long: "all regexp show-origin show-scope show-names name-only null local global system \
            worktree includes type bool int path fixed-value value url",
    long_value: "file default",
    ..NONE
};
const CONFIG: Program = Program {
    short: "lz",
    value: "f",
    long: "get get-all get-regexp list show-origin show-scope name-only null local global \
            system worktree includes type bool int path",
    long_value: "file default",
    ..NONE
};

/// Absent: `-O` and `--open-files-in-pager`, which start a program.
const GREP: Program = Program {
    short: "aIiwvhHEFGPnlLzocqprW",
    value: "efmABC",
    long: "cached untracked no-index no-exclude-standard exclude-standard text ignore-case \
            word-regexp invert-match extended-regexp basic-regexp perl-regexp fixed-strings \
            line-number files-with-matches name-only files-without-match null only-matching \
            count color no-color break heading show-function function-context and or not \
            all-match quiet recursive full-name column recurse-submodules",
    long_value: "max-count max-depth threads after-context before-context context",
    digits: true,
    ..NONE
};
const REFS: Program = Program {
    short: "dqs",
    long: "format sort count points-at merged no-merged contains no-contains ignore-case head \
            heads tags branches hash abbrev dereference verify exclude-existing shell perl \
            python tcl color exists",
    ..NONE
};
/// Plumbing that compares, names and counts.
const PLUMBING: Program = Program {
    short: "vqzHamns",
    long: "verbose quiet stdin name-only refs all always tags exclude no-undefined non-matching \
            no-index cached branch normalize allow-onelevel refspec-pattern human-readable \
            current list more fork-point octopus is-ancestor topo-order date-order sparse independent merge-base no-name \
            sha1-name topics reflog remotes porcelain creation-factor no-dual-color left-only \
            right-only",
    digits: true,
    ..NONE
};
/// With a second operand it would write.
const SYMBOLIC: Program = Program {
    short: "q",
    long: "quiet short recurse no-recurse",
    operands: Operands::Most(1),
    ..NONE
};

/// Whether the arguments of git are a read.
pub(super) fn is_read(args: &[Word]) -> bool {
    let mut rest = args;
    loop {
        let [first, behind @ ..] = rest else {
            return false;
        };
        match first.literal.as_deref() {
            Some("--version") => return behind.is_empty(),
            Some("--no-pager" | "-P" | "--no-optional-locks" | "--no-lazy-fetch") => rest = behind,
            // Another folder, but the same user's: what may be read is the jail's to say.
            Some("-C") => match behind {
                [folder, behind @ ..] if folder.literal.is_some() => rest = behind,
                _ => return false,
            },
            Some(subcommand) => return subcommand_reads(subcommand, behind),
            None => return false,
        }
    }
}

fn subcommand_reads(subcommand: &str, rest: &[Word]) -> bool {
    let first = rest.first().and_then(|word| word.literal.as_deref());
    let behind = rest.get(1..).unwrap_or_default();
    match subcommand {
        "status" => accepts(&STATUS, rest),
        "log" | "diff" | "show" | "rev-list" | "diff-tree" | "whatchanged" => accepts(&LOG, rest),
        "grep" => accepts(&GREP, rest),
        "diff-files" | "diff-index" | "range-diff" => accepts(&LOG, rest),
        "for-each-ref" | "show-ref" => accepts(&REFS, rest),
        "name-rev" | "cherry" | "count-objects" | "check-ignore" | "check-attr"
        | "check-ref-format" | "check-mailmap" | "show-branch" | "merge-base" | "version"
        | "get-tar-commit-id" | "var" | "patch-id" => accepts(&PLUMBING, rest),
        "symbolic-ref" => accepts(&SYMBOLIC, rest),
        "worktree" => first == Some("list") && accepts(&PLUMBING, behind),
        "notes" => match first {
            None => true,
            Some("list" | "show") => accepts(&NONE, behind),
            Some(_) => false,
        },
        "bundle" => matches!(first, Some("verify" | "list-heads")) && accepts(&PLUMBING, behind),
        "rev-parse" => accepts(&REV_PARSE, rest),
        "ls-files" | "ls-tree" => accepts(&LS_FILES, rest),
        "blame" | "annotate" => accepts(&BLAME, rest),
        "describe" => accepts(&DESCRIBE, rest),
        "cat-file" => accepts(&CAT_FILE, rest),
        "shortlog" => accepts(&SHORTLOG, rest),
        "branch" | "tag" => accepts(&LIST, rest) || lists_by_pattern(rest),
        "remote" => match first {
            None => true,
            Some("-v" | "--verbose") => behind.is_empty(),
            // Without `-n` it asks the host.
            Some("show") => {
                matches!(behind, [])
                    || (behind.first().and_then(|word| word.literal.as_deref()) == Some("-n")
                        && behind.iter().all(|word| word.literal.is_some()))
            }
            Some("get-url") => behind.iter().all(|word| word.literal.is_some()),
            Some(_) => false,
        },
        "reflog" => match first {
            None => true,
            Some("show") => accepts(&LOG, behind),
            Some(_) => false,
        },
        "stash" => match first {
            Some("list" | "show") => accepts(&LOG, behind),
            _ => false,
        },
        "config" if matches!(first, Some("get" | "list")) => accepts(&CONFIG_VERB, behind),
        "config" => {
            let reads = ["--get", "--get-all", "--get-regexp", "--list", "-l"];
            accepts(&CONFIG, rest)
                && rest.iter().any(|word| {
                    word.literal
                        .as_deref()
                        .is_some_and(|text| reads.contains(&text))
                })
        }
        _ => false,
    }
}

/// `git branch --list PATTERN`: with `--list` operands are patterns.
fn lists_by_pattern(rest: &[Word]) -> bool {
    const LISTED: Program = Program {
        operands: Operands::Any,
        ..LIST
    };
    let listed = rest
        .iter()
        .any(|word| matches!(word.literal.as_deref(), Some("--list" | "-l")));
    listed && accepts(&LISTED, rest)
}
