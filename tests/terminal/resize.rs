//! Terminals of every size, size changes in the middle of things, and terminals that can do little.

use nix::sys::signal::{SigSet, Signal};

use super::{Chat, Start};

#[test]
fn a_storm_of_resizes_while_streaming_loses_nothing() {
    let mut chat = Chat::new();
    let words: Vec<String> = (0..200).map(|n| format!("word{n}")).collect();
    chat.say(&format!("%slow 5\n{}", words.join(" ")));
    chat.sees("word0");
    for n in 0..50_u16 {
        chat.pty.resize(20 + (n * 37) % 100, 6 + (n * 13) % 40);
    }
    chat.pty.resize(90, 45);
    chat.is_answered();
    let text = chat.pty.screen_text();
    let shown: Vec<&str> = text.split_whitespace().filter(|word| word.starts_with("word")).collect();
    // Once as it was typed, once as it was answered.
    assert_eq!(shown, [words.clone(), words].concat());
    let rows: Vec<&str> = text.lines().collect();
    assert!(rows[42].starts_with("── agent 0 ─") && rows[42].chars().count() == 90, "{text}");
    assert!(rows[44].ends_with("? keys"), "{text}");
}

#[test]
fn signals_that_were_blocked_at_the_start_are_handled() {
    let blocked: SigSet = [Signal::SIGWINCH, Signal::SIGTERM].into_iter().collect();
    blocked.thread_block().expect("signals are blocked");
    let mut chat = Chat::new();
    blocked.thread_unblock().expect("signals are unblocked");
    chat.pty.resize(60, 20);
    let is_redrawn = |row: String| row.starts_with("── agent 0") && row.ends_with('─');
    chat.pty.wait_for(|screen| screen.rows(0, 60).nth(17).is_some_and(is_redrawn), "the separator in its new row");
    chat.pty.kill(rustix::process::Signal::TERM);
    chat.exit_status();
}

#[test]
fn a_screen_of_twenty_columns_and_five_rows_can_be_used() {
    let mut chat = Chat::start(Start { size: (20, 5), ..Start::default() });
    chat.pty.send("hello there, how are you today?\r");
    chat.sees(" tokens,");
    chat.sees_draft("");
    chat.say("%tool bash {\"command\":\"echo ran $X\"}");
    chat.sees("enlarge to answer");
    chat.pty.send("y");
    chat.sees_draft("y");
    chat.pty.send("\x15");
    chat.pty.resize(20, 24);
    chat.sees("y to run it");
    chat.pty.send("y");
    chat.sees("bash: ran");
    // Only a wider screen has room to say that the turn is over.
    chat.pty.resize(80, 18);
    chat.is_answered();
    chat.pty.resize(20, 5);
    chat.pty.send("typed text that is longer than the row");
    chat.sees("\n  ow\n");
    for size in [(1, 1), (2, 2), (5, 1), (1, 30), (20, 5)] {
        chat.pty.resize(size.0, size.1);
    }
    chat.sees("\n  ow\n");
    chat.pty.send("\x15\x04");
    assert!(chat.exit_status().success());
}

#[test]
fn who_wants_no_color_is_sent_none() {
    for envs in [vec![("CLICOLOR", "0"), ("LANG", "C")], vec![("NO_COLOR", "1"), ("LANG", "C")]] {
        let mut chat = Chat::start(Start { envs, ..Start::default() });
        chat.pty.send("hello there\r");
        chat.sees_answer("hello there", "hello there");
        chat.pty.send("/nonsense-that-is-yellow\r");
        chat.sees("unknown command /nonsense");
        assert!(chat.pty.raw_output().is_ascii(), "the locale knows nothing else");
        let styles = styles_in(chat.pty.raw_output());
        let is_color = |style: &String| style.split(';').any(|code| matches!(code.len(), 2) && code != "22");
        assert!(!styles.iter().any(is_color), "{styles:?}");
    }
}

/// The parameters of all SGR sequences.
fn styles_in(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    let sequences = text.split("\x1b[").skip(1);
    let styles = sequences.filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';')?;
        rest[end..].starts_with('m').then(|| rest[..end].to_owned())
    });
    styles.collect()
}
