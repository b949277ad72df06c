//! Keys at a terminal that shows a view.

use std::collections::VecDeque;

use crate::base::id::{AgentId, TerminalId};
use crate::domain::change::{Change, Decision, Shown};
use crate::domain::draft::Draft;
use crate::domain::key::{Key, KeyCode};
use crate::domain::keymap::is_typed;
use crate::repl::core::Core;
use crate::repl::terminals::Terminals;
use crate::repl::terminals::input::Act;
use crate::repl::terminals::key_actions::{Action, Situation, action_of};
use crate::repl::terminals::question::{Entry, QuestionKeys};
use crate::repl::terminals::views::inbox::InboxView;
use crate::repl::terminals::views::{Purpose, ViewAct, ViewText};

/// Whether an action is the same in every view.
const fn is_common_to_views(action: &Action) -> bool {
    matches!(
        action,
        Action::Prefix(_)
            | Action::Leave
            | Action::Redraw
            | Action::Suspend
            | Action::Change(Change::Show(Shown::View(_)))
    )
}

impl Terminals {
    /// Gives a key to the view at this terminal.
    pub(in crate::repl::terminals) fn press_in_view(
        &mut self,
        core: &mut Core,
        id: TerminalId,
        key: &Key,
    ) -> Option<(AgentId, Act)> {
        self.update_view(core, id);
        let terminal = self.get_mut(id)?;
        if terminal.input.view.is_none() {
            // The view has closed itself: the conversation gets the key.
            let agent = terminal.focus;
            return self.on_key(core, id, agent, key).map(|act| (agent, act));
        }
        terminal.input.notice = None;
        terminal.input.revision += 1;
        if terminal.input.view.as_ref()?.text.is_some() {
            return self.press_in_view_text(core, id, key);
        }
        let situation = self.situation(core, id, false)?;
        let situation = Situation {
            is_draft_empty: true,
            has_queue: false,
            can_retry: false,
            has_failed: false,
            has_selected: false,
            ..situation
        };
        let action = action_of(key, &situation, &core.config().keymap);
        self.get_mut(id)?.input.prefix = None;
        let is_typing = self.get(id)?.input.view.as_ref()?.is_typing();
        if is_typing && is_typed(key) && is_common_to_views(&action) {
            return self.do_in_view(core, id, key);
        }
        let shows_rules = matches!(situation.question, QuestionKeys::Scope | QuestionKeys::ScopeSettling);
        match key {
            // In a conversation it means what `a` does.
            Key::Press(KeyCode::Char('A'), modifiers)
                if !modifiers.alt && situation.prefix.is_none() && !shows_rules =>
            {
                self.do_in_view(core, id, key)
            }
            Key::Press(KeyCode::Escape, _) if situation.prefix.is_some() => None,
            Key::Press(KeyCode::Escape, _) if !shows_rules => self.do_in_view(core, id, key),
            _ => self.act_in_view(core, id, key, action),
        }
    }

    /// Does what a key means in every view, and gives other keys to the view.
    fn act_in_view(&mut self, core: &mut Core, id: TerminalId, key: &Key, action: Action) -> Option<(AgentId, Act)> {
        let terminal = self.get(id)?;
        let agent = terminal.asked_agent().unwrap_or(terminal.focus);
        let is_picking = self.is_picking(id);
        match action {
            // There is no conversation behind it yet.
            Action::Leave if is_picking => Some((agent, Act::Leave)),
            Action::Change(Change::Show(Shown::View(_))) if is_picking => None,
            Action::Answer(_) | Action::AllowUnread | Action::Always(_) => {
                self.get_mut(id)?.keyboard.count_act();
                Some((agent, Act::Change(self.answer(core, id, agent, &action)?)))
            }
            Action::BeginEntry(entry) => self.begin_view_entry(core, id, agent, entry),
            Action::View => Some((agent, Act::Pager(self.whole_question(core, agent)?))),
            Action::Change(change @ Change::Show(Shown::View(_))) => Some((agent, Act::Change(change))),
            Action::Suspend => Some((agent, Act::Suspend)),
            Action::Leave => {
                if !self.get_mut(id)?.input.view.as_mut()?.leave() {
                    self.close_view(id);
                }
                None
            }
            Action::Prefix(_) | Action::TooSoon | Action::TurnPage(_) | Action::ShowRules(_) | Action::Redraw => {
                self.act_here(core, id, agent, action);
                None
            }
            _ => self.do_in_view(core, id, key),
        }
    }

    fn do_in_view(&mut self, core: &mut Core, id: TerminalId, key: &Key) -> Option<(AgentId, Act)> {
        let view = self.get_mut(id)?.input.view.as_mut()?;
        let act = view.on_key(core, key);
        self.do_act(core, id, act)
    }

    fn do_act(&mut self, core: &mut Core, id: TerminalId, act: ViewAct) -> Option<(AgentId, Act)> {
        let view = self.get_mut(id)?.input.view.as_mut()?;
        match act {
            ViewAct::Done => None,
            ViewAct::Exit => Some((self.get(id)?.focus, Act::Leave)),
            ViewAct::Told(change, text) => {
                self.notify(id, text.into());
                self.do_act(core, id, ViewAct::Changes(vec![change]))
            }
            ViewAct::Changes(changes) => {
                let acts = changes.into_iter().map(|(agent, change)| (agent, Act::Change(change)));
                self.enqueue_acts(id, acts.collect())
            }
            ViewAct::Write(to) => {
                let draft = std::mem::take(&mut self.get_mut(id)?.input.view_draft);
                self.get_mut(id)?.input.view.as_mut()?.text = Some(ViewText { purpose: Purpose::Message(to), draft });
                None
            }
            ViewAct::Ask { title, text } => {
                let mut draft = Draft::default();
                draft.set(&text);
                view.text = Some(ViewText { purpose: Purpose::Asked(title), draft });
                None
            }
            ViewAct::Inbox(agent) => {
                view.content = Box::new(InboxView::at(agent));
                self.update_view(core, id);
                None
            }
            ViewAct::Seen(agent) => {
                self.unseen.remove(agent);
                self.update_view(core, id);
                None
            }
            ViewAct::Notice(text) => {
                self.notify(id, text.into());
                None
            }
            closing => self.close_view_with(core, id, closing),
        }
    }

    fn close_view_with(&mut self, core: &mut Core, id: TerminalId, act: ViewAct) -> Option<(AgentId, Act)> {
        self.close_view(id);
        let focus = self.get(id)?.focus;
        match act {
            ViewAct::Go(agent) => (agent != focus).then_some((focus, Act::Change(Change::Switch(agent)))),
            ViewAct::Leave(agent, change) => {
                // A fork of another agent is shown as one of this agent is.
                let focus = Some(focus).filter(|focus| *focus != agent && core.config().follows_forks);
                let goes = focus.map(|focus| (focus, Act::Change(Change::Switch(agent))));
                self.enqueue_acts(id, goes.into_iter().chain([(agent, Act::Change(change))]).collect())
            }
            ViewAct::LeaveWith(changes) => {
                let changes = changes.into_iter().map(|(agent, change)| (agent.unwrap_or(focus), change));
                self.enqueue_acts(id, acts_of(changes))
            }
            ViewAct::Quote(text) => {
                let draft = self.draft_at(core, id).map(Draft::expanded).unwrap_or_default();
                self.set_draft(core, id, focus, &(text + &draft));
                None
            }
            _ => None,
        }
    }

    /// Opens a text that is a part of the answer.
    fn begin_view_entry(
        &mut self,
        core: &Core,
        id: TerminalId,
        agent: AgentId,
        entry: Entry,
    ) -> Option<(AgentId, Act)> {
        let (question, text) = self.entry_text(core, id, agent, entry)?;
        let mut draft = Draft::default();
        draft.set(&text);
        let purpose = Purpose::Answer(agent, question, entry);
        self.get_mut(id)?.input.view.as_mut()?.text = Some(ViewText { purpose, draft });
        None
    }

    /// The first act, after which the others follow before the next key.
    fn enqueue_acts(&mut self, id: TerminalId, acts: VecDeque<(AgentId, Act)>) -> Option<(AgentId, Act)> {
        let terminal = self.get_mut(id)?;
        terminal.keyboard.count_act();
        terminal.input.acts.extend(acts);
        terminal.input.acts.pop_front()
    }

    /// A key while a text is typed in the view.
    fn press_in_view_text(&mut self, core: &mut Core, id: TerminalId, key: &Key) -> Option<(AgentId, Act)> {
        let terminal = self.get_mut(id)?;
        let prefix = terminal.input.prefix.take();
        let text = terminal.input.view.as_mut()?.text.as_mut()?;
        let situation = Situation { is_draft_empty: text.draft.is_empty(), prefix, ..Situation::default() };
        let action = action_of(key, &situation, &core.config().keymap);
        if matches!(key, Key::Press(KeyCode::Escape, _)) || matches!(action, Action::Leave) {
            if let ViewText { purpose: Purpose::Message(_), draft } = terminal.input.view.as_mut()?.text.take()? {
                terminal.input.view_draft = draft;
            }
            return None;
        }
        match action {
            Action::Edit(edit) => drop(edit(&mut text.draft)),
            Action::Type(typed) => text.draft.insert(&typed),
            Action::Paste(pasted) => text.draft.paste(&pasted),
            Action::Clear => text.draft.set(""),
            Action::Prefix(prefix) => self.begin_prefix(id, prefix),
            Action::Send => return self.send_view_text(core, id),
            _ => {}
        }
        None
    }

    fn send_view_text(&mut self, core: &mut Core, id: TerminalId) -> Option<(AgentId, Act)> {
        let ViewText { purpose, mut draft } = self.get_mut(id)?.input.view.as_mut()?.text.take()?;
        let typed = Draft::take(&mut draft);
        let (agent, question, entry) = match &purpose {
            Purpose::Message(to) => {
                self.remember(core, id, &typed);
                return self.enqueue_acts(id, to.iter().map(|agent| (*agent, Act::Line(typed.clone()))).collect());
            }
            Purpose::Answer(agent, question, entry) => (*agent, *question, *entry),
            Purpose::Asked(_) => {
                let act = self.get_mut(id)?.input.view.as_mut()?.on_text(core, typed);
                return self.do_act(core, id, act);
            }
        };
        let decision = match entry {
            Entry::Reason => Decision::Deny(Some(typed.trim().to_owned())),
            Entry::Call => {
                self.get_mut(id)?.input.view.as_mut()?.follow(agent);
                Decision::Edit(typed)
            }
            Entry::Rules => {
                if !self.enter_rules(core, id, &typed) {
                    draft.set(&typed);
                    self.get_mut(id)?.input.view.as_mut()?.text = Some(ViewText { purpose, draft });
                }
                return None;
            }
        };
        Some((agent, Act::Change(Change::Answer { question, decision })))
    }
}

/// Changes as acts. A message that cannot be sent goes to the draft.
pub(in crate::repl::terminals) fn acts_of(
    changes: impl Iterator<Item = (AgentId, Change)>,
) -> VecDeque<(AgentId, Act)> {
    let act_of = |change| match change {
        Change::Submit(text) => Act::Answer { typed: text.clone(), change: Change::Submit(text) },
        change => Act::Change(change),
    };
    changes.map(|(agent, change)| (agent, act_of(change))).collect()
}
