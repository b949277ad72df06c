//! A chat without a terminal: `--plain` enters the lines of standard input, and leaves at their end when all agents are idle.

use crate::support::internals::Body;
use crate::support::program::{Home, Response, texts};
use crate::support::size::scaled;

const PLAIN: [&str; 1] = ["--plain"];

/// Runs a chat with these lines to its end.
fn enter(home: &Home, lines: &str) -> Response {
    let mut chat = home.start_with_input(&PLAIN);
    chat.write(lines);
    chat.ends()
}

#[test]
fn each_line_is_entered_and_the_end_of_the_input_leaves_when_all_agents_are_idle() {
    let home = Home::new();
    let ended = enter(&home, "%slow 60\n/fork --name scout\n/tell scout one two\n/agents\nlast line without its end");
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.contains("scout") && ended.out.contains("last line without its end"), "{ended:?}");
    assert!(!ended.out.contains('\u{1b}'), "there are no control sequences: {ended:?}");
    assert_eq!(home.agents(), 2);
    assert_eq!(texts(&home.log(1)).iter().filter(|text| text.contains("one two")).count(), 2, "scout has answered");
}

/// Output is printed while the input is open, as at a terminal.
#[test]
fn a_line_is_answered_before_the_next_one_is_written() {
    let home = Home::new();
    let mut chat = home.start_with_input(&PLAIN);
    for word in ["first", "second"] {
        chat.write(&format!("{word}\n"));
        while chat.line() != format!("agent 0: {word}") {}
    }
    assert_eq!(chat.ends().code, 0);
}

#[test]
fn a_session_without_any_terminal_reads_a_file_as_well() {
    let home = Home::new();
    let file = home.directory.path().join("lines");
    std::fs::write(&file, "hello\n!echo from the shell\n").expect("a file");
    let mut command = home.command("setsid", &["-w", crate::support::program::PROGRAM, "--plain"]);
    command.stdin(std::fs::File::open(&file).expect("a file"));
    let ended = crate::support::program::Program::start(command).ends();
    assert!(ended.code == 0 && ended.out.contains("agent 0: hello"), "{ended:?}");
    assert!(ended.out.contains("from the shell"), "it waits for commands of the person: {ended:?}");
}

#[test]
fn a_question_is_answered_by_the_next_line_and_stays_open_if_there_is_none() {
    let home = Home::new();
    let call = "%tool bash {\"command\":\"touch made\"}\n";
    let mut chat = home.start_with_input(&["--plain", "--approval", "ask"]);
    chat.write(call);
    while !chat.line().contains("answer y") {}
    chat.write("y\n");
    while !chat.line().contains("tool: done") {}
    chat.write(call);
    while !chat.line().contains("answer y") {}
    let ended = chat.ends();
    assert_eq!(ended.code, 0, "{ended:?}");
    let results = home.log(0).into_iter().filter(|body| matches!(body, Body::ToolResult(_))).count();
    assert_eq!(results, 1, "the second call was not run: {:?}", home.log(0));
}

#[test]
fn a_reader_that_leaves_ends_it_and_so_do_exit_and_a_signal() {
    let home = Home::new();
    let closed = home.shell("yes hello | \"$0\" --plain | head -n 3");
    assert!(closed.code == 0 && closed.out.lines().count() == 3, "{closed:?}");
    let ended = enter(&home, "/exit\nnever entered\n");
    assert!(ended.code == 0 && !ended.out.contains("never"), "{ended:?}");
    let mut chat = home.start_with_input(&PLAIN);
    chat.write("%hang\n");
    while !chat.line().starts_with("polylogue: this is") {}
    chat.signal(rustix::process::Signal::TERM);
    assert_eq!(chat.ends().code, 143);
}

/// Whether a line is the next message or an answer does not depend on how quick the model is.
#[test]
fn a_line_waits_for_the_turn_before_it_and_answers_what_that_asks() {
    let home = Home::new();
    let call = "%tool bash {\"command\":\"touch made\"}\n";
    let mut chat = home.start_with_input(&["--plain", "--approval", "ask"]);
    chat.write(&format!("{call}y\n{call}n\nlast\n"));
    let ended = chat.ends();
    assert!(ended.code == 0 && ended.out.contains("agent 0: last"), "{ended:?}");
    let log = home.log(0);
    let results: Vec<bool> = log
        .iter()
        .filter_map(|body| match body {
            Body::ToolResult(result) => Some(result.is_error),
            _ => None,
        })
        .collect();
    assert_eq!(results, [false, true], "allowed and denied: {log:?}");
}

/// Commands do not wait for the agent, so that a stuck one can be left.
#[test]
fn commands_are_entered_while_the_agent_is_at_work() {
    let home = Home::new();
    let lines: String = (0..100).map(|n| format!("/name n{n}\n")).collect();
    let ended = enter(&home, &format!("%hang\n{lines}/exit\nnever\n"));
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(texts(&home.log(0)).iter().filter(|text| **text == "never").count(), 0);
}

/// Each is a run of its own: they wait for each other, and none is cut by the end of another.
#[test]
fn runs_at_the_same_time_wait_for_each_other() {
    let home = Home::new();
    let all: Vec<_> = (0..6)
        .map(|n| {
            let mut chat = home.start_with_input(&PLAIN);
            chat.write(&format!("word {n}\n"));
            drop(chat.input.take());
            chat
        })
        .collect();
    for (n, chat) in all.into_iter().enumerate() {
        let ended = chat.ends();
        assert!(ended.code == 0 && ended.out.contains(&format!(": word {n}")), "{ended:?}");
    }
}

#[test]
fn an_end_of_the_process_that_holds_the_directory_is_an_error() {
    let home = Home::new();
    assert_eq!(home.run(&["serve", "--background"]).code, 0);
    let mut chat = home.start_with_input(&PLAIN);
    chat.write("hello\n");
    while !chat.line().contains(": hello") {}
    assert_eq!(home.run(&["stop"]).code, 0);
    let ended = chat.ends();
    assert!(ended.code == 1 && ended.err.contains("the server has ended"), "{ended:?}");
}

#[test]
fn what_is_wrong_is_said_before_anything_is_sent() {
    let home = Home::new();
    assert_eq!(home.run(&["serve", "--background"]).code, 0);
    let refused = home.shell("echo hello | \"$0\" --plain --approval nonsense");
    assert!(refused.code == 2 && refused.err.contains("--approval"), "{refused:?}");
    assert_eq!(home.run(&["stop"]).code, 0);
    let directory = home.shell("\"$0\" --plain </");
    assert!(directory.code == 2 && directory.err.contains("is a directory"), "{directory:?}");
}

/// No Enter is added where the last line has its end.
#[test]
fn exactly_the_lines_are_entered() {
    let home = Home::new();
    assert_eq!(enter(&home, "\u{feff}/name first\r\nhello\n").code, 0);
    assert_eq!(texts(&home.log(0)), ["hello", "hello"], "the mark at the beginning is no text");
    let read = home.start_with_input(&["--plain", "--read-only"]);
    let refused = {
        let mut chat = read;
        chat.write("one\ntwo\n");
        chat.ends()
    };
    assert_eq!(refused.out.matches("this chat is read-only").count(), 2, "{refused:?}");
}

#[test]
fn many_lines_are_all_entered() {
    let home = Home::new();
    let count = scaled(1_200, 150);
    let lines: String = (0..count).map(|n| format!("line {n}\n")).collect();
    let ended = enter(&home, &lines);
    assert!(ended.code == 0 && !ended.out.contains("queue is full"), "{ended:?}");
    let log = home.log(0);
    let last = format!("line {}", count - 1);
    let ends = texts(&log).into_iter().filter(|text| *text == "line 0" || *text == last).count();
    assert_eq!((texts(&log).len(), ends), (2 * count, 4));
}

#[test]
fn it_is_one_more_terminal_of_a_process_that_holds_the_directory() {
    let home = Home::new();
    let served = home.run(&["serve", "--background"]);
    assert_eq!(served.code, 0, "{served:?}");
    let ended = enter(&home, "hello\n");
    assert!(ended.code == 0 && ended.out.contains(": hello"), "{ended:?}");
    let stopped = home.run(&["stop"]);
    assert!(stopped.code == 0, "the server is still there: {stopped:?}");
}

#[test]
fn without_a_model_each_line_says_what_to_do_and_no_panel_takes_the_lines() {
    let mut home = Home::new();
    home.variables = vec![("POLYLOGUE_MODEL".into(), String::new())];
    let ended = enter(&home, "hello\n/agents\n");
    assert!(ended.out.contains("no model is configured") && !ended.out.contains("which provider"), "{ended:?}");
}
