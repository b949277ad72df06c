//! The JSON-RPC 2.0 messages that a client of MCP needs. Unknown fields are ignored, missing ones are empty.

use serde_json::{Map, Value, json};

/// The revision of the newer era.
pub const MODERN: &str = "2026-07-28";
/// The revision of the older era that is asked for, and those that are accepted.
pub const LEGACY: &str = "2025-11-25";
pub const LEGACY_ACCEPTED: [&str; 5] = [LEGACY, "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];

/// Ends the handshake of the older era.
pub const INITIALIZED: &str = "notifications/initialized";

/// The revision is not supported; `data.supported` lists those that are (MCP 2026-07-28).
pub const UNSUPPORTED_VERSION: i64 = -32022;
/// Errors of the newer era: header mismatch, missing capability, unsupported revision.
const MODERN_ERRORS: [i64; 3] = [-32020, -32021, UNSUPPORTED_VERSION];

/// A message for a server.
#[derive(Debug, Clone, PartialEq)]
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
}

impl Message {
    pub fn request(id: u64, method: &str, params: &Value) -> Self {
        let text = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        let subject = params["name"].as_str().or_else(|| params["uri"].as_str()).map(str::to_owned);
        Self { text, method: method.into(), id: Some(id), subject, headers: Vec::new() }
    }

    pub fn notification(method: &str, params: Option<&Value>) -> Self {
        let mut message = Map::from_iter([("jsonrpc".into(), "2.0".into()), ("method".into(), method.into())]);
        message.extend(params.map(|params| ("params".into(), params.clone())));
        Self {
            text: Value::Object(message).to_string(),
            method: method.into(),
            id: None,
            subject: None,
            headers: Vec::new(),
        }
    }

    /// The result of a request of the server.
    pub fn response(id: &Value, result: &Value) -> Self {
        let text = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        Self { text, method: String::new(), id: None, subject: None, headers: Vec::new() }
    }

    /// The answer to a request of the server: an empty result for `ping`, otherwise that the method is unknown.
    pub fn answer(id: &Value, method: &str) -> Self {
        let text = match method {
            "ping" => json!({"jsonrpc": "2.0", "id": id, "result": {}}),
            _ => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}}),
        };
        Self { text: text.to_string(), method: String::new(), id: None, subject: None, headers: Vec::new() }
    }
}

/// A message of a server.
#[derive(Debug, Clone, PartialEq)]
pub enum Received {
    /// The answer to our request of this number.
    Answer(u64, Result<Value, Failure>),
    /// A request, which has to be answered.
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// An error without a request; HTTP servers send it for messages that they do not understand.
    Error(Failure),
}

/// An error that a server has answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub code: i64,
    pub message: String,
    pub data: Value,
}

impl Failure {
    /// Whether only a server of the newer era answers so.
    pub fn is_modern(&self) -> bool {
        MODERN_ERRORS.contains(&self.code)
    }

    /// The revisions that the server supports, if it says so.
    pub fn supports(&self, revision: &str) -> bool {
        self.data["supported"].as_array().is_some_and(|list| list.iter().any(|entry| entry == revision))
    }
}

/// The messages in a line: one, or several in a list. `None` if the line is not a message.
pub fn parse(text: &[u8]) -> Option<Vec<Received>> {
    match serde_json::from_slice(text).ok()? {
        Value::Array(messages) => messages.into_iter().map(received).collect(),
        message => Some(vec![received(message)?]),
    }
}

fn received(message: Value) -> Option<Received> {
    let Value::Object(mut message) = message else { return None };
    let id = message.remove("id").unwrap_or_default();
    if let Some(Value::String(method)) = message.remove("method") {
        let params = message.remove("params").unwrap_or_default();
        return Some(match id {
            Value::Null => Received::Notification { method, params },
            id => Received::Request { id, method, params },
        });
    }
    let result = match (message.remove("error"), message.remove("result")) {
        (Some(error), _) => Err(Failure {
            code: error["code"].as_i64().unwrap_or_default(),
            message: error["message"].as_str().unwrap_or("no message").to_owned(),
            data: error["data"].clone(),
        }),
        (None, Some(result)) => Ok(result),
        (None, None) => return None,
    };
    match (id.as_u64(), result) {
        (Some(id), result) => Some(Received::Answer(id, result)),
        (None, Err(failure)) => Some(Received::Error(failure)),
        (None, Ok(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_message_is_recognised() {
        let one = |text: &str| parse(text.as_bytes()).map(|mut messages| messages.remove(0));
        assert_eq!(one(r#"{"id":1,"result":{}}"#), Some(Received::Answer(1, Ok(json!({})))));
        let method = String::from("ping");
        let params = Value::Null;
        assert_eq!(one(r#"{"id":0,"method":"ping"}"#), Some(Received::Request { id: json!(0), method, params }));
        let Some(Received::Error(failure)) = one(r#"{"error":{"code":-32000,"message":"no"},"id":null}"#) else {
            panic!("an error without a number")
        };
        assert_eq!((failure.code, &*failure.message, failure.is_modern()), (-32000, "no", false));
        for garbage in ["", "x", "1", "[1]", "{}", r#"{"id":1}"#, r#"{"id":"a","result":1}"#] {
            assert_eq!(one(garbage), None, "{garbage}");
        }
    }
}
