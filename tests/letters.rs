//! Letters: the commands and the tools, and the whole scene of helpers that work in the background and report. Waiting
//! for letters has a file of its own below.

mod waiting;

use polylogue::agent::State;
use polylogue::domain::flow::Change;
use polylogue::domain::mail::{LONGEST, MailId};
use serde_json::{Value, json};

use crate::support::harness::{Harness, Plan};
use crate::support::peer::Peer;
use crate::support::scene::{
    accept_these, assert_refused, assert_shows, assert_valid, house, reply_with_calls, results_in, results_then,
    texts_in,
};

/// The root, on the screen, and the children `ann` and `bob`; all talk to echo, and the clock stands still.
fn family() -> Harness {
    let mut house = Harness::new(Plan::default());
    house.fork_named(0, "ann");
    house.fork_named(0, "bob");
    house
}

/// The bodies of an agent's letters, as the list has them, and whether each is read.
fn letters(house: &Harness, name: &str) -> Vec<(String, bool)> {
    let who = if name == "root" { house.id(0) } else { house.id(house.n(name)) };
    let mail = house.repl.store().mail(who, None).expect("a box");
    mail.into_iter().map(|mail| (mail.body, mail.is_read)).collect()
}

fn bodies(house: &Harness, name: &str) -> Vec<String> {
    letters(house, name).into_iter().map(|(body, _)| body).collect()
}

#[test]
fn a_letter_is_the_rest_of_the_line_with_or_without_quotes() {
    let mut house = family();
    for line in ["plain  words", "\"in quotes\"", "\"first\" and \"last\"", "one \"quoted\" word", "\""] {
        house.enter(&format!("/send ann {line}"));
    }
    let expected = ["plain  words", "in quotes", "\"first\" and \"last\"", "one \"quoted\" word", "\""];
    assert_eq!(bodies(&house, "ann"), expected);
    assert_shows(&mut house, "the letter is in ann's box");
}

#[test]
fn a_letter_may_have_lines() {
    let mut house = family();
    house.type_bytes(b"/send ann \x1b[200~one\ntwo\n\nfour\x1b[201~\r");
    assert_eq!(bodies(&house, "ann"), ["one\ntwo\n\nfour"]);
    house.switch(1);
    house.enter("/read-mail");
    assert_shows(&mut house, "four");
}

#[test]
fn letters_are_listed_read_filtered_and_thrown_away() {
    let mut house = family();
    house.enter("/send ann from the root");
    house.switch(house.n("bob"));
    house.enter("/send ann from bob\nwith more");
    house.switch(house.n("ann"));
    house.enter("/check-mail");
    assert_shows(&mut house, "2 letters, 2 unread");
    assert_shows(&mut house, "2    unread from bob: from bob");
    house.enter("/filter-mail --from bob");
    assert_shows(&mut house, "1 letter, 1 unread");
    house.enter("/read-mail 2");
    assert_shows(&mut house, "letter 2 from bob:");
    house.enter("/read-mail");
    assert_shows(&mut house, "from the root");
    house.enter("/read-mail");
    assert_shows(&mut house, "no unread letters");
    house.enter("/read-mail 2");
    house.enter("/delete-mail 2");
    assert_shows(&mut house, "thrown away");
    assert_eq!(letters(&house, "ann"), [("from the root".to_owned(), true)]);
    house.enter("/read-mail 2");
    assert_shows(&mut house, "there is no such letter");
}

#[test]
fn a_letter_to_nobody_to_the_dead_to_several_or_without_a_word_is_refused_and_the_line_comes_back() {
    let mut house = family();
    let dead = house.id(house.n("bob"));
    house.enter("/kill bob");
    assert_refused(&mut house, "/send carl hello", "there is no agent \"carl\"");
    assert_refused(&mut house, "/send bob hello", "there is no agent \"bob\"");
    assert_refused(&mut house, &format!("/send {dead} hello"), "there is no agent");
    assert_refused(&mut house, "/send ann", "the letter is empty");
    assert_refused(&mut house, "/send ann \" \"", "the letter is empty");
    assert_refused(&mut house, "/send", "say to whom and what");
    assert_refused(&mut house, "/read-mail first", "is no letter");
    assert_refused(&mut house, "/delete-mail 7", "there is no such letter");
    assert_refused(&mut house, "/filter-mail ann", "say whose letters");
    assert_refused(&mut house, "/check-mail now", "takes nothing behind it");
    assert_eq!(bodies(&house, "ann"), Vec::<String>::new());
}

#[test]
fn a_letter_to_oneself_arrives() {
    let mut house = family();
    house.enter("/send 0 to me");
    assert_eq!(bodies(&house, "root"), ["to me"]);
    assert_shows(&mut house, "1 unread letter");
}

#[test]
fn letters_of_somebody_else_can_neither_be_read_nor_thrown_away() {
    let mut house = family();
    house.enter("/send ann a secret");
    house.enter("/read-mail 1");
    assert_shows(&mut house, "there is no such letter");
    assert_refused(&mut house, "/delete-mail 1", "there is no such letter");
    assert_eq!(letters(&house, "ann"), [("a secret".to_owned(), false)]);
}

#[test]
fn unread_letters_are_counted_on_the_screen_and_in_the_tree_also_after_a_restart() {
    let mut house = family();
    house.switch(1);
    let ann = house.id(1);
    for body in ["one", "two"] {
        house.ask(0, Change::Send { to: ann, body: body.into() });
        house.turn();
    }
    assert_shows(&mut house, "2 unread letters");
    let mut house = house.crash_and_restart();
    house.enter("/agents");
    let line = house.screen_text().lines().find(|line| line.contains("ann")).map(str::to_owned).expect("ann is listed");
    assert!(line.contains("2 unread letters"), "{line}");
    house.switch(1);
    assert_shows(&mut house, "2 unread letters");
    house.enter("/read-mail");
    assert_shows(&mut house, "1 unread letter");
    house.enter("/delete-mail 2");
    assert_eq!(house.agent(1).unread, 0);
}

#[test]
fn letters_of_the_dead_can_still_be_read_and_found() {
    let mut house = family();
    let bob = house.id(house.n("bob"));
    house.switch(house.n("bob"));
    house.enter("/send ann farewell");
    house.enter("/kill");
    house.switch(house.n("ann"));
    let root = house.id(0);
    let to = house.id(house.n("ann"));
    house.repl.ask(root, Change::Send { to, body: "another".into() }).expect("ann lives");
    for who in [bob.to_string(), "bob".to_owned()] {
        house.enter(&format!("/filter-mail --from {who}"));
        assert_shows(&mut house, "1 letter, 1 unread");
        assert_shows(&mut house, "unread from bob (dead): farewell");
        house.type_bytes(b"\x0c");
    }
    assert_refused(&mut house, "/filter-mail --from carl", "there is no agent \"carl\"");
    house.enter("/read-mail");
    assert_shows(&mut house, "from bob (dead):");
    assert_shows(&mut house, "farewell");
}

/// Exactly so many bytes of what is hard on terminals and JSON.
fn hard_body(bytes: usize) -> String {
    let mut body = "a line\n\u{1b}[2J\0\u{7}\"quoted\" \\ \r\n\tü字\u{202e}".repeat(bytes / 20);
    let end = (0..=bytes).rev().find(|end| body.is_char_boundary(*end)).expect("0 is one");
    body.truncate(end);
    body.push_str(&"x".repeat(bytes - end));
    body
}

/// An agent's turn that calls these tools, one reply each; what came of each.
fn results_of(house: &mut Harness, peer: &Peer, n: usize, calls: &[(&str, Value)]) -> Vec<String> {
    house.say(n, "do it");
    let arguments: Vec<String> = calls.iter().map(|(_, arguments)| arguments.to_string()).collect();
    let calls: Vec<(&str, &str)> = calls.iter().zip(&arguments).map(|((name, _), text)| (*name, &**text)).collect();
    reply_with_calls(&house.accept(peer), &calls);
    let results = results_then(house, peer, n, "done");
    results[results.len() - calls.len()..].to_vec()
}

#[test]
fn a_mebibyte_of_anything_arrives_as_it_was_written_and_a_byte_more_is_refused() {
    let peer = Peer::start();
    let mut house = house(&peer);
    house.fork_named(0, "ann");
    let (longest, longer) = (hard_body(LONGEST), hard_body(LONGEST + 1));
    let (root, to) = (house.id(0), house.id(1));
    house.ask(0, Change::Send { to, body: longest.clone() });
    let refused = house.repl.ask(root, Change::Send { to, body: longer }).expect_err("it is too long");
    assert!(refused.message.contains("1048577 bytes"), "{refused}");
    assert!(bodies(&house, "ann") == [longest.as_str()], "byte for byte");
    let mut house = house.crash_and_restart();
    let read = results_of(&mut house, &peer, 1, &[("read_mail", json!({}))]);
    assert!(read[0].ends_with(&longest), "the model is told all of it");
    house.switch(1);
    house.enter("/read-mail 1");
    assert!(!house.sent.windows(2).any(|pair| pair == b"\0\x07"), "a letter says nothing to the terminal itself");
    house.enter("/check-mail");
    assert_shows(&mut house, "1 letter, 0 unread");
}

#[test]
fn a_long_letter_of_anything_goes_through_the_tools_as_it_was_written() {
    let peer = Peer::start();
    let mut house = house(&peer);
    house.fork_named(0, "ann");
    let body = hard_body(200_000);
    let send = |body: &str| ("send_mail", json!({"to": "ann", "body": body}));
    let results = results_of(&mut house, &peer, 0, &[send(&body), send("\n \t")]);
    assert!(results[0].contains("is in the box") && results[1].contains("empty"), "{results:?}");
    let read = results_of(&mut house, &peer, 1, &[("read_mail", json!({}))]);
    assert!(read[0].ends_with(&body));
}

#[test]
fn the_tools_send_list_and_read_and_name_the_parent_without_knowing_its_name() {
    let peer = Peer::start();
    let mut house = house(&peer);
    let ann = house.fork_named(0, "ann");
    let letter = |body: &str| json!({"to": "parent", "body": body});
    let sent =
        [("send_mail", letter("one")), ("send_mail", letter("two")), ("send_mail", json!({"to":"ann","body":"me"}))];
    let results = results_of(&mut house, &peer, ann, &sent);
    assert_eq!(results, ["letter 1 is in the box", "letter 2 is in the box", "letter 3 is in the box"]);
    let looks =
        [("check_mail", json!({})), ("read_mail", json!({"id": 2})), ("read_mail", json!({})), ("agents", json!({}))];
    let results = results_of(&mut house, &peer, 0, &looks);
    assert!(results[0].starts_with("2 letters, 2 unread\n1    unread from ann: one"), "{}", results[0]);
    assert_eq!(results[1..3], ["Letter 2 from ann:\ntwo", "Letter 1 from ann:\none"]);
    assert!(results[3].contains("ann") && results[3].contains("idle, 1 unread letter  "), "{}", results[3]);
    assert_eq!(letters(&house, "ann"), [("me".to_owned(), false)], "the letters of others are not touched");
}

#[test]
fn a_tool_that_names_nobody_no_letter_or_the_root_as_its_parent_is_told_so() {
    let peer = Peer::start();
    let mut house = house(&peer);
    house.fork_named(0, "dead");
    house.enter("/kill dead");
    let to = |name: &str| ("send_mail", json!({"to": name, "body": "hello"}));
    let calls =
        [to("nobody"), to("dead"), to(""), to("parent"), ("read_mail", json!({})), ("read_mail", json!({"id": 9}))];
    let results = results_of(&mut house, &peer, 0, &calls);
    assert!(results[0].contains("there is no agent \"nobody\"") && results[1].contains("there is no agent \"dead\""));
    assert!(results[2].contains("`to` is empty"), "{results:?}");
    assert!(results[3].contains("gone"), "{results:?}");
    assert!(results[4..].iter().all(|words| words.contains("there is no such letter")), "{results:?}");
    assert_eq!(house.repl.store().read_mail(house.id(0), Some(MailId(1)), 0), Ok(None));
}

/// Two helpers by tool, who report to their parent and end; the parent waits for both, reads both, and answers.
const SCENE: &str = r#"!tool fork {"name":"ann","prompt":"!slow 20\nI count the apples\n!tool send_mail {\"to\":\"parent\",\"body\":\"3 apples\"}\n!next\nI am done"}
!tool fork {"name":"bob","prompt":"!slow 50\nI count the pears\n!tool send_mail {\"to\":\"parent\",\"body\":\"4 pears\"}\n!next\nI am done"}
!next
!tool wait {"from":"ann,bob"}
!next
!tool read_mail {}
!tool read_mail {}
!next
There are 3 apples and 4 pears."#;

#[test]
fn two_helpers_work_in_the_background_report_by_letter_and_the_parent_answers() {
    for working_limit in [0, 1] {
        let mut house = Harness::new(Plan { real_time: true, working_limit, ..Plan::default() });
        house.type_bytes(format!("\x1b[200~{SCENE}\x1b[201~\r").as_bytes());
        house.turn_until_idle();
        let results: Vec<String> = house.tool_results(0).into_iter().map(|result| result.content).collect();
        assert!(results[2].starts_with("2 unread letters."), "{results:?}");
        // Ann is quicker, but where the machine holds the loop up both report in one turn, in whatever order.
        let mut read: Vec<&str> = results[3..].iter().filter_map(|read| Some(read.split_once(" from ")?.1)).collect();
        read.sort_unstable();
        assert_eq!(read, ["ann:\n3 apples", "bob:\n4 pears"], "{results:?}");
        assert_eq!((house.focus(), house.repl.roster().len()), (0, 3));
        assert_shows(&mut house, "There are 3 apples and 4 pears.");
        assert_eq!(house.replies(house.n("bob")).last().map(String::as_str), Some("I am done"));
    }
}

#[test]
fn the_same_scene_with_a_server_whose_requests_are_all_valid() {
    let peer = Peer::start();
    let mut house = house(&peer);
    house.enter("count the fruit");
    let fork = |name: &str| json!({"name": name, "prompt": format!("{name}, count")}).to_string();
    reply_with_calls(&house.accept(&peer), &[("fork", &fork("ann")), ("fork", &fork("bob"))]);
    let [ann, bob, parent] = accept_these(&mut house, &peer, ["ann, count", "bob, count", "count the fruit"]);
    reply_with_calls(&parent, &[("wait", "{\"from\":\"ann,bob\"}")]);
    let report = |letter: &str| json!({"to": "parent", "body": letter}).to_string();
    reply_with_calls(&bob, &[("send_mail", &report("4 pears"))]);
    let bob = house.accept(&peer);
    assert_eq!(texts_in(&bob.request().body)[0], "bob, count", "the parent waits still");
    bob.stream().text("done").finish("stop").done();
    house.turn_until("bob is done", |house| house.state(house.n("bob")) == State::Idle);
    reply_with_calls(&ann, &[("send_mail", &report("3 apples"))]);
    let [ann, waited] = accept_these(&mut house, &peer, ["ann, count", "count the fruit"]);
    assert_valid(&ann.request().json());
    ann.stream().text("done").finish("stop").done();
    assert!(results_in(&waited.request().json())[2].1.starts_with("2 unread letters."));
    reply_with_calls(&waited, &[("read_mail", "{}"), ("read_mail", "{}")]);
    let last = house.accept(&peer);
    assert_valid(&last.request().json());
    let results = results_in(&last.request().json());
    assert_eq!([&*results[3].1, &*results[4].1], ["Letter 1 from bob:\n4 pears", "Letter 2 from ann:\n3 apples"]);
    last.stream().text("3 and 4").finish("stop").done();
    house.turn_until_idle();
    assert_shows(&mut house, "3 and 4");
}
