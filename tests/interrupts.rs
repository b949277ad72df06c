//! Esc ends whatever an agent does within 100 ms, in every state: at once where nothing but the loop is needed, and
//! with tools as soon as everything that they started has ended.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use polylogue::agent::{State, Wait};
use polylogue::domain::endpoint::Endpoint;
use polylogue::domain::flow::Change;

use crate::support::PATIENCE;
use crate::support::harness::{Harness, Plan};
use crate::support::peer::{Peer, Silent};
use crate::support::scene::{house_of, let_pass, mark, runs};

/// How long an interrupt may take.
const LIMIT: Duration = Duration::from_millis(100);

static SILENT: LazyLock<Silent> = LazyLock::new(Silent::start);

/// One state that an agent can be interrupted in, and how it comes to be in it.
struct Scene {
    name: &'static str,
    plan: fn(&Peer) -> Plan,
    bring_about: fn(&mut Harness, &Peer),
    holds: fn(&Harness) -> bool,
}

fn peer_plan(peer: &Peer) -> Plan {
    Plan::peer(&peer.url())
}

fn echo_plan(_: &Peer) -> Plan {
    Plan::default()
}

/// States that end within the turn in which the key is looked at: the clock does not move.
const AT_ONCE: [Scene; 9] = [
    Scene {
        name: "waiting for a place",
        plan: |peer| Plan { working_limit: 1, ..peer_plan(peer) },
        bring_about: |house, _| {
            house.say(1, "holds the place");
            house.say(0, "waits");
        },
        holds: |house| matches!(house.agent(0).wait(), Wait::Place),
    },
    Scene {
        name: "its provider is paused",
        plan: peer_plan,
        bring_about: |house, peer| {
            house.say(1, "is refused");
            house.accept(peer).head(429, &[("retry-after", "60"), ("content-length", "0")]);
            house.turn_until("a pause", |house| matches!(house.agent(1).wait(), Wait::Retry { .. }));
            house.say(0, "waits");
        },
        holds: |house| matches!(house.agent(0).wait(), Wait::Place),
    },
    Scene {
        name: "waiting for a key",
        plan: |peer| {
            let plan = peer_plan(peer);
            Plan { endpoint: Endpoint { key_command: Some(format!("sleep {}", mark())), ..plan.endpoint }, ..plan }
        },
        bring_about: |house, _| house.say(0, "waits"),
        holds: |house| matches!(house.agent(0).wait(), Wait::Key),
    },
    Scene {
        name: "connecting to a host that does not answer",
        plan: |_| Plan::peer(&SILENT.url()),
        bring_about: |house, _| house.say(0, "hello?"),
        holds: |house| matches!(house.agent(0).wait(), Wait::Transfer),
    },
    Scene {
        name: "awaiting the headers",
        plan: peer_plan,
        bring_about: |house, peer| {
            house.say(0, "hello?");
            house.accept(peer);
        },
        holds: |house| matches!(house.agent(0).wait(), Wait::Transfer) && house.agent(0).partial_text().is_empty(),
    },
    Scene {
        name: "streaming",
        plan: peer_plan,
        bring_about: |house, peer| {
            house.say(0, "hello?");
            house.accept(peer).stream().text("half");
            house.turn_until("the half", |house| house.agent(0).partial_text() == "half");
        },
        holds: |house| house.state(0) == State::WaitingForLlm,
    },
    Scene {
        name: "waiting to try again",
        plan: echo_plan,
        bring_about: |house, _| house.say(0, "!fail network"),
        holds: |house| matches!(house.agent(0).wait(), Wait::Retry { .. }),
    },
    Scene {
        name: "awaiting approval",
        plan: echo_plan,
        bring_about: |house, _| house.say(0, "!tool bash {\"command\":\"true\"}"),
        holds: |house| house.state(0) == State::AwaitingApproval,
    },
    Scene {
        name: "waiting for letters",
        plan: echo_plan,
        bring_about: |house, _| house.say(0, "!tool wait {}"),
        holds: |house| house.state(0) == State::ExecutingTool && !house.agent(0).has_live_tool(),
    },
];

#[test]
fn an_interrupt_needs_no_time_where_no_thread_runs() {
    for scene in AT_ONCE {
        let peer = Peer::start();
        let mut house = house_of(2, (scene.plan)(&peer));
        (scene.bring_about)(&mut house, &peer);
        let_pass(&mut house);
        assert!((scene.holds)(&house), "{}", scene.name);
        let before = house.clock.now();
        house.ask(0, Change::Interrupt);
        assert_eq!((house.state(0), house.clock.now()), (State::Idle, before), "{}", scene.name);
        assert_eq!(house.kinds(0).last(), Some(&"interrupted"), "{}", scene.name);
    }
}

#[test]
fn esc_is_heard_in_each_of_these_states() {
    for scene in AT_ONCE {
        let peer = Peer::start();
        let mut house = house_of(2, (scene.plan)(&peer));
        (scene.bring_about)(&mut house, &peer);
        let_pass(&mut house);
        house.escape();
        assert_eq!(house.state(0), State::Idle, "{}", scene.name);
    }
}

#[test]
fn a_tool_whose_grandchildren_ignore_term_is_over_within_the_limit() {
    let mut house = Harness::new(Plan { real_time: true, ..Plan::default() });
    let mark = mark();
    let sleep = format!("sh -c \\\"sleep {mark}; true\\\"");
    let command = format!("sh -c 'trap \\\"\\\" TERM HUP INT; {sleep} & wait; sleep {mark}' & wait");
    let mut took = Vec::new();
    // A machine that is busy with other tests takes longer, and none takes longer every time: what is waited for in vain
    // is an interrupt that takes its time by itself.
    let start = Instant::now();
    while took.last().is_none_or(|last| *last >= LIMIT) {
        assert!(start.elapsed() < PATIENCE, "{took:?}");
        house.say(0, &format!("!tool bash {{\"command\":\"{command}\"}}"));
        house.answer(0, true);
        house.turn_until("the grandchildren", |_| runs(&format!("sleep\0{mark}")));
        let asked = Instant::now();
        house.ask(0, Change::Interrupt);
        house.turn_until_idle();
        took.push(asked.elapsed());
        assert!(!runs(&mark));
    }
}
