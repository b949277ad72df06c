//! Agents of several providers, of which each has its bad days, while a person does whatever can be done to them.
//! However that went: all agents come to rest, nothing wakes the loop any more, and the store has what memory has.

use std::time::Duration;

use polylogue::config::ProviderEntry;
use polylogue::{Change, Decision, QueueEdit};

use crate::support::Patience;
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{History, Message, Probe, State, WakeReason};
use crate::support::peer::{Exchange, Peer};
use crate::support::random::Random;
use crate::support::scene::{app_with_agents, assert_valid};

const MODELS: [&str; 6] = ["openai/test", "openai/other", "second/a", "third/b", "fourth/c", "echo/echo"];
const TEXTS: [&str; 7] = [
    "plain words",
    "%fail 429 retry-after=7",
    "%fail 503",
    "%hang",
    "%tool wait {\"timeout\":20}",
    "%tool bash {\"command\":\"sleep 0.03\"}\n%tool bash {\"command\":\"true\"}",
    "%tool fork {\"prompt\":\"words\"}",
];
const COMMANDS: [&str; 12] = [
    "/slice summarize:0:1,summarize:0:2",
    "/slice 0:1",
    "/mark a",
    "/rewind a",
    "/clear",
    "/clear undo",
    "/fork",
    "/fork --model third/z",
    "/thinking low",
    "/thinking default",
    "/env readonly",
    "/queue drop 1",
];
/// How many turns in a row may have nothing to wait for.
const RESTLESS: usize = 400;

/// The keys of the third are printed by a command, and those of the fourth are not to be had.
fn plan(peers: &[Peer; 3], working_limit: usize) -> Plan {
    let entry = |name: &str, url: String, command: Option<&str>| ProviderEntry {
        name: name.into(),
        kind: "openai".into(),
        base_url: url,
        key_command: command.map(str::to_owned),
        ..ProviderEntry::default()
    };
    let providers = vec![
        entry("second", peers[1].url(), None),
        entry("third", peers[2].url(), Some("echo key-$$")),
        entry("fourth", peers[2].url(), Some("sleep 0.05; exit 1")),
        ProviderEntry { name: "echo".into(), kind: "echo".into(), ..ProviderEntry::default() },
    ];
    Plan { providers, working_limit, ..Plan::peer(&peers[0].url()) }
}

/// One thing that a person, the machine or time does.
fn step(mut app: Harness, random: &mut Random) -> Harness {
    let n = random.below(app.repl.roster().len());
    let id = app.id(n);
    match random.below(12) {
        0..=2 => app.say(n, "words"),
        3 => type_to(&mut app, n, TEXTS[random.below(TEXTS.len())]),
        4..=5 => type_to(&mut app, n, &format!("/model {}", MODELS[random.below(MODELS.len())])),
        6..=7 => type_to(&mut app, n, COMMANDS[random.below(COMMANDS.len())]),
        8 => app.ask(n, if random.below(2) == 0 { Change::EditQueue(QueueEdit::Resume) } else { Change::Interrupt }),
        9 if n > 0 && random.below(2) == 0 => app.ask(0, Change::Kill { agent_id: id, cascade: random.below(2) == 0 }),
        9 if random.below(3) == 0 => app = app.crash_and_restart(),
        10 => drop(app.advance(Duration::from_millis(random.below(9000) as u64))),
        _ => answer_questions(&mut app, |random| random.below(3) > 0, random),
    }
    app
}

/// What is refused does not stay in the draft.
fn type_to(app: &mut Harness, n: usize, line: &str) {
    app.switch(n);
    app.enter(line);
    app.type_bytes(b"\x15");
}

fn answer_questions(app: &mut Harness, allows: fn(&mut Random) -> bool, random: &mut Random) {
    for id in app.repl.roster().asking().clone() {
        let question = app.repl.roster().get(id).and_then(|agent| agent.question()).map(|asked| asked.number);
        let decision = if allows(random) { Decision::Allow } else { Decision::Deny(None) };
        let change = question.map(|question| Change::Answer { question, decision });
        change.map_or(Ok(()), |change| app.repl.apply(id, change)).expect("an answer");
    }
}

/// What a server does to a valid request.
fn play(exchange: &Exchange, random: &mut Random) {
    assert_valid(&exchange.request().json());
    match random.below(10) {
        0..=2 => drop(exchange.stream().text("fine").usage(5, 6).finish("stop").done()),
        3 => drop(exchange.head(429, &[("retry-after", "7"), ("content-length", "0")])),
        4 => drop(exchange.head(503, &[("content-length", "0")])),
        5 => drop(exchange.error(401, "expired", "no")),
        6 => drop(exchange.error(400, "bad", "no")),
        7 => exchange.hang_up(),
        8 => exchange.stream().text("half").hang_up(),
        _ => drop(exchange.stream().tool_call(0, "c", "wait", "{\"timeout\":5}").finish("tool_calls").done()),
    }
}

/// From now on all servers answer and all is allowed: all agents come to rest.
fn come_to_rest(app: &mut Harness, peers: &[Peer; 3], mut open: Vec<Exchange>, random: &mut Random) {
    let (mut restless, mut patience) = (0, Patience::new());
    for turn in 0.. {
        open.drain(..).chain(peers.iter().filter_map(Peer::try_accept)).for_each(|exchange| {
            exchange.stream().text("fine").finish("stop").done();
        });
        answer_questions(app, |_| true, random);
        let timeout = app.timeout();
        if timeout.why == WakeReason::Nothing && app.repl.roster().busy().is_empty() {
            return;
        }
        restless = if timeout.after == Some(Duration::ZERO) { restless + 1 } else { 0 };
        assert!(restless < RESTLESS, "it turns without end: {timeout:?}\n{}", app.screen_text());
        // Commands take the machine's time, which says nothing about how many turns that is.
        let busy = app.repl.roster().busy().len();
        assert!(
            patience.has_time(),
            "{busy} agents wait for ever, after {turn} turns: {timeout:?}\n{}",
            app.screen_text()
        );
        app.turn_within(Duration::from_millis(1));
        if turn % 6 == 0 {
            app.clock.advance(Duration::from_secs(3));
        }
    }
}

/// What the store must have of an agent, apart from the messages.
fn facts(app: &Harness, n: usize) -> String {
    let agent = app.agent(n);
    let inputs = &agent.inputs;
    let runs_on = (inputs.endpoint.full_name(), inputs.thinking, &inputs.environment.spec, &inputs.system);
    let queue: Vec<_> = agent.queue.iter().map(|entry| (entry.id, &entry.text, entry.is_command)).collect();
    format!("{} {:?} {queue:?} {runs_on:?}", agent.id(), agent.state())
}

fn converse(history: &History) -> Vec<Message> {
    history.conversation().into_iter().cloned().collect()
}

fn walk(seed: u64) {
    let (mut random, peers) = (Random(seed), [Peer::start(), Peer::start(), Peer::start()]);
    let mut app = app_with_agents(4, plan(&peers, 1 + (seed % 4) as usize));
    let mut open = Vec::new();
    for _ in 0..150 {
        app = step(app, &mut random);
        app.turn_within(Duration::from_millis(2));
        open.extend(peers.iter().filter_map(Peer::try_accept));
        if !open.is_empty() && random.below(3) == 0 {
            play(&open.swap_remove(random.below(open.len())), &mut random);
        }
    }
    come_to_rest(&mut app, &peers, open, &mut random);
    let agents = 0..app.repl.roster().len();
    assert!(agents.clone().all(|n| app.state(n) == State::Idle && !app.agent(n).view.is_spinning()));
    assert!(app.repl.roster().at_work().is_empty() && app.repl.unsaved() == 0);
    let before: Vec<_> = agents.clone().map(|n| facts(&app, n)).collect();
    let known: Vec<_> = agents.clone().map(|n| app.agent(n).inputs.history.as_ref().map(converse)).collect();
    let app = app.crash_and_restart();
    assert_eq!(agents.clone().map(|n| facts(&app, n)).collect::<Vec<_>>(), before);
    for (n, known) in known.into_iter().enumerate().filter_map(|(n, known)| Some((n, known?))) {
        assert_eq!(converse(&History::from_messages(app.log(n))), known);
    }
}

#[test]
fn random_events_leave_agents_idle_and_the_store_consistent() {
    for seed in 1..=6 {
        println!("seed {seed}");
        walk(seed);
    }
}
