//! Limits for clients: memory, number of connections, wake-ups.

use std::io::{ErrorKind, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;

use crate::support::client::{Client, Terminal, refusal, request, serve, turn_until_no_client};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, Timeout, WakeReason};

#[test]
fn a_hundred_megabytes_without_a_newline_are_refused_when_the_longest_line_is_full() {
    let mut app = serve(Plan::default());
    let mut client = Client::connect(&app);
    let mut writing = client.stream.try_clone().expect("a socket");
    let writer = std::thread::spawn(move || {
        let (block, mut taken) = ([b'x'; 1 << 16], 0);
        while taken < 100 << 20 {
            match writing.write(&block) {
                Ok(count) => taken += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(_) => break,
            }
        }
        taken >> 20
    });
    let mut other = Client::connect(&app);
    app.turn_until("the writer is stopped", |_| writer.is_finished());
    let taken = writer.join().expect("the writer ends");
    assert!((16..=32).contains(&taken), "{taken} MiB were taken of 100");
    let lines = client.read_to_end(&mut app);
    assert!(refusal(&lines[0]).1.contains("16777216 bytes"), "{lines:?}");
    other.is_served(&mut app);
    assert_eq!(app.repl.clients(), 1);
}

#[test]
fn a_prompt_of_some_megabytes_is_accepted() {
    let mut app = serve(Plan::default());
    let mut client = Client::connect(&app);
    let line = request("send", json!({"agent": "0", "text": "x".repeat(3 << 20)})) + "\n";
    let mut writing = client.stream.try_clone().expect("a socket");
    let writer = std::thread::spawn(move || {
        let mut left = line.as_bytes();
        while !left.is_empty() {
            match writing.write(left) {
                Ok(count) => left = &left[count..],
                Err(_) => std::thread::yield_now(),
            }
        }
    });
    assert_eq!(client.read(&mut app), json!({"ok": {"text": null, "data": {"queued": 0}}}));
    writer.join().expect("the writer ends");
}

#[test]
fn the_client_that_was_silent_longest_makes_room_for_a_new_one() {
    let mut app = serve(Plan::default());
    let mut clients = Vec::new();
    for _ in 0..200 {
        clients.push(Client::connect(&app));
        app.turn();
        if clients.len() > 64 {
            let lines = clients.remove(0).read_to_end(&mut app);
            assert_eq!(lines.len(), 1, "{lines:?}");
            assert!(refusal(&lines[0]).1.contains("idle for the longest time"), "{lines:?}");
        }
        assert_eq!(app.repl.clients(), clients.len());
    }
    // Who speaks is not silent.
    clients[0].is_served(&mut app);
    clients.push(Client::connect(&app));
    app.turn();
    clients[0].is_served(&mut app);
    assert!(refusal(&clients[1].read(&mut app)).1.contains("idle for the longest time"));
}

#[test]
fn busy_clients_do_not_make_room_for_a_new_one() {
    let mut app = serve(Plan::default());
    app.say(0, "%hang");
    let mut waiting: Vec<Client> = Vec::new();
    for _ in 0..64 {
        let mut client = Client::connect(&app);
        client.ask("wait", json!({"agent": "0"}));
        waiting.push(client);
        app.turn();
    }
    let mut late = Client::connect(&app);
    let lines = late.read_to_end(&mut app);
    assert!(refusal(&lines[0]).1.contains("64 clients"), "{lines:?}");
    assert_eq!(app.repl.clients(), 64);
    drop(waiting);
    turn_until_no_client(&mut app);
    Client::connect(&app).is_served(&mut app);
}

#[test]
fn endless_lines_of_many_clients_have_a_common_limit() {
    let mut app = serve(Plan::default());
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(&app)).collect();
    app.turn();
    let block = vec![b'x'; 1 << 16];
    let mut sent = 0;
    // Eight lines of 15 MiB are less than the longest each, and more than all together may have.
    while clients.iter().any(|client| !client.has_ended) && sent < 8 * (15 << 20) {
        for client in &mut clients {
            sent += client.stream.write(&block).unwrap_or(0);
        }
        app.turn();
        for client in &mut clients {
            client.try_read();
        }
        if app.repl.clients() < 8 {
            break;
        }
    }
    // What the sockets hold comes on top.
    assert!(sent < 90 << 20, "{sent} bytes were taken");
    assert_eq!(app.repl.clients(), 7);
}

/// Each with something else under way.
fn three_clients(app: &mut Harness) -> [Client; 3] {
    let [silent, mut follows, mut waits] = std::array::from_fn(|_| Client::connect(app));
    follows.ask("logs", json!({"agent": "0", "follow": true}));
    waits.ask("wait", json!({"agent": "0"}));
    [silent, follows, waits]
}

#[test]
fn idle_clients_do_not_wake_the_loop() {
    let mut app = serve(Plan::default());
    app.say(0, "%tool bash {\"command\":\"ls\"}");
    app.turn_until_asked(0);
    let clients = three_clients(&mut app);
    app.turn_until("nothing is left to do", |app| {
        app.repl.clients() == 3 && app.timeout() == Timeout { after: None, why: WakeReason::Nothing }
    });
    let mut rests = 0;
    app.turn_until("several turns end without events", |app| {
        assert_eq!(app.timeout(), Timeout { after: None, why: WakeReason::Nothing });
        rests += 1;
        rests > 5
    });
    drop(clients);
}

#[test]
fn a_terminal_that_sends_garbage_is_detached_even_if_it_reads_nothing() {
    let mut app = serve(Plan::default());
    let mut terminal = Terminal::attach(&app, (80, 24), json!({}));
    terminal.wait_for_text(&mut app, "agent 0");
    let takes_more = |app: &mut Harness| {
        app.repl.terminal().and_then(|terminal| terminal.remote()).is_some_and(|one| one.takes_more)
    };
    while takes_more(&mut app) {
        app.say(0, &format!("%repeat 60\n{}", "word".repeat(40)));
        app.turn_until_idle();
    }
    let block = vec![b'x'; 1 << 16];
    app.turn_until("the terminal is detached", |app| {
        while terminal.client.stream.write(&block).is_ok() {}
        app.repl.terminal_ids().is_empty()
    });
}

#[test]
fn a_flood_of_typed_lines_delays_no_client_and_is_carried_out_after_the_terminal_left() {
    let mut app = serve(Plan::default());
    app.say(0, "%hang");
    let mut terminal = Terminal::attach(&app, (80, 24), json!({}));
    terminal.wait_for_text(&mut app, "agent 0");
    let mut other = Client::connect(&app);
    terminal.type_bytes("x\r".repeat(200).as_bytes());
    terminal.client.stream.shutdown(std::net::Shutdown::Write).expect("a socket");
    other.ask("ps", json!({}));
    other.read(&mut app);
    assert!(app.agent(0).queue.len() <= 32, "{} lines before the other one was answered", app.agent(0).queue.len());
    app.turn_until("the terminal is gone", |app| app.repl.terminal_ids().is_empty());
    assert_eq!(app.agent(0).queue.len(), 200);
}

#[test]
fn waiting_keys_and_endless_pastes_have_a_common_limit() {
    let mut app = serve(Plan::default());
    let line = |keys: &[u8]| request("keys", json!({"keys": BASE64.encode(keys)})) + "\n";
    let keys = line(&[b"\x1b[200~", "x".repeat(11 << 20).as_bytes()].concat());
    let mut terminals: Vec<Terminal> = (0..7).map(|_| Terminal::attach(&app, (80, 24), json!({}))).collect();
    terminals.iter_mut().for_each(|terminal| terminal.wait_for_text(&mut app, "agent 0"));
    for terminal in &mut terminals {
        let mut left = keys.as_bytes();
        app.turn_until("it was read", |_| {
            match terminal.client.stream.write(left) {
                Ok(count) => left = &left[count..],
                // A client that was refused is not read to the end.
                Err(error) if error.kind() != ErrorKind::WouldBlock => left = &[],
                Err(_) => {}
            }
            left.is_empty()
        });
    }
    // What five have typed is kept; with the line of one more it is too much.
    app.turn_until("two had to go", |app| app.repl.clients() <= 5);
    assert_eq!((app.repl.clients(), app.repl.terminal_ids().len()), (5, 5));
}
