//! The words of providers' errors: where they stand in a body, and what they mean.

use serde_json::Value;

use super::{Upstream, milliseconds};
use crate::{Class, gemini};

/// The words of an error body, wherever its provider puts them.
pub(super) fn read(body: &Value) -> Upstream {
    // Google wraps the errors of a stream that it never began into an array.
    let body = body.get(0).unwrap_or(body);
    let error = match body.get("error").filter(|error| !error.is_null()) {
        Some(Value::String(message)) => {
            return Upstream {
                message: message.clone(),
                code: text(body.get("code")),
                ..Upstream::default()
            };
        }
        Some(error) => error,
        None => body,
    };
    // Responses: the error of the whole response inside its event.
    let error = match error.pointer("/response/error").filter(|e| e.is_object()) {
        Some(inside) => inside,
        None => error,
    };
    // Workers AI: a list of errors; MiniMax: a status of its own.
    let listed = body.pointer("/errors/0").filter(|e| e.is_object());
    if let (Some(first), true) = (listed, error.get("message").is_none()) {
        return Upstream {
            code: format!("workers_{}", text(first.get("code"))),
            message: text(first.get("message")),
            ..Upstream::default()
        };
    }
    if let Some(base) = body.get("base_resp") {
        return Upstream {
            code: format!("base_{}", text(base.get("status_code"))),
            message: text(base.get("status_msg")),
            ..Upstream::default()
        };
    }
    let details = error.get("details");
    let reasons = details.and_then(Value::as_array);
    let reason = reasons.and_then(|list| list.iter().find_map(|d| d.get("reason")));
    let code = [
        reason,
        error.get("code"),
        details.and_then(|d| d.get("error_code")),
        error.pointer("/innererror/code"),
    ];
    let code = code.into_iter().map(text).find(|code| !code.is_empty());
    let mut message = text(error.get("message").or_else(|| error.get("Message")));
    if message.is_empty() {
        message = detail(error.get("detail"));
    }
    // A broker's own sentence says less than the one that it passes on.
    let raw = error.pointer("/metadata/raw").map(|raw| match raw {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    if let Some(raw) = raw.filter(|raw| raw != "null") {
        message = format!("{message}: {raw}");
    }
    let google = gemini::read_fault(error).unwrap_or_default();
    let code = Some(google.reasons)
        .filter(|reasons| !reasons.is_empty())
        .or(code);
    let kind = [error.get("type"), error.get("__type"), error.get("status")];
    let kind = kind.into_iter().map(text);
    let kind = kind
        .filter(|kind| kind != "error")
        .find(|kind| !kind.is_empty());
    Upstream {
        kind: kind.unwrap_or_default(),
        code: code.unwrap_or_default(),
        wait_ms: wait(error, &message).max(google.retry_after_ms),
        resets_at: resets_at(error),
        message,
        ..Upstream::default()
    }
}

fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// `detail`: a sentence, or a list of objects with one each.
fn detail(detail: Option<&Value>) -> String {
    match detail {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(list)) => {
            let each = list.iter().map(|item| text(item.get("msg")));
            each.collect::<Vec<_>>().join("; ")
        }
        Some(Value::Object(object)) => text(object.get("message")),
        _ => String::new(),
    }
}

/// A wait inside the body: `RetryInfo`, `resets_in_seconds`, or a sentence that ends in a time.
fn wait(error: &Value, message: &str) -> Option<u64> {
    let details = error.get("details").and_then(Value::as_array);
    let delay = details.and_then(|list| list.iter().find_map(|d| d.get("retryDelay")?.as_str()));
    let told = delay.and_then(duration);
    let seconds = error.get("resets_in_seconds").and_then(Value::as_u64);
    let lower = message.to_lowercase();
    let said = ["try again in ", "retry in ", "retry after "];
    let said = said
        .iter()
        .find_map(|words| duration(lower.split_once(words)?.1));
    told.max(seconds.map(|s| s.saturating_mul(1_000))).max(said)
}

/// The time of a reset: Codex in seconds, OpenRouter's hidden header in milliseconds.
fn resets_at(error: &Value) -> Option<u64> {
    let at = error.get("resets_at").and_then(Value::as_u64);
    let header = error.pointer("/metadata/headers/X-RateLimit-Reset");
    let header = header.and_then(|value| text(Some(value)).parse::<u64>().ok());
    at.or(header.map(|ms| ms / 1_000))
}

/// `34.4s`, `20 seconds`, `1m30s`, `900ms`, at the beginning of a text.
fn duration(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut sum = None;
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, after) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
        let after = after.trim_start();
        let unit_end = after.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, tail) = after.split_at_checked(unit_end.unwrap_or(after.len()))?;
        let unit = match unit {
            "ms" | "milliseconds" => 1,
            "s" | "sec" | "second" | "seconds" => 1_000,
            "m" | "min" | "minute" | "minutes" => 60_000,
            "h" | "hour" | "hours" => 3_600_000,
            _ => return sum,
        };
        let Some(ms) = milliseconds(number.trim_end_matches('.'), unit) else {
            return sum;
        };
        sum = Some(sum.unwrap_or(0_u64).saturating_add(ms));
        rest = tail;
    }
}

/// What the words mean, where they mean something whatever the status.
pub(super) fn class(error: &Upstream) -> Option<Class> {
    let words = format!("{} {}", error.kind, error.code).to_lowercase();
    let words = words.replace(['-', ' '], "_");
    let message = error.message.to_lowercase();
    let said = |list: &[&str]| list.iter().any(|word| words.contains(word));
    let told = |list: &[&str]| list.iter().any(|word| message.contains(word));
    let code = |list: &[&str]| list.contains(&error.code.as_str());
    let status = error.status.unwrap_or(0);
    if said(&[
        "context_length_exceeded",
        "string_above_max_length",
        "max_prompt_tokens_exceeded",
    ]) || code(&["1261", "base_1039"])
        || (status < 500 && (told(TOO_LONG) || is_beyond_window(&message)))
    {
        return Some(Class::ContextTooLong);
    }
    if said(QUOTA)
        || code(QUOTA_CODES)
        || told(&["credit balance is too low", "insufficient balance"])
    {
        return Some(Class::Quota);
    }
    if said(REFUSED)
        || code(&["1301", "base_1026", "base_1027"])
        || told(&[
            "requires moderation",
            "was flagged",
            "content management policy",
        ])
    {
        return Some(Class::Refusal);
    }
    // OpenCode answers so, under 401, to a model that it does not have.
    if error.kind == "ModelError" {
        return Some(Class::Client);
    }
    let bad_key = (400..500).contains(&status) && told(BAD_KEY);
    if said(UNKNOWN_CALLER) || bad_key || code(UNKNOWN_CALLER_CODES) || status == 401 {
        return Some(Class::Authentication);
    }
    if said(&["overloaded", "slow_down"])
        || code(&["1305", "workers_3040", "base_1013"])
        || said(UNABLE)
        || matches!(error.kind.as_str(), "INTERNAL" | "UNKNOWN")
        || (said(BROKEN) && !(400..500).contains(&status))
        || told(&["model is overloaded"])
    {
        return Some(Class::Overload);
    }
    if said(&[
        "rate_limit",
        "ramp_limit",
        "ratelimit",
        "too_many_requests",
        "toomanyrequests",
        "resource_exhausted",
        "throttling",
    ]) || code(&["1302", "1303", "base_1002"])
    {
        return Some(Class::RateLimit);
    }
    // Under 403 it is the caller who is not let in, whatever the request is called.
    let forbidden = status == 403;
    if !forbidden
        && said(&[
            "invalid_request",
            "not_found",
            "request_too_large",
            "invalid_prompt",
            "invalid_argument",
            "validationexception",
            "resourcenotfound",
        ])
        || code(&["base_2013"])
    {
        return Some(Class::Client);
    }
    None
}

/// A sentence about the window and that it is exceeded, in whatever words.
fn is_beyond_window(message: &str) -> bool {
    let window = [
        "context window",
        "context length",
        "context limit",
        "context size",
    ];
    let beyond = [
        "exceed",
        "too long",
        "too large",
        "longer than",
        "larger than",
        "over the",
    ];
    let any = |list: &[&str]| list.iter().any(|word| message.contains(word));
    any(&window) && any(&beyond)
}

const TOO_LONG: &[&str] = &[
    "prompt is too long",
    "prompt too long",
    "maximum context length",
    "exceeds the context window",
    "exceeds the available context size",
    "exceed context limit",
    "exceeds the maximum number of tokens",
    "exceeds the model's context",
    "exceeds the model's maximum context",
    "input length and `max_tokens` exceed",
    "input tokens exceed",
    "input is too long for requested model",
    "too many input tokens",
    "prompt exceeds max length",
    "maximum prompt length",
    "exceeded model token limit",
    "`max_new_tokens` must be",
    "prompt token count of",
    "number of input tokens exceeds",
    // A request larger than the whole limit of a minute: waiting never helps.
    "request too large for",
];

const QUOTA: &[&str] = &[
    "billing_error",
    "insufficient_quota",
    "insufficient_balance",
    "insufficient_credits",
    "exceeded_current_quota",
    "enforced_spend_limit_reached",
    "contract_spend_limit_reached",
    "usage_limit_reached",
    "usage_not_included",
    "creditserror",
    "monthlylimiterror",
    "payment_required",
    // Google; AWS.
    "quota_spent",
    "servicequotaexceeded",
];

/// Z.AI: no balance, the plan's window spent; Workers AI: the day's free share; MiniMax: no balance.
const QUOTA_CODES: &[&str] = &["1113", "1308", "1310", "workers_3036", "base_1008"];

const REFUSED: &[&str] = &[
    "content_filter",
    "content_policy",
    "responsibleaipolicyviolation",
    "cyber_policy",
    "bio_policy",
    "moderation",
];

const UNKNOWN_CALLER: &[&str] = &[
    "authentication_error",
    "authenticationerror",
    "permission_error",
    "permission_denied",
    "invalid_api_key",
    "api_key_invalid",
    "unauthenticated",
    // AWS.
    "accessdenied",
    "unrecognizedclient",
    "expiredtoken",
    "invalidsignature",
    "incompletesignature",
    "signaturedoesnotmatch",
    "missingauthenticationtoken",
    "notauthorized",
];

/// Some hosts call a bad key a bad request.
const BAD_KEY: &[&str] = &[
    "incorrect api key",
    "invalid api key",
    "api key not valid",
    "api key not found",
    "api key expired",
    "api key has expired",
    "invalid subscription key",
    "invalid authentication",
];

const UNKNOWN_CALLER_CODES: &[&str] = &[
    "1000",
    "1001",
    "1002",
    "1003",
    "1004",
    "base_1004",
    "base_2049",
    "workers_10000",
];

/// Google; AWS, which may say so under a status of the caller's.
const UNABLE: &[&str] = &[
    "unavailable",
    "deadline_exceeded",
    "internalserver",
    "internalfailure",
    "modelstreamerror",
    "modelerror",
    "modelnotready",
    "modeltimeout",
];

const BROKEN: &[&str] = &[
    "timeout_error",
    "api_error",
    "server_error",
    "internal_error",
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(status: u16, body: Value) -> Class {
        let status = (status != 0).then_some(status);
        Upstream::read(status, body.to_string().as_bytes()).class()
    }

    #[test]
    fn every_shape_of_an_error_is_read() {
        let table = [
            (
                401,
                json!({"detail": "Could not parse your token"}),
                Class::Authentication,
            ),
            (
                422,
                json!({"detail": [{"loc": ["body"], "msg": "field required"}]}),
                Class::Client,
            ),
            (
                401,
                json!({"error": {"message": "Unauthorized", "type": "api_error"}}),
                Class::Authentication,
            ),
            (
                400,
                json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "bad",
                "details": [{"reason": "API_KEY_INVALID"}]}}),
                Class::Authentication,
            ),
            (
                429,
                json!({"error": {"code": "1113", "message": "no balance"}}),
                Class::Quota,
            ),
            (
                429,
                json!({"error": {"code": "1302", "message": "concurrency"}}),
                Class::RateLimit,
            ),
            (
                429,
                json!({"error": {"message": "busy", "type": "engine_overloaded_error"}}),
                Class::Overload,
            ),
            (
                429,
                json!({"error": {"type": "exceeded_current_quota_error"}}),
                Class::Quota,
            ),
            (
                429,
                json!({"success": false, "errors": [{"code": 3036, "message": "neurons"}]}),
                Class::Quota,
            ),
            (
                429,
                json!({"success": false, "errors": [{"code": 3040, "message": "capacity"}]}),
                Class::Overload,
            ),
            (
                200,
                json!({"base_resp": {"status_code": 1004, "status_msg": "login fail"}}),
                Class::Authentication,
            ),
            (
                0,
                json!({"error": {"code": 502, "message": "Provider disconnected"}}),
                Class::Overload,
            ),
            (
                0,
                json!({"type": "error", "error": {"type": "tokens", "code": "rate_limit_exceeded",
                "message": "Request too large for gpt-4o on tokens per min"}}),
                Class::ContextTooLong,
            ),
            (
                0,
                json!({"type": "error", "code": "server_error", "message": "oops"}),
                Class::Overload,
            ),
            (
                0,
                json!({"type": "response.failed", "response": {"error":
                {"code": "context_length_exceeded", "message": "x"}}}),
                Class::ContextTooLong,
            ),
            (
                400,
                json!({"object": "error", "message": "Prompt is too large for model with 32768 maximum context length",
                "type": "invalid_request_error", "code": "3051"}),
                Class::ContextTooLong,
            ),
            (
                400,
                json!({"error": {"code": "content_filter", "innererror": {}}}),
                Class::Refusal,
            ),
            (
                503,
                json!({"error": {"code": "server_is_overloaded"}}),
                Class::Overload,
            ),
            (
                429,
                json!({"error": {"type": "usage_limit_reached", "resets_at": 9}}),
                Class::Quota,
            ),
            (
                429,
                json!({"error": {"code": "RateLimitReached", "message": "m", "details": "text"}}),
                Class::RateLimit,
            ),
            (
                404,
                json!({"error": {"code": "DeploymentNotFound"}}),
                Class::Client,
            ),
            (
                400,
                json!({"code": "invalid", "error": "Incorrect API key provided: sk"}),
                Class::Authentication,
            ),
            (
                401,
                json!({"type": "error", "error": {"type": "ModelError", "message": "not supported"}}),
                Class::Client,
            ),
            (
                401,
                json!({"type": "error", "error": {"type": "CreditsError", "message": "pay"}}),
                Class::Quota,
            ),
            (
                403,
                json!({"error": {"code": 403, "message": "the input was flagged"}}),
                Class::Refusal,
            ),
            (404, json!({"error": "model 'x' not found"}), Class::Client),
            (
                403,
                json!({"error": {"code": "forbidden", "message": "Forbidden", "type": "invalid_request_error"}}),
                Class::Authentication,
            ),
            (
                400,
                json!({"success": false, "errors": [{"code": 5021, "message": "AiError: The estimated number of \
                    input and maximum output tokens (9) exceeded this model context window limit (8)."}]}),
                Class::ContextTooLong,
            ),
            (
                400,
                json!({"type": "error", "error": {"type": "invalid_request_error",
                    "message": "invalid params, context window exceeds limit (2013)"}}),
                Class::ContextTooLong,
            ),
            (
                400,
                json!({"error": {"type": "invalid_request_error",
                    "message": "Invalid request: Your request exceeded model token limit: 262144"}}),
                Class::ContextTooLong,
            ),
            (
                400,
                json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "API key expired."}}),
                Class::Authentication,
            ),
            (0, json!({"error": "something"}), Class::Other),
        ];
        for (status, body, expected) in table {
            assert_eq!(of(status, body.clone()), expected, "{status} {body}");
        }
    }

    #[test]
    fn a_wait_is_found_in_the_body() {
        let wait = |body: Value| Upstream::read(Some(429), body.to_string().as_bytes());
        let google = json!({"error": {"message": "x", "details": [{"retryDelay": "34.4s"}]}});
        assert_eq!(wait(google).wait_ms, Some(34_400));
        let openai = json!({"error": {"message": "Please try again in 1m1.5s. Visit"}});
        assert_eq!(wait(openai).wait_ms, Some(61_500));
        let codex = json!({"error": {"type": "usage_limit_reached", "resets_at": 1_700_000_000}});
        assert_eq!(wait(codex).resets_at, Some(1_700_000_000));
        for none in ["try again in a while", "retry after lunch", "try again in "] {
            assert_eq!(
                wait(json!({"error": {"message": none}})).wait_ms,
                None,
                "{none}"
            );
        }
    }
}
