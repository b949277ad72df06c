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

#[test]
fn what_was_wrapped_and_indented_is_copied_as_it_was_written() {
    let mut app = app_with_agents(1, Plan::default());
    let sentence = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen";
    let long = "x".repeat(100);
    let code = format!("fn a() {{\n    {long}\n}}");
    app.say(0, &format!("{sentence}\n\n- in a list\n  ```rust\n  fn b() {{\n      c();\n  }}\n  ```\n\n> quoted\n\n```rust\n{code}\n```"));
    app.turn_until_idle();
    app.turn_until_colored();
    let mut terminal = AttachedTerminal::new(&mut app, (40, 60), 0, ATTACHED);
    let text = terminal.text(&mut app);
    let rows: Vec<&str> = text.lines().collect();
    let first = rows.iter().rposition(|row| row.contains("one two")).expect("the reply") + 1;
    let last = rows.iter().rposition(|row| row.trim() == "}").expect("the code") + 1;
    let drag = format!("\x1b[<0;1;{first}M\x1b[<32;40;{last}M\x1b[<0;40;{last}m");
    terminal.remote(&mut app).output.clear();
    terminal.type_bytes(&mut app, drag.as_bytes());
    let output = String::from_utf8(terminal.remote(&mut app).output.clone()).expect("text");
    let copied = output.split("\x1b]52;c;").nth(1).and_then(|rest| rest.split('\x07').next()).expect("a copy");
    let copied = String::from_utf8(STANDARD.decode(copied).expect("base64")).expect("text");
    let expected = format!("{sentence}\n\n• in a list\nrust\nfn b() {{\n    c();\n}}\n\nquoted\n\nrust\n{code}");
    assert_eq!(copied, expected, "{text}");
}
