//! How long one wait lasts: every deadline alone and in pairs, for the agent on the screen and for others.
//! The clock moves only when a test moves it, so that every expectation is exact.

use std::time::Duration;

use polylogue::Change;
use polylogue::config::{RetryPolicy, Settings};
use serde_json::json;

use crate::support::client::{Client, open_to_clients};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{State, Timeout, Wait, WakeReason};
use crate::support::peer::Peer;

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A deadline that ends a wait: how to bring it about, and how long the wait is then.
struct Need {
    why: &'static str,
    after: Duration,
    set_up: fn(&mut Harness, usize),
}

/// The first one moves the clock, which must not shorten the others; the last one stops all later requests.
const NEEDS: [Need; 6] = [
    Need { why: "checkpoint", after: ms(150), set_up: unkept_text },
    Need { why: "tools", after: ms(50), set_up: running_tool },
    Need { why: "retry", after: ms(7_000), set_up: |app, n| say(app, n, "%fail network") },
    Need { why: "stall", after: ms(120_000), set_up: |app, n| say(app, n, "%hang") },
    Need { why: "script step", after: ms(60), set_up: |app, n| say(app, n, "%slow 60\nlater") },
    Need { why: "pause", after: ms(5_000), set_up: paused_provider },
];

/// The spinner moves this often; it counts for the agent on the screen only.
const SPINNER: (Duration, &str) = (ms(80), "spinner");

/// What moves on the screen while an agent there has this deadline: seconds are counted down once a second.
fn sign_of(need: &Need) -> (Duration, &'static str) {
    if matches!(need.why, "retry" | "pause") { (ms(1_000), "countdown") } else { SPINNER }
}

/// The agent waits for a provider that has asked for a pause; its own interrupted request has no retry.
fn paused_provider(app: &mut Harness, n: usize) {
    say(app, n, "%fail 429 retry-after=5");
    app.ask(n, Change::Interrupt);
    say(app, n, "later");
}

fn say(app: &mut Harness, n: usize, text: &str) {
    app.say(n, text);
    app.turn();
}

/// A first word, which is stored at once, and 100 ms later one that waits for the next checkpoint.
fn unkept_text(app: &mut Harness, n: usize) {
    say(app, n, "first\n%slow 100\n%think second\n%hang");
    app.advance(ms(100));
}

fn running_tool(app: &mut Harness, n: usize) {
    say(app, n, "%tool bash {\"command\":\"sleep 60\"}");
    app.answer(n, true);
    assert_eq!(app.state(n), State::ExecutingTool);
}

/// Agents 0 to 2, agent 0 on the screen.
fn three_agents() -> Harness {
    let retry = RetryPolicy { base: ms(7_000), jitter: 0.0, ..RetryPolicy::default() };
    let settings = Settings { retry, ..Settings::default() };
    let mut app = Harness::new(Plan { settings, ..Plan::default() });
    app.fork(0);
    app.fork(0);
    app.switch(0);
    app
}

fn name_of(timeout: &Timeout) -> &'static str {
    match timeout.why {
        WakeReason::Nothing => "nothing",
        WakeReason::Leftover => "leftover",
        WakeReason::Agent(_, why) => why,
        WakeReason::Pause => "pause",
        WakeReason::Countdown => "countdown",
        WakeReason::Tools => "tools",
        WakeReason::Spinner => "spinner",
        WakeReason::Text => "text",
        WakeReason::Reads => "reads",
        WakeReason::Keys => "keys",
        WakeReason::Question => "question",
        WakeReason::Draft => "draft",
        WakeReason::View => "view",
        WakeReason::Files => "files",
        WakeReason::Shell => "shell",
        WakeReason::Client => "client",
        WakeReason::Team => "team",
        WakeReason::Proxy => "proxy",
        WakeReason::Feature(name) => name,
        WakeReason::Store => "store",
    }
}

fn soonest(expected: &[(Duration, &'static str)]) -> (Option<Duration>, &'static str) {
    let (after, why) = expected.iter().min().expect("something is needed");
    (Some(*after), why)
}

fn seen(app: &mut Harness) -> (Option<Duration>, &'static str) {
    let timeout = app.timeout();
    (timeout.after, name_of(&timeout))
}

#[test]
fn without_any_deadline_the_loop_waits_for_ever() {
    let mut app = three_agents();
    app.turn();
    assert_eq!(seen(&mut app), (None, "nothing"));
    app.advance(Duration::from_secs(3_600));
    assert_eq!(seen(&mut app), (None, "nothing"));
}

#[test]
fn an_agent_in_the_background_is_waited_for_as_long_as_it_needs_and_named() {
    for need in NEEDS {
        let mut app = three_agents();
        (need.set_up)(&mut app, 1);
        assert_eq!(seen(&mut app), (Some(need.after), need.why));
        if let WakeReason::Agent(id, _) = app.timeout().why {
            assert_eq!(id, app.id(1), "{}", need.why);
        }
    }
}

#[test]
fn an_agent_on_the_screen_is_waited_for_in_the_same_way_and_its_sign_of_work_moves() {
    for need in NEEDS {
        let mut app = three_agents();
        (need.set_up)(&mut app, 0);
        // The spinner counts from the frame that was drawn when the state changed.
        let shown = soonest(&[(need.after, need.why), sign_of(&need)]);
        assert_eq!(seen(&mut app), shown, "{}", need.why);
    }
}

#[test]
fn of_two_agents_in_the_background_the_sooner_ends_the_wait() {
    for (at, one) in NEEDS.iter().enumerate() {
        for other in &NEEDS[at + 1..] {
            for [first, second] in [[1, 2], [2, 1]] {
                let mut app = three_agents();
                (one.set_up)(&mut app, first);
                (other.set_up)(&mut app, second);
                let expected = soonest(&[(one.after, one.why), (other.after, other.why)]);
                assert_eq!(seen(&mut app), expected, "{} and {}", one.why, other.why);
            }
        }
    }
}

#[test]
fn of_the_agent_on_the_screen_and_one_in_the_background_the_sooner_ends_the_wait() {
    for (at, one) in NEEDS.iter().enumerate() {
        for other in &NEEDS[at + 1..] {
            for [first, second] in [[0, 1], [1, 0]] {
                let mut app = three_agents();
                (one.set_up)(&mut app, first);
                (other.set_up)(&mut app, second);
                let shown = if first == 0 { one } else { other };
                let expected = soonest(&[(one.after, one.why), (other.after, other.why), sign_of(shown)]);
                assert_eq!(seen(&mut app), expected, "{first}: {}, {second}: {}", one.why, other.why);
            }
        }
    }
}

#[test]
fn of_three_agents_in_the_background_the_soonest_ends_the_wait() {
    for (a, one) in NEEDS.iter().enumerate() {
        for (b, two) in NEEDS.iter().enumerate().skip(a + 1) {
            for three in &NEEDS[b + 1..] {
                let mut app = three_agents();
                app.fork(0);
                app.switch(0);
                for (n, need) in [one, two, three].into_iter().enumerate() {
                    (need.set_up)(&mut app, n + 1);
                }
                let expected = [one, two, three].map(|need| (need.after, need.why));
                let names = expected.map(|(_, why)| why);
                assert_eq!(seen(&mut app), soonest(&expected), "{names:?}");
            }
        }
    }
}

#[test]
fn the_time_limit_of_a_client_ends_the_wait_alone_and_beside_every_other_need() {
    // The first one moves the clock, which would shorten the time limit.
    for need in &NEEDS[1..] {
        let mut app = three_agents();
        open_to_clients(&mut app);
        let mut client = Client::connect(&app);
        // It waits for an agent that waits for a person, which ends no wait of the loop.
        app.say(2, "%tool bash {\"command\":\"true\"}");
        app.turn_until_asked(2);
        client.ask("wait", json!({"agent": app.id(2).to_string(), "until": "done", "seconds": 2.5}));
        app.turn_until("the request is read", |app| app.timeout().why == WakeReason::Client);
        assert_eq!(seen(&mut app), (Some(ms(2_500)), "client"));
        (need.set_up)(&mut app, 1);
        assert_eq!(seen(&mut app), soonest(&[(ms(2_500), "client"), (need.after, need.why)]), "{}", need.why);
    }
}

#[cfg(feature = "coordinator")]
#[test]
fn the_time_limit_of_a_team_ends_the_wait_alone_and_beside_every_other_need() {
    for need in &NEEDS {
        let mut app = three_agents();
        (need.set_up)(&mut app, 1);
        app.enter("/team parallel concatenate --count 1 \"%hang\"");
        app.turn();
        app.switch(2);
        app.turn();
        // The member hangs: its time limit is 30 s, and it has stalled after 120 s.
        let held = matches!(need.why, "pause");
        let team = if held { (need.after, need.why) } else { (ms(30_000), "team") };
        assert_eq!(seen(&mut app), soonest(&[team, (need.after, need.why)]), "{}", need.why);
    }
}

#[test]
fn bytes_that_may_be_the_beginning_of_a_key_end_the_wait_beside_every_other_need() {
    for need in NEEDS {
        let mut app = three_agents();
        (need.set_up)(&mut app, 1);
        app.type_bytes(b"\x1b");
        assert_eq!(seen(&mut app), (Some(ms(30)), "keys"), "{}", need.why);
        app.advance(ms(30));
        assert_ne!(seen(&mut app).1, "keys", "{}", need.why);
    }
}

#[test]
fn keys_that_were_not_looked_at_end_the_wait_at_once() {
    for need in NEEDS {
        let mut app = three_agents();
        (need.set_up)(&mut app, 1);
        app.terminal().input.extend_from_slice(b"x");
        assert_eq!(seen(&mut app), (Some(Duration::ZERO), "leftover"), "{}", need.why);
    }
}

#[test]
fn bytes_of_a_background_agent_that_were_not_decoded_end_the_wait_at_once() {
    let peer = Peer::start();
    let settings = Settings { bytes_per_turn: 64, ..Settings::default() };
    let mut app = Harness::new(Plan { settings, ..Plan::peer(&peer.url()) });
    app.fork(0);
    app.say(0, "one");
    let exchange = app.accept(&peer);
    exchange.stream().text(&"word ".repeat(200));
    app.turn_until("bytes are left over", |app| app.agent(0).has_leftover());
    assert_eq!(seen(&mut app), (Some(Duration::ZERO), "leftover"));
    exchange.finish("stop").done();
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["word ".repeat(200)]);
}

#[test]
fn the_timer_of_libcurl_ends_the_wait_alone_and_beside_others_on_the_screen_or_not() {
    let peer = Peer::start();
    for [curl, other] in [[0, 1], [1, 0]] {
        let mut app = Harness::new(Plan::peer(&peer.url()));
        app.fork(0);
        app.switch(0);
        app.say(other, "wait");
        app.accept(&peer).hang_up();
        app.turn_until("a retry", |app| matches!(app.agent(other).wait(), Wait::Retry { .. }));
        app.say(curl, "go");
        let timeout = app.timeout();
        assert_eq!(
            timeout,
            Timeout { after: Some(Duration::ZERO), why: WakeReason::Agent(app.id(curl), "curl timer") }
        );
    }
}

#[test]
fn neither_a_question_nor_waiting_in_the_send_queue_ends_a_wait() {
    let mut app = Harness::new(Plan { working_limit: 1, ..Plan::default() });
    app.fork(0);
    app.fork(0);
    app.switch(2);
    say(&mut app, 0, "%tool bash {\"command\":\"true\"}");
    app.turn_until_asked(0);
    assert_eq!(seen(&mut app), (None, "nothing"));
    say(&mut app, 0, "queued");
    say(&mut app, 1, "%hang");
    say(&mut app, 2, "waits for a slot");
    app.switch(0);
    assert_eq!(seen(&mut app), (Some(ms(300)), "question"), "it has just appeared on the screen");
    app.advance(ms(300));
    assert_eq!(seen(&mut app), (Some(ms(119_700)), "stall"));
}

#[test]
fn a_retry_a_stall_and_a_step_come_exactly_when_they_are_due() {
    let mut app = three_agents();
    say(&mut app, 1, "%fail network");
    let request = |app: &Harness| matches!(app.agent(1).wait(), Wait::Retry { .. });
    app.advance(ms(6_999));
    assert!(request(&app) && app.agent(1).retries() == 1);
    app.advance(ms(1));
    app.turn();
    assert_eq!(app.agent(1).retries(), 2, "it was sent, and has failed again");

    say(&mut app, 2, "%hang");
    app.advance(ms(119_999));
    assert!(!matches!(app.agent(2).wait(), Wait::Retry { .. }));
    app.advance(ms(1));
    assert!(matches!(app.agent(2).wait(), Wait::Retry { error, .. } if error.message.contains("120 s")));
}

#[test]
fn the_wait_grows_again_when_a_deadline_is_gone() {
    for need in NEEDS {
        let mut app = three_agents();
        (need.set_up)(&mut app, 1);
        app.ask(1, Change::Interrupt);
        app.turn_until_idle();
        assert_eq!(seen(&mut app), (None, "nothing"), "{}", need.why);
    }
}
