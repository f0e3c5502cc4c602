//! The attacks that are scripts: run as commands, by the shells and interpreters that an agent would use.
//!
//! Each says one line: `ESCAPED: what`, `refused: answer` or `absent: what it needs`.

mod dynamic;
mod files;
mod floods;
mod kernel;
mod network;
mod plants;
mod processes;

use protocol::escape::{Attack, Way};

/// One script.
#[derive(Debug, Clone, Copy)]
struct Script {
    name: &'static str,
    rows: &'static [&'static str],
    ours: bool,
    tries: &'static str,
    with: &'static str,
    text: &'static str,
}

const fn ours(
    name: &'static str,
    rows: &'static [&'static str],
    tries: &'static str,
    with: &'static str,
    text: &'static str,
) -> Script {
    let ours = true;
    Script {
        name,
        rows,
        ours,
        tries,
        with,
        text,
    }
}

const fn kernels(
    name: &'static str,
    rows: &'static [&'static str],
    tries: &'static str,
    with: &'static str,
    text: &'static str,
) -> Script {
    Script {
        ours: false,
        ..ours(name, rows, tries, with, text)
    }
}

/// What a script may say, in its own language.
const SAYS: [(&str, &str); 4] = [
    (
        "sh",
        "escaped() { echo \"ESCAPED: $*\"; exit 0; }\nrefused() { echo \"refused: $*\"; exit 0; }\n\
         absent() { echo \"absent: $*\"; exit 0; }\n\
         need() { command -v \"$1\" >/dev/null 2>&1 || absent \"$1\"; }\n",
    ),
    (
        "bash",
        "escaped() { echo \"ESCAPED: $*\"; exit 0; }\nrefused() { echo \"refused: $*\"; exit 0; }\n",
    ),
    (
        "python3",
        "import os, sys, errno\n\
         def say(word, what):\n    print(word + ': ' + str(what), flush=True); os._exit(0)\n\
         def escaped(what): say('ESCAPED', what)\n\
         def refused(what): say('refused', what)\n\
         def absent(what): say('absent', what)\n\
         ground = lambda name: os.environ['ESCAPE_' + name]\n",
    ),
    (
        "perl",
        "use strict; $| = 1;\n\
         sub escaped { print 'ESCAPED: ', @_, \"\\n\"; exit 0 }\n\
         sub refused { print 'refused: ', @_, \"\\n\"; exit 0 }\n\
         sub absent { print 'absent: ', @_, \"\\n\"; exit 0 }\n",
    ),
];

/// Every script of the suite.
pub(crate) fn all() -> Vec<Attack> {
    let tables = [
        files::TABLE,
        floods::TABLE,
        kernel::TABLE,
        network::TABLE,
        processes::TABLE,
    ];
    let scripts = tables.concat().into_iter().map(|script| Attack {
        name: script.name.to_owned(),
        rows: script.rows.iter().map(|&row| row.to_owned()).collect(),
        tries: script.tries.to_owned(),
        ours: script.ours,
        way: Way::Script {
            with: script.with.to_owned(),
            text: whole(script.with, script.text),
        },
    });
    scripts.chain(dynamic::all()).chain(plants::all()).collect()
}

/// A script with its words.
fn whole(with: &str, text: &str) -> String {
    let says = SAYS.iter().find(|(language, _)| *language == with);
    format!("{}{text}\n", says.map_or("", |(_, says)| says))
}
