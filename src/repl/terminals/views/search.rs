//! Full-text search over the messages of all agents, living and killed.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash};

use crate::base::clock::{Moment, date_and_time};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::change::{Change, Shown};
use crate::domain::frame::{Color, Row, Style};
use crate::domain::key::{Key, KeyCode};
use crate::domain::search::{SearchQuery, excerpt};
use crate::repl::core::Core;
use crate::repl::core::archive::nearest_above;
use crate::repl::terminals::views::searching::{Found, MOST, Searching, search};
use crate::repl::terminals::views::{
    List, Painter, Pane, QueryLine, ViewAct, ViewContent, ViewContext, ViewName, column, indented,
};
use crate::store::SearchHit;

/// Columns of the name, the time and the kind.
const NAME: usize = 12;
const TIME: usize = 16;
const KIND: usize = 7;
/// Lines of a message that are shown before the one with the first word.
const LINES_BEFORE: usize = 2;

#[derive(Default)]
pub(super) struct SearchView {
    typed: QueryLine,
    /// Keys are for the list, not for the query.
    is_in_list: bool,
    query: SearchQuery,
    hits: List<SearchHit>,
    /// What is wrong with the query, or why it found nothing.
    message: Option<String>,
    /// What was typed since the last search is searched for before the next frame.
    is_stale: bool,
    searching: Option<Searching>,
    /// It takes so long that keys do not wait for it any more.
    is_overdue: bool,
    revision: u64,
}

/// Whether a key means something for what was found, rather than for the query.
pub(super) fn needs_result(code: KeyCode) -> bool {
    use KeyCode::{Down, Enter, PageDown, PageUp, Tab, Up};
    matches!(code, Up | Down | PageUp | PageDown | Tab | Enter)
}

impl SearchView {
    /// Begins with this query.
    pub fn with(core: &Core, typed: &str) -> Self {
        let mut view = Self::default();
        view.typed.set(typed);
        view.search(core);
        view
    }

    fn search(&mut self, core: &Core) {
        match SearchQuery::parse(self.typed.text(), core.clock().unix_ms()) {
            Ok(query) => match Searching::begin(core, &query) {
                Some(searching) => self.searching = Some(searching),
                None => self.show(search(core.store(), query)),
            },
            Err(error) => self.show(Err(error)),
        }
    }

    fn show(&mut self, found: Result<Found>) {
        self.message = None;
        self.revision += 1;
        match found {
            Ok(found) => {
                if found.hits.is_empty() && !self.typed.text().trim().is_empty() {
                    self.message = Some(match found.unindexed {
                        0 => "nothing found".into(),
                        count => format!("nothing found yet: {count} older messages are still being indexed"),
                    });
                }
                self.query = found.query;
                self.hits.replace(found.hits, |_, _| false);
            }
            Err(error) => self.message = Some(error.message),
        }
        self.hits.mark(0);
    }

    fn go(&self, core: &Core) -> ViewAct {
        match self.hits.marked() {
            Some(hit) if core.agent(hit.agent).is_some() => {
                let (agent, message) = (hit.agent, hit.id);
                ViewAct::Leave(agent, Change::Show(Shown::Message { agent, message }))
            }
            Some(_) => ViewAct::Notice("this agent was killed or archived: f forks a new one from this message"),
            None => ViewAct::Done,
        }
    }

    fn fork(&self, core: &Core) -> ViewAct {
        let Some(hit) = self.hits.marked() else { return ViewAct::Done };
        let is_listed = core.agent(hit.agent).is_some();
        let at = if is_listed { Some(hit.agent) } else { nearest_above(core, hit.agent).ok().map(|(above, _)| above) };
        let fork = Change::ForkAt { agent: hit.agent, message: hit.id, text: None };
        at.map_or(ViewAct::Done, |at| ViewAct::Leave(at, fork))
    }

    fn quote(&self) -> ViewAct {
        self.hits.marked().map_or(ViewAct::Done, |hit| {
            let quoted: String = hit.content.lines().map(|line| format!("> {line}\n")).collect();
            ViewAct::Quote(quoted)
        })
    }

    fn title(&self) -> String {
        let agents: BTreeSet<AgentId> = self.hits.iter().map(|hit| hit.agent).collect();
        let count = if self.hits.len() == MOST { format!("the newest {MOST}") } else { self.hits.len().to_string() };
        match self.hits.is_empty() {
            true => "search".into(),
            false => format!("search ─ {count} in {}", text::counted(agents.len(), "agent", "agents")),
        }
    }

    fn hit_row(&self, hit: &SearchHit, columns: u16) -> Row {
        let mut line = format!("  {} ", column(&hit.label(), NAME));
        if columns >= 60 {
            line += &format!("{} ", column(&date_and_time(hit.created_at), TIME));
        }
        line += &format!("{} ", column(hit.kind_name(), KIND));
        let room = usize::from(columns).saturating_sub(text::width(&line));
        let found = excerpt(&hit.content, self.query.words(), room.saturating_sub(2));
        let found = hit.tool.as_ref().map(|tool| format!("{tool}: {found}")).unwrap_or(found);
        line += &column(&found, room);
        Row::of(line, if hit.is_running { Style::default() } else { Style::DIM })
    }

    /// The lines of the message from shortly before the first that has one of the words.
    fn message_rows(&self, hit: &SearchHit, columns: u16, room: usize) -> Vec<Row> {
        let words: Vec<String> = self.query.words().map(str::to_lowercase).collect();
        let has_word = |line: &str| {
            let line = line.to_lowercase();
            words.iter().any(|word| line.contains(word.as_str()))
        };
        let lines: Vec<&str> = hit.content.lines().collect();
        let first = lines.iter().position(|line| has_word(line)).unwrap_or(0).saturating_sub(LINES_BEFORE);
        let mut rows = Vec::new();
        for line in lines.iter().skip(first).take(room) {
            let style = if has_word(line) { Style::BOLD } else { Style::default() };
            rows.extend(indented(line, style, columns));
        }
        rows.truncate(room);
        rows
    }

    fn hints(&self) -> &'static str {
        match self.is_in_list {
            true => "Enter go there   f fork from here   q quote into the draft   / query   Esc back",
            false => "who: is:prompt|reply|call|result|killed tool: since:2h   Enter or Tab to the list   Esc back",
        }
    }
}

impl ViewContent for SearchView {
    fn name(&self) -> ViewName {
        ViewName::Search
    }

    fn update(&mut self, _: &mut Core, _: &ViewContext<'_>) -> bool {
        true
    }

    fn is_typing(&self) -> bool {
        !self.is_in_list
    }

    fn has_found(&self) -> bool {
        self.searching.as_ref().is_some_and(Searching::is_complete)
    }

    fn searches_until(&self) -> Option<Moment> {
        self.searching.as_ref().filter(|_| !self.is_overdue).map(Searching::until)
    }

    fn waits_with(&self, code: KeyCode) -> bool {
        needs_result(code) && (self.is_stale || self.searching.is_some()) && !self.is_overdue
    }

    fn search_typed(&mut self, core: &Core) {
        if let Some(searching) = self.searching.take_if(|searching| searching.is_complete()) {
            self.is_overdue = false;
            self.show(searching.collect());
        }
        self.is_overdue |= self.searches_until().is_some_and(|until| until <= core.now());
        if self.searching.is_none() && std::mem::take(&mut self.is_stale) {
            self.search(core);
        }
    }

    fn hash_shown(&self, _: &Core, hash: &mut DefaultHasher) {
        self.revision.hash(hash);
    }

    fn on_key(&mut self, core: &Core, key: &Key) -> ViewAct {
        if self.is_typing()
            && let Some(is_changed) = self.typed.on_key(key)
        {
            self.is_stale |= is_changed;
            return ViewAct::Done;
        }
        let Key::Press(code, modifiers) = key else { return ViewAct::Done };
        if !self.is_typing() || needs_result(*code) {
            self.search_typed(core);
        }
        match code {
            KeyCode::Escape if self.is_in_list => self.is_in_list = false,
            KeyCode::Escape => return ViewAct::Close,
            KeyCode::Tab => self.is_in_list = !self.is_in_list && !self.hits.is_empty(),
            KeyCode::Enter if self.is_in_list || self.hits.len() == 1 => return self.go(core),
            KeyCode::Enter => self.is_in_list = !self.hits.is_empty(),
            KeyCode::Char(_) if modifiers.ctrl || modifiers.alt => {}
            KeyCode::Char('f') => return self.fork(core),
            KeyCode::Char('q') => return self.quote(),
            KeyCode::Char('/') => self.is_in_list = false,
            code => self.hits.on_key(*code),
        }
        ViewAct::Done
    }

    fn pane(&self, _: &Core, _: &Painter, size: (u16, usize)) -> Pane {
        let mut pane = Pane::new(&self.title(), self.hints(), size);
        pane.query(&self.typed, "/ ", if self.is_in_list { Color::Default } else { Color::User });
        pane.cursor.take_if(|_| self.is_in_list);
        if let Some(message) = &self.message {
            pane.rows.push(Row::of(text::sanitise(message).replace('\n', " "), Style::color(Color::Attention)));
        }
        let room = pane.room().saturating_sub(1) / 2;
        pane.list(&self.hits, room.max(1), |_| Row::default(), |hit| self.hit_row(hit, size.0));
        if let Some(hit) = self.hits.marked() {
            pane.rule(&format!("{}, {}, {}", hit.label(), hit.kind_name(), date_and_time(hit.created_at)));
            pane.rows.extend(self.message_rows(hit, size.0, pane.room()));
        }
        pane
    }
}
