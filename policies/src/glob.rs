//! Path patterns: the gitignore subset that rules and `hide` share, matched component by component.
//!
//! A pattern without a slash matches a name at any depth; one with a slash starts at its root; a
//! matched folder covers everything below it. `*`, `?` and `[…]` never match a slash, `**` matches any
//! number of components. Negation, braces and escapes are refused, so that what a pattern covers
//! can be compared with what another covers.

/// Where a pattern starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    /// The workspace.
    Workspace,
    /// HOME inside the view.
    Home,
    /// The view's `/`.
    Absolute,
}

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// Where it starts.
    pub(crate) root: Root,
    /// Its components; the first is `**` where it matches at any depth.
    pub(crate) parts: Vec<String>,
}

impl Pattern {
    /// Parses a pattern; the error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("an empty pattern matches nothing".to_owned());
        }
        if text.starts_with('!') {
            return Err("a pattern cannot be negated: layers only tighten".to_owned());
        }
        if let Some(odd) = text
            .chars()
            .find(|c| matches!(c, '{' | '}' | '\\') || c.is_control())
        {
            return Err(format!(
                "`{}` has no meaning in a pattern",
                odd.escape_default()
            ));
        }
        if text.len() > 1024 {
            return Err("a pattern of more than 1,024 bytes is not taken".to_owned());
        }
        let (root, rest) = match text {
            _ if text == "~" || text.starts_with("~/") => (Root::Home, text.get(1..).unwrap_or("")),
            _ if text.starts_with('/') => (Root::Absolute, text),
            _ => (Root::Workspace, text),
        };
        let anchored = root != Root::Workspace || rest.trim_end_matches('/').contains('/');
        let mut parts: Vec<String> = Vec::new();
        if !anchored {
            parts.push("**".to_owned());
        }
        for part in rest
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
        {
            if part == ".." {
                return Err("`..` leaves the place that the pattern starts from".to_owned());
            }
            if part.contains("**") && part != "**" {
                return Err("`**` stands for whole components: write `**/`".to_owned());
            }
            if part.contains('[') && !brackets_close(part) {
                return Err("`[` is not closed".to_owned());
            }
            if part == "**" && parts.last().is_some_and(|last| last == "**") {
                continue;
            }
            parts.push(part.to_owned());
        }
        Ok(Self { root, parts })
    }

    /// Whether the pattern covers `path` (relative to the pattern's root): the path itself or a
    /// folder above it matches.
    pub(crate) fn covers(&self, path: &str, fold: bool) -> bool {
        self.reaches(path, |part, name| component(part, name, fold))
    }

    /// Whether a path that is spelled with globs could become one that the pattern covers. A path of
    /// nothing but `*` says nothing, and is about no pattern.
    pub(crate) fn could_cover(&self, path: &str) -> bool {
        let says = path
            .split('/')
            .any(|name| name.contains(|c: char| c.is_alphanumeric()));
        says && wild(path)
            && self.reaches(path, |part, name| {
                component(part, name, true)
                    || (wild(name) && (wild(part) || component(name, part, true)))
            })
    }

    /// Whether the pattern's components lead the path's, each pair by `fits`.
    fn reaches(&self, path: &str, fits: impl Fn(&str, &str) -> bool) -> bool {
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        // reach[j]: the first i pattern parts can match the first j names.
        let mut reach = vec![false; names.len() + 1];
        if let Some(first) = reach.first_mut() {
            *first = true;
        }
        for part in &self.parts {
            let mut next = vec![false; names.len() + 1];
            if part == "**" {
                let mut open = false;
                for (slot, &was) in next.iter_mut().zip(&reach) {
                    open |= was;
                    *slot = open;
                }
            } else {
                for ((slot, &was), name) in next.iter_mut().skip(1).zip(&reach).zip(&names) {
                    *slot = was && fits(part, name);
                }
            }
            reach = next;
        }
        reach.iter().any(|&hit| hit)
    }

    /// Whether everything that `other` covers is covered by this one; `false` where it is not certain.
    pub(crate) fn contains(&self, other: &Self) -> bool {
        self.root == other.root && contains(&self.parts, &other.parts)
    }
}

fn wild(part: &str) -> bool {
    part.contains(['*', '?', '['])
}

fn contains(outer: &[String], inner: &[String]) -> bool {
    let Some((first, rest)) = outer.split_first() else {
        // Everything of the outer pattern has matched: it covers what lies below.
        return true;
    };
    if first == "**" {
        // `**` may stand for nothing, or swallow one component of the inner pattern.
        return contains(rest, inner)
            || inner
                .split_first()
                .is_some_and(|(_, inner)| contains(outer, inner));
    }
    let Some((head, inner)) = inner.split_first() else {
        return false;
    };
    let fits = first == head
        || (head != "**" && first == "*")
        || (!wild(head) && component(first, head, false));
    fits && contains(rest, inner)
}

fn brackets_close(part: &str) -> bool {
    let mut rest = part;
    while let Some(open) = rest.find('[') {
        let after = rest.get(open + 1..).unwrap_or("");
        let body = after.strip_prefix(['!', '^']).unwrap_or(after);
        // A `]` that comes first stands for itself.
        let skip = usize::from(body.starts_with(']'));
        let Some(close) = body.get(skip..).and_then(|body| body.find(']')) else {
            return false;
        };
        rest = body.get(skip + close + 1..).unwrap_or("");
    }
    true
}

/// Whether one component matches; `fold` ignores case. Greedy with one way back, so linear in practice
/// and never worse than the product of both lengths.
pub(crate) fn component(pattern: &str, name: &str, fold: bool) -> bool {
    if !fold && !wild(pattern) {
        return pattern == name;
    }
    let lower = |text: &str| -> Vec<char> {
        if fold {
            text.chars().flat_map(char::to_lowercase).collect()
        } else {
            text.chars().collect()
        }
    };
    let (pattern, name) = (lower(pattern), lower(name));
    let (mut p, mut n) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while n < name.len() {
        let step = match (pattern.get(p), name.get(n)) {
            (Some('*'), _) => {
                back = Some((p + 1, n));
                p += 1;
                continue;
            }
            (Some('?'), _) => Some(1),
            (Some('['), Some(&c)) => class(pattern.get(p..).unwrap_or(&[]), c),
            (Some(a), Some(b)) if a == b => Some(1),
            _ => None,
        };
        match (step, back) {
            (Some(width), _) => {
                p += width;
                n += 1;
            }
            (None, Some((star, at))) => {
                p = star;
                n = at + 1;
                back = Some((star, at + 1));
            }
            (None, None) => return false,
        }
    }
    pattern.get(p..).unwrap_or(&[]).iter().all(|c| *c == '*')
}

/// The width of a bracket expression that takes `c`, `None` if it does not.
fn class(pattern: &[char], c: char) -> Option<usize> {
    let mut at = 1;
    let negated = matches!(pattern.get(at), Some('!' | '^'));
    if negated {
        at += 1;
    }
    let mut hit = false;
    let mut first = true;
    loop {
        let low = *pattern.get(at)?;
        if low == ']' && !first {
            return (hit != negated).then_some(at + 1);
        }
        first = false;
        match (pattern.get(at + 1), pattern.get(at + 2)) {
            (Some('-'), Some(&high)) if high != ']' => {
                hit |= (low..=high).contains(&c);
                at += 3;
            }
            _ => {
                hit |= low == c;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).expect("valid")
    }

    #[test]
    fn a_pattern_covers_what_gitignore_would() {
        let rows = [
            (".env*", "a/b/.env.local", true),
            (".env*", "env", false),
            ("secrets", "secrets/deep/file", true),
            ("secrets/", "a/secrets/x", true),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/a/b.rs", false),
            ("./build", "build/x", true),
            ("src/**/gen", "src/gen", true),
            ("src/**/gen", "src/a/b/gen/c", true),
            ("**/x", "x", true),
            ("a/**", "a/b/c", true),
            ("a/**", "b/a", false),
            ("[a-c]?z", "bxz", true),
            ("[!a-c]z", "bz", false),
            ("[]x]z", "]z", true),
        ];
        for (text, path, hit) in rows {
            assert_eq!(pattern(text).covers(path, false), hit, "{text} {path}");
        }
        assert!(pattern("Secrets").covers("SECRETS/a", true));
        assert!(!pattern("Secrets").covers("SECRETS/a", false));
    }

    #[test]
    fn containment_is_certain_or_denied() {
        let rows = [
            ("src", "src/a.rs", true),
            ("src/**", "src/a/*.rs", true),
            ("src/*", "src/**", false),
            ("src/*", "src/a", true),
            (".env*", "config/.env.local", true),
            (".env*", ".env*", true),
            ("src/a", "src", false),
            ("/etc", "/etc/ssl", true),
            ("/etc", "etc/ssl", false),
            ("**", "anything/**", true),
        ];
        for (outer, inner, holds) in rows {
            assert_eq!(
                pattern(outer).contains(&pattern(inner)),
                holds,
                "{outer} {inner}"
            );
        }
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        for text in [
            "", "!x", "{a,b}", "a\\b", "../x", "a/../b", "a**", "[a", "x\u{7}",
        ] {
            assert!(Pattern::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_hostile_pattern_ends_soon() {
        let text = "*a".repeat(200);
        assert!(!component(&text, &"a".repeat(180), false));
        let deep = "**/a/".repeat(100);
        assert!(!pattern(&deep).covers(&"b/".repeat(400), false));
    }
}
