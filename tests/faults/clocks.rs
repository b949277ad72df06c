//! Clocks that jump: the monotonic one, as that of a machine that slept, and the one on the wall, which somebody sets.

use std::time::Duration;

use polylogue::Change;
use polylogue::config::{LimitName, RetryPolicy, Settings, TreeLimits};

use super::without_retries;
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{State, Wait};
use crate::support::scene::app_with_agents;
use crate::support::size::stride;

const HOUR: Duration = Duration::from_secs(3_600);
const JUMPS: [Duration; 3] = [HOUR, Duration::from_secs(30 * 24 * 3_600), Duration::from_secs(100 * 365 * 24 * 3_600)];

/// A machine that slept: all deadlines are over at once.
#[test]
fn a_clock_that_jumps_in_any_state_leaves_every_agent_able_to_answer() {
    let scripts = [
        "%slow 100\none two three",
        "%hang",
        "%fail network",
        "%fail 429 retry-after=5",
        "%tool wait {\"timeout\": 60}",
        "%tool bash {\"command\":\"true\"}",
        "%think first\n%slow 60\n%think second\n%hang",
    ];
    let all = scripts.into_iter().flat_map(|script| JUMPS.map(|jump| (script, jump)));
    for (script, jump) in all.step_by(stride(2)) {
        let mut app = app_with_agents(3, Plan { settings: without_retries(), ..Plan::default() });
        app.say(1, script);
        app.turn();
        app.turn();
        let bystander = app.fingerprint(2);
        for _ in 0..3 {
            app.advance(jump);
            app.turn_until("the end of this moment", |app| app.timeout().after != Some(Duration::ZERO));
        }
        assert_eq!(app.fingerprint(2), bystander, "{script} and {jump:?}");
        if app.state(1) == State::AwaitingApproval {
            app.answer(1, false);
        }
        app.ask(1, Change::Interrupt);
        app.turn_until_idle();
        app.say(1, "still there");
        app.turn_until_idle();
        assert_eq!(app.replies(1).last().map(String::as_str), Some("still there"), "{script} and {jump:?}");
    }
}

/// Requests that failed are tried again once for each jump, however many of their pauses have passed in it.
#[test]
fn a_clock_that_jumps_starts_no_storm_of_retries() {
    for jump in JUMPS {
        let retry = RetryPolicy { retries: Some(5), ..RetryPolicy::default() };
        let mut app =
            app_with_agents(2, Plan { settings: Settings { retry, ..Settings::default() }, ..Plan::default() });
        app.say(1, "%fail network");
        app.turn_until("a pause", |app| matches!(app.agent(1).wait(), Wait::Retry { .. }));
        for tried in 1..=2 {
            app.advance(jump);
            app.turn_until("a pause", |app| matches!(app.agent(1).wait(), Wait::Retry { .. }));
            assert_eq!(app.agent(1).retries(), tried + 1, "{jump:?}");
        }
        app.ask(1, Change::Interrupt);
        app.turn_until_idle();
    }
}

/// Somebody sets the clock by years while agents wait for something: no deadline moves, and what was said stays in order.
#[test]
fn a_wall_clock_that_is_set_moves_no_deadline_and_no_message() {
    const YEARS: i64 = 50 * 365 * 24 * 3_600 * 1_000;
    let scripts = ["%slow 100\none two three", "%hang", "%fail 429 retry-after=5", "%tool wait {\"timeout\": 60}"];
    let all = scripts.into_iter().flat_map(|script| [YEARS, -YEARS, i64::MAX, i64::MIN].map(|by| (script, by)));
    for (script, by) in all.step_by(stride(3)) {
        let mut limits = TreeLimits::default();
        limits[LimitName::Seconds] = Some(600_000);
        let mut app = app_with_agents(2, Plan { tree_limits: limits, size: None, ..Plan::default() });
        app.say(0, "before");
        app.turn_until_idle();
        app.say(1, script);
        app.turn();
        app.turn();
        let (due, seconds) = (app.agent(1).deadline(), app.timeout().after);
        app.clock.set_wall(by);
        app.turn();
        assert_eq!((app.agent(1).deadline(), app.timeout().after), (due, seconds), "{script} set by {by}");
        for _ in 0..4 {
            let due = app.timeout().after.unwrap_or_default();
            app.advance(due);
        }
        app.ask(1, Change::Interrupt);
        app.turn_until_idle();
        // The pause of the provider is over.
        app.advance(HOUR);
        for n in [0, 1] {
            app.say(n, "after");
            app.turn_until("the reply", |app| app.state(n) == State::Idle);
            assert_eq!(app.replies(n).last().map(String::as_str), Some("after"), "{script} set by {by}");
            let ids: Vec<_> = app.log(n).iter().map(|message| message.id).collect();
            assert!(ids.is_sorted(), "{script} set by {by}: {ids:?}");
        }
        let mut app = app.crash_and_restart();
        assert_eq!(app.replies(0), ["before", "after"], "{script} set by {by}");
        app.say(1, "again");
        app.turn_until_idle();
        assert_eq!(app.replies(1).last().map(String::as_str), Some("again"), "{script} set by {by}");
    }
}

/// A limit of seconds is one of work, not of the calendar.
#[test]
fn a_wall_clock_that_is_set_uses_up_no_seconds_of_a_limit() {
    let mut limits = TreeLimits::default();
    limits[LimitName::Seconds] = Some(60_000);
    let mut app = Harness::new(Plan { tree_limits: limits, ..Plan::default() });
    app.say(0, "%tool wait {\"timeout\": 5}\n%next\nin time");
    app.turn();
    app.turn();
    app.clock.set_wall(365 * 24 * 3_600 * 1_000);
    app.advance(Duration::from_secs(5));
    app.turn_until_idle();
    assert_eq!(app.replies(0).last().map(String::as_str), Some("in time"));
}
