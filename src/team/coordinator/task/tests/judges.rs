//! A model that picks the best answer.

use super::*;

fn judged(plays: Vec<Play>, judge: Play) -> Scene {
    let settings =
        Settings { aggregation: Aggregation::SelectBest, judge: Some("work/wise".into()), ..usual(Strategy::Parallel) };
    let mut scene = Scene::new(settings, plays);
    scene.judge = judge;
    scene
}

fn two() -> Vec<Play> {
    vec![answers(1, "# by the formula"), answers(2, "by the judge")]
}

#[test]
fn the_answer_is_the_one_that_the_judge_names_and_a_note_says_so() {
    let run = judged(two(), answers(5, "2")).run();
    assert_eq!((run.outcome.answer.as_deref(), run.outcome.chosen.as_deref()), (Some("by the judge"), Some("m1")));
    assert_eq!(run.outcome.notes, ["picked by the judge, work/wise"]);
    assert_eq!(run.log, ["0 start 0", "0 start 1", "2 start judge", "7 over"]);
    assert!(run.prompts[2].contains("the task") && run.prompts[2].contains("number=\"2\">\nby the judge"));
    let judge = run.events.iter().filter(|event| format!("{:?}", event.what).contains(JUDGE)).count();
    assert_eq!(judge, 2, "it starts and finishes as members do");
}

#[test]
fn a_judge_that_names_none_fails_or_hangs_leaves_it_to_the_formula_and_a_note_says_why() {
    for (judge, why, end) in [
        (answers(5, "both are fine"), "named no answer", 7),
        (answers(5, "3"), "named no answer", 7),
        (Play::Fail { after: ms(5), is_retryable: false }, "failed: broken", 7),
        (Play::Hang, "failed: timed out after 30 s", 30_002),
        (Play::Late { after: ms(40_000) }, "failed: timed out after 30 s", 30_002),
    ] {
        let run = judged(two(), judge).run();
        assert_eq!(run.outcome.answer.as_deref(), Some("# by the formula"), "{why}");
        assert!(run.outcome.notes[0].ends_with(why), "{:?}", run.outcome.notes);
        assert_eq!((&run.outcome.ending, run.outcome.duration), (&RunEnding::Completed, ms(end)));
    }
}

#[test]
fn a_judge_is_asked_again_like_a_member() {
    let mut health = Health::default();
    let run = judged(two(), Play::FailFirst { times: 2, after: ms(5), text: "2".into() }).run_with(&mut health);
    assert_eq!(run.outcome.chosen.as_deref(), Some("m1"));
    assert_eq!(health.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["m0", "m1"], "but it has no breaker");
}

#[test]
fn one_answer_or_none_needs_no_judge() {
    let fails = || Play::Fail { after: ms(1), is_retryable: false };
    for plays in [vec![answers(1, "alone"), fails()], vec![fails(), fails()]] {
        let run = judged(plays, answers(5, "1")).run();
        assert!(!run.log.iter().any(|line| line.contains("judge")) && run.outcome.notes.is_empty());
    }
}

#[test]
fn an_interrupt_stops_the_judge_and_keeps_the_answer_of_the_formula() {
    let mut scene = judged(two(), Play::Hang);
    scene.interrupt_at = Some(ms(50));
    let run = scene.run();
    assert_eq!(run.log[2..], ["2 start judge", "50 cancel judge", "50 over"]);
    assert_eq!(
        (&run.outcome.ending, run.outcome.answer.as_deref()),
        (&RunEnding::Interrupted, Some("# by the formula"))
    );
}

#[test]
fn after_an_interrupt_no_judge_is_asked() {
    let plays = two().into_iter().chain([Play::Hang]).collect();
    let mut scene = judged(plays, answers(5, "2"));
    scene.interrupt_at = Some(ms(50));
    let run = scene.run();
    assert_eq!(run.log.last().map(String::as_str), Some("50 over"));
    assert_eq!(run.outcome.answer.as_deref(), Some("# by the formula"));
}
