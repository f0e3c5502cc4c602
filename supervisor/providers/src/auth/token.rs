//! The one exchange that all token services share: a form goes out, a bearer token comes back.

use supervisor_core::{Masker, Secret};

use super::{clock::now_s, fresh::Timed};
use crate::{
    Class, InferError,
    failure::one_line,
    http::{Exchange, Http, Verb},
};

/// A token service's answer.
#[derive(serde::Deserialize)]
struct Answer {
    access_token: Option<String>,
    expires_in: Option<serde_json::Value>,
}

/// Sends an exchange and gives the body of its good answer.
///
/// # Errors
/// One sentence that begins with `what` and holds none of `secrets`; [`Class::Network`] where trying
/// again may help, [`Class::Authentication`] else.
pub(super) async fn ask(
    http: &Http,
    what: &str,
    secrets: &[&Secret],
    exchange: Exchange<'_>,
) -> Result<Secret, InferError> {
    let masker = Masker::new(secrets.iter().copied());
    let answer = http.exchange(exchange).await;
    let (status, body) = answer.map_err(|fault| fault.failure(what, &masker))?;
    if (200..300).contains(&status) {
        return Ok(body);
    }
    let class = match status {
        429 | 500..=599 => Class::Network,
        _ => Class::Authentication,
    };
    let words = refusal(&body);
    let words = one_line(&masker.mask_pieces(&words), 240);
    Err(InferError::new(
        class,
        format!("{what} answered {status}{words}"),
    ))
}

/// The error of a token service, in the two shapes that they have.
fn refusal(body: &Secret) -> String {
    let body: serde_json::Value = serde_json::from_str(body.expose()).unwrap_or_default();
    let error = body.get("error");
    let text =
        |value: Option<&serde_json::Value>| value.and_then(|v| v.as_str().map(str::to_owned));
    let of = |name: &str| text(error.and_then(|error| error.get(name)));
    let code = text(error).or_else(|| of("code")).or_else(|| of("type"));
    let more = text(body.get("error_description")).or_else(|| of("message"));
    match (code, more) {
        (Some(code), Some(more)) => format!(" {code}: {more}"),
        (Some(word), None) | (None, Some(word)) => format!(": {word}"),
        (None, None) => String::new(),
    }
}

/// Posts a form for a bearer token.
///
/// # Errors
/// As [`ask`].
pub(super) async fn fetch(
    http: &Http,
    what: &str,
    url: &str,
    secrets: &[&Secret],
    fields: &[(&str, &str)],
) -> Result<Timed<Secret>, InferError> {
    let exchange = Exchange {
        body: Some(("application/x-www-form-urlencoded", form(fields))),
        ..Exchange::new(Verb::Post, url)
    };
    read(what, &ask(http, what, secrets, exchange).await?)
}

/// Reads the answer of a token service.
///
/// # Errors
/// When there is no token in it.
pub(super) fn read(what: &str, body: &Secret) -> Result<Timed<Secret>, InferError> {
    let failed = || {
        let words = format!("{what} answered something else than a token");
        InferError::new(Class::Authentication, words)
    };
    let answer: Answer = serde_json::from_str(body.expose()).map_err(|_| failed())?;
    let token = answer.access_token.filter(|token| !token.is_empty());
    let seconds = answer.expires_in.and_then(|value| match value {
        serde_json::Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    });
    Ok(Timed {
        value: Secret::new(token.ok_or_else(failed)?),
        expires_s: Some(now_s().saturating_add(seconds.unwrap_or(300))),
    })
}

/// Fields as a form, percent-encoded.
pub(super) fn form(fields: &[(&str, &str)]) -> Secret {
    let mut text = String::new();
    for (name, value) in fields {
        for (lead, word) in [("&", name), ("=", value)] {
            text.push_str(lead);
            for byte in word.bytes() {
                if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                    text.push(char::from(byte));
                } else {
                    text.push_str(&format!("%{byte:02X}"));
                }
            }
        }
    }
    Secret::new(text.trim_start_matches('&').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_encoded_and_answers_are_read() {
        let body = form(&[("grant_type", "urn:x y"), ("a", "ü&=+")]);
        assert_eq!(body.expose(), "grant_type=urn%3Ax%20y&a=%C3%BC%26%3D%2B");
        let good = Secret::new(r#"{"access_token":"T","expires_in":"60","x":1}"#.into());
        let timed = read("it", &good).expect("a token");
        assert_eq!(timed.value.expose(), "T");
        assert!(timed.expires_s.expect("said") >= now_s() + 59);
        for body in ["", "[]", "{}", r#"{"access_token":""}"#, "<html>"] {
            let failure = read("it", &Secret::new(body.into())).expect_err(body);
            assert_eq!(failure.class, Class::Authentication);
        }
    }

    #[test]
    fn a_refusal_is_told_in_its_own_words() {
        for (body, words) in [
            (
                r#"{"error":"invalid_grant","error_description":"Bad"}"#,
                " invalid_grant: Bad",
            ),
            (
                r#"{"error":{"code":"app_not_found","message":"No"}}"#,
                " app_not_found: No",
            ),
            (r#"{"error":"x"}"#, ": x"),
            ("<html>", ""),
        ] {
            assert_eq!(refusal(&Secret::new(body.into())), words);
        }
    }
}
