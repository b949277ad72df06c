//! Reading what is above while more comes below.

use super::{Chat, Start};
use crate::support::peer::Peer;

/// The rows of the conversation.
fn text_rows(screen: &vt100::Screen, count: usize) -> Vec<String> {
    screen.rows(0, screen.size().1).take(count).collect()
}

fn lines(from: usize, to: usize) -> String {
    (from..to).map(|n| format!("line {n}\n")).collect()
}

#[test]
fn a_scrolled_view_stays_put_while_new_text_comes_and_is_marked() {
    let peer = Peer::start();
    let url = peer.url();
    let mut chat = Chat::start(Start::with_server(&url));
    chat.pty.send("go\r");
    let exchange = peer.accept();
    exchange.stream().text(&lines(0, 100));
    chat.sees("line 99\n");
    chat.pty.send("\x1b[5~");
    chat.sees("more below (Ctrl+End)");
    chat.pty.send("\x1b[5~");
    chat.pty.wait_for(|screen| !screen.contents().contains("line 75\n"), "a second page");
    let before = text_rows(chat.pty.screen(), 18);
    exchange.text(&lines(100, 200)).text("the last word").finish("stop").done();
    chat.pty.wait_for(|screen| !screen.contents().contains("Esc stops it"), "the end of the reply");
    assert_eq!(text_rows(chat.pty.screen(), 18), before);
    chat.pty.send("\x1b[1;5F");
    chat.sees("the last word");
    assert!(!chat.pty.screen_text().contains("more below"));
    chat.pty.send("\x1b[1;5H");
    chat.sees_answer("go", "line 0");
}

#[test]
fn the_wheel_moves_three_rows_and_page_down_comes_back() {
    let mut chat = Chat::new();
    chat.say(&lines(0, 100));
    chat.is_answered();
    let last_row = |screen: &vt100::Screen| text_rows(screen, 20)[18].trim().to_owned();
    let before = last_row(chat.pty.screen());
    chat.pty.send("\x1b[<64;10;10M");
    chat.sees("more below");
    let number = |row: &str| row.trim_start_matches("line ").parse::<i32>().unwrap_or(-1);
    chat.pty.wait_for(|screen| number(&last_row(screen)) == number(&before) - 3, "three rows up");
    chat.pty.send("\x1b[6~");
    chat.pty.wait_for(|screen| last_row(screen) == before, "the bottom");
}

#[test]
fn sending_goes_to_the_bottom() {
    let mut chat = Chat::new();
    chat.say(&lines(0, 100));
    chat.is_answered();
    chat.pty.send("\x1b[5~");
    chat.sees("more below");
    chat.pty.send("here\r");
    chat.sees_answer("here", "here");
}

#[test]
fn a_long_past_is_read_from_the_store_as_one_scrolls() {
    let mut chat = Chat::new();
    for n in 0..120 {
        chat.pty.send(format!("past {n}\r"));
        chat.sees_answer(&format!("past {n}"), &format!("past {n}"));
    }
    chat.pty.leave();
    chat.start_again();
    chat.sees("  past 119\n");
    for _ in 0..60 {
        chat.pty.send("\x1b[5~");
    }
    chat.sees_answer("past 0", "past 0");
}
