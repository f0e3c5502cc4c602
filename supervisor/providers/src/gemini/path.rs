//! Arguments that arrive in pieces: values by JSON path, put together into one object.

use serde_json::{Map, Value};

/// Steps of one path: deeper than any schema that a person writes.
const STEPS: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Name(String),
    Index(usize),
}

/// Puts a value at a path; a text is appended to the text that is there.
///
/// # Errors
/// A sentence, when the path cannot be read or does not fit what is there.
pub(super) fn put(root: &mut Value, path: &str, value: Value) -> Result<(), &'static str> {
    let mut here = root;
    for step in steps(path).ok_or("an argument's path cannot be read")? {
        here = match step {
            Step::Name(name) => {
                if here.is_null() {
                    *here = Value::Object(Map::new());
                }
                let fields = here.as_object_mut();
                let fields = fields.ok_or("an argument's path does not fit")?;
                fields.entry(name).or_insert(Value::Null)
            }
            Step::Index(index) => {
                if here.is_null() {
                    *here = Value::Array(Vec::new());
                }
                let items = here.as_array_mut();
                let items = items.ok_or("an argument's path does not fit")?;
                // In order only: a far index would make us hold what never came.
                if index == items.len() {
                    items.push(Value::Null);
                }
                items
                    .get_mut(index)
                    .ok_or("an argument's path does not fit")?
            }
        };
    }
    match (here, value) {
        (Value::String(text), Value::String(more)) => text.push_str(&more),
        (here, value) => *here = value,
    }
    Ok(())
}

/// `$.a.b[0]['c d']` as steps.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut steps = Vec::new();
    if !rest.is_empty() && !rest.starts_with(['.', '[']) {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        steps.push(Step::Name(name.to_owned()));
        rest = after;
    }
    while !rest.is_empty() {
        if steps.len() >= STEPS {
            return None;
        }
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let (name, after) = after.split_at(end);
            if name.is_empty() {
                return None;
            }
            steps.push(Step::Name(name.to_owned()));
            rest = after;
            continue;
        }
        let after = rest.strip_prefix('[')?;
        match after.chars().next()? {
            quote @ ('\'' | '"') => {
                let (name, after) = quoted(after.get(1..)?, quote)?;
                steps.push(Step::Name(name));
                rest = after.strip_prefix(']')?;
            }
            _ => {
                let (index, after) = after.split_once(']')?;
                steps.push(Step::Index(index.parse().ok()?));
                rest = after;
            }
        }
    }
    Some(steps)
}

/// A quoted name and what follows its quote; a backslash takes the next character as it is.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?.1),
            c if c == quote => return Some((name, text.get(at + c.len_utf8()..)?)),
            c => name.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_find_their_place_and_texts_grow() {
        let mut root = json!({});
        for (path, value) in [
            ("$.city", json!("Bos")),
            ("$.city", json!("ton")),
            ("$.list[0].n", json!(1)),
            ("$.list[1].n", json!(true)),
            ("$['a b'][\"c'd\"]", json!(null)),
            ("$.city", json!("")),
            ("plain.x", json!(2.5)),
        ] {
            put(&mut root, path, value).expect(path);
        }
        assert_eq!(
            root,
            json!({"city": "Boston", "list": [{"n": 1}, {"n": true}], "a b": {"c'd": null}, "plain": {"x": 2.5}})
        );
    }

    #[test]
    fn a_path_that_does_not_fit_is_refused_and_cannot_grow_memory() {
        for path in [
            "$.a[4000000000]",
            "$.",
            "$..a",
            "$['a",
            "$[x]",
            "$.s.deeper",
            "$.s[0]",
        ] {
            let mut root = json!({"s": "text"});
            assert!(put(&mut root, path, json!(1)).is_err(), "{path}");
        }
        let deep = format!("${}", ".a".repeat(65));
        assert!(put(&mut json!({}), &deep, json!(1)).is_err());
    }
}
