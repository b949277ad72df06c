//! The content of an empty conversation: what one can do with many agents, and with which keys.

use crate::agent::{Agent, State};
use crate::base::text;
use crate::domain::change::ViewName;
use crate::domain::frame::{Color, Row, Style};
use crate::domain::keymap::{KeyAction, KeyMap};
use crate::repl::core::Core;
use crate::repl::terminals::Terminal;

/// The rows for an agent without messages, at a terminal that can write to it.
pub(super) fn rows(core: &Core, terminal: &Terminal, agent: &Agent) -> Vec<Row> {
    let is_writable = !terminal.mode.is_read_only && !core.store().is_read_only();
    // In line mode there are no views.
    let is_drawn = terminal.lines.is_none();
    let is_empty = agent.view.is_empty() && agent.state() == State::Idle && agent.queue.is_empty();
    if is_writable && is_drawn && is_empty { of_keys(&core.config().keymap, terminal.size.0) } else { Vec::new() }
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
