//! Servers and clients that are killed repeatedly, at random moments.

use std::collections::{BTreeSet, VecDeque};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use polylogue::Store;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, prlimit};
use serde_json::{Value, json};

use super::{App, eventually};
use crate::support::client::request;
use crate::support::descriptors::{Descriptors, MOST_CONNECTIONS};
use crate::support::internals::{Body, socket};
use crate::support::random::Random;

/// A connection to the server of this app.
fn connect(app: &App) -> BufReader<UnixStream> {
    BufReader::new(socket::connect(app.path()).expect("a socket of ours").expect("a server"))
}

/// The next line; none when the connection has ended.
fn line(connection: &mut BufReader<UnixStream>) -> Option<Value> {
    let mut line = Vec::new();
    connection.read_until(b'\n', &mut line).ok().filter(|_| line.ends_with(b"\n"))?;
    Some(serde_json::from_slice(&line).expect("a line of JSON"))
}

/// The user's messages to agent 0 in the store: in its log, and in its queue.
fn kept(app: &App) -> BTreeSet<String> {
    let store = Store::open(app.path()).expect("an unlocked store");
    let root = store.load_agents().expect("agents").agents[0].id;
    let (log, damaged) = store.replay(root).expect("a log");
    assert!(damaged.is_empty(), "{damaged:?}");
    let sent = log.into_iter().filter_map(|one| if let Body::User(text) = one.body { Some(text) } else { None });
    sent.chain(store.queued(root).expect("a queue").into_iter().map(|one| one.text)).collect()
}

#[test]
fn a_server_killed_fifty_times_loses_nothing_that_it_acknowledged() {
    let mut app = App::new();
    let mut random = Random(5);
    let mut acknowledged = BTreeSet::new();
    for life in 0..50 {
        app.serve();
        let mut connection = connect(&app);
        let text = |n: usize| format!("text {n} of life {life}");
        let asks = (0..12).map(|n| request("send", json!({"agent": "0", "text": text(n)})) + "\n");
        connection.get_mut().write_all(asks.collect::<String>().as_bytes()).expect("it reads");
        let mut try_read = random.below(12);
        for n in 0..try_read {
            let answer = line(&mut connection).expect("an answer");
            assert!(answer["ok"]["data"]["queued"].is_u64(), "{answer}");
            acknowledged.insert(text(n));
        }
        app.signal(Signal::KILL);
        app.server_ends();
        // What was on its way when it died may be acknowledged too.
        while let Some(answer) = line(&mut connection) {
            assert!(answer["ok"]["data"]["queued"].is_u64(), "{answer}");
            acknowledged.insert(text(try_read));
            try_read += 1;
        }
        let kept = kept(&app);
        let lost: Vec<&String> = acknowledged.difference(&kept).collect();
        assert!(lost.is_empty(), "life {life}: {lost:?}");
    }
}

/// As the server reports them itself, the connection of this question included.
fn descriptors(app: &App) -> u64 {
    let status: Value = serde_json::from_str(&app.get(&["status", "--json"])).expect("an object");
    assert!(status["memory"].as_u64() > Some(1 << 20) && status["threads"].as_u64() >= Some(1), "{status}");
    assert_eq!(status["process"].as_i64(), Some(app.pid().as_raw_nonzero().get().into()));
    status["descriptors"].as_u64().expect("a number")
}

#[test]
fn a_hundred_clients_that_disappear_leak_no_descriptors() {
    let app = App::served();
    let mut random = Random(7);
    let open = || Descriptors::of(&app.pid().as_raw_nonzero().to_string());
    // The server may still hold what it opened to print its process id, so there may be one more than later.
    let before = open();
    assert!(descriptors(&app) > before.others.len() as u64, "the connection of the question counts");
    app.get(&["tell", "0", "%slow 1\n%repeat 100000\nword"]);
    for n in 0..100 {
        let mut connection = connect(&app);
        // How much of it is read before it vanishes; a second frame may take a second.
        let (ask, most) = match n % 3 {
            0 => (request("attach", json!({"terminal": {"columns": 80, "rows": 24}})), 2),
            1 => (request("logs", json!({"agent": "0", "follow": true})), 6),
            _ => (request("ps", json!({})), 2),
        };
        writeln!(connection.get_mut(), "{ask}").expect("it reads");
        for _ in 0..random.below(most) {
            line(&mut connection).expect("it goes on");
        }
    }
    // The last of them may not have been accepted yet, and are no descriptors until then.
    eventually("no client is attached", || app.get(&["sessions", "--json"]).trim().is_empty());
    let mut tries = 0;
    eventually("all descriptors are closed", || {
        let now = open();
        tries += 1;
        if tries % 10_000 == 0 {
            eprintln!("before {before:?}, now {now:?}");
        }
        now.others.len() <= before.others.len()
    });
    let after = open();
    assert!(after.of_database <= MOST_CONNECTIONS && after.of_log <= MOST_CONNECTIONS + 1, "{before:?}, {after:?}");
    assert_eq!(app.get(&["sessions", "--json"]).trim(), "");
    app.get(&["interrupt", "0"]);
}

#[test]
fn memory_that_hostile_clients_used_is_given_back() {
    const MIB: u64 = 1 << 20;
    let app = App::served();
    // Its own memory alone: what it shares with other processes counts for less while there are many (proc_pid_status(5)).
    let memory = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", app.pid().as_raw_nonzero())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    };
    let before = memory();
    let mut open = VecDeque::new();
    for n in 0..80 {
        let mut client = connect(&app);
        let stream = client.get_mut();
        stream.set_write_timeout(Some(Duration::from_millis(200))).expect("a socket");
        // A line without an end; many requests whose answers nobody reads; rubbish. The server may hang up on any of them.
        let all = match n % 4 {
            0 => vec![b'x'; 8 << 20],
            1 => (request("ps", json!({})) + "\n").repeat(2000).into_bytes(),
            2 => {
                (request("logs", json!({"agent": "0", "follow": true})) + "\n" + &"rubbish\n".repeat(100)).into_bytes()
            }
            _ => ("[".repeat(100_000) + "\n").into_bytes(),
        };
        let _ = stream.write_all(&all);
        if n % 8 != 0 {
            open.push_back(client);
        }
        if open.len() > 40 {
            open.pop_front();
        }
    }
    assert!(memory() > before + 16 * MIB, "they used nothing");
    drop(open);
    eventually("the connections are closed", || {
        let status: Value = serde_json::from_str(&app.get(&["status", "--json"])).expect("an object");
        status["clients"] == 1
    });
    let after = memory();
    assert!(after < before + 6 * MIB, "{} MiB before, {} MiB after", before / MIB, after / MIB);
}

/// How often the server has waited for something (proc_pid_status(5)).
fn waits(app: &App) -> u64 {
    let path = format!("/proc/{}/status", app.pid().as_raw_nonzero());
    let status = std::fs::read_to_string(path).expect("it runs");
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).expect("a count");
    count.trim().parse().expect("a number")
}

#[test]
fn a_client_that_came_while_there_were_no_descriptors_is_answered_when_there_are_some() {
    let app = App::served();
    let pid = Some(app.pid());
    let most = getrlimit(Resource::Nofile);
    let usual = prlimit(pid, Resource::Nofile, Rlimit { current: Some(3), ..most }).expect("it is our process");
    let before = waits(&app);
    let mut connection = connect(&app);
    writeln!(connection.get_mut(), "{}", request("ps", json!({}))).expect("a socket takes a line");
    eventually("it could not accept the connection", || waits(&app) > before);
    prlimit(pid, Resource::Nofile, usual).expect("it is our process");
    let timeout = Some(crate::support::PATIENCE);
    connection.get_mut().set_read_timeout(timeout).expect("a socket");
    let answer = line(&mut connection).expect("an answer");
    assert!(answer["ok"].is_array() || answer["ok"].is_object(), "{answer}");
}
