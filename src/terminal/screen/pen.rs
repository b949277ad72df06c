//! The terminal's cursor: position, style, and the shortest sequence to move it.
//!
//! The sequences are those of ECMA-48 and the VT420 that all current terminals support.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher as _};

use super::cells::Cell;
use crate::domain::frame::Style;
use crate::domain::theme::{Paint, Theme};

/// The known state of the terminal, and the bytes that change it.
#[derive(Debug, Default)]
pub(super) struct Pen {
    pub out: Vec<u8>,
    height: u16,
    /// Column and row; `None` if terminals may disagree.
    position: Option<(u16, u16)>,
    style: Style,
    /// Where text that is written now leads.
    link: Option<Box<str>>,
    /// The rows that scroll. The margins stay set, because setting them costs more than scrolling.
    region: Option<u16>,
    is_shown: Option<bool>,
    /// The cursor of the last frame.
    rest: Option<(u16, u16)>,
    /// The position that `Esc 8` restores, with the default style.
    saved: Option<(u16, u16)>,
    theme: Theme,
}

impl Pen {
    pub fn clear(&mut self, height: u16) {
        self.out.clear();
        self.out.extend_from_slice(b"\x1b[m\x1b[r\x1b[H\x1b[2J");
        let (out, theme) = (std::mem::take(&mut self.out), self.theme.clone());
        *self = Self { out, theme, height, position: Some((0, 0)), ..Self::default() };
    }

    pub fn theme(&self) -> &Theme {
        &self.theme
    }

    /// Goes to the next line, with the default style.
    pub fn end_line(&mut self) {
        self.set_link(None);
        self.set_style(Style::default());
        self.send("\r\n");
    }

    pub fn set_theme(&mut self, theme: Theme) {
        self.theme = theme;
    }

    /// Scrolls the first rows up, or down if negative, and fills with blank rows.
    pub fn scroll(&mut self, rows: u16, up: isize) {
        self.set_style(Style::default());
        if self.region != Some(rows) {
            self.send(&format!("\x1b[1;{rows}r"));
            self.region = Some(rows);
            self.position = Some((0, 0));
        }
        let direction = if up > 0 { 'S' } else { 'T' };
        match up.unsigned_abs() {
            1 => self.send(&format!("\x1b[{direction}")),
            count => self.send(&format!("\x1b[{count}{direction}")),
        }
    }

    pub fn write(&mut self, text: &str, cell: &Cell<'_>, width: u16) {
        self.set_link(cell.link);
        self.set_style(cell.style);
        self.send(text);
        // Terminals differ after the last column.
        self.position = self.position.map(|(x, y)| (x + cell.columns, y)).filter(|&(x, _)| x < width);
    }

    /// From now on text links there (OSC 8, <https://gist.github.com/egmontkob/eb114294efbcd5adb1944c9f3cb5feda>). The
    /// id joins the rows of a link.
    fn set_link(&mut self, link: Option<&str>) {
        if self.link.as_deref() == link {
            return;
        }
        match link {
            Some(uri) => {
                let mut hasher = DefaultHasher::new();
                hasher.write(uri.as_bytes());
                self.send(&format!("\x1b]8;id={:x};{uri}\x1b\\", hasher.finish() as u32));
            }
            None => self.send("\x1b]8;;\x1b\\"),
        }
        self.link = link.map(Box::from);
    }

    pub fn erase_right(&mut self) {
        self.set_link(None);
        self.set_style(Style::default());
        self.send("\x1b[K");
    }

    /// The position of the cursor is not known any more.
    pub fn lose_position(&mut self) {
        self.position = None;
    }

    /// Ends a frame: sets the default style, and moves or hides the cursor.
    pub fn finish(&mut self, cursor: Option<(u16, u16)>) {
        self.set_link(None);
        self.set_style(Style::default());
        let has_moved = self.position != cursor;
        if let Some((x, y)) = cursor {
            self.move_to(x, y);
            // While text streams in, the cursor returns to the input again and again: saving it makes this short.
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

    /// Moves with the fewest bytes.
    pub fn move_to(&mut self, x: u16, y: u16) {
        if self.position == Some((x, y)) {
            return;
        }
        if self.saved == Some((x, y)) {
            self.send("\x1b8");
            self.style = Style::default();
        } else {
            let relative = self.relative(x, y).filter(|sequence| sequence.len() <= absolute(x, y).len());
            self.send(&relative.unwrap_or_else(|| absolute(x, y)));
        }
        self.position = Some((x, y));
    }

    fn relative(&self, x: u16, y: u16) -> Option<String> {
        let (here, row) = self.position?;
        match (x, y) {
            // A line feed scrolls at the bottom margin, and does nothing in the last row.
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
        let mut codes: Vec<Cow<'static, str>> = Vec::new();
        // Attributes are not removed one by one: the style is reset first.
        if self.style != Style::default() && style != Style::default() {
            codes.push("0".into());
        }
        let background = self.theme.paint(style.background);
        let drawn = if background == Paint::Default { style.without_background() } else { style };
        let color = self.theme.paint(drawn.color);
        let faint = self.theme.faint().filter(|_| style.dim && color == Paint::Default);
        let attributes = [
            (style.bold, "1"),
            (style.dim && faint.is_none(), "2"),
            (style.italic, "3"),
            (style.underline, "4"),
            (style.reverse, "7"),
            (style.strike, "9"),
        ];
        codes.extend(attributes.iter().filter(|(is_set, _)| *is_set).map(|(_, code)| Cow::Borrowed(*code)));
        codes.extend(code(faint.unwrap_or(color)));
        codes.extend(background_code(background));
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

/// The same for a background: 40 to 49 and 100 to 107 as 30 to 39 and 90 to 97.
fn background_code(paint: Paint) -> Option<Cow<'static, str>> {
    Some(match paint {
        Paint::Default => return None,
        Paint::Basic(number @ 0..8) => format!("{}", 40 + u16::from(number)).into(),
        Paint::Basic(number) => format!("{}", 92 + u16::from(number)).into(),
        Paint::Indexed(number) => format!("48;5;{number}").into(),
        Paint::Rgb(red, green, blue) => format!("48;2;{red};{green};{blue}").into(),
    })
}

/// The SGR code of a colour (ECMA-48, 8.3.117; 90 is aixterm's bright black, 38 is ISO 8613-6). The terminal's own
/// colour has none.
fn code(paint: Paint) -> Option<Cow<'static, str>> {
    const BASIC: [&str; 8] = ["30", "31", "32", "33", "34", "35", "36", "37"];
    Some(match paint {
        Paint::Default => return None,
        Paint::Basic(number @ 0..8) => BASIC[usize::from(number)].into(),
        Paint::Basic(number) => format!("{}", 82 + u16::from(number)).into(),
        Paint::Indexed(number) => format!("38;5;{number}").into(),
        Paint::Rgb(red, green, blue) => format!("38;2;{red};{green};{blue}").into(),
    })
}
