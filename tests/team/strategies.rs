//! Every strategy with every aggregation over sockets. What results come to is told by the pure rules, which have a matrix
//! of their own; here it is the real loop that has to come to the same.

use std::time::Duration;

use polylogue::repl::RunId;
use polylogue::team::coordinator::aggregate::aggregate;
use polylogue::team::coordinator::outcome::RunEnding;
use polylogue::team::coordinator::settings::{Aggregation, Settings, Strategy};

use super::scene::{answer, app, ending_names, members, role_in, start};
use crate::support::harness::Harness;
use crate::support::peer::{Exchange, Peer};

/// What the server does with whoever asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Play {
    Answers,
    Refuses,
    Hangs,
}

const TIME: Duration = Duration::from_secs(20);

/// Plays until the run is over; all exchanges. The clock moves when nobody is left but those that hang.
fn serve(app: &mut Harness, peer: &Peer, run: &RunId, play: impl Fn(&str) -> Play) -> Vec<Exchange> {
    let mut held: Vec<Exchange> = Vec::new();
    app.turn_until("the end of the run", |app| {
        while let Some(exchange) = peer.try_accept() {
            let role = role_in(&exchange);
            match play(&role) {
                Play::Answers => answer(&exchange, &format!("# of {role}\nsame")),
                Play::Refuses => drop(exchange.error(400, "invalid_request_error", "no")),
                Play::Hangs => {}
            }
            held.push(exchange);
        }
        let players = app.repl.players(run);
        let hangs = |name: &str| play(name) == Play::Hangs && held.iter().any(|exchange| role_in(exchange) == name);
        if !players.is_empty() && players.iter().all(|(name, _)| hangs(name)) {
            app.advance(TIME);
        }
        app.repl.outcome(run).is_some()
    });
    held
}

/// How the three end when the one in the middle does this.
fn expected(strategy: Strategy, aggregation: Aggregation, middle: Play) -> [&'static str; 3] {
    let is_first = aggregation == Aggregation::FirstSuccess;
    let second = match middle {
        Play::Answers => "answered",
        Play::Refuses => "failed",
        Play::Hangs => "timed out",
    };
    match strategy {
        Strategy::Sequential | Strategy::Pipeline if is_first => ["answered", "skipped", "skipped"],
        Strategy::Parallel | Strategy::Adaptive if is_first => ["answered", "cancelled", "cancelled"],
        Strategy::Pipeline if middle != Play::Answers => ["answered", second, "skipped"],
        _ => ["answered", second, "answered"],
    }
}

#[test]
fn each_strategy_with_each_aggregation_comes_to_what_the_rules_say_whatever_becomes_of_the_one_in_the_middle() {
    let peer = Peer::start();
    let mut app = app(&peer);
    for strategy in Strategy::ALL {
        for aggregation in Aggregation::ALL {
            for middle in [Play::Answers, Play::Refuses, Play::Hangs] {
                // A member that failed in the runs before is not left alone in this one.
                let mut settings = Settings { strategy, aggregation, agent_timeout: TIME, ..Settings::default() };
                settings.breaker.threshold = 0;
                let run = start(&mut app, &members(&["a", "b", "c"]), "hello", settings);
                // Who is first is decided by the script, not by luck.
                let is_race = aggregation == Aggregation::FirstSuccess;
                let held = serve(&mut app, &peer, &run, |role| match role {
                    "b" => {
                        if is_race {
                            Play::Hangs
                        } else {
                            middle
                        }
                    }
                    "c" if is_race => Play::Hangs,
                    _ => Play::Answers,
                });
                let outcome = app.repl.outcome(&run).expect("it is over");
                let case = format!("{strategy} {aggregation} {middle:?}");
                assert_eq!(ending_names(&outcome), expected(strategy, aggregation, middle), "{case}");
                let made = aggregate(aggregation, &outcome.results).expect("there is an answer");
                assert_eq!(outcome.answer, Some(made.text), "{case}");
                let is_broken_pipeline = strategy == Strategy::Pipeline && middle != Play::Answers && !is_race;
                assert_eq!(matches!(outcome.ending, RunEnding::Failed(_)), is_broken_pipeline, "{case}");
                for cut in held.iter().filter(|one| role_in(one) != "a" && (is_race || middle == Play::Hangs)) {
                    if role_in(cut) == "b" || is_race {
                        cut.wait_for_close();
                    }
                }
                assert_eq!(app.repl.roster().len(), 1, "{case}");
            }
        }
    }
}

#[test]
fn a_pipeline_hands_each_answer_on_as_input_and_as_a_letter_that_was_read() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let settings = Settings { strategy: Strategy::Pipeline, ..Settings::default() };
    let run = start(&mut app, &members(&["a", "b"]), "the task", settings);
    let first = app.accept(&peer);
    answer(&first, "what a found");
    let second = app.accept(&peer);
    let asked = second.request().json();
    let texts = crate::support::scene::texts_in(asked.to_string().as_bytes());
    assert_eq!(texts, ["what a found"]);
    let (_, stage) = app.repl.players(&run).remove(0);
    let mail = app.repl.store().mail(stage, None).expect("letters");
    assert_eq!((mail.len(), mail[0].body.as_str(), mail[0].is_read), (1, "what a found", true));
    answer(&second, "what b made of it");
    let outcome = super::scene::finish(&mut app, &run);
    assert_eq!(outcome.answer.as_deref(), Some("what a found\n---\nwhat b made of it"));
}

#[test]
fn a_short_task_for_three_is_adapted_to_all_at_once_and_one_for_two_is_not() {
    for (names, at_once) in [(&["a", "b", "c"][..], 3), (&["a", "b"], 1)] {
        let peer = Peer::start();
        let mut app = app(&peer);
        let settings = Settings { strategy: Strategy::Adaptive, ..Settings::default() };
        let run = start(&mut app, &members(names), "short", settings);
        let held: Vec<Exchange> = (0..at_once).map(|_| app.accept(&peer)).collect();
        crate::support::scene::turn_a_while(&mut app);
        assert_eq!((app.repl.players(&run).len(), peer.try_accept().is_none()), (at_once, true));
        drop(held);
    }
}

#[test]
fn a_judge_is_shown_the_answers_without_tools_and_its_choice_counts() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let settings = Settings {
        strategy: Strategy::Parallel,
        aggregation: Aggregation::SelectBest,
        judge: Some("openai/judge".into()),
        ..Settings::default()
    };
    let run = start(&mut app, &members(&["a", "b"]), "hello", settings);
    for _ in 0..2 {
        let exchange = app.accept(&peer);
        answer(&exchange, &format!("from {}", role_in(&exchange)));
    }
    let judge = app.accept(&peer);
    let request = judge.request().json();
    assert_eq!(request["model"], "judge");
    assert!(request.get("tools").is_none(), "{request}");
    let asked = crate::support::openai::last_user_text(&request);
    assert!(asked.contains("from a") && asked.contains("from b"), "{asked}");
    answer(&judge, "2");
    let outcome = super::scene::finish(&mut app, &run);
    assert_eq!((outcome.answer.as_deref(), outcome.chosen.as_deref()), (Some("from b"), Some("b")));
    assert_eq!((outcome.tokens, app.repl.roster().len()), (3 * 12, 1));
}
