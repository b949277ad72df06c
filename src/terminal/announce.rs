//! Sequences that tell the terminal something besides the frame: title, bell, notification, progress (xterm control
//! sequences; iTerm2 and ConEmu "Proprietary Escape Codes"), and what each agent does (OSC 7501, "Program status
//! protocol", revision 0.2, <https://www.superlogical.com/rex/docs/build/program-status>). All text is sanitised here.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::base::text;
use crate::domain::display::{Abilities, Activity, Notification, Progress, StatusReport};

/// Columns of a title or a notification.
const COLUMNS: usize = 120;

pub const BELL: &str = "\x07";
/// Saves and restores the title, which terminals keep on a stack.
pub const PUSH_TITLE: &str = "\x1b[22;0t";
pub const POP_TITLE: &str = "\x1b[23;0t";
/// Asks for the colour of the background.
pub const ASK_BACKGROUND: &str = "\x1b]11;?\x1b\\";
/// Asks whether the terminal shows status reports.
pub const ASK_STATUS: &str = "\x1b]7501;?\x1b\\";
/// Asks for the device attributes, which every terminal answers: after other questions, their reply is the last.
pub const ASK_ATTRIBUTES: &str = "\x1b[c";
/// Every status report begins with this.
pub const STATUS: &str = "\x1b]7501;state=";
/// Removes all status reports.
pub const CLEAR_STATUS: &str = "\x1b]7501;state=clear\x1b\\";
/// The longest title and message of a status report, in bytes before they are encoded.
const STATUS_TITLE_BYTES: usize = 192;
const STATUS_MESSAGE_BYTES: usize = 2_048;

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

/// What the program or an agent does; replaces the last report with this id.
pub fn status(report: &StatusReport) -> String {
    let state = match report.activity {
        Activity::Idle => "idle",
        Activity::Working => "working",
        Activity::Done => "done",
        Activity::Failed => "error",
        Activity::AsksPermission => "blocked:kind=permission",
        Activity::AsksQuestion => "blocked:kind=question",
    };
    let id = if report.id.is_empty() { ":app=polylogue".to_owned() } else { format!(":id={}", report.id) };
    let progress = report.percent.map(|percent| format!(":progress={percent}")).unwrap_or_default();
    let encoded = |key: &str, text: &str, most: usize| {
        let text = line(text);
        let text = &text[..text.floor_char_boundary(most)];
        if text.is_empty() { String::new() } else { format!(":{key}={}", BASE64.encode(text)) }
    };
    let title = encoded("title", &report.title, STATUS_TITLE_BYTES);
    let message = encoded("msg", &report.message, STATUS_MESSAGE_BYTES);
    format!("{STATUS}{state}{id}{progress}{title}{message}\x1b\\")
}

/// Removes the report with this id.
pub fn clear_status(id: &str) -> String {
    format!("{STATUS}clear:id={id}\x1b\\")
}

/// Whether there is a status report in this output.
pub fn has_status(output: &[u8]) -> bool {
    let begins = |sequence: &[u8]| sequence.starts_with(&STATUS.as_bytes()[1..]);
    output.split(|byte| *byte == 0x1b).skip(1).any(begins)
}

/// Whether this is the reply to [`ASK_STATUS`]. Later revisions may put more behind the question mark.
pub fn is_status_reply(reply: &[u8]) -> bool {
    reply.starts_with(b"7501;?")
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

/// The background in a reply to [`ASK_BACKGROUND`]: `11;rgb:RRRR/GGGG/BBBB`, with one to four digits each, or `rgba:`.
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
        let report = StatusReport {
            id: "3".into(),
            activity: Activity::AsksPermission,
            percent: Some(40),
            title: format!("{hostile}{}", "🦀".repeat(100)),
            message: format!("e{}", "\u{301}".repeat(3_000)),
        };
        let report = status(&report);
        let inner = report.strip_prefix("\x1b]").and_then(|rest| rest.strip_suffix("\x1b\\")).expect("one sequence");
        assert!(inner.starts_with("7501;state=blocked:kind=permission:id=3:progress=40:title="), "{inner}");
        assert!(!inner.contains(char::is_control) && report.len() < 4_096, "{inner}");
        let bytes = |key: &str| {
            let text = inner.split(':').find_map(|pair| pair.strip_prefix(key)).expect("a text");
            BASE64.decode(text).expect("base64").len()
        };
        assert!((180..=192).contains(&bytes("title=")) && bytes("msg=") <= 2_048, "{inner}");
        assert!(has_status(format!("a\x1b[m{report}").as_bytes()) && !has_status(ASK_STATUS.as_bytes()));
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
