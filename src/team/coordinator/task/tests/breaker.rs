//! The circuit breaker over many tasks.

use super::*;

fn one_task(behaviour: Behaviour, clock: Duration, health: &mut Health) -> Rc<Outcome> {
    let mut setup = Setup::new(settings(Strategy::Sequential), vec![behaviour]);
    setup.clock.advance(clock);
    setup.started_at = setup.clock.now();
    setup.run_with(health).outcome
}

#[test]
fn the_breaker_opens_after_five_failed_tasks_not_attempts() {
    let mut health = Health::default();
    for task in 0..5 {
        let outcome = one_task(Behaviour::Fail { after: ms(1), is_retryable: true }, ms(0), &mut health);
        assert_eq!((outcome_names(&outcome), outcome.results[0].attempts), (vec!["failed"], 4), "task {task}");
    }
    let before = health.clone();
    let outcome = one_task(answers(1, "x"), ms(0), &mut health);
    assert_eq!(outcome_names(&outcome), ["skipped"]);
    assert_eq!(health, before, "skipping changes nothing");
    assert!(outcome.error().is_some_and(|error| error.contains("circuit breaker open")));
}

#[test]
fn the_probe_after_the_cool_down_closes_or_reopens_the_breaker() {
    for (behaviour, outcome, breaker) in
        [(answers(1, "x"), "answered", "closed"), (Behaviour::Hang, "timed out", "open")]
    {
        let mut health = Health::default();
        for _ in 0..5 {
            one_task(Behaviour::Fail { after: ms(0), is_retryable: false }, ms(0), &mut health);
        }
        assert_eq!(outcome_names(&one_task(answers(1, "x"), ms(59_999), &mut health)), ["skipped"]);
        assert_eq!(outcome_names(&one_task(behaviour, ms(60_000), &mut health)), [outcome]);
        assert_eq!(health.of("m0").breaker.name(), breaker);
        let next = outcome_names(&one_task(answers(1, "x"), ms(60_001), &mut health));
        assert_eq!(next, [if breaker == "closed" { "answered" } else { "skipped" }]);
    }
}

#[test]
fn only_one_of_two_runs_probes_and_after_an_interrupt_the_next_run_does() {
    let mut setup = Setup::new(settings(Strategy::Sequential), vec![Behaviour::Hang]);
    let policy = Settings::default().breaker;
    (0..5).for_each(|_| setup.health.on_failure("m0", policy, setup.started_at));
    setup.clock.advance(ms(60_000));
    let (mut first, mut second, mut third) = (setup.task(), setup.task(), setup.task());
    assert!(matches!(first.step(&mut setup.context()), Step::Start { .. }));
    assert!(matches!(second.step(&mut setup.context()), Step::Finished(_)), "the probe is under way");
    first.on_interrupt(&mut setup.context());
    assert_eq!(setup.health.of("m0").breaker, Breaker::Open { until: setup.clock.now() });
    assert!(matches!(third.step(&mut setup.context()), Step::Start { .. }));
}

#[test]
fn a_pipeline_passes_over_a_skipped_stage() {
    let mut setup = Setup::new(settings(Strategy::Pipeline), vec![answers(1, "a"), answers(1, "b"), answers(1, "c")]);
    (0..5).for_each(|_| setup.health.on_failure("m1", Settings::default().breaker, setup.started_at));
    let run = setup.run();
    assert_eq!(
        (outcome_names(&run.outcome), run.prompts),
        (vec!["answered", "skipped", "answered"], vec!["the task".to_owned(), "a".into()])
    );
    assert_eq!(run.outcome.status, RunStatus::Completed);
}
