//! Runs of workflows.

use super::*;

/// `a<b,c` is a step `a` that depends on `b` and `c`; with a `!` before it, it is critical.
fn run(list: &str, plays: Vec<Play>) -> driver::Run {
    run_with(Settings::default(), list, plays)
}

fn run_with(settings: Settings, list: &str, plays: Vec<Play>) -> driver::Run {
    let step = |step: &str| {
        let (name, before) = step.split_once('<').unwrap_or((step, ""));
        let before: Vec<&str> = before.split(',').filter(|name| !name.is_empty()).collect();
        serde_json::json!({"name": name.trim_start_matches('!'), "critical": name.starts_with('!'), "depends_on": before})
    };
    let json = serde_json::json!({"steps": list.split(' ').map(step).collect::<Vec<_>>()});
    let workflow = Workflow::parse("w", "w", &json.to_string(), &[]).expect("it can be carried out");
    let scene = Scene::new(settings.clone(), plays);
    let task = Task::of_workflow("r", "the task", &workflow, settings, scene.began).expect("it can be run");
    scene.drive(task, &mut Health::default())
}

#[test]
fn a_layer_works_at_once_after_the_one_before_and_is_given_what_it_depends_on() {
    let run = run(
        "end<left,right left<top right<top top",
        vec![answers(1, "E"), answers(5, "L"), answers(9, "R"), answers(2, "T")],
    );
    assert_eq!(run.log, ["0 start 3", "2 start 1", "2 start 2", "11 start 0", "12 over"]);
    assert_eq!(run.prompts[0], "the task");
    assert_eq!(run.prompts[1], "the task\n\nWhat was worked out before:\n\n<answer of=\"top\">\nT\n</answer>\n");
    let last = &run.prompts[3];
    let places = ["the task", "of=\"left\">\nL", "of=\"right\">\nR"].map(|part| last.find(part).expect(part));
    assert!(places.is_sorted() && !last.contains("\nT\n"), "{last}");
    assert_eq!(run.outcome.answer.as_deref(), Some("E"), "of the steps on which no other depends");
    assert_eq!(run.outcome.ending, RunEnding::Completed);
}

#[test]
fn the_failure_of_a_critical_step_skips_all_that_depend_on_it_and_says_so() {
    let fails = Play::Fail { after: ms(1), is_retryable: false };
    let run = run(
        "!a b<a c<b other d<other",
        vec![fails, answers(1, "B"), answers(1, "C"), answers(1, "O"), answers(1, "D")],
    );
    assert_eq!(endings(&run.outcome), ["failed", "skipped", "skipped", "answered", "answered"]);
    assert_eq!(run.outcome.results[1].error(), Some("it depends on a, which gave no answer"));
    let words = "a is critical and gave no answer: broken; skipped for want of it: b, c";
    assert_eq!(run.outcome.ending, RunEnding::Failed(broken(words)));
    assert_eq!(run.outcome.answer.as_deref(), Some("D"), "what does not depend on it goes on");
}

#[test]
fn what_depends_on_a_step_that_is_not_critical_goes_on_without_its_answer() {
    let fails = Play::Fail { after: ms(1), is_retryable: false };
    let run = run("a b c<a,b", vec![fails, answers(1, "B"), answers(1, "C")]);
    assert_eq!(endings(&run.outcome), ["failed", "answered", "answered"]);
    assert!(run.prompts[2].contains("of=\"a\">\n(it gave no answer)\n") && !run.prompts[2].contains("broken"));
    assert_eq!((&run.outcome.ending, run.outcome.failures()), (&RunEnding::Completed, vec!["a: broken".to_owned()]));
}

#[test]
fn where_no_last_step_answers_there_is_what_there_is_and_the_run_has_failed() {
    let run = run("a b<a", vec![answers(1, "A"), Play::Hang]);
    assert_eq!(run.outcome.answer.as_deref(), Some("A"));
    assert_eq!(
        run.outcome.ending,
        RunEnding::Failed(Error::new(ErrorKind::Timeout, "b did not answer: timed out after 30 s"))
    );
}

#[test]
fn whose_answer_it_is_is_told_of_steps_that_were_not_to_be_the_answer_too() {
    let settings = Settings { aggregation: Aggregation::SelectBest, ..Settings::default() };
    let plays = vec![answers(1, "plain"), answers(1, "# best"), Play::Fail { after: ms(1), is_retryable: false }];
    let run = run_with(settings, "a b c<a,b", plays);
    assert_eq!((run.outcome.chosen.as_deref(), run.outcome.answer.as_deref()), (Some("b"), Some("# best")));
}

#[test]
fn a_critical_step_that_is_last_fails_the_run() {
    let run = run("a !b<a", vec![answers(1, "A"), Play::Fail { after: ms(1), is_retryable: false }]);
    assert_eq!(run.outcome.ending, RunEnding::Failed(broken("b is critical and gave no answer: broken")));
}

#[test]
fn a_hundred_steps_that_all_hang_on_all_before_them_and_fail_are_over_soon() {
    let names: Vec<String> = (0..100)
        .map(|at| format!("s{at}<{}", (0..at).map(|n| format!("s{n}")).collect::<Vec<_>>().join(",")))
        .collect();
    let run = run(&names.join(" "), vec![Play::Fail { after: ms(1), is_retryable: false }; 100]);
    assert_eq!(endings(&run.outcome), ["failed"; 100]);
}
