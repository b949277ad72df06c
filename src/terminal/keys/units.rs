//! Parses one complete unit of bytes with termina, and converts its events to keys.

use termina::Parser;
use termina::event::{Event, KeyCode as Code, KeyEvent, KeyEventKind, Modifiers as Held, MouseButton, MouseEventKind};

use crate::domain::key::{Key, KeyCode, Modifiers, MouseAction};

#[derive(Debug, Default)]
pub(super) struct UnitParser {
    parser: Parser,
}

impl UnitParser {
    /// The key of a complete unit; `None` if it is not a known key.
    pub(super) fn parse(&mut self, unit: &[u8]) -> Option<Key> {
        match unit {
            [0x1b, rest @ ..] if matches!(rest, [0x1b, _, ..]) => self.parse(rest).map(with_alt),
            [0x1b, b'[', body @ ..] if !is_key_sequence(body) => None,
            [0x1b, b'[', b'2', b'7', b';', body @ .., b'~'] => self.parse_with_termina(&other_key(body)?),
            _ => self.parse_with_termina(unit),
        }
    }

    /// Alt with a letter that could have begun a sequence.
    pub(super) fn alt(&self, letter: u8) -> Option<Key> {
        let alt = Modifiers { alt: true, ..Modifiers::default() };
        Some(Key::Press(KeyCode::Char(char::from(letter)), alt))
    }

    /// There must be exactly one event. Otherwise the parser did not know the unit and may hold a part of it.
    fn parse_with_termina(&mut self, unit: &[u8]) -> Option<Key> {
        self.parser.parse(unit, false);
        let event = self.parser.pop();
        if event.is_none() || self.parser.pop().is_some() {
            self.parser = Parser::default();
            return None;
        }
        event.and_then(key)
    }
}

/// Whether the sequence can be a key. Responses to queries, which are never sent, are left out.
fn is_key_sequence(body: &[u8]) -> bool {
    matches!(body, [b'0'..=b'9' | b'<' | b'[', _, ..] | [b'A'..=b'Z', ..])
}

/// xterm's `CSI 27 ; modifiers ; code ~` (modifyOtherKeys) means `CSI code ; modifiers u`.
fn other_key(body: &[u8]) -> Option<Vec<u8>> {
    let (modifiers, code) = std::str::from_utf8(body).ok()?.split_once(';')?;
    Some(format!("\x1b[{code};{modifiers}u").into_bytes())
}

fn with_alt(key: Key) -> Key {
    match key {
        Key::Press(code, held) => Key::Press(code, Modifiers { alt: true, ..held }),
        other => other,
    }
}

fn key(event: Event) -> Option<Key> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => press(key),
        Event::Mouse(mouse) if mouse.kind == MouseEventKind::ScrollUp => Some(Key::Wheel(-1)),
        Event::Mouse(mouse) if mouse.kind == MouseEventKind::ScrollDown => Some(Key::Wheel(1)),
        Event::Mouse(mouse) => {
            let action = match mouse.kind {
                MouseEventKind::Down(MouseButton::Left) => MouseAction::Press,
                MouseEventKind::Drag(MouseButton::Left) => MouseAction::Drag,
                MouseEventKind::Up(MouseButton::Left) => MouseAction::Release,
                _ => return None,
            };
            Some(Key::Mouse(action, mouse.column, mouse.row))
        }
        Event::FocusIn => Some(Key::Focus(true)),
        Event::FocusOut => Some(Key::Focus(false)),
        _ => None,
    }
}

fn press(key: KeyEvent) -> Option<Key> {
    // Such a key is for the desktop.
    if key.modifiers.intersects(Held::SUPER | Held::HYPER) {
        return None;
    }
    let held = Modifiers {
        ctrl: key.modifiers.contains(Held::CONTROL),
        alt: key.modifiers.intersects(Held::ALT | Held::META),
        shift: key.modifiers.contains(Held::SHIFT),
    };
    let code = match key.code {
        Code::Char(c) => return character(c, held),
        Code::BackTab => return Some(Key::Press(KeyCode::BackTab, Modifiers { shift: false, ..held })),
        Code::Enter => KeyCode::Enter,
        Code::Escape => KeyCode::Escape,
        Code::Backspace => KeyCode::Backspace,
        Code::Tab => KeyCode::Tab,
        Code::Delete => KeyCode::Delete,
        Code::Insert => KeyCode::Insert,
        Code::Up => KeyCode::Up,
        Code::Down => KeyCode::Down,
        Code::Left => KeyCode::Left,
        Code::Right => KeyCode::Right,
        Code::Home => KeyCode::Home,
        Code::End => KeyCode::End,
        Code::PageUp => KeyCode::PageUp,
        Code::PageDown => KeyCode::PageDown,
        Code::Function(number) => KeyCode::Function(number),
        _ => return None,
    };
    Some(Key::Press(code, held))
}

/// With shift the character itself; with control the one printed on the key.
fn character(c: char, held: Modifiers) -> Option<Key> {
    let c = match c {
        _ if c.is_control() => return None,
        // Bytes 1C to 1F: the parser uses the digits that produce them, manuals use these characters.
        '4' if held.ctrl => '\\',
        '5' if held.ctrl => ']',
        '6' if held.ctrl => '^',
        '7' if held.ctrl => '_',
        _ if held.ctrl => c.to_ascii_lowercase(),
        _ if held.shift => c.to_ascii_uppercase(),
        _ => c,
    };
    Some(Key::Press(KeyCode::Char(c), Modifiers { shift: false, ..held }))
}

/// The text of a paste: terminals send CR for a line break, some CRLF.
pub(super) fn pasted_text(bytes: Vec<u8>) -> String {
    let text =
        String::from_utf8(bytes).unwrap_or_else(|broken| String::from_utf8_lossy(broken.as_bytes()).into_owned());
    if !text.contains('\r') {
        return text;
    }
    let mut clean = String::with_capacity(text.len());
    for (number, line) in text.split('\r').enumerate() {
        if number > 0 {
            clean.push('\n');
        }
        clean.push_str(if number > 0 { line.strip_prefix('\n').unwrap_or(line) } else { line });
    }
    clean
}
