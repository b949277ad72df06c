//! One agent: its state machine, its exchange with a model, its tools, and what a person is shown of it.
//!
//! The loop hands news to one agent at a time, with a [`Context`] that holds nothing of any other. What the agent wants
//! of the house it puts into the outbox as an [`Effect`]; that is its only way out. It goes on in the same way whether
//! it is on a screen or not: nothing in here knows.

mod advice;
mod context;
mod exchange;
mod output;
mod retry;
mod state;
mod view;
mod work;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use crate::base::clock::Moment;
use crate::base::id::{AgentId, MessageId};
use crate::domain::chunk::{Chunk, Status};
use crate::domain::config::RetryPolicy;
use crate::domain::endpoint::Endpoint;
use crate::domain::flow::{AgentOutcome, Origin};
use crate::domain::history::History;
use crate::domain::message::{Body, Message};
use crate::domain::readiness::SocketRequest;
use crate::domain::stream::Usage;
use crate::domain::thinking::Thinking;
use crate::net::Connection;
use crate::store::{QueueId, QueuedRow, typed_line};
use crate::tools::{Environment, Running};
pub use context::{Context, Effect, Outbox, TracedEvent, Wake};
use exchange::Exchange;
pub use exchange::Wait;
pub use output::{FIRST_CHUNK, OUTPUT_LIMITS, Output};
pub use state::State;
pub use view::View;
pub use work::PendingQuestion;
use work::Work;

/// Who an agent is. Never changes, but for its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its id.
    pub id: AgentId,
    /// The order of birth, from 0.
    pub ordinal: i64,
    /// What people call it.
    pub name: Option<String>,
    /// Who forked it; none for agent 0.
    pub parent: Option<AgentId>,
    /// The last of the parent's own messages that it inherited.
    pub fork_point: MessageId,
    /// Milliseconds since 1970.
    pub created_at: i64,
}

impl Identity {
    /// The name, or `agent N`.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("agent {}", self.ordinal))
    }
}

/// What a model is told.
pub struct Talk {
    /// Which model.
    pub endpoint: Rc<Endpoint>,
    /// How much it is to think.
    pub thinking: Thinking,
    /// The instructions before everything.
    pub system: Rc<str>,
    /// Where tools work.
    pub environment: Arc<Environment>,
    /// Whether the model is offered tools at all.
    pub has_tools: bool,
    /// The conversation; read from the store when it is first needed.
    pub history: Option<History>,
}

impl Talk {
    /// Another environment from now on. Instructions of the agent's own stay; otherwise they are those of the environment.
    pub fn move_to(&mut self, environment: Arc<Environment>, system: Rc<str>, has_own_instructions: bool) {
        self.environment = environment;
        if !has_own_instructions {
            self.system = system;
        }
    }
}

/// A text or command that waits for the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    /// Its row in the store.
    pub id: QueueId,
    /// What was entered.
    pub text: String,
    /// It is a command, carried out when its turn comes.
    pub is_command: bool,
    /// Where it was entered. Not stored: after a restart nobody waits for it.
    pub origin: Origin,
}

impl Queued {
    /// The line that a person would type for it.
    pub fn line(&self) -> String {
        typed_line(&self.text, self.is_command)
    }
}

impl From<QueuedRow> for Queued {
    fn from(QueuedRow { id, text, is_command }: QueuedRow) -> Self {
        Self { id, text, is_command, origin: Origin::Internal }
    }
}

/// What an agent works for; its effects are carried out accordingly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// A person.
    #[default]
    Normal,
    /// A task of the coordinator.
    Member,
    /// Another agent, for which it writes a summary. It is neither stored nor listed.
    Summary,
}

/// One agent.
pub struct Agent {
    /// Who.
    pub identity: Identity,
    /// What a model is told.
    pub talk: Talk,
    /// What a person is shown.
    pub view: View,
    /// What it has produced and received, for whoever looks.
    pub output: Output,
    /// What is to be said next, oldest first.
    pub queue: VecDeque<Queued>,
    /// Letters that it has not read.
    pub unread: usize,
    /// Summaries that are being written for a slice of it.
    summaries: usize,
    /// The agent that writes a summary for it.
    pub helper: Option<AgentId>,
    /// Git makes a worktree for a child of it.
    pub makes_worktree: bool,
    /// Tasks on which others work for it.
    tasks: usize,
    members: (usize, usize),
    /// Tokens of all requests since the start of the program.
    pub used: Usage,
    /// What it works for.
    pub role: Role,
    /// How its failed requests are tried again; `None`: as configured.
    pub retry: Option<RetryPolicy>,
    state: State,
    /// The last turn was interrupted.
    was_interrupted: bool,
    exchange: Exchange,
    work: Work,
    connection: Connection,
}

impl Agent {
    /// An agent that waits for input.
    pub fn new(identity: Identity, talk: Talk) -> Self {
        Self {
            identity,
            talk,
            view: View::default(),
            output: Output::default(),
            queue: VecDeque::new(),
            unread: 0,
            summaries: 0,
            helper: None,
            makes_worktree: false,
            tasks: 0,
            members: (0, 0),
            used: Usage::default(),
            role: Role::Normal,
            retry: None,
            state: State::Idle,
            was_interrupted: false,
            exchange: Exchange::default(),
            work: Work::default(),
            connection: Connection::default(),
        }
    }

    /// Its id.
    pub fn id(&self) -> AgentId {
        self.identity.id
    }

    /// What it is doing.
    pub fn state(&self) -> State {
        self.state
    }

    /// What it is doing, for whoever looks from outside.
    pub fn status(&self) -> Status {
        match self.state {
            State::Idle if self.was_interrupted => Status::Interrupted,
            State::Idle => Status::Idle,
            State::WaitingForLlm | State::ExecutingTool => Status::Running,
            State::AwaitingApproval => Status::AwaitingApproval,
        }
    }

    /// Its last turn was cut by the end of an earlier process.
    pub fn note_interrupted(&mut self) {
        self.was_interrupted = true;
        self.emit_aside(&Chunk::Status(self.status()));
    }

    /// Something happened: it gets its number, then it is shown.
    pub(crate) fn emit(&mut self, chunk: &Chunk) {
        self.output.push(chunk);
        self.view.on_chunk(chunk, false);
    }

    /// The same for what happens beside the reply that is being written.
    pub fn emit_aside(&mut self, chunk: &Chunk) {
        self.output.push(chunk);
        self.view.on_chunk(chunk, true);
    }

    /// What was entered into its log happened just now.
    pub fn emit_logged(&mut self, body: &Body) {
        Chunk::of_body(body).iter().for_each(|chunk| self.emit_aside(chunk));
    }

    /// Whether what a person enters now has to wait: it works, or something waits already.
    pub fn is_occupied(&self) -> bool {
        self.state != State::Idle || !self.queue.is_empty()
    }

    /// What it waits for while [`State::WaitingForLlm`].
    pub fn wait(&self) -> &Wait {
        &self.exchange.wait
    }

    /// Since when it has wanted the reply that it waits for.
    pub fn wants_reply_since(&self) -> Moment {
        self.exchange.wanted_at
    }

    /// The way to its provider, for the loop to drive.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// What is to be done about its descriptors; to be carried out before anything else.
    pub fn take_socket_requests(&mut self) -> Vec<SocketRequest> {
        self.connection.take_socket_requests()
    }

    /// Whether it takes one of the places for agents at work: only transfers and tool threads do.
    pub fn holds_slot(&self) -> bool {
        match self.state {
            State::ExecutingTool => self.work.has_live_thread(),
            State::WaitingForLlm => self.exchange.is_under_way(),
            State::Idle | State::AwaitingApproval => false,
        }
    }

    /// Whether a request of it was sent and the reply is being received.
    pub fn is_under_way(&self) -> bool {
        self.state == State::WaitingForLlm && self.exchange.is_under_way()
    }

    /// Whether a tool thread of it lives.
    pub fn has_live_tool(&self) -> bool {
        self.work.has_live_thread()
    }

    /// Whether work is left over from the bounded work of this turn.
    pub fn has_leftover(&self) -> bool {
        self.is_under_way() && self.connection_has_news()
    }

    fn connection_has_news(&self) -> bool {
        self.connection.has_bytes() || self.connection.has_ended()
    }

    /// The soonest moment at which it has to be looked at, and why, libcurl's timer included.
    pub fn deadline(&self) -> Option<(Moment, &'static str)> {
        let curl = self.connection.timer().map(|at| (at, "curl timer"));
        let own = match self.state {
            State::WaitingForLlm => self.exchange.deadline(),
            State::ExecutingTool => self.work.deadline().map(|at| (at, "wait")),
            State::Idle | State::AwaitingApproval => None,
        };
        curl.into_iter().chain(own).min()
    }

    /// The reply so far, while it streams.
    pub fn partial_text(&self) -> &str {
        &self.exchange.reply.text
    }

    /// Summaries that are being written for a slice of it.
    pub fn summaries(&self) -> usize {
        self.summaries
    }

    /// So many summaries are being written for a slice of it from now on: a person sees that something is under way.
    pub fn set_summaries(&mut self, summaries: usize) {
        self.summaries = summaries;
        self.show_work();
    }

    /// How many tasks members work on for it, and how many of these members are done, of how many.
    pub fn set_tasks(&mut self, tasks: usize, members: (usize, usize)) {
        (self.tasks, self.members) = (tasks, members);
        self.show_work();
    }

    /// How many of the members that work for it are done, of how many; none if there are no open tasks.
    pub fn members_done(&self) -> Option<(usize, usize)> {
        (self.tasks > 0).then_some(self.members)
    }

    /// Whether others work for it, on summaries or on tasks: that can be stopped although it is idle itself.
    pub fn has_background_work(&self) -> bool {
        self.summaries > 0 || self.tasks > 0
    }

    /// When the turn began that is under way.
    pub fn started(&self) -> Moment {
        self.exchange.started
    }

    /// The question that a person has to answer.
    pub fn question(&self) -> Option<&PendingQuestion> {
        self.work.question()
    }

    /// What was written to the log on its behalf: becomes part of the conversation.
    pub fn remember(&mut self, messages: Vec<Message>) {
        if let Some(first) = messages.first() {
            self.view.note_oldest(first.id);
            self.output.note_oldest(first.id);
        }
        let Some(history) = &mut self.talk.history else { return };
        for message in messages {
            history.push(message);
        }
    }

    /// A person's message is stored: shows it and asks for an answer.
    pub fn begin(&mut self, message: Message, context: &mut Context) {
        assert_eq!(self.state, State::Idle, "a turn begins with an idle agent");
        self.emit_logged(&message.body);
        let text = if let Body::User(text) = &message.body { text.clone() } else { String::new() };
        self.exchange = Exchange::begun(context.now, Some((message.id, text)));
        self.remember(vec![message]);
        self.enter(State::WaitingForLlm, context);
        context.outbox.push(self.id(), Effect::Request);
    }

    /// Stops whatever it does. Running tools are told to stop; the agent is idle when they have.
    pub fn interrupt(&mut self, context: &mut Context) {
        match self.state {
            State::Idle => {}
            State::WaitingForLlm => self.interrupt_reply(context),
            State::AwaitingApproval | State::ExecutingTool => self.interrupt_tools(context),
        }
    }

    /// Ends all work at once, for good: nothing is asked of the house any more. What still runs was told to stop, and
    /// is handed over to be joined.
    pub fn abandon(&mut self, now: Moment) -> Vec<Running> {
        self.connection.close(now);
        self.work.cancel();
        self.work.take_running()
    }

    fn enter(&mut self, next: State, context: &mut Context) {
        assert!(self.state.leads_to(next), "no way from {} to {}", self.state.name(), next.name());
        context.outbox.push(self.id(), Effect::StateChanged(self.state, next));
        let before = self.status();
        self.was_interrupted &= next == State::Idle;
        self.state = next;
        if self.status() != before {
            self.emit(&Chunk::Status(self.status()));
        }
        self.show_work();
    }

    fn show_work(&mut self) {
        let is_at_work = matches!(self.state, State::WaitingForLlm | State::ExecutingTool);
        self.view.set_spinner(is_at_work || self.has_background_work());
    }

    fn settle(&mut self, bodies: Vec<Body>, outcome: AgentOutcome, context: &mut Context) {
        self.view.close();
        context.outbox.push(self.id(), Effect::Finish(bodies));
        self.was_interrupted = matches!(outcome, AgentOutcome::Interrupted { .. });
        self.enter(State::Idle, context);
        context.outbox.push(self.id(), Effect::Settled(outcome));
    }
}
