//! Runs with a manual clock: single cases below, and a matrix against a naive implementation of the rules.

mod breaker;
mod driver;
mod judges;
mod matrix;
mod workflows;

use std::time::Duration;

use super::*;
use crate::base::error::ErrorKind;
use crate::team::coordinator::health::Breaker;
use crate::team::coordinator::outcome::RunStatus;
use crate::team::coordinator::settings::Strategy;
use driver::{Behaviour, Setup, answers, ms};

fn settings(strategy: Strategy) -> Settings {
    Settings { strategy, ..Settings::default() }
}

fn broken(message: &str) -> Error {
    Error::new(ErrorKind::Network, message)
}

fn outcome_names(outcome: &Outcome) -> Vec<&'static str> {
    let name = |result: &crate::team::coordinator::result::MemberResult| match result.outcome {
        MemberOutcome::Answered(_) => "answered",
        MemberOutcome::Failed(_) => "failed",
        MemberOutcome::TimedOut(_) => "timed out",
        MemberOutcome::Skipped(_) => "skipped",
        MemberOutcome::Cancelled(_) => "cancelled",
    };
    outcome.results.iter().map(name).collect()
}

#[test]
fn an_answer_counts_before_the_deadline_and_not_at_it() {
    for (after, outcome) in [(ms(30_000) - Duration::from_micros(1), "answered"), (ms(30_000), "timed out")] {
        // The peer ignores the cancellation: its late answer must not count.
        let setup = Setup::new(settings(Strategy::Sequential), vec![Behaviour::Late { after }]);
        let run = setup.run();
        assert_eq!(outcome_names(&run.outcome), [outcome]);
        assert!(run.outcome.duration <= ms(30_000));
    }
}

#[test]
fn a_late_answer_is_discarded_even_if_the_deadline_was_not_noticed() {
    let mut setup = Setup::new(settings(Strategy::Sequential), vec![Behaviour::Hang]);
    let mut task = setup.task();
    assert!(matches!(task.step(&mut setup.context()), Step::Start { .. }));
    task.on_started(MemberId::Member(0), setup.clock.now());
    setup.clock.advance(ms(40_000));
    task.on_answer(MemberId::Member(0), "too late", &mut setup.context());
    assert_eq!(task.step(&mut setup.context()), Step::Cancel { member_id: MemberId::Member(0) });
    let Step::Finished(outcome) = task.step(&mut setup.context()) else { panic!("not finished") };
    assert_eq!((outcome_names(&outcome), &outcome.answer), (vec!["timed out"], &None));
}

#[test]
fn a_hung_member_is_cancelled_at_its_deadline_and_the_next_starts() {
    let run = Setup::new(settings(Strategy::Sequential), vec![Behaviour::Hang, answers(10, "fine")]).run();
    assert_eq!(run.log, ["0 start 0", "30000 cancel 0", "30000 start 1", "30010 finished"]);
    assert_eq!(run.outcome.answer.as_deref(), Some("fine"));
    assert_eq!(run.outcome.failures(), ["m0: timed out after 30 s"]);
    assert_eq!(run.outcome.status, RunStatus::Completed);
}

#[test]
fn failed_attempts_are_retried_with_doubling_delays() {
    let behaviour = Behaviour::FailFirst { times: 3, after: ms(10), text: "at last".into() };
    let run = Setup::new(settings(Strategy::Sequential), vec![behaviour]).run();
    assert_eq!(run.log, ["0 start 0", "110 start 0", "320 start 0", "730 start 0", "740 finished"]);
    let result = &run.outcome.results[0];
    assert_eq!((result.answer(), result.attempts, result.duration), (Some("at last"), 4, ms(740)));
}

#[test]
fn jitter_adds_a_quarter_at_most() {
    let behaviour = || Behaviour::FailFirst { times: 2, after: ms(0), text: "x".into() };
    for (chance, log) in [(0.0, "300 finished"), (0.5, "337 finished"), (1.0, "375 finished")] {
        let mut setup = Setup::new(settings(Strategy::Sequential), vec![behaviour()]);
        setup.chance = chance;
        assert_eq!(setup.run().log.last().map(String::as_str), Some(log));
    }
}

#[test]
fn after_the_last_retry_the_member_fails_with_the_number_of_attempts() {
    let run =
        Setup::new(settings(Strategy::Sequential), vec![Behaviour::Fail { after: ms(10), is_retryable: true }]).run();
    assert_eq!(run.outcome.results[0].outcome, MemberOutcome::Failed(broken("broken (4 attempts)")));
    let run =
        Setup::new(settings(Strategy::Sequential), vec![Behaviour::Fail { after: ms(10), is_retryable: false }]).run();
    assert_eq!(run.outcome.results[0].outcome, MemberOutcome::Failed(broken("broken")));
    assert_eq!(run.outcome.status, RunStatus::Failed(broken("m0 did not answer: broken")));
}

#[test]
fn a_delay_that_the_server_asks_for_is_kept_unless_it_exceeds_the_timeout() {
    for (seconds, log) in [(2, "2000 start 0"), (29, "29000 start 0"), (30, "0 finished"), (u32::MAX, "0 finished")] {
        let mut setup = Setup::new(settings(Strategy::Sequential), vec![Behaviour::Hang]);
        let mut task = setup.task();
        task.step(&mut setup.context());
        let mut error = Error::new(ErrorKind::RateLimited, "slow down");
        error.retry_after = Some(seconds);
        task.on_failure(MemberId::Member(0), &error, true, &mut setup.context());
        let next = match task.step(&mut setup.context()) {
            Step::Wait(Some(until)) => {
                setup.clock.advance(until - setup.clock.now());
                assert!(matches!(task.step(&mut setup.context()), Step::Start { attempt: 2, .. }));
                format!("{} start 0", setup.elapsed())
            }
            Step::Finished(outcome) => {
                assert!(
                    outcome.results[0].error().is_some_and(|error| error.contains("not retried: the timeout of 30 s"))
                );
                assert!(!outcome.results[0].is_timed_out());
                format!("{} finished", setup.elapsed())
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(next, log);
    }
}

#[test]
fn the_deadline_covers_all_attempts_and_delays() {
    let settings = Settings { agent_timeout: ms(500), ..settings(Strategy::Sequential) };
    let run = Setup::new(settings, vec![Behaviour::Fail { after: ms(150), is_retryable: true }]).run();
    assert_eq!(
        run.log,
        ["0 start 0", "250 start 0", "400 finished"],
        "the third attempt would start after the deadline"
    );
    let settings = Settings { agent_timeout: ms(560), ..self::settings(Strategy::Sequential) };
    let behaviour = Behaviour::FailFirst { times: 1, after: ms(150), text: String::new() };
    let run = Setup::new(settings, vec![Behaviour::Sequence(vec![behaviour, Behaviour::Hang])]).run();
    assert_eq!(run.log, ["0 start 0", "250 start 0", "560 cancel 0", "560 finished"]);
    assert_eq!(run.outcome.results[0].error(), Some("timed out after 0.56 s (previous attempt: broken)"));
}

#[test]
fn the_time_limit_counts_from_the_first_slot() {
    let mut setup = Setup::new(settings(Strategy::Parallel), (0..6).map(|_| answers(20_000, "x")).collect());
    setup.slots = 2;
    let run = setup.run();
    assert_eq!(outcome_names(&run.outcome), ["answered"; 6]);
    assert_eq!(run.outcome.duration, ms(60_000));
    assert!(run.outcome.results.iter().all(|result| result.duration == ms(20_000)));
}

#[test]
fn members_that_wait_for_a_slot_have_no_deadline() {
    let mut setup = Setup::new(settings(Strategy::Parallel), vec![Behaviour::Hang, Behaviour::Hang]);
    let mut task = setup.task();
    assert!(matches!(task.step(&mut setup.context()), Step::Start { member_id: MemberId::Member(0), .. }));
    assert!(matches!(task.step(&mut setup.context()), Step::Start { member_id: MemberId::Member(1), .. }));
    assert_eq!(task.step(&mut setup.context()), Step::Wait(None));
    setup.clock.advance(ms(5));
    task.on_started(MemberId::Member(1), setup.clock.now());
    assert_eq!(task.step(&mut setup.context()), Step::Wait(Some(setup.started_at + ms(30_005))));
}

#[test]
fn parallel_members_start_at_once_and_results_keep_their_order() {
    let behaviours = (0..100).map(|at| answers(1000 - at, &at.to_string())).collect();
    let run = Setup::new(settings(Strategy::Parallel), behaviours).run();
    assert_eq!(run.log.iter().filter(|line| line.starts_with("0 start")).count(), 100);
    assert_eq!(run.outcome.duration, ms(1000), "as long as the slowest");
    let expected: Vec<String> = (0..100).map(|at| at.to_string()).collect();
    assert_eq!(run.outcome.answer, Some(expected.join("\n---\n")));
}

#[test]
fn first_success_cancels_members_that_work_or_wait_for_a_retry_or_a_slot() {
    let settings = Settings { aggregation: Aggregation::FirstSuccess, ..settings(Strategy::Parallel) };
    let behaviours = vec![
        Behaviour::Hang,
        Behaviour::Fail { after: ms(45), is_retryable: true },
        Behaviour::Fail { after: ms(1), is_retryable: false },
        answers(50, "first"),
        answers(10, "never started_at"),
    ];
    let mut setup = Setup::new(settings, behaviours);
    setup.slots = 4;
    let mut health = setup.health.clone();
    let run = setup.run_with(&mut health);
    assert_eq!(outcome_names(&run.outcome), ["cancelled", "cancelled", "failed", "cancelled", "answered"]);
    // The fifth got the slot of the third and answers first.
    assert_eq!((run.outcome.chosen.as_deref(), run.outcome.duration), (Some("m4"), ms(11)));
    assert_eq!(health.of("m0"), crate::team::coordinator::health::MemberHealth::default());
    assert_eq!(health.of("m2").failures, 1);
}

#[test]
fn a_retry_that_is_due_at_the_decision_is_cancelled() {
    let settings = Settings { aggregation: Aggregation::FirstSuccess, ..settings(Strategy::Parallel) };
    let mut setup = Setup::new(settings, vec![Behaviour::Hang, Behaviour::Hang]);
    let mut task = setup.task();
    (0..2).for_each(|_| drop(task.step(&mut setup.context())));
    task.on_failure(MemberId::Member(0), &broken("broken"), true, &mut setup.context());
    setup.clock.advance(ms(100));
    task.on_answer(MemberId::Member(1), "first", &mut setup.context());
    assert_eq!(task.step(&mut setup.context()), Step::Cancel { member_id: MemberId::Member(0) });
    assert!(matches!(task.step(&mut setup.context()), Step::Finished(_)));
}

#[test]
fn a_member_that_waits_for_a_slot_at_the_decision_was_never_started() {
    let settings = Settings { aggregation: Aggregation::FirstSuccess, ..settings(Strategy::Parallel) };
    let mut setup = Setup::new(settings, vec![answers(5, "first"), answers(1, "second")]);
    setup.slots = 1;
    let run = setup.run();
    assert_eq!(outcome_names(&run.outcome), ["answered", "skipped"]);
    assert_eq!(run.log, ["0 start 0", "0 start 1", "5 cancel 1", "5 finished"]);
    assert_eq!(run.outcome.results[1].error(), Some("not started: m0 answered first"));
    assert_eq!(run.outcome.results[1].attempts, 0);
}

#[test]
fn each_pipeline_stage_gets_the_answer_of_the_previous_one() {
    let behaviours = vec![answers(1, "a\n"), answers(1, "b"), answers(1, "c")];
    let run = Setup::new(settings(Strategy::Pipeline), behaviours).run();
    assert_eq!(run.prompts, ["the task", "a\n", "b"]);
    assert_eq!(run.outcome.status, RunStatus::Completed);
}

#[test]
fn a_failed_stage_ends_the_run_with_a_partial_answer() {
    let behaviours = vec![answers(1, "a"), Behaviour::Fail { after: ms(1), is_retryable: false }, answers(1, "c")];
    let run = Setup::new(settings(Strategy::Pipeline), behaviours).run();
    assert_eq!(outcome_names(&run.outcome), ["answered", "failed", "skipped"]);
    assert_eq!(run.outcome.answer.as_deref(), Some("a"));
    assert_eq!(run.outcome.status, RunStatus::Failed(broken("stage m1 failed: broken")));
    assert_eq!(run.outcome.results[2].error(), Some("not started: stage m1 gave no answer"));
}

#[test]
fn an_empty_answer_ends_a_pipeline_except_at_the_last_stage() {
    let run = Setup::new(settings(Strategy::Pipeline), vec![answers(1, " \n"), answers(1, "b")]).run();
    assert_eq!(
        run.outcome.status,
        RunStatus::Failed(Error::new(ErrorKind::System, "stage m0 returned an empty answer"))
    );
    assert_eq!(outcome_names(&run.outcome), ["answered", "skipped"]);
    let run = Setup::new(settings(Strategy::Pipeline), vec![answers(1, "a"), answers(1, "")]).run();
    assert_eq!(run.outcome.status, RunStatus::Completed);
}

#[test]
fn adaptive_is_parallel_for_more_than_two_members_and_a_task_under_a_thousand_bytes() {
    for (members, bytes, schedule) in [
        (3, 999, "parallel"),
        (3, 1000, "sequential"),
        (2, 999, "sequential"),
        (100, 1, "parallel"),
        (0, 1, "sequential"),
    ] {
        let members = (0..members).map(|at| Member::new(format!("m{at}"))).collect();
        let text = "x".repeat(bytes);
        let mut task = Task::new("r", &text, members, settings(Strategy::Adaptive), Moment::default()).expect("valid");
        let events = task.take_events();
        let EventKind::TaskStarted { strategy, schedule: found, .. } = &events[0].kind else { panic!("{events:?}") };
        assert_eq!((*strategy, *found), ("adaptive", schedule));
    }
}

#[test]
fn an_interrupt_stops_all_members_and_keeps_their_answers() {
    for (strategy, expected) in [
        (Strategy::Parallel, ["answered", "cancelled", "cancelled"]),
        (Strategy::Sequential, ["answered", "cancelled", "skipped"]),
        (Strategy::Pipeline, ["answered", "cancelled", "skipped"]),
    ] {
        let retrying = Behaviour::Fail { after: ms(20), is_retryable: true };
        let mut setup = Setup::new(settings(strategy), vec![answers(10, "kept"), retrying, Behaviour::Hang]);
        setup.interrupt_at = Some(ms(60));
        let mut health = setup.health.clone();
        let run = setup.run_with(&mut health);
        assert_eq!(outcome_names(&run.outcome), expected, "{strategy}");
        assert_eq!((&run.outcome.status, run.outcome.answer.as_deref()), (&RunStatus::Interrupted, Some("kept")));
        assert_eq!(run.outcome.duration, ms(60));
        assert_eq!((health.of("m0").successes, health.of("m1").failures), (1, 0), "{strategy}");
    }
}

#[test]
fn an_interrupt_before_the_start_or_after_the_end_is_harmless() {
    let mut setup = Setup::new(settings(Strategy::Parallel), vec![answers(1, "a"), answers(1, "b")]);
    let mut task = setup.task();
    task.on_interrupt(&mut setup.context());
    let Step::Finished(outcome) = task.step(&mut setup.context()) else { panic!("not finished") };
    assert_eq!((outcome_names(&outcome), &outcome.status), (vec!["skipped"; 2], &RunStatus::Interrupted));
    let events = task.take_events().len();
    task.on_interrupt(&mut setup.context());
    task.on_answer(MemberId::Member(0), "late", &mut setup.context());
    assert_eq!(task.step(&mut setup.context()), Step::Finished(outcome));
    assert_eq!((task.take_events().len(), events), (0, 4));
}

#[test]
fn reports_about_idle_or_unknown_members_change_nothing() {
    let mut setup = Setup::new(settings(Strategy::Sequential), vec![Behaviour::Hang, Behaviour::Hang]);
    let mut task = setup.task();
    task.step(&mut setup.context());
    task.take_events();
    for member_id in [MemberId::Member(1), MemberId::Member(2), MemberId::Member(usize::MAX), MemberId::Judge] {
        task.on_started(member_id, setup.clock.now());
        task.on_tokens(member_id, 5);
        task.on_answer(member_id, "x", &mut setup.context());
        task.on_failure(member_id, &Error::new(ErrorKind::Network, "x"), true, &mut setup.context());
    }
    assert_eq!((task.take_events(), task.step(&mut setup.context())), (vec![], Step::Wait(None)));
}

#[test]
fn tokens_of_all_attempts_count_until_the_member_is_done() {
    let mut setup = Setup::new(settings(Strategy::Sequential), vec![Behaviour::Hang]);
    let mut task = setup.task();
    task.step(&mut setup.context());
    task.on_tokens(MemberId::Member(0), 10);
    task.on_failure(MemberId::Member(0), &Error::new(ErrorKind::Network, "x"), true, &mut setup.context());
    setup.clock.advance(ms(100));
    assert!(matches!(task.step(&mut setup.context()), Step::Start { attempt: 2, .. }));
    task.on_tokens(MemberId::Member(0), 5);
    task.on_answer(MemberId::Member(0), "done", &mut setup.context());
    task.on_tokens(MemberId::Member(0), 1000);
    let Step::Finished(outcome) = task.step(&mut setup.context()) else { panic!("not finished") };
    assert_eq!((outcome.tokens, outcome.results[0].tokens), (15, 15));
}

#[test]
fn invalid_tasks_are_refused() {
    let refused = |text: &str, members: &[&str], settings| {
        let members = members.iter().map(|name| Member::new(*name)).collect();
        Task::new("r", text, members, settings, Moment::default()).unwrap_err().message
    };
    assert!(refused("x", &["a", "b", "a"], Settings::default()).contains("duplicate member name \"a\""));
    assert!(refused(" \n", &["a"], Settings::default()).contains("the task is empty"));
    assert!(refused("x", &["(judge)"], Settings::default()).contains("invalid member name"));
    let no_time = Settings { agent_timeout: Duration::ZERO, ..Settings::default() };
    assert!(refused("x", &["a"], no_time).contains("more than 0 s"));
    let many: Vec<String> = (0..101).map(|at| at.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(refused("x", &many, Settings::default()).contains("at most 100"));
}

#[test]
fn two_runs_of_the_same_task_have_different_events() {
    let lines = |run: &str| -> Vec<String> {
        let mut task =
            Task::new(run, "t", vec![Member::new("a")], Settings::default(), Moment::default()).expect("a task");
        task.take_events().iter().map(|event| event.json_line(&task.run)).collect()
    };
    assert_ne!(lines("r1"), lines("r2"));
    assert!(lines("r1")[0].contains("\"run\":\"r1\""));
}
