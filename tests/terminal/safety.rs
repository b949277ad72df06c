//! Control sequences in text of models, tools and mail never reach the terminal.

use super::{Chat, Start};
use crate::support::peer::Peer;

/// Sequences that would do harm, each followed by a word that must be seen.
const HOSTILE: &str = "\x1b]52;c;cHduZWQ=\x07one \x1b[2J\x1b[Htwo \x1b]0;title\x1b\\three \u{9b}31mfour \u{202e}five \
                       \x1bcsix \x1b[?1049lseven \x07eight \x1bP+q544e\x1b\\nine \u{85}ten \r\x08eleven";

const NUMBERS: [&str; 11] = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"];

/// Nothing of it has acted on the terminal.
fn is_harmless(chat: &mut Chat) {
    // Our own: synchronized updates, no wrapping at the margin, reports of the focus, the stack of titles, the keyboard, a
    // query.
    let own =
        ["CSI ? [[7]] l", "CSI ? [[1004]] h", "CSI  [[22], [0]] t", "CSI  [[0]] c", "CSI > [[1]] u", "CSI < [[0]] u"];
    let known = |unknown: &&String| !unknown.contains("2026") && !own.contains(&unknown.as_str());
    let reports = chat.pty.reports();
    assert_eq!(reports.bells, 0);
    assert!(reports.title.starts_with("agent 0") || reports.title == "!agent 0 asks - polylogue", "{}", reports.title);
    assert!(reports.copied.is_empty(), "{:?}", reports.copied);
    assert_eq!(reports.unknown.iter().filter(known).collect::<Vec<_>>(), Vec::<&String>::new());
    let raw = without_own(&String::from_utf8_lossy(chat.pty.raw_output()));
    for bad in ["\x1b]", "\x1bP", "\x1bc", "\u{9b}", "\u{202e}", "\u{85}", "\x07"] {
        assert!(!raw.contains(bad), "{bad:?} reached the terminal");
    }
    assert!(chat.pty.screen().alternate_screen());
}

/// The output without our own titles and our own queries.
fn without_own(raw: &str) -> String {
    let mut rest = raw.replace("\x1b]11;?\x1b\\", "").replace("\x1b]7501;?\x1b\\", "");
    while let Some(start) = rest.find("\x1b]2;") {
        let length = rest[start..].find(" - polylogue\x07").expect("a title of ours") + " - polylogue\x07".len();
        let title = rest.drain(start..start + length).collect::<String>();
        assert_eq!(title.matches(char::is_control).count(), 2, "{title:?}");
    }
    rest
}

#[test]
fn control_sequences_of_a_model_are_shown_and_do_nothing() {
    let peer = Peer::start();
    let url = peer.url();
    let mut chat = Chat::start(Start::with_server(&url));
    chat.pty.send("attack\r");
    let exchange = peer.accept();
    exchange.stream();
    // Cut everywhere, so that no sequence comes in one piece.
    for (at, c) in HOSTILE.char_indices() {
        exchange.text(&c.to_string());
        // What follows is drawn beside them: a character that the terminal counts otherwise would leave a gap.
        for begun in ["\u{85}te", "elev"] {
            if HOSTILE[..at].ends_with(begun) {
                chat.sees(&begun.replace('\u{85}', "\u{25a1}"));
            }
        }
    }
    exchange.thinking(HOSTILE).text(" the end").finish("stop").done();
    chat.sees("the end");
    for word in NUMBERS {
        chat.sees(word);
    }
    for sequence in ["␛]52;c;", "␛[2J", "␛[?1049l"] {
        chat.sees(sequence);
    }
    chat.sees("┃ attack");
    is_harmless(&mut chat);
}

#[test]
fn an_error_of_a_server_is_shown_and_does_nothing() {
    let peer = Peer::start();
    let url = peer.url();
    let mut chat = Chat::start(Start::with_server(&url));
    chat.pty.send("attack\r");
    peer.accept().error(400, "invalid_request_error", HOSTILE);
    chat.sees("one");
    chat.sees("┃ attack");
    is_harmless(&mut chat);
}

#[test]
fn the_command_in_a_question_and_its_output_do_nothing() {
    let mut chat = Chat::start(Start { size: (100, 40), ..Start::default() });
    let arguments = serde_json::json!({"command": format!("printf '%b' 'a\\033[2Jb\\007c\\n'; : '{HOSTILE}'")});
    chat.say(&format!("%tool bash {arguments}"));
    chat.sees("Run this?");
    chat.sees("eleven");
    is_harmless(&mut chat);
    chat.sees("y to run it");
    chat.pty.send("y");
    chat.sees("bash: a");
    is_harmless(&mut chat);
}

#[test]
fn what_is_pasted_is_shown_and_does_nothing() {
    let mut chat = Chat::new();
    chat.say(HOSTILE);
    chat.sees("eleven");
    is_harmless(&mut chat);
}
