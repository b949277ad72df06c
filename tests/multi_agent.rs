//! `polylogue multi-agent`: the program as a process, with the echo provider and scripted servers.

mod ends;
mod faults;
mod files;
mod live;
mod served;

use rustix::process::Signal;

use crate::support::peer::Peer;
use crate::support::program::{Home, Response};

/// The arguments of `polylogue multi-agent`.
fn split(line: &str) -> Vec<&str> {
    ["multi-agent"].into_iter().chain(line.split(' ')).collect()
}

fn run(home: &Home, line: &str) -> Response {
    home.run(&split(line))
}

/// A signal stops a run whose second member is answering: the answer of the first is written, and the others are named.
fn ends_with_what_there_is(home: &Home, peer: &Peer, (signal, code): (Signal, i32)) {
    let program = home.start(&split("run hello --agents ann:echo,bob,eve --strategy sequential"));
    let exchange = peer.accept();
    exchange.stream().text("half of it");
    program.signal(signal);
    exchange.wait_for_close();
    let output = program.ends();
    assert_eq!((output.code, &*output.out), (code, "hello\n"), "{output:?}");
    for part in ["bob: stopped: interrupted", "eve skipped: not started: interrupted", "partial answer"] {
        assert!(output.err.contains(part), "{part}: {output:?}");
    }
}

#[test]
fn every_strategy_and_aggregation_gives_an_answer() {
    for strategy in ["sequential", "parallel", "pipeline", "adaptive"] {
        for aggregation in ["concatenate", "vote", "select_best", "merge", "first_success", "last"] {
            let home = Home::new();
            let output = run(&home, &format!("run --task hello --strategy {strategy} --aggregation {aggregation}"));
            let all = if aggregation == "concatenate" { "hello\n---\nhello\n---\nhello\n" } else { "hello\n" };
            assert_eq!((output.code, &*output.out), (0, all), "{strategy} {aggregation}: {output:?}");
            assert!(output.err.contains(" answered after"), "{output:?}");
            assert!(home.data().exists(), "it is kept");
        }
    }
}

#[test]
fn each_template_has_its_own_members() {
    for (template, members) in [
        ("code-review", "reviewer security performance"),
        ("refactor", "analyzer planner implementer"),
        ("documentation", "analyzer writer reviewer"),
        ("testing", "analyzer test-writer validator"),
    ] {
        let output = run(&Home::new(), &format!("run look at this --template {template}"));
        assert_eq!(output.code, 0, "{output:?}");
        assert!(output.out.lines().all(|line| line == "look at this" || line == "---"), "{output:?}");
        for member in members.split(' ') {
            assert!(output.err.contains(&format!("{member} answered after")), "{member}: {output:?}");
        }
    }
}

#[test]
fn the_task_comes_from_arguments_or_standard_input() {
    let home = Home::new();
    for (line, input, answer) in [
        ("run one two --count 1", "", "one two\n"),
        ("run --count 1 - ", "typed\nhere\n", "typed\nhere\n"),
        ("run --count 1 --task -", "typed\n", "typed\n"),
        ("run --count 1 explain -", "typed\n", "explain\n\ntyped\n"),
        ("run --count 1 -- --help", "", "--help\n"),
    ] {
        let mut program = home.start_with_input(&split(line.trim_end()));
        program.write(input);
        let output = program.ends();
        assert_eq!((output.code, &*output.out), (0, answer), "{line}: {output:?}");
    }
}

#[test]
fn a_hundred_agents_work_at_once() {
    let home = Home::new();
    let output = run(&home, "run hi --count 100 --strategy parallel --json");
    assert_eq!(output.code, 0, "{}", output.err);
    assert_eq!(output.result()["answer"].as_str().map(|answer| answer.matches("hi").count()), Some(100));
    let lines: Vec<&str> = output.out.lines().collect();
    let first = |kind: &str| lines.iter().position(|line| line.contains(kind)).expect(kind);
    let began = lines[..first("agent_finished")].iter().filter(|line| line.contains("agent_started")).count();
    assert!(began > 10, "the usual limit does not hold: {began} had begun when the first was done");
}

#[test]
fn runs_are_stored_with_their_outcome_except_with_ephemeral() {
    let home = Home::new();
    assert_eq!(run(&home, "run hello --ephemeral").code, 0);
    assert!(!home.data().exists());
    assert_eq!(run(&home, "status").out, "no stored runs\n");
    assert_eq!(run(&home, "run first --agents ann,bob --strategy pipeline").code, 0);
    assert_eq!(run(&home, "run %fail 400 no --agents ann --retries 0 --aggregation vote").code, 3);
    let output = run(&home, "status");
    let lines: Vec<&str> = output.out.lines().collect();
    let has = |line: usize, parts: &[&str]| parts.iter().all(|part| lines[line].contains(part));
    assert!(has(0, &["failed", "sequential vote", "0 of 1 answered", "%fail 400 no"]), "the newest first: {output:?}");
    assert!(has(1, &["completed", "pipeline last", "2 of 2 answered", "first"]), "{output:?}");
    let output = run(&home, "status --json");
    assert_eq!((output.code, output.out.lines().count()), (0, 2), "{output:?}");
    let result = output.result();
    assert_eq!((&result["state"], &result["task"]), (&"completed".into(), &"first".into()));
    assert_eq!(
        (&result["outcome"]["answer"], &result["outcome"]["results"][1]["member"]),
        (&"first".into(), &"bob".into())
    );
}

#[test]
fn status_shows_a_run_that_is_still_running() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let program = home.start(&split("run hello --count 1"));
    let exchange = peer.accept();
    let output = run(&home, "status");
    assert!(output.out.contains("running") && output.out.contains("hello"), "{output:?}");
    exchange.stream().text("done").finish("stop").done();
    assert_eq!(program.ends().out, "done\n");
    assert!(run(&home, "status").out.contains("completed"));
}
