//! Characters whose width is hard to tell: the cursor is where the text is edited, whatever the terminal makes of them.

use crate::support::harness::{Harness, Plan};
use crate::support::internals::text;
use crate::support::scene::app_with_agents;

/// Each with the columns that it takes.
const HARD: [(&str, usize); 14] = [
    ("abc", 3),
    ("日本語", 6),
    ("한국어", 6),
    ("e\u{301}a\u{308}", 2),
    ("👍🏽", 2),
    ("👨‍👩‍👧‍👦", 2),
    ("🇩🇪🇯🇵", 4),
    ("☃\u{fe0f}", 2),
    ("مرحبا", 5),
    ("שלום", 4),
    ("ｈａｌｆ", 8),
    ("ﾊﾝｶｸ", 4),
    ("नमस्ते", 3),
    ("─│█", 3),
];

fn app() -> Harness {
    app_with_agents(1, Plan::default())
}

/// The column of the cursor on the terminal, without the prompt.
fn cursor(app: &mut Harness) -> usize {
    app.screen_text();
    usize::from(app.cursor().1) - 2
}

#[test]
fn the_cursor_is_where_the_next_character_goes() {
    for (hard, expected) in HARD {
        let mut app = app();
        let columns = text::width(hard);
        if hard.is_ascii() || !hard.contains('स') {
            assert_eq!(columns, expected, "{hard}");
        }
        app.type_bytes(hard.as_bytes());
        assert_eq!(cursor(&mut app), columns, "{hard}");
        app.type_bytes(b"x");
        assert_eq!(cursor(&mut app), columns + 1, "{hard}");
        app.type_bytes(b"\x01");
        assert_eq!(cursor(&mut app), 0, "{hard}");
        app.type_bytes(b"\x05\x7f\x7f");
        let rest = app.agent(0).view.draft.text().to_owned();
        assert!(hard.starts_with(&rest) && rest.len() < hard.len(), "{hard} {rest}");
        assert_eq!(cursor(&mut app), text::width(&rest), "{hard}");
    }
}

#[test]
fn left_and_right_go_over_whole_characters() {
    for (hard, _) in HARD {
        let mut app = app();
        app.type_bytes(hard.as_bytes());
        let mut columns = vec![cursor(&mut app)];
        for _ in 0..16 {
            app.type_bytes(b"\x1b[D");
            columns.push(cursor(&mut app));
        }
        assert!(columns.is_sorted_by(|a, b| a >= b) && columns.ends_with(&[0]), "{hard} {columns:?}");
        app.type_bytes(b"\x1b[C\x7f");
        assert!(hard.ends_with(app.agent(0).view.draft.text()), "{hard}: {}", app.agent(0).view.draft.text());
        assert_eq!(cursor(&mut app), 0, "{hard}");
    }
}

#[test]
fn text_after_hard_characters_stands_where_it_belongs() {
    for (hard, _) in HARD {
        let mut app = app();
        app.say(0, &format!("{hard}|end"));
        app.turn_until_idle();
        app.turn();
        let screen = app.screen_text();
        let shown = screen.lines().filter(|line| line.ends_with("|end")).count();
        assert_eq!(shown, 2, "{hard}: {screen}");
    }
}

#[test]
fn characters_that_change_the_direction_or_are_invisible_are_shown_as_escapes_and_tabs_as_blanks() {
    let mut app = app();
    app.say(0, "a\u{202e}b\u{200b}c\u{2066}d\te\u{feff}f");
    app.turn_until_idle();
    app.turn();
    let screen = app.screen_text();
    for hidden in ['\u{202e}', '\u{200b}', '\u{2066}', '\u{feff}', '\t'] {
        assert!(!screen.contains(hidden), "{hidden:?}: {screen}");
    }
}
