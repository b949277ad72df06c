//! The error objects of all servers, in plain words.
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

/// What an error object says.
#[derive(Debug, Default)]
struct Said {
    words: String,
    /// `type`, `code` and Google's `status`, lower case.
    labels: Vec<String>,
    /// Which field of the request it is about.
    field: String,
    /// A code that is an HTTP status.
    status: Option<u16>,
    is_moderation: bool,
}

/// The error of a response whose status is no success.
pub(super) fn of_response(status: u16, body: &str) -> Error {
    let prose = || Said { words: failure::prose_of(body), ..Said::default() };
    let said = object_in(body).map_or_else(prose, |object| read(&object));
    judge(&said, Some(status))
}

/// The error of an event in a stream: an error object, or something that is no chunk at all.
pub(super) fn of_event(data: &str) -> Error {
    match object_in(data) {
        Some(object) => judge(&read(&object), None),
        None => failure::of_kind(ErrorKind::Protocol, "the server sent what is no part of a reply", data),
    }
}

/// The error of a successful response that holds no reply.
pub(super) fn of_body(body: &str) -> Error {
    match object_in(body) {
        Some(object) => judge(&read(&object), None),
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
    let places = ["/error", "/response/error", "/detail", "/message"];
    places.iter().any(|place| object.pointer(place).is_some_and(|there| !there.is_null()))
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

fn read(object: &Value) -> Said {
    let places = ["/error", "/response/error"];
    let inner = places.iter().find_map(|place| object.pointer(place).filter(|there| !there.is_null()));
    let error = inner.unwrap_or(object);
    let mut said = Said { words: words_of(error), ..Said::default() };
    for name in ["type", "code", "status"] {
        match error.get(name) {
            Some(Value::Number(code)) => said.status = code.as_u64().and_then(status_of),
            Some(Value::String(label)) => {
                said.status = said.status.or_else(|| status_of(label.parse().ok()?));
                said.labels.push(label.to_lowercase());
            }
            _ => {}
        }
    }
    error.get("param").and_then(Value::as_str).unwrap_or_default().clone_into(&mut said.field);
    said.is_moderation = error.pointer("/metadata/reasons").is_some();
    said
}

fn status_of(code: u64) -> Option<u16> {
    u16::try_from(code).ok().filter(|code| (400..600).contains(code))
}

/// The message, wherever it stands, and what OpenRouter passes on from behind.
fn words_of(error: &Value) -> String {
    let message = error.as_str().or_else(|| error.get("message")?.as_str());
    let mut words = message.map(str::to_owned).unwrap_or_else(|| detail_of(error));
    // Older llama.cpp has the numbers beside its words only.
    if let (Some(tokens), Some(context)) = (error["n_prompt_tokens"].as_u64(), error["n_ctx"].as_u64())
        && !words.contains(&tokens.to_string())
    {
        words = format!("{words} ({tokens} tokens, where {context} fit)");
    }
    if let Some(raw) = error.pointer("/metadata/raw").and_then(Value::as_str) {
        let inner = object_in(raw).map_or_else(|| raw.to_owned(), |object| read_inner(&object));
        words = format!("{words}: {inner}");
    }
    words
}

/// One level down only: what stands there is another server's answer, without metadata of its own.
fn read_inner(object: &Value) -> String {
    let error = object.get("error").unwrap_or(object);
    let message = error.as_str().or_else(|| error.get("message")?.as_str());
    message.map_or_else(|| error.to_string(), str::to_owned)
}

fn detail_of(error: &Value) -> String {
    match error.get("detail") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(list)) => list.iter().map(complaint_of).collect::<Vec<_>>().join("; "),
        _ => error.to_string(),
    }
}

/// `body.messages.0: field required`
fn complaint_of(complaint: &Value) -> String {
    let loc = complaint.get("loc").and_then(Value::as_array).into_iter().flatten();
    let place: Vec<String> = loc.map(|step| step.as_str().map_or_else(|| step.to_string(), str::to_owned)).collect();
    let words = complaint.get("msg").and_then(Value::as_str).unwrap_or("not valid");
    format!("{}: {words}", place.join("."))
}

/// Kind and words. The status of the response counts before a code in the body.
fn judge(said: &Said, status: Option<u16>) -> Error {
    let code = status.or(said.status);
    let has = |parts: &[&str]| said.labels.iter().any(|label| parts.iter().any(|part| label.contains(part)));
    if is_out_of_credit(said, &has) {
        let what = "the account at the provider has no credit left; waiting does not help";
        return failure::of_kind(ErrorKind::BadRequest, what, &said.words);
    }
    if is_too_long(said, code) {
        return failure::of_kind(ErrorKind::ContextTooLong, "the conversation does not fit the model", &said.words);
    }
    if said.is_moderation || has(&["content_filter", "content_policy", "moderation", "invalid_prompt"]) {
        return failure::of_kind(ErrorKind::Refused, "the provider's content filter refused", &said.words);
    }
    if let Some(what) = way_out(said).filter(|_| matches!(code, None | Some(400 | 422))) {
        return failure::of_kind(ErrorKind::BadRequest, what, &said.words);
    }
    let error = match code {
        Some(code) => failure::of_status(code, None, &said.words),
        None => failure::of_kind(kind_of_labels(&has), "the provider reports an error", &said.words),
    };
    let is_told = error.kind == ErrorKind::RateLimited;
    Error { retry_after: is_told.then(|| failure::wait_in(&said.words)).flatten(), ..error }
}

/// Google says that the quota is exceeded also where it is that of the minute.
fn is_out_of_credit(said: &Said, has: &impl Fn(&[&str]) -> bool) -> bool {
    let words = ["exceeded your current quota", "used all available credits"];
    has(&["insufficient_quota", "exceeded_current_quota", "billing"])
        || words.iter().any(|mark| said.words.contains(mark)) && !has(&["resource_exhausted"])
}

/// What a person can do about a request that the model does not take as it is.
fn way_out(said: &Said) -> Option<&'static str> {
    let speaks_of = |marks: &[&str]| marks.iter().any(|mark| said.words.contains(mark) || said.field == *mark);
    if speaks_of(&["reasoning_effort", "reasoning.effort", "reasoning.summary", "reasoning effort"]) {
        return Some("the model does not take this amount of thinking; /thinking default says nothing about it");
    }
    let is_sealed = speaks_of(&["Encrypted content is not supported"]);
    is_sealed.then_some("this model does not reason; it is to be asked by Chat Completions (kind = \"openai\")")
}

/// Where neither status nor code is a number. An unlabelled error would only come again.
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

/// "Tokens per minute" of a 429 and "not found" of a 404 also speak of tokens and contexts. A request that no minute has
/// enough tokens for is too long all the same.
fn is_too_long(said: &Said, code: Option<u16>) -> bool {
    let may_be = matches!(code, None | Some(400 | 413 | 422 | 500));
    let says = || failure::says_too_long(&said.words) || said.labels.iter().any(|label| failure::says_too_long(label));
    may_be && says() || code == Some(429) && said.words.starts_with("Request too large for")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, body: &str) -> Error {
        of_response(status, body)
    }

    #[test]
    fn the_words_of_every_shape_are_found() {
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
    fn every_server_s_words_for_a_conversation_that_is_too_long_are_known() {
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

    #[test]
    fn an_account_without_credit_is_not_asked_to_wait() {
        let body = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#;
        let error = response(429, body);
        assert!(!error.kind.is_transient(), "{error:?}");
        assert!(error.message.contains("no credit left"));
    }

    #[test]
    fn a_flagged_input_is_refused_and_not_a_matter_of_credentials() {
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
