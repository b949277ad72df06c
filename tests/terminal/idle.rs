//! Nothing to do is nothing done: no byte to the terminal, no wake-up.

use std::time::Duration;

use super::{Chat, Start};
use crate::support::peer::Peer;

/// How long silence is measured.
const SPAN: Duration = Duration::from_secs(2);

/// How often the program was put on a processor so far.
fn wake_ups(chat: &Chat) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", chat.pty.pid())).expect("it is alive").flatten();
    tasks
        .map(|task| {
            let told = std::fs::read_to_string(task.path().join("schedstat")).expect("a living thread");
            told.split_whitespace().nth(2).and_then(|count| count.parse::<u64>().ok()).expect("three numbers")
        })
        .sum()
}

fn is_idle(chat: &mut Chat) {
    let before = wake_ups(chat);
    let bytes = chat.pty.bytes_within(SPAN);
    assert_eq!((bytes, wake_ups(chat) - before), (0, 0), "bytes written and wake-ups in {SPAN:?}");
}

/// Waits until what was to be done is done: the kernel tells that the program sleeps.
fn settles(chat: &mut Chat) {
    let mut last = u64::MAX;
    while last != wake_ups(chat) {
        last = wake_ups(chat);
        chat.pty.bytes_within(Duration::from_millis(300));
    }
}

#[test]
fn nothing_happens_after_the_start_and_nothing_after_a_conversation() {
    let peer = Peer::start();
    let url = peer.url();
    let mut chat = Chat::start(Start::with_server(&url));
    settles(&mut chat);
    is_idle(&mut chat);
    chat.pty.send("hello\r");
    peer.accept().stream().text("hello yourself").finish("stop").done();
    chat.sees("  hello yourself");
    chat.pty.send("typed");
    chat.sees_draft("typed");
    settles(&mut chat);
    is_idle(&mut chat);
}

#[test]
fn nothing_happens_after_tools_and_forks() {
    let mut chat = Chat::new();
    chat.say("!tool bash {\"command\":\"echo ran\"}");
    chat.sees("may this run");
    settles(&mut chat);
    is_idle(&mut chat);
    chat.pty.send("y");
    chat.sees("bash: ran");
    chat.pty.send("/fork say something\r");
    chat.sees("  say something");
    settles(&mut chat);
    is_idle(&mut chat);
}
