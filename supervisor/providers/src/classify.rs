//! What a failed answer is: the body decides first, the status second; nothing here touches the wire.

use serde::Deserialize;
use supervisor_core::Masker;

use crate::failure::{Class, InferError, one_line};

/// Characters of a provider's own sentence that are shown.
const SENTENCE: usize = 200;

/// An error as a provider words it, from a body or from an event of its stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Upstream {
    /// HTTP status; `None` for an event inside a stream.
    pub status: Option<u16>,
    /// The error's type (`overloaded_error`).
    pub kind: String,
    /// A finer code, if there is one.
    pub code: String,
    /// The provider's sentence: data, never shown unmasked or whole.
    pub message: String,
}

/// What the headers of an answer advise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hints {
    pub(crate) retry_after: Option<String>,
    pub(crate) retry_after_ms: Option<String>,
    pub(crate) should_retry: Option<String>,
    /// The error's type, where it stands in a header only (AWS).
    pub(crate) kind: Option<String>,
}

impl Upstream {
    /// Reads an error body. A body that is no JSON gives no words: only its status speaks.
    #[must_use]
    pub fn read(status: Option<u16>, body: &[u8]) -> Self {
        let none = Self {
            status,
            ..Self::default()
        };
        let Ok(body) = serde_json::from_slice::<serde_json::Value>(body) else {
            return none;
        };
        let error = body.get("error").unwrap_or(&body);
        if let Some(message) = error.as_str() {
            return Self {
                message: message.to_owned(),
                ..none
            };
        }
        let text = |value: Option<&serde_json::Value>| match value {
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(serde_json::Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let details = error.get("details");
        let code = error
            .get("code")
            .or_else(|| details.and_then(|d| d.get("error_code")));
        Self {
            status,
            kind: text(error.get("type")),
            code: text(code),
            message: text(error.get("message")),
        }
    }

    /// The class of the error.
    #[must_use]
    pub fn class(&self) -> Class {
        let words = format!("{} {}", self.kind, self.code).to_lowercase();
        let message = self.message.to_lowercase();
        let said = |list: &[&str]| list.iter().any(|word| words.contains(word));
        let told = |list: &[&str]| list.iter().any(|word| message.contains(word));
        if said(&["context_length_exceeded"]) || told(TOO_LONG) {
            return Class::ContextTooLong;
        }
        if said(QUOTA) || told(&["credit balance is too low"]) {
            return Class::Quota;
        }
        if said(&["content_filter", "content_policy", "cyber_policy"]) {
            return Class::Refusal;
        }
        if said(&[
            "authentication_error",
            "permission_error",
            "invalid_api_key",
        ]) {
            return Class::Authentication;
        }
        if said(&["overloaded", "timeout_error", "api_error", "slow_down"]) {
            return Class::Overload;
        }
        if said(&["rate_limit", "ramp_limit"]) {
            return Class::RateLimit;
        }
        if said(&[
            "invalid_request_error",
            "not_found_error",
            "request_too_large",
        ]) {
            return Class::Client;
        }
        match self.status {
            Some(401 | 403) => Class::Authentication,
            Some(402) => Class::Quota,
            Some(408) => Class::Network,
            Some(429) => Class::RateLimit,
            Some(300..=499) => Class::Client,
            Some(500..=599) => Class::Overload,
            _ => Class::Other,
        }
    }

    /// The error for people: what answered, which status and type, and a masked, bounded sentence.
    pub(crate) fn failure(
        &self,
        provider: &str,
        masker: &Masker,
        hints: &Hints,
        now_s: u64,
    ) -> InferError {
        let class = self.class();
        let mut message = match self.status {
            Some(status) => format!("{provider} answered {status}"),
            None => format!("{provider} broke its answer off with an error"),
        };
        if !self.kind.is_empty() {
            message.push(' ');
            message.push_str(&one_line(&masker.mask_pieces(&self.kind), 64));
        }
        if matches!(self.status, Some(300..=399)) {
            message.push_str(": redirects are not followed, check base_url in providers.toml");
        } else if !self.message.is_empty() {
            // Masked before it is cut: half a key is no better than a whole one.
            message.push_str(": ");
            message.push_str(&one_line(&masker.mask_pieces(&self.message), SENTENCE));
        }
        if class == Class::Authentication {
            message.push_str(" (check the key: keys/");
            message.push_str(provider);
            message.push_str(" or its environment variable)");
        }
        let mut failure = InferError::new(class, message);
        failure.retry_after_ms = hints.wait_ms(now_s);
        if hints.should_retry.as_deref().map(str::trim) == Some("false") {
            failure.retryable = false;
        }
        failure
    }
}

const TOO_LONG: &[&str] = &[
    "prompt is too long",
    "maximum context length is",
    "exceeds the maximum number of tokens",
    "input length and `max_tokens` exceed context limit",
    "input tokens exceed",
];

const QUOTA: &[&str] = &[
    "billing_error",
    "insufficient_quota",
    "enforced_spend_limit_reached",
    "contract_spend_limit_reached",
    "usage_limit_reached",
];

impl Hints {
    /// How long the provider asks to wait; of two hints the longer.
    fn wait_ms(&self, now_s: u64) -> Option<u64> {
        let ms = self
            .retry_after_ms
            .as_deref()
            .and_then(|text| milliseconds(text, 1));
        let s = self.retry_after.as_deref().and_then(|text| {
            milliseconds(text, 1_000)
                .or_else(|| Some(http_date(text)?.saturating_sub(now_s).saturating_mul(1_000)))
        });
        ms.max(s)
    }
}

/// A whole or decimal number of units, at most a year; a negative one is no wait at all.
fn milliseconds(text: &str, unit: u32) -> Option<u64> {
    const YEAR_MS: u64 = 366 * 86_400_000;
    let text = text.trim();
    if let Ok(number) = text.parse::<u64>() {
        return Some(number.saturating_mul(u64::from(unit)).min(YEAR_MS));
    }
    let number: f64 = text.parse().ok()?;
    if !number.is_finite() {
        return None;
    }
    let duration = std::time::Duration::try_from_secs_f64(number.max(0.0) * f64::from(unit) / 1e3);
    Some(duration.map_or(YEAR_MS, |d| {
        u64::try_from(d.as_millis()).unwrap_or(YEAR_MS).min(YEAR_MS)
    }))
}

/// `Wed, 21 Oct 2015 07:28:00 GMT` as seconds since 1970.
fn http_date(text: &str) -> Option<u64> {
    let (_, rest) = text.trim().split_once(", ")?;
    let mut words = rest.split(' ');
    let day: u64 = words.next()?.parse().ok()?;
    let month = words.next()?;
    let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let month = u64::try_from(months.iter().position(|name| *name == month)?).ok()? + 1;
    let year: u64 = words.next()?.parse().ok()?;
    let mut clock = words
        .next()?
        .splitn(3, ':')
        .map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let zone = words.next()?;
    let fits = (1970..=9999).contains(&year) && (1..=31).contains(&day);
    if !fits || hour > 23 || minute > 59 || second > 60 || !matches!(zone, "GMT" | "UTC") {
        return None;
    }
    // Days of the civil calendar, counted in years that begin in March so that leap days come last.
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Whether a body that should have been an answer is an error document.
pub(crate) fn is_error_document(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Head {
        #[serde(default)]
        r#type: serde_json::Value,
        #[serde(default)]
        error: serde_json::Value,
    }
    serde_json::from_slice::<Head>(body)
        .is_ok_and(|head| head.r#type == "error" || !head.error.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(status: u16, body: &str) -> Class {
        Upstream::read(Some(status), body.as_bytes()).class()
    }

    fn error(kind: &str, message: &str) -> String {
        serde_json::json!({"type": "error", "error": {"type": kind, "message": message}})
            .to_string()
    }

    #[test]
    fn the_body_decides_first_and_the_status_second() {
        let spend = r#"{"error":{"type":"rate_limit_error","message":"no","details":
                     {"error_code":"enforced_spend_limit_reached"}}}"#;
        let table = [
            (
                400,
                error("invalid_request_error", "max_tokens: field required"),
                Class::Client,
            ),
            (
                400,
                error("invalid_request_error", "prompt is too long: 9 tokens > 8"),
                Class::ContextTooLong,
            ),
            (
                400,
                error("invalid_request_error", "Your credit balance is too low"),
                Class::Quota,
            ),
            (
                401,
                error("authentication_error", "invalid x-api-key"),
                Class::Authentication,
            ),
            (
                403,
                error("permission_error", "not yours"),
                Class::Authentication,
            ),
            (402, error("billing_error", "pay"), Class::Quota),
            (404, error("not_found_error", "model"), Class::Client),
            (413, error("request_too_large", "too large"), Class::Client),
            (429, error("rate_limit_error", "slowly"), Class::RateLimit),
            (429, error("overloaded_error", "busy"), Class::Overload),
            (429, spend.to_owned(), Class::Quota),
            (500, error("api_error", "oops"), Class::Overload),
            (504, error("timeout_error", "late"), Class::Overload),
            (
                529,
                error("overloaded_error", "Overloaded"),
                Class::Overload,
            ),
            (
                200,
                error("overloaded_error", "Overloaded"),
                Class::Overload,
            ),
            (502, "<html>bad gateway</html>".to_owned(), Class::Overload),
            (503, String::new(), Class::Overload),
            (408, String::new(), Class::Network),
            (422, r#"{"detail":"x"}"#.to_owned(), Class::Client),
            (307, String::new(), Class::Client),
            (418, r#"{"error":"teapot"}"#.to_owned(), Class::Client),
            (
                400,
                r#"{"error":{"code":"content_filter"}}"#.to_owned(),
                Class::Refusal,
            ),
        ];
        for (status, body, expected) in table {
            assert_eq!(class(status, &body), expected, "{status} {body}");
        }
    }

    #[test]
    fn an_error_never_shows_the_key_that_the_provider_echoes() {
        let key = supervisor_core::Secret::new("sk-MARKER-0123456789-abcdef".into());
        let masker = Masker::new([&key]);
        for message in [
            format!("invalid key {}", key.expose()),
            format!("{}{}", "x".repeat(SENTENCE - 15), key.expose()),
        ] {
            let body = error("authentication_error", &message);
            let failure = Upstream::read(Some(401), body.as_bytes()).failure(
                "anthropic",
                &masker,
                &Hints::default(),
                0,
            );
            assert!(
                !format!("{failure} {failure:?}").contains("MARKER"),
                "{failure}"
            );
            assert_eq!(
                (failure.class, failure.retryable),
                (Class::Authentication, false)
            );
            assert!(
                failure.message.contains("401") && failure.message.len() < 400,
                "{failure}"
            );
        }
    }

    #[test]
    fn advice_to_wait_is_read_in_all_its_forms() {
        let now = 1_445_412_480 - 90;
        let wait = |after: Option<&str>, ms: Option<&str>| {
            let hints = Hints {
                retry_after: after.map(str::to_owned),
                retry_after_ms: ms.map(str::to_owned),
                ..Hints::default()
            };
            hints.wait_ms(now)
        };
        assert_eq!(wait(None, None), None);
        assert_eq!(wait(Some("2"), None), Some(2_000));
        assert_eq!(wait(Some(" 1.5 "), None), Some(1_500));
        assert_eq!(wait(Some("1"), Some("0")), Some(1_000));
        assert_eq!(
            wait(Some("Wed, 21 Oct 2015 07:28:00 GMT"), None),
            Some(90_000)
        );
        assert_eq!(wait(Some("Wed, 21 Oct 2014 07:28:00 GMT"), None), Some(0));
        assert_eq!(wait(Some("-5"), None), Some(0));
        assert_eq!(wait(Some("1000000000"), None), Some(366 * 86_400_000));
        assert_eq!(wait(Some("1e300"), None), Some(366 * 86_400_000));
        for garbage in [
            "soon",
            "NaN",
            "Wed, 99 Oct 2015 07:28:00 GMT",
            "Wed, 1 Foo 2015 1:2:3 GMT",
        ] {
            assert_eq!(wait(Some(garbage), None), None, "{garbage}");
        }
    }

    #[test]
    fn a_provider_that_says_not_to_retry_is_obeyed() {
        let hints = Hints {
            should_retry: Some("false".into()),
            ..Hints::default()
        };
        let body = error("overloaded_error", "Overloaded");
        let upstream = Upstream::read(Some(529), body.as_bytes());
        assert!(
            !upstream
                .failure("p", &Masker::default(), &hints, 0)
                .retryable
        );
        assert!(
            upstream
                .failure("p", &Masker::default(), &Hints::default(), 0)
                .retryable
        );
    }
}
