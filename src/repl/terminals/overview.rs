//! What is shown below a short conversation: in an empty one what one can do with many agents, and with which keys; then
//! what the children do that work in git worktrees of their own.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::agent::{Agent, State};
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::change::ViewName;
use crate::domain::flow::TurnEnd;
use crate::domain::frame::{Color, Row, Style};
use crate::domain::keymap::{KeyAction, KeyMap};
use crate::repl::core::Core;
use crate::repl::core::activity::one_line;
use crate::repl::terminals::Terminal;
use crate::repl::terminals::pane::hint_row;
use crate::repl::terminals::views::{TileState, column};

/// Children that are listed, the newest.
const MOST_CHILDREN: usize = 9;
/// Children among which those are looked for, the newest: this is done in each turn of the loop.
const MOST_SEARCHED: usize = 50;
/// Columns of the names of children, at most.
const NAME_COLUMNS: usize = 40;

/// The rows for an agent.
pub(super) fn rows(core: &Core, terminal: &Terminal, agent: &Agent) -> Vec<Row> {
    let is_writable = !terminal.mode.is_read_only && !core.store().is_read_only();
    let is_empty = agent.view.is_empty() && agent.state() == State::Idle && agent.queue.is_empty();
    match is_empty && is_writable {
        // In line mode there are no views.
        _ if terminal.lines.is_some() => Vec::new(),
        true => of_keys(&core.config().keymap, terminal.size.0),
        // What is printed by an inline terminal stays.
        false if terminal.inline.is_some() => Vec::new(),
        false => of_children(core, agent.id(), terminal.size.0),
    }
}

/// Changes with the rows about the children.
pub(super) fn hash_children(core: &Core, agent: AgentId) -> u64 {
    let mut hash = DefaultHasher::new();
    for child in children(core, agent) {
        let identity = (&child.identity.name, child.identity.number);
        (identity, TileState::of(core, child), &child.report, &child.title).hash(&mut hash);
        child.question().map(|asked| asked.number).hash(&mut hash);
        (child.state() == State::Idle).then(|| child.view.revision()).hash(&mut hash);
    }
    hash.finish()
}

fn children(core: &Core, agent: AgentId) -> impl Iterator<Item = &Agent> {
    let roster = core.roster();
    let is_shown = move |id: &AgentId| roster.shown_parent(*id) == Some(agent);
    let searched = if roster.in_worktrees().is_empty() { 0 } else { MOST_SEARCHED };
    let newest = roster.children(agent).rev().take(searched).filter(|id| roster.in_worktrees().contains(id));
    newest.filter(is_shown).filter_map(move |id| roster.get(id)).take(MOST_CHILDREN)
}

/// What each child does, in one row.
fn of_children(core: &Core, agent: AgentId, columns: u16) -> Vec<Row> {
    let mut children: Vec<&Agent> = children(core, agent).collect();
    children.reverse();
    let name = |child: &Agent| child.listed().replace('\n', " ");
    let widest = |of: &dyn Fn(&Agent) -> usize| children.iter().map(|child| of(child)).max().unwrap_or(0);
    let digits = widest(&|child| child.identity.digits().len());
    let names = widest(&|child| text::width(&name(child))).min(NAME_COLUMNS);
    let states = widest(&|child| text::width(state_of(core, child).0));
    let row = |child: &&Agent| {
        let (state, color) = state_of(core, child);
        let mut row = Row::of(format!("  {:>digits$} ", child.identity.digits()), Style::DIM);
        row.push(format!("{}  ", column(&name(child), names)), Style::default());
        row.push(format!("{}  ", column(state, states)), Style::color(color));
        let room = usize::from(columns).saturating_sub(text::width(&row.text()));
        row.push(text::shortened(&text::sanitise(&about(child)), room), Style::DIM);
        row.cut(columns)
    };
    let mut rows: Vec<Row> = children.iter().map(row).collect();
    if !rows.is_empty() {
        let key = |action| core.config().keymap.keys_of(action).into_iter().next();
        let views = [(ViewName::Inbox, "who needs you"), (ViewName::Wall, "all at work")];
        let views =
            views.into_iter().filter_map(|(view, what)| Some(format!("{} {what}", key(KeyAction::View(view))?)));
        let first = children
            .iter()
            .find_map(|child| Some((child, key(KeyAction::Agent(child.identity.number()?.try_into().ok()?))?)));
        let agent = first.map(|(child, key)| format!("{key} agent {}", child.identity.digits()));
        let hints = agent.into_iter().chain(views).collect::<Vec<_>>().join("  ");
        rows.push(hint_row(&hints, Style::DIM, Style::default()).indented("  ").cut(columns));
    }
    rows
}

/// What a child does, in a word, and its colour.
fn state_of(core: &Core, child: &Agent) -> (&'static str, Color) {
    match TileState::of(core, child) {
        TileState::Idle if child.last_end() != Some(TurnEnd::Completed) => ("idle", Color::Default),
        TileState::Idle if child.report.check.is_empty() => ("done", Color::Default),
        TileState::Idle => ("done", Color::Added),
        state => (state.name(), state.color()),
    }
}

/// What a child asks, or else what it has done.
fn about(child: &Agent) -> String {
    match (child.question(), child.report.line()) {
        (Some(asked), _) => one_line(&asked.question.title),
        (None, report) if report.is_empty() && child.state() == State::Idle => child.output.last_line(),
        (None, report) => report,
    }
}

fn of_keys(keymap: &KeyMap, columns: u16) -> Vec<Row> {
    let key = |action, otherwise: &str| keymap.keys_of(action).into_iter().next().unwrap_or_else(|| otherwise.into());
    let view = |name, command: &str| key(KeyAction::View(name), command);
    let numbers = [0, 9].map(|number| key(KeyAction::Agent(number), "/switch"));
    let lines = [
        ("/fork TASK".into(), format!("a child goes on from here; {} to {} change agents", numbers[0], numbers[1])),
        (view(ViewName::Inbox, "/inbox"), "inbox: who asks, has failed or finished, of all agents".into()),
        (view(ViewName::Wall, "/wall"), "wall: all agents as live tiles".into()),
        (
            "/ask --models M,N".into(),
            format!("compare the answers of several models, again with {}", view(ViewName::Compare, "/compare")),
        ),
    ];
    let most = lines.iter().map(|(term, _)| text::width(term)).max().unwrap_or(0);
    let row = |(term, about): &(String, String)| {
        let mut row = Row::of(format!("  {term}"), Style::color(Color::User));
        row.push(format!("{}  {about}", " ".repeat(most - text::width(term))), Style::DIM);
        row.cut(columns)
    };
    lines.iter().map(row).collect()
}
