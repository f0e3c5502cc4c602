//! Cuts on character boundaries, by what a text costs once it is JSON.

/// Bytes that one character takes inside a JSON string.
pub(crate) fn cost(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        c if (c as u32) < 0x20 => 6,
        c => c.len_utf8(),
    }
}

/// Bytes that a text takes inside a JSON string.
pub(crate) fn costs(text: &str) -> usize {
    text.chars().map(cost).sum()
}

/// The longest beginning that costs at most `budget`.
pub(crate) fn head(text: &str, budget: usize) -> &str {
    let mut spent = 0;
    for (at, c) in text.char_indices() {
        spent += cost(c);
        if spent > budget {
            return text.get(..at).unwrap_or_default();
        }
    }
    text
}

/// The longest end that costs at most `budget`.
pub(crate) fn tail(text: &str, budget: usize) -> &str {
    let mut spent = 0;
    for (at, c) in text.char_indices().rev() {
        spent += cost(c);
        if spent > budget {
            return text.get(at + c.len_utf8()..).unwrap_or_default();
        }
    }
    text
}

/// Beginning and end of a text within `budget`, and the bytes left out between them: two fifths for
/// the beginning, because what went wrong stands at the end.
pub(crate) fn middle(text: &str, budget: usize) -> (&str, &str, u64) {
    if costs(text) <= budget {
        return (text, "", 0);
    }
    let first = head(text, budget / 5 * 2);
    let last = tail(text.get(first.len()..).unwrap_or_default(), budget / 5 * 3);
    (first, last, (text.len() - first.len() - last.len()) as u64)
}

/// One line within `bytes`; what is cut is said.
pub(crate) fn line(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let mut end = bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let kept = text.get(..end).unwrap_or_default();
    format!("{kept}… ({} bytes cut)", text.len() - end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_what_serde_writes() {
        for text in [
            "plain",
            "\"q\" \\ \n\r\t\u{8}\u{c}",
            "\u{1}\u{1b}[31m\u{7f}",
            "é…日本\u{1F600}",
        ] {
            let json = serde_json::to_string(text).expect("encodes");
            assert_eq!(costs(text), json.len() - 2, "{text:?}");
        }
    }

    #[test]
    fn cuts_keep_whole_characters_and_both_ends() {
        assert_eq!((head("日本語", 7), tail("日本語", 7)), ("日本", "本語"));
        assert_eq!(line("日本語", 4), "日… (6 bytes cut)");
        let text = format!("{}{}", "a".repeat(100), "b".repeat(100));
        let (first, last, omitted) = middle(&text, 50);
        assert_eq!((first.len(), last.len(), omitted), (20, 30, 150));
        assert_eq!(middle("short", 50), ("short", "", 0));
        assert_eq!(middle("日本語日本語", 10).2, 18 - 3 - 6);
    }
}
