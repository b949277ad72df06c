//! Events and requests during a run.

use serde_json::Value;

use super::split;
use crate::support::peer::{Exchange, Peer};
use crate::support::program::Home;

fn answer(exchange: &Exchange, text: &str) {
    exchange.stream().text(text).finish("stop").done();
}

#[test]
fn each_event_is_written_as_json_when_it_happens() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let program = home.start(&split("run hello --agents ann,bob --strategy parallel --json"));
    let mut events: Vec<Value> = (0..3).map(|_| program.object()).collect();
    let (held, quick) = (peer.accept(), peer.accept());
    answer(&quick, "quick");
    events.push(program.object());
    assert_eq!((&events[3]["type"], &events[3]["answer"]), (&"agent_finished".into(), &"quick".into()));
    answer(&held, "slow");
    events.push(program.object());
    events.extend([program.object(), program.object()]);
    let output = program.ends();
    assert_eq!(output.code, 0, "{output:?}");
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    let (start, end) = ("agent_started", "agent_finished");
    assert_eq!(kinds, ["task_started", start, start, end, end, "aggregation_completed", "task_completed"]);
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["n"].as_u64()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
    assert!(events.iter().all(|event| event["run"] == events[0]["run"] && event["v"] == 1));
    assert_eq!(output.out, "", "nothing but events is written: {output:?}");
}

#[test]
fn the_working_limit_option_applies() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let program = home.start(&split("run hello --count 2 --strategy parallel --working-limit 1 --json"));
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
fn members_use_the_model_option_and_not_the_model_of_the_root() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    assert_eq!(home.run(&split("run hello --count 1 --model echo")).out, "hello\n");
    let program = home.start(&split("run hello --agents ann,bob:echo,eve --strategy sequential --model openai/big"));
    let first = peer.accept();
    assert_eq!(first.request().json()["model"], "big");
    answer(&first, "from ann");
    answer(&peer.accept(), "from eve");
    let output = program.ends();
    assert_eq!((output.code, &*output.out), (0, "from ann\n---\nhello\n---\nfrom eve\n"), "{output:?}");
}

#[test]
fn the_judge_picks_the_answer_and_is_named_in_a_note() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let line = "run hello --agents ann:echo,bob --aggregation select_best --judge openai/judge";
    let program = home.start(&split(line));
    answer(&peer.accept(), "bye");
    let judge = peer.accept();
    assert_eq!(judge.request().json()["model"], "judge");
    answer(&judge, "2");
    let output = program.ends();
    assert_eq!((output.code, &*output.out), (0, "bye\n"), "{output:?}");
    assert!(output.err.contains("chosen by the judge openai/judge"), "{output:?}");
}

#[test]
fn a_call_that_needs_approval_is_refused_at_once() {
    let home = Home::new();
    let output =
        home.run(&["multi-agent", "run", "--count", "1", "%tool bash {\"command\":\"touch made\"}\n%next\nwell"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.out.contains("well"), "{output:?}");
    assert!(output.err.contains("refused a tool call that needs approval"), "{output:?}");
    assert!(!home.directory.path().join("made").exists());
}
