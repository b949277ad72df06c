//! Runs that leave commands running.

use std::io::{BufRead as _, BufReader, Write as _};
use std::time::Instant;

use polylogue::Store;
use serde_json::{Value, json};

use super::Home;
use crate::support::PATIENCE;
use crate::support::client::request;
use crate::support::internals::socket;
use crate::support::scene::{is_running, mark};

fn start(script: &str) -> String {
    format!("%tool bash {}\n%next\nstarted", json!({"command": script, "run_in_background": true}))
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < give_up, "never came: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_run_ends_its_background_commands_and_says_so() {
    let home = Home::new();
    let sleep = mark();
    let output = home.run(&["-p", "-m", "echo", "--approval", "yolo", &start(&format!("exec sleep {sleep}"))]);
    assert_eq!((output.code, output.out.as_str()), (0, "started\n"), "{output:?}");
    assert!(output.err.contains("ended 1 background command with the run: --keep-background"), "{output:?}");
    assert!(!is_running(&format!("sleep\0{sleep}")));
    let listed = home.run(&["ps", "--json"]).out;
    assert_eq!(listed.lines().count(), 1, "the agent of the run is archived: {listed}");
}

#[test]
fn kept_commands_are_continued_by_the_next_run_until_they_end() {
    let home = Home::new();
    let there = |file: &str| home.directory.path().join(file).exists();
    let script = "touch up; until [ -e go ]; do sleep 0.02; done; touch done";
    let output = home.run(&["-p", "-m", "echo", "--keep-background", "--approval", "yolo", &start(script)]);
    assert_eq!((output.code, output.out.as_str(), output.err.lines().count()), (0, "started\n", 1), "{output:?}");
    eventually("the command", || there("up"));
    let look = format!("%tool bash_output {}\n%next\nlooked", json!({"bash_id": "bash_1"}));
    let output = home.run(&["-p", "-m", "echo", "-c", "--approval", "yolo", &look]);
    assert_eq!((output.code, output.out.as_str()), (0, "looked\n"), "{output:?}");
    let logs = home.run(&["logs", &home.id(1)]).out;
    assert!(logs.contains("[bash_1 is running]"), "{logs}");
    std::fs::write(home.directory.path().join("go"), "").expect("a file");
    eventually("the end of the command", || there("done"));
    eventually("the end of the process that served it", || Store::open(&home.data()).is_ok());
    assert!(home.run(&["ps", "--archived"]).out.contains("archived"), "the agent of the runs has ended with it");
}

/// The process that goes on may do what its command line said; what others begin there may not.
#[test]
fn a_client_gets_nothing_of_what_the_run_that_goes_on_may_do() {
    let home = Home::new();
    let kept = start("until [ -e go ]; do sleep 0.02; done");
    let output = home.run(&["-p", "-m", "echo", "--keep-background", "--approval", "yolo", &kept]);
    assert_eq!(output.code, 0, "{output:?}");
    let stream = socket::connect(&home.data()).expect("a socket of ours").expect("it goes on");
    let mut stream = BufReader::new(stream);
    writeln!(stream.get_mut(), "{}", request("new", json!({"print_run": true}))).expect("it reads");
    let mut line = String::new();
    stream.read_line(&mut line).expect("it answers");
    let made: Value = serde_json::from_str(&line).expect("an object");
    assert_eq!(made["ok"]["policy"], "never", "{line}");
    drop(stream);
    std::fs::write(home.directory.path().join("go"), "").expect("a file");
    eventually("the end of the process", || Store::open(&home.data()).is_ok());
}

#[test]
fn the_exit_code_is_that_of_the_run_also_where_nothing_is_kept() {
    let home = Home::new();
    let output = home.run(&["-p", "-m", "echo", "--keep-background", "hello"]);
    assert_eq!((output.code, output.out.as_str(), output.err.as_str()), (0, "hello\n", ""), "{output:?}");
    let start = start("until [ -e go ]; do sleep 0.02; done");
    let output = home.run(&["-p", "-m", "echo", "--keep-background", "--approval", "yolo", "--max-turns", "1", &start]);
    assert_eq!(output.code, 4, "{output:?}");
    std::fs::write(home.directory.path().join("go"), "").expect("a file");
    eventually("the end of the process", || Store::open(&home.data()).is_ok());
}
