//! Replies that do not end as they should: cut by a limit of length or by a filter, failed or malformed in the middle, and
//! conversations that are too long.

use crate::support::internals::Body;
use crate::support::peer::Peer;
use crate::support::scene::assert_shows;

use super::{KINDS, Kind, Recorded, TABLE, app, ends, results_in};

/// The fixtures of one protocol.
struct Ends {
    /// Cut by the model's limit of length: in text, in a call, in reasoning.
    length: &'static [&'static str],
    filtered: &'static [&'static str],
    /// Errors and malformed data after text.
    failed: &'static [&'static str],
    too_long: &'static str,
}

const fn ends_of(kind: Kind) -> Ends {
    match kind {
        Kind::OpenAi => Ends {
            length: &["llama-server-length", "call-cut-by-length"],
            filtered: &["content-filter"],
            failed: &[
                "litellm-claude-error-in-the-middle",
                "error-in-stream",
                "llmock-malformed",
                "not-json-in-stream",
            ],
            too_long: "400-context-openai",
        },
        Kind::Anthropic => Ends {
            length: &["context-window-exceeded", "call-cut-by-max-tokens"],
            filtered: &["refusal", "content-filter"],
            failed: &["litellm-error-in-the-middle", "error-in-the-middle", "llmock-malformed"],
            too_long: "400-prompt-too-long",
        },
        Kind::Responses => Ends {
            length: &["incomplete-length"],
            filtered: &["incomplete-filter"],
            failed: &["failed-in-the-middle", "not-json-in-stream"],
            too_long: "400-context",
        },
        Kind::Google => Ends {
            length: &["cut-by-length", "call-cut-by-length", "all-spent-on-thoughts"],
            filtered: &["safety", "recitation"],
            failed: &["error-in-stream", "llmock-malformed", "not-json-in-stream"],
            too_long: "400-context",
        },
    }
}

#[test]
fn a_reply_cut_by_length_says_so_and_its_calls_do_not_run() {
    for (kind, cases) in KINDS.into_iter().zip(&TABLE) {
        for case in ends_of(kind).length {
            let peer = Peer::start();
            let mut app = app(kind, &peer);
            app.enter("go");
            let recorded = Recorded::of(kind, case);
            recorded.answer(&app.accept(&peer));
            app.turn_until_idle();
            assert_shows(&mut app, "reply cut at the length limit");
            assert_eq!(app.partial_replies(0).concat(), recorded.text(), "{} {case}", kind.name());
            assert!(!app.kinds(0).contains(&"tool_call"), "{} {case}", kind.name());
            app.enter("go on");
            let request = ends(&mut app, &peer, cases);
            assert_eq!(results_in(kind, &request), 0, "{} {case}: {request}", kind.name());
        }
    }
}

#[test]
fn a_reply_cut_by_a_filter_is_an_error_of_the_turn_and_the_conversation_goes_on() {
    for (kind, cases) in KINDS.into_iter().zip(&TABLE) {
        for case in ends_of(kind).filtered {
            let peer = Peer::start();
            let mut app = app(kind, &peer);
            app.enter("go");
            let recorded = Recorded::of(kind, case);
            recorded.answer(&app.accept(&peer));
            app.turn_until_idle();
            assert_shows(&mut app, "reply cut by the content filter of the provider");
            let texts = app.log(0).into_iter().filter_map(|message| match message.body {
                Body::Assistant(reply) => Some(reply.text),
                _ => None,
            });
            assert_eq!(texts.collect::<String>(), recorded.text(), "{} {case}", kind.name());
            app.enter("go on");
            ends(&mut app, &peer, cases);
        }
    }
}

#[test]
fn a_reply_that_fails_after_text_keeps_it_and_is_not_requested_again() {
    for (kind, cases) in KINDS.into_iter().zip(&TABLE) {
        for case in ends_of(kind).failed {
            let peer = Peer::start();
            let mut app = app(kind, &peer);
            app.enter("go");
            let recorded = Recorded::of(kind, case);
            recorded.answer(&app.accept(&peer));
            app.turn_until_idle();
            assert_eq!(app.partial_replies(0), [recorded.text()], "{} {case}", kind.name());
            let error = recorded.events().find_map(|event| event["message"].as_str()).expect("an error");
            assert!(app.last_error(0).starts_with(error), "{} {case}: {}", kind.name(), app.last_error(0));
            assert!(peer.try_accept().is_none(), "{} {case}", kind.name());
            app.enter("go on");
            ends(&mut app, &peer, cases);
        }
    }
}

#[test]
fn a_message_that_is_too_long_comes_back_and_is_not_sent_with_later_ones() {
    for (kind, cases) in KINDS.into_iter().zip(&TABLE) {
        let peer = Peer::start();
        let mut app = app(kind, &peer);
        app.enter("far too much");
        let recorded = Recorded::of(kind, ends_of(kind).too_long);
        recorded.answer(&app.accept(&peer));
        app.turn_until_idle();
        assert_eq!(app.draft(0).text(), "far too much", "{}", kind.name());
        let error = recorded.events().find_map(|event| event["message"].as_str()).expect("an error");
        assert!(app.last_error(0).starts_with(error), "{}: {}", kind.name(), app.last_error(0));
        app.enter("\x15less");
        let request = ends(&mut app, &peer, cases).to_string();
        assert!(request.contains("less") && !request.contains("far too much"), "{}: {request}", kind.name());
    }
}
