//! A hint that is shown once, when it is useful.

use crate::base::id::AgentId;
use crate::domain::approval::Policy;
use crate::domain::scrollback::LineKind;
use crate::repl::Terminals;
use crate::repl::core::Core;
use crate::repl::core::rules::workspace_of;

/// At the first question in a directory that the policy `auto` would not have asked: names that policy.
pub(super) fn offer_auto(core: &mut Core, terminals: &Terminals, agent_id: AgentId) {
    let Some(agent) = core.agent(agent_id) else { return };
    let is_asked = agent.question().is_some_and(|pending| pending.question.ways.by_auto);
    let is_sandboxed = agent.inputs.environment.is_sandboxed();
    let is_shown = terminals.showing(&[agent_id]).into_iter().any(|id| !terminals.is_read_only(id));
    if !is_asked || !is_sandboxed || !is_shown || agent.policy() != Policy::Ask || core.store().is_read_only() {
        return;
    }
    let key = format!("auto offered in {}", workspace_of(agent).display());
    // If that cannot be stored, the hint is not repeated at every question.
    if core.store().note_once(&key).unwrap_or(false) {
        let note = "to be asked less: /approval auto (Shift+Tab) runs commands in the sandbox and changes files of the \
                    workspace without a question";
        core.note(agent_id, LineKind::Note, note);
    }
}
