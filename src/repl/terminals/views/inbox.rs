//! The inbox: what needs the person, as a list, with the marked entry below it.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash};
use std::time::Duration;

use crate::agent::Agent;
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::base::text;
use crate::base::text::dollars;
use crate::domain::change::{Change, Shown};
use crate::domain::frame::{Color, Row, Style};
use crate::domain::key::{Key, KeyCode};
use crate::domain::scrollback::Reader;
use crate::repl::core::Core;
use crate::repl::core::activity::one_line;
use crate::repl::terminals::conversation;
use crate::repl::terminals::draw::show_newest;
use crate::repl::terminals::painter::{Painter, QuestionRows};
use crate::repl::terminals::question::{Page, SETTLING};
use crate::repl::terminals::views::together::{Answered, Together};
use crate::repl::terminals::views::{List, Pane, ViewAct, ViewContent, ViewContext, ViewName, between, column};
use crate::team::{InboxEntry, Need, Places, inbox};

/// Columns of the title and the place, on screens of at least so many columns.
const WIDTHS: [(u16, usize, usize); 3] = [(160, 48, 32), (120, 30, 20), (0, 20, 10)];
/// Columns of the tool.
const TOOL: usize = 10;
const AGE: usize = 7;
/// Columns of the cost, where one is known and there is room for it.
const COST: usize = 8;
const LEAST_FOR_COST: u16 = 72;
/// Rows of the marked entry, at least.
const DETAIL_ROWS: usize = 6;
/// Messages of the marked entry that are read from the store.
const DETAIL_MESSAGES: usize = 24;
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct InboxView {
    entries: List<InboxEntry>,
    /// The agent whose entry is to be marked when there is one.
    wanted: Option<AgentId>,
    /// The entries that Space has marked.
    several: BTreeSet<(AgentId, u64)>,
    /// The questions that are about to be answered together.
    together: Option<Together>,
    /// The entry that the last frame showed in whole, and since when.
    shown: Option<(AgentId, Need, Moment)>,
}

impl InboxView {
    /// The inbox with the entry of this agent marked.
    pub fn at(agent: AgentId) -> Self {
        Self { wanted: Some(agent), ..Self::default() }
    }

    /// Goes to the marked agent; reviews the work of one that has finished in a worktree of its own.
    fn open(&self, core: &Core) -> ViewAct {
        let Some(entry) = self.entries.marked().filter(|_| self.together.is_none()) else { return ViewAct::Done };
        let agent = core.agent(entry.agent);
        let has_worktree = agent.is_some_and(|agent| agent.inputs.environment.worktree.is_some());
        match entry.need {
            Need::Finished | Need::CheckFails if has_worktree => {
                ViewAct::Changes(vec![(entry.agent, Change::Show(Shown::Diff(entry.agent)))])
            }
            _ => ViewAct::Go(entry.agent),
        }
    }

    fn mark_several(&mut self) {
        if let Some(InboxEntry { agent, need: Need::Question(number), .. }) = self.entries.marked().copied() {
            if !self.several.remove(&(agent, number)) {
                self.several.insert((agent, number));
            }
            self.entries.step(1);
        }
    }

    /// Removes the marked entry, if the person has had time to see it.
    fn mark_seen(&self, now: Moment) -> ViewAct {
        match self.entries.marked() {
            Some(InboxEntry { need: Need::Question(_), .. }) => ViewAct::Notice("this agent asks: y allows, n refuses"),
            Some(InboxEntry { need: Need::Limit, .. }) => ViewAct::Notice("a limit holds this agent: /limit raises it"),
            Some(entry) => match self.shown {
                Some((agent, need, since)) if (agent, need) == (entry.agent, entry.need) && now >= since + SETTLING => {
                    ViewAct::Seen(agent)
                }
                _ => ViewAct::Done,
            },
            None => ViewAct::Done,
        }
    }

    /// Lists the marked questions, or all that are open.
    fn open_together(&mut self, core: &Core) -> ViewAct {
        let all = self.entries.iter().filter_map(|entry| match entry.need {
            Need::Question(number) => Some((entry.agent, number)),
            _ => None,
        });
        let is_listed = |question: &(AgentId, u64)| self.several.is_empty() || self.several.contains(question);
        self.together = Together::of(all.filter(is_listed).collect(), core.now());
        if self.together.is_some() { ViewAct::Done } else { ViewAct::Notice("no agent asks") }
    }

    fn on_answered(&mut self, answered: Answered) -> ViewAct {
        match answered {
            Answered::No => return ViewAct::Done,
            Answered::Closed => self.together = None,
            Answered::All(changes) => {
                self.together = None;
                self.several.clear();
                return ViewAct::Changes(changes);
            }
        }
        ViewAct::Done
    }

    fn title(&self, core: &Core) -> String {
        let count = |is: fn(Need) -> bool| self.entries.iter().filter(|entry| is(entry.need)).count();
        let parts = [
            (count(|need| matches!(need, Need::Question(_))), "ask"),
            (count(|need| need == Need::Limit), "held by a limit"),
            (count(|need| need == Need::Failed), "failed"),
            (count(|need| need == Need::CheckFails), "with a failing check"),
            (count(|need| need == Need::Interrupted), "interrupted"),
            (count(|need| need == Need::Finished), "finished"),
            (core.roster().at_work().len(), "at work"),
        ];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        ["inbox".to_owned()].into_iter().chain(parts).collect::<Vec<_>>().join(" ─ ")
    }

    /// Which agent the marked entry is about, where it works and with which model.
    fn about_marked(&self, core: &Core, places: &Places) -> String {
        let marked = self.entries.marked().filter(|_| self.together.is_none());
        let Some(agent) = marked.and_then(|entry| core.agent(entry.agent)) else { return String::new() };
        format!("{} ─ {} ─ {}", agent.listed(), places.of_agent(agent), agent.inputs.endpoint.shown_name())
    }

    /// `digits` is the width of the column of numbers, `has_costs` whether there is a column of costs.
    fn entry_row(
        &self,
        core: &Core,
        entry: &InboxEntry,
        (digits, has_costs, places): (usize, bool, &Places),
        columns: u16,
    ) -> Option<Row> {
        let agent = core.agent(entry.agent)?;
        let is_one_of_several =
            matches!(entry.need, Need::Question(number) if self.several.contains(&(entry.agent, number)));
        let several = if is_one_of_several { "*" } else { " " };
        let name = format!("{:>digits$} {}", agent.identity.digits(), agent.listed());
        let (tool, summary) = summary(core, agent, entry.need);
        let age = entry.age(core.now()).map(text::age).unwrap_or_default();
        let (_, title, place) = WIDTHS.into_iter().find(|(least, ..)| columns >= *least).unwrap_or_default();
        let mut text = format!(" {several}{} ", column(&name, digits + 1 + title));
        if columns >= 60 {
            let is_told = columns >= 120 || places.are_several();
            let place = if is_told { column(&places.of_agent(agent), place) + " " } else { String::new() };
            text += &format!("{place}{} ", column(&tool, TOOL));
        }
        let cost = has_costs.then(|| format!(" {:>COST$}", cost(core, entry.agent).unwrap_or_default()));
        let end = format!(" {age:>AGE$}{}", cost.unwrap_or_default());
        let style = match entry.need {
            Need::Question(_) | Need::Limit | Need::Interrupted => Style::color(Color::Attention),
            Need::Failed | Need::CheckFails => Style::color(Color::Error),
            Need::Finished => Style::default(),
        };
        Some(Row::of(between(&text, &summary, &end, columns), style))
    }

    /// The marked entry in whole, or the questions that are about to be answered together.
    fn detail(&self, core: &Core, painter: &Painter, columns: u16, room: usize) -> QuestionRows {
        let marked = self.entries.marked().and_then(|entry| Some((entry.need, core.agent(entry.agent)?)));
        match (&self.together, marked) {
            (Some(together), _) => together.rows(core, columns, room),
            (None, Some((Need::Question(_), agent))) if let Some(asked) = agent.question() => {
                painter.question_rows(asked, room, false)
            }
            (None, Some((Need::Limit, agent))) => QuestionRows::of(limit_rows(core, agent, columns, room)),
            (None, Some((_, agent))) => {
                QuestionRows::of(conversation::rows(&agent.view.scrollback, Reader::End, columns, room, None))
            }
            (None, None) => QuestionRows::default(),
        }
    }
}

impl ViewContent for InboxView {
    fn name(&self) -> ViewName {
        ViewName::Inbox
    }

    fn asked(&self) -> Option<AgentId> {
        self.entries.marked().filter(|_| self.together.is_none()).map(|entry| entry.agent)
    }

    fn follow(&mut self, agent: AgentId) {
        self.wanted = Some(agent);
    }

    fn update(&mut self, core: &mut Core, context: &ViewContext<'_>) -> bool {
        let entries = inbox(core.roster(), core.trees(), context.unseen.iter());
        self.entries.replace(entries, |one, other| (one.agent, one.need) == (other.agent, other.need));
        let wanted = self.entries.iter().position(|entry| Some(entry.agent) == self.wanted);
        self.wanted.take_if(|_| wanted.is_some());
        self.entries.mark(wanted.unwrap_or(self.entries.at()));
        let is_open = |(agent, number): &(AgentId, u64)| {
            core.agent(*agent).and_then(Agent::question).is_some_and(|asked| asked.number == *number)
        };
        self.several.retain(|question| is_open(question));
        self.together = self.together.take().and_then(|together| together.with_open(core, core.now()));
        if let Some(agent) = self.asked() {
            show_newest(core, agent, DETAIL_MESSAGES);
        }
        true
    }

    fn hash_shown(&self, core: &Core, hash: &mut DefaultHasher) {
        let now = core.now();
        for entry in self.entries.iter() {
            (entry.agent, entry.need, entry.age(now).map(text::age), cost(core, entry.agent)).hash(hash);
            core.agent(entry.agent).map(|agent| &agent.report).hash(hash);
        }
        let revision =
            self.entries.marked().and_then(|entry| core.agent(entry.agent)).map(|agent| agent.view.revision());
        (self.entries.at(), revision, self.several.len(), core.roster().at_work().len()).hash(hash);
        self.together.iter().for_each(|together| together.hash_shown(now, hash));
    }

    fn next_change(&self, now: Moment) -> Option<Moment> {
        let ages = self.entries.iter().filter_map(|entry| entry.age(now));
        let ages = ages.map(|age| {
            let unit = if age < MINUTE { Duration::from_secs(1) } else { MINUTE };
            now + Duration::from_micros(
                u64::try_from(unit.as_micros() - age.as_micros() % unit.as_micros()).unwrap_or(u64::MAX),
            )
        });
        ages.chain(self.together.as_ref().and_then(|together| together.next_change(now))).min()
    }

    fn on_drawn(&mut self, page: Option<&Page>, columns: u16, now: Moment) {
        if let Some((together, page)) = self.together.as_mut().zip(page) {
            together.on_drawn(page, columns, now);
        }
        let marked = self.entries.marked().map(|entry| (entry.agent, entry.need));
        if self.shown.map(|(agent, need, _)| (agent, need)) != marked {
            self.shown = marked.map(|(agent, need)| (agent, need, now));
        }
    }

    fn on_key(&mut self, core: &Core, key: &Key) -> ViewAct {
        if let Some(together) = &mut self.together {
            let answered = together.on_key(key, core.now());
            return self.on_answered(answered);
        }
        let Key::Press(code, modifiers) = key else { return ViewAct::Done };
        self.wanted = None;
        match code {
            _ if modifiers.ctrl || modifiers.alt => return ViewAct::Done,
            KeyCode::Escape => return ViewAct::Close,
            KeyCode::Enter => return self.open(core),
            KeyCode::Char(' ') => self.mark_several(),
            KeyCode::Char('A') => return self.open_together(core),
            KeyCode::Char('x') => return self.mark_seen(core.now()),
            KeyCode::Char('i') => {
                return self.asked().map_or(ViewAct::Done, |agent| ViewAct::Write(vec![agent]));
            }
            code => self.entries.on_key(*code),
        }
        ViewAct::Done
    }

    fn pane(&self, core: &Core, painter: &Painter, size: (u16, usize)) -> Pane {
        let hints = match &self.together {
            _ if self.entries.is_empty() => "",
            Some(together) => together.hints(core.now()),
            None => "Enter go  i write  x seen  Tab next  Space mark  A answer several  Esc back",
        };
        let mut pane = Pane::new(&self.title(core), hints, size);
        if self.entries.is_empty() {
            pane.say("no agent needs you; Esc goes back");
            return pane;
        }
        let (columns, height) = size;
        let most = (height / 3).max(height.saturating_sub(DETAIL_ROWS + 14)).max(1);
        let agents = || self.entries.iter().filter_map(|entry| core.agent(entry.agent));
        let digits = agents().map(|agent| agent.identity.digits().len()).max().unwrap_or(1).max(2);
        let places = Places::of(agents(), core.branches());
        let has_costs = columns >= LEAST_FOR_COST && self.entries.iter().any(|entry| cost(core, entry.agent).is_some());
        pane.list(&self.entries, most, heading, |entry| {
            self.entry_row(core, entry, (digits, has_costs, &places), columns).unwrap_or_default()
        });
        pane.rule(&self.about_marked(core, &places));
        let detail = self.detail(core, painter, columns, pane.room());
        pane.rows.extend(detail.rows);
        (pane.page, pane.has_whole_rules) = (detail.page, detail.has_whole_rules);
        pane
    }
}

/// What is above the entries of a kind; nothing above questions.
fn heading(entry: &InboxEntry) -> Row {
    let kind = match entry.need {
        Need::Question(_) => return Row::default(),
        Need::Limit => "held by a limit",
        Need::Failed => "failed",
        Need::Interrupted => "interrupted by the end of the program",
        Need::CheckFails => "finished, but the check fails",
        Need::Finished => "finished, not seen",
    };
    Row::of(format!("  ─ {kind} ─"), Style::DIM)
}

/// What its requests have cost, in dollars, where prices are known.
fn cost(core: &Core, agent: AgentId) -> Option<String> {
    let cost = core.agent(agent)?.used.cost.filter(|cost| *cost > 0)?;
    Some(format!("${}", dollars(cost)))
}

/// Which limit holds an agent and how it is raised, above what it said last.
fn limit_rows(core: &Core, agent: &Agent, columns: u16, room: usize) -> Vec<Row> {
    let held = core.trees().held(agent.id()).map(|held| held.message(core.roster())).unwrap_or_default();
    let held = text::sanitise(&held).into_owned();
    let lines = text::wrap(&held, usize::from(columns).max(1));
    let mut rows: Vec<Row> = lines.map(|(_, line)| Row::of(line, Style::color(Color::Attention))).collect();
    let room = room.saturating_sub(rows.len());
    rows.extend(conversation::rows(&agent.view.scrollback, Reader::End, columns, room, None));
    rows
}

/// The tool, and what is asked or was said last, in one line.
fn summary(core: &Core, agent: &Agent, need: Need) -> (String, String) {
    match (need, agent.question()) {
        (Need::Question(_), Some(asked)) => {
            let title = one_line(&asked.question.title);
            let call = title.strip_prefix(&format!("{}: ", asked.tool)).unwrap_or(&title);
            (asked.tool.clone(), call.to_owned())
        }
        (Need::Limit, _) => {
            (String::new(), core.trees().held(agent.id()).map(|held| held.activity()).unwrap_or_default())
        }
        _ => {
            let (report, last) = (agent.report.line(), last_line(core, agent));
            let parts = [report, last].into_iter().filter(|part| !part.is_empty());
            (String::new(), parts.collect::<Vec<_>>().join(" ─ "))
        }
    }
}

/// The first line of the last reply or error, which may be of an earlier process.
fn last_line(core: &Core, agent: &Agent) -> String {
    let line = agent.output.last_line();
    if !line.is_empty() {
        return line;
    }
    let stored = core.store().last_said(agent.id()).ok().flatten().unwrap_or_default();
    one_line(stored.trim_start())
}
