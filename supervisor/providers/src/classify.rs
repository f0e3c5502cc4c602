//! What a failed answer is: the body decides first, the status second; nothing here touches the wire.

mod words;

use protocol::bounds;
use serde::Deserialize;
use serde_json::Value;
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
    /// How long to wait, where the body says so, in milliseconds.
    pub wait_ms: Option<u64>,
    /// When the limit ends, in seconds since 1970.
    pub resets_at: Option<u64>,
    /// The class, where it is not a matter of words.
    pub forced: Option<Class>,
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
        let Ok(body) = serde_json::from_slice::<Value>(body) else {
            return none;
        };
        let mut found = words::read(&body);
        found.status = status;
        // A stream has no status of its own; some providers write one into the error.
        if status.is_none()
            && let Ok(code @ 400..=599) = found.code.parse::<u16>()
        {
            found.status = Some(code);
        }
        found
    }

    /// A failure that is known by something else than words.
    pub(crate) fn of(class: Class, kind: &str, message: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            message: message.to_owned(),
            forced: Some(class),
            ..Self::default()
        }
    }

    /// The class of the error.
    #[must_use]
    pub fn class(&self) -> Class {
        if let Some(class) = self.forced {
            return class;
        }
        if let Some(class) = words::class(self) {
            return class;
        }
        match self.status {
            Some(401 | 403) => Class::Authentication,
            Some(402) => Class::Quota,
            Some(408) => Class::Network,
            Some(429) => Class::RateLimit,
            // A model of Bedrock that failed, with a status of the caller's.
            Some(424) => Class::Overload,
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
        failure.retry_after_ms = hints.wait_ms(now_s).max(self.advice_ms(now_s));
        if hints.should_retry.as_deref().map(str::trim) == Some("false") {
            failure.retryable = false;
        }
        failure
    }
}

impl Upstream {
    /// What the body advises: a wait, or the time of a reset.
    fn advice_ms(&self, now_s: u64) -> Option<u64> {
        const YEAR_MS: u64 = 366 * 86_400_000;
        let until = self
            .resets_at
            .map(|at| at.saturating_sub(now_s).saturating_mul(1_000));
        self.wait_ms.max(until).map(|ms| ms.min(YEAR_MS))
    }
}

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
pub(crate) fn milliseconds(text: &str, unit: u32) -> Option<u64> {
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
        r#type: Value,
        #[serde(default)]
        error: Value,
        #[serde(default)]
        success: Option<Value>,
        #[serde(default)]
        base_resp: Value,
    }
    // A list would be read as the fields in order; Google sends an error in one, and answers as well.
    if body.trim_ascii_start().first() == Some(&b'[') {
        return serde_json::from_slice::<Value>(body).is_ok_and(|list| {
            list.pointer("/0/error")
                .is_some_and(|error| !error.is_null())
        });
    }
    serde_json::from_slice::<Head>(body).is_ok_and(|head| {
        let code = head.base_resp.get("status_code").and_then(Value::as_i64);
        head.r#type == "error"
            || !head.error.is_null()
            || head.success == Some(Value::Bool(false))
            || code.is_some_and(|code| code != 0)
    })
}

/// Whether an event of a stream is an error in a form that is no dialect's own: `base_resp`,
/// `"success": false`, or a bare sentence where an answer should be. Short ones only: an error is.
pub(crate) fn is_foreign_error(data: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Event {
        #[serde(default)]
        base_resp: Value,
        #[serde(default)]
        success: Option<Value>,
        #[serde(default)]
        detail: Value,
        #[serde(default)]
        r#type: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        error: Option<Value>,
    }
    // Looking twice at each delta costs; none of these words stands in one but by chance.
    let holds = |word: &[u8]| data.windows(word.len()).any(|window| window == word);
    let words: [&[u8]; 4] = [
        b"\"base_resp\"",
        b"\"success\"",
        b"\"detail\"",
        b"\"error\"",
    ];
    if data.len() > bounds::ERROR_BODY || !words.iter().any(|word| holds(word)) {
        return false;
    }
    serde_json::from_slice::<Event>(data).is_ok_and(|event| {
        let code = event.base_resp.get("status_code").and_then(Value::as_i64);
        // Dialects with a type know their own errors.
        let bare = event.r#type.is_none() && event.error.is_some_and(|error| !error.is_null());
        code.is_some_and(|code| code != 0)
            || event.success == Some(Value::Bool(false))
            || event.detail.is_string()
            || bare
    })
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
    fn googles_and_amazons_errors_have_their_classes() {
        let google = |status: &str, message: &str, details: serde_json::Value| {
            serde_json::json!({"error": {"code": 400, "status": status, "message": message, "details": details}})
                .to_string()
        };
        let none = || serde_json::json!([]);
        let key = serde_json::json!([{"reason": "API_KEY_INVALID"}]);
        let day = serde_json::json!([{"violations": [{"quotaId": "RequestsPerDay"}]}]);
        let delay = serde_json::json!([{"retryDelay": "34.4s"}]);
        let table = [
            (
                400,
                google("INVALID_ARGUMENT", "API key not valid", key),
                Class::Authentication,
            ),
            (
                400,
                google("INVALID_ARGUMENT", "bad field", none()),
                Class::Client,
            ),
            (
                400,
                google(
                    "INVALID_ARGUMENT",
                    "The input token count (9) exceeds the maximum number of tokens allowed (8).",
                    none(),
                ),
                Class::ContextTooLong,
            ),
            (
                403,
                google("PERMISSION_DENIED", "no", none()),
                Class::Authentication,
            ),
            (404, google("NOT_FOUND", "no model", none()), Class::Client),
            (
                429,
                google("RESOURCE_EXHAUSTED", "slowly", delay.clone()),
                Class::RateLimit,
            ),
            (
                429,
                google("RESOURCE_EXHAUSTED", "slowly", day),
                Class::Quota,
            ),
            (
                429,
                google("RESOURCE_EXHAUSTED", "limit: 0", none()),
                Class::Quota,
            ),
            (500, google("INTERNAL", "oops", none()), Class::Overload),
            (
                503,
                google("UNAVAILABLE", "The model is overloaded.", none()),
                Class::Overload,
            ),
            (
                504,
                google("DEADLINE_EXCEEDED", "late", none()),
                Class::Overload,
            ),
            (
                400,
                format!("[{}]", google("UNAVAILABLE", "x", none())),
                Class::Overload,
            ),
            (
                403,
                r#"{"message":"The security token is invalid."}"#.to_owned(),
                Class::Authentication,
            ),
            (
                424,
                r#"{"message":"the model failed"}"#.to_owned(),
                Class::Overload,
            ),
            (
                400,
                r#"{"message":"Input is too long for requested model."}"#.to_owned(),
                Class::ContextTooLong,
            ),
            (
                400,
                r#"{"__type":"ThrottlingException","message":"x"}"#.to_owned(),
                Class::RateLimit,
            ),
        ];
        for (status, body, expected) in table {
            assert_eq!(class(status, &body), expected, "{status} {body}");
        }
        for (kind, expected) in [
            ("internalServerException", Class::Overload),
            ("modelStreamErrorException", Class::Overload),
            ("serviceUnavailableException", Class::Overload),
            ("throttlingException", Class::RateLimit),
            ("validationException", Class::Client),
            ("UnrecognizedClientException", Class::Authentication),
            ("ExpiredTokenException", Class::Authentication),
            ("ServiceQuotaExceededException", Class::Quota),
        ] {
            let upstream = Upstream {
                kind: kind.into(),
                ..Upstream::default()
            };
            assert_eq!(upstream.class(), expected, "{kind}");
        }
        let body = google("RESOURCE_EXHAUSTED", "slowly", delay);
        let upstream = Upstream::read(Some(429), body.as_bytes());
        let failure = upstream.failure("g", &Masker::default(), &Hints::default(), 0);
        assert_eq!(
            (failure.retry_after_ms, failure.retryable),
            (Some(34_400), true)
        );
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
