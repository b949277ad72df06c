//! `kill -9` in the middle of everything: what was acknowledged is there, what was cut is marked.

use rustix::process::Signal;

use super::Chat;
use crate::support::internals::{Body, Message};
use crate::support::pty::died_of;

/// A reply of which word after word comes, for longer than any test lasts.
fn endless(word: &str) -> String {
    format!("{word}-first\n%slow 20\n%repeat 5000\n{word}")
}

/// Waits until so much has come that some of it must be stored: a screenful takes longer than a checkpoint.
fn is_kept(chat: &mut Chat, word: &str) {
    chat.sees(&format!("  {word}\n  {word}\n"));
    chat.pty.wait_for(|screen| !screen.contents().contains(&format!("  {word}-first")), "a screenful");
}

/// Three agents that stream, the last one on the screen.
fn three_at_work() -> Chat {
    let mut chat = Chat::new();
    chat.say(&endless("ant"));
    is_kept(&mut chat, "ant");
    for (name, word) in [("bea", "bee"), ("cal", "cow")] {
        chat.pty.send(format!("/fork --name {name}\r"));
        chat.sees(&format!("── {name} "));
        chat.say(&endless(word));
        is_kept(&mut chat, word);
    }
    chat
}

fn last_reply(log: &[Message]) -> (&str, bool) {
    let mut replies = log.iter().filter_map(|message| match &message.body {
        Body::Assistant(reply) => Some((reply.text.as_str(), reply.is_partial)),
        _ => None,
    });
    replies.next_back().expect("a reply")
}

#[test]
fn after_kill_9_all_agents_are_there_with_what_had_come_and_a_note() {
    let mut chat = three_at_work();
    chat.pty.send("half a thou");
    chat.sees_draft("half a thou");
    chat.pty.kill(Signal::KILL);
    assert!(died_of(chat.pty.wait_exit(), Signal::KILL));
    chat.start_again();
    chat.sees("3 turns were interrupted");
    chat.sees("the process ended during this turn");
    for (key, name, word) in [("0", "agent 0", "ant"), ("1", "bea", "bee"), ("2", "cal", "cow")] {
        chat.pty.send(format!("\x1b{key}"));
        chat.sees(&format!("── {name} "));
        chat.sees(&format!("  {word}\n"));
        chat.sees("the process ended during this turn");
    }
    // The draft may have been stored before the crash.
    chat.pty.send("\x15\x03");
    chat.ends_well();
    let logs = chat.logs();
    assert_eq!(logs.len(), 3);
    for (log, word) in logs.iter().zip(["ant", "bee", "cow"]) {
        assert!(log.iter().any(|message| message.body == Body::User(endless(word))), "{word} was acknowledged");
        let (text, is_partial) = last_reply(log);
        assert!(is_partial && text.starts_with(&format!("{word}-first\n{word}")), "{text:?}");
        assert!(!text.contains(["ant", "bee", "cow"].iter().find(|other| **other != word).unwrap()), "{text:?}");
    }
}

#[test]
fn every_agent_answers_again_after_the_crash() {
    let mut chat = three_at_work();
    chat.pty.kill(Signal::KILL);
    chat.pty.wait_exit();
    chat.start_again();
    for (key, text) in [("1", "one more"), ("2", "two more"), ("3", "three more")] {
        chat.pty.send(format!("\x1b{key}"));
        chat.say(text);
        chat.sees_answer(text, text);
    }
}
