//! The judge of `select_best`.

use super::*;

fn judged(behaviours: Vec<Behaviour>, judge: Behaviour) -> Setup {
    let settings = Settings {
        aggregation: Aggregation::SelectBest,
        judge: Some("work/wise".into()),
        ..settings(Strategy::Parallel)
    };
    let mut setup = Setup::new(settings, behaviours);
    setup.judge = judge;
    setup
}

fn two() -> Vec<Behaviour> {
    vec![answers(1, "# by score"), answers(2, "by the judge")]
}

#[test]
fn the_judge_chooses_and_a_note_says_so() {
    let run = judged(two(), answers(5, "2")).run();
    assert_eq!((run.outcome.answer.as_deref(), run.outcome.chosen.as_deref()), (Some("by the judge"), Some("m1")));
    assert_eq!(run.outcome.notes, ["chosen by the judge work/wise"]);
    assert_eq!(run.log, ["0 start 0", "0 start 1", "2 start judge", "7 finished"]);
    assert!(run.prompts[2].contains("the task") && run.prompts[2].contains("number=\"2\">\nby the judge"));
    let judge = run.events.iter().filter(|event| format!("{:?}", event.kind).contains(JUDGE)).count();
    assert_eq!(judge, 2, "it has a start and a finish");
}

#[test]
fn without_a_choice_of_the_judge_the_score_decides_and_a_note_says_why() {
    for (judge, reason, end) in [
        (answers(5, "both are fine"), "named no answer", 7),
        (answers(5, "3"), "named no answer", 7),
        (Behaviour::Fail { after: ms(5), is_retryable: false }, "failed: broken", 7),
        (Behaviour::Hang, "failed: timed out after 30 s", 30_002),
        (Behaviour::Late { after: ms(40_000) }, "failed: timed out after 30 s", 30_002),
    ] {
        let run = judged(two(), judge).run();
        assert_eq!(run.outcome.answer.as_deref(), Some("# by score"), "{reason}");
        assert!(run.outcome.notes[0].ends_with(reason), "{:?}", run.outcome.notes);
        assert_eq!((&run.outcome.status, run.outcome.duration), (&RunStatus::Completed, ms(end)));
    }
}

#[test]
fn a_judge_is_retried_like_a_member() {
    let mut health = Health::default();
    let run = judged(two(), Behaviour::FailFirst { times: 2, after: ms(5), text: "2".into() }).run_with(&mut health);
    assert_eq!(run.outcome.chosen.as_deref(), Some("m1"));
    assert_eq!(health.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["m0", "m1"], "the judge has no breaker");
}

#[test]
fn one_answer_or_none_needs_no_judge() {
    let fails = || Behaviour::Fail { after: ms(1), is_retryable: false };
    for behaviours in [vec![answers(1, "alone"), fails()], vec![fails(), fails()]] {
        let run = judged(behaviours, answers(5, "1")).run();
        assert!(!run.log.iter().any(|line| line.contains("judge")) && run.outcome.notes.is_empty());
    }
}

#[test]
fn an_interrupt_stops_the_judge_and_the_score_decides() {
    let mut setup = judged(two(), Behaviour::Hang);
    setup.interrupt_at = Some(ms(50));
    let run = setup.run();
    assert_eq!(run.log[2..], ["2 start judge", "50 cancel judge", "50 finished"]);
    assert_eq!((&run.outcome.status, run.outcome.answer.as_deref()), (&RunStatus::Interrupted, Some("# by score")));
}

#[test]
fn after_an_interrupt_no_judge_is_started() {
    let behaviours = two().into_iter().chain([Behaviour::Hang]).collect();
    let mut setup = judged(behaviours, answers(5, "2"));
    setup.interrupt_at = Some(ms(50));
    let run = setup.run();
    assert_eq!(run.log.last().map(String::as_str), Some("50 finished"));
    assert_eq!(run.outcome.answer.as_deref(), Some("# by score"));
}
