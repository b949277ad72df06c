//! Pasted text: all of it arrives, and none of it runs.

use super::{Chat, Start};
use crate::support::internals::Body;
use crate::support::openai;
use crate::support::peer::Peer;

/// Lines that are all different, as large as asked for.
fn text_of(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 32);
    for line in 0.. {
        if text.len() >= bytes {
            break;
        }
        text.push_str(&format!("line {line} äöü 語\n"));
    }
    text.push_str("the end");
    text
}

fn arrives_complete(bytes: usize) {
    let peer = Peer::start();
    let url = peer.url();
    let mut chat = Chat::start(Start::with_server(&url));
    let text = text_of(bytes);
    chat.say(&text);
    let exchange = peer.accept();
    let received = openai::last_user_text(&exchange.request().json());
    assert!(received == text, "{} of {} bytes came", received.len(), text.len());
    exchange.stream().text("got it").usage(1, 1).finish("stop").done();
    chat.is_answered();
    chat.sees("  got it");
    chat.pty.send("\x04");
    chat.ends_well();
    let stored = chat.logs()[0].iter().any(|message| message.body == Body::User(text.clone()));
    assert!(stored, "the store has it whole");
}

#[test]
fn a_megabyte_is_folded_on_the_screen_and_arrives_complete() {
    let mut chat = Chat::new();
    chat.paste(&text_of(1_000_000));
    chat.sees("lines");
    chat.pty.send(" and more");
    chat.pty.wait_for(|screen| super::draft_on(screen).ends_with(" and more"), "what is typed after it");
    assert!(!chat.pty.screen_text().contains("line 1 "));
    arrives_complete(1_000_000);
}

#[test]
fn ten_megabytes_arrive_complete() {
    arrives_complete(10_000_000);
}

#[test]
fn commands_newlines_and_keys_in_a_paste_run_nothing() {
    let mut chat = Chat::new();
    let text = "first\r/exit\r/fork --name nobody\r\x03\x04\tlast";
    chat.paste(text);
    chat.sees("> first\n  /exit\n  /fork --name nobody\n");
    chat.sees("last");
    chat.pty.send("!\r");
    chat.is_answered();
    chat.sees("last!");
    chat.pty.send("\x04");
    chat.ends_well();
    assert_eq!(chat.logs().len(), 1, "no agent was forked");
}

#[test]
fn a_paste_that_begins_with_a_command_runs_it_only_when_it_is_sent() {
    let mut chat = Chat::new();
    chat.paste("/fork --name scout\n");
    chat.sees("> /fork --name scout");
    assert!(!chat.pty.screen_text().contains("── scout"));
    chat.pty.send("\r");
    chat.sees("── scout");
}

#[test]
fn a_paste_does_not_answer_a_question() {
    let mut chat = Chat::new();
    chat.say("%tool bash {\"command\":\"echo ran $X\"}");
    chat.sees("y to run it");
    chat.paste("y\n");
    chat.sees_draft("y");
    assert!(chat.pty.screen_text().contains("Run this?"));
    chat.pty.send("\x1bn");
    chat.pty.wait_for(|screen| !screen.contents().contains("Run this?"), "the question to be answered");
    chat.sees_draft("y");
    assert!(!chat.pty.screen_text().contains("1 line"));
}
