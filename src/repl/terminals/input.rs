//! From keys to acts: edits and scrolling happen here, everything else is an act for the loop.

use crate::agent::State;
use crate::base::error::Result;
use crate::base::id::{AgentId, TerminalId};
use crate::domain::change::{Change, Decision, Shown, ViewName};
use crate::domain::config::VI;
use crate::domain::draft::Draft;
use crate::domain::draft::vi::ViOutcome;
use crate::domain::key::{Key, KeyCode};
use crate::domain::keymap::Chord;
use crate::domain::scrollback::Reader;
use crate::repl::core::{Core, activity, drafts};
use crate::repl::terminals::Terminals;
use crate::repl::terminals::draw::{rule_file, show_older, text_width};
use crate::repl::terminals::key_actions::{Action, Direction, Scroll, Situation, action_of};
use crate::repl::terminals::question::{QuestionKeys, QuestionView};

/// The loop's action for a key.
pub(in crate::repl) enum Act {
    /// A line was entered: a message or a command.
    Line(String),
    Change(Change),
    /// The text typed at a question is its answer.
    Answer {
        typed: String,
        change: Change,
    },
    /// A text is to be shown in the person's pager.
    Pager(String),
    /// The draft is to be edited in the person's editor.
    Editor,
    /// The image in the clipboard is to be attached to the draft.
    PasteImage,
    Suspend,
    /// Leaves the terminal, and everything goes on.
    Background,
    Leave,
}

impl Terminals {
    /// Reads the keys that a client has sent.
    pub(in crate::repl) fn read_remote(&mut self, core: &Core, id: TerminalId) -> Result<()> {
        let now = core.now();
        match self.get_mut(id).filter(|terminal| !terminal.is_local()) {
            Some(terminal) => terminal.read_remote(now),
            None => Ok(()),
        }
    }

    /// Decides whether the next line of a program waits.
    pub(in crate::repl) fn hold_texts(&mut self, core: &Core, id: TerminalId) {
        let Some(terminal) = self.get_mut(id).filter(|terminal| terminal.mode.is_scripted) else { return };
        let agent = core.agent(terminal.focus);
        terminal.shown.insert(terminal.focus);
        terminal.hold_texts(agent.is_some_and(|agent| agent.state() != State::Idle && agent.question().is_none()));
    }

    /// The next act that keys at this terminal cause. Keys that only edit or scroll are handled here. The caller
    /// carries the act out before it takes the next one: what a key means depends on it.
    pub(in crate::repl) fn next_act(&mut self, core: &mut Core, id: TerminalId) -> Option<(AgentId, Act)> {
        loop {
            if let Some(act) = self.get_mut(id)?.input.acts.pop_front() {
                return Some(act);
            }
            self.hold_texts(core, id);
            let key = self.get_mut(id)?.next_key()?;
            let agent = self.get(id)?.focus;
            if self.get_mut(id)?.take_report(&key, &core.config().display.theme) {
                self.open_clicked(core, id, agent);
                continue;
            }
            let act = match self.get(id)?.input.view {
                Some(_) => self.press_in_view(core, id, &key),
                None => self.on_key(core, id, agent, &key).map(|act| (agent, act)),
            };
            if act.is_some() {
                if let Some((_, Act::Line(_))) = act {
                    self.get_mut(id)?.keyboard.end_turn();
                }
                return act;
            }
        }
    }

    pub(super) fn on_key(&mut self, core: &mut Core, id: TerminalId, agent: AgentId, key: &Key) -> Option<Act> {
        if self.press_in_popup(core, id, key) {
            return None;
        }
        let has_notice = self.get_mut(id)?.input.notice.take().is_some();
        self.note_asides(core, id);
        let situation = self.situation(core, id, has_notice)?;
        if situation.is_draft_empty {
            self.forget_edited(core, id);
        }
        if core.config().editing == VI && !is_answered_by_keys(situation.question) && self.press_in_vi(core, id, key) {
            return None;
        }
        let action = action_of(key, &situation, &core.config().keymap);
        let action = self.second_escape(id, key, &situation, action)?;
        let input = &mut self.get_mut(id)?.input;
        input.prefix = None;
        // Only the same key, pressed again at once, leaves.
        input.leaves_until.take_if(|_| !matches!(action, Action::Leave));
        self.keep_selected(id, &action);
        if action.is_act() {
            self.get_mut(id)?.keyboard.count_act();
        }
        match action {
            Action::Send => self.send(core, id, agent),
            Action::Delegate => {
                let prompt = self.take_line(core, id, agent).unwrap_or_default();
                let rest = if prompt.is_empty() { String::new() } else { format!(" --stay -- {prompt}") };
                Some(Act::Line(format!("/fork --worktree{rest}")))
            }
            Action::Answer(_) | Action::AllowUnread | Action::Always(_) => {
                self.answer(core, id, agent, &action).map(Act::Change)
            }
            Action::Enter(entry) => self.enter_entry(core, id, agent, entry),
            Action::View => Some(Act::Pager(self.whole_question(core, agent)?)),
            Action::Change(change) => Some(Act::Change(change)),
            Action::Go(direction) => self.go(core, id, agent, direction).map(|to| Act::Change(Change::Switch(to))),
            Action::Editor => Some(Act::Editor),
            Action::PasteImage => Some(Act::PasteImage),
            Action::Suspend => Some(Act::Suspend),
            Action::Background => Some(Act::Background),
            Action::Leave => Some(Act::Leave),
            action => {
                self.act_here(core, id, agent, action);
                self.follow_draft(core, id, agent, key);
                None
            }
        }
    }

    /// The second of two Esc that had no other effect shows the timeline.
    fn second_escape(&mut self, id: TerminalId, key: &Key, situation: &Situation, action: Action) -> Option<Action> {
        let is_free = matches!((key, &action), (Key::Press(KeyCode::Escape, _), Action::Nothing))
            && situation.is_draft_empty
            && situation.prefix.is_none()
            && !situation.has_selected;
        let was_free = &mut self.get_mut(id)?.input.is_escaped;
        let is_second = is_free && *was_free;
        *was_free = is_free && !is_second;
        Some(if is_second { Action::Change(Change::Show(Shown::View(ViewName::Timeline))) } else { action })
    }

    /// The answer to the question of an agent.
    pub(super) fn answer(&self, core: &Core, id: TerminalId, agent: AgentId, action: &Action) -> Option<Change> {
        let question = core.agent(agent)?.question()?.number;
        let decision = match action {
            Action::Answer(true) => Decision::Allow,
            Action::AllowUnread => Decision::AllowUnread,
            Action::Answer(false) => Decision::Deny(None),
            Action::Always(scope) => match self.edited_rules(id) {
                Some(rules) => Decision::Rules(*scope, rules),
                None => Decision::Always(*scope),
            },
            _ => return None,
        };
        Some(Change::Answer { question, decision })
    }

    /// Does what only concerns this terminal.
    pub(super) fn act_here(&mut self, core: &mut Core, id: TerminalId, agent: AgentId, action: Action) {
        // In line mode a line is typed again as a whole.
        if let Some(terminal) = self.get_mut(id).filter(|terminal| terminal.lines.is_none()) {
            terminal.input.repeats = None;
        }
        match action {
            Action::Edit(edit) => drop(self.edit(core, id, edit)),
            Action::Type(text) => drop(self.edit(core, id, |draft| draft.insert(&text))),
            Action::Paste(text) => drop(self.edit(core, id, |draft| draft.paste(&text))),
            Action::Scroll(by) => self.scroll(core, id, agent, by),
            Action::ToggleFolds => self.toggle_folds(core, id, agent),
            Action::SelectFold(is_before) => self.select_fold(core, id, agent, is_before),
            Action::OpenSelected => self.open_selected(core, id, agent),
            Action::TooSoon => self.with_question(id, |question| question.settle_again(core.now())),
            Action::TurnPage(is_forward) => self.with_question(id, |question| {
                question.turn_page(is_forward);
            }),
            Action::ShowRules(is_shown) => {
                self.with_question(id, |question| question.show_rules(is_shown, core.now()));
            }
            Action::BeginEntry(entry) => self.begin_entry(core, id, agent, entry),
            Action::EndEntry(entry) => self.end_entry(core, id, entry),
            Action::EditMessage => self.edit_message(core, id, agent),
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

    /// Gives a key to the modes of vi. False if it has its usual meaning.
    fn press_in_vi(&mut self, core: &mut Core, id: TerminalId, key: &Key) -> bool {
        let Some(terminal) = self.get_mut(id) else { return false };
        let mut vi = std::mem::take(&mut terminal.input.vi);
        let outcome = self.with_draft(core, id, |draft| vi.on_key(key, draft)).unwrap_or(ViOutcome::Pass);
        if let Some(terminal) = self.terminals.get_mut(&id) {
            terminal.input.vi = vi;
            terminal.input.revision += 1;
        }
        if outcome == ViOutcome::Done {
            self.note_unsaved(core, id);
        }
        match outcome {
            ViOutcome::Pass => return false,
            ViOutcome::Done => {}
            ViOutcome::Up => self.recall(core, id, true),
            ViOutcome::Down => self.recall(core, id, false),
        }
        true
    }

    pub(super) fn begin_prefix(&mut self, id: TerminalId, prefix: Chord) {
        self.notify(id, format!("{prefix} …"));
        if let Some(terminal) = self.get_mut(id) {
            terminal.input.prefix = Some(prefix);
        }
    }

    pub(super) fn with_question(&mut self, id: TerminalId, act: impl FnOnce(&mut QuestionView)) {
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

    pub(super) fn situation(&self, core: &Core, at: TerminalId, has_notice: bool) -> Option<Situation> {
        let terminal = self.get(at)?;
        let agent_id = terminal.focus;
        let agent = core.agent(agent_id)?;
        let asked = terminal.asked_agent().and_then(|id| core.agent(id));
        let pending = asked.and_then(|asked| Some((asked, asked.question()?)));
        // Only a question that was shown can be answered.
        let question = pending.map(|(asked, pending)| terminal.question_keys(asked.id(), pending.number));
        let question = question.unwrap_or_default();
        Some(Situation {
            policy: agent.policy,
            question,
            has_rules: pending.is_some_and(|(_, pending)| !pending.question.ways.rules.is_empty()),
            can_edit_call: pending.is_some_and(|(_, pending)| pending.editable.is_some()),
            can_save_rules: asked.is_some_and(|asked| rule_file(core, asked).is_some()),
            is_question_paged: question != QuestionKeys::Text
                && terminal.display.question.as_ref().is_some_and(QuestionView::is_paged),
            is_followed: terminal.keyboard.is_followed_by_text(),
            is_busy: agent.state() != State::Idle || agent.makes_worktree,
            is_held_up: activity::is_held_up(core, activity::worker(core, agent_id)),
            has_background_work: agent.has_interruptible_work(),
            is_draft_empty: self.draft_at(core, at)?.is_empty(),
            has_queue: !agent.queue.is_empty(),
            can_retry: agent.can_retry(),
            has_failed: agent.has_failed() && agent.can_retry(),
            has_selected: terminal.input.selected.is_some(),
            has_notice,
            prefix: terminal.input.prefix,
        })
    }

    /// The draft at this terminal: its own at this agent, or the only one that it has if it is read-only.
    pub(super) fn draft_at<'a>(&'a self, core: &'a Core, at: TerminalId) -> Option<&'a Draft> {
        let terminal = self.get(at)?;
        let agent = core.agent(terminal.focus)?;
        match drafts::slot_at(core, at) {
            Some(slot) => agent.view.drafts.get(slot).or(Some(&terminal.input.draft)),
            None => Some(&terminal.input.draft),
        }
    }

    /// The draft to be drawn: a read-only terminal shows what another one types until something is typed there.
    pub(super) fn shown_draft<'a>(&'a self, core: &'a Core, at: TerminalId) -> Option<&'a Draft> {
        let draft = self.draft_at(core, at)?;
        let others = || core.agent(self.get(at)?.focus)?.view.drafts.first();
        if self.is_read_only(at) && draft.is_empty() { others().or(Some(draft)) } else { Some(draft) }
    }

    pub(super) fn with_draft<T>(
        &mut self,
        core: &mut Core,
        at: TerminalId,
        act: impl FnOnce(&mut Draft) -> T,
    ) -> Option<T> {
        let terminal = self.get_mut(at)?;
        terminal.input.revision += 1;
        let focus = terminal.focus;
        let Some(slot) = drafts::slot_at(core, at) else { return Some(act(&mut terminal.input.draft)) };
        let is_watched = self.iter().any(|other| other.mode.is_read_only && other.focus == focus);
        core.edit(focus, |agent| {
            if is_watched {
                agent.view.touch();
            }
            act(agent.view.drafts.at(slot))
        })
    }

    pub(super) fn edit<T>(&mut self, core: &mut Core, at: TerminalId, edit: impl FnOnce(&mut Draft) -> T) -> Option<T> {
        self.get_mut(at)?.input.recalled = None;
        self.note_unsaved(core, at);
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
        let pending = core.agent(agent)?.question()?;
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
        let is_at_top = core.edit(agent_id, |agent| {
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
            show_older(core, agent_id);
        }
    }

    fn go(&mut self, core: &Core, id: TerminalId, agent: AgentId, direction: Direction) -> Option<AgentId> {
        let to = match direction {
            Direction::Parent => core.roster().shown_parent(agent),
            Direction::NewestChild => core.roster().shown_below(Some(agent)).pop(),
            Direction::Sibling(step) => core.roster().sibling(agent, step),
            Direction::Number(number) => core.roster().agent_with_number(number.into()),
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

/// Whether letters may answer a question.
const fn is_answered_by_keys(question: QuestionKeys) -> bool {
    !matches!(question, QuestionKeys::Text | QuestionKeys::Typing(_))
}
