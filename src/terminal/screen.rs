//! From frames to the bytes that draw them.
//!
//! The screen stores the frame that the terminal shows and sends only the differences: scrolls where text moved, and
//! the changed part of a row. Call [`Screen::invalidate`] after something else wrote to the terminal.

mod cells;
mod pen;
mod shift;

use std::ops::Range;

use crate::domain::frame::{Frame, LinkPart, Row, Span, Style};
use crate::domain::theme::Theme;
use cells::Cells;
use pen::Pen;

/// The characters and colours that this terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Palette {
    pub color: bool,
    /// Bold, faint, italic, underline, reverse.
    pub attributes: bool,
    /// Characters other than ASCII.
    pub unicode: bool,
    /// Links (OSC 8), which [`Abilities`](crate::domain::display::Abilities) tell.
    pub links: bool,
}

impl Palette {
    /// From `NO_COLOR` (<https://no-color.org>: set and not empty), `TERM` (`dumb` has no styles) and the locale.
    /// `CLICOLOR=0` is the same as `NO_COLOR=1` (<https://bixense.com/clicolors>).
    /// Without a locale the terminal is taken to support UTF-8; `C` means ASCII.
    pub fn from_environment(no_color: Option<&str>, term: Option<&str>, locale: Option<&str>) -> Self {
        let attributes = !matches!(term, None | Some("" | "dumb"));
        let is_utf8 = |locale: &str| locale.to_ascii_lowercase().replace('-', "").contains("utf8");
        let color = attributes && no_color.is_none_or(str::is_empty);
        Self { color, attributes, unicode: locale.is_none_or(is_utf8), links: false }
    }

    /// The palette of this process's terminal, from its environment variables.
    pub fn of_process() -> Self {
        let variable = |name| std::env::var(name).ok();
        // The first one that is set counts (POSIX.1-2024, Base Definitions, 8.2).
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).find(|value| !value.is_empty());
        let no_color = variable("NO_COLOR")
            .filter(|value| !value.is_empty())
            .or_else(|| variable("CLICOLOR").filter(|value| value == "0"));
        Self::from_environment(no_color.as_deref(), variable("TERM").as_deref(), locale.as_deref())
    }

    /// The grapheme, or a substitute of the same width.
    fn substitute(self, grapheme: &str, columns: u16) -> &str {
        match grapheme {
            _ if self.unicode || grapheme.is_ascii() => grapheme,
            "─" => "-",
            "│" | "┃" => "|",
            "┼" => "+",
            "●" | "•" => "*",
            "✗" => "x",
            "✓" => "+",
            "▸" => ">",
            "·" => "-",
            "⋯" => "~",
            "↑" => "^",
            "↓" => "v",
            "…" => ".",
            _ if columns == 2 => "??",
            _ if grapheme.starts_with(|c| ('\u{2800}'..='\u{28ff}').contains(&c)) => "*",
            _ => "?",
        }
    }

    fn apply(self, style: Style) -> Style {
        let style = Style { link: LinkPart::None, ..style };
        match self {
            Self { attributes: false, .. } => Style::default(),
            Self { color: false, .. } => Style { color: Default::default(), background: Default::default(), ..style },
            _ => style,
        }
    }

    fn link(self, span: &Span) -> Option<&str> {
        span.link.as_deref().filter(|_| self.links)
    }
}

/// The terminal's screen, as far as it is known.
#[derive(Debug)]
pub struct Screen {
    palette: Palette,
    /// The frame on the terminal, if it is known.
    shown: Option<Frame>,
    pen: Pen,
}

impl Screen {
    /// A screen with unknown contents: the first frame is drawn completely.
    pub fn new(palette: Palette) -> Self {
        Self { palette, shown: None, pen: Pen::default() }
    }

    pub fn has_colors(&self) -> bool {
        self.palette.color
    }

    /// Draws with this theme from now on, beginning with a complete frame.
    pub fn set_theme(&mut self, theme: Theme) {
        self.pen.set_theme(theme);
        self.invalidate();
    }

    /// The rows on the terminal; none if they are not known.
    pub fn rows(&self) -> &[Row] {
        self.shown.as_ref().map_or(&[], |frame| &frame.rows)
    }

    /// The rows as lines, for a terminal that is not a screen of ours.
    pub fn rows_as_lines(&self, rows: &[Row], width: u16) -> Vec<u8> {
        let mut pen = Pen::default();
        pen.set_theme(self.pen.theme().clone());
        for row in rows {
            for cell in Cells::of(row, self.palette, width).list {
                pen.write(self.palette.substitute(cell.text, cell.columns), &cell, width);
            }
            pen.end_line();
        }
        pen.out
    }

    /// Must be called after something else wrote to the terminal: the next frame is drawn completely.
    pub fn invalidate(&mut self) {
        self.shown = None;
    }

    /// Appends the bytes that draw this frame to `out`; none if it is shown already. More than one changed row is sent
    /// as one synchronized update, so that no partial frame is visible
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

    /// Scrolls text that only moved to other rows.
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

    /// Sends the differences in one row; false if none is visible.
    fn draw_row(&mut self, y: u16, old: &Row, new: &Row, width: u16) -> bool {
        let old = Cells::of(old, self.palette, width);
        let new = Cells::of(new, self.palette, width);
        let Some(change) = cells::change(&old, &new) else { return false };
        for part in change.parts {
            self.pen.move_to(new.column(part.start), y);
            if change.erase_first {
                self.pen.erase_right();
            }
            self.write_cells(&new, part, y, width);
        }
        if new.is_disputed {
            self.pen.lose_position();
        }
        if change.erase_after {
            self.pen.move_to(new.column(new.list.len()), y);
            self.pen.erase_right();
        }
        true
    }

    fn write_cells(&mut self, new: &Cells<'_>, part: Range<usize>, y: u16, width: u16) {
        for at in part {
            let cell = &new.list[at];
            self.pen.write(self.palette.substitute(cell.text, cell.columns), cell, width);
            if cell.moves_cursor_elsewhere() && new.column(at + 1) < width {
                // Where the parts of an emoji are drawn one after the other, all but the first are erased.
                self.pen.lose_position();
                self.pen.move_to(new.column(at + 1), y);
                self.pen.erase_right();
            }
        }
    }
}

#[cfg(test)]
mod tests;
