//! Many members, and many tasks in sequence.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use polylogue::multi_agent::{Member, Settings, Strategy};

use super::common::{finish, members, start};
use crate::support::descriptors::{Descriptors, MOST_CONNECTIONS};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, WakeReason};
use crate::support::{http, openai};

fn parallel() -> Settings {
    Settings { strategy: Strategy::Parallel, ..Settings::default() }
}

#[test]
fn a_hundred_members_work_in_parallel() {
    let mut app = Harness::new(Plan { size: None, ..Plan::default() });
    let run = start(&mut app, &Member::numbered(100).expect("members"), "%slow 50\nhello", parallel());
    app.turn_until("all of them", |app| app.repl.roster().at_work().len() == 100);
    app.turn_until("their answers", |app| {
        app.advance(Duration::from_millis(50));
        app.repl.outcome(&run).is_some()
    });
    let outcome = finish(&mut app, &run);
    assert!(outcome.results.iter().all(|result| result.is_success()));
    assert_eq!(app.repl.roster().len(), 1);
    app.turn_until("nothing is left to do", |app| app.timeout().why == WakeReason::Nothing);
}

/// What this process uses (proc(5), pages of 4 KiB).
#[derive(Debug)]
struct Resources {
    threads: usize,
    descriptors: Descriptors,
    bytes: usize,
}

impl Resources {
    fn now() -> Self {
        let entries = |path: &str| std::fs::read_dir(path).expect("a Linux").flatten();
        let numbers = std::fs::read_to_string("/proc/self/statm").expect("a Linux");
        let pages = numbers.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number");
        Self { threads: entries("/proc/self/task").count(), descriptors: Descriptors::of("self"), bytes: pages * 4096 }
    }
}

/// Answers requests one at a time and keeps no connections; the scripted peer would keep all of them.
fn serve(listener: &TcpListener) {
    let pieces = [openai::text("an answer"), openai::finish("stop")].map(|piece| openai::event(&piece));
    let mut reply = http::head(200, &[("content-type", "text/event-stream"), ("connection", "close")]);
    reply.extend([&*pieces.concat(), openai::DONE].concat().into_bytes());
    for stream in listener.incoming() {
        let (mut stream, mut reader) = (stream.expect("a connection"), http::RequestReader::default());
        let mut portion = [0; 16 * 1024];
        while reader.take_request().expect("HTTP").is_none() {
            let count = stream.read(&mut portion).expect("a request");
            reader.feed(&portion[..count]);
        }
        // A cancelled client has closed the connection.
        let _ = stream.write_all(&reply);
    }
}

/// Runs `count` tasks in sequence with the same ten members.
fn give_tasks(app: &mut Harness, count: usize) {
    let ten: Vec<String> = (0..10).map(|n| format!("m{n}")).collect();
    let ten = members(&ten.iter().map(String::as_str).collect::<Vec<_>>());
    for _ in 0..count {
        let run = start(app, &ten, "hello", parallel());
        assert!(finish(app, &run).results.iter().all(|result| result.is_success()));
    }
}

/// Runs in a process of its own: other tests use resources, too.
fn watch_growth() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port on loopback");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    std::thread::spawn(move || serve(&listener));
    let mut app = Harness::new(Plan { size: None, ..Plan::peer(&url) });
    give_tasks(&mut app, 20);
    let before = Resources::now();
    give_tasks(&mut app, 80);
    // The server may still be closing the last connection, and the store copying its log.
    let mut turns = 0;
    app.turn_until("no more than before, and at rest", |app| {
        let (now, timeout) = (Resources::now(), app.timeout());
        turns += 1;
        if turns % 1_000 == 0 {
            eprintln!("before {before:?}, now {now:?}, {timeout:?}");
        }
        let open = |resources: &Resources| resources.descriptors.others.len() + resources.descriptors.of_log;
        let has_closed = open(&now) <= open(&before);
        now.threads <= before.threads && has_closed && timeout.why == WakeReason::Nothing
    });
    let after = Resources::now();
    assert!(after.descriptors.of_database <= MOST_CONNECTIONS, "{before:?}, {after:?}");
    assert!(after.bytes < before.bytes + (8 << 20), "{before:?}, {after:?}");
    assert_eq!((app.repl.roster().len(), app.timeout().why), (1, WakeReason::Nothing));
    assert_eq!(app.repl.store().runs(1_000).expect("the runs").len(), 100);
}

#[test]
fn a_hundred_tasks_of_ten_members_leak_nothing() {
    const ALONE: &str = "POLYLOGUE_TEST_HUNDRED_TASKS";
    if std::env::var_os(ALONE).is_some() {
        return watch_growth();
    }
    let output = Command::new(std::env::current_exe().expect("the path of this binary"))
        .args(["--exact", "--nocapture", "--test-threads=1"])
        .arg(std::thread::current().name().expect("the name of this test"))
        .env(ALONE, "1")
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
