//! No control sequence in any text reaches a terminal, on any way out.

use std::fs;

use polylogue::config::{Abilities, Notification};
use polylogue::{Change, MailAct, Store};
use serde_json::json;

use crate::support::attached::{ATTACHED, AttachedTerminal};
use crate::support::harness::{Harness, Plan};
use crate::support::pty::Pty;
use crate::support::scene::app_with_agents;

const PROGRAM: &str = env!("CARGO_BIN_EXE_polylogue");

/// The agent of the first run.
const RUN: &str = "RUN";

/// A number in every hostile sequence, which no sequence of ours has.
const MARK: &str = "7531";

/// Every control character, every kind of sequence of ECMA-48 (section 5 and 8) with every final byte, and the attacks on
/// terminals that became known: clipboard, title reports, key definitions, hyperlinks, answers that are typed.
fn hostile() -> String {
    let mut all = String::from("begin ");
    let controls = (0..0x20_u8).chain(0x7f..=0x9f).map(char::from).filter(|c| !"\n\t".contains(*c));
    all.extend(controls);
    for last in '@'..='~' {
        for intermediate in ["", "?", ">", "=", "!", "$", " "] {
            all += &format!("\x1b[{intermediate}{MARK}{last}\u{9b}{MARK}{intermediate}{last}");
        }
    }
    for last in '0'..='~' {
        all += &format!("\x1b{last}\x1b#{last}\x1b({last}\x1b%{last}");
    }
    for start in ["\x1b]", "\x1bP", "\x1b_", "\x1b^", "\x1bX", "\u{9d}", "\u{90}", "\u{9f}", "\u{9e}", "\u{98}"] {
        for end in ["\x07", "\x1b\\", "\u{9c}", ""] {
            for number in ["0", "2", "4", "8", "9", "10", "50", "52", "104", "777", "1337"] {
                all += &format!("{start}{number};{MARK};c;eA=={end}");
            }
        }
    }
    all += "\u{202a}\u{202b}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}\u{200e}\u{200f}\u{061c}";
    all += "\u{200b}\u{2060}\u{feff}\u{e0041}\u{e007f}\u{fff9}\u{180e}\u{3164}";
    for target in
        ["http://x.y/\x1b\\\x1b]8;;file:///etc\x1b\\", "javascript:1", "http://x.y/\u{9c}\u{7}\u{202e}a b\u{e0041}"]
    {
        all += &format!(" [link](<{target}>) <{target}> ![image](<{target}> \"{target}\")");
    }
    all + " end"
}

/// Our own sequences begin with `Esc [`, `Esc 7` or `Esc 8`, and with `Esc ]` for title and notification.
fn assert_harmless(what: &str, output: &[u8]) {
    let text = std::str::from_utf8(output).expect("UTF-8");
    for (at, _) in text.match_indices('\x1b') {
        let rest: String = text[at + 1..].chars().take(12).collect();
        assert!(rest.starts_with(['[', '7', '8', ']', '\\']), "{what}: Esc {rest:?}");
        let parameters: String = rest[1..].chars().take_while(|c| !c.is_ascii_alphabetic()).collect();
        assert!(!parameters.contains(MARK), "{what}: Esc {rest:?}");
        assert!(
            !rest.starts_with(']')
                || ["]2;", "]9;polylogue", "]8;;\x1b", "]8;id="].iter().any(|ours| rest.starts_with(ours)),
            "{what}: {rest:?}"
        );
    }
    for link in text.split("\x1b]8;id=").skip(1) {
        let target = link.split("\x1b\\").next().and_then(|link| link.split_once(';')).expect("a target").1;
        assert!(target.starts_with("http") && target.bytes().all(|byte| byte.is_ascii_graphic()), "{what}: {target:?}");
    }
    let is_ours = |c: char| "\x1b\r\n\x08\x07".contains(c);
    let bad = text
        .chars()
        .find(|c| c.is_control() && !is_ours(*c) || "\u{202e}\u{2066}\u{200f}\u{200b}\u{e0041}".contains(*c));
    assert_eq!(bad, None, "{what}");
    let bells = text.matches('\x07').count();
    assert!(bells <= text.matches("\x1b]").count() * 2, "{what}: {bells} bells");
}

fn check(app: &mut Harness, terminal: &mut AttachedTerminal, what: &str) {
    for _ in 0..3 {
        app.turn();
    }
    let output = std::mem::take(&mut terminal.remote(app).output);
    assert!(!output.is_empty(), "{what} was not shown");
    assert_harmless(what, &output);
}

#[test]
fn text_of_every_kind_is_harmless_on_the_screen_in_titles_and_notifications() {
    let abilities =
        Abilities { has_title: true, has_links: true, notification: Notification::Osc9, ..Abilities::default() };
    let mut app = app_with_agents(2, Plan::default());
    let terminal = &mut AttachedTerminal::with(&mut app, abilities, 0, ATTACHED);
    terminal.type_bytes(&mut app, b"\x1b[O");
    let hostile = hostile();
    app.say(0, &hostile);
    app.turn_until_idle();
    check(&mut app, terminal, "a message and its answer");
    terminal.type_bytes(&mut app, format!("\x1b[200~{hostile}\x1b[201~").as_bytes());
    check(&mut app, terminal, "a draft");
    terminal.type_bytes(&mut app, b"\x15");
    app.say(0, "%hang");
    app.turn();
    app.say(0, &hostile);
    check(&mut app, terminal, "the queue");
    app.ask(0, Change::Interrupt);
    app.turn_until_idle();
    fs::write(app.directory().join("file"), &hostile).expect("a file");
    app.say(1, "%tool read_file {\"path\":\"file\"}");
    app.ask(0, Change::Switch(app.id(1)));
    terminal.enter(&mut app, "/switch 1");
    app.turn_until_idle();
    check(&mut app, terminal, "the output of a tool");
    app.say(1, &format!("%tool bash {}", json!({ "command": format!("echo {}", hostile.replace('\0', "")) })));
    app.turn_until_asked(1);
    check(&mut app, terminal, "a question");
    app.ask(1, Change::Interrupt);
    app.turn_until_idle();
    app.say(1, &format!("%tool {} {{}}", hostile.replace([' ', '\n'], "_")));
    app.turn_until_idle();
    check(&mut app, terminal, "the name of a tool");
    app.ask(0, Change::Mail(MailAct::Send { to: app.id(1), body: hostile.clone() }));
    terminal.enter(&mut app, "/read-mail");
    check(&mut app, terminal, "mail");
    app.ask(1, Change::Submit(format!("/nonsense{hostile}")));
    check(&mut app, terminal, "an unknown command");
}

#[test]
fn answers_and_logs_are_harmless_on_a_terminal() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().to_str().expect("a path in UTF-8");
    // An argument cannot have a NUL.
    let hostile = hostile().replace('\0', "");
    let envs = [("HOME", data), ("LANG", "C.UTF-8")];
    let hostile = hostile.as_str();
    let model = format!("openai/{hostile}");
    for args in [
        &["-p", hostile][..],
        &["-p", "--output-format", "json", hostile],
        &["-p", "--output-format", "stream-json", hostile],
        &["-p", "--model", &model, "hello"],
        &["-p", "--approval", hostile, "hello"],
        &["-p", "--allow", hostile, "hello"],
        &["-p", "--resume", hostile, "hello"],
        &["--config", hostile, "-p", "hello"],
        &["logs", RUN],
        &["logs", "--json", RUN],
        &["logs", hostile],
        &["ps"],
        &["ps", "--json"],
        &["tell", hostile, hostile],
        &["kill", hostile],
        &["help", hostile],
        &["config", "get", hostile],
        &["--data-dir", hostile, "ps"],
        &[hostile, "--no-such-option"],
    ] {
        let store = Store::open_read_only(directory.path());
        let runs = store.map(|store| store.archived_agents().expect("agents").agents).unwrap_or_default();
        let run = runs.first().map(|run| run.id.to_string()).unwrap_or_default();
        let args = args.iter().map(|arg| if *arg == RUN { run.as_str() } else { arg });
        let args: Vec<&str> = ["--data-dir", data].into_iter().chain(args).collect();
        let mut pty = Pty::spawn(PROGRAM, &args, &envs, (100, 40));
        pty.wait_exit();
        let output = pty.raw_output().to_owned();
        let what = args[2..].iter().map(|arg| arg.chars().take(12).collect::<String>()).collect::<Vec<_>>().join(" ");
        assert!(!output.is_empty(), "{what}");
        assert_harmless(&what, &output);
    }
}

#[test]
fn line_mode_has_no_control_sequence_whatever_is_said() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().to_str().expect("a path in UTF-8");
    let hostile = hostile().replace('\0', "");
    for (term, options) in [("xterm-256color", &["--plain"][..]), ("dumb", &[])] {
        let envs = [("HOME", data), ("LANG", "C.UTF-8"), ("TERM", term)];
        let args: Vec<&str> =
            ["--data-dir", data].into_iter().chain(options.iter().copied()).chain([hostile.as_str()]).collect();
        let mut pty = Pty::spawn(PROGRAM, &args, &envs, (100, 40));
        pty.send("and now\n");
        pty.wait_for_text(": and now");
        pty.send("/exit\n");
        pty.wait_exit();
        let output = String::from_utf8(pty.raw_output().to_owned()).expect("UTF-8");
        let bad = output.chars().find(|c| c.is_control() && !"\r\n".contains(*c));
        assert_eq!(bad, None, "{term}");
    }
}
