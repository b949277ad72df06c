//! An agent that no person watches asks again when its reply breaks off: what had come is shown as replaced, and no call
//! of it runs. How long it asks again is a matter of time; under the eyes of a person, of a number.

use std::time::Duration;

use polylogue::Status;
use polylogue::config::{RetryPolicy, Settings};
use serde_json::json;

use crate::support::client::{Client, serve};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::Wait;
use crate::support::openai;
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::{assert_shows, assert_valid};

const REPLACED: &str = "reply incomplete, replaced by the next one";
const MINUTE: Duration = Duration::from_secs(60);

fn settings(retries: Option<u32>, base: Duration) -> Settings {
    Settings { retry: RetryPolicy { retries, base, jitter: 0.0, ..RetryPolicy::default() }, ..Settings::default() }
}

/// Agent 0 on the screen, and agent 1, which nobody watches.
fn app(peer: &Peer) -> Harness {
    let settings = settings(None, Duration::from_millis(1));
    let mut app = Harness::new(Plan { settings, real_time: true, ..Plan::peer(&peer.url()) });
    app.fork(0);
    app.switch(0);
    app
}

/// Time passes only as the test says.
fn slow_app(peer: &Peer, settings: Settings) -> Harness {
    let mut app = Harness::new(Plan { settings, ..Plan::peer(&peer.url()) });
    app.fork(0);
    app.switch(0);
    app
}

/// The conversation in a request: the role of each message and its text.
fn said(exchange: &Exchange) -> Vec<(String, String)> {
    let body = exchange.request().json();
    assert_valid(&body);
    let messages = body["messages"].as_array().expect("messages").clone();
    let text = |name: &str, message: &serde_json::Value| message[name].as_str().unwrap_or_default().to_owned();
    let said = messages.iter().map(|message| (text("role", message), text("content", message)));
    said.filter(|(role, _)| role != "system").collect()
}

fn pairs(said: &[(&str, &str)]) -> Vec<(String, String)> {
    said.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect()
}

const BREAKS: [fn(&Exchange); 4] = [
    |exchange| exchange.hang_up(),
    |exchange| {
        exchange.end();
    },
    |exchange| {
        exchange.body("data: {\"choices\":[{\n\n").end();
    },
    |exchange| {
        exchange.event(&openai::error("server_error", "the model crashed")).end();
    },
];

#[test]
fn a_reply_that_breaks_off_is_replaced_and_its_calls_do_not_run() {
    for (way, break_off) in BREAKS.into_iter().enumerate() {
        let peer = Peer::start();
        let mut app = app(&peer);
        app.say(1, "a question");
        let exchange = app.accept(&peer);
        exchange.stream().thinking("hm").text("half of ").tool_call(0, "a", "list_dir", "{\"pa");
        break_off(&exchange);
        let again = app.accept(&peer);
        assert_eq!(said(&again), pairs(&[("user", "a question")]), "{way}");
        again.stream().text("I look").tool_call(0, "b", "list_dir", "{}");
        break_off(&again);
        app.accept(&peer).stream().tool_call(0, "c", "list_dir", "{}").finish("tool_calls").done();
        let after = app.accept(&peer);
        let roles: Vec<String> = said(&after).into_iter().map(|(role, _)| role).collect();
        assert_eq!(roles, ["user", "assistant", "tool"], "{way}");
        assert_eq!(said(&after)[1].1, "", "no part of what broke off: {way}");
        after.stream().text("the whole").finish("stop").done();
        app.turn_until_idle();
        assert_eq!(app.agent(1).status(), Status::Idle);
        assert_eq!(app.tool_results(1).len(), 1, "{way}");
        for _ in 0..2 {
            app.switch(1);
            for text in ["half of", "I look", REPLACED, "the whole"] {
                assert_shows(&mut app, text);
            }
            assert_eq!(app.screen_text().matches(REPLACED).count(), 2, "{}", app.screen_text());
            app.say(1, "and now?");
            let exchange = app.accept(&peer);
            assert_eq!(said(&exchange)[3].1, "the whole", "{way}");
            exchange.stream().text("nothing").finish("stop").done();
            app.turn_until_idle();
            app = app.crash_and_restart();
        }
    }
}

#[test]
fn what_a_person_has_seen_is_not_replaced() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.say(1, "a question");
    let exchange = app.accept(&peer);
    exchange.stream().text("half of ");
    app.turn_until("the half", |app| app.agent(1).partial_text() == "half of ");
    app.switch(1);
    exchange.hang_up();
    app.turn_until_idle();
    assert_eq!(app.agent(1).status(), Status::Failed);
    assert_shows(&mut app, "failed: Enter tries again, Up edits the message");
    assert!(peer.try_accept().is_none() && !app.screen_text().contains(REPLACED));
}

#[test]
fn a_reply_that_was_replaced_by_none_is_left_out() {
    let peer = Peer::start();
    let mut app = slow_app(&peer, settings(Some(1), Duration::ZERO));
    app.say(1, "a question");
    let first = app.accept(&peer);
    first.stream().text("half of ");
    first.hang_up();
    app.accept(&peer).error(400, "invalid", "no such parameter");
    app.turn_until_idle();
    assert_eq!(app.agent(1).status(), Status::Failed);
    assert_eq!(app.kinds(1), ["fork", "user", "assistant", "replaced", "error"]);
    let mut app = app.crash_and_restart();
    app.say(1, "another");
    assert_eq!(said(&app.accept(&peer)), pairs(&[("user", "another")]));
}

/// Refuses every request until none comes, and returns how many came; each wait passes at once.
fn refuse_all(app: &mut Harness, peer: &Peer, refuse: impl Fn(&Exchange)) -> usize {
    for count in 1.. {
        refuse(&app.accept(peer));
        app.turn_until("the end of the try", |app| !matches!(app.agent(1).wait(), Wait::Transfer | Wait::Slot));
        let Wait::Retry { at, .. } = app.agent(1).wait() else { return count };
        let wait = *at - app.clock.now();
        app.advance(wait);
    }
    unreachable!("the number has no end")
}

fn overloaded(exchange: &Exchange) {
    exchange.error(503, "overloaded", "come back later");
}

#[test]
fn what_nobody_watches_is_tried_again_for_ten_minutes() {
    let peer = Peer::start();
    let mut app = slow_app(&peer, settings(None, Duration::from_secs(1)));
    app.say(1, "a question");
    let tries = refuse_all(&mut app, &peer, overloaded);
    // Waits of 1, 2, 4, ... 32 and 60 s; the last ends with the time.
    assert_eq!(tries, 16);
    let error = app.last_error(1);
    assert!(error.contains("come back later") && error.ends_with("(tried 16 times in 600 s)"), "{error}");
    app.switch(1);
    app.say(1, "another");
    app.advance(MINUTE);
    assert_eq!(refuse_all(&mut app, &peer, overloaded), 6, "a person waits for it");
}

#[test]
fn a_number_of_retries_that_was_set_holds_and_none_is_none() {
    for (retries, tries) in [(0, 1), (2, 3)] {
        let peer = Peer::start();
        let mut app = slow_app(&peer, settings(Some(retries), Duration::from_secs(1)));
        app.say(1, "a question");
        assert_eq!(refuse_all(&mut app, &peer, overloaded), tries);
    }
}

#[test]
fn a_wait_that_lasts_longer_than_the_time_is_not_begun() {
    let peer = Peer::start();
    let usual = settings(None, Duration::from_secs(1));
    let mut app = slow_app(&peer, Settings { is_interactive: false, ..usual });
    app.say(1, "a question");
    let tries = refuse_all(&mut app, &peer, |exchange| {
        let body = openai::error("overloaded", "at night").to_string();
        let length = body.len().to_string();
        exchange.head(503, &[("content-length", &length), ("retry-after", "3600")]).body(&body);
    });
    assert_eq!(tries, 1);
    let error = app.last_error(1);
    assert!(error.ends_with("at night; not tried again: the provider asks to wait 3600 s"), "{error}");
}

#[test]
fn the_final_word_of_a_server_is_not_asked_for_again() {
    for (status, kind) in [(400, "invalid"), (401, "invalid_api_key"), (403, "forbidden"), (429, "insufficient_quota")]
    {
        let peer = Peer::start();
        let mut app = app(&peer);
        app.say(1, "a question");
        app.accept(&peer).error(status, kind, "no");
        app.turn_until_idle();
        assert_eq!(app.agent(1).status(), Status::Failed);
        assert!(peer.try_accept().is_none(), "{status}");
    }
}

#[test]
fn a_client_says_for_how_long_its_turn_is_tried_again() {
    let peer = Peer::start();
    let mut app = serve(Plan { settings: settings(None, Duration::from_secs(1)), ..Plan::peer(&peer.url()) });
    app.fork(0);
    let mut client = Client::connect(&app);
    for (ms, seconds) in [(Some(20 * 60_000), 1200), (None, 600)] {
        client.ask("turn", json!({"agent": "1", "text": "a question", "retry_ms": ms}));
        refuse_all(&mut app, &peer, overloaded);
        let error = app.last_error(1);
        assert!(error.ends_with(&format!(" times in {seconds} s)")), "{error}");
        while client.read(&mut app).get("ok").is_none() {}
        app.advance(2 * MINUTE);
    }
}

#[test]
fn the_time_begins_again_after_each_complete_reply() {
    let peer = Peer::start();
    let mut app = slow_app(&peer, settings(None, MINUTE));
    app.say(1, "a question");
    for _ in 0..4 {
        for _ in 0..4 {
            overloaded(&app.accept(&peer));
            app.turn_until("a retry", |app| matches!(app.agent(1).wait(), Wait::Retry { .. }));
            app.advance(MINUTE);
        }
        app.accept(&peer).stream().tool_call(0, "c", "list_dir", "{}").finish("tool_calls").done();
    }
    app.accept(&peer).stream().text("at last").finish("stop").done();
    app.turn_until_idle();
    assert_eq!(app.replies(1), ["at last"]);
}
