//! From a reply with tool calls to the next request: the question, the run, the results, and every way to interrupt it.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use polylogue::config::{Scope, Settings};
use polylogue::{Change, Chunk, Decision};
use serde_json::{Value, json};

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, State};
use crate::support::peer::Peer;
use crate::support::scene::{
    app_with_agents, assert_shows, is_running, mark, reply_with_calls, results_in, turn_a_while,
};

/// Agent 0 alone, on the screen; tools take real time.
fn app(peer: &Peer) -> Harness {
    app_with_settings(peer, Settings::default())
}

fn app_with_settings(peer: &Peer, settings: Settings) -> Harness {
    Harness::new(Plan { real_time: true, settings, ..Plan::peer(&peer.url()) })
}

fn bash(command: &str) -> String {
    json!({ "command": command }).to_string()
}

/// Sends a message and answers with a reply that calls these tools.
fn calls(app: &mut Harness, peer: &Peer, calls: &[(&str, &str)]) {
    app.enter("do it");
    reply_with_calls(&app.accept(peer), calls);
}

/// Answers the next request, which ends the turn.
fn answer_last(app: &mut Harness, peer: &Peer) -> Value {
    let exchange = app.accept(peer);
    exchange.stream().text("that was it").finish("stop").done();
    app.turn_until_idle();
    assert_eq!(app.replies(0).last().map(String::as_str), Some("that was it"));
    exchange.request().json()
}

#[test]
fn an_approved_call_is_shown_exactly_and_its_result_is_sent_with_the_next_request() {
    let peer = Peer::start();
    let mut app = app(&peer);
    calls(&mut app, &peer, &[("bash", &bash("echo a-$((20+3))-z; false"))]);
    app.turn_until_asked(0);
    assert!(app.screen_text().contains("echo a-$((20+3))-z; false"), "{}", app.screen_text());
    app.press_at_question(b"y");
    let results = results_in(&answer_last(&mut app, &peer));
    assert_eq!((results.len(), results[0].0.as_str()), (1, "call-0"));
    assert!(results[0].1.contains("a-23-z"), "{results:?}");
    assert!(app.screen_text().contains("that was it"));
}

#[test]
fn a_refused_call_does_not_run_and_the_model_gets_the_refusal() {
    let peer = Peer::start();
    let mut app = app(&peer);
    calls(&mut app, &peer, &[("bash", &bash("touch it-ran"))]);
    app.turn_until_asked(0);
    app.press_at_question(b"n");
    let results = results_in(&answer_last(&mut app, &peer));
    assert!(results[0].1.contains("denied"), "{results:?}");
    assert!(!app.directory().join("it-ran").exists());
}

#[test]
fn esc_at_a_question_ends_the_turn_without_running_anything() {
    let peer = Peer::start();
    let mut app = app(&peer);
    calls(&mut app, &peer, &[("bash", &bash("touch it-ran")), ("bash", &bash("touch it-ran-too"))]);
    app.turn_until_asked(0);
    app.escape();
    assert_eq!((app.state(0), app.agent(0).question()), (State::Idle, None));
    assert_eq!(app.kinds(0), ["user", "tool_call", "tool_call", "tool_result", "tool_result", "interrupted"]);
    assert!(!app.directory().join("it-ran").exists());
    app.enter("something else");
    let request = answer_last(&mut app, &peer);
    assert_eq!(results_in(&request).len(), 2, "every call is answered: {request}");
}

#[test]
fn an_interrupt_ends_a_command_with_all_its_descendants_even_those_that_ignore_it() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let mark = mark();
    let stubborn =
        format!("trap '' TERM INT HUP; (trap '' TERM; setsid sleep {mark} & sleep {mark} & wait) & touch up; wait");
    calls(&mut app, &peer, &[("bash", &bash(&stubborn))]);
    app.answer(0, true);
    let up = app.directory().join("up");
    app.turn_until("the command runs", |_| up.exists() && is_running(&format!("sleep\0{mark}")));
    app.escape();
    app.turn_until_idle();
    assert!(!is_running(&mark), "a descendant lives");
    assert_eq!(app.kinds(0), ["user", "tool_call", "tool_result", "interrupted"]);
    assert_eq!(app.timeout().after, None, "no tool thread lives");
}

/// Agent 0 has a call that was allowed; agent 1 has the only slot.
fn allowed_call_without_slot() -> Harness {
    let mut app = app_with_agents(2, Plan { real_time: true, working_limit: 1, ..Plan::default() });
    app.enter("%tool bash {\"command\":\"touch it-ran\"}");
    app.turn_until_asked(0);
    app.say(1, "%hang");
    app.turn_until("the other agent works", |app| app.agent(1).holds_slot());
    app.answer(0, true);
    app
}

#[test]
fn a_call_that_was_allowed_waits_for_a_slot_and_starts_when_one_is_free() {
    let mut app = allowed_call_without_slot();
    turn_a_while(&mut app);
    assert_eq!((app.state(0), app.agent(0).holds_slot()), (State::ExecutingTool, false));
    assert_shows(&mut app, "waiting for a slot to run a tool, 1 may work at once");
    app.ask(1, Change::Interrupt);
    app.turn_until_idle();
    assert!(app.directory().join("it-ran").exists());
}

#[test]
fn esc_stops_the_wait_of_an_allowed_call_for_a_slot() {
    let mut app = allowed_call_without_slot();
    app.escape();
    assert_eq!(app.state(0), State::Idle);
    app.ask(1, Change::Interrupt);
    app.turn_until_idle();
    assert!(!app.directory().join("it-ran").exists());
}

fn write(path: &str, content: &str) -> String {
    json!({"file_path": path, "content": content}).to_string()
}

#[test]
fn calls_that_write_run_one_by_one_in_order_and_each_is_approved() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let [first, second] = [bash("echo 1 >> order; cat order"), bash("echo 2 >> order; cat order")];
    let third = write("other", "3");
    calls(&mut app, &peer, &[("bash", &first), ("bash", &second), ("write_file", &third)]);
    for number in 1..=3 {
        assert_eq!(app.turn_until_asked(0), number);
        assert!(!app.agent(0).has_live_tool(), "nothing runs while question {number} is open");
        assert_eq!(app.directory().join("order").exists(), number > 1);
        app.ask(0, Change::Answer { question: number, decision: Decision::Allow });
    }
    let results = results_in(&answer_last(&mut app, &peer));
    assert!(results[0].1.contains('1') && !results[0].1.contains('2'), "{results:?}");
    assert!(results[1].1.contains("1\n2"), "{results:?}");
    assert_eq!(std::fs::read_to_string(app.directory().join("other")).ok().as_deref(), Some("3"));
}

/// A pipe: reading from it blocks until a test writes.
fn pipe_at(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo is there");
    assert!(made.success());
}

#[test]
fn all_results_are_sent_in_one_request_in_the_order_of_the_calls() {
    let peer = Peer::start();
    let mut app = app(&peer);
    for name in ["a", "b", "c"] {
        std::fs::write(app.directory().join(name), format!("this is {name}")).expect("a file");
    }
    let path = |name: &str| json!({ "file_path": name }).to_string();
    let (a, b, c, command) = (path("a"), path("b"), path("c"), bash("echo from bash"));
    calls(&mut app, &peer, &[("read_file", &a), ("bash", &command), ("read_file", &b), ("read_file", &c)]);
    app.answer(0, true);
    let results = results_in(&answer_last(&mut app, &peer));
    let expected = ["this is a", "from bash", "this is b", "this is c"];
    assert_eq!(results.len(), expected.len());
    for (at, (id, content)) in results.iter().enumerate() {
        assert_eq!(*id, format!("call-{at}"));
        assert!(content.contains(expected[at]), "{at}: {content}");
    }
    assert!(peer.try_accept().is_none(), "there was one request for all results");
}

#[test]
fn a_call_cut_by_the_length_limit_is_not_run() {
    let peer = Peer::start();
    let mut app = app(&peer);
    app.enter("do it");
    let exchange = app.accept(&peer);
    exchange.stream().tool_call(0, "call-0", "bash", &bash("touch it-ran")).finish("length").done();
    app.turn_until_idle();
    assert!(!app.directory().join("it-ran").exists());
    assert_eq!((app.agent(0).question(), app.tool_results(0).len()), (None, 0));
    assert!(app.screen_text().contains("within a tool call"), "{}", app.screen_text());
    app.enter("go on");
    answer_last(&mut app, &peer);
}

#[test]
fn an_unknown_tool_and_malformed_arguments_are_errors_that_the_model_gets() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let wrong = [("teleport", "{}"), ("read_file", "{\"path\":"), ("bash", "{\"commando\":1}"), ("bash", "[]")];
    calls(&mut app, &peer, &wrong);
    let results = results_in(&answer_last(&mut app, &peer));
    assert_eq!(results.len(), 4, "{results:?}");
    assert!(results[0].1.contains("unknown tool \"teleport\""), "{results:?}");
    assert!(results[2].1.contains("command"), "{results:?}");
    assert!(app.tool_results(0).iter().all(|result| result.is_error));
}

#[test]
fn the_title_of_a_call_is_short_whatever_the_arguments() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let word = "x".repeat(100_000);
    let long = json!({ "file_path": word }).to_string();
    calls(&mut app, &peer, &[("bash", &word), ("read_file", &long), (&word, "{\n}")]);
    answer_last(&mut app, &peer);
    let titles = |app: &mut Harness| {
        let viewer = app.repl.attach_to_last(app.id(0), 1000).expect("there is this agent");
        let title = |chunk| if let Chunk::ToolCall { title, .. } = chunk { Some(title) } else { None };
        let mut titles = Vec::new();
        while app.repl.has_unread(viewer) {
            let chunks = app.repl.read(viewer, usize::MAX).chunks.into_iter();
            titles.extend(chunks.filter_map(|numbered| title(numbered.chunk)));
        }
        titles
    };
    for titles in [titles(&mut app), titles(&mut app.crash_and_restart())] {
        assert_eq!(titles.len(), 3, "{titles:?}");
        assert!(titles.iter().all(|title| title.len() <= 310 && title.ends_with("x …")), "{titles:?}");
    }
}

#[test]
fn the_last_request_of_a_message_has_no_tools_and_a_note() {
    let peer = Peer::start();
    let mut app = app_with_settings(&peer, Settings { tool_iterations: 2, ..Settings::default() });
    let look = json!({"path": "none"}).to_string();
    app.enter("do it");
    for round in 0..2 {
        let exchange = app.accept(&peer);
        assert!(exchange.request().json()["tools"].is_array(), "round {round}");
        reply_with_calls(&exchange, &[("read_file", &look)]);
    }
    let last = answer_last(&mut app, &peer);
    assert!(last.get("tools").is_none(), "{last}");
    assert!(app.screen_text().contains("the last request is sent without tools"), "{}", app.screen_text());
    app.enter("again");
    assert!(answer_last(&mut app, &peer)["tools"].is_array(), "a new message counts anew");
}

#[test]
fn an_approval_applies_only_to_its_question() {
    let peer = Peer::start();
    let mut app = app(&peer);
    calls(&mut app, &peer, &[("bash", &bash("touch first")), ("bash", &bash("touch second"))]);
    let first = app.turn_until_asked(0);
    app.ask(0, Change::Answer { question: first + 1, decision: Decision::Allow });
    assert_eq!(app.state(0), State::AwaitingApproval, "a number that is not asked yet changes nothing");
    app.ask(0, Change::Answer { question: first, decision: Decision::Deny(None) });
    let second = app.turn_until_asked(0);
    app.ask(0, Change::Answer { question: first, decision: Decision::Allow });
    assert_eq!(app.agent(0).question().map(|asked| asked.number), Some(second));
    app.ask(0, Change::Answer { question: second, decision: Decision::Deny(None) });
    answer_last(&mut app, &peer);
    app.ask(0, Change::Answer { question: second, decision: Decision::Allow });
    assert_eq!(app.state(0), State::Idle);
    let ran = |name: &str| app.directory().join(name).exists();
    assert!(!ran("first") && !ran("second"));
}

/// A command runs until a line is written into the pipe `go`.
fn a_command_that_waits(app: &mut Harness, peer: &Peer) {
    pipe_at(&app.directory().join("go"));
    calls(app, peer, &[("bash", &bash("read line < go; echo went on"))]);
    app.answer(0, true);
    assert_eq!(app.state(0), State::ExecutingTool);
}

#[test]
fn a_fork_with_the_open_message_waits_for_its_tools_a_second_is_refused_and_the_loop_goes_on() {
    let peer = Peer::start();
    let mut app = app(&peer);
    a_command_that_waits(&mut app, &peer);
    app.enter("/fork --include-current");
    assert_eq!(app.repl.roster().len(), 1);
    assert!(app.screen_text().contains("waits until the tools are done"), "{}", app.screen_text());
    app.enter("/fork --include-current");
    assert!(app.screen_text().contains("fork already in progress"), "{}", app.screen_text());
    app.type_bytes(b"typed meanwhile");
    assert!(app.screen_text().contains("typed meanwhile"));
    crate::support::write_to_pipe(&app.directory().join("go"), "\n");
    app.turn_until("the fork", |app| app.repl.roster().len() == 2);
    answer_last(&mut app, &peer);
    assert_eq!(app.repl.roster().len(), 2);
    let kinds = app.kinds(1);
    assert!(
        kinds.windows(2).any(|pair| pair == ["tool_call", "tool_result"]),
        "the child has the whole round: {kinds:?}"
    );
}

#[test]
fn an_interrupt_cancels_a_waiting_fork() {
    let peer = Peer::start();
    let mut app = app(&peer);
    a_command_that_waits(&mut app, &peer);
    app.enter("/fork --include-current");
    app.escape();
    app.turn_until_idle();
    assert_eq!(app.repl.roster().len(), 1);
    assert!(app.screen_text().contains("cancelled /fork"), "{}", app.screen_text());
}

#[test]
fn calls_that_only_read_run_concurrently() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let paths: Vec<String> = (0..3).map(|n| format!("file{n}")).collect();
    for path in &paths {
        std::fs::write(app.directory().join(path), format!("content of {path}")).expect("a file");
    }
    let arguments: Vec<String> = paths.iter().map(|path| json!({ "file_path": path }).to_string()).collect();
    let wanted: Vec<(&str, &str)> = arguments.iter().map(|arguments| ("read_file", arguments.as_str())).collect();
    calls(&mut app, &peer, &wanted);
    answer_last(&mut app, &peer);
    let output = &app.agent(0).output;
    let chunks: Vec<Chunk> = (output.oldest()..output.next()).filter_map(|at| Some(output.get(at)?.0)).collect();
    let first_result = chunks.iter().position(|chunk| matches!(chunk, Chunk::ToolResult(_)));
    let last_start = chunks.iter().rposition(|chunk| matches!(chunk, Chunk::ToolCall { .. }));
    assert!(last_start < first_result, "all were started before any was answered: {chunks:?}");
}

#[test]
fn a_call_that_an_earlier_one_made_impossible_is_shown_with_its_error() {
    let peer = Peer::start();
    let mut app = app(&peer);
    let write = json!({ "file_path": "notes", "content": "a" }).to_string();
    calls(&mut app, &peer, &[("bash", &bash("mkdir notes")), ("write_file", &write)]);
    app.answer(0, true);
    let request = answer_last(&mut app, &peer);
    assert!(results_in(&request)[1].1.contains("is a directory"), "{request}");
    assert!(app.screen_text().contains("is a directory"), "{}", app.screen_text());
}

/// The numbers of the lines `+line N` on the screen.
fn lines_on(screen: &str) -> Vec<usize> {
    let number = |row: &str| row.split_once("+line ")?.1.trim().parse().ok();
    screen.lines().filter_map(number).collect()
}

/// A file of 122 lines was approved of which 40 could be seen.
#[test]
fn a_file_longer_than_the_screen_is_allowed_only_when_all_of_it_was_shown() {
    let mut app = Harness::new(Plan { size: Some((60, 20)), ..Plan::default() });
    let content: String = (1..=122).map(|n| format!("line {n}\n")).collect();
    app.enter(&format!("%tool write_file {}", write("long", &content)));
    app.turn_until_asked(0);
    app.press_at_question(b"");
    assert!(app.screen_text().contains("more lines: PgDn shows them"), "{}", app.screen_text());
    let mut shown = lines_on(&app.screen_text());
    while !app.screen_text().contains("y to run it") {
        assert!(app.screen_text().contains("y to read on, n to refuse it"), "{}", app.screen_text());
        app.type_bytes(b"y");
        assert_eq!(app.state(0), State::AwaitingApproval);
        shown.extend(lines_on(&app.screen_text()));
        // The key repeats: that is no answer to what has just appeared.
        if shown.last() == Some(&122) {
            app.type_bytes(b"y");
            assert_eq!((app.state(0), app.draft(0).text()), (State::AwaitingApproval, ""));
            app.press_at_question(b"");
        }
    }
    assert_eq!(shown, (1..=122).collect::<Vec<_>>());
    app.type_bytes(b"\x1b[5~");
    assert!(lines_on(&app.screen_text()).last() < Some(&122), "PgUp shows the page before");
    app.type_bytes(b"y");
    app.turn_until_idle();
    assert_eq!(std::fs::read_to_string(app.directory().join("long")).ok(), Some(content));
}

#[test]
fn a_capital_y_allows_what_was_not_read_and_the_conversation_says_so() {
    let mut app = Harness::new(Plan { size: Some((60, 20)), ..Plan::default() });
    let content: String = (1..=200).map(|n| format!("line {n}\n")).collect();
    app.enter(&format!("%tool write_file {}", write("long", &content)));
    app.turn_until_asked(0);
    app.type_bytes(b"Y");
    assert_eq!(app.state(0), State::AwaitingApproval, "it has just appeared");
    app.type_bytes(b"\x7f");
    app.press_at_question(b"");
    assert!(app.screen_text().contains("Y to run it unread"), "{}", app.screen_text());
    app.type_bytes(b"Y");
    app.turn_until_idle();
    assert_eq!(std::fs::read_to_string(app.directory().join("long")).ok(), Some(content));
    let noted = "the user allowed this call without reading all of it";
    assert!(app.screen_text().contains(noted), "{}", app.screen_text());
    let app = app.crash_and_restart();
    assert!(app.tool_results(0)[0].content.contains(noted), "{:?}", app.tool_results(0));
}

#[test]
fn a_question_that_was_half_seen_starts_anew_on_a_screen_of_another_width() {
    let mut app = Harness::new(Plan { size: Some((60, 14)), ..Plan::default() });
    let lines: Vec<String> = (1..=12).map(|n| format!("echo {n}")).collect();
    app.enter(&format!("%tool bash {}", json!({"command": lines.join("\n")})));
    app.turn_until_asked(0);
    app.press_at_question(b"\x1b[6~");
    assert!(app.screen_text().contains("echo 9"), "{}", app.screen_text());
    app.terminal().size = (50, 14);
    app.turn();
    app.press_at_question(b"y");
    assert_eq!(app.state(0), State::AwaitingApproval);
    assert!(!app.screen_text().contains("echo 1\n"), "it read on:\n{}", app.screen_text());
    app.type_bytes(b"n");
    app.turn_until_idle();
    assert!(app.tool_results(0)[0].content.contains("denied"), "half of it may be refused");
}

/// A `y` in a sentence once allowed a command.
#[test]
fn typed_text_never_answers_a_question() {
    let mut app = Harness::new(Plan::default());
    app.enter("%tool bash {\"command\":\"touch it-ran\"}");
    let question = app.turn_until_asked(0);
    app.turn();
    // The question appeared while a sentence was typed.
    for letter in "yes".chars() {
        app.type_bytes(letter.to_string().as_bytes());
        app.advance(Duration::from_millis(100));
    }
    assert_eq!(app.draft(0).text(), "yes");
    // Later, with the draft not empty, and with an empty one as a word that comes at once.
    app.advance(Duration::from_secs(1));
    app.type_bytes(b"y");
    app.type_bytes(b"\x15you try");
    assert_eq!(app.draft(0).text(), "you try");
    app.type_bytes(b"\x15");
    app.type_bytes(b"\x1b[200~y\x1b[201~");
    assert_eq!(app.draft(0).text(), "y");
    assert_eq!(app.agent(0).question().map(|asked| asked.number), Some(question));
    app.type_bytes(b"\x15");
    app.type_bytes(b"n");
    app.turn_until_idle();
    assert!(!app.directory().join("it-ran").exists());
}

/// A key that was pressed before the question was on the screen, and is read only afterwards.
#[test]
fn a_key_within_a_third_of_a_second_of_a_question_is_text_on_each_screen_by_itself() {
    let mut app = Harness::new(Plan::default());
    app.fork(0);
    app.switch(0);
    app.enter("%tool bash {\"command\":\"echo ran\"}");
    app.turn_until_asked(0);
    app.turn();
    app.clock.advance(Duration::from_millis(299));
    app.type_bytes(b"y");
    assert_eq!((app.state(0), app.draft(0).text()), (State::AwaitingApproval, "y"));
    app.type_bytes(b"\x7f");
    app.switch(1);
    app.advance(Duration::from_secs(5));
    app.switch(0);
    app.turn();
    app.type_bytes(b"y");
    assert_eq!((app.state(0), app.draft(0).text()), (State::AwaitingApproval, "y"));
    app.type_bytes(b"\x7f");
    app.press_at_question(b"y");
    app.turn_until_idle();
    assert!(app.tool_results(0)[0].content.contains("ran"));
}

#[test]
fn nothing_runs_whose_answer_cannot_be_stored_and_the_question_stays_open() {
    for decision in [Decision::Allow, Decision::Always(Scope::Agent), Decision::Always(Scope::Session)] {
        let peer = Peer::start();
        let mut app = app(&peer);
        calls(&mut app, &peer, &[("write_file", &write("made", "x"))]);
        let question = app.turn_until_asked(0);
        app.is_disk_full.store(true, Ordering::Relaxed);
        let answer = Change::Answer { question, decision: decision.clone() };
        let error = app.repl.apply(app.id(0), answer.clone()).expect_err("a full disk");
        assert!(decision != Decision::Allow || error.message.contains("the answer was not saved"), "{error}");
        app.press_at_question(b"y");
        assert_shows(&mut app, "the answer was not saved, so nothing was run");
        turn_a_while(&mut app);
        assert!(!app.directory().join("made").exists() && app.agent(0).rules.own.is_empty());
        assert_eq!(app.agent(0).question().map(|open| open.number), Some(question));
        app.is_disk_full.store(false, Ordering::Relaxed);
        app.ask(0, answer);
        answer_last(&mut app, &peer);
        assert!(app.directory().join("made").exists());
    }
}

#[test]
fn a_call_can_be_refused_on_a_full_disk() {
    let peer = Peer::start();
    let mut app = app(&peer);
    calls(&mut app, &peer, &[("write_file", &write("made", "x"))]);
    app.turn_until_asked(0);
    app.is_disk_full.store(true, Ordering::Relaxed);
    app.press_at_question(b"n");
    let results = results_in(&app.accept(&peer).request().json());
    assert!(results[0].1.contains("denied"), "{results:?}");
    assert!(!app.directory().join("made").exists());
}

#[test]
fn the_time_of_a_tool_counts_from_its_start_and_not_while_the_person_thinks() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan::peer(&peer.url()));
    calls(&mut app, &peer, &[("bash", &bash("sleep 600"))]);
    app.turn_until_asked(0);
    app.advance(Duration::from_secs(90));
    app.answer(0, true);
    app.turn_until("the command", |app| app.agent(0).has_live_tool());
    app.advance(Duration::from_secs(3));
    assert_shows(&mut app, "running a tool … 3 s");
    app.escape();
    app.turn_until_idle();
}
