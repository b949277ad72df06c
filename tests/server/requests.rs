//! Requests of scripts: each does the same as the command of its name.

use polylogue::config::Policy;
use polylogue::{Change, Fork};
use serde_json::{Value, json};

use crate::support::client::{Client, open_to_clients, refusal, request, serve};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, Probe, State};
use crate::support::scene::{is_running, mark};

#[test]
fn ps_lists_the_fields_of_each_agent() {
    let mut app = serve(Plan::default());
    app.ask(0, Change::Fork(Fork { name: Some("reviewer".into()), ..Fork::default() }));
    app.say(1, "%hang");
    app.say(1, "later");
    app.turn();
    let list = Client::connect(&app).done(&mut app, "ps", json!({}));
    let [root, reviewer] = list.as_array().expect("a list").as_slice() else { panic!("two agents: {list}") };
    assert_eq!((&root["number"], &root["name"], &root["parent"]), (&json!(0), &Value::Null, &Value::Null));
    assert_eq!(
        (&root["status"], &root["activity"], &root["model"]),
        (&json!("idle"), &Value::Null, &json!("echo/echo"))
    );
    assert_eq!((&reviewer["name"], &reviewer["parent"]), (&json!("reviewer"), &root["id"]));
    assert_eq!((&reviewer["id"], &reviewer["queued"]), (&json!(app.id(1).to_string()), &json!(1)));
    assert_eq!((&reviewer["status"], &reviewer["unread"]), (&json!("running"), &json!(0)));
    assert!(reviewer["activity"].as_str().expect("text").starts_with("waiting for echo"), "{reviewer}");
    assert!(reviewer["tokens"].is_u64() && reviewer["age"].is_u64() && reviewer["created_at"].is_u64(), "{reviewer}");
}

#[test]
fn the_activity_in_ps_mentions_no_keys() {
    let mut app = serve(Plan::default());
    app.say(0, "words\n%hang");
    let mut client = Client::connect(&app);
    app.turn_until("it writes", |app| !app.agent(0).partial_text().is_empty());
    let list = client.done(&mut app, "ps", json!({}));
    let activity = list[0]["activity"].as_str().expect("text");
    assert!(activity.starts_with("echo is replying") && !activity.contains("Esc"), "{list}");
}

#[test]
fn ps_shows_the_question_of_a_waiting_agent() {
    let mut app = serve(Plan::default());
    app.say(0, "%tool bash {\"command\":\"ls /\"}");
    app.turn_until_asked(0);
    let list = Client::connect(&app).done(&mut app, "ps", json!({}));
    assert_eq!(list[0]["status"], "awaiting_approval");
    assert!(list[0]["activity"].as_str().expect("text").contains("ls /"), "{list}");
}

#[test]
fn sessions_lists_the_terminals() {
    let mut app = Harness::new(Plan { size: Some((70, 20)), ..Plan::default() });
    open_to_clients(&mut app);
    let list = Client::connect(&app).done(&mut app, "sessions", json!({}));
    let [one] = list.as_array().expect("a list").as_slice() else { panic!("one terminal: {list}") };
    assert_eq!((&one["columns"], &one["rows"], &one["label"]), (&json!(70), &json!(20), &json!("agent 0")));
    assert_eq!((&one["read_only"], &one["attached"]), (&json!(false), &json!(false)));
}

#[test]
fn new_creates_a_child_of_the_root_without_history() {
    let mut app = serve(Plan::default());
    app.say(0, "before");
    app.turn_until_idle();
    let mut client = Client::connect(&app);
    let new = client.done(&mut app, "new", json!({"name": "fresh"}));
    assert_eq!((&new["name"], &new["id"]), (&json!("fresh"), &json!(app.id(1).to_string())));
    assert!(!app.kinds(1).contains(&"user"), "{:?}", app.kinds(1));
    let (kind, message) = client.refused(&mut app, "new", json!({"name": "fresh"}));
    assert!(kind != "system" && message.contains("fresh"), "{kind}: {message}");
    let (kind, message) = client.refused(&mut app, "new", json!({"model": "nobody/nothing"}));
    assert!(message.contains("nobody"), "{kind}: {message}");
    assert_eq!(app.repl.roster().len(), 2);
}

#[test]
fn sent_text_is_never_a_command() {
    let mut app = serve(Plan::default());
    let mut client = Client::connect(&app);
    assert_eq!(client.done(&mut app, "send", json!({"agent": "0", "text": "/exit"})), json!({"queued": 0}));
    app.turn_until_idle();
    assert!(matches!(&app.log(0)[0].body, Body::User(text) if text == "/exit"));
    assert_eq!(app.replies(0), ["/exit"]);
}

#[test]
fn text_for_a_busy_agent_is_queued_and_the_response_has_the_length() {
    let mut app = serve(Plan::default());
    app.say(0, "%hang");
    let mut client = Client::connect(&app);
    for position in 1..=3 {
        let response = client.done(&mut app, "send", json!({"agent": "0", "text": format!("number {position}")}));
        assert_eq!(response, json!({"queued": position}));
    }
    assert_eq!(app.agent(0).queue.len(), 3);
}

#[test]
fn invalid_send_requests_are_refused() {
    let mut app = serve(Plan::default());
    let mut client = Client::connect(&app);
    for (fields, expected) in [
        (json!({"agent": "0", "text": "  \n"}), "empty"),
        (json!({"agent": "nobody", "text": "x"}), "no agent \"nobody\""),
        (json!({"agent": "0"}), "no text given"),
        (json!({}), "no agent or no text given"),
    ] {
        let (kind, message) = client.refused(&mut app, "send", fields);
        assert!(kind == "usage" && message.contains(expected), "{kind}: {message}");
    }
    assert_eq!(app.kinds(0), Vec::<&str>::new());
}

#[test]
fn a_client_sets_any_policy_but_yolo() {
    let mut app = serve(Plan::default());
    let mut client = Client::connect(&app);
    client.done(&mut app, "run", json!({"agent": "0", "argv": ["approval", "auto"]}));
    for words in [&["approval", "yolo"][..], &["approval", "yolo", "confirm"]] {
        let (_, message) = client.refused(&mut app, "run", json!({"agent": "0", "argv": words}));
        assert!(message.contains("yolo cannot be set by a client"), "{message}");
    }
    assert_eq!(app.agent(0).policy, Policy::Auto);
}

#[test]
fn an_agent_at_work_is_archived_once_it_is_idle() {
    let mut app = serve(Plan::default());
    app.ask(0, Change::Fork(Fork::default()));
    app.say(1, "%hang");
    app.turn();
    let mut client = Client::connect(&app);
    client.done(&mut app, "archive", json!({"agent": "1"}));
    assert_eq!(app.repl.roster().len(), 2);
    client.done(&mut app, "run", json!({"agent": "1", "argv": ["interrupt"]}));
    app.turn_until("it is archived", |app| app.repl.roster().len() == 1);
}

#[test]
fn a_full_disk_refuses_what_is_sent_and_the_server_goes_on() {
    let mut app = serve(Plan::default());
    let mut client = Client::connect(&app);
    app.is_disk_full.store(true, std::sync::atomic::Ordering::Relaxed);
    let (kind, message) = client.refused(&mut app, "send", json!({"agent": "0", "text": "x"}));
    assert_eq!(kind, "store", "{message}");
    app.is_disk_full.store(false, std::sync::atomic::Ordering::Relaxed);
    client.done(&mut app, "send", json!({"agent": "0", "text": "x"}));
}

#[test]
fn agents_are_found_by_name_number_and_the_beginning_of_the_id() {
    let mut app = serve(Plan::default());
    app.ask(0, Change::Fork(Fork { name: Some("worker".into()), ..Fork::default() }));
    let id = app.id(1).to_string();
    let mut client = Client::connect(&app);
    for agent_id in ["worker", "1", "agent 1", &id, &id[..6]] {
        client.done(&mut app, "send", json!({"agent": agent_id, "text": "hello"}));
        app.turn_until_idle();
    }
    assert_eq!(app.replies(1).len(), 5);
    assert_eq!(app.replies(0).len(), 0);
}

#[test]
fn kill_ends_agents_but_never_the_root() {
    let mut app = serve(Plan::default());
    app.ask(0, Change::Fork(Fork { name: Some("child".into()), ..Fork::default() }));
    app.ask(1, Change::Fork(Fork { name: Some("grandchild".into()), ..Fork::default() }));
    app.ask(0, Change::Fork(Fork { name: Some("other".into()), ..Fork::default() }));
    let mut client = Client::connect(&app);
    let (_, message) = client.refused(&mut app, "run", json!({"agent": "0", "argv": ["kill"]}));
    assert!(message.contains("root"), "{message}");
    client.done(&mut app, "run", json!({"agent": "other", "argv": ["kill"]}));
    assert_eq!(app.repl.roster().len(), 3);
    client.done(&mut app, "run", json!({"agent": "child", "argv": ["kill", "--cascade"]}));
    assert_eq!(app.repl.roster().len(), 1);
    let (_, message) = client.refused(&mut app, "run", json!({"agent": "child", "argv": ["kill"]}));
    assert!(message.contains("no agent"), "{message}");
}

/// The promise is 100 ms. With a clock that does not move it is: in the turn in which the request is read.
#[test]
fn an_agent_without_a_terminal_is_interrupted_in_the_turn_of_the_request() {
    let mut app = Harness::new(Plan::default());
    open_to_clients(&mut app);
    app.fork(0);
    app.switch(0);
    app.say(1, "some words\n%hang");
    app.turn();
    let mut client = Client::connect(&app);
    client.is_served(&mut app);
    client.ask("run", json!({"agent": "1", "argv": ["interrupt"]}));
    app.turn();
    assert_eq!(app.state(1), State::Idle);
    assert_eq!(app.partial_replies(1), ["some words"]);
    // When the disk has it.
    assert_eq!(client.read(&mut app), json!({"ok": {"text": null, "data": null}}));
    assert_eq!(
        client.done(&mut app, "run", json!({"agent": "1", "argv": ["interrupt"]})),
        json!({"text": "this agent is idle", "data": null})
    );
}

#[test]
fn an_interrupt_stops_what_a_person_runs_in_an_idle_agent() {
    let mut app = Harness::new(Plan { real_time: true, ..Plan::default() });
    open_to_clients(&mut app);
    let word = mark();
    app.ask(0, Change::Shell { command: format!("sleep {word}"), is_shared: false });
    app.turn_until("the command", |_| is_running(&word));
    let mut client = Client::connect(&app);
    client.is_served(&mut app);
    assert_eq!(
        client.done(&mut app, "run", json!({"agent": "0", "argv": ["interrupt"]})),
        json!({"text": null, "data": null})
    );
    app.turn_until("the end of the command", |_| !is_running(&word));
}

#[test]
fn an_interrupt_stops_a_tool_of_an_agent_without_a_terminal() {
    let mut app = Harness::new(Plan { real_time: true, ..Plan::default() });
    open_to_clients(&mut app);
    app.fork(0);
    app.switch(0);
    app.say(1, "%tool bash {\"command\":\"sleep 100\"}");
    app.answer(1, true);
    let mut client = Client::connect(&app);
    client.done(&mut app, "run", json!({"agent": "1", "argv": ["interrupt"]}));
    // The tool is stopped in that turn; when its process has ended is the kernel's matter, and measured by the benchmark. It may
    // have ended before the client has its answer.
    assert!(app.agent(1).is_stopping() || app.state(1) == State::Idle);
    app.turn_until_idle();
}

#[test]
fn keys_without_a_terminal_are_refused() {
    let mut app = serve(Plan::default());
    let mut client = Client::connect(&app);
    for (what, fields) in
        [("keys", json!({"keys": "YQ=="})), ("size", json!({"columns": 1, "rows": 1})), ("redraw", json!({}))]
    {
        let (kind, message) = client.refused(&mut app, what, fields);
        assert!(kind == "usage" && message.contains("attach"), "{kind}: {message}");
    }
    client.is_served(&mut app);
}

#[test]
fn bad_requests_get_an_error_and_the_connection_stays_open() {
    let mut app = serve(Plan::default());
    let mut client = Client::connect(&app);
    let deep = "[".repeat(100_000);
    for (line, expected) in [
        ("{", "not JSON"),
        ("hello", "not JSON"),
        ("\u{0}\u{1b}[2J", "not JSON"),
        (deep.as_str(), "not JSON"),
        ("[]", "polylogue"),
        ("{\"polylogue\":6,\"request\":\"dance\"}", "bad request \"dance\""),
        ("{\"polylogue\":7,\"request\":\"ps\"}", "version 6, the client 7"),
        ("{\"request\":\"ps\"}", "\"polylogue\":6"),
    ] {
        client.say(line);
        let (kind, message) = refusal(&client.read(&mut app));
        assert!(kind == "usage" && message.contains(expected), "{line:.40}: {message}");
        assert!(message.len() < 500, "{message}");
    }
    client.write(b"\xff\xfe\n");
    assert_eq!(refusal(&client.read(&mut app)).0, "usage");
    client.write("\n\r\n \n");
    client.is_served(&mut app);
}

#[test]
fn requests_are_read_wherever_the_stream_is_split() {
    let mut app = serve(Plan::default());
    let mut client = Client::connect(&app);
    let lines = request("sessions", json!({})) + "\n{\"polylogue\":6,\"request\":\"ü\"}\n";
    for cut in 0..lines.len() {
        client.write(&lines.as_bytes()[..cut]);
        app.turn();
        app.turn();
        client.write(&lines.as_bytes()[cut..]);
        assert_eq!(client.read(&mut app), json!({"ok": {"text": null, "data": []}}), "cut at {cut}");
        assert!(refusal(&client.read(&mut app)).1.contains("\"ü\""), "cut at {cut}");
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let mut app = serve(Plan::default());
    let mut client = Client::connect(&app);
    app.say(0, "%hang");
    let text = |n: usize| request("send", json!({"agent": "0", "text": n.to_string()})) + "\n";
    client.write((1..=50).map(text).collect::<String>());
    for n in 1..=50 {
        assert_eq!(client.read(&mut app), json!({"ok": {"text": null, "data": {"queued": n}}}));
    }
}

/// What an agent's log holds after an interrupt and the next text, which come in one piece or one by one.
fn log_after_interrupt_and_send(is_in_one_piece: bool) -> Vec<Body> {
    let mut app = serve(Plan::default());
    app.say(0, "%hang");
    app.turn();
    let mut client = Client::connect(&app);
    let lines = [
        request("run", json!({"agent": "0", "argv": ["interrupt"]})),
        request("send", json!({"agent": "0", "text": "next"})),
    ];
    if is_in_one_piece {
        client.write(lines.join("\n") + "\n");
        assert_eq!(client.read(&mut app), json!({"ok": {"text": null, "data": null}}));
    } else {
        client.say(&lines[0]);
        assert_eq!(client.read(&mut app), json!({"ok": {"text": null, "data": null}}));
        client.say(&lines[1]);
    }
    assert_eq!(client.read(&mut app), json!({"ok": {"text": null, "data": {"queued": 0}}}));
    app.turn_until_idle();
    app.log(0).into_iter().map(|message| message.body).collect()
}

#[test]
fn a_request_takes_effect_before_the_next_is_read() {
    assert_eq!(log_after_interrupt_and_send(true), log_after_interrupt_and_send(false));
}
