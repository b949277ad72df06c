//! Title, bell, notifications, progress, and the theme that follows the background.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use polylogue::Change;
use polylogue::config::{Abilities, DisplaySettings, Notification, ThemeSettings};

use crate::support::attached::{ATTACHED, AttachedTerminal};
use crate::support::harness::{Harness, Plan};
use crate::support::internals::Wait;
use crate::support::pty::Pty;
use crate::support::scene::app_with_agents;

const ALL: Abilities = Abilities {
    is_inline: false,
    reflows: false,
    is_in_tmux: false,
    is_plain: false,
    depth: polylogue::config::Depth::Indexed,
    has_title: true,
    has_links: true,
    has_replies: true,
    has_progress: true,
    notification: Notification::Osc9,
};
const QUERY: &str = "\x1b]11;?\x1b\\\x1b[c";

/// What was sent to a terminal since the last call.
fn sent(app: &mut Harness, terminal: &AttachedTerminal) -> String {
    String::from_utf8(std::mem::take(&mut terminal.remote(app).output)).expect("text")
}

fn scene(display: DisplaySettings, abilities: Abilities) -> (Harness, AttachedTerminal) {
    let mut app = app_with_agents(1, Plan { display, ..Plan::default() });
    app.fork_named(0, "docs");
    app.switch(0);
    let terminal = AttachedTerminal::with(&mut app, abilities, 0, ATTACHED);
    (app, terminal)
}

#[test]
fn an_agent_that_finishes_or_asks_is_announced_only_where_nobody_looks() {
    let (mut app, terminal) = scene(DisplaySettings::default(), ALL);
    let finish = |app: &mut Harness| {
        app.say(1, "hello");
        app.turn_until_idle();
        app.turn();
        sent(app, &terminal)
    };
    assert!(!finish(&mut app).contains("\x1b]9;polylogue"), "the focus is here until the terminal says otherwise");
    terminal.type_bytes(&mut app, b"\x1b[O");
    let announced = finish(&mut app);
    assert!(announced.contains("\x1b]9;polylogue: docs finished\x07\x07"), "{announced:?}");
    app.say(1, "%tool bash {\"command\":\"echo it ran\"}");
    app.turn_until_asked(1);
    app.turn();
    let announced = sent(&mut app, &terminal);
    assert!(announced.contains("\x1b]9;polylogue: docs asks: bash"), "{announced:?}");
    assert!(announced.contains("\x1b]2;!docs asks - agent 0 - polylogue\x07"), "{announced:?}");
    assert!(announced.contains("\x1b]9;4;4;100\x07"), "{announced:?}");
    app.ask(1, Change::Interrupt);
    app.turn_until_idle();
    app.turn();
    let announced = sent(&mut app, &terminal);
    assert!(!announced.contains("polylogue: docs"), "who interrupts an agent knows it: {announced:?}");
    assert!(announced.contains("\x1b]2;agent 0 - polylogue\x07\x1b]9;4;0\x07"), "{announced:?}");
    terminal.type_bytes(&mut app, b"\x1b[I");
    assert!(!finish(&mut app).contains("\x1b]9;polylogue"));
}

#[test]
fn each_can_be_switched_off_and_tmux_gets_the_bell() {
    let off =
        DisplaySettings { title: false, bell: false, notify: false, progress: false, ..DisplaySettings::default() };
    let tmux = Abilities { is_in_tmux: true, ..ALL };
    for (display, abilities, focus, expected) in [
        (off, ALL, "\x1b[O", ""),
        (DisplaySettings::default(), tmux, "", "\x07"),
        (DisplaySettings::default(), tmux, "\x1b[O", "\x1bPtmux;\x1b\x1b]9;polylogue: docs finished\x07\x1b\\\x07"),
        (DisplaySettings::default(), Abilities::default(), "\x1b[O", "\x07"),
    ] {
        let is_off = !display.bell;
        let (mut app, terminal) = scene(display, abilities);
        terminal.type_bytes(&mut app, focus.as_bytes());
        sent(&mut app, &terminal);
        app.say(1, "hello");
        app.turn_until_idle();
        app.turn();
        let announced = sent(&mut app, &terminal);
        assert!(announced.ends_with(expected), "{announced:?}");
        assert!(!is_off || !announced.contains('\x07'), "{announced:?}");
    }
}

/// Of these reports: the state with its kind, the label (empty: of the program) and the message.
fn reports(sent: &str) -> Vec<(String, String, String)> {
    let decoded = |text: &str| String::from_utf8(BASE64.decode(text).expect("base64")).expect("text");
    let report = |report: &str| {
        let pairs = report.split("\x1b\\").next().expect("an end").split(':');
        let pairs: BTreeMap<&str, &str> = pairs.map(|pair| pair.split_once('=').expect("a pair")).collect();
        let text = |key: &str| pairs.get(key).map(|text| decoded(text)).unwrap_or_default();
        let state = [pairs["state"], pairs.get("kind").unwrap_or(&"")].join(" ").trim().to_owned();
        let is_program = !pairs.contains_key("id");
        assert_eq!(pairs.get("app"), is_program.then_some(&"polylogue"), "{report}");
        (state, if is_program { String::new() } else { text("title") }, text("msg"))
    };
    sent.split("\x1b]7501;").skip(1).filter(|report| !report.starts_with('?')).map(report).collect()
}

#[test]
fn a_terminal_that_shows_status_reports_is_told_what_each_agent_does() {
    const ASK: &str = "\x1b]7501;?\x1b\\";
    let told = |app: &mut Harness, terminal: &AttachedTerminal| {
        app.turn();
        let all = reports(&sent(app, terminal));
        let text = |(state, label, message): &(String, String, String)| format!("{state}|{label}|{message}");
        all.iter().map(text).collect::<Vec<_>>()
    };
    let (mut app, terminal) = scene(DisplaySettings::default(), ALL);
    app.turn();
    let first = sent(&mut app, &terminal);
    assert!(first.contains(ASK) && reports(&first).is_empty(), "{first:?}");
    app.say(1, "%tool bash {\"command\":\"echo it ran\"}");
    app.turn_until_asked(1);
    assert!(told(&mut app, &terminal).is_empty(), "a terminal that has not answered is told nothing");
    terminal.type_bytes(&mut app, &ASK.as_bytes()[..4]);
    terminal.type_bytes(&mut app, &ASK.as_bytes()[4..]);
    assert_eq!(
        told(&mut app, &terminal),
        ["blocked permission||docs: bash: echo it ran", "blocked permission|docs|bash: echo it ran"]
    );
    assert_eq!(app.draft(0).text(), "", "the reply is not typed");
    app.ask(1, Change::Interrupt);
    app.turn_until_idle();
    assert_eq!(told(&mut app, &terminal), ["clear||", "idle||"], "nothing is left of the question");
    app.say(1, "hello");
    app.turn_until_idle();
    let finished = told(&mut app, &terminal);
    assert_eq!(finished.last().map(String::as_str), Some("done|docs|"), "{finished:?}");
    app.turn();
    assert!(told(&mut app, &terminal).is_empty(), "what is as before is not said again");
    terminal.terminal(&mut app).redraw();
    let again = told(&mut app, &terminal);
    assert!(again.contains(&"done|docs|".to_owned()), "after another program had the terminal: {again:?}");

    let off = DisplaySettings { progress: false, ..DisplaySettings::default() };
    let (mut app, terminal) = scene(off, ALL);
    app.turn();
    assert!(!sent(&mut app, &terminal).contains("7501"));
}

#[test]
fn an_agent_that_waits_to_try_again_works_and_what_was_told_survives_a_resize() {
    let (mut app, mut terminal) = scene(DisplaySettings::default(), ALL);
    app.turn();
    terminal.type_bytes(&mut app, b"\x1b]7501;?\x1b\\");
    app.turn();
    sent(&mut app, &terminal);
    let todo = r#"{"todos":[{"content":"look","status":"completed"},{"content":"write","status":"in_progress"}]}"#;
    app.say(1, &format!("%tool todo {todo}\n%next\n%fail 503 busy"));
    app.turn_until("it waits", |app| matches!(app.agent(1).wait(), Wait::Retry { .. }));
    app.turn();
    let told = sent(&mut app, &terminal);
    let last = reports(&told).pop().expect("a report");
    assert_eq!(last, ("working".into(), "docs".into(), "write".into()), "{told:?}");
    assert!(told.contains(":progress=50:"), "{told:?}");
    terminal.resize(&mut app, (90, 20));
    app.ask(1, Change::Interrupt);
    app.turn_until_idle();
    app.turn();
    let told = sent(&mut app, &terminal);
    let states: Vec<String> = reports(&told).into_iter().map(|(state, ..)| state).collect();
    assert_eq!(states, ["clear", "idle"], "{told:?}");
    app.say(1, "%hang");
    app.turn();
    let told = sent(&mut app, &terminal);
    assert!(told.contains("\x1b]9;4;3\x07"), "{told:?}");
    terminal.resize(&mut app, (100, 20));
    app.ask(1, Change::Interrupt);
    app.turn_until_idle();
    app.turn();
    let told = sent(&mut app, &terminal);
    assert!(told.contains("\x1b]9;4;0\x07"), "{told:?}");
}

#[test]
fn a_program_of_the_user_gets_the_text_as_an_argument() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("told");
    let script = format!("printf '%s' \"$1\" > {0}.new && mv {0}.new {0}", file.display());
    let notify_command = ["sh", "-c", &script, "sh"].map(str::to_owned).into();
    let (mut app, terminal) = scene(DisplaySettings { notify_command, ..DisplaySettings::default() }, ALL);
    app.terminal().input.extend_from_slice(b"\x1b[O");
    terminal.type_bytes(&mut app, b"\x1b[O");
    app.say(1, "hello");
    app.turn_until("the program has run", |_| file.exists());
    assert_eq!(std::fs::read_to_string(&file).expect("a text"), "docs finished");
}

#[test]
fn the_theme_follows_the_background_and_a_reply_is_never_typed() {
    let (mut app, terminal) = scene(DisplaySettings::default(), ALL);
    app.ask(0, Change::Submit("hello".into()));
    app.turn_until_idle();
    app.turn();
    let first = sent(&mut app, &terminal);
    assert_eq!(first.matches(QUERY).count(), 1, "asked once, after a frame");
    assert!(first.find(QUERY) > first.find("\x1b[?2026l") && first.contains("38;5;114"), "{first:?}");
    for cut in 1..30 {
        let reply = b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[?62;22c";
        terminal.type_bytes(&mut app, &reply[..cut]);
        terminal.type_bytes(&mut app, &reply[cut..]);
        app.turn();
        let light = sent(&mut app, &terminal);
        assert!(
            light.contains("38;5;22m") && !light.contains("38;5;114m") && !light.contains(QUERY),
            "{cut} {light:?}"
        );
        assert_eq!(app.draft(0).text(), "", "{cut}");
        assert_eq!(terminal.terminal(&mut app).buffered_bytes(), 0);
    }
    let theme = ThemeSettings { name: "dark", ..ThemeSettings::default() };
    let (mut app, terminal) = scene(DisplaySettings { theme, ..DisplaySettings::default() }, ALL);
    assert!(!sent(&mut app, &terminal).contains(QUERY), "a theme that was chosen does not depend on the background");
}

#[test]
fn the_reply_about_the_background_changes_the_theme_of_a_terminal_and_the_late_one_is_not_left_to_the_shell() {
    const PROGRAM: &str = env!("CARGO_BIN_EXE_polylogue");
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().to_str().expect("a path in UTF-8");
    let envs = [("HOME", data), ("LANG", "C.UTF-8")];
    let shell = format!("'{PROGRAM}' --data-dir '{data}' hello; read -r -t 1 typed; echo \"typed:$typed:\"");
    let light = "\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[?62;22c";
    for answers_at_once in [true, false] {
        let mut pty = Pty::spawn("/bin/bash", &["-c", &shell], &envs, (100, 30));
        pty.wait_for_text("  hello");
        let has = |pty: &mut Pty, text: &str| String::from_utf8_lossy(pty.raw_output()).contains(text);
        pty.wait_for(|screen| !screen.contents().contains("Esc stops it"), "the end of the turn");
        assert!(has(&mut pty, QUERY) && !has(&mut pty, "38;5;22m"));
        if answers_at_once {
            pty.send(light);
            let is_light = |cell: &vt100::Cell| cell.fgcolor() == vt100::Color::Idx(22);
            let cells = |screen: &vt100::Screen| (0..30).any(|row| screen.cell(row, 2).is_some_and(is_light));
            pty.wait_for(cells, "the light theme");
            pty.send("/exit\r");
        } else {
            // The reply comes when the program is leaving already.
            pty.send(format!("/exit\r{light}"));
        }
        pty.wait_for_text("typed::");
        pty.wait_exit();
    }
}
