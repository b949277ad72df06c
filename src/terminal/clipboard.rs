//! The user's clipboard, set through the terminal, which works over ssh as well.
//!
//! OSC 52 (xterm control sequences, "Manipulate Selection Data"): `ESC ] 52 ; c ; BASE64 BEL`. tmux accepts it from a
//! program inside only with `set-clipboard on`, and passes `ESC P tmux; ... ESC \\`, with every ESC doubled, to the outer
//! terminal only with `allow-passthrough on`. Which one is set cannot be known, so both are sent.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Maximum size of the text in bytes: common terminals accept sequences of up to 100,000 bytes, in base64 (hterm and the
/// `osc52` scripts of vim and tmux have the same limit).
pub const LIMIT: usize = 74_994;

/// The sequence that sets the clipboard to this text; `None` if the text is too long.
pub fn sequence(text: &str, is_in_tmux: bool) -> Option<String> {
    if text.len() > LIMIT {
        return None;
    }
    let plain = format!("\x1b]52;c;{}\x07", STANDARD.encode(text));
    let passed_through = plain.replace('\x1b', "\x1b\x1b");
    Some(if is_in_tmux { format!("{plain}\x1bPtmux;{passed_through}\x1b\\") } else { plain })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_in_base64_and_for_tmux_in_both_forms() {
        assert_eq!(sequence("hé\x1b", false).unwrap(), "\x1b]52;c;aMOpGw==\x07");
        let both = "\x1b]52;c;aGk=\x07\x1bPtmux;\x1b\x1b]52;c;aGk=\x07\x1b\\";
        assert_eq!(sequence("hi", true).unwrap(), both);
    }

    #[test]
    fn a_text_that_is_too_long_is_not_sent() {
        assert!(sequence(&"x".repeat(LIMIT), false).is_some_and(|sequence| sequence.len() <= 100_000));
        assert_eq!(sequence(&"x".repeat(LIMIT + 1), false), None);
    }
}
