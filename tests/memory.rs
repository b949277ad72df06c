//! What an agent remembers: `/mark`, `/rewind` and `/clear`, seen in the request bodies that its server is sent.

use polylogue::agent::State;
use polylogue::domain::flow::Change;

use crate::support::harness::Harness;
use crate::support::peer::Peer;
use crate::support::scene::{assert_refused, assert_shows, bash, house, reply_with_calls, texts_in, told};

/// The agent on the screen is told this and says yes; what its server was told.
fn ask(house: &mut Harness, peer: &Peer, text: &str) -> Vec<String> {
    texts_in(&ask_for_bytes(house, peer, text))
}

fn ask_for_bytes(house: &mut Harness, peer: &Peer, text: &str) -> Vec<u8> {
    let focus = house.focus();
    told(house, peer, focus, text, "yes")
}

#[test]
fn a_rewind_forgets_what_came_after_the_mark_to_the_byte_also_after_a_restart() {
    let peer = Peer::start();
    let mut house = house(&peer);
    ask(&mut house, &peer, "one");
    house.enter("/mark");
    let expected = ask_for_bytes(&mut house, &peer, "two");
    ask(&mut house, &peer, "three");
    house.enter("/rewind");
    assert_eq!(ask_for_bytes(&mut house, &peer, "two"), expected);
    house.enter("/rewind");
    assert_eq!(ask_for_bytes(&mut house, &peer, "two"), expected, "a mark can be gone back to again");
    house.enter("/rewind");
    let mut house = house.crash_and_restart();
    assert_eq!(ask_for_bytes(&mut house, &peer, "two"), expected);
    house.enter("/rewind");
    assert_eq!(ask_for_bytes(&mut house, &peer, "two"), expected, "marks are there after a restart");
}

#[test]
fn a_rewind_goes_to_the_newest_mark_of_its_label_and_forgets_the_marks_behind_it() {
    let peer = Peer::start();
    let mut house = house(&peer);
    for (mark, text) in [("here", "one"), ("there", "two"), ("here", "three"), ("a long label", "four")] {
        house.enter(&format!("/mark {mark}"));
        ask(&mut house, &peer, text);
    }
    house.enter("/rewind here");
    assert_eq!(ask(&mut house, &peer, "a"), ["one", "yes", "two", "yes", "a"]);
    assert_refused(&mut house, "/rewind a long label", "there is no mark \"a long label\" to go back to");
    house.enter("/rewind there");
    assert_eq!(ask(&mut house, &peer, "b"), ["one", "yes", "b"]);
    house.enter("/rewind here");
    assert_eq!(ask(&mut house, &peer, "c"), ["c"]);
}

#[test]
fn without_a_mark_there_is_nothing_to_go_back_to() {
    let peer = Peer::start();
    let mut house = house(&peer);
    ask(&mut house, &peer, "one");
    assert_refused(&mut house, "/rewind", "there is no mark to go back to: /mark sets one");
    house.enter("/mark here");
    assert_refused(&mut house, "/rewind there", "there is no mark \"there\" to go back to");
    house.enter("/clear");
    assert_refused(&mut house, "/rewind here", "there is no mark \"here\" to go back to");
    assert_eq!(ask(&mut house, &peer, "two"), ["two"]);
}

#[test]
fn a_clear_forgets_everything_also_after_a_restart_and_in_children_made_later() {
    let peer = Peer::start();
    let mut house = house(&peer);
    let first = ask_for_bytes(&mut house, &peer, "one");
    ask(&mut house, &peer, "two");
    house.enter("/clear");
    assert_eq!(ask_for_bytes(&mut house, &peer, "one"), first);
    house.enter("/clear");
    house.fork_named(0, "child");
    let mut house = house.crash_and_restart();
    assert_eq!(ask_for_bytes(&mut house, &peer, "one"), first);
    house.switch(1);
    assert_eq!(ask_for_bytes(&mut house, &peer, "one"), first);
    assert_refused(&mut house, "/clear all", "takes nothing behind it");
}

#[test]
fn a_clear_does_not_empty_the_screen_and_says_what_it_did() {
    let peer = Peer::start();
    let mut house = house(&peer);
    ask(&mut house, &peer, "something to scroll back to");
    house.enter("/clear");
    for words in ["something to scroll back to", "no longer told to the model"] {
        assert!(house.screen_text().contains(words), "{}", house.screen_text());
    }
}

#[test]
fn a_child_knows_no_mark_of_its_parent_and_its_own_are_its_own() {
    let peer = Peer::start();
    let mut house = house(&peer);
    ask(&mut house, &peer, "one");
    house.enter("/mark here");
    ask(&mut house, &peer, "two");
    house.enter("/fork --name child");
    assert_refused(&mut house, "/rewind", "there is no mark");
    assert_refused(&mut house, "/rewind here", "there is no mark");
    house.enter("/mark here");
    let expected = ask_for_bytes(&mut house, &peer, "three");
    house.enter("/rewind here");
    assert_eq!(ask_for_bytes(&mut house, &peer, "three"), expected);
    let mut house = house.crash_and_restart();
    assert_eq!(house.focus(), 0);
    house.enter("/rewind here");
    assert_eq!(ask(&mut house, &peer, "four"), ["one", "yes", "four"]);
    house.switch(1);
    house.enter("/rewind");
    assert_eq!(ask_for_bytes(&mut house, &peer, "three"), expected);
}

#[test]
fn a_clear_in_a_child_cuts_off_all_its_ancestors_for_it_and_for_nobody_else() {
    let peer = Peer::start();
    let mut house = house(&peer);
    ask(&mut house, &peer, "of the root");
    for (name, text) in [("child", "of the child"), ("cut", "of the cut"), ("last", "of the last")] {
        house.enter(&format!("/fork --name {name}"));
        if name == "cut" {
            house.enter("/clear");
        }
        ask(&mut house, &peer, text);
    }
    let mut expected = vec!["of the cut", "yes", "of the last", "yes"];
    let mut above = vec!["of the root", "yes", "of the child", "yes"];
    let mut house = Some(house);
    for text in ["before", "after the restart"] {
        let mut now = house.take().expect("a house").crash_and_restart();
        for (name, list) in [("last", &mut expected), ("child", &mut above)] {
            now.switch(now.n(name));
            list.push(text);
            assert_eq!(ask(&mut now, &peer, text), *list, "{name}");
            list.push("yes");
        }
        house = Some(now);
    }
}

#[test]
fn a_rewind_in_a_parent_is_inherited_by_children_made_after_it_and_by_no_other() {
    let peer = Peer::start();
    let mut house = house(&peer);
    ask(&mut house, &peer, "one");
    house.enter("/mark");
    ask(&mut house, &peer, "two");
    house.fork_named(0, "before");
    house.enter("/rewind");
    house.fork_named(0, "after");
    let mut house = house.crash_and_restart();
    for (name, expected) in [("before", vec!["one", "yes", "two", "yes", "go"]), ("after", vec!["one", "yes", "go"])] {
        house.switch(house.n(name));
        assert_eq!(ask(&mut house, &peer, "go"), expected, "{name}");
    }
}

/// Each of these would change the conversation in the middle of a turn: typed, it waits its turn; else it is refused.
fn assert_busy(house: &mut Harness) {
    let (id, before) = (house.id(0), house.kinds(0));
    for line in ["/mark there", "/rewind here", "/rewind", "/clear"] {
        house.enter(line);
        assert_shows(house, &format!("{line} waits its turn: queued as 1"));
        house.type_bytes(b"\x1b[A");
        assert_eq!(house.agent(0).view.draft.text(), line);
        house.type_bytes(b"\x15");
    }
    for change in [Change::Mark("there".into()), Change::Rewind(None), Change::Clear] {
        let refused = house.repl.ask(id, change).expect_err("it is busy");
        assert!(refused.message.contains("agent 0 is busy: wait for it, or stop it with Esc first"), "{refused}");
    }
    assert_eq!(house.kinds(0), before);
}

#[test]
fn nothing_is_forgotten_or_marked_while_the_agent_is_busy_and_the_person_is_told_when() {
    let peer = Peer::start();
    let mut house = house(&peer);
    house.enter("/mark here");
    house.say(0, "do it");
    let request = house.accept(&peer);
    assert_busy(&mut house);
    request.stream().text("half");
    house.turn_until("the half", |house| house.agent(0).partial_text() == "half");
    assert_busy(&mut house);
    request.tool_call(0, "call", "bash", &bash("true")).finish("tool_calls").done();
    house.turn_until_asked(0);
    assert_busy(&mut house);
    house.escape();
    assert_eq!(house.state(0), State::Idle);
    house.enter("/rewind here");
    assert_eq!(ask(&mut house, &peer, "again"), ["again"]);
}

#[test]
fn a_rewind_behind_an_interrupted_round_of_tools_leaves_no_call_without_its_result() {
    let peer = Peer::start();
    let mut house = house(&peer);
    ask(&mut house, &peer, "one");
    house.say(0, "do it");
    reply_with_calls(&house.accept(&peer), &[("wait", "{}")]);
    house.turn_until("it waits", |house| house.state(0) == State::ExecutingTool);
    house.ask(0, Change::Interrupt);
    house.enter("/mark");
    ask(&mut house, &peer, "two");
    house.enter("/rewind");
    let body = ask_for_bytes(&mut house, &peer, "three");
    crate::support::scene::assert_valid(&serde_json::from_slice(&body).expect("JSON"));
    assert_eq!(texts_in(&body)[..3], ["one", "yes", "do it"]);
    assert!(!texts_in(&body).contains(&"two".to_owned()));
}
