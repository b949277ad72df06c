//! What keys do. First a pure step, key to action; then the action is carried out for the agent on the screen of the
//! terminal where the key was pressed.

mod bindings;

use crate::agent::{Agent, State};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::commands;
use crate::domain::draft::Draft;
use crate::domain::flow::Change;
use crate::domain::key::Key;
use crate::domain::scrollback::{LineKind, Reader};
use crate::reactor::{News, Source};
use crate::repl::{Repl, Seat, SeatId, Turn};
use bindings::{Action, Direction, Situation, action_of};

impl Repl {
    /// Decodes keys, edits drafts, runs commands, submits: at each terminal for the agent on its screen.
    pub(super) fn handle_input(&mut self, news: &[News]) -> Result<Turn> {
        for at in self.seats.ids() {
            if self.serve_seat(at, news)? == Turn::Exit {
                return Ok(Turn::Exit);
            }
        }
        Ok(Turn::Continue)
    }

    fn serve_seat(&mut self, at: SeatId, news: &[News]) -> Result<Turn> {
        let now = self.shared.clock.now();
        let Some(seat) = self.seats.get_mut(at) else { return Ok(Turn::Continue) };
        seat.begin_turn();
        if seat.is_resized() {
            seat.measure();
        }
        let is_local = seat.is_local();
        let mut told = news.iter().filter(|one| is_local && one.source == Source::Terminal).map(|one| one.readiness);
        if told.clone().any(|readiness| readiness.writable) {
            seat.flush();
        }
        let is_ready = told.any(|readiness| readiness.readable);
        let is_due = seat.key_deadline().is_some_and(|at| at <= now);
        if is_ready || is_due || seat.has_input() {
            seat.read_keys(now)?;
            if is_local {
                self.reactor.rearm(Source::Terminal)?;
            }
        }
        if seat.is_gone() {
            return Ok(Turn::Exit);
        }
        while let Some(key) = self.seats.get_mut(at).and_then(Seat::next_key) {
            if self.on_key(at, &key)? == Turn::Exit {
                return Ok(Turn::Exit);
            }
            // What one key asked for has happened before the next one is looked at.
            self.apply_outbox();
        }
        Ok(Turn::Continue)
    }

    fn on_key(&mut self, at: SeatId, key: &Key) -> Result<Turn> {
        let Some(seat) = self.seats.get_mut(at) else { return Ok(Turn::Continue) };
        let has_notice = seat.notice.take().is_some();
        let who = seat.focus;
        let Some(situation) = self.situation(at, has_notice) else { return Ok(Turn::Continue) };
        let action = action_of(key, &situation);
        if let Some(seat) = self.seats.get_mut(at).filter(|_| action.is_act()) {
            seat.count_act();
        }
        match action {
            Action::Nothing => {}
            Action::Edit(edit) => drop(self.edit(at, edit)),
            Action::Type(text) => drop(self.edit(at, |draft| draft.insert(&text))),
            Action::Paste(text) => drop(self.edit(at, |draft| draft.paste(&text))),
            Action::Send => return Ok(self.send_draft(at, who)),
            Action::Answer(allowed) => self.answer(at, who, allowed),
            Action::Change(change) => drop(self.apply_or_say(Some(at), who, change)),
            Action::Scroll(rows) => self.scroll(at, who, rows),
            Action::Recall(older) => self.recall(at, older),
            Action::Complete => self.complete(at, who),
            Action::Go(direction) => self.go(at, who, direction),
            Action::Redraw => self.seats.get_mut(at).map(Seat::redraw).unwrap_or_default(),
            Action::Suspend => self.suspend_at(at)?,
            Action::Leave => return Ok(self.leave_or_warn(at)),
        }
        Ok(Turn::Continue)
    }

    /// What decides about the meaning of a key that is pressed at this terminal.
    fn situation(&self, at: SeatId, has_notice: bool) -> Option<Situation> {
        let seat = self.seats.get(at)?;
        let who = seat.focus;
        let agent = self.roster.get(who)?;
        Some(Situation {
            // Only a question that the person has seen can be answered.
            is_asked: agent.question().is_some_and(|asked| seat.has_shown(who, asked.number)),
            is_whole: seat.shows_whole_question,
            is_busy: agent.state() != State::Idle || self.has_chore(who),
            is_held_up: self.is_held_up(self.worker(who)),
            has_others_at_work: agent.has_others_at_work(),
            is_draft_empty: self.draft_at(at)?.is_empty(),
            has_queue: !agent.queue.is_empty(),
            has_notice,
        })
    }

    /// What is typed at this terminal: to the agent that it looks at, or where it only watches, to nobody.
    fn draft_at(&self, at: SeatId) -> Option<&Draft> {
        let seat = self.seats.get(at)?;
        let agent = self.roster.get(seat.focus)?;
        Some(if seat.manners.is_read_only { &seat.own_draft } else { &agent.view.draft })
    }

    fn with_draft<T>(&mut self, at: SeatId, act: impl FnOnce(&mut Draft) -> T) -> Option<T> {
        let seat = self.seats.get_mut(at)?;
        if seat.manners.is_read_only {
            seat.revision += 1;
            return Some(act(&mut seat.own_draft));
        }
        self.roster.with(seat.focus, |agent| {
            agent.view.touch();
            act(&mut agent.view.draft)
        })
    }

    fn edit<T>(&mut self, at: SeatId, edit: impl FnOnce(&mut Draft) -> T) -> Option<T> {
        self.seats.get_mut(at)?.recalled = None;
        self.with_draft(at, edit)
    }

    /// The draft is a line for the house: a command or a message. Nothing of it is lost if it cannot be carried out.
    fn send_draft(&mut self, at: SeatId, who: AgentId) -> Turn {
        let reader = self.reader(at);
        self.roster.with(who, |agent| agent.view.scrollback.to_bottom(reader));
        let text = self.with_draft(at, Draft::take);
        let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Turn::Continue };
        let is_watcher = self.is_watcher(at);
        if !is_watcher {
            // The history of inputs is a convenience: a line that it cannot keep is sent all the same.
            drop(self.shared.store.remember_input(&text));
        }
        let result = commands::read(&text, &self.house_from(at, who));
        let outcome = result.and_then(|result| self.carry_out(Some(at), who, result));
        if outcome.is_ok() && !is_watcher {
            // A message has taken its draft with it; what a command was typed over is forgotten here.
            self.keep_draft(who);
        }
        outcome.unwrap_or_else(|error| {
            if is_watcher {
                self.with_draft(at, |draft| draft.set(&text));
            } else {
                self.return_text(who, &text);
            }
            self.notice(at, error.message);
            Turn::Continue
        })
    }

    fn answer(&mut self, at: SeatId, who: AgentId, allowed: bool) {
        let question = self.roster.get(who).and_then(Agent::question).map(|asked| asked.number);
        if let Some(question) = question {
            self.apply_or_say(Some(at), who, Change::Answer { question, allowed });
        }
    }

    /// A word for whoever sits at this terminal, until the next key there.
    pub(super) fn notice(&mut self, at: SeatId, words: String) {
        if let Some(seat) = self.seats.get_mut(at) {
            seat.notice = Some(words);
        }
    }

    /// Says something that was asked for: in the text of the agent, or where that belongs to others, to the asker alone.
    pub(super) fn tell(&mut self, asker: Option<SeatId>, who: AgentId, kind: LineKind, text: &str) {
        match asker.filter(|at| self.is_watcher(*at)) {
            Some(at) => self.notice(at, text.to_owned()),
            None => self.note(who, kind, text),
        }
    }

    /// Scrolls the text on the screen, and reads older text from the store when its beginning comes in sight.
    fn scroll(&mut self, at: SeatId, who: AgentId, by: bindings::Scroll) {
        let reader = self.reader(at);
        let Some(seat) = self.seats.get_mut(at) else { return };
        seat.revision += 1;
        let (width, height) = (super::draw::text_width(seat.size.0), seat.text_rows);
        let page = isize::try_from(height.saturating_sub(2).max(1)).unwrap_or(1);
        let is_at_top = self.roster.with(who, |agent| {
            let scrollback = &mut agent.view.scrollback;
            match by {
                bindings::Scroll::Rows(rows) => scrollback.scroll(reader, rows, width, height),
                bindings::Scroll::Pages(pages) => scrollback.scroll(reader, pages * page, width, height),
                bindings::Scroll::Top => scrollback.to_top(reader),
                bindings::Scroll::Bottom => scrollback.to_bottom(reader),
            }
            let is_at_top = agent.view.scrollback.is_at_top(reader, width, height);
            if reader == Reader::Everybody {
                agent.view.touch();
            }
            is_at_top
        });
        if is_at_top == Some(true) {
            self.show_older(who);
        }
    }

    /// Moves up or down in the draft; at its edge, brings an earlier (or later) input into it.
    fn recall(&mut self, at: SeatId, older: bool) {
        let moved = self.with_draft(at, |draft| if older { draft.up() } else { draft.down() });
        let Some(seat) = self.seats.get_mut(at).filter(|_| moved == Some(false)) else { return };
        let next = match (seat.recalled, older) {
            (None, true) => Some(0),
            (None, false) => return,
            (Some(n), true) => Some(n + 1),
            (Some(n), false) => n.checked_sub(1),
        };
        let text = next.and_then(|n| self.shared.store.input(n).ok().flatten());
        if next.is_some() && text.is_none() {
            return;
        }
        seat.recalled = next;
        self.with_draft(at, |draft| draft.set(&text.unwrap_or_default()));
    }

    /// Puts in what all possible endings share; if that is nothing more, says which there are.
    fn complete(&mut self, at: SeatId, who: AgentId) {
        let Some(typed) = self.draft_at(at).map(Draft::expanded) else { return };
        let endings = commands::complete(&typed, &self.house_from(at, who));
        let shared = shared_beginning(&endings);
        if shared.len() > typed.len() {
            self.edit(at, |draft| draft.set(&shared));
        } else if endings.len() > 1 {
            self.notice(at, endings.join("  "));
        }
    }

    fn go(&mut self, at: SeatId, who: AgentId, direction: Direction) {
        let to = match direction {
            Direction::Parent => self.roster.parent(who),
            Direction::NewestChild => self.roster.children(who).next_back(),
            Direction::Sibling(step) => self.roster.sibling(who, step),
            Direction::Nth(n) => self.roster.nth(n),
        };
        match to.filter(|to| *to != who) {
            Some(to) => drop(self.apply_or_say(Some(at), who, Change::Switch(to))),
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
