//! Fields that hosts write loosely: null where a value belongs, a count as a fraction or as text. The
//! dialect's inventor does neither; those who speak it after him do.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A value, its default where there is `null`.
pub(crate) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// A place or a figure: a whole number in whatever spelling; anything else is none at all.
pub(crate) fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(number(&Value::deserialize(from)?))
}

/// A place: the first where none is named.
pub(crate) fn place<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(count(from)?.unwrap_or(0))
}

/// A count; some hosts write it with a decimal point, some as text.
pub(crate) fn number(value: &Value) -> Option<u64> {
    if let Value::String(text) = value {
        return text.trim().parse().ok();
    }
    value.as_u64().or_else(|| {
        let float = value.as_f64()?;
        let fits = float >= 0.0 && float.fract() == 0.0 && float < 9e15;
        fits.then(|| format!("{float:.0}").parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Loose {
        #[serde(default, deserialize_with = "or_default")]
        text: String,
        #[serde(default, deserialize_with = "count")]
        figure: Option<u64>,
        #[serde(default, deserialize_with = "place")]
        index: u64,
    }

    #[test]
    fn what_is_written_loosely_is_read_and_what_is_no_number_is_none() {
        let read = |json: &str| serde_json::from_str::<Loose>(json).expect("an object");
        let of = |text: &str, figure, index| Loose {
            text: text.into(),
            figure,
            index,
        };
        assert_eq!(read("{}"), of("", None, 0));
        assert_eq!(
            read(r#"{"text":null,"figure":null,"index":null}"#),
            of("", None, 0)
        );
        assert_eq!(
            read(r#"{"text":"a","figure":6.0,"index":"2"}"#),
            of("a", Some(6), 2)
        );
        assert_eq!(read(r#"{"figure":-1,"index":1.5}"#), of("", None, 0));
        assert_eq!(read(r#"{"figure":{},"index":[]}"#), of("", None, 0));
    }
}
