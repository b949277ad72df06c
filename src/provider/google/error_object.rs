//! Google's error objects, as errors with a kind.
//!
//! `{"error":{"code":429,"message":"...","status":"RESOURCE_EXHAUSTED","details":[{"@type":"...","retryDelay":"17s"}]}}`,
//! alone, in a list, or (from gateways) as text within the message of another
//! (ai.google.dev/gemini-api/docs/troubleshooting, google.rpc.Status, google.rpc.RetryInfo, google.rpc.ErrorInfo).
//! Other shapes come from gateways and are read as those of any server.

use serde_json::Value;

use crate::base::error::{Error, ErrorKind};
use crate::provider::{error_object, failure};

pub(super) fn of_response(status: u16, body: &str) -> Error {
    object_in(body).map_or_else(|| error_object::of_response(status, body), |error| classify(&error, Some(status)))
}

/// The error of an event in a stream: an error object, or unexpected data.
pub(super) fn of_event(data: &str) -> Error {
    object_in(data).map_or_else(|| error_object::of_event(data), |error| classify(&error, None))
}

/// The error of a successful response without a reply.
pub(super) fn of_body(body: &str) -> Error {
    object_in(body).map_or_else(|| error_object::of_body(body), |error| classify(&error, None))
}

/// The `error` of a body, or of the first object of a list that has one.
fn object_in(body: &str) -> Option<Value> {
    let objects = match serde_json::from_str::<Value>(body).ok()? {
        Value::Array(list) => list,
        other => vec![other],
    };
    let error = objects.iter().find_map(|object| object.get("error").filter(|error| error.is_object()))?;
    // Gateways put Google's response into the message of their own; only one level is read.
    let inner = error.get("message").and_then(Value::as_str).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let inner = inner.as_ref().and_then(|inner| inner.get("error")).filter(|inner| inner.is_object());
    Some(inner.unwrap_or(error).clone())
}

/// Kind, message and time to wait. The status of the response counts before the code in the body.
fn classify(error: &Value, status: Option<u16>) -> Error {
    let text = error.get("message").and_then(Value::as_str).map_or_else(|| error.to_string(), str::to_owned);
    let code = status.or_else(|| code_of(error));
    if is_bad_key(error, &text) {
        return failure::of_kind(ErrorKind::Auth, "the provider rejected the credentials", &text);
    }
    if matches!(code, None | Some(400 | 413 | 500)) && failure::mentions_context_limit(&text) {
        return failure::of_kind(
            ErrorKind::ContextTooLong,
            "the conversation exceeds the model's context window",
            &text,
        );
    }
    if code == Some(429) && is_quota_used_up(error, &text) {
        let what = "the daily quota or the credit at the provider is used up; waiting does not help";
        return failure::of_kind(ErrorKind::BadRequest, what, &text);
    }
    match code {
        Some(code) => failure::of_status(code, delay_of(error), &text),
        None => failure::of_kind(ErrorKind::BadRequest, "the provider reported an error", &text),
    }
}

/// The HTTP status of an error by its numeric code, or by its status name (google/rpc/code.proto).
fn code_of(error: &Value) -> Option<u16> {
    // Gateways send it as text.
    let code = |code: &Value| code.as_u64().or_else(|| code.as_str()?.parse().ok());
    let number = error.get("code").and_then(code).and_then(|code| u16::try_from(code).ok());
    number.filter(|code| (400..600).contains(code)).or_else(|| match error.get("status")?.as_str()? {
        "INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE" => Some(400),
        "UNAUTHENTICATED" => Some(401),
        "PERMISSION_DENIED" => Some(403),
        "NOT_FOUND" => Some(404),
        "RESOURCE_EXHAUSTED" => Some(429),
        "INTERNAL" | "UNKNOWN" => Some(500),
        "UNAVAILABLE" => Some(503),
        "DEADLINE_EXCEEDED" => Some(504),
        _ => None,
    })
}

/// Google reports an invalid key as a bad request; the `reason` distinguishes it.
fn is_bad_key(error: &Value, text: &str) -> bool {
    let is_reason = |detail: &Value| {
        detail.get("reason").and_then(Value::as_str).is_some_and(|reason| reason.starts_with("API_KEY_"))
    };
    details_of(error).any(is_reason) || ["API key not valid", "API key expired"].iter().any(|mark| text.contains(mark))
}

/// Whether a daily or prepaid quota is used up. Quotas per minute are worth a retry.
fn is_quota_used_up(error: &Value, text: &str) -> bool {
    let violations = details_of(error).filter_map(|detail| detail.get("violations")?.as_array()).flatten();
    let mut ids = violations.filter_map(|violation| violation.get("quotaId")?.as_str());
    ids.any(|id| id.contains("PerDay")) || text.contains("credits are depleted")
}

/// Whole seconds to wait, rounded up, from `"17s"` or `"17.5s"` (google.protobuf.Duration).
fn delay_of(error: &Value) -> Option<u32> {
    let text = details_of(error).find_map(|detail| detail.get("retryDelay")?.as_str())?;
    let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
    // The cast saturates.
    seconds.is_finite().then_some(seconds.ceil() as u32)
}

fn details_of(error: &Value) -> impl Iterator<Item = &Value> {
    error.get("details").and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_details(code: u16, message: &str, details: &str) -> String {
        format!(r#"{{"error":{{"code":{code},"message":{message:?},"status":"X","details":[{details}]}}}}"#)
    }

    #[test]
    fn an_error_is_the_same_alone_in_a_list_and_within_another() {
        let alone = with_details(503, "The model is overloaded.", "");
        let within = format!(r#"{{"error":{{"code":500,"message":{:?},"status":"Bad"}}}}"#, alone);
        for body in [alone.clone(), format!("[{alone}]"), within] {
            let error = of_event(&body);
            assert_eq!(error.kind, ErrorKind::Overloaded, "{body}");
            assert!(error.message.ends_with("(503): The model is overloaded."), "{}", error.message);
        }
    }

    #[test]
    fn an_invalid_key_is_an_auth_error_although_the_status_is_400() {
        let reason = r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}"#;
        assert_eq!(of_response(400, &with_details(400, "no", reason)).kind, ErrorKind::Auth);
        let text = "API key not valid. Please pass a valid API key.";
        assert_eq!(of_response(400, &with_details(400, text, "")).kind, ErrorKind::Auth);
        assert_eq!(of_response(400, &with_details(400, "no", "")).kind, ErrorKind::BadRequest);
    }

    #[test]
    fn the_time_to_wait_is_read_and_rounded_up() {
        for (text, seconds) in [("17s", Some(17)), ("0.2s", Some(1)), ("17", None), ("-3s", Some(0)), ("NaNs", None)] {
            let body = with_details(429, "slow down", &format!(r#"{{}},{{"retryDelay":"{text}"}}"#));
            let error = of_response(429, &body);
            assert_eq!((error.kind, error.retry_after), (ErrorKind::RateLimited, seconds), "{text}");
        }
    }

    #[test]
    fn a_daily_quota_is_not_retried() {
        let violation = |id: &str| format!(r#"{{"violations":[{{"quotaId":"{id}"}}]}},{{"retryDelay":"3s"}}"#);
        let minute = with_details(429, "You exceeded your current quota", &violation("RequestsPerMinutePerProject"));
        assert_eq!(of_response(429, &minute).kind, ErrorKind::RateLimited);
        let day = with_details(429, "You exceeded your current quota", &violation("RequestsPerDayPerProject"));
        assert_eq!(of_response(429, &day).kind, ErrorKind::BadRequest);
    }

    #[test]
    fn googles_messages_for_a_too_long_conversation_are_known() {
        for text in [
            "The input token count (1091639) exceeds the maximum number of tokens allowed (1048576).",
            "The input token count exceeds the maximum number of tokens allowed 1048576.",
        ] {
            assert_eq!(of_response(400, &with_details(400, text, "")).kind, ErrorKind::ContextTooLong);
        }
    }

    #[test]
    fn the_name_of_a_status_counts_where_there_is_no_number() {
        let kind = |status: &str| of_event(&format!(r#"{{"error":{{"message":"m","status":"{status}"}}}}"#)).kind;
        assert_eq!(kind("UNAVAILABLE"), ErrorKind::Overloaded);
        assert_eq!(of_event(r#"{"error":{"message":"m","code":"500"}}"#).kind, ErrorKind::Overloaded);
        assert_eq!(kind("RESOURCE_EXHAUSTED"), ErrorKind::RateLimited);
        assert_eq!(kind("PERMISSION_DENIED"), ErrorKind::Auth);
        assert_eq!(kind("ELSE"), ErrorKind::BadRequest);
    }
}
