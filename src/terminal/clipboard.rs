//! The clipboard of whoever sits at the terminal, reached through the terminal itself: it works over ssh, too.
//!
//! OSC 52 (xterm control sequences, "Manipulate Selection Data"): `ESC ] 52 ; c ; BASE64 BEL`. tmux takes it from a
//! program inside only if it is told to (`set-clipboard on`); what stands in `ESC P tmux; ... ESC \\`, with every ESC
//! doubled, it hands through to the terminal outside (`allow-passthrough on`). Nobody can tell which of the two a person
//! has set, so both are sent: who does not want one leaves it out, and twice the same text is that text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The most bytes of text: common terminals take sequences of up to 100,000 bytes, of which base64 fills four for three
/// bytes of text (hterm and the `osc52` scripts of vim and tmux have the same bound).
pub const LIMIT: usize = 74_994;

/// The sequence that puts this text into the clipboard; none for a text that is too long.
pub fn sequence(text: &str, is_in_tmux: bool) -> Option<String> {
    if text.len() > LIMIT {
        return None;
    }
    let plain = format!("\x1b]52;c;{}\x07", STANDARD.encode(text));
    let through = plain.replace('\x1b', "\x1b\x1b");
    Some(if is_in_tmux { format!("{plain}\x1bPtmux;{through}\x1b\\") } else { plain })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stands_in_base64_and_for_tmux_in_both_forms() {
        assert_eq!(sequence("hé\x1b", false).unwrap(), "\x1b]52;c;aMOpGw==\x07");
        let both = "\x1b]52;c;aGk=\x07\x1bPtmux;\x1b\x1b]52;c;aGk=\x07\x1b\\";
        assert_eq!(sequence("hi", true).unwrap(), both);
    }

    #[test]
    fn what_no_terminal_takes_is_not_sent() {
        assert!(sequence(&"x".repeat(LIMIT), false).is_some_and(|sequence| sequence.len() <= 100_000));
        assert_eq!(sequence(&"x".repeat(LIMIT + 1), false), None);
    }
}
