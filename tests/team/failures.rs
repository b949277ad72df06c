//! Failures of members, and what ends a run early: a breaker, the user, the end of the program.

use std::time::Duration;

use polylogue::Change;
use polylogue::multi_agent::{EventKind, Member, RunStatus, Settings, Strategy};

use super::common::{
    accept_members, answer, app, finish, limit, members, outcome_names, start, time_left, wait_for_retry,
};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Breaker, Probe, RunRow, State, WakeReason};
use crate::support::peer::Peer;
use crate::support::scene::turn_a_while;

const SECOND: Duration = Duration::from_secs(1);

fn parallel() -> Settings {
    Settings { strategy: Strategy::Parallel, agent_timeout: 20 * SECOND, ..Settings::default() }
}

/// The state of each run in the store, the newest first.
fn stored(app: &Harness) -> Vec<&'static str> {
    app.repl.store().runs(9).expect("the runs").iter().map(RunRow::state).collect()
}

#[test]
fn a_breaker_opens_after_five_failed_tasks_probes_after_a_minute_and_closes() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let run_once = |app: &mut Harness, status: Option<u16>| {
        let run = start(app, &members(&["a"]), "hello", parallel());
        match status {
            Some(200) => answer(&app.accept(&peer), "fine"),
            Some(status) => drop(app.accept(&peer).error(status, "invalid_request_error", "no")),
            None => {}
        }
        outcome_names(&finish(app, &run))[0]
    };
    for task in 1..=5 {
        assert_eq!(app.repl.health().of("a (openai/test)").breaker, Breaker::Closed, "before task {task}");
        assert_eq!(run_once(&mut app, Some(400)), "failed");
    }
    let before = app.repl.health().of("a (openai/test)");
    assert!(matches!(before.breaker, Breaker::Open { .. }));
    assert_eq!(run_once(&mut app, None), "skipped");
    assert_eq!(app.repl.health().of("a (openai/test)"), before, "a skipped task is no failure");
    app.advance(60 * SECOND);
    assert_eq!(run_once(&mut app, Some(400)), "failed");
    assert_eq!(run_once(&mut app, None), "skipped");
    app.advance(60 * SECOND);
    assert_eq!(run_once(&mut app, Some(200)), "answered");
    let after = app.repl.health().of("a (openai/test)");
    assert_eq!((after.breaker, after.failures_in_row, after.successes, after.failures), (Breaker::Closed, 0, 1, 6));
    assert!(peer.try_accept().is_none());
}

#[test]
fn the_time_limit_counts_from_the_slot_and_waiting_for_one_needs_no_wake() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan { size: None, working_limit: 2, ..Plan::peer(&peer.url()) });
    let run = start(&mut app, &members(&["a", "b", "c", "d", "e"]), "hello", parallel());
    let mut count = 0;
    for pair in [&["a", "b"][..], &["c", "d"], &["e"]] {
        let exchanges: Vec<_> = pair.iter().map(|_| app.accept(&peer)).collect();
        turn_a_while(&mut app);
        assert!(peer.try_accept().is_none(), "no more than two at once");
        let left = time_left(&mut app);
        assert_eq!(app.repl.roster().at_work().len(), pair.len());
        // Three times this would exceed a common deadline.
        app.advance(left - SECOND);
        exchanges.iter().for_each(|exchange| answer(exchange, "late and in time"));
        count += pair.len();
        app.turn_until("both members are done", |app| {
            app.repl.active_members(&run).len() == 5 - count || app.repl.outcome(&run).is_some()
        });
    }
    assert_eq!(outcome_names(&finish(&mut app, &run)), ["answered"; 5]);
}

#[test]
fn a_rate_limit_pauses_all_agents_and_the_member_retries_afterwards() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let run = start(&mut app, &members(&["a"]), "hello", parallel());
    let [first] = accept_members(&mut app, &peer, ["a"]);
    limit(&first, 7);
    let left = wait_for_retry(&mut app, 7 * SECOND);
    app.say(0, "meanwhile");
    turn_a_while(&mut app);
    assert!(peer.try_accept().is_none(), "agent 0 waits, too");
    app.advance(left);
    for _ in 0..2 {
        answer(&app.accept(&peer), "done");
    }
    assert_eq!(finish(&mut app, &run).results[0].attempts, 2);
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["done"]);
}

#[test]
fn a_failure_after_partial_text_that_a_person_saw_is_not_retried_and_keeps_the_text() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan::peer(&peer.url()));
    let run = start(&mut app, &members(&["a"]), "hello", parallel());
    let [first] = accept_members(&mut app, &peer, ["a"]);
    let (_, agent) = app.repl.active_members(&run).remove(0);
    app.ask(0, Change::Switch(agent));
    first.stream().text("some wor");
    app.turn_until("the text", |app| {
        app.repl.roster().get(agent).is_some_and(|agent| agent.partial_text() == "some wor")
    });
    first.reset();
    let outcome = finish(&mut app, &run);
    assert_eq!((outcome_names(&outcome), outcome.results[0].attempts), (vec!["failed"], 1));
    let log = app.repl.store().replay(agent).expect("its log stays").0;
    assert!(log.iter().any(|message| format!("{:?}", message.body).contains("some wor")));
}

#[test]
fn a_member_whose_reply_breaks_off_goes_on_from_its_last_complete_point() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let run = start(&mut app, &members(&["a"]), "hello", parallel());
    let [first] = accept_members(&mut app, &peer, ["a"]);
    first.stream().tool_call(0, "c", "list_dir", "{}").finish("tool_calls").done();
    let [second] = accept_members(&mut app, &peer, ["a"]);
    second.stream().text("some wor").hang_up();
    let left = wait_for_retry(&mut app, SECOND);
    app.advance(left);
    let [third] = accept_members(&mut app, &peer, ["a"]);
    assert_eq!(third.request().body, second.request().body);
    answer(&third, "the answer");
    let outcome = finish(&mut app, &run);
    assert_eq!((outcome.answer.as_deref(), outcome.results[0].attempts), (Some("the answer"), 2));
}

#[test]
fn an_interrupt_ends_a_run_with_a_partial_answer_and_closes_every_socket() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let run = start(&mut app, &members(&["a", "b", "c"]), "hello", parallel());
    let [a, b, c] = accept_members(&mut app, &peer, ["a", "b", "c"]);
    answer(&a, "of a");
    app.turn_until("one member is done", |app| app.repl.active_members(&run).len() == 2);
    b.stream().text("half");
    app.repl.interrupt_run(&run);
    let outcome = finish(&mut app, &run);
    assert_eq!((&outcome.status, outcome.answer.as_deref()), (&RunStatus::Interrupted, Some("of a")));
    assert_eq!(outcome_names(&outcome), ["answered", "cancelled", "cancelled"]);
    b.wait_for_close();
    c.wait_for_close();
    assert_eq!((app.repl.roster().len(), stored(&app)), (1, vec!["interrupted"]));
    assert_eq!(app.timeout().why, WakeReason::Nothing);
    app.repl.interrupt_run(&run);
    app.turn();
    assert_eq!(app.repl.outcome(&run).expect("still finished"), outcome);
}

#[test]
fn a_killed_member_has_failed_and_the_others_go_on() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let run = start(&mut app, &members(&["a", "b"]), "hello", parallel());
    let [a, b] = accept_members(&mut app, &peer, ["a", "b"]);
    let (_, victim) = app.repl.active_members(&run).remove(0);
    app.ask(0, Change::Kill { agent_id: victim, cascade: false });
    a.wait_for_close();
    answer(&b, "of b");
    let outcome = finish(&mut app, &run);
    assert_eq!((outcome_names(&outcome), outcome.answer.as_deref()), (vec!["failed", "answered"], Some("of b")));
    assert!(outcome.results[0].error().is_some_and(|error| error.contains("killed")));
}

#[test]
fn killing_the_origin_ends_the_run() {
    for cascade in [false, true] {
        let peer = Peer::start();
        let mut app = app(&peer);
        let boss = app.repl.create(Some("boss"), None).expect("a child");
        let run = app.repl.run_task(boss, members(&["a", "b"]), "hello", parallel()).expect("a run");
        let [a, b] = accept_members(&mut app, &peer, ["a", "b"]);
        app.ask(0, Change::Kill { agent_id: boss, cascade });
        let outcome = finish(&mut app, &run);
        a.wait_for_close();
        b.wait_for_close();
        assert_eq!(outcome.status, RunStatus::Interrupted);
        assert_eq!((app.repl.roster().len(), stored(&app)), (1, vec!["interrupted"]), "cascade: {cascade}");
        assert!(app.repl.roster().busy().is_empty());
    }
}

#[test]
fn after_a_crash_no_member_is_left_and_the_run_is_cut() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let run = start(&mut app, &members(&["a", "b"]), "hello", parallel());
    let [a, _b] = accept_members(&mut app, &peer, ["a", "b"]);
    answer(&a, "of a");
    app.turn_until("one member is done", |app| app.repl.active_members(&run).len() == 1);
    let mut app = app.crash_and_restart();
    assert_eq!((app.repl.roster().len(), stored(&app)), (1, vec!["cut"]));
    let again = start(&mut app, &members(&["a", "b"]), "hello", parallel());
    for name in ["a", "b"] {
        assert!(app.repl.roster().find(name).one().is_none(), "{name}");
    }
    let [_a, _b] = accept_members(&mut app, &peer, ["a", "b"]);
    assert!(app.repl.roster().find("a").one().is_some(), "its name is free again");
    app.repl.leave().expect("an orderly end");
    assert_eq!(app.repl.outcome(&again).expect("finished").status, RunStatus::Interrupted);
    assert_eq!(stored(&app), ["interrupted", "cut"]);
}

#[test]
fn a_run_that_cannot_start_leaves_nothing() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let root = app.id(0);
    let named = |model: &str| Member { model: Some(model.into()), ..Member::new("a") };
    for (members, text) in
        [(vec![named("nobody/knows")], "hello"), (members(&["a", "a"]), "hello"), (members(&["a"]), " ")]
    {
        assert!(app.repl.run_task(root, members, text, parallel()).is_err());
    }
    assert_eq!((stored(&app).len(), app.repl.roster().len(), app.timeout().why), (0, 1, WakeReason::Nothing));
    app.is_disk_full.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(app.repl.run_task(root, members(&["a"]), "hello", parallel()).is_err());
    assert_eq!((app.repl.roster().len(), app.timeout().why), (1, WakeReason::Nothing));
}

#[test]
fn a_full_disk_ends_the_run_and_not_the_loop() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let settings = Settings { strategy: Strategy::Sequential, ..parallel() };
    let run = start(&mut app, &members(&["a", "b"]), "hello", settings);
    let [a] = accept_members(&mut app, &peer, ["a"]);
    app.is_disk_full.store(true, std::sync::atomic::Ordering::Relaxed);
    answer(&a, "of a");
    let outcome = finish(&mut app, &run);
    assert_eq!((outcome_names(&outcome), outcome.answer.as_deref()), (vec!["answered", "failed"], Some("of a")));
    assert_eq!(app.state(0), State::Idle);
}

#[test]
fn two_concurrent_runs_of_the_same_task_are_independent() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let runs = [(); 2].map(|()| start(&mut app, &members(&["a"]), "hello", parallel()));
    assert_ne!(runs[0], runs[1]);
    let exchanges = [(); 2].map(|()| app.accept(&peer));
    let mut names: Vec<String> = app.repl.list().into_iter().map(|one| one.label).collect();
    names.sort();
    assert_eq!(names, ["a", "a-2", "agent 0"]);
    exchanges.iter().for_each(|exchange| answer(exchange, "hi"));
    for run in &runs {
        assert_eq!(finish(&mut app, run).run, run.as_str());
        let events = app.repl.take_events(run);
        let numbers: Vec<u64> = events.iter().map(|event| event.number).collect();
        assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
        assert!(matches!(events.first().map(|event| &event.kind), Some(EventKind::TaskStarted { .. })));
        assert!(matches!(events.last().map(|event| &event.kind), Some(EventKind::TaskCompleted { .. })));
        assert!(app.repl.take_events(run).is_empty());
    }
    assert_eq!(stored(&app), ["completed", "completed"]);
}
