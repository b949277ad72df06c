//! What keys come from and frames go to: the terminal of this process, or one that somebody else holds.

use crate::terminal::screen::Palette;
use crate::terminal::tty::Tty;

/// What keys come from and frames go to.
pub enum Device {
    /// The controlling terminal.
    Terminal(Box<Tty>),
    /// One that is not here: whoever owns it carries bytes between it and the loop, between turns or in one.
    Remote(RemoteTerminal),
}

/// A terminal that is not here: at the other end of a socket, or in the memory of whoever hosts the loop. Its owner
/// writes all fields but `output`, which the loop fills and the owner empties.
#[derive(Debug)]
pub struct RemoteTerminal {
    /// What was typed and not read yet.
    pub input: Vec<u8>,
    /// What was drawn and not taken yet.
    pub output: Vec<u8>,
    /// Columns and rows. Another size is noticed in the next turn, and everything is drawn anew.
    pub size: (u16, u16),
    /// What may be sent to it; looked at when it sits down.
    pub palette: Palette,
    /// It runs inside of tmux, which hands a text for the clipboard on only if it is told to.
    pub is_in_tmux: bool,
    /// Whether a frame may be drawn. While its owner has not got rid of what was drawn before, nothing is: a slow
    /// terminal misses frames and then gets the newest one.
    pub takes_more: bool,
}

impl Default for RemoteTerminal {
    /// An ordinary terminal of 80 by 24.
    fn default() -> Self {
        Self {
            input: Vec::new(),
            output: Vec::new(),
            size: (80, 24),
            palette: Palette { color: true, attributes: true, unicode: true },
            is_in_tmux: false,
            takes_more: true,
        }
    }
}

impl Device {
    /// What of a style may be sent to it.
    pub(super) fn palette(&self) -> Palette {
        match self {
            Self::Terminal(_) => Palette::of_process(),
            Self::Remote(remote) => remote.palette,
        }
    }

    pub(super) fn is_in_tmux(&self) -> bool {
        match self {
            Self::Terminal(_) => std::env::var_os("TMUX").is_some(),
            Self::Remote(remote) => remote.is_in_tmux,
        }
    }

    /// Whether it has taken what was drawn before; if not, drawing more would only queue up.
    pub(super) fn takes_more(&self) -> bool {
        match self {
            Self::Terminal(tty) => !tty.has_backlog(),
            Self::Remote(remote) => remote.takes_more,
        }
    }

    /// Columns and rows; a terminal that has gone has the size that it had.
    pub(super) fn size(&self, before: (u16, u16)) -> (u16, u16) {
        match self {
            Self::Terminal(tty) => tty.size().unwrap_or(before),
            Self::Remote(remote) => remote.size,
        }
    }
}
