//! `polylogue multi-agent` as a shell and scripts meet it: the real program, with echo and against scripted servers.

mod ends;
mod faults;
mod files;
mod live;

use crate::support::peer::Peer;
use crate::support::program::{Home, Response};

/// The words behind `polylogue multi-agent`.
fn words(line: &str) -> Vec<&str> {
    ["multi-agent"].into_iter().chain(line.split(' ')).collect()
}

fn run(home: &Home, line: &str) -> Response {
    home.run(&words(line))
}

#[test]
fn a_fresh_home_gets_an_answer_from_real_agents_with_every_strategy_and_every_aggregation() {
    for strategy in ["sequential", "parallel", "pipeline", "adaptive"] {
        for aggregation in ["concatenate", "vote", "select_best", "merge", "first_success"] {
            let home = Home::new();
            let told = run(&home, &format!("run --task hello --strategy {strategy} --aggregation {aggregation}"));
            let all = if aggregation == "concatenate" { "hello\n---\nhello\n---\nhello\n" } else { "hello\n" };
            assert_eq!((told.code, &*told.out), (0, all), "{strategy} {aggregation}: {told:?}");
            assert!(told.err.contains(" has answered after"), "{told:?}");
            assert!(home.data().exists(), "it is kept");
        }
    }
}

#[test]
fn each_template_sets_its_own_members_on_the_task() {
    for (template, members) in [
        ("code-review", "reviewer security performance"),
        ("refactor", "analyzer planner implementer"),
        ("documentation", "analyzer writer reviewer"),
        ("testing", "analyzer test-writer validator"),
    ] {
        let told = run(&Home::new(), &format!("run look at this --template {template}"));
        assert_eq!(told.code, 0, "{told:?}");
        assert!(told.out.lines().all(|line| line == "look at this" || line == "---"), "{told:?}");
        for member in members.split(' ') {
            assert!(told.err.contains(&format!("{member} has answered after")), "{member}: {told:?}");
        }
    }
}

#[test]
fn the_task_is_what_stands_behind_the_options_or_what_standard_input_says() {
    let home = Home::new();
    for (line, input, answer) in [
        ("run one two --count 1", "", "one two\n"),
        ("run --count 1 - ", "typed\nhere\n", "typed\nhere\n"),
        ("run --count 1 --task -", "typed\n", "typed\n"),
        ("run --count 1 explain -", "typed\n", "explain\n\ntyped\n"),
        ("run --count 1 -- --help", "", "--help\n"),
    ] {
        let mut program = home.start_with_input(&words(line.trim_end()));
        program.write(input);
        let told = program.ends();
        assert_eq!((told.code, &*told.out), (0, answer), "{line}: {told:?}");
    }
}

#[test]
fn a_hundred_agents_work_at_once() {
    let home = Home::new();
    let told = run(&home, "run hi --count 100 --strategy parallel --json");
    assert_eq!(told.code, 0, "{}", told.err);
    assert_eq!(told.result()["answer"].as_str().map(|answer| answer.matches("hi").count()), Some(100));
    let lines: Vec<&str> = told.out.lines().collect();
    let first = |kind: &str| lines.iter().position(|line| line.contains(kind)).expect(kind);
    let began = lines[..first("agent_finished")].iter().filter(|line| line.contains("agent_started")).count();
    assert!(began > 10, "the usual limit does not hold: {began} had begun when the first was done");
}

#[test]
fn runs_are_kept_with_what_became_of_them_and_with_ephemeral_nothing_is() {
    let home = Home::new();
    assert_eq!(run(&home, "run hello --ephemeral").code, 0);
    assert!(!home.data().exists());
    assert_eq!(run(&home, "status").out, "no stored runs\n");
    assert_eq!(run(&home, "run first --agents ann,bob --strategy pipeline").code, 0);
    assert_eq!(run(&home, "run !fail 400 no --agents ann --retries 0 --aggregation vote").code, 3);
    let told = run(&home, "status");
    let lines: Vec<&str> = told.out.lines().collect();
    let has = |line: usize, parts: &[&str]| parts.iter().all(|part| lines[line].contains(part));
    assert!(has(0, &["failed", "sequential vote", "0 of 1 answered", "!fail 400 no"]), "the newest first: {told:?}");
    assert!(has(1, &["completed", "pipeline concatenate", "2 of 2 answered", "first"]), "{told:?}");
    let told = run(&home, "status --json");
    assert_eq!((told.code, told.out.lines().count()), (0, 2), "{told:?}");
    let result = told.result();
    assert_eq!((&result["state"], &result["task"]), (&"completed".into(), &"first".into()));
    assert_eq!(
        (&result["outcome"]["answer"], &result["outcome"]["results"][1]["member"]),
        (&"first\n---\nfirst".into(), &"bob".into())
    );
}

#[test]
fn the_state_of_a_run_is_told_while_it_goes_on() {
    let peer = Peer::start();
    let home = Home::with_server(&peer.url());
    let program = home.start(&words("run hello --count 1"));
    let exchange = peer.accept();
    let told = run(&home, "status");
    assert!(told.out.contains("running") && told.out.contains("hello"), "{told:?}");
    exchange.stream().text("done").finish("stop").done();
    assert_eq!(program.ends().out, "done\n");
    assert!(run(&home, "status").out.contains("completed"));
}
