//! Scripted scenes, whose effects and changes in their order, and the kinds of messages in the logs, are compared with
//! `fixtures/traces/NAME.jsonl`. All agents talk to the echo provider and the clock is moved by hand, so that each scene
//! writes the same bytes in every run.
//!
//! `UPDATE_FIXTURES=1 cargo test --test all trace::` writes the fixtures anew; the diff then has to be reviewed.

use std::path::Path;
use std::time::Duration;

use polylogue::config::{RetryPolicy, Settings};
use polylogue::{Change, Fork, QueueEdit, ViewerOutput};
use serde_json::json;
use tempfile::TempDir;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Probe, State, TraceLine};
use crate::support::program::{Home, PROGRAM};
use crate::support::pty::Pty;

/// How far the clock moves at once. Streams bring a piece each 100 ms and are stored each 250 ms.
const STEP: Duration = Duration::from_millis(10);

/// Plays a scene and compares its trace with the fixture of this name.
fn compare(name: &str, plan: Plan, play: impl FnOnce(&mut Harness)) {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("trace");
    let mut app = Harness::new(Plan { trace: Some(path.clone()), ..plan });
    play(&mut app);
    app.turn_until_idle();
    settle(&mut app);
    let logs: String = (0..app.repl.roster().len())
        .map(|n| format!("{}\n", json!({"log_of_agent_number": n, "messages": app.kinds(n)})))
        .collect();
    drop(app);
    let trace = std::fs::read_to_string(&path).expect("a trace") + &logs;
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/traces").join(format!("{name}.jsonl"));
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        return std::fs::write(&fixture, trace).expect("the fixture can be written");
    }
    let expected = std::fs::read_to_string(&fixture).unwrap_or_default();
    if trace != expected {
        let same = trace.lines().zip(expected.lines()).take_while(|(line, expected)| line == expected).count();
        panic!(
            "the trace of {name} differs from its fixture in line {}: expected {:?}, got {:?}\n\
             UPDATE_FIXTURES=1 writes the fixture anew; the whole trace is:\n{trace}",
            same + 1,
            expected.lines().nth(same),
            trace.lines().nth(same)
        );
    }
}

/// Turns until nothing is left to do at this moment, so that no time shows how many turns something took.
fn settle(app: &mut Harness) {
    app.turn_until("the end of this moment", |app| app.timeout().after != Some(Duration::ZERO));
}

fn advance_ms(app: &mut Harness, milliseconds: u32) {
    for _ in 0..milliseconds / 10 {
        app.advance(STEP);
        settle(app);
    }
}

/// Moves the clock on until no agent is busy.
fn stream_to_the_end(app: &mut Harness) {
    app.turn_until("the end of all streams", |app| {
        advance_ms(app, 10);
        app.repl.roster().busy().is_empty()
    });
}

/// A command of agent 0 is allowed and runs until a line is written into the pipe.
fn start_command_that_waits(app: &mut Harness) {
    let pipe = app.directory().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is installed").success());
    let arguments = json!({"command": "touch started; read line < pipe"});
    app.say(0, &format!("%tool bash {arguments}\n%next\ndone"));
    app.answer(0, true);
    let started = app.directory().join("started");
    crate::support::eventually(|| started.exists());
    assert_eq!(app.state(0), State::ExecutingTool);
}

fn end_command(app: &Harness) {
    crate::support::write_to_pipe(&app.directory().join("pipe"), "\n");
}

#[test]
fn plain_turn() {
    compare("plain-turn", Plan::default(), |app| {
        app.enter("hello");
        app.turn_until_idle();
        app.enter("again");
    });
}

#[test]
fn tool_with_approval() {
    compare("tool-with-approval", Plan::default(), |app| {
        std::fs::write(app.directory().join("file"), "text").expect("a file");
        let (read, run) = (json!({"path": "file"}), json!({"command": "touch made"}));
        app.say(0, &format!("%tool read_file {read}\n%tool bash {run}\n%next\n%tool bash {run}\n%next\ndone"));
        app.turn_until_asked(0);
        app.press_at_question(b"y");
        app.turn_until("the second question", |app| app.kinds(0).contains(&"tool_result"));
        app.answer(0, false);
    });
}

#[test]
fn switch_between_streams() {
    compare("switch-between-streams", Plan::default(), |app| {
        app.fork_named(0, "other");
        app.say(0, "%slow 100\none two three four");
        advance_ms(app, 30);
        app.say(1, "%slow 100\nfive six seven eight");
        advance_ms(app, 120);
        app.enter("/switch other");
        advance_ms(app, 100);
        app.enter("/switch 0");
        stream_to_the_end(app);
    });
}

#[test]
fn fork_while_tools_run() {
    compare("fork-while-tools-run", Plan::default(), |app| {
        start_command_that_waits(app);
        let prompt = Some("%slow 100\nat work".to_owned());
        app.ask(
            0,
            Change::Fork(Fork { prompt, name: Some("child".into()), includes_current: true, ..Fork::default() }),
        );
        assert_eq!(app.repl.roster().len(), 1, "the fork waits for the command");
        end_command(app);
        app.turn_until("the child", |app| app.repl.roster().len() == 2 && app.state(0) == State::Idle);
        stream_to_the_end(app);
    });
}

#[test]
fn fork_by_tool() {
    compare("fork-by-tool", Plan::default(), |app| {
        let fork = json!({"name": "helper", "prompt": "%slow 100\nat work"});
        app.say(0, &format!("%tool fork {fork}\n%next\nstarted"));
        app.turn_until("the reply of the parent", |app| app.state(0) == State::Idle);
        stream_to_the_end(app);
    });
}

#[test]
fn queue_of_texts_and_commands() {
    compare("queue-of-texts-and-commands", Plan::default(), |app| {
        app.say(0, "%slow 100\none two");
        advance_ms(app, 50);
        for line in ["second", "/mark here", "third", "/clear", "fourth"] {
            app.enter(line);
        }
        stream_to_the_end(app);
    });
}

#[test]
fn interrupt() {
    compare("interrupt", Plan::default(), |app| {
        app.say(0, "%slow 100\none two three");
        advance_ms(app, 150);
        app.enter("queued");
        app.escape();
        app.turn();
        app.type_bytes(b"\r");
        app.turn_until_idle();
        start_command_that_waits(app);
        app.escape();
        app.turn_until_idle();
    });
}

#[test]
fn kill_of_a_child_at_work() {
    compare("kill-of-a-child-at-work", Plan::default(), |app| {
        app.fork_named(0, "child");
        app.say(1, "%slow 200\none two three four five");
        advance_ms(app, 150);
        app.enter_and_confirm("/kill child");
        assert_eq!(app.repl.roster().len(), 1);
        app.enter("hello");
    });
}

#[test]
fn mail_and_wait() {
    compare("mail-and-wait", Plan::default(), |app| {
        app.fork_named(0, "child");
        let mail = json!({"to": "parent", "body": "found it"});
        app.say(0, "%tool wait {}\n%next\n%tool read_mail {}\n%next\nread");
        app.turn();
        app.turn();
        assert_eq!(app.state(0), State::ExecutingTool, "it waits for mail");
        app.say(1, &format!("%tool send_mail {mail}\n%next\n%slow 100\nsent"));
        app.turn_until("the end of the wait", |app| app.state(0) == State::Idle);
        stream_to_the_end(app);
    });
}

#[test]
fn wait_without_mail() {
    compare("wait-without-mail", Plan::default(), |app| {
        app.say(0, "%tool wait {\"timeout\": 60}\n%next\nno mail");
        app.turn();
        app.turn();
        assert_eq!(app.state(0), State::ExecutingTool, "it waits for mail");
        app.advance(Duration::from_secs(60));
    });
}

#[test]
fn slice_with_summary() {
    compare("slice-with-summary", Plan::default(), |app| {
        for text in ["first", "second", "third"] {
            app.enter(text);
            app.turn_until_idle();
        }
        app.enter("/slice summarize:0:2,-2:");
        app.turn_until("the child", |app| app.repl.roster().len() == 2);
        app.enter("go on");
    });
}

#[test]
fn error_with_retries() {
    let retry = RetryPolicy { retries: Some(2), jitter: 0.0, ..RetryPolicy::default() };
    let settings = Settings { retry, ..Settings::default() };
    compare("error-with-retries", Plan { settings, ..Plan::default() }, |app| {
        app.say(0, "%fail 503 out of order");
        app.enter("queued");
        app.turn_until("the last failure", |app| {
            app.advance(Duration::from_secs(1));
            settle(app);
            app.state(0) == State::Idle
        });
        app.turn_until("the end of the queue", |app| {
            app.ask(0, Change::EditQueue(QueueEdit::Resume));
            app.agent(0).queue.is_empty() && app.state(0) == State::Idle
        });
        app.say(0, "%fail 429 retry-after=5 slow down");
        app.turn();
        app.enter("/model echo/other");
        advance_ms(app, 5000);
        app.escape();
    });
}

#[test]
fn rewind() {
    compare("rewind", Plan::default(), |app| {
        for line in ["before", "/mark here", "after", "/rewind here", "instead", "/clear"] {
            app.enter(line);
            app.turn_until_idle();
        }
    });
}

/// One member after the other works: those that work at once are served in the order of their random ids.
#[cfg(feature = "coordinator")]
#[test]
fn team_in_parallel() {
    compare("team-in-parallel", Plan { working_limit: 1, ..Plan::default() }, |app| {
        app.enter("/team parallel concatenate --count 2 \"say this\"");
        app.turn_until("the end of the run", |app| !app.agent(0).has_background_work());
    });
}

/// Runs `polylogue trace show`, whose output is a pipe.
fn show(args: &[&str], columns: &str) -> crate::support::program::Response {
    let mut home = Home::new();
    home.variables.push(("COLUMNS".into(), columns.into()));
    home.run(&[&["trace", "show"], args].concat())
}

#[test]
fn a_trace_is_drawn_as_wide_as_asked_and_its_bad_lines_are_named() {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/traces/switch-between-streams.jsonl");
    let drawn = show(&[fixture], "72");
    // The fixture ends with two lines about the logs, which are none of a trace.
    let lines = std::fs::read_to_string(fixture).expect("a fixture").lines().count();
    let named: Vec<String> =
        (lines - 1..=lines).map(|number| format!("jsonl:{number}: not a line of a trace")).collect();
    assert!(named.iter().all(|named| drawn.err.contains(named)) && drawn.code == 1, "{drawn:?}");
    let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/traces/switch-between-streams.txt");
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        std::fs::write(&picture, &drawn.out).expect("the fixture can be written");
    }
    assert_eq!(drawn.out, std::fs::read_to_string(picture).expect("a fixture"));
    let other = show(&[fixture, "--agent", "other"], "72");
    assert!(other.out.contains("0.430") && !other.out.contains("0.400"), "{}", other.out);
}

#[test]
fn a_file_that_is_no_trace_and_an_unknown_agent_are_refused() {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/traces/switch-between-streams.jsonl");
    let unknown = show(&[fixture, "--agent", "nobody"], "80");
    assert!(unknown.code == 2 && unknown.err.contains("agent 0, other"), "{unknown:?}");
    let missing = show(&["/nonexistent/trace"], "80");
    assert!(missing.code == 1 && missing.err.contains("/nonexistent/trace"), "{missing:?}");
    let other = show(&[concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")], "80");
    assert!(other.code == 1 && other.err.contains("Cargo.toml:1: not a line"), "{other:?}");
}

/// The text of a trace, and its lines.
fn read(path: &Path) -> (String, Vec<TraceLine>) {
    let trace = std::fs::read_to_string(path).expect("a trace");
    let lines = trace.lines().map(|line| TraceLine::parse(line).expect(line)).collect();
    (trace, lines)
}

/// What a person does in the real program is traced turn by turn, and the trace can be drawn.
#[test]
fn every_line_of_a_real_trace_is_one_of_the_schema_and_its_turns_are_whole() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("trace");
    let mut app = Harness::new(Plan { trace: Some(path.clone()), is_trace_stable: false, ..Plan::default() });
    app.fork_named(0, "other");
    app.enter("hello");
    app.turn_until_idle();
    drop(app);
    let (trace, lines) = read(&path);
    let outside = |line: &&TraceLine| line.turn.is_none() && line.change.as_deref() == Some("fork");
    assert!(lines.iter().any(|line| outside(&line)), "what a test asks for happens outside of turns");
    let turns = lines.iter().filter_map(|line| line.turn).max().expect("turns");
    for turn in 1..=turns {
        let events: Vec<&str> = lines.iter().filter(|line| line.turn == Some(turn)).map(|line| &*line.event).collect();
        assert_eq!((events.first(), events.last()), (Some(&"turn"), Some(&"end")), "{events:?}");
    }
    assert!(!trace.contains("hello"), "no text of a conversation is traced");
    let drawn = show(&[path.to_str().expect("UTF-8")], "100");
    assert!(drawn.code == 0 && drawn.out.contains("6 keys, /submit") && drawn.out.contains("text 5"), "{drawn:?}");
}

/// The clock is moved within a step, so that the step has taken that long.
#[test]
fn a_slow_turn_names_the_step_that_took_longest_and_a_quick_one_does_not() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("trace");
    let mut app = Harness::new(Plan { trace: Some(path.clone()), is_trace_stable: false, ..Plan::default() });
    let (clock, agent) = (app.clock.clone(), app.id(0));
    let slow = move |_: &ViewerOutput| {
        clock.advance(Duration::from_millis(7));
        Ok(())
    };
    app.repl.on_chunks(agent, None, Box::new(slow)).expect("a viewer");
    app.enter("hello");
    app.turn_until_idle();
    app.type_bytes(b"x");
    drop(app);
    let (trace, lines) = read(&path);
    let ends: Vec<&TraceLine> = lines.iter().filter(|line| line.event == "end").collect();
    let is_slow = |line: &&TraceLine| line.duration_us >= Some(5_000);
    assert!(ends.iter().any(&is_slow) && ends.iter().any(|line| !is_slow(line)), "{trace}");
    for end in ends {
        let expected = is_slow(&end).then_some("callbacks");
        assert_eq!((end.step.as_deref(), end.step_us >= Some(7_000)), (expected, is_slow(&end)), "{end:?}");
    }
    let drawn = show(&[path.to_str().expect("UTF-8"), "--slow", "5"], "100");
    assert!(drawn.code == 0 && drawn.out.contains("  callbacks") && drawn.out.contains("7.0"), "{drawn:?}");
}

#[test]
fn a_debug_build_counts_slow_turns_by_their_step_without_a_trace() {
    let mut app = Harness::new(Plan::default());
    app.enter("hello");
    app.turn_until_idle();
    assert!(app.repl.slow_turns().is_empty(), "the clock stands still");
    let (clock, agent) = (app.clock.clone(), app.id(0));
    let slow = move |_: &ViewerOutput| {
        clock.advance(Duration::from_millis(7));
        Ok(())
    };
    app.repl.on_chunks(agent, None, Box::new(slow)).expect("a viewer");
    app.enter("hello");
    app.turn_until_idle();
    let slow = app.repl.slow_turns();
    if !cfg!(debug_assertions) {
        return assert!(slow.is_empty(), "{slow:?}");
    }
    let (count, longest) = slow["callbacks"];
    assert!(slow.len() == 1 && count > 0 && longest >= Duration::from_millis(7), "{slow:?}");
}

#[test]
fn a_chat_that_is_watched_says_at_its_end_which_turns_were_slow() {
    for (variables, is_watched) in [(&[("POLYLOGUE_WATCH", "1")][..], true), (&[], false)] {
        let home = Home::new();
        let directory = home.directory.path().to_str().expect("UTF-8");
        let variables: Vec<(&str, &str)> = [("HOME", directory)].iter().chain(variables).copied().collect();
        let mut pty = Pty::spawn(PROGRAM, &["--data-dir", directory], &variables, (80, 24));
        pty.wait_for_text("echo");
        pty.leave();
        let is_said = pty.screen_text().contains("turns of 5 ms or more: ");
        assert_eq!(is_said, is_watched && cfg!(debug_assertions), "{}", pty.screen_text());
    }
}
