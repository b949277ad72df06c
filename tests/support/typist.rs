//! Types keys at random: the draft has to be what a plain model of a text makes of them, and the cursor on the screen where a
//! terminal that prints the same text has it.

use unicode_segmentation::UnicodeSegmentation as _;

use super::harness::{Harness, Plan};
use super::random::Random;

const COLUMNS: u16 = 200;
/// Typed one by one: wide, combining, joined. A terminal prints each of these as wide as the program counts it.
const TYPED: [&str; 12] = ["a", "b", " ", "-", "_", "é", "e\u{301}", "語", "ñ", "本", "٣", "א"];
/// What a terminal sends for it, and what it does to the model.
type TypedKey = (&'static [u8], fn(&mut Model));
const KEYS: [TypedKey; 13] = [
    (b"\x1b[D", |model| model.cursor = model.before()),
    (b"\x02", |model| model.cursor = model.before()),
    (b"\x1b[C", |model| model.cursor = model.after()),
    (b"\x1bOC", |model| model.cursor = model.after()),
    (b"\x1b[H", |model| model.cursor = model.line_start()),
    (b"\x01", |model| model.cursor = model.line_start()),
    (b"\x05", |model| model.cursor = model.line_end()),
    (b"\x7f", |model| model.delete(model.before(), model.cursor)),
    (b"\x1b[3~", |model| model.delete(model.cursor, model.after())),
    (b"\x15", |model| model.delete(model.line_start(), model.cursor)),
    (b"\x0b", |model| match model.line_end() {
        end if end == model.cursor => model.delete(model.cursor, model.after()),
        end => model.delete(model.cursor, end),
    }),
    (b"\x1b\r", |model| model.insert("\n")),
    (b"\x0a", |model| model.insert("\n")),
];

/// So many of them do not break a line.
const SHORTENING: usize = 11;

/// A text and a cursor.
#[derive(Debug, Default)]
struct Model {
    text: String,
    cursor: usize,
}

impl Model {
    fn before(&self) -> usize {
        self.text[..self.cursor].grapheme_indices(true).next_back().map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        self.cursor + self.text[self.cursor..].graphemes(true).next().map_or(0, str::len)
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    fn insert(&mut self, typed: &str) {
        self.text.insert_str(self.cursor, typed);
        self.cursor += typed.len();
    }

    fn delete(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.cursor = from;
    }

    /// The lines and the column of the cursor, as a terminal prints them.
    fn printed(&self) -> (Vec<String>, usize, u16) {
        let mut terminal = vt100::Parser::new(60, COLUMNS, 0);
        terminal.process(self.text[..self.cursor].replace('\n', "\r\n").as_bytes());
        let (row, column) = terminal.screen().cursor_position();
        terminal.process(self.text[self.cursor..].replace('\n', "\r\n").as_bytes());
        let lines = terminal.screen().rows(0, COLUMNS).take(self.text.matches('\n').count() + 1);
        (lines.map(|line| line.trim_end().to_owned()).collect(), row.into(), column)
    }
}

/// Types one of the keys, and does the same to the model.
fn press(model: &mut Model, random: &mut Random, bytes: &mut Vec<u8>) {
    // All of it fits on the screen.
    let is_long = model.text.len() > 150 || model.text.matches('\n').count() > 12;
    match random.below(20) {
        0..=10 if !is_long => {
            let typed = TYPED[random.below(TYPED.len())];
            bytes.extend(typed.as_bytes());
            model.insert(typed);
        }
        11 if !is_long => {
            bytes.extend(b"\x1b[200~pasted \xe8\xaa\x9e\rtext\x1b[201~");
            model.insert("pasted 語\ntext");
        }
        _ => {
            let (key, act) = KEYS[random.below(if is_long { SHORTENING } else { KEYS.len() })];
            bytes.extend(key);
            act(model);
        }
    }
}

/// The lines of the input on the screen, and the cursor in them.
fn shown(app: &mut Harness) -> (Vec<String>, usize, u16) {
    let cursor = app.cursor();
    let rows: Vec<String> = app.screen().rows(0, COLUMNS).collect();
    // The space is not there if nothing was ever drawn behind it.
    let is_first = |row: &String| row == ">" || row.starts_with("> ");
    let first = rows.iter().rposition(is_first).unwrap_or_else(|| panic!("no input in {rows:?}"));
    let cut = |row: &String| row.chars().skip(2).collect::<String>().trim_end().to_owned();
    (rows[first..rows.len() - 1].iter().map(cut).collect(), usize::from(cursor.0) - first, cursor.1 - 2)
}

/// A person who types at random.
pub struct Typist {
    app: Harness,
    model: Model,
}

impl Default for Typist {
    fn default() -> Self {
        let app = Harness::new(Plan { size: Some((COLUMNS, 60)), ..Plan::default() });
        Self { app, model: Model::default() }
    }
}

impl Typist {
    /// Types some keys, which arrive at once, and compares draft and screen with the model. Returns how many.
    pub fn burst(&mut self, random: &mut Random) -> usize {
        let (mut bytes, keys) = (Vec::new(), 1 + random.below(30));
        (0..keys).for_each(|_| press(&mut self.model, random, &mut bytes));
        self.app.type_bytes(&bytes);
        let (draft, Model { text, cursor }) = (self.app.draft(0), &self.model);
        assert_eq!((draft.text(), draft.cursor()), (text.as_str(), *cursor), "{:?}", bytes.escape_ascii());
        assert_eq!(shown(&mut self.app), self.model.printed(), "{:?}", self.model);
        // The harness keeps what was drawn; in hours it would be all that grows.
        self.app.sent.clear();
        keys
    }

    /// Whether a key has sent something.
    pub fn has_sent(&self) -> bool {
        !self.app.replies(0).is_empty()
    }
}
