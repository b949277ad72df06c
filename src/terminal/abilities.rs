//! The abilities of a terminal, from the variables of its process.

use crate::domain::display::{Abilities, Notification};
use crate::domain::theme::Depth;

/// The abilities of the terminal of this process.
pub fn of_process() -> Abilities {
    of(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

/// Whether lines that leave the screen can be read again. The Linux console has no scrollback since 5.9.
pub fn has_scrollback() -> bool {
    std::env::var("TERM").as_deref() != Ok("linux")
}

fn of(variable: impl Fn(&str) -> Option<String>) -> Abilities {
    let term = variable("TERM").unwrap_or_default();
    let is_plain = matches!(term.as_str(), "" | "dumb" | "linux");
    Abilities {
        is_in_tmux: variable("TMUX").is_some(),
        is_plain: matches!(term.as_str(), "" | "dumb"),
        is_inline: false,
        // xterm does not, and is recognised by XTERM_VERSION.
        reflows: !is_plain && variable("XTERM_VERSION").is_none(),
        depth: depth(&term, variable("COLORTERM").as_deref()),
        has_title: !is_plain,
        has_links: !is_plain && !term.starts_with("eterm"),
        has_replies: !is_plain,
        has_progress: has_progress(&variable),
        notification: match term.as_str() {
            _ if is_plain => Notification::None,
            term if term.starts_with("foot") || term.starts_with("rxvt") => Notification::Osc777,
            _ if variable("VTE_VERSION").is_some() => Notification::Osc777,
            _ => Notification::Osc9,
        },
    }
}

/// `COLORTERM` is `truecolor` or `24bit` where colours have 24 bits (<https://github.com/termstandard/colors>).
fn depth(term: &str, colorterm: Option<&str>) -> Depth {
    match colorterm {
        Some("truecolor" | "24bit") => Depth::Rgb,
        _ if term.contains("256") || term.contains("direct") => Depth::Indexed,
        _ => Depth::Basic,
    }
}

/// Other terminals show OSC 9;4 as a notification. VTE has it from 0.80 on.
fn has_progress(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_known = matches!(variable("TERM_PROGRAM").as_deref(), Some("ghostty" | "WezTerm"));
    let vte = variable("VTE_VERSION").and_then(|version| version.parse().ok()).unwrap_or(0);
    is_known || vte >= 8_000 || variable("WT_SESSION").is_some() || variable("ConEmuANSI").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Abilities {
        of(|name| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn a_terminal_is_sent_only_what_it_is_known_to_understand() {
        assert_eq!(with(&[("TERM", "dumb")]), with(&[]));
        assert!(with(&[]).is_plain);
        assert_eq!(with(&[("TERM", "linux")]), Abilities::default());
        let plain = with(&[("TERM", "xterm-256color")]);
        assert_eq!((plain.depth, plain.notification, plain.has_progress), (Depth::Indexed, Notification::Osc9, false));
        let vte = with(&[("TERM", "xterm-256color"), ("VTE_VERSION", "8001"), ("COLORTERM", "truecolor")]);
        assert_eq!((vte.depth, vte.notification, vte.has_progress), (Depth::Rgb, Notification::Osc777, true));
        assert!(with(&[("TERM", "xterm-256color"), ("WT_SESSION", "1")]).has_progress);
        assert!(with(&[("TERM", "tmux-256color"), ("TMUX", "/tmp/x")]).is_in_tmux);
    }
}
