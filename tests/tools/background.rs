//! Commands in the background: they outlive the turn, and nothing of them outlives their agent.

use std::fs;

use polylogue::config::Policy;
use polylogue::{Change, ToolResult};
use rustix::process::Signal;
use serde_json::json;

use crate::support::harness::{Harness, Plan};
use crate::support::program::Home;
use crate::support::scene::{app_with_agents, is_running, mark};
use crate::support::{PATIENCE, Patience};

fn app(agents: usize) -> Harness {
    let plan = Plan { policy: Policy::Yolo, rules: Default::default(), real_time: true, ..Plan::default() };
    app_with_agents(agents, plan)
}

fn in_background(command: &str) -> String {
    format!("bash {}", json!({"command": command, "run_in_background": true}))
}

/// The result of a call that an agent makes in a turn of its own.
fn call(app: &mut Harness, n: usize, call: &str) -> ToolResult {
    app.say(n, &format!("%tool {call}"));
    app.turn_until_idle();
    app.tool_results(n).pop().expect("a result")
}

/// Starts a command, and returns its id.
fn start(app: &mut Harness, n: usize, command: &str) -> String {
    let result = call(app, n, &in_background(command));
    assert!(!result.is_error, "{}", result.content);
    id_in(&result)
}

fn id_in(result: &ToolResult) -> String {
    let id = result.content.split([' ', ';']).find(|word| word.starts_with("bash_")).expect("an id");
    id.to_owned()
}

fn output(app: &mut Harness, n: usize, id: &str) -> String {
    call(app, n, &format!("bash_output {}", json!({ "bash_id": id }))).content
}

/// Waits for the end of a command and returns its output.
fn output_at_end(app: &mut Harness, n: usize, id: &str) -> String {
    call(app, n, &format!("bash_output {}", json!({"bash_id": id, "timeout": 600_000}))).content
}

/// The first look that shows something: what a command has printed may be in its pipe still.
fn first_output(app: &mut Harness, n: usize, id: &str) -> String {
    let mut patience = Patience::new();
    loop {
        let content = output(app, n, id);
        if !content.starts_with("[no new output]") {
            return content;
        }
        assert!(patience.has_time(), "no output of {id}");
    }
}

fn exists(app: &Harness, file: &str) -> bool {
    app.directory().join(file).exists()
}

const UNTIL_GO: &str = "until [ -e go ]; do sleep 0.02; done";

#[test]
fn a_command_goes_on_after_the_turn_and_each_look_shows_what_is_new() {
    let mut app = app(1);
    let id = start(&mut app, 0, &format!("echo one; touch up; {UNTIL_GO}; echo two; echo three; exit 3"));
    app.turn_until("the first line", |app| exists(app, "up"));
    let content = first_output(&mut app, 0, &id);
    assert!(content == format!("one\n[{id} is running]"), "{content}");
    assert_eq!(output(&mut app, 0, &id), format!("[no new output]\n[{id} is running]"));
    assert_eq!(app.agent(0).background_commands(), 1);
    fs::write(app.directory().join("go"), "").unwrap();
    assert_eq!(output_at_end(&mut app, 0, &id), format!("two\nthree\n[{id} has ended]\n[exit code 3]"));
    assert_eq!(output(&mut app, 0, &id), format!("[no new output]\n[{id} has ended]\n[exit code 3]"));
    assert_eq!(app.agent(0).background_commands(), 0);
    app.type_bytes(b"\x1b[5~");
    app.turn();
    let screen = app.screen_text();
    assert!(screen.contains(&format!("{id} ended: exit code 3")), "{screen}");
}

#[test]
fn a_wait_ends_with_its_time_and_with_an_interrupt() {
    let mut app = app(1);
    let id = start(&mut app, 0, &format!("touch up; {UNTIL_GO}"));
    app.turn_until("the command", |app| exists(app, "up"));
    let short = format!("bash_output {}", json!({"bash_id": id, "timeout": 30}));
    assert_eq!(call(&mut app, 0, &short).content, format!("[no new output]\n[{id} is running]"));
    app.say(0, &format!("%tool bash_output {}", json!({"bash_id": id, "timeout": 600_000})));
    app.turn_until("the wait", |app| app.screen_text().contains("waiting for a background command"));
    app.ask(0, Change::Interrupt);
    app.turn_until_idle();
    assert_eq!(app.agent(0).background_commands(), 1, "only the turn was interrupted");
    fs::write(app.directory().join("go"), "").unwrap();
    assert_eq!(output_at_end(&mut app, 0, &id), format!("[no new output]\n[{id} has ended]\n[exit code 0]"));
}

#[test]
fn a_filter_returns_the_lines_that_match_and_names_the_file_with_all() {
    let mut app = app(1);
    let id = start(&mut app, 0, "printf 'a ok\\nb\\nc ok\\n'");
    app.turn_until("the end", |app| app.agent(0).background_commands() == 0);
    let filtered = format!("bash_output {}", json!({"bash_id": id, "filter": "ok$"}));
    let content = call(&mut app, 0, &filtered).content;
    assert!(content.starts_with("a ok\nc ok\n[1 lines do not match; the full output is in "), "{content}");
    let file = content.split("output is in ").nth(1).unwrap().split(']').next().unwrap();
    assert_eq!(fs::read_to_string(file).unwrap(), "a ok\nb\nc ok\n");
    for (filter, expected) in [
        ("(".to_owned(), "`filter`: "),
        ("x".repeat(1001), "`filter`: longer than 1000 bytes"),
        (r"((\w{50}){50}){50}".to_owned(), "exceeds size limit"),
    ] {
        let invalid = format!("bash_output {}", json!({"bash_id": id, "filter": filter}));
        let result = call(&mut app, 0, &invalid);
        assert!(result.is_error && result.content.contains(expected), "{}", result.content);
    }
}

#[test]
fn output_is_cut_for_the_model_and_whole_in_the_file() {
    let mut app = app(1);
    let id = start(&mut app, 0, "seq 200000");
    let content = output_at_end(&mut app, 0, &id);
    assert!(content.starts_with("1\n2\n") && content.len() < 40_000, "{}", content.len());
    let file = content.split(" bytes is in ").nth(1).unwrap().split(']').next().unwrap();
    assert_eq!(fs::read_to_string(file).unwrap().lines().count(), 200_000);
    assert!(content.contains("199999\n200000\n[bash_"));
}

#[test]
fn a_killed_command_ends_with_all_its_processes() {
    let mut app = app(1);
    let word = mark();
    let id = start(&mut app, 0, &format!("echo begun; (setsid sleep {word} &); sleep {word}"));
    app.turn_until("the processes", |_| is_running(&word));
    let killed = call(&mut app, 0, &format!("bash_kill {}", json!({ "shell_id": id })));
    assert!(killed.content.ends_with(&format!("[{id} has ended]\n[interrupted]")), "{}", killed.content);
    assert!(!is_running(&word) && !killed.is_error);
}

#[test]
fn only_the_agent_that_started_a_command_can_read_or_end_it() {
    let mut app = app(2);
    let id = start(&mut app, 0, UNTIL_GO);
    for tool in ["bash_output", "bash_kill"] {
        let result = call(&mut app, 1, &format!("{tool} {}", json!({ "bash_id": id })));
        assert!(result.is_error && result.content.contains("you have none"), "{}", result.content);
    }
    let wrong = call(&mut app, 0, r#"bash_output {"bash_id": "7"}"#);
    assert!(wrong.is_error && wrong.content.contains(&format!("yours: {id}")), "{}", wrong.content);
    assert_eq!(app.agent(0).background_commands(), 1);
}

#[test]
fn the_number_of_commands_is_bounded() {
    let mut app = app(1);
    let ids: Vec<String> = (0..8).map(|_| start(&mut app, 0, UNTIL_GO)).collect();
    let result = call(&mut app, 0, &in_background("true"));
    assert!(result.is_error && result.content.contains("end one with bash_kill"), "{}", result.content);
    call(&mut app, 0, &format!("bash_kill {}", json!({"bash_id": ids[3]})));
    start(&mut app, 0, UNTIL_GO);
}

#[test]
fn a_command_ends_with_its_agent() {
    for end in ["kill", "delete", "stop", "leave", "crash"] {
        let mut app = app(2);
        let word = mark();
        start(&mut app, 1, &format!("sleep {word}"));
        app.turn_until("the command", |_| is_running(&word));
        let id = app.id(1);
        match end {
            "kill" => app.ask(0, Change::Kill { agent_id: id, cascade: false }),
            "delete" => app.ask(0, Change::Delete(id)),
            "stop" => app.ask(0, Change::Stop(Some(id))),
            "leave" => app.repl.leave().unwrap(),
            _ => app = app.crash_and_restart(),
        }
        app.turn_until(end, |_| !is_running(&word));
    }
}

#[test]
fn a_command_ends_when_the_program_is_killed() {
    let (home, word) = (Home::new(), mark());
    let wait = format!(
        "%tool {}\n%next\n%tool bash {{\"command\": \"sleep {word}2\"}}",
        in_background(&format!("sleep {word}1"))
    );
    // Not as an argument: the command line of the program would have the word.
    let mut program = home.start_with_input(&["-p", "--approval", "yolo"]);
    program.write(&wait);
    program.input.take();
    let mut patience = Patience::new();
    while !(is_running(&format!("sleep {word}1")) && is_running(&format!("sleep {word}2"))) {
        assert!(patience.has_time(), "the commands do not run");
    }
    program.signal(Signal::KILL);
    drop(program.ends());
    let start = std::time::Instant::now();
    while is_running(&format!("sleep {word}")) {
        assert!(start.elapsed() < PATIENCE, "a command outlives the program");
    }
}

#[test]
fn the_question_says_that_it_goes_on_and_exit_says_that_it_runs() {
    let plan = Plan { real_time: true, ..Plan::default() };
    let mut app = app_with_agents(1, plan);
    app.say(0, &format!("%tool {}", in_background(UNTIL_GO)));
    app.turn_until_asked(0);
    let detail = app.agent(0).question().unwrap().question.detail.join("\n");
    assert!(detail.contains("in the background: runs until") && !detail.contains("time limit"), "{detail}");
    app.answer(0, true);
    app.turn_until_idle();
    app.enter("/exit");
    let screen = app.screen_text();
    assert!(screen.contains("1 command runs in the background: press Enter again to exit"), "{screen}");
    app.type_bytes(b"\x15");
    app.enter("/agents");
    let screen = app.screen_text();
    assert!(screen.contains("1 command in the background"), "{screen}");
    app.enter("/tools");
    let screen = app.screen_text();
    assert!(screen.contains("in the background: bash_") && screen.contains(UNTIL_GO), "{screen}");
}

#[test]
fn an_environment_without_bash_output_has_no_background() {
    let mut app = app(1);
    app.enter("/env readonly+bash");
    let result = call(&mut app, 1, &in_background("true"));
    assert!(result.is_error && result.content.contains("\"bash_output\" is not available"), "{}", result.content);
}
