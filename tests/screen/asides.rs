//! What a command prints during a long reply: above the reply, and at the bottom until the next key.

use crate::support::harness::{Harness, Plan};

/// An agent whose reply fills more than the screen and goes on.
fn replying(lines: usize) -> Harness {
    let mut app = Harness::new(Plan { size: Some((80, 24)), ..Plan::default() });
    let reply: String = (0..lines).map(|n| format!("line {n}\n\n")).collect();
    app.say(0, &format!("{reply}%hang"));
    app.turn_until("the reply", |app| app.screen_text().contains(&format!("line {}", lines - 1)));
    app
}

fn count(app: &mut Harness, text: &str) -> usize {
    app.screen_text().matches(text).count()
}

#[test]
fn the_output_of_a_command_is_at_the_bottom_until_the_next_key_and_stays_above_the_reply() {
    let mut app = replying(40);
    app.enter("/name reviewer");
    app.enter("/name");
    let screen = app.screen_text();
    let rows: Vec<&str> = screen.lines().collect();
    let at = |text: &str| rows.iter().position(|row| row.contains(text)).unwrap_or_else(|| panic!("{text}:\n{screen}"));
    assert!(at("line 39") < at("── reviewer") && at("── reviewer") < at("this agent is reviewer"), "{screen}");
    app.type_bytes(b"x");
    assert_eq!(count(&mut app, "this agent is reviewer"), 0, "{}", app.screen_text());
    app.type_bytes(b"\x7f");
    let above = (0..20).find(|_| {
        app.type_bytes(b"\x1b[5~");
        app.screen_text().contains("this agent is reviewer")
    });
    let screen = app.screen_text();
    let (note, reply) = (screen.find("this agent is reviewer"), screen.rfind("line 0\n"));
    assert!(above.is_some() && note < reply, "{screen}");
}

#[test]
fn output_that_is_seen_above_the_reply_is_shown_once() {
    let mut app = replying(3);
    app.enter("/name");
    assert_eq!(count(&mut app, "this agent is agent 0"), 1, "{}", app.screen_text());
}

#[test]
fn long_output_leaves_rows_to_the_reply_and_says_what_is_missing() {
    let mut app = replying(40);
    app.enter("!!seq 1001 1060");
    app.turn_until("the output", |app| app.screen_text().contains("1001"));
    let screen = app.screen_text();
    assert!(screen.contains("line 39") && screen.contains("more rows above the reply"), "{screen}");
    assert!(!screen.contains("1060"), "{screen}");
    app.type_bytes(b"x");
    assert_eq!(count(&mut app, "1001"), 0, "{}", app.screen_text());
}

#[test]
fn an_escape_still_interrupts_the_reply() {
    let mut app = replying(40);
    app.enter("/name");
    app.escape();
    app.turn_until("the end", |app| app.screen_text().contains("interrupted: Enter tries again"));
    assert_eq!(count(&mut app, "this agent is"), 0);
}
