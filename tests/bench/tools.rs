//! Figures of what ends: a tool that leads on to the next request, an interrupt in every state.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use polylogue::config::{Policy, RetryPolicy, Settings};
use polylogue::{AgentId, Change, Config, Decision};
use tempfile::TempDir;

use crate::app::{self, App};
use crate::support::internals::tools::snapshots::{Recorder, Snapshots};
use crate::support::internals::{State, Wait};
use crate::support::peer::Peer;
use crate::table::{Table, median, share};

/// All of these.
pub fn figures(table: &mut Table) {
    rounds_of_tools(table);
    interrupts(table);
}

fn app(url: Option<&str>) -> App {
    let directory = TempDir::new().expect("a directory");
    app::fill(directory.path(), 1, 0, "");
    let retry = RetryPolicy { base: Duration::from_secs(30), ..RetryPolicy::default() };
    let settings = Settings { tool_iterations: 10_000, retry, ..Settings::default() };
    App::open_with(directory, url, Config { settings, policy: Policy::Ask, ..Config::default() })
}

/// How much later a command ends in the sandbox than without it. By turns, so that the load of the machine is the same for
/// both; as many calls of `true` as give a steady median.
pub fn sandbox(table: &mut Table) {
    const BLOCKS: usize = 8;
    let limit = Duration::from_millis(if cfg!(target_feature = "crt-static") { 5 } else { 8 });
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for _ in 0..BLOCKS {
        inside.extend(commands(true));
        outside.extend(commands(false));
    }
    let more = |share_of: f64| share(&inside, share_of).saturating_sub(share(&outside, share_of));
    table.within("start of a command in the sandbox, beside one without it, p50", more(0.5), limit);
    table.tell("  p10", more(0.1).as_secs_f64() * 1e3, "ms");
    table.tell("  without a sandbox, from call to next request, p50", median(&outside).as_secs_f64() * 1e3, "ms");
}

/// The times from a call of `true` to the next request.
fn commands(has_sandbox: bool) -> Vec<Duration> {
    let directory = TempDir::new().expect("a directory");
    app::fill(directory.path(), 1, 0, "");
    let settings = Settings { tool_iterations: 10_000, ..Settings::default() };
    let mut config = Config { settings, policy: Policy::Yolo, policy_ceiling: Policy::Yolo, ..Config::default() };
    config.sandbox.is_enabled = has_sandbox;
    let peer = Peer::start();
    let mut app = App::open_with(directory, Some(&peer.url()), config);
    // Each is another one: a model that repeats itself is stopped.
    let mut times = rounds(&mut app, peer, 26, "bash", |round| format!(r#"{{"command":"true {round}"}}"#));
    // It finds the level of the sandbox and fills caches.
    times.remove(0);
    times
}

/// On the server's side, from the last byte of a reply with a `read_file` call to the first whole request that answers
/// it: decoding, the store, the tool's thread from start to end, the wake and the sending are all in it.
fn rounds_of_tools(table: &mut Table) {
    let peer = Peer::start();
    let mut app = app(Some(&peer.url()));
    std::fs::write(app.workspace().join("note"), "a short file\n").expect("a file");
    let arguments = |round| format!(r#"{{"path":"note","offset":1,"limit":{}}}"#, round + 1);
    let measured = rounds(&mut app, peer, 300, "read_file", arguments);
    table.within("call to next request, tool included, p50", median(&measured), Duration::from_millis(1));
    table.tell("  p99", share(&measured, 0.99).as_secs_f64() * 1e3, "ms");
}

/// So many calls of one tool; the time of each.
fn rounds(
    app: &mut App,
    peer: Peer,
    count: usize,
    tool: &'static str,
    arguments: fn(usize) -> String,
) -> Vec<Duration> {
    let (done, times) = mpsc::channel();
    let server = std::thread::spawn(move || serve_rounds(&peer, count, (tool, arguments), &done));
    app.ask(0, Change::Submit("call".into()));
    let mut measured = None;
    app.until("all rounds", |_| {
        measured = times.try_recv().ok();
        measured.is_some()
    });
    server.join().expect("the server's part");
    measured.expect("times")
}

fn serve_rounds(
    peer: &Peer,
    rounds: usize,
    (tool, arguments): (&str, fn(usize) -> String),
    done: &mpsc::Sender<Vec<Duration>>,
) {
    let mut times = Vec::new();
    let mut sent = None;
    for round in 0..=rounds {
        let exchange = peer.accept();
        times.extend(sent.map(|sent: Instant| exchange.arrived() - sent));
        exchange.stream().tool_call(0, "call", tool, &arguments(round)).finish("tool_calls").done();
        sent = Some(Instant::now());
    }
    let last = peer.accept();
    last.stream().text("done").finish("stop").done();
    // The loop may have been stopped already.
    let _ = done.send(times);
}

/// What a tool's thread does before and after it changes a file of 20 KB, so that the change can be undone.
pub fn snapshot(table: &mut Table) {
    let directory = TempDir::new().expect("a directory");
    let file = directory.path().join("source.rs");
    let snapshots = Snapshots::new(directory.path().join("snapshots"));
    let recorder = Recorder { snapshots, agent: AgentId::random(), call: "call".into() };
    let content = |number: usize| format!("{number:05} {}", "0123456789 abcdef\n".repeat(1_111)).into_bytes();
    let once = |number: usize| {
        std::fs::write(&file, content(number)).expect("a file");
        let next = content(number + 1);
        let start = Instant::now();
        let open = recorder.before_write("edit_file", &file, &next);
        let time = start.elapsed();
        assert!(open.finish(false).is_none(), "nothing was changed");
        time
    };
    let times: Vec<Duration> = (0..200).map(once).collect();
    table.within("snapshot before an edit of 20 KB, p50", median(&times), Duration::from_millis(1));
    table.tell("  p99", share(&times, 0.99).as_secs_f64() * 1e3, "ms");
}

/// From Esc to idle, the worst of 5, in each state that an agent can be in.
fn interrupts(table: &mut Table) {
    type Way = (&'static str, &'static str, fn(&App) -> bool);
    const WAYS: &[Way] = &[
        ("a reply that hangs", "begin\n%hang", |app| !app.agent(0).partial_text().is_empty()),
        ("waiting for a retry", "%fail 503", |app| matches!(app.agent(0).wait(), Wait::Retry { .. })),
        ("a question", "%tool bash {\"command\":\"touch asked\"}", |app| app.state(0) == State::AwaitingApproval),
    ];
    for (name, text, is_there) in WAYS {
        let time = worst(|| {
            let mut app = app(None);
            app.ask(0, Change::Submit((*text).into()));
            app.until(name, |app| is_there(app));
            app
        });
        table.within(&format!("interrupt to idle: {name}"), time, Duration::from_millis(100));
    }
    for (name, command) in [("a command", "sleep 60"), ("a command that ignores TERM", "trap '' TERM; sleep 60")] {
        let time = worst(|| running(command));
        table.within(&format!("interrupt to idle: {name}"), time, Duration::from_millis(100));
    }
    for (name, streams) in [("a request without an answer", false), ("a stream", true)] {
        let peer = Peer::start();
        let time = worst(|| requested(&peer, streams));
        table.within(&format!("interrupt to idle: {name}"), time, Duration::from_millis(100));
    }
}

/// The longest of 5 interrupts of agents in some state.
fn worst(mut made: impl FnMut() -> App) -> Duration {
    let once = |_| {
        let mut app = made();
        let start = Instant::now();
        app.ask(0, Change::Interrupt);
        app.until_idle();
        start.elapsed()
    };
    (0..5).map(once).max().expect("five")
}

/// An app whose agent runs a command that reports when it runs.
fn running(command: &str) -> App {
    let mut app = app(None);
    let arguments = serde_json::json!({ "command": format!("{command} & touch runs; wait") });
    app.ask(0, Change::Submit(format!("%tool bash {arguments}")));
    app.until("a question", |app| app.state(0) == State::AwaitingApproval);
    let question = app.agent(0).question().expect("a question").number;
    app.ask(0, Change::Answer { question, decision: Decision::Allow });
    app.until("the command runs", |app| app.workspace().join("runs").exists());
    app
}

/// An app whose agent waits for a server.
fn requested(peer: &Peer, streams: bool) -> App {
    let mut app = app(Some(&peer.url()));
    app.ask(0, Change::Submit("hello".into()));
    let mut exchange = None;
    app.until("a request", |_| {
        exchange = peer.try_accept();
        exchange.is_some()
    });
    if streams {
        exchange.expect("a request").stream().text("begin");
        app.until("the first text", |app| !app.agent(0).partial_text().is_empty());
    }
    app
}
