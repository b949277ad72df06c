//! Nothing to do is nothing done: no byte to the terminal, no wake-up.

use std::time::Duration;

use super::{Chat, Start};
use crate::support::peer::Peer;

/// How long silence is measured.
const SPAN: Duration = Duration::from_secs(2);

/// Every thread of the program: how often it was put on a processor so far, and the state in which the kernel has it.
fn threads(chat: &Chat) -> Vec<(u64, char)> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", chat.pty.pid())).expect("it is alive").flatten();
    tasks
        // A thread may end before it was looked at.
        .filter_map(|task| {
            let schedstat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
            let state = stat.rsplit_once(") ")?.1.chars().next()?;
            Some((schedstat.split_whitespace().nth(2)?.parse().expect("a count"), state))
        })
        .collect()
}

/// How often the program was put on a processor so far.
fn wake_ups(chat: &Chat) -> u64 {
    threads(chat).into_iter().map(|(count, _)| count).sum()
}

fn is_idle(chat: &mut Chat) {
    let before = wake_ups(chat);
    let bytes = chat.pty.bytes_within(SPAN);
    assert_eq!((bytes, wake_ups(chat) - before), (0, 0), "bytes written and wake-ups in {SPAN:?}");
}

/// Waits until what was to be done is done: no agent works, and the kernel reports that the program sleeps and did all
/// along. One that waits for a processor, for however long, is not put on one either.
fn settles(chat: &mut Chat) {
    chat.pty.wait_for(|screen| !screen.contents().contains("Esc stops it"), "the end of the turn");
    loop {
        let before = threads(chat);
        chat.pty.bytes_within(Duration::from_millis(300));
        if threads(chat) == before && before.iter().all(|(_, state)| *state == 'S') {
            return;
        }
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
    chat.say("%tool bash {\"command\":\"echo ran $X\"}");
    chat.sees("y to run it");
    settles(&mut chat);
    is_idle(&mut chat);
    chat.pty.send("y");
    chat.sees("bash: ran");
    chat.pty.send("/fork say something\r");
    chat.sees("  say something");
    settles(&mut chat);
    is_idle(&mut chat);
}
