//! Values that the shell evaluates again: arithmetic runs the commands in a subscript of whatever
//! text a variable holds, so a number is told from what could be more than one.

use super::{
    cursor::Reader,
    word::{Lexed, is_name},
};

/// Variables that change what later words mean or what other programs run.
const SPECIAL: &[&str] = &[
    "BASHOPTS",
    "SHELLOPTS",
    "BASH_ENV",
    "ENV",
    "PS4",
    "POSIXLY_CORRECT",
    "BASH_ALIASES",
    "BASH_CMDS",
    "PROMPT_COMMAND",
];

/// Beginnings of names that other programs obey.
const INHERITED: &[&str] = &[
    "PATH",
    "LD_",
    "DYLD_",
    "GIT_",
    "PYTHON",
    "NODE_",
    "PERL5",
    "RUBY",
    "JAVA_",
    "BASH_",
    "CARGO_",
    "RUSTC",
    "MAKE",
    "PAGER",
    "EDITOR",
    "VISUAL",
    "SHELL",
    "LESSOPEN",
    "GCONV_PATH",
    "HOME",
];

impl Reader<'_, '_> {
    /// An operand is evaluated as arithmetic.
    pub(super) fn evaluates(&mut self, lexed: &Lexed) {
        if lexed
            .word
            .literal
            .as_deref()
            .is_some_and(|text| text.contains(['$', '`']))
        {
            self.doubt("quoted text is evaluated as arithmetic");
        }
        self.evaluates_text(&lexed.word.text);
    }

    /// The same, of an operand as written: every name in it counts.
    pub(super) fn evaluates_text(&mut self, text: &str) {
        let names = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        self.shared
            .evaluated
            .extend(names.filter(|name| is_name(name)).map(str::to_owned));
    }

    /// A name gets a value: some names are not the line's to set without a question.
    pub(super) fn risky_name(&mut self, name: &str) {
        let base = name.split(['[', '+', '=']).next().unwrap_or_default();
        if SPECIAL.contains(&base) || base.starts_with("BASH_FUNC_") {
            self.doubt(format!(
                "`{base}` changes how the shell reads or runs later commands"
            ));
        }
    }

    /// The same, of a name that gets its value where no assignment shows it.
    pub(super) fn indirect_name(&mut self, name: &str) {
        self.risky_name(name);
        let inherited = INHERITED.iter().any(|start| name.starts_with(start));
        if inherited {
            self.doubt(format!("`{name}` gets a value that is decided at run time"));
        }
    }

    /// Whether the substitution just read, whose commands start at `from`, prints only a number.
    pub(super) fn prints_a_number(&self, from: usize) -> bool {
        let simples = self.shared.reading.simples.get(from..).unwrap_or_default();
        let Some(last) = simples.last() else {
            return false;
        };
        let plain = last.args.iter().all(|word| {
            word.literal
                .as_deref()
                .is_some_and(|text| !text.contains(['$', '`', '[']))
        });
        let counts = match last.name() {
            Some("wc" | "date" | "nproc" | "seq" | "expr" | "id" | "stat") => true,
            Some("grep") => last.literals().any(|word| word == "-c"),
            _ => false,
        };
        plain && counts
    }

    /// Notes a doubt if a name that is evaluated got a value that could be more than a number.
    pub(super) fn settle(&mut self) {
        let tainted = std::mem::take(&mut self.shared.tainted);
        let evaluated = std::mem::take(&mut self.shared.evaluated);
        if tainted.is_empty() || evaluated.is_empty() {
            return;
        }
        let tainted: std::collections::BTreeSet<String> = tainted.into_iter().collect();
        if let Some(name) = evaluated.iter().find(|name| tainted.contains(*name)) {
            self.doubt(format!("the value of `{name}` is evaluated as arithmetic"));
        }
    }
}
