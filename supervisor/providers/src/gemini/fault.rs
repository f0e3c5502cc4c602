//! Google's error shape, `google.rpc.Status`: status word, reasons, spent quotas, advice to wait.

use serde_json::Value;

/// What such an error says beyond code and message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fault {
    /// `RESOURCE_EXHAUSTED`, `INVALID_ARGUMENT`, …
    pub(crate) status: String,
    /// Reasons of its details (`API_KEY_INVALID`), and `quota_spent` where waiting a minute is no help.
    pub(crate) reasons: String,
    /// How long it asks to wait.
    pub(crate) retry_after_ms: Option<u64>,
}

/// Reads the `error` object of a body; `None` if it is of another shape.
pub(crate) fn read(error: &Value) -> Option<Fault> {
    let status = error.get("status")?.as_str()?;
    let mut fault = Fault {
        status: status.to_owned(),
        ..Fault::default()
    };
    let mut reasons: Vec<&str> = Vec::new();
    let mut spent = error
        .get("message")
        .and_then(Value::as_str)
        .is_some_and(none_at_all);
    let details = error.get("details").and_then(Value::as_array);
    for detail in details.into_iter().flatten().take(64) {
        let text = |name: &str| detail.get(name).and_then(Value::as_str);
        reasons.extend(text("reason"));
        if let Some(delay) = text("retryDelay") {
            fault.retry_after_ms = fault.retry_after_ms.max(seconds(delay));
        }
        let violations = detail.get("violations").and_then(Value::as_array);
        for violation in violations.into_iter().flatten().take(64) {
            let text = |name: &str| violation.get(name).and_then(Value::as_str);
            spent |= text("quotaId").is_some_and(|id| id.contains("PerDay"));
            spent |= text("description").is_some_and(none_at_all);
        }
    }
    if status == "RESOURCE_EXHAUSTED" && spent {
        reasons.push("quota_spent");
    }
    fault.reasons = reasons.join(" ");
    Some(fault)
}

/// `limit: 0` means that the account has no such quota, whatever the hour.
fn none_at_all(message: &str) -> bool {
    let after = message.split("limit: 0").skip(1);
    let mut ends = after.map(|rest| rest.chars().next());
    ends.any(|next| next.is_none_or(|c| !c.is_ascii_digit() && c != '.'))
}

/// `34.4s` as milliseconds, at most a year.
fn seconds(text: &str) -> Option<u64> {
    const YEAR_MS: u64 = 366 * 86_400_000;
    let number: f64 = text.trim().strip_suffix('s')?.parse().ok()?;
    let duration = std::time::Duration::try_from_secs_f64(number.max(0.0)).ok();
    duration.map(|d| u64::try_from(d.as_millis()).unwrap_or(YEAR_MS).min(YEAR_MS))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn exhausted(message: &str, quota: &str) -> Value {
        json!({"code": 429, "status": "RESOURCE_EXHAUSTED", "message": message, "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]},
            {"@type": "type.googleapis.com/google.rpc.Help", "links": []},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.4s"},
        ]})
    }

    #[test]
    fn a_minute_s_limit_passes_and_a_day_s_or_none_at_all_does_not() {
        let minute = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier";
        let fault = read(&exhausted("limit: 05, retry in 34s", minute)).expect("its shape");
        assert_eq!(fault.retry_after_ms, Some(34_400));
        assert_eq!(
            (fault.status.as_str(), fault.reasons.as_str()),
            ("RESOURCE_EXHAUSTED", "")
        );
        let day = "GenerateRequestsPerDayPerProjectPerModel-FreeTier";
        for (message, quota) in [
            ("limit: 20", day),
            ("* Quota exceeded, limit: 0\n", minute),
            ("limit: 0", minute),
            ("limit: 0, model: x", minute),
        ] {
            let fault = read(&exhausted(message, quota)).expect("its shape");
            assert_eq!(fault.reasons, "quota_spent", "{message} {quota}");
        }
    }

    #[test]
    fn reasons_are_read_and_other_shapes_are_not() {
        let key = json!({"status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]});
        assert_eq!(read(&key).expect("its shape").reasons, "API_KEY_INVALID");
        for other in [
            json!({"type": "x"}),
            json!(null),
            json!({"status": 429}),
            json!("text"),
        ] {
            assert_eq!(read(&other), None);
        }
        for delay in ["soon", "NaNs", "1e400s", "-3s", "99999999999999s"] {
            let error = json!({"status": "X", "details": [{"retryDelay": delay}]});
            let wait = read(&error).expect("its shape").retry_after_ms;
            assert!(
                wait.is_none_or(|ms| ms <= 366 * 86_400_000),
                "{delay}: {wait:?}"
            );
        }
    }
}
