//! What servers, clients and projects send: messages of MCP and of the socket, headers of Markdown files, rules, traces
//! and scenarios.

use std::fs;
use std::path::Path;
use std::time::Duration;

use polylogue::config::{McpServer, McpTransport, Rule};
use serde_json::{Map, Value, json};

use super::Step;
use crate::chance::Chance;
use crate::support::internals::mcp::{self, Era, Event, Session};
use crate::support::internals::{Moment, Scenario, TraceLine, front_matter, wire};

/// A server that answers what it was asked, with anything: the session fails at most once, answers each request at most
/// once, and its deadlines pass.
pub fn mcp() -> Step {
    Box::new(|chance| {
        let mut now = Moment::default();
        let era = chance.of(&[None, Some(Era::Legacy), Some(Era::Modern)]);
        let mut session = Session::start(server(), era, chance.once_in(2), now);
        let (mut asked, mut answered, mut failed) = (0, 0, 0);
        for _ in 0..chance.below(30) {
            let sent: Vec<_> = session.take_messages().collect();
            for message in sent {
                let answer = answer_to(chance, &message.text).to_string().into_bytes();
                let text = if chance.once_in(6) { chance.mutated(&answer) } else { answer };
                session.on_text(&text, now);
            }
            match chance.below(6) {
                0 => session.on_text(&chance.bytes(300), now),
                1 => session.on_text(unasked(chance).to_string().as_bytes(), now),
                2 if session.is_ready() => {
                    asked += 1;
                    session.request(asked, "tools/call", Map::new(), Vec::new(), now);
                }
                3 => now = session.deadline().unwrap_or(now).max(now),
                _ => now = now + Duration::from_millis(10),
            }
            session.on_deadline(now);
            while let Some(event) = session.take_event() {
                answered += u64::from(matches!(event, Event::Done { .. }));
                failed += u64::from(matches!(event, Event::Failed(_)));
            }
        }
        assert!(failed <= 1, "it failed {failed} times");
        assert!(answered <= asked, "{answered} answers to {asked} requests");
        let passed = (0..1_000).any(|_| {
            let Some(deadline) = session.deadline() else { return true };
            now = now.max(deadline);
            session.on_deadline(now);
            false
        });
        assert!(passed, "a deadline that never passes: {:?} at {now:?}", session.deadline());
    })
}

fn server() -> McpServer {
    let transport = McpTransport::Stdio { command: "server".into(), args: Vec::new(), env: Vec::new() };
    McpServer {
        start_timeout: Duration::from_secs(10),
        call_timeout: Duration::from_secs(60),
        ..McpServer::new("server", transport, String::new())
    }
}

/// The right number, and a result that often has the right form.
fn answer_to(chance: &mut Chance, request: &str) -> Value {
    let request: Value = serde_json::from_str(request).unwrap_or_default();
    let id = if chance.once_in(12) { value(chance, 1) } else { request["id"].clone() };
    let code = chance.of(&[-32601, -32020, -32022, -32000, 0, i64::MIN]);
    if chance.once_in(6) {
        return json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": chance.text(8), "data": value(chance, 2)}});
    }
    let cursor = if chance.once_in(3) { json!(chance.text(2)) } else { Value::Null };
    let result = match (chance.below(4), request["method"].as_str().unwrap_or_default()) {
        (0, _) => value(chance, 3),
        (_, "initialize") => {
            let revision = chance.of(&["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "1999-01-01", ""]);
            json!({"protocolVersion": revision, "capabilities": capabilities(chance), "serverInfo": value(chance, 1)})
        }
        (_, "server/discover") => json!({
            "supportedVersions": [chance.of(&["2026-07-28", "2025-11-25", "?"])],
            "capabilities": capabilities(chance), "resultType": chance.of(&["complete", "input_required", "x"]),
        }),
        (_, "tools/list") => json!({"tools": list(chance, tool), "nextCursor": cursor}),
        (_, "resources/list") => json!({"resources": list(chance, named), "nextCursor": cursor}),
        (_, "resources/templates/list") => json!({"resourceTemplates": list(chance, named), "nextCursor": cursor}),
        (_, "prompts/list") => json!({"prompts": list(chance, named), "nextCursor": cursor}),
        _ => json!({
            "content": [{"type": "text", "text": chance.text(10)}, value(chance, 2)],
            "isError": chance.once_in(4), "resultType": chance.of(&["complete", "input_required"]),
            "inputRequests": {"a": {"method": "elicitation/create", "params": value(chance, 2)}},
            "requestState": value(chance, 1),
        }),
    };
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn capabilities(chance: &mut Chance) -> Value {
    let mut some = |name: &'static str| (!chance.once_in(3)).then(|| (name.to_owned(), json!({"listChanged": true})));
    Value::Object(["tools", "resources", "prompts"].into_iter().filter_map(&mut some).collect())
}

fn list(chance: &mut Chance, entry: fn(&mut Chance) -> Value) -> Vec<Value> {
    (0..chance.below(5)).map(|_| entry(chance)).collect()
}

fn tool(chance: &mut Chance) -> Value {
    let schema = if chance.once_in(2) {
        json!({"type": "object", "properties": value(chance, 3), "required": value(chance, 1)})
    } else {
        value(chance, 3)
    };
    json!({"name": chance.of(&["a", "b", "a b", "ä", ""]), "description": chance.text(5), "inputSchema": schema})
}

fn named(chance: &mut Chance) -> Value {
    json!({"name": chance.text(2), "uri": chance.text(2), "uriTemplate": chance.text(2), "arguments": value(chance, 2)})
}

/// A notification or a request of the server's own.
fn unasked(chance: &mut Chance) -> Value {
    const METHODS: &[&str] = &[
        "ping",
        "roots/list",
        "sampling/createMessage",
        "elicitation/create",
        "notifications/tools/list_changed",
        "notifications/resources/list_changed",
        "notifications/prompts/list_changed",
        "notifications/progress",
        "notifications/message",
        "notifications/cancelled",
    ];
    let method = chance.of(METHODS);
    let params = if chance.once_in(2) {
        json!({"progressToken": chance.below(6), "progress": chance.below(3), "requestId": chance.below(6)})
    } else {
        value(chance, 3)
    };
    match method.starts_with("notifications/") {
        true => json!({"jsonrpc": "2.0", "method": method, "params": params}),
        false => json!({"jsonrpc": "2.0", "id": value(chance, 0), "method": method, "params": params}),
    }
}

/// Any value, no deeper than this.
fn value(chance: &mut Chance, depth: usize) -> Value {
    const NAMES: &[&str] = &[
        "type",
        "properties",
        "items",
        "anyOf",
        "$ref",
        "$defs",
        "enum",
        "name",
        "text",
        "uri",
        "data",
        "mimeType",
        "message",
        "requestedSchema",
        "x-mcp-header",
        "const",
        "default",
        "format",
    ];
    match chance.below(if depth == 0 { 6 } else { 9 }) {
        0 => Value::Null,
        1 => chance.once_in(2).into(),
        2 => json!(chance.next() as i64 >> chance.below(64)),
        3 => json!(1e308),
        4 => chance.text(6).into(),
        5 => chance.of(&["object", "string", "#/$defs/name", "#", "image", "resource", "form", "url"]).into(),
        6 => (0..chance.below(4)).map(|_| value(chance, depth - 1)).collect(),
        _ => Value::Object((0..chance.below(5)).map(|_| (chance.of(NAMES).into(), value(chance, depth - 1))).collect()),
    }
}

/// Any schema: what is accepted is an object and stays as it is when it is brought into the common form again.
pub fn schema() -> Step {
    Box::new(|chance| {
        let schema = json!({"type": "object", "properties": {"a": value(chance, 4), "b": value(chance, 2)},
            "$defs": {"name": value(chance, 3)}, "required": ["a"]});
        let Ok(normal) = mcp::normalise(&schema) else { return };
        let normal: Value = serde_json::from_str(&normal.schema).expect("JSON");
        assert_eq!(normal["type"], "object", "{schema}");
        let again = mcp::normalise(&normal).map(|again| serde_json::from_str(&again.schema).expect("JSON"));
        assert_eq!(again.as_ref(), Ok(&normal), "{schema}");
    })
}

/// Lines of the socket with a few bytes changed: what is read is read again from what it is written as.
pub fn socket() -> Step {
    const REQUESTS: &[&str] = &[
        r#"{"polylogue":6,"request":"attach","agent":"a","terminal":{"columns":80,"rows":24},"prompt":"hello"}"#,
        r#"{"polylogue":6,"request":"keys","keys":"aGVsbG8="}"#,
        r#"{"polylogue":6,"request":"size","columns":80,"rows":24}"#,
        r#"{"polylogue":6,"request":"run","agent":null,"argv":["tell","1","a text"]}"#,
        r#"{"polylogue":6,"request":"turn","agent":"1","text":"a text","max_requests":3,"approval":"plan"}"#,
        r#"{"polylogue":6,"request":"follow","of":"chunks","agent":"1","last":3,"goes_on":true}"#,
        r#"{"polylogue":6,"request":"follow","of":"idle","agent":"1","seconds":0.5}"#,
        r#"{"polylogue":6,"request":"run","agent":"1","argv":["mail","--read","--from","2"]}"#,
        r#"{"polylogue":6,"request":"run","agent":"1","argv":["undo","--to","7"]}"#,
        r#"{"polylogue":6,"request":"team","agent":"1","plan":{"strategy":"parallel"}}"#,
        r#"{"polylogue":6,"request":"open","agent":null,"new":{"name":"a"}}"#,
        r#"{"polylogue":6,"request":"run","agent":null,"argv":["status"]}"#,
    ];
    const RESPONSES: &[&str] = &[
        r#"{"ok":{"text":"done"}}"#,
        r#"{"error":{"kind":"usage","text":"no agent"}}"#,
        r#"{"frame":"\u001b[1mtext"}"#,
        r#"{"v":1,"n":4,"chunk":{"text":"a"}}"#,
        r#"{"missed":3}"#,
    ];
    Box::new(|chance| {
        let request = changed(chance, REQUESTS);
        if let Ok(read) = wire::Request::read(&request) {
            assert_eq!(wire::Request::read(read.to_line().as_bytes()).ok().as_ref(), Some(&read));
        }
        let response = changed(chance, RESPONSES);
        if let Ok(read) = wire::Response::read(&response) {
            assert_eq!(wire::Response::read(read.to_line().as_bytes()).ok().as_ref(), Some(&read));
        }
    })
}

fn changed(chance: &mut Chance, lines: &[&str]) -> Vec<u8> {
    let line = chance.of(lines).as_bytes();
    if chance.once_in(8) { line.to_vec() } else { chance.mutated(line) }
}

/// Skills, definitions and commands of strangers: the text behind the header is a part of the file.
pub fn headers() -> Step {
    const FILE: &str = "---\nname: review\ndescription: Reads: the \"diff\" & more\nallowed-tools: Bash(git diff:*), Read\n\
        model: inherit\nlist:\n  - a\n  - b\nflag: yes\n---\n\n# Review\n\nRead $ARGUMENTS.\n";
    Box::new(|chance| {
        let text = match chance.below(4) {
            0 => format!("---\n{}\n---\n{}", chance.text(40), chance.text(20)),
            _ => String::from_utf8_lossy(&chance.mutated(FILE.as_bytes())).into_owned(),
        };
        let Ok((header, body)) = front_matter::split(&text) else { return };
        assert!(text.replace("\r\n", "\n").contains(&body), "{text:?}");
        for name in ["name", "description", "allowed-tools", "list", "flag"] {
            drop((header.text(name).map(str::len), header.flag(name), header.list(name)));
        }
    })
}

/// Rules: what is accepted prints itself, and an error is one line.
pub fn rules() -> Step {
    const RULES: &[&str] = &[
        "bash(cargo test:*)",
        "bash(git commit -m *)",
        "edit(src/**/*.rs)",
        "read(~/notes/**)",
        "net(*.example.com)",
        "mcp(server.*)",
        "tool(mine)",
        "fork(*)",
    ];
    Box::new(|chance| {
        let text = String::from_utf8_lossy(&changed(chance, RULES)).into_owned();
        match text.parse::<Rule>() {
            Ok(rule) => {
                assert_eq!(rule.to_string().parse::<Rule>().ok().as_ref(), Some(&rule), "{text:?}");
                drop(rule.path_matcher(Path::new("/project"), Some(Path::new("/home/person"))));
            }
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    })
}

/// Recorded traces and scenarios with a few bytes changed: read or refused in one line that names the file.
pub fn traces() -> Step {
    let (traces, scenarios) = (recorded("traces", "jsonl"), recorded("scenarios", "toml"));
    let lines: Vec<String> = traces.iter().flat_map(|text| text.lines().map(str::to_owned)).collect();
    Box::new(move |chance| {
        let line = &lines[chance.below(lines.len())];
        let text = String::from_utf8_lossy(&chance.mutated(line.as_bytes())).into_owned();
        if let Ok(read) = TraceLine::parse(&text) {
            drop(read.word());
        }
        let scenario = &scenarios[chance.below(scenarios.len())];
        let text = String::from_utf8_lossy(&chance.mutated(scenario.as_bytes())).into_owned();
        if let Err(error) = Scenario::parse("here.toml", &text) {
            assert!(error.message.starts_with("here.toml"), "{error}");
        }
    })
}

fn recorded(folder: &str, end: &str) -> Vec<String> {
    let folder = super::fixtures().join(folder);
    let files = fs::read_dir(folder).expect("recordings").map(|entry| entry.expect("a file").path());
    let files = files.filter(|path| path.extension().is_some_and(|found| found == end));
    files.map(|path| fs::read_to_string(path).expect("a recording")).collect()
}
