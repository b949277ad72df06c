//! Frames drawn one after the other on an emulated terminal: the final content, and the cost.

use super::*;
use crate::base::text;
use crate::domain::frame::{Color, Span};

const FULL: Palette = Palette { color: true, attributes: true, unicode: true, links: true };

/// A screen and an emulated terminal.
struct TestTerminal {
    screen: Screen,
    emulator: vt100::Parser,
}

impl TestTerminal {
    fn new(width: u16, height: u16) -> Self {
        Self { screen: Screen::new(FULL), emulator: vt100::Parser::new(height, width, 0) }
    }

    fn draw(&mut self, frame: &Frame) -> Vec<u8> {
        let mut out = Vec::new();
        self.screen.draw(frame, &mut out);
        self.emulator.process(&out);
        out
    }

    fn rows(&self) -> Vec<String> {
        let width = self.emulator.screen().size().1;
        self.emulator.screen().rows(0, width).collect()
    }
}

fn frame(width: u16, rows: &[&str], scrolling_rows: u16, cursor: (u16, u16)) -> Frame {
    let rows = rows.iter().map(|row| Row::of(*row, Style::default())).collect();
    Frame { width, rows, cursor: Some(cursor), scrolling_rows }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn style(&mut self) -> Style {
        let color = [Color::Default, Color::Error, Color::Tool][self.below(3)];
        Style { bold: self.below(3) == 0, reverse: self.below(4) == 0, ..Style::color(color) }
    }

    fn row(&mut self, width: u16) -> Row {
        let mut row = Row::default();
        let mut left = self.below(usize::from(width) + 1);
        while left > 0 {
            let character = ["a", "b", " ", "語", "e\u{301}", "한"][self.below(6)];
            left = left.saturating_sub(text::width(character));
            let style = if self.below(2) == 0 { Style::default() } else { self.style() };
            if text::width(&row.text()) + text::width(character) <= usize::from(width) {
                row.push(character, style);
            }
        }
        row
    }

    /// The next frame after one: some rows changed, scrolled, or all new.
    fn change(&mut self, frame: &mut Frame) {
        let (width, height) = (frame.width, frame.rows.len());
        frame.scrolling_rows = match self.below(4) {
            0 => u16::try_from(self.below(height + 1)).unwrap_or(0),
            _ => frame.scrolling_rows,
        };
        let scrolling = usize::from(frame.scrolling_rows);
        match self.below(6) {
            0 => frame.rows.iter_mut().for_each(|row| *row = self.row(width)),
            1 | 2 if scrolling > 1 => {
                let count = 1 + self.below(scrolling - 1);
                frame.rows[..scrolling].rotate_left(count);
                (scrolling - count..scrolling).for_each(|y| frame.rows[y] = self.row(width));
            }
            3 if scrolling > 1 => {
                frame.rows[..scrolling].rotate_right(1);
                frame.rows[0] = self.row(width);
            }
            4 => {
                let style = self.style();
                let y = self.below(height);
                if text::width(&frame.rows[y].text()) < usize::from(width) {
                    frame.rows[y].spans.push(Span { text: "x".into(), style, link: None });
                }
            }
            _ => (0..self.below(4)).for_each(|_| frame.rows[self.below(height)] = self.row(width)),
        }
        let position = (self.below(usize::from(width)) as u16, self.below(height) as u16);
        match self.below(4) {
            0 => frame.cursor = None,
            1 => frame.cursor = Some(position),
            _ => {}
        }
    }
}

#[test]
fn frames_drawn_one_after_another_look_like_the_last_one_drawn_completely() {
    let mut random = Random(11);
    for round in 0..60 {
        let (width, height) = (1 + random.below(24) as u16, 1 + random.below(12) as u16);
        let mut terminal = TestTerminal::new(width, height);
        let mut now =
            Frame { width, rows: vec![Row::default(); height.into()], cursor: None, scrolling_rows: height / 2 };
        for step in 0..100 {
            random.change(&mut now);
            terminal.draw(&now);
            let mut whole = TestTerminal::new(width, height);
            whole.draw(&now);
            let (actual, expected) = (terminal.emulator.screen(), whole.emulator.screen());
            assert_eq!(terminal.rows(), whole.rows(), "round {round}, step {step}: {now:?}");
            assert_eq!(actual.hide_cursor(), expected.hide_cursor());
            if now.cursor.is_some() {
                assert_eq!(actual.cursor_position(), expected.cursor_position(), "round {round}, step {step}");
            }
            for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
                let looks = |screen: &vt100::Screen| {
                    let cell = screen.cell(y, x)?;
                    let is_blank = cell.contents().trim().is_empty() && !cell.inverse();
                    (!is_blank).then(|| (cell.contents().to_owned(), cell.fgcolor(), cell.bold(), cell.inverse()))
                };
                assert_eq!(looks(actual), looks(expected), "round {round}, step {step}, row {y}, column {x}");
            }
            for (row, shown) in now.rows.iter().zip(terminal.rows()) {
                assert_eq!(row.text().trim_end(), shown.trim_end());
            }
        }
    }
}

#[test]
fn a_shown_frame_costs_nothing_and_an_invalidated_one_is_drawn_completely() {
    let mut terminal = TestTerminal::new(20, 3);
    let now = frame(20, &["one", "two", "> "], 2, (2, 2));
    let first = terminal.draw(&now);
    assert_eq!(terminal.draw(&now), b"");
    assert_eq!(terminal.draw(&now), b"");
    terminal.emulator.process(b"\x1b[2Jrubbish");
    terminal.screen.invalidate();
    assert_eq!(terminal.draw(&now), first);
    assert_eq!(terminal.rows(), ["one", "two", ">"]);
}

#[test]
fn a_resize_draws_the_complete_frame() {
    let mut terminal = TestTerminal::new(20, 3);
    terminal.draw(&frame(20, &["one", "two", "> "], 2, (2, 2)));
    terminal.emulator.screen_mut().set_size(2, 10);
    terminal.draw(&frame(10, &["two", "> "], 1, (2, 1)));
    assert_eq!(terminal.rows(), ["two", ">"]);
}

#[test]
fn a_typed_character_costs_itself_and_a_deleted_one_a_few_bytes() {
    let mut terminal = TestTerminal::new(80, 3);
    terminal.draw(&frame(80, &["", "> ab", "status"], 1, (4, 1)));
    assert_eq!(terminal.draw(&frame(80, &["", "> abc", "status"], 1, (5, 1))), b"c");
    assert_eq!(terminal.draw(&frame(80, &["", "> abc語", "status"], 1, (7, 1))), "語".as_bytes());
    assert_eq!(terminal.draw(&frame(80, &["", "> abc", "status"], 1, (5, 1))), b"\x08\x08\x1b[K");
    let in_the_middle = terminal.draw(&frame(80, &["", "> axbc", "status"], 1, (4, 1)));
    assert!(in_the_middle.len() <= 40, "{in_the_middle:?}");
}

#[test]
fn only_the_part_of_a_row_that_changed_is_sent() {
    let mut terminal = TestTerminal::new(60, 2);
    terminal.draw(&frame(60, &["", "model x | 12 % | agent a | unread 0"], 1, (0, 0)));
    let out = terminal.draw(&frame(60, &["", "model x | 13 % | agent a | unread 0"], 1, (0, 0)));
    assert_eq!(String::from_utf8_lossy(&out), "\x1b[2;12H3\x1b[H\x1b7");
}

#[test]
fn what_is_unchanged_between_two_changes_is_passed() {
    let mut terminal = TestTerminal::new(60, 2);
    let row = |end: &str| format!("{end}{}{end}", ".".repeat(40));
    terminal.draw(&frame(60, &["", &row("a")], 1, (0, 0)));
    let out = terminal.draw(&frame(60, &["", &row("b")], 1, (0, 0)));
    assert_eq!(String::from_utf8_lossy(&out), "\r\nb\x1b[40Cb\x1b[H\x1b7");
}

#[test]
fn rows_in_which_a_few_cells_change_look_like_those_drawn_at_once() {
    let (mut random, width) = (Random(5), 80);
    let mut terminal = TestTerminal::new(width, 1);
    let mut cells = vec!["."; 60];
    for step in 0..2_000 {
        for _ in 0..=random.below(3) {
            let at = random.below(cells.len());
            cells[at] = ["a", "b", " ", "語", "."][random.below(5)];
        }
        if random.below(10) == 0 {
            cells.resize(40 + random.below(40), ".");
        }
        let now = frame(width, &[&cells.concat()], 0, (0, 0));
        terminal.draw(&now);
        let mut whole = TestTerminal::new(width, 1);
        whole.draw(&now);
        assert_eq!(terminal.rows(), whole.rows(), "step {step}: {now:?}");
    }
}

#[test]
fn more_than_one_row_is_one_synchronized_update_and_one_row_is_none() {
    let mut terminal = TestTerminal::new(20, 3);
    terminal.draw(&frame(20, &["a", "b", "c"], 0, (0, 0)));
    let two = String::from_utf8(terminal.draw(&frame(20, &["a", "x", "y"], 0, (0, 0)))).unwrap_or_default();
    assert!(two.starts_with("\x1b[?2026h") && two.ends_with("\x1b[?2026l"), "{two:?}");
    let single = String::from_utf8(terminal.draw(&frame(20, &["z", "x", "y"], 0, (0, 0)))).unwrap_or_default();
    assert!(!single.contains("2026"), "{single:?}");
}

#[test]
fn a_streamed_reply_costs_at_most_two_bytes_for_each_of_its_own() {
    let (width, height) = (80_u16, 24_u16);
    let words = ["a", "streaming", "of", "reply", "which", "terminal", "words,", "the", "and"];
    let mut random = Random(3);
    let mut reply = String::new();
    while reply.len() < 10_700 {
        reply.push_str(words[random.below(words.len())]);
        reply.push_str(if random.below(60) == 0 { "\n\n" } else { " " });
    }
    let mut terminal = TestTerminal::new(width, height);
    let mut sent = 0;
    let chunks: Vec<usize> = (20..reply.len()).step_by(20).collect();
    for (number, &end) in chunks.iter().enumerate() {
        let all: Vec<&str> = reply[..end].lines().flat_map(|line| text::wrap(line, 80)).map(|(_, row)| row).collect();
        let text_rows = usize::from(height) - 3;
        let mut rows = all[all.len().saturating_sub(text_rows)..].to_vec();
        rows.resize(text_rows, "");
        rows.extend(["----", "> ", "status"]);
        let bytes = terminal.draw(&frame(width, &rows, height - 3, (2, height - 2))).len();
        sent += if number == 0 { 0 } else { bytes };
    }
    assert!(sent <= 2 * reply.len(), "{sent} bytes for {}", reply.len());
}

#[test]
fn a_scroll_by_one_line_does_not_send_the_screen_again() {
    let mut terminal = TestTerminal::new(80, 24);
    let lines: Vec<String> = (0..100).map(|number| format!("{number}: {}", "text ".repeat(14))).collect();
    let page = |from: usize| {
        let mut rows: Vec<&str> = lines[from..from + 22].iter().map(String::as_str).collect();
        rows.extend(["> ", "status"]);
        frame(80, &rows, 22, (2, 22))
    };
    terminal.draw(&page(50));
    for from in [51, 54, 53, 50] {
        let bytes = terminal.draw(&page(from)).len();
        assert!(bytes <= 3 * 80 + 60, "{bytes} bytes to {from}");
        assert_eq!(terminal.rows()[0].trim_end(), lines[from].trim_end());
    }
}

#[test]
fn a_too_wide_row_is_cut() {
    let mut row = Row::of("abc語", Style::default());
    row.push("d", Style::BOLD);
    let mut terminal = TestTerminal::new(4, 1);
    terminal.draw(&Frame { width: 4, rows: vec![row], ..Frame::default() });
    assert_eq!(terminal.rows(), ["abc"]);
}

#[test]
fn control_characters_in_a_frame_are_replaced() {
    let mut terminal = TestTerminal::new(20, 1);
    let out = terminal.draw(&frame(20, &["a\u{1b}[31mb\u{9b}\u{7}\tc"], 0, (0, 0)));
    let text = String::from_utf8(out).unwrap_or_default();
    assert!(text.contains("a\u{fffd}[31mb\u{fffd}\u{fffd}\u{fffd}c"), "{text:?}");
}

#[test]
fn a_grapheme_of_disputed_width_leaves_no_remains() {
    let mut terminal = TestTerminal::new(20, 1);
    terminal.draw(&frame(20, &["x 👨‍👩‍👧 family"], 0, (0, 0)));
    terminal.draw(&frame(20, &["x 👨‍👩‍👧 fam"], 0, (0, 0)));
    assert!(!terminal.rows()[0].contains("ily"));
    terminal.draw(&frame(20, &["plain"], 0, (0, 0)));
    assert_eq!(terminal.rows(), ["plain"]);
}

#[test]
fn the_palette_follows_the_environment() {
    for (no_color, term, color, attributes) in [
        (None, Some("xterm-256color"), true, true),
        (Some(""), Some("xterm"), true, true),
        (Some("1"), Some("xterm"), false, true),
        (None, Some("dumb"), false, false),
        (None, None, false, false),
    ] {
        let palette = Palette::from_environment(no_color, term, None);
        assert_eq!(palette, Palette { color, attributes, unicode: true, links: false });
    }
    let red = Frame {
        width: 9,
        rows: vec![Row::of("r", Style { bold: true, ..Style::color(Color::Error) })],
        ..Frame::default()
    };
    for (palette, sgr) in [((true, true), "\x1b[1;31mr"), ((false, true), "\x1b[1mr"), ((false, false), "Jr")] {
        let mut out = Vec::new();
        Screen::new(Palette { color: palette.0, attributes: palette.1, unicode: true, links: false })
            .draw(&red, &mut out);
        assert!(String::from_utf8_lossy(&out).contains(sgr));
    }
}

#[test]
fn a_locale_without_utf_8_gets_ascii_of_the_same_width() {
    for (locale, unicode) in
        [(None, true), (Some("de_DE.UTF-8"), true), (Some("C.utf8"), true), (Some("C"), false), (Some("de_DE"), false)]
    {
        assert_eq!(Palette::from_environment(None, Some("xterm"), locale).unicode, unicode, "{locale:?}");
    }
    let mut terminal = TestTerminal::new(20, 1);
    terminal.screen = Screen::new(Palette { unicode: false, ..FULL });
    let sent = terminal.draw(&frame(20, &["── ⣾ äh 語 …x"], 0, (0, 0)));
    assert!(sent.is_ascii());
    assert_eq!(terminal.rows(), ["-- * ?h ?? .x"]);
}
