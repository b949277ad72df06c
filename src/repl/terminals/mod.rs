//! The attached terminals: keys to acts, the agent that each shows, frames.
//!
//! Focus, size, notice and draft belong to a terminal, which has a draft at every agent; the scroll position to the agent,
//! except on a read-only terminal, which has its own.

mod alerts;
mod announcer;
mod begun;
mod completion;
mod conversation;
mod device;
mod display;
mod draw;
mod entry;
mod folds;
mod highlights;
mod history;
mod inline;
mod input;
mod key_actions;
mod key_input;
mod leaving;
mod lines;
mod list;
mod mentions;
mod overview;
mod painter;
mod pane;
mod popup;
mod query;
mod question;
mod reports;
mod selection;
mod separator;
mod setup;
mod status;
mod terminal;
mod unseen;
pub(crate) mod views;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::agent::Role;
use crate::base::clock::Moment;
use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, MessageId, TerminalId};
use crate::commands::TerminalInfo;
use crate::domain::change::Change;
use crate::domain::chunk::Status;
use crate::domain::flow::{Origin, TurnEnd};
use crate::domain::key::{TypedInput, TypedKind};
use crate::domain::scrollback::LineKind;
use crate::domain::scrollback::Reader;
use crate::reactor::{Reactor, Ready, Source};
use crate::repl::component::{Command, Component};
use crate::repl::core::begin::forget_unwritten;
use crate::repl::core::drafts;
use crate::repl::core::spawn::stored_place;
use crate::repl::core::{Core, activity, agent_gone, read_branch, refresh_branch};
use crate::repl::event::Event;
use crate::repl::terminals::alerts::Alerts;
use crate::repl::terminals::draw::{show_from, text_width};
use crate::repl::terminals::highlights::Highlights;
use crate::repl::terminals::history::UnsavedDrafts;
use crate::repl::terminals::mentions::Files;
use crate::repl::terminals::question::QuestionKeys;
use crate::repl::terminals::unseen::{Unseen, store_seen};
use crate::repl::timeout::{SPINNER_STEP, WakeReason};
use crate::team::UnseenEnd;
pub use device::{Device, RemoteTerminal};
pub(super) use draw::{QUEUE_ROWS, rule_file, show_again, toggle_raw};
pub(super) use input::Act;
pub(super) use status::directory;
use terminal::Notice;
pub use terminal::{Terminal, TerminalMode, TerminalRequest};
use views::acts_of;

/// In the order of attaching.
#[derive(Default)]
pub(super) struct Terminals {
    /// Boxed: a node of the map would otherwise have room for eleven of them, on the stack first.
    terminals: BTreeMap<TerminalId, Box<Terminal>>,
    count: u64,
    unsaved: UnsavedDrafts,
    /// The files that `@` was asked for last.
    files: Option<Files>,
    unseen: Unseen,
    alerts: Alerts,
    highlights: Highlights,
    /// Terminals to return to their directories in the next step: their conversation is gone, and its adopter works elsewhere.
    displaced: Vec<TerminalId>,
}

impl Terminals {
    fn add(&mut self, terminal: Terminal) -> TerminalId {
        self.count += 1;
        let id = TerminalId(self.count);
        self.terminals.insert(id, Box::new(terminal));
        id
    }

    pub(super) fn get(&self, id: TerminalId) -> Option<&Terminal> {
        self.terminals.get(&id).map(Box::as_ref)
    }

    pub(super) fn get_mut(&mut self, id: TerminalId) -> Option<&mut Terminal> {
        self.terminals.get_mut(&id).map(Box::as_mut)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Terminal> {
        self.terminals.values().map(Box::as_ref)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Terminal> {
        self.terminals.values_mut().map(Box::as_mut)
    }

    pub(super) fn ids(&self) -> Vec<TerminalId> {
        self.terminals.keys().copied().collect()
    }

    /// The terminal of this process.
    pub(super) fn local(&self) -> Option<TerminalId> {
        self.terminals.iter().find(|(_, terminal)| terminal.is_local()).map(|(id, _)| *id)
    }

    pub(super) fn has_local(&self) -> bool {
        self.local().is_some()
    }

    /// Whether the lines of one come from a program.
    pub(super) fn has_scripted(&self) -> bool {
        self.iter().any(|terminal| terminal.mode.is_scripted)
    }

    /// The first that is not read-only.
    pub(super) fn first_writable(&self) -> Option<TerminalId> {
        self.terminals.iter().find(|(_, terminal)| !terminal.mode.is_read_only).map(|(id, _)| *id)
    }

    pub(super) fn showing(&self, agents: &[AgentId]) -> Vec<TerminalId> {
        self.terminals.iter().filter(|(_, terminal)| agents.contains(&terminal.focus)).map(|(id, _)| *id).collect()
    }

    /// The terminal of an origin, if it still shows this agent.
    pub(super) fn still_at(&self, origin: Origin, agent: AgentId) -> Option<TerminalId> {
        origin.terminal().filter(|at| self.get(*at).is_some_and(|terminal| terminal.focus == agent))
    }
}

impl Terminals {
    /// Attaches a terminal that shows this agent, or agent 0 if that was removed. It is drawn in the next turn.
    pub(super) fn attach(&mut self, core: &mut Core, device: Device, focus: AgentId, mode: TerminalMode) -> TerminalId {
        let eldest = || core.roster().nth(0).expect("there is at least agent 0");
        let focus = core.agent(focus).map_or_else(eldest, |agent| agent.id());
        let id = self.add_at(core, device, focus, mode);
        self.show(core, id, focus);
        self.offer_setup(core, id, false);
        id
    }

    fn add_at(&mut self, core: &mut Core, device: Device, focus: AgentId, mode: TerminalMode) -> TerminalId {
        let id = self.add(Terminal::new(device, focus, mode, &core.config().display, core.clock().unix_ms()));
        if !mode.is_read_only {
            drafts::attach(core, id);
        }
        id
    }

    /// Attaches a terminal that shows all conversations, of which the person chooses one; then these changes are
    /// applied to it. A terminal without cursor addressing shows this agent instead, and the changes apply to it.
    pub(super) fn attach_picker(
        &mut self,
        core: &mut Core,
        device: Device,
        (focus, mode): (AgentId, TerminalMode),
        then: Vec<Change>,
    ) -> TerminalId {
        let id = self.add_at(core, device, focus, mode);
        if !self.is_line_mode(id) {
            self.show_picker(core, id, then);
        } else if let Some(terminal) = self.get_mut(id) {
            terminal.input.acts = acts_of(then.into_iter().map(|change| (focus, change)));
        }
        self.show(core, id, focus);
        id
    }

    /// Stores which agent a terminal shows, for the next one that is opened in its directory.
    pub(super) fn keep_shown(&self, core: &mut Core, id: TerminalId) {
        let Some(terminal) = self.get(id).filter(|terminal| !terminal.mode.is_read_only) else { return };
        if core.store().is_read_only() || self.is_picking(id) {
            return;
        }
        let directory = place_of(core, terminal).unwrap_or_default();
        // Without it, the next terminal shows another agent.
        drop(core.store().set_last_shown(&directory, terminal.focus));
    }

    /// Forgets a terminal. Its drafts stay with their agents.
    pub(super) fn detach(&mut self, core: &mut Core, id: TerminalId) {
        let reader = self.reader(id);
        self.keep_shown(core, id);
        let Some(terminal) = self.terminals.remove(&id) else { return };
        if terminal.is_local() {
            core.reactor().unwatch(Source::Terminal);
        }
        leave_view(core, id, reader, terminal.focus);
        if let Some(slot) = drafts::slot_at(core, id) {
            drafts::detach(core, id);
            for agent in core.roster().ids() {
                core.edit(agent, |agent| agent.view.drafts.forget_sender(slot));
            }
        }
        let unwritten: Vec<AgentId> =
            terminal.begun.into_iter().filter(|begun| self.showing(&[*begun]).is_empty()).collect();
        forget_unwritten(core, &unwritten);
    }

    pub(super) fn is_read_only(&self, id: TerminalId) -> bool {
        self.get(id).is_some_and(|terminal| terminal.mode.is_read_only)
    }

    /// Whose scroll position this terminal moves.
    fn reader(&self, id: TerminalId) -> Reader {
        if self.is_read_only(id) { Reader::Watcher(id.0) } else { Reader::Shared }
    }

    /// The terminals as commands see them, asked from one of them.
    pub(super) fn infos(&self, origin: impl Into<Option<TerminalId>>) -> Vec<TerminalInfo> {
        let origin = origin.into();
        let info = |(id, terminal): (&TerminalId, &Terminal)| TerminalInfo {
            number: id.0,
            since: terminal.since,
            size: terminal.size,
            focus: terminal.focus,
            is_attached: terminal.mode.is_attached,
            is_read_only: terminal.mode.is_read_only,
            is_origin: Some(*id) == origin,
            text_columns: text_width(terminal.size.0).into(),
        };
        self.terminals.iter().map(|(id, terminal)| info((id, terminal.as_ref()))).collect()
    }

    /// The columns for text at a terminal.
    pub(super) fn text_columns(&self, id: TerminalId) -> Option<usize> {
        self.get(id).map(|terminal| text_width(terminal.size.0).into())
    }

    /// Shows another agent at the terminal where this was asked for.
    pub(super) fn switch(&mut self, core: &mut Core, origin: Origin, to: AgentId) -> Result<()> {
        core.agent(to).ok_or_else(agent_gone)?;
        if let Some(id) = origin.terminal() {
            self.show(core, id, to);
        }
        Ok(())
    }

    /// As [`Terminals::switch`], with the rows from this message of the agent's log on.
    pub(super) fn show_message(
        &mut self,
        core: &mut Core,
        origin: Origin,
        to: AgentId,
        message: MessageId,
    ) -> Result<()> {
        self.switch(core, origin, to)?;
        let Some(id) = origin.terminal() else { return Ok(()) };
        match show_from(core, to, self.reader(id), message)? {
            true => Ok(()),
            false => Err(Error::usage("the message is too far back, or the agent is at work: PgUp scrolls there")),
        }
    }

    /// Puts a text into the clipboard of the terminal at which the command was entered.
    pub(super) fn copy(&mut self, origin: Origin, text: &str) -> Result<()> {
        let terminal = origin.terminal().and_then(|id| self.get_mut(id));
        let message = "/copy needs a terminal: /export writes a file instead";
        terminal.ok_or_else(|| Error::usage(message))?.copy(text)
    }

    /// Reads the branch again, which the turn may have changed, and marks an agent that no terminal shows as unseen.
    fn on_turn_ended(&mut self, core: &mut Core, id: AgentId) {
        refresh_branch(core, id);
        let Some(agent) = core.agent(id) else { return };
        self.alerts.on_turn_ended(agent);
        let is_seen = |at: &TerminalId| self.get(*at).is_some_and(|terminal| !terminal.is_at_shell);
        if self.showing(&[id]).iter().any(is_seen) {
            store_seen(core, id);
        } else if agent.role == Role::Normal && matches!(agent.status(), Status::Idle | Status::Failed) {
            self.unseen.add(agent, core.now());
        }
    }

    /// Shows a text above the input of this terminal until the next key there.
    pub(super) fn notify(&mut self, id: TerminalId, text: String) {
        if let Some(terminal) = self.get_mut(id) {
            terminal.input.notice = Some(Notice { text, about: None });
        }
    }

    /// Shows the result of a change: in the agent's text, and at a view, which hides that. On a read-only terminal there alone.
    pub(super) fn show_result(&mut self, core: &mut Core, origin: Origin, agent: AgentId, kind: LineKind, text: &str) {
        match origin.terminal().filter(|id| self.is_read_only(*id)) {
            Some(id) => self.notify(id, text.to_owned()),
            None => {
                core.note(agent, kind, text);
                let view = origin.terminal().filter(|id| self.shows_view(*id));
                view.into_iter().for_each(|id| self.notify(id, text.to_owned()));
            }
        }
    }

    /// Whether an agent has finished a turn that no terminal has shown.
    pub(super) fn is_unseen(&self, agent: AgentId) -> bool {
        self.unseen.contains(agent)
    }

    /// Takes over which agents have finished unseen in an earlier process: agent, end, and how long ago.
    pub(super) fn restore_unseen(&mut self, ended: Vec<(AgentId, TurnEnd, Duration)>, now: Moment) {
        for (agent, end, before) in ended {
            self.unseen.push(UnseenEnd { agent, end, at: now, before });
        }
    }

    /// Each terminal with the agent that it shows.
    pub(super) fn focus_by_terminal(&self) -> impl Iterator<Item = (TerminalId, AgentId)> {
        self.terminals.iter().map(|(id, terminal)| (*id, terminal.focus))
    }

    /// What a terminal has received since the last call.
    pub(super) fn take_typed(&mut self, core: &Core, id: TerminalId) -> Option<TypedInput> {
        let question = self.situation(core, id, false)?.question;
        let terminal = self.get_mut(id)?;
        let is_answered = !matches!(question, QuestionKeys::Text | QuestionKeys::Typing(_));
        let kind = match &terminal.input.view {
            Some(view) => view.typed_kind(),
            None if is_answered || terminal.input.vi.is_normal() => TypedKind::Keys,
            None => TypedKind::Text,
        };
        Some(TypedInput {
            terminal: id,
            shown: terminal.focus,
            bytes: terminal.keyboard.take_received(),
            size: terminal.size,
            kind,
        })
    }

    /// How many keys were handled at a terminal since the last call.
    pub(super) fn take_handled_keys(&mut self, id: TerminalId) -> u64 {
        self.get_mut(id).map_or(0, |terminal| terminal.keyboard.take_handled())
    }

    /// The agents whose work a person sees.
    pub(super) fn watched(&self) -> impl Iterator<Item = AgentId> {
        let views = self.iter().filter_map(|terminal| terminal.input.view.as_ref());
        self.focused().chain(views.flat_map(|view| view.watched()))
    }

    pub(super) fn focused(&self) -> impl Iterator<Item = AgentId> {
        self.iter().map(|terminal| terminal.focus)
    }
}

impl Component for Terminals {
    fn watch(&mut self, reactor: &mut Reactor) -> Result<()> {
        self.iter_mut().try_for_each(|terminal| terminal.watch(reactor))
    }

    fn on_ready(&mut self, ready: &[Ready], core: &mut Core) -> Result<()> {
        let now = core.now();
        self.iter_mut().try_for_each(|terminal| terminal.on_ready(ready, core.reactor(), now))
    }

    /// Moves terminals to a child that was created there, and away from a removed agent.
    fn on_event(&mut self, event: &Event, core: &mut Core) {
        match event {
            Event::Spawned { parent, child, origin, is_announced, stays } => {
                read_branch(core, *child);
                let moved = self.still_at(*origin, *parent).filter(|_| core.config().follows_forks && !stays);
                if let Some(id) = moved {
                    self.show(core, id, *child);
                } else if *is_announced {
                    let label = core.roster().label_of(*child);
                    core.note(*parent, LineKind::Note, &format!("the slice is ready: {label}"));
                }
            }
            Event::TurnEnded { agent, .. } => self.on_turn_ended(core, *agent),
            Event::JobReported { terminal, text } if self.shows_view(*terminal) => self.notify(*terminal, text.clone()),
            Event::Removed { agent, adopter, is_elsewhere, drafts, .. } => {
                self.unseen.remove(*agent);
                let showing = self.showing(&[*agent]);
                if *is_elsewhere {
                    self.displaced.extend(&showing);
                }
                for (id, adopter) in showing.iter().zip(adopter.iter().cycle()) {
                    self.show(core, *id, *adopter);
                }
                self.keep_drafts(core, &showing, drafts);
            }
            _ => {}
        }
    }

    fn step(&mut self, core: &mut Core, commands: &mut Vec<Command>) {
        for id in std::mem::take(&mut self.displaced) {
            commands.extend(self.return_to_directory(core, id));
        }
        self.unsaved.save(core);
        self.step_searches(core);
        self.check_shell(core);
        self.take_colors(core);
        self.alerts.update(core.roster());
    }

    fn has_work(&self, _: &Core) -> bool {
        self.iter().any(Terminal::has_leftover) || !self.searching().is_empty() || !self.displaced.is_empty()
    }

    fn deadline(&self, core: &Core) -> Option<(Moment, WakeReason)> {
        self.deadlines(core).min_by_key(|(at, _)| *at)
    }
}

impl Terminals {
    /// What terminals wait for.
    pub(super) fn deadlines(&self, core: &Core) -> impl Iterator<Item = (Moment, WakeReason)> {
        let now = core.now();
        let keys = self.iter().filter_map(Terminal::key_deadline).map(|at| (at, WakeReason::Keys));
        let steps = self.iter().filter_map(move |terminal| next_step(terminal, core, now));
        let questions = self.iter().filter_map(Terminal::question_deadline);
        let questions = questions.map(move |at| (at.max(now), WakeReason::Question));
        let texts = self.iter().filter_map(|terminal| terminal.display.text_at.filter(|_| terminal.is_ready()));
        let texts = texts.map(move |at| (at.max(now), WakeReason::Text));
        let drafts = self.unsaved.deadline().map(move |at| (at.max(now), WakeReason::Draft));
        let views =
            self.iter().filter(|terminal| terminal.is_ready()).filter_map(|terminal| terminal.input.view.as_ref());
        let views = views.filter_map(move |view| view.next_change(now)).map(move |at| (at.max(now), WakeReason::View));
        let files = self.files_expire().map(move |at| (at.max(now), WakeReason::Files));
        let shell = self.shell_deadline(now).map(|at| (at, WakeReason::Shell));
        keys.chain(steps).chain(texts).chain(questions).chain(drafts).chain(files).chain(views).chain(shell)
    }
}

/// Where a terminal was opened, in stored form.
fn place_of(core: &Core, terminal: &Terminal) -> Option<String> {
    stored_place(terminal.directory().unwrap_or(&core.config().working_directory))
}

/// When the spinner or the seconds on a terminal change. A terminal that accepts no output is drawn when it does.
fn next_step(terminal: &Terminal, core: &Core, now: Moment) -> Option<(Moment, WakeReason)> {
    let can_show = terminal.is_ready() && terminal.lines.is_none();
    let agent = core.agent(terminal.focus).filter(|agent| agent.view.is_spinning() && can_show)?;
    let worker = activity::worker(core, agent.id());
    let gate = core.send_queue().gate_of(worker, now);
    let countdown = core.agent(worker).and_then(|worker| activity::countdown(worker, gate.as_ref()));
    Some(match countdown {
        Some(at) => (activity::next_second(at, now), WakeReason::Countdown),
        None => ((terminal.display.drawn_at + SPINNER_STEP).max(now), WakeReason::Spinner),
    })
}

/// A terminal no longer shows this agent: its draft is stored, and the position of a read-only terminal is forgotten.
fn leave_view(core: &mut Core, at: TerminalId, reader: Reader, agent: AgentId) {
    match reader {
        Reader::Shared => drafts::slot_at(core, at).into_iter().for_each(|slot| drafts::save(core, agent, slot)),
        Reader::End => {}
        Reader::Watcher(_) => {
            core.edit(agent, |agent| agent.view.scrollback.to_bottom(reader));
        }
    }
}
