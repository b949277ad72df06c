//! The limits of a tree that apply to a new agent.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::AgentId;
use crate::domain::endpoint::Endpoint;
use crate::domain::flow::Origin;
use crate::domain::limits::{LimitName, MadeBy};
use crate::repl::core::Core;

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
