//! The library as an embedding program uses it, with a store in memory and no terminal.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use polylogue::{Clock, Config, Error, ErrorKind, Repl, Status, Store, Turn};

use super::{all_of, as_texts, read_all};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::Probe;

fn app() -> Repl {
    let store = Store::in_memory().expect("a store");
    Repl::open(Config::default(), store, Clock::system()).expect("an open program")
}

fn turn_until_idle(repl: &mut Repl) {
    while repl.list().iter().any(|one| !one.status.is_at_rest()) {
        assert_eq!(repl.turn(None).expect("the loop turns"), Turn::Continue);
    }
}

#[test]
fn agents_are_created_listed_used_and_closed_with_the_defaults() {
    let mut repl = app();
    let one = repl.create(Some("one"), None).unwrap();
    let two = repl.create(None, Some("echo/echo")).unwrap();
    repl.send(one, "a").unwrap();
    repl.send(one, "b").unwrap();
    assert_eq!((repl.status(one), repl.status(two)), (Ok(Status::Running), Ok(Status::Idle)));
    let list = repl.list();
    assert_eq!(list.iter().map(|one| one.label.as_str()).collect::<Vec<_>>(), ["agent 0", "one", "agent 2"]);
    assert_eq!((list[1].queued, list[1].parent), (1, None));
    assert!(repl.close(one).unwrap_err().message.ends_with("it is busy"));
    turn_until_idle(&mut repl);
    let texts = as_texts(&all_of(&mut repl, one));
    assert_eq!(texts.iter().filter(|line| *line == "a" || *line == "b").collect::<Vec<_>>(), ["a", "b"]);
    assert!(texts.iter().any(|line| line == "> b"));
    repl.close(one).unwrap();
    assert_eq!((repl.list().len(), repl.status(one)), (2, Ok(Status::Idle)));
    assert!(repl.attach(one, None).is_err() && repl.send(one, "x").is_err() && repl.close(one).is_err());
    let root = repl.list()[0].id;
    assert!(repl.close(root).unwrap_err().message.ends_with("it is the root"));
}

#[test]
fn of_eleven_agents_the_eleventh_waits_its_turn_visibly_and_comes_when_another_stops() {
    let mut repl = app();
    let agents = [(); 11].map(|()| repl.create(None, None).unwrap());
    for agent_id in agents {
        repl.send(agent_id, "words\n%hang").unwrap();
    }
    repl.turn(Some(Duration::ZERO)).unwrap();
    let positions = |repl: &Repl| repl.list().iter().filter_map(|one| Some((one.id, one.place?))).collect::<Vec<_>>();
    assert_eq!((repl.roster().at_work().len(), positions(&repl)), (10, vec![(agents[10], 0)]));
    assert_eq!(repl.status(agents[10]), Ok(Status::Running), "it is not idle: a message was sent");
    repl.interrupt(agents[4]).unwrap();
    assert_eq!((repl.roster().at_work().len(), positions(&repl)), (10, vec![]));
    assert!(repl.roster().at_work().contains(&agents[10]));
}

#[test]
fn a_callback_gets_every_chunk_and_one_that_fails_is_dropped_with_a_note() {
    let mut repl = app();
    let agent_id = repl.create(None, None).unwrap();
    let received = Rc::new(RefCell::new(Vec::new()));
    let sink = Rc::clone(&received);
    repl.on_chunks(
        agent_id,
        None,
        Box::new(move |seen| {
            sink.borrow_mut().extend(seen.chunks.iter().cloned());
            Ok(())
        }),
    )
    .unwrap();
    let calls = Rc::new(RefCell::new(0));
    let count = Rc::clone(&calls);
    let fails = move |_: &_| {
        *count.borrow_mut() += 1;
        Err(Error::new(ErrorKind::Usage, "the pipe is closed"))
    };
    repl.on_chunks(agent_id, None, Box::new(fails)).unwrap();
    repl.send(agent_id, "hello").unwrap();
    turn_until_idle(&mut repl);
    while repl.compute_timeout().after.is_some() {
        repl.turn(None).unwrap();
    }
    assert_eq!(*calls.borrow(), 1);
    let all = all_of(&mut repl, agent_id);
    assert_eq!(*received.borrow(), all);
    assert_eq!(as_texts(&all).iter().filter(|line| *line == "[error]").count(), 1);
}

#[test]
fn viewers_learn_that_an_agent_was_closed_and_it_is_there_again_after_a_restart() {
    let mut app = Harness::new(Plan::default());
    let one = app.repl.create(Some("one"), None).unwrap();
    app.repl.send(one, "hello").unwrap();
    app.turn_until_idle();
    let viewer = app.repl.attach_to_last(one, 0).unwrap();
    app.switch(1);
    assert!(app.repl.close(one).unwrap_err().message.ends_with("it is shown on a terminal"));
    app.fork_named(1, "child");
    app.switch(0);
    assert!(app.repl.close(one).unwrap_err().message.ends_with("it has children"));
    app.repl.close(app.id(2)).unwrap();
    app.repl.close(one).unwrap();
    let seen = read_all(&mut app.repl, viewer);
    assert!(seen.is_over && as_texts(&seen.chunks).last().map(String::as_str) == Some("[note]"));
    assert!(app.repl.create(Some("one"), None).is_err(), "its name stays taken");
    let mut app = app.crash_and_restart();
    assert_eq!(app.repl.list().iter().map(|one| one.label.as_str()).collect::<Vec<_>>(), ["agent 0", "one", "child"]);
    assert_eq!((app.n("one"), app.replies(1)), (1, vec!["hello".into()]));
    app.say(2, "still there");
    app.turn_until_idle();
    assert_eq!(app.replies(2).len(), 2);
}
