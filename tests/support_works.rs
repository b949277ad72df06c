//! Tests of the test support itself: the peer, the flood and the terminal.
//!
//! The clients here are plain sockets, so that a failure points at the support and at nothing else.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::Signal;

use crate::support::eventually;
use crate::support::flood::{Flood, FloodProcess, Plan, raise_descriptor_limit, reply_for};
use crate::support::peer::{Peer, Refusing};
use crate::support::pty::{Pty, TerminalLeft, died_of};

/// Writes one chat request.
fn ask(stream: &mut TcpStream, text: &str) {
    let body = serde_json::json!({"messages": [
        {"role": "system", "content": "tag-wrong"},
        {"role": "user", "content": text},
        {"role": "assistant", "content": "tag-stale"},
    ]})
    .to_string();
    post(stream, body.as_bytes());
}

fn post(stream: &mut TcpStream, body: &[u8]) {
    let head = format!("POST /v1/anything HTTP/1.1\r\nHost: peer\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
}

/// Connects to the host of a base URL.
fn connect(url: &str) -> std::io::Result<TcpStream> {
    TcpStream::connect(url.trim_start_matches("http://").trim_end_matches("/v1"))
}

/// Reads until the last chunk of a chunked answer, and gives all that was read.
fn read_answer(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let mut portion = [0; 4096];
    while !answer.ends_with(b"0\r\n\r\n") {
        let count = stream.read(&mut portion).unwrap();
        assert_ne!(count, 0, "ended after {:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&portion[..count]);
    }
    String::from_utf8(answer).unwrap()
}

/// The text of all chunks of an OpenAI stream.
fn text_of(answer: &str) -> String {
    let events = answer.split("data: ").skip(1).filter_map(|event| event.split("\n\n").next());
    let chunks = events.filter_map(|event| serde_json::from_str::<serde_json::Value>(event).ok());
    chunks.map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_peer_sees_the_request_and_the_client_sees_the_script() {
    let peer = Peer::start();
    let mut client = connect(&peer.url()).unwrap();
    ask(&mut client, "hello");
    let exchange = peer.accept();
    assert_eq!(exchange.request().method, "POST");
    assert_eq!(exchange.request().path, "/v1/anything");
    assert_eq!(exchange.request().header("HOST"), Some("peer"));
    assert_eq!(exchange.request().json()["messages"][1]["content"], "hello");
    exchange
        .stream()
        .thinking("hm")
        .text("Hel")
        .text("lo")
        .tool_call(0, "call-1", "bash", "{\"a\"")
        .tool_arguments(0, ":1}");
    exchange.finish("tool_calls").usage(3, 4).done();
    let answer = read_answer(&mut client);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"), "{answer}");
    assert_eq!(text_of(&answer), "Hello");
    let expected = ["\"reasoning_content\":\"hm\"", "\"id\":\"call-1\"", "\"total_tokens\":7", "data: [DONE]"];
    assert!(expected.iter().all(|part| answer.contains(part)), "{answer}");
}

#[test]
fn a_kept_connection_brings_the_next_request_and_two_exchanges_are_open_at_once() {
    let peer = Peer::start();
    let (mut one, mut other) = (connect(&peer.url()).unwrap(), connect(&peer.url()).unwrap());
    ask(&mut one, "first");
    let first = peer.accept();
    ask(&mut other, "second");
    let second = peer.accept();
    second.error(429, "rate_limited", "later");
    first.stream().text("a").done();
    assert_eq!(text_of(&read_answer(&mut one)), "a");
    ask(&mut one, "third");
    let third = peer.accept();
    assert_eq!((third.connection(), peer.connections()), (first.connection(), 2));
    assert_ne!(second.connection(), first.connection());
    second.hang_up();
    let mut answer = String::new();
    other.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 429 Too Many Requests\r\n") && answer.contains("rate_limited"), "{answer}");
}

#[test]
fn a_body_of_20_megabytes_arrives_whole_announced_or_in_chunks() {
    let peer = Peer::start();
    let mut client = connect(&peer.url()).unwrap();
    let body: Vec<u8> = (0..20_000_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    post(&mut client, &body);
    let exchange = peer.accept();
    assert!(exchange.request().body == body, "the body is another one");
    client.write_all(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1e8480;x=y\r\n").unwrap();
    client.write_all(&body[..2_000_000]).unwrap();
    client.write_all(b"\r\n3\r\nend\r\n0\r\n\r\n").unwrap();
    let chunked = peer.accept();
    assert!(chunked.request().body == [&body[..2_000_000], b"end"].concat(), "the chunked body is another one");
}

#[test]
fn an_unfinished_request_is_described_by_what_has_come_of_it() {
    let peer = Peer::start();
    let mut client = connect(&peer.url()).unwrap();
    client.write_all(b"POST /v1/x HTTP/1.1\r\ncontent-length: 10\r\n\r\nabc").unwrap();
    eventually(|| peer.describe().contains("3 bytes of body"));
    assert!(peer.try_accept().is_none());
    assert!(peer.describe().contains("POST /v1/x"), "{}", peer.describe());
}

#[test]
fn a_peer_can_reset_be_left_and_refuse() {
    let peer = Peer::start();
    let mut client = connect(&peer.url()).unwrap();
    ask(&mut client, "reset me");
    peer.accept().reset();
    let error = client.read(&mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);

    let mut client = connect(&peer.url()).unwrap();
    ask(&mut client, "left alone");
    let exchange = peer.accept();
    assert!(!exchange.is_closed_by_client());
    drop(client);
    exchange.wait_for_close();
    assert!(exchange.is_closed_by_client());

    let refusing = Refusing::start();
    assert_eq!(connect(&refusing.url()).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_script_is_never_blocked_by_a_client_that_does_not_read() {
    let peer = Peer::start();
    let mut client = connect(&peer.url()).unwrap();
    ask(&mut client, "a lot");
    let exchange = peer.accept();
    exchange.head(200, &[]).send_many([b'x'; 1000], 100_000).hang_up();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert!(answer.ends_with(&[b'x'; 1000]) && answer.len() > 100_000_000, "{} bytes", answer.len());
}

/// Sends requests on `count` connections at once and checks that each gets its own reply.
fn flood_with(url: &str, count: usize, chunks: usize) {
    let mut clients: Vec<TcpStream> = (0..count).map(|_| connect(url).unwrap()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        ask(client, &format!("please tag-{number}, not tag-0"));
    }
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(text_of(&read_answer(client)), reply_for(&format!("tag-{number}"), chunks));
    }
}

#[test]
fn a_flood_answers_everyone_with_their_own_tag_and_knows_its_peak() {
    let flood = Flood::start(Plan::quick(50).together(200));
    flood_with(&flood.url(), 200, 50);
    let counts = flood.counts();
    assert_eq!((counts.requests, counts.peak, counts.connections), (200, 200, 200));
    assert!(counts.bytes > 200 * 50 * 100, "{counts:?}");
}

#[test]
fn a_flood_holds_5000_replies_open_at_once() {
    let descriptors = raise_descriptor_limit();
    let count = 5000.min(descriptors as usize / 4);
    let flood = FloodProcess::spawn(Plan::quick(3).together(count));
    flood_with(&flood.url(), count, 3);
    let counts = flood.counts();
    assert_eq!((counts.requests, counts.peak as usize, counts.cut), (count as u64, count, 0));
}

#[test]
fn a_paced_flood_in_a_process_of_its_own_counts_what_was_cut() {
    let flood = FloodProcess::spawn(Plan::paced(20, 500.0).together(10));
    flood_with(&flood.url(), 10, 20);
    let counts = flood.counts();
    assert_eq!((counts.requests, counts.complete, counts.cut, counts.peak), (10, 10, 0, 10));
    // So slow that the reply cannot be complete before the client is gone, on any machine.
    let flood = FloodProcess::spawn(Plan::paced(10_000, 20.0));
    let mut client = connect(&flood.url()).unwrap();
    ask(&mut client, "tag-cut");
    client.read_exact(&mut [0; 200]).unwrap();
    drop(client);
    eventually(|| flood.counts().cut == 1);
    let counts = flood.counts();
    assert_eq!((counts.requests, counts.complete, counts.cut, counts.peak), (1, 0, 1, 1));
}

fn shell(script: &str) -> Pty {
    Pty::spawn("/bin/sh", &["-c", script], &[("GREETING", "hello from")], (40, 10))
}

#[test]
fn a_program_in_a_pty_owns_its_terminal_and_is_typed_to() {
    let mut pty = shell("echo $GREETING $(tty); stty size </dev/tty; read line; echo got $line; exit 3");
    pty.wait_for_text("hello from /dev/pts/");
    pty.wait_for_text("10 40");
    pty.send("words\r");
    pty.wait_for(|screen| screen.rows(0, 40).any(|row| row == "got words"), "the answer");
    assert_eq!(pty.wait_exit().code(), Some(3));
    assert!(pty.raw_output().ends_with(b"got words\r\n"));
    assert_eq!(pty.terminal_left(), TerminalLeft::CLEAN);
}

#[test]
fn a_resize_reaches_the_program_as_a_signal() {
    // A shell that waits for a line does not handle a signal that arrived just before.
    let mut pty = shell("trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done");
    pty.wait_for_text("ready");
    pty.resize(70, 20);
    pty.wait_for_text("20 70");
    pty.wait_exit();
}

#[test]
fn a_terminal_that_is_left_in_disorder_is_recognized() {
    let mut pty = shell("stty raw -echo; printf '\\033[?1049h\\033[?25l\\033[?2004h\\033[?1000h\\033[?1hready'; cat");
    pty.wait_for_text("ready");
    pty.kill(Signal::TERM);
    let status = pty.wait_exit();
    // A shell may also exit, with the code of a death by this signal.
    assert!(died_of(status, Signal::TERM) || status.code() == Some(143), "{status:?}");
    let disorder = TerminalLeft {
        main_screen: false,
        cursor_shown: false,
        plain_paste: false,
        mouse_off: false,
        ordinary_keys: false,
        settings_restored: false,
    };
    assert_eq!(pty.terminal_left(), disorder);
}

#[test]
fn a_megabyte_is_pasted_into_a_program_that_writes_as_it_reads() {
    let mut pty = shell("stty raw -echo; echo ready; head -c 1000000 | tr a b; echo; echo over");
    pty.wait_for_text("ready");
    pty.send(vec![b'a'; 1_000_000]);
    pty.wait_for_text("over");
    assert_eq!(pty.raw_output().iter().filter(|byte| **byte == b'b').count(), 1_000_000);
}

#[test]
fn a_terminal_that_goes_away_hangs_up_on_its_program() {
    let mut pty = shell("echo ready; read line");
    pty.wait_for_text("ready");
    assert!(died_of(pty.hang_up(), Signal::HUP));
}
