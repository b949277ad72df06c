//! Requests that are answered later: the chunks of an agent as they come, and waiting for an agent to be at rest.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::Server;
use super::client::{Client, ClientState};
use crate::agent::{Agent, State};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{AgentId, ClientId};
use crate::commands::{agent_called, question_id};
use crate::domain::agent_host::HostCommand;
use crate::domain::chunk::{Position, Status};
use crate::domain::mcp::McpPrompt;
use crate::domain::skill::SkillList;
use crate::domain::wire::Response;
use crate::repl::core::viewers::attach_to_last_messages;
use crate::repl::core::{Core, activity, mail, viewers};
use crate::team::ViewerId;

/// Chunks that are read at once, and bytes of lines per client and turn.
const CHUNKS_AT_ONCE: usize = 64;
const BYTES_PER_TURN: usize = 256 * 1024;

impl Server {
    /// The client is sent the chunks of an agent: those of the newest `last` messages or those from a position on, up to now or for ever.
    pub(in crate::repl) fn begin_chunks(
        &mut self,
        core: &mut Core,
        id: ClientId,
        agent: &str,
        (from, last): (Option<&Position>, Option<u64>),
        goes_on: bool,
    ) -> Result<()> {
        let agent = agent_called(core.roster(), agent)?;
        let viewer = match (from, last) {
            (None, Some(count)) => attach_to_last_messages(core, agent, count)?,
            (from, _) => viewers::attach(core, agent, from)?,
        };
        let until = if goes_on { u64::MAX } else { core.next_chunk(agent) };
        self.set_state(core, id, ClientState::Logs { viewer, until });
        Ok(())
    }

    /// The client gets a response when the agent is at rest, or after this many seconds.
    pub(in crate::repl) fn begin_wait(
        &mut self,
        core: &mut Core,
        id: ClientId,
        awaited: Awaited,
        (seconds, with_questions): (Option<f64>, bool),
    ) {
        // More seconds than a duration can hold are no limit.
        let longest = seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
        let until = longest.map(|longest| core.now() + longest);
        let told = with_questions.then_some(None);
        self.set_state(core, id, ClientState::Wait { awaited, until, told });
    }

    /// Sends new chunks while the client reads them. For a slow client nothing is buffered; it gets the number of chunks
    /// that it missed.
    pub(super) fn send_chunks(&mut self, core: &mut Core, id: ClientId) {
        let Some((viewer, until)) = self.clients.get(&id).and_then(Client::stream) else { return };
        let mut bytes = 0;
        while bytes < BYTES_PER_TURN {
            let Some(client) = self.clients.get_mut(&id).filter(|client| client.connection.is_ready()) else { return };
            let (lines, is_over) = read_lines(core, viewer, until);
            bytes += lines.iter().map(String::len).sum::<usize>();
            lines.iter().for_each(|line| client.connection.queue(line));
            client.connection.flush();
            if is_over {
                return self.end_stream(core, id, viewer, until);
            }
            if lines.is_empty() {
                return;
            }
        }
    }

    /// The last line of a stream of chunks: the position from which another request may continue, or the result of the
    /// turn.
    fn end_stream(&mut self, core: &mut Core, id: ClientId, viewer: ViewerId, until: u64) {
        let position =
            viewers::next(core, viewer).map(|next| json!({"epoch": viewers::epoch(core), "n": next.min(until)}));
        match self.clients.get(&id).map(|client| &client.state) {
            Some(ClientState::Turn(turn)) => {
                let value = turn.to_json(core);
                self.finish_stored(core, id, Response::Done(value));
            }
            _ => self.finish(core, id, &Response::Done(position.unwrap_or_default())),
        }
    }

    /// The client is sent the open questions now and whenever others are open.
    pub(in crate::repl) fn begin_questions(&mut self, core: &mut Core, id: ClientId) {
        self.set_state(core, id, ClientState::Questions(None));
    }

    /// The clients that have to be sent the open questions; marks them as sent.
    pub(in crate::repl) fn take_clients_for_questions(&mut self, core: &Core) -> Vec<ClientId> {
        let is_due = |client: &Client| match &client.state {
            ClientState::Questions(sent) => client.connection.is_ready() && has_other_questions(core, sent.as_deref()),
            _ => false,
        };
        let due = self.clients.iter_mut().filter(|(_, client)| is_due(client));
        due.map(|(id, client)| {
            client.state = ClientState::Questions(Some(open_questions(core).collect()));
            *id
        })
        .collect()
    }

    /// The client is sent the commands of this agent now and whenever others are there.
    pub(in crate::repl) fn begin_commands(&mut self, core: &mut Core, id: ClientId, agent: AgentId) {
        self.set_state(core, id, ClientState::Commands { agent, sent: None });
    }

    /// The clients that have to be sent the commands of an agent; marks them as sent.
    pub(in crate::repl) fn take_clients_for_commands(&mut self, core: &Core) -> Vec<(ClientId, AgentId)> {
        let mut due = Vec::new();
        for (id, client) in &mut self.clients {
            let is_ready = client.connection.is_ready();
            if let ClientState::Commands { agent, sent } = &mut client.state
                && is_ready
                && has_other_commands(core, *agent, sent.as_ref())
            {
                *sent = commands_of(core, *agent);
                due.push((*id, *agent));
            }
        }
        due
    }

    /// Answers a wait that is over.
    pub(super) fn check_wait(&mut self, core: &mut Core, id: ClientId) {
        let Some(ClientState::Wait { awaited, until, .. }) = self.clients.get(&id).map(|client| &client.state) else {
            return;
        };
        let is_late = until.is_some_and(|until| until <= core.now());
        if !awaited.is_over(core) && !is_late {
            return self.tell_question(core, id);
        }
        match awaited.result(core) {
            Ok(value) => self.finish_stored(core, id, Response::Done(value)),
            Err(error) => self.finish(core, id, &Response::from(&error)),
        }
    }

    /// Sends the question of the awaited agent, once.
    fn tell_question(&mut self, core: &Core, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id).filter(|client| client.connection.is_ready()) else { return };
        let ClientState::Wait { awaited: Awaited::Rest(agent), told: Some(told), .. } = &mut client.state else {
            return;
        };
        let asking = core.agent(*agent).and_then(|agent| Some((agent, agent.question()?)));
        let open = asking.map(|(_, pending)| pending.number);
        if std::mem::replace(told, open) != open
            && let Some((agent, pending)) = asking
        {
            let (id_of_question, label) = (question_id(agent, pending), agent.identity.label());
            let question = json!({"id": id_of_question, "label": label, "title": pending.question.title});
            self.respond(id, &Response::Questions(json!([question])));
        }
    }
}

impl Client {
    /// The viewer that reads for it, and the number of the chunk before which that ends.
    fn stream(&self) -> Option<(ViewerId, u64)> {
        match &self.state {
            ClientState::Logs { viewer, until } => Some((*viewer, *until)),
            ClientState::Turn(turn) => turn.stream(),
            ClientState::Idle
            | ClientState::Wait { .. }
            | ClientState::Questions(_)
            | ClientState::Syncing { .. }
            | ClientState::Commands { .. }
            | ClientState::Job(_)
            | ClientState::Terminal { .. } => None,
        }
    }
}

/// The next lines for a viewer that reads until this number, and whether they are the last ones.
fn read_lines(core: &mut Core, viewer: ViewerId, until: u64) -> (Vec<String>, bool) {
    let wanted = viewers::next(core, viewer).map_or(0, |next| until.saturating_sub(next));
    let output = viewers::read(core, viewer, CHUNKS_AT_ONCE);
    // Chunks that were dropped after the end of the stream are not missed.
    let missed = Some(output.missed.min(wanted)).filter(|missed| *missed > 0);
    let missed = missed.map(|missed| Response::Missed(missed).to_line());
    let chunks = output.chunks.iter().filter(|chunk| chunk.number < until);
    let lines = missed.into_iter().chain(chunks.map(|chunk| chunk.to_line(viewers::epoch(core)))).collect();
    (lines, output.is_over || viewers::next(core, viewer).is_none_or(|next| next >= until))
}

/// What a client waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::repl) enum Awaited {
    /// That this agent is at rest.
    Rest(AgentId),
    /// That an agent has unread mail or, if there are others, that each of them has sent it some or is at rest.
    Mail { agent: AgentId, from: Vec<AgentId> },
}

/// The skills of an agent, the prompts of its servers and the commands of its host. They are replaced as a whole, so that
/// comparing them is quick.
pub(super) type Commands = (Arc<SkillList>, Arc<[McpPrompt]>, Option<Arc<[HostCommand]>>);

fn commands_of(core: &Core, agent: AgentId) -> Option<Commands> {
    let agent = core.agent(agent)?;
    let environment = &agent.inputs.environment;
    let has_host = agent.host_commands().next().is_some();
    let of_host = has_host.then(|| Arc::clone(&environment.host_commands));
    Some((Arc::clone(&environment.skills), Arc::clone(&environment.mcp_prompts), of_host))
}

/// Whether an agent has other commands than these.
pub(super) fn has_other_commands(core: &Core, agent: AgentId, sent: Option<&Commands>) -> bool {
    commands_of(core, agent).is_some_and(|now| sent != Some(&now))
}

/// Whether a client that waits was not told of the question that its agent asks now.
pub(super) fn has_untold_question(core: &Core, awaited: &Awaited, told: Option<Option<u64>>) -> bool {
    let (Awaited::Rest(agent), Some(told)) = (awaited, told) else { return false };
    core.agent(*agent).and_then(Agent::question).map(|pending| pending.number) != told
}

/// The open questions by agent and number.
fn open_questions(core: &Core) -> impl Iterator<Item = (AgentId, u64)> {
    core.roster().questions().map(|(agent, pending)| (agent.id(), pending.number))
}

/// Whether other questions are open than these.
pub(super) fn has_other_questions(core: &Core, sent: Option<&[(AgentId, u64)]>) -> bool {
    sent.is_none_or(|sent| !open_questions(core).eq(sent.iter().copied()))
}

impl Awaited {
    pub(super) fn is_over(&self, core: &Core) -> bool {
        match self {
            Self::Rest(agent) => has_stopped(core, *agent),
            Self::Mail { agent, from } => mail::is_wait_over(core, *agent, from),
        }
    }

    fn result(&self, core: &Core) -> Result<Value> {
        match self {
            Self::Rest(agent) => wait_result(core, *agent).map(|status| json!({"status": status.name()})),
            Self::Mail { agent, from } => Ok(json!({"text": mail::describe(core, *agent, from)})),
        }
    }
}

/// Whether an agent has ended or is idle. The queue of an idle one waits for a person.
pub(super) fn has_stopped(core: &Core, id: AgentId) -> bool {
    core.agent(id).is_none_or(|agent| agent.state() == State::Idle)
}

/// The status of an agent that has stopped.
fn wait_result(core: &Core, agent: AgentId) -> Result<Status> {
    let status = activity::status(core, agent)?;
    if has_stopped(core, agent) {
        return Ok(status);
    }
    let queued = core.agent(agent).map_or(0, |agent| agent.queue.len());
    let message = format!("timed out: {} is {}, {queued} queued", core.roster().label_of(agent), status.name());
    Err(Error::new(ErrorKind::Timeout, message))
}
