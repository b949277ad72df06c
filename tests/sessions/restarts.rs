//! Questions of the real program: they survive its end, also by SIGKILL, in the server and in the chat, and `-p` leaves
//! them to the person.

use rustix::process::Signal;
use serde_json::Value;

use super::{App, Response, eventually};

const TOUCH: &str = "%tool bash {\"command\":\"touch made\"}";

/// The ids of all open questions.
fn open(app: &App) -> Vec<String> {
    let lines = app.get(&["approvals", "--json"]);
    let id = |line| serde_json::from_str::<Value>(line).expect("an object")["id"].as_str().expect("text").to_owned();
    lines.lines().map(id).collect()
}

fn made(app: &App) -> bool {
    app.workspace.path().join("made").exists()
}

/// It answered, and had nothing to do with any question.
fn assert_alone(output: &Response) {
    assert_eq!((output.code, output.out.as_str()), (Some(0), "hello\n"));
    assert!(!output.err.contains("touch made") && !output.err.contains("interrupted"), "{}", output.err);
}

#[test]
fn a_question_of_a_server_survives_every_end_of_it() {
    let mut app = App::served();
    app.get(&["tell", "0", TOUCH]);
    eventually("a question", || open(&app).len() == 1);
    let asked = open(&app);
    for end in [Signal::KILL, Signal::TERM] {
        app.signal(end);
        app.server_ends();
        app.serve();
        assert_eq!(open(&app), asked);
    }
    app.get(&["stop"]);
    app.server_ends();
    assert!(app.get(&["ps"]).contains("awaiting_approval"), "also without a server");
    app.serve();
    assert!(app.get(&["ps"]).contains("asks"), "{}", app.get(&["ps"]));
    assert!(!made(&app));
    app.get(&["approve", &open(&app)[0]]);
    assert_eq!(app.get(&["wait", "0"]), "idle\n");
    assert!(made(&app));
}

#[test]
fn a_script_leaves_questions_to_the_person_and_does_not_continue_an_agent_that_asks() {
    let mut app = App::served();
    app.get(&["tell", "0", TOUCH]);
    eventually("a question", || open(&app).len() == 1);
    app.signal(Signal::KILL);
    app.server_ends();
    let output = app.run(&["-p", "hello"]);
    assert_alone(&output);
    app.serve();
    assert_eq!(open(&app).len(), 1);
    let refused = |app: &App| {
        let output = app.run(&["-p", "-r", "0", "hello"]);
        assert_eq!((output.code, output.out.as_str()), (Some(2), ""), "{}", output.err);
        assert!(
            output.err.contains("agent 0 waits for the answer to a question: polylogue approvals"),
            "{}",
            output.err
        );
    };
    app.get(&["tell", "0", "and then"]);
    refused(&app);
    app.get(&["stop"]);
    app.server_ends();
    refused(&app);
    app.serve();
    assert_eq!(open(&app).len(), 1);
    app.get(&["approve", &open(&app)[0]]);
    eventually("the call has run", || made(&app));
}

#[test]
fn a_question_of_a_chat_survives_its_end_and_is_answered_in_the_next_one() {
    let app = App::new();
    let chat = || {
        let mut pty = app.terminal(&["-c"], (80, 24));
        pty.wait_for(|screen| screen.contents().contains("\n>"), "a prompt");
        pty
    };
    let mut pty = chat();
    pty.send("%tool bash {\"command\":\"echo it-ran-$((40+2))\"}\r");
    pty.wait_for_text("y to run it");
    pty.kill(Signal::KILL);
    pty.wait_exit();
    let mut pty = chat();
    pty.wait_for_text("y to run it");
    pty.send("\x03");
    pty.wait_for_text("press again");
    pty.send("\x03");
    pty.wait_exit();
    let mut pty = chat();
    pty.wait_for_text("y to run it");
    pty.send("y");
    pty.wait_for_text("it-ran-42");
}

#[test]
fn a_server_that_is_started_again_shows_where_terminals_were_and_what_was_cut() {
    let mut app = App::served();
    let mut pty = app.attach(&[], (80, 24));
    pty.send("hello\r");
    pty.wait_for_answer("hello", "hello");
    pty.send("/fork --name kid\r");
    pty.wait_for_text("── kid ");
    pty.send("words\x1b\r%hang\r");
    eventually("a turn", || app.get(&["ps"]).contains("running"));
    let tokens = |app: &App, n: usize| -> Value {
        let line = app.get(&["ps", "--json"]).lines().nth(n).expect("an agent").to_owned();
        serde_json::from_str::<Value>(&line).expect("an object")["tokens"].clone()
    };
    let before = tokens(&app, 0);
    assert!(before.as_u64() > Some(0), "{before}");
    app.signal(Signal::KILL);
    app.server_ends();
    pty.wait_exit();
    let is_cut = |app: &App| app.get(&["ps"]).lines().any(|line| line.contains("kid") && line.contains("interrupted"));
    assert!(is_cut(&app), "without a server: {}", app.get(&["ps"]));
    assert_eq!(tokens(&app, 0), before);
    app.serve();
    assert!(is_cut(&app), "with a server: {}", app.get(&["ps"]));
    assert_eq!(tokens(&app, 0), before);
    let mut pty = app.attach(&[], (80, 24));
    pty.wait_for_text("── kid ");
    pty.wait_for_text("interrupted: Enter tries again");
    app.get(&["stop"]);
    app.server_ends();
    assert!(is_cut(&app), "after an exit in order: {}", app.get(&["ps"]));
}
