//! Sets, shows and counts the limits of trees of agents.

use crate::agent::{Agent, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::base::text::dollars;
use crate::commands::TwoColumns;
use crate::domain::limits::{LimitName, LimitValue, SetLimit};
use crate::domain::message::Body;
use crate::repl::core::{Core, agent_gone};
use crate::repl::event::Event;
use crate::team::Reached;

/// Sets a limit that a person typed, and says from when it counts. Agents that it held back continue if it allows it.
pub(super) fn set_typed(core: &mut Core, agent: AgentId, name: LimitName, value: LimitValue) -> Result<String> {
    let endpoint = core.agent(agent).ok_or_else(agent_gone)?.inputs.endpoint.clone();
    let most = match value {
        LimitValue::Most(most) => Some(most),
        LimitValue::None => None,
        LimitValue::Default => return set(core, agent, name, None).map(|()| note(core, agent, name)),
    };
    if name == LimitName::Usd && most.is_some() && endpoint.facts.prices.is_none() {
        let message = format!(
            "the price of {} is unknown, so its dollars cannot be limited: give the model input_price and \
             output_price in the configuration",
            endpoint.full_name()
        );
        return Err(Error::new(ErrorKind::Usage, message));
    }
    let limit = core.trees.typed(agent, name, most, core.clock.steady_ms());
    set(core, agent, name, Some(limit))?;
    Ok(note(core, agent, name))
}

/// What a limit counts, for the note after it was set.
fn note(core: &Core, agent: AgentId, name: LimitName) -> String {
    let limit = core.trees.limit(&core.roster, agent, name).most.filter(|_| name.is_budget());
    let counts = limit.map(|most| match name {
        LimitName::Usd => {
            let (spent, label) = (core.trees.money(&core.roster, agent).spent, core.roster.label_of(agent));
            format!(
                ": {label} and the agents that models made below it have spent ${} of ${}",
                dollars(spent),
                name.display_value(most)
            )
        }
        _ => ": it counts from now on".into(),
    });
    format!("the limit `{}` is set{}; /limit shows all", name.name(), counts.unwrap_or_default())
}

/// Doubles a limit that was reached.
pub(super) fn raise(core: &mut Core, reached: &Reached) -> Result<()> {
    let limit = core.trees.raised_limit(&core.roster, reached);
    set(core, reached.agent, reached.name, Some(limit))
}

/// `None`: removes the set limit.
fn set(core: &mut Core, agent: AgentId, name: LimitName, limit: Option<SetLimit>) -> Result<()> {
    core.store.set_limit(agent, name, limit)?;
    core.trees.set(agent, name, limit);
    core.emit(Event::LimitChanged);
    for released in core.trees.take_released(&core.roster, core.clock.steady_ms()) {
        let waits = |agent: &Agent| agent.state() == State::WaitingForLlm;
        if core.agent(released).is_some_and(waits) {
            core.join_send_queue(released);
            core.roster.with(released, |agent| agent.view.touch());
        }
    }
    Ok(())
}

/// The limits of an agent, with what counts against them, for a screen of this many columns.
pub(super) fn describe(core: &Core, agent: AgentId, columns: Option<usize>) -> Result<String> {
    let label = core.agent(agent).ok_or_else(agent_gone)?.identity.label();
    let now = core.clock.steady_ms();
    let mut list = TwoColumns::new(31);
    for name in LimitName::ALL {
        let used = name.shown_used(core.trees.used(&core.roster, agent, name, now));
        let most = core.trees.limit(&core.roster, agent, name).most;
        let most = most.map_or_else(|| "no limit".into(), |most| format!("of {}", name.display_value(most)));
        list.row(format!("  {:<10} {used:>8} {most}", name.name()), name.about());
    }
    Ok(format!("limits of {label} and of the agents that models make below it:\n{}", list.to_text(columns)))
}

/// Counts the usage in these messages of an agent.
pub(super) fn count_spent(core: &mut Core, agent: AgentId, bodies: &[Body]) {
    for body in bodies {
        if let Body::Usage(usage) = body {
            core.trees.count_usage(&core.roster, agent, usage);
        }
    }
}

/// An agent began or ended its work.
pub(super) fn count_work(core: &mut Core, agent: AgentId, from: State, to: State) {
    let now = core.clock.steady_ms();
    match (from, to) {
        (State::Idle, _) => core.trees.on_busy(&core.roster, agent, now),
        (_, State::Idle) => core.trees.on_idle(&core.roster, agent, now),
        _ => {}
    }
}

/// Stores the usage since the last call, in one transaction. What cannot be stored is counted in memory only.
pub(super) fn save_spent(core: &mut Core) {
    let changed = core.trees.take_changed();
    if !changed.is_empty() && !core.store.is_read_only() {
        drop(core.store.set_spent(&changed));
    }
}
