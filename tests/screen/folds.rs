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
