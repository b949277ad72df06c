//! Every strategy with every aggregation over sockets: the loop must give the same results as the pure rules, which have
//! their own tests.

use std::time::Duration;

use polylogue::multi_agent::{Aggregation, RunId, RunStatus, Settings, Strategy};

use super::common::{answer, app, members, outcome_names, role_in, start};
use crate::support::harness::Harness;
use crate::support::internals::{Probe, aggregate};
use crate::support::peer::{Exchange, Peer};

/// What the server does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    Answers,
    Refuses,
    Hangs,
}

const TIME: Duration = Duration::from_secs(20);

/// Serves until the run is over and returns all exchanges. The clock moves when only hanging members are left.
fn serve(app: &mut Harness, peer: &Peer, run: &RunId, behaviour: impl Fn(&str) -> Behaviour) -> Vec<Exchange> {
    let mut held: Vec<Exchange> = Vec::new();
    app.turn_until("the end of the run", |app| {
        while let Some(exchange) = peer.try_accept() {
            let role = role_in(&exchange);
            match behaviour(&role) {
                Behaviour::Answers => answer(&exchange, &format!("# of {role}\nsame")),
                Behaviour::Refuses => drop(exchange.error(400, "invalid_request_error", "no")),
                Behaviour::Hangs => {}
            }
            held.push(exchange);
        }
        let members = app.repl.active_members(run);
        let hangs =
            |name: &str| behaviour(name) == Behaviour::Hangs && held.iter().any(|exchange| role_in(exchange) == name);
        if !members.is_empty() && members.iter().all(|(name, _)| hangs(name)) {
            app.advance(TIME);
        }
        app.repl.outcome(run).is_some()
    });
    held
}

/// The outcomes of three members when the second behaves like this.
fn expected(strategy: Strategy, aggregation: Aggregation, middle: Behaviour) -> [&'static str; 3] {
    let is_first = aggregation == Aggregation::FirstSuccess;
    let second = match middle {
        Behaviour::Answers => "answered",
        Behaviour::Refuses => "failed",
        Behaviour::Hangs => "timed out",
    };
    match strategy {
        Strategy::Sequential | Strategy::Pipeline if is_first => ["answered", "skipped", "skipped"],
        Strategy::Parallel | Strategy::Adaptive if is_first => ["answered", "cancelled", "cancelled"],
        Strategy::Pipeline if middle != Behaviour::Answers => ["answered", second, "skipped"],
        _ => ["answered", second, "answered"],
    }
}

#[test]
fn every_strategy_and_aggregation_gives_the_result_of_the_rules() {
    let peer = Peer::start();
    let mut app = app(&peer);
    for strategy in Strategy::ALL {
        for aggregation in Aggregation::ALL {
            for middle in [Behaviour::Answers, Behaviour::Refuses, Behaviour::Hangs] {
                // Failures of earlier runs must not open the breaker.
                let mut settings = Settings { strategy, aggregation, agent_timeout: TIME, ..Settings::default() };
                settings.breaker.threshold = 0;
                let run = start(&mut app, &members(&["a", "b", "c"]), "hello", settings);
                // The script decides which member is first.
                let is_race = aggregation == Aggregation::FirstSuccess;
                let held = serve(&mut app, &peer, &run, |role| match role {
                    "b" => {
                        if is_race {
                            Behaviour::Hangs
                        } else {
                            middle
                        }
                    }
                    "c" if is_race => Behaviour::Hangs,
                    _ => Behaviour::Answers,
                });
                let outcome = app.repl.outcome(&run).expect("finished");
                let case = format!("{strategy} {aggregation} {middle:?}");
                assert_eq!(outcome_names(&outcome), expected(strategy, aggregation, middle), "{case}");
                let made = aggregate(aggregation, &outcome.results).expect("there is an answer");
                assert_eq!(outcome.answer, Some(made.text), "{case}");
                let is_broken_pipeline = strategy == Strategy::Pipeline && middle != Behaviour::Answers && !is_race;
                assert_eq!(matches!(outcome.status, RunStatus::Failed(_)), is_broken_pipeline, "{case}");
                for cut in held.iter().filter(|one| role_in(one) != "a" && (is_race || middle == Behaviour::Hangs)) {
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
fn a_pipeline_passes_each_answer_on_as_input_and_as_read_mail() {
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
    let (_, stage) = app.repl.active_members(&run).remove(0);
    let mail = app.repl.store().mail(stage, None).expect("mail");
    assert_eq!((mail.len(), mail[0].body.as_str(), mail[0].is_read), (1, "what a found", true));
    answer(&second, "what b made of it");
    let outcome = super::common::finish(&mut app, &run);
    assert_eq!(outcome.answer.as_deref(), Some("what a found\n---\nwhat b made of it"));
}

#[test]
fn adaptive_runs_three_members_in_parallel_and_two_in_sequence() {
    for (names, at_once) in [(&["a", "b", "c"][..], 3), (&["a", "b"], 1)] {
        let peer = Peer::start();
        let mut app = app(&peer);
        let settings = Settings { strategy: Strategy::Adaptive, ..Settings::default() };
        let run = start(&mut app, &members(names), "short", settings);
        let held: Vec<Exchange> = (0..at_once).map(|_| app.accept(&peer)).collect();
        crate::support::scene::turn_a_while(&mut app);
        assert_eq!((app.repl.active_members(&run).len(), peer.try_accept().is_none()), (at_once, true));
        drop(held);
    }
}

#[test]
fn a_judge_gets_the_answers_without_tools_and_its_choice_counts() {
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
    let outcome = super::common::finish(&mut app, &run);
    assert_eq!((outcome.answer.as_deref(), outcome.chosen.as_deref()), (Some("from b"), Some("b")));
    assert_eq!((outcome.tokens, app.repl.roster().len()), (3 * 12, 1));
}
