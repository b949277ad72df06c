//! Google's error objects, in plain words.
//!
//! `{"error":{"code":429,"message":"...","status":"RESOURCE_EXHAUSTED","details":[{"@type":"...","retryDelay":"17s"}]}}`,
//! alone, in a list, or (from gateways) as text within the message of another
//! (ai.google.dev/gemini-api/docs/troubleshooting, google.rpc.Status, google.rpc.RetryInfo, google.rpc.ErrorInfo). What has
//! another shape comes from something in between, and is read as from any server.

use serde_json::Value;

use crate::base::error::{Error, ErrorKind};
use crate::provider::{failure, refusal};

/// The error of a response whose status is no success.
pub(super) fn of_response(status: u16, body: &str) -> Error {
    object_in(body).map_or_else(|| refusal::of_response(status, body), |error| judge(&error, Some(status)))
}

/// The error of an event in a stream: an error object, or something that is no chunk at all.
pub(super) fn of_event(data: &str) -> Error {
    object_in(data).map_or_else(|| refusal::of_event(data), |error| judge(&error, None))
}

/// The error of a successful response that holds no reply.
pub(super) fn of_body(body: &str) -> Error {
    object_in(body).map_or_else(|| refusal::of_body(body), |error| judge(&error, None))
}

/// What stands under `error` in a body, or in the first object of a list that has it.
fn object_in(body: &str) -> Option<Value> {
    let objects = match serde_json::from_str::<Value>(body).ok()? {
        Value::Array(list) => list,
        other => vec![other],
    };
    let error = objects.iter().find_map(|object| object.get("error").filter(|error| error.is_object()))?;
    // One level down only: gateways pass the answer on as the text of their own.
    let inner = error.get("message").and_then(Value::as_str).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let inner = inner.as_ref().and_then(|inner| inner.get("error")).filter(|inner| inner.is_object());
    Some(inner.unwrap_or(error).clone())
}

/// Kind, words and time to wait. The status of the response counts before the code in the body.
fn judge(error: &Value, status: Option<u16>) -> Error {
    let words = error.get("message").and_then(Value::as_str).map_or_else(|| error.to_string(), str::to_owned);
    let code = status.or_else(|| code_of(error));
    if is_bad_key(error, &words) {
        return failure::of_kind(ErrorKind::Auth, "the provider does not accept the credentials", &words);
    }
    if matches!(code, None | Some(400 | 413 | 500)) && failure::says_too_long(&words) {
        return failure::of_kind(ErrorKind::ContextTooLong, "the conversation does not fit the model", &words);
    }
    if code == Some(429) && is_spent(error, &words) {
        let what = "the quota of the day or the credit at the provider is used up; waiting does not help";
        return failure::of_kind(ErrorKind::BadRequest, what, &words);
    }
    match code {
        Some(code) => failure::of_status(code, delay_of(error), &words),
        None => failure::of_kind(ErrorKind::BadRequest, "the provider reports an error", &words),
    }
}

/// The HTTP status of an error by its own code, or by the name of it (google/rpc/code.proto).
fn code_of(error: &Value) -> Option<u16> {
    let number = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
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

/// A key that is wrong or expired is a bad request to Google, told apart by its reason.
fn is_bad_key(error: &Value, words: &str) -> bool {
    let is_reason = |detail: &Value| {
        detail.get("reason").and_then(Value::as_str).is_some_and(|reason| reason.starts_with("API_KEY_"))
    };
    details_of(error).any(is_reason) || ["API key not valid", "API key expired"].iter().any(|said| words.contains(said))
}

/// A quota that is counted by the day, or paid for in advance. Those by the minute come back soon.
fn is_spent(error: &Value, words: &str) -> bool {
    let violations = details_of(error).filter_map(|detail| detail.get("violations")?.as_array()).flatten();
    let mut ids = violations.filter_map(|violation| violation.get("quotaId")?.as_str());
    ids.any(|id| id.contains("PerDay")) || words.contains("credits are depleted")
}

/// Whole seconds to wait, rounded up, as `"17s"` or `"17.5s"` says it (google.protobuf.Duration).
fn delay_of(error: &Value) -> Option<u32> {
    let text = details_of(error).find_map(|detail| detail.get("retryDelay")?.as_str())?;
    let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
    // A cast from a float stays within the bounds of the type, whatever the server has written.
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
    fn a_key_that_is_not_valid_is_a_matter_of_credentials_although_the_status_is_400() {
        let reason = r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}"#;
        assert_eq!(of_response(400, &with_details(400, "no", reason)).kind, ErrorKind::Auth);
        let words = "API key not valid. Please pass a valid API key.";
        assert_eq!(of_response(400, &with_details(400, words, "")).kind, ErrorKind::Auth);
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
    fn a_quota_of_the_day_is_not_waited_for() {
        let violation = |id: &str| format!(r#"{{"violations":[{{"quotaId":"{id}"}}]}},{{"retryDelay":"3s"}}"#);
        let minute = with_details(429, "You exceeded your current quota", &violation("RequestsPerMinutePerProject"));
        assert_eq!(of_response(429, &minute).kind, ErrorKind::RateLimited);
        let day = with_details(429, "You exceeded your current quota", &violation("RequestsPerDayPerProject"));
        assert_eq!(of_response(429, &day).kind, ErrorKind::BadRequest);
    }

    #[test]
    fn google_s_words_for_a_conversation_that_is_too_long_are_known() {
        for words in [
            "The input token count (1091639) exceeds the maximum number of tokens allowed (1048576).",
            "The input token count exceeds the maximum number of tokens allowed 1048576.",
        ] {
            assert_eq!(of_response(400, &with_details(400, words, "")).kind, ErrorKind::ContextTooLong);
        }
    }

    #[test]
    fn the_name_of_a_status_counts_where_there_is_no_number() {
        let kind = |status: &str| of_event(&format!(r#"{{"error":{{"message":"m","status":"{status}"}}}}"#)).kind;
        assert_eq!(kind("UNAVAILABLE"), ErrorKind::Overloaded);
        assert_eq!(kind("RESOURCE_EXHAUSTED"), ErrorKind::RateLimited);
        assert_eq!(kind("PERMISSION_DENIED"), ErrorKind::Auth);
        assert_eq!(kind("ELSE"), ErrorKind::BadRequest);
    }
}
