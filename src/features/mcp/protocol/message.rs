//! The messages that a client of MCP needs. Unknown fields are ignored, missing ones are empty.

use serde_json::{Value, json};

use crate::base::json_rpc::{self, Fault, Incoming, UNKNOWN_METHOD};
pub use crate::domain::mcp::{LEGACY, MODERN};

/// The revisions of the older era that are accepted.
pub const LEGACY_ACCEPTED: [&str; 5] = [LEGACY, "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];

/// Ends the handshake of the older era.
pub const INITIALIZED: &str = "notifications/initialized";

/// The revision is not supported; `data.supported` lists those that are (MCP 2026-07-28).
pub const UNSUPPORTED_VERSION: i64 = -32022;
/// Errors of the newer era: header mismatch, missing capability, unsupported revision.
const MODERN_ERRORS: [i64; 3] = [-32020, -32021, UNSUPPORTED_VERSION];

/// A message for a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Message {
    /// The whole message as one line of JSON, without the line's end.
    pub text: String,
    /// The method of a request or a notification; empty for an answer.
    pub method: String,
    /// The number of a request.
    pub id: Option<u64>,
    /// The tool, prompt or resource that a request is about.
    pub subject: Option<String>,
    /// HTTP headers with arguments of a call.
    pub headers: Vec<(String, String)>,
    /// The server has refused it once for want of a login.
    pub was_refused: bool,
}

impl Message {
    pub fn request(id: u64, method: &str, params: &Value) -> Self {
        let subject = params["name"].as_str().or_else(|| params["uri"].as_str()).map(str::to_owned);
        let text = json_rpc::request(id, method, params);
        Self { text, method: method.into(), id: Some(id), subject, ..Self::default() }
    }

    pub fn notification(method: &str, params: &Value) -> Self {
        Self { text: json_rpc::notification(method, params), method: method.into(), ..Self::default() }
    }

    /// The result of a request of the server.
    pub fn response(id: &Value, result: &Value) -> Self {
        Self { text: json_rpc::response(id, result), ..Self::default() }
    }

    /// The answer to a request of the server: an empty result for `ping`, otherwise that the method is unknown.
    pub fn answer(id: &Value, method: &str) -> Self {
        if method == "ping" {
            return Self::response(id, &json!({}));
        }
        Self { text: json_rpc::error(id, &Fault::new(UNKNOWN_METHOD, "Method not found")), ..Self::default() }
    }
}

/// Whether only a server of the newer era gives such an error.
pub fn is_modern(fault: &Fault) -> bool {
    MODERN_ERRORS.contains(&fault.code)
}

/// Whether the server says in this error that it supports a revision.
pub fn supports(fault: &Fault, revision: &str) -> bool {
    fault.data["supported"].as_array().is_some_and(|list| list.iter().any(|entry| entry == revision))
}

/// The messages in a line: one, or several in a list. `None` if one of them is not a message.
pub fn parse(text: &[u8]) -> Option<Vec<Incoming>> {
    match serde_json::from_slice(text).ok()? {
        Value::Array(messages) => messages.into_iter().map(|message| json_rpc::parse(message).ok()).collect(),
        message => Some(vec![json_rpc::parse(message).ok()?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_message_is_recognised() {
        let one = |text: &str| parse(text.as_bytes()).map(|mut messages| messages.remove(0));
        assert_eq!(one(r#"{"id":1,"result":{}}"#), Some(Incoming::Response { id: json!(1), result: Ok(json!({})) }));
        let method = String::from("ping");
        let params = Value::Null;
        assert_eq!(one(r#"{"id":0,"method":"ping"}"#), Some(Incoming::Request { id: json!(0), method, params }));
        let Some(Incoming::Response { id: Value::Null, result: Err(fault) }) =
            one(r#"{"error":{"code":-32000,"message":"no"},"id":null}"#)
        else {
            panic!("an error without a number")
        };
        assert_eq!((fault.code, &*fault.message, is_modern(&fault)), (-32000, "no", false));
        for garbage in ["", "x", "1", "[1]", "{}", r#"{"id":1}"#] {
            assert_eq!(one(garbage), None, "{garbage}");
        }
    }
}
