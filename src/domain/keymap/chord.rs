//! One key with its modifiers, as configurations and help write it: `ctrl+x`, `Ctrl+X`.

use std::fmt;
use std::str::FromStr;

use crate::domain::key::{KeyCode, Modifiers};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Chord {
    pub code: KeyCode,
    pub modifiers: Modifiers,
}

/// Names of keys, first as help shows them.
const NAMES: &[(&str, KeyCode)] = &[
    ("Enter", KeyCode::Enter),
    ("Esc", KeyCode::Escape),
    ("Backspace", KeyCode::Backspace),
    ("Tab", KeyCode::Tab),
    ("Delete", KeyCode::Delete),
    ("Insert", KeyCode::Insert),
    ("Up", KeyCode::Up),
    ("Down", KeyCode::Down),
    ("Left", KeyCode::Left),
    ("Right", KeyCode::Right),
    ("Home", KeyCode::Home),
    ("End", KeyCode::End),
    ("PgUp", KeyCode::PageUp),
    ("PgDn", KeyCode::PageDown),
    ("Space", KeyCode::Char(' ')),
    ("Plus", KeyCode::Char('+')),
    ("Return", KeyCode::Enter),
    ("Escape", KeyCode::Escape),
    ("PageUp", KeyCode::PageUp),
    ("PageDown", KeyCode::PageDown),
    ("Del", KeyCode::Delete),
];

impl Chord {
    /// Upper case letters with control are lower case, as terminals report them.
    pub fn new(code: KeyCode, modifiers: Modifiers) -> Self {
        match code {
            KeyCode::Char(c) if modifiers.ctrl => Self { code: KeyCode::Char(c.to_ascii_lowercase()), modifiers },
            _ => Self { code, modifiers },
        }
    }

    /// A key of the table as help shows it.
    pub(super) fn display_key(text: &str) -> String {
        text.parse().map_or_else(|_| text.to_owned(), |chord: Self| chord.to_string())
    }
}

impl FromStr for Chord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("unknown key {text:?}: write it as \"ctrl+k\", \"alt+enter\", \"f5\" or \"?\"");
        let (modifiers, name) = match text.rsplit_once('+') {
            Some((modifiers, "")) => (modifiers, "plus"),
            Some(parts) => parts,
            None => ("", text),
        };
        let mut held = Modifiers::default();
        for modifier in modifiers.split('+').filter(|modifier| !modifier.is_empty()) {
            match modifier.to_ascii_lowercase().as_str() {
                "ctrl" => held.ctrl = true,
                "alt" => held.alt = true,
                "shift" => held.shift = true,
                _ => return Err(unknown()),
            }
        }
        let code = code(name).ok_or_else(unknown)?;
        Ok(match code {
            KeyCode::Tab if held.shift => Self::new(KeyCode::BackTab, Modifiers { shift: false, ..held }),
            KeyCode::Char(c) if held.shift => {
                Self::new(KeyCode::Char(c.to_ascii_uppercase()), Modifiers { shift: false, ..held })
            }
            code => Self::new(code, held),
        })
    }
}

fn code(name: &str) -> Option<KeyCode> {
    if let Some((_, code)) = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return Some(*code);
    }
    let mut characters = name.chars();
    match (characters.next()?, characters.as_str()) {
        (c, "") => Some(KeyCode::Char(c)),
        ('f' | 'F', number) => number.parse().ok().filter(|number| (1..=24).contains(number)).map(KeyCode::Function),
        _ => None,
    }
}

impl fmt::Display for Chord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Modifiers { ctrl, alt, shift } = self.modifiers;
        for (is_held, name) in [(ctrl, "Ctrl+"), (alt, "Alt+"), (shift, "Shift+")] {
            f.write_str(if is_held { name } else { "" })?;
        }
        match self.code {
            KeyCode::BackTab => f.write_str("Shift+Tab"),
            KeyCode::Function(number) => write!(f, "F{number}"),
            code => match (NAMES.iter().find(|(_, known)| *known == code), code) {
                (Some((name, _)), _) => f.write_str(name),
                (None, KeyCode::Char(c)) => write!(f, "{}", c.to_ascii_uppercase()),
                (None, _) => Ok(()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_and_shown() {
        for (text, shown) in [
            ("ctrl+x", "Ctrl+X"),
            ("Alt+Enter", "Alt+Enter"),
            ("shift+tab", "Shift+Tab"),
            ("ctrl+alt+pageup", "Ctrl+Alt+PgUp"),
            ("f12", "F12"),
            ("f", "F"),
            ("ctrl++", "Ctrl+Plus"),
            ("?", "?"),
            ("ctrl+_", "Ctrl+_"),
        ] {
            let chord: Chord = text.parse().unwrap();
            assert_eq!(chord.to_string(), shown, "{text}");
            assert_eq!(shown.parse::<Chord>().map(|again| again.to_string()).as_deref(), Ok(shown));
        }
        for text in ["", "meta+x", "f25", "enterr", "ctrl"] {
            assert!(text.parse::<Chord>().is_err(), "{text}");
        }
    }
}
