//! Compaction: the model gets a summary instead of the older part of a conversation, and the log keeps everything.

mod long;

use polylogue::config::{Endpoint, ModelFacts, RetryPolicy, Settings};
use polylogue::{Change, HistoryEdit};

use crate::support::harness::{Harness, Plan, endpoint};
use crate::support::internals::{Body, State};
use crate::support::openai::last_user_text;
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::{answer_next, assert_refused, assert_shows, converse, reply_with_calls, texts_in};

/// A model with a context of so many tokens, whose failed requests are not sent again.
fn plan(peer: &Peer, context: Option<u64>) -> Plan {
    let facts = ModelFacts { context, ..ModelFacts::default() };
    let retry = RetryPolicy { retries: Some(0), ..RetryPolicy::default() };
    Plan {
        endpoint: Endpoint { facts, ..endpoint("openai", "test", &peer.url()) },
        settings: Settings { retry, ..Settings::default() },
        real_time: true,
        ..Plan::default()
    }
}

fn app(peer: &Peer, context: Option<u64>) -> Harness {
    Harness::new(plan(peer, context))
}

/// A conversation of the turns `q1`, `r1` to `q6`, `r6`.
fn six_turns(app: &mut Harness, peer: &Peer) {
    for n in 1..=6 {
        converse(app, peer, 0, &format!("q{n}"), &format!("r{n} {}", "word ".repeat(40)));
    }
}

fn is_summary(exchange: &Exchange) -> bool {
    exchange.request().json().get("tools").is_none() && last_user_text(&exchange.request().json()).contains("BEGIN")
}

fn summarise(exchange: &Exchange, text: &str) {
    assert!(is_summary(exchange), "{}", exchange.request().json());
    exchange.stream().text(text).finish("stop").usage(70, 7).done();
}

/// Compacts the conversation of agent 0.
fn compact(app: &mut Harness, peer: &Peer, text: &str) {
    app.enter("/compact");
    summarise(&app.accept(peer), text);
    app.turn_until("the compaction", |app| !app.agent(0).is_compacting());
}

/// What the model gets with the next message.
fn sent(app: &mut Harness, peer: &Peer, n: usize, text: &str) -> Vec<String> {
    texts_in(&converse(app, peer, n, text, "ok"))
}

fn count(app: &Harness, n: usize, kind: &str) -> usize {
    app.kinds(n).iter().filter(|known| **known == kind).count()
}

#[test]
fn the_model_gets_the_summary_the_task_and_the_newest_messages() {
    let peer = Peer::start();
    let mut app = app(&peer, None);
    six_turns(&mut app, &peer);
    let log = app.kinds(0);
    app.enter("/compact the colours");
    let exchange = app.accept(&peer);
    let asked = last_user_text(&exchange.request().json());
    assert!(asked.contains("for this: the colours\n") && asked.contains("[user]\nq1\n"), "{asked}");
    assert!(!asked.contains("q6"), "{asked}");
    assert_shows(&mut app, "compacting");
    summarise(&exchange, "They spoke of r.");
    app.turn_until("the compaction", |app| !app.agent(0).is_compacting());
    assert_shows(&mut app, "messages, about");
    let texts = sent(&mut app, &peer, 0, "next");
    assert!(texts[0].contains("The task:\nq1\n") && texts[0].contains("Summary:\nThey spoke of r."), "{texts:?}");
    assert!(texts.iter().any(|text| text == "q6") || texts[0].ends_with("q6"), "{texts:?}");
    assert!(!texts.iter().any(|text| text.starts_with("r1")), "{texts:?}");
    assert_eq!(&app.kinds(0)[..log.len()], &log[..], "the log keeps everything");
    let app = app.crash_and_restart();
    assert_eq!(count(&app, 0, "compaction"), 1);
}

#[test]
fn it_survives_a_restart_and_undo_takes_it_back() {
    let peer = Peer::start();
    let mut app = app(&peer, None);
    six_turns(&mut app, &peer);
    compact(&mut app, &peer, "short");
    let mut app = app.crash_and_restart();
    let texts = sent(&mut app, &peer, 0, "next");
    assert!(texts[0].contains("Summary:\nshort"), "{texts:?}");
    app.enter("/compact undo");
    assert_shows(&mut app, "compaction undone");
    let texts = sent(&mut app, &peer, 0, "more");
    assert_eq!((texts[0].as_str(), texts.len()), ("q1", 15));
    assert_refused(&mut app, "/compact undo", "this conversation is not compacted");
    let mut app = app.crash_and_restart();
    assert_eq!(sent(&mut app, &peer, 0, "and more")[0], "q1");
}

#[test]
fn forks_made_after_it_have_it_and_those_made_before_do_not() {
    let peer = Peer::start();
    let mut app = app(&peer, None);
    six_turns(&mut app, &peer);
    let before = app.fork_named(0, "before");
    app.switch(0);
    compact(&mut app, &peer, "short");
    let after = app.fork_named(0, "after");
    app.ask(0, Change::EditHistory(HistoryEdit::UndoCompact));
    for _ in 0..2 {
        assert_eq!(sent(&mut app, &peer, before, "x")[0], "q1");
        assert!(sent(&mut app, &peer, after, "x")[0].contains("Summary:\nshort"));
        assert_eq!(sent(&mut app, &peer, 0, "x")[0], "q1");
        app = app.crash_and_restart();
    }
}

#[test]
fn a_rewind_or_an_undone_clear_brings_back_what_was_before_it() {
    let peer = Peer::start();
    let mut app = app(&peer, None);
    converse(&mut app, &peer, 0, "q0", "r0");
    app.enter("/clear");
    six_turns(&mut app, &peer);
    app.enter("/mark here");
    compact(&mut app, &peer, "short");
    app.enter("/clear undo");
    let texts = sent(&mut app, &peer, 0, "x");
    assert_eq!(&texts[..2], ["q0", "r0"]);
    assert!(texts[2].contains("Summary:\nshort"), "{texts:?}");
    app.enter("/rewind here");
    let texts = sent(&mut app, &peer, 0, "y");
    assert_eq!((texts[0].as_str(), texts[2].as_str()), ("q0", "q1"));
}

#[test]
fn a_message_that_is_typed_meanwhile_waits_and_esc_leaves_everything_as_it_was() {
    let peer = Peer::start();
    let mut app = app(&peer, None);
    six_turns(&mut app, &peer);
    app.enter("/compact");
    let exchange = app.accept(&peer);
    app.enter("later");
    assert_eq!((app.agent(0).queue.len(), app.state(0)), (1, State::Idle));
    summarise(&exchange, "short");
    let body = answer_next(&mut app, &peer, 0, "ok");
    assert!(texts_in(&body)[0].contains("Summary:\nshort"));
    let kinds = app.kinds(0);
    app.enter("/compact");
    let exchange = app.accept(&peer);
    app.escape();
    exchange.wait_for_close();
    assert!(!app.agent(0).is_compacting() && !app.agent(0).view.is_spinning());
    assert_shows(&mut app, "not compacted: cancelled");
    assert_eq!(app.kinds(0), kinds);
}

#[test]
fn a_summary_that_fails_leaves_everything_as_it_was() {
    let peer = Peer::start();
    let mut app = app(&peer, None);
    six_turns(&mut app, &peer);
    let plays: [fn(&Exchange); 3] = [
        |exchange| {
            exchange.error(400, "bad", "no such thing");
        },
        |exchange| {
            exchange.stream().text("half").finish("length").done();
        },
        |exchange| {
            exchange.stream().finish("stop").done();
        },
    ];
    for play in plays {
        app.enter("/compact");
        play(&app.accept(&peer));
        app.turn_until("its end", |app| !app.agent(0).is_compacting());
        assert_shows(&mut app, "not compacted, the conversation is as it was: ");
        assert_eq!((count(&app, 0, "compaction"), app.draft(0).text()), (0, "/compact"));
        app.type_bytes(b"\x15");
    }
    assert_eq!(sent(&mut app, &peer, 0, "next")[0], "q1");
}

#[test]
fn a_full_context_is_compacted_before_the_request_and_the_message_is_answered() {
    let peer = Peer::start();
    let mut app = app(&peer, Some(1_000_000));
    six_turns(&mut app, &peer);
    app.say(0, "fill it");
    app.accept(&peer).stream().text("full").finish("stop").usage(799_990, 10).done();
    app.turn_until_idle();
    assert_shows(&mut app, "ctx 80%");
    app.say(0, "and now");
    summarise(&app.accept(&peer), "all of it");
    let exchange = app.accept(&peer);
    assert!(texts_in(&exchange.request().body)[0].contains("Summary:\nall of it"));
    assert!(last_user_text(&exchange.request().json()).ends_with("and now"));
    exchange.stream().text("ok").finish("stop").done();
    app.turn_until_idle();
    assert_shows(&mut app, "ctx ~");
}

#[test]
fn it_happens_between_results_and_the_next_request_and_if_it_fails_the_request_is_sent_as_it_is() {
    let peer = Peer::start();
    let mut app = app(&peer, Some(1_000_000));
    six_turns(&mut app, &peer);
    app.say(0, "look");
    let exchange = app.accept(&peer);
    exchange.stream().tool_call(0, "call-0", "read_file", "{\"file_path\":\"none\"}");
    exchange.finish("tool_calls").usage(900_000, 10).done();
    let exchange = app.accept(&peer);
    assert!(is_summary(&exchange));
    exchange.error(400, "bad", "no such thing");
    let exchange = app.accept(&peer);
    assert_eq!(texts_in(&exchange.request().body)[0], "q1");
    reply_with_usage(&exchange, 900_000);
    let exchange = app.accept(&peer);
    assert!(!is_summary(&exchange), "it is not tried again in this turn");
    exchange.stream().text("done").finish("stop").usage(900_000, 10).done();
    app.turn_until_idle();
    app.say(0, "again");
    summarise(&app.accept(&peer), "short");
    answer_next(&mut app, &peer, 0, "ok");
}

fn reply_with_usage(exchange: &Exchange, tokens: u64) {
    exchange.stream().tool_call(0, "call-1", "read_file", "{\"file_path\":\"none\"}");
    exchange.finish("tool_calls").usage(tokens, 10).done();
}

#[test]
fn esc_stops_a_turn_that_waits_for_it() {
    let peer = Peer::start();
    let mut app = app(&peer, Some(1_000_000));
    six_turns(&mut app, &peer);
    app.say(0, "fill it");
    app.accept(&peer).stream().text("full").finish("stop").usage(900_000, 10).done();
    app.turn_until_idle();
    app.say(0, "and now");
    let exchange = app.accept(&peer);
    assert!(is_summary(&exchange));
    assert_shows(&mut app, "compacting: ");
    app.escape();
    assert_eq!((app.state(0), app.kinds(0).last().copied()), (State::Idle, Some("interrupted")));
    assert_eq!(count(&app, 0, "compaction"), 0);
}

#[test]
fn a_conversation_that_is_too_long_is_compacted_once_and_the_length_is_learned() {
    let peer = Peer::start();
    let mut app = app(&peer, None);
    six_turns(&mut app, &peer);
    app.say(0, "too much");
    let message = "This model's maximum context length is 8192 tokens. However, you requested 9000.";
    app.accept(&peer).error(400, "context_length_exceeded", message);
    summarise(&app.accept(&peer), "short");
    let exchange = app.accept(&peer);
    assert!(texts_in(&exchange.request().body)[0].contains("Summary:\nshort"));
    assert_eq!(app.agent(0).context_limit(), Some(8192));
    exchange.error(400, "context_length_exceeded", message);
    app.turn_until_idle();
    assert_eq!(app.draft(0).text(), "too much");
    app.type_bytes(b"\x15");
    let texts = sent(&mut app, &peer, 0, "less");
    assert!(texts[0].contains("Summary:\nshort"), "the compaction stays: {texts:?}");
    assert!(!texts.iter().any(|text| text.contains("too much")), "{texts:?}");
}

#[test]
fn a_compaction_that_does_not_shrink_is_refused_and_said() {
    let peer = Peer::start();
    let mut app = app(&peer, None);
    converse(&mut app, &peer, 0, "hi", "yes");
    let long = "a summary that is longer than all that it replaces";
    compact(&mut app, &peer, long);
    assert_shows(&mut app, "the summary is not shorter than the messages");
    app.type_bytes(b"\x15");
    app.say(0, "too much");
    app.accept(&peer).error(400, "context_length_exceeded", "too long");
    summarise(&app.accept(&peer), long);
    app.turn_until_idle();
    assert!(peer.try_accept().is_none(), "what is longer is not sent");
    assert_eq!((count(&app, 0, "compaction"), app.draft(0).text()), (0, "too much"));
    app.type_bytes(b"\x15");
    assert_eq!(sent(&mut app, &peer, 0, "more"), ["hi", "yes", "more"]);
}

#[test]
fn a_message_that_does_not_fit_is_the_draft_again_and_compaction_is_offered() {
    let peer = Peer::start();
    let mut plan = plan(&peer, None);
    plan.settings.compact_at = 0;
    let mut app = Harness::new(plan);
    six_turns(&mut app, &peer);
    app.enter("too much");
    app.type_bytes(b"typed meanwhile");
    app.accept(&peer).error(400, "context_length_exceeded", "too long");
    app.turn_until_idle();
    let error = app.last_error(0);
    assert!(error.contains("/slice") && error.contains("/clear") && error.contains(" tokens: /compact"), "{error}");
    assert_eq!(app.draft(0).text(), "too much\ntyped meanwhile");
    app.type_bytes(b"\x15\x15\x08\x15");
    let texts = sent(&mut app, &peer, 0, "less");
    assert!(!texts.iter().any(|text| text.contains("too much")), "{texts:?}");
}

#[test]
fn results_stay_when_the_conversation_is_too_long_in_the_middle_of_a_turn() {
    let peer = Peer::start();
    let mut plan = plan(&peer, None);
    plan.settings.compact_at = 0;
    let mut app = Harness::new(plan);
    app.say(0, "look");
    reply_with_calls(&app.accept(&peer), &[("read_file", "{\"file_path\":\"none\"}")]);
    app.accept(&peer).error(400, "context_length_exceeded", "too long");
    app.turn_until_idle();
    assert_eq!((app.draft(0).text(), count(&app, 0, "tool_result"), count(&app, 0, "rewind")), ("", 1, 0));
}

#[test]
fn the_use_of_the_context_is_known_after_each_change() {
    let peer = Peer::start();
    let mut app = app(&peer, Some(1_000_000));
    six_turns(&mut app, &peer);
    app.enter("/mark");
    app.say(0, "fill it");
    app.accept(&peer).stream().text("full").finish("stop").usage(500_000, 0).done();
    app.turn_until_idle();
    assert_eq!(app.agent(0).context_tokens(), Some((500_000, false)));
    assert_shows(&mut app, "ctx 50%");
    let mut app = app.crash_and_restart();
    assert_eq!(app.agent(0).context_tokens(), Some((500_000, false)), "after a restart");
    assert_shows(&mut app, "ctx 50%");
    let child = app.fork_named(0, "child");
    assert_eq!(app.agent(child).context_tokens(), Some((500_000, false)), "after a fork");
    app.switch(0);
    app.enter("/rewind");
    let (tokens, is_estimate) = app.agent(0).context_tokens().expect("it is known");
    assert!(tokens < 10_000 && is_estimate, "after a rewind: {tokens}");
    app.enter("/clear");
    let (cleared, _) = app.agent(0).context_tokens().expect("it is known");
    assert!(cleared < tokens, "after a clear: {cleared}, before {tokens}");
    assert_shows(&mut app, "ctx ~0%");
}

#[test]
fn a_compaction_that_cannot_be_stored_leaves_everything_as_it_was() {
    let peer = Peer::start();
    let mut app = app(&peer, None);
    six_turns(&mut app, &peer);
    app.enter("/compact");
    let exchange = app.accept(&peer);
    app.is_disk_full.store(true, std::sync::atomic::Ordering::Relaxed);
    summarise(&exchange, "short");
    app.turn_until("its end", |app| !app.agent(0).is_compacting());
    app.is_disk_full.store(false, std::sync::atomic::Ordering::Relaxed);
    assert_shows(&mut app, "not compacted, the conversation is as it was: ");
    assert!(!app.log(0).iter().any(|message| matches!(message.body, Body::Compaction(_))));
    app.type_bytes(b"\x15");
    assert_eq!(sent(&mut app, &peer, 0, "next")[0], "q1");
}

#[test]
fn a_part_that_is_larger_than_the_context_is_summarised_in_pieces() {
    let peer = Peer::start();
    let mut app = app(&peer, None);
    for n in 1..=6 {
        converse(&mut app, &peer, 0, &format!("q{n} {}", "words ".repeat(3_000)), &format!("r{n}"));
    }
    app.say(0, "too much");
    let message = "This model's maximum context length is 8192 tokens. However, you requested 30000.";
    app.accept(&peer).error(400, "context_length_exceeded", message);
    let exchange = app.accept(&peer);
    assert!(is_summary(&exchange));
    // The provider counts more tokens than were estimated.
    exchange.error(400, "context_length_exceeded", message);
    let mut pieces = 0;
    let last = loop {
        let exchange = app.accept(&peer);
        if !is_summary(&exchange) {
            break exchange;
        }
        pieces += 1;
        let asked = last_user_text(&exchange.request().json());
        assert!(asked.len() < 3 * 4_096, "{} bytes", asked.len());
        assert_eq!(asked.contains(&format!("=== EARLIER ===\nup to {}\n", pieces - 1)), pieces > 1, "{pieces}");
        summarise(&exchange, &format!("up to {pieces}"));
    };
    assert!(pieces > 10, "{pieces}");
    let texts = texts_in(&last.request().body);
    assert!(texts[0].contains(&format!("Summary:\nup to {pieces}")) && last.request().body.len() < 8_192 * 4);
    last.stream().text("ok").finish("stop").done();
    app.turn_until_idle();
    assert_eq!((count(&app, 0, "compaction"), count(&app, 0, "error")), (1, 0));
    assert_eq!(count(&app, 0, "usage"), pieces, "what the summaries cost is counted");
}

#[test]
fn a_context_length_that_an_error_told_is_known_to_all_agents_of_the_model_and_said_once() {
    let peer = Peer::start();
    let mut app = app(&peer, None);
    let other = app.fork_named(0, "other");
    six_turns(&mut app, &peer);
    app.enter("more");
    app.accept(&peer).error(
        400,
        "exceed_context_size_error",
        "request (2950 tokens) exceeds the available context size (2048 tokens)",
    );
    summarise(&app.accept(&peer), "short");
    let again = app.accept(&peer);
    again.stream().text("fine").finish("stop").done();
    app.turn_until_idle();
    assert_shows(&mut app, "the context of openai/test is 2048 tokens");
    let later = app.fork_named(0, "later");
    for n in [0, other, later] {
        assert_eq!(app.agent(n).inputs.endpoint.facts.context, Some(2048), "{n}");
    }
    // The same once more.
    app.say(other, "more");
    app.accept(&peer).error(
        400,
        "exceed_context_size_error",
        "request (2950 tokens) exceeds the available context size (2048 tokens)",
    );
    app.turn_until_idle();
    app.switch(other);
    assert!(!app.screen_text().contains("the context of"), "{}", app.screen_text());
    // A later run knows it for some days.
    app = app.crash_and_restart();
    assert_eq!(app.agent(0).inputs.endpoint.facts.context, Some(2048));
}

#[test]
fn instructions_and_tools_that_are_too_long_for_the_model_are_named() {
    let peer = Peer::start();
    let mut app = app(&peer, None);
    app.enter("hello");
    app.accept(&peer).error(
        400,
        "exceed_context_size_error",
        "request (3926 tokens) exceeds the available context size (2048 tokens)",
    );
    app.turn_until_idle();
    let error = app.last_error(0);
    assert!(error.contains("tools are most of that: use --no-tools"), "{error}");
    assert_eq!(app.draft(0).text(), "hello");
}
