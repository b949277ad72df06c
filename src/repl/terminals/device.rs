//! Where keys come from and frames go to: the terminal of this process, or a remote one.

use std::path::PathBuf;

use crate::base::error::Result;
use crate::domain::display::Abilities;
use crate::terminal::abilities;
use crate::terminal::screen::Palette;
use crate::terminal::tty::{ReadOutcome, Tty, overlay_sequence};

/// Where keys come from and frames go to.
pub enum Device {
    /// The controlling terminal.
    Terminal(Box<Tty>),
    /// A terminal of a client or an embedding program, which passes bytes on in both directions.
    Remote(RemoteTerminal),
}

/// The buffers of a remote terminal. Its owner writes all fields but `output`, which the loop fills and the owner empties.
#[derive(Debug)]
pub struct RemoteTerminal {
    /// Input that was not read yet.
    pub input: Vec<u8>,
    /// Output that was not taken yet.
    pub output: Vec<u8>,
    /// Columns and rows. After a change everything is redrawn in the next turn.
    pub size: (u16, u16),
    /// What it can display; read when it is attached.
    pub palette: Palette,
    /// Its other abilities; by default none.
    pub abilities: Abilities,
    /// Where its client was started; `None`: where this process was.
    pub directory: Option<PathBuf>,
    /// Whether a frame may be drawn. It is false while earlier output is not sent yet: a slow terminal skips frames.
    pub takes_more: bool,
}

impl Default for RemoteTerminal {
    /// A terminal of 80 columns and 24 rows with colors.
    fn default() -> Self {
        Self {
            input: Vec::new(),
            output: Vec::new(),
            size: (80, 24),
            directory: None,
            palette: Palette { color: true, attributes: true, unicode: true, links: false },
            abilities: Abilities::default(),
            takes_more: true,
        }
    }
}

impl Device {
    pub(super) fn palette(&self) -> Palette {
        let palette = match self {
            Self::Terminal(_) => Palette::of_process(),
            Self::Remote(remote) => remote.palette,
        };
        Palette { links: self.abilities().has_links, ..palette }
    }

    pub(super) fn abilities(&self) -> Abilities {
        match self {
            Self::Terminal(_) => abilities::of_process(),
            Self::Remote(remote) => remote.abilities,
        }
    }

    /// Whether the main screen is used.
    pub(super) fn is_inline(&self) -> bool {
        matches!(self, Self::Terminal(tty) if tty.is_inline())
    }

    /// Whether all earlier output was sent.
    pub(super) fn takes_more(&self) -> bool {
        match self {
            Self::Terminal(tty) => !tty.has_backlog(),
            Self::Remote(remote) => remote.takes_more,
        }
    }

    /// Bytes of keys that were passed on and not read yet; none for a local terminal, whose kernel keeps them.
    pub(super) fn waiting_bytes(&self) -> usize {
        match self {
            Self::Terminal(_) => 0,
            Self::Remote(remote) => remote.input.len(),
        }
    }

    /// Appends at most `most` bytes of keys to `bytes`.
    pub(super) fn read(&mut self, bytes: &mut Vec<u8>, most: usize) -> Result<ReadOutcome> {
        match self {
            Self::Terminal(tty) => tty.read(bytes, most),
            Self::Remote(remote) => {
                bytes.extend(remote.input.drain(..remote.input.len().min(most)));
                Ok(if remote.input.is_empty() { ReadOutcome::Drained } else { ReadOutcome::More })
            }
        }
    }

    /// Buffers output; a local terminal sends it when it is flushed.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        match self {
            Self::Terminal(tty) => tty.queue(bytes),
            Self::Remote(remote) => remote.output.extend_from_slice(bytes),
        }
    }

    /// Goes to the alternate screen, or back to the main one.
    pub(super) fn set_overlaid(&mut self, is_overlaid: bool) {
        match self {
            Self::Terminal(tty) => tty.set_overlaid(is_overlaid),
            Self::Remote(remote) => remote.output.extend_from_slice(overlay_sequence(is_overlaid).as_bytes()),
        }
    }

    /// Columns and rows; the previous size if the terminal has hung up.
    pub(super) fn size(&self, before: (u16, u16)) -> (u16, u16) {
        match self {
            Self::Terminal(tty) => tty.size().unwrap_or(before),
            Self::Remote(remote) => remote.size,
        }
    }
}
