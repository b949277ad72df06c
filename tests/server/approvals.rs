//! Questions of agents, listed and answered by scripts.

use polylogue::config::Policy;
use polylogue::{Change, Decision, Fork};
use serde_json::{Value, json};

use crate::support::client::{Client, open_to_clients, serve};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, State};

/// Ten agents; each asks to run a command of its own that creates a file named after it.
fn ten_that_ask(app: &mut Harness) {
    for n in 0..10 {
        if n > 0 {
            app.ask(0, Change::Fork(Fork::default()));
        }
        app.say(n, &format!("%tool bash {{\"command\":\"touch by-{n}\"}}"));
    }
    for n in 0..10 {
        app.turn_until_asked(n);
    }
}

fn approvals(app: &mut Harness) -> Vec<Value> {
    Client::open_questions(app).as_array().expect("a list").clone()
}

fn id_of(approvals: &[Value], command: &str) -> String {
    let asks = |row: &&Value| row["title"].as_str().expect("text").ends_with(command);
    approvals.iter().find(asks).expect("an open question")["id"].as_str().expect("text").to_owned()
}

fn files(app: &Harness) -> Vec<String> {
    let entries = std::fs::read_dir(app.directory()).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    let mut files: Vec<String> = names.filter(|name| name.starts_with("by-")).collect();
    files.sort();
    files
}

#[test]
fn the_question_of_an_agent_is_denied_by_its_name_and_allowed_by_its_id_alone() {
    let mut app = serve(Plan { real_time: true, ..Plan::default() });
    app.ask(0, Change::Fork(Fork { name: Some("docs".into()), ..Fork::default() }));
    app.say(1, "%tool bash {\"command\":\"touch by-1\"}");
    app.turn_until_asked(1);
    let mut client = Client::connect(&app);
    let id = id_of(&approvals(&mut app), "by-1");
    let (_, message) = client.refused(&mut app, "answer", json!({"id": "docs", "allow": true}));
    assert!(message.contains(&format!("polylogue approve {id} allows it")), "{message}");
    let (_, message) = client.refused(&mut app, "answer", json!({"id": "0", "allow": false}));
    assert!(message.contains("agent 0 asks nothing"), "{message}");
    client.done(&mut app, "answer", json!({"id": "docs", "allow": false, "reason": "not today"}));
    app.turn_until_idle();
    assert!(app.tool_results(1)[0].content.contains("not today") && files(&app).is_empty());
}

#[test]
fn ten_questions_are_answered_in_any_order_and_each_answer_belongs_to_its_question() {
    let mut app = serve(Plan { real_time: true, ..Plan::default() });
    ten_that_ask(&mut app);
    let mut client = Client::connect(&app);
    let open = approvals(&mut app);
    assert_eq!(open.len(), 10);
    for n in [7, 2, 8, 0, 4] {
        client.done(&mut app, "answer", json!({"id": id_of(&open, &format!("by-{n}")), "allow": true}));
    }
    client.done(&mut app, "answer", json!({"id": id_of(&open, "by-5"), "allow": false, "reason": "not today"}));
    client.done(&mut app, "run", json!({"agent": "3", "argv": ["interrupt"]}));
    client.done(&mut app, "run", json!({"agent": "9", "argv": ["kill"]}));
    app.turn_until("the allowed and the denied calls are done", |app| {
        [7, 2, 8, 0, 4, 5, 3].iter().all(|n| app.state(*n) == State::Idle)
    });
    assert_eq!(files(&app), ["by-0", "by-2", "by-4", "by-7", "by-8"]);
    assert!(
        app.tool_results(5)
            .iter()
            .any(|result| result.content.contains("denied") && result.content.contains("not today"))
    );
    let mut left: Vec<String> = approvals(&mut app).iter().map(|row| row["title"].to_string()).collect();
    // Two agents that are served in one turn ask in any order.
    left.sort();
    assert_eq!(left, ["\"bash: touch by-1\"", "\"bash: touch by-6\""]);
    for command in ["by-7", "by-5", "by-3", "by-9"] {
        let (kind, message) = client.refused(&mut app, "answer", json!({"id": id_of(&open, command), "allow": true}));
        assert!(kind == "usage" && message.contains("no open question"), "{kind}: {message}");
    }
    app.turn();
    assert_eq!(files(&app).len(), 5);
}

#[test]
fn a_question_is_listed_with_its_full_text_and_where_the_call_would_run() {
    let mut app = serve(Plan::default());
    let command = (1..=60).map(|n| format!("echo {n}")).collect::<Vec<_>>().join("\n");
    app.say(0, &format!("%tool bash {}", json!({"command": command})));
    app.turn_until_asked(0);
    let open = approvals(&mut app);
    let [question] = open.as_slice() else { panic!("one question: {open:?}") };
    assert_eq!((&question["tool"], &question["label"]), (&json!("bash"), &json!("agent 0")));
    assert_eq!(question["agent"], app.id(0).to_string());
    let detail: Vec<&str> = question["detail"].as_array().expect("lines").iter().filter_map(Value::as_str).collect();
    assert!((1..=60).all(|n| detail.iter().any(|line| line.trim() == format!("echo {n}"))), "{detail:?}");
    assert!(!question["directory"].as_str().expect("text").is_empty());
}

#[test]
fn an_id_holds_only_for_the_text_that_was_listed() {
    let mut app = serve(Plan { real_time: true, ..Plan::default() });
    app.say(0, "%tool bash {\"command\":\"touch by-one\"}");
    app.turn_until_asked(0);
    let mut client = Client::connect(&app);
    let id = id_of(&approvals(&mut app), "by-one");
    let (question, digest) = id.split_once('-').expect("a digest");
    let zeros = "0".repeat(digest.len());
    for other in [question.to_owned(), format!("{question}-{zeros}"), format!("{question}-"), digest.to_owned()] {
        let (kind, message) = client.refused(&mut app, "answer", json!({"id": other, "allow": true}));
        assert!(kind == "usage" && message.contains("polylogue approvals"), "{kind}: {message}");
    }
    assert!(app.agent(0).question().is_some());
    assert_eq!(files(&app), [] as [&str; 0]);
}

#[test]
fn of_two_answers_to_one_question_the_first_counts() {
    let mut app = Harness::new(Plan { real_time: true, ..Plan::default() });
    open_to_clients(&mut app);
    app.say(0, "%tool bash {\"command\":\"touch by-one\"}");
    let number = app.turn_until_asked(0);
    let mut client = Client::connect(&app);
    let id = id_of(&approvals(&mut app), "by-one");
    app.ask(0, Change::Answer { question: number, decision: Decision::Deny(None) });
    let (_, message) = client.refused(&mut app, "answer", json!({"id": id, "allow": true}));
    assert!(message.contains("no open question"), "{message}");
    app.turn_until_idle();
    assert_eq!(files(&app), [] as [&str; 0]);
}

#[test]
fn what_a_clients_agent_is_refused_stays_refused_after_a_restart_also_to_its_children() {
    let mut app = serve(Plan { real_time: true, ..Plan::default() });
    let mut client = Client::connect(&app);
    let named = json!({"approval": "yolo", "allow": ["edit(a)"], "deny": ["edit(secret)"]});
    client.done(&mut app, "new", named);
    app.fork(1);
    drop(client);
    let mut app = app.crash_and_restart();
    for n in [1, 2] {
        assert_eq!((app.agent(n).policy, app.agent(n).rules.own.len()), (Policy::Yolo, 0), "{n}");
        app.say(n, "%tool write_file {\"file_path\":\"secret\",\"content\":\"x\"}");
        app.turn_until_idle();
        let results = app.tool_results(n);
        assert_eq!(results.last().expect("a result").content, "refused by the rule deny edit(secret)", "{n}");
    }
}

#[test]
fn a_child_that_was_made_in_a_capped_turn_keeps_the_cap_after_a_restart() {
    let mut app = serve(Plan { real_time: true, policy: Policy::Auto, ..Plan::default() });
    let mut client = Client::connect(&app);
    let text = "%tool fork {\"prompt\":\"hello\"}\n%next\ndone";
    client.ask("turn", json!({"agent": "0", "text": text, "approval": "plan"}));
    app.turn_until("a child", |app| app.repl.roster().len() == 2 && app.repl.roster().busy().is_empty());
    assert_eq!((app.agent(0).policy, app.agent(1).policy), (Policy::Auto, Policy::Plan));
    drop(client);
    let app = app.crash_and_restart();
    assert_eq!((app.agent(0).policy, app.agent(1).policy), (Policy::Auto, Policy::Plan));
}

#[test]
fn the_rules_of_a_question_are_given_and_refused_only_as_they_were_listed() {
    let mut app = serve(Plan { real_time: true, ..Plan::default() });
    let mut client = Client::connect(&app);
    let write = |path: &str| format!("%tool write_file {}", json!({"file_path": path, "content": "x"}));
    let rules_of = |question: &Value| -> Vec<String> {
        let rules = question["rules"].as_array().expect("rules").iter();
        rules.map(|rule| format!("--rule={}", rule.as_str().expect("text"))).collect()
    };
    let run = |name: &str, options: &[String], id: &str| {
        let words = [&[name.to_owned()], options, &["--".to_owned(), id.to_owned()]].concat();
        json!({"agent": null, "argv": words})
    };
    app.say(0, &write("one/first"));
    app.turn_until_asked(0);
    let open = approvals(&mut app);
    let id = open[0]["id"].as_str().expect("an id");
    let rules = rules_of(&open[0]);
    assert_eq!(rules, ["--rule=edit(one/**)"]);
    let always = ["--always".to_owned()];
    let other = [&always[..], &["--rule=edit(other/**)".to_owned()]].concat();
    for (options, expected) in [(&always[..], "--always needs --rule"), (&other[..], "not the rules of the question")] {
        let (_, message) = client.refused(&mut app, "run", run("approve", options, id));
        assert!(message.contains(expected), "{message}");
    }
    let for_session = [&always[..], &["--session".to_owned()], &rules[..]].concat();
    client.done(&mut app, "run", run("approve", &for_session, id));
    app.turn_until_idle();
    app.say(0, &write("one/second"));
    app.turn_until_idle();
    let exists = |app: &Harness, path: &str| app.directory().join(path).exists();
    assert!(exists(&app, "one/first") && exists(&app, "one/second"), "it was not asked again");

    app.ask(0, Change::Fork(Fork::default()));
    app.say(1, &write("two/first"));
    app.turn_until_asked(1);
    let open = approvals(&mut app);
    let id = open[0]["id"].as_str().expect("an id");
    client.done(&mut app, "run", run("deny", &rules_of(&open[0]), id));
    app.turn_until_idle();
    app.say(1, &write("two/second"));
    app.turn_until_idle();
    assert!(!exists(&app, "two/first") && !exists(&app, "two/second"), "it is refused without a question");
}
