//! Keys to acts: edits and scrolling happen here, everything else is an act for the loop.

use crate::agent::State;
use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, TerminalId};
use crate::commands;
use crate::domain::draft::Draft;
use crate::domain::flow::{Change, Decision};
use crate::domain::key::Key;
use crate::domain::scrollback::Reader;
use crate::repl::core::Core;
use crate::repl::terminals::Terminals;
use crate::repl::terminals::bindings::{Action, Direction, Scroll, Situation, action_of};
use crate::repl::terminals::draw::{rule_file, text_width};
use crate::repl::terminals::question::{QuestionKeys, QuestionView};

/// What the loop does because of a key.
pub(in crate::repl) enum Act {
    /// A line was entered: a message or a command.
    Line(String),
    Change(Change),
    Suspend,
    Leave,
}

impl Terminals {
    /// Reads the keys that a client has sent.
    pub(in crate::repl) fn read_remote(&mut self, core: &Core, id: TerminalId) -> Result<()> {
        let now = core.clock.now();
        match self.get_mut(id).filter(|terminal| !terminal.is_local()) {
            Some(terminal) => terminal.read_remote(now),
            None => Ok(()),
        }
    }

    /// The next thing that a key at this terminal asks for. Keys that only edit or scroll are done here. The caller
    /// carries the act out before it asks for the next one: what a key means depends on it.
    pub(in crate::repl) fn next_act(&mut self, core: &mut Core, id: TerminalId) -> Option<(AgentId, Act)> {
        loop {
            let key = self.get_mut(id)?.next_key()?;
            let agent = self.get(id)?.focus;
            if let Some(act) = self.on_key(core, id, agent, &key) {
                return Some((agent, act));
            }
        }
    }

    fn on_key(&mut self, core: &mut Core, id: TerminalId, agent: AgentId, key: &Key) -> Option<Act> {
        if self.get_mut(id)?.take_report(key, &core.config.display.theme) {
            return None;
        }
        let has_notice = self.get_mut(id)?.input.notice.take().is_some();
        let situation = self.situation(core, id, has_notice)?;
        let action = action_of(key, &situation);
        if action.is_act() {
            self.get_mut(id)?.keyboard.count_act();
        }
        match action {
            Action::Nothing => {}
            Action::Edit(edit) => drop(self.edit(core, id, edit)),
            Action::Type(text) => drop(self.edit(core, id, |draft| draft.insert(&text))),
            Action::Paste(text) => drop(self.edit(core, id, |draft| draft.paste(&text))),
            Action::Scroll(by) => self.scroll(core, id, agent, by),
            Action::ToggleFolds => self.toggle_folds(core, id, agent),
            Action::TooSoon => {
                let terminal = self.get_mut(id)?;
                terminal.display.question.as_mut()?.settle_again(core.clock.now());
                terminal.input.revision += 1;
            }
            Action::TurnPage(is_forward) => {
                let terminal = self.get_mut(id)?;
                terminal.display.question.as_mut()?.turn_page(is_forward);
                terminal.input.revision += 1;
            }
            Action::Recall(older) => self.recall(core, id, older),
            Action::Complete => self.complete(core, id, agent),
            Action::Redraw => self.get_mut(id)?.redraw(),
            Action::Send if self.line_answer(core, id, agent).is_some() => {
                let change = self.line_answer(core, id, agent)?;
                self.with_draft(core, id, Draft::take);
                return Some(Act::Change(change));
            }
            Action::Send => return self.take_line(core, id, agent).map(Act::Line),
            Action::Answer(allowed) => {
                let question = core.roster.get(agent)?.question()?.number;
                let decision = if allowed { Decision::Allow } else { Decision::Deny(None) };
                return Some(Act::Change(Change::Answer { question, decision }));
            }
            Action::Always(scope) => {
                let question = core.roster.get(agent)?.question()?.number;
                return Some(Act::Change(Change::Answer { question, decision: Decision::Always(scope) }));
            }
            Action::ShowRules(is_shown) => {
                let terminal = self.get_mut(id)?;
                terminal.display.question.as_mut()?.show_rules(is_shown, core.clock.now());
                terminal.input.revision += 1;
            }
            Action::Change(change) => return Some(Act::Change(change)),
            Action::Go(direction) => {
                return self.go(core, id, agent, direction).map(|to| Act::Change(Change::Switch(to)));
            }
            Action::Suspend => return Some(Act::Suspend),
            Action::Leave => return Some(Act::Leave),
        }
        None
    }

    fn situation(&self, core: &Core, at: TerminalId, has_notice: bool) -> Option<Situation> {
        let terminal = self.get(at)?;
        let agent_id = terminal.focus;
        let agent = core.roster.get(agent_id)?;
        // Only a question that was shown can be answered.
        let question = agent.question().map(|pending| terminal.question_keys(agent_id, pending.number));
        let question = question.unwrap_or_default();
        Some(Situation {
            policy: agent.policy,
            question,
            has_rules: agent.question().is_some_and(|pending| !pending.question.ways.rules.is_empty()),
            can_save_rules: rule_file(core, agent).is_some(),
            is_question_paged: question != QuestionKeys::Text
                && terminal.display.question.as_ref().is_some_and(QuestionView::is_paged),
            is_followed: terminal.keyboard.is_followed_by_text(),
            is_busy: agent.state() != State::Idle || agent.makes_worktree,
            is_held_up: core.is_held_up(core.worker(agent_id)),
            has_background_work: agent.has_background_work(),
            is_draft_empty: self.draft_at(core, at)?.is_empty(),
            has_queue: !agent.queue.is_empty(),
            has_notice,
        })
    }

    /// The draft at this terminal: that of its agent, or its own if it is read-only.
    fn draft_at<'a>(&'a self, core: &'a Core, at: TerminalId) -> Option<&'a Draft> {
        let terminal = self.get(at)?;
        let agent = core.roster.get(terminal.focus)?;
        Some(if terminal.mode.is_read_only { &terminal.input.draft } else { &agent.view.draft })
    }

    fn with_draft<T>(&mut self, core: &mut Core, at: TerminalId, act: impl FnOnce(&mut Draft) -> T) -> Option<T> {
        let terminal = self.get_mut(at)?;
        if terminal.mode.is_read_only {
            terminal.input.revision += 1;
            return Some(act(&mut terminal.input.draft));
        }
        core.roster.with(terminal.focus, |agent| {
            agent.view.touch();
            act(&mut agent.view.draft)
        })
    }

    fn edit<T>(&mut self, core: &mut Core, at: TerminalId, edit: impl FnOnce(&mut Draft) -> T) -> Option<T> {
        self.get_mut(at)?.input.recalled = None;
        self.with_draft(core, at, edit)
    }

    /// The answer that the draft is to a question, in line mode.
    fn line_answer(&self, core: &Core, id: TerminalId, agent: AgentId) -> Option<Change> {
        let pending = core.roster.get(agent)?.question()?;
        let decision = self.get(id)?.lines.as_ref()?.answer(&self.draft_at(core, id)?.expanded(), pending)?;
        Some(Change::Answer { question: pending.number, decision })
    }

    /// Empties the draft, and keeps its text in the history of inputs.
    fn take_line(&mut self, core: &mut Core, id: TerminalId, agent: AgentId) -> Option<String> {
        let reader = self.reader(id);
        core.roster.with(agent, |agent| agent.view.scrollback.to_bottom(reader));
        let text = self.with_draft(core, id, Draft::take).filter(|text| !text.trim().is_empty())?;
        if let Some(lines) = &mut self.get_mut(id)?.lines {
            lines.note_typed(&text);
        }
        if !self.is_read_only(id) {
            // A line is sent even if it cannot be added to the history.
            drop(core.store.remember_input(&text));
        }
        Some(text)
    }

    /// Stores the draft, which is empty after a line was entered.
    pub(in crate::repl) fn on_line_done(&self, core: &Core, id: TerminalId, agent: AgentId) {
        if !self.is_read_only(id) {
            core.save_draft(agent);
        }
    }

    /// Returns a line that failed to the draft, and shows the error.
    pub(in crate::repl) fn on_line_failed(
        &mut self,
        core: &mut Core,
        id: TerminalId,
        agent: AgentId,
        text: &str,
        error: Error,
    ) {
        if self.is_read_only(id) {
            self.with_draft(core, id, |draft| draft.set(text));
        } else {
            core.return_text(agent, text);
        }
        self.notify(id, error.message);
    }

    /// Scrolls the text, and reads older text from the store at its beginning.
    fn scroll(&mut self, core: &mut Core, at: TerminalId, agent_id: AgentId, by: Scroll) {
        let reader = self.reader(at);
        let Some(terminal) = self.get_mut(at) else { return };
        terminal.input.revision += 1;
        let (width, height) = (text_width(terminal.size.0), terminal.display.text_rows);
        let page = isize::try_from(height.saturating_sub(2).max(1)).unwrap_or(1);
        let is_at_top = core.roster.with(agent_id, |agent| {
            let scrollback = &mut agent.view.scrollback;
            match by {
                Scroll::Rows(rows) => scrollback.scroll(reader, rows, width, height),
                Scroll::Pages(pages) => scrollback.scroll(reader, pages * page, width, height),
                Scroll::Top => scrollback.to_top(reader),
                Scroll::Bottom => scrollback.to_bottom(reader),
            }
            let is_at_top = agent.view.scrollback.is_at_top(reader, width, height);
            if reader == Reader::Shared {
                agent.view.touch();
            }
            is_at_top
        });
        if is_at_top == Some(true) {
            Self::show_older(core, agent_id);
        }
    }

    /// What is folded is the same on all terminals: one that changes nothing leaves it as it is.
    fn toggle_folds(&self, core: &mut Core, at: TerminalId, agent_id: AgentId) {
        if !self.is_read_only(at) {
            core.roster.with(agent_id, |agent| agent.view.toggle_folds());
        }
    }

    /// Moves up or down in the draft; at its edge, recalls an older or newer input.
    fn recall(&mut self, core: &mut Core, at: TerminalId, older: bool) {
        let moved = self.with_draft(core, at, |draft| if older { draft.up() } else { draft.down() });
        let Some(terminal) = self.get_mut(at).filter(|_| moved == Some(false)) else { return };
        let next = match (terminal.input.recalled, older) {
            (None, true) => Some(0),
            (None, false) => return,
            (Some(n), true) => Some(n + 1),
            (Some(n), false) => n.checked_sub(1),
        };
        let text = next.and_then(|n| core.store.input(n).ok().flatten());
        if next.is_some() && text.is_none() {
            return;
        }
        terminal.input.recalled = next;
        self.with_draft(core, at, |draft| draft.set(&text.unwrap_or_default()));
    }

    /// Completes the draft as far as all candidates agree; if that adds nothing, shows the candidates.
    fn complete(&mut self, core: &mut Core, at: TerminalId, agent_id: AgentId) {
        let Some(typed) = self.draft_at(core, at).map(Draft::expanded) else { return };
        let candidates = commands::complete(&typed, &core.command_context(agent_id, self.infos(at)));
        let shared = common_prefix(&candidates);
        if shared.len() > typed.len() {
            self.edit(core, at, |draft| draft.set(&shared));
        } else if candidates.len() > 1 {
            self.notify(at, candidates.join("  "));
        }
    }

    fn go(&mut self, core: &Core, id: TerminalId, agent: AgentId, direction: Direction) -> Option<AgentId> {
        let to = match direction {
            Direction::Parent => core.roster.parent(agent),
            Direction::NewestChild => core.roster.children(agent).next_back(),
            Direction::Sibling(step) => core.roster.sibling(agent, step),
            Direction::Nth(n) => core.roster.nth(n),
        };
        let to = to.filter(|to| *to != agent);
        if to.is_none() {
            self.notify(id, "no agent in that direction: /agents shows the tree".into());
        }
        to
    }
}

fn common_prefix(texts: &[String]) -> String {
    let Some((first, rest)) = texts.split_first() else { return String::new() };
    let mut shared = first.as_str();
    for text in rest {
        let same = shared.char_indices().zip(text.chars()).find(|((_, a), b)| a != b).map(|((at, _), _)| at);
        shared = &shared[..same.unwrap_or_else(|| shared.len().min(text.len()))];
    }
    shared.to_owned()
}
