//! `polylogue` without a subcommand, where a server holds the data directory.

use super::App;
use crate::support::pty::TerminalLeft;

#[test]
fn the_chat_attaches_to_a_running_server_and_begins_a_conversation_with_its_prompt() {
    let app = App::served();
    let mut bare = app.terminal(&[], (80, 24));
    bare.wait_for_text("many agents in one terminal");
    bare.send("/fork --name bea\r");
    bare.wait_for_text("── bea ");
    let mut prompted = app.terminal(&["something", "new"], (80, 24));
    prompted.wait_for_answer("something new", "something new");
    prompted.wait_for_text("── agent 2 ");
    prompted.wait_for_text("the last conversation here is bea");
    assert!(!bare.screen_text().contains("something new"));
    let mut continued = app.terminal(&["-c", "and", "more"], (80, 24));
    continued.wait_for_answer("and more", "and more");
    continued.wait_for_text("something new");
    continued.send("\x03");
    assert_eq!(continued.wait_exit().code(), Some(0));
    assert_eq!(app.get(&["sessions", "--json"]).lines().count(), 2);
    prompted.send("\x03");
    assert_eq!(prompted.wait_exit().code(), Some(0));
    assert!(prompted.screen_text().contains("to continue: polylogue"), "{}", prompted.screen_text());
}

#[test]
fn setup_shows_its_panel_beside_a_server_too() {
    let app = App::served();
    let mut pty = app.terminal(&["setup"], (100, 30));
    pty.wait_for_text("Esc goes back to the chat");
    pty.send("\x03");
    pty.wait_for_text("── agent 0");
    pty.leave();
}

#[test]
fn options_without_effect_on_a_running_server_are_listed() {
    let app = App::served();
    let mut pty = app.terminal(&["-m", "echo/echo", "--trace", "/dev/null"], (120, 24));
    pty.wait_for(|screen| screen.contents().contains("\n>"), "a prompt");
    pty.send("\x03");
    assert!(pty.wait_exit().success());
    let text = pty.screen_text().replace('\n', "");
    assert!(
        text.contains("no effect on the running server of ") && text.contains(": --tracenothing was written"),
        "{text}"
    );
}

#[test]
fn an_ephemeral_chat_does_not_use_the_server() {
    let app = App::served();
    let mut pty = app.terminal(&["--ephemeral", "hello"], (80, 24));
    pty.wait_for_answer("hello", "hello");
    pty.leave();
    assert!(pty.screen_text().contains("nothing was stored"));
    assert!(!app.get(&["logs", "0"]).contains("hello"));
}

#[test]
fn read_only_attaches_read_only_to_the_server() {
    let app = App::served();
    let mut pty = app.terminal(&["--read-only"], (80, 24));
    pty.wait_for(|screen| screen.contents().contains("\n>"), "a prompt");
    app.get(&["tell", "0", "news"]);
    pty.wait_for_answer("news", "news");
    pty.send("word\r");
    pty.wait_for_text("this terminal is read-only");
    // The first Ctrl+C clears the refused line.
    pty.send("\x03\x03");
    assert!(pty.wait_exit().success());
    assert_eq!(pty.terminal_left(), TerminalLeft::CLEAN);
}
