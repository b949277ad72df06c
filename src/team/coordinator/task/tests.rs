//! Runs with a clock that is moved by hand: by scenes below, and in a matrix against a naive reading of the rules.

mod breaker;
mod driver;
mod judges;
mod matrix;
mod workflows;

use std::time::Duration;

use super::*;
use crate::team::coordinator::health::Breaker;
use crate::team::coordinator::outcome::RunEnding;
use crate::team::coordinator::settings::Strategy;
use driver::{Play, Scene, answers, ms};

fn usual(strategy: Strategy) -> Settings {
    Settings { strategy, ..Settings::default() }
}

/// A failure of the sort that members have here.
fn broken(words: &str) -> Error {
    Error::new(ErrorKind::Network, words)
}

fn endings(outcome: &Outcome) -> Vec<&'static str> {
    let name = |result: &crate::team::coordinator::result::MemberResult| match result.ending {
        Ending::Answered(_) => "answered",
        Ending::Failed(_) => "failed",
        Ending::TimedOut(_) => "timed out",
        Ending::Skipped(_) => "skipped",
        Ending::Cancelled(_) => "cancelled",
    };
    outcome.results.iter().map(name).collect()
}

#[test]
fn an_answer_a_moment_before_the_deadline_counts_and_one_at_it_does_not() {
    for (after, ending) in [(ms(30_000) - Duration::from_micros(1), "answered"), (ms(30_000), "timed out")] {
        // The peer does not heed the cancellation: what it says later is heard and must not count.
        let scene = Scene::new(usual(Strategy::Sequential), vec![Play::Late { after }]);
        let run = scene.run();
        assert_eq!(endings(&run.outcome), [ending]);
        assert!(run.outcome.duration <= ms(30_000));
    }
}

#[test]
fn an_answer_that_is_told_late_is_late_even_if_nobody_kept_the_deadline() {
    let mut scene = Scene::new(usual(Strategy::Sequential), vec![Play::Hang]);
    let mut task = scene.task();
    assert!(matches!(task.step(&mut scene.context()), Step::Start { .. }));
    task.on_begun(Who::Member(0), scene.clock.now());
    scene.clock.advance(ms(40_000));
    task.on_answer(Who::Member(0), "too late", &mut scene.context());
    assert_eq!(task.step(&mut scene.context()), Step::Cancel { agent_id: Who::Member(0) });
    let Step::Finished(outcome) = task.step(&mut scene.context()) else { panic!("it is over") };
    assert_eq!((endings(&outcome), &outcome.answer), (vec!["timed out"], &None));
}

#[test]
fn a_hung_member_is_cancelled_at_its_deadline_and_the_next_one_starts() {
    let run = Scene::new(usual(Strategy::Sequential), vec![Play::Hang, answers(10, "fine")]).run();
    assert_eq!(run.log, ["0 start 0", "30000 cancel 0", "30000 start 1", "30010 over"]);
    assert_eq!(run.outcome.answer.as_deref(), Some("fine"));
    assert_eq!(run.outcome.failures(), ["m0: timed out after 30 s"]);
    assert_eq!(run.outcome.ending, RunEnding::Completed);
}

#[test]
fn a_failed_attempt_is_made_again_after_waits_that_double() {
    let play = Play::FailFirst { times: 3, after: ms(10), text: "at last".into() };
    let run = Scene::new(usual(Strategy::Sequential), vec![play]).run();
    assert_eq!(run.log, ["0 start 0", "110 start 0", "320 start 0", "730 start 0", "740 over"]);
    let result = &run.outcome.results[0];
    assert_eq!((result.answer(), result.attempts, result.duration), (Some("at last"), 4, ms(740)));
}

#[test]
fn jitter_adds_a_quarter_at_most() {
    let play = || Play::FailFirst { times: 2, after: ms(0), text: "x".into() };
    for (chance, log) in [(0.0, "300 over"), (0.5, "337 over"), (1.0, "375 over")] {
        let mut scene = Scene::new(usual(Strategy::Sequential), vec![play()]);
        scene.chance = chance;
        assert_eq!(scene.run().log.last().map(String::as_str), Some(log));
    }
}

#[test]
fn after_the_last_retry_the_member_has_failed_and_says_how_often_it_was_tried() {
    let run = Scene::new(usual(Strategy::Sequential), vec![Play::Fail { after: ms(10), is_retryable: true }]).run();
    assert_eq!(run.outcome.results[0].ending, Ending::Failed(broken("broken - tried 4 times")));
    let run = Scene::new(usual(Strategy::Sequential), vec![Play::Fail { after: ms(10), is_retryable: false }]).run();
    assert_eq!(run.outcome.results[0].ending, Ending::Failed(broken("broken")));
    assert_eq!(run.outcome.ending, RunEnding::Failed(broken("m0 did not answer: broken")));
}

#[test]
fn a_wait_that_the_other_side_asks_for_is_kept_and_one_that_is_too_long_is_not_begun() {
    for (seconds, log) in [(2, "2000 start 0"), (29, "29000 start 0"), (30, "0 over"), (u32::MAX, "0 over")] {
        let mut scene = Scene::new(usual(Strategy::Sequential), vec![Play::Hang]);
        let mut task = scene.task();
        task.step(&mut scene.context());
        let mut error = Error::new(ErrorKind::RateLimited, "slow down");
        error.retry_after = Some(seconds);
        task.on_failure(Who::Member(0), &error, true, &mut scene.context());
        let next = match task.step(&mut scene.context()) {
            Step::Wait(Some(until)) => {
                scene.clock.advance(until - scene.clock.now());
                assert!(matches!(task.step(&mut scene.context()), Step::Start { attempt: 2, .. }));
                format!("{} start 0", scene.elapsed())
            }
            Step::Finished(outcome) => {
                assert!(outcome.results[0].error().is_some_and(|words| words.contains("its time of 30 s would end")));
                assert!(!outcome.results[0].is_timed_out());
                format!("{} over", scene.elapsed())
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(next, log);
    }
}

#[test]
fn the_deadline_covers_all_attempts_and_waits() {
    let settings = Settings { agent_timeout: ms(500), ..usual(Strategy::Sequential) };
    let run = Scene::new(settings, vec![Play::Fail { after: ms(150), is_retryable: true }]).run();
    assert_eq!(run.log, ["0 start 0", "250 start 0", "400 over"], "the third would begin when the time is over");
    let settings = Settings { agent_timeout: ms(560), ..usual(Strategy::Sequential) };
    let play = Play::FailFirst { times: 1, after: ms(150), text: String::new() };
    let run = Scene::new(settings, vec![Play::Script(vec![play, Play::Hang])]).run();
    assert_eq!(run.log, ["0 start 0", "250 start 0", "560 cancel 0", "560 over"]);
    assert_eq!(run.outcome.results[0].error(), Some("timed out after 0.56 s; before that: broken"));
}

#[test]
fn the_time_of_a_member_counts_from_when_it_is_given_a_place() {
    let mut scene = Scene::new(usual(Strategy::Parallel), (0..6).map(|_| answers(20_000, "x")).collect());
    scene.places = 2;
    let run = scene.run();
    assert_eq!(endings(&run.outcome), ["answered"; 6]);
    assert_eq!(run.outcome.duration, ms(60_000));
    assert!(run.outcome.results.iter().all(|result| result.duration == ms(20_000)));
}

#[test]
fn members_that_wait_for_a_place_have_no_deadline_to_wake_anybody() {
    let mut scene = Scene::new(usual(Strategy::Parallel), vec![Play::Hang, Play::Hang]);
    let mut task = scene.task();
    assert!(matches!(task.step(&mut scene.context()), Step::Start { agent_id: Who::Member(0), .. }));
    assert!(matches!(task.step(&mut scene.context()), Step::Start { agent_id: Who::Member(1), .. }));
    assert_eq!(task.step(&mut scene.context()), Step::Wait(None));
    scene.clock.advance(ms(5));
    task.on_begun(Who::Member(1), scene.clock.now());
    assert_eq!(task.step(&mut scene.context()), Step::Wait(Some(scene.began + ms(30_005))));
}

#[test]
fn all_start_at_once_in_parallel_and_results_keep_the_order_of_the_members() {
    let plays = (0..100).map(|at| answers(1000 - at, &at.to_string())).collect();
    let run = Scene::new(usual(Strategy::Parallel), plays).run();
    assert_eq!(run.log.iter().filter(|line| line.starts_with("0 start")).count(), 100);
    assert_eq!(run.outcome.duration, ms(1000), "as long as the slowest");
    let expected: Vec<String> = (0..100).map(|at| at.to_string()).collect();
    assert_eq!(run.outcome.answer, Some(expected.join("\n---\n")));
}

#[test]
fn the_first_success_cancels_at_once_whoever_works_waits_to_try_again_or_waits_for_a_place() {
    let settings = Settings { aggregation: Aggregation::FirstSuccess, ..usual(Strategy::Parallel) };
    let plays = vec![
        Play::Hang,
        Play::Fail { after: ms(45), is_retryable: true },
        Play::Fail { after: ms(1), is_retryable: false },
        answers(50, "first"),
        answers(10, "never begun"),
    ];
    let mut scene = Scene::new(settings, plays);
    scene.places = 4;
    let mut health = scene.health.clone();
    let run = scene.run_with(&mut health);
    assert_eq!(endings(&run.outcome), ["cancelled", "cancelled", "failed", "cancelled", "answered"]);
    // The fifth was given the place of the third: it is first.
    assert_eq!((run.outcome.chosen.as_deref(), run.outcome.duration), (Some("m4"), ms(11)));
    assert_eq!(health.of("m0"), crate::team::coordinator::health::MemberHealth::default());
    assert_eq!(health.of("m2").failures, 1);
}

#[test]
fn a_member_that_was_to_be_asked_again_in_the_moment_of_the_decision_is_cancelled_and_not_asked() {
    let settings = Settings { aggregation: Aggregation::FirstSuccess, ..usual(Strategy::Parallel) };
    let mut scene = Scene::new(settings, vec![Play::Hang, Play::Hang]);
    let mut task = scene.task();
    (0..2).for_each(|_| drop(task.step(&mut scene.context())));
    task.on_failure(Who::Member(0), &broken("broken"), true, &mut scene.context());
    scene.clock.advance(ms(100));
    task.on_answer(Who::Member(1), "first", &mut scene.context());
    assert_eq!(task.step(&mut scene.context()), Step::Cancel { agent_id: Who::Member(0) });
    assert!(matches!(task.step(&mut scene.context()), Step::Finished(_)));
}

#[test]
fn who_waits_for_a_place_when_it_is_decided_was_never_started() {
    let settings = Settings { aggregation: Aggregation::FirstSuccess, ..usual(Strategy::Parallel) };
    let mut scene = Scene::new(settings, vec![answers(5, "first"), answers(1, "second")]);
    scene.places = 1;
    let run = scene.run();
    assert_eq!(endings(&run.outcome), ["answered", "skipped"]);
    assert_eq!(run.log, ["0 start 0", "0 start 1", "5 cancel 1", "5 over"]);
    assert_eq!(run.outcome.results[1].error(), Some("not started: m0 has answered first"));
    assert_eq!(run.outcome.results[1].attempts, 0);
}

#[test]
fn each_stage_of_a_pipeline_is_given_the_answer_of_the_one_before() {
    let plays = vec![answers(1, "a\n"), answers(1, "b"), answers(1, "c")];
    let run = Scene::new(usual(Strategy::Pipeline), plays).run();
    assert_eq!(run.prompts, ["the task", "a\n", "b"]);
    assert_eq!(run.outcome.ending, RunEnding::Completed);
}

#[test]
fn a_failed_stage_ends_the_run_with_what_there_is_and_says_which() {
    let plays = vec![answers(1, "a"), Play::Fail { after: ms(1), is_retryable: false }, answers(1, "c")];
    let run = Scene::new(usual(Strategy::Pipeline), plays).run();
    assert_eq!(endings(&run.outcome), ["answered", "failed", "skipped"]);
    assert_eq!(run.outcome.answer.as_deref(), Some("a"));
    assert_eq!(run.outcome.ending, RunEnding::Failed(broken("stage m1 failed: broken")));
    assert_eq!(run.outcome.results[2].error(), Some("not reached: m1 has handed nothing on"));
}

#[test]
fn a_stage_that_says_nothing_has_nothing_to_hand_on_unless_it_is_the_last() {
    let run = Scene::new(usual(Strategy::Pipeline), vec![answers(1, " \n"), answers(1, "b")]).run();
    assert_eq!(run.outcome.ending, RunEnding::Failed(Error::new(ErrorKind::System, "stage m0 answered nothing")));
    assert_eq!(endings(&run.outcome), ["answered", "skipped"]);
    let run = Scene::new(usual(Strategy::Pipeline), vec![answers(1, "a"), answers(1, "")]).run();
    assert_eq!(run.outcome.ending, RunEnding::Completed);
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
        let mut task =
            Task::new("r", &text, members, usual(Strategy::Adaptive), Moment::default()).expect("it can be run");
        let events = task.take_events();
        let What::TaskStarted { strategy, schedule: found, .. } = &events[0].what else { panic!("{events:?}") };
        assert_eq!((*strategy, *found), ("adaptive", schedule));
    }
}

#[test]
fn an_interrupt_stops_everybody_and_keeps_what_there_is() {
    for (strategy, expected) in [
        (Strategy::Parallel, ["answered", "cancelled", "cancelled"]),
        (Strategy::Sequential, ["answered", "cancelled", "skipped"]),
        (Strategy::Pipeline, ["answered", "cancelled", "skipped"]),
    ] {
        let retrying = Play::Fail { after: ms(20), is_retryable: true };
        let mut scene = Scene::new(usual(strategy), vec![answers(10, "kept"), retrying, Play::Hang]);
        scene.interrupt_at = Some(ms(60));
        let mut health = scene.health.clone();
        let run = scene.run_with(&mut health);
        assert_eq!(endings(&run.outcome), expected, "{strategy}");
        assert_eq!((&run.outcome.ending, run.outcome.answer.as_deref()), (&RunEnding::Interrupted, Some("kept")));
        assert_eq!(run.outcome.duration, ms(60));
        assert_eq!((health.of("m0").successes, health.of("m1").failures), (1, 0), "{strategy}");
    }
}

#[test]
fn an_interrupt_before_anything_or_after_the_end_is_harmless() {
    let mut scene = Scene::new(usual(Strategy::Parallel), vec![answers(1, "a"), answers(1, "b")]);
    let mut task = scene.task();
    task.on_interrupt(&mut scene.context());
    let Step::Finished(outcome) = task.step(&mut scene.context()) else { panic!("it is over") };
    assert_eq!((endings(&outcome), &outcome.ending), (vec!["skipped"; 2], &RunEnding::Interrupted));
    let events = task.take_events().len();
    task.on_interrupt(&mut scene.context());
    task.on_answer(Who::Member(0), "late", &mut scene.context());
    assert_eq!(task.step(&mut scene.context()), Step::Finished(outcome));
    assert_eq!((task.take_events().len(), events), (0, 4));
}

#[test]
fn news_of_who_was_not_asked_or_is_not_there_change_nothing() {
    let mut scene = Scene::new(usual(Strategy::Sequential), vec![Play::Hang, Play::Hang]);
    let mut task = scene.task();
    task.step(&mut scene.context());
    task.take_events();
    for agent_id in [Who::Member(1), Who::Member(2), Who::Member(usize::MAX), Who::Judge] {
        task.on_begun(agent_id, scene.clock.now());
        task.on_tokens(agent_id, 5);
        task.on_answer(agent_id, "x", &mut scene.context());
        task.on_failure(agent_id, &Error::new(ErrorKind::Network, "x"), true, &mut scene.context());
    }
    assert_eq!((task.take_events(), task.step(&mut scene.context())), (vec![], Step::Wait(None)));
}

#[test]
fn tokens_of_all_attempts_are_counted_and_of_none_that_is_over() {
    let mut scene = Scene::new(usual(Strategy::Sequential), vec![Play::Hang]);
    let mut task = scene.task();
    task.step(&mut scene.context());
    task.on_tokens(Who::Member(0), 10);
    task.on_failure(Who::Member(0), &Error::new(ErrorKind::Network, "x"), true, &mut scene.context());
    scene.clock.advance(ms(100));
    assert!(matches!(task.step(&mut scene.context()), Step::Start { attempt: 2, .. }));
    task.on_tokens(Who::Member(0), 5);
    task.on_answer(Who::Member(0), "done", &mut scene.context());
    task.on_tokens(Who::Member(0), 1000);
    let Step::Finished(outcome) = task.step(&mut scene.context()) else { panic!("it is over") };
    assert_eq!((outcome.tokens, outcome.results[0].tokens), (15, 15));
}

#[test]
fn what_is_no_task_is_refused_before_anything_runs() {
    let refused = |text: &str, members: &[&str], settings| {
        let members = members.iter().map(|name| Member::new(*name)).collect();
        Task::new("r", text, members, settings, Moment::default()).unwrap_err().message
    };
    assert!(refused("x", &["a", "b", "a"], Settings::default()).contains("two members \"a\""));
    assert!(refused(" \n", &["a"], Settings::default()).contains("what is the task?"));
    assert!(refused("x", &["(judge)"], Settings::default()).contains("cannot be a member's name"));
    let no_time = Settings { agent_timeout: Duration::ZERO, ..Settings::default() };
    assert!(refused("x", &["a"], no_time).contains("more than 0 s"));
    let many: Vec<String> = (0..101).map(|at| at.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(refused("x", &many, Settings::default()).contains("at most 100"));
}

#[test]
fn the_same_task_twice_is_two_runs_that_can_be_told_apart() {
    let lines = |run: &str| -> Vec<String> {
        let mut task =
            Task::new(run, "t", vec![Member::new("a")], Settings::default(), Moment::default()).expect("a task");
        task.take_events().iter().map(|event| event.json_line(task.run())).collect()
    };
    assert_ne!(lines("r1"), lines("r2"));
    assert!(lines("r1")[0].contains("\"run\":\"r1\""));
}
