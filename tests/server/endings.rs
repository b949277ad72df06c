//! Clients that leave in every state, and the end of the server.

use std::io::Write as _;
use std::net::Shutdown;

use polylogue::{Change, Fork, Store, Turn};
use serde_json::json;

use crate::support::client::{self, Client, open_to_clients, refusal, request, serve, turn_until_no_client};
use crate::support::eventually;
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, socket};

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
        request("run", json!({"agent": "0", "argv": ["interrupt"]})),
        request("run", json!({"agent": "last", "argv": ["kill"]})),
        request("wait", json!({"agent": "0"})),
        request("attach", attach),
        "garbage".into(),
    ]
}

#[test]
fn a_client_that_disappears_at_any_point_leaks_nothing() {
    let mut app = serve(Plan::default());
    app.say(0, "%hang");
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
fn requests_sent_before_the_writing_side_was_closed_are_answered() {
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
fn no_request_is_read_while_the_client_does_not_read_responses() {
    let mut app = serve(Plan::default());
    for n in 0..50 {
        app.ask(0, Change::Fork(Fork { name: Some(format!("child-{n}")), ..Fork::default() }));
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
        assert_eq!(client.read(&mut app)["ok"]["data"].as_array().map(Vec::len), Some(51));
    }
}

#[test]
fn stop_is_answered_first_and_the_other_clients_get_the_reason() {
    let mut app = serve(Plan::default());
    app.say(0, "%hang");
    let [mut silent, mut waits, mut follows, mut stops] = std::array::from_fn(|_| Client::connect(&app));
    follows.ask("logs", json!({"agent": "0", "follow": true, "last": 0}));
    waits.ask("wait", json!({"agent": "0"}));
    app.turn_until("they are there", |app| app.repl.clients() == 4);
    stops.ask("stop", json!({}));
    assert_eq!(app.turn(), Turn::Exit);
    assert_eq!(stops.try_read(), Some(json!({"ok": null})));
    app.repl.leave().expect("it leaves");
    assert!(socket::connect(app.data()).expect("no stranger").is_none(), "the socket is gone");
    assert!(!stops.has_ended, "the store is still held");
    let directory = app.close();
    eventually(|| stops.try_read().is_none() && stops.has_ended);
    eventually(|| Store::open(directory.path()).is_ok());
    // The turn was cut, and so the wait is over.
    assert_eq!(waits.try_read(), Some(json!({"ok": {"status": "interrupted"}})));
    assert_eq!(silent.try_read(), None);
    let try_read: Vec<_> = std::iter::from_fn(|| follows.try_read()).collect();
    assert_eq!(refusal(try_read.last().expect("lines")).1, "the server has ended");
    assert!(try_read.iter().any(|line| line["status"] == "interrupted"), "{try_read:?}");
    eventually(|| {
        let rest = [&mut waits, &mut follows, &mut silent].map(Client::try_read);
        assert_eq!(rest, [None, None, None]);
        follows.has_ended && waits.has_ended && silent.has_ended
    });
}

#[test]
fn a_client_that_reads_nothing_does_not_delay_the_end() {
    let mut app = serve(Plan::default());
    app.say(0, &format!("%repeat 3000\n{}", "x".repeat(700)));
    app.turn_until_idle();
    let mut client = Client::connect(&app);
    client.ask("logs", json!({"agent": "0", "follow": true}));
    app.turn_until("it takes no more", |app| app.repl.clients() == 1 && app.timeout().after.is_none());
    let start = std::time::Instant::now();
    app.repl.leave().expect("it leaves");
    assert!(start.elapsed() < std::time::Duration::from_secs(10));
}

#[test]
fn the_socket_of_a_dead_server_is_replaced_and_that_of_a_live_one_is_not() {
    let app = serve(Plan::default());
    let refused = Store::open(app.data()).err().expect("the store is held").message;
    assert!(refused.contains("`polylogue attach`"), "{refused}");
    let socket = app.data().join("server/socket");
    let kept = app.data().join("kept");
    std::fs::hard_link(&socket, &kept).expect("a link");
    // What SIGKILL leaves: the file, and no listener.
    let directory = app.close();
    std::fs::rename(directory.path().join("kept"), directory.path().join("server/socket")).expect("a name");
    eventually(|| socket::connect(directory.path()).expect("a socket of ours").is_none());
    let mut app = Harness::open(Plan { size: None, ..Plan::default() }, directory);
    open_to_clients(&mut app);
    Client::connect(&app).is_served(&mut app);
}

#[test]
fn without_serving_there_is_no_socket() {
    let app = Harness::new(Plan::default());
    assert!(socket::connect(app.data()).expect("nothing strange").is_none());
}
