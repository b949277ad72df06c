//! After an error or an interrupt nothing that was typed is lost: Enter on an empty input tries again, Up brings the text
//! back, and a text that failed is never part of a later request.

use std::time::Duration;

use polylogue::config::{RetryPolicy, Settings};
use polylogue::{Change, Status};
use serde_json::Value;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::State;
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::{assert_shows, assert_valid};

const FAILED: &str = "failed: Enter tries again, Up edits the message";
const INTERRUPTED: &str = "interrupted: Enter tries again, Up edits the message";
const UP: &[u8] = b"\x1b[A";
const DOWN: &[u8] = b"\x1b[B";
const ENTER: &[u8] = b"\r";

/// One agent, whose failed requests are not tried again by themselves.
fn app(peer: &Peer) -> Harness {
    let retry = RetryPolicy { retries: Some(0), base: Duration::from_millis(1), ..RetryPolicy::default() };
    let settings = Settings { retry, ..Settings::default() };
    Harness::new(Plan { settings, real_time: true, ..Plan::peer(&peer.url()) })
}

/// What the person and the model have said, in a request.
fn said(exchange: &Exchange) -> Vec<String> {
    let body = exchange.request().json();
    assert_valid(&body);
    let messages = body["messages"].as_array().expect("messages").clone();
    let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    messages.iter().filter(|message| message["role"] != "system").map(text).collect()
}

/// Sends a text whose request is answered by `fail`.
fn fail(app: &mut Harness, peer: &Peer, text: &str, fail: impl FnOnce(&Exchange)) {
    app.enter(text);
    fail(&app.accept(peer));
    app.turn_until_idle();
    assert_eq!(app.agent(0).status(), Status::Failed);
}

fn bad_request(exchange: &Exchange) {
    exchange.error(400, "invalid", "no such parameter");
}

fn answer(app: &mut Harness, peer: &Peer) -> Vec<String> {
    let exchange = app.accept(peer);
    let said = said(&exchange);
    exchange.stream().text("fine").finish("stop").done();
    app.turn_until_idle();
    assert_eq!(app.agent(0).status(), Status::Idle);
    said
}

#[test]
fn enter_tries_every_failed_turn_again_and_sends_its_message_once() {
    let ways: [fn(&Exchange); 5] = [
        bad_request,
        |exchange| {
            exchange.error(429, "insufficient_quota", "you exceeded your quota");
        },
        |exchange| {
            exchange.error(503, "overloaded", "come back later");
        },
        |exchange| exchange.hang_up(),
        |exchange| {
            exchange.stream().body("data: {\"choices\":[{\n\n").end();
        },
    ];
    for (way, fail_with) in ways.into_iter().enumerate() {
        for is_restarted in [false, true] {
            for typed in ["\r", "/retry\r"] {
                let peer = Peer::start();
                let mut app = app(&peer);
                fail(&mut app, &peer, "a question", fail_with);
                if is_restarted {
                    app = app.crash_and_restart();
                }
                assert_shows(&mut app, FAILED);
                assert!(app.draft(0).is_empty(), "{way}");
                app.type_bytes(typed.as_bytes());
                assert_eq!(answer(&mut app, &peer), ["a question"], "{way} {is_restarted} {typed:?}");
                assert!(!app.screen_text().contains(FAILED));
                app.enter("and now?");
                assert_eq!(answer(&mut app, &peer), ["a question", "fine", "and now?"]);
            }
        }
    }
}

#[test]
fn a_text_that_failed_is_not_part_of_a_later_request() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("hello");
    answer(&mut app, &peer);
    fail(&mut app, &peer, "one", bad_request);
    fail(&mut app, &peer, "two", bad_request);
    let mut app = app.crash_and_restart();
    app.enter("three");
    assert_eq!(answer(&mut app, &peer), ["hello", "fine", "three"]);
    fail(&mut app, &peer, "four", bad_request);
    app.fork(0);
    app.enter("of the child");
    assert_eq!(said(&app.accept(&peer)), ["hello", "fine", "three", "fine", "of the child"]);
}

#[test]
fn up_brings_the_text_back_and_what_is_made_of_it_replaces_it() {
    for is_restarted in [false, true] {
        let peer = Peer::start();
        let mut app = app(&peer);
        app.enter("hello");
        answer(&mut app, &peer);
        fail(&mut app, &peer, "a qestion", |exchange| {
            exchange.stream().text("half of ");
            exchange.hang_up();
        });
        if is_restarted {
            app = app.crash_and_restart();
        }
        app.type_bytes(UP);
        assert_eq!(app.draft(0).text(), "a qestion");
        assert!(!app.screen_text().contains(FAILED), "Enter would send the draft");
        app.enter(" of mine");
        assert_eq!(answer(&mut app, &peer), ["hello", "fine", "a qestion of mine"], "{is_restarted}");
        let mut app = app.crash_and_restart();
        app.enter("more");
        assert_eq!(answer(&mut app, &peer), ["hello", "fine", "a qestion of mine", "fine", "more"]);
    }
}

#[test]
fn a_draft_that_replaces_a_message_replaces_it_after_a_restart_too() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("hello");
    answer(&mut app, &peer);
    fail(&mut app, &peer, "a qestion", |exchange| {
        exchange.stream().text("half of ");
        exchange.hang_up();
    });
    app.type_bytes(UP);
    app.type_bytes(b" of mine");
    app.turn_until("the stored draft", |app| app.stored_draft(0) == "a qestion of mine");
    let mut app = app.crash_and_restart();
    assert_eq!(app.draft(0).text(), "a qestion of mine");
    app.enter("!");
    assert_eq!(answer(&mut app, &peer), ["hello", "fine", "a qestion of mine!"]);
}

#[test]
fn up_and_enter_send_the_text_once() {
    for is_interrupted in [false, true] {
        let peer = Peer::start();
        let mut app = app(&peer);
        app.enter("a question");
        let exchange = app.accept(&peer);
        exchange.stream().text("half of ");
        app.turn_until("the half", |app| app.agent(0).partial_text() == "half of ");
        if is_interrupted {
            app.escape();
        } else {
            exchange.hang_up();
        }
        app.turn_until_idle();
        app.type_bytes(UP);
        app.type_bytes(ENTER);
        assert_eq!(answer(&mut app, &peer), ["a question"]);
    }
}

#[test]
fn a_draft_that_was_emptied_or_is_another_input_replaces_nothing() {
    let emptied = |app: &mut Harness| {
        app.type_bytes(b"\x15");
    };
    let older = |app: &mut Harness| {
        app.type_bytes(UP);
        assert_eq!(app.draft(0).text(), "hello");
        app.type_bytes(b"\x1b[F\x7f");
    };
    for (change, last) in [(emptied as fn(&mut Harness), "!"), (older, "hell!")] {
        let peer = Peer::start();
        let mut app = app(&peer);
        app.enter("hello");
        answer(&mut app, &peer);
        fail(&mut app, &peer, "a question", |exchange| {
            exchange.stream().text("half of ");
            exchange.hang_up();
        });
        app.type_bytes(UP);
        change(&mut app);
        app.enter("!");
        let said = answer(&mut app, &peer);
        assert!(said[3].starts_with("half of ") && said.len() == 5, "{said:?}");
        assert_eq!((said[2].as_str(), said[4].as_str()), ("a question", last));
    }
}

#[test]
fn a_retry_replaces_the_part_of_the_reply_that_had_arrived() {
    let peer = Peer::start();
    let mut app = app(&peer);
    fail(&mut app, &peer, "a question", |exchange| {
        exchange.stream().text("half of ");
        exchange.hang_up();
    });
    let screen = app.screen_text();
    assert!(screen.contains("half of") && screen.contains(FAILED), "{screen}");
    let mut app = app.crash_and_restart();
    app.type_bytes(ENTER);
    assert_eq!(answer(&mut app, &peer), ["a question"]);
    let mut app = app.crash_and_restart();
    assert_shows(&mut app, "half of");
    app.enter("and now?");
    assert_eq!(answer(&mut app, &peer), ["a question", "fine", "and now?"]);
}

#[test]
fn a_retry_that_fails_or_crashes_can_be_tried_again() {
    let peer = Peer::start();
    let mut app = app(&peer);
    fail(&mut app, &peer, "a question", bad_request);
    for _ in 0..2 {
        app.type_bytes(ENTER);
        let exchange = app.accept(&peer);
        assert_eq!(said(&exchange), ["a question"]);
        bad_request(&exchange);
        app.turn_until_idle();
        assert_eq!(app.agent(0).status(), Status::Failed);
    }
    app.type_bytes(ENTER);
    let _cut = app.accept(&peer);
    let mut app = app.crash_and_restart();
    assert_shows(&mut app, INTERRUPTED);
    app.type_bytes(ENTER);
    assert_eq!(answer(&mut app, &peer), ["a question"]);
}

#[test]
fn a_retry_continues_after_the_calls_that_were_made() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("look");
    let first = app.accept(&peer);
    first.stream().tool_call(0, "call", "read_file", "{\"path\":\"none\"}").finish("tool_calls").done();
    app.accept(&peer).error(503, "overloaded", "come back later");
    app.turn_until_idle();
    let mut app = app.crash_and_restart();
    assert_shows(&mut app, FAILED);
    app.type_bytes(ENTER);
    let exchange = app.accept(&peer);
    let body = exchange.request().json();
    assert_valid(&body);
    let roles: Vec<&str> = body["messages"].as_array().unwrap().iter().filter_map(|one| one["role"].as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool"]);
    exchange.stream().text("there is none").finish("stop").done();
    app.turn_until_idle();
    assert_eq!(app.kinds(0), ["user", "tool_call", "tool_result", "error", "assistant"]);
}

#[test]
fn the_same_words_after_work_that_was_interrupted_mean_to_go_on() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("continue");
    let first = app.accept(&peer);
    first.stream().tool_call(0, "call", "read_file", "{\"path\":\"none\"}").finish("tool_calls").done();
    let _waiting = app.accept(&peer);
    app.escape();
    app.enter("continue");
    let exchange = app.accept(&peer);
    let body = exchange.request().json();
    let roles: Vec<&str> = body["messages"].as_array().unwrap().iter().filter_map(|one| one["role"].as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "user"], "the call is known");
}

#[test]
fn an_interrupted_turn_offers_the_same_in_the_same_words() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("a question");
    let _waiting = app.accept(&peer);
    app.escape();
    assert_shows(&mut app, INTERRUPTED);
    app.type_bytes(ENTER);
    let _waiting = app.accept(&peer);
    app.escape();
    app.type_bytes(UP);
    app.enter("!");
    assert_eq!(answer(&mut app, &peer), ["a question!"]);
    app.type_bytes(ENTER);
    assert!(app.state(0) == State::Idle && peer.try_accept().is_none());
    app.enter("/retry");
    assert_shows(&mut app, "nothing to try again");
}

#[test]
fn a_failed_turn_is_tried_again_before_what_is_queued() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("first");
    let exchange = app.accept(&peer);
    app.enter("second");
    bad_request(&exchange);
    app.turn_until_idle();
    assert_shows(&mut app, "failed, and the queue is paused: Enter tries again, Up edits the last entry");
    app.type_bytes(ENTER);
    let exchange = app.accept(&peer);
    assert_eq!(said(&exchange), ["first"]);
    exchange.stream().text("one").finish("stop").done();
    assert_eq!(answer(&mut app, &peer), ["first", "one", "second"]);
}

#[test]
fn wrong_credentials_leave_a_message_that_can_be_edited_or_tried_again() {
    let peer = Peer::start();
    let mut app = app(&peer);
    fail(&mut app, &peer, "a question", |exchange| {
        exchange.error(401, "invalid_api_key", "wrong key");
    });
    let mut app = app.crash_and_restart();
    assert_eq!(app.draft(0).text(), "a question");
    app.type_bytes(b"\x15");
    assert_shows(&mut app, FAILED);
    app.type_bytes(ENTER);
    assert_eq!(answer(&mut app, &peer), ["a question"]);
}

#[test]
fn a_failed_agent_says_so_in_every_list() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.fork(0);
    app.switch(0);
    app.say(1, "a question");
    bad_request(&app.accept(&peer));
    app.turn_until_idle();
    for _ in 0..2 {
        app.enter("/agents");
        assert_shows(&mut app, "  failed  ");
        app.enter("/wall");
        assert_shows(&mut app, "FAILED");
        app.escape();
        app.enter("/inbox");
        assert_shows(&mut app, "1 failed");
        app.escape();
        app.enter("/resume");
        assert!(app.screen_text().lines().any(|row| row.contains("failed")), "{}", app.screen_text());
        app.escape();
        app = app.crash_and_restart();
    }
    assert_eq!(app.repl.list()[1].status, Status::Failed);
}

#[test]
fn what_is_taken_back_of_a_conversation_is_not_tried_again() {
    let peer = Peer::start();
    let mut app = app(&peer);
    fail(&mut app, &peer, "a question", bad_request);
    app.enter("/clear");
    let mut app = app.crash_and_restart();
    assert_eq!(app.agent(0).status(), Status::Idle);
    app.type_bytes(ENTER);
    app.ask(0, Change::Interrupt);
    assert!(app.state(0) == State::Idle && peer.try_accept().is_none());
}

/// A refused command is replaced by the next character, in whatever agent, unless the person moves in it first.
#[test]
fn a_refused_command_is_never_joined_to_what_is_typed_next() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.fork(0);
    app.switch(0);
    let refused = |app: &mut Harness| {
        app.enter("/modle x");
        assert_eq!(app.draft(0).text(), "/modle x");
        assert_shows(app, "refused: type to replace it, an arrow key keeps it");
    };
    refused(&mut app);
    app.enter("/delete-mail 77");
    assert_eq!(app.draft(0).text(), "/delete-mail 77");
    app.type_bytes(b"h");
    assert_eq!(app.draft(0).text(), "h");
    app.type_bytes(b"\x15");
    refused(&mut app);
    app.type_bytes(b"\x1b[200~pasted\x1b[201~");
    assert_eq!(app.draft(0).text(), "pasted");
    app.type_bytes(b"\x15");
    for key in [b"\x1b[D".as_slice(), b"\x1b[C", b"\x1b[F", b"\x1b[H", UP, DOWN] {
        refused(&mut app);
        app.type_bytes(key);
        assert!(!app.screen_text().contains("refused: type"), "{key:?}");
        app.type_bytes(b"\x05!");
        assert_eq!(app.draft(0).text(), "/modle x!", "{key:?}");
        app.type_bytes(b"\x15");
    }
    refused(&mut app);
    app.type_bytes(b"\x7f");
    assert_eq!(app.draft(0).text(), "/modle ");
    app.type_bytes(b"\x15");
    refused(&mut app);
    app.switch(1);
    app.type_bytes(b"to the other");
    assert_eq!(app.draft(1).text(), "to the other");
    app.switch(0);
    app.type_bytes(b"!");
    assert_eq!(app.draft(0).text(), "!");
}
