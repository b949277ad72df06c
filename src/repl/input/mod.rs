//! What keys do. First a pure step, key to action; then the action is carried out for the agent on the screen of the
//! terminal where the key was pressed.

mod bindings;

use crate::agent::{Agent, State};
use crate::base::error::Result;
use crate::base::id::{AgentId, TerminalId};
use crate::commands;
use crate::domain::draft::Draft;
use crate::domain::flow::{Change, Origin};
use crate::domain::key::Key;
use crate::domain::scrollback::{LineKind, Reader};
use crate::reactor::{Ready, Source};
use crate::repl::{Repl, Terminal, Turn};
use bindings::{Action, Direction, Situation, action_of};

impl Repl {
    /// Decodes keys, edits drafts, runs commands, submits: at each terminal for the agent on its screen.
    pub(super) fn handle_input(&mut self, ready: &[Ready]) -> Result<Turn> {
        for at in self.terminals.ids() {
            if self.serve_terminal(at, ready)? == Turn::Exit {
                return Ok(Turn::Exit);
            }
        }
        Ok(Turn::Continue)
    }

    fn serve_terminal(&mut self, at: TerminalId, ready: &[Ready]) -> Result<Turn> {
        let now = self.core.clock.now();
        let Some(terminal) = self.terminals.get_mut(at) else { return Ok(Turn::Continue) };
        terminal.begin_turn();
        if terminal.is_resized() {
            terminal.measure();
        }
        let is_local = terminal.is_local();
        let mut told = ready.iter().filter(|one| is_local && one.source == Source::Terminal).map(|one| one.readiness);
        if told.clone().any(|readiness| readiness.writable) {
            terminal.flush();
        }
        let is_ready = told.any(|readiness| readiness.readable);
        let is_due = terminal.key_deadline().is_some_and(|at| at <= now);
        if is_ready || is_due || terminal.has_input() {
            terminal.read_keys(now)?;
            if is_local {
                self.core.reactor.rearm(Source::Terminal)?;
            }
        }
        if terminal.is_gone() {
            return Ok(Turn::Exit);
        }
        while let Some(key) = self.terminals.get_mut(at).and_then(Terminal::next_key) {
            if self.on_key(at, &key)? == Turn::Exit {
                return Ok(Turn::Exit);
            }
            // What one key asked for has happened before the next one is looked at.
            self.apply_effects();
        }
        Ok(Turn::Continue)
    }

    fn on_key(&mut self, at: TerminalId, key: &Key) -> Result<Turn> {
        let Some(terminal) = self.terminals.get_mut(at) else { return Ok(Turn::Continue) };
        let has_notice = terminal.notice.take().is_some();
        let agent_id = terminal.focus;
        let Some(situation) = self.situation(at, has_notice) else { return Ok(Turn::Continue) };
        let action = action_of(key, &situation);
        if let Some(terminal) = self.terminals.get_mut(at).filter(|_| action.is_act()) {
            terminal.count_act();
        }
        match action {
            Action::Nothing => {}
            Action::Edit(edit) => drop(self.edit(at, edit)),
            Action::Type(text) => drop(self.edit(at, |draft| draft.insert(&text))),
            Action::Paste(text) => drop(self.edit(at, |draft| draft.paste(&text))),
            Action::Send => return Ok(self.send_draft(at, agent_id)),
            Action::Answer(allowed) => self.answer(at, agent_id, allowed),
            Action::Change(change) => drop(self.apply_or_notify(Origin::Terminal(at), agent_id, change)),
            Action::Scroll(rows) => self.scroll(at, agent_id, rows),
            Action::Recall(older) => self.recall(at, older),
            Action::Complete => self.complete(at, agent_id),
            Action::Go(direction) => self.go(at, agent_id, direction),
            Action::Redraw => self.terminals.get_mut(at).map(Terminal::redraw).unwrap_or_default(),
            Action::Suspend => self.suspend_at(at)?,
            Action::Leave => return Ok(self.leave_or_warn(at)),
        }
        Ok(Turn::Continue)
    }

    /// What decides about the meaning of a key that is pressed at this terminal.
    fn situation(&self, at: TerminalId, has_notice: bool) -> Option<Situation> {
        let terminal = self.terminals.get(at)?;
        let agent_id = terminal.focus;
        let agent = self.core.roster.get(agent_id)?;
        Some(Situation {
            // Only a question that the person has seen can be answered.
            is_asked: agent.question().is_some_and(|asked| terminal.has_shown(agent_id, asked.number)),
            is_whole: terminal.shows_whole_question,
            is_busy: agent.state() != State::Idle || agent.makes_worktree,
            is_held_up: self.is_held_up(self.worker(agent_id)),
            has_background_work: agent.has_background_work(),
            is_draft_empty: self.draft_at(at)?.is_empty(),
            has_queue: !agent.queue.is_empty(),
            has_notice,
        })
    }

    /// What is typed at this terminal: to the agent that it looks at, or where it only watches, to nobody.
    fn draft_at(&self, at: TerminalId) -> Option<&Draft> {
        let terminal = self.terminals.get(at)?;
        let agent = self.core.roster.get(terminal.focus)?;
        Some(if terminal.mode.is_read_only { &terminal.own_draft } else { &agent.view.draft })
    }

    fn with_draft<T>(&mut self, at: TerminalId, act: impl FnOnce(&mut Draft) -> T) -> Option<T> {
        let terminal = self.terminals.get_mut(at)?;
        if terminal.mode.is_read_only {
            terminal.revision += 1;
            return Some(act(&mut terminal.own_draft));
        }
        self.core.roster.with(terminal.focus, |agent| {
            agent.view.touch();
            act(&mut agent.view.draft)
        })
    }

    fn edit<T>(&mut self, at: TerminalId, edit: impl FnOnce(&mut Draft) -> T) -> Option<T> {
        self.terminals.get_mut(at)?.recalled = None;
        self.with_draft(at, edit)
    }

    /// The draft is a line for the house: a command or a message. Nothing of it is lost if it cannot be carried out.
    fn send_draft(&mut self, at: TerminalId, agent_id: AgentId) -> Turn {
        let reader = self.reader(at);
        self.core.roster.with(agent_id, |agent| agent.view.scrollback.to_bottom(reader));
        let text = self.with_draft(at, Draft::take);
        let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Turn::Continue };
        let is_watcher = self.is_watcher(at);
        if !is_watcher {
            // The history of inputs is a convenience: a line that it cannot keep is sent all the same.
            drop(self.core.store.remember_input(&text));
        }
        let result = commands::read(&text, &self.command_context_at(at, agent_id));
        let outcome = result.and_then(|result| self.apply_result(Origin::Terminal(at), agent_id, result));
        if outcome.is_ok() && !is_watcher {
            // A message has taken its draft with it; what a command was typed over is forgotten here.
            self.core.save_draft(agent_id);
        }
        outcome.unwrap_or_else(|error| {
            if is_watcher {
                self.with_draft(at, |draft| draft.set(&text));
            } else {
                self.core.return_text(agent_id, &text);
            }
            self.notice(at, error.message);
            Turn::Continue
        })
    }

    fn answer(&mut self, at: TerminalId, agent_id: AgentId, allowed: bool) {
        let question = self.core.roster.get(agent_id).and_then(Agent::question).map(|asked| asked.number);
        if let Some(question) = question {
            self.apply_or_notify(Origin::Terminal(at), agent_id, Change::Answer { question, allowed });
        }
    }

    /// A word for whoever sits at this terminal, until the next key there.
    pub(super) fn notice(&mut self, at: TerminalId, words: String) {
        if let Some(terminal) = self.terminals.get_mut(at) {
            terminal.notice = Some(words);
        }
    }

    /// Says something that was asked for: in the text of the agent, or where that belongs to others, to the asker alone.
    pub(super) fn tell(&mut self, origin: Origin, agent_id: AgentId, kind: LineKind, text: &str) {
        match origin.terminal().filter(|at| self.is_watcher(*at)) {
            Some(at) => self.notice(at, text.to_owned()),
            None => self.core.note(agent_id, kind, text),
        }
    }

    /// Scrolls the text on the screen, and reads older text from the store when its beginning comes in sight.
    fn scroll(&mut self, at: TerminalId, agent_id: AgentId, by: bindings::Scroll) {
        let reader = self.reader(at);
        let Some(terminal) = self.terminals.get_mut(at) else { return };
        terminal.revision += 1;
        let (width, height) = (super::draw::text_width(terminal.size.0), terminal.text_rows);
        let page = isize::try_from(height.saturating_sub(2).max(1)).unwrap_or(1);
        let is_at_top = self.core.roster.with(agent_id, |agent| {
            let scrollback = &mut agent.view.scrollback;
            match by {
                bindings::Scroll::Rows(rows) => scrollback.scroll(reader, rows, width, height),
                bindings::Scroll::Pages(pages) => scrollback.scroll(reader, pages * page, width, height),
                bindings::Scroll::Top => scrollback.to_top(reader),
                bindings::Scroll::Bottom => scrollback.to_bottom(reader),
            }
            let is_at_top = agent.view.scrollback.is_at_top(reader, width, height);
            if reader == Reader::Shared {
                agent.view.touch();
            }
            is_at_top
        });
        if is_at_top == Some(true) {
            self.show_older(agent_id);
        }
    }

    /// Moves up or down in the draft; at its edge, brings an earlier (or later) input into it.
    fn recall(&mut self, at: TerminalId, older: bool) {
        let moved = self.with_draft(at, |draft| if older { draft.up() } else { draft.down() });
        let Some(terminal) = self.terminals.get_mut(at).filter(|_| moved == Some(false)) else { return };
        let next = match (terminal.recalled, older) {
            (None, true) => Some(0),
            (None, false) => return,
            (Some(n), true) => Some(n + 1),
            (Some(n), false) => n.checked_sub(1),
        };
        let text = next.and_then(|n| self.core.store.input(n).ok().flatten());
        if next.is_some() && text.is_none() {
            return;
        }
        terminal.recalled = next;
        self.with_draft(at, |draft| draft.set(&text.unwrap_or_default()));
    }

    /// Puts in what all possible endings share; if that is nothing more, says which there are.
    fn complete(&mut self, at: TerminalId, agent_id: AgentId) {
        let Some(typed) = self.draft_at(at).map(Draft::expanded) else { return };
        let endings = commands::complete(&typed, &self.command_context_at(at, agent_id));
        let shared = shared_beginning(&endings);
        if shared.len() > typed.len() {
            self.edit(at, |draft| draft.set(&shared));
        } else if endings.len() > 1 {
            self.notice(at, endings.join("  "));
        }
    }

    fn go(&mut self, at: TerminalId, agent_id: AgentId, direction: Direction) {
        let to = match direction {
            Direction::Parent => self.core.roster.parent(agent_id),
            Direction::NewestChild => self.core.roster.children(agent_id).next_back(),
            Direction::Sibling(step) => self.core.roster.sibling(agent_id, step),
            Direction::Nth(n) => self.core.roster.nth(n),
        };
        match to.filter(|to| *to != agent_id) {
            Some(to) => drop(self.apply_or_notify(Origin::Terminal(at), agent_id, Change::Switch(to))),
            None => self.notice(at, "there is no agent in that direction: /agents shows the tree".into()),
        }
    }
}

fn shared_beginning(texts: &[String]) -> String {
    let Some((first, rest)) = texts.split_first() else { return String::new() };
    let mut shared = first.as_str();
    for text in rest {
        let same = shared.char_indices().zip(text.chars()).find(|((_, a), b)| a != b).map(|((at, _), _)| at);
        shared = &shared[..same.unwrap_or_else(|| shared.len().min(text.len()))];
    }
    shared.to_owned()
}
