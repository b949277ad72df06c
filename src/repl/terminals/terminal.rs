//! One terminal: its keys, its screen, its size, and the agent that it shows. Its drafts are with
//! the agents, except that of a read-only terminal.

use std::collections::{BTreeSet, VecDeque};
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::base::clock::Moment;
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::choices::Choices;
use crate::domain::display::{DisplaySettings, Progress, StatusReport};
use crate::domain::draft::Draft;
use crate::domain::draft::vi::Vi;
use crate::domain::frame::{Frame, Row};
use crate::domain::key::{Key, MouseAction};
use crate::domain::keymap::Chord;
use crate::domain::theme::{ThemeSettings, is_light};
use crate::reactor::{Reactor, Ready, Source};
use crate::repl::terminals::announcer::Announcer;
use crate::repl::terminals::device::{Device, RemoteTerminal};
use crate::repl::terminals::display::Display;
use crate::repl::terminals::inline::{Inline, Step};
use crate::repl::terminals::input::Act;
use crate::repl::terminals::key_input::Keyboard;
use crate::repl::terminals::lines::LineOutput;
use crate::repl::terminals::mentions::Mentions;
use crate::repl::terminals::popup::Popup;
use crate::repl::terminals::question::{Page, QuestionKeys, QuestionView};
use crate::repl::terminals::selection::Selection;
use crate::repl::terminals::views::View;
use crate::terminal::clipboard;
use crate::terminal::tty::ReadOutcome;

/// The permissions of a terminal, and whether the program ends with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TerminalMode {
    /// It can scroll and switch agents, but not change anything. Its draft and scroll position are its own.
    pub is_read_only: bool,
    /// It belongs to a client: `/exit` and Ctrl+C only detach it, and the program continues.
    pub is_attached: bool,
    /// Its lines come from a program, which is offered no panel.
    pub is_scripted: bool,
}

/// A request to the owner of an attached terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalRequest {
    /// Release the terminal, then call `Repl::detach_device`. It is neither read nor drawn any more.
    Detach,
    /// Suspend the terminal's own process; when it continues, call [`Terminal::redraw`].
    Suspend,
}

/// A terminal that shows an agent.
pub struct Terminal {
    /// The agent that it shows; always in the roster.
    pub focus: AgentId,
    /// Columns and rows.
    pub size: (u16, u16),
    pub(in crate::repl) mode: TerminalMode,
    /// When it was attached, in milliseconds since 1970.
    pub(in crate::repl) since: i64,
    pub(super) input: InputState,
    pub(super) display: Display,
    pub(super) keyboard: Keyboard,
    announcer: Announcer,
    /// The printed part, without the alternate screen.
    pub(super) inline: Option<Inline>,
    /// The printed lines, in line mode.
    pub(super) lines: Option<LineOutput>,
    device: Device,
    requests: Vec<TerminalRequest>,
    is_gone: bool,
    /// Nothing more will be typed here.
    has_ended: bool,
    /// The next line, of a program, is a text that waits until the agent is idle or asks.
    is_held: bool,
    /// The agents that it has shown, if its lines come from a program.
    pub(in crate::repl) shown: BTreeSet<AgentId>,
    is_detached: bool,
    /// The choices of conversations that begin here.
    pub(super) begins_with: Choices,
    /// The conversations that were begun here.
    pub(super) begun: Vec<AgentId>,
    /// The agent whose draft is in an editor, which also has the terminal.
    pub(super) edited: Option<AgentId>,
    /// The shell has the terminal, while this process goes on.
    pub(super) is_at_shell: bool,
    /// It was continued in the background: no signal tells when it is in the foreground again.
    pub(super) may_come_back: bool,
}

/// A text above the input until the next key.
pub(super) struct Notice {
    pub text: String,
    /// The agent that it is about: if another one is shown before the next key, the text goes to that one.
    pub about: Option<AgentId>,
}

/// The input and state of this terminal alone.
#[derive(Default)]
pub(super) struct InputState {
    /// The draft of a read-only terminal; of others always empty.
    pub draft: Draft,
    /// The input of the history that is in the draft.
    pub recalled: Option<Recalled>,
    pub notice: Option<Notice>,
    /// How many notes above replies of the agent shown were there at the last key: those after them are shown above the
    /// input.
    pub asides: u64,
    /// The view in place of the conversation.
    pub view: Option<View>,
    /// The text that was typed in a view and not sent.
    pub view_draft: Draft,
    /// Acts of a key that are still to be done.
    pub acts: VecDeque<(AgentId, Act)>,
    /// The open list below the input.
    pub popup: Option<Popup>,
    /// The search for files of that list.
    pub mentions: Option<Mentions>,
    /// A line that is carried out if it is entered again.
    pub repeats: Option<Repeat>,
    /// The mode of vi, if the input is edited with it.
    pub vi: Vi,
    /// The key that began a binding of two keys.
    pub prefix: Option<Chord>,
    /// The previous key was an Esc without an effect.
    pub is_escaped: bool,
    /// Until when a second Ctrl+C leaves.
    pub leaves_until: Option<Moment>,
    pub selection: Selection,
    /// The call that Enter opens, by the number of its line.
    pub selected: Option<i64>,
    /// The row of the conversation that was clicked.
    pub clicked: Option<u16>,
    /// Changes with the draft and the scroll position of a read-only terminal.
    pub revision: u64,
}

/// A line that is carried out if it is entered again.
pub(super) struct Repeat {
    pub line: String,
    /// A held key does not enter it.
    pub from: Moment,
    pub until: Moment,
}

/// A position in the history of inputs.
pub(super) struct Recalled {
    /// Counted from the newest.
    pub newer: usize,
    /// The draft to return to.
    pub typed: Draft,
}

impl Terminal {
    pub(in crate::repl) fn new(
        device: Device,
        focus: AgentId,
        mode: TerminalMode,
        settings: &DisplaySettings,
        unix_ms: i64,
    ) -> Self {
        let mut abilities = device.abilities();
        abilities.is_plain |= settings.plain && matches!(device, Device::Terminal(_));
        abilities.is_inline |= device.is_inline();
        let theme = settings.theme.theme(false, abilities.depth);
        let is_inline = abilities.is_inline && !abilities.is_plain;
        let mut terminal = Self {
            focus,
            size: (80, 24),
            mode,
            since: unix_ms,
            input: InputState::default(),
            display: Display::new(device.palette(), theme.clone()),
            announcer: Announcer::new(abilities, settings),
            keyboard: Keyboard::new(abilities.is_plain),
            inline: is_inline.then(|| Inline::new(device.palette(), abilities.reflows)),
            lines: abilities.is_plain.then(LineOutput::default),
            device,
            requests: Vec::new(),
            is_gone: false,
            has_ended: false,
            is_held: false,
            shown: BTreeSet::new(),
            is_detached: false,
            begins_with: Choices::default(),
            begun: Vec::new(),
            edited: None,
            is_at_shell: false,
            may_come_back: false,
        };
        terminal.inline.iter_mut().for_each(|inline| inline.screen.set_theme(theme.clone()));
        terminal.measure();
        terminal
    }

    /// Whether text on it may have colours.
    pub(super) fn shows_colors(&self) -> bool {
        self.lines.is_none() && self.display.has_colors()
    }

    /// Its buffers, if it is remote.
    pub fn remote(&mut self) -> Option<&mut RemoteTerminal> {
        match &mut self.device {
            Device::Remote(remote) => Some(remote),
            Device::Terminal(_) => None,
        }
    }

    /// Bytes of keys that are buffered for it: not decoded yet, or of an unfinished paste.
    pub fn buffered_bytes(&self) -> usize {
        self.device.waiting_bytes() + self.keyboard.pending_bytes()
    }

    /// Whether there are requests or output for its owner.
    pub fn has_output(&self) -> bool {
        !self.requests.is_empty() || matches!(&self.device, Device::Remote(remote) if !remote.output.is_empty())
    }

    /// The requests since the last call, in order.
    pub fn take_requests(&mut self) -> Vec<TerminalRequest> {
        std::mem::take(&mut self.requests)
    }

    /// Whether it is read and drawn, and no other program has it.
    fn has_screen(&self) -> bool {
        self.edited.is_none() && !self.is_at_shell
    }

    /// Draws the next frame completely, because the content of the terminal is unknown.
    pub fn redraw(&mut self) {
        self.invalidate();
        self.announcer.forget();
    }

    fn invalidate(&mut self) {
        self.display.invalidate();
        self.inline.iter_mut().for_each(|inline| inline.screen.invalidate());
    }

    /// Whether the conversation is printed on it at the end: not into an editor.
    pub(super) fn prints_end(&self) -> bool {
        self.is_local() && self.lines.is_none() && self.has_screen()
    }

    /// Where the person has opened it, unless that is where this process was started.
    pub(super) fn directory(&self) -> Option<&Path> {
        match &self.device {
            Device::Remote(remote) => remote.directory.as_deref(),
            Device::Terminal(_) => None,
        }
    }

    pub(in crate::repl) fn is_local(&self) -> bool {
        matches!(self.device, Device::Terminal(_))
    }

    /// Registers the terminal, for writing only while the screen has not taken everything.
    pub(in crate::repl) fn watch(&mut self, reactor: &mut Reactor) -> Result<()> {
        let Device::Terminal(tty) = &self.device else { return Ok(()) };
        if !self.has_screen() {
            return Ok(());
        }
        let has_backlog = tty.has_backlog();
        if !reactor.is_watched(Source::Terminal) || has_backlog {
            reactor.watch(Source::Terminal, tty.as_raw_fd(), true, has_backlog)?;
        }
        Ok(())
    }

    /// Handles a new size, flushes output, and reads keys, which are handled later, one by one.
    pub(in crate::repl) fn on_ready(&mut self, ready: &[Ready], reactor: &mut Reactor, now: Moment) -> Result<()> {
        self.keyboard.begin_turn();
        if !self.is_local() || !self.has_screen() {
            return Ok(());
        }
        if self.is_resized() {
            self.measure();
        }
        let is_local = self.is_local();
        let mut own =
            ready.iter().filter(|item| is_local && item.source == Source::Terminal).map(|item| item.readiness);
        if own.clone().any(|readiness| readiness.writable) {
            self.flush();
        }
        let is_ready = own.any(|readiness| readiness.readable);
        if self.is_waiting_for_search() {
            if is_ready {
                self.keyboard.leave_input();
            }
            return Ok(());
        }
        let is_due = self.key_deadline().is_some_and(|at| at <= now);
        if is_ready || is_due || self.has_input() {
            self.read_keys(now)?;
            reactor.rearm(Source::Terminal)?;
        }
        Ok(())
    }

    /// Handles a new size and keys from a client.
    pub(in crate::repl) fn read_remote(&mut self, now: Moment) -> Result<()> {
        if self.is_resized() {
            self.measure();
        }
        let is_due = self.key_deadline().is_some_and(|at| at <= now);
        if is_due || self.has_input() { self.read_keys(now) } else { Ok(()) }
    }

    fn read_keys(&mut self, now: Moment) -> Result<()> {
        self.is_gone |= self.keyboard.read(&mut self.device, now)? == ReadOutcome::Closed;
        Ok(())
    }

    /// The meaning of a key that was received with the last ones for this question.
    pub(super) fn question_keys(&self, agent_id: AgentId, question: u64) -> QuestionKeys {
        let view = self.display.question.as_ref().filter(|_| self.display.has_shown(agent_id, question));
        view.map(|view| view.keys(self.keyboard.read_at())).unwrap_or_default()
    }

    /// When the frame has to say that keys answer the question.
    pub(super) fn question_deadline(&self) -> Option<Moment> {
        let drawn = self.display.shown.as_ref()?.question_keys()?;
        self.display.question.as_ref().filter(|_| self.is_ready())?.next_change(drawn)
    }

    /// Notes which part of a question the frame showed.
    pub(super) fn note_question(&mut self, asked: Option<(AgentId, u64, Page)>, has_whole_rules: bool, now: Moment) {
        let question = &mut self.display.question;
        let Some((agent_id, number, page)) = asked else {
            return question.iter_mut().for_each(QuestionView::on_hidden);
        };
        let columns = self.size.0;
        let view = match question.take().filter(|view| view.is_about(agent_id, number)) {
            Some(view) if view.is_of(agent_id, number, columns) => view,
            Some(view) => view.resized(columns, now),
            None => QuestionView::new(agent_id, number, columns, now),
        };
        let view = question.insert(view);
        view.on_drawn(page, now);
        view.on_rules_drawn(has_whole_rules, now);
    }

    /// Nothing more will be typed here.
    pub(in crate::repl) fn end_input(&mut self) {
        self.has_ended = true;
    }

    /// A text of a program waits while the agent shown is at work and asks nothing, so that it does not depend on the speed
    /// of a model whether it is the next message or an answer. Commands do not wait.
    pub(super) fn hold_texts(&mut self, is_at_work: bool) {
        let is_text = |key: &Key| matches!(key, Key::Paste(text) if !text.is_empty() && !text.starts_with(['/', '!']));
        self.is_held = is_at_work && self.keyboard.peek().is_some_and(is_text);
    }

    pub(in crate::repl) fn is_held(&self) -> bool {
        self.is_held
    }

    /// Whether everything that was typed here is done and everything drawn is sent, and nothing more will be typed.
    pub(in crate::repl) fn is_through(&self) -> bool {
        self.has_ended && !self.is_held && !self.has_leftover() && self.input.acts.is_empty() && !self.has_output()
    }

    /// Whether the terminal of this process has hung up.
    pub(in crate::repl) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// The next key, unless the limit of this turn is reached.
    pub(in crate::repl) fn next_key(&mut self) -> Option<Key> {
        let may_read = !self.is_detached && !self.is_held && self.has_screen() && !self.is_waiting_for_search();
        if may_read { self.keyboard.next_key() } else { None }
    }

    /// Whether the next key may concern a result of the running search.
    fn is_waiting_for_search(&self) -> bool {
        let view = self.input.view.as_ref();
        view.zip(self.keyboard.peek()).is_some_and(|(view, key)| view.is_waited_with(key))
    }

    /// Whether keys wait for the next turn.
    pub(in crate::repl) fn has_keys(&self) -> bool {
        !self.is_detached && self.has_screen() && self.keyboard.has_keys()
    }

    /// When an incomplete key sequence is taken as it is, or keys wait no longer for a search.
    pub(in crate::repl) fn key_deadline(&self) -> Option<Moment> {
        let search = self.input.view.as_ref().and_then(|view| view.searches_until());
        let earliest = self.keyboard.deadline().into_iter().chain(search).min();
        earliest.filter(|_| !self.is_detached && self.has_screen())
    }

    /// Whether a search for its view is running.
    pub(in crate::repl) fn is_searching(&self) -> bool {
        self.input.view.as_ref().is_some_and(|view| view.searches_until().is_some())
    }

    /// The content of the screen, as lines of text.
    pub(crate) fn shown_lines(&self) -> Vec<String> {
        self.display.rows().iter().map(Row::text).collect()
    }

    /// Whether it is detached: nothing is read or drawn any more.
    pub fn is_detached(&self) -> bool {
        self.is_detached
    }

    /// Whether there is something to read without waiting: bytes, decoded keys, or a hang-up.
    pub(in crate::repl) fn has_input(&self) -> bool {
        !self.is_detached
            && !self.is_held
            && self.has_screen()
            && !self.is_waiting_for_search()
            && (self.is_gone || self.keyboard.has_input() || self.device.waiting_bytes() > 0)
    }

    /// Whether there is something to do at once: to read, or to draw.
    pub(in crate::repl) fn has_leftover(&self) -> bool {
        self.has_input() || self.is_ready() && (self.display.is_stale() || self.is_resized())
    }

    pub(in crate::repl) fn is_resized(&self) -> bool {
        matches!(&self.device, Device::Remote(remote) if remote.size != self.size)
    }

    /// Reads the size and redraws everything.
    pub(in crate::repl) fn measure(&mut self) {
        self.size = self.device.size(self.size);
        self.invalidate();
    }

    /// Whether a frame may be drawn now.
    pub(in crate::repl) fn is_ready(&self) -> bool {
        !self.is_detached && self.has_screen() && self.device.takes_more()
    }

    /// Draws a frame by sending the differences, and returns other changes.
    pub(in crate::repl) fn show(&mut self, frame: &Frame, title: String, progress: Progress) {
        self.device.write(self.display.draw(frame, &self.input.selection));
        self.device.write(self.announcer.after_frame(title, progress).as_bytes());
        self.flush();
    }

    /// Draws on the main screen, but a list or scrolled-back text on the alternate one.
    pub(super) fn show_inline(&mut self, step: Option<Step>, frame: &Frame, title: String, progress: Progress) {
        let Some(inline) = &mut self.inline else { return };
        let is_overlaid = step.is_none();
        if inline.is_overlaid != is_overlaid {
            inline.is_overlaid = is_overlaid;
            self.device.set_overlaid(is_overlaid);
            self.display.forget_screen();
        }
        let Some(Step { printed, live, cursor }) = step else { return self.show(frame, title, progress) };
        self.device.write(&inline.screen.draw(&printed, live, cursor, frame.width));
        self.device.write(self.announcer.after_frame(title, progress).as_bytes());
        self.flush();
    }

    /// Prints text, in line mode.
    pub(super) fn print(&mut self, text: &str) {
        self.device.write(text.as_bytes());
        self.flush();
    }

    /// Prints a line on the screen of the shell, after [`Terminal::suspend`].
    pub(in crate::repl) fn print_line(&mut self, line: &str) {
        if let Device::Terminal(tty) = &mut self.device {
            tty.print(line.as_bytes());
        }
    }

    /// Prints rows on the screen of the shell, which shows them after the program has ended.
    pub(super) fn print_end(&mut self, rows: &[Row]) {
        if let Device::Terminal(tty) = &mut self.device {
            tty.print(&self.display.rows_as_lines(rows, self.size.0));
        }
    }

    /// Takes the terminal's reports about itself. Returns false for a key.
    pub(super) fn take_report(&mut self, key: &Key, theme: &ThemeSettings) -> bool {
        match key {
            Key::Focus(has_focus) => self.announcer.set_focus(*has_focus),
            Key::Background(rgb) if theme.follows_background() => {
                let theme = theme.theme(is_light(*rgb), self.device.abilities().depth);
                self.inline.iter_mut().for_each(|inline| inline.screen.set_theme(theme.clone()));
                self.display.set_theme(theme);
            }
            Key::Background(_) => {}
            Key::ShowsStatus => self.announcer.accept_reports(),
            Key::Mouse(action, column, row) => self.on_mouse(*action, *column, *row),
            _ => {
                self.input.revision += u64::from(self.input.selection.clear());
                return false;
            }
        }
        true
    }

    /// Selects, and copies the selection when the button is released.
    fn on_mouse(&mut self, action: MouseAction, column: u16, row: u16) {
        let before = self.input.selection;
        let is_click = action == MouseAction::Release && before.is_click(column, row);
        self.input.clicked = Some(row).filter(|row| is_click && *row < self.display.text_rows);
        if self.input.selection.on_mouse(action, column, row) {
            let text = self.input.selection.text(self.display.rows());
            let copied = if text.is_empty() { Ok(()) } else { self.copy(&text) };
            let text = match copied {
                Ok(()) => format!("copied {}", text::counted(text.lines().count(), "line", "lines")),
                Err(error) => error.message,
            };
            self.input.notice = Some(Notice { text, about: None });
        }
        self.input.revision += u64::from(self.input.selection != before);
    }

    /// Whether it shows what the agents do, and takes output now.
    pub(super) fn takes_reports(&self) -> bool {
        self.announcer.takes_reports() && self.is_ready()
    }

    /// Says what has changed in these reports.
    pub(super) fn report(&mut self, reports: Vec<StatusReport>) {
        let out = self.announcer.report(reports);
        if !out.is_empty() {
            self.device.write(out.as_bytes());
            self.flush();
        }
    }

    /// Whether the person looks elsewhere.
    pub(super) fn is_away(&self) -> bool {
        self.is_at_shell || self.announcer.is_away()
    }

    /// Says that agents need the person, unless the terminal accepts no output.
    pub(super) fn alert(&mut self, message: &str) {
        if self.is_ready() {
            self.device.write(self.announcer.alert(message).as_bytes());
            self.flush();
        }
    }

    /// Puts a text into the clipboard of the terminal.
    pub(in crate::repl) fn copy(&mut self, text: &str) -> Result<()> {
        if self.lines.is_some() {
            return Err(Error::usage("/copy needs a terminal with control sequences: /export writes a file"));
        }
        let sequence = clipboard::sequence(text, self.device.abilities().is_in_tmux).ok_or_else(|| {
            let (have, most) = (text.len(), clipboard::LIMIT);
            let message = format!("too long for the clipboard: {have} bytes, at most {most}; /export writes a file");
            Error::usage(message)
        })?;
        if !self.is_ready() {
            return Err(Error::usage("this terminal accepts no output at the moment: try again"));
        }
        self.device.write(sequence.as_bytes());
        self.flush();
        Ok(())
    }

    /// Sends buffered output. After an error the terminal has hung up.
    pub(in crate::repl) fn flush(&mut self) {
        if let Device::Terminal(tty) = &mut self.device {
            self.is_gone |= tty.flush().is_err();
        }
    }

    pub(in crate::repl) fn detach(&mut self) {
        self.is_detached = true;
        self.requests.push(TerminalRequest::Detach);
    }

    /// Asks its owner to stop the terminal's process.
    pub(in crate::repl) fn request_suspend(&mut self) {
        // One request is enough until its owner has taken it.
        if !self.requests.contains(&TerminalRequest::Suspend) {
            self.requests.push(TerminalRequest::Suspend);
        }
    }

    /// Restores the state of the terminal. It may have hung up, so errors are ignored.
    pub(in crate::repl) fn suspend(&mut self) {
        if let Some(inline) = &mut self.inline {
            if std::mem::take(&mut inline.is_overlaid) {
                self.device.set_overlaid(false);
            }
            let erased = inline.screen.erase(self.device.size(self.size).0);
            self.device.write(&erased);
        }
        if let Device::Terminal(tty) = &mut self.device {
            drop(tty.leave());
        }
    }

    /// Whether the shell has given a local terminal to this process.
    pub(super) fn is_in_foreground(&self) -> bool {
        matches!(&self.device, Device::Terminal(tty) if tty.is_in_foreground())
    }

    pub(in crate::repl) fn resume(&mut self) -> Result<()> {
        self.is_at_shell &= !self.is_in_foreground();
        self.may_come_back = self.is_at_shell;
        if let Device::Terminal(tty) = &mut self.device
            && self.edited.is_none()
            && !self.is_at_shell
        {
            tty.enter()?;
            self.announcer.forget();
        }
        self.measure();
        Ok(())
    }
}
