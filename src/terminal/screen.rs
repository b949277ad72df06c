//! From frames to the fewest bytes that show them.
//!
//! The screen remembers the frame that the terminal shows and sends what differs: whole scrolls where text moved, and
//! of a row the part that changed. Nothing is read back; after anything else wrote to the terminal, call
//! [`Screen::invalidate`].

mod cells;
mod pen;
mod shift;

use crate::domain::frame::{Frame, Row, Style};
use cells::Cells;
use pen::Pen;

/// What of a style may be sent to this terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Palette {
    /// Colours.
    pub color: bool,
    /// Bold, faint, italic, underlined, reversed.
    pub attributes: bool,
    /// More than ASCII.
    pub unicode: bool,
}

impl Palette {
    /// By the values of `NO_COLOR` (<https://no-color.org>: set and not empty), of `TERM` (`dumb` knows no style), and of
    /// the locale. Where no locale is named, the terminal is taken for one of today; `C` is a word, and is taken at it.
    pub fn from_environment(no_color: Option<&str>, term: Option<&str>, locale: Option<&str>) -> Self {
        let attributes = !matches!(term, None | Some("" | "dumb"));
        let is_utf8 = |locale: &str| locale.to_ascii_lowercase().replace('-', "").contains("utf8");
        let color = attributes && no_color.is_none_or(str::is_empty);
        Self { color, attributes, unicode: locale.is_none_or(is_utf8) }
    }

    /// That of the terminal of this process.
    pub fn of_process() -> Self {
        let variable = |name| std::env::var(name).ok();
        // The first that is set decides (POSIX.1-2024, Base Definitions, 8.2).
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).find(|value| !value.is_empty());
        Self::from_environment(variable("NO_COLOR").as_deref(), variable("TERM").as_deref(), locale.as_deref())
    }

    /// What is sent for a grapheme: itself, or something of the same width.
    fn spell(self, grapheme: &str, columns: u16) -> &str {
        match grapheme {
            _ if self.unicode || grapheme.is_ascii() => grapheme,
            "─" => "-",
            "↑" => "^",
            "↓" => "v",
            "…" => ".",
            _ if columns == 2 => "??",
            _ if grapheme.starts_with(|c| ('\u{2800}'..='\u{28ff}').contains(&c)) => "*",
            _ => "?",
        }
    }

    fn apply(self, style: Style) -> Style {
        match self {
            Self { attributes: false, .. } => Style::default(),
            Self { color: false, .. } => Style { color: Default::default(), ..style },
            _ => style,
        }
    }
}

/// The terminal's screen, as far as we know it.
#[derive(Debug)]
pub struct Screen {
    palette: Palette,
    /// What the terminal shows; none if that is unknown.
    shown: Option<Frame>,
    pen: Pen,
}

impl Screen {
    /// A screen of which nothing is known: the first frame is drawn whole.
    pub fn new(palette: Palette) -> Self {
        Self { palette, shown: None, pen: Pen::default() }
    }

    /// Something else may have written to the terminal: the next frame is drawn whole.
    pub fn invalidate(&mut self) {
        self.shown = None;
    }

    /// Appends to `out` the bytes after which the terminal shows this frame; none if it does already. More than one
    /// changed row is wrapped into one synchronized update, so that nobody sees half of it
    /// (<https://gist.github.com/christianparpart/d8a62cc1ab659194337d73e399004036>).
    pub fn draw(&mut self, frame: &Frame, out: &mut Vec<u8>) {
        let (mut shown, mut changes) = self.begin(frame);
        changes += self.scroll(&mut shown, frame);
        for (y, new) in (0..).zip(&frame.rows) {
            if shown.rows[usize::from(y)] != *new {
                changes += usize::from(self.draw_row(y, &shown.rows[usize::from(y)], new, frame.width));
            }
        }
        self.pen.finish(frame.cursor.map(|(x, y)| (x.min(frame.width.saturating_sub(1)), y)));
        if changes > 1 {
            out.extend_from_slice(b"\x1b[?2026h");
        }
        out.append(&mut self.pen.out);
        if changes > 1 {
            out.extend_from_slice(b"\x1b[?2026l");
        }
        self.shown = Some(frame.clone());
    }

    /// The frame to start from, and how many changes it took to get there.
    fn begin(&mut self, frame: &Frame) -> (Frame, usize) {
        match self.shown.take() {
            Some(shown) if shown.width == frame.width && shown.rows.len() == frame.rows.len() => (shown, 0),
            _ => {
                self.pen.clear(u16::try_from(frame.rows.len()).unwrap_or(u16::MAX));
                let rows = vec![Row::default(); frame.rows.len()];
                (Frame { rows, cursor: None, ..*frame }, 2)
            }
        }
    }

    /// Lets the terminal move text that only changed its row.
    fn scroll(&mut self, shown: &mut Frame, frame: &Frame) -> usize {
        let rows = shown.scrolling_rows.min(frame.scrolling_rows);
        let rows = rows.min(u16::try_from(frame.rows.len()).unwrap_or(u16::MAX));
        let (old, new) = (&mut shown.rows[..usize::from(rows)], &frame.rows[..usize::from(rows)]);
        let up = shift::find(old, new);
        if up == 0 {
            return 0;
        }
        self.pen.scroll(rows, up);
        shift::apply(old, up);
        1
    }

    /// Sends what differs in one row; false if it only differs in what nobody sees.
    fn draw_row(&mut self, y: u16, old: &Row, new: &Row, width: u16) -> bool {
        let old = Cells::of(old, self.palette, width);
        let new = Cells::of(new, self.palette, width);
        let Some(change) = cells::change(&old, &new) else { return false };
        self.pen.move_to(new.column(change.cells.start), y);
        if change.erase_first {
            self.pen.erase_right();
        }
        for cell in &new.list[change.cells.clone()] {
            self.pen.write(self.palette.spell(cell.text, cell.columns), cell.style, cell.columns, width);
        }
        if new.is_disputed {
            self.pen.lose_slot();
        }
        if change.erase_after {
            self.pen.erase_right();
        }
        true
    }
}

#[cfg(test)]
mod tests;
