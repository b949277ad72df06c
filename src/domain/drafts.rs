//! The drafts of an agent: one for each terminal.
//!
//! An attached terminal has the lowest free slot, and keeps it until it is detached. At every agent it has the draft of
//! that slot. Drafts stay in their slots when a terminal is detached and when the program ends; a terminal whose own draft
//! is empty takes over one that belongs to no terminal.

use std::collections::BTreeMap;

use crate::base::id::{MessageId, TerminalId};
use crate::domain::draft::Draft;

/// Counted from 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DraftSlot(pub u32);

/// The slots of the attached terminals.
#[derive(Debug, Default)]
pub struct DraftSlots(BTreeMap<TerminalId, DraftSlot>);

impl DraftSlots {
    /// Gives a terminal the lowest free slot.
    pub fn attach(&mut self, terminal: TerminalId) -> DraftSlot {
        let free = (0..).map(DraftSlot).find(|slot| !self.is_taken(*slot)).unwrap_or_default();
        *self.0.entry(terminal).or_insert(free)
    }

    pub fn detach(&mut self, terminal: TerminalId) {
        self.0.remove(&terminal);
    }

    pub fn of(&self, terminal: TerminalId) -> Option<DraftSlot> {
        self.0.get(&terminal).copied()
    }

    pub fn is_taken(&self, slot: DraftSlot) -> bool {
        self.0.values().any(|taken| *taken == slot)
    }

    /// The slot for a text that belongs to no terminal: one shown on a terminal, if there is one.
    pub fn lowest(&self) -> DraftSlot {
        self.0.values().min().copied().unwrap_or_default()
    }
}

/// What was typed to one agent and not sent.
#[derive(Debug, Default)]
pub struct Drafts {
    drafts: BTreeMap<DraftSlot, Draft>,
    is_loaded: bool,
    /// Where the message of the present turn was typed: if no model has seen it, it returns there.
    pub sender: Option<DraftSlot>,
    /// The draft that was made from the message of the last turn, which it replaces.
    edited: Option<(DraftSlot, MessageId)>,
}

impl Drafts {
    /// Whether the stored drafts were read.
    pub fn is_loaded(&self) -> bool {
        self.is_loaded
    }

    /// Takes the stored drafts, each before what was typed in the meantime, and the message that one of them replaces.
    pub fn load(&mut self, stored: Vec<(DraftSlot, String)>, edited: Option<(DraftSlot, MessageId)>) {
        self.is_loaded = true;
        self.edited = self.edited.or(edited);
        stored.into_iter().for_each(|(slot, text)| self.put_back(slot, &text));
    }

    pub fn get(&self, slot: DraftSlot) -> Option<&Draft> {
        self.drafts.get(&slot)
    }

    pub fn at(&mut self, slot: DraftSlot) -> &mut Draft {
        self.drafts.entry(slot).or_default()
    }

    pub fn slots(&self) -> Vec<DraftSlot> {
        self.drafts.keys().copied().collect()
    }

    pub fn is_empty(&self, slot: DraftSlot) -> bool {
        self.get(slot).is_none_or(Draft::is_empty)
    }

    /// The first that is not empty.
    pub fn first(&self) -> Option<&Draft> {
        self.drafts.values().find(|draft| !draft.is_empty())
    }

    /// Moves a draft that belongs to no terminal to this slot, if that is empty. Returns where it was.
    pub fn take_over(&mut self, slot: DraftSlot, slots: &DraftSlots) -> Option<DraftSlot> {
        if !self.is_empty(slot) {
            return None;
        }
        let is_left = |(other, draft): &(&DraftSlot, &Draft)| !slots.is_taken(**other) && !draft.is_empty();
        let from = self.drafts.iter().find(is_left).map(|(other, _)| *other)?;
        let draft = self.drafts.remove(&from)?;
        self.drafts.insert(slot, draft);
        self.edited.iter_mut().filter(|(edited, _)| *edited == from).for_each(|(edited, _)| *edited = slot);
        Some(from)
    }

    /// The draft in this slot was made from this message.
    pub fn set_edited(&mut self, slot: DraftSlot, message: MessageId) {
        self.edited = Some((slot, message));
    }

    /// The message from which the draft in this slot was made.
    pub fn edited_message(&self, slot: DraftSlot) -> Option<MessageId> {
        self.edited.filter(|(edited, _)| *edited == slot).map(|(_, message)| message)
    }

    /// The message from which the draft in this slot was made, which is forgotten.
    pub fn take_edited(&mut self, slot: DraftSlot) -> Option<MessageId> {
        self.edited.take_if(|(edited, _)| *edited == slot).map(|(_, message)| message)
    }

    /// The terminal with this slot is detached: nothing returns there.
    pub fn forget_sender(&mut self, slot: DraftSlot) {
        self.sender = self.sender.filter(|sender| *sender != slot);
    }

    /// Puts a text into a draft, before what was typed in the meantime.
    pub fn put_back(&mut self, slot: DraftSlot, text: &str) {
        let draft = self.at(slot);
        let typed = draft.take();
        let between = if typed.is_empty() { "" } else { "\n" };
        draft.set(&format!("{text}{between}{typed}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_draft_that_is_read_late_goes_before_what_was_typed() {
        let mut drafts = Drafts::default();
        drafts.at(DraftSlot(0)).insert("typed");
        drafts.load(vec![(DraftSlot(0), "stored".into())], None);
        assert_eq!(drafts.get(DraftSlot(0)).map(Draft::text), Some("stored\ntyped"));
    }

    #[test]
    fn a_terminal_takes_over_a_draft_that_belongs_to_no_other_and_only_if_its_own_is_empty() {
        let mut slots = DraftSlots::default();
        let [first, second, third] = [1, 2, 3].map(|number| slots.attach(TerminalId(number)));
        assert_eq!([first, second, third], [0, 1, 2].map(DraftSlot));
        let mut drafts = Drafts::default();
        drafts.load(vec![(second, "of the second".into())], Some((second, MessageId(7))));
        assert_eq!(drafts.take_over(first, &slots), None, "it belongs to the second");
        slots.detach(TerminalId(2));
        drafts.at(first).insert("own");
        assert_eq!(drafts.take_over(first, &slots), None);
        assert_eq!(drafts.take_over(third, &slots), Some(second));
        assert_eq!(drafts.get(third).map(Draft::text), Some("of the second"));
        assert_eq!((drafts.is_empty(second), drafts.edited_message(third)), (true, Some(MessageId(7))));
        assert_eq!(slots.attach(TerminalId(4)), second, "the lowest free one");
    }
}
