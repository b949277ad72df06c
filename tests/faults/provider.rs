//! The connection to a provider ends, or stalls, or goes wrong at any byte of a response or of a request.

use std::io::{ErrorKind, Read as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use polylogue::config::Settings;

use super::without_retries;
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, Probe as _, Wait};
use crate::support::peer::{Exchange, Peer};
use crate::support::size::stride;

/// How the part of a response ends that arrives.
#[derive(Debug, Clone, Copy)]
enum Cut {
    Close,
    Reset,
    Garbage,
    Hang,
}

const CUTS: [Cut; 4] = [Cut::Close, Cut::Reset, Cut::Garbage, Cut::Hang];
/// In none of the languages of a response.
const GARBAGE: &[u8] = b"\xff\0}{\r\n\r\n\xc3(";
/// Longer than a response may send nothing.
const STALL: Duration = Duration::from_secs(121);
/// A conversation is given up after so many cuts: its requests grow.
const CUTS_PER_CONVERSATION: usize = 64;

/// A response as a server sends it, with text, usage and end.
fn response() -> Vec<u8> {
    let event = |json: &str| {
        let data = format!("data: {json}\n\n");
        format!("{:x}\r\n{data}\r\n", data.len())
    };
    let text = |text: &str| event(&format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#));
    let end = event(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let usage = event(r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}"#);
    let whole = [head.into(), text("one "), text("two"), end, usage, event("[DONE]"), "0\r\n\r\n".into()];
    whole.concat().into_bytes()
}

fn two_agents(plan: Plan) -> Harness {
    let mut app = Harness::new(plan);
    app.repl.create(Some("other"), None).expect("a second agent");
    app
}

fn plan(url: &str, settings: Settings) -> Plan {
    // Requests without tools are short.
    Plan { settings: Settings { has_tools: false, ..settings }, size: None, ..Plan::peer(url) }
}

impl Cut {
    fn apply(self, exchange: &Exchange, app: &mut Harness) {
        match self {
            Self::Close => exchange.hang_up(),
            Self::Reset => exchange.reset(),
            Self::Garbage => exchange.send(GARBAGE).hang_up(),
            Self::Hang => app.turn_until("the stall", |app| {
                app.clock.advance(STALL);
                is_settled(app)
            }),
        }
    }
}

fn is_settled(app: &Harness) -> bool {
    app.repl.roster().busy().is_empty() || matches!(app.agent(0).wait(), Wait::Retry { .. })
}

/// Turns until agent 0 is idle or pauses. The peer closes its half of a connection only, so libcurl may try to use it once
/// more before it opens another one: whatever comes meanwhile is answered in this way.
fn turn_until_settled(app: &mut Harness, peer: &Peer, answer: impl Fn(&Exchange)) {
    app.turn_until("an end or a pause", |app| {
        peer.try_accept().iter().for_each(&answer);
        is_settled(app)
    });
}

/// The texts of replies among these messages, and whether there is an error.
fn outcome(app: &Harness, from: usize) -> (String, bool) {
    let new: Vec<Body> = app.log(0).into_iter().skip(from).map(|message| message.body).collect();
    let text = |body: &Body| if let Body::Assistant(reply) = body { Some(reply.text.clone()) } else { None };
    (new.iter().filter_map(text).collect(), new.iter().any(|body| matches!(body, Body::Error(_))))
}

/// What agent 0 has after its response ended behind this many bytes.
fn cut_at(app: &mut Harness, peer: &Peer, bytes: &[u8], cut: Cut) {
    let before = (app.fingerprint(1), app.log(0).len());
    app.say(0, "question");
    let exchange = app.accept(peer);
    exchange.send(bytes);
    cut.apply(&exchange, app);
    turn_until_settled(app, peer, |exchange| exchange.send(bytes).hang_up());
    let at = bytes.len();
    assert_eq!(app.fingerprint(1), before.0, "{cut:?} at {at}: the other agent has changed");
    let (text, is_error) = outcome(app, before.1);
    assert!("one two".starts_with(&text), "{cut:?} at {at}: {text:?}");
    assert!(is_error || text == "one two", "{cut:?} at {at}: neither an error nor the whole reply");
}

#[test]
fn a_response_that_ends_behind_any_of_its_bytes_concerns_its_agent_only() {
    let response = response();
    let peer = Peer::start();
    for (number, cut) in CUTS.into_iter().enumerate() {
        let mut app = two_agents(plan(&peer.url(), without_retries()));
        for (count, at) in (number..response.len()).step_by(stride(11)).enumerate() {
            if count % CUTS_PER_CONVERSATION == CUTS_PER_CONVERSATION - 1 {
                app = two_agents(plan(&peer.url(), without_retries()));
            }
            cut_at(&mut app, &peer, &response[..at], cut);
        }
        app.say(0, "question");
        turn_until_settled(&mut app, &peer, |exchange| {
            exchange.send(&response);
        });
        assert_eq!(app.replies(0).last().map(String::as_str), Some("one two"));
    }
}

/// The request is sent again exactly if nothing of the response was shown to a person.
#[test]
fn a_response_of_which_nothing_was_shown_is_asked_for_again() {
    let response = response();
    let first_text = response.windows(4).position(|bytes| bytes == b"one ").expect("a text");
    let peer = Peer::start();
    for (number, cut) in [Cut::Close, Cut::Reset, Cut::Hang].into_iter().enumerate() {
        for at in (number..response.len()).step_by(stride(67)) {
            let watched = Plan { size: Plan::default().size, ..plan(&peer.url(), Settings::default()) };
            let mut app = two_agents(watched);
            let other = app.fingerprint(1);
            app.say(0, "question");
            let exchange = app.accept(&peer);
            exchange.send(&response[..at]);
            cut.apply(&exchange, &mut app);
            turn_until_settled(&mut app, &peer, |exchange| exchange.send(&response[..at]).hang_up());
            let is_retried = !app.repl.roster().busy().is_empty();
            assert!(is_retried || at > first_text, "{cut:?} at {at}: not tried again");
            if is_retried {
                app.advance(Duration::from_secs(60));
                turn_until_settled(&mut app, &peer, |exchange| {
                    exchange.send(&response);
                });
            }
            let (text, is_error) = outcome(&app, 0);
            assert!("one two".starts_with(&text) && (is_error || text == "one two"), "{cut:?} at {at}: {text:?}");
            assert!(!(is_retried && is_error), "{cut:?} at {at}: an error after all");
            assert_eq!(app.fingerprint(1), other, "{cut:?} at {at}");
        }
    }
}

/// A server that reads a part of a request and goes away.
struct Rude(TcpListener);

impl Rude {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port on loopback");
        listener.set_nonblocking(true).expect("a socket");
        Self(listener)
    }

    fn url(&self) -> String {
        format!("http://{}/v1", self.0.local_addr().expect("a bound socket"))
    }

    /// The next connection, of which so many bytes were read, and whether there were no more.
    fn read(&self, app: &mut Harness, bytes: usize) -> TcpStream {
        let mut taken = None;
        app.turn_until("a connection", |_| {
            taken = taken.take().or_else(|| self.0.accept().ok());
            taken.is_some()
        });
        let mut stream = taken.expect("just accepted").0;
        stream.set_nonblocking(true).expect("a socket");
        let mut left = bytes;
        app.turn_until("a part of the request", |_| {
            match stream.read(&mut vec![0; left]) {
                Ok(count) => left -= count,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            left == 0
        });
        stream
    }
}

/// How long the whole request is.
fn request_length(app: &mut Harness, rude: &Rude) -> usize {
    app.say(0, "question");
    let mut stream = rude.read(app, 0);
    let (mut all, mut portion) = (Vec::new(), [0; 65_536]);
    app.turn_until("the request", |_| {
        all.extend_from_slice(stream.read(&mut portion).map_or(&[], |count| &portion[..count]));
        all.ends_with(b"}")
    });
    drop(stream);
    app.turn_until_idle();
    all.len()
}

#[test]
fn a_server_that_goes_away_behind_any_byte_of_a_request_concerns_its_agent_only() {
    let rude = Rude::start();
    let fresh = || two_agents(plan(&rude.url(), without_retries()));
    let length = request_length(&mut fresh(), &rude);
    let mut app = fresh();
    for (count, at) in (0..=length).step_by(stride(23)).enumerate() {
        if count % CUTS_PER_CONVERSATION == 0 {
            app = fresh();
        }
        let before = (app.fingerprint(1), app.log(0).len());
        app.say(0, "question");
        let stream = rude.read(&mut app, at);
        // Closed with bytes that were not read, a socket is reset; a half of it is closed in order.
        let _half_closed = (count % 2 == 0).then(|| {
            stream.shutdown(Shutdown::Write).expect("a socket");
            stream.try_clone().expect("a descriptor")
        });
        drop(stream);
        app.turn_until_idle();
        let (text, is_error) = outcome(&app, before.1);
        assert!(text.is_empty() && is_error, "closed after {at} bytes: {text:?}");
        assert_eq!(app.fingerprint(1), before.0, "closed after {at} bytes");
    }
}
