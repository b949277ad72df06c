//! All conversations, archived ones too, to choose the one to go on with.
//!
//! Enter opens the marked conversation. If `polylogue -r` shows the list, nothing has been started yet, and every way out
//! leaves the terminal; if `/resume` does, they close the list.

use std::hash::{DefaultHasher, Hash};
use std::path::Path;
use std::time::Duration;

use crate::agent::{Agent, State};
use crate::base::fuzzy::Fuzzy;
use crate::base::text;
use crate::base::text::dollars;
use crate::domain::called::name_and_title;
use crate::domain::change::{ArchiveAct, Change};
use crate::domain::frame::{Color, Row, Style};
use crate::domain::key::{Key, KeyCode};
use crate::domain::title::title;
use crate::repl::core::Core;
use crate::repl::core::activity::one_line;
use crate::repl::terminals::views::{
    List, Painter, Pane, QueryLine, ViewAct, ViewContent, ViewContext, ViewName, between, column,
};
use crate::store::Conversation;

/// Columns of the number, of the project, of the state, of the age and of the cost.
const NUMBER: usize = 3;
const PROJECT: usize = 14;
const WIDE_PROJECT: usize = 24;
/// Columns of the model, on wide screens.
const MODEL: usize = 24;
const STATE: usize = 11;
const AGE: usize = 7;
const COST: usize = 8;
/// Rows below the list that describe the marked conversation.
const DETAIL_ROWS: usize = 4;
/// Rows of a screen, at most.
const MOST_ROWS: usize = 1_000;

#[derive(Default)]
pub(super) struct PickerView {
    typed: QueryLine,
    /// Those that match what was typed, the best first.
    conversations: List<Conversation>,
    /// No conversation was chosen yet at this terminal.
    is_first: bool,
    /// What is done at the chosen agent.
    then: Vec<Change>,
    /// How many agents there were when the list was read.
    agents: Option<usize>,
    /// Why the list could not be read.
    error: Option<String>,
}

impl PickerView {
    /// The first thing that a terminal shows. These changes are made at the chosen agent.
    pub fn first(then: Vec<Change>) -> Self {
        Self { is_first: true, then, ..Self::default() }
    }

    fn filter(&mut self) {
        let mut words: Vec<Fuzzy> = self.typed.text().split_whitespace().map(Fuzzy::words).collect();
        self.conversations.filter(|conversation| score(&mut words, conversation));
    }

    fn open(&self) -> ViewAct {
        let Some(Conversation { agent, is_archived, .. }) = self.conversations.marked() else { return ViewAct::Done };
        let back = is_archived.then_some(Change::Archive(ArchiveAct::Unarchive(*agent)));
        let at_focus = back.into_iter().chain([Change::Switch(*agent)]).map(|change| (None, change));
        let then = self.then.iter().map(|change| (Some(*agent), change.clone()));
        ViewAct::LeaveWith(at_focus.chain(then).collect())
    }

    fn title(&self) -> String {
        let all = text::counted(self.conversations.all().len(), "conversation", "conversations");
        match self.typed.text().trim().is_empty() {
            true => format!("resume ─ {all}"),
            false => format!("resume ─ {} of {all}", self.conversations.len()),
        }
    }
}

impl ViewContent for PickerView {
    fn name(&self) -> ViewName {
        ViewName::Picker
    }

    fn is_typing(&self) -> bool {
        true
    }

    fn is_first_picker(&self) -> bool {
        self.is_first
    }

    fn update(&mut self, core: &mut Core, _: &ViewContext<'_>) -> bool {
        if self.agents.replace(core.roster().len()) == Some(core.roster().len()) {
            return true;
        }
        match core.store().conversations() {
            Ok(conversations) => {
                self.conversations.replace(conversations, |one, other| one.agent == other.agent);
                self.error = None;
            }
            Err(error) => self.error = Some(error.message),
        }
        self.filter();
        true
    }

    fn hash_shown(&self, core: &Core, hash: &mut DefaultHasher) {
        let now = core.clock().unix_ms();
        let first = self.conversations.at().saturating_sub(MOST_ROWS);
        for conversation in self.conversations.iter().skip(first).take(2 * MOST_ROWS) {
            (conversation.agent, text::age(age(now, conversation)), state(core, conversation)).hash(hash);
        }
    }

    fn on_key(&mut self, _: &Core, key: &Key) -> ViewAct {
        match (self.typed.on_key(key), key) {
            (Some(true), _) => {
                self.filter();
                self.conversations.mark(0);
            }
            (None, Key::Press(KeyCode::Escape, _)) if self.is_first => return ViewAct::Exit,
            (None, Key::Press(KeyCode::Escape, _)) => return ViewAct::Close,
            (None, Key::Press(KeyCode::Enter, _)) => return self.open(),
            (None, Key::Press(code, _)) => self.conversations.on_key(*code),
            _ => {}
        }
        ViewAct::Done
    }

    fn pane(&self, core: &Core, _: &Painter, size: (u16, usize)) -> Pane {
        let way_out = if self.is_first { "leaves" } else { "closes" };
        let hints = format!("type to filter   Up Down mark   Enter opens   Esc {way_out}");
        let mut pane = Pane::new(&self.title(), &hints, size);
        pane.query(&self.typed, "/ ", Color::User);
        let message = match (&self.error, self.conversations.all().is_empty(), self.conversations.is_empty()) {
            (Some(error), ..) => Some(error.as_str()),
            (None, true, _) => Some("no conversation yet"),
            (None, false, true) => Some("no conversation matches"),
            _ => None,
        };
        pane.rows.extend(message.map(|message| Row::of(format!("  {}", text::sanitise(message)), Style::DIM)));
        let details = if pane.room() > DETAIL_ROWS * 2 { DETAIL_ROWS } else { 0 };
        let room = pane.room() - details;
        pane.list(&self.conversations, room.max(1), |_| Row::default(), |one| row(core, one, size.0));
        if let Some(marked) = self.conversations.marked().filter(|_| details > 0) {
            pane.rows.resize(pane.rows.len() + pane.room() - details, Row::default());
            describe(core, marked, &mut pane);
        }
        pane
    }
}

/// How well a conversation matches, if each word is in its name, its title or its directory.
fn score(words: &mut [Fuzzy], conversation: &Conversation) -> Option<u32> {
    let number = conversation.number.map(|number| number.to_string()).unwrap_or_default();
    let fields = [number, listed(conversation), conversation.directory.clone().unwrap_or_default()];
    words.iter_mut().map(|word| fields.iter().filter_map(|field| word.score(field)).max()).sum()
}

/// Number and title, then where it works, its state, its age and its cost.
fn row(core: &Core, conversation: &Conversation, columns: u16) -> Row {
    let is_wide = columns >= 120;
    let number = conversation.number.map(|number| number.to_string()).unwrap_or_default();
    let start = format!("  {number:>NUMBER$} ");
    let mut end = format!(" {:>AGE$}", text::age(age(core.clock().unix_ms(), conversation)));
    if columns >= 40 {
        let cost = cost(core, conversation).map(|cost| format!("${}", dollars(cost))).unwrap_or_default();
        end = format!(" {}{end} {cost:>COST$}", column(state(core, conversation), STATE));
    }
    if is_wide {
        end = format!(" {}{end}", column(conversation.endpoint.as_deref().unwrap_or_default(), MODEL));
    }
    if columns >= 60 {
        let project = if is_wide { WIDE_PROJECT } else { PROJECT };
        end = format!(" {}{end}", column(&project_of(core, conversation), project));
    }
    let line = between(&start, &listed(conversation), &end, columns);
    Row::of(line, if conversation.is_archived { Style::DIM } else { Style::default() })
}

fn listed(conversation: &Conversation) -> String {
    name_and_title(conversation.name.as_deref(), &title(&conversation.said)).unwrap_or_else(|| conversation.label())
}

fn project_of(core: &Core, conversation: &Conversation) -> String {
    let directory = conversation.directory.as_ref().map_or(core.config().working_directory.as_path(), Path::new);
    let name = directory.file_name().unwrap_or(directory.as_os_str()).to_string_lossy().into_owned();
    core.branches().get(directory).map_or_else(|| name.clone(), |branch| format!("{name} {branch}"))
}

fn age(now: i64, conversation: &Conversation) -> Duration {
    Duration::from_secs(u64::try_from((now - conversation.last_at) / 1_000).unwrap_or(0))
}

/// What a person has to know before opening it.
fn state(core: &Core, conversation: &Conversation) -> &'static str {
    match core.agent(conversation.agent) {
        None if conversation.is_print_run => "archived -p",
        None if conversation.is_archived => "archived",
        None => "",
        Some(agent) if agent.question().is_some() => "asks",
        Some(agent) if agent.state() != State::Idle => "at work",
        Some(agent) if agent.is_interrupted() => "interrupted",
        Some(agent) if agent.has_failed() => "failed",
        Some(_) => "",
    }
}

fn cost(core: &Core, conversation: &Conversation) -> Option<u64> {
    let of = |agent: &Agent| agent.used.cost;
    core.agent(conversation.agent).map_or(conversation.cost, of).filter(|cost| *cost > 0)
}

/// Where the marked conversation works, with which model, and what was said last in it.
fn describe(core: &Core, conversation: &Conversation, pane: &mut Pane) {
    let directory = conversation.directory.as_deref().map_or(core.config().working_directory.as_path(), Path::new);
    let model = conversation.endpoint.as_deref().unwrap_or_default();
    let branch = core.branches().get(directory).map(|branch| format!(" {branch}")).unwrap_or_default();
    let place = format!("  {}   {}{branch}   {model}", listed(conversation), directory.display());
    let said = core.store().last_said(conversation.agent).ok().flatten().unwrap_or_default();
    pane.rule("");
    pane.rows.push(Row::of(text::sanitise(&place).into_owned(), Style::DIM));
    if !said.is_empty() {
        pane.rows.push(Row::of(format!("  {}", one_line(said.trim_start())), Style::default()));
    }
}
