//! Esc ends whatever an agent does within 100 ms, in every state: at once where nothing but the loop is needed, and
//! with tools as soon as everything that they started has ended.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use polylogue::Change;
use polylogue::config::Endpoint;

use crate::support::PATIENCE;
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{State, Wait};
use crate::support::peer::{Peer, Silent};
use crate::support::scene::{app_with_agents, is_running, mark, turn_a_while};

/// How long an interrupt may take.
const LIMIT: Duration = Duration::from_millis(100);

static SILENT: LazyLock<Silent> = LazyLock::new(Silent::start);

/// A state in which an agent can be interrupted, and how to bring it about.
struct Scene {
    name: &'static str,
    plan: fn(&Peer) -> Plan,
    set_up: fn(&mut Harness, &Peer),
    holds: fn(&Harness) -> bool,
}

fn peer_plan(peer: &Peer) -> Plan {
    Plan::peer(&peer.url())
}

fn echo_plan(_: &Peer) -> Plan {
    Plan::default()
}

/// States that end within the turn in which the key is handled: the clock does not move.
const AT_ONCE: [Scene; 9] = [
    Scene {
        name: "waiting for a slot",
        plan: |peer| Plan { working_limit: 1, ..peer_plan(peer) },
        set_up: |app, _| {
            app.say(1, "holds the slot");
            app.say(0, "waits");
        },
        holds: |app| matches!(app.agent(0).wait(), Wait::Slot),
    },
    Scene {
        name: "its provider is paused",
        plan: peer_plan,
        set_up: |app, peer| {
            app.say(1, "is refused");
            app.accept(peer).head(429, &[("retry-after", "60"), ("content-length", "0")]);
            app.turn_until("a pause", |app| matches!(app.agent(1).wait(), Wait::Retry { .. }));
            app.say(0, "waits");
        },
        holds: |app| matches!(app.agent(0).wait(), Wait::Slot),
    },
    Scene {
        name: "waiting for a key",
        plan: |peer| {
            let plan = peer_plan(peer);
            Plan { endpoint: Endpoint { key_command: Some(format!("sleep {}", mark())), ..plan.endpoint }, ..plan }
        },
        set_up: |app, _| app.say(0, "waits"),
        holds: |app| matches!(app.agent(0).wait(), Wait::Key),
    },
    Scene {
        name: "connecting to a host that does not answer",
        plan: |_| Plan::peer(&SILENT.url()),
        set_up: |app, _| app.say(0, "hello?"),
        holds: |app| matches!(app.agent(0).wait(), Wait::Transfer),
    },
    Scene {
        name: "awaiting the headers",
        plan: peer_plan,
        set_up: |app, peer| {
            app.say(0, "hello?");
            app.accept(peer);
        },
        holds: |app| matches!(app.agent(0).wait(), Wait::Transfer) && app.agent(0).partial_text().is_empty(),
    },
    Scene {
        name: "streaming",
        plan: peer_plan,
        set_up: |app, peer| {
            app.say(0, "hello?");
            app.accept(peer).stream().text("half");
            app.turn_until("the half", |app| app.agent(0).partial_text() == "half");
        },
        holds: |app| app.state(0) == State::WaitingForLlm,
    },
    Scene {
        name: "waiting to retry",
        plan: echo_plan,
        set_up: |app, _| app.say(0, "%fail network"),
        holds: |app| matches!(app.agent(0).wait(), Wait::Retry { .. }),
    },
    Scene {
        name: "awaiting approval",
        plan: echo_plan,
        set_up: |app, _| app.say(0, "%tool bash {\"command\":\"true\"}"),
        holds: |app| app.state(0) == State::AwaitingApproval,
    },
    Scene {
        name: "waiting for mail",
        plan: echo_plan,
        set_up: |app, _| app.say(0, "%tool wait {}"),
        holds: |app| app.state(0) == State::ExecutingTool && !app.agent(0).has_live_tool(),
    },
];

#[test]
fn an_interrupt_needs_no_time_where_no_thread_runs() {
    for scene in AT_ONCE {
        let peer = Peer::start();
        let mut app = app_with_agents(2, (scene.plan)(&peer));
        (scene.set_up)(&mut app, &peer);
        turn_a_while(&mut app);
        assert!((scene.holds)(&app), "{}", scene.name);
        let before = app.clock.now();
        app.ask(0, Change::Interrupt);
        assert_eq!((app.state(0), app.clock.now()), (State::Idle, before), "{}", scene.name);
        assert_eq!(app.kinds(0).last(), Some(&"interrupted"), "{}", scene.name);
    }
}

#[test]
fn esc_interrupts_in_each_of_these_states() {
    for scene in AT_ONCE {
        let peer = Peer::start();
        let mut app = app_with_agents(2, (scene.plan)(&peer));
        (scene.set_up)(&mut app, &peer);
        turn_a_while(&mut app);
        app.escape();
        assert_eq!(app.state(0), State::Idle, "{}", scene.name);
    }
}

#[test]
fn a_tool_whose_grandchildren_ignore_term_is_over_within_the_limit() {
    let mut app = Harness::new(Plan { real_time: true, ..Plan::default() });
    let mark = mark();
    let sleep = format!("sh -c \\\"sleep {mark}; true\\\"");
    let command = format!("sh -c 'trap \\\"\\\" TERM HUP INT; {sleep} & wait; sleep {mark}' & wait");
    let mut took = Vec::new();
    // A machine that is busy with other tests takes longer, but not every time; an interrupt that is slow by itself is
    // never within the limit.
    let start = Instant::now();
    while took.last().is_none_or(|last| *last >= LIMIT) {
        assert!(start.elapsed() < PATIENCE, "{took:?}");
        app.say(0, &format!("%tool bash {{\"command\":\"{command}\"}}"));
        app.answer(0, true);
        app.turn_until("the grandchildren", |_| is_running(&format!("sleep\0{mark}")));
        let asked = Instant::now();
        app.ask(0, Change::Interrupt);
        app.turn_until_idle();
        took.push(asked.elapsed());
        assert!(!is_running(&mark));
    }
}
