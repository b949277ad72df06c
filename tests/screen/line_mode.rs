//! Line mode: a whole session without a control sequence.

use crate::support::peer::Peer;
use crate::support::pty::{Pty, TerminalLeft};

const PROGRAM: &str = env!("CARGO_BIN_EXE_polylogue");

/// The program on a terminal without cursor addressing, or with `--plain` on one that has it.
fn start(peer: &Peer, directory: &std::path::Path, plain: bool) -> Pty {
    let (url, directory) = (peer.url(), directory.to_str().expect("a path in UTF-8"));
    let mut args = vec!["--data-dir", directory, "--model", "openai/test"];
    args.extend(plain.then_some("--plain"));
    let term = if plain { "xterm-256color" } else { "dumb" };
    let envs = [("HOME", directory), ("LANG", "C.UTF-8"), ("OPENAI_BASE_URL", &url), ("TERM", term)];
    Pty::spawn(PROGRAM, &args, &envs, (60, 250))
}

fn assert_plain(pty: &mut Pty) {
    let raw = String::from_utf8_lossy(pty.raw_output()).into_owned();
    let control = raw.chars().find(|c| c.is_control() && !"\r\n\t".contains(*c));
    assert_eq!(control, None, "{raw:?}");
    assert!(!raw.contains('\u{9b}'), "{raw:?}");
}

#[test]
fn a_session_in_line_mode_has_no_escape_sequence_and_asks_with_lines() {
    for plain in [false, true] {
        let (peer, directory) = (Peer::start(), tempfile::tempdir().expect("a directory"));
        let mut pty = start(&peer, directory.path(), plain);
        pty.wait_for_text("this is agent 0");
        pty.send("hello there\n");
        let exchange = peer.accept();
        exchange.stream().text("one\ntwo \x1b[31mred\x1b]52;c;eA==\x07\n").text("three").finish("stop").done();
        pty.wait_for_text("three");
        pty.wait_for_text("agent 0: one");
        pty.send("/fork --name docs\n");
        pty.wait_for_text("this is docs");
        pty.send("run it\n");
        let exchange = peer.accept();
        exchange
            .stream()
            .tool_call(0, "c", "bash", "{\"command\":\"touch made && echo it ran\"}")
            .finish("tool_calls")
            .done();
        pty.wait_for_text("answer y");
        pty.wait_for_text("touch made && echo it ran");
        pty.send("n not now\n");
        let exchange = peer.accept();
        let body = String::from_utf8_lossy(&exchange.request().body).into_owned();
        assert!(body.contains("not now"), "the reason is sent: {body}");
        exchange.stream().tool_call(0, "d", "bash", "{\"command\":\"touch /dev/null\"}").finish("tool_calls").done();
        pty.wait_for(|screen| screen.contents().matches("answer y").count() == 2, "the second question");
        pty.send("y\n");
        let exchange = peer.accept();
        exchange.stream().text("the end").finish("stop").done();
        pty.wait_for_text("docs: the end");
        assert_eq!(pty.screen_text().matches("three").count(), 2, "once as it came, once in the fork");
        pty.send("/exit\n");
        assert!(pty.wait_exit().success());
        assert_plain(&mut pty);
        assert!(pty.screen_text().trim_end().ends_with(" -c"), "{}", pty.screen_text());
    }
}

#[test]
fn a_reply_that_is_left_in_the_middle_of_a_line_is_printed_without_control_characters() {
    let (peer, directory) = (Peer::start(), tempfile::tempdir().expect("a directory"));
    let mut pty = start(&peer, directory.path(), false);
    pty.wait_for_text("this is agent 0");
    pty.send("/fork --name docs\n");
    pty.wait_for_text("this is docs");
    pty.send("go\n");
    let exchange = peer.accept();
    let stream = exchange.stream().text("one\nhalf \x1b]52;c;eA==\x07a line");
    pty.wait_for_text("docs: one");
    pty.send("/switch 0\n");
    pty.wait_for(|screen| screen.contents().matches("this is agent 0").count() == 2, "the other agent");
    assert!(pty.screen_text().contains("half "), "{}", pty.screen_text());
    assert_plain(&mut pty);
    stream.finish("stop").done();
}

#[test]
fn line_mode_leaves_the_terminal_alone() {
    let (peer, directory) = (Peer::start(), tempfile::tempdir().expect("a directory"));
    let mut pty = start(&peer, directory.path(), false);
    pty.wait_for_text("this is agent 0");
    assert_eq!(pty.terminal_left(), TerminalLeft::CLEAN, "although the program runs");
    pty.send("\x04");
    assert!(pty.wait_exit().success());
    assert_plain(&mut pty);
}

/// Waits for an answer below what was typed last.
fn tell(pty: &mut Pty, line: &str, answer: &str) {
    let before = pty.screen_text().matches(answer).count();
    pty.send(format!("{line}\n"));
    pty.wait_for(|screen| screen.contents().matches(answer).count() > before, &format!("{answer} after {line}"));
}

#[test]
fn everything_can_be_done_in_line_mode_and_is_read_with_the_names_of_the_speakers() {
    for plain in [false, true] {
        let (peer, directory) = (Peer::start(), tempfile::tempdir().expect("a directory"));
        let mut pty = start(&peer, directory.path(), plain);
        pty.wait_for_text("this is agent 0");
        tell(&mut pty, "/fork --name docs", "this is docs");
        tell(&mut pty, "/switch 0", "this is agent 0");
        pty.send("hello there\n");
        let mail = "{\"to\":\"docs\",\"body\":\"the plan\"}";
        peer.accept().stream().tool_call(0, "m", "send_mail", mail).finish("tool_calls").done();
        peer.accept().stream().text("It is sent.").finish("stop").done();
        pty.wait_for_text("agent 0: It is sent.");
        pty.send("publish it\n");
        let push = "{\"command\":\"git push --force\"}";
        peer.accept().stream().tool_call(0, "q", "bash", push).finish("tool_calls").done();
        pty.wait_for_text("answer y");
        tell(&mut pty, "e git push", "Run this? bash: git push\n");
        pty.send("n not before the review\n");
        let exchange = peer.accept();
        let body = String::from_utf8_lossy(&exchange.request().body).into_owned();
        assert!(body.contains("not before the review"), "the reason is sent: {body}");
        exchange.stream().text("I wait.").finish("stop").done();
        pty.wait_for_text("agent 0: I wait.");
        tell(&mut pty, "/agents", "docs");
        tell(&mut pty, "/switch docs", "this is docs");
        tell(&mut pty, "/read-mail", "the plan");
        pty.send("work\n");
        let exchange = peer.accept();
        let _stream = exchange.stream().text("half a ");
        tell(&mut pty, "/switch 0", "this is agent 0");
        tell(&mut pty, "/kill docs", "enter this line again");
        tell(&mut pty, "/nonsense", "/help");
        tell(&mut pty, "/kill docs", "enter this line again");
        tell(&mut pty, "/kill docs", "docs killed");
        tell(&mut pty, "/help", "with Shift the terminal selects");
        tell(&mut pty, "/nonsense", "/help");
        pty.send("/exit\n");
        assert!(pty.wait_exit().success());
        assert_plain(&mut pty);
    }
}
