//! Ctrl+Z gives the terminal to the shell, and the program comes back as it was.

use rustix::process::Signal;

use super::{Chat, Start, eventually};
use crate::support::peer::Peer;
use crate::support::pty::TerminalLeft;

/// The state in which the kernel has the program: `T` is stopped.
fn state(chat: &Chat) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", chat.pty.pid())).expect("it is alive");
    let (_, rest) = stat.rsplit_once(") ").expect("a name in parentheses");
    rest.chars().next().expect("a state")
}

fn comes_back(chat: &mut Chat) {
    eventually("the program to be stopped", || state(chat) == 'T');
    assert_eq!(chat.pty.terminal_left(), TerminalLeft::CLEAN);
    chat.pty.kill(Signal::CONT);
    chat.pty.wait_for(vt100::Screen::alternate_screen, "the screen to be taken again");
    chat.sees("many agents in one terminal");
    chat.sees_draft("typed before");
    chat.pty.send(" and after");
    chat.sees_draft("typed before and after");
}

#[test]
fn ctrl_z_stops_with_a_clean_terminal_and_continues_with_everything_drawn() {
    let mut chat = Chat::new();
    chat.pty.send("typed before");
    chat.sees_draft("typed before");
    chat.pty.send("\x1a");
    comes_back(&mut chat);
}

#[test]
fn a_stop_that_is_asked_for_by_a_signal_is_the_same() {
    let mut chat = Chat::new();
    chat.pty.send("typed before");
    chat.sees_draft("typed before");
    chat.pty.kill(Signal::TSTP);
    comes_back(&mut chat);
}

#[test]
fn a_stop_says_what_stands_still_and_deadlines_wait_for_as_long() {
    let peer = Peer::start();
    let config = tempfile::tempdir().expect("a directory");
    let file = config.path().join("config.toml");
    std::fs::write(&file, "[limits]\nstall_timeout = 3\n").expect("a file");
    let (url, file) = (peer.url(), file.to_str().expect("UTF-8"));
    let envs = vec![("OPENAI_BASE_URL", url.as_str()), ("POLYLOGUE_MODEL", "openai/test"), ("LANG", "C.UTF-8")];
    let mut chat = Chat::start(Start { args: vec!["--config", file], envs, size: (120, 24) });
    chat.say("a question");
    let exchange = peer.accept();
    exchange.stream().text("first words");
    chat.sees("first words");
    chat.pty.send("\x1a");
    eventually("the program to be stopped", || state(&chat) == 'T');
    chat.pty.wait_for_text("polylogue is stopped, with 1 agent at work; after fg, /background lets them go on");
    // Longer than it would wait for data.
    std::thread::sleep(std::time::Duration::from_secs(4));
    chat.pty.kill(Signal::CONT);
    chat.pty.wait_for(vt100::Screen::alternate_screen, "the screen to be taken again");
    exchange.text(" and the last ones").finish("stop").done();
    chat.sees("first words and the last ones");
    assert!(peer.try_accept().is_none(), "the request is not sent again");
}

#[test]
fn a_resize_while_it_is_stopped_is_seen_when_it_comes_back() {
    let mut chat = Chat::new();
    chat.pty.send("\x1a");
    eventually("the program to be stopped", || state(&chat) == 'T');
    chat.pty.resize(50, 12);
    chat.pty.kill(Signal::CONT);
    chat.pty.wait_for(
        |screen| screen.rows(0, 50).nth(9).is_some_and(|row| row.starts_with("── agent 0") && row.ends_with('─')),
        "the separator in its new row",
    );
}

#[test]
fn an_agent_that_streams_goes_on_after_a_stop() {
    let mut chat = Chat::new();
    chat.say(&format!("%slow 5\n{}the end", "more ".repeat(100)));
    chat.sees("more more");
    chat.pty.send("\x1a");
    eventually("the program to be stopped", || state(&chat) == 'T');
    chat.pty.kill(Signal::CONT);
    chat.sees("the end\n");
    chat.pty.wait_for(|screen| !screen.contents().contains("Esc stops it"), "the end of the reply");
}
