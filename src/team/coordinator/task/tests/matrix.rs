//! Strategy x aggregation x what becomes of the members, each run held against the plainest reading of the rules: sums
//! and minima over members that are looked at one by one.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::*;
use super::driver::{Play, Run, Scene, answers, ms};
use crate::team::coordinator::aggregate::score;
use crate::team::coordinator::dice::Dice;
use crate::team::coordinator::health::Health;
use crate::team::coordinator::outcome::RunEnding;
use crate::team::coordinator::settings::{BreakerPolicy, Strategy};

/// A member and whether its breaker is open.
type Part = (Play, bool);

/// What is expected of one member: how it ends, with which answer, after how many attempts and how long.
#[derive(Debug, Clone, PartialEq)]
struct Solo {
    ending: &'static str,
    answer: Option<String>,
    attempts: u32,
    duration: Duration,
}

const TIMEOUT: Duration = Duration::from_secs(30);

/// What becomes of a member that nobody disturbs.
fn solo((play, is_open): &Part) -> Solo {
    if *is_open {
        return unstarted();
    }
    let solo = |ending, answer: Option<&str>, attempts, duration| Solo {
        ending,
        answer: answer.map(str::to_owned),
        attempts,
        duration,
    };
    match play {
        Play::Answer { after, text } => solo("answered", Some(text), 1, *after),
        Play::Fail { after, is_retryable: false } => solo("failed", None, 1, *after),
        Play::Fail { after, is_retryable: true } => solo("failed", None, 4, *after * 4 + ms(100 + 200 + 400)),
        Play::FailFirst { times, after, text } => {
            let waits: u64 = (0..*times).map(|retry| 100 << retry).sum();
            solo("answered", Some(text), times + 1, *after * (times + 1) + ms(waits))
        }
        Play::Hang | Play::Late { .. } => solo("timed out", None, 1, TIMEOUT),
        Play::Script(_) => panic!("not in the matrix"),
    }
}

fn unstarted() -> Solo {
    Solo { ending: "skipped", answer: None, attempts: 0, duration: Duration::ZERO }
}

/// What is expected of all, and of the run: words of its failure are told apart.
struct Expected {
    solos: Vec<Solo>,
    duration: Duration,
    has_failed_as_a_whole: bool,
}

fn one_by_one(parts: &[Part], aggregation: Aggregation, is_pipeline: bool) -> Expected {
    let (mut solos, mut duration, mut is_over, mut failed) = (Vec::new(), Duration::ZERO, false, false);
    for (at, part) in parts.iter().enumerate() {
        let solo = if is_over { unstarted() } else { solo(part) };
        duration += solo.duration;
        if !is_over && is_pipeline {
            let is_blank = solo.answer.as_ref().is_some_and(|answer| answer.trim().is_empty());
            let hands_nothing_on = is_blank && at + 1 < parts.len() && aggregation != Aggregation::FirstSuccess;
            failed = matches!(solo.ending, "failed" | "timed out") || hands_nothing_on;
        }
        is_over |= failed || (aggregation == Aggregation::FirstSuccess && solo.answer.is_some());
        solos.push(solo);
    }
    Expected { solos, duration, has_failed_as_a_whole: failed }
}

fn all_at_once(parts: &[Part], aggregation: Aggregation) -> Expected {
    let mut solos: Vec<Solo> = parts.iter().map(solo).collect();
    let answered = (0..solos.len()).filter(|at| solos[*at].answer.is_some());
    let first = answered.map(|at| (solos[at].duration, at)).min();
    if let Some((end, winner)) = first.filter(|_| aggregation == Aggregation::FirstSuccess) {
        for at in 0..solos.len() {
            if solos[at].ending != "skipped" && (solos[at].duration, at) > (end, winner) {
                let attempts = attempts_within(&parts[at].0, end);
                solos[at] = Solo { ending: "cancelled", answer: None, attempts, duration: end };
            }
        }
    }
    let duration = solos.iter().map(|solo| solo.duration).max().unwrap_or_default();
    Expected { solos, duration, has_failed_as_a_whole: false }
}

/// How often somebody was asked before that moment, and at it: the first news of a moment are told before it is over.
fn attempts_within(play: &Play, end: Duration) -> u32 {
    let (Play::Fail { after, is_retryable: true } | Play::FailFirst { after, .. }) = play else { return 1 };
    let (mut attempts, mut at) = (1, Duration::ZERO);
    for retry in 0..3 {
        at += *after + ms(100 << retry);
        attempts += u32::from(at <= end);
    }
    attempts
}

/// The answer as a plain reading of the rules makes it.
fn answer(aggregation: Aggregation, solos: &[Solo]) -> Option<String> {
    let answers: Vec<&String> = solos.iter().filter_map(|solo| solo.answer.as_ref()).collect();
    if answers.is_empty() {
        return None;
    }
    let texts: Vec<&str> = answers.iter().map(|text| text.as_str()).collect();
    match aggregation {
        Aggregation::Concatenate => Some(texts.join("\n---\n")),
        Aggregation::FirstSuccess => Some(texts[0].to_owned()),
        Aggregation::Vote => {
            let trimmed: Vec<&str> = texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).collect();
            let votes = |text: &str| trimmed.iter().filter(|other| **other == text).count();
            let most = trimmed.iter().map(|text| votes(text)).max()?;
            trimmed.iter().find(|text| votes(text) == most).map(|text| (*text).to_owned())
        }
        Aggregation::SelectBest => {
            let best = texts.iter().map(|text| score(text)).max()?;
            texts.iter().find(|text| score(text) == best).map(|text| (*text).to_owned())
        }
        Aggregation::Merge => {
            let mut seen = BTreeSet::new();
            let trimmed = texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty() && seen.insert(*text));
            Some(trimmed.collect::<Vec<_>>().join("\n\n"))
        }
    }
}

fn expected(strategy: Strategy, aggregation: Aggregation, parts: &[Part]) -> Expected {
    // The task of every scene is short.
    match strategy {
        Strategy::Pipeline => one_by_one(parts, aggregation, true),
        Strategy::Parallel if parts.len() > 1 => all_at_once(parts, aggregation),
        Strategy::Adaptive if parts.len() > 2 => all_at_once(parts, aggregation),
        Strategy::Sequential | Strategy::Parallel | Strategy::Adaptive => one_by_one(parts, aggregation, false),
    }
}

fn hold(strategy: Strategy, aggregation: Aggregation, parts: &[Part], what: &str) {
    // So long that it does not end while somebody hangs.
    let breaker = BreakerPolicy { cool_down: ms(86_400_000), ..BreakerPolicy::default() };
    let settings = Settings { strategy, aggregation, breaker, ..Settings::default() };
    let mut scene = Scene::new(settings.clone(), parts.iter().map(|(play, _)| play.clone()).collect());
    for (at, _) in parts.iter().enumerate().filter(|(_, (_, is_open))| *is_open) {
        (0..5).for_each(|_| scene.health.on_failure(&format!("m{at}"), settings.breaker, scene.began));
    }
    let before = scene.health.clone();
    let mut after = before.clone();
    let run = scene.run_with(&mut after);
    let expected = expected(strategy, aggregation, parts);
    let what = || format!("{strategy} {aggregation} {} members: {what}\n{:#?}", parts.len(), run.log);
    let found: Vec<Solo> = super::endings(&run.outcome)
        .into_iter()
        .zip(&run.outcome.results)
        .map(|(ending, result)| Solo {
            ending,
            answer: result.answer().map(str::to_owned),
            attempts: result.attempts,
            duration: result.duration,
        })
        .collect();
    assert_eq!(found, expected.solos, "{}", what());
    assert_eq!(run.outcome.duration, expected.duration, "{}", what());
    let answer = answer(aggregation, &expected.solos);
    let is_completed = answer.is_some() && !expected.has_failed_as_a_whole;
    assert_eq!(run.outcome.answer, answer, "{}", what());
    assert_eq!(run.outcome.ending == RunEnding::Completed, is_completed, "{}: {:?}", what(), run.outcome.ending);
    hold_health(&before, &after, &expected.solos, &what);
    hold_events(&run, is_completed, &what);
}

fn hold_health(before: &Health, after: &Health, solos: &[Solo], what: &dyn Fn() -> String) {
    for (at, solo) in solos.iter().enumerate() {
        let name = format!("m{at}");
        let (mut expected, found) = (before.of(&name), after.of(&name));
        match solo.ending {
            "answered" => (expected.successes, expected.failures_in_row) = (1, 0),
            "failed" | "timed out" => (expected.failures, expected.failures_in_row) = (1, 1),
            _ => {}
        }
        assert_eq!(found, expected, "{}: {name}", what());
    }
}

/// Numbers have no gaps, and each member has its own events.
fn hold_events(run: &Run, is_completed: bool, what: &dyn Fn() -> String) {
    let numbers: Vec<u64> = run.events.iter().map(|event| event.number).collect();
    assert_eq!(numbers, (1..=run.events.len() as u64).collect::<Vec<_>>(), "{}", what());
    assert!(run.events.is_sorted_by_key(|event| event.at), "{}", what());
    let names: Vec<&str> = run.events.iter().map(|event| event.what.name()).collect();
    let end = if is_completed { "task_completed" } else { "task_failed" };
    assert_eq!((names[0], *names.last().expect("one")), ("task_started", end), "{}", what());
    let completed = names.iter().filter(|name| **name == "aggregation_completed").count();
    assert_eq!(completed, usize::from(run.outcome.answer.is_some()), "{}", what());
    for result in &run.outcome.results {
        let of = |event: &&Event| match &event.what {
            What::AgentStarted { member, .. } | What::AgentSkipped { member, .. } => *member == result.member,
            What::AgentFinished(finished) => finished.member == result.member,
            _ => false,
        };
        let own: Vec<&str> = run.events.iter().filter(of).map(|event| event.what.name()).collect();
        let expected: &[&str] =
            if result.is_skipped() { &["agent_skipped"] } else { &["agent_started", "agent_finished"] };
        assert_eq!(own, expected, "{}: {}", what(), result.member);
    }
}

/// All answer, each after a time of its own, and what they say is said by several.
fn all_answer(count: usize) -> Vec<Part> {
    let texts = ["# Plan\nOne. Two.", "yes", " yes\n", "- a\n- b", "no"];
    let part = |at: usize| (answers(10 + 7 * ((at as u64 * 37) % 101), texts[at % texts.len()]), false);
    (0..count).map(part).collect()
}

#[test]
fn every_strategy_with_every_aggregation_does_what_the_rules_say_whatever_becomes_of_the_members() {
    let fails = |is_retryable| (Play::Fail { after: ms(13), is_retryable }, false);
    let one_odd: [(&str, Part); 9] = [
        ("fails", fails(false)),
        ("fails every time", fails(true)),
        ("answers at the second attempt", (Play::FailFirst { times: 1, after: ms(11), text: "again".into() }, false)),
        ("answers at the last attempt", (Play::FailFirst { times: 3, after: ms(11), text: "again".into() }, false)),
        ("hangs", (Play::Hang, false)),
        ("answers late", (Play::Late { after: ms(30_003) }, false)),
        ("is skipped", (answers(10, "never heard"), true)),
        ("answers nothing", (answers(9, ""), false)),
        ("answers blanks", (answers(9, " \n\t"), false)),
    ];
    let mut runs = 0;
    for strategy in Strategy::ALL {
        for aggregation in Aggregation::ALL {
            for count in [0, 1, 2, 3, 100] {
                hold(strategy, aggregation, &all_answer(count), "all answer");
                for (what, odd) in &one_odd {
                    let places: BTreeSet<usize> =
                        [0, count / 2, count.saturating_sub(1)].into_iter().filter(|at| *at < count).collect();
                    for at in places {
                        let mut parts = all_answer(count);
                        parts[at] = odd.clone();
                        hold(strategy, aggregation, &parts, &format!("m{at} {what}"));
                        runs += 1;
                    }
                    hold(strategy, aggregation, &vec![odd.clone(); count], &format!("each {what}"));
                }
            }
        }
    }
    assert_eq!(runs, 20 * 9 * (1 + 2 + 3 + 3));
}

#[test]
fn the_same_holds_for_hundreds_of_casts_by_chance() {
    for seed in 1..1500 {
        let mut dice = Dice(seed);
        let part = |dice: &mut Dice, at: usize| {
            // No two members can end in one moment: who is first then would depend on the order of the news.
            let after = Duration::from_micros(1000 * (1 + dice.below(400) as u64) + at as u64);
            let text = ["", " ", "a", "b ", "b", "c. d.", "- e"][dice.below(7)].to_owned();
            let play = match dice.below(8) {
                0 => Play::Fail { after, is_retryable: dice.below(2) == 0 },
                1 => Play::Hang,
                2 => Play::Late { after: TIMEOUT + after },
                3 => Play::FailFirst { times: 1 + dice.below(3) as u32, after, text },
                _ => Play::Answer { after, text },
            };
            (play, dice.below(10) == 0)
        };
        let count = dice.below(7);
        let parts: Vec<Part> = (0..count).map(|at| part(&mut dice, at)).collect();
        let (strategy, aggregation) = (Strategy::ALL[dice.below(4)], Aggregation::ALL[dice.below(5)]);
        hold(strategy, aggregation, &parts, &format!("seed {seed}: {parts:?}"));
    }
}

#[test]
fn one_after_the_other_means_one_at_a_time_and_a_hundred_at_once_a_hundred() {
    for (strategy, most) in [(Strategy::Sequential, 1), (Strategy::Pipeline, 1), (Strategy::Parallel, 100)] {
        let plays = all_answer(100).into_iter().map(|(play, _)| play).collect();
        let run = Scene::new(Settings { strategy, ..Settings::default() }, plays).run();
        assert_eq!(run.most_at_once, most, "{strategy}");
    }
}
