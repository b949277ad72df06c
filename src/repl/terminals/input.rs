//! Keys to acts: edits and scrolling happen here, everything else is an act for the loop.

use crate::agent::State;
use crate::base::error::Result;
use crate::base::id::{AgentId, TerminalId};
use crate::domain::config::VI;
use crate::domain::draft::Draft;
use crate::domain::draft::vi::ViOutcome;
use crate::domain::flow::{Change, Decision};
use crate::domain::key::Key;
use crate::domain::keymap::Chord;
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
    /// The draft is to be edited in the person's editor.
    Editor,
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
            if self.get_mut(id)?.take_report(&key, &core.config.display.theme) {
                continue;
            }
            if let Some(act) = self.on_key(core, id, agent, &key) {
                return Some((agent, act));
            }
        }
    }

    fn on_key(&mut self, core: &mut Core, id: TerminalId, agent: AgentId, key: &Key) -> Option<Act> {
        if self.press_in_popup(core, id, key) {
            return None;
        }
        let has_notice = self.get_mut(id)?.input.notice.take().is_some();
        let situation = self.situation(core, id, has_notice)?;
        if core.config.editing == VI && situation.question == QuestionKeys::Text && self.press_in_vi(core, id, key) {
            return None;
        }
        let action = action_of(key, &situation, &core.config.keymap);
        self.get_mut(id)?.input.prefix = None;
        if action.is_act() {
            self.get_mut(id)?.keyboard.count_act();
        }
        match action {
            Action::Send => self.send(core, id, agent),
            Action::Answer(allowed) => {
                let decision = if allowed { Decision::Allow } else { Decision::Deny(None) };
                Some(Act::Change(Change::Answer { question: core.roster.get(agent)?.question()?.number, decision }))
            }
            Action::Always(scope) => {
                let question = core.roster.get(agent)?.question()?.number;
                Some(Act::Change(Change::Answer { question, decision: Decision::Always(scope) }))
            }
            Action::Change(change) => Some(Act::Change(change)),
            Action::Go(direction) => self.go(core, id, agent, direction).map(|to| Act::Change(Change::Switch(to))),
            Action::Editor => Some(Act::Editor),
            Action::Suspend => Some(Act::Suspend),
            Action::Leave => Some(Act::Leave),
            action => {
                self.act_here(core, id, agent, action);
                self.follow_draft(core, id, agent, key);
                None
            }
        }
    }

    /// Does what only concerns this terminal.
    fn act_here(&mut self, core: &mut Core, id: TerminalId, agent: AgentId, action: Action) {
        if let Some(terminal) = self.get_mut(id) {
            terminal.input.repeats = None;
        }
        match action {
            Action::Edit(edit) => drop(self.edit(core, id, edit)),
            Action::Type(text) => drop(self.edit(core, id, |draft| draft.insert(&text))),
            Action::Paste(text) => drop(self.edit(core, id, |draft| draft.paste(&text))),
            Action::Scroll(by) => self.scroll(core, id, agent, by),
            Action::ToggleFolds => self.toggle_folds(core, id, agent),
            Action::TooSoon => self.with_question(id, |question| question.settle_again(core.clock.now())),
            Action::TurnPage(is_forward) => self.with_question(id, |question| {
                question.turn_page(is_forward);
            }),
            Action::ShowRules(is_shown) => {
                self.with_question(id, |question| question.show_rules(is_shown, core.clock.now()));
            }
            Action::Recall(older) => self.recall(core, id, older),
            Action::RecallInput(older) => self.recall_input(core, id, older),
            Action::Complete => self.complete(core, id, agent),
            Action::Clear => self.clear(core, id),
            Action::ShowKeys => self.show_help(core, id, true),
            Action::SearchHistory => self.search_history(core, id),
            Action::Prefix(prefix) => self.begin_prefix(id, prefix),
            _ => {
                if let (Action::Redraw, Some(terminal)) = (action, self.get_mut(id)) {
                    terminal.redraw();
                }
            }
        }
    }

    /// Gives a key to the modes of vi. False if it means what it means without them.
    fn press_in_vi(&mut self, core: &mut Core, id: TerminalId, key: &Key) -> bool {
        let Some(terminal) = self.get_mut(id) else { return false };
        let mut vi = std::mem::take(&mut terminal.input.vi);
        let outcome = self.with_draft(core, id, |draft| vi.on_key(key, draft)).unwrap_or(ViOutcome::Pass);
        if let Some(terminal) = self.terminals.get_mut(&id) {
            terminal.input.vi = vi;
            terminal.input.revision += 1;
            if outcome == ViOutcome::Done {
                self.unsaved.note(terminal, core.clock.now());
            }
        }
        match outcome {
            ViOutcome::Pass => return false,
            ViOutcome::Done => {}
            ViOutcome::Up => self.recall(core, id, true),
            ViOutcome::Down => self.recall(core, id, false),
        }
        true
    }

    fn begin_prefix(&mut self, id: TerminalId, prefix: Chord) {
        self.notify(id, format!("{prefix} …"));
        if let Some(terminal) = self.get_mut(id) {
            terminal.input.prefix = Some(prefix);
        }
    }

    fn with_question(&mut self, id: TerminalId, act: impl FnOnce(&mut QuestionView)) {
        let Some(terminal) = self.get_mut(id) else { return };
        if let Some(question) = &mut terminal.display.question {
            act(question);
            terminal.input.revision += 1;
        }
    }

    /// Takes the line to send. After a backslash, breaks the line instead.
    fn enter(&mut self, core: &mut Core, id: TerminalId, agent: AgentId) -> Option<String> {
        let draft = self.draft_at(core, id)?;
        let before = &draft.text()[..draft.cursor()];
        let backslashes = before.len() - before.trim_end_matches('\\').len();
        self.close_popup(id);
        self.get_mut(id)?.input.vi.reset();
        if backslashes % 2 == 0 {
            return self.take_line(core, id, agent);
        }
        self.edit(core, id, |draft| {
            draft.backspace();
            draft.newline();
        });
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
            has_background_work: agent.has_background_work() || agent.view.has_command,
            is_draft_empty: self.draft_at(core, at)?.is_empty(),
            has_queue: !agent.queue.is_empty(),
            has_notice,
            prefix: terminal.input.prefix,
        })
    }

    /// The draft at this terminal: that of its agent, or its own if it is read-only.
    pub(super) fn draft_at<'a>(&'a self, core: &'a Core, at: TerminalId) -> Option<&'a Draft> {
        let terminal = self.get(at)?;
        let agent = core.roster.get(terminal.focus)?;
        Some(if terminal.mode.is_read_only { &terminal.input.draft } else { &agent.view.draft })
    }

    pub(super) fn with_draft<T>(
        &mut self,
        core: &mut Core,
        at: TerminalId,
        act: impl FnOnce(&mut Draft) -> T,
    ) -> Option<T> {
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

    pub(super) fn edit<T>(&mut self, core: &mut Core, at: TerminalId, edit: impl FnOnce(&mut Draft) -> T) -> Option<T> {
        self.get_mut(at)?.input.recalled = None;
        self.unsaved.note(self.terminals.get(&at)?, core.clock.now());
        self.with_draft(core, at, edit)
    }

    /// Sends the draft, which in line mode may be an answer.
    fn send(&mut self, core: &mut Core, id: TerminalId, agent: AgentId) -> Option<Act> {
        let Some(answer) = self.line_answer(core, id, agent) else {
            return self.enter(core, id, agent).map(Act::Line);
        };
        self.with_draft(core, id, Draft::take);
        Some(Act::Change(answer))
    }

    /// The answer that the draft is to a question, in line mode.
    fn line_answer(&self, core: &Core, id: TerminalId, agent: AgentId) -> Option<Change> {
        let pending = core.roster.get(agent)?.question()?;
        let decision = self.get(id)?.lines.as_ref()?.answer(&self.draft_at(core, id)?.expanded(), pending)?;
        Some(Change::Answer { question: pending.number, decision })
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

    fn go(&mut self, core: &Core, id: TerminalId, agent: AgentId, direction: Direction) -> Option<AgentId> {
        let to = match direction {
            Direction::Parent => core.roster.parent(agent),
            Direction::NewestChild => core.roster.children(agent).next_back(),
            Direction::Sibling(step) => core.roster.sibling(agent, step),
            Direction::Number(number) => core.roster.numbered(number.into()),
        };
        let to = to.filter(|to| *to != agent);
        if to.is_none() {
            let notice = match direction {
                Direction::Number(number) => format!("no other agent {number}: /agents lists them"),
                _ => "no agent in that direction: /agents shows the tree".into(),
            };
            self.notify(id, notice);
        }
        to
    }
}
