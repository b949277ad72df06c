//! Figures that must not grow with what is there: frames, switches, forks, replay.

use std::time::{Duration, Instant};

use polylogue::config::Settings;
use polylogue::{AgentId, Change, Fork, Store};
use tempfile::TempDir;

use crate::app::{self, App};
use crate::support::internals::{Body, Probe, Reply};
use crate::table::{Table, median};

/// All of these; each is the median of many.
pub fn figures(table: &mut Table) {
    frames(table);
    switches(table);
    forks(table);
    replay(table);
    many_agents(table);
}

/// 100,000 stored agents: the start, all of them stopped, all of them killed, and the start afterwards.
fn many_agents(table: &mut Table) {
    const MANY: usize = 100_000;
    let open = |directory| {
        let start = Instant::now();
        (App::open(directory, None, Settings::default()), start.elapsed())
    };
    let directory = TempDir::new().expect("a directory");
    app::fill(directory.path(), MANY + 1, 0, "");
    let (mut app, _) = open(directory);
    let root = app.id(0);
    let start = Instant::now();
    app.ask(0, Change::Stop(None));
    table.within("stop of 100,000 idle agents", start.elapsed(), Duration::from_millis(100));
    let start = Instant::now();
    app.ask(0, Change::KillDescendants(root));
    app.until("all are gone", |app| app.repl.roster().len() == 1);
    table.within("kill of 100,000 descendants", start.elapsed(), Duration::from_secs(1));
    let (_, afterwards) = open(app.close().1);
    table.within("start afterwards", afterwards, Duration::from_millis(50));
}

/// An app whose agent 0 has one message of so many lines.
fn with_lines(lines: usize) -> App {
    let directory = TempDir::new().expect("a directory");
    let store = Store::open(directory.path()).expect("the store opens");
    let root = AgentId::random();
    store.create_root(root, None, None, 0).expect("a root");
    let text = "a line of a conversation, as long as lines are\n".repeat(lines);
    store.append(root, vec![Body::Assistant(Reply { text, ..Reply::default() })], 0).expect("a message");
    drop(store);
    App::open(directory, None, Settings::default())
}

/// The wall time of a whole turn that decodes one key and draws one frame, at the end of the text and a page above it.
fn frames(table: &mut Table) {
    let mut first = None;
    for lines in [100, 100_000, 1_000_000] {
        let mut app = with_lines(lines);
        let at_end = frame(&mut app);
        app.type_bytes(b"\x1b[5~\x1b[5~");
        let above = frame(&mut app);
        let slower = at_end.max(above);
        table.within(&format!("frame at {lines} lines"), slower, Duration::from_millis(1));
        let ratio = slower.as_secs_f64() / first.get_or_insert(slower).as_secs_f64();
        table.at_most("  beside 100 lines", ratio, 1.2, "x");
    }
}

fn frame(app: &mut App) -> Duration {
    let press = |number: usize| {
        let start = Instant::now();
        app.type_bytes(if number.is_multiple_of(2) { b"x" } else { b"\x7f" });
        start.elapsed()
    };
    median(&(0..400).map(press).collect::<Vec<_>>())
}

/// From asking for another agent to its frame, both with 100,000 lines; and the first time that an agent is looked at
/// whose 10,000 stored messages have 10 lines each.
fn switches(table: &mut Table) {
    let directory = TempDir::new().expect("a directory");
    app::fill(directory.path(), 12, 10_000, &"one of ten lines\n".repeat(10));
    let mut app = App::open(directory, None, Settings::default());
    let mut switch = |n: usize| {
        let id = app.id(n);
        let start = Instant::now();
        app.ask(0, Change::Switch(id));
        start.elapsed()
    };
    let first: Vec<Duration> = (1..12).map(&mut switch).collect();
    let again: Vec<Duration> = (0..100).map(|number| switch(number % 12)).collect();
    table.within("switch to an agent of 100,000 lines, first time", median(&first), Duration::from_millis(5));
    table.within("switch to it again", median(&again), Duration::from_millis(5));
}

/// From asking for a fork to the child's frame; the history is in memory. Reading it for the first fork is measured separately.
fn forks(table: &mut Table) {
    let mut shorter = None;
    for messages in [10, 100_000] {
        let directory = TempDir::new().expect("a directory");
        app::fill(directory.path(), 1, messages, "a message of some length, as messages are");
        let mut app = App::open(directory, None, Settings::default());
        let mut fork = |_| {
            let start = Instant::now();
            app.ask(0, Change::Fork(Fork::default()));
            start.elapsed()
        };
        let first = fork(0);
        let time = median(&(0..200).map(fork).collect::<Vec<_>>());
        table.within(&format!("fork, history of {messages}"), time, Duration::from_millis(2));
        let ratio = time.as_secs_f64() / shorter.get_or_insert(time).as_secs_f64();
        table.at_most("  beside a history of 10", ratio, 1.3, "x");
        table.tell("  first fork after the start, which reads the history", first.as_secs_f64() * 1e3, "ms");
    }
}

/// 10,000 messages of 1 KB read from a warm store into memory.
fn replay(table: &mut Table) {
    let directory = TempDir::new().expect("a directory");
    app::fill(directory.path(), 1, 10_000, &"x".repeat(1_000));
    let store = Store::open(directory.path()).expect("the store opens");
    let root = store.load_agents().expect("agents").agents[0].id;
    let read = |_| {
        let start = Instant::now();
        let (messages, _) = store.replay(root).expect("a history");
        assert_eq!(messages.len(), 10_000);
        start.elapsed()
    };
    table.within("replay of 10,000 messages", median(&(0..9).map(read).collect::<Vec<_>>()), Duration::from_millis(30));
}
