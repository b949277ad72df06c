//! The wall: the agents as live tiles, as many as fit, then pages.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash};

use crate::agent::State;
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::change::{Change, Decision, Fork, ForkPlace};
use crate::domain::frame::Row;
use crate::domain::key::{Key, KeyCode};
use crate::repl::core::Core;
use crate::repl::terminals::draw::show_newest;
use crate::repl::terminals::views::tile::{self, TILE_ROWS, TileState, TileTexts};
use crate::repl::terminals::views::{
    List, Painter, Pane, QueryLine, ViewAct, ViewContent, ViewContext, ViewName, joined,
};
use crate::team::Places;

const ASKS_NOTHING: ViewAct = ViewAct::Notice("this agent asks nothing");

#[derive(Default)]
pub(super) struct WallView {
    /// All agents with a tile that the filter lets through.
    agents: List<AgentId>,
    /// The agents that Space has chosen.
    chosen: BTreeSet<AgentId>,
    /// What follows `/`; `None` while nothing is filtered.
    filter: Option<QueryLine>,
    is_filtering: bool,
    is_zoomed: bool,
    /// The number that is being typed.
    number: i64,
    /// Tiles beside and below each other.
    grid: (usize, usize),
    /// An agent that X kills if it is pressed again.
    kills: Option<AgentId>,
    /// The agent of which a fork gets the text that is typed.
    forks: Option<AgentId>,
    texts: RefCell<TileTexts>,
}

impl WallView {
    fn marked(&self) -> Option<AgentId> {
        self.agents.marked().copied()
    }

    fn page_size(&self) -> usize {
        (self.grid.0 * self.grid.1).max(1)
    }

    /// The place of the first agent of the page.
    fn first(&self) -> usize {
        self.agents.at() / self.page_size() * self.page_size()
    }

    fn page(&self) -> Vec<AgentId> {
        self.agents.iter().skip(self.first()).take(self.page_size()).copied().collect()
    }

    fn on_filter_key(&mut self, key: &Key) -> ViewAct {
        match key {
            Key::Press(KeyCode::Escape, _) => (self.filter, self.is_filtering) = (None, false),
            Key::Press(KeyCode::Enter, _) => self.is_filtering = false,
            key => drop(self.filter.get_or_insert_default().on_key(key)),
        }
        ViewAct::Done
    }

    fn leave(&mut self) -> ViewAct {
        if std::mem::take(&mut self.is_zoomed) || self.filter.take().is_some() || !self.chosen.is_empty() {
            self.chosen.clear();
            return ViewAct::Done;
        }
        ViewAct::Close
    }

    fn place_of(&self, agent: AgentId) -> Option<usize> {
        self.agents.iter().position(|id| *id == agent)
    }

    /// Marks the agent of the number typed so far, or of this digit alone.
    fn mark_number(&mut self, core: &Core, digit: char) {
        let digit = i64::from(digit.to_digit(10).unwrap_or(0));
        let numbers = [self.number.saturating_mul(10).saturating_add(digit), digit];
        let found = numbers
            .into_iter()
            .find_map(|number| Some((number, self.place_of(core.roster().agent_with_number(number)?)?)));
        if let Some((number, at)) = found {
            self.number = number;
            self.agents.mark(at);
        }
    }

    fn choose(&mut self) {
        if let Some(marked) = self.marked() {
            if !self.chosen.remove(&marked) {
                self.chosen.insert(marked);
            }
            self.agents.step(1);
        }
    }

    /// The chosen agents, or else all that the filter shows.
    fn targets(&self, core: &Core) -> Vec<AgentId> {
        match self.chosen.is_empty() {
            true => self.agents.all().to_vec(),
            false => core.roster().ids().into_iter().filter(|id| self.chosen.contains(id)).collect(),
        }
    }

    /// The marked agent and the number of its question.
    fn asked(&self, core: &Core) -> Option<(AgentId, u64)> {
        self.marked().and_then(|id| Some((id, core.agent(id)?.question()?.number)))
    }

    fn refuse(&self, core: &Core) -> ViewAct {
        self.asked(core).map_or(ASKS_NOTHING, |(agent, question)| {
            ViewAct::Changes(vec![(agent, Change::Answer { question, decision: Decision::Deny(None) })])
        })
    }

    fn stop(&self, core: &Core) -> ViewAct {
        let targets: Vec<AgentId> =
            if self.chosen.is_empty() { self.marked().into_iter().collect() } else { self.targets(core) };
        let is_busy = |id: &AgentId| core.agent(*id).is_some_and(|agent| agent.state() != State::Idle);
        let busy: Vec<AgentId> = targets.into_iter().filter(is_busy).collect();
        match busy.is_empty() {
            true => ViewAct::Notice("nothing to stop: no marked agent works"),
            false => ViewAct::Changes(busy.into_iter().map(|id| (id, Change::Interrupt)).collect()),
        }
    }

    fn kill(&mut self, core: &Core, kills: Option<AgentId>) -> ViewAct {
        let Some(marked) = self.marked() else { return ViewAct::Done };
        let Some(parent) = core.roster().parent(marked) else { return ViewAct::Notice("agent 0 cannot be killed") };
        if kills != Some(marked) {
            self.kills = Some(marked);
            let has_worktree = core.agent(marked).is_some_and(|agent| agent.inputs.environment.worktree.is_some());
            return ViewAct::Notice(match has_worktree {
                true => {
                    "X again kills the marked agent and keeps its worktree if it has changes; /diff lands or discards it"
                }
                false => "X again kills the marked agent; this cannot be undone",
            });
        }
        ViewAct::Changes(vec![(parent, Change::Kill { agent_id: marked, cascade: false })])
    }

    /// Asks for the task of a fork of the marked agent.
    fn begin_fork(&mut self) -> ViewAct {
        self.forks = self.marked();
        let title = "task for a fork in a git worktree of its own (Enter starts it, Esc cancels)";
        self.forks.map_or(ViewAct::Done, |_| ViewAct::Ask { title: title.to_owned(), text: String::new() })
    }

    fn title(&self, core: &Core, count: usize) -> String {
        let mut parts = vec!["wall".to_owned(), text::counted(self.agents.len(), "agent", "agents")];
        if count < self.agents.len() {
            parts.push(format!("{} to {}", self.first() + 1, self.first() + count));
        }
        let counts = [(core.roster().at_work().len(), "at work"), (core.roster().asking().len(), "ask")];
        parts.extend(counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
        if let Some(filter) = &self.filter {
            let [before, after] = filter.parts();
            parts.push(format!("/{before}{}{after}", if self.is_filtering { "▌" } else { "" }));
        }
        parts.join(" ─ ")
    }

    fn hints(&self) -> &'static str {
        match self.is_filtering {
            true => "filter by name, title, state, directory   Enter keeps it   Esc drops it",
            false => {
                "digits mark  Enter write  * to all  Space choose  g go  y n answer  s stop  X kill  f fork  z zoom  / filter  Esc back"
            }
        }
    }
}

impl ViewContent for WallView {
    fn name(&self) -> ViewName {
        ViewName::Wall
    }

    fn update(&mut self, core: &mut Core, context: &ViewContext<'_>) -> bool {
        let (columns, rows) = context.screen;
        let words = self.filter.iter().flat_map(|filter| filter.text().split_whitespace());
        let words: Vec<String> = words.map(str::to_lowercase).collect();
        let matches = |text: &str| words.iter().all(|word| text.contains(word.as_str()));
        let agents = core.roster().iter().filter(|agent| tile::has_tile(agent)).filter(|agent| {
            if words.is_empty() {
                return true;
            }
            let directory = agent.inputs.environment.place().to_string_lossy();
            let state = TileState::of(core, agent).name();
            let place = agent.inputs.environment.place_name().unwrap_or_default();
            matches(&format!("{} {} {state} {place} {directory}", agent.identity.label(), agent.title).to_lowercase())
        });
        self.agents.replace(agents.map(crate::agent::Agent::id).collect(), PartialEq::eq);
        self.chosen.retain(|id| core.agent(*id).is_some());
        let room = usize::from(rows).saturating_sub(3);
        self.grid = match self.is_zoomed {
            true => (1, 1),
            false => tile::grid(self.agents.len(), (columns, room)),
        };
        for id in self.page() {
            show_newest(core, id, rows.into());
        }
        true
    }

    fn on_text(&mut self, _: &Core, text: String) -> ViewAct {
        let Some(agent) = self.forks.take().filter(|_| !text.trim().is_empty()) else { return ViewAct::Done };
        let place = Some(ForkPlace::NewWorktree);
        let fork = Fork { prompt: Some(text.trim().to_owned()), place, stays: true, ..Fork::default() };
        ViewAct::Changes(vec![(agent, Change::Fork(fork))])
    }

    fn tiles_laid_out(&self) -> usize {
        self.texts.borrow().laid_out()
    }

    fn hash_shown(&self, core: &Core, hash: &mut DefaultHasher) {
        for id in self.page() {
            let Some(agent) = core.agent(id) else { continue };
            (id, agent.view.revision(), TileState::of(core, agent), agent.used.cost, agent.live_output()).hash(hash);
            agent.report.hash(hash);
        }
        (self.agents.len(), self.agents.at(), &self.chosen, self.grid).hash(hash);
        (core.roster().at_work().len(), core.roster().asking().len()).hash(hash);
    }

    fn on_key(&mut self, core: &Core, key: &Key) -> ViewAct {
        let kills = self.kills.take();
        if self.is_filtering {
            return self.on_filter_key(key);
        }
        let Key::Press(code, modifiers) = key else { return ViewAct::Done };
        if modifiers.ctrl || modifiers.alt {
            return ViewAct::Done;
        }
        if !matches!(code, KeyCode::Char('0'..='9')) {
            self.number = 0;
        }
        let columns = isize::try_from(self.grid.0).unwrap_or(1);
        let page = isize::try_from(self.page_size()).unwrap_or(1);
        match code {
            KeyCode::Escape => return self.leave(),
            KeyCode::Left => self.agents.step(-1),
            KeyCode::Right => self.agents.step(1),
            KeyCode::Up | KeyCode::Char('k') => self.agents.step(-columns),
            KeyCode::Down | KeyCode::Char('j') => self.agents.step(columns),
            KeyCode::PageUp => self.agents.step(-page),
            KeyCode::PageDown => self.agents.step(page),
            KeyCode::Char(digit @ '0'..='9') => self.mark_number(core, *digit),
            KeyCode::Char(' ') => self.choose(),
            KeyCode::Char('z') => self.is_zoomed = !self.is_zoomed,
            KeyCode::Char('/') => (self.is_filtering, self.filter) = (true, Some(QueryLine::default())),
            KeyCode::Char('g') => return self.marked().map_or(ViewAct::Done, ViewAct::Go),
            KeyCode::Enter | KeyCode::Char('i') => {
                return ViewAct::Write(self.marked().into_iter().collect()).checked();
            }
            KeyCode::Char('*') => return ViewAct::Write(self.targets(core)).checked(),
            KeyCode::Char('n') => return self.refuse(core),
            KeyCode::Char('y') => return self.asked(core).map_or(ASKS_NOTHING, |(agent, _)| ViewAct::Inbox(agent)),
            KeyCode::Char('s') => return self.stop(core),
            KeyCode::Char('X') => return self.kill(core, kills),
            KeyCode::Char('f') => return self.begin_fork(),
            code => self.agents.on_key(*code),
        }
        ViewAct::Done
    }

    fn pane(&self, core: &Core, _: &Painter, size: (u16, usize)) -> Pane {
        let page = self.page();
        let mut pane = Pane::new(&self.title(core, page.len()), self.hints(), size);
        let room = pane.room();
        let (across, down) = self.grid;
        let down = down.min(page.len().div_ceil(across)).max(1);
        let tile_rows = if self.is_zoomed { room } else { (room / down).clamp(TILE_ROWS.min(room), room.max(1)) };
        let across_shown = across.min(page.len()).max(1);
        let width = size.0 / u16::try_from(across_shown).unwrap_or(1);
        let texts = &mut *self.texts.borrow_mut();
        texts.retain(&page);
        let places = Places::of(page.iter().filter_map(|id| core.agent(*id)), core.branches());
        for line in page.chunks(across_shown) {
            let tiles: Vec<Vec<Row>> = line
                .iter()
                .filter_map(|id| core.agent(*id))
                .map(|agent| {
                    let id = agent.id();
                    let marks = (Some(id) == self.marked(), self.chosen.contains(&id));
                    tile::rows(core, (texts, &places), agent, (width, tile_rows), marks)
                })
                .collect();
            pane.rows.extend((0..tile_rows).map(|at| joined(&tiles, at, "", width)));
        }
        if page.is_empty() {
            pane.say("no agent matches; Esc drops the filter");
        }
        pane
    }
}

impl ViewAct {
    /// A text needs someone to whom it goes.
    pub(super) fn checked(self) -> Self {
        if matches!(&self, Self::Write(to) if to.is_empty()) { Self::Done } else { self }
    }
}
