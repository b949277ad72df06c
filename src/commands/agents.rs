//! `/agents`: all agents as a tree.

use super::{CommandContext, CommandSpec, TwoColumns, WhenBusy, nothing, refuse_arguments};
use crate::agent::{Agent, State, Wait};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::flow::InputResult;

pub const AGENTS: CommandSpec = CommandSpec {
    name: "agents",
    aliases: &["ps"],
    arguments: "",
    about: "list all agents as a tree",
    busy: WhenBusy::Runs,
    run,
    complete: nothing,
};

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    refuse_arguments("agents", arguments)?;
    Ok(InputResult::Continue(Some(agent_tree(context))))
}

/// All living agents, children below their nearest living ancestor.
pub fn agent_tree(context: &CommandContext) -> String {
    let mut list = TwoColumns::new(0);
    let is_root = |agent: &&Agent| context.roster.parent(agent.id()).is_none();
    let mut open: Vec<(AgentId, usize)> = context.roster.iter().filter(is_root).map(|agent| (agent.id(), 0)).collect();
    open.reverse();
    while let Some((id, depth)) = open.pop() {
        let Some(agent) = context.roster.get(id) else { continue };
        let (left, right) = row(context, agent, depth);
        list.row(left, right);
        open.extend(context.roster.children(id).rev().map(|child| (child, depth + 1)));
    }
    list.to_text(context.columns())
}

fn row(context: &CommandContext, agent: &Agent, depth: usize) -> (String, String) {
    // A deep chain of forks stays readable.
    let indent = "  ".repeat(depth.min(16));
    let here = if agent.id() == context.current { "> " } else { "  " };
    let state = match (agent.state(), agent.wait()) {
        // For a slot or for the end of a rate limit: the agent's own screen shows which.
        (State::WaitingForLlm, Wait::Slot) => "waiting for its turn",
        (State::WaitingForLlm, Wait::Key) => "waiting for a key",
        (State::WaitingForLlm, Wait::Retry { .. }) => "waiting to retry",
        (State::WaitingForLlm, _) if !agent.partial_text().is_empty() => "replying",
        (State::ExecutingTool, _) if agent.wants_tool_slot_since().is_some() => "waiting for its turn",
        (State::ExecutingTool, _) if !agent.has_live_tool() => "waiting for mail",
        (State::Idle, _) if agent.summaries() > 0 => "waiting for a summary",
        (State::Idle, _) if agent.has_background_work() => "waiting for its team",
        (state, _) => state.name(),
    };
    let mail = if agent.unread == 0 {
        String::new()
    } else {
        format!(", {}", text::counted(agent.unread, "unread message", "unread messages"))
    };
    let queued = if agent.queue.is_empty() { String::new() } else { format!(", {} queued", agent.queue.len()) };
    let tokens = agent.used.input + agent.used.output;
    let left = format!("{here}{indent}{:<3} {:<12}", agent.identity.ordinal, agent.identity.label());
    let right = format!(
        "{}  {state}{queued}{mail}  {}  {tokens} tokens  {}",
        agent.id().short(),
        age(context.unix_ms - agent.identity.created_at),
        agent.inputs.endpoint.full_name(),
    );
    (left, right)
}

pub(super) fn age(ms: i64) -> String {
    match ms.max(0) / 1000 {
        s @ 0..=59 => format!("{s} s"),
        s @ 60..=3599 => format!("{} min", s / 60),
        s @ 3600..=86_399 => format!("{} h", s / 3600),
        s => format!("{} d", s / 86_400),
    }
}
