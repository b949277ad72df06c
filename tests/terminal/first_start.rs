//! The first start.

use super::{Chat, Start};

#[test]
fn a_first_start_has_a_banner_and_a_prompt() {
    let mut chat = Chat::new();
    for expected in ["many agents in one terminal", "echo/echo", "? shows the keys"] {
        chat.sees(expected);
    }
    chat.pty.send("hello there\r");
    chat.sees_answer("hello there", "hello there");
    chat.sees_draft("");
}

#[test]
fn a_banner_greets_only_once() {
    let mut chat = Chat::new();
    chat.sees("many agents in one terminal");
    chat.pty.send("\x04");
    chat.ends_well();
    chat.start_again();
    assert!(!chat.pty.screen_text().contains("many agents in one terminal"));
}

#[test]
fn arguments_after_the_options_are_the_first_message() {
    let start = Start { args: vec!["how", "are", "you"], ..Start::default() };
    let mut chat = Chat::start(start);
    chat.sees_answer("how are you", "how are you");
}

#[test]
fn help_lists_commands_and_keys_and_agents_lists_all_agents() {
    let mut chat = Chat::start(Start { size: (100, 140), ..Start::default() });
    chat.pty.send("/help\r");
    for expected in ["Agents", "/fork", "/switch", "/agents", "/exit", "Ctrl+J", "Alt+0", "PgUp"] {
        chat.sees(expected);
    }
    chat.pty.send("\x1b");
    chat.sees_draft("");
    chat.pty.send("/fork --name scout\r");
    chat.sees("── scout ↑ agent 0");
    chat.pty.send("/agents\r");
    chat.sees("0   agent 0");
    chat.sees(">   1   scout");
}

#[test]
fn an_unknown_command_stays_in_the_draft_and_the_nearest_name_is_suggested() {
    let mut chat = Chat::new();
    chat.pty.send("/agnets\r");
    chat.sees("unknown command /agnets: did you mean /agents?");
    chat.sees_draft("/agnets");
    chat.pty.send("\x04\x1b");
    chat.sees_draft("");
    assert!(!chat.pty.screen_text().contains("\n> /agnets"), "it was no message");
}

#[test]
fn tab_completes_commands_and_names_and_lists_what_is_not_decided() {
    let mut chat = Chat::new();
    chat.pty.send("/ag\t");
    chat.sees_draft("/agents");
    chat.pty.send("\x15/\t");
    chat.sees("> /fork ");
    chat.sees("list all agents as a tree");
    chat.pty.send("\x1b");
    chat.pty.wait_for(|screen| !screen.contents().contains("list all agents"), "the end of the list");
    chat.pty.send("\x15/fork --name scout\r");
    chat.sees("── scout");
    chat.pty.send("\x1b0");
    chat.sees("── agent 0");
    chat.pty.send("/sw\tsc\t");
    chat.sees_draft("/switch scout");
    chat.pty.send("\r");
    chat.sees("── scout");
}
