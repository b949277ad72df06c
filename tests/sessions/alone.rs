//! `polylogue` without a subcommand, where a server holds the data directory.

use super::App;
use crate::support::pty::TerminalLeft;

#[test]
fn the_chat_attaches_where_a_server_holds_its_directory_and_a_prompt_goes_to_agent_0() {
    let app = App::served();
    let mut bare = app.terminal(&[], (80, 24));
    bare.wait_for_text("one person, many agents");
    bare.send("/fork --name bea\r");
    bare.wait_for_text("── bea ");
    let mut prompted = app.terminal(&["to", "the", "root"], (80, 24));
    prompted.wait_for_text("> to the root\n\n  to the root\n");
    prompted.wait_for_text("── agent 0 ");
    assert!(!bare.screen_text().contains("to the root"));
    assert_eq!(app.get(&["sessions", "--json"]).lines().count(), 2);
    prompted.send("\x03");
    assert_eq!(prompted.wait_exit().code(), Some(0));
    assert!(prompted.screen_text().contains("to continue: polylogue"), "{}", prompted.screen_text());
}

#[test]
fn options_that_a_running_server_cannot_heed_are_named() {
    let app = App::served();
    let mut pty = app.terminal(&["-m", "echo/other", "--trace", "/dev/null"], (120, 24));
    pty.wait_for(|screen| screen.contents().contains("\n>"), "a prompt");
    pty.send("\x03");
    assert!(pty.wait_exit().success());
    let text = pty.screen_text().replace('\n', "");
    assert!(text.contains("no effect on the running server of ") && text.contains(": --model, --trace"), "{text}");
}

#[test]
fn an_ephemeral_chat_is_its_own_also_beside_a_server() {
    let app = App::served();
    let mut pty = app.terminal(&["--ephemeral", "hello"], (80, 24));
    pty.wait_for_text("> hello\n\n  hello\n");
    pty.leave();
    assert!(pty.screen_text().contains("nothing was stored"));
    assert!(!app.get(&["logs", "0"]).contains("hello"));
}

#[test]
fn to_look_only_is_to_watch_the_server() {
    let app = App::served();
    let mut pty = app.terminal(&["--read-only"], (80, 24));
    pty.wait_for(|screen| screen.contents().contains("\n>"), "a prompt");
    app.get(&["send", "0", "news"]);
    pty.wait_for_text("> news\n\n  news\n");
    pty.send("word\r");
    pty.wait_for_text("this terminal is read-only");
    pty.send("\x03");
    assert!(pty.wait_exit().success());
    assert_eq!(pty.terminal_left(), TerminalLeft::CLEAN);
}
