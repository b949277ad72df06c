//! Texts and commands that wait for an agent.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::agent::{Agent, Context, Queued};
use crate::base::error::{Error, Result};
use crate::base::id::{AgentId, MessageId};
use crate::domain::context_use::total_length;
use crate::domain::drafts::DraftSlot;
use crate::domain::flow::Origin;
use crate::domain::history::History;
use crate::domain::message::Body;
use crate::repl::core::drafts;
use crate::repl::core::{Core, agent_gone};
use crate::repl::event::Event;
use crate::team::{MIN_CACHED_BYTES, Prefix, is_still_cached};

/// The most entries in the queue of one agent.
const MOST_QUEUED: usize = 1_000;

impl Core {
    /// Stores a message to an idle agent and begins its turn.
    pub(in crate::repl) fn begin_turn(&mut self, origin: Origin, agent_id: AgentId, text: String) -> Result<()> {
        self.load(agent_id)?;
        self.save_unsaved(agent_id)?;
        let (draft, now) = (drafts::slot_of(self, origin), self.clock.unix_ms());
        let replaced = replaced_by(self, agent_id, draft, &text);
        let (rewound, message) = self.transaction(|core| {
            let rewind = replaced.map(|id| vec![Body::Rewind(MessageId(id.0 - 1))]);
            let rewound = rewind.map(|bodies| core.store.append(agent_id, bodies, now)).transpose()?;
            Ok((rewound, core.store.begin_turn(agent_id, text, draft, now)?))
        })?;
        self.remember(agent_id, rewound.unwrap_or_default());
        self.start_turn(origin, agent_id, |agent, context| agent.begin(message, context));
        Ok(())
    }

    /// Begins the turn of the first queued message.
    pub(in crate::repl) fn begin_queued_turn(&mut self, agent_id: AgentId, entry: &Queued) -> Result<()> {
        self.load(agent_id)?;
        self.save_unsaved(agent_id)?;
        let message = self.store.promote(agent_id, entry.id, self.clock.unix_ms())?;
        self.start_turn(entry.origin, agent_id, |agent, context| {
            agent.queue.pop_front();
            agent.begin(message, context);
        });
        Ok(())
    }

    pub(super) fn start_turn(&mut self, origin: Origin, id: AgentId, begin: impl FnOnce(&mut Agent, &mut Context)) {
        let (chunk, sender) = (self.next_chunk(id), drafts::slot_of(self, origin));
        self.roster.with(id, |agent| agent.view.drafts.sender = sender);
        self.with_agent(id, begin);
        self.emit(Event::TurnStarted { agent: id, origin, chunk });
    }

    /// Adds an agent to the send queue of its provider, ordered by how long it has waited.
    pub fn join_send_queue(&mut self, id: AgentId) {
        let prefix = shared_prefix(self, id);
        if let Some(agent) = self.roster.get(id) {
            self.send_queue.look(&agent.inputs.endpoint);
            self.send_queue.join(id, &agent.inputs.endpoint.provider, agent.waits_for_reply_since(), prefix);
        }
    }

    /// Adds a message or a command to the queue. Returns its position, counted from 1.
    pub(in crate::repl) fn enqueue(
        &mut self,
        origin: Origin,
        agent_id: AgentId,
        text: &str,
        is_command: bool,
    ) -> Result<usize> {
        if self.roster.get(agent_id).is_some_and(|agent| agent.queue.len() >= MOST_QUEUED) {
            return Err(Error::usage(format!("the queue is full: {MOST_QUEUED} entries are waiting")));
        }
        let id = self.store.enqueue(agent_id, text, is_command, drafts::slot_of(self, origin), self.clock.unix_ms())?;
        let position = self.roster.with(agent_id, |agent| {
            agent.queue.push_back(Queued { id, text: text.to_owned(), is_command, origin });
            agent.view.touch();
            agent.queue.len()
        });
        self.emit(Event::QueueChanged { agent: agent_id });
        position.ok_or_else(agent_gone)
    }

    /// Removes these entries from the queue.
    pub(in crate::repl) fn drop_queued(&mut self, agent_id: AgentId, dropped: &[Queued]) -> Result<()> {
        let ids: Vec<_> = dropped.iter().map(|entry| entry.id).collect();
        self.store.drop_queued(agent_id, &ids)?;
        self.roster.with(agent_id, |agent| {
            agent.queue.retain(|entry| !ids.contains(&entry.id));
            agent.view.touch();
        });
        self.emit(Event::QueueChanged { agent: agent_id });
        Ok(())
    }
}

/// The message that a text replaces: that of the last turn, which failed or was interrupted, if the text was made from
/// it, or is the same and nothing was done yet: after an answer, "continue" means to go on. Without a part of a reply, a
/// failed message is left out anyway.
fn replaced_by(core: &mut Core, agent_id: AgentId, draft: Option<DraftSlot>, text: &str) -> Option<MessageId> {
    let edited = core.roster.with(agent_id, |agent| agent.view.drafts.take_edited(draft?)).flatten();
    let agent = core.roster.get(agent_id).filter(|agent| agent.can_retry())?;
    let turn = agent.inputs.history.as_ref()?.open_turn()?;
    let id = turn.message.0;
    let is_left_out = agent.has_failed() && turn.is_unanswered;
    let is_repeated = draft.is_some() && text == turn.message.1 && turn.is_unanswered;
    let is_made_from_it = edited == Some(id) || is_repeated;
    Some(id).filter(|id| is_made_from_it && !is_left_out && *id > agent.identity.fork_point)
}

/// Tries the last turn of an idle agent again, which failed or was interrupted.
pub(in crate::repl) fn retry_turn(core: &mut Core, origin: Origin, agent_id: AgentId) -> Result<()> {
    let nothing = || Error::usage("nothing to try again: the last turn of this agent is complete");
    core.roster.get(agent_id).filter(|agent| agent.can_retry()).ok_or_else(nothing)?;
    core.load(agent_id)?;
    core.save_unsaved(agent_id)?;
    let history = core.roster.get(agent_id).and_then(|agent| agent.inputs.history.as_ref());
    let turn = history.and_then(History::open_turn).ok_or_else(nothing)?;
    core.store.begin_again(agent_id)?;
    core.start_turn(origin, agent_id, |agent, context| agent.begin_again(turn, context));
    Ok(())
}

/// Requests that have ended make room for others, and replies that have begun.
pub(in crate::repl) fn settle_send_queue(core: &mut Core) {
    let Core { clock, roster, send_queue, .. } = core;
    let replied_at = |agent| roster.get(agent)?.last_reply_began.as_ref().map(|(at, _)| *at);
    send_queue.settle(clock.now(), replied_at, |agent| roster.get(agent).is_some_and(Agent::is_under_way));
}

/// What the first request of a fork has in common with those of its siblings, if it is worth a place in the cache of the
/// provider and is not there already.
pub(in crate::repl) fn shared_prefix(core: &Core, id: AgentId) -> Option<Prefix> {
    let agent = core.roster.get(id).filter(|agent| agent.identity.has_parent() && agent.last_reply_began.is_none())?;
    let (parent, endpoint) = (agent.identity.parent?, &agent.inputs.endpoint);
    let conversation = agent.inputs.history.as_ref()?.conversation();
    let (inherited, own): (Vec<_>, Vec<_>) =
        conversation.into_iter().partition(|message| message.id <= agent.identity.fork_point);
    let is_first = !own.iter().any(|message| matches!(message.body, Body::Assistant(_)));
    if !is_first || !endpoint.has_server() || total_length(&inherited) < MIN_CACHED_BYTES {
        return None;
    }
    let prefix = Prefix { parent, model: endpoint.full_name(), instructions: hash_of_instructions(agent) };
    let has_it_cached = |parent: &Agent| {
        let last = parent.last_reply_began.as_ref().filter(|(at, _)| is_still_cached(*at, core.clock.now()));
        last.is_some_and(|(_, asked)| asked.full_name() == prefix.model)
            && hash_of_instructions(parent) == prefix.instructions
    };
    (!core.roster.get(parent).is_some_and(has_it_cached)).then_some(prefix)
}

/// Of everything that comes before the messages of a request.
fn hash_of_instructions(agent: &Agent) -> u64 {
    let tools = agent.inputs.environment.declarations();
    let tools: Vec<_> = tools.iter().map(|tool| (tool.name, tool.description, tool.parameters)).collect();
    let mut hasher = DefaultHasher::new();
    (agent.system_prompt(), agent.inputs.has_tools, tools).hash(&mut hasher);
    hasher.finish()
}
