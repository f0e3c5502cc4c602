//! One field of a tool's input: what the schema says of it and what the check makes of it.

use serde_json::{Map, Value, json};

/// One field of an input.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether it must be there.
    pub required: bool,
    /// Whether the model is shown it only when there are several databases.
    pub only_with_several_databases: bool,
    /// What the model is told.
    pub description: &'static str,
}

/// What a field holds.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Text of at most so many bytes (the schema counts characters, the check bytes).
    Text {
        /// Fewest characters.
        min: usize,
        /// Most bytes.
        max: usize,
        /// Whether a NUL byte may be in it; nothing with one can be a path or an argument.
        nul: bool,
    },
    /// A whole number.
    Integer {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
        /// Taken when the field is left out.
        default: u64,
    },
    /// True or false; false when left out.
    Flag,
    /// One word of a list; the first when left out.
    Word(&'static [&'static str]),
    /// A list of texts.
    Texts {
        /// Most items.
        items: usize,
        /// Most bytes of one.
        max: usize,
    },
    /// A job's id.
    Job,
}

/// The words of a job id's shape, as a pattern.
pub(crate) const JOB_PATTERN: &str = "^[A-Za-z0-9]{1,16}$";

impl Field {
    /// A field that must be there.
    pub(crate) const fn needed(name: &'static str, kind: Kind, description: &'static str) -> Self {
        Self {
            name,
            kind,
            required: true,
            only_with_several_databases: false,
            description,
        }
    }

    /// A field that may be left out.
    pub(crate) const fn optional(
        name: &'static str,
        kind: Kind,
        description: &'static str,
    ) -> Self {
        Self {
            name,
            kind,
            required: false,
            only_with_several_databases: false,
            description,
        }
    }

    fn schema(&self) -> Value {
        let mut schema = match self.kind {
            Kind::Text { min, max, .. } => {
                let mut text = json!({"type": "string", "maxLength": max});
                if min > 0 {
                    insert(&mut text, "minLength", json!(min));
                }
                text
            }
            Kind::Integer { min, max, default } => {
                json!({"type": "integer", "minimum": min, "maximum": max, "default": default})
            }
            Kind::Flag => json!({"type": "boolean", "default": false}),
            Kind::Word(words) => {
                json!({"type": "string", "enum": words, "default": words.first()})
            }
            Kind::Texts { items, max } => json!({
                "type": "array",
                "items": {"type": "string", "minLength": 1, "maxLength": max},
                "maxItems": items,
            }),
            Kind::Job => json!({"type": "string", "pattern": JOB_PATTERN}),
        };
        insert(&mut schema, "description", json!(self.description));
        schema
    }

    /// Checks a value; the words name the field, what it must be and what it is.
    fn check(&self, value: &Value) -> Result<(), String> {
        let name = self.name;
        match self.kind {
            Kind::Text { min, max, nul } => {
                let Value::String(text) = value else {
                    return Err(self.wrong("a string", value));
                };
                if text.chars().take(min).count() < min {
                    return Err(format!("`{name}` must not be empty"));
                }
                if text.len() > max {
                    let have = text.len();
                    return Err(format!(
                        "`{name}` has {have} bytes, at most {max} are taken"
                    ));
                }
                if !nul && text.contains('\0') {
                    return Err(format!("`{name}` must not hold a NUL byte"));
                }
                Ok(())
            }
            Kind::Integer { min, max, .. } => {
                let Some(number) = whole(value) else {
                    return Err(self.wrong("a whole number", value));
                };
                if u64::try_from(number).is_ok_and(|n| (min..=max).contains(&n)) {
                    return Ok(());
                }
                Err(format!("`{name}` must be from {min} to {max}, got {value}"))
            }
            Kind::Flag => match value {
                Value::Bool(_) => Ok(()),
                _ => Err(self.wrong("true or false", value)),
            },
            Kind::Word(words) => match value {
                Value::String(text) if words.contains(&text.as_str()) => Ok(()),
                Value::String(text) => Err(format!(
                    "`{name}` must be one of {}, got `{}`",
                    words.join(", "),
                    cut(text)
                )),
                _ => Err(self.wrong("a string", value)),
            },
            Kind::Texts { items, max } => {
                let Value::Array(list) = value else {
                    return Err(self.wrong("a list of strings", value));
                };
                if list.len() > items {
                    let have = list.len();
                    return Err(format!(
                        "`{name}` has {have} items, at most {items} are taken"
                    ));
                }
                let fits = |item: &Value| matches!(item, Value::String(text) if !text.is_empty() && text.len() <= max);
                if list.iter().all(fits) {
                    return Ok(());
                }
                Err(format!(
                    "each item of `{name}` must be a string of 1 to {max} bytes"
                ))
            }
            Kind::Job => match value {
                Value::String(text) if protocol::CommandId::parse(text).is_ok() => Ok(()),
                Value::String(text) => Err(format!(
                    "`{name}` must be a job id as `bash` gave it (letters and digits), got `{}`",
                    cut(text)
                )),
                _ => Err(self.wrong("a string", value)),
            },
        }
    }

    fn wrong(&self, want: &str, value: &Value) -> String {
        let got = match value {
            Value::Null => "null (leave the field out instead)",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        format!("`{}` must be {want}, got {got}", self.name)
    }
}

/// The schema of an object with these fields and no others.
pub(crate) fn schema<'a>(fields: impl IntoIterator<Item = &'a Field>) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for field in fields {
        properties.insert(field.name.to_owned(), field.schema());
        if field.required {
            required.push(field.name);
        }
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// A checked input: every field that is there fits, every required one is there.
#[derive(Debug)]
pub(crate) struct Checked<'a> {
    fields: &'static [Field],
    object: &'a Map<String, Value>,
}

impl<'a> Checked<'a> {
    /// Checks `value` against `fields`: first that it is an object, then unknown fields, then each
    /// field in the table's order.
    pub(crate) fn new(fields: &'static [Field], value: &'a Value) -> Result<Self, String> {
        let Value::Object(object) = value else {
            return Err(format!(
                "the input must be a JSON object with {}",
                names(fields)
            ));
        };
        for name in object.keys() {
            if !fields.iter().any(|field| field.name == name) {
                let name = cut(name);
                return Err(format!(
                    "unknown field `{name}`; the fields are {}",
                    names(fields)
                ));
            }
        }
        for field in fields {
            match object.get(field.name) {
                Some(value) => field.check(value)?,
                None if field.required => return Err(format!("missing field `{}`", field.name)),
                None => {}
            }
        }
        Ok(Self { fields, object })
    }

    /// A text; empty if it was left out.
    pub(crate) fn text(&self, name: &str) -> String {
        self.maybe(name).unwrap_or_default()
    }

    /// A text, if it is there.
    pub(crate) fn maybe(&self, name: &str) -> Option<String> {
        self.object
            .get(name)
            .and_then(Value::as_str)
            .map(str::to_owned)
    }

    /// A number, or the table's default.
    pub(crate) fn number(&self, name: &str) -> u64 {
        let given = self
            .object
            .get(name)
            .and_then(whole)
            .and_then(|n| u64::try_from(n).ok());
        given.unwrap_or_else(|| match self.field(name) {
            Some(Kind::Integer { default, .. }) => default,
            _ => 0,
        })
    }

    /// A flag; false if it was left out.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.object
            .get(name)
            .and_then(Value::as_bool)
            .unwrap_or(false)
    }

    /// A list of texts; empty if it was left out.
    pub(crate) fn texts(&self, name: &str) -> Vec<String> {
        let list = self.object.get(name).and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    }

    fn field(&self, name: &str) -> Option<Kind> {
        self.fields
            .iter()
            .find(|field| field.name == name)
            .map(|field| field.kind)
    }
}

/// A whole number, also when it is written as `120.0`, as JSON Schema has it.
fn whole(value: &Value) -> Option<i128> {
    if let Some(n) = value.as_i64() {
        return Some(i128::from(n));
    }
    if let Some(n) = value.as_u64() {
        return Some(i128::from(n));
    }
    let float = value
        .as_f64()
        .filter(|f| f.fract() == 0.0 && f.abs() < 9_007_199_254_740_992.0)?;
    format!("{float:.0}").parse().ok()
}

fn names(fields: &[Field]) -> String {
    if fields.is_empty() {
        return "no fields".to_owned();
    }
    let names: Vec<String> = fields
        .iter()
        .map(|field| format!("`{}`", field.name))
        .collect();
    names.join(", ")
}

fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

fn insert(schema: &mut Value, key: &str, value: Value) {
    if let Value::Object(map) = schema {
        map.insert(key.to_owned(), value);
    }
}
