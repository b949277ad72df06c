//! The limits of trees of agents, and those of the turns of clients: set, shown, asked and counted.

use crate::agent::{Agent, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::base::text::dollars;
use crate::commands::TwoColumns;
use crate::domain::endpoint::Endpoint;
use crate::domain::flow::Origin;
use crate::domain::limits::{LimitName, LimitValue, MadeBy, SetLimit};
use crate::domain::message::Body;
use crate::repl::core::{Core, agent_gone};
use crate::repl::event::Event;
use crate::team::Reached;

/// Who makes an agent of this origin.
pub(super) fn made_by(origin: Origin, is_member: bool) -> MadeBy {
    match origin {
        Origin::Agent(_) => MadeBy::Model,
        _ if is_member => MadeBy::Run,
        _ => MadeBy::Person,
    }
}

/// Fails if a limit does not allow this child.
pub(super) fn require_creation(core: &Core, parent: AgentId, made_by: MadeBy, endpoint: &Endpoint) -> Result<()> {
    if made_by == MadeBy::Model
        && let Some(reached) = core.trees.check_creation(&core.roster, parent, core.clock.steady_ms())
    {
        return Err(Error::new(ErrorKind::Limit, reached.message(&core.roster)));
    }
    if !made_by.is_top() { require_price(core, parent, endpoint) } else { Ok(()) }
}

/// Fails if the agent's dollars are limited and the price of this model is unknown.
fn require_price(core: &Core, agent: AgentId, endpoint: &Endpoint) -> Result<()> {
    if endpoint.facts.prices.is_some() || !core.trees.limits_money(&core.roster, agent) {
        return Ok(());
    }
    let (model, setting) = (endpoint.full_name(), LimitName::Usd.setting());
    let message = format!(
        "{setting} limits what this agent may spend, and the price of {model} is unknown: give the model \
         input_price and output_price in the configuration"
    );
    Err(Error::new(ErrorKind::Usage, message))
}

/// Sets a limit that a person typed, and says from when it counts. Agents that it held back continue if it allows it.
pub(in crate::repl) fn set_typed(
    core: &mut Core,
    agent: AgentId,
    name: LimitName,
    value: LimitValue,
) -> Result<String> {
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
pub(in crate::repl) fn raise(core: &mut Core, reached: &Reached) -> Result<()> {
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
pub(in crate::repl) fn describe(core: &Core, agent: AgentId, columns: Option<usize>) -> Result<String> {
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
pub(in crate::repl) fn count_spent(core: &mut Core, agent: AgentId, bodies: &[Body]) {
    for body in bodies {
        if let Body::Usage(usage) = body {
            core.trees.count_usage(&core.roster, agent, usage);
        }
    }
}

/// An agent began or ended its work.
pub(in crate::repl) fn count_work(core: &mut Core, agent: AgentId, from: State, to: State) {
    let now = core.clock.steady_ms();
    match (from, to) {
        (State::Idle, _) => core.trees.on_busy(&core.roster, agent, now),
        (_, State::Idle) => core.trees.on_idle(&core.roster, agent, now),
        _ => {}
    }
}

/// Stores the usage since the last call, in one transaction. What cannot be stored is counted in memory only.
pub(in crate::repl) fn save_spent(core: &mut Core) {
    let changed = core.trees.take_changed();
    if !changed.is_empty() && !core.store.is_read_only() {
        drop(core.store.set_spent(&changed));
    }
}

/// Counts the requests of an agent's turn, which a client limits; see [`crate::team::RequestLimits`].
pub(in crate::repl) fn begin_turn(core: &mut Core, agent: AgentId, most: Option<u32>) {
    core.request_limits.begin_turn(agent, most);
}

/// Ends the count for a turn and returns it.
pub(in crate::repl) fn end_turn(core: &mut Core, agent: AgentId) -> u32 {
    core.request_limits.end_turn(agent)
}

/// Returns the count for a turn, and goes on from 0 with what is left of its limit.
pub(in crate::repl) fn next_turn(core: &mut Core, agent: AgentId) -> u32 {
    core.request_limits.next_turn(agent)
}

/// The agents whose turns have reached the limit of a client.
pub(in crate::repl) fn exhausted(core: &Core) -> impl Iterator<Item = AgentId> {
    core.request_limits.exhausted()
}

/// Whether the turn of this agent has reached the limit of a client.
pub(in crate::repl) fn is_turn_exhausted(core: &Core, agent: AgentId) -> bool {
    core.request_limits.is_turn_exhausted(agent)
}

/// Whether the limits of turns allow the next request of an agent.
pub(in crate::repl) fn may_request(core: &Core, agent: AgentId) -> bool {
    core.request_limits.may_request(&core.roster, agent)
}

/// Counts a request that is not a retry, in its turn and in its tree.
pub(in crate::repl) fn count_request(core: &mut Core, agent: AgentId) {
    core.request_limits.count_request(&core.roster, agent);
    core.trees.count_request(&core.roster, agent);
}
