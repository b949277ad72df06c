//! The error objects of all servers, as errors with a kind.
//!
//! | server | shape |
//! |---|---|
//! | Anthropic | `{"type":"error","error":{"type":"overloaded_error","message"},"request_id"}` |
//! | OpenAI, DeepSeek | `{"error":{"message","type","param","code":"text"}}` |
//! | OpenAI, in a stream of Responses | `{"type":"error","code","message"}`, or `{"response":{"error":{"code","message"}}}` |
//! | llama.cpp | `{"error":{"message","type","code":400,"n_ctx":4096}}` |
//! | vLLM | the same, or `{"object":"error","message","type","code":400}` |
//! | OpenRouter | `{"error":{"message","code":429,"metadata":{"raw","provider_name","reasons"}}}` |
//! | Ollama, proxies | `{"error":"text"}` |
//! | FastAPI | `{"detail":"text"}` or `{"detail":[{"loc","msg"}]}` |
//! | Google | any of these in a list |

use serde_json::Value;

use crate::base::error::{Error, ErrorKind};
use crate::provider::failure;
use crate::provider::sse::Sse;

#[derive(Debug, Default)]
struct ErrorObject {
    text: String,
    /// `type`, `code` and Google's `status`, lower case.
    labels: Vec<String>,
    /// The field of the request that it concerns.
    field: String,
    /// Its code, if that is an HTTP status.
    status: Option<u16>,
    is_moderation: bool,
}

pub(super) fn of_response(status: u16, body: &str) -> Error {
    let plain = || ErrorObject { text: failure::text_of(body), ..ErrorObject::default() };
    let object = object_in(body).map_or_else(plain, |object| read(&object));
    classify(&object, Some(status))
}

/// The error of an event in a stream: an error object, or unexpected data.
pub(super) fn of_event(data: &str) -> Error {
    match object_in(data) {
        Some(object) => classify(&read(&object), None),
        None => failure::of_kind(ErrorKind::Protocol, "unexpected data in the reply", data),
    }
}

/// The error of a successful response without a reply.
pub(super) fn of_body(body: &str) -> Error {
    match object_in(body) {
        Some(object) => classify(&read(&object), None),
        None => failure::of_no_reply(body),
    }
}

/// The error object in a body: JSON, a list of it, or the first such event of a stream.
fn object_in(body: &str) -> Option<Value> {
    let object = match serde_json::from_str::<Value>(body).ok().or_else(|| object_in_stream(body))? {
        Value::Array(list) => list.into_iter().next()?,
        other => other,
    };
    is_error(&object).then_some(object)
}

fn is_error(object: &Value) -> bool {
    let pointers = ["/error", "/response/error", "/detail", "/message"];
    pointers.iter().any(|path| object.pointer(path).is_some_and(|there| !there.is_null()))
}

fn object_in_stream(body: &str) -> Option<Value> {
    let mut found = None;
    let mut keep = |data: &str| {
        let object = serde_json::from_str::<Value>(data).ok().filter(is_error);
        found = found.take().or(object);
    };
    let mut sse = Sse::default();
    sse.feed(body.as_bytes(), |event| keep(&event.data)).ok()?;
    sse.end(|event| keep(&event.data)).ok()?;
    found
}

fn read(object: &Value) -> ErrorObject {
    let pointers = ["/error", "/response/error"];
    let inner = pointers.iter().find_map(|path| object.pointer(path).filter(|there| !there.is_null()));
    let error = inner.unwrap_or(object);
    let mut object = ErrorObject { text: message_of(error), ..ErrorObject::default() };
    for name in ["type", "code", "status"] {
        match error.get(name) {
            Some(Value::Number(code)) => object.status = code.as_u64().and_then(status_of),
            Some(Value::String(label)) => {
                object.status = object.status.or_else(|| status_of(label.parse().ok()?));
                object.labels.push(label.to_lowercase());
            }
            _ => {}
        }
    }
    error.get("param").and_then(Value::as_str).unwrap_or_default().clone_into(&mut object.field);
    object.is_moderation = error.pointer("/metadata/reasons").is_some();
    object
}

fn status_of(code: u64) -> Option<u16> {
    u16::try_from(code).ok().filter(|code| (400..600).contains(code))
}

/// The message, wherever it is, and the upstream message that OpenRouter adds.
fn message_of(error: &Value) -> String {
    let message = error.as_str().or_else(|| error.get("message")?.as_str());
    let mut text = message.map(str::to_owned).unwrap_or_else(|| detail_of(error));
    // Older llama.cpp has the numbers only in separate fields.
    if let (Some(tokens), Some(context)) = (error["n_prompt_tokens"].as_u64(), error["n_ctx"].as_u64())
        && !text.contains(&tokens.to_string())
    {
        text = format!("{text} ({tokens} tokens; the limit is {context})");
    }
    if let Some(raw) = error.pointer("/metadata/raw").and_then(Value::as_str) {
        let inner = object_in(raw).map_or_else(|| raw.to_owned(), |object| read_inner(&object));
        text = format!("{text}: {inner}");
    }
    text
}

/// The message of an upstream error; only one level is read.
fn read_inner(object: &Value) -> String {
    let error = object.get("error").unwrap_or(object);
    let message = error.as_str().or_else(|| error.get("message")?.as_str());
    message.map_or_else(|| error.to_string(), str::to_owned)
}

fn detail_of(error: &Value) -> String {
    match error.get("detail") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(list)) => list.iter().map(validation_error).collect::<Vec<_>>().join("; "),
        _ => error.to_string(),
    }
}

/// `body.messages.0: field required`
fn validation_error(error: &Value) -> String {
    let loc = error.get("loc").and_then(Value::as_array).into_iter().flatten();
    let path: Vec<String> = loc.map(|step| step.as_str().map_or_else(|| step.to_string(), str::to_owned)).collect();
    let text = error.get("msg").and_then(Value::as_str).unwrap_or("not valid");
    format!("{}: {text}", path.join("."))
}

/// Kind and message. The status of the response counts before a code in the body.
fn classify(object: &ErrorObject, status: Option<u16>) -> Error {
    let code = status.or(object.status);
    let has = |parts: &[&str]| object.labels.iter().any(|label| parts.iter().any(|part| label.contains(part)));
    if is_out_of_credit(object, &has) {
        let what = "the provider account has no credit left; waiting does not help";
        return failure::of_kind(ErrorKind::BadRequest, what, &object.text);
    }
    if is_too_long(object, code) {
        return failure::of_kind(
            ErrorKind::ContextTooLong,
            "the conversation exceeds the model's context window",
            &object.text,
        );
    }
    if object.is_moderation || has(&["content_filter", "content_policy", "moderation", "invalid_prompt"]) {
        return failure::of_kind(ErrorKind::Refused, "refused by the provider's content filter", &object.text);
    }
    if let Some((kind, what)) = failure::refused_tools(&object.text) {
        return failure::of_kind(kind, what, &object.text);
    }
    if let Some(what) = advice(object).filter(|_| matches!(code, None | Some(400 | 422))) {
        return failure::of_kind(ErrorKind::BadRequest, what, &object.text);
    }
    let error = match code {
        Some(code) => failure::of_status(code, None, &object.text),
        None => failure::of_kind(kind_of_labels(&has), "the provider reported an error", &object.text),
    };
    let is_limited = error.kind == ErrorKind::RateLimited;
    Error { retry_after: is_limited.then(|| failure::wait_in(&object.text)).flatten(), ..error }
}

/// Google reports an exceeded quota per minute in the same way.
fn is_out_of_credit(object: &ErrorObject, has: &impl Fn(&[&str]) -> bool) -> bool {
    let marks = ["exceeded your current quota", "used all available credits"];
    has(&["insufficient_quota", "exceeded_current_quota", "billing"])
        || marks.iter().any(|mark| object.text.contains(mark)) && !has(&["resource_exhausted"])
}

/// What to do about a parameter that the model does not support.
fn advice(object: &ErrorObject) -> Option<&'static str> {
    let mentions = |marks: &[&str]| marks.iter().any(|mark| object.text.contains(mark) || object.field == *mark);
    if mentions(&["reasoning_effort", "reasoning.effort", "reasoning.summary", "reasoning effort"]) {
        return Some("the model does not support this thinking level; try /thinking default");
    }
    if mentions(&["reasoning_content", "reasoning_details", "thinking_blocks", "'reasoning'"]) {
        let is_missing = ["passed back", "issing"].iter().any(|mark| object.text.contains(mark));
        return Some(if is_missing {
            "the server requires the reasoning of earlier replies; set send_reasoning = \"reasoning_content\" for the provider"
        } else {
            "the server does not accept the reasoning of earlier replies; set send_reasoning = \"off\" for the provider"
        });
    }
    let is_unsupported = mentions(&["Encrypted content is not supported"]);
    is_unsupported.then_some("this model does not support reasoning; use it over Chat Completions (kind = \"openai\")")
}

/// For errors without a numeric status. One without a known label is not retried.
fn kind_of_labels(has: &impl Fn(&[&str]) -> bool) -> ErrorKind {
    if has(&["rate_limit", "too_many_requests"]) {
        ErrorKind::RateLimited
    } else if has(&["overloaded", "server_error", "api_error", "unavailable", "internal"]) {
        ErrorKind::Overloaded
    } else if has(&["timeout"]) {
        ErrorKind::Timeout
    } else if has(&["authentication", "api_key", "permission"]) {
        ErrorKind::Auth
    } else {
        ErrorKind::BadRequest
    }
}

/// Messages of a 429 ("tokens per minute") and a 404 may mention tokens and contexts too. A request that exceeds all
/// tokens of a minute counts as too long.
fn is_too_long(object: &ErrorObject, code: Option<u16>) -> bool {
    let may_be = matches!(code, None | Some(400 | 413 | 422 | 500));
    let mentions_limit = || {
        failure::mentions_context_limit(&object.text)
            || object.labels.iter().any(|label| failure::mentions_context_limit(label))
    };
    may_be && mentions_limit() || code == Some(429) && object.text.starts_with("Request too large for")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, body: &str) -> Error {
        of_response(status, body)
    }

    #[test]
    fn the_message_of_every_shape_is_found() {
        let bodies = [
            r#"{"error":{"message":"bad thing","type":"invalid_request_error","param":null,"code":null}}"#,
            r#"{"error":{"code":400,"message":"bad thing","type":"invalid_request_error"}}"#,
            r#"{"object":"error","message":"bad thing","type":"BadRequestError","param":null,"code":400}"#,
            r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"bad thing\"}}"}}}"#,
            r#"{"error":"bad thing"}"#,
            r#"{"detail":"bad thing"}"#,
            r#"{"detail":[{"loc":["body","model"],"msg":"bad thing","type":"missing"}]}"#,
            r#"[{"error":{"message":"bad thing","code":400,"status":"INVALID_ARGUMENT"}}]"#,
            "data: {\"error\":{\"message\":\"bad thing\"}}\n\n",
            "bad thing",
            "<html><head><TITLE>bad thing</TITLE></head></html>",
        ];
        for body in bodies {
            let error = response(400, body);
            assert_eq!(error.kind, ErrorKind::BadRequest, "{body}");
            assert!(error.message.contains("bad thing"), "{body} -> {}", error.message);
            assert!(!error.message.contains(['{', '<']), "{}", error.message);
        }
    }

    #[test]
    fn every_servers_message_for_a_too_long_conversation_is_known() {
        let bodies = [
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            r#"{"error":{"message":"too big","code":"context_length_exceeded"}}"#,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":8}}"#,
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. Please reduce the length of the messages.","type":"BadRequestError","code":400}"#,
            r#"{"error":{"message":"This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens.","code":400}}"#,
        ];
        for body in bodies {
            assert_eq!(response(400, body).kind, ErrorKind::ContextTooLong, "{body}");
            assert_eq!(of_event(body).kind, ErrorKind::ContextTooLong, "{body}");
            assert_eq!(response(429, body).kind, ErrorKind::RateLimited, "{body}");
        }
    }

    /// DeepSeek, Moonshot, Groq.
    #[test]
    fn a_refusal_about_reasoning_names_the_setting() {
        for (text, setting) in [
            ("The `reasoning_content` in the thinking mode must be passed back to the API.", "\"reasoning_content\""),
            (
                "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
                "\"reasoning_content\"",
            ),
            ("Missing `reasoning_content` field in the assistant message at message index 1", "\"reasoning_content\""),
            ("'messages.2' : for 'role:assistant' property 'reasoning_content' is unsupported", "\"off\""),
        ] {
            let error = response(400, &format!("{{\"error\":{{\"message\":\"{text}\"}}}}"));
            assert_eq!(error.kind, ErrorKind::BadRequest);
            assert!(error.message.contains(&format!("send_reasoning = {setting}")), "{}", error.message);
        }
    }

    #[test]
    fn an_account_without_credit_is_not_retried() {
        let body = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#;
        let error = response(429, body);
        assert!(!error.kind.is_transient(), "{error:?}");
        assert!(error.message.contains("no credit left"));
    }

    #[test]
    fn a_flagged_input_is_refused_and_not_an_auth_error() {
        let body = r#"{"error":{"code":403,"message":"flagged","metadata":{"reasons":["violence"]}}}"#;
        assert_eq!(response(403, body).kind, ErrorKind::Refused);
        assert_eq!(response(403, "{}").kind, ErrorKind::Auth);
    }

    #[test]
    fn labels_and_numbers_decide_where_the_status_was_a_success() {
        let kinds = [
            (r#""type":"server_error""#, ErrorKind::Overloaded),
            (r#""code":"rate_limit_exceeded""#, ErrorKind::RateLimited),
            (r#""code":502"#, ErrorKind::Overloaded),
            (r#""code":"429""#, ErrorKind::RateLimited),
            (r#""code":"invalid_api_key""#, ErrorKind::Auth),
            (r#""type":"who knows""#, ErrorKind::BadRequest),
        ];
        for (field, kind) in kinds {
            assert_eq!(of_event(&format!("{{\"error\":{{\"message\":\"m\",{field}}}}}")).kind, kind, "{field}");
        }
    }
}
