//! Whatever goes wrong with one agent's provider is reported to that agent, in plain text and without a key; the agent is
//! idle and can be talked to again, and the other agents do not notice.

use std::process::Command;
use std::time::Duration;

use polylogue::Chunk;
use polylogue::config::{RetryPolicy, Secret, Settings};
use serde_json::Value;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{State, Wait};
use crate::support::openai;
use crate::support::peer::{Exchange, NO_HOST, Peer, Refusing};

const KEY: &str = "sk-scripted-0123456789abcdef";

/// Agent 0 on the screen and one bystander, with a key. Failed requests are sent again at once, and twice.
fn app(url: &str) -> Harness {
    let retry = RetryPolicy { retries: Some(2), base: Duration::from_millis(1), ..RetryPolicy::default() };
    app_with(url, Settings { retry, ..Settings::default() }, true)
}

fn app_with(url: &str, settings: Settings, real_time: bool) -> Harness {
    let mut plan = Plan { settings, real_time, ..Plan::peer(url) };
    plan.endpoint.key = Some(Secret::new(KEY));
    let mut app = Harness::new(plan);
    app.fork(0);
    app.switch(0);
    app
}

/// Sends a message and turns until the agent is idle; the bystander is as it was, and the error holds no key.
fn error_after(app: &mut Harness, act: impl FnOnce(&mut Harness)) -> String {
    let bystander = app.fingerprint(1);
    app.enter("a question");
    act(app);
    app.turn_until_idle();
    assert_eq!(app.state(0), State::Idle);
    assert_eq!(app.fingerprint(1), bystander);
    let error = app.last_error(0);
    assert!(!error.is_empty() && !error.contains(KEY) && !error.contains("curl"), "{error}");
    // A long word begins a row of its own.
    let shown = app.screen_text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains(&error[..20]), "{error}\n{}", app.screen_text());
    assert!(!app.screen_text().contains(KEY));
    error
}

/// All errors and notes of an agent that are shown.
fn noted(app: &mut Harness, n: usize) -> Vec<String> {
    let viewer = app.repl.attach_to_last(app.id(n), 10_000).expect("there is this agent");
    let text = |chunk| match chunk {
        Chunk::Error { message, .. } | Chunk::Note(message) => Some(message),
        _ => None,
    };
    let mut texts = Vec::new();
    while app.repl.has_unread(viewer) {
        let chunks = app.repl.read(viewer, usize::MAX).chunks.into_iter();
        texts.extend(chunks.filter_map(|numbered| text(numbered.chunk)));
    }
    texts
}

/// The agent answers the next question as if nothing had been.
fn can_be_talked_to(app: &mut Harness, peer: &Peer) -> Value {
    app.enter("\x15and now?");
    let exchange = app.accept(peer);
    exchange.stream().text("fine").finish("stop").done();
    app.turn_until_idle();
    assert_eq!(app.replies(0).last().map(String::as_str), Some("fine"));
    is_valid(&exchange.request().json());
    exchange.request().json()["messages"].clone()
}

/// Turns of a person and of a model alternate, nothing is empty, and the person speaks last.
fn is_valid(body: &Value) {
    let messages = body["messages"].as_array().expect("messages");
    let roles: Vec<&str> = messages.iter().filter_map(|message| message["role"].as_str()).collect();
    assert_eq!((roles[0], roles.last()), ("system", Some(&"user")), "{roles:?}");
    assert!(roles.windows(2).all(|pair| pair[0] != pair[1]), "{roles:?}");
    assert!(messages.iter().all(|message| message["content"].as_str().is_some_and(|text| !text.is_empty())));
}

/// One question of which the answer is written by `answer`.
fn error_of_answer(answer: impl FnOnce(&Exchange)) -> (Harness, Peer, String) {
    let peer = Peer::start();
    let mut app = app(&peer.url());
    let error = error_after(&mut app, |app| answer(&app.accept(&peer)));
    (app, peer, error)
}

#[test]
fn a_refused_connection_is_retried_and_then_reported() {
    let refusing = Refusing::start();
    let mut app = app(&refusing.url());
    let error = error_after(&mut app, |_| {});
    assert!(error.contains("refused the connection") && error.ends_with("(tried 3 times)"), "{error}");
    assert_eq!(app.agent(0).retries(), 2);
}

#[test]
fn an_unresolvable_host_is_reported() {
    let mut app = app(&format!("http://{NO_HOST}/v1"));
    let error = error_after(&mut app, |_| {});
    assert!(error.contains(&format!("cannot resolve {NO_HOST}: there is no such host")), "{error}");
    assert_eq!(app.agent(0).retries(), 0);
}

#[test]
fn tls_to_a_server_without_tls_is_reported() {
    let peer = Peer::start();
    let mut app = app(&peer.url().replace("http://", "https://"));
    let error = error_after(&mut app, |_| {});
    assert!(error.contains("cannot establish a TLS connection"), "{error}");
    assert_eq!(app.agent(0).retries(), 0, "it would fail again");
}

#[test]
fn wrong_credentials_return_the_text_to_the_draft_and_remove_it_from_the_conversation() {
    let refusal = format!("Incorrect API key provided: {KEY}.");
    let (mut app, peer, error) = error_of_answer(|exchange| {
        exchange.error(401, "invalid_api_key", &refusal);
    });
    assert!(error.contains("credentials") && error.contains("[key]"), "{error}");
    assert_eq!(app.draft(0).text(), "a question");
    let messages = can_be_talked_to(&mut app, &peer);
    assert_eq!(messages.as_array().map(Vec::len), Some(2), "{messages}");
    assert_eq!(messages[1]["content"], "and now?");
    let mut app = app.crash_and_restart();
    let after_restart = can_be_talked_to(&mut app, &peer);
    assert_eq!(after_restart.as_array().map(Vec::len), Some(4), "{after_restart}");
}

#[test]
fn a_header_of_the_configuration_that_a_server_repeats_is_neither_shown_nor_stored() {
    const HEADER: &str = "planted header, value";
    for (status, kind) in [(400, "invalid"), (401, "auth"), (503, "overloaded")] {
        let peer = Peer::start();
        let mut plan = Plan::peer(&peer.url());
        plan.endpoint.headers = vec![("X-Planted".into(), HEADER.into())];
        let settings =
            Settings { retry: RetryPolicy { retries: Some(0), ..RetryPolicy::default() }, ..Settings::default() };
        let mut app = Harness::new(Plan { settings, ..plan });
        app.enter("a question");
        let exchange = app.accept(&peer);
        assert!(exchange.request().header("x-planted") == Some(HEADER));
        exchange.error(status, kind, &format!("do not send X-Planted: {HEADER}!"));
        app.turn_until_idle();
        assert!(app.last_error(0).contains("do not send X-Planted: [key]!"), "{}", app.last_error(0));
        assert!(!app.screen_text().contains("planted header"), "{}", app.screen_text());
        let directory = app.close();
        for entry in std::fs::read_dir(directory.path()).expect("the data directory").flatten() {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            assert!(!bytes.windows(HEADER.len()).any(|part| part == HEADER.as_bytes()), "{entry:?}");
        }
    }
}

/// libcurl asks for the socket of a paused transfer again when its bytes are taken; if they hold an error, the transfer ends
/// and its socket is closed before that is carried out.
#[test]
fn an_error_anywhere_in_a_reply_that_comes_too_fast_is_reported_and_nothing_else() {
    let peer = Peer::start();
    let mut app = app_with(&peer.url(), Settings::default(), true);
    let line = "x".repeat(1000);
    for kilobytes in (70..220).step_by(15) {
        app.enter("a question");
        let exchange = app.accept(&peer);
        exchange.stream();
        for _ in 0..kilobytes {
            exchange.text(&line);
        }
        exchange.event(&openai::error("server_error", "overloaded in the middle"));
        for _ in 0..400 {
            exchange.text(&line);
        }
        app.turn_until_idle();
        let texts = noted(&mut app, 0);
        assert!(!texts.iter().any(|text| text.contains("watch")), "after {kilobytes} kB: {texts:?}");
    }
}

#[test]
fn returned_text_does_not_replace_the_draft_and_is_not_lost() {
    let peer = Peer::start();
    let mut app = app(&peer.url());
    app.enter("a question");
    let exchange = app.accept(&peer);
    app.type_bytes(b"typed meanwhile");
    exchange.error(401, "invalid_api_key", "no");
    app.turn_until_idle();
    assert_eq!(app.draft(0).text(), "a question\ntyped meanwhile");
}

#[test]
fn an_unknown_model_is_reported_without_retry() {
    let (mut app, peer, error) = error_of_answer(|exchange| {
        exchange.error(404, "model_not_found", "The model `test` does not exist");
    });
    assert!(error.contains("(404)") && error.contains("The model `test` does not exist"), "{error}");
    assert_eq!(app.agent(0).retries(), 0);
    can_be_talked_to(&mut app, &peer);
}

#[test]
fn a_request_is_retried_when_the_server_allows_it_and_not_before() {
    let peer = Peer::start();
    let mut app = app_with(&peer.url(), Settings::default(), false);
    app.enter("a question");
    let exchange = app.accept(&peer);
    exchange.head(429, &[("retry-after", "7"), ("content-length", "0")]);
    app.turn_until("a retry", |app| matches!(app.agent(0).wait(), Wait::Retry { .. }));
    assert!(app.screen_text().contains("retrying in 7 s"), "{}", app.screen_text());
    app.advance(Duration::from_micros(6_999_999));
    assert!(matches!(app.agent(0).wait(), Wait::Retry { .. }));
    app.advance(Duration::from_micros(1));
    assert!(matches!(app.agent(0).wait(), Wait::Transfer));
    let again = app.accept(&peer);
    assert_eq!(again.request().body, exchange.request().body);
    again.stream().text("the only answer").finish("stop").done();
    app.turn_until_idle();
    assert_eq!(app.kinds(0), ["fork", "user", "assistant"]);
    let screen = app.screen_text();
    assert_eq!((screen.matches("the only answer").count(), screen.matches("┃ a question").count()), (1, 1), "{screen}");
}

#[test]
fn a_failing_server_is_tried_six_times_with_growing_waits() {
    let peer = Peer::start();
    let retry = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
    let mut app = app_with(&peer.url(), Settings { retry, ..Settings::default() }, false);
    let error = error_after(&mut app, |app| {
        for seconds in [1, 2, 4, 8, 16] {
            app.accept(&peer).error(500, "server_error", "out of cheese");
            app.turn_until("a retry", |app| matches!(app.agent(0).wait(), Wait::Retry { .. }));
            app.advance(Duration::from_secs(seconds) - Duration::from_micros(1));
            assert!(matches!(app.agent(0).wait(), Wait::Retry { .. }), "before {seconds} s");
            app.advance(Duration::from_micros(1));
        }
        app.accept(&peer).error(500, "server_error", "out of cheese");
    });
    assert!(error.contains("unavailable") && error.contains("out of cheese"), "{error}");
    assert_eq!(app.kinds(0), ["fork", "user", "error"]);
    can_be_talked_to(&mut app, &peer);
}

#[test]
fn an_invalid_stream_is_reported_and_the_partial_reply_kept() {
    let (mut app, peer, error) = error_of_answer(|exchange| {
        exchange.stream().text("so far").body("data: {\"choices\":[{\"delta\":{\"content\":\n\n").end();
    });
    assert!(!error.contains("line 1 column"), "{error}");
    assert_eq!(app.partial_replies(0), ["so far"]);
    can_be_talked_to(&mut app, &peer);
}

#[test]
fn a_broken_stream_keeps_and_marks_the_partial_reply_without_retry() {
    for broken in [Exchange::hang_up, Exchange::reset] {
        let peer = Peer::start();
        let mut app = app(&peer.url());
        error_after(&mut app, |app| {
            let exchange = app.accept(&peer);
            exchange.stream().text("half of the ");
            app.turn_until("the half", |app| app.agent(0).partial_text() == "half of the ");
            broken(&exchange);
        });
        assert_eq!(app.partial_replies(0), ["half of the "]);
        assert_eq!(app.kinds(0), ["fork", "user", "assistant", "interrupted", "error"]);
        let messages = can_be_talked_to(&mut app, &peer);
        assert!(messages[2]["content"].as_str().is_some_and(|text| text.starts_with("half of the ")), "{messages}");
    }
}

#[test]
fn a_connection_that_breaks_before_any_text_is_retried() {
    let peer = Peer::start();
    let mut app = app(&peer.url());
    app.enter("a question");
    app.accept(&peer).hang_up();
    app.accept(&peer).reset();
    app.accept(&peer).stream().text("at last").finish("stop").done();
    app.turn_until_idle();
    assert_eq!(app.kinds(0), ["fork", "user", "assistant"]);
}

#[test]
fn an_error_object_behind_200_is_reported() {
    let (mut app, peer, error) = error_of_answer(|exchange| {
        exchange.stream().text("so far").event(&openai::error("server_error", "the graphics card fell out")).end();
    });
    assert!(error.contains("the graphics card fell out"), "{error}");
    assert_eq!(app.partial_replies(0), ["so far"]);
    can_be_talked_to(&mut app, &peer);
}

/// Resident memory of this process in bytes (proc(5), `statm`), in pages of 4 KiB.
fn resident() -> usize {
    let numbers = std::fs::read_to_string("/proc/self/statm").expect("a Linux");
    numbers.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
}

/// Runs this test of the module in a process of its own: the memory of this one is also that of the tests beside it.
fn alone(test: &str, run: impl FnOnce()) {
    const IS_ALONE: &str = "POLYLOGUE_TEST_ALONE";
    if std::env::var_os(IS_ALONE).is_some() {
        return run();
    }
    let mut copy = Command::new(std::env::current_exe().expect("the path of this binary"));
    copy.args(["--exact", &format!("errors::{test}"), "--nocapture", "--test-threads=1"]).env(IS_ALONE, "1");
    let output = copy.output().expect("a process");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// A server that sends without end: a megabyte, a thousand times over.
fn endless(head: &[(&str, &str)], megabyte: &str) -> String {
    let peer = Peer::start();
    let mut app = app(&peer.url());
    let before = resident();
    let error = error_after(&mut app, |app| {
        let exchange = app.accept(&peer);
        exchange.head(200, head).send_many(megabyte, 1_000);
        app.turn_until_idle();
        exchange.wait_for_close();
    });
    assert!(resident().saturating_sub(before) < 400 << 20, "{} MB", (resident() - before) >> 20);
    can_be_talked_to(&mut app, &peer);
    error
}

#[test]
fn a_body_of_a_gigabyte_ends_at_the_bound_of_a_reply() {
    alone("a_body_of_a_gigabyte_ends_at_the_bound_of_a_reply", || {
        let error = endless(&[("content-length", "1048576000")], &"x".repeat(1 << 20));
        assert!(!error.contains("xxxxxxxxxx"), "{error}");
    });
}

#[test]
fn a_line_without_end_ends_at_the_bound_of_a_line() {
    alone("a_line_without_end_ends_at_the_bound_of_a_line", || {
        let head = [("content-type", "text/event-stream"), ("connection", "close")];
        endless(&head, &format!("data: {}", "x".repeat((1 << 20) - 6)));
    });
}

#[test]
fn a_stream_of_text_without_end_ends_at_the_bound_of_a_reply_and_keeps_what_was_shown() {
    alone("a_stream_of_text_without_end_ends_at_the_bound_of_a_reply_and_keeps_what_was_shown", || {
        let event = openai::event(&openai::text(&"word ".repeat(3_000)));
        let error = endless(&[("content-type", "text/event-stream")], &event.repeat((1 << 20) / event.len()));
        assert!(error.contains("MB") || error.contains("MiB") || error.contains("too"), "{error}");
    });
}

#[test]
fn a_request_of_a_megabyte_arrives_whole() {
    a_request_arrives_whole(1 << 20);
}

#[test]
fn a_request_of_twenty_megabytes_arrives_whole() {
    a_request_arrives_whole(20 << 20);
}

/// libcurl sends 64 KiB and then waits until the socket has room: without re-arming it never is.
fn a_request_arrives_whole(bytes: usize) {
    let peer = Peer::start();
    let mut app = app(&peer.url());
    let text = "0123456789abcdef".repeat(bytes / 16);
    app.say(1, &text);
    let exchange = app.accept(&peer);
    assert!(exchange.request().json()["messages"][1]["content"] == text.as_str(), "the text is whole");
    exchange.stream().text("read").finish("stop").done();
    app.turn_until_idle();
    assert_eq!(app.replies(1), ["read"]);
}
