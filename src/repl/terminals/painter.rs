//! Paints an agent into the rows of a frame. Reads only.

use crate::agent::{Agent, PendingQuestion, State};
use crate::base::text;
use crate::domain::display::Progress;
use crate::domain::draft::{Draft, DraftLayout};
use crate::domain::frame::{Color, Frame, Row, Style, StyledLine};
use crate::domain::scrollback::Reader;
use crate::repl::core::activity::one_line;
use crate::repl::terminals::conversation;
use crate::repl::terminals::draw::{GUTTER, QUEUE_ROWS, is_large_enough_to_ask, text_width};
use crate::repl::terminals::pane::hint_row;
use crate::repl::terminals::popup::Popup;
use crate::repl::terminals::question::{Entry, Page, QuestionKeys, QuestionView, RowPosition};
use crate::repl::terminals::separator::Separator;
use crate::repl::terminals::status::StatusLine;
use crate::tools::{Answers, visible};

/// Rows that the text keeps while a question does not fit.
const TEXT_ROWS_BESIDE_QUESTION: usize = 2;
/// The share of the rows that notes about a reply may take from it.
const ASIDE_ROWS: (usize, usize) = (2, 3);
/// Rows of what a running command writes.
const LIVE_ROWS: usize = 5;
const SPINNER: [&str; 8] = ["⣾", "⣽", "⣻", "⢿", "⡿", "⣟", "⣯", "⣷"];

/// The fewest columns on which all keys of a question are named.
const COLUMNS_FOR_ALL_KEYS: u16 = 60;
/// Precedes the text of a question and the hint about its keys.
const INDENT: &str = "  ";
/// A longer title of a question is cut off; its text has all of it.
const TITLE_ROWS: usize = 2;
/// On fewer columns what the agent does has one row.
const NARROW: usize = 38;
const TOO_SMALL_FOR_RULES: &str = "enlarge to see the rules; Esc goes back to the question";

/// A question, or the rules in its place.
#[derive(Default)]
pub(super) struct QuestionRows {
    pub rows: Vec<Row>,
    pub page: Option<Page>,
    /// The rows are the rules that "always" would give, and for whom.
    pub has_whole_rules: bool,
}

impl QuestionRows {
    pub fn of(rows: Vec<Row>) -> Self {
        Self { rows, ..Self::default() }
    }
}

/// The content of a frame besides the agent.
pub(super) struct ScreenInfo<'a> {
    pub separator: Separator,
    pub status: StatusLine<'a>,
    /// Where rules for the directory of the agent can be saved.
    pub rule_file: Option<String>,
}

pub(super) struct Painted {
    pub frame: Frame,
    /// The part of the question that is shown.
    pub page: Option<Page>,
    /// The rules that "always" would give are shown in its place.
    pub has_whole_rules: bool,
}

/// The data of a frame besides the agent.
pub(crate) struct Painter<'a> {
    pub(super) size: (u16, u16),
    pub(super) spinner: u128,
    pub(super) notice: Option<String>,
    /// How many notes above the reply were seen; `None` if they are not shown above the input.
    pub(super) asides: Option<u64>,
    pub(super) draft: Option<&'a Draft>,
    pub(super) reader: Reader,
    /// The content of a conversation without messages.
    pub(super) overview: Vec<Row>,
    pub(super) screen_info: ScreenInfo<'a>,
    pub(super) activity: String,
    /// The part of the question that the terminal has shown before.
    pub(super) question: Option<&'a QuestionView>,
    pub(super) question_keys: QuestionKeys,
    /// Keys are commands of vi.
    pub(super) is_vi_normal: bool,
    /// The call that is selected, by the number of its line.
    pub(super) selected: Option<i64>,
    /// The open list.
    pub(super) popup: Option<&'a Popup>,
}

impl Painter<'_> {
    pub(super) fn paint(&self, agent: &Agent) -> Painted {
        let (columns, height) = (usize::from(self.size.0), usize::from(self.size.1));
        let most = if agent.question().is_some() { (height / 6).max(1) } else { (height / 3).max(1) };
        let (input, cursor) = self.input_rows(most);
        // On a tiny screen only the input is shown.
        let mut room = height.saturating_sub(input.len());
        let mut take = |rows: usize| {
            let is_room = room >= rows;
            room -= if is_room { rows } else { 0 };
            is_room
        };
        let status = take(1).then(|| self.row(self.screen_info.status.row(agent, columns)));
        let separator = take(1).then(|| self.row(self.screen_info.separator.row(columns)));
        let (popup, query_column) = self.popup_rows(room.saturating_sub(1));
        room -= popup.len();
        let QuestionRows { rows: notices, page, has_whole_rules } = self.notice_rows(agent, room);
        room -= notices.len();
        let spinner = self.spinner_rows(agent, room.saturating_sub(1));
        room -= spinner.len();
        let asides = self.aside_rows(agent, room);
        let live = self.live_rows(agent, room - asides.len());
        let text_rows = room - asides.len() - live.len();
        let mut rows = self.text_rows(agent, text_rows);
        rows.extend(live);
        rows.extend(spinner.into_iter().chain(separator).chain(asides).chain(notices));
        let cursor = match query_column {
            Some(column) => (column, input.len()),
            None => cursor,
        };
        let cursor_row = rows.len() + cursor.1;
        rows.extend(input.into_iter().chain(popup).chain(status));
        let cursor = (cursor.0.min(self.size.0.saturating_sub(1)), u16::try_from(cursor_row).unwrap_or(0));
        let scrolling_rows = u16::try_from(text_rows).unwrap_or(0);
        Painted {
            frame: Frame { width: self.size.0, rows, cursor: Some(cursor), scrolling_rows },
            page,
            has_whole_rules,
        }
    }

    pub(super) fn status_row(&self, agent: &Agent) -> Option<Row> {
        Some(self.row(self.screen_info.status.row(agent, self.size.0.into())))
    }

    /// The open list, and the column of the cursor in its first row, if that is a line of its own.
    fn popup_rows(&self, room: usize) -> (Vec<Row>, Option<u16>) {
        let (rows, cursor) = self.popup.map(|popup| popup.rows(self.size.0.into(), room)).unwrap_or_default();
        (rows.into_iter().map(|row| self.row(row)).collect(), cursor)
    }

    /// The title of the window.
    pub(super) fn title(&self, agent: &Agent) -> String {
        self.screen_info.separator.title(agent.question().is_some(), agent.view.is_spinning())
    }

    /// The icon of the window.
    pub(super) fn progress(&self, agent: &Agent) -> Progress {
        let separator = &self.screen_info.separator;
        match () {
            () if agent.question().is_some() || separator.asking.count > 0 => Progress::Asks,
            () if agent.view.is_spinning() || separator.at_work > 0 => Progress::Working,
            () => Progress::None,
        }
    }

    fn text_rows(&self, agent: &Agent, height: usize) -> Vec<Row> {
        let mut rows = conversation::rows(&agent.view.scrollback, self.reader, self.size.0, height, self.selected);
        if !self.overview.is_empty() {
            let first = rows.iter().rposition(|row| !row.spans.is_empty()).map_or(0, |last| last + 2);
            let place = rows.get_mut(first..first + self.overview.len());
            place.into_iter().for_each(|place| place.clone_from_slice(&self.overview));
        }
        rows
    }

    /// The last rows of the conversation, without blank ones around them.
    pub(super) fn last_rows(&self, agent: &Agent, height: u16) -> Vec<Row> {
        let mut rows = self.text_rows(agent, height.into());
        let is_blank = |row: &Row| row.text().trim().is_empty();
        rows.truncate(rows.iter().rposition(|row| !is_blank(row)).map_or(0, |last| last + 1));
        let first = rows.iter().position(|row| !is_blank(row)).unwrap_or(0);
        rows.split_off(first)
    }

    /// The last lines that a running command has written.
    fn live_rows(&self, agent: &Agent, room: usize) -> Vec<Row> {
        let Some(output) = agent.live_output().filter(|_| room > LIVE_ROWS * 2) else { return Vec::new() };
        let rows = conversation::live_rows(&output, "│ ", self.size.0, LIVE_ROWS);
        rows.into_iter().map(|row| self.row(row)).collect()
    }

    /// What the agent does, in at most this many rows. If there is room, a second one has the rest of why it waits.
    fn spinner_rows(&self, agent: &Agent, most: usize) -> Vec<Row> {
        if !agent.view.is_spinning() {
            return Vec::new();
        }
        let picture = SPINNER[usize::try_from(self.spinner % SPINNER.len() as u128).unwrap_or(0)];
        let columns = usize::from(self.size.0.saturating_sub(2)).max(1);
        let most = most.min(if columns < NARROW { 1 } else { 2 });
        let parts = text::wrap(&self.activity, columns).take(most).enumerate();
        let row = |(at, (start, part)): (usize, (usize, &str))| {
            let sign = if at == 0 { format!("{picture} ") } else { "  ".to_owned() };
            let is_last = at + 1 == most;
            let part = if is_last { text::shortened(&self.activity[start..], columns) } else { part.into() };
            let mut row = Row::of(sign, Style::color(Color::Activity));
            row.push(part.into_owned(), Style::DIM);
            self.row(row)
        };
        parts.map(row).collect()
    }

    /// The rows above the input: the question, then the notice of the terminal, then the queue.
    fn notice_rows(&self, agent: &Agent, room: usize) -> QuestionRows {
        let QuestionRows { mut rows, page, has_whole_rules } = match agent.question() {
            Some(pending) => self.question_rows(pending, room, self.draft.is_some_and(|draft| !draft.is_empty())),
            None => QuestionRows::default(),
        };
        let columns = usize::from(self.size.0).max(1);
        for line in self.notice.iter().flat_map(|notice| notice.lines()) {
            let line = text::sanitise(line);
            rows.extend(text::wrap(&line, columns).map(|(_, part)| Row::of(part, Style::color(Color::Attention))));
        }
        let queued = agent.queue.iter().enumerate().take(QUEUE_ROWS);
        rows.extend(
            queued.map(|(at, text)| Row::of(format!("  queued {}: {}", at + 1, one_line(&text.line())), Style::DIM)),
        );
        if agent.queue.len() > QUEUE_ROWS {
            rows.push(Row::of(format!("  and {} more", agent.queue.len() - QUEUE_ROWS), Style::DIM));
        }
        rows.extend(self.offer(agent).map(|offer| Row::of(offer, Style::DIM)));
        rows.truncate(room);
        let rows = rows.into_iter().map(|row| self.row(row)).collect();
        QuestionRows { rows, page, has_whole_rules }
    }

    /// The hint about keys for a refused command, or about Enter and Up on an empty input of an idle agent.
    fn offer(&self, agent: &Agent) -> Option<&'static str> {
        let has_queue = !agent.queue.is_empty() && agent.state() == State::Idle;
        let can_retry = agent.can_retry() && !self.screen_info.status.is_read_only;
        match (has_queue, can_retry) {
            _ if self.is_refused() => Some("  refused: type to replace it, an arrow key keeps it"),
            (true, true) if agent.has_failed() => {
                Some("  failed, and the queue is paused: Enter tries again, Up edits the last entry")
            }
            (true, _) => Some("  the queue is paused: Enter sends the first entry, Up edits the last"),
            (false, true) if self.draft.is_some_and(|draft| !draft.is_empty()) => None,
            (false, true) if agent.has_failed() => Some("  failed: Enter tries again, Up edits the message"),
            (false, true) => Some("  interrupted: Enter tries again, Up edits the message"),
            (false, false) => None,
        }
    }

    /// The newest notes above the reply that are not whole on the screen, as many as fit. The reply keeps some of the rows.
    fn aside_rows(&self, agent: &Agent, height: usize) -> Vec<Row> {
        let (width, room) = (text_width(self.size.0), height * ASIDE_ROWS.0 / ASIDE_ROWS.1);
        let Some(seen) = self.asides.filter(|_| room > 0) else { return Vec::new() };
        let scrollback = &agent.view.scrollback;
        let rows = u16::try_from(height).unwrap_or(u16::MAX);
        let hidden =
            agent.view.asides_after(seen).filter(|note| !scrollback.shows(&note.lines, self.reader, width, rows));
        let mut shown: Vec<Row> = Vec::new();
        for note in hidden.rev() {
            let style = Style { dim: false, ..conversation::style_of(note.kind) };
            let safe = text::expand_tabs(&text::sanitise(&note.text)).into_owned();
            let mut rows: Vec<Row> =
                safe.trim_end().lines().flat_map(|line| self.wrap_rows(INDENT, line, style)).collect();
            if shown.is_empty() && rows.len() > room {
                let more = text::counted(rows.len() + 1 - room, "more row", "more rows");
                rows.truncate(room - 1);
                rows.extend(self.wrap_rows(INDENT, &format!("… {more} above the reply"), Style::DIM));
            }
            if shown.len() + rows.len() > room {
                break;
            }
            shown.splice(0..0, rows);
        }
        shown.into_iter().map(|row| self.row(row)).collect()
    }

    /// The question with the exact command or change: all of it, or a page if it does not fit. On a screen without room for
    /// that it cannot be answered.
    pub(super) fn question_rows(&self, pending: &PendingQuestion, room: usize, is_typing: bool) -> QuestionRows {
        let attention = Style::color(Color::Attention);
        let title = self.title_rows(pending);
        let page = self.question_page(pending, title.len(), room).filter(|_| is_large_enough_to_ask(self.size));
        let Some(page) = page else {
            return QuestionRows::of(self.wrap_rows("", "enlarge to answer", attention));
        };
        let shows_rules = self.question.is_some_and(QuestionView::shows_rules);
        let rules = if shows_rules { self.scope_rows(pending) } else { Vec::new() };
        // Rules that were not shown are not given.
        let has_whole_rules = shows_rules && rules.len() <= room;
        if has_whole_rules {
            return QuestionRows { rows: rules, page: Some(page), has_whole_rules };
        }
        let mut rows = title;
        rows.extend(page.rows.iter().map(|row| row.indented(INDENT)));
        if !page.is_whole() {
            rows.extend(self.wrap_rows(INDENT, &place_of(&page), Style::color(Color::Error)));
        }
        let hint = match shows_rules {
            true => TOO_SMALL_FOR_RULES.to_owned(),
            false => self.question_hint(pending, &page, is_typing),
        };
        let key = Style { bold: true, ..attention };
        let columns = usize::from(self.size.0).saturating_sub(INDENT.len()).max(1);
        rows.extend(text::wrap(&hint, columns).map(|(_, hint)| hint_row(hint, attention, key).indented(INDENT)));
        QuestionRows { rows, page: Some(page), has_whole_rules }
    }

    /// The call in one line, which may be all of the command.
    fn title_rows(&self, pending: &PendingQuestion) -> Vec<Row> {
        let attention = Style::color(Color::Attention);
        if let Some(command) = self.command_in_title(pending) {
            let mut line = StyledLine::of(format!("{}{}: ", pending.question.answers.ask, pending.tool), attention);
            line.push(command, Style::BOLD);
            return line.wrap(self.size.0.into());
        }
        let title = format!("{}{}", pending.question.answers.ask, one_line(&pending.question.title));
        let most = usize::from(self.size.0) * TITLE_ROWS;
        self.wrap_rows("", &text::shortened(&title, most), attention).into_iter().take(TITLE_ROWS).collect()
    }

    /// The command, if it is short enough to be shown whole in the title. The lines below the title begin behind it.
    fn command_in_title<'a>(&self, pending: &'a PendingQuestion) -> Option<&'a str> {
        let command = pending.command_in_title()?;
        let room = usize::from(self.size.0);
        let title = text::width(pending.question.answers.ask) + text::width(&pending.question.title);
        Some(command).filter(|_| title <= room)
    }

    /// Rows of the width of the screen, each with this indentation.
    fn wrap_rows(&self, indent: &str, line: &str, style: Style) -> Vec<Row> {
        let columns = usize::from(self.size.0).saturating_sub(indent.len()).max(1);
        text::wrap(line, columns).map(|(_, part)| Row::of(format!("{indent}{part}"), style)).collect()
    }

    /// The rules that "always" would give, and for whom.
    fn scope_rows(&self, pending: &PendingQuestion) -> Vec<Row> {
        let attention = Style::color(Color::Attention);
        let mut rows = self.wrap_rows("", "Run this, and from now on without a question:", attention);
        let written = self.question.and_then(QuestionView::rules);
        let rules = written.unwrap_or(&pending.question.ways.rules).iter();
        let given = rules.map(|rule| pending.question.ways.given(rule.clone()));
        let texts =
            given.flat_map(|rule| [Some(rule.to_string()), rule.caution().map(|caution| format!("({caution})"))]);
        rows.extend(texts.flatten().flat_map(|text| self.wrap_rows(INDENT, &visible(&text), Style::BOLD)));
        let file = self.screen_info.rule_file.as_ref();
        let scopes = [
            Some("s: all agents in this directory, until polylogue exits".to_owned()),
            Some("t: this agent and those that it forks from now on".to_owned()),
            file.map(|file| format!("p: all agents in this directory, saved in {file}")),
            Some("e: edit the rules".to_owned()),
            Some("n: back to the question".to_owned()),
        ];
        let entry = self.question.and_then(QuestionView::entry);
        let scopes = match entry {
            Some(entry) => [Some(entry_hint(pending, entry)), None, None, None, None],
            None => scopes,
        };
        rows.extend(
            scopes.into_iter().flatten().flat_map(|scope| self.wrap_rows(INDENT, &text::sanitise(&scope), attention)),
        );
        rows
    }

    /// The part of the text that fits; `None` if there is no room. It does not depend on what was typed or seen.
    fn question_page(&self, pending: &PendingQuestion, title: usize, room: usize) -> Option<Page> {
        let detail = &pending.lines[usize::from(self.command_in_title(pending).is_some())..];
        let columns = usize::from(self.size.0).saturating_sub(INDENT.len()).max(1);
        let rows_of = |text: &str| text::wrap(text, columns).count();
        let around = title + hints(pending, self.size.0).iter().map(|hint| rows_of(hint)).max().unwrap_or(1);
        let left = room.checked_sub(around + 1)? + 1;
        let whole = Page::new(detail, RowPosition::default(), columns, left);
        if whole.is_whole() {
            return Some(whole);
        }
        let places = [place_of(&Page { end: RowPosition::default(), ..whole.clone() }), end_of(detail.len())];
        let left = left.checked_sub(places.iter().map(|place| rows_of(place)).max().unwrap_or(1) + 1)? + 1;
        let height = left.saturating_sub(TEXT_ROWS_BESIDE_QUESTION).max(1);
        Some(Page::new(detail, self.question.map(QuestionView::start).unwrap_or_default(), columns, height))
    }

    /// The hint about the keys.
    fn question_hint(&self, pending: &PendingQuestion, page: &Page, is_typing: bool) -> String {
        let [read_on, typing_read_on, answer, typing_answer] = hints(pending, self.size.0);
        let seen = self.question.map(QuestionView::seen).unwrap_or_default();
        let is_seen = seen.line >= page.lines || page.is_last() && page.start <= seen;
        match (self.question_keys, is_typing) {
            _ if self.screen_info.status.is_read_only => "answer at another terminal".into(),
            (QuestionKeys::Typing(entry), _) => entry_hint(pending, entry),
            (QuestionKeys::Text | QuestionKeys::Settling, _) => "…".into(),
            (_, false) if !is_seen => read_on,
            (_, true) if !is_seen => typing_read_on,
            // It ends with this frame.
            (QuestionKeys::ReadOn, _) => "…".into(),
            (QuestionKeys::Answer, true) => typing_answer,
            (QuestionKeys::Answer, _) => answer,
            // The rules are shown instead.
            (QuestionKeys::ScopeSettling | QuestionKeys::Scope, _) => String::new(),
        }
    }

    fn input_rows(&self, most: usize) -> (Vec<Row>, (u16, usize)) {
        let width = text_width(self.size.0);
        let layout = self.draft.map_or_else(|| Draft::default().layout(width), |draft| draft.layout(width));
        let style = if self.is_refused() { Style::DIM } else { Style::default() };
        self.rows_of_layout(layout, most, style)
    }

    /// The rows of a draft around its cursor, and the position of the cursor in them.
    pub(super) fn rows_of_draft(&self, draft: &Draft, most: usize) -> (Vec<Row>, (u16, usize)) {
        self.rows_of_layout(draft.layout(text_width(self.size.0)), most, Style::default())
    }

    /// Whether the input is a command that was refused.
    fn is_refused(&self) -> bool {
        self.draft.is_some_and(Draft::is_refused)
    }

    fn rows_of_layout(&self, layout: DraftLayout, most: usize, style: Style) -> (Vec<Row>, (u16, usize)) {
        let (column, at) = layout.cursor;
        // The rows around the cursor, if there are more than fit.
        let first = (at + 1).saturating_sub(most).min(layout.rows.len().saturating_sub(most));
        let prompt = if self.is_vi_normal { ": " } else { "> " };
        let shown = layout.rows.iter().enumerate().skip(first).take(most);
        let rows = shown.map(|(n, text)| {
            let mut row = Row::of(if n == 0 { prompt } else { "  " }, Style::color(Color::User));
            row.push(text.as_str(), style);
            self.row(row)
        });
        (rows.collect(), (column + GUTTER, at - first))
    }

    /// The row, no wider than the screen.
    fn row(&self, row: Row) -> Row {
        row.cut(self.size.0)
    }
}

/// The hints about keys while there is more to read and after all was seen, each also for an input that is not empty.
fn hints(pending: &PendingQuestion, columns: u16) -> [String; 4] {
    let Answers { yes, no, .. } = pending.question.answers;
    let has_rules = !pending.question.ways.rules.is_empty();
    let (always, alt_always) = if has_rules { (", a always", ", Alt+A always") } else { ("", "") };
    let edit = if pending.editable.is_some() { ", e edit" } else { "" };
    // On a narrow screen only the list of keys has them.
    let more = if columns < COLUMNS_FOR_ALL_KEYS { String::new() } else { format!(", r reason{edit}, v pager") };
    [
        format!("y to read on, n to {no}, Y to {yes} unread{more}"),
        format!("Alt+Y to read on, Alt+N to {no} (the input is not empty)"),
        format!("y to {yes}, n to {no}{always}{more}"),
        format!("Alt+Y to {yes}, Alt+N to {no}{alt_always} (the input is not empty)"),
    ]
}

/// The effect of Enter on the text typed at the question.
pub(super) fn entry_hint(pending: &PendingQuestion, entry: Entry) -> String {
    match entry {
        Entry::Reason => format!("type the reason, then Enter to {}; Esc to go back", pending.question.answers.no),
        Entry::Call => "edit the call: Enter asks about it again, Esc to go back".into(),
        Entry::Rules => "edit the rules, one per line: Enter shows them, Esc to go back".into(),
    }
}

/// Which part of a question a page is.
pub(super) fn place_of(page: &Page) -> String {
    match page.lines_after() {
        0 => end_of(page.lines),
        more => format!("… {}: PgDn shows them", text::counted(more, "more line", "more lines")),
    }
}

fn end_of(lines: usize) -> String {
    format!("the end of {}; PgUp shows those above", text::counted(lines, "line", "lines"))
}
