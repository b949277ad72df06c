//! Runs of workflows.

use super::*;

/// `a<b,c` is a step `a` that depends on `b` and `c`; `!a` is critical.
fn run(list: &str, behaviours: Vec<Behaviour>) -> driver::Run {
    run_with(Settings::default(), list, behaviours)
}

fn run_with(settings: Settings, list: &str, behaviours: Vec<Behaviour>) -> driver::Run {
    let step = |step: &str| {
        let (name, before) = step.split_once('<').unwrap_or((step, ""));
        let before: Vec<&str> = before.split(',').filter(|name| !name.is_empty()).collect();
        serde_json::json!({"name": name.trim_start_matches('!'), "critical": name.starts_with('!'), "depends_on": before})
    };
    let json = serde_json::json!({"steps": list.split(' ').map(step).collect::<Vec<_>>()});
    let workflow = Workflow::parse("w", "w", &json.to_string(), &[]).expect("valid");
    let setup = Setup::new(settings.clone(), behaviours);
    let task = Task::of_workflow("r", "the task", &workflow, settings, setup.started_at).expect("valid");
    setup.drive(task, &mut Health::default())
}

#[test]
fn a_layer_runs_in_parallel_and_gets_the_answers_it_depends_on() {
    let run = run(
        "end<left,right left<top right<top top",
        vec![answers(1, "E"), answers(5, "L"), answers(9, "R"), answers(2, "T")],
    );
    assert_eq!(run.log, ["0 start 3", "2 start 1", "2 start 2", "11 start 0", "12 finished"]);
    assert_eq!(run.prompts[0], "the task");
    assert_eq!(run.prompts[1], "the task\n\nAnswers of the previous steps:\n\n<answer step=\"top\">\nT\n</answer>\n");
    let last = &run.prompts[3];
    let positions = ["the task", "step=\"left\">\nL", "step=\"right\">\nR"].map(|part| last.find(part).expect(part));
    assert!(positions.is_sorted() && !last.contains("\nT\n"), "{last}");
    assert_eq!(run.outcome.answer.as_deref(), Some("E"), "only steps on which no other depends");
    assert_eq!(run.outcome.status, RunStatus::Completed);
}

#[test]
fn the_failure_of_a_critical_step_skips_its_dependents() {
    let fails = Behaviour::Fail { after: ms(1), is_retryable: false };
    let run = run(
        "!a b<a c<b other d<other",
        vec![fails, answers(1, "B"), answers(1, "C"), answers(1, "O"), answers(1, "D")],
    );
    assert_eq!(outcome_names(&run.outcome), ["failed", "skipped", "skipped", "answered", "answered"]);
    assert_eq!(run.outcome.results[1].error(), Some("depends on a, which gave no answer"));
    let message = "critical step a failed: broken; skipped because of it: b, c";
    assert_eq!(run.outcome.status, RunStatus::Failed(broken(message)));
    assert_eq!(run.outcome.answer.as_deref(), Some("D"), "independent steps go on");
}

#[test]
fn dependents_of_other_failed_steps_run_without_the_answer() {
    let fails = Behaviour::Fail { after: ms(1), is_retryable: false };
    let run = run("a b c<a,b", vec![fails, answers(1, "B"), answers(1, "C")]);
    assert_eq!(outcome_names(&run.outcome), ["failed", "answered", "answered"]);
    assert!(run.prompts[2].contains("step=\"a\">\n(no answer)\n") && !run.prompts[2].contains("broken"));
    assert_eq!((&run.outcome.status, run.outcome.failures()), (&RunStatus::Completed, vec!["a: broken".to_owned()]));
}

#[test]
fn without_an_answer_of_a_last_step_the_run_fails_with_a_partial_answer() {
    let run = run("a b<a", vec![answers(1, "A"), Behaviour::Hang]);
    assert_eq!(run.outcome.answer.as_deref(), Some("A"));
    assert_eq!(
        run.outcome.status,
        RunStatus::Failed(Error::new(ErrorKind::Timeout, "b did not answer: timed out after 30 s"))
    );
}

#[test]
fn the_chosen_step_of_a_partial_answer_is_named() {
    let settings = Settings { aggregation: Aggregation::SelectBest, ..Settings::default() };
    let behaviours =
        vec![answers(1, "plain"), answers(1, "# best"), Behaviour::Fail { after: ms(1), is_retryable: false }];
    let run = run_with(settings, "a b c<a,b", behaviours);
    assert_eq!((run.outcome.chosen.as_deref(), run.outcome.answer.as_deref()), (Some("b"), Some("# best")));
}

#[test]
fn a_failed_critical_last_step_fails_the_run() {
    let run = run("a !b<a", vec![answers(1, "A"), Behaviour::Fail { after: ms(1), is_retryable: false }]);
    assert_eq!(run.outcome.status, RunStatus::Failed(broken("critical step b failed: broken")));
}

#[test]
fn a_dense_graph_of_100_failing_steps_finishes() {
    let names: Vec<String> = (0..100)
        .map(|at| format!("s{at}<{}", (0..at).map(|n| format!("s{n}")).collect::<Vec<_>>().join(",")))
        .collect();
    let run = run(&names.join(" "), vec![Behaviour::Fail { after: ms(1), is_retryable: false }; 100]);
    assert_eq!(outcome_names(&run.outcome), ["failed"; 100]);
}
