//! What one terminal displays: its screen, and what the last frame showed.

use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::domain::frame::{Frame, Row};
use crate::domain::theme::Theme;
use crate::repl::terminals::draw::VisibleState;
use crate::repl::terminals::question::QuestionView;
use crate::repl::terminals::selection::Selection;
use crate::terminal::screen::{Palette, Screen};

pub(super) struct Display {
    screen: Screen,
    buffer: Vec<u8>,
    /// The content of the last frame; `None` if everything has to be drawn.
    pub(super) shown: Option<VisibleState>,
    /// How many frames were drawn.
    pub(super) frames: u64,
    /// When the last frame was drawn.
    pub(super) drawn_at: Moment,
    /// When streamed text that is not shown yet will be.
    pub(super) text_at: Option<Moment>,
    /// The newest frame was not drawn because the terminal accepted no output.
    pub(super) is_behind: bool,
    /// Rows of the scrolling part in the last frame.
    pub(super) text_rows: u16,
    /// The question that it shows or showed last.
    pub(super) question: Option<QuestionView>,
}

impl Display {
    pub(super) fn new(palette: Palette, theme: Theme) -> Self {
        let mut screen = Screen::new(palette);
        screen.set_theme(theme);
        Self {
            screen,
            buffer: Vec::new(),
            shown: None,
            frames: 0,
            drawn_at: Moment::default(),
            text_at: None,
            is_behind: false,
            text_rows: 0,
            question: None,
        }
    }

    pub(super) fn has_colors(&self) -> bool {
        self.screen.has_colors()
    }

    /// Draws with this theme from now on.
    pub(super) fn set_theme(&mut self, theme: Theme) {
        self.screen.set_theme(theme);
        self.shown = None;
    }

    /// Draws the next frame completely, because the content of the terminal is unknown.
    pub(super) fn invalidate(&mut self) {
        self.screen.invalidate();
        self.shown = None;
    }

    /// The content of the screen was replaced.
    pub(super) fn forget_screen(&mut self) {
        self.screen.invalidate();
    }

    /// The bytes that change what is displayed into this frame.
    pub(super) fn draw(&mut self, frame: &Frame, selection: &Selection) -> &[u8] {
        self.buffer.clear();
        if *selection == Selection::default() {
            self.screen.draw(frame, &mut self.buffer);
        } else {
            let mut marked = frame.clone();
            selection.mark(&mut marked.rows);
            self.screen.draw(&marked, &mut self.buffer);
        }
        &self.buffer
    }

    /// The rows that are displayed.
    pub(super) fn rows(&self) -> &[Row] {
        self.screen.rows()
    }

    /// The rows as lines of a screen that scrolls.
    pub(super) fn rows_as_lines(&self, rows: &[Row], columns: u16) -> Vec<u8> {
        self.screen.rows_as_lines(rows, columns)
    }

    /// Whether a frame has to be drawn although nothing has changed.
    pub(super) fn is_stale(&self) -> bool {
        self.is_behind || self.shown.is_none()
    }

    /// The part of this question that was shown in rows of this width.
    pub(super) fn question_view(&self, agent_id: AgentId, number: u64, columns: u16) -> Option<&QuestionView> {
        self.question.as_ref().filter(|view| view.is_of(agent_id, number, columns))
    }

    /// Whether the last frame showed this question of this agent.
    pub(super) fn has_shown(&self, agent_id: AgentId, question: u64) -> bool {
        self.shown.as_ref().is_some_and(|shown| shown.has_shown(agent_id, question))
    }
}
