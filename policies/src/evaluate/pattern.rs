//! Does a rule match, and is one rule's match set contained in another's?
//!
//! A rule that tightens matches what it *could* mean: options in any order, words that only run time
//! knows. A rule that allows matches only what is certain.

use super::{
    carried,
    subject::{Kind, Subject, Touch},
};
use crate::{
    CommandPattern, Decision, Facts, FileVerb, Rule, ViewPath,
    glob::{Pattern, Root},
    shell::{self, Simple, Word},
    sql,
};

/// One of a rule's patterns that matches; `None` for a rule without a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    /// Which pattern.
    pub(super) pattern: Option<usize>,
    /// Whether it certainly matches, or only could.
    pub(super) sure: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    None,
    Command,
    Path,
    Host,
    Table,
    Mcp,
}

fn condition(rule: &Rule) -> Condition {
    match rule {
        _ if !rule.command.is_empty() => Condition::Command,
        _ if !rule.path.is_empty() => Condition::Path,
        _ if !rule.host.is_empty() => Condition::Host,
        _ if !rule.table.is_empty() => Condition::Table,
        _ if !rule.mcp.is_empty() => Condition::Mcp,
        _ => Condition::None,
    }
}

/// Every pattern of `rule` that matches the subject.
pub(super) fn hits(rule: &Rule, subject: &Subject<'_>, facts: &Facts) -> Vec<Hit> {
    let strict = rule.verdict != Decision::Allow;
    let ours = rule.tool == "*" || rule.tool == subject.tool.as_str();
    let each = |count: usize, test: &dyn Fn(usize) -> Option<bool>| -> Vec<Hit> {
        (0..count)
            .filter_map(|index| {
                test(index).map(|sure| Hit {
                    pattern: Some(index),
                    sure,
                })
            })
            .filter(|hit| hit.sure || strict)
            .collect()
    };
    match (condition(rule), &subject.kind) {
        // An allow for a tool never carries a redirection along.
        (Condition::None, Kind::Redirect { .. }) if !strict => Vec::new(),
        (Condition::None, _) if ours => vec![Hit {
            pattern: None,
            sure: true,
        }],
        (
            Condition::Command,
            Kind::Command {
                simple,
                embedded,
                carries,
                ..
            },
        ) if ours => each(rule.command.len(), &|at| {
            let pattern = rule.command.get(at)?;
            command(pattern, simple, strict).or_else(|| {
                // Words in a text are no program for certain, and an allow is not about them.
                let could = strict
                    && (embedded
                        .iter()
                        .any(|reading| carried::inside(pattern, reading))
                        || carried::carried(pattern, carries));
                could.then_some(false)
            })
        }),
        (Condition::Command, Kind::Opaque { .. }) if ours => {
            each(rule.command.len(), &|_| Some(false))
        }
        (Condition::Path, Kind::File(touch)) if ours || (strict && stands_for(rule, touch)) => {
            each(rule.path.len(), &|at| {
                path(rule.path.get(at)?, &[touch], facts, strict)
            })
        }
        (Condition::Path, Kind::Redirect { touch, .. }) if ours || stands_for(rule, touch) => {
            each(rule.path.len(), &|at| {
                path(rule.path.get(at)?, &[touch], facts, strict)
            })
        }
        (Condition::Path, Kind::Command { touches, .. }) if strict => {
            let touches: Vec<&Touch> = touches
                .iter()
                .filter(|touch| ours || stands_for(rule, touch))
                .collect();
            each(rule.path.len(), &|at| {
                path(rule.path.get(at)?, &touches, facts, strict)
            })
        }
        (Condition::Host, Kind::Command { hosts, .. }) if ours => each(rule.host.len(), &|at| {
            let outer = rule.host.get(at)?;
            hosts
                .iter()
                .any(|host| host_contains(outer, host))
                .then_some(true)
        }),
        (Condition::Table, Kind::Query { database, query }) if ours => {
            let named = sql::tables(query);
            each(rule.table.len(), &|at| {
                table(rule.table.get(at)?, database, query, named.as_deref())
            })
        }
        _ => Vec::new(),
    }
}

/// A path rule for a file tool speaks of every way to that path: the other file tools, redirections,
/// arguments of commands.
fn stands_for(rule: &Rule, touch: &Touch) -> bool {
    match touch.verb {
        FileVerb::Read => rule.tool == "read_file",
        FileVerb::Write => rule.tool == "write_file" || rule.tool == "edit_file",
    }
}

/// Whether a path pattern covers one of the touches: for a rule that tightens by any of the paths that
/// it could mean, for one that allows by all of them.
fn path(text: &str, touches: &[&Touch], facts: &Facts, strict: bool) -> Option<bool> {
    let pattern = Pattern::parse(text).ok()?;
    let covers = |path: &ViewPath| {
        let relative = match pattern.root {
            Root::Workspace => path.below(&facts.workspace),
            Root::Home => path.below(&facts.home),
            Root::Absolute => Some(path.as_str()),
        };
        // A rule that tightens folds case, because the file system may, and counts what a glob could take.
        relative.is_some_and(|relative| {
            pattern.covers(relative, strict) || (strict && pattern.could_cover(relative))
        })
    };
    touches.iter().find_map(|touch| {
        if touch.paths.is_empty() {
            return Some(false);
        }
        let mut paths = touch.paths.iter();
        let covered = if strict {
            paths.any(covers)
        } else {
            paths.all(covers)
        };
        covered.then_some(true)
    })
}

fn table(text: &str, database: &str, query: &str, named: Option<&[String]>) -> Option<bool> {
    let table = match text.split_once('.') {
        Some((base, _)) if base != database => return None,
        Some((_, table)) => table,
        None => text,
    };
    match named {
        // For an allow, every table must be the one that it names.
        Some([only]) if only.eq_ignore_ascii_case(table) => Some(true),
        _ => sql::could_read(query, table).then_some(false),
    }
}

/// Folders in which a program is the one that its name says.
const SYSTEM_BINS: &[&str] = &[
    "/usr/local/bin/",
    "/usr/bin/",
    "/bin/",
    "/usr/sbin/",
    "/sbin/",
];

/// Whether a pattern matches a simple command: certainly, possibly, or not at all (`None`).
pub(super) fn command(pattern: &CommandPattern, simple: &Simple, strict: bool) -> Option<bool> {
    let (program, words) = pattern.0.split_first()?;
    let spelled = simple.program.as_ref()?;
    let Some(literal) = spelled.literal.as_deref() else {
        return Some(false);
    };
    let name = literal.rsplit('/').next().unwrap_or(literal);
    let pattern_name = program.rsplit('/').next().unwrap_or(program);
    if !strict {
        // `/tmp/git` is not the `git` that was allowed.
        let same = literal == program
            || (program == name
                && SYSTEM_BINS
                    .iter()
                    .any(|bin| literal == format!("{bin}{name}")));
        let all = words
            .iter()
            .enumerate()
            .all(|(at, word)| simple.arg(at) == Some(word));
        return (same && all).then_some(true);
    }
    if name != pattern_name {
        // `git-push` of git's own folder is `git push`.
        let verb = name
            .strip_prefix("git-")
            .filter(|_| pattern_name == "git")?;
        let mut whole = simple.clone();
        whole.program = Some(literal_word("git"));
        whole.args.insert(0, literal_word(verb));
        return command(pattern, &whole, strict);
    }
    let (options, operands): (Vec<&String>, Vec<&String>) = words
        .iter()
        .partition(|word| word.starts_with('-') && word.len() > 1);
    let mut sure = true;
    for option in options {
        sure &= has_option(option, &simple.args)?;
    }
    sure &= leads(name, &operands, &simple.args)?;
    Some(sure)
}

fn literal_word(text: &str) -> Word {
    Word {
        text: text.to_owned(),
        literal: Some(text.to_owned()),
    }
}

/// What a word that only run time knows could be an option: it begins with an expansion or a glob.
fn could_be_option(word: &Word) -> bool {
    word.literal.is_none()
        && word
            .text
            .trim_start_matches(['"', '\''])
            .starts_with(['$', '`', '*', '?', '[', '{'])
}

/// Whether an option stands anywhere among the arguments: spelled out, in a cluster, abbreviated.
fn has_option(option: &str, args: &[Word]) -> Option<bool> {
    let before_operands = args
        .iter()
        .take_while(|word| word.literal.as_deref() != Some("--"));
    let words: Vec<&Word> = before_operands.collect();
    let literal = |test: &dyn Fn(&str) -> bool| {
        words
            .iter()
            .filter_map(|word| word.literal.as_deref())
            .any(test)
    };
    let found = match option.strip_prefix("--") {
        Some(long) => literal(&|word| {
            word.strip_prefix("--").is_some_and(|word| {
                let word = word.split('=').next().unwrap_or(word);
                word.len() >= 2 && long.split('=').next().unwrap_or(long).starts_with(word)
            })
        }),
        None => {
            literal(&|word| word == option)
                || option.chars().skip(1).all(|letter| {
                    literal(&|word| {
                        let short = word.starts_with('-') && !word.starts_with("--");
                        let same = |c: char| c == letter || (letter == 'r' && c == 'R');
                        (short && word.chars().skip(1).any(same))
                            || long_form(letter)
                                .is_some_and(|long| word.len() >= 4 && long.starts_with(word))
                    })
                })
        }
    };
    if found {
        return Some(true);
    }
    words
        .iter()
        .any(|word| could_be_option(word))
        .then_some(false)
}

/// Long forms of the letters that patterns about removing and forcing use.
fn long_form(letter: char) -> Option<&'static str> {
    match letter {
        'r' | 'R' => Some("--recursive"),
        'f' => Some("--force"),
        'd' => Some("--delete"),
        'i' => Some("--in-place"),
        'a' => Some("--all"),
        _ => None,
    }
}

/// Whether `operands` lead the command's own operands. An option may take the word after it as
/// its value, and which do is known for git alone; elsewhere both readings are tried.
fn leads(program: &str, operands: &[&String], args: &[Word]) -> Option<bool> {
    let mut at = vec![(0_usize, 0_usize)];
    let mut seen = std::collections::BTreeSet::new();
    let mut could = false;
    while let Some((index, matched)) = at.pop() {
        let Some(wanted) = operands.get(matched) else {
            return Some(true);
        };
        if !seen.insert((index, matched)) {
            continue;
        }
        let Some(word) = args.get(index) else {
            continue;
        };
        match word.literal.as_deref() {
            // It may become any number of words.
            None if word.text.starts_with('-') => at.push((index + 1, matched)),
            None => could = true,
            Some(option) if option.len() > 1 && option.starts_with('-') => {
                let (alone, with_value) = readings(program, option);
                at.extend(alone.then_some((index + 1, matched)));
                at.extend(with_value.then_some((index + 2, matched)));
            }
            // cargo's toolchain word.
            Some(toolchain) if program == "cargo" && toolchain.starts_with('+') => {
                at.push((index + 1, matched));
            }
            Some(literal) if literal == wanted.as_str() => at.push((index + 1, matched + 1)),
            Some(_) => {}
        }
    }
    could.then_some(false)
}

/// Whether an option can stand alone, and whether it can take the next word.
fn readings(program: &str, option: &str) -> (bool, bool) {
    let valued = [
        "-C",
        "-c",
        "--git-dir",
        "--work-tree",
        "--namespace",
        "--super-prefix",
        "--config-env",
    ];
    match (program, option.contains('=')) {
        (_, true) => (true, false),
        ("git", false) => {
            let takes = valued.contains(&option);
            (!takes, takes)
        }
        _ => (true, true),
    }
}

/// Whether the host pattern `outer` takes everything that `inner` names.
pub(crate) fn host_contains(outer: &str, inner: &str) -> bool {
    let split = |text: &str| match text.rsplit_once(':') {
        Some((name, port)) => (name.to_ascii_lowercase(), Some(port.to_owned())),
        None => (text.to_ascii_lowercase(), None),
    };
    let ((outer, outer_port), (inner, inner_port)) = (split(outer), split(inner));
    if outer_port.is_some() && outer_port != inner_port {
        return false;
    }
    match outer.strip_prefix("*.") {
        Some(domain) => match inner.strip_prefix("*.") {
            Some(rest) if rest == domain => true,
            wild => wild
                .unwrap_or(&inner)
                .strip_suffix(domain)
                .is_some_and(|head| head.len() > 1 && head.ends_with('.')),
        },
        None => outer == inner,
    }
}

/// Whether one pattern's match set is contained in another's; `false` where that is not certain.
pub(super) fn pattern_contains(
    (outer, outer_at): (&Rule, Option<usize>),
    (inner, inner_at): (&Rule, Option<usize>),
) -> bool {
    if outer.tool != "*" && outer.tool != inner.tool {
        return false;
    }
    let (Some(outer_at), kind) = (outer_at, condition(outer)) else {
        return true;
    };
    let Some(inner_at) = inner_at else {
        return false;
    };
    if kind != condition(inner) {
        return false;
    }
    let pair = |a: &[String], b: &[String], test: fn(&str, &str) -> bool| {
        a.get(outer_at)
            .zip(b.get(inner_at))
            .is_some_and(|(a, b)| test(a, b))
    };
    match kind {
        Condition::None => true,
        Condition::Command => outer
            .command
            .get(outer_at)
            .zip(inner.command.get(inner_at))
            .is_some_and(|(a, b)| b.0.starts_with(&a.0)),
        Condition::Path => pair(&outer.path, &inner.path, |a, b| {
            match (Pattern::parse(a), Pattern::parse(b)) {
                (Ok(a), Ok(b)) => a.contains(&b),
                _ => false,
            }
        }),
        Condition::Host => pair(&outer.host, &inner.host, host_contains),
        Condition::Table => pair(&outer.table, &inner.table, |a, b| {
            a.eq_ignore_ascii_case(b)
                || b.split_once('.')
                    .is_some_and(|(_, table)| table.eq_ignore_ascii_case(a))
        }),
        Condition::Mcp => pair(&outer.mcp, &inner.mcp, |a, b| a == b),
    }
}

/// The numbers of a rule's patterns, `[None]` for a rule without a condition.
fn patterns(rule: &Rule) -> Vec<Option<usize>> {
    let count = rule.command.len().max(rule.path.len()).max(rule.host.len());
    match count.max(rule.table.len()).max(rule.mcp.len()) {
        0 => vec![None],
        count => (0..count).map(Some).collect(),
    }
}

/// Whether everything that `inner` matches is matched by `outer`.
pub(crate) fn rule_contains(outer: &Rule, inner: &Rule) -> bool {
    patterns(inner).into_iter().all(|inner_at| {
        patterns(outer)
            .into_iter()
            .any(|outer_at| pattern_contains((outer, outer_at), (inner, inner_at)))
    })
}

/// Whether a rule's example is matched by it, by the same code as at run time.
///
/// # Errors
/// The example cannot be read.
pub(crate) fn example_matches(rule: &Rule, example: &str) -> Result<bool, String> {
    let facts = example_facts();
    let bash = rule.tool == "*" || rule.tool == "bash";
    let about_lines = match condition(rule) {
        Condition::Command | Condition::Host => true,
        Condition::None => bash,
        Condition::Path => bash && rule.tool == "bash",
        Condition::Table | Condition::Mcp => false,
    };
    if about_lines {
        // A host may stand alone as an example of a rule about hosts.
        if condition(rule) == Condition::Host && crate::parse::is_host(example) {
            return Ok(rule.host.iter().any(|outer| host_contains(outer, example)));
        }
        let reading = shell::read(example);
        if let Some(doubt) = &reading.doubt {
            return Err(doubt.clone());
        }
        let subjects = super::subject::of_reading(&reading, &facts);
        return Ok(subjects
            .iter()
            .any(|subject| !hits(rule, subject, &facts).is_empty()));
    }
    let subject = super::subject::of_example(rule, example, &facts)
        .ok_or_else(|| "it is not what the rule is about".to_owned())?;
    if condition(rule) == Condition::Mcp {
        return Ok(rule.mcp.iter().any(|name| name == example));
    }
    Ok(!hits(rule, &subject, &facts).is_empty())
}

fn example_facts() -> Facts {
    Facts {
        workspace: "/work/example".to_owned(),
        home: "/home/example".to_owned(),
        system: vec!["/usr".to_owned(), "/etc".to_owned()],
        interactive: true,
        tree: None,
    }
}
