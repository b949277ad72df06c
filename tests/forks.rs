//! Fork: what a child inherits, seen in the request bodies that its server is sent; a fork that waits for tools; and,
//! in a file of its own, the `fork` tool.

mod tool;

use polylogue::agent::State;
use polylogue::domain::flow::Change;
use rusqlite::Connection;

use crate::support::harness::{Harness, Plan};
use crate::support::peer::Peer;
use crate::support::scene::{
    accept_these, answered, assert_valid, bash, house, let_pass, reply_with_calls, results_in, results_then, runs,
    texts_in, told,
};

/// How many of the first bytes are the same.
fn shared(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// The agent is told to do something and calls these tools.
fn calls(house: &mut Harness, peer: &Peer, n: usize, calls: &[(&str, &str)]) {
    house.say(n, "do it");
    reply_with_calls(&house.accept(peer), calls);
}

#[test]
fn a_plain_fork_goes_to_the_screen_knows_what_the_parent_knows_and_waits() {
    let peer = Peer::start();
    let mut house = house(&peer);
    told(&mut house, &peer, 0, "an old question", "an old reply");
    house.type_bytes(b"half a line");
    house.ask(0, Change::Fork { prompt: None, name: None, model: None });
    assert_eq!((house.repl.roster().len(), house.focus()), (2, 1));
    assert_eq!((house.state(0), house.state(1)), (State::Idle, State::Idle));
    assert_eq!(house.agent(1).view.draft.text(), "", "a draft is not inherited");
    assert!(house.screen_text().contains("an old reply"), "{}", house.screen_text());
    let_pass(&mut house);
    assert!(peer.try_accept().is_none());
}

#[test]
fn parent_and_child_who_are_told_the_same_send_the_same_bytes() {
    let peer = Peer::start();
    let mut house = house(&peer);
    told(&mut house, &peer, 0, "an old question", "an old reply");
    calls(&mut house, &peer, 0, &[("read_file", "{\"path\":\"none\"}")]);
    answered(&mut house, &peer, 0, "read");
    house.enter("/fork");
    let child = told(&mut house, &peer, 1, "the same", "yes");
    assert_eq!(told(&mut house, &peer, 0, "the same", "no"), child);
    let child = told(&mut house, &peer, 1, "of the child", "yes");
    let parent = told(&mut house, &peer, 0, "of the parent", "no");
    assert!(String::from_utf8_lossy(&parent[..shared(&parent, &child)]).contains("the same"));
    assert_eq!(texts_in(&child)[..5], texts_in(&parent)[..5]);
}

#[test]
fn a_fork_with_prompt_name_and_model_is_called_so_runs_on_it_and_starts_at_once() {
    let peer = Peer::start();
    let mut house = house(&peer);
    told(&mut house, &peer, 0, "an old question", "an old reply");
    house.enter("/fork --name scout --model openai/other/one \"look  around\"");
    assert_eq!((house.focus(), house.agent(1).identity.label()), (1, "scout".into()));
    let exchange = house.accept(&peer);
    assert_eq!(texts_in(&exchange.request().body), ["an old question", "an old reply", "look  around"]);
    assert_eq!(exchange.request().json()["model"], "other/one");
    assert_eq!((house.state(0), house.state(1)), (State::Idle, State::WaitingForLlm));
    drop(exchange);

    let mut house = house.crash_and_restart();
    assert_eq!(house.agent(1).talk.endpoint.full_name(), "openai/other/one");
    let of_parent = told(&mut house, &peer, 0, "and you?", "as ever");
    assert_eq!(texts_in(&of_parent), ["an old question", "an old reply", "and you?"]);
}

#[test]
fn a_fork_that_cannot_be_made_says_why_leaves_nothing_and_gives_the_line_back() {
    let peer = Peer::start();
    let mut house = house(&peer);
    house.fork_named(0, "scout");
    for (line, words) in [
        ("/fork --name scout again", "another running agent is called `scout`"),
        ("/fork --model nowhere/x again", "there is no provider \"nowhere\""),
        ("/fork --name 12 again", "is no name"),
    ] {
        house.enter(line);
        assert!(house.screen_text().contains(words), "{line}\n{}", house.screen_text());
        assert_eq!((house.repl.roster().len(), house.agent(0).view.draft.text()), (2, line));
        house.type_bytes(b"\x15");
        assert_eq!(house.kinds(0), ["fork"], "only the first fork is in the log");
    }
    assert_eq!(house.crash_and_restart().repl.roster().len(), 2);
}

/// Has the store refuse to write a row that this condition fits.
fn break_store(house: &Harness, table: &str, condition: &str) -> Connection {
    let raw = Connection::open(house.directory().join("polylogue.db")).expect("the store");
    let body = "BEGIN SELECT RAISE(ABORT, 'the test says no'); END";
    raw.execute_batch(&format!("CREATE TRIGGER no BEFORE INSERT ON {table} WHEN {condition} {body}"))
        .expect("a trigger");
    raw
}

#[test]
fn a_fork_that_the_store_refuses_half_way_leaves_no_trace() {
    let peer = Peer::start();
    let mut house = house(&peer);
    told(&mut house, &peer, 0, "an old question", "an old reply");
    // The last row of the transaction: the event in the child's log.
    let raw = break_store(&house, "messages", "new.kind = 'fork' AND new.agent > 0");
    let before = house.log(0);
    house.enter("/fork --name scout go on");
    assert!(house.screen_text().contains("the test says no"), "{}", house.screen_text());
    assert_eq!((house.repl.roster().len(), house.log(0)), (1, before));
    calls(&mut house, &peer, 0, &[("fork", "{\"name\":\"scout\",\"prompt\":\"go\"}")]);
    let results = results_then(&mut house, &peer, 0, "a pity");
    assert!(results[0].contains("the test says no"), "{results:?}");
    raw.execute_batch("DROP TRIGGER no").expect("the trigger is there");
    house.type_bytes(b"\x15");
    let mut house = house.crash_and_restart();
    assert_eq!(house.repl.roster().len(), 1);
    house.enter("/fork --name scout");
    assert_eq!(house.n("scout"), 1);
}

/// What may happen to a parent after a fork.
type Deed = fn(&mut Harness, &Peer);

const DEEDS: [(&str, Deed); 5] = [
    ("writes", |house, peer| drop(told(house, peer, house.n("parent"), "more", "much more"))),
    ("clears", |house, _| house.ask(house.n("parent"), Change::Clear)),
    ("rewinds", |house, peer| {
        house.ask(house.n("parent"), Change::Rewind(None));
        told(house, peer, house.n("parent"), "otherwise", "differently");
    }),
    ("forks", |house, _| house.ask(house.n("parent"), Change::Fork { prompt: None, name: None, model: None })),
    ("dies", |house, _| {
        let who = house.repl.roster().find("parent").expect("it lives");
        house.ask(0, Change::Kill { who, cascade: false });
    }),
];

/// A root and a parent that have both said something, the parent with a mark in the middle.
fn root_and_parent(peer: &Peer) -> Harness {
    let mut house = house(peer);
    told(&mut house, peer, 0, "to the root", "from the root");
    let parent = house.fork_named(0, "parent");
    told(&mut house, peer, parent, "to the parent", "from the parent");
    house.ask(parent, Change::Mark(String::new()));
    told(&mut house, peer, parent, "after the mark", "from behind it");
    house
}

#[test]
fn whatever_the_parent_does_after_the_fork_the_child_sends_the_same_bytes() {
    let peer = Peer::start();
    for (what, deed) in DEEDS {
        let mut house = root_and_parent(&peer);
        for name in ["first", "second", "third"] {
            house.fork_named(house.n("parent"), name);
        }
        let first = house.n("first");
        let expected = told(&mut house, &peer, first, "go", "gone");
        assert_eq!(texts_in(&expected).len(), 7);
        deed(&mut house, &peer);
        let second = house.n("second");
        assert_eq!(told(&mut house, &peer, second, "go", "gone"), expected, "the parent {what}");
        let mut house = house.crash_and_restart();
        let third = house.n("third");
        assert_eq!(told(&mut house, &peer, third, "go", "gone"), expected, "the parent {what}, and a restart");
    }
}

#[test]
fn a_child_of_a_parent_that_has_said_nothing_inherits_nothing_then_and_ever_after() {
    let peer = Peer::start();
    let mut house = house(&peer);
    for name in ["at-once", "later", "restarted"] {
        house.fork_named(0, name);
    }
    for (name, reply) in [("at-once", "one"), ("later", "two")] {
        let n = house.n(name);
        assert_eq!(texts_in(&told(&mut house, &peer, n, "alone", reply)), ["alone"]);
        told(&mut house, &peer, 0, "the parent", "goes on");
    }
    let mut house = house.crash_and_restart();
    let n = house.n("restarted");
    assert_eq!(texts_in(&told(&mut house, &peer, n, "alone", "three")), ["alone"]);
}

/// A command of agent 0 runs until somebody writes a line into the pipe `go`; its command line holds the mark.
fn a_command_that_waits(house: &mut Harness, peer: &Peer) -> String {
    let pipe = house.directory().join("go");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there").success());
    let mark = format!("mark-{}", pipe.display());
    calls(house, peer, 0, &[("bash", &bash(&format!("read line < go; echo went on # {mark}")))]);
    house.answer(0, true);
    house.turn_until("the command runs", |_| runs(&mark));
    mark
}

#[test]
fn a_fork_that_waits_for_tools_happens_behind_their_results_with_all_that_was_asked_for() {
    let peer = Peer::start();
    let mut house = house(&peer);
    a_command_that_waits(&mut house, &peer);
    house.enter("/fork --name scout look around");
    house.enter("/fork --name other");
    assert!(house.screen_text().contains("fork already in progress"), "{}", house.screen_text());
    house.type_bytes(b"\x15");
    std::fs::write(house.directory().join("go"), "\n").expect("the command reads");
    let [parent, child] = accept_these(&mut house, &peer, ["do it", "look around"]);
    assert_eq!((house.repl.roster().len(), house.focus()), (2, house.n("scout")));
    let (parent, child) = (parent.request(), child.request());
    assert_valid(&child.json());
    assert!(results_in(&child.json())[0].1.contains("went on"));
    // Behind its last message the parent's body goes on with `]` and the tools, the child's with a comma.
    let common = &parent.body[..shared(&parent.body, &child.body)];
    assert!(common.ends_with(b"\"tool_call_id\":\"call-0\"}"), "{}", String::from_utf8_lossy(common));
}

#[test]
fn a_waiting_fork_that_cannot_be_made_in_the_end_gives_its_text_back() {
    let peer = Peer::start();
    let mut house = house(&peer);
    a_command_that_waits(&mut house, &peer);
    house.enter("/fork --name scout look around");
    let id = house.id(0);
    house.repl.ask(id, Change::Name(Some("scout".into()))).expect("the name is free still");
    std::fs::write(house.directory().join("go"), "\n").expect("the command reads");
    answered(&mut house, &peer, 0, "done");
    assert_eq!(house.repl.roster().len(), 1);
    assert!(house.screen_text().contains("another running agent is called `scout`"), "{}", house.screen_text());
    assert_eq!(house.agent(0).view.draft.text(), "/fork --name scout look around");
}

#[test]
fn an_interrupt_cancels_a_waiting_fork_and_gives_the_whole_line_back() {
    for line in ["/fork look around", "/fork --name scout", "/fork --name scout --model openai/x look around"] {
        let peer = Peer::start();
        let mut house = house(&peer);
        a_command_that_waits(&mut house, &peer);
        house.enter(line);
        house.escape();
        house.turn_until_idle();
        assert_eq!(house.agent(0).view.draft.text(), line);
        let_pass(&mut house);
        assert_eq!((house.repl.roster().len(), house.kinds(0).contains(&"fork")), (1, false));
    }
}

#[test]
fn the_death_of_an_agent_cancels_its_waiting_fork() {
    let peer = Peer::start();
    let mut house = house(&peer);
    let mark = a_command_that_waits(&mut house, &peer);
    // The same once more in a child, which can die.
    house.escape();
    house.turn_until_idle();
    let child = house.fork_named(0, "child");
    calls(&mut house, &peer, child, &[("bash", &bash(&format!("read line < go # {mark}")))]);
    house.answer(child, true);
    house.turn_until("the command runs", |_| runs(&mark));
    house.ask(child, Change::Fork { prompt: Some("go".into()), name: Some("late".into()), model: None });
    house.enter("/kill child");
    house.turn_until("the command ends", |_| !runs(&mark));
    let_pass(&mut house);
    assert_eq!(house.repl.roster().len(), 1);
    assert!(peer.try_accept().is_none());
    assert_eq!(house.crash_and_restart().repl.roster().len(), 1);
}

#[test]
fn a_fork_while_a_reply_streams_does_not_wait_and_inherits_what_is_complete() {
    let peer = Peer::start();
    let mut house = house(&peer);
    told(&mut house, &peer, 0, "an old question", "an old reply");
    house.say(0, "the open question");
    let open = house.accept(&peer);
    open.stream().text("half a re");
    house.turn_until("the half", |house| house.agent(0).partial_text() == "half a re");
    house.enter("/fork go on alone");
    assert_eq!(house.focus(), 1);
    let child = house.accept(&peer);
    let expected = ["an old question", "an old reply", "the open question\n\ngo on alone"];
    assert_eq!(texts_in(&child.request().body), expected);
    assert_valid(&child.request().json());
    open.text("ply").finish("stop").done();
    house.turn_until("the whole", |house| house.state(0) == State::Idle);
    assert_eq!(house.replies(0).last().map(String::as_str), Some("half a reply"));
    assert!(!house.replies(1).iter().any(|reply| reply.contains("half")));
}

#[test]
fn a_person_may_stay_with_the_parent_at_a_fork() {
    let mut house = Harness::new(Plan { follows_forks: false, ..Plan::default() });
    house.enter("/fork --name scout look around");
    assert_eq!(house.focus(), 0);
    house.turn_until_idle();
    assert_eq!(house.replies(1), ["look around"]);
}
