//! Servers over HTTP.

use std::time::Duration;

use polylogue::config::{McpServer, McpTransport, Policy, Rules};
use serde_json::{Value, json};

use super::{app_under, app_with, offered, request_of, server};
use crate::support::harness::{Harness, Plan};
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::{reply_with_calls, results_in};

fn web(mcp: &Peer) -> McpServer {
    let headers = vec![("Authorization".into(), "Bearer t0ken".into())];
    let url = format!("http://{}/mcp", mcp.address());
    McpServer { transport: McpTransport::Http { url, headers }, ..server("web") }
}

/// The next message for the server, which has to be this one.
fn next(app: &mut Harness, mcp: &Peer, method: &str) -> (Exchange, Value) {
    let exchange = app.accept(mcp);
    assert_eq!(exchange.request().header("authorization"), Some("Bearer t0ken"));
    if exchange.request().method == "GET" {
        // It has nothing to say of its own.
        exchange.answer(405, "text/plain", "");
        return next(app, mcp, method);
    }
    let message = exchange.request().json();
    assert_eq!(message["method"], method, "{message}");
    (exchange, message)
}

fn result(message: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string()
}

fn answer(exchange: &Exchange, message: &Value, value: &Value) {
    exchange.answer(200, "application/json", result(message, value));
}

fn tools() -> Value {
    let properties = json!({"place": {"type": "string", "x-mcp-header": "Place"}});
    json!({"tools": [{"name": "look", "inputSchema": {"type": "object", "properties": properties}}]})
}

/// Answers what a server of the newer era is asked until its tools are known.
fn begin_modern(app: &mut Harness, mcp: &Peer) {
    let (exchange, message) = next(app, mcp, "server/discover");
    answer(&exchange, &message, &json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}));
    let (exchange, message) = next(app, mcp, "tools/list");
    assert_eq!(exchange.request().header("mcp-method"), Some("tools/list"));
    assert_eq!(exchange.request().header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(exchange.request().header("content-type"), Some("application/json"));
    answer(&exchange, &message, &tools());
}

/// Answers a server of the older era until it is told that the session has begun: returns that exchange.
fn begin_legacy(app: &mut Harness, mcp: &Peer) -> Exchange {
    next(app, mcp, "server/discover").0.answer(400, "text/plain", "");
    let (exchange, message) = next(app, mcp, "initialize");
    let body = result(&message, &json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}));
    let length = body.len().to_string();
    let head = [("content-type", "application/json"), ("mcp-session-id", "s-1"), ("content-length", length.as_str())];
    exchange.head(200, &head);
    exchange.send(&body).end();
    next(app, mcp, "notifications/initialized").0
}

/// Has the model call the tool, and returns the exchange of the call.
fn call(app: &mut Harness, peer: &Peer, mcp: &Peer) -> (Exchange, Value) {
    let exchange = app.accept(peer);
    assert_eq!(offered(&exchange.request().json()), ["mcp__web__look"]);
    reply_with_calls(&exchange, &[("mcp__web__look", r#"{"place":"Malmö"}"#)]);
    next(app, mcp, "tools/call")
}

/// The result that the model gets, with which the turn ends.
fn result_for_model(app: &mut Harness, peer: &Peer) -> String {
    let exchange = app.accept(peer);
    exchange.stream().text("done").finish("stop").done();
    app.turn_until_idle();
    results_in(&exchange.request().json()).last().expect("a result").1.clone()
}

#[test]
fn a_server_of_the_older_era_has_a_session_and_streams() {
    let (peer, mcp) = (Peer::start(), Peer::start());
    let mut app = app_with(&peer, vec![web(&mcp)]);
    app.enter("do it");
    let (exchange, _) = next(&mut app, &mcp, "server/discover");
    let refusal = json!({"jsonrpc": "2.0", "error": {"code": -32000, "message": "Server not initialized"}, "id": null});
    exchange.answer(400, "application/json", refusal.to_string());
    let (exchange, message) = next(&mut app, &mcp, "initialize");
    let chunked = ("transfer-encoding", "chunked");
    exchange.head(200, &[("content-type", "text/event-stream"), ("mcp-session-id", "s-1"), chunked]);
    exchange.body("id: 1\ndata: \n\n");
    let capable = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}});
    exchange.body(format!("event: message\nid: 2\ndata: {}\n\n", result(&message, &capable))).end();
    let (exchange, _) = next(&mut app, &mcp, "notifications/initialized");
    for (header, value) in [("mcp-session-id", "s-1"), ("mcp-protocol-version", "2025-06-18")] {
        assert_eq!(exchange.request().header(header), Some(value));
    }
    assert!(mcp.try_accept().is_none(), "nothing is asked before it is accepted");
    exchange.answer(202, "text/plain", "");
    let (exchange, message) = next(&mut app, &mcp, "tools/list");
    answer(&exchange, &message, &tools());
    let (exchange, message) = call(&mut app, &peer, &mcp);
    assert_eq!(exchange.request().header("mcp-session-id"), Some("s-1"));
    exchange.stream().event(&json!({"method": "notifications/progress", "params": {"progressToken": message["id"]}}));
    exchange.event(
        &serde_json::from_str(&result(&message, &json!({"content": [{"type": "text", "text": "seen"}]}))).unwrap(),
    );
    exchange.end();
    assert_eq!(result_for_model(&mut app, &peer), "seen");
}

#[test]
fn a_server_of_the_newer_era_gets_its_headers_and_a_closed_response_is_the_cancellation() {
    let (peer, mcp) = (Peer::start(), Peer::start());
    let mut app = app_with(&peer, vec![web(&mcp)]);
    app.enter("do it");
    begin_modern(&mut app, &mcp);
    let (exchange, message) = call(&mut app, &peer, &mcp);
    assert_eq!(exchange.request().header("mcp-name"), Some("look"));
    assert_eq!(exchange.request().header("mcp-param-place"), Some("=?base64?TWFsbcO2?="));
    assert_eq!(exchange.request().header("mcp-session-id"), None);
    answer(&exchange, &message, &json!({"content": [{"type": "text", "text": "seen"}]}));
    assert_eq!(result_for_model(&mut app, &peer), "seen");
    app.enter("again");
    let (exchange, _) = call(&mut app, &peer, &mcp);
    exchange.stream();
    app.escape();
    app.turn_until_idle();
    app.turn_until("the response is closed", |_| exchange.is_closed_by_client());
}

#[test]
fn a_response_that_is_cut_is_an_error_of_the_call_and_is_not_asked_for_again() {
    let (peer, mcp) = (Peer::start(), Peer::start());
    let mut app = app_with(&peer, vec![web(&mcp)]);
    app.enter("do it");
    begin_modern(&mut app, &mcp);
    let (exchange, _) = call(&mut app, &peer, &mcp);
    exchange.stream().end();
    assert_eq!(result_for_model(&mut app, &peer), "the response ended without an answer");
    assert!(mcp.try_accept().is_none());
    app.enter("again");
    let (exchange, _) = call(&mut app, &peer, &mcp);
    exchange.answer(500, "text/plain", "out of order");
    assert_eq!(result_for_model(&mut app, &peer), "HTTP 500: out of order");
}

#[test]
fn a_server_that_cannot_be_used_is_said_in_one_line() {
    for (status, line) in [
        (401, "mcp web: refuses the credentials of its declaration (HTTP 401)"),
        (302, "mcp web: redirects to another URL (HTTP 302): declare that one"),
        (404, "mcp web: HTTP 404: nothing here"),
    ] {
        let (peer, mcp) = (Peer::start(), Peer::start());
        let mut app = app_with(&peer, vec![web(&mcp)]);
        app.enter("do it");
        next(&mut app, &mcp, "server/discover").0.answer(status, "text/plain", "nothing here");
        if status == 404 {
            next(&mut app, &mcp, "initialize").0.answer(status, "text/plain", "nothing here");
        }
        let exchange = app.accept(&peer);
        assert_eq!(offered(&exchange.request().json()), Vec::<String>::new());
        exchange.stream().text("done").finish("stop").done();
        app.turn_until_idle();
        assert!(app.screen_text().contains(line), "{line}\n{}", app.screen_text());
        assert!(!app.screen_text().contains("t0ken"));
    }
    let peer = Peer::start();
    let mcp = Peer::start();
    let closed = web(&mcp);
    drop(mcp);
    let mut app = app_with(&peer, vec![closed]);
    app.enter("do it");
    app.accept(&peer).stream().text("done").finish("stop").done();
    app.turn_until_idle();
    assert!(app.screen_text().contains("! mcp web: "), "{}", app.screen_text());
}

#[test]
fn a_server_that_a_rule_denies_is_not_connected() {
    let (peer, mcp) = (Peer::start(), Peer::start());
    let rules = Rules { deny: vec!["net(127.0.0.1)".parse().expect("a rule")], ..Rules::default() };
    let mut app = app_under(&peer, vec![web(&mcp)], rules, Policy::Yolo);
    assert_eq!(offered(&request_of(&mut app, &peer)), Vec::<String>::new());
    let shown = app.screen_text().replace("\n  ", " ");
    assert!(shown.contains("refused by the rule deny net(127.0.0.1)"), "{shown}");
    assert!(mcp.try_accept().is_none());
}

#[test]
fn a_message_that_is_never_accepted_does_not_hold_up_the_others() {
    let (peer, mcp) = (Peer::start(), Peer::start());
    let patient = McpServer { start_timeout: Duration::from_secs(300), ..web(&mcp) };
    let mut app = Harness::new(Plan { mcp: vec![patient], ..Plan::peer(&peer.url()) });
    app.enter("do it");
    let open = begin_legacy(&mut app, &mcp);
    open.stream();
    app.turn();
    assert!(mcp.try_accept().is_none());
    app.advance(Duration::from_secs(31));
    next(&mut app, &mcp, "tools/list");
    app.turn_until("the response is closed", |_| open.is_closed_by_client());
}

#[test]
fn a_server_that_asks_much_and_accepts_no_answer_is_ended() {
    let (peer, mcp) = (Peer::start(), Peer::start());
    let mut app = app_with(&peer, vec![web(&mcp)]);
    app.enter("do it");
    begin_modern(&mut app, &mcp);
    let (exchange, _) = call(&mut app, &peer, &mcp);
    exchange.stream();
    for id in 0..300 {
        exchange.event(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
    }
    let result = result_for_model(&mut app, &peer);
    assert!(result.starts_with("the server does not accept messages: "), "{result}");
}

#[test]
fn a_server_is_reached_by_its_name() {
    let (peer, mcp) = (Peer::start(), Peer::start());
    let mut named = web(&mcp);
    if let McpTransport::Http { url, .. } = &mut named.transport {
        *url = url.replace("127.0.0.1", "localhost");
    }
    let mut app = app_with(&peer, vec![named.clone()]);
    app.enter("do it");
    begin_modern(&mut app, &mcp);
    assert_eq!(offered(&app.accept(&peer).request().json()), ["mcp__web__look"]);

    if let McpTransport::Http { url, .. } = &mut named.transport {
        *url = "http://nowhere.invalid/mcp".into();
    }
    let mut app = app_with(&peer, vec![named]);
    assert_eq!(offered(&request_of(&mut app, &peer)), Vec::<String>::new());
    assert!(app.screen_text().contains("! mcp web: "), "{}", app.screen_text());
}

#[test]
fn a_session_that_the_server_has_forgotten_is_begun_anew() {
    let (peer, mcp) = (Peer::start(), Peer::start());
    let mut app = app_with(&peer, vec![web(&mcp)]);
    app.enter("do it");
    begin_legacy(&mut app, &mcp).answer(202, "text/plain", "");
    let (exchange, message) = next(&mut app, &mcp, "tools/list");
    answer(&exchange, &message, &tools());
    let (exchange, _) = call(&mut app, &peer, &mcp);
    exchange.answer(404, "text/plain", "no such session");
    let forgotten = result_for_model(&mut app, &peer);
    assert_eq!(forgotten, "the server has forgotten the session (HTTP 404)");
    app.enter("again");
    reply_with_calls(&app.accept(&peer), &[("mcp__web__look", "{}")]);
    begin_legacy(&mut app, &mcp);
}

#[test]
fn a_stream_that_is_cut_is_resumed_after_the_pause_that_the_server_wants() {
    let (peer, mcp) = (Peer::start(), Peer::start());
    let patient = McpServer { call_timeout: Duration::from_secs(300), ..web(&mcp) };
    let mut app = Harness::new(Plan {
        mcp: vec![patient],
        rules: Rules { allow: vec!["mcp(*)".parse().expect("a rule")], ..Rules::default() },
        ..Plan::peer(&peer.url())
    });
    app.enter("do it");
    begin_legacy(&mut app, &mcp).answer(202, "text/plain", "");
    let (exchange, message) = next(&mut app, &mcp, "tools/list");
    answer(&exchange, &message, &tools());
    let (exchange, message) = call(&mut app, &peer, &mcp);
    exchange.head(200, &[("content-type", "text/event-stream"), ("transfer-encoding", "chunked")]);
    exchange.body("id: e-1\nretry: 5000\ndata: \n\n").end();
    app.turn_until("the stream has ended", |_| exchange.is_closed_by_client());
    app.advance(Duration::from_millis(4900));
    app.turn();
    assert!(mcp.try_accept().is_none(), "too early");
    app.advance(Duration::from_millis(200));
    let resumed = app.accept(&mcp);
    assert_eq!(resumed.request().method, "GET");
    assert_eq!(resumed.request().header("last-event-id"), Some("e-1"));
    assert_eq!(resumed.request().header("mcp-session-id"), Some("s-1"));
    resumed.head(200, &[("content-type", "text/event-stream"), ("transfer-encoding", "chunked")]);
    let value = result(&message, &json!({"content": [{"type": "text", "text": "seen"}]}));
    resumed.body(format!("id: e-2\ndata: {value}\n\n")).end();
    assert_eq!(result_for_model(&mut app, &peer), "seen");
}

#[test]
fn a_server_is_not_connected_if_a_rule_denies_an_address_of_its_name() {
    let (peer, mcp) = (Peer::start(), Peer::start());
    let mut named = web(&mcp);
    if let McpTransport::Http { url, .. } = &mut named.transport {
        *url = url.replace("127.0.0.1", "localhost");
    }
    let deny = ["net(127.0.0.1)", "net([::1])"].map(|rule| rule.parse().expect("a rule")).to_vec();
    let mut app = app_under(&peer, vec![named], Rules { deny, ..Rules::default() }, Policy::Yolo);
    assert_eq!(offered(&request_of(&mut app, &peer)), Vec::<String>::new());
    let shown = app.screen_text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("has the address") && shown.contains("refused by the rule deny net("), "{shown}");
    assert!(mcp.try_accept().is_none());
}

/// Until the tools of a server of the older era are known: the stream that listens.
fn begin_listening(app: &mut Harness, mcp: &Peer) -> Exchange {
    begin_legacy(app, mcp).answer(202, "text/plain", "");
    let mut listening = None;
    for _ in 0..2 {
        let exchange = app.accept(mcp);
        match &*exchange.request().method {
            "GET" => listening = Some(exchange),
            _ => {
                let message = exchange.request().json();
                assert_eq!(message["method"], "tools/list");
                answer(&exchange, &message, &tools());
            }
        }
    }
    let listening = listening.expect("a stream");
    for (header, value) in
        [("accept", "text/event-stream"), ("mcp-session-id", "s-1"), ("authorization", "Bearer t0ken")]
    {
        assert_eq!(listening.request().header(header), Some(value));
    }
    listening
}

#[test]
fn what_belongs_to_no_request_arrives_on_a_stream_of_its_own() {
    let (peer, mcp) = (Peer::start(), Peer::start());
    let mut app = app_with(&peer, vec![web(&mcp)]);
    app.enter("do it");
    let listening = begin_listening(&mut app, &mcp);
    listening.stream();
    let (exchange, message) = call(&mut app, &peer, &mcp);
    let schema = json!({"type": "object", "properties": {"word": {"type": "string", "default": "please"}}});
    listening.event(&json!({
        "jsonrpc": "2.0", "id": 7, "method": "elicitation/create",
        "params": {"message": "The magic word?", "requestedSchema": schema},
    }));
    app.turn_until("the question", |app| app.screen_text().contains("The magic word?"));
    app.answer(0, true);
    let answered = app.accept(&mcp);
    assert_eq!(answered.request().json()["result"], json!({"action": "accept", "content": {"word": "please"}}));
    answered.answer(202, "text/plain", "");
    answer(&exchange, &message, &json!({"content": [{"type": "text", "text": "seen"}]}));
    assert_eq!(result_for_model(&mut app, &peer), "seen");
    listening.event(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    next(&mut app, &mcp, "tools/list");
}

#[test]
fn the_stream_that_listens_is_resumed_some_times_and_again_with_the_next_call() {
    let (peer, mcp) = (Peer::start(), Peer::start());
    let patient = McpServer { call_timeout: Duration::from_secs(3000), ..web(&mcp) };
    let mut app = Harness::new(Plan {
        mcp: vec![patient],
        rules: Rules { allow: vec!["mcp(*)".parse().expect("a rule")], ..Rules::default() },
        ..Plan::peer(&peer.url())
    });
    app.enter("do it");
    let mut listening = begin_listening(&mut app, &mcp);
    let (exchange, message) = call(&mut app, &peer, &mcp);
    for attempt in 0..5 {
        listening.head(200, &[("content-type", "text/event-stream"), ("transfer-encoding", "chunked")]);
        listening.body("id: e-1\ndata: \n\n").end();
        app.turn_until("the stream has ended", |_| listening.is_closed_by_client());
        app.advance(Duration::from_secs(40));
        listening = app.accept(&mcp);
        assert_eq!(listening.request().header("last-event-id"), Some("e-1"), "{attempt}");
    }
    listening.stream().end();
    app.turn_until("the stream has ended", |_| listening.is_closed_by_client());
    app.advance(Duration::from_secs(120));
    app.turn();
    assert!(mcp.try_accept().is_none(), "nothing is to be heard there");
    answer(&exchange, &message, &json!({"content": [{"type": "text", "text": "seen"}]}));
    assert_eq!(result_for_model(&mut app, &peer), "seen");
    app.enter("again");
    reply_with_calls(&app.accept(&peer), &[("mcp__web__look", "{}")]);
    let both = [app.accept(&mcp), app.accept(&mcp)].map(|exchange| exchange.request().method.clone());
    assert!(both.contains(&"GET".into()) && both.contains(&"POST".into()), "{both:?}");
}

/// The next two messages for the server, in any order: they come over two connections.
fn next_two(app: &mut Harness, mcp: &Peer, methods: [&str; 2]) -> [(Exchange, Value); 2] {
    let mut both = [app.accept(mcp), app.accept(mcp)].map(|exchange| {
        let message = exchange.request().json();
        (exchange, message)
    });
    both.sort_by_key(|(_, message)| methods.iter().position(|method| message["method"] == **method));
    assert_eq!([&both[0].1["method"], &both[1].1["method"]], methods);
    both
}

#[test]
fn a_server_of_the_newer_era_announces_changes_on_a_stream() {
    let (peer, mcp) = (Peer::start(), Peer::start());
    let mut app = app_with(&peer, vec![web(&mcp)]);
    app.enter("do it");
    let (exchange, message) = next(&mut app, &mcp, "server/discover");
    let capable = json!({"tools": {"listChanged": true}});
    answer(&exchange, &message, &json!({"supportedVersions": ["2026-07-28"], "capabilities": capable}));
    let [(listening, wanted), (exchange, message)] = next_two(&mut app, &mcp, ["subscriptions/listen", "tools/list"]);
    assert_eq!(wanted["params"]["notifications"], json!({"toolsListChanged": true}));
    listening.stream();
    answer(&exchange, &message, &tools());
    let (exchange, message) = call(&mut app, &peer, &mcp);
    listening.event(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    let (listed, again) = next(&mut app, &mcp, "tools/list");
    answer(&listed, &again, &tools());
    listening.end();
    app.turn_until("the stream has ended", |_| listening.is_closed_by_client());
    answer(&exchange, &message, &json!({"content": [{"type": "text", "text": "seen"}]}));
    assert_eq!(result_for_model(&mut app, &peer), "seen");
    app.enter("again");
    reply_with_calls(&app.accept(&peer), &[("mcp__web__look", "{}")]);
    next_two(&mut app, &mcp, ["subscriptions/listen", "tools/call"]);
}

#[test]
fn a_stream_that_cannot_listen_disturbs_nothing() {
    for (status, content_type) in [(401, "text/plain"), (200, "text/html"), (503, "text/plain"), (302, "text/plain")] {
        let (peer, mcp) = (Peer::start(), Peer::start());
        let mut app = app_with(&peer, vec![web(&mcp)]);
        app.enter("do it");
        // What it says never ends.
        let listening = begin_listening(&mut app, &mcp);
        listening.head(status, &[("content-type", content_type), ("content-length", "100000")]).send("no stream");
        let (exchange, message) = call(&mut app, &peer, &mcp);
        app.turn_until("it is closed", |_| listening.is_closed_by_client());
        answer(&exchange, &message, &json!({"content": [{"type": "text", "text": "seen"}]}));
        assert_eq!(result_for_model(&mut app, &peer), "seen", "{status}");
    }
}

#[test]
fn a_call_that_has_met_its_time_limit_leaves_no_response_open() {
    let (peer, mcp) = (Peer::start(), Peer::start());
    let mut app = Harness::new(Plan {
        mcp: vec![web(&mcp)],
        rules: Rules { allow: vec!["mcp(*)".parse().expect("a rule")], ..Rules::default() },
        ..Plan::peer(&peer.url())
    });
    app.enter("do it");
    begin_modern(&mut app, &mcp);
    let (exchange, _) = call(&mut app, &peer, &mcp);
    exchange.stream();
    app.turn();
    app.advance(Duration::from_secs(61));
    assert!(result_for_model(&mut app, &peer).starts_with("timed out"));
    app.turn_until("the response is closed", |_| exchange.is_closed_by_client());
}
