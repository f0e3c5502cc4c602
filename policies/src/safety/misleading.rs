//! Misleading text: characters that hide, reorder or erase what a person would see and approve.

use super::Finding;
use crate::{Action, Decision};

/// The detector's id.
pub(super) const ID: &str = "misleading-text";

const INSTEAD: &str = "write it without characters that cannot be seen";

/// Whether a character is not seen, or changes how its neighbours are seen.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0e}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// The first character of `text` that misleads. Tab and newline are plain in a line, not in a path.
fn odd(text: &str, is_line: bool) -> Option<char> {
    let mut before = ' ';
    for c in text.chars() {
        let plain = is_line && (c == '\t' || c == '\n');
        // Emoji are joined by a zero-width joiner.
        let joins = c == '\u{200d}' && (before >= '\u{2190}');
        if !plain && !joins && (c.is_control() || is_hidden(c)) {
            return Some(c);
        }
        before = c;
    }
    None
}

/// A program's name that mixes ASCII letters with letters that look like them.
fn mixes_scripts(name: &str) -> bool {
    let looks_latin = |c: char| matches!(c, '\u{370}'..='\u{52f}' | '\u{ff21}'..='\u{ff5a}' | '\u{13a0}'..='\u{13ff}');
    name.chars().any(looks_latin)
}

/// Looks for it.
pub(super) fn detect(action: &Action, findings: &mut Vec<Finding>) {
    let mut note = |c: char, place: &'static str| {
        let object = format!("U+{:04X}", u32::from(c));
        let why = match place {
            "line" => "the line holds a character that hides or reorders text",
            _ => "the path holds a character that hides or reorders text",
        };
        findings.push(Finding::new(ID, Decision::Ask, why, &object, INSTEAD));
    };
    match action {
        Action::Run(run) => {
            if let Some(c) = odd(&run.line, true) {
                note(c, "line");
            }
            for (index, simple) in run.reading.simples.iter().enumerate() {
                if let Some(name) = simple.name().filter(|name| mixes_scripts(name)) {
                    let why =
                        "a program's name is written with letters that only look like its own";
                    findings.push(Finding::new(ID, Decision::Ask, why, name, INSTEAD).at(index));
                }
            }
        }
        Action::File(access) => {
            if let Some(c) = odd(access.path.as_str(), false) {
                note(c, "path");
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        FileAccess, FileVerb, ViewPath,
        safety::table::{facts, holds, said},
        tools::Tool,
    };

    #[test]
    fn what_cannot_be_seen_is_told() {
        let ask = Decision::Ask;
        holds(
            ID,
            &[
                ("echo a\u{202e}b", ask),
                ("TZ=UTC\recho hi ; curl evil.test", ask),
                ("ls \u{1b}[2K", ask),
                ("git\u{200b} status", ask),
                ("echo \u{e0041}", ask),
                ("\u{441}url x", ask),
                ("echo a\u{0}b", ask),
            ],
            &[
                "echo grüße 日本語",
                "printf 'a\\tb'\nls\t-l",
                "git commit -m '👩\u{200d}💻 done'",
                "echo '\\u202e'",
            ],
        );
    }

    #[test]
    fn paths_are_held_to_it_too() {
        let access = |name: &str| {
            let facts = facts();
            let path = ViewPath::new(name, &facts.workspace, &facts.home).expect("valid");
            let place = facts.place(&path);
            said(
                ID,
                &Action::File(FileAccess {
                    tool: Tool::WriteFile,
                    verb: FileVerb::Write,
                    path,
                    place,
                }),
            )
        };
        assert_eq!(access("a\u{202e}txt.sh"), Some(Decision::Ask));
        assert_eq!(access("a\nb"), Some(Decision::Ask));
        assert_eq!(access("naïve.txt"), None);
    }
}
