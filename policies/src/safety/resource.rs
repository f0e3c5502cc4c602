//! Resource traps: a function that starts itself twice, a script that starts copies of itself.

use super::{Finding, spelling::code};
use crate::{
    Action, Decision, Run,
    shell::{Context, Simple},
};

/// The detector's id.
pub(super) const ID: &str = "resource-trap";

const WHY: &str = "it starts copies of itself without end";
const INSTEAD: &str = "start a number of processes that is known, as `xargs -P 4` does";

/// Looks for it.
pub(super) fn detect(action: &Action, findings: &mut Vec<Finding>) {
    let Action::Run(run) = action else { return };
    for (index, simple) in run.reading.simples.iter().enumerate() {
        if forks(simple) || copies_itself(run, simple) {
            findings.push(Finding::new(ID, Decision::Deny, WHY, &simple.text, INSTEAD).at(index));
            return;
        }
    }
}

/// Whether a command of a function's body is that function, beside a second copy: behind a pipe, in
/// the background, or twice.
fn copies_itself(run: &Run, simple: &Simple) -> bool {
    let Some(name) = simple.name().filter(|name| defines(&run.line, name)) else {
        return false;
    };
    let inside = |simple: &Simple| {
        simple.name() == Some(name)
            && matches!(
                simple.context,
                Context::Function | Context::Background | Context::Wrapped
            )
    };
    let simples = &run.reading.simples;
    let before = simple.piped_from.and_then(|at| simples.get(at));
    let piped = inside(simple) && before.is_some_and(inside);
    let copies = simples.iter().filter(|simple| inside(simple)).count();
    piped || (inside(simple) && copies > 1 && in_background(&run.line, name))
}

/// Whether the line starts that name in the background anywhere.
fn in_background(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let rest = line.get(at + name.len()..).unwrap_or("");
        let Some(end) = rest.find(['&', ';', '|', '\n', '(']) else {
            return false;
        };
        let mark = rest.get(end..).unwrap_or("");
        mark.starts_with('&') && !mark.starts_with("&&")
    })
}

/// Whether the line defines a function of that name.
fn defines(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let behind = line.get(at + name.len()..).unwrap_or("").trim_start();
        let before = line.get(..at).unwrap_or("");
        let starts = before.is_empty()
            || before.ends_with([' ', '\t', '\n', ';', '{', '&', '|', '(', '\'', '"']);
        let by_word = before.trim_end().ends_with("function");
        starts
            && (by_word
                || behind
                    .strip_prefix('(')
                    .is_some_and(|rest| rest.trim_start().starts_with(')')))
    })
}

/// `perl -e 'fork while fork'`, `python3 -c 'while 1: os.fork()'`.
fn forks(simple: &Simple) -> bool {
    code(simple).iter().any(|text| {
        let forks = text.contains("fork");
        forks && (text.contains("while") || text.contains("loop") || text.contains("for(;;)"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::table::holds;

    #[test]
    fn forks_without_end_are_told_from_functions() {
        let d = Decision::Deny;
        holds(
            ID,
            &[
                (":(){ :|:& };:", d),
                (":(){ :|: & };:", d),
                ("bomb() { bomb | bomb & }; bomb", d),
                ("function f { f | f & }; f", d),
                ("f(){ f & f & }; f", d),
                ("bash -c ':(){ :|:& };:'", d),
                ("perl -e 'fork while fork'", d),
                ("python3 -c 'import os\nwhile 1: os.fork()'", d),
            ],
            &[
                "f() { grep a x | grep b; }; grep c y | f",
                "f() { sleep 1 & }; f",
                "retry() { \"$@\" || retry \"$@\"; }; retry make",
                "python3 -c 'import os; os.fork()'",
                "a() { b | b; }; a",
                "seq 9 | xargs -P 4 -n 1 echo",
            ],
        );
    }
}
