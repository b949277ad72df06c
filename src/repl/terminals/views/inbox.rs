//! The inbox: what needs the person, as a list, with the marked entry below it.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash};
use std::time::Duration;

use crate::agent::Agent;
use crate::base::clock::Moment;
use crate::base::id::AgentId;
use crate::base::text;
use crate::base::text::dollars;
use crate::domain::flow::{Change, Decision};
use crate::domain::frame::{Color, Row, Style};
use crate::domain::key::{Key, KeyCode};
use crate::domain::scrollback::Reader;
use crate::repl::core::Core;
use crate::repl::core::activity::one_line;
use crate::repl::terminals::conversation;
use crate::repl::terminals::draw::show_newest;
use crate::repl::terminals::painter::{Painter, QuestionRows};
use crate::repl::terminals::question::SETTLING;
use crate::repl::terminals::unseen::Unseen;
use crate::repl::terminals::views::{Body, ViewAct, column, hint_rows, rule};
use crate::team::{InboxEntry, Need, inbox, questions_like};

/// Columns of the name on usual and on wide screens, of the project and of the tool.
const NAME: usize = 9;
const WIDE_NAME: usize = 24;
const PROJECT: usize = 10;
const TOOL: usize = 10;
const AGE: usize = 7;
/// Columns of the cost, where one is known and there is room for it.
const COST: usize = 8;
const LEAST_FOR_COST: u16 = 72;
/// Rows of the marked entry, at least.
const DETAIL_ROWS: usize = 6;
/// Messages of the marked entry that are read from the store.
const DETAIL_MESSAGES: usize = 24;
/// Questions that are answered together: they fit a screen of 24 rows.
const MOST_TOGETHER: usize = 8;
const MINUTE: Duration = Duration::from_secs(60);

/// A row of the list.
enum Item<'a> {
    Heading(&'static str),
    Entry(&'a InboxEntry),
}

#[derive(Default)]
pub(super) struct InboxView {
    entries: Vec<InboxEntry>,
    /// The index of the marked entry.
    at: usize,
    /// The agent whose entry is to be marked when there is one.
    wanted: Option<AgentId>,
    /// The entries that Space has marked.
    several: BTreeSet<(AgentId, u64)>,
    /// The questions that are about to be allowed together.
    group: Option<Group>,
    /// The entry that the last frame showed in whole, and since when.
    shown: Option<(AgentId, Need, Moment)>,
}

/// Questions that one key answers.
struct Group {
    questions: Vec<(AgentId, u64)>,
    /// Since when all of them are on the screen.
    shown_since: Option<Moment>,
}

impl Group {
    /// Whether a key answers them.
    fn is_settled(&self, now: Moment) -> bool {
        self.shown_since.is_some_and(|since| now >= since + SETTLING)
    }
}

impl InboxView {
    /// The inbox with the entry of this agent marked.
    pub fn at(agent: AgentId) -> Self {
        Self { wanted: Some(agent), ..Self::default() }
    }

    fn marked(&self) -> Option<&InboxEntry> {
        self.entries.get(self.at)
    }

    /// The agent of the marked entry, unless several questions are about to be answered.
    pub fn marked_agent(&self) -> Option<AgentId> {
        self.marked().filter(|_| self.group.is_none()).map(|entry| entry.agent)
    }

    /// Marks the next question of this agent when it asks.
    pub fn follow(&mut self, agent: AgentId) {
        self.wanted = Some(agent);
    }

    pub fn update(&mut self, core: &mut Core, unseen: &Unseen) {
        let marked = self.marked().map(|entry| (entry.agent, entry.need));
        self.entries = inbox(&core.roster, &core.trees, unseen.iter());
        let wanted = self.entries.iter().position(|entry| Some(entry.agent) == self.wanted);
        self.wanted.take_if(|_| wanted.is_some());
        let is_marked = |entry: &InboxEntry| Some((entry.agent, entry.need)) == marked;
        let found = wanted.or_else(|| self.entries.iter().position(is_marked));
        self.at = found.unwrap_or(self.at).min(self.entries.len().saturating_sub(1));
        let is_open = |(agent, number): &(AgentId, u64)| {
            core.roster.get(*agent).and_then(Agent::question).is_some_and(|asked| asked.number == *number)
        };
        self.several.retain(|question| is_open(question));
        if let Some(group) = &mut self.group {
            group.questions.retain(is_open);
        }
        self.group.take_if(|group| group.questions.is_empty());
        if let Some(agent) = self.marked_agent() {
            show_newest(core, agent, DETAIL_MESSAGES);
        }
    }

    pub fn hash_shown(&self, core: &Core, hash: &mut DefaultHasher) {
        let now = core.clock.now();
        for entry in &self.entries {
            (entry.agent, entry.need, entry.age(now).map(text::age), cost(core, entry.agent)).hash(hash);
        }
        let revision = self.marked().and_then(|entry| core.roster.get(entry.agent)).map(|agent| agent.view.revision());
        (self.at, revision, self.several.len(), core.roster.at_work().len()).hash(hash);
        self.group.as_ref().map(|group| (&group.questions, group.is_settled(now))).hash(hash);
    }

    /// When an age changes.
    pub fn next_change(&self, now: Moment) -> Option<Moment> {
        let ages = self.entries.iter().filter_map(|entry| entry.age(now));
        let ages = ages.map(|age| {
            let unit = if age < MINUTE { Duration::from_secs(1) } else { MINUTE };
            now + Duration::from_micros(
                u64::try_from(unit.as_micros() - age.as_micros() % unit.as_micros()).unwrap_or(u64::MAX),
            )
        });
        let settled = self
            .group
            .as_ref()
            .and_then(|group| group.shown_since)
            .map(|since| since + SETTLING)
            .filter(|at| *at > now);
        ages.chain(settled).min()
    }

    /// A frame was drawn that shows all questions that are about to be answered together, or not.
    pub fn on_drawn(&mut self, is_whole: bool, now: Moment) {
        if let Some(group) = &mut self.group {
            group.shown_since = if is_whole { group.shown_since.or(Some(now)) } else { None };
        }
        let marked = self.marked().map(|entry| (entry.agent, entry.need));
        if self.shown.map(|(agent, need, _)| (agent, need)) != marked {
            self.shown = marked.map(|(agent, need)| (agent, need, now));
        }
    }

    pub fn on_key(&mut self, core: &Core, key: &Key) -> ViewAct {
        if self.group.is_some() {
            return self.on_key_at_group(core, key);
        }
        let Key::Press(code, modifiers) = key else { return ViewAct::Done };
        let last = self.entries.len().saturating_sub(1);
        self.wanted = None;
        match code {
            _ if modifiers.ctrl || modifiers.alt => return ViewAct::Done,
            KeyCode::Escape => return ViewAct::Close,
            KeyCode::Up | KeyCode::Char('k') => self.at = self.at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.at = (self.at + 1).min(last),
            KeyCode::Tab => self.at = if self.at == last { 0 } else { self.at + 1 },
            KeyCode::BackTab => self.at = self.at.checked_sub(1).unwrap_or(last),
            KeyCode::Home => self.at = 0,
            KeyCode::End => self.at = last,
            KeyCode::Enter => return self.marked_agent().map_or(ViewAct::Done, ViewAct::Go),
            KeyCode::Char(' ') => self.mark_several(),
            KeyCode::Char('A') => return self.open_group(core),
            KeyCode::Char('x') => return self.mark_seen(core.clock.now()),
            KeyCode::Char('i') => {
                return self.marked_agent().map_or(ViewAct::Done, |agent| ViewAct::Write(vec![agent]));
            }
            _ => {}
        }
        ViewAct::Done
    }

    fn mark_several(&mut self) {
        if let Some(InboxEntry { agent, need: Need::Question(number), .. }) = self.marked().copied() {
            if !self.several.remove(&(agent, number)) {
                self.several.insert((agent, number));
            }
            self.at = (self.at + 1).min(self.entries.len().saturating_sub(1));
        }
    }

    /// Removes the marked entry, if the person has had time to see it.
    fn mark_seen(&self, now: Moment) -> ViewAct {
        match self.marked() {
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

    /// Lists the marked questions, or those that the rules of this one would allow.
    fn open_group(&mut self, core: &Core) -> ViewAct {
        let mut questions = match (self.several.is_empty(), self.marked_agent()) {
            (true, Some(agent)) => questions_like(&core.roster, agent),
            _ => self.several.iter().copied().collect(),
        };
        questions.truncate(MOST_TOGETHER);
        if questions.is_empty() {
            return ViewAct::Notice("no rule could allow this: answer it with y or n, or mark several with Space");
        }
        self.group = Some(Group { questions, shown_since: None });
        ViewAct::Done
    }

    fn on_key_at_group(&mut self, core: &Core, key: &Key) -> ViewAct {
        let Some(group) = &self.group else { return ViewAct::Done };
        let decision = match key {
            Key::Press(KeyCode::Escape, _) => None,
            Key::Press(KeyCode::Char('y'), modifiers) if !modifiers.ctrl => Some(Decision::Allow),
            Key::Press(KeyCode::Char('n'), modifiers) if !modifiers.ctrl => Some(Decision::Deny(None)),
            _ => return ViewAct::Done,
        };
        if decision.is_some() && !group.is_settled(core.clock.now()) {
            return ViewAct::Done;
        }
        let questions = self.group.take().map(|group| group.questions).unwrap_or_default();
        let Some(decision) = decision else { return ViewAct::Done };
        self.several.clear();
        let answer = |(agent, question)| (agent, Change::Answer { question, decision: decision.clone() });
        ViewAct::Changes(questions.into_iter().map(answer).collect())
    }

    pub fn body(&self, core: &Core, painter: &Painter, columns: u16, height: usize) -> Body {
        let mut rows = vec![rule(&self.title(core), columns)];
        if self.entries.is_empty() {
            rows.push(Row::default());
            rows.push(Row::of("  no agent needs you; Esc goes back", Style::DIM));
            return Body::of(rows);
        }
        let list = self.list();
        let most = (height / 3).max(height.saturating_sub(DETAIL_ROWS + 14)).max(1);
        let shown = list.len().min(most);
        let marked = list.iter().position(|(is_marked, _)| *is_marked).unwrap_or(0);
        let first = marked.saturating_sub(shown.saturating_sub(1)).max((marked + 1).saturating_sub(shown));
        let digits = self.entries.iter().filter_map(|entry| core.roster.get(entry.agent));
        let digits = digits.map(|agent| agent.identity.ordinal.to_string().len()).max().unwrap_or(1).max(2);
        let has_costs = columns >= LEAST_FOR_COST && self.entries.iter().any(|entry| cost(core, entry.agent).is_some());
        for (is_marked, item) in list.into_iter().skip(first).take(shown) {
            rows.extend(match item {
                Item::Heading(group) => Some(Row::of(format!("  ─ {group} ─"), Style::DIM)),
                Item::Entry(entry) => self.entry_row(core, entry, is_marked, (digits, has_costs), columns),
            });
        }
        rows.push(rule("", columns));
        let hints = self.hints(columns);
        let room = height.saturating_sub(rows.len() + hints.len());
        let QuestionRows { rows: detail, page, has_whole_rules } = self.detail(core, painter, columns, room);
        let is_whole = detail.len() <= room;
        rows.extend(detail);
        rows.resize(height.saturating_sub(hints.len()), Row::default());
        rows.extend(hints);
        Body { rows, page, has_whole_rules, is_whole, cursor: None }
    }

    fn title(&self, core: &Core) -> String {
        let count = |is: fn(Need) -> bool| self.entries.iter().filter(|entry| is(entry.need)).count();
        let parts = [
            (count(|need| matches!(need, Need::Question(_))), "ask"),
            (count(|need| need == Need::Limit), "held by a limit"),
            (count(|need| need == Need::Failed), "failed"),
            (count(|need| need == Need::Interrupted), "interrupted"),
            (count(|need| need == Need::Finished), "finished"),
            (core.roster.at_work().len(), "at work"),
        ];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        ["inbox".to_owned()].into_iter().chain(parts).collect::<Vec<_>>().join(" ─ ")
    }

    /// The list with a heading above each kind after the first, and whether the row is the marked one.
    fn list(&self) -> Vec<(bool, Item<'_>)> {
        let mut list = Vec::new();
        let mut heading = None;
        for (at, entry) in self.entries.iter().enumerate() {
            let group = match entry.need {
                Need::Question(_) => None,
                Need::Limit => Some("held by a limit"),
                Need::Failed => Some("failed"),
                Need::Interrupted => Some("interrupted by the end of the program"),
                Need::Finished => Some("finished, not seen"),
            };
            if group != heading {
                heading = group;
                list.extend(group.map(|group| (false, Item::Heading(group))));
            }
            list.push((at == self.at, Item::Entry(entry)));
        }
        list
    }

    /// `digits` is the width of the column of numbers, `has_costs` whether there is a column of costs.
    fn entry_row(
        &self,
        core: &Core,
        entry: &InboxEntry,
        is_marked: bool,
        (digits, has_costs): (usize, bool),
        columns: u16,
    ) -> Option<Row> {
        let agent = core.roster.get(entry.agent)?;
        let is_one_of_several =
            matches!(entry.need, Need::Question(number) if self.several.contains(&(entry.agent, number)));
        let sign = if is_marked { ">" } else { " " };
        let several = if is_one_of_several { "*" } else { " " };
        let name = format!("{:>digits$} {}", agent.identity.ordinal, agent.identity.label());
        let (tool, summary) = summary(core, agent, entry.need);
        let directory = agent.inputs.environment.place();
        let project = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let age = entry.age(core.clock.now()).map(text::age).unwrap_or_default();
        let is_wide = columns >= 60;
        let name_columns = digits + 1 + if columns >= 120 { WIDE_NAME } else { NAME };
        let mut text = format!("{sign}{several}{} ", column(&name, name_columns));
        if is_wide {
            text += &format!("{} {} ", column(&project, PROJECT), column(&tool, TOOL));
        }
        let cost = has_costs.then(|| format!(" {:>COST$}", cost(core, entry.agent).unwrap_or_default()));
        let end = format!(" {age:>AGE$}{}", cost.unwrap_or_default());
        let room = usize::from(columns).saturating_sub(text::width(&text) + text::width(&end));
        text += &(column(&summary, room) + &end);
        let style = match (is_marked, entry.need) {
            (true, _) => Style { reverse: true, ..Style::default() },
            (_, Need::Question(_) | Need::Limit | Need::Interrupted) => Style::color(Color::Attention),
            (_, Need::Failed) => Style::color(Color::Error),
            (_, Need::Finished) => Style::default(),
        };
        Some(Row::of(text, style))
    }

    /// The marked entry in whole, or the questions that are about to be answered together.
    fn detail(&self, core: &Core, painter: &Painter, columns: u16, room: usize) -> QuestionRows {
        let plain = |rows| QuestionRows { rows, page: None, has_whole_rules: false };
        if let Some(group) = &self.group {
            return plain(group_rows(core, group));
        }
        let Some((entry, agent)) = self.marked().and_then(|entry| Some((entry, core.roster.get(entry.agent)?))) else {
            return plain(Vec::new());
        };
        match (entry.need, agent.question()) {
            (Need::Question(_), Some(asked)) => painter.question_rows(asked, room, false),
            (Need::Limit, _) => plain(limit_rows(core, agent, columns, room)),
            _ => plain(conversation::rows(&agent.view.scrollback, Reader::End, columns, room, None)),
        }
    }

    fn hints(&self, columns: u16) -> Vec<Row> {
        let hints = match &self.group {
            Some(_) => "y allow all of these   n refuse them   Esc back",
            None => "Enter go  i write  x seen  Tab next  Space mark  A answer several  Esc back",
        };
        hint_rows(hints, columns)
    }
}

/// What its requests have cost, in dollars, where prices are known.
fn cost(core: &Core, agent: AgentId) -> Option<String> {
    let cost = core.roster.get(agent)?.used.cost.filter(|cost| *cost > 0)?;
    Some(format!("${}", dollars(cost)))
}

/// Which limit holds an agent and how it is raised, above what it said last.
fn limit_rows(core: &Core, agent: &Agent, columns: u16, room: usize) -> Vec<Row> {
    let held = core.trees.held(agent.id()).map(|held| held.message(&core.roster)).unwrap_or_default();
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
            (String::new(), core.trees.held(agent.id()).map(|held| held.activity()).unwrap_or_default())
        }
        _ => (String::new(), last_line(core, agent)),
    }
}

/// The first line of the last reply or error, which may be of an earlier process.
fn last_line(core: &Core, agent: &Agent) -> String {
    let line = agent.output.last_line();
    if !line.is_empty() {
        return line;
    }
    let stored = core.store.last_said(agent.id()).ok().flatten().unwrap_or_default();
    one_line(stored.trim_start())
}

/// Questions that are about to be answered together.
fn group_rows(core: &Core, group: &Group) -> Vec<Row> {
    let count = text::counted(group.questions.len(), "question", "questions");
    let mut rows = vec![Row::of(format!("{count} would be answered:"), Style::color(Color::Attention))];
    for (agent, _) in &group.questions {
        let Some((agent, asked)) = core.roster.get(*agent).and_then(|agent| Some((agent, agent.question()?))) else {
            continue;
        };
        let line = format!("  {}: {} {}", agent.identity.label(), asked.tool, one_line(&asked.question.title));
        rows.push(Row::of(text::sanitise(&line).replace('\n', " "), Style::BOLD));
    }
    rows
}
