//! What viewers are told of the past and of states: after a restart, of a child, and once for each change.

use polylogue::base::error::ErrorKind;
use polylogue::domain::chunk::Chunk;
use polylogue::domain::flow::Change;
use polylogue::domain::slice::Spec;
use polylogue::domain::wire::Place;

use super::{all_of, read_all, story, told};
use crate::support::harness::{Harness, Plan};

/// What is told of states, in order.
fn states(house: &mut Harness, n: usize) -> Vec<String> {
    let all = story(house, n);
    told(&all).into_iter().filter(|line| line.starts_with('[') && is_state(line)).collect()
}

fn is_state(line: &str) -> bool {
    ["[idle]", "[running]", "[awaiting_approval]", "[interrupted]", "[dead]"].contains(&line)
}

/// The conversation, as a viewer is told it.
fn said(house: &mut Harness, n: usize) -> Vec<String> {
    let all = story(house, n);
    told(&all).into_iter().filter(|line| !line.starts_with('[')).collect()
}

#[test]
fn after_a_restart_the_store_fills_the_ring_and_an_old_place_is_the_beginning() {
    let mut house = Harness::new(Plan::default());
    house.say(0, "one");
    house.turn_until_idle();
    let viewer = house.repl.attach(house.id(0), None).unwrap();
    read_all(&mut house.repl, viewer);
    let old = house.repl.place_of(viewer).unwrap();
    let mut house = house.crash_and_restart();
    let (root, epoch) = (house.id(0), house.repl.epoch().to_owned());
    assert_ne!(epoch, old.epoch);
    house.say(0, "two");
    house.turn_until_idle();
    let expected = ["> one", "one", "> two", "two"];
    assert_eq!(said(&mut house, 0), expected);
    let viewer = house.repl.attach(root, Some(&old)).unwrap();
    let seen = read_all(&mut house.repl, viewer);
    let words: Vec<String> = told(&seen.chunks).into_iter().filter(|line| !line.starts_with('[')).collect();
    assert_eq!((seen.missed, words), (0, expected.map(str::to_owned).into()));
    assert!(seen.chunks.windows(2).all(|pair| pair[0].number + 1 == pair[1].number));
    let newest = Place { epoch, number: seen.chunks.last().unwrap().number };
    let viewer = house.repl.attach(root, Some(&newest)).unwrap();
    assert_eq!(read_all(&mut house.repl, viewer).chunks, seen.chunks[seen.chunks.len() - 1..]);
}

#[test]
fn a_place_of_now_does_not_read_the_past_and_who_comes_later_has_it_all_the_same() {
    let mut house = Harness::new(Plan::default());
    house.say(0, "one");
    house.turn_until_idle();
    let mut house = house.crash_and_restart();
    let root = house.id(0);
    house.say(0, "two");
    let viewer = house.repl.attach_to_last(root, 1).unwrap();
    let seen = read_all(&mut house.repl, viewer).chunks;
    assert_eq!(seen.len(), 1);
    house.turn_until_idle();
    let late = all_of(&mut house.repl, root);
    assert_eq!(told(&late)[..2], ["> one", "one"]);
    let mine: Vec<_> = seen.into_iter().chain(read_all(&mut house.repl, viewer).chunks).collect();
    assert_eq!(late[late.len() - mine.len()..], mine);
}

#[test]
fn a_child_begins_with_the_past_that_it_has_inherited_and_no_more() {
    let mut house = Harness::new(Plan::default());
    house.say(0, "before");
    house.turn_until_idle();
    let child = house.fork_named(0, "child");
    house.say(0, "after");
    house.say(child, "its-own");
    house.turn_until_idle();
    let expected = ["> before", "before", "> its-own", "its-own"];
    assert_eq!(said(&mut house, child), expected);
    house.ask(0, Change::Slice(Spec::parse("-2:,inject:'put in'").unwrap()));
    let slice = house.repl.roster().len() - 1;
    assert_eq!(said(&mut house, slice), ["> after", "after", "> put in"]);
    house.repl.create(Some("new"), None).unwrap();
    let new = house.n("new");
    assert_eq!(said(&mut house, new), [""; 0]);
    let mut house = house.crash_and_restart();
    assert_eq!(said(&mut house, child), expected);
    assert_eq!(said(&mut house, slice), ["> after", "after", "> put in"]);
    house.say(new, "hello");
    house.turn_until_idle();
    assert_eq!(said(&mut house, new), ["> hello", "hello"], "it knows nothing of its parent");
    let users = house.log(new).iter().filter(|message| message.body.kind() == "user").count();
    assert_eq!(users, 1);
}

#[test]
fn every_change_of_state_is_told_once_and_is_true_when_it_is() {
    let mut house = Harness::new(Plan { real_time: true, ..Plan::default() });
    for (line, expected) in [
        ("words", vec!["[running]", "[idle]"]),
        ("!tool bash {\"command\":\"true\"}", vec!["[running]", "[awaiting_approval]", "[running]", "[idle]"]),
        ("!fail 400 no", vec!["[running]", "[idle]"]),
    ] {
        let before = states(&mut house, 0).len();
        house.say(0, line);
        house.turn_until("its end", |house| {
            if let Some(number) = house.agent(0).question().map(|question| question.number) {
                let told = states(house, 0);
                assert_eq!(told.last().map(String::as_str), Some("[awaiting_approval]"));
                house.ask(0, Change::Answer { question: number, allowed: true });
            }
            let status = house.repl.status(house.id(0)).unwrap();
            let last = states(house, 0).pop().unwrap();
            assert_eq!(last, format!("[{}]", status.name()));
            status.is_at_rest()
        });
        assert_eq!(states(&mut house, 0)[before..], expected, "{line}");
    }
    house.say(0, "!hang");
    house.turn();
    house.repl.interrupt(house.id(0)).unwrap();
    let cut = states(&mut house, 0);
    assert_eq!(cut[cut.len() - 2..], ["[running]", "[interrupted]"]);
    let all = story(&mut house, 0);
    house.repl.interrupt(house.id(0)).unwrap();
    house.turn();
    assert_eq!(story(&mut house, 0), all, "an interrupt while idle leaves nothing behind");
    house.say(0, "words");
    house.turn_until_idle();
    assert_eq!(states(&mut house, 0)[cut.len()..], ["[running]", "[idle]"]);
}

#[test]
fn who_was_cut_by_a_crash_is_told_to_be_interrupted_and_nobody_else_is() {
    let mut house = Harness::new(Plan::default());
    house.fork_named(0, "other");
    house.say(0, "words\n!hang");
    house.turn();
    let mut house = house.crash_and_restart();
    assert_eq!((states(&mut house, 0), states(&mut house, 1)), (vec!["[interrupted]".into()], vec![]));
    assert_eq!(house.repl.status(house.id(0)).unwrap().name(), "interrupted");
    house.say(0, "again");
    house.turn_until_idle();
    assert_eq!(states(&mut house, 0), ["[interrupted]", "[running]", "[idle]"]);
}

#[test]
fn a_full_queue_refuses_and_leaves_state_and_draft_alone() {
    let mut house = Harness::new(Plan::default());
    let root = house.id(0);
    house.say(0, "!hang");
    house.turn();
    for n in 0..1_000 {
        house.repl.send(root, &n.to_string()).expect("there is room");
    }
    let before = house.fingerprint(0);
    let refused = house.repl.send(root, "one too many").unwrap_err();
    assert_eq!((refused.kind, house.fingerprint(0)), (ErrorKind::Usage, before));
    assert!(refused.message.contains("the queue is full"), "{refused}");
    house.enter("typed");
    assert_eq!(house.agent(0).view.draft.text(), "typed");
    assert!(house.screen_text().contains("the queue is full"), "{}", house.screen_text());
    assert_eq!(house.agent(0).queue.len(), 1_000);
    assert!(house.repl.send(root, " \n").is_err(), "nothing is nothing to send");
    assert!(all_of(&mut house.repl, root).iter().all(|one| one.chunk != Chunk::User("one too many".into())));
}
