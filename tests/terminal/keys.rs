//! Keys, as terminals send them.

use std::time::Duration;

use polylogue::Turn;

use super::Chat;
use crate::support::harness::{Harness, Plan};

/// Types into an empty draft and waits for what it becomes; then the draft is empty again.
fn check(chat: &mut Chat, typed: &str, draft: &str) {
    chat.pty.send(typed);
    chat.pty.wait_for(|screen| super::draft_on(screen).trim_end() == draft, &format!("{typed:?} to become {draft:?}"));
    chat.pty.send("\x1b");
    chat.sees_draft("");
}

#[test]
fn a_lone_escape_clears_the_draft_and_not_only_when_something_else_is_typed() {
    let mut chat = Chat::new();
    chat.pty.send("abc");
    chat.sees_draft("abc");
    chat.pty.send("\x1b");
    chat.sees_draft("");
}

#[test]
fn a_key_that_comes_byte_by_byte_is_one_key() {
    // With a clock that does not move: a byte that comes too late is a key of its own, and the machine may be slow.
    let mut app = Harness::new(Plan::default());
    for (bytes, draft) in [("ac\x1b[Db", "abc"), ("\x1b[1;5D\x1b[F\x1bOH\x1b[3~語é", "語ébc")] {
        for byte in bytes.as_bytes() {
            app.type_bytes(&[*byte]);
        }
        assert_eq!(app.draft(0).text(), draft);
    }
}

#[test]
fn editing_keys_do_what_they_do_in_a_shell() {
    let mut chat = Chat::new();
    for (typed, draft) in [
        ("bc\x01a", "abc"),
        ("ab\x01\x05c", "abc"),
        ("ac\x02b\x06d", "abcd"),
        ("abc\x1b[D\x1b[D\x0b", "a"),
        ("abc\x1b[D\x15", "c"),
        ("one two\x17", "one"),
        ("one two\x17\x01\x19", "twoone"),
        ("one two\x1bb\x1bbX", "Xone two"),
        ("one two\x01\x1bfX", "oneX two"),
        ("one two\x01\x1bd", " two"),
        ("one two/three\x1b\x7f", "one two/"),
        ("one two\x1b[1;3DX", "one Xtwo"),
        ("abc\x7f", "ab"),
        ("abc\x08", "ab"),
        ("abc\x1b[H\x1b[3~", "bc"),
        ("語👨‍👩‍👧x\x7f\x7f", "語"),
        ("one two\x17\x1f", "one two"),
        ("one two\x17\x1f\x1b_", "one"),
        ("one two\x17\x1f\x18\x12", "one"),
        ("one\x15two\x15\x19\x1by", "one"),
    ] {
        check(&mut chat, typed, draft);
    }
}

#[test]
fn a_line_is_broken_by_ctrl_j_and_sent_by_enter() {
    let mut chat = Chat::new();
    check(&mut chat, "one\x0atwo", "one\ntwo");
    check(&mut chat, "one\x1b\rtwo", "one\ntwo");
    check(&mut chat, "one\\\rtwo", "one\ntwo");
    check(&mut chat, "one\x1b[13;2utwo\x1b[27;2;13~three", "one\ntwo\nthree");
    chat.pty.send("one\x0atwo\r");
    chat.sees_answer("one\ntwo", "one\ntwo");
}

#[test]
fn up_and_down_go_through_lines_first_and_then_through_earlier_inputs() {
    let mut chat = Chat::new();
    for text in ["first", "second"] {
        chat.pty.send(format!("{text}\r"));
        chat.sees_answer(text, text);
    }
    chat.pty.send("\x1b[A");
    chat.sees_draft("second");
    chat.pty.send("\x1b[A");
    chat.sees_draft("first");
    chat.pty.send("\x1b[B");
    chat.sees_draft("second");
    chat.pty.send("\x1b[B");
    chat.sees_draft("");
    chat.pty.send("one\x0atwo\x1b[AX");
    chat.sees_draft("oneX\ntwo");
}

#[test]
fn up_and_down_return_to_the_draft_as_it_was_and_the_history_is_kept() {
    let mut app = Harness::new(Plan::default());
    app.enter("first");
    app.turn_until_idle();
    app.enter("second\x0aline");
    app.turn_until_idle();
    let draft = |app: &Harness| app.draft(0).text().to_owned();
    app.type_bytes(b"half\x0atyped\x02\x02");
    app.type_bytes(b"\x1b[A\x1b[A");
    assert_eq!(draft(&app), "second\nline");
    app.type_bytes(b"\x1b[A\x1b[A");
    assert_eq!(draft(&app), "first");
    app.type_bytes(b"\x1b[B\x1b[B");
    assert_eq!(draft(&app), "half\ntyped", "the draft is back");
    app.type_bytes(b"X\x1f\x1f");
    assert_eq!(draft(&app), "half\ntyped".get(..5).unwrap_or_default(), "its undo history as well");
    let mut app = app.crash_and_restart();
    app.type_bytes(b"\x1b[A\x1b[A\x1b[A");
    assert_eq!(draft(&app), "first");
}

#[test]
fn ctrl_c_clears_the_draft_into_the_history_before_it_leaves() {
    let mut app = Harness::new(Plan::default());
    assert_eq!(app.type_bytes(b"not sent\x03"), Turn::Continue);
    assert_eq!(app.draft(0).text(), "");
    app.type_bytes(b"\x1b[A");
    assert_eq!(app.draft(0).text(), "not sent");
    app.type_bytes(b"\x03");
    app.enter("%hang");
    for key in [b"\x03", b"\x04"] {
        assert_eq!(app.type_bytes(key), Turn::Continue);
        assert!(app.screen_text().contains("agent 0 is busy: press again within 2 s to leave"));
        app.advance(Duration::from_secs(3));
    }
    assert_eq!(app.type_bytes(b"\x04"), Turn::Continue);
    assert_eq!(app.type_bytes(b"\x04"), Turn::Exit);
}

#[test]
fn a_draft_is_stored_250_ms_after_the_last_key_and_survives_a_crash() {
    let mut app = Harness::new(Plan::default());
    app.type_bytes(b"half a tho");
    app.advance(Duration::from_millis(200));
    app.type_bytes(b"ught");
    let before = app.transactions();
    app.advance(Duration::from_millis(249));
    assert_eq!(app.transactions(), before);
    app.advance(Duration::from_millis(1));
    assert_eq!(app.transactions(), before + 1);
    assert_eq!(app.timeout().after, None, "nothing wakes the loop afterwards");
    let app = app.crash_and_restart();
    assert_eq!(app.draft(0).text(), "half a thought");
}

#[test]
fn a_command_that_failed_is_in_the_draft_but_not_at_the_next_start() {
    let mut app = Harness::new(Plan::default());
    app.enter("/delete-mail 77");
    assert_eq!(app.draft(0).text(), "/delete-mail 77");
    app.repl.leave().expect("it leaves");
    let mut app = app.crash_and_restart();
    assert_eq!(app.draft(0).text(), "");
    app.enter("/delete-mail 77");
    app.type_bytes(b"\x1b[F8");
    app.advance(Duration::from_millis(250));
    let app = app.crash_and_restart();
    assert_eq!(app.draft(0).text(), "/delete-mail 778");
}

#[test]
fn digits_and_arrows_go_from_agent_to_agent() {
    let mut chat = Chat::new();
    for name in ["bea", "cal"] {
        chat.pty.send(format!("\x1b0/fork --name {name}\r"));
        chat.sees(&format!("── {name} "));
    }
    for (key, name) in [
        ("\x1b0", "agent 0"),
        ("\x1b1", "bea"),
        ("\x1b2", "cal"),
        ("\x1b[1;5A", "agent 0"),
        ("\x1b[1;5B", "cal"),
        ("\x1b[1;5D", "bea"),
        ("\x1b[1;5C", "cal"),
    ] {
        chat.pty.send(key);
        chat.sees(&format!("── {name} "));
    }
    chat.pty.send("\x1b8");
    chat.sees("no other agent 8");
    // A number is the same agent also when an older one has ended.
    chat.pty.send("\x1b0/kill bea\r");
    chat.sees("bea killed");
    for (key, name) in [("\x1b2", "cal"), ("\x180", "agent 0"), ("\x182", "cal"), ("/switch 0\r", "agent 0")] {
        chat.pty.send(key);
        chat.sees(&format!("── {name} "));
    }
}

#[test]
fn every_agent_keeps_its_own_draft() {
    let mut chat = Chat::new();
    chat.pty.send("for agent 0\x1b0");
    chat.pty.send("\x01\x0b/fork --name bea\r");
    chat.sees("── bea ");
    chat.pty.send("for bea");
    chat.sees_draft("for bea");
    chat.pty.send("\x1b0");
    chat.sees("── agent 0 ");
    chat.pty.send("for nobody");
    chat.sees_draft("for nobody");
    chat.pty.send("\x1b1");
    chat.sees_draft("for bea");
}

#[test]
fn escape_stops_the_agent_and_leaves_the_draft() {
    let mut chat = Chat::new();
    chat.say("before\n%hang");
    chat.sees("  before");
    chat.pty.send("typed meanwhile");
    chat.sees_draft("typed meanwhile");
    chat.pty.send("\x1b");
    chat.pty.wait_for(|screen| !screen.contents().contains("Esc stops it"), "the agent to stop");
    chat.sees_draft("typed meanwhile");
}

#[test]
fn what_is_sent_to_a_busy_agent_waits_and_can_be_taken_back() {
    let mut chat = Chat::new();
    chat.say("before\n%hang");
    chat.sees("  before");
    chat.pty.send("one\rtwo\r");
    chat.sees("queued 1: one");
    chat.sees("queued 2: two");
    chat.pty.send("\x1b[A");
    chat.sees_draft("two");
    chat.pty.send("\x15\x1b");
    chat.sees("the queue is paused");
    chat.pty.send("\r");
    chat.sees_answer("one", "one");
}

#[test]
fn ctrl_l_draws_everything_again() {
    let mut chat = Chat::new();
    chat.sees("? keys");
    let before = chat.pty.bytes_written();
    chat.pty.send("\x0c");
    chat.pty.wait_until(|pty| pty.output_so_far() > before + 200, "a whole frame");
    chat.sees("many agents in one terminal");
}
