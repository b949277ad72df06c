//! Output to one terminal besides its frames: the title of its window, progress, and that an agent needs the person.

use crate::domain::display::{Abilities, DisplaySettings, Progress};
use crate::terminal::announce;

#[derive(Debug, Default)]
pub(super) struct Announcer {
    abilities: Abilities,
    has_title: bool,
    has_bell: bool,
    has_notification: bool,
    has_progress: bool,
    /// None until the terminal reports it for the first time.
    has_focus: Option<bool>,
    title: String,
    progress: Progress,
    /// The terminal was asked for its background.
    has_asked: bool,
}

impl Announcer {
    pub fn new(abilities: Abilities, settings: &DisplaySettings) -> Self {
        if abilities.is_plain {
            return Self { has_asked: true, ..Self::default() };
        }
        Self {
            abilities,
            has_title: settings.title && abilities.has_title,
            has_bell: settings.bell,
            has_notification: settings.notify,
            has_progress: settings.progress && abilities.has_progress && !abilities.is_in_tmux,
            has_asked: !abilities.has_replies || !settings.theme.follows_background(),
            ..Self::default()
        }
    }

    pub fn set_focus(&mut self, has_focus: bool) {
        self.has_focus = Some(has_focus);
    }

    /// Whether the person looks elsewhere. A terminal that never reported its focus counts as focused, except in tmux,
    /// which by default does not report it.
    pub fn is_away(&self) -> bool {
        !self.has_focus.unwrap_or(!self.abilities.is_in_tmux)
    }

    /// The output after a frame: a new title and new progress, and after the first frame the question about the
    /// background.
    pub fn after_frame(&mut self, title: String, progress: Progress) -> String {
        let mut out = String::new();
        if self.has_title && title != self.title {
            out += &announce::title(&title);
            self.title = title;
        }
        if self.has_progress && progress != self.progress {
            out += announce::progress(progress);
            self.progress = progress;
        }
        if !std::mem::replace(&mut self.has_asked, true) {
            out += announce::QUERY;
        }
        out
    }

    /// Says that agents need the person, if that is not seen here. A notification needs a terminal that reports its
    /// focus; the bell is what tmux marks a window with.
    pub fn alert(&self, message: &str) -> String {
        let mut out = String::new();
        if !self.is_away() {
            return out;
        }
        if self.has_notification && self.has_focus.is_some() {
            out += &announce::notification(message, self.abilities);
        }
        if self.has_bell {
            out += announce::BELL;
        }
        out
    }
}
