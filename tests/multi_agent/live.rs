//! A run while it goes on: what is told when, and who is asked.

use serde_json::Value;

use super::words;
use crate::support::peer::{Exchange, Peer};
use crate::support::program::Home;

fn answer(exchange: &Exchange, text: &str) {
    exchange.stream().text(text).finish("stop").done();
}

#[test]
fn each_event_is_a_line_of_json_when_it_happens_while_others_still_work() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let program = home.start(&words("run hello --agents ann,bob --strategy parallel --json"));
    let mut events: Vec<Value> = (0..3).map(|_| program.object()).collect();
    let (held, quick) = (peer.accept(), peer.accept());
    answer(&quick, "quick");
    events.push(program.object());
    assert_eq!((&events[3]["type"], &events[3]["answer"]), (&"agent_finished".into(), &"quick".into()));
    answer(&held, "slow");
    events.push(program.object());
    events.extend([program.object(), program.object()]);
    let told = program.ends();
    assert_eq!(told.code, 0, "{told:?}");
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    let (start, end) = ("agent_started", "agent_finished");
    assert_eq!(kinds, ["task_started", start, start, end, end, "aggregation_completed", "task_completed"]);
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["n"].as_u64()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
    assert!(events.iter().all(|event| event["run"] == events[0]["run"] && event["v"] == 1));
    assert_eq!(told.out, "", "nothing but events is written: {told:?}");
}

#[test]
fn the_working_limit_that_is_said_holds() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let program = home.start(&words("run hello --count 2 --strategy parallel --working-limit 1 --json"));
    let first = peer.accept();
    assert_eq!(
        (program.object()["type"].clone(), program.object()["type"].clone()),
        ("task_started".into(), "agent_started".into())
    );
    answer(&first, "one");
    assert_eq!(program.object()["type"], "agent_finished");
    answer(&peer.accept(), "two");
    assert_eq!(program.object()["type"], "agent_started");
    assert_eq!(program.ends().code, 0);
}

#[test]
fn members_talk_to_the_model_that_is_said_whatever_the_root_has_come_to_talk_to() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    assert_eq!(home.run(&words("run hello --count 1 --model echo")).out, "hello\n");
    let program = home.start(&words("run hello --agents ann,bob:echo,eve --strategy sequential --model openai/big"));
    let first = peer.accept();
    assert_eq!(first.request().json()["model"], "big");
    answer(&first, "from ann");
    answer(&peer.accept(), "from eve");
    let told = program.ends();
    assert_eq!((told.code, &*told.out), (0, "from ann\n---\nhello\n---\nfrom eve\n"), "{told:?}");
}

#[test]
fn a_judge_picks_the_answer_and_is_told_beside_it() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let line = "run hello --agents ann:echo,bob --aggregation select_best --judge openai/judge";
    let program = home.start(&words(line));
    answer(&peer.accept(), "bye");
    let judge = peer.accept();
    assert_eq!(judge.request().json()["model"], "judge");
    answer(&judge, "2");
    let told = program.ends();
    assert_eq!((told.code, &*told.out), (0, "bye\n"), "{told:?}");
    assert!(told.err.contains("chosen by the judge openai/judge"), "{told:?}");
}

#[test]
fn a_call_that_a_person_would_have_to_allow_is_refused_at_once() {
    let home = Home::new();
    let told =
        home.run(&["multi-agent", "run", "--count", "1", "!tool bash {\"command\":\"touch made\"}\n!next\nwell"]);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(told.out.contains("well"), "{told:?}");
    assert!(told.err.contains("refused a tool call that needs approval"), "{told:?}");
    assert!(!home.directory.path().join("made").exists());
}
