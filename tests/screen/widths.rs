//! Characters whose width is hard to tell: the cursor is where the text is edited, whatever the terminal makes of them.

use alacritty_terminal::Term;
use alacritty_terminal::event::VoidListener;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::Config;
use alacritty_terminal::term::test::TermSize;
use alacritty_terminal::vte::ansi::Processor;

use crate::support::harness::{Harness, Plan};
use crate::support::internals::text;
use crate::support::scene::app_with_agents;

/// Each with the columns that it takes.
const HARD: [(&str, usize); 17] = [
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
    ("🏳\u{fe0f}\u{200d}🌈", 2),
    ("👩🏾\u{200d}🚀x👩\u{200d}❤\u{fe0f}\u{200d}👩", 5),
    ("1\u{fe0f}\u{20e3}", 2),
];

fn app() -> Harness {
    app_with_agents(1, Plan::default())
}

/// The column of the cursor on the terminal, without the prompt.
fn cursor(app: &mut Harness) -> usize {
    app.screen_text();
    let column = usize::from(app.cursor().1);
    column.checked_sub(2).unwrap_or_else(|| panic!("in column {column}: {}", app.screen_text()))
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
        let rest = app.draft(0).text().to_owned();
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
        assert!(hard.ends_with(app.draft(0).text()), "{hard}: {}", app.draft(0).text());
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

/// What is drawn as another character. The emulation ignores U+FFFD, which most of these are drawn as.
#[test]
fn what_is_drawn_otherwise_is_edited_as_it_is_shown() {
    for hard in ["\u{ad}", "\t"] {
        let mut app = app();
        app.type_bytes(format!("\x1b[200~ab{hard}cd\x1b[201~").as_bytes());
        let typed = app.draft(0).text().to_owned();
        assert!(typed.starts_with("ab") && typed.ends_with("cd"), "{hard:?}: {typed:?}");
        let drawn = app.screen_text().lines().rev().find_map(|row| row.strip_prefix("> ").map(str::to_owned));
        let drawn = drawn.expect("an input");
        assert!(drawn.starts_with("ab") && drawn.ends_with("cd") && !drawn.contains(hard), "{hard:?}: {drawn:?}");
        // The cursor is where the emulator has the character before which the next one goes.
        assert_eq!(cursor(&mut app), text::width(&drawn), "{hard:?}: {drawn:?}");
        app.type_bytes(b"\x1b[D\x1b[D");
        assert_eq!(cursor(&mut app), text::width(&drawn) - 2, "{hard:?}: {drawn:?}");
        app.type_bytes(b"x");
        let drawn = drawn.replace("cd", "xcd");
        assert!(app.screen_text().contains(&format!("> {drawn}")), "{hard:?}: {drawn:?}");
        app.type_bytes(b"\x7f\x7f");
        assert_eq!(app.draft(0).text(), "abcd", "{hard:?} is deleted as one");
        assert_eq!(cursor(&mut app), 2, "{hard:?} {:?} {}", app.draft(0), app.screen_text());
    }
}

/// Without a width of their own, or with one on which terminals do not agree.
const INVISIBLE: [&str; 6] = [
    "\u{200b}",
    "\u{202e}",
    "\u{2066}",
    "\u{feff}",
    "\u{2060}",
    "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
];

/// The row of the cursor on an emulator that draws U+FFFD, and the column of the cursor.
fn emulated(app: &mut Harness) -> (Vec<char>, usize) {
    app.screen_text();
    let (rows, columns) = app.screen().size();
    let mut term = Term::new(Config::default(), &TermSize::new(columns.into(), rows.into()), VoidListener);
    Processor::<alacritty_terminal::vte::ansi::StdSyncHandler>::new().advance(&mut term, &app.sent);
    let cursor = term.grid().cursor.point;
    let row = &term.grid()[Line(cursor.line.0)];
    ((0..usize::from(columns)).map(|column| row[Column(column)].c).collect(), cursor.column.0)
}

#[test]
fn an_emulator_that_draws_replacement_characters_has_the_cursor_where_the_text_is_edited() {
    for hard in INVISIBLE.into_iter().chain(HARD.map(|(hard, _)| hard)) {
        let mut app = app();
        app.type_bytes(format!("\x1b[200~ab{hard}cd\x1b[201~").as_bytes());
        let (row, end) = emulated(&mut app);
        assert_eq!((row[end - 2], row[end - 1], row[end]), ('c', 'd', ' '), "{hard:?}: {row:?}");
        app.type_bytes(b"\x1b[D\x1b[D");
        let (row, column) = emulated(&mut app);
        assert_eq!((column, row[column]), (end - 2, 'c'), "{hard:?}: {row:?}");
        app.type_bytes(b"x");
        let (row, column) = emulated(&mut app);
        assert_eq!((row[column - 1], row[column]), ('x', 'c'), "{hard:?}: {row:?}");
        while app.draft(0).text() != "abcd" {
            app.type_bytes(b"\x7f");
            assert!(app.draft(0).text().starts_with("ab"), "{hard:?}: {:?}", app.draft(0));
        }
        let (row, column) = emulated(&mut app);
        let input: String = row.into_iter().collect();
        assert_eq!((input.trim_end(), column), ("> abcd", 4), "{hard:?}");
    }
}
