//! Mail: the commands and the tools, and helpers that work in the background and report by mail. The `wait` tool has a
//! file of its own.

mod waiting;

use polylogue::{Change, MailAct, MailId};
use serde_json::{Value, json};

use crate::support::harness::{Harness, Plan};
use crate::support::internals::mail::LONGEST;
use crate::support::internals::{Probe, State};
use crate::support::peer::Peer;
use crate::support::scene::{
    accept_by_text, app, assert_refused, assert_shows, assert_valid, reply_with_calls, results_in, results_then,
    texts_in,
};

/// The root, on the screen, and the children `ann` and `bob`; all talk to echo, and the clock does not move.
fn family() -> Harness {
    let mut app = Harness::new(Plan::default());
    app.fork_named(0, "ann");
    app.fork_named(0, "bob");
    app
}

/// The bodies of an agent's mail, and whether each is read.
fn mail(app: &Harness, name: &str) -> Vec<(String, bool)> {
    let agent_id = if name == "root" { app.id(0) } else { app.id(app.n(name)) };
    let mail = app.repl.store().mail(agent_id, None).expect("a box");
    mail.into_iter().map(|mail| (mail.body, mail.is_read)).collect()
}

fn bodies(app: &Harness, name: &str) -> Vec<String> {
    mail(app, name).into_iter().map(|(body, _)| body).collect()
}

#[test]
fn the_mail_text_is_the_rest_of_the_line_with_or_without_quotes() {
    let mut app = family();
    for line in ["plain  words", "\"in quotes\"", "\"first\" and \"last\"", "one \"quoted\" word", "\""] {
        app.enter(&format!("/send ann {line}"));
    }
    let expected = ["plain  words", "in quotes", "\"first\" and \"last\"", "one \"quoted\" word", "\""];
    assert_eq!(bodies(&app, "ann"), expected);
    assert_shows(&mut app, "sent to ann");
}

#[test]
fn mail_may_have_several_lines() {
    let mut app = family();
    app.type_bytes(b"/send ann \x1b[200~one\ntwo\n\nfour\x1b[201~\r");
    assert_eq!(bodies(&app, "ann"), ["one\ntwo\n\nfour"]);
    app.switch(1);
    app.enter("/read-mail");
    assert_shows(&mut app, "four");
}

#[test]
fn mail_is_listed_read_filtered_and_deleted() {
    let mut app = family();
    app.enter("/send ann from the root");
    app.switch(app.n("bob"));
    app.enter("/send ann from bob\nwith more");
    app.switch(app.n("ann"));
    app.enter("/check-mail");
    assert_shows(&mut app, "2 messages, 2 unread");
    assert_shows(&mut app, "2    unread from bob: from bob");
    app.enter("/filter-mail --from bob");
    assert_shows(&mut app, "1 message, 1 unread");
    app.enter("/read-mail 2");
    assert_shows(&mut app, "message 2 from bob:");
    app.enter("/read-mail");
    assert_shows(&mut app, "from the root");
    app.enter("/read-mail");
    assert_shows(&mut app, "no unread mail");
    app.enter("/read-mail 2");
    app.enter("/delete-mail 2");
    assert_shows(&mut app, "message deleted");
    assert_eq!(mail(&app, "ann"), [("from the root".to_owned(), true)]);
    app.enter("/read-mail 2");
    assert_shows(&mut app, "no mail with id");
}

#[test]
fn mail_to_unknown_killed_or_several_agents_or_without_text_is_refused_and_the_line_comes_back() {
    let mut app = family();
    let dead = app.id(app.n("bob"));
    app.enter("/kill bob");
    assert_refused(&mut app, "/send carl hello", "no agent \"carl\"");
    assert_refused(&mut app, "/send bob hello", "no agent \"bob\"");
    assert_refused(&mut app, &format!("/send {dead} hello"), "no agent");
    assert_refused(&mut app, "/send ann", "the message is empty");
    assert_refused(&mut app, "/send ann \" \"", "the message is empty");
    assert_refused(&mut app, "/send", "no agent given");
    assert_refused(&mut app, "/read-mail first", "is not a message id");
    assert_refused(&mut app, "/delete-mail 7", "no mail with id 7");
    assert_refused(&mut app, "/filter-mail ann", "unexpected argument \"ann\": /filter-mail --from AGENT");
    assert_refused(&mut app, "/check-mail now", "takes no arguments");
    assert_eq!(bodies(&app, "ann"), Vec::<String>::new());
}

#[test]
fn mail_to_oneself_arrives() {
    let mut app = family();
    app.enter("/send 0 to me");
    assert_eq!(bodies(&app, "root"), ["to me"]);
    assert_shows(&mut app, "─ 1 mail ─");
}

#[test]
fn mail_of_another_agent_can_neither_be_read_nor_deleted() {
    let mut app = family();
    app.enter("/send ann a secret");
    assert_refused(&mut app, "/read-mail 1", "no mail with id 1");
    assert_refused(&mut app, "/delete-mail 1", "no mail with id 1");
    assert_eq!(mail(&app, "ann"), [("a secret".to_owned(), false)]);
}

#[test]
fn unread_mail_is_counted_on_the_screen_and_in_the_tree_also_after_a_restart() {
    let mut app = family();
    app.switch(1);
    let ann = app.id(1);
    for body in ["one", "two"] {
        app.ask(0, Change::Mail(MailAct::Send { to: ann, body: body.into() }));
        app.turn();
    }
    assert_shows(&mut app, "─ 2 mail ─");
    let mut app = app.crash_and_restart();
    app.enter("/agents");
    let is_row = |line: &&str| line.contains("   ann");
    let line = app.screen_text().lines().find(is_row).map(str::to_owned).expect("ann is listed");
    assert!(line.contains("2 unread messages"), "{line}");
    app.switch(1);
    assert_shows(&mut app, "─ 2 mail ─");
    app.enter("/read-mail");
    assert_shows(&mut app, "─ 1 mail ─");
    app.enter("/delete-mail 2");
    assert_eq!(app.agent(1).unread, 0);
}

#[test]
fn mail_from_a_killed_agent_can_still_be_read_and_found() {
    let mut app = family();
    let bob = app.id(app.n("bob"));
    app.switch(app.n("bob"));
    app.enter("/send ann farewell");
    app.enter("/kill");
    app.switch(app.n("ann"));
    let root = app.id(0);
    let to = app.id(app.n("ann"));
    app.repl.apply(root, Change::Mail(MailAct::Send { to, body: "another".into() })).expect("ann lives");
    for agent_id in [bob.to_string(), "bob".to_owned()] {
        app.enter(&format!("/filter-mail --from {agent_id}"));
        assert_shows(&mut app, "1 message, 1 unread");
        assert_shows(&mut app, "unread from bob (dead): farewell");
        app.type_bytes(b"\x0c");
    }
    assert_refused(&mut app, "/filter-mail --from carl", "no agent \"carl\"");
    app.enter("/read-mail");
    assert_shows(&mut app, "from bob (dead):");
    assert_shows(&mut app, "farewell");
}

/// Exactly this many bytes of text that is hard for terminals and JSON.
fn hard_body(bytes: usize) -> String {
    let mut body = "a line\n\u{1b}[2J\0\u{7}\"quoted\" \\ \r\n\tü字\u{202e}".repeat(bytes / 20);
    let end = (0..=bytes).rev().find(|end| body.is_char_boundary(*end)).expect("0 is one");
    body.truncate(end);
    body.push_str(&"x".repeat(bytes - end));
    body
}

/// A turn that calls these tools, one in each reply; their results.
fn results_of(app: &mut Harness, peer: &Peer, n: usize, calls: &[(&str, Value)]) -> Vec<String> {
    app.say(n, "do it");
    let arguments: Vec<String> = calls.iter().map(|(_, arguments)| arguments.to_string()).collect();
    let calls: Vec<(&str, &str)> = calls.iter().zip(&arguments).map(|((name, _), text)| (*name, &**text)).collect();
    reply_with_calls(&app.accept(peer), &calls);
    let results = results_then(app, peer, n, "done");
    results[results.len() - calls.len()..].to_vec()
}

#[test]
fn a_mebibyte_of_anything_arrives_as_it_was_written_and_a_byte_more_is_refused() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.fork_named(0, "ann");
    let (longest, longer) = (hard_body(LONGEST), hard_body(LONGEST + 1));
    let (root, to) = (app.id(0), app.id(1));
    app.ask(0, Change::Mail(MailAct::Send { to, body: longest.clone() }));
    let refused = app.repl.apply(root, Change::Mail(MailAct::Send { to, body: longer })).expect_err("it is too long");
    assert!(refused.message.contains("1048577 bytes"), "{refused}");
    assert!(bodies(&app, "ann") == [longest.as_str()], "byte for byte");
    let mut app = app.crash_and_restart();
    let read = results_of(&mut app, &peer, 1, &[("read_mail", json!({}))]);
    assert!(read[0].ends_with(&longest), "the model gets all of it");
    app.switch(1);
    app.enter("/read-mail 1");
    assert!(!app.sent.windows(2).any(|pair| pair == b"\0\x07"), "mail does not reach the terminal unescaped");
    app.enter("/check-mail");
    assert_shows(&mut app, "1 message, 0 unread");
}

#[test]
fn long_mail_of_any_characters_goes_through_the_tools_unchanged() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.fork_named(0, "ann");
    let body = hard_body(200_000);
    let send = |body: &str| ("send_mail", json!({"to": "ann", "body": body}));
    let results = results_of(&mut app, &peer, 0, &[send(&body), send("\n \t")]);
    assert!(results[0] == "sent to ann" && results[1].contains("empty"), "{results:?}");
    let read = results_of(&mut app, &peer, 1, &[("read_mail", json!({}))]);
    assert!(read[0].ends_with(&body));
}

#[test]
fn the_tools_send_list_and_read_and_name_the_parent_without_knowing_its_name() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let ann = app.fork_named(0, "ann");
    let mail_to_parent = |body: &str| json!({"to": "parent", "body": body});
    let sent = [
        ("send_mail", mail_to_parent("one")),
        ("send_mail", mail_to_parent("two")),
        ("send_mail", json!({"to":"ann","body":"me"})),
    ];
    let results = results_of(&mut app, &peer, ann, &sent);
    assert_eq!(results, ["sent to agent 0", "sent to agent 0", "sent to ann"]);
    let looks =
        [("check_mail", json!({})), ("read_mail", json!({"id": 2})), ("read_mail", json!({})), ("agents", json!({}))];
    let results = results_of(&mut app, &peer, 0, &looks);
    assert!(results[0].starts_with("2 messages, 2 unread\n1    unread from ann: one"), "{}", results[0]);
    assert_eq!(results[1..3], ["message 2 from ann:\ntwo", "message 1 from ann:\none"]);
    assert!(results[3].contains("ann") && results[3].contains("idle, 1 unread message  "), "{}", results[3]);
    assert_eq!(mail(&app, "ann"), [("me".to_owned(), false)], "the mail of others is not touched");
}

#[test]
fn a_tool_call_that_names_no_agent_no_mail_or_the_parent_of_the_root_is_answered_with_the_reason() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.fork_named(0, "dead");
    app.enter("/kill dead");
    let to = |name: &str| ("send_mail", json!({"to": name, "body": "hello"}));
    let calls =
        [to("nobody"), to("dead"), to(""), to("parent"), ("read_mail", json!({})), ("read_mail", json!({"id": 9}))];
    let results = results_of(&mut app, &peer, 0, &calls);
    assert!(results[0].contains("no agent \"nobody\"") && results[1].contains("no agent \"dead\""));
    assert!(results[2].contains("`to` must not be empty"), "{results:?}");
    assert!(results[3].contains("you have no parent"), "{results:?}");
    assert_eq!(results[4..], ["no unread mail", "no mail with id 9"]);
    assert_eq!(app.repl.store().read_mail(app.id(0), Some(MailId(1)), 0), Ok(None));
}

/// Two helpers that are forked by the tool report to their parent; the parent waits for both, reads their mail and answers.
const SCENE: &str = r#"%tool fork {"name":"ann","prompt":"%slow 20\nI count the apples\n%tool send_mail {\"to\":\"parent\",\"body\":\"3 apples\"}\n%next\nI am done"}
%tool fork {"name":"bob","prompt":"%slow 50\nI count the pears\n%tool send_mail {\"to\":\"parent\",\"body\":\"4 pears\"}\n%next\nI am done"}
%next
%tool wait {"from":"ann,bob"}
%next
%tool read_mail {}
%tool read_mail {}
%next
There are 3 apples and 4 pears."#;

#[test]
fn two_helpers_work_in_the_background_report_by_mail_and_the_parent_answers() {
    for working_limit in [0, 1] {
        let mut app = Harness::new(Plan { real_time: true, working_limit, ..Plan::default() });
        app.type_bytes(format!("\x1b[200~{SCENE}\x1b[201~\r").as_bytes());
        app.turn_until_idle();
        let results: Vec<String> = app.tool_results(0).into_iter().map(|result| result.content).collect();
        assert!(results[2].starts_with("2 unread messages."), "{results:?}");
        // Ann is faster, but on a slow machine both report in one turn, in any order.
        let mut read: Vec<&str> = results[3..].iter().filter_map(|read| Some(read.split_once(" from ")?.1)).collect();
        read.sort_unstable();
        assert_eq!(read, ["ann:\n3 apples", "bob:\n4 pears"], "{results:?}");
        assert_eq!((app.focus(), app.repl.roster().len()), (0, 3));
        assert_shows(&mut app, "There are 3 apples and 4 pears.");
        assert_eq!(app.replies(app.n("bob")).last().map(String::as_str), Some("I am done"));
    }
}

#[test]
fn the_same_scene_with_a_server_whose_requests_are_all_valid() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("count the fruit");
    let fork = |name: &str| json!({"name": name, "prompt": format!("{name}, count")}).to_string();
    reply_with_calls(&app.accept(&peer), &[("fork", &fork("ann")), ("fork", &fork("bob"))]);
    let [ann, bob, parent] = accept_by_text(&mut app, &peer, ["ann, count", "bob, count", "count the fruit"]);
    reply_with_calls(&parent, &[("wait", "{\"from\":\"ann,bob\"}")]);
    let report = |body: &str| json!({"to": "parent", "body": body}).to_string();
    reply_with_calls(&bob, &[("send_mail", &report("4 pears"))]);
    let bob = app.accept(&peer);
    assert_eq!(texts_in(&bob.request().body)[0], "bob, count", "the parent waits still");
    bob.stream().text("done").finish("stop").done();
    app.turn_until("bob is done", |app| app.state(app.n("bob")) == State::Idle);
    reply_with_calls(&ann, &[("send_mail", &report("3 apples"))]);
    let [ann, waited] = accept_by_text(&mut app, &peer, ["ann, count", "count the fruit"]);
    assert_valid(&ann.request().json());
    ann.stream().text("done").finish("stop").done();
    assert!(results_in(&waited.request().json())[2].1.starts_with("2 unread messages."));
    reply_with_calls(&waited, &[("read_mail", "{}"), ("read_mail", "{}")]);
    let last = app.accept(&peer);
    assert_valid(&last.request().json());
    let results = results_in(&last.request().json());
    assert_eq!([&*results[3].1, &*results[4].1], ["message 1 from bob:\n4 pears", "message 2 from ann:\n3 apples"]);
    last.stream().text("3 and 4").finish("stop").done();
    app.turn_until_idle();
    assert_shows(&mut app, "3 and 4");
}
