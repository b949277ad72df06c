//! `--read-only`: a second chat reads the store that the first one holds, and changes nothing.

use std::path::Path;

use super::{Chat, Start, is_ready};
use crate::support::internals::Body;
use crate::support::pty::{Pty, TerminalLeft};

fn look_at(directory: &Path) -> Pty {
    let mut pty = Start { args: vec!["--read-only"], ..Start::default() }.on(directory);
    pty.wait_for(is_ready, "a prompt");
    pty
}

/// Gives every byte of the directory's database, the part in its journal included.
fn bytes_of(directory: &Path) -> Vec<Vec<u8>> {
    let read = |name| std::fs::read(directory.join(name)).unwrap_or_default();
    ["polylogue.db", "polylogue.db-wal", "polylogue.lock"].map(read).into()
}

#[test]
fn a_held_store_can_be_read_and_is_not_changed() {
    let mut chat = Chat::new();
    chat.say("hello");
    chat.is_answered();
    chat.pty.send("/fork --name bea\r");
    chat.sees("── bea ");
    chat.say("I am bea\n%hang");
    chat.sees("  I am bea\n");
    chat.answers_no_other_process();
    let before = bytes_of(chat.directory.path());

    let mut looker = look_at(chat.directory.path());
    looker.wait_for_answer("hello", "hello");
    looker.wait_for_text("nothing can be sent or changed");
    looker.send("\x1b[1;5B");
    looker.wait_for_text("── bea ");
    looker.wait_for_text("┃ I am bea");
    for line in ["word", "/fork", "/kill", "/mark m", "/send bea hi", "/read-mail", "/name x", "/clear"] {
        looker.send(format!("{line}\r"));
        looker.wait_for(|screen| screen.contents().contains("this chat is read-only"), line);
        looker.wait_for(|screen| screen.contents().contains(&format!("> {line}\n")), "the line is the person's again");
        looker.send("\x15");
        looker.wait_for(|screen| !screen.contents().contains("this chat is read-only"), "an empty draft");
    }
    looker.send("\x04");
    assert!(looker.wait_exit().success());
    assert_eq!(looker.terminal_left(), TerminalLeft::CLEAN);
    assert!(looker.screen_text().contains("nothing was changed"), "{}", looker.screen_text());
    assert!(bytes_of(chat.directory.path()) == before, "the store was touched");

    chat.pty.send("\x1b\x1b0");
    chat.sees("── agent 0 ");
    chat.say("still here");
    chat.sees_answer("still here", "still here");
}

#[test]
fn reading_does_not_recover_after_a_crash() {
    let mut chat = Chat::new();
    chat.say("words\n%hang");
    chat.sees("  words\n");
    chat.pty.kill(rustix::process::Signal::KILL);
    chat.pty.wait_exit();
    let mut looker = look_at(chat.directory.path());
    looker.wait_for_text("┃ words");
    looker.send("\x04");
    assert!(looker.wait_exit().success());
    chat.start_again();
    chat.sees("1 turn was interrupted");
    chat.pty.send("\x04");
    chat.ends_well();
    assert!(matches!(chat.logs()[0].last().map(|message| &message.body), Some(Body::Interrupted(_))));
}

#[test]
fn a_directory_without_a_store_is_an_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut pty = Start { args: vec!["--read-only"], size: (200, 24), ..Start::default() }.on(directory.path());
    assert_eq!(pty.wait_exit().code(), Some(1));
    assert!(pty.screen_text().contains("cannot open the database"), "{}", pty.screen_text());
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 0, "nothing was made");
}
