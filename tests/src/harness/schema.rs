//! Holds an object against a JSON Schema: the part of the language that docs/schema uses, and a word
//! that it does not know is a failure and not a pass.

use std::path::Path;

use serde_json::Value;

use super::must;

/// What is wrong with the object, if anything. The schema is a file of docs/schema.
#[must_use]
pub fn against(schema: &str, object: &Value) -> Vec<String> {
    let whole = read(schema);
    let mut wrong = Vec::new();
    check(
        &whole,
        &whole,
        object,
        schema.trim_end_matches(".json"),
        &mut wrong,
    );
    wrong
}

fn read(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs/schema")
        .join(name);
    let text = must(
        &format!("read {}", path.display()),
        std::fs::read_to_string(&path),
    );
    must(name, serde_json::from_str(&text))
}

fn check(whole: &Value, schema: &Value, value: &Value, at: &str, wrong: &mut Vec<String>) {
    let Some(words) = schema.as_object() else {
        return wrong.push(format!("{at}: the schema is no object"));
    };
    for (word, rule) in words {
        match word.as_str() {
            "$schema" | "title" | "description" | "$defs" | "additionalProperties" | "then" => {}
            "$ref" => {
                let target = rule.as_str().unwrap_or_default();
                let (file, pointer) = target.split_once('#').unwrap_or((target, ""));
                let other = if file.is_empty() {
                    whole.clone()
                } else {
                    read(file)
                };
                match other.pointer(pointer) {
                    Some(schema) => check(&other, schema, value, at, wrong),
                    None => wrong.push(format!("{at}: `{target}` leads nowhere")),
                }
            }
            "type" => {
                let one = |name: &Value| is(name.as_str().unwrap_or_default(), value);
                let fits = rule
                    .as_array()
                    .map_or_else(|| one(rule), |all| all.iter().any(one));
                if !fits {
                    wrong.push(format!("{at}: {value} is not of type {rule}"));
                }
            }
            "const" if value != rule => wrong.push(format!("{at}: {value} is not {rule}")),
            "enum" if !rule.as_array().is_some_and(|all| all.contains(value)) => {
                wrong.push(format!("{at}: {value} is none of {rule}"));
            }
            "const" | "enum" => {}
            "minimum" => {
                if value
                    .as_f64()
                    .zip(rule.as_f64())
                    .is_some_and(|(value, least)| value < least)
                {
                    wrong.push(format!("{at}: {value} is below {rule}"));
                }
            }
            "maximum" => {
                if value
                    .as_f64()
                    .zip(rule.as_f64())
                    .is_some_and(|(value, most)| value > most)
                {
                    wrong.push(format!("{at}: {value} is above {rule}"));
                }
            }
            // Only simple character classes stand there: the length is what is checked.
            "pattern" if value.as_str() == Some("") => wrong.push(format!("{at}: empty")),
            "pattern" => {}
            "required" => {
                for name in rule
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                {
                    if value.is_object() && value.get(name).is_none() {
                        wrong.push(format!("{at}: `{name}` is missing"));
                    }
                }
            }
            "properties" => properties(whole, schema, rule, value, at, wrong),
            "items" => {
                for (number, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(whole, rule, item, &format!("{at}[{number}]"), wrong);
                }
            }
            "allOf" => {
                for part in rule.as_array().into_iter().flatten() {
                    check(whole, part, value, at, wrong);
                }
            }
            "if" => {
                let mut unlike = Vec::new();
                check(whole, rule, value, at, &mut unlike);
                if let (true, Some(then)) = (unlike.is_empty(), words.get("then")) {
                    check(whole, then, value, at, wrong);
                }
            }
            _ => wrong.push(format!("{at}: the check does not know `{word}`")),
        }
    }
}

fn properties(
    whole: &Value,
    schema: &Value,
    known: &Value,
    value: &Value,
    at: &str,
    wrong: &mut Vec<String>,
) {
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    for (name, value) in value.as_object().into_iter().flatten() {
        match known.get(name) {
            Some(schema) => check(whole, schema, value, &format!("{at}.{name}"), wrong),
            None if closed => wrong.push(format!("{at}: `{name}` is not known")),
            None => {}
        }
    }
}

fn is(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::against;

    #[test]
    fn what_does_not_fit_is_named() {
        let good = json!({ "refused": { "stage": "safety", "rule": null, "layer": "safety", "reason": "r", "instead": null } });
        assert_eq!(against("refused.json", &good), Vec::<String>::new());
        let mut bad = good.clone();
        bad["refused"]["stage"] = json!("mood");
        bad["refused"]["more"] = json!(1);
        bad["refused"]
            .as_object_mut()
            .expect("an object")
            .remove("reason");
        assert_eq!(
            against("refused.json", &bad).len(),
            3,
            "{:?}",
            against("refused.json", &bad)
        );
    }
}
