//! The drafts of agents, in memory and in the store.

use crate::base::id::{AgentId, TerminalId};
use crate::domain::draft::Draft;
use crate::domain::drafts::DraftSlot;
use crate::domain::flow::Origin;
use crate::repl::core::Core;

/// The slot of the terminal that something came from.
pub(in crate::repl) fn slot_of(core: &Core, origin: Origin) -> Option<DraftSlot> {
    slot_at(core, origin.terminal()?)
}

/// The slot of a terminal.
pub(in crate::repl) fn slot_at(core: &Core, at: TerminalId) -> Option<DraftSlot> {
    core.draft_slots.of(at)
}

/// Gives a terminal the lowest free slot.
pub(in crate::repl) fn attach(core: &mut Core, at: TerminalId) {
    core.draft_slots.attach(at);
}

/// Frees the slot of a terminal.
pub(in crate::repl) fn detach(core: &mut Core, at: TerminalId) {
    core.draft_slots.detach(at);
}

/// Where a text goes that comes back to this origin.
pub(in crate::repl) fn slot_for_return(core: &Core, origin: Origin) -> DraftSlot {
    slot_of(core, origin).unwrap_or_else(|| core.draft_slots.lowest())
}

/// Reads the stored drafts of an agent, once.
pub(in crate::repl) fn load(core: &mut Core, id: AgentId) {
    if core.roster.get(id).is_some_and(|agent| !agent.view.drafts.is_loaded()) {
        // The same error is reported when a message is sent. Until they can be read, none are stored over them.
        let Ok(stored) = core.store.drafts(id) else { return };
        let edited = core.store.edited_draft(id).unwrap_or_default();
        core.roster.with(id, |agent| agent.view.drafts.load(stored, edited));
    }
}

/// Puts a text into the draft of its origin, before what was typed there in the meantime.
pub(in crate::repl) fn return_text(core: &mut Core, id: AgentId, origin: Origin, text: &str) {
    return_to_slot(core, id, slot_for_return(core, origin), text);
}

/// Puts a line that was cancelled into the draft of its origin, unless something was typed there meanwhile.
pub(in crate::repl) fn return_line(core: &mut Core, id: AgentId, origin: Origin, line: &str) {
    let slot = slot_for_return(core, origin);
    if core.roster.get(id).is_some_and(|agent| agent.view.drafts.is_empty(slot)) {
        return_to_slot(core, id, slot, line);
    }
}

/// Puts a refused line into the draft of its origin, unless something was typed there in the meantime: the line is in
/// the history of inputs.
pub(in crate::repl) fn return_refused(core: &mut Core, id: AgentId, origin: Origin, line: &str) {
    let slot = slot_for_return(core, origin);
    load(core, id);
    if !is_command(line) {
        return return_to_slot(core, id, slot, line);
    }
    core.roster.with(id, |agent| {
        if agent.view.drafts.is_empty(slot) {
            agent.view.drafts.at(slot).set_refused(line);
            agent.view.touch();
        }
    });
    save(core, id, slot);
}

/// Whether a line is no message for the model.
pub(in crate::repl) fn is_command(text: &str) -> bool {
    text.starts_with(['/', '!', '#']) && !text.starts_with("//")
}

/// Puts the message of a turn back into the draft that it was.
pub(in crate::repl) fn return_message(core: &mut Core, id: AgentId, text: &str) {
    let sender = core.roster.get(id).and_then(|agent| agent.view.drafts.sender);
    return_to_slot(core, id, sender.unwrap_or_else(|| core.draft_slots.lowest()), text);
}

pub(in crate::repl) fn return_to_slot(core: &mut Core, id: AgentId, slot: DraftSlot, text: &str) {
    load(core, id);
    core.roster.with(id, |agent| {
        agent.view.drafts.put_back(slot, text);
        agent.view.touch();
    });
    save(core, id, slot);
}

/// Gives a terminal with this slot a draft that no terminal has, if its own is empty.
pub(in crate::repl) fn take_over(core: &mut Core, id: AgentId, slot: DraftSlot) {
    let Core { roster, draft_slots, .. } = core;
    let from = roster.with(id, |agent| agent.view.drafts.take_over(slot, draft_slots)).flatten();
    // It is stored in its new slot first: a crash between them loses nothing.
    for slot in from.into_iter().flat_map(|from| [slot, from]) {
        save(core, id, slot);
    }
}

/// Stores a draft, so that it is there after a restart.
pub(in crate::repl) fn save(core: &Core, id: AgentId, slot: DraftSlot) {
    if let Some(agent) = core.roster.get(id).filter(|agent| agent.view.drafts.is_loaded()) {
        let drafts = &agent.view.drafts;
        let text = drafts.get(slot).map(Draft::to_store).unwrap_or_default();
        // The same error is reported when a message is sent; the draft stays in memory.
        drop(core.store.set_draft(id, slot, &text, drafts.edited_message(slot)));
    }
}

pub(in crate::repl) fn save_all(core: &Core, id: AgentId) {
    let slots = core.roster.get(id).map(|agent| agent.view.drafts.slots()).unwrap_or_default();
    slots.into_iter().for_each(|slot| save(core, id, slot));
}
