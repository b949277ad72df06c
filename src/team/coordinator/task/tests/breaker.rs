//! The breaker over many tasks.

use super::*;

/// Runs one task of one member.
fn one_task(play: Play, clock: Duration, health: &mut Health) -> Rc<Outcome> {
    let mut scene = Scene::new(usual(Strategy::Sequential), vec![play]);
    scene.clock.advance(clock);
    scene.began = scene.clock.now();
    scene.run_with(health).outcome
}

#[test]
fn it_opens_after_five_failed_tasks_in_a_row_however_many_attempts_they_took() {
    let mut health = Health::default();
    for task in 0..5 {
        let outcome = one_task(Play::Fail { after: ms(1), is_retryable: true }, ms(0), &mut health);
        assert_eq!((endings(&outcome), outcome.results[0].attempts), (vec!["failed"], 4), "task {task}");
    }
    let before = health.clone();
    let outcome = one_task(answers(1, "x"), ms(0), &mut health);
    assert_eq!(endings(&outcome), ["skipped"]);
    assert_eq!(health, before, "to be skipped changes nothing");
    assert!(outcome.error().is_some_and(|words| words.contains("too often")));
}

#[test]
fn after_the_cool_down_one_task_is_tried_which_closes_it_or_opens_it_again() {
    for (play, ending, breaker) in [(answers(1, "x"), "answered", "closed"), (Play::Hang, "timed out", "open")] {
        let mut health = Health::default();
        for _ in 0..5 {
            one_task(Play::Fail { after: ms(0), is_retryable: false }, ms(0), &mut health);
        }
        assert_eq!(endings(&one_task(answers(1, "x"), ms(59_999), &mut health)), ["skipped"]);
        assert_eq!(endings(&one_task(play, ms(60_000), &mut health)), [ending]);
        assert_eq!(health.of("m0").breaker.name(), breaker);
        let next = endings(&one_task(answers(1, "x"), ms(60_001), &mut health));
        assert_eq!(next, [if breaker == "closed" { "answered" } else { "skipped" }]);
    }
}

#[test]
fn of_two_runs_at_once_only_one_tries_the_member_and_an_interrupt_leaves_the_trial_to_the_next() {
    let mut scene = Scene::new(usual(Strategy::Sequential), vec![Play::Hang]);
    let policy = Settings::default().breaker;
    (0..5).for_each(|_| scene.health.on_failure("m0", policy, scene.began));
    scene.clock.advance(ms(60_000));
    let (mut first, mut second, mut third) = (scene.task(), scene.task(), scene.task());
    assert!(matches!(first.step(&mut scene.context()), Step::Start { .. }));
    assert!(matches!(second.step(&mut scene.context()), Step::Finished(_)), "the trial is under way");
    first.on_interrupt(&mut scene.context());
    assert_eq!(scene.health.of("m0").breaker, Breaker::Open { until: scene.clock.now() });
    assert!(matches!(third.step(&mut scene.context()), Step::Start { .. }));
}

#[test]
fn a_pipeline_goes_round_a_stage_that_is_left_alone() {
    let mut scene = Scene::new(usual(Strategy::Pipeline), vec![answers(1, "a"), answers(1, "b"), answers(1, "c")]);
    (0..5).for_each(|_| scene.health.on_failure("m1", Settings::default().breaker, scene.began));
    let run = scene.run();
    assert_eq!(
        (endings(&run.outcome), run.prompts),
        (vec!["answered", "skipped", "answered"], vec!["the task".to_owned(), "a".into()])
    );
    assert_eq!(run.outcome.ending, RunEnding::Completed);
}
