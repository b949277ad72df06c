//! One agent: its state machine, its exchange with a model, its tool calls and its view.
//!
//! The loop calls one agent at a time with a [`Context`] that gives access to no other. It requests everything outside
//! of itself by putting an [`Effect`] into the outbox. It knows whether a person watches it, but no terminal.

mod advice;
mod background;
mod compaction;
mod context;
mod exchange;
mod fallback;
mod identity;
mod output;
mod report;
mod retry;
mod state;
mod view;
mod work;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::id::{AgentId, MessageId};
use crate::domain::agent_host::HostCommand;
use crate::domain::approval::Policy;
use crate::domain::attachment::Files;
use crate::domain::called::{label, name_and_title};
use crate::domain::chunk::{Chunk, Status};
use crate::domain::config::{Config, RetryPolicy};
use crate::domain::context_use::{ContextUse, changes_context};
use crate::domain::endpoint::Endpoint;
use crate::domain::flow::{AgentOutcome, Origin, TurnEnd};
use crate::domain::history::{History, OpenTurn};
use crate::domain::message::{Body, Message};
use crate::domain::parameters::Parameters;
use crate::domain::readiness::SocketRequest;
use crate::domain::rule::AgentRules;
use crate::domain::stream::Usage;
use crate::domain::thinking::Thinking;
use crate::domain::title::title;
use crate::net::Connection;
use crate::policy::paths::AllowedDirectories;
use crate::provider::parameters::check;
use crate::store::{QueueId, QueuedRow, typed_line};
use crate::tools::file_versions::KnownFiles;
use crate::tools::{Environment, Running};
use background::Background;
pub use context::{Context, Effect, Outbox, RecordedEvent, TracedEvent, UNFINISHED};
use exchange::Exchange;
pub use exchange::{LimitsSeen, Wait};
use fallback::Fallback;
pub use identity::Identity;
#[cfg(test)]
pub use output::OUTPUT_LIMITS;
pub use output::{FIRST_CHUNK, Output};
pub use report::WorkReport;
pub use state::State;
pub use view::View;
use work::Work;
#[cfg(feature = "hosts")]
pub use work::{HostAsks, HostVerdict, OUR_TOOL_CALL_PREFIX};
pub use work::{Objection, PendingQuestion};

impl Agent {
    /// The command that says whether it is done, with its arguments; empty for none.
    pub fn done_command(&self, config: &Config) -> Vec<String> {
        config.done_command(self.done.as_deref(), |project| self.inputs.environment.is_of(Some(project)))
    }

    /// Takes the settings of an agent that was just restored; nothing was said yet.
    pub fn begin_as(&mut self, settings: Self) {
        (self.inputs, self.policy, self.rules) = (settings.inputs, settings.policy, settings.rules);
        self.done = settings.done;
        self.known_files = settings.known_files;
        self.identity.created_at = settings.identity.created_at;
        self.view.touch();
    }

    /// Name and title for a list, or else its label.
    pub fn listed(&self) -> String {
        name_and_title(self.identity.name.as_deref(), &self.title).unwrap_or_else(|| self.identity.label())
    }

    /// Which agent this is and what it does, beside its name in a list.
    pub fn about(&self) -> String {
        let called = label(None, self.identity.number(), self.id());
        let title = if self.title.is_empty() { String::new() } else { format!(": {}", self.title) };
        format!("{called}, {}{title}", self.state().name())
    }
}

/// What a request to the model is made from.
pub struct RequestInputs {
    pub endpoint: Rc<Endpoint>,
    pub thinking: Thinking,
    /// Parameters that were set for this agent; those of the endpoint hold where these say nothing.
    pub parameters: Parameters,
    pub system: Rc<str>,
    pub environment: Arc<Environment>,
    /// Whether the model is offered tools.
    pub has_tools: bool,
    /// The files that the conversation refers to, loaded for the next request.
    pub files: Files,
    /// The conversation; loaded from the store when first needed.
    pub history: Option<History>,
    /// Names the directory of a fork that keeps the system prompt of its parent, so that the provider has the whole conversation
    /// in its cache. It is sent after the message with the same id. Not stored: after a restart the agent has the prompt of its
    /// own directory.
    pub directory_note: Option<Rc<Message>>,
}

impl RequestInputs {
    /// The endpoint with the parameters of the next request.
    pub fn endpoint_of_request(&self) -> Endpoint {
        let mut parameters = self.parameters.clone();
        parameters.retain(|name, value| check(&self.endpoint, name, value).is_ok());
        Endpoint { files: self.files.clone(), ..self.endpoint.with(&parameters) }
    }

    /// Changes the environment. A system prompt that was set for this agent is unchanged.
    pub fn move_to(&mut self, environment: Arc<Environment>, system: Rc<str>, has_own_instructions: bool) {
        self.environment = environment;
        if !has_own_instructions {
            (self.system, self.directory_note) = (system, None);
        }
    }

    /// Changes the environment and keeps the system prompt, if that of the other one is the same but for the directory. The
    /// model is told of that after the message `after`. Returns whether it was changed.
    pub fn move_keeping_prompt(&mut self, environment: &Arc<Environment>, system: &str, after: MessageId) -> bool {
        let is_local = |environment: &Environment| environment.remote.is_none();
        let [old, new] = [&self.environment, environment].map(|it| it.working_directory.display().to_string());
        let is_same = is_local(&self.environment)
            && is_local(environment)
            && self.directory_note.is_none()
            && self.system.replace(&old, &new) == system
            && self.environment.skill_prompt() == environment.skill_prompt()
            && self.environment.definition_prompt() == environment.definition_prompt()
            && self.environment.declarations() == environment.declarations();
        if is_same {
            self.directory_note = (old != new).then(|| {
                let text = format!("You work in {new} from here on, and no longer in {old}.");
                Rc::new(Message { id: after, body: Body::System(text), created_at: 0 })
            });
            self.environment = environment.clone();
        }
        is_same
    }

    /// The messages of the next request, oldest first.
    pub fn messages(&self) -> Vec<&Message> {
        let history = self.history.as_ref().expect("the conversation is loaded before a turn begins");
        let mut messages = history.conversation();
        if let Some(note) = &self.directory_note {
            // A summary is newer than what it stands for.
            let is_before = |message: &&Message| match &message.body {
                Body::Compaction(compaction) => compaction.from <= note.id,
                _ => message.id <= note.id,
            };
            messages.insert(messages.iter().rposition(is_before).map_or(0, |last| last + 1), note);
        }
        messages
    }
}

/// A text or command that waits for the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    pub id: QueueId,
    pub text: String,
    /// It is a command, carried out when its turn comes.
    pub is_command: bool,
    /// The terminal or client that entered it. Not stored: none of them outlives the program.
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
    #[default]
    Normal,
    /// A task of the coordinator.
    Member,
    /// Another agent, for which it writes a summary. It is neither stored nor listed.
    Summary,
}

/// One agent: its conversation, its turn and what terminals show of it.
pub struct Agent {
    /// Id, name and descent.
    pub identity: Identity,
    /// The title of its conversation, first the first words; empty until something was said.
    pub title: String,
    /// What the next request is made from.
    pub inputs: RequestInputs,
    /// What terminals show of it.
    pub view: View,
    /// The newest chunks, for viewers.
    pub output: Output,
    /// The versions of the files that it has read or written.
    pub known_files: Arc<KnownFiles>,
    /// What it may do without a question, as a person set it.
    pub policy: Policy,
    /// The most permissive policy for this turn, which a client started.
    turn_policy: Option<Policy>,
    /// How long failed requests of this turn are tried again, if a program waits for its end.
    turn_retry_time: Option<Duration>,
    /// It runs without a sandbox and asks nothing until the program exits. Never stored.
    pub is_unrestricted: bool,
    /// Its rules besides those of the configuration.
    pub rules: AgentRules,
    /// The shell command that says whether it is done: empty for none, `None` for the configured one.
    pub done: Option<Rc<str>>,
    /// The directories outside of its workspace that a person allowed it to read.
    allowed_directories: AllowedDirectories,
    /// Input that waits until the agent is idle, oldest first.
    pub queue: VecDeque<Queued>,
    /// Unread mail.
    pub unread: usize,
    /// What could not be restored from the store.
    pub warnings: Vec<String>,
    /// Summaries being written for slices of this agent.
    summaries: usize,
    /// When a reply to it last began in this process, and from where.
    pub last_reply_began: Option<(Moment, Rc<Endpoint>)>,
    /// The agent that writes a summary for it now.
    pub helper: Option<AgentId>,
    /// Commands and landings that run for the person at this agent; Esc ends them.
    pub jobs: u32,
    /// What is known of the files that it has changed.
    pub report: WorkReport,
    /// A git worktree is being created for a child of it.
    pub makes_worktree: bool,
    /// Tasks that other agents work on for it.
    tasks: usize,
    members: (usize, usize),
    /// Usage of all its requests.
    pub used: Usage,
    /// Decides who handles its effects.
    pub role: Role,
    /// How its failed requests are tried again; `None`: as configured.
    pub retry: Option<RetryPolicy>,
    /// How full the context is; `None`: not counted yet.
    pub context_use: Option<ContextUse>,
    is_compacting: bool,
    state: State,
    /// How its last turn ended; `None`: unknown, or it is in a turn.
    last_end: Option<TurnEnd>,
    /// The newest message that hooks have let pass in this process.
    passed: Option<MessageId>,
    /// The turn is being stopped because the program exits.
    is_exiting: bool,
    exchange: Exchange,
    fallback: Fallback,
    work: Work,
    background: Background,
    connection: Connection,
}

impl Agent {
    /// An idle agent.
    pub fn new(identity: Identity, inputs: RequestInputs) -> Self {
        Self {
            identity,
            title: String::new(),
            inputs,
            view: View::default(),
            output: Output::default(),
            known_files: Arc::default(),
            policy: Policy::default(),
            turn_policy: None,
            turn_retry_time: None,
            is_unrestricted: false,
            rules: AgentRules::default(),
            done: None,
            allowed_directories: AllowedDirectories::default(),
            queue: VecDeque::new(),
            unread: 0,
            warnings: Vec::new(),
            summaries: 0,
            last_reply_began: None,
            helper: None,
            jobs: 0,
            report: WorkReport::default(),
            makes_worktree: false,
            tasks: 0,
            members: (0, 0),
            used: Usage::default(),
            role: Role::Normal,
            retry: None,
            context_use: None,
            is_compacting: false,
            state: State::Idle,
            last_end: None,
            passed: None,
            is_exiting: false,
            exchange: Exchange::default(),
            fallback: Fallback::default(),
            work: Work::default(),
            background: Background::default(),
            connection: Connection::default(),
        }
    }

    /// Identifies it in every process that opens this store.
    pub fn id(&self) -> AgentId {
        self.identity.id
    }

    /// What it may do without a question now.
    pub fn policy(&self) -> Policy {
        self.turn_policy.map_or(self.policy, |most| Policy::narrow(self.policy, most))
    }

    /// Whether no sandbox holds it and nothing asks. A turn of a client has its own limit.
    pub fn is_unrestricted(&self) -> bool {
        self.is_unrestricted && self.turn_policy.is_none()
    }

    /// Limits what it may do without a question until the turn ends, and how long failed requests are tried again.
    pub fn bound_turn(&mut self, most: Option<Policy>, retry_time: Option<Duration>) {
        (self.turn_policy, self.turn_retry_time) = (most, retry_time);
    }

    /// The state of its turn.
    pub fn state(&self) -> State {
        self.state
    }

    /// The state as viewers and scripts see it.
    pub fn status(&self) -> Status {
        match self.state {
            State::Idle if self.is_compacting => Status::Running,
            State::Idle if self.is_interrupted() => Status::Interrupted,
            State::Idle if self.has_failed() => Status::Failed,
            State::Idle => Status::Idle,
            State::WaitingForLlm | State::ExecutingTool => Status::Running,
            State::AwaitingApproval => Status::AwaitingApproval,
        }
    }

    /// Notes that an earlier process ended during its last turn.
    pub fn note_interrupted(&mut self) {
        self.last_end = Some(TurnEnd::Interrupted);
        self.emit_aside(&Chunk::Status(self.status()));
    }

    /// How its last turn ended, if that is known and it is in none.
    pub fn last_end(&self) -> Option<TurnEnd> {
        self.last_end
    }

    /// Takes over how the last turn ended in an earlier process.
    pub fn restore_end(&mut self, end: Option<TurnEnd>) {
        self.last_end = end;
    }

    /// Whether its last turn was interrupted and no other has begun.
    pub fn is_interrupted(&self) -> bool {
        self.state == State::Idle && self.last_end == Some(TurnEnd::Interrupted)
    }

    /// Whether its last turn ended with an error and no other has begun.
    pub fn has_failed(&self) -> bool {
        self.state == State::Idle && self.last_end == Some(TurnEnd::Failed)
    }

    /// The commands of the host that it talks to, as far as known.
    pub fn host_commands(&self) -> impl Iterator<Item = &HostCommand> {
        let endpoint = &self.inputs.endpoint;
        let is_its = move |command: &&HostCommand| endpoint.is_host() && command.host == endpoint.model;
        self.inputs.environment.host_commands.iter().filter(is_its)
    }

    /// Whether its last turn can be tried again.
    pub fn can_retry(&self) -> bool {
        (self.is_interrupted() || self.has_failed()) && !self.is_compacting
    }

    /// Adds a chunk to the output and shows it.
    pub(crate) fn emit(&mut self, chunk: &Chunk) {
        self.show(chunk, false);
    }

    /// Like `emit`, for chunks that are not part of the reply being streamed.
    pub fn emit_aside(&mut self, chunk: &Chunk) {
        self.show(chunk, true);
    }

    fn show(&mut self, chunk: &Chunk, is_aside: bool) {
        self.output.push(chunk);
        let name = || (self.identity.label(), self.inputs.endpoint.model.clone());
        self.view.on_chunk(chunk, is_aside, name);
    }

    /// Shows older messages above all others. Fewer than `requested` means that there are no more.
    pub fn show_older(&mut self, older: &[Message], requested: usize) {
        self.view.prepend(older, requested, (&self.identity.label(), self.identity.fork_point));
    }

    /// Shows a message that was just logged.
    pub fn emit_logged(&mut self, body: &Body) {
        Chunk::of_body(body).iter().for_each(|chunk| self.emit_aside(chunk));
    }

    /// Whether new input has to be queued: the agent is working, or something is queued already.
    pub fn is_occupied(&self) -> bool {
        self.state != State::Idle || self.is_compacting || !self.queue.is_empty()
    }

    /// What it waits for in [`State::WaitingForLlm`].
    pub fn wait(&self) -> &Wait {
        &self.exchange.wait
    }

    /// Whether its next request is not a retry.
    pub fn is_first_try(&self) -> bool {
        matches!(self.exchange.wait, Wait::Slot) && !self.is_repeating()
    }

    /// When it began to wait for the current request.
    pub fn waits_for_reply_since(&self) -> Moment {
        self.exchange.wanted_at
    }

    /// The connection to its provider, which the loop drives.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Changes to the polled descriptors; they have to be applied before anything else.
    pub fn take_socket_requests(&mut self) -> Vec<SocketRequest> {
        self.connection.take_socket_requests()
    }

    /// Whether it counts towards the limit of working agents: only transfers and tool threads do.
    pub fn holds_slot(&self) -> bool {
        match self.state {
            State::ExecutingTool => self.work.has_live_thread(),
            State::WaitingForLlm => self.exchange.is_under_way(),
            State::Idle | State::AwaitingApproval => false,
        }
    }

    /// Since when it waits for a slot to start a tool, if it does.
    pub fn waits_for_tool_slot_since(&self) -> Option<Moment> {
        self.work.waits_for_slot_since().filter(|_| self.state == State::ExecutingTool)
    }

    /// Whether a request was sent and its reply is being received.
    pub fn is_under_way(&self) -> bool {
        self.state == State::WaitingForLlm && self.exchange.is_under_way()
    }

    /// The end of the output of a command that runs.
    pub fn live_output(&self) -> Option<String> {
        self.work.live_output()
    }

    /// Whether one of its tool threads is running.
    pub fn has_live_tool(&self) -> bool {
        self.work.has_live_thread()
    }

    /// How many tool threads were started and not collected yet.
    pub fn live_tools(&self) -> usize {
        self.work.live_threads()
    }

    /// How many tool threads run that were not cancelled, and how many that were.
    pub fn unfinished_tools(&self) -> (usize, usize) {
        self.work.unfinished()
    }

    /// Whether received bytes are left for the next turn.
    pub fn has_leftover(&self) -> bool {
        self.is_under_way() && self.connection_has_input()
    }

    fn connection_has_input(&self) -> bool {
        self.connection.has_bytes() || self.connection.has_ended()
    }

    /// The next deadline and its reason.
    pub fn deadline(&self) -> Option<(Moment, &'static str)> {
        self.deadlines().min()
    }

    /// All deadlines and their reasons, including that of libcurl.
    pub fn deadlines(&self) -> impl Iterator<Item = (Moment, &'static str)> {
        let curl = self.connection.timer().map(|at| (at, "curl timer"));
        let exchange = (self.state == State::WaitingForLlm).then(|| self.exchange.deadlines());
        let wait = self.work.deadline().filter(|_| self.state.is_at_calls()).map(|at| (at, "wait"));
        curl.into_iter().chain(exchange.into_iter().flatten()).chain(wait)
    }

    /// The text received so far.
    pub fn partial_text(&self) -> &str {
        &self.exchange.reply.text
    }

    /// Summaries being written for slices of this agent.
    pub fn summaries(&self) -> usize {
        self.summaries
    }

    /// Sets how many summaries are still to be written for it.
    pub fn set_summaries(&mut self, summaries: usize) {
        self.summaries = summaries;
        self.show_work();
    }

    /// Sets the number of open tasks, and their members as (done, total).
    pub fn set_tasks(&mut self, tasks: usize, members: (usize, usize)) {
        (self.tasks, self.members) = (tasks, members);
        self.show_work();
    }

    /// The members of open tasks as (done, total); `None` if there are none.
    pub fn members_done(&self) -> Option<(usize, usize)> {
        (self.tasks > 0).then_some(self.members)
    }

    /// Whether summaries, a compaction or tasks are worked on for it; they can be interrupted while it is idle.
    pub fn has_background_work(&self) -> bool {
        self.summaries > 0 || self.is_compacting || self.tasks > 0
    }

    /// Whether an interrupt would stop something beside its turn.
    pub fn has_interruptible_work(&self) -> bool {
        self.has_background_work() || self.jobs > 0 || self.view.has_command || self.view.is_reading
    }

    /// Whether an interrupt would stop something of it.
    pub fn can_be_interrupted(&self) -> bool {
        self.state != State::Idle || self.makes_worktree || self.has_interruptible_work()
    }

    /// When the current turn began.
    pub fn started(&self) -> Moment {
        self.exchange.started
    }

    /// When the tool that runs was started, or the request that waits for its reply.
    pub fn step_started(&self) -> Moment {
        if self.state == State::ExecutingTool { self.work.running_since() } else { self.exchange.started }
    }

    /// The tool call that needs approval.
    pub fn question(&self) -> Option<&PendingQuestion> {
        self.work.question()
    }

    /// Colours of code have become known.
    pub fn on_colors(&mut self) {
        self.view.touch();
        self.work.redraw_question();
    }

    /// Adds stored messages to the conversation.
    pub fn remember(&mut self, messages: Vec<Message>) {
        if let (Some(first), Some(last)) = (messages.first(), messages.last()) {
            self.view.note_logged(first.id, last.id);
            self.output.note_oldest(first.id);
        }
        if self.can_retry() && messages.iter().any(|message| message.body.undoes_turn()) {
            self.last_end = None;
        }
        if messages.iter().any(|message| changes_context(&message.body)) {
            // The provider has another conversation in its cache.
            self.last_reply_began = None;
        }
        self.view.note_todo(&messages);
        self.count_added(&messages);
        if let Some(history) = &mut self.inputs.history {
            messages.into_iter().for_each(|message| history.push(message));
        }
        self.count_changed();
    }

    /// Begins a turn that answers this stored message.
    pub fn begin(&mut self, message: Message, context: &mut Context) {
        assert_eq!(self.state, State::Idle, "a turn begins with an idle agent");
        self.view.begin_turn(context.now, message.created_at);
        self.emit_logged(&message.body);
        let text = if let Body::User(text) = &message.body { text.clone() } else { String::new() };
        if self.title.is_empty() {
            self.title = title(&text);
        }
        self.exchange = Exchange::first(context.now, Some((message.id, text)));
        self.work.forget_repeats();
        self.work.forget_rounds();
        self.remember(vec![message]);
        self.enter(State::WaitingForLlm, context);
        context.outbox.push(self.id(), Effect::Request);
    }

    /// Tries the last turn again from its last complete point.
    pub fn begin_again(&mut self, turn: OpenTurn, context: &mut Context) {
        assert_eq!(self.state, State::Idle, "a turn begins with an idle agent");
        self.view.begin_turn(context.now, context.unix_ms);
        self.exchange = Exchange::again(context.now, turn.message, turn.rounds);
        self.work.forget_repeats();
        self.work.forget_rounds();
        self.set_retried(true);
        self.enter(State::WaitingForLlm, context);
        context.outbox.push(self.id(), Effect::Request);
    }

    fn set_retried(&mut self, is_retried: bool) {
        self.inputs.history.iter_mut().for_each(|history| history.set_retried(is_retried));
        self.context_use.iter_mut().for_each(ContextUse::on_replaced);
    }

    /// Interrupts the turn. The agent is idle once running tools have stopped.
    pub fn interrupt(&mut self, context: &mut Context) {
        match self.state {
            State::Idle => {}
            State::WaitingForLlm => self.interrupt_reply(context),
            State::AwaitingApproval | State::ExecutingTool => self.interrupt_tools(context),
        }
    }

    /// Stops the turn because the program exits: it ends as exited, unless it was interrupted before.
    pub fn exit(&mut self, context: &mut Context) {
        self.is_exiting |= !self.is_stopping();
        self.interrupt(context);
    }

    /// The program exits, and the next one asks the question again. Returns the tool threads, which were cancelled and have
    /// to be joined.
    pub fn exit_asking(&mut self) -> Vec<Running> {
        self.work.drain()
    }

    /// Ends a turn that was stopped, with the part of the reply that is stored.
    fn settle_stopped(&mut self, mut bodies: Vec<Body>, partial: bool, context: &mut Context) {
        let (reason, outcome) = if std::mem::take(&mut self.is_exiting) {
            (Body::Exited, AgentOutcome::Exited)
        } else {
            (Body::Interrupted("interrupted".into()), AgentOutcome::Interrupted { partial })
        };
        Chunk::of_body(&reason).iter().for_each(|chunk| self.emit(chunk));
        bodies.push(reason);
        self.finish_turn(bodies, outcome, context);
    }

    /// Ends all work of a killed agent. Returns the tool threads, which were cancelled and have to be joined.
    pub fn abandon(&mut self, now: Moment) -> Vec<Running> {
        self.connection.close(now);
        self.work.cancel();
        let mut running = self.work.take_running();
        running.extend(self.end_background());
        running
    }

    fn enter(&mut self, next: State, context: &mut Context) {
        let entered = self.state.enter(next);
        context.outbox.push(self.id(), Effect::StateChanged(self.state, next));
        self.view.set_time(context.now);
        let before = self.status();
        self.last_end = self.last_end.filter(|_| next == State::Idle);
        self.state = entered;
        if next == State::Idle {
            (self.turn_policy, self.turn_retry_time) = (None, None);
        }
        self.emit_status_after(before);
        self.show_work();
    }

    fn emit_status_after(&mut self, before: Status) {
        if self.status() != before {
            self.emit(&Chunk::Status(self.status()));
        }
    }

    fn show_work(&mut self) {
        let is_at_work = matches!(self.state, State::WaitingForLlm | State::ExecutingTool);
        self.view.set_spinner(is_at_work || self.has_background_work());
    }

    fn finish_turn(&mut self, bodies: Vec<Body>, outcome: AgentOutcome, context: &mut Context) {
        self.end_fallback();
        if self.inputs.history.as_ref().is_some_and(History::is_retried) {
            self.set_retried(false);
        }
        self.view.set_time(context.now);
        self.view.end_turn();
        context.outbox.push(self.id(), Effect::Finish(bodies));
        self.last_end = Some(outcome.end());
        self.enter(State::Idle, context);
        context.outbox.push(self.id(), Effect::Settled(outcome));
    }
}
