//! Describes in one line what an agent is doing, for terminals and lists.

use std::time::Duration;

use crate::agent::{Agent, State, Wait};
use crate::base::clock::Moment;
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::chunk::Status;
use crate::domain::config::Config;
use crate::repl::core::remove::is_killing;
use crate::repl::core::{Core, agent_gone};
use crate::team::Gate;

/// The agent whose work is shown for `focus`: itself, or the one that writes a summary for it.
pub(in crate::repl) fn worker(core: &Core, focus: AgentId) -> AgentId {
    let waits = |agent: &&Agent| agent.state() == State::Idle || matches!(agent.wait(), Wait::Compaction);
    let agent = core.roster.get(focus).filter(waits);
    agent.and_then(|agent| agent.helper).unwrap_or(focus)
}

/// Whether an agent waits for its retry or for the end of its provider's pause.
pub(in crate::repl) fn is_held_up(core: &Core, agent: AgentId) -> bool {
    let waiting = core.roster.get(agent).filter(|agent| agent.state() == State::WaitingForLlm);
    match waiting.map(Agent::wait) {
        Some(Wait::Retry { .. }) => true,
        Some(Wait::Slot) => matches!(core.send_queue.gate_of(agent, core.clock.now()), Some(Gate::Paused { .. })),
        _ => false,
    }
}

/// The activity of an agent. `has_keys`: the reader can press keys, so the text names them.
pub(in crate::repl) fn activity(core: &Core, focus: AgentId, has_keys: bool) -> String {
    let worker = worker(core, focus);
    let Some(agent) = core.roster.get(worker) else { return String::new() };
    let members = core.roster.get(focus).and_then(|agent| agent.members_done());
    if let Some((done, all)) = members.filter(|_| agent.state() == State::Idle) {
        return format!("team: {done} of {all} done (Esc stops it)");
    }
    let now = core.clock.now();
    let context = ActivityContext {
        now,
        position: core.send_queue.position_of(worker),
        limit: core.config.working_limit,
        gate: core.send_queue.gate_of(worker, now),
        held: core.trees.held(worker).map(|reached| reached.activity()),
        prepares: prepares(&core.config),
        has_keys,
    };
    let text = describe(agent, &context);
    match core.roster.get(focus) {
        _ if worker == focus => text,
        Some(agent) if agent.is_compacting() => format!("compacting: {text}"),
        _ => format!("summary: {text}"),
    }
}

/// The status of an agent; that of a closed one is idle.
pub(in crate::repl) fn status(core: &Core, id: AgentId) -> Result<Status> {
    if let Some(agent) = core.roster.get(id) {
        return Ok(agent.status());
    }
    let row = core.store.agent(id)?.ok_or_else(agent_gone)?;
    Ok(if row.is_running { Status::Idle } else { Status::Dead })
}

/// Whether an agent, an effect, an event or a kill is left to be handled.
pub(in crate::repl) fn has_leftover(core: &Core) -> bool {
    !core.roster.with_leftover().is_empty() || !core.outbox.is_empty() || !core.events.is_empty() || is_killing(core)
}

/// The agents whose work a person sees, and those that write summaries for them.
pub(in crate::repl) fn set_watched(core: &mut Core, agents: impl Iterator<Item = AgentId>) {
    let mut watched = std::mem::take(&mut core.watched);
    watched.clear();
    agents.for_each(|agent| watched.extend([agent, worker(core, agent)]));
    core.watched = watched;
}

/// Whether a person sees the work of this agent.
#[cfg(feature = "coordinator")]
pub(in crate::repl) fn is_watched(core: &Core, agent: AgentId) -> bool {
    core.watched.contains(&agent)
}

/// What an agent waits for, in words that do not change while it waits, and until when, if that is known.
pub(in crate::repl) fn waits_for(core: &Core, id: AgentId) -> Option<(String, Option<Moment>)> {
    let agent = core.roster.get(id)?;
    let provider = &agent.inputs.endpoint.provider;
    let what = match (agent.state(), agent.wait()) {
        (State::AwaitingApproval, _) => "an answer to a question".into(),
        (State::ExecutingTool, _) if agent.waits_for_tool_slot_since().is_some() => "a slot to run a tool".into(),
        (State::ExecutingTool, _) if agent.waits_for_server() => "an MCP server".into(),
        (State::ExecutingTool, _) if !agent.has_live_tool() => {
            agent.work_of_loop().strip_prefix("waiting for ")?.to_owned()
        }
        (State::WaitingForLlm, Wait::Key) => format!("the key command of {provider}"),
        (State::WaitingForLlm, Wait::Compaction) => "a summary".into(),
        (State::WaitingForLlm, Wait::Hooks) => "hooks".into(),
        (State::WaitingForLlm, Wait::Retry { at, error }) => {
            return Some((format!("another try after {}", error.kind.name()), Some(*at)));
        }
        (State::WaitingForLlm, Wait::Slot) => match core.send_queue.gate_of(id, core.clock.now()) {
            Some(Gate::Paused { until, .. }) => {
                return Some((format!("the rate limit of {provider}"), Some(until)));
            }
            Some(Gate::Full { .. }) => format!("answers of {provider} to other agents"),
            Some(Gate::Fork { .. }) => "the reply to another fork".into(),
            None if core.trees.held(id).is_some() => "a limit to be raised".into(),
            None if core.send_queue.position_of(id).is_none() => prepares(&core.config)?.to_owned(),
            None => "a slot".into(),
        },
        _ => return None,
    };
    Some((what, None))
}

/// Why a request waits.
pub(crate) struct HeldUp {
    pub until: Moment,
    /// From now on.
    pub length: Duration,
    pub reason: String,
    /// The agent pauses until then; otherwise it waits for its turn, which may come sooner or later.
    is_fixed: bool,
}

impl HeldUp {
    /// Whether the wait has changed for somebody who was told that it lasts until `told`.
    pub fn is_news(&self, told: Option<Moment>) -> bool {
        told.is_none_or(|told| if self.is_fixed { self.until != told } else { self.until > told + NEWS_AFTER })
    }
}

/// A wait for a turn is reported again when it lasts this much longer.
const NEWS_AFTER: Duration = Duration::from_secs(10);

/// Why the request of an agent, or of the one that writes a summary for it, waits.
pub(in crate::repl) fn held_up(core: &Core, agent_id: AgentId) -> Option<HeldUp> {
    let (now, agent_id) = (core.clock.now(), worker(core, agent_id));
    let agent = core.roster.get(agent_id)?;
    let (until, reason, is_fixed) = match (agent.wait(), core.send_queue.gate_of(agent_id, now)) {
        (Wait::Retry { at, error }, _) => (*at, error.message.clone(), true),
        (_, Some(Gate::Paused { until, reason })) => (until, reason.to_string(), false),
        _ => return None,
    };
    let reason = match agent.retries() {
        0 => reason,
        failed => format!("{reason}; attempt {} follows", failed + 1),
    };
    Some(HeldUp { until, length: until.since(now), reason, is_fixed })
}

/// What the description depends on besides the agent.
struct ActivityContext {
    pub now: Moment,
    /// How many agents are ahead of it in the send queue.
    pub position: Option<usize>,
    /// How many agents may work at once.
    pub limit: usize,
    /// Whether its provider is paused.
    pub gate: Option<Gate>,
    /// What a request waits for before it joins the queue.
    pub prepares: Option<&'static str>,
    /// The limit that holds its request back.
    pub held: Option<String>,
    /// The reader is a person at a terminal.
    pub has_keys: bool,
}

impl ActivityContext {
    fn keys(&self, help: &str) -> String {
        if self.has_keys { format!(" ({help})") } else { String::new() }
    }
}

/// The moment to which the description counts down, if it does.
pub(in crate::repl) fn countdown(agent: &Agent, gate: Option<&Gate>) -> Option<Moment> {
    match (agent.state(), agent.wait(), gate) {
        (State::WaitingForLlm, Wait::Retry { at, .. }, _) => Some(*at),
        (State::WaitingForLlm, Wait::Slot, Some(Gate::Paused { until, .. })) => Some(*until),
        _ => None,
    }
}

/// The seconds that are left, rounded up.
pub(in crate::repl) fn seconds_left(at: Moment, now: Moment) -> u64 {
    u64::try_from((at - now).as_micros().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// When [`seconds_left`] changes.
pub(in crate::repl) fn next_second(at: Moment, now: Moment) -> Moment {
    let rest = Duration::from_secs(seconds_left(at, now).saturating_sub(1));
    now + (at - now).saturating_sub(rest)
}

fn describe(agent: &Agent, context: &ActivityContext) -> String {
    let seconds = (context.now - agent.step_started()).as_secs();
    if agent.is_stopping() {
        return "stopping …".into();
    }
    let provider = &agent.inputs.endpoint.provider;
    match (agent.state(), agent.wait()) {
        (State::ExecutingTool, _) if agent.waits_for_tool_slot_since().is_some() => {
            format!("waiting for a slot to run a tool, {} may work at once", context.limit)
        }
        (State::ExecutingTool, _) if agent.waits_for_server() => {
            format!("waiting for an MCP server … {seconds} s{}", context.keys("Esc stops it"))
        }
        (State::ExecutingTool, _) if !agent.has_live_tool() => {
            format!("{} … {seconds} s{}", agent.work_of_loop(), context.keys("Esc stops it"))
        }
        (State::ExecutingTool, _) => format!("running a tool … {seconds} s{}", context.keys("Esc stops it")),
        (_, Wait::Key) => {
            format!("running the key command of {provider} … {seconds} s{}", context.keys("Esc cancels"))
        }
        (_, Wait::Compaction) => format!("compacting{}", context.keys("Esc stops it")),
        (_, Wait::Hooks) => format!("running hooks … {seconds} s{}", context.keys("Esc takes the message back")),
        (_, Wait::Slot) => waiting(agent, context),
        (_, Wait::Retry { at, error }) => {
            let left = span(seconds_left(*at, context.now));
            format!(
                "retrying in {left}, attempt {}{}: {}",
                agent.retries() + 1,
                context.keys("Enter retries, Esc cancels"),
                one_line(&error.message)
            )
        }
        _ if agent.partial_text().is_empty() => format!("waiting for {} … {seconds} s", agent.request_endpoint().model),
        _ => format!("{} is replying … {seconds} s{}", agent.request_endpoint().model, context.keys("Esc stops it")),
    }
}

fn prepares(config: &Config) -> Option<&'static str> {
    match (config.mcp.is_empty(), config.user_tools.is_empty()) {
        (true, true) => None,
        (false, true) => Some("starting MCP servers"),
        (true, false) => Some("reading the schemas of tools"),
        (false, false) => Some("starting MCP servers and reading the schemas of tools"),
    }
}

fn waiting(agent: &Agent, context: &ActivityContext) -> String {
    if let Some(held) = &context.held {
        return format!("{held}{}", context.keys("Esc cancels"));
    }
    if context.position.is_none()
        && let Some(prepares) = context.prepares
    {
        let seconds = (context.now - agent.started()).as_secs();
        return format!("{prepares} … {seconds} s{}", context.keys("Esc cancels"));
    }
    let (provider, before) = (&agent.inputs.endpoint.provider, context.position.unwrap_or(0));
    match &context.gate {
        Some(Gate::Paused { until, reason }) => {
            let left = span(seconds_left(*until, context.now));
            let keys = context.keys("Enter retries, Esc cancels");
            format!("{provider} is paused, retrying in {left}{keys}: {}", one_line(reason))
        }
        Some(Gate::Full { .. }) => {
            format!("{provider} was paused: waiting for the answers to other agents{}", context.keys("Esc cancels"))
        }
        Some(Gate::Fork { .. }) => {
            let keys = context.keys("Esc cancels");
            format!("waiting until another fork is answered, whose conversation {provider} then has in its cache{keys}")
        }
        None if context.limit > 0 => {
            format!("waiting for a slot: {before} ahead, {} may work at once", context.limit)
        }
        None => format!("waiting to send to {provider}: {before} ahead{}", context.keys("Esc cancels")),
    }
}

fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// The first line of a text, without control characters.
pub(in crate::repl) fn one_line(text: &str) -> String {
    text::sanitise(text.lines().next().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_shown_in_seconds_minutes_or_hours() {
        let shown = [0, 7, 119, 125, 7199, 7200, 7380, 86_400].map(span);
        assert_eq!(shown, ["0 s", "7 s", "119 s", "2 min 5 s", "119 min 59 s", "2 h 0 min", "2 h 3 min", "24 h 0 min"]);
    }

    #[test]
    fn the_next_second_is_when_the_number_shown_changes() {
        let at = Moment::default() + Duration::from_millis(7_000);
        for (now, left, next) in [(0, 7, 1_000), (1, 7, 1_000), (1_000, 6, 2_000), (6_500, 1, 7_000), (7_000, 0, 7_000)]
        {
            let now = Moment::default() + Duration::from_millis(now);
            assert_eq!(seconds_left(at, now), left);
            assert_eq!(next_second(at, now), Moment::default() + Duration::from_millis(next));
        }
    }
}
