//! Reads one TOML table: each key is known and of its type, or it is a fault with its place.

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{Diagnostic, Source, caret};

/// A byte span of the source.
pub(crate) type Span = Range<usize>;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct At<T> {
    /// The value.
    pub(crate) value: T,
    /// Its place.
    pub(crate) span: Span,
}

/// The faults found in one file so far.
#[derive(Debug)]
pub(crate) struct Faults<'a> {
    /// The file.
    pub(crate) source: &'a Source,
    /// What was found.
    pub(crate) list: Vec<Diagnostic>,
}

impl Faults<'_> {
    /// File and line of a span.
    pub(crate) fn place(&self, span: &Span) -> String {
        let (line, _) = caret::locate(&self.source.text, span.start);
        format!("{}:{line}", self.source.name)
    }

    /// Notes a fault.
    pub(crate) fn add(&mut self, span: &Span, message: impl Into<String>, help: Option<String>) {
        self.list
            .push(caret::diagnostic(self.source, span.clone(), message, help));
    }
}

/// A table whose keys are all known.
#[derive(Debug)]
pub(crate) struct Section<'t, 's> {
    table: &'t DeTable<'s>,
    /// How messages name it: `` `[limits]` ``.
    name: String,
}

impl<'t, 's> Section<'t, 's> {
    /// Looks through a table: each key that is not in `known` is a fault.
    pub(crate) fn new(
        table: &'t DeTable<'s>,
        name: impl Into<String>,
        known: &[&str],
        faults: &mut Faults<'_>,
    ) -> Self {
        let name = name.into();
        for (key, _) in table {
            let word = key.get_ref().as_ref();
            if !known.contains(&word) {
                let message = format!("unknown key `{}` in {name}", cut(word));
                faults.add(&key.span(), message, Some(suggestion(word, known)));
            }
        }
        Self { table, name }
    }

    fn entry(&self, key: &str) -> Option<(Span, &'t DeValue<'s>, Span)> {
        self.table
            .iter()
            .find(|(name, _)| name.get_ref().as_ref() == key)
            .map(|(name, value)| (name.span(), value.get_ref(), value.span()))
    }

    /// Where the key stands, if it does.
    pub(crate) fn key(&self, key: &str) -> Option<Span> {
        self.entry(key).map(|(span, _, _)| span)
    }

    fn wrong(&self, key: &str, wanted: &str, span: &Span, faults: &mut Faults<'_>) {
        faults.add(span, format!("`{key}` in {} is {wanted}", self.name), None);
    }

    /// A string.
    pub(crate) fn text(&self, key: &str, faults: &mut Faults<'_>) -> Option<At<String>> {
        let (_, value, span) = self.entry(key)?;
        if let DeValue::String(text) = value {
            return Some(At {
                value: text.to_string(),
                span,
            });
        }
        self.wrong(key, "a string", &span, faults);
        None
    }

    /// A whole number above zero.
    pub(crate) fn count(&self, key: &str, faults: &mut Faults<'_>) -> Option<At<u64>> {
        let (_, value, span) = self.entry(key)?;
        if let DeValue::Integer(number) = value {
            let parsed = u64::from_str_radix(&number.as_str().replace('_', ""), number.radix());
            if let Ok(value @ 1..) = parsed {
                return Some(At { value, span });
            }
        }
        self.wrong(key, "a whole number above zero", &span, faults);
        None
    }

    /// A number above zero.
    pub(crate) fn amount(&self, key: &str, faults: &mut Faults<'_>) -> Option<At<f64>> {
        let (_, value, span) = self.entry(key)?;
        let parsed = match value {
            DeValue::Integer(number) => number.as_str().parse::<f64>().ok(),
            DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
            _ => None,
        };
        if let Some(value) = parsed.filter(|value| value.is_finite() && *value > 0.0) {
            return Some(At { value, span });
        }
        self.wrong(key, "a number above zero", &span, faults);
        None
    }

    /// A list of strings; one string stands for a list of one.
    pub(crate) fn flag(&self, key: &str, faults: &mut Faults<'_>) -> Option<At<bool>> {
        let (_, value, span) = self.entry(key)?;
        if let DeValue::Boolean(value) = value {
            return Some(At {
                value: *value,
                span,
            });
        }
        self.wrong(key, "true or false", &span, faults);
        None
    }

    pub(crate) fn texts(&self, key: &str, faults: &mut Faults<'_>) -> Option<Vec<At<String>>> {
        let (_, value, span) = self.entry(key)?;
        let items = match value {
            DeValue::String(text) => {
                return Some(vec![At {
                    value: text.to_string(),
                    span,
                }]);
            }
            DeValue::Array(items) => items,
            _ => {
                self.wrong(key, "a list of strings", &span, faults);
                return None;
            }
        };
        let mut texts = Vec::with_capacity(items.len());
        for item in items.iter() {
            match item.get_ref() {
                DeValue::String(text) => {
                    texts.push(At {
                        value: text.to_string(),
                        span: item.span(),
                    });
                }
                _ => self.wrong(key, "a list of strings", &item.span(), faults),
            }
        }
        Some(texts)
    }

    /// A table.
    pub(crate) fn table(
        &self,
        key: &str,
        known: &[&str],
        faults: &mut Faults<'_>,
    ) -> Option<Section<'t, 's>> {
        let (_, value, span) = self.entry(key)?;
        if let DeValue::Table(table) = value {
            return Some(Section::new(table, format!("`[{key}]`"), known, faults));
        }
        self.wrong(key, "a table", &span, faults);
        None
    }

    /// A list of tables.
    pub(crate) fn tables(
        &self,
        key: &str,
        known: &[&str],
        faults: &mut Faults<'_>,
    ) -> Vec<At<Section<'t, 's>>> {
        let Some((_, value, span)) = self.entry(key) else {
            return Vec::new();
        };
        let DeValue::Array(items) = value else {
            self.wrong(
                key,
                &format!("a list of tables: write `[[{key}]]`"),
                &span,
                faults,
            );
            return Vec::new();
        };
        let mut sections = Vec::with_capacity(items.len());
        for item in items.iter() {
            match item.get_ref() {
                DeValue::Table(table) => sections.push(At {
                    value: Section::new(table, format!("`[[{key}]]`"), known, faults),
                    span: item.span(),
                }),
                _ => self.wrong(key, "a list of tables", &item.span(), faults),
            }
        }
        sections
    }

    /// All keys with their strings, for tables whose keys are names.
    pub(crate) fn named(&self, faults: &mut Faults<'_>) -> Vec<(At<String>, At<String>)> {
        let mut pairs = Vec::new();
        for (key, value) in self.table {
            let name = At {
                value: key.get_ref().to_string(),
                span: key.span(),
            };
            match value.get_ref() {
                DeValue::String(text) => {
                    pairs.push((
                        name,
                        At {
                            value: text.to_string(),
                            span: value.span(),
                        },
                    ));
                }
                _ => self.wrong(&name.value, "a string", &value.span(), faults),
            }
        }
        pairs
    }
}

/// Parses a document; what TOML itself finds wrong are faults.
pub(crate) fn document<'s>(text: &'s str, faults: &mut Faults<'_>) -> Spanned<DeTable<'s>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let message: String = error.message().lines().collect::<Vec<_>>().join(", ");
        faults.add(
            &error.span().unwrap_or(0..0),
            format!("not TOML: {message}"),
            None,
        );
    }
    table
}

/// A word of the file for a message.
pub(crate) fn cut(word: &str) -> String {
    word.chars()
        .take(60)
        .flat_map(|c| c.escape_debug())
        .collect()
}

/// "did you mean …", or the whole list.
pub(crate) fn suggestion(word: &str, known: &[&str]) -> String {
    let near = known
        .iter()
        .map(|candidate| (distance(word, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(3).max(2))
        .min();
    match near {
        Some((_, candidate)) => format!("did you mean `{candidate}`?"),
        None => format!("known here: {}", known.join(", ")),
    }
}

/// Letters to change, add or drop; words beyond 40 characters are simply far.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len() > 40 || b.len() > 40 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (pair, y) in row.windows(2).zip(&b) {
            let [diagonal, above] = pair else { continue };
            let left = next.last().copied().unwrap_or(usize::MAX);
            let change = diagonal + usize::from(!x.eq_ignore_ascii_case(y));
            next.push(change.min(above + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or(usize::MAX)
}
