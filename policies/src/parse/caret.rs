//! Where a fault lies: file, line and column from a byte span, and the text with a caret below.

use std::{fmt::Write as _, ops::Range};

use super::{Diagnostic, Source};

/// Characters of a source line that are shown around the fault.
const SHOWN: usize = 100;

/// Line and column (in characters), both from 1, of a byte offset.
pub(super) fn locate(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..floor(text, offset)).unwrap_or("");
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    (line, before.get(start..).unwrap_or("").chars().count() + 1)
}

fn floor(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// Builds a diagnostic for `span` of `source`.
pub(super) fn diagnostic(
    source: &Source,
    span: Range<usize>,
    message: impl Into<String>,
    help: Option<String>,
) -> Diagnostic {
    let message = message.into();
    let (line, column) = locate(&source.text, span.start);
    let whole = source.text.lines().nth(line - 1).unwrap_or("");
    let width = {
        let end = floor(&source.text, span.end.max(span.start));
        let marked = source
            .text
            .get(floor(&source.text, span.start)..end)
            .unwrap_or("");
        marked.lines().next().unwrap_or("").chars().count().max(1)
    };
    // A long line is shown as a window that begins a little before the fault.
    let from = if column > SHOWN { column - 20 } else { 0 };
    let shown = |chars: &mut dyn Iterator<Item = char>| -> String { chars.map(visible).collect() };
    let head = shown(&mut whole.chars().skip(from).take(column - 1 - from));
    let tail = shown(&mut whole.chars().skip(column - 1).take(SHOWN));
    let number = line.to_string();
    let pad = " ".repeat(number.len());
    let mut rendered = format!("{}:{line}:{column}: error: {message}\n", source.name);
    // Writing to a String cannot fail.
    let _ = writeln!(rendered, " {pad} |");
    let _ = writeln!(rendered, " {number} | {head}{tail}");
    let _ = write!(
        rendered,
        " {pad} | {}{}",
        " ".repeat(head.chars().count()),
        "^".repeat(width.min(SHOWN))
    );
    if let Some(help) = &help {
        let _ = write!(rendered, "\n {pad} = help: {help}");
    }
    Diagnostic {
        file: source.name.clone(),
        line,
        column,
        message,
        help,
        rendered,
    }
}

/// One character for one: a policy file is not ours, and its text must not move the cursor.
fn visible(c: char) -> char {
    match c {
        '\t' => ' ',
        _ if c.is_control() || crate::safety::is_hidden(c) => '\u{fffd}',
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LayerName;

    #[test]
    fn the_caret_stands_below_the_fault() {
        let source = Source {
            name: "team.toml".into(),
            text: "version = 1\nmode = \"fast\"\n".into(),
            layer: LayerName::User,
        };
        let fault = diagnostic(&source, 19..25, "no such mode", Some("write never".into()));
        assert_eq!((fault.line, fault.column), (2, 8));
        assert_eq!(
            fault.rendered,
            "team.toml:2:8: error: no such mode\n   |\n 2 | mode = \"fast\"\n   |        ^^^^^^\n   = help: write never"
        );
    }

    #[test]
    fn odd_text_and_spans_do_no_harm() {
        let text = format!("é\u{1b}[2K{}x", "y".repeat(500));
        let source = Source {
            name: "p".into(),
            text,
            layer: LayerName::Project,
        };
        for span in [0..1, 1..1, 2..400, 505..506, 900..1000] {
            let fault = diagnostic(&source, span, "m", None);
            assert!(!fault.rendered.contains('\u{1b}'));
            assert!(fault.rendered.len() < 1200);
        }
    }
}
