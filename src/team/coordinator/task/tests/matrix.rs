//! Strategy x aggregation x behaviour of the members, each run compared with a naive implementation of the rules: sums and
//! minima over members that are simulated one by one.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::*;
use super::driver::{Behaviour, Run, Setup, answers, ms};
use crate::team::coordinator::aggregate::score;
use crate::team::coordinator::health::Health;
use crate::team::coordinator::outcome::RunStatus;
use crate::team::coordinator::settings::{BreakerPolicy, Strategy};

/// A member and whether its breaker is open.
type Case = (Behaviour, bool);

#[derive(Debug, Clone, PartialEq)]
struct Expectation {
    outcome: &'static str,
    answer: Option<String>,
    attempts: u32,
    duration: Duration,
}

const TIMEOUT: Duration = Duration::from_secs(30);

/// The result of a member by itself.
fn alone((behaviour, is_open): &Case) -> Expectation {
    if *is_open {
        return not_started();
    }
    let alone = |outcome, answer: Option<&str>, attempts, duration| Expectation {
        outcome,
        answer: answer.map(str::to_owned),
        attempts,
        duration,
    };
    match behaviour {
        Behaviour::Answer { after, text } => alone("answered", Some(text), 1, *after),
        Behaviour::Fail { after, is_retryable: false } => alone("failed", None, 1, *after),
        Behaviour::Fail { after, is_retryable: true } => alone("failed", None, 4, *after * 4 + ms(100 + 200 + 400)),
        Behaviour::FailFirst { times, after, text } => {
            let waits: u64 = (0..*times).map(|retry| 100 << retry).sum();
            alone("answered", Some(text), times + 1, *after * (times + 1) + ms(waits))
        }
        Behaviour::Hang | Behaviour::Late { .. } => alone("timed out", None, 1, TIMEOUT),
        Behaviour::Sequence(_) => panic!("not in the matrix"),
    }
}

fn not_started() -> Expectation {
    Expectation { outcome: "skipped", answer: None, attempts: 0, duration: Duration::ZERO }
}

/// The expected results of all members and of the run.
struct Expected {
    members: Vec<Expectation>,
    duration: Duration,
    is_failed: bool,
}

fn one_by_one(cases: &[Case], aggregation: Aggregation, is_pipeline: bool) -> Expected {
    let (mut members, mut duration, mut is_over, mut failed) = (Vec::new(), Duration::ZERO, false, false);
    for (at, case) in cases.iter().enumerate() {
        let alone = if is_over { not_started() } else { alone(case) };
        duration += alone.duration;
        if !is_over && is_pipeline {
            let is_blank = alone.answer.as_ref().is_some_and(|answer| answer.trim().is_empty());
            let is_empty_stage = is_blank && at + 1 < cases.len() && aggregation != Aggregation::FirstSuccess;
            failed = matches!(alone.outcome, "failed" | "timed out") || is_empty_stage;
        }
        is_over |= failed || (aggregation == Aggregation::FirstSuccess && alone.answer.is_some());
        members.push(alone);
    }
    Expected { members, duration, is_failed: failed }
}

fn all_at_once(cases: &[Case], aggregation: Aggregation) -> Expected {
    let mut members: Vec<Expectation> = cases.iter().map(alone).collect();
    let answered = (0..members.len()).filter(|at| members[*at].answer.is_some());
    let first = answered.map(|at| (members[at].duration, at)).min();
    if let Some((end, winner)) = first.filter(|_| aggregation == Aggregation::FirstSuccess) {
        for at in 0..members.len() {
            if members[at].outcome != "skipped" && (members[at].duration, at) > (end, winner) {
                let attempts = attempts_within(&cases[at].0, end);
                members[at] = Expectation { outcome: "cancelled", answer: None, attempts, duration: end };
            }
        }
    }
    let duration = members.iter().map(|alone| alone.duration).max().unwrap_or_default();
    Expected { members, duration, is_failed: false }
}

/// The number of attempts started up to `end`, inclusive.
fn attempts_within(behaviour: &Behaviour, end: Duration) -> u32 {
    let (Behaviour::Fail { after, is_retryable: true } | Behaviour::FailFirst { after, .. }) = behaviour else {
        return 1;
    };
    let (mut attempts, mut at) = (1, Duration::ZERO);
    for retry in 0..3 {
        at += *after + ms(100 << retry);
        attempts += u32::from(at <= end);
    }
    attempts
}

fn answer(aggregation: Aggregation, members: &[Expectation]) -> Option<String> {
    let answers: Vec<&String> = members.iter().filter_map(|alone| alone.answer.as_ref()).collect();
    if answers.is_empty() {
        return None;
    }
    let texts: Vec<&str> = answers.iter().map(|text| text.as_str()).collect();
    match aggregation {
        Aggregation::Concatenate => Some(texts.join("\n---\n")),
        Aggregation::FirstSuccess => Some(texts[0].to_owned()),
        Aggregation::Last => texts.last().map(|text| (*text).to_owned()),
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

fn expected(strategy: Strategy, aggregation: Aggregation, cases: &[Case]) -> Expected {
    // All tasks here are short.
    match strategy {
        Strategy::Pipeline => one_by_one(cases, aggregation, true),
        Strategy::Parallel if cases.len() > 1 => all_at_once(cases, aggregation),
        Strategy::Adaptive if cases.len() > 2 => all_at_once(cases, aggregation),
        Strategy::Sequential | Strategy::Parallel | Strategy::Adaptive => one_by_one(cases, aggregation, false),
    }
}

fn check(strategy: Strategy, aggregation: Aggregation, cases: &[Case], what: &str) {
    // Longer than any member hangs.
    let breaker = BreakerPolicy { cool_down: ms(86_400_000), ..BreakerPolicy::default() };
    let settings = Settings { strategy, aggregation, breaker, ..Settings::default() };
    let mut setup = Setup::new(settings.clone(), cases.iter().map(|(behaviour, _)| behaviour.clone()).collect());
    for (at, _) in cases.iter().enumerate().filter(|(_, (_, is_open))| *is_open) {
        (0..5).for_each(|_| setup.health.on_failure(&format!("m{at}"), settings.breaker, setup.started_at));
    }
    let before = setup.health.clone();
    let mut after = before.clone();
    let run = setup.run_with(&mut after);
    let expected = expected(strategy, aggregation, cases);
    let what = || format!("{strategy} {aggregation} {} members: {what}\n{:#?}", cases.len(), run.log);
    let found: Vec<Expectation> = super::outcome_names(&run.outcome)
        .into_iter()
        .zip(&run.outcome.results)
        .map(|(outcome, result)| Expectation {
            outcome,
            answer: result.answer().map(str::to_owned),
            attempts: result.attempts,
            duration: result.duration,
        })
        .collect();
    assert_eq!(found, expected.members, "{}", what());
    assert_eq!(run.outcome.duration, expected.duration, "{}", what());
    let answer = answer(aggregation, &expected.members);
    let is_completed = answer.is_some() && !expected.is_failed;
    assert_eq!(run.outcome.answer, answer, "{}", what());
    assert_eq!(run.outcome.status == RunStatus::Completed, is_completed, "{}: {:?}", what(), run.outcome.status);
    check_health(&before, &after, &expected.members, &what);
    check_events(&run, is_completed, &what);
}

fn check_health(before: &Health, after: &Health, members: &[Expectation], what: &dyn Fn() -> String) {
    for (at, alone) in members.iter().enumerate() {
        let name = format!("m{at}");
        let (mut expected, found) = (before.of(&name), after.of(&name));
        match alone.outcome {
            "answered" => (expected.successes, expected.failures_in_row) = (1, 0),
            "failed" | "timed out" => (expected.failures, expected.failures_in_row) = (1, 1),
            _ => {}
        }
        assert_eq!(found, expected, "{}: {name}", what());
    }
}

fn check_events(run: &Run, is_completed: bool, what: &dyn Fn() -> String) {
    let numbers: Vec<u64> = run.events.iter().map(|event| event.number).collect();
    assert_eq!(numbers, (1..=run.events.len() as u64).collect::<Vec<_>>(), "{}", what());
    assert!(run.events.is_sorted_by_key(|event| event.at), "{}", what());
    let names: Vec<&str> = run.events.iter().map(|event| event.kind.name()).collect();
    let end = if is_completed { "task_completed" } else { "task_failed" };
    assert_eq!((names[0], *names.last().expect("one")), ("task_started", end), "{}", what());
    let completed = names.iter().filter(|name| **name == "aggregation_completed").count();
    assert_eq!(completed, usize::from(run.outcome.answer.is_some()), "{}", what());
    for result in &run.outcome.results {
        let of = |event: &&Event| match &event.kind {
            EventKind::AgentStarted { member, .. } | EventKind::AgentSkipped { member, .. } => *member == result.member,
            EventKind::AgentFinished(finished) => finished.member == result.member,
            _ => false,
        };
        let own: Vec<&str> = run.events.iter().filter(of).map(|event| event.kind.name()).collect();
        let expected: &[&str] =
            if result.is_skipped() { &["agent_skipped"] } else { &["agent_started", "agent_finished"] };
        assert_eq!(own, expected, "{}: {}", what(), result.member);
    }
}

/// All answer at different times, several with the same text.
fn all_answer(count: usize) -> Vec<Case> {
    let texts = ["# Plan\nOne. Two.", "yes", " yes\n", "- a\n- b", "no"];
    let case = |at: usize| (answers(10 + 7 * ((at as u64 * 37) % 101), texts[at % texts.len()]), false);
    (0..count).map(case).collect()
}

#[test]
fn every_strategy_and_aggregation_follows_the_rules_with_one_odd_member() {
    let fails = |is_retryable| (Behaviour::Fail { after: ms(13), is_retryable }, false);
    let one_odd: [(&str, Case); 9] = [
        ("fails", fails(false)),
        ("fails every time", fails(true)),
        (
            "answers at the second attempt",
            (Behaviour::FailFirst { times: 1, after: ms(11), text: "again".into() }, false),
        ),
        (
            "answers at the last attempt",
            (Behaviour::FailFirst { times: 3, after: ms(11), text: "again".into() }, false),
        ),
        ("hangs", (Behaviour::Hang, false)),
        ("answers late", (Behaviour::Late { after: ms(30_003) }, false)),
        ("is skipped", (answers(10, "not started"), true)),
        ("answers nothing", (answers(9, ""), false)),
        ("answers blanks", (answers(9, " \n\t"), false)),
    ];
    let mut runs = 0;
    for strategy in Strategy::ALL {
        for aggregation in Aggregation::ALL {
            for count in [0, 1, 2, 3, 100] {
                check(strategy, aggregation, &all_answer(count), "all answer");
                for (what, odd) in &one_odd {
                    let positions: BTreeSet<usize> =
                        [0, count / 2, count.saturating_sub(1)].into_iter().filter(|at| *at < count).collect();
                    for at in positions {
                        let mut cases = all_answer(count);
                        cases[at] = odd.clone();
                        check(strategy, aggregation, &cases, &format!("m{at} {what}"));
                        runs += 1;
                    }
                    check(strategy, aggregation, &vec![odd.clone(); count], &format!("each {what}"));
                }
            }
        }
    }
    assert_eq!(runs, 24 * 9 * (1 + 2 + 3 + 3));
}

#[test]
fn random_members_follow_the_rules() {
    for seed in 1..1500 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let case = |rng: &mut fastrand::Rng, at: usize| {
            // No two members end at the same moment: the first would depend on the order of delivery.
            let after = Duration::from_micros(1000 * (1 + rng.usize(..400) as u64) + at as u64);
            let text = ["", " ", "a", "b ", "b", "c. d.", "- e"][rng.usize(..7)].to_owned();
            let behaviour = match rng.usize(..8) {
                0 => Behaviour::Fail { after, is_retryable: rng.usize(..2) == 0 },
                1 => Behaviour::Hang,
                2 => Behaviour::Late { after: TIMEOUT + after },
                3 => Behaviour::FailFirst { times: 1 + rng.usize(..3) as u32, after, text },
                _ => Behaviour::Answer { after, text },
            };
            (behaviour, rng.usize(..10) == 0)
        };
        let count = rng.usize(..7);
        let cases: Vec<Case> = (0..count).map(|at| case(&mut rng, at)).collect();
        let (strategy, aggregation) = (Strategy::ALL[rng.usize(..4)], Aggregation::ALL[rng.usize(..6)]);
        check(strategy, aggregation, &cases, &format!("seed {seed}: {cases:?}"));
    }
}

#[test]
fn sequential_runs_one_member_at_a_time_and_parallel_all() {
    for (strategy, most) in [(Strategy::Sequential, 1), (Strategy::Pipeline, 1), (Strategy::Parallel, 100)] {
        let behaviours = all_answer(100).into_iter().map(|(behaviour, _)| behaviour).collect();
        let run = Setup::new(Settings { strategy, ..Settings::default() }, behaviours).run();
        assert_eq!(run.max_working, most, "{strategy}");
    }
}
