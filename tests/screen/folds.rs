//! One call or reasoning is opened by a click, or by Enter when Alt+Up has selected it.

use crate::support::harness::{Harness, Plan};
use crate::support::peer::Peer;

fn app() -> Harness {
    let peer = Peer::start();
    let plan = Plan { policy: polylogue::config::Policy::Auto, size: Some((80, 30)), ..Plan::peer(&peer.url()) };
    let mut app = Harness::new(plan);
    for name in ["one", "two"] {
        std::fs::write(app.directory().join(name), format!("the text of {name}\n")).expect("a file");
    }
    app.say(0, "read them");
    let exchange = app.accept(&peer);
    exchange.stream().thinking("Which of them?\nBoth.");
    exchange.tool_call(0, "a", "read_file", "{\"file_path\":\"one\"}").tool_call(
        1,
        "b",
        "read_file",
        "{\"file_path\":\"two\"}",
    );
    exchange.finish("tool_calls").done();
    app.accept(&peer).stream().text("Done.").finish("stop").done();
    app.turn_until_idle();
    app.turn();
    app
}

/// Which of the three are open.
fn open(app: &mut Harness) -> [bool; 3] {
    app.turn();
    let screen = app.screen_text();
    ["Both.", "the text of one", "the text of two"].map(|text| screen.contains(text))
}

fn click(app: &mut Harness, text: &str) {
    let screen = app.screen_text();
    let row = screen.lines().position(|line| line.contains(text)).expect("a row") + 1;
    app.type_bytes(format!("\x1b[<0;5;{row}M\x1b[<0;5;{row}m").as_bytes());
}

#[test]
fn a_click_opens_one_and_another_folds_it() {
    let mut app = app();
    assert_eq!(open(&mut app), [false; 3]);
    click(&mut app, "read_file: two");
    assert_eq!(open(&mut app), [false, false, true]);
    click(&mut app, "thought");
    assert_eq!(open(&mut app), [true, false, true]);
    click(&mut app, "the text of two");
    assert_eq!(open(&mut app), [true, false, false]);
    click(&mut app, "Done.");
    assert_eq!(open(&mut app), [true, false, false], "there is nothing folded");
    app.type_bytes(b"\x0f");
    assert_eq!(open(&mut app), [true; 3], "Ctrl+O opens all");
    click(&mut app, "read_file: one");
    assert_eq!(open(&mut app), [true, false, true]);
    app.type_bytes(b"\x0f");
    assert_eq!(open(&mut app), [false; 3]);
}

#[test]
fn alt_up_selects_and_enter_opens() {
    const UP: &[u8] = b"\x1b[1;3A";
    let mut app = app();
    app.type_bytes(UP);
    assert!(app.screen_text().contains("▸ read_file: two"), "{}", app.screen_text());
    app.type_bytes(b"\r");
    assert_eq!(open(&mut app), [false, false, true]);
    app.type_bytes(UP);
    app.type_bytes(UP);
    app.type_bytes(b"\r");
    assert_eq!(open(&mut app), [true, false, true]);
    app.type_bytes(b"\x1b[1;3B");
    app.type_bytes(b"\r");
    assert_eq!(open(&mut app), [true; 3]);
    app.type_bytes(b"\r");
    assert_eq!(open(&mut app), [true, false, true]);
    app.type_bytes(b"x");
    assert!(!app.screen_text().contains('▸'), "typing ends the selection");
    app.type_bytes(b"\r");
    assert!(app.screen_text().contains("┃ x"), "and Enter sends");
}

#[test]
fn a_long_message_is_folded_with_its_beginning_and_end_shown_also_after_a_restart() {
    let peer = Peer::start();
    let mut app = Harness::new(Plan { size: Some((80, 40)), ..Plan::peer(&peer.url()) });
    let pasted: Vec<String> = (0..300).map(|n| format!("pasted {n}.")).collect();
    app.type_bytes(format!("\x1b[200~{}\x1b[201~", pasted.join("\r")).as_bytes());
    app.enter(" and what of it?");
    let exchange = app.accept(&peer);
    let request = exchange.request().json().to_string();
    assert!(pasted.iter().all(|line| request.contains(line.as_str())));
    exchange.stream().text("Nothing.").finish("stop").done();
    app.turn_until_idle();
    let folded = |app: &mut Harness| {
        let screen = app.screen_text();
        let is_shown = |text: &str| screen.contains(text);
        assert!(is_shown("pasted 5.") && is_shown("pasted 299. and what of it?"), "{screen}");
        assert!(is_shown("… 291 lines") && is_shown("Ctrl+O opens"), "{screen}");
        assert!(!is_shown("pasted 6.") && !is_shown("pasted 296."), "{screen}");
    };
    folded(&mut app);
    let mut app = app.crash_and_restart();
    folded(&mut app);
    click(&mut app, "… 291 lines");
    let screen = app.screen_text();
    assert!(screen.contains("pasted 6.") && !screen.contains("pasted 299."), "{screen}");
    click(&mut app, "… 291 lines");
    folded(&mut app);
    app.type_bytes(b"\x0f");
    let screen = app.screen_text();
    assert!(screen.contains("pasted 296.") && !screen.contains("Ctrl+O opens"), "{screen}");
}

/// Without a wake-up: the frames of the spinner show it.
#[test]
fn the_end_of_what_a_command_writes_is_seen_while_it_runs_and_when_it_has_ended() {
    let (policy, rules) = (polylogue::config::Policy::Auto, polylogue::config::Rules::default());
    let mut app = Harness::new(Plan { policy, rules, size: Some((80, 90)), real_time: true, ..Plan::default() });
    let pipe = app.directory().join("go");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there").success());
    app.enter(r#"%tool bash {"command":"seq 101 140; printf 'half\\rwhole\\n'; cat go; exit 3"}"#);
    app.turn_until("its output", |app| app.screen_text().contains("│ 140\n│ whole"));
    assert!(!app.screen_text().contains("│ 135\n"), "{}", app.screen_text());
    std::fs::write(&pipe, "the end\n").expect("the command reads it");
    app.turn_until_idle();
    app.turn();
    let screen = app.screen_text();
    assert!(screen.contains("│ 140\n") && screen.contains("│ the end\n") && screen.contains("exit 3"), "{screen}");
    assert!(!screen.contains("│ 120\n"), "{screen}");
    app.type_bytes(b"\x0f");
    app.turn();
    assert!(app.screen_text().contains("│ 120\n"), "{}", app.screen_text());
}
