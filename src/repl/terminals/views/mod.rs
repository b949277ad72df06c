//! Views over many agents, which a terminal shows in place of a conversation.
//!
//! A view owns what is marked in it. What it lists is read from the agents again before every key and every frame. Printable
//! keys are keys of the view; a text is typed only after it was opened.

mod compare;
mod inbox;
mod keys;
mod picker;
mod search;
mod searching;
mod setup;
mod tile;
mod timeline;
mod together;
mod wall;

use std::hash::{DefaultHasher, Hasher};
use std::ops::{Deref, DerefMut};

use crate::agent::Agent;
use crate::base::clock::Moment;
use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, TerminalId};
use crate::base::text;
use crate::domain::change::{Change, ViewName};
use crate::domain::draft::Draft;
use crate::domain::flow::Origin;
use crate::domain::frame::{Color, Frame, Row, Style, StyledLine};
use crate::domain::key::{Key, KeyCode, TypedKind};
use crate::domain::scrollback::CodeLines;
use crate::features::FEATURES;
use crate::repl::core::Core;
pub(crate) use crate::repl::terminals::list::List;
use crate::repl::terminals::list::choice_row;
pub(crate) use crate::repl::terminals::painter::Painter;
use crate::repl::terminals::painter::{Painted, entry_hint};
pub(crate) use crate::repl::terminals::pane::Pane;
use crate::repl::terminals::pane::{ScrolledText, indented, joined};
use crate::repl::terminals::query::QueryLine;
use crate::repl::terminals::question::Entry;
pub(crate) use crate::repl::terminals::question::Page;
use crate::repl::terminals::unseen::{Unseen, store_seen};
use crate::repl::terminals::{Terminal, Terminals};
use compare::CompareView;
use inbox::InboxView;
pub(super) use keys::acts_of;
use picker::PickerView;
use search::SearchView;
use setup::SetupView;
pub(crate) use tile::TileState;
use timeline::TimelineView;
use wall::WallView;

/// Rows of a screen that a view may use for a text that is typed in it.
const TEXT_ROWS: usize = 3;
/// Rows of a notice in a view.
const MOST_NOTICE_ROWS: usize = 6;
/// Names of those to whom a text goes; more are counted.
const MOST_NAMES: usize = 8;

/// An open view.
pub(super) struct View {
    content: Box<dyn ViewContent>,
    /// The text that is typed in it.
    text: Option<ViewText>,
}

/// What a view shows, and what keys mean in it.
pub(crate) trait ViewContent {
    fn name(&self) -> ViewName;

    /// Reads again what it lists. False when the view should close.
    fn update(&mut self, core: &mut Core, context: &ViewContext<'_>) -> bool;

    /// Hashes what changes with what it shows.
    fn hash_shown(&self, core: &Core, hash: &mut DefaultHasher);

    fn on_key(&mut self, core: &Core, key: &Key) -> ViewAct;

    fn pane(&self, core: &Core, painter: &Painter, size: (u16, usize)) -> Pane;

    /// A text that it has asked for with [`ViewAct::Ask`].
    fn on_text(&mut self, _: &Core, _: String) -> ViewAct {
        ViewAct::Done
    }

    /// The agents whose replies it shows.
    fn watched(&self) -> Vec<AgentId> {
        Vec::new()
    }

    /// The agent whose question it shows and keys answer.
    fn asked(&self) -> Option<AgentId> {
        None
    }

    /// When it shows something else although nothing has happened.
    fn next_change(&self, _: Moment) -> Option<Moment> {
        None
    }

    /// A frame was drawn, with this page of what is asked.
    fn on_drawn(&mut self, _: Option<&Page>, _: u16, _: Moment) {}

    /// Whether printable keys are text.
    fn is_typing(&self) -> bool {
        false
    }

    /// Searches for what was typed since, once for all keys of a turn, before the frame.
    fn search_typed(&mut self, _: &Core) {}

    /// Whether this key waits for the result of a search.
    fn waits_with(&self, _: KeyCode) -> bool {
        false
    }

    /// Whether what was searched for is found and not yet taken.
    fn has_found(&self) -> bool {
        false
    }

    /// Until when keys wait for the search that is under way.
    fn searches_until(&self) -> Option<Moment> {
        None
    }

    /// The question of its step as lines, if it has one that was not printed yet.
    fn take_lines(&mut self) -> Option<String> {
        None
    }

    /// The code on the screen that has no colours, each line once.
    fn take_uncoloured(&mut self) -> Vec<CodeLines> {
        Vec::new()
    }

    /// Whether no conversation has been chosen yet.
    fn is_first_picker(&self) -> bool {
        false
    }

    /// The key that leaves the program was pressed. False if that only closes the view.
    fn leave(&mut self) -> bool {
        false
    }

    /// Marks the next question of this agent when it asks.
    fn follow(&mut self, _: AgentId) {}

    /// How many conversations were laid out for tiles so far.
    fn tiles_laid_out(&self) -> usize {
        0
    }
}

/// What is around a view at its terminal.
pub(crate) struct ViewContext<'a> {
    /// The agents that have finished unseen.
    pub(super) unseen: &'a Unseen,
    /// The agent that the terminal shows.
    pub focus: AgentId,
    /// Columns and rows.
    pub screen: (u16, u16),
}

/// What is typed in a view.
struct ViewText {
    purpose: Purpose,
    draft: Draft,
}

enum Purpose {
    /// A message to these agents.
    Message(Vec<AgentId>),
    /// A part of the answer to the question of this number.
    Answer(AgentId, u64, Entry),
    /// Something that the view has asked for, under this title.
    Asked(String),
}

/// What a key in a view does besides changing the view.
pub(crate) enum ViewAct {
    Done,
    Close,
    /// Closes the view and shows this agent.
    Go(AgentId),
    /// Changes of agents, in this order.
    Changes(Vec<(AgentId, Change)>),
    /// A change, and what is said of it until the next key.
    Told((AgentId, Change), &'static str),
    /// Closes the view, then changes this agent.
    Leave(AgentId, Change),
    /// Closes the view, then makes these changes; without an agent, of the one that is shown.
    LeaveWith(Vec<(Option<AgentId>, Change)>),
    /// Leaves the terminal.
    Exit,
    /// Closes the view and puts this text before the draft.
    Quote(String),
    /// Opens a text to these agents.
    Write(Vec<AgentId>),
    /// Opens a text for the view itself: its title, and what it begins with.
    Ask {
        title: String,
        text: String,
    },
    /// Shows the question of this agent in the inbox.
    Inbox(AgentId),
    /// The person has seen how the last turn of this agent ended.
    Seen(AgentId),
    /// Shows this text until the next key.
    Notice(&'static str),
}

/// `None` for a view of a feature that is not built in.
fn content_of(core: &Core, name: ViewName, agent: AgentId) -> Option<Box<dyn ViewContent>> {
    Some(match name {
        ViewName::Inbox => Box::new(InboxView::default()),
        ViewName::Wall => Box::new(WallView::default()),
        ViewName::Search => Box::new(SearchView::default()),
        ViewName::Compare => Box::new(CompareView::default()),
        ViewName::Timeline => Box::new(TimelineView::default()),
        ViewName::Picker => Box::new(PickerView::default()),
        // It reads files and the environment, runs programs and asks servers.
        ViewName::Setup if core.config().replay.is_some() => return None,
        ViewName::Setup => Box::new(SetupView::new(core, agent)),
        name => {
            let views = FEATURES.iter().flat_map(|feature| feature.views);
            (views.into_iter().find(|view| view.name == name)?.open)(agent)
        }
    })
}

impl Deref for View {
    type Target = dyn ViewContent;

    fn deref(&self) -> &Self::Target {
        &*self.content
    }
}

impl DerefMut for View {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.content
    }
}

impl View {
    pub(super) fn typed_kind(&self) -> TypedKind {
        match self.text.is_some() || self.content.is_typing() {
            _ if self.content.name() == ViewName::Setup => TypedKind::Secret,
            true => TypedKind::Text,
            false => TypedKind::Keys,
        }
    }

    /// Reads again what it lists. False when the view should close.
    fn update(&mut self, core: &mut Core, context: &ViewContext<'_>) -> bool {
        if !self.content.update(core, context) {
            return false;
        }
        self.text.take_if(|text| match &mut text.purpose {
            Purpose::Message(to) => {
                to.retain(|to| core.agent(*to).is_some());
                to.is_empty()
            }
            Purpose::Answer(agent, question, _) => {
                core.agent(*agent).and_then(Agent::question).is_none_or(|asked| asked.number != *question)
            }
            Purpose::Asked(_) => false,
        });
        true
    }

    /// A number that changes with what it shows.
    pub fn stamp(&self, core: &Core) -> u64 {
        let mut hash = DefaultHasher::new();
        self.content.hash_shown(core, &mut hash);
        hash.finish()
    }

    /// Whether this key waits for the result of a search.
    pub(super) fn is_waited_with(&self, key: &Key) -> bool {
        matches!(key, Key::Press(code, _) if self.waits_with(*code))
    }
}

impl Terminal {
    /// The agent whose question is shown and answered here.
    pub(super) fn asked_agent(&self) -> Option<AgentId> {
        self.input.view.as_ref().map_or(Some(self.focus), |view| view.asked())
    }
}

impl Terminals {
    /// Shows a view at the terminal where this was asked for, or closes it if it is shown.
    pub(in crate::repl) fn show_view(&mut self, core: &mut Core, origin: Origin, name: ViewName) -> Result<()> {
        let id = match (name, origin.terminal()) {
            // Its steps are questions in line mode.
            (ViewName::Setup, Some(id)) => id,
            _ => self.drawn_terminal(origin)?,
        };
        let Some(terminal) = self.get(id) else { return Ok(()) };
        let is_shown = terminal.input.view.as_ref().is_some_and(|view| view.name() == name);
        let content = content_of(core, name, terminal.focus).filter(|_| !is_shown);
        self.set_view(core, id, content);
        Ok(())
    }

    /// Shows the panel that sets up a model where there is none, or where a person has asked for it.
    pub(in crate::repl) fn offer_setup(&mut self, core: &mut Core, id: TerminalId, is_wanted: bool) {
        let Some(terminal) = self.get(id).filter(|terminal| !terminal.mode.is_read_only) else { return };
        let is_without = core.agent(terminal.focus).is_some_and(|agent| agent.inputs.endpoint.is_none());
        let is_offered = is_without && !terminal.mode.is_scripted || is_wanted;
        if !core.store().is_read_only() && is_offered {
            let setup = content_of(core, ViewName::Setup, terminal.focus);
            self.set_view(core, id, setup);
        }
    }

    /// Shows what a search finds.
    pub(in crate::repl) fn show_search(&mut self, core: &mut Core, origin: Origin, query: &str) -> Result<()> {
        let id = self.drawn_terminal(origin)?;
        let search = SearchView::with(core, query);
        self.set_view(core, id, Some(Box::new(search)));
        Ok(())
    }

    /// Shows the answers of a comparison.
    pub(in crate::repl) fn show_comparison(&mut self, core: &mut Core, origin: Origin, number: u64) -> Result<()> {
        let id = self.drawn_terminal(origin)?;
        self.set_view(core, id, Some(Box::new(CompareView::of(number))));
        Ok(())
    }

    /// Shows what an agent has changed. False if the terminal is not drawn on.
    pub(in crate::repl) fn show_review(&mut self, core: &mut Core, origin: Origin, agent: AgentId) -> bool {
        let content = content_of(core, ViewName::Review, agent);
        let Some((id, content)) = self.drawn_terminal(origin).ok().zip(content) else { return false };
        self.set_view(core, id, Some(content));
        if self.unseen.remove(agent) {
            store_seen(core, agent);
        }
        true
    }

    /// Lists all conversations. These changes are made to the one that the person chooses.
    pub(super) fn show_picker(&mut self, core: &mut Core, id: TerminalId, then: Vec<Change>) {
        self.set_view(core, id, Some(Box::new(PickerView::first(then))));
    }

    /// Whether no conversation has been chosen yet at this terminal.
    pub(in crate::repl) fn is_picking(&self, id: TerminalId) -> bool {
        self.get(id).and_then(|terminal| terminal.input.view.as_ref()).is_some_and(|view| view.is_first_picker())
    }

    /// How many conversations were laid out for the tiles of the walls that are shown.
    pub(in crate::repl) fn tiles_laid_out(&self) -> usize {
        let views = self.iter().filter_map(|terminal| terminal.input.view.as_ref());
        views.map(|view| view.tiles_laid_out()).sum()
    }

    fn set_view(&mut self, core: &mut Core, id: TerminalId, content: Option<Box<dyn ViewContent>>) {
        self.close_popup(id);
        if let Some(terminal) = self.get_mut(id) {
            terminal.input.view = content.map(|content| View { content, text: None });
        }
        self.update_view(core, id);
    }

    fn drawn_terminal(&self, origin: Origin) -> Result<TerminalId> {
        let terminal = origin.terminal().filter(|id| !self.is_line_mode(*id));
        let error = "views need a terminal that is drawn on: /agents lists the agents, polylogue approvals what they ask, and \
                     polylogue search finds messages";
        terminal.ok_or_else(|| Error::usage(error))
    }

    pub(in crate::repl) fn shows_view(&self, id: TerminalId) -> bool {
        self.get(id).is_some_and(|terminal| terminal.input.view.is_some())
    }

    pub(in crate::repl) fn close_view(&mut self, id: TerminalId) {
        if let Some(terminal) = self.get_mut(id) {
            terminal.input.view = None;
            terminal.input.revision += 1;
        }
    }

    /// Searches for what was typed into the view at this terminal.
    pub(super) fn search_typed(&mut self, core: &Core, id: TerminalId) {
        let view = self.terminals.get_mut(&id).and_then(|terminal| terminal.input.view.as_mut());
        view.into_iter().for_each(|view| view.search_typed(core));
    }

    /// Reads again what the view at this terminal lists.
    pub(super) fn update_view(&mut self, core: &mut Core, id: TerminalId) {
        let Self { terminals, unseen, .. } = self;
        let Some(terminal) = terminals.get_mut(&id) else { return };
        let context = ViewContext { unseen, focus: terminal.focus, screen: terminal.size };
        let Some(view) = &mut terminal.input.view else { return };
        if !view.update(core, &context) {
            self.close_view(id);
        }
    }

    /// The frame of a terminal that shows a view.
    pub(super) fn paint_view(&self, core: &Core, painter: &Painter, view: &View, focus: AgentId) -> Option<Painted> {
        let (columns, height) = (painter.size.0, usize::from(painter.size.1));
        let (input, cursor) = view.text.as_ref().map(|text| text_rows(core, painter, text)).unwrap_or_default();
        let status = (height > input.len()).then(|| painter.status_row(core.agent(focus)?)).flatten();
        let room = height.saturating_sub(input.len() + usize::from(status.is_some()));
        let lines = painter.notice.iter().flat_map(|notice| notice.lines());
        let mut notice: Vec<Row> =
            lines.flat_map(|line| StyledLine::of(line, Style::color(Color::Attention)).wrap(columns.into())).collect();
        let most = MOST_NOTICE_ROWS.min(room);
        if notice.len() > most {
            notice.truncate(most.saturating_sub(1));
            notice.push(Row::of("… (all of it is in the conversation)", Style::DIM));
            notice.truncate(most);
        }
        let pane = view.pane(core, painter, (columns, room - notice.len()));
        let Pane { mut rows, page, has_whole_rules, cursor: own, .. } = pane.finished();
        rows.extend(notice);
        let cursor = cursor.and_then(|(column, row)| Some((column, u16::try_from(rows.len() + row).ok()?)));
        let own = own.filter(|(_, row)| usize::from(*row) < rows.len());
        let cursor = cursor.or(own.map(|(column, row)| (column.min(columns.saturating_sub(1)), row)));
        rows.extend(input.into_iter().chain(status));
        let frame = Frame { width: columns, rows, cursor, scrolling_rows: 0 };
        Some(Painted { frame, page, has_whole_rules })
    }
}

/// A text that is typed, below the names of those to whom it goes, and the position of the cursor in it.
fn text_rows(core: &Core, painter: &Painter, text: &ViewText) -> (Vec<Row>, Option<(u16, usize)>) {
    let title = match &text.purpose {
        Purpose::Message(to) => {
            let names: Vec<String> = to.iter().take(MOST_NAMES).map(|to| core.roster().label_of(*to)).collect();
            let more = to.len().checked_sub(names.len()).filter(|more| *more > 0);
            let more = more.map(|more| format!(" and {more} more")).unwrap_or_default();
            format!("to {}{more}: Enter sends, Esc goes back", names.join(", "))
        }
        Purpose::Answer(agent, _, entry) => {
            let pending = core.agent(*agent).and_then(Agent::question);
            pending.map(|pending| entry_hint(pending, *entry)).unwrap_or_default()
        }
        Purpose::Asked(title) => title.clone(),
    };
    let mut rows = vec![Row::of(text::sanitise(&title), Style::color(Color::Attention)).cut(painter.size.0)];
    let (input, (column, row)) = painter.rows_of_draft(&text.draft, TEXT_ROWS);
    rows.extend(input);
    (rows, Some((column.min(painter.size.0.saturating_sub(1)), row + 1)))
}

/// The text in exactly so many columns, at the left.
pub(super) fn column(text: &str, columns: usize) -> String {
    let text = text::sanitise(text).replace('\n', " ");
    let shown = text::shortened(&text, columns);
    format!("{shown}{}", " ".repeat(columns.saturating_sub(text::width(&shown))))
}

/// The text between two others, in all columns that they leave.
fn between(start: &str, text: &str, end: &str, columns: u16) -> String {
    let room = usize::from(columns).saturating_sub(text::width(start) + text::width(end));
    format!("{start}{}{end}", column(text, room))
}
