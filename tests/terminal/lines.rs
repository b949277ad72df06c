//! Lines that begin with `!` or `#`: shell commands of the person, and instructions for the project.

use std::time::Duration;

use rustix::process::Signal;

use super::{Chat, Start};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::{Body, State};
use crate::support::scene::assert_shows;
use crate::support::{eventually, open_pipe};

fn last_user(app: &Harness) -> Option<String> {
    app.log(0).into_iter().rev().find_map(|message| match message.body {
        Body::User(text) => Some(text),
        _ => None,
    })
}

#[test]
fn a_shell_command_is_shown_and_put_into_the_conversation_without_a_request() {
    let mut app = Harness::new(Plan::default());
    app.enter("!echo one; echo two >&2; exit 3");
    app.turn_until("the output", |app| last_user(app).is_some());
    assert_eq!(last_user(&app).as_deref(), Some("$ echo one; echo two >&2; exit 3\none\ntwo\n[exit code 3]"));
    app.turn();
    assert_shows(&mut app, "[exit code 3]");
    assert_eq!((app.state(0), app.replies(0).len()), (State::Idle, 0));
    app.enter("and now?");
    app.turn_until_idle();
    assert_eq!(app.replies(0), ["and now?"]);
    app.enter("!!pwd");
    let directory = app.directory().display().to_string();
    let end = directory.rsplit('/').next().expect("a name").to_owned();
    app.turn_until("the directory", |app| app.screen_text().contains(&end));
    assert_eq!(last_user(&app).as_deref(), Some("and now?"), "the model does not see it");
}

#[test]
fn output_waits_for_the_end_of_the_turn_and_escape_stops_the_command_first() {
    let mut app = Harness::new(Plan { real_time: true, ..Plan::default() });
    app.enter("%hang");
    app.enter("!echo meanwhile");
    app.turn_until("its end", |app| app.screen_text().contains("after this turn"));
    assert_eq!(last_user(&app).as_deref(), Some("%hang"));
    app.escape();
    app.turn_until("the output", |app| last_user(app).as_deref() == Some("$ echo meanwhile\nmeanwhile"));
    app.enter("!sleep 1000 & sleep 1000");
    app.turn_until("it runs", |app| app.agent(0).view.has_command);
    app.escape();
    app.turn_until("it was stopped", |app| last_user(app).is_some_and(|text| text.ends_with("[stopped]")));
}

#[test]
fn a_line_that_begins_with_a_hash_is_added_to_agents_md_after_it_was_shown_where() {
    let mut app = Harness::new(Plan::default());
    let file = app.directory().join("AGENTS.md");
    std::fs::write(&file, "first").expect("a file");
    app.enter("# run the tests");
    assert_shows(&mut app, "press Enter again to add this line to");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "first");
    app.advance(Duration::from_millis(300));
    app.type_bytes(b"\r");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "first\nrun the tests\n");
    assert_shows(&mut app, "polylogue config trust");
    app.enter(" # a heading");
    app.turn_until_idle();
    assert_eq!(app.replies(0).len(), 1, "after a space it is a message");
}

#[test]
fn an_editor_gets_the_terminal_and_the_draft_while_agents_go_on() {
    let scripts = tempfile::tempdir().expect("a directory");
    let script = scripts.path().join("editor");
    let (go, here) = (scripts.path().join("go"), scripts.path().display());
    let text = format!(
        "#!/bin/sh\necho editing $(cat \"$1\")\nmkfifo {here}/go\ncat {here}/go\nprintf 'two\\nlines\\n' > \"$1\"\n"
    );
    std::fs::write(&script, text).expect("a script");
    let editor = format!("sh {}", script.display());
    let mut chat = Chat::start(Start { envs: vec![("LANG", "C.UTF-8"), ("EDITOR", &editor)], ..Start::default() });
    chat.say("%slow 20\nan answer of several words");
    chat.pty.send("half typed\x07");
    chat.sees("editing half typed");
    super::eventually("the pipe", || go.exists());
    crate::support::write_to_pipe(&go, "");
    chat.sees_draft("two\nlines");
    chat.pty.send("!");
    chat.sees_draft("two\nlines!");
    chat.pty.send("\x03");
    chat.sees_draft("");
    chat.is_answered();
    chat.pty.send("\x03");
    chat.ends_well();
}

#[test]
fn a_pager_shows_the_whole_question_and_the_draft_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let go = directory.path().join("go");
    let script = format!("tail -n 8 \"$1\"\nmkfifo {0}\ncat {0}\necho changed > \"$1\"\n", go.display());
    std::fs::write(directory.path().join("pager"), script).expect("a script");
    let pager = format!("sh {}/pager", directory.path().display());
    let mut chat = Chat::start(Start { envs: vec![("LANG", "C.UTF-8"), ("PAGER", &pager)], ..Start::default() });
    let lines: Vec<String> = (0..60).map(|n| format!("touch line-{n}")).collect();
    chat.say(&format!("%tool bash {}", serde_json::json!({ "command": lines.join("\n") })));
    chat.sees("y to read on");
    chat.pty.send("v");
    chat.sees("touch line-59");
    super::eventually("the pipe", || go.exists());
    crate::support::write_to_pipe(&go, "");
    chat.sees("y to read on");
    chat.sees_draft("");
    chat.pty.send("n");
    chat.is_answered();
    chat.pty.send("\x03");
    chat.ends_well();
}

#[test]
fn the_text_in_an_editor_is_kept_when_the_chat_is_terminated() {
    let scripts = tempfile::tempdir().expect("a directory");
    let here = scripts.path().to_str().expect("UTF-8");
    let editor = format!("echo $$ > {here}/pid; mkfifo {here}/go; echo typed > \"$1\"; echo saved; cat {here}/go; :");
    std::fs::write(scripts.path().join("editor"), editor).expect("a script");
    let editor = format!("sh {here}/editor");
    let envs = vec![("LANG", "C.UTF-8"), ("EDITOR", &*editor), ("TMPDIR", here)];
    let mut chat = Chat::start(Start { envs, ..Start::default() });
    chat.pty.send("half typed\x07");
    chat.sees("saved");
    chat.pty.kill(Signal::TERM);
    chat.sees("the text in your editor is in");
    let names = std::fs::read_dir(scripts.path()).expect("a directory").map(|entry| entry.expect("an entry").path());
    let file = names.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "md"));
    assert_eq!(std::fs::read_to_string(file.expect("the file is kept")).expect("a text"), "typed\n");
    // The editor may have ended with the terminal.
    let pid = std::fs::read_to_string(scripts.path().join("pid")).expect("the process of the editor");
    let command_line = format!("/proc/{}/cmdline", pid.trim());
    let has_ended = || std::fs::read(&command_line).map_or(true, |line| line.is_empty());
    eventually(|| open_pipe(&scripts.path().join("go")).is_some() || has_ended());
    chat.ends_well();
}
