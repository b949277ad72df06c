//! JSON-RPC 2.0 as the Agent Client Protocol and the Model Context Protocol use it, in both directions.

use serde_json::{Value, json};

use crate::base::error::{Error, ErrorKind};

/// A message of the other side.
#[derive(Debug, PartialEq)]
pub enum Incoming {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// The answer to a request of ours. An error may come without an id.
    Response {
        id: Value,
        result: Result<Value, Fault>,
    },
}

/// An error object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub code: i64,
    pub message: String,
    /// For programs; null: nothing.
    pub data: Value,
}

pub const PARSE: i64 = -32700;
pub const INVALID_REQUEST: i64 = -32600;
pub const UNKNOWN_METHOD: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const INTERNAL: i64 = -32603;
pub const AUTH_REQUIRED: i64 = -32000;
pub const NOT_FOUND: i64 = -32002;

impl Fault {
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: Value::Null }
    }

    pub fn params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    /// An error of this program. `kind` is its stable name.
    pub fn of_kind(kind: &str, message: impl Into<String>) -> Self {
        let codes = [(ErrorKind::Usage, INVALID_PARAMS), (ErrorKind::Auth, AUTH_REQUIRED)];
        let code = codes.iter().find(|(known, _)| known.name() == kind).map_or(INTERNAL, |(_, code)| *code);
        Self { code, message: message.into(), data: json!({"kind": kind}) }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::of_kind(error.kind.name(), error.message)
    }
}

/// Reads one line. An error comes with the id of the message, or null.
pub fn read(line: &[u8]) -> Result<Incoming, (Value, Fault)> {
    let message = serde_json::from_slice(line)
        .map_err(|error| (Value::Null, Fault::new(PARSE, format!("the message is not JSON: {error}"))))?;
    parse(message)
}

/// Reads one message, as [`read`] does.
pub fn parse(message: Value) -> Result<Incoming, (Value, Fault)> {
    let Value::Object(mut message) = message else {
        return Err((Value::Null, Fault::new(INVALID_REQUEST, "expected one JSON object: batches are not supported")));
    };
    let id = message.remove("id");
    let is_id = |id: &Value| id.is_string() || id.is_number() || id.is_null();
    if id.as_ref().is_some_and(|id| !is_id(id)) {
        return Err((Value::Null, Fault::new(INVALID_REQUEST, "`id` must be a string or a number")));
    }
    let params = message.remove("params").unwrap_or_default();
    match (message.remove("method").filter(|method| !method.is_null()), id) {
        (Some(Value::String(method)), Some(id)) => Ok(Incoming::Request { id, method, params }),
        (Some(Value::String(method)), None) => Ok(Incoming::Notification { method, params }),
        (None, id) => match (message.remove("result"), message.remove("error"), id) {
            (_, Some(error), id) => Ok(Incoming::Response { id: id.unwrap_or_default(), result: Err(fault(error)) }),
            (Some(result), None, Some(id)) => Ok(Incoming::Response { id, result: Ok(result) }),
            (_, None, id) => {
                let why = "the message has no `method`, and no `id` with a `result` or an `error`";
                Err((id.unwrap_or_default(), Fault::new(INVALID_REQUEST, why)))
            }
        },
        (Some(_), id) => Err((id.unwrap_or_default(), Fault::new(INVALID_REQUEST, "`method` must be a string"))),
    }
}

fn fault(mut error: Value) -> Fault {
    let message = error["message"].as_str().unwrap_or("unknown error").to_owned();
    let code = error["code"].as_i64().unwrap_or(INTERNAL);
    Fault { code, message, data: error.get_mut("data").map(Value::take).unwrap_or_default() }
}

pub fn response(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

pub fn error(id: &Value, fault: &Fault) -> String {
    let mut error = json!({"code": fault.code, "message": fault.message});
    if !fault.data.is_null() {
        error["data"] = fault.data.clone();
    }
    json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
}

/// `params` that are null are left out.
pub fn notification(method: &str, params: &Value) -> String {
    let mut message = json!({"jsonrpc": "2.0", "method": method});
    if !params.is_null() {
        message["params"] = params.clone();
    }
    message.to_string()
}

pub fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart_and_others_get_an_error() {
        let read = |line: &str| read(line.as_bytes());
        assert!(matches!(read(r#"{"id":"a","method":"m"}"#), Ok(Incoming::Request { id, .. }) if id == "a"));
        assert!(matches!(read(r#"{"method":"m","params":[1]}"#), Ok(Incoming::Notification { .. })));
        assert!(matches!(read(r#"{"id":7,"result":null}"#), Ok(Incoming::Response { result: Ok(Value::Null), .. })));
        let refused = read(r#"{"id":7,"error":{"code":-1,"message":"no"}}"#);
        assert!(matches!(refused, Ok(Incoming::Response { result: Err(fault), .. }) if fault == Fault::new(-1, "no")));
        for (line, id, code) in [
            ("nonsense", Value::Null, PARSE),
            ("\u{feff}{}", Value::Null, PARSE),
            ("[]", Value::Null, INVALID_REQUEST),
            (r#"{"id":{},"method":"m"}"#, Value::Null, INVALID_REQUEST),
            (r#"{"id":3,"method":4}"#, json!(3), INVALID_REQUEST),
            (r#"{"id":3}"#, json!(3), INVALID_REQUEST),
            ("{}", Value::Null, INVALID_REQUEST),
        ] {
            let (found, fault) = read(line).expect_err(line);
            assert_eq!((found, fault.code), (id, code), "{line}");
        }
    }
}
