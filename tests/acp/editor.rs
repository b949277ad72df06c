//! A scripted editor.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::program::{Home, Program, Response};

pub struct Editor {
    pub program: Program,
    /// The methods of its requests.
    methods: HashMap<u64, String>,
    count: u64,
}

impl Editor {
    /// One that has sent `initialize`.
    pub fn start(home: &Home, args: &[&str]) -> Self {
        let mut editor = Self::silent(home, args);
        editor.call("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
        editor
    }

    /// One that has sent nothing yet.
    pub fn silent(home: &Home, args: &[&str]) -> Self {
        let program = home.start_with_input(&[&["acp"], args].concat());
        Self { program, methods: HashMap::new(), count: 0 }
    }

    pub fn send(&mut self, message: &Value) {
        self.program.write(&format!("{message}\n"));
    }

    /// Sends a request. Returns its id.
    pub fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.count += 1;
        self.methods.insert(self.count, method.to_owned());
        self.send(&json!({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params}));
        self.count
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Answers a request of the agent.
    pub fn answer(&mut self, request: &Value, option: &str) {
        let outcome = json!({"outcome": "selected", "optionId": option});
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": {"outcome": outcome}}));
    }

    /// The next message, which conforms to the schema.
    pub fn next(&self) -> Value {
        let message = self.program.object();
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        schema::check(&message, message["id"].as_u64().and_then(|id| self.methods.get(&id)).map(String::as_str));
        message
    }

    /// All messages up to the first of which this is true.
    pub fn until(&self, what: &str, is_meant: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut seen = Vec::new();
        while !seen.last().is_some_and(&is_meant) {
            assert!(seen.len() < 10_000, "no {what}");
            seen.push(self.next());
        }
        seen
    }

    /// All messages up to the response to this request.
    pub fn until_response(&self, id: u64) -> Vec<Value> {
        self.until("response", |message| message["id"] == id && message.get("method").is_none())
    }

    /// Sends a request and returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        let response = self.until_response(id).pop().expect("a response");
        assert!(response.get("error").is_none(), "{response}");
        response["result"].clone()
    }

    /// Sends a request that is refused. Returns the code and the message.
    pub fn refused(&mut self, method: &str, params: Value) -> (i64, String) {
        let id = self.ask(method, params);
        let response = self.until_response(id).pop().expect("a response");
        fault(&response)
    }

    /// The id of a new session in the home directory.
    pub fn session(&mut self, home: &Home) -> String {
        let created = self.call("session/new", json!({"cwd": home.directory.path(), "mcpServers": []}));
        created["sessionId"].as_str().expect("an id").to_owned()
    }

    pub fn prompt(&mut self, session: &str, text: &str) -> u64 {
        self.ask("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]}))
    }

    /// Sends a prompt and answers every question with this option. Returns all messages, with the response as the last.
    pub fn turn(&mut self, session: &str, text: &str, option: &str) -> Vec<Value> {
        let id = self.prompt(session, text);
        let mut all = Vec::new();
        loop {
            let message = self.next();
            if message["method"] == "session/request_permission" {
                self.answer(&message, option);
            }
            let is_last = message["id"] == id && message.get("method").is_none();
            all.push(message);
            if is_last {
                return all;
            }
        }
    }

    /// The next question.
    pub fn question(&self) -> Value {
        let is_question = |message: &Value| message["method"] == "session/request_permission";
        self.until("question", is_question).pop().expect("a question")
    }

    pub fn ends(self) -> Response {
        self.program.ends()
    }
}

pub fn fault(response: &Value) -> (i64, String) {
    let error = &response["error"];
    (error["code"].as_i64().expect("a code"), error["message"].as_str().expect("a message").to_owned())
}

pub fn stop_reason(messages: &[Value]) -> &str {
    let last = messages.last().expect("a response");
    last["result"]["stopReason"].as_str().unwrap_or_else(|| panic!("no reason in {last}"))
}

/// The updates of this kind.
pub fn updates<'a>(messages: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let update =
        |message: &'a Value| Some(&message["params"]["update"]).filter(|update| update["sessionUpdate"] == kind);
    messages.iter().filter_map(update).collect()
}

/// The text of all chunks of this kind.
pub fn text(messages: &[Value], kind: &str) -> String {
    updates(messages, kind).iter().filter_map(|update| update["content"]["text"].as_str()).collect()
}

pub fn questions(messages: &[Value]) -> usize {
    messages.iter().filter(|message| message["method"] == "session/request_permission").count()
}

pub fn write(home: &Home, name: &str, text: &str) {
    let path = home.directory.path().join(name);
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    std::fs::write(path, text).expect("a file");
}

pub fn read(home: &Home, name: &str) -> String {
    std::fs::read_to_string(home.directory.path().join(name)).expect("a file")
}

pub fn exists(home: &Home, name: &str) -> bool {
    Path::new(&home.directory.path().join(name)).exists()
}

#[cfg(not(feature = "json-schema"))]
mod schema {
    pub fn check(_: &serde_json::Value, _: Option<&str>) {}
}

#[cfg(feature = "json-schema")]
mod schema {
    use std::collections::HashMap;
    use std::sync::LazyLock;

    use jsonschema::Validator;
    use serde_json::{Value, json};

    /// The parts of the schema that describe what an agent sends.
    const PARTS: [&str; 13] = [
        "SessionNotification",
        "RequestPermissionRequest",
        "CancelRequestNotification",
        "InitializeResponse",
        "AuthenticateResponse",
        "NewSessionResponse",
        "LoadSessionResponse",
        "ResumeSessionResponse",
        "PromptResponse",
        "ListSessionsResponse",
        "SetSessionModeResponse",
        "SetSessionConfigOptionResponse",
        "DeleteSessionResponse",
    ];

    static VALIDATORS: LazyLock<HashMap<&str, Validator>> = LazyLock::new(|| {
        let schema: Value = serde_json::from_str(include_str!("../../fixtures/acp/schema.json")).expect("JSON");
        let validator = |part: &'static str| {
            let part_schema =
                json!({"$schema": schema["$schema"], "$defs": schema["$defs"], "$ref": format!("#/$defs/{part}")});
            (part, jsonschema::validator_for(&part_schema).expect("a schema"))
        };
        PARTS.into_iter().map(validator).collect()
    });

    /// Fails if a message does not conform; `method` is that of the request to which it responds.
    pub fn check(message: &Value, method: Option<&str>) {
        let (part, value) = match (message["method"].as_str(), method) {
            (Some("session/update"), _) => ("SessionNotification", &message["params"]),
            (Some("session/request_permission"), _) => ("RequestPermissionRequest", &message["params"]),
            (Some("$/cancel_request"), _) => ("CancelRequestNotification", &message["params"]),
            (Some(other), _) => panic!("unexpected method {other}"),
            (None, Some(method)) if message.get("result").is_some() => {
                let part = match method {
                    "initialize" => "InitializeResponse",
                    "authenticate" => "AuthenticateResponse",
                    "session/new" => "NewSessionResponse",
                    "session/load" => "LoadSessionResponse",
                    "session/resume" => "ResumeSessionResponse",
                    "session/prompt" => "PromptResponse",
                    "session/list" => "ListSessionsResponse",
                    "session/set_mode" => "SetSessionModeResponse",
                    "session/set_config_option" => "SetSessionConfigOptionResponse",
                    "session/delete" => "DeleteSessionResponse",
                    _ => return,
                };
                (part, &message["result"])
            }
            (None, _) => return assert!(message["error"]["code"].is_i64(), "{message}"),
        };
        if let Some(error) = VALIDATORS[part].iter_errors(value).next() {
            panic!("{part}: {error}: {message}");
        }
    }

    #[test]
    fn the_schema_refuses_what_does_not_conform() {
        let wrong = json!({"sessionId": "s", "update": {"sessionUpdate": "tool_call", "title": "no id"}});
        assert!(!VALIDATORS["SessionNotification"].is_valid(&wrong));
        assert!(!VALIDATORS["PromptResponse"].is_valid(&json!({"stopReason": "tired"})));
    }
}
