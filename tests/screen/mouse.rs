//! The mouse: a drag selects and copies.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::support::attached::{ATTACHED, AttachedTerminal};
use crate::support::harness::Plan;
use crate::support::scene::app_with_agents;

#[test]
fn a_drag_copies_the_text_without_decoration_and_a_click_copies_nothing() {
    let mut app = app_with_agents(1, Plan::default());
    app.say(0, "first line\nsecond line");
    app.turn_until_idle();
    app.turn();
    let mut terminal = AttachedTerminal::new(&mut app, (80, 24), 0, ATTACHED);
    let text = terminal.text(&mut app);
    let row = text.lines().position(|line| line == "┃ first line").expect("the message") + 1;
    terminal.type_bytes(&mut app, format!("\x1b[<0;1;{row}M\x1b[<0;1;{row}m").as_bytes());
    assert!(!String::from_utf8_lossy(&terminal.remote(&mut app).output).contains("\x1b]52"));
    terminal.type_bytes(&mut app, format!("\x1b[<0;1;{row}M\x1b[<32;9;{}M", row + 1).as_bytes());
    let marked = String::from_utf8(terminal.remote(&mut app).output.clone()).expect("text");
    assert!(marked.contains(";7;"), "what is selected is marked: {marked:?}");
    terminal.type_bytes(&mut app, format!("\x1b[<0;9;{}m", row + 1).as_bytes());
    let copied = String::from_utf8(terminal.remote(&mut app).output.clone()).expect("text");
    assert!(copied.contains(&format!("\x1b]52;c;{}\x07", STANDARD.encode("first line\nsecond"))), "{copied:?}");
    terminal.assert_sees(&mut app, "copied 2 lines");
    terminal.type_bytes(&mut app, b"x\x7f");
    assert_eq!(terminal.text(&mut app), terminal.text_drawn_anew(&mut app), "a key ends the selection");
    terminal.assert_does_not_see(&mut app, "copied 2 lines");
}
