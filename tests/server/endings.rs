//! Clients that go, in every state, and the end of the server: nobody is left in the dark and nothing is left behind.

use std::io::Write as _;
use std::net::Shutdown;

use polylogue::domain::flow::Change;
use polylogue::repl::Turn;
use polylogue::socket;
use polylogue::store::Store;
use serde_json::json;

use crate::support::client::{self, Client, open_to_clients, refusal, request, serve, turn_until_no_client};
use crate::support::harness::{Harness, Plan};

/// Every request, and what is no request.
fn lines() -> Vec<String> {
    let attach = json!({"terminal": {"columns": 80, "rows": 24}});
    vec![
        request("ps", json!({})),
        request("sessions", json!({})),
        request("logs", json!({"agent": "0"})),
        request("logs", json!({"agent": "0", "follow": true})),
        request("new", json!({})),
        request("send", json!({"agent": "0", "text": "hello"})),
        request("interrupt", json!({"agent": "0"})),
        request("kill", json!({"agent": "last"})),
        request("wait", json!({"agent": "0"})),
        request("attach", attach),
        "garbage".into(),
    ]
}

#[test]
fn a_client_may_vanish_at_any_point_and_leaves_nothing_behind() {
    let mut app = serve(Plan::default());
    app.say(0, "!hang");
    for line in lines() {
        for turns in 0..3 {
            for part in [line.len() / 2, line.len()] {
                let mut client = Client::connect(&app);
                client.write(&line[..part]);
                if part == line.len() {
                    client.write("\n");
                }
                (0..turns).for_each(|_| client::turn(&mut app));
                drop(client);
                turn_until_no_client(&mut app);
                assert_eq!(app.repl.terminal_ids(), []);
            }
        }
    }
    Client::connect(&app).is_served(&mut app);
}

#[test]
fn who_closes_its_writing_side_is_still_answered_what_can_be_answered_at_once() {
    let mut app = serve(Plan::default());
    let mut client = Client::connect(&app);
    client.ask("ps", json!({}));
    client.ask("sessions", json!({}));
    client.stream.shutdown(Shutdown::Write).expect("a socket");
    let lines = client.read_to_end(&mut app);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(app.repl.clients(), 0);
}

#[test]
fn a_client_that_does_not_take_its_answers_is_not_heard_further_until_it_does() {
    let mut app = serve(Plan::default());
    for n in 0..50 {
        app.ask(0, Change::Fork { prompt: None, name: Some(format!("child-{n}")), model: None });
    }
    let mut client = Client::connect(&app);
    let ask = request("ps", json!({})) + "\n";
    let mut asked = 0;
    while client.stream.write(ask.as_bytes()).is_ok_and(|count| count == ask.len()) && asked < 100 {
        asked += 1;
        app.turn();
    }
    app.turn_until("nothing is left to do", |app| app.timeout().after.is_none());
    for _ in 0..asked {
        assert_eq!(client.read(&mut app)["ok"].as_array().map(Vec::len), Some(51));
    }
}

#[test]
fn whoever_asks_it_to_stop_is_answered_first_and_the_others_are_told() {
    let mut app = serve(Plan::default());
    app.say(0, "!hang");
    let [mut silent, mut waits, mut follows, mut stops] = std::array::from_fn(|_| Client::connect(&app));
    follows.ask("logs", json!({"agent": "0", "follow": true, "last": 0}));
    waits.ask("wait", json!({"agent": "0"}));
    app.turn_until("they are there", |app| app.repl.clients() == 4);
    stops.ask("stop", json!({}));
    assert_eq!(app.turn(), Turn::Exit);
    assert_eq!(stops.try_read(), Some(json!({"ok": null})));
    app.repl.leave().expect("it leaves");
    assert!(socket::connect(app.directory()).expect("no stranger").is_none(), "the socket is gone");
    assert!(!stops.has_ended, "the store is still held");
    let directory = app.close();
    let store = Store::open(directory.path());
    let (last, ended) = (stops.try_read(), stops.has_ended);
    assert!(store.is_ok() && last.is_none() && ended, "who reads to the end finds the store free");
    // The turn was cut, and so the wait is over.
    assert_eq!(waits.try_read(), Some(json!({"ok": {"status": "interrupted"}})));
    assert_eq!(silent.try_read(), None);
    let try_read: Vec<_> = std::iter::from_fn(|| follows.try_read()).collect();
    assert_eq!(refusal(try_read.last().expect("lines")).1, "the server has ended");
    assert!(try_read.iter().any(|line| line["status"] == "interrupted"), "{try_read:?}");
    assert_eq!((waits.try_read(), follows.try_read()), (None, None));
    assert!(follows.has_ended && waits.has_ended && silent.has_ended);
}

#[test]
fn a_client_that_reads_nothing_does_not_hold_up_the_end() {
    let mut app = serve(Plan::default());
    app.say(0, &format!("!repeat 3000\n{}", "x".repeat(700)));
    app.turn_until_idle();
    let mut client = Client::connect(&app);
    client.ask("logs", json!({"agent": "0", "follow": true}));
    app.turn_until("it takes no more", |app| app.repl.clients() == 1 && app.timeout().after.is_none());
    let start = std::time::Instant::now();
    app.repl.leave().expect("it leaves");
    assert!(start.elapsed() < std::time::Duration::from_secs(10));
}

#[test]
fn the_socket_of_a_server_that_died_is_taken_over_and_that_of_a_living_one_never() {
    let app = serve(Plan::default());
    let refused = Store::open(app.directory()).err().expect("the store is held").message;
    assert!(refused.contains("`polylogue attach`"), "{refused}");
    let socket = app.directory().join("server/socket");
    let kept = app.directory().join("kept");
    std::fs::hard_link(&socket, &kept).expect("a link");
    // What SIGKILL leaves: the file, and nobody who listens.
    let directory = app.close();
    std::fs::rename(directory.path().join("kept"), directory.path().join("server/socket")).expect("a name");
    assert!(socket::connect(directory.path()).expect("ours").is_none(), "nobody answers");
    let mut app = Harness::open(Plan { size: None, ..Plan::default() }, directory);
    open_to_clients(&mut app);
    Client::connect(&app).is_served(&mut app);
}

#[test]
fn a_house_that_does_not_serve_has_no_socket() {
    let app = Harness::new(Plan::default());
    assert!(socket::connect(app.directory()).expect("nothing strange").is_none());
}
