//! Sequences that tell the terminal something besides the frame: title, bell, notification, progress (xterm control
//! sequences; iTerm2 and ConEmu "Proprietary Escape Codes"). All text is sanitised here.

use crate::base::text;
use crate::domain::display::{Abilities, Notification, Progress};

/// Columns of a title or a notification.
const COLUMNS: usize = 120;

pub const BELL: &str = "\x07";
/// Saves and restores the title, which terminals keep on a stack.
pub const PUSH_TITLE: &str = "\x1b[22;0t";
pub const POP_TITLE: &str = "\x1b[23;0t";
/// Asks for the colour of the background, and for the device attributes, which every terminal answers: their reply is
/// the last.
pub const QUERY: &str = "\x1b]11;?\x1b\\\x1b[c";

/// Sets the title of the window.
pub fn title(title: &str) -> String {
    format!("\x1b]2;{}\x07", line(title))
}

/// A desktop notification; in tmux for the terminal outside. Empty if the terminal has none.
pub fn notification(message: &str, abilities: Abilities) -> String {
    // A `;` would separate parameters, and OSC 9 with a number in front is another command.
    let message = line(message).replace(';', ",");
    let sequence = match abilities.notification {
        Notification::None => return String::new(),
        Notification::Osc9 => format!("\x1b]9;polylogue: {message}\x07"),
        Notification::Osc777 => format!("\x1b]777;notify;polylogue;{message}\x07"),
    };
    if abilities.is_in_tmux { for_outer(&sequence) } else { sequence }
}

/// The progress on the icon of the window.
pub fn progress(progress: Progress) -> &'static str {
    match progress {
        Progress::None => "\x1b]9;4;0\x07",
        Progress::Working => "\x1b]9;4;3\x07",
        Progress::Asks => "\x1b]9;4;4;100\x07",
    }
}

/// tmux passes this on with `allow-passthrough on`.
fn for_outer(sequence: &str) -> String {
    format!("\x1bPtmux;{}\x1b\\", sequence.replace('\x1b', "\x1b\x1b"))
}

/// One line of printable text.
fn line(message: &str) -> String {
    let message = text::sanitise(message).replace(['\n', '\t'], " ");
    text::shortened(&message, COLUMNS).into_owned()
}

/// The background in a reply to [`QUERY`]: `11;rgb:RRRR/GGGG/BBBB`, with one to four digits each, or `rgba:`.
pub fn background(reply: &[u8]) -> Option<[u8; 3]> {
    let reply = std::str::from_utf8(reply).ok()?.strip_prefix("11;")?;
    let parts = reply.strip_prefix("rgb:").or_else(|| reply.strip_prefix("rgba:"))?;
    let parts: Option<Vec<u8>> = parts.split('/').take(3).map(level).collect();
    parts?.try_into().ok()
}

/// A part of a colour with one to four hexadecimal digits, scaled to a byte.
fn level(digits: &str) -> Option<u8> {
    let most = match digits.len() {
        length @ 1..=4 => 16_u32.pow(u32::try_from(length).ok()?) - 1,
        _ => return None,
    };
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    u8::try_from(value * 255 / most).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_end_its_sequence_or_begin_another() {
        let hostile = "a\x1b\\b\x07c\x1b]52;c;eA==\x07\n4;1;\u{9c}\u{202e}d";
        let abilities = Abilities { notification: Notification::Osc9, ..Abilities::default() };
        let tmux = Abilities { is_in_tmux: true, ..abilities };
        let other = Abilities { notification: Notification::Osc777, ..abilities };
        for sequence in [title(hostile), notification(hostile, abilities), notification(hostile, other)] {
            let inner =
                sequence.strip_prefix("\x1b]").and_then(|rest| rest.strip_suffix('\x07')).expect("one sequence");
            assert!(!inner.contains(|c: char| c.is_control() || c == '\u{202e}'), "{inner:?}");
        }
        assert_eq!(notification("4;1", abilities), "\x1b]9;polylogue: 4,1\x07");
        assert_eq!(notification("x", tmux), "\x1bPtmux;\x1b\x1b]9;polylogue: x\x07\x1b\\");
        assert_eq!(notification("x", Abilities::default()), "");
    }

    #[test]
    fn the_background_is_read_with_any_number_of_digits() {
        for (reply, expected) in [
            ("11;rgb:ffff/8080/0000", Some([255, 128, 0])),
            ("11;rgb:f/0/f", Some([255, 0, 255])),
            ("11;rgba:1e1e/1e1e/1e1e/ffff", Some([30, 30, 30])),
            ("11;rgb:fffff/0/0", None),
            ("11;rgb:+f/0/0", None),
            ("11;rgb:ff/ff", None),
            ("10;rgb:ff/ff/ff", None),
            ("11;?", None),
        ] {
            assert_eq!(background(reply.as_bytes()), expected, "{reply}");
        }
    }
}
