//! Figures of the views over many agents. The loop runs in this process; its terminal is in memory.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use polylogue::config::{DisplaySettings, Policy, Settings};
use polylogue::{AgentId, Change, Config, Store};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::app::{self, App};
use crate::crowd;
use crate::process;
use crate::support::flood::{FloodProcess, Plan};
use crate::support::internals::{Body, Probe, Reply, State};
use crate::support::random::Random;
use crate::table::{Table, median, share};

const SETTLES: Duration = Duration::from_millis(400);

/// Turns that decode one key and draw its frame, in processor time: the machine may be loaded.
pub fn press(app: &mut App, keys: &[&[u8]], count: usize, between: Duration) -> Vec<Duration> {
    let one = |number: usize| {
        app.run_for(between);
        let spent = process::own_cpu();
        app.type_bytes(keys[number % keys.len()]);
        process::own_cpu() - spent
    };
    (0..count).map(one).collect()
}

/// A frame of the inbox with 1,000 open questions, for each key that moves the mark.
pub fn inbox(table: &mut Table) {
    const MANY: usize = 1_000;
    let directory = TempDir::new().expect("a directory");
    app::fill(directory.path(), MANY + 1, 0, "");
    let mut app = App::open_with(directory, None, Config { policy: Policy::Ask, ..Config::default() });
    for n in 1..=MANY {
        app.ask(n, Change::Submit(format!("%tool bash {{\"command\":\"make number-{n}\"}}")));
    }
    app.until("all ask", |app| app.repl.roster().iter().filter(|agent| agent.question().is_some()).count() == MANY);
    app.type_bytes(b"\x1ba");
    app.run_for(SETTLES);
    let frames = press(&mut app, &[b"j", b"j", b"k"], 300, Duration::ZERO);
    table.within("inbox, 1,000 questions: frame, p50", median(&frames), Duration::from_millis(2));
    table.tell("  p99", share(&frames, 0.99).as_secs_f64() * 1e3, "ms");
}

/// The wall with 100 tiles, all of which stream 20 chunks/s, beside the same agents while it is closed.
pub fn wall(table: &mut Table) {
    const TIME: Duration = Duration::from_secs(4);
    let flood = FloodProcess::spawn(Plan::paced(3_000, 20.0));
    let directory = TempDir::new().expect("a directory");
    app::fill(directory.path(), 101, 0, "");
    // As in the program.
    let display = DisplaySettings { frame_interval: Duration::from_millis(33), ..DisplaySettings::default() };
    let config = Config { display, ..Config::default() };
    let mut app = crowd::stream(App::open_with(directory, Some(&flood.url()), config));
    app.memory().size = (264, 58);
    app.run_for(Duration::from_secs(1));
    // By turns, so that the load of the machine is the same for both.
    let (mut closed, mut open, mut keys) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..3 {
        closed.push(crowd::cost(&mut app, TIME).share_of_core());
        app.type_bytes(b"\x1bw");
        open.push(crowd::cost(&mut app, TIME).share_of_core());
        keys.extend(press(&mut app, &[b"\x1b[C", b"\x1b[B"], 200, Duration::from_millis(5)));
        app.type_bytes(b"\x1bw");
    }
    let least = |shares: &[f64]| shares.iter().copied().fold(f64::MAX, f64::min);
    table.tell("100 agents at 20 chunks/s, wall closed: share of one core", least(&closed), "%");
    table.tell("  open, 100 tiles", least(&open), "%");
    table.at_most("  more than closed", least(&open) - least(&closed), 30.0, "%");
    table.within("  key to frame, p99", share(&keys, 0.99), Duration::from_millis(10));
}

const WORDS: usize = 20_000;

/// Words as in a text: the first few are in almost every message, most are rare.
fn text(random: &mut Random, words: usize) -> String {
    let word = |_| {
        // The logarithm of an even number is spread as the ranks of words in a text are.
        let rank = (WORDS as f64).powf(random.below(1 << 20) as f64 / f64::from(1 << 20)) as usize;
        format!("{}{rank}", ["co", "de", "re", "su", "ta"][rank % 5])
    };
    (0..words).map(word).collect::<Vec<_>>().join(" ")
}

/// 1,000 agents with 1,000 messages each, none of which is indexed; one of them has a word of its own.
fn million(directory: &Path) {
    app::fill(directory, 1_000, 0, "");
    let store = Store::open(directory).expect("the store opens");
    let agents: Vec<AgentId> = store.load_agents().expect("agents").agents.iter().map(|agent| agent.id).collect();
    let mut random = Random(1);
    for (number, agent) in agents.iter().enumerate() {
        let bodies = (0..1_000).map(|message| {
            let needle = if (number, message) == (500, 500) { " needle" } else { "" };
            let text = text(&mut random, 30) + needle;
            if message % 2 == 0 { Body::User(text) } else { Body::Assistant(Reply { text, ..Reply::default() }) }
        });
        store.append(*agent, bodies.collect(), 0).expect("messages");
    }
}

fn query_number(directory: &Path, sql: &str) -> f64 {
    let conn = Connection::open(directory.join("polylogue.db")).expect("a database");
    conn.query_row(sql, [], |row| row.get(0)).expect("a number")
}

/// Turns the loop until the index has all messages but an incomplete last batch. Between turns it waits for the checkpoint of
/// the database.
fn index_all(app: &mut App, directory: &Path) {
    const BATCH: f64 = 64.0;
    let unindexed = "SELECT CAST((SELECT max(id) FROM messages) - above AS REAL) FROM search_marks";
    while query_number(directory, unindexed) >= BATCH {
        while app.repl.compute_timeout().after.is_some() {
            app.turn(Duration::ZERO);
        }
        app.turn(Duration::from_millis(20));
    }
}

/// Search in 1,000,000 messages: what keeping the index costs, its size, and the time of a turn that searches and draws.
pub fn search(table: &mut Table) {
    let directory = TempDir::new().expect("a directory");
    million(directory.path());
    let path = directory.path().to_owned();
    let mut app = App::open(directory, None, Settings::default());
    app.run_for(Duration::from_millis(20));
    app.longest = Default::default();
    let spent = process::own_cpu();
    index_all(&mut app, &path);
    let each = (process::own_cpu() - spent).as_secs_f64() * 1e6 / 1e6;
    table.at_most("index of 1,000,000 messages: processor time of each", each, 20.0, "us");
    table.within("  longest turn, processor time", app.longest.1, Duration::from_millis(5));
    let cases: [(&str, &[u8], u64); 5] = [
        ("a common word", b"co1 ", 50),
        ("two common words", b"de2 re3 ", 50),
        ("a beginning of words", b"co1", 50),
        ("a letter", b"c", 50),
        ("a rare word", b"needle ", 5),
    ];
    for (name, typed, limit) in cases {
        let pasted = [b"\x1b[200~", typed, b"\x1b[201~"].concat();
        app.longest = Default::default();
        let once = |_| {
            app.type_bytes(b"\x06");
            let start = Instant::now();
            app.type_bytes(&pasted);
            while app.repl.is_searching() {
                app.turn(Duration::from_millis(100));
            }
            let time = start.elapsed();
            app.type_bytes(b"\x03");
            time
        };
        let times: Vec<Duration> = (0..15).map(once).collect();
        table.within(&format!("search in 1,000,000 messages: {name}"), median(&times), Duration::from_millis(limit));
        table.within("  longest turn, processor time", app.longest.1, Duration::from_millis(5));
    }
    let (_, directory) = app.close();
    let index = "SELECT CAST((SELECT sum(length(block)) FROM search_data) + (SELECT sum(length(sz)) FROM search_docsize) AS REAL)";
    let index = query_number(directory.path(), index);
    let text = query_number(directory.path(), "SELECT CAST(sum(length(content)) AS REAL) FROM messages");
    table.at_most("  index beside the text", index / text, 0.5, "x");
}

/// `@` over 100,000 files: each key, and the longest turn while a thread walks them.
pub fn picker(table: &mut Table) {
    let mut app = App::new(None, 1);
    for directory in 0..1_000 {
        let directory = app.workspace().join(format!("part-{directory}"));
        fs::create_dir(&directory).expect("a directory");
        (0..100).for_each(|file| fs::write(directory.join(format!("module_{file}.rs")), "").expect("a file"));
    }
    app.run_for(Duration::from_millis(100));
    app.longest = Default::default();
    app.type_bytes(b"@");
    app.run_for(Duration::from_secs(4));
    table.within(
        "`@` over 100,000 paths: longest turn while they are listed",
        app.longest.1,
        Duration::from_millis(16),
    );
    let mut times = Vec::new();
    for _ in 0..20 {
        for key in "part99mod7".bytes() {
            let spent = process::own_cpu();
            app.type_bytes(&[key]);
            times.push(process::own_cpu() - spent);
            app.run_for(Duration::from_millis(30));
        }
        app.type_bytes(b"\x15@");
        app.run_for(Duration::from_millis(30));
    }
    table.within("  a key, p99", share(&times, 0.99), Duration::from_millis(16));
    table.within("  longest turn, processor time", app.longest.1, Duration::from_millis(16));
}

/// 100,000 descendants of which 1,000 stream: killed from the keyboard.
pub fn kill(table: &mut Table) {
    const MANY: usize = 100_000;
    const AT_WORK: usize = 1_000;
    let flood = FloodProcess::spawn(Plan::paced(3_000, 5.0));
    let directory = TempDir::new().expect("a directory");
    app::fill(directory.path(), MANY + 1, 0, "");
    let url = flood.url();
    let mut app = App::open_with(directory, Some(&url), Config::default());
    for n in 1..=AT_WORK {
        let id = app.id(n);
        app.repl.apply(id, Change::Submit(format!("tag-{n}"))).expect("a text can be sent");
    }
    app.until("all stream", |app| (1..=AT_WORK).all(|n| !app.agent(n).partial_text().is_empty()));
    app.type_bytes(b"/kill 0 --descendants\r");
    app.run_for(SETTLES);
    app.longest = Default::default();
    let start = Instant::now();
    app.type_bytes(b"\r");
    app.turn(Duration::ZERO);
    table.within("kill of 100,000 descendants, 1,000 at work: recorded", start.elapsed(), Duration::from_secs(1));
    app.until("all are gone", |app| app.repl.roster().len() == 1);
    table.tell("  until all are gone", start.elapsed().as_secs_f64() * 1e3, "ms");
    app.run_for(Duration::from_secs(1));
    table.within("  longest turn, processor time", app.longest.1, Duration::from_millis(20));
    assert_eq!(app.state(0), State::Idle);
}
