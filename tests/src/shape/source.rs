//! One Rust file: its text before its tests, and that text without comments and literals.

/// One Rust file.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Path from its crate's folder (`src/lib.rs`).
    pub path: String,
    /// Its first line.
    pub first: String,
    /// Whether it holds tests or examples only.
    pub is_test: bool,
    /// The lines before its tests.
    pub lines: usize,
    /// Those of them that are code: not blank, not comment alone.
    pub code_lines: usize,
    /// The text before its tests with comments, texts and characters blanked out.
    pub code: String,
}

impl SourceFile {
    /// Describes a file.
    #[must_use]
    pub fn new(path: String, text: String) -> Self {
        let before_tests = before_tests(&text);
        let code = code_only(before_tests);
        let name = path.rsplit('/').next().unwrap_or(&path);
        let is_test = name == "tests.rs"
            || ["tests/", "benches/", "examples/"]
                .iter()
                .any(|folder| path.starts_with(folder))
            || path.contains("/tests/");
        Self {
            first: text.lines().next().unwrap_or("").to_owned(),
            is_test,
            lines: before_tests.lines().count(),
            code_lines: code.lines().filter(|line| !line.trim().is_empty()).count(),
            code,
            path,
        }
    }

    /// How often a word stands in its code.
    #[must_use]
    pub fn count(&self, word: &str) -> usize {
        let part = |c: char| c.is_alphanumeric() || c == '_';
        let alone = |(at, _): &(usize, &str)| {
            let before = self
                .code
                .get(..*at)
                .and_then(|text| text.chars().next_back());
            let after = self
                .code
                .get(at + word.len()..)
                .and_then(|text| text.chars().next());
            !before.is_some_and(part) && !after.is_some_and(part)
        };
        self.code.match_indices(word).filter(alone).count()
    }
}

/// The text before the first line that begins the file's own tests.
fn before_tests(text: &str) -> &str {
    let mut at = 0;
    let mut gated = None;
    for line in text.split_inclusive('\n') {
        match (gated, line.trim()) {
            (None, "#[cfg(test)]") => gated = Some(at),
            // `mod tests;` in a file of its own: what follows it is code again.
            (Some(_), "mod tests;") => gated = None,
            (Some(start), line)
                if line.starts_with("mod ") || line.starts_with("pub(crate) mod ") =>
            {
                return text.get(..start).unwrap_or(text);
            }
            // Another item that tests need, or another attribute.
            (Some(_), line) if !line.starts_with("#[") => gated = None,
            _ => {}
        }
        at += line.len();
    }
    text
}

/// The text with comments, string and character literals replaced by blanks, line by line.
fn code_only(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => literal(rest, 1),
            'r' | 'b' | 'c' if begins_word(&out) => prefixed(rest),
            '\'' => character(rest),
            _ => 0,
        };
        let taken = if taken == 0 {
            out.push(c);
            c.len_utf8()
        } else {
            let skipped = rest.get(..taken).unwrap_or(rest);
            out.extend(skipped.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            taken
        };
        rest = rest.get(taken..).unwrap_or("");
    }
    out
}

fn begins_word(before: &str) -> bool {
    !before
        .chars()
        .next_back()
        .is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// Length of a block comment, which may hold others.
fn block_comment(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0);
    while at < bytes.len() {
        match bytes.get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

/// Length of a string literal whose text begins at `from`.
fn literal(text: &str, from: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = from;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// Length of a literal with a prefix (`b"…"`, `r#"…"#`, `br"…"`, `b'x'`), 0 if it is a word.
fn prefixed(text: &str) -> usize {
    let letters = text.chars().take_while(|c| "rbc".contains(*c)).count();
    let after = text.get(letters..).unwrap_or("");
    let hashes = after.chars().take_while(|c| *c == '#').count();
    let raw = text
        .get(..letters)
        .is_some_and(|prefix| prefix.contains('r'));
    if raw
        && after
            .get(hashes..)
            .is_some_and(|text| text.starts_with('"'))
    {
        let end = format!("\"{}", "#".repeat(hashes));
        let body = letters + hashes + 1;
        let found = text.get(body..).and_then(|text| text.find(&end));
        return found.map_or(text.len(), |at| body + at + end.len());
    }
    match after.chars().next() {
        Some('"') if !raw => literal(text, letters + 1),
        Some('\'') if text.starts_with("b'") => 1 + character(after),
        _ => 0,
    }
}

/// Length of a character literal, 0 if it is a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), _) => {
            let end = text.char_indices().skip(3).find(|(_, c)| *c == '\'');
            end.map_or(0, |(at, _)| at + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> SourceFile {
        SourceFile::new("src/a.rs".into(), text.into())
    }

    #[test]
    fn words_in_comments_and_literals_are_not_code() {
        let text = r##"//! unsafe
fn a<'unsafe_>(x: &'static str) -> char { /* unsafe /* unsafe */ unsafe */
    let _ = ("unsafe \" unsafe", r#"unsafe " unsafe"#, b"unsafe", 'u', '\'', b'\\', br"unsafe");
    unsafe { not_unsafe() } // unsafe
}
"##;
        assert_eq!(file(text).count("unsafe"), 1);
        assert_eq!(file("let unsafe_code = 1;").count("unsafe"), 0);
    }

    #[test]
    fn lines_end_where_the_tests_begin() {
        let gated = "//! A.\nfn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        assert_eq!((file(gated).lines, file(gated).code_lines), (3, 1));
        let apart = "//! A.\n#[cfg(test)]\nmod tests;\nfn a() {}\nfn b() {}\n";
        assert_eq!(file(apart).lines, 5);
        let item = "//! A.\n#[cfg(test)]\nuse x;\nfn a() {}\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(file(item).lines, 4);
    }
}
