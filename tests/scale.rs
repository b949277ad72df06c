//! Many agents at once on one thread: all complete, none are mixed up, and keys are still handled.

use std::time::Duration;

use polylogue::Change;

use crate::support::flood::{self, FloodProcess, raise_descriptor_limit, reply_for};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, State};
use crate::support::size::scaled;

/// A thousand, or fewer in the suite and where descriptors are scarce: each agent needs up to four, and other tests run at
/// the same time.
fn agents() -> usize {
    let most = scaled(1_000, 300);
    usize::try_from(raise_descriptor_limit() / 8).map_or(most, |scarce| scarce.min(most))
}

/// Agent 0 on the screen, and its children.
fn app(plan: Plan) -> Harness {
    let mut app = Harness::new(plan);
    for _ in 0..agents() {
        app.fork(0);
    }
    app.switch(0);
    app
}

/// The name of the thread that drives the loop, and of the threads that it starts without a name, such as libcurl's
/// (comm, proc(5)). Other tests run at the same time and have threads of other names.
const LOOP: &str = "loop of scale";

/// The number of threads of this process with that name.
fn threads_of_the_loop() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a Linux").filter_map(Result::ok);
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim_end() == LOOP).count()
}

/// Keys are typed while all agents stream; each is on the screen at the end of the turn in which it arrived.
fn keyboard_answers(app: &mut Harness) {
    let mut typed = String::new();
    for key in "undisturbed".chars() {
        typed.push(key);
        app.terminal().input.extend_from_slice(key.to_string().as_bytes());
        app.turn();
        assert!(app.screen_text().contains(&format!("> {typed}")), "{}", app.screen_text());
    }
}

fn all_have(app: &Harness, reply_of: impl Fn(usize) -> String) {
    for n in 1..=agents() {
        assert_eq!(app.state(n), State::Idle);
        assert_eq!(app.replies(n), [reply_of(n)], "agent {n}");
    }
}

#[test]
fn many_slow_scripts_play_at_once() {
    let mut app = app(Plan::default());
    for n in 1..=agents() {
        app.say(n, &format!("%slow 300\none of {n}\ntwo of {n}"));
    }
    app.advance(Duration::from_millis(300));
    app.turn_until("all stream", |app| (1..=agents()).all(|n| !app.agent(n).partial_text().is_empty()));
    assert_eq!(app.repl.roster().at_work().len(), agents());
    keyboard_answers(&mut app);
    while !app.repl.roster().busy().is_empty() {
        app.advance(Duration::from_millis(300));
    }
    all_have(&app, |n| format!("one of {n}\ntwo of {n}"));
}

#[test]
fn many_streams_run_at_once_on_one_thread() {
    let driving = std::thread::Builder::new().name(LOOP.into()).spawn(run_many_streams);
    driving.expect("a thread").join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn run_many_streams() {
    let flood = FloodProcess::spawn(flood::Plan::quick(20).together(agents()));
    let mut app = app(Plan { real_time: true, ..Plan::peer(&flood.url()) });
    for n in 1..=agents() {
        app.say(n, &format!("tag-{n}"));
    }
    app.turn_until("some stream", |app| app.repl.roster().at_work().len() == agents());
    keyboard_answers(&mut app);
    // The thread that syncs the store has the name of the loop until it has begun.
    app.turn_until("an agent brings no thread with it", |_| threads_of_the_loop() == 1);
    app.turn_until_idle();
    assert_eq!((flood.counts().peak, flood.counts().complete), (agents() as u64, agents() as u64));
    all_have(&app, |n| reply_for(&format!("tag-{n}"), 20));
}

#[test]
fn many_agents_are_interrupted_in_the_middle_and_none_is_left() {
    let flood = FloodProcess::spawn(flood::Plan::paced(1_000_000, 1.0));
    let mut app = app(Plan { real_time: true, ..Plan::peer(&flood.url()) });
    for n in 1..=agents() {
        app.say(n, &format!("tag-{n}"));
    }
    app.turn_until("all stream", |app| (1..=agents()).all(|n| !app.agent(n).partial_text().is_empty()));
    for n in 1..=agents() {
        app.ask(n, Change::Interrupt);
    }
    assert!(app.repl.roster().busy().is_empty());
    app.turn_until("all are closed", |_| flood.counts().streaming == 0);
    for n in 1..=agents() {
        let partial = app.partial_replies(n).pop().expect("something was kept");
        assert!(reply_for(&format!("tag-{n}"), 100).starts_with(&partial), "agent {n}: {partial}");
    }
    app.turn_until("nothing is left to do", |app| app.timeout().after.is_none());
}
