//! What keys do. First a pure step, key to action; then the action is carried out for the agent on the screen.

mod bindings;

use std::time::Duration;

use crate::agent::{Agent, State};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::commands;
use crate::domain::draft::Draft;
use crate::domain::flow::Change;
use crate::domain::key::Key;
use crate::reactor::{News, Source};
use crate::repl::{Repl, Seat, Turn};
use bindings::{Action, Direction, Situation, action_of};

/// Within this time a second Ctrl+C leaves although agents are busy.
const SECOND_PRESS: Duration = Duration::from_secs(2);

impl Repl {
    /// Decodes keys, edits the draft, runs commands, submits: for the agent on the screen.
    pub(super) fn handle_input(&mut self, news: &[News]) -> Result<Turn> {
        let now = self.shared.clock.now();
        let Some(seat) = &mut self.seat else { return Ok(Turn::Continue) };
        if news.iter().any(|one| one.source == Source::Terminal && one.readiness.writable) {
            seat.flush();
        }
        let is_ready = news.iter().any(|one| one.source == Source::Terminal && one.readiness.readable);
        let is_due = seat.key_deadline().is_some_and(|at| at <= now);
        if is_ready || is_due || seat.has_leftover() {
            seat.read_keys(now)?;
            self.reactor.rearm(Source::Terminal)?;
        }
        if seat.is_gone() {
            return Ok(Turn::Exit);
        }
        while let Some(key) = self.seat.as_mut().and_then(Seat::next_key) {
            if self.on_key(&key)? == Turn::Exit {
                return Ok(Turn::Exit);
            }
            // What one key asked for has happened before the next one is looked at.
            self.apply_outbox();
        }
        Ok(Turn::Continue)
    }

    fn on_key(&mut self, key: &Key) -> Result<Turn> {
        let Some(seat) = &mut self.seat else { return Ok(Turn::Continue) };
        let has_notice = seat.notice.take().is_some();
        let who = seat.focus;
        let Some(agent) = self.roster.get(who) else { return Ok(Turn::Continue) };
        let situation = Situation {
            // Only a question that the person has seen can be answered.
            is_asked: agent.question().is_some_and(|asked| seat.has_shown(who, asked.number)),
            is_whole: seat.shows_whole_question,
            is_busy: agent.state() != State::Idle || self.has_chore(who),
            is_held_up: self.is_held_up(self.worker(who)),
            is_summarised: agent.summaries() > 0,
            is_draft_empty: agent.view.draft.is_empty(),
            has_queue: !agent.queue.is_empty(),
            has_notice,
        };
        let turn = match action_of(key, &situation) {
            Action::Nothing => Turn::Continue,
            Action::Edit(edit) => self.edit(who, edit),
            Action::Type(text) => self.edit(who, |draft| draft.insert(&text)),
            Action::Paste(text) => self.edit(who, |draft| draft.paste(&text)),
            Action::Send => self.send_draft(who),
            Action::Answer(allowed) => self.answer(who, allowed),
            Action::Change(change) => {
                self.apply_or_say(who, change);
                Turn::Continue
            }
            Action::Scroll(rows) => self.scroll(who, rows),
            Action::Recall(older) => self.recall(who, older),
            Action::Complete => self.complete(who),
            Action::Go(direction) => self.go(who, direction),
            Action::Redraw => {
                self.seat.as_mut().map(Seat::forget_screen).unwrap_or_default();
                Turn::Continue
            }
            Action::Suspend => {
                self.suspend()?;
                Turn::Continue
            }
            Action::Leave => self.leave_or_warn(),
        };
        Ok(turn)
    }

    fn edit<T>(&mut self, who: AgentId, edit: impl FnOnce(&mut Draft) -> T) -> Turn {
        if let Some(seat) = &mut self.seat {
            seat.recalled = None;
        }
        self.roster.with(who, |agent| {
            edit(&mut agent.view.draft);
            agent.view.touch();
        });
        Turn::Continue
    }

    /// The draft is a line for the house: a command or a message. Nothing of it is lost if it cannot be carried out.
    fn send_draft(&mut self, who: AgentId) -> Turn {
        let text = self.roster.with(who, |agent| {
            agent.view.touch();
            agent.view.scrollback.to_bottom();
            agent.view.draft.take()
        });
        let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Turn::Continue };
        // The history of inputs is a convenience: a line that it cannot keep is sent all the same.
        drop(self.shared.store.remember_input(&text));
        let outcome = commands::read(&text, &self.house(who)).and_then(|result| self.carry_out(who, result));
        if outcome.is_ok() {
            // A message has taken its draft with it; what a command was typed over is forgotten here.
            self.keep_draft(who);
        }
        outcome.unwrap_or_else(|error| {
            self.return_text(who, &text);
            self.notice(error.message);
            Turn::Continue
        })
    }

    fn answer(&mut self, who: AgentId, allowed: bool) -> Turn {
        let question = self.roster.get(who).and_then(Agent::question).map(|asked| asked.number);
        if let Some(question) = question {
            self.apply_or_say(who, Change::Answer { question, allowed });
        }
        Turn::Continue
    }

    pub(super) fn notice(&mut self, words: String) {
        if let Some(seat) = &mut self.seat {
            seat.notice = Some(words);
        }
    }

    /// Scrolls the text on the screen, and reads older text from the store when its beginning comes in sight.
    fn scroll(&mut self, who: AgentId, by: bindings::Scroll) -> Turn {
        let Some(seat) = &self.seat else { return Turn::Continue };
        let (width, height) = (super::draw::text_width(seat.size.0), seat.text_rows);
        let page = isize::try_from(height.saturating_sub(2).max(1)).unwrap_or(1);
        let is_at_top = self.roster.with(who, |agent| {
            let scrollback = &mut agent.view.scrollback;
            match by {
                bindings::Scroll::Rows(rows) => scrollback.scroll(rows, width, height),
                bindings::Scroll::Pages(pages) => scrollback.scroll(pages * page, width, height),
                bindings::Scroll::Top => scrollback.to_top(),
                bindings::Scroll::Bottom => scrollback.to_bottom(),
            }
            let is_at_top = agent.view.scrollback.is_at_top(width, height);
            agent.view.touch();
            is_at_top
        });
        if is_at_top == Some(true) {
            self.show_older(who);
        }
        Turn::Continue
    }

    /// Moves up or down in the draft; at its edge, brings an earlier (or later) input into it.
    fn recall(&mut self, who: AgentId, older: bool) -> Turn {
        let moved = self.roster.with(who, |agent| {
            agent.view.touch();
            if older { agent.view.draft.up() } else { agent.view.draft.down() }
        });
        if moved == Some(true) {
            return Turn::Continue;
        }
        let Some(seat) = &mut self.seat else { return Turn::Continue };
        let next = match (seat.recalled, older) {
            (None, true) => Some(0),
            (None, false) => return Turn::Continue,
            (Some(at), true) => Some(at + 1),
            (Some(at), false) => at.checked_sub(1),
        };
        let text = next.and_then(|at| self.shared.store.input(at).ok().flatten());
        if next.is_some() && text.is_none() {
            return Turn::Continue;
        }
        seat.recalled = next;
        let text = text.unwrap_or_default();
        self.roster.with(who, |agent| {
            agent.view.draft.set(&text);
            agent.view.touch();
        });
        Turn::Continue
    }

    /// Puts in what all possible endings share; if that is nothing more, says which there are.
    fn complete(&mut self, who: AgentId) -> Turn {
        let Some(agent) = self.roster.get(who) else { return Turn::Continue };
        let typed = agent.view.draft.expanded();
        let endings = commands::complete(&typed, &self.house(who));
        let shared = shared_beginning(&endings);
        if shared.len() > typed.len() {
            self.edit(who, |draft| draft.set(&shared));
        } else if endings.len() > 1 {
            self.notice(endings.join("  "));
        }
        Turn::Continue
    }

    fn go(&mut self, who: AgentId, direction: Direction) -> Turn {
        let to = match direction {
            Direction::Parent => self.roster.parent(who),
            Direction::NewestChild => self.roster.children(who).next_back(),
            Direction::Sibling(step) => self.roster.sibling(who, step),
            Direction::Nth(n) => self.roster.nth(n),
        };
        match to.filter(|to| *to != who) {
            Some(to) => {
                self.apply_or_say(who, Change::Switch(to));
            }
            None => self.notice("there is no agent in that direction: /agents shows the tree".into()),
        }
        Turn::Continue
    }

    /// Gives the terminal back and stops, with the whole process group: whoever waits for us would keep the terminal
    /// otherwise. Returns when SIGCONT has come.
    pub(super) fn suspend(&mut self) -> Result<()> {
        if self.signals.is_none() {
            return Ok(());
        }
        if let Some(seat) = &mut self.seat {
            seat.suspend();
        }
        rustix::process::kill_current_process_group(rustix::process::Signal::STOP).map_err(std::io::Error::from)?;
        if let Some(seat) = &mut self.seat {
            seat.resume()?;
        }
        Ok(())
    }

    /// Leaves, unless somebody is busy: then says who, and leaves at a second press.
    fn leave_or_warn(&mut self) -> Turn {
        let now = self.shared.clock.now();
        let busy: Vec<String> = self.roster.busy().iter().filter_map(|id| self.roster.get(*id)).map(label).collect();
        let Some(seat) = &mut self.seat else { return Turn::Exit };
        if busy.is_empty() || seat.leaves_until.is_some_and(|until| now <= until) {
            return Turn::Exit;
        }
        seat.leaves_until = Some(now + SECOND_PRESS);
        let who = if busy.len() > 4 { format!("{} agents", busy.len()) } else { busy.join(", ") };
        let verb = if busy.len() == 1 { "is" } else { "are" };
        self.notice(format!("{who} {verb} busy: press again within 2 s to leave"));
        Turn::Continue
    }
}

fn label(agent: &Agent) -> String {
    agent.identity.label()
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
