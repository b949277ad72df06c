//! Output to one terminal besides its frames: the title of its window, progress, what each agent does, and that an agent
//! needs the person.

use crate::domain::display::{Abilities, DisplaySettings, Progress, StatusReport};
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
    /// `None`: unknown.
    progress: Option<Progress>,
    /// What the terminal has still to be asked.
    questions: String,
    /// It is asked whether it shows status reports.
    offers_reports: bool,
    /// It shows them.
    takes_reports: bool,
    /// The last reports.
    reported: Vec<StatusReport>,
    /// They may be gone from the terminal.
    reports_all: bool,
}

impl Announcer {
    pub fn new(abilities: Abilities, settings: &DisplaySettings) -> Self {
        if abilities.is_plain {
            return Self::default();
        }
        let mut questions = String::new();
        let offers_reports = abilities.has_replies && settings.progress;
        if offers_reports {
            questions += announce::ASK_STATUS;
        }
        if abilities.has_replies && settings.theme.follows_background() {
            questions += announce::ASK_BACKGROUND;
        }
        if !questions.is_empty() {
            questions += announce::ASK_ATTRIBUTES;
        }
        Self {
            abilities,
            has_title: settings.title && abilities.has_title,
            has_bell: settings.bell,
            has_notification: settings.notify,
            has_progress: settings.progress && abilities.has_progress && !abilities.is_in_tmux,
            progress: Some(Progress::None),
            questions,
            offers_reports,
            ..Self::default()
        }
    }

    pub fn set_focus(&mut self, has_focus: bool) {
        self.has_focus = Some(has_focus);
    }

    /// The terminal has answered that it shows status reports. If it was not asked, the answer is for another program.
    pub fn accept_reports(&mut self) {
        self.takes_reports = self.offers_reports;
    }

    /// Whether the terminal shows status reports.
    pub fn takes_reports(&self) -> bool {
        self.takes_reports
    }

    /// Says everything again: another program may have had the terminal.
    pub fn forget(&mut self) {
        self.title.clear();
        self.progress = None;
        self.reports_all = true;
    }

    /// Whether the person looks elsewhere. A terminal that never reported its focus counts as focused, except in tmux,
    /// which by default does not report it.
    pub fn is_away(&self) -> bool {
        !self.has_focus.unwrap_or(!self.abilities.is_in_tmux)
    }

    /// The output after a frame: what is new, and after the first frame the questions.
    pub fn after_frame(&mut self, title: String, progress: Progress) -> String {
        let mut out = String::new();
        if self.has_title && title != self.title {
            out += &announce::title(&title);
            self.title = title;
        }
        if self.has_progress && self.progress != Some(progress) {
            out += announce::progress(progress);
            self.progress = Some(progress);
        }
        out += &std::mem::take(&mut self.questions);
        out
    }

    /// What is new in these reports.
    pub fn report(&mut self, reports: Vec<StatusReport>) -> String {
        let mut out = String::new();
        let says_all = std::mem::take(&mut self.reports_all);
        if !says_all && reports == self.reported {
            return out;
        }
        let is_over = |old: &&StatusReport| reports.iter().all(|report| report.id != old.id);
        self.reported.iter().filter(is_over).for_each(|old| out += &announce::clear_status(&old.id));
        let is_new = |report: &&StatusReport| says_all || !self.reported.contains(report);
        reports.iter().filter(is_new).for_each(|report| out += &announce::status(report));
        self.reported = reports;
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
