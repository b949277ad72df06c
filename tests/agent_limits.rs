//! Limits of trees of agents: a model that makes agents without end is stopped at the limit, the person is asked once, and
//! no other agent is held up.

use std::time::Duration;

use polylogue::config::{LimitName, Prices, Settings, TreeLimits};
use polylogue::{Change, Decision};
use serde_json::json;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, State};
use crate::support::peer::{Exchange, Peer};
use crate::support::scene::{assert_shows, converse, reply_with_calls, results_in, turn_a_while, with_children};
use crate::support::size::scaled;

/// The limits on creations, and none of another kind.
fn limits(agents: u64, depth: u64, creations: u64) -> TreeLimits {
    let mut limits = TreeLimits::default();
    limits[LimitName::Agents] = Some(agents);
    limits[LimitName::Depth] = Some(depth);
    limits[LimitName::Creations] = Some(creations);
    limits
}

fn app_with(peer: &Peer, tree_limits: TreeLimits) -> Harness {
    Harness::new(Plan { tree_limits, ..Plan::peer(&peer.url()) })
}

/// Calls a fork, or ends the turn once the model was told of a limit.
fn fork_on(exchange: &Exchange, forks: usize) {
    let body = exchange.request().json();
    let is_told = results_in(&body).iter().any(|(_, result)| result.contains("limit reached"));
    if is_told || body["tools"].is_null() {
        exchange.stream().text("enough").finish("stop").done();
    } else {
        let fork = json!({"prompt": "make more"}).to_string();
        reply_with_calls(exchange, &vec![("fork", fork.as_str()); forks]);
    }
}

/// Every model that gets a request makes more agents, until all agents are idle or ask.
fn run_wild(app: &mut Harness, peer: &Peer, forks: usize) {
    let mut quiet = 0;
    while quiet < 20 {
        app.turn_within(Duration::from_millis(2));
        quiet += 1;
        while let Some(exchange) = peer.try_accept() {
            fork_on(&exchange, forks);
            quiet = 0;
        }
        if app.repl.roster().busy().iter().any(|id| !app.repl.roster().asking().contains(id)) {
            quiet = 0;
        }
    }
}

fn only_asking(app: &Harness) -> usize {
    let asking: Vec<_> = app.repl.roster().asking().iter().copied().collect();
    assert_eq!(asking.len(), 1, "the person is asked once");
    app.repl.roster().ids().iter().position(|id| *id == asking[0]).expect("it lives")
}

/// A tool call of agent 0 that the built-in model makes.
fn call(app: &mut Harness, n: usize, text: &str) {
    app.say(n, text);
}

fn forks(count: usize) -> String {
    vec!["%tool fork {\"prompt\":\"hello\"}"; count].join("\n") + "\n%next\ndone"
}

#[test]
fn models_that_fork_without_end_stop_at_the_limit_and_others_go_on() {
    let peer = Peer::start();
    let mut app = app_with(&peer, limits(12, 100, 1000));
    app.fork_named(0, "wild");
    app.fork_named(0, "tame");
    let (wild, tame) = (app.n("wild"), app.n("tame"));
    app.say(wild, "make agents");
    run_wild(&mut app, &peer, 2);
    assert_eq!(app.repl.roster().len(), 3 + 12);
    let asking = only_asking(&app);

    assert!(!converse(&mut app, &peer, tame, "hello", "hi").is_empty());
    app.say(tame, "make one");
    reply_with_calls(&app.accept(&peer), &[("fork", "{\"prompt\":\"x\",\"name\":\"kid\"}")]);
    app.turn_until("a child of another tree", |app| app.repl.roster().find("kid").one().is_some());
    run_wild(&mut app, &peer, 0);

    app.switch(asking);
    assert_shows(&mut app, "Raise this limit? raise the limit from 12 to 24");
    app.press_at_question(b"y");
    run_wild(&mut app, &peer, 2);
    assert_eq!(app.repl.roster().len(), 4 + 24);
    let asking = only_asking(&app);
    app.answer(asking, false);
    turn_a_while(&mut app);
    assert!(app.repl.roster().busy().is_empty() && peer.try_accept().is_none());
    assert_eq!(app.repl.roster().len(), 4 + 24);
}

#[test]
fn the_default_limits_stop_a_runaway() {
    let peer = Peer::start();
    let mut app = app_with(&peer, TreeLimits::default());
    app.say(0, "make agents");
    run_wild(&mut app, &peer, 3);
    assert_eq!(app.repl.roster().len(), 1 + 30, "so many a minute");
    let asking = only_asking(&app);
    app.answer(asking, true);
    run_wild(&mut app, &peer, 3);
    assert_eq!(app.repl.roster().len(), 1 + 60);
    only_asking(&app);
}

#[test]
fn generations_are_limited() {
    let peer = Peer::start();
    let settings = Settings { tool_iterations: 3, ..Settings::default() };
    let plan = Plan { settings, tree_limits: limits(1000, 3, 1000), ..Plan::peer(&peer.url()) };
    let mut app = Harness::new(plan);
    app.say(0, "make agents");
    run_wild(&mut app, &peer, 1);
    let deepest = |app: &Harness| {
        let depth = |n: usize| {
            std::iter::successors(app.repl.roster().parent(app.id(n)), |id| app.repl.roster().parent(*id)).count()
        };
        (0..app.repl.roster().len()).map(depth).max().expect("agents")
    };
    assert_eq!(deepest(&app), 3);
    only_asking(&app);
}

#[test]
fn a_minute_later_agents_can_be_made_again() {
    let mut app = Harness::new(Plan { tree_limits: limits(100, 8, 4), ..Plan::default() });
    call(&mut app, 0, &forks(6));
    app.turn_until_asked(0);
    assert_eq!(app.repl.roster().len(), 5);
    app.escape();
    app.advance(Duration::from_secs(60));
    call(&mut app, 0, &forks(4));
    app.turn_until_idle();
    assert_eq!(app.repl.roster().len(), 9);
    call(&mut app, 0, &forks(1));
    app.turn_until_asked(0);
}

#[test]
fn what_a_person_makes_does_not_count() {
    let mut app = Harness::new(Plan { tree_limits: limits(1, 1, 1), ..Plan::default() });
    for _ in 0..5 {
        app.fork(0);
    }
    assert_eq!(app.repl.roster().len(), 6);
    for n in 0..6 {
        call(&mut app, n, &forks(1));
        app.turn_until_idle();
    }
    assert_eq!(app.repl.roster().len(), 12, "each has a tree of its own");
    call(&mut app, 3, &forks(1));
    app.turn_until_asked(3);
    app.enter("/limit 3");
    assert_shows(&mut app, "agents            1 of 1");
}

#[test]
fn a_killed_agent_makes_room_and_a_person_can_set_the_limit() {
    let mut app = Harness::new(Plan { tree_limits: limits(2, 8, 100), ..Plan::default() });
    call(&mut app, 0, &forks(2));
    app.turn_until_idle();
    app.enter_and_confirm("/kill 2");
    call(&mut app, 0, &forks(2));
    app.turn_until_asked(0);
    assert_eq!(app.repl.roster().len(), 3);
    app.escape();
    app.enter("/limit agents 4");
    call(&mut app, 0, &forks(2));
    app.turn_until_idle();
    assert_eq!(app.repl.roster().len(), 5);
    app.enter("/limit agents default");
    call(&mut app, 0, &forks(1));
    app.turn_until_asked(0);
}

/// Agent 0 has reached its limit of 2 agents, and the person is asked.
fn app_asked_about_two() -> Harness {
    let mut app = Harness::new(Plan { tree_limits: limits(2, 8, 100), ..Plan::default() });
    app.fork_named(0, "other");
    call(&mut app, 0, &forks(4));
    app.turn_until_asked(0);
    assert_shows(&mut app, "Raise this limit? raise the limit from 2 to 4");
    app
}

#[test]
fn a_limit_that_is_set_while_its_question_is_open_is_never_doubled() {
    // It leaves room: the question closes, and the calls go on.
    let mut app = app_asked_about_two();
    let old = app.agent(0).question().expect("a question").number;
    app.enter("/limit agents 10");
    app.ask(0, Change::Answer { question: old, decision: Decision::Allow });
    app.turn_until_idle();
    assert_eq!(app.repl.roster().len(), 6);
    app.enter("/limit");
    assert_shows(&mut app, "agents            4 of 10");

    // It leaves none: the question is a new one.
    let mut app = app_asked_about_two();
    let old = app.agent(0).question().expect("a question").number;
    app.enter("/limit agents 1");
    app.ask(0, Change::Answer { question: old, decision: Decision::Allow });
    assert_eq!(app.repl.roster().len(), 4);
    assert_shows(&mut app, "Raise this limit? raise the limit from 1 to 2");
    app.enter("/limit agents 2");
    assert_shows(&mut app, "Raise this limit? raise the limit from 2 to 4");
    app.press_at_question(b"y");
    app.turn_until_idle();
    assert_eq!(app.repl.roster().len(), 6);
    app.enter("/limit");
    assert_shows(&mut app, "agents            4 of 4");
}

#[test]
fn calls_beside_the_one_that_is_asked_about_wait_for_the_same_answer() {
    for (allowed, agents) in [(true, 6), (false, 4)] {
        let mut app = app_asked_about_two();
        turn_a_while(&mut app);
        assert_eq!(app.tool_results(0).iter().filter(|result| result.is_error).count(), 0);
        app.answer(0, allowed);
        app.turn_until_idle();
        let results = app.tool_results(0);
        assert_eq!((results.len(), app.repl.roster().len()), (4, agents), "{results:?}");
        assert_eq!(results.iter().filter(|result| result.is_error).count(), if allowed { 0 } else { 2 }, "{results:?}");
    }
    // Twice 2 is not enough for 6: the next one asks again.
    let mut app = Harness::new(Plan { tree_limits: limits(2, 8, 100), ..Plan::default() });
    call(&mut app, 0, &forks(6));
    app.turn_until_asked(0);
    app.answer(0, true);
    app.turn_until_asked(0);
    app.answer(0, true);
    app.turn_until_idle();
    assert_eq!(app.repl.roster().len(), 7);
}

#[test]
fn another_limit_leaves_a_question_and_its_number_as_they_are() {
    let mut app = app_asked_about_two();
    let asked = app.agent(0).question().cloned();
    app.enter("/limit requests 50");
    app.enter("/limit other agents 1");
    assert_eq!(app.agent(0).question().cloned(), asked);
    assert!(app.repl.roster().asking().len() == 1);
}

#[test]
fn counts_and_limits_survive_a_restart() {
    let mut app = Harness::new(Plan { tree_limits: limits(2, 8, 100), ..Plan::default() });
    call(&mut app, 0, &forks(2));
    app.turn_until_idle();
    app.enter("/limit requests 5");
    app.turn();
    let mut app = app.crash_and_restart();
    call(&mut app, 0, &forks(1));
    app.turn_until_asked(0);
    assert_eq!(app.repl.roster().len(), 3);
    app.escape();
    app.enter("/limit agents 3");
    app.turn();
    let mut app = app.crash_and_restart();
    call(&mut app, 0, &forks(1));
    app.turn_until_idle();
    assert_eq!(app.repl.roster().len(), 4);
    app.enter("/limit");
    assert_shows(&mut app, "requests          4 of 5");
}

#[test]
fn a_budget_of_requests_holds_a_tree_and_nobody_else_until_it_is_raised() {
    let mut app = Harness::new(Plan::default());
    app.fork_named(0, "other");
    let other = app.n("other");
    app.enter("/switch 0");
    app.enter("/limit requests 2");
    call(&mut app, 0, &forks(1));
    app.turn_until("the child waits", |app| {
        app.state(0) == State::WaitingForLlm || app.state(2) == State::WaitingForLlm
    });
    turn_a_while(&mut app);
    let held: Vec<usize> = (0..3).filter(|n| app.state(*n) == State::WaitingForLlm).collect();
    assert_eq!(held.len(), 1, "two requests were made, and the third is held");
    assert_shows(&mut app, "limit reached in the tree of agent 0: 2 requests to models");
    assert!(app.repl.limit_reached().is_some());
    app.say(other, "hello");
    app.turn_until("others go on", |app| app.state(other) == State::Idle);
    app.enter("/limit requests 3");
    app.turn_until_idle();
    assert!(app.repl.limit_reached().is_none());
}

#[test]
fn tokens_and_seconds_are_budgets_too() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan::peer(&peer.url()));
    app.enter("/limit tokens 100");
    app.say(0, "one");
    app.accept(&peer).stream().text("a").finish("stop").usage(90, 10).done();
    app.turn_until_idle();
    app.say(0, "two");
    turn_a_while(&mut app);
    assert!(peer.try_accept().is_none());
    assert_shows(&mut app, "held at the limit of 100 tokens");
    app.enter("/limit tokens none");
    let exchange = app.accept(&peer);
    app.enter("/limit seconds 10");
    app.advance(Duration::from_secs(11));
    exchange.stream().text("b").finish("stop").done();
    app.turn_until_idle();
    app.say(0, "three");
    turn_a_while(&mut app);
    assert_shows(&mut app, "held at the limit of 10 seconds");
    app.escape();
    assert_eq!(app.state(0), State::Idle);
}

#[test]
fn a_limit_of_dollars_counts_what_was_spent_before_it_was_set() {
    let peer = Peer::start();
    let mut plan = Plan::peer(&peer.url());
    plan.endpoint.facts.prices = Some(Prices { input: 3_000_000, ..Prices::default() });
    let mut app = Harness::new(plan);
    app.say(0, "one");
    app.accept(&peer).stream().text("a").usage(100_000, 0).finish("stop").done();
    app.turn_until_idle();
    app.enter("/limit usd 0.2");
    assert_shows(&mut app, "have spent $0.30 of $0.2");
    let mut app = app.crash_and_restart();
    app.say(0, "two");
    turn_a_while(&mut app);
    assert!(peer.try_accept().is_none());
    assert_shows(&mut app, "held at the limit of 0.2");
    app.enter("/limit usd 1");
    app.accept(&peer).stream().text("b").usage(1, 0).finish("stop").done();
    app.turn_until_idle();
}

#[test]
fn dollars_need_a_price() {
    let mut app = Harness::new(Plan::default());
    app.enter("/limit usd 1");
    assert_shows(&mut app, "the price of echo/echo is unknown");
}

#[test]
fn a_fork_to_another_provider_asks_and_one_to_another_model_does_not() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan::peer(&peer.url()));
    for (model, is_asked) in [("openai/other", false), ("echo/echo", true)] {
        app.say(0, "fork");
        let arguments = json!({"prompt": "x", "model": model}).to_string();
        let before = app.repl.roster().len();
        reply_with_calls(&app.accept(&peer), &[("fork", arguments.as_str())]);
        if is_asked {
            app.turn_until_asked(0);
            assert_shows(&mut app, "it sends the conversation to another provider (echo/echo)");
            assert_eq!(app.repl.roster().len(), before);
            app.answer(0, true);
        }
        app.turn_until("the child", |app| app.repl.roster().len() > before);
        run_wild(&mut app, &peer, 0);
    }
    app.say(0, "fork");
    reply_with_calls(&app.accept(&peer), &[("fork", "{\"prompt\":\"x\",\"model\":\"echo/echo\"}")]);
    let before = app.repl.roster().len();
    app.turn_until_asked(0);
    app.answer(0, false);
    let results = crate::support::scene::results_then(&mut app, &peer, 0, "well");
    assert_eq!(results.last().map(String::as_str), Some("the user denied this call"));
    assert_eq!(app.repl.roster().len(), before);
}

#[test]
fn forks_with_models_count_as_all_others_do() {
    for model in ["openai/other", "echo/echo"] {
        let peer = Peer::start();
        let mut app = app_with(&peer, limits(2, 8, 100));
        app.say(0, "fork");
        let fork = json!({"prompt": "hello", "model": model}).to_string();
        reply_with_calls(&app.accept(&peer), &[("fork", fork.as_str()); 3]);
        // Another provider is asked about call by call, until the question is about the limit.
        loop {
            app.turn_until_asked(0);
            let title = app.agent(0).question().expect("a question").question.title.clone();
            if title.contains("raise the limit") {
                break;
            }
            assert_eq!(model, "echo/echo", "{title}");
            app.answer(0, true);
        }
        assert_eq!(app.repl.roster().len(), 3, "{model}");
        app.answer(0, false);
        turn_a_while(&mut app);
        assert_eq!((app.repl.roster().len(), app.repl.roster().busy().len()), (3, 0), "{model}");
    }
}

#[test]
fn a_limit_reached_among_parallel_calls_leaves_every_call_a_result() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan {
        tree_limits: limits(1, 8, 100),
        settings: Settings { tool_iterations: 5, ..Settings::default() },
        ..Plan::peer(&peer.url())
    });
    app.say(0, "go");
    let (fork, wait) = ("{\"prompt\":\"x\"}", "{\"timeout\":5}");
    let calls = [("fork", fork), ("fork", fork), ("wait", wait), ("agents", "{}"), ("fork", fork)];
    reply_with_calls(&app.accept(&peer), &calls);
    app.turn_until_asked(0);
    app.answer(0, true);
    let child = app.accept(&peer);
    child.stream().text("ok").finish("stop").done();
    for _ in 0..20 {
        turn_a_while(&mut app);
        if let Some(id) = app.repl.roster().asking().iter().next().copied() {
            assert_eq!(id, app.id(0));
            app.answer(0, true);
        }
        app.advance(Duration::from_secs(1));
        if let Some(exchange) = peer.try_accept() {
            let results = results_in(&exchange.request().json());
            if results.len() == 5 {
                exchange.stream().text("done").finish("stop").done();
                break;
            }
            exchange.stream().text("ok").finish("stop").done();
        }
    }
    app.turn_until("the end", |app| app.state(0) == State::Idle);
    assert_eq!(app.replies(0), ["done"]);
}

#[test]
fn an_agent_of_a_slice_and_one_of_an_environment_are_trees_of_their_own() {
    let mut app = Harness::new(Plan { tree_limits: limits(2, 8, 100), ..Plan::default() });
    app.say(0, "hello");
    app.turn_until_idle();
    app.enter("/slice 0:1");
    app.enter("/env chat");
    assert_eq!(app.repl.roster().len(), 3);
    for n in [1, 2] {
        call(&mut app, n, &forks(3));
        app.turn_until_asked(n);
        app.answer(n, false);
        app.turn_until_idle();
    }
    assert_eq!(app.repl.roster().len(), 7);
}

#[cfg(feature = "coordinator")]
#[test]
fn members_of_a_run_share_the_limits_of_its_origin() {
    let peer = Peer::start();
    let mut app = app_with(&peer, limits(3, 8, 100));
    app.enter("/team parallel --count 2 make agents");
    run_wild(&mut app, &peer, 2);
    // The members have ended with their run if an agent that they made was the first that needed more.
    let made = (1..app.repl.roster().len()).filter(|n| app.agent(*n).identity.team_run.is_none()).count();
    assert_eq!(made, 3, "members do not count, what their models make does");
    only_asking(&app);
}

#[test]
fn all_agents_are_stopped_in_one_turn_and_one_transaction_and_their_queues_are_kept() {
    let mut app = Harness::new(Plan::default());
    for _ in 0..30 {
        app.fork(0);
    }
    for n in 0..31 {
        app.say(n, "text\n%hang");
    }
    app.turn_until("all stream", |app| (0..31).all(|n| !app.agent(n).partial_text().is_empty()));
    for n in 0..31 {
        app.say(n, "queued");
    }
    app.turn();
    let before = app.transactions();
    app.enter("/stop --all");
    assert!(app.repl.roster().busy().is_empty());
    // Beside the one of the stop: the draft and the history of inputs, and what was counted.
    assert!(app.transactions() - before <= 6, "{}", app.transactions() - before);
    turn_a_while(&mut app);
    for n in 0..31 {
        assert_eq!((app.state(n), app.agent(n).queue.len()), (State::Idle, 1));
        assert_eq!(app.partial_replies(n), ["text"]);
    }
    let app = app.crash_and_restart();
    assert!((0..31).all(|n| app.agent(n).queue.len() == 1 && app.state(n) == State::Idle));
}

#[test]
fn a_part_of_the_tree_is_stopped_alone() {
    let mut app = Harness::new(Plan::default());
    let boss = app.fork_named(0, "boss");
    app.fork_named(boss, "worker");
    app.fork_named(0, "other");
    for n in 1..4 {
        app.say(n, "text\n%hang");
    }
    app.enter("/stop boss");
    let states: Vec<State> = (1..4).map(|n| app.state(n)).collect();
    assert_eq!(states, [State::Idle, State::Idle, State::WaitingForLlm]);
    app.enter("/stop nobody");
    assert_shows(&mut app, "no agent \"nobody\"");
}

#[test]
fn very_many_stored_agents_are_stopped_and_killed_at_once() {
    let many = scaled(100_000, 5_000);
    let mut app = with_children(many);
    assert_eq!(app.repl.roster().len(), many + 1);
    app.say(0, "text\n%hang");
    app.say(many, "text\n%hang");
    app.turn();
    let before = app.transactions();
    app.ask(0, Change::Stop(None));
    assert_eq!(app.transactions() - before, 1);
    assert!(app.repl.roster().busy().is_empty());
    app.turn();
    let before = app.transactions();
    app.ask(0, Change::KillDescendants(app.id(0)));
    assert_eq!(app.transactions() - before, 1);
    app.turn_until("all are gone", |app| app.repl.roster().len() == 1);
    app.turn();
    assert_shows(&mut app, &format!("{many} agents killed"));
    let mut app = app.crash_and_restart();
    assert_eq!(app.repl.roster().len(), 1);
    app.enter("/limit");
    assert_shows(&mut app, "agents            0 of 64");
}
