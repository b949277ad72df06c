//! The terminal's cursor: where it is, how it writes, and the shortest way to elsewhere.
//!
//! Sequences are those of ECMA-48 and the VT420 that every terminal of today knows.

use crate::domain::frame::{Color, Style};

/// What we know of the terminal's state, and the bytes that change it.
#[derive(Debug, Default)]
pub(super) struct Pen {
    pub out: Vec<u8>,
    height: u16,
    /// Column and row; none if terminals may disagree.
    at: Option<(u16, u16)>,
    style: Style,
    /// The rows that scroll; the margin stays set, since setting it costs more than scrolling.
    region: Option<u16>,
    is_shown: Option<bool>,
    /// Where the last frame left the cursor.
    rest: Option<(u16, u16)>,
    /// The place that `Esc 8` goes to, in the default style.
    saved: Option<(u16, u16)>,
}

impl Pen {
    /// An empty screen, whatever was before.
    pub fn clear(&mut self, height: u16) {
        self.out.clear();
        self.out.extend_from_slice(b"\x1b[m\x1b[r\x1b[H\x1b[2J");
        *self = Self { out: std::mem::take(&mut self.out), height, at: Some((0, 0)), ..Self::default() };
    }

    /// Moves the first rows up, or down if negative. Blank rows come in.
    pub fn scroll(&mut self, rows: u16, up: isize) {
        self.set_style(Style::default());
        if self.region != Some(rows) {
            self.send(&format!("\x1b[1;{rows}r"));
            self.region = Some(rows);
            self.at = Some((0, 0));
        }
        let way = if up > 0 { 'S' } else { 'T' };
        match up.unsigned_abs() {
            1 => self.send(&format!("\x1b[{way}")),
            count => self.send(&format!("\x1b[{count}{way}")),
        }
    }

    /// Writes one grapheme.
    pub fn write(&mut self, text: &str, style: Style, columns: u16, width: u16) {
        self.set_style(style);
        self.send(text);
        // Behind the last column terminals differ.
        self.at = self.at.map(|(x, y)| (x + columns, y)).filter(|&(x, _)| x < width);
    }

    /// Blanks the rest of the row.
    pub fn erase_right(&mut self) {
        self.set_style(Style::default());
        self.send("\x1b[K");
    }

    /// The cursor may be elsewhere than we think.
    pub fn lose_slot(&mut self) {
        self.at = None;
    }

    /// Ends a frame: the default style, and the cursor where it belongs, or hidden.
    pub fn finish(&mut self, cursor: Option<(u16, u16)>) {
        self.set_style(Style::default());
        let has_moved = self.at != cursor;
        if let Some((x, y)) = cursor {
            self.move_to(x, y);
            // Text streams in while the cursor rests at the input: from the second time on the way back is short.
            if has_moved && self.rest == cursor && self.saved != cursor {
                self.send("\x1b7");
                self.saved = cursor;
            }
        }
        if self.is_shown != Some(cursor.is_some()) {
            self.send(if cursor.is_some() { "\x1b[?25h" } else { "\x1b[?25l" });
            self.is_shown = Some(cursor.is_some());
        }
        self.rest = cursor;
    }

    /// Goes there by the fewest bytes.
    pub fn move_to(&mut self, x: u16, y: u16) {
        if self.at == Some((x, y)) {
            return;
        }
        if self.saved == Some((x, y)) {
            self.send("\x1b8");
            self.style = Style::default();
        } else {
            let way = self.way_from_here(x, y).filter(|way| way.len() <= absolute(x, y).len());
            self.send(&way.unwrap_or_else(|| absolute(x, y)));
        }
        self.at = Some((x, y));
    }

    fn way_from_here(&self, x: u16, y: u16) -> Option<String> {
        let (here, row) = self.at?;
        match (x, y) {
            // At the bottom margin and in the last row a line feed scrolls or does nothing.
            (0, _) if y == row + 1 && y < self.height && self.region != Some(y) => Some("\r\n".to_owned()),
            _ if y != row => None,
            (0, _) => Some("\r".to_owned()),
            _ if x + 3 >= here && x < here => Some("\x08".repeat(usize::from(here - x))),
            _ if x == here + 1 => Some("\x1b[C".to_owned()),
            _ if x > here => Some(format!("\x1b[{}C", x - here)),
            _ => Some(format!("\x1b[{}D", here - x)),
        }
    }

    fn set_style(&mut self, style: Style) {
        if style == self.style {
            return;
        }
        let mut codes = Vec::new();
        // Nothing can be taken from a style but all of it.
        if self.style != Style::default() && style != Style::default() {
            codes.push("0");
        }
        let attributes =
            [(style.bold, "1"), (style.dim, "2"), (style.italic, "3"), (style.underline, "4"), (style.reverse, "7")];
        codes.extend(attributes.iter().filter(|(is_set, _)| *is_set).map(|(_, code)| *code));
        codes.extend(color(style.color));
        self.send(&format!("\x1b[{}m", codes.join(";")));
        self.style = style;
    }

    fn send(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }
}

fn absolute(x: u16, y: u16) -> String {
    match (x, y) {
        (0, 0) => "\x1b[H".to_owned(),
        (0, y) => format!("\x1b[{}H", y + 1),
        (x, y) => format!("\x1b[{};{}H", y + 1, x + 1),
    }
}

/// The colour's SGR code (ECMA-48, 8.3.117; 90 is aixterm's bright black).
fn color(color: Color) -> Option<&'static str> {
    match color {
        Color::Default => None,
        Color::Red => Some("31"),
        Color::Green => Some("32"),
        Color::Yellow => Some("33"),
        Color::Blue => Some("34"),
        Color::Magenta => Some("35"),
        Color::Cyan => Some("36"),
        Color::Grey => Some("90"),
    }
}
