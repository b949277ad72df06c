//! A thousand agents at once on one thread: all complete, none mixed, and the keyboard still answers.

use std::time::Duration;

use polylogue::agent::State;
use polylogue::domain::flow::Change;

use crate::support::flood::{self, FloodProcess, raise_descriptor_limit, reply_for};
use crate::support::harness::{Harness, Plan};

/// A thousand, or fewer where descriptors are short: each agent has up to four, and other tests run beside this one.
fn agents() -> usize {
    usize::try_from(raise_descriptor_limit() / 8).map_or(1_000, |most| most.min(1_000))
}

/// Agent 0 on the screen, and a thousand children of it.
fn house(plan: Plan) -> Harness {
    let mut house = Harness::new(plan);
    for _ in 0..agents() {
        house.fork(0);
    }
    house.switch(0);
    house
}

/// What the thread is called that drives the loop, and with it all that it starts without a name of their own, such as
/// libcurl's (comm, proc(5)). Other tests run beside this one, and have threads of other names.
const LOOP: &str = "loop of scale";

/// How many threads of this process are called that.
fn threads_of_the_loop() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a Linux").filter_map(Result::ok);
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim_end() == LOOP).count()
}

/// Keys are typed while everybody streams; each is on the screen at the end of the turn in which it came.
fn keyboard_answers(house: &mut Harness) {
    let mut typed = String::new();
    for key in "undisturbed".chars() {
        typed.push(key);
        house.terminal().input.extend_from_slice(key.to_string().as_bytes());
        house.turn();
        assert!(house.screen_text().contains(&format!("> {typed}")), "{}", house.screen_text());
    }
}

fn all_have(house: &Harness, reply_of: impl Fn(usize) -> String) {
    for n in 1..=agents() {
        assert_eq!(house.state(n), State::Idle);
        assert_eq!(house.replies(n), [reply_of(n)], "agent {n}");
    }
}

#[test]
fn a_thousand_slow_scripts_play_at_once() {
    let mut house = house(Plan::default());
    for n in 1..=agents() {
        house.say(n, &format!("!slow 300\none of {n}\ntwo of {n}"));
    }
    house.advance(Duration::from_millis(300));
    house.turn_until("all stream", |house| (1..=agents()).all(|n| !house.agent(n).partial_text().is_empty()));
    assert_eq!(house.repl.roster().at_work().len(), agents());
    keyboard_answers(&mut house);
    while !house.repl.roster().busy().is_empty() {
        house.advance(Duration::from_millis(300));
    }
    all_have(&house, |n| format!("one of {n}\ntwo of {n}"));
}

#[test]
fn a_thousand_streams_run_at_once_on_one_thread() {
    let driving = std::thread::Builder::new().name(LOOP.into()).spawn(run_a_thousand_streams);
    driving.expect("a thread").join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn run_a_thousand_streams() {
    let flood = FloodProcess::spawn(flood::Plan::quick(20).together(agents()));
    let mut house = house(Plan { real_time: true, ..Plan::peer(&flood.url()) });
    for n in 1..=agents() {
        house.say(n, &format!("tag-{n}"));
    }
    house.turn_until("some stream", |house| house.repl.roster().at_work().len() == agents());
    keyboard_answers(&mut house);
    assert_eq!(threads_of_the_loop(), 1, "an agent brings no thread with it");
    house.turn_until_idle();
    assert_eq!((flood.counts().peak, flood.counts().complete), (agents() as u64, agents() as u64));
    all_have(&house, |n| reply_for(&format!("tag-{n}"), 20));
}

#[test]
fn a_thousand_agents_are_interrupted_in_the_middle_and_none_is_left() {
    let flood = FloodProcess::spawn(flood::Plan::paced(1_000_000, 1.0));
    let mut house = house(Plan { real_time: true, ..Plan::peer(&flood.url()) });
    for n in 1..=agents() {
        house.say(n, &format!("tag-{n}"));
    }
    house.turn_until("all stream", |house| (1..=agents()).all(|n| !house.agent(n).partial_text().is_empty()));
    for n in 1..=agents() {
        house.ask(n, Change::Interrupt);
    }
    assert!(house.repl.roster().busy().is_empty());
    house.turn_until("all are closed", |_| flood.counts().streaming == 0);
    for n in 1..=agents() {
        let partial = house.partial_replies(n).pop().expect("something was kept");
        assert!(reply_for(&format!("tag-{n}"), 100).starts_with(&partial), "agent {n}: {partial}");
    }
    assert_eq!(house.timeout().after, None);
}
