//! What arrives for one agent reaches that agent and no other, whichever agent is on the screen, however often that
//! changes, and whatever happens to others in the same turn.

use std::time::Duration;

use polylogue::Change;
use polylogue::config::Settings;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::State;
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::app_with_agents;

/// A recorded stream, in the pieces in which a server would have sent it.
fn recorded(case: &str) -> Vec<String> {
    let path = format!("{}/fixtures/sse/openai/{case}.sse", env!("CARGO_MANIFEST_DIR"));
    let stream = std::fs::read_to_string(path).expect("a recording");
    stream.split_inclusive("\n\n").map(str::to_owned).collect()
}

/// Turns until the agent has received all that the peer has sent.
fn turn_until_given(app: &mut Harness, n: usize, what: &str) {
    app.turn_until(what, |app| app.agent(n).partial_text().ends_with(what));
}

/// Sends a recording to agent 0 in pieces of `size` bytes, with two switches after each piece.
fn stream_with_switches(case: &str, size: usize) -> Harness {
    let text = stream_undisturbed(case).replies(0).concat();
    let peer = Peer::start();
    let mut app = app_with_agents(3, Plan::peer(&peer.url()));
    app.switch(1);
    app.type_bytes("a draft with a 字".as_bytes());
    let (b, c) = (app.fingerprint(1), app.fingerprint(2));
    app.switch(0);
    app.enter("question for A");
    let exchange = app.accept(&peer);
    exchange.stream();
    for (at, piece) in recorded(case).concat().into_bytes().chunks(size).enumerate() {
        exchange.body(piece);
        // Ends as soon as the piece is there.
        app.turn_within(Duration::from_millis(50));
        app.switch(1 + at % 2);
        assert_eq!(app.fingerprint(1), b, "{case}, after piece {at}");
        app.turn();
        app.switch(0);
        assert_eq!(app.fingerprint(2), c, "{case}, after piece {at}");
    }
    // What arrives while another agent is shown is tried again after a cut.
    app.turn_until("the text is shown", |app| {
        app.agent(0).partial_text() == text || app.agent(0).state() == State::Idle
    });
    exchange.end();
    app.switch(1);
    app.turn_until_idle();
    assert_eq!((app.fingerprint(1), app.fingerprint(2)), (b, c), "{case}");
    app
}

/// The same without any switch: the expected result.
fn stream_undisturbed(case: &str) -> Harness {
    let peer = Peer::start();
    let mut app = app_with_agents(3, Plan::peer(&peer.url()));
    app.enter("question for A");
    let exchange = app.accept(&peer);
    exchange.stream().body(recorded(case).concat()).end();
    app.turn_until_idle();
    app
}

#[test]
fn a_switch_between_every_two_chunks_changes_nothing_for_anyone() {
    for case in ["plain", "reasoning-content", "unicode", "cached-tokens", "error-in-stream", "no-finish"] {
        let expected = stream_undisturbed(case);
        for size in [1, 7, 200] {
            let app = stream_with_switches(case, size);
            let bodies = |app: &Harness| {
                app.log(0)
                    .into_iter()
                    .map(|message| message.body)
                    .filter(|body| body.kind() != "fork")
                    .collect::<Vec<_>>()
            };
            assert_eq!(bodies(&app), bodies(&expected), "{case} in pieces of {size}");
            assert_eq!(app.agent(0).context_tokens(), expected.agent(0).context_tokens());
            assert_eq!(app.agent(0).used, expected.agent(0).used);
        }
    }
}

#[test]
fn a_stream_that_was_looked_at_between_all_its_chunks_reads_as_one_that_was_not() {
    let mut switched = stream_with_switches("unicode", 3);
    let mut undisturbed = stream_undisturbed("unicode");
    let below_the_question = |app: &mut Harness| {
        app.switch(0);
        let screen = app.screen_text();
        let below = screen.split_once("question for A").expect("the question is shown").1;
        // The status line has the directory, and the separator those that nobody has looked at.
        below.split_once("\n── ").expect("the separator").0.to_owned()
    };
    assert_eq!(below_the_question(&mut switched), below_the_question(&mut undisturbed));
}

#[test]
fn a_thousand_switches_while_several_agents_stream_mix_nothing() {
    let peer = Peer::start();
    let mut app = app_with_agents(5, Plan::peer(&peer.url()));
    let exchanges: Vec<Exchange> = (0..4)
        .map(|n| {
            app.say(n, &format!("question {n}"));
            app.accept(&peer)
        })
        .collect();
    let bystander = {
        app.switch(4);
        app.fingerprint(4)
    };
    for exchange in &exchanges {
        exchange.stream();
    }
    for round in 0..1_000 {
        let speaker = round % 4;
        exchanges[speaker].text(&format!("{speaker}:{round} "));
        app.turn();
        app.switch((round * 7 + round / 5) % 5);
    }
    for (n, exchange) in exchanges.iter().enumerate() {
        exchange.finish("stop").usage(n as u64, 7).done();
    }
    app.turn_until_idle();
    for n in 0..4 {
        let expected: String = (0..1_000).filter(|round| round % 4 == n).map(|round| format!("{n}:{round} ")).collect();
        assert_eq!(app.replies(n), [expected], "agent {n}");
        assert_eq!(app.agent(n).used.input, n as u64);
    }
    assert_eq!(app.fingerprint(4), bystander);
}

#[test]
fn chunks_completion_and_usage_of_an_agent_that_left_the_screen_are_its_own() {
    let peer = Peer::start();
    let mut app = app_with_agents(2, Plan::peer(&peer.url()));
    app.enter("question for A");
    let exchange = app.accept(&peer);
    exchange.stream().text("one ");
    turn_until_given(&mut app, 0, "one ");
    app.switch(1);
    let before = app.fingerprint(1);
    exchange.text("two").usage(11, 22).finish("stop").done();
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["one two"]);
    assert_eq!((app.agent(0).used.input, app.agent(0).used.output), (11, 22));
    assert_eq!(app.fingerprint(1), before);
    assert!(!app.screen_text().contains("one two"));
}

#[test]
fn an_error_of_an_agent_that_left_the_screen_is_its_own() {
    let peer = Peer::start();
    let mut app = app_with_agents(2, Plan::peer(&peer.url()));
    app.enter("question for A");
    let exchange = app.accept(&peer);
    app.switch(1);
    let before = app.fingerprint(1);
    exchange.error(404, "model_not_found", "cheeseless");
    app.turn_until_idle();
    assert!(app.last_error(0).contains("cheeseless"), "{}", app.last_error(0));
    assert_eq!(app.fingerprint(1), before);
    assert!(!app.screen_text().contains("cheeseless"));
    app.switch(0);
    assert!(app.screen_text().contains("cheeseless"));
}

#[test]
fn two_agents_complete_in_one_turn_and_each_has_its_own_reply() {
    let peer = Peer::start();
    let mut app = app_with_agents(3, Plan::peer(&peer.url()));
    let exchanges = begin_streams(&mut app, &peer, &[0, 1]);
    let bystander = app.fingerprint(2);
    for (n, exchange) in exchanges.iter().enumerate() {
        exchange.text(&format!("whole {n}")).finish("stop").done();
    }
    app.turn_until_idle();
    assert_eq!((app.replies(0), app.replies(1)), (vec!["whole 0".to_owned()], vec!["whole 1".to_owned()]));
    assert_eq!(app.fingerprint(2), bystander);
}

fn begin_streams(app: &mut Harness, peer: &Peer, agents: &[usize]) -> Vec<Exchange> {
    let begin = |n: &usize| {
        app.say(*n, &format!("question {n}"));
        let exchange = app.accept(peer);
        exchange.stream();
        exchange
    };
    agents.iter().map(begin).collect()
}

#[test]
fn two_scripts_that_are_due_at_once_end_in_the_same_turn_one_on_the_screen_and_one_not() {
    let mut app = app_with_agents(2, Plan::default());
    app.say(0, "%slow 100\n%fail 400 words of A");
    app.say(1, "%slow 100\n%fail 400 words of B");
    app.advance(Duration::from_millis(100));
    assert_eq!((app.state(0), app.state(1)), (State::Idle, State::Idle));
    for (n, own, other) in [(0, "words of A", "words of B"), (1, "words of B", "words of A")] {
        let error = app.last_error(n);
        assert!(error.contains(own) && !error.contains(other), "{n}: {error}");
    }
    let screen = app.screen_text();
    assert!(screen.contains("words of A") && !screen.contains("words of B"), "{screen}");
}

#[test]
fn a_tool_loop_in_the_background_goes_on_to_its_end_over_several_rounds() {
    let mut app = app_with_agents(2, Plan::default());
    std::fs::write(app.directory().join("notes"), "what was noted\n").expect("a file");
    app.enter("%tool read_file {\"path\":\"none\"}");
    app.switch(1);
    let rounds = "%tool read_file {\"path\":\"notes\"}\n%next\n%tool read_file {\"path\":\"notes\"}\n%next\nthe end";
    app.turn_until_idle();
    app.say(0, rounds);
    let before = app.fingerprint(1);
    app.turn_until_idle();
    assert_eq!(app.replies(0).last().map(String::as_str), Some("the end"));
    let answers = app.tool_results(0);
    assert_eq!(answers.len(), 3);
    assert!(answers[1].content.contains("what was noted") && answers[2].content.contains("what was noted"));
    assert_eq!(app.fingerprint(1), before);
}

#[test]
fn a_question_of_a_background_agent_stays_until_the_screen_is_back_and_is_answered_there() {
    let mut app = app_with_agents(2, Plan::default());
    app.enter("%tool bash {\"command\":\"echo it ran\"}");
    app.switch(1);
    app.turn_until_asked(0);
    let screen = app.screen_text();
    assert!(screen.contains("agent 0 asks") && !screen.contains("Run this?"), "{screen}");
    app.type_bytes(b"y");
    assert_eq!(app.draft(1).text(), "y", "a y is text where nothing is asked");
    assert_eq!(app.state(0), State::AwaitingApproval);
    app.switch(0);
    assert!(app.screen_text().contains("echo it ran"));
    app.press_at_question(b"y");
    app.switch(1);
    app.turn_until_idle();
    assert!(app.tool_results(0)[0].content.contains("it ran"));
    assert_eq!(app.draft(1).text(), "y");
}

#[test]
fn descriptors_that_pass_from_one_agent_to_another_within_a_turn_bring_nothing_of_the_first() {
    let peer = Peer::start();
    let mut app = app_with_agents(4, Plan::peer(&peer.url()));
    let mut open = begin_streams(&mut app, &peer, &[0]);
    for round in 1..60 {
        let (last, next) = ((round - 1) % 4, round % 4);
        open[0].text(&format!("late for {last} "));
        // Interrupted and started without a turn between: the kernel reuses the closed descriptor at once.
        app.ask(last, Change::Interrupt);
        app.say(next, &format!("question {round}"));
        let exchange = app.accept(&peer);
        assert!(exchange.request().json()["messages"].to_string().contains(&format!("question {round}")));
        open[0].text("too late");
        exchange.stream().text(&format!("only {round}."));
        turn_until_given(&mut app, next, &format!("only {round}."));
        assert_eq!(app.agent(next).partial_text(), format!("only {round}."), "round {round}");
        open = vec![exchange];
    }
}

#[test]
fn one_agent_finishes_and_another_begins_in_the_same_turn_round_after_round() {
    let peer = Peer::start();
    let mut app = app_with_agents(3, Plan { working_limit: 1, ..Plan::peer(&peer.url()) });
    app.say(0, "question 0");
    let mut exchange = app.accept(&peer);
    for round in 1..60 {
        // With one slot, the end of one reply lets the next request be sent in the same turn.
        app.say(round % 3, &format!("question {round}"));
        exchange.stream().text(&format!("reply {}", round - 1)).finish("stop").done();
        exchange = app.accept(&peer);
        assert!(exchange.request().json()["messages"].to_string().contains(&format!("question {round}")));
    }
    exchange.stream().text("reply 59").finish("stop").done();
    app.turn_until_idle();
    for n in 0..3 {
        let expected: Vec<String> =
            (0..60).filter(|round| round % 3 == n).map(|round| format!("reply {round}")).collect();
        assert_eq!(app.replies(n), expected, "agent {n}");
    }
}

#[test]
fn late_events_for_closed_sockets_are_ignored() {
    let peer = Peer::start();
    let settings = Settings { bytes_per_turn: 128, ..Settings::default() };
    let mut app = app_with_agents(2, Plan { settings, ..Plan::peer(&peer.url()) });
    for round in 0..20 {
        let exchange = begin_streams(&mut app, &peer, &[0]).remove(0);
        exchange.text("kept. ");
        turn_until_given(&mut app, 0, "kept. ");
        // The bytes are in the kernel when the socket is closed.
        exchange.text(&"never read ".repeat(2_000)).finish("stop").done();
        let bystander = app.fingerprint(1);
        app.ask(0, Change::Interrupt);
        assert_eq!(app.state(0), State::Idle);
        exchange.wait_for_close();
        let after = app.fingerprint(0);
        for _ in 0..5 {
            app.turn();
        }
        assert_eq!((app.fingerprint(0), app.fingerprint(1)), (after, bystander), "round {round}");
    }
    assert!(app.partial_replies(0).iter().all(|text| text.starts_with("kept. ")), "{:?}", app.partial_replies(0));
}
