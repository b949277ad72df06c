//! An input line: the filter of a list, a search, or an answer.

use crate::base::text;
use crate::domain::draft::Draft;
use crate::domain::frame::{Color, Row, Style};
use crate::domain::key::{Key, KeyCode};

/// Characters that one paste can insert.
const MOST_PASTED: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct QueryLine {
    typed: Draft,
    /// Dots are shown in place of its characters.
    pub is_secret: bool,
}

impl QueryLine {
    pub fn text(&self) -> &str {
        self.typed.text()
    }

    pub fn set(&mut self, text: &str) {
        self.typed.set(text);
    }

    /// Edits the line. Returns whether its text has changed; `None` if the key is not for it.
    pub fn on_key(&mut self, key: &Key) -> Option<bool> {
        let before = self.text().to_owned();
        match key {
            Key::Paste(pasted) => {
                let line: String = pasted.trim().chars().take(MOST_PASTED).collect();
                self.typed.insert(&line.replace(char::is_control, " "));
            }
            Key::Press(code, modifiers) => match (code, modifiers.ctrl) {
                (KeyCode::Backspace, _) | (KeyCode::Char('h'), true) => drop(self.typed.backspace()),
                (KeyCode::Delete, _) => drop(self.typed.delete()),
                (KeyCode::Left, _) => drop(self.typed.left()),
                (KeyCode::Right, _) => drop(self.typed.right()),
                (KeyCode::Home, _) => drop(self.typed.home()),
                (KeyCode::End, _) => drop(self.typed.end()),
                (KeyCode::Char('u'), true) => self.typed.set(""),
                (KeyCode::Char('w'), true) => drop(self.typed.kill_word_back()),
                (KeyCode::Char(c), false) if !modifiers.alt => self.typed.insert(&c.to_string()),
                (KeyCode::Char(_), _) => {}
                _ => return None,
            },
            _ => return None,
        }
        Some(self.text() != before)
    }

    /// The text before the cursor, and after it.
    pub fn parts(&self) -> [&str; 2] {
        self.text().split_at(self.typed.cursor()).into()
    }

    /// The line behind a prompt, and the column of the cursor.
    pub fn row(&self, prompt: &str, color: Color) -> (Row, u16) {
        let shown = self.parts().map(|part| match self.is_secret {
            true => "•".repeat(part.chars().count()),
            false => text::sanitise(part).replace('\n', " "),
        });
        let mut row = Row::of(prompt, Style::color(color));
        row.push(shown.concat(), Style::default());
        (row, u16::try_from(text::width(prompt) + text::width(&shown[0])).unwrap_or(u16::MAX))
    }
}
