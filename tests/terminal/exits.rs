//! However the program ends, the terminal is restored, no command keeps running, and the user reads how to continue.

use rustix::process::Signal;

use super::{Chat, Marked, Start, end_of_all};
use crate::support::internals::tty;
use crate::support::pty::{Pty, TerminalLeft, died_of};

/// What it is called, and what is done.
type WayOut = (&'static str, fn(&mut Chat));

/// The ways to ask the program to end while no agent is busy.
const WAYS: [WayOut; 6] = [
    ("Ctrl+C", |chat| chat.pty.send("\x03")),
    ("Ctrl+D", |chat| chat.pty.send("\x04")),
    ("/exit", |chat| chat.pty.send("/exit\r")),
    ("SIGTERM", |chat| chat.pty.kill(Signal::TERM)),
    ("SIGHUP", |chat| chat.pty.kill(Signal::HUP)),
    ("SIGINT", |chat| chat.pty.kill(Signal::INT)),
];

#[test]
fn every_exit_restores_the_terminal_and_prints_how_to_continue() {
    for (way, leave) in WAYS {
        let mut chat = Chat::new();
        assert_ne!(chat.pty.terminal_left(), TerminalLeft::CLEAN);
        leave(&mut chat);
        assert!(chat.ends_well().success(), "{way}");
    }
}

#[test]
fn the_end_of_the_conversation_stays_on_the_screen_of_the_shell() {
    for (setting, first, last) in [("screens", false, true), ("all", true, true), ("none", false, false)] {
        let envs = vec![("LANG", "C.UTF-8"), ("POLYLOGUE_DISPLAY_EXIT_PRINT", setting)];
        let mut chat = Chat::start(Start { envs, size: (60, 12), ..Start::default() });
        let lines: String = (0..60).map(|n| format!("line {n:02}\n")).collect();
        chat.say(&lines);
        chat.is_answered();
        chat.pty.send("\x04");
        assert!(chat.ends_well().success());
        let raw = String::from_utf8_lossy(chat.pty.raw_output()).into_owned();
        let left = raw.rsplit("\x1b[?1049l").next().expect("what follows the alternate screen");
        let has = |text: &str| left.contains(text);
        assert_eq!((has("line 00"), has("line 59")), (first, last), "{setting}: {left:?}");
        assert!(has("to continue: polylogue") && has(" -c"), "{left:?}");
    }
}

#[test]
fn ctrl_d_with_a_draft_deletes_and_does_not_leave() {
    let mut chat = Chat::new();
    chat.pty.send("xab\x01\x04");
    chat.sees_draft("ab");
    chat.pty.send("\x05\x04c");
    chat.sees_draft("abc");
}

#[test]
fn a_draft_that_was_not_sent_is_there_again() {
    let mut chat = Chat::new();
    chat.pty.send("half a thou");
    chat.sees_draft("half a thou");
    chat.pty.kill(Signal::TERM);
    chat.ends_well();
    chat.start_again();
    chat.sees_draft("half a thou");
}

#[test]
fn the_first_ctrl_c_lists_the_busy_agents_and_the_second_exits() {
    let mut chat = Chat::new();
    chat.say("before\n%hang");
    chat.sees("  before");
    chat.insists("\x03");
    assert!(chat.ends_well().success());
    assert!(super::replies(&chat.logs()[0]).contains(&"before"), "what had come is kept");
}

#[test]
fn no_command_of_a_tool_outlives_any_exit() {
    let mut ways = WAYS.to_vec();
    ways[0] = ("Ctrl+C twice", |chat| chat.insists("\x03"));
    ways[1] = ("Ctrl+D twice", |chat| chat.insists("\x04"));
    ways[2] = ("/exit twice", |chat| {
        chat.pty.send("/exit\r");
        chat.sees("agent 0 is busy: press Enter again to exit and end this");
        // Enter counts again after 300 ms. The spinner makes a step every 80 ms.
        let (mut last, mut steps) = (String::new(), 0);
        let has_stepped = |screen: &vt100::Screen| {
            let now = screen.contents();
            steps += usize::from(now != last);
            last = now;
            steps > 8
        };
        chat.pty.wait_for(has_stepped, "steps of the spinner");
        chat.pty.send("\r");
    });
    for (way, leave) in ways {
        let mut chat = Chat::new();
        let command = chat.run_for_ever();
        leave(&mut chat);
        assert!(chat.ends_well().success(), "{way}");
        command.is_gone();
    }
}

#[test]
fn a_window_that_is_closed_ends_the_program_and_its_tools_and_keeps_everything() {
    let mut chat = Chat::new();
    let command = chat.run_for_ever();
    chat.pty.send("half a thou");
    chat.sees_draft("half a thou");
    let status = chat.pty.hang_up();
    assert_eq!(status.code(), Some(0), "{status}");
    command.is_gone();
    chat.start_again();
    chat.sees_draft("half a thou");
}

#[test]
fn a_command_dies_with_the_program_even_if_that_is_killed() {
    let mut chat = Chat::new();
    let command = chat.run_for_ever();
    let processes = command.watch();
    assert!(processes.len() >= 3, "the command, its shell and its supervisor");
    chat.pty.kill(Signal::KILL);
    assert!(died_of(chat.pty.wait_exit(), Signal::KILL));
    end_of_all(&processes);
    command.is_gone();
}

#[test]
fn a_panic_restores_the_terminal_and_its_message_can_be_read() {
    let test = concat!(module_path!(), "::the_child_that_panics");
    let test = test.split_once("::").expect("a path within the crate").1;
    let program = std::env::current_exe().expect("our own path");
    let args = ["--exact", test, "--nocapture", "--test-threads=1"];
    let mut pty = Pty::spawn(program, &args, &[(PANICS, "1")], (80, 24));
    assert!(!pty.wait_exit().success());
    assert_eq!(pty.terminal_left(), TerminalLeft::CLEAN);
    let entered = pty.raw_output().windows(8).any(|bytes| bytes == b"\x1b[?1049h");
    assert!(entered, "it had taken the terminal");
    assert!(pty.screen_text().contains("a planted panic"), "{}", pty.screen_text());
}

/// Tells the copy of this binary to panic while it holds the terminal.
const PANICS: &str = "TERMINAL_CHILD_PANICS";

/// No test of its own: what the copy of this binary does. There is no way to make the program itself panic.
#[test]
fn the_child_that_panics() {
    if std::env::var_os(PANICS).is_none() {
        return;
    }
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tty::restore_for_panic();
        hook(panic);
    }));
    let mut tty = tty::Tty::open().expect("a terminal");
    tty.enter().expect("raw mode");
    // Only the hook may restore the terminal.
    std::mem::forget(tty);
    panic!("a planted panic");
}

#[test]
fn a_signal_at_any_moment_of_the_start_leaves_a_clean_terminal() {
    for wanted in [1, 9, 100, 400] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut pty = Start::default().on(directory.path());
        pty.wait_until(|pty| pty.output_so_far() >= wanted, "the first bytes");
        pty.kill(Signal::TERM);
        pty.wait_exit();
        assert_eq!(pty.terminal_left(), TerminalLeft::CLEAN, "after {wanted} bytes");
    }
}

#[test]
fn a_marked_command_is_found_while_it_lives() {
    let marked = Marked::new();
    let mut child = std::process::Command::new("sleep").arg(&marked.seconds).spawn().expect("sleep");
    super::eventually("the child", || marked.processes().len() == 1);
    child.kill().expect("alive");
    child.wait().expect("a child");
    marked.is_gone();
}

#[test]
fn an_inline_chat_leaves_the_conversation_and_no_live_area_on_the_main_screen() {
    let mut chat = Chat::start(Start { args: vec!["--inline"], ..Start::default() });
    chat.say("some words");
    chat.is_answered();
    chat.pty.send("?");
    chat.pty.wait_for(|screen| screen.alternate_screen(), "the list of keys on the alternate screen");
    chat.pty.send("\x1b");
    chat.pty.wait_for(|screen| !screen.alternate_screen(), "the main screen");
    chat.pty.send("half typed");
    chat.sees("> half typed");
    chat.pty.send("\x03\x03");
    assert!(chat.ends_well().success());
    let screen = chat.pty.screen_text();
    assert_eq!(screen.matches("some words").count(), 2, "{screen}");
    assert!(!screen.contains("half typed") && !screen.contains("──"), "{screen}");
}
