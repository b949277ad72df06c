//! One request to a model: waiting for a slot, sending, deadlines, receiving. What is received is handled in `reply`.

mod reply;

use std::rc::Rc;
use std::time::Duration;

use crate::agent::retry::LONGEST_WAIT;
use crate::agent::{Agent, Context, Effect, RecordedEvent, State};
use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind};
use crate::base::id::MessageId;
use crate::base::text::counted;
use crate::domain::chunk::Chunk;
use crate::domain::context_use::total_length;
use crate::domain::endpoint::{Credential, Endpoint};
use crate::domain::history::History;
use crate::domain::message::{Body, Reply};
use crate::domain::stream::{Finish, Piece, StreamEvent, Usage};
use crate::domain::tool::ToolCall;
use crate::provider::{self, Conversation, Decoder, ProviderRequest, Script, aws, credentials};

/// What a request waits for.
#[derive(Default)]
pub enum Wait {
    /// The request is on its way, or there is none.
    #[default]
    Nothing,
    /// Its turn in the send queue.
    Slot,
    /// Bytes of its transfer.
    Transfer,
    /// The next step of a scripted reply, which needs no network.
    Script {
        /// The remaining steps.
        script: Script,
        /// When the next step is due; a script without steps stalls.
        due: Option<Moment>,
    },
    /// What a host says, which its component delivers.
    Host,
    /// The pause after a failed request.
    Retry {
        /// When the request is sent again.
        at: Moment,
        /// Why the last attempt failed.
        error: Error,
    },
    /// Hooks, which may refuse the message.
    Hooks,
    /// The key that a key command prints.
    Key,
    /// The summary that is to be sent instead of the older part of the conversation.
    Compaction,
}

/// What is known about the limit when a request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitsSeen {
    /// How often the provider refused requests since it last accepted one; refusals during one pause count once.
    pub refusals: u32,
    /// No other request to it is known to be under way, so a refusal is not caused by our own others.
    pub is_alone: bool,
    /// The provider accepted a request recently, so a refusal is temporary.
    pub is_accepted_lately: bool,
}

/// Checkpoints of all agents fall on so many times in each interval: those that fall together are one transaction.
const CHECKPOINT_TIMES: u32 = 4;

/// Script steps of one agent in one turn of the loop.
const STEPS_PER_TURN: usize = 256;

/// One request with its reply, and the turn that it belongs to.
#[derive(Default)]
pub struct Exchange {
    pub wait: Wait,
    pub reply: Reply,
    pub started: Moment,
    /// The user's message that this turn answers.
    pub message: Option<(MessageId, String)>,
    /// When the agent began to wait for this request; requests are sent in this order.
    pub wanted_at: Moment,
    pub key: Option<Credential>,
    /// New keys that this request was given after a rejection.
    pub renewals: u32,
    pub retries: u32,
    /// Tries that count for the retry policy: refusals for the provider's limit only if no other agent can be the cause.
    pub failures: u32,
    /// When the first of them failed.
    pub failing_since: Option<Moment>,
    pub limits: LimitsSeen,
    /// The older part of the conversation was summarised for this request.
    pub has_compacted: bool,
    /// Compaction was not possible in this turn.
    pub is_compaction_refused: bool,
    /// The conversation was too long for the model.
    pub overflow: Option<Error>,
    /// Bytes of the conversation, the instructions and the tools that were sent.
    pub sent: usize,
    /// Where the last request was sent; the model of the agent may have changed since.
    endpoint: Option<Rc<Endpoint>>,
    decoder: Option<Box<dyn Decoder>>,
    /// Whether the last request offered tools.
    pub has_tools: bool,
    /// The HTTP status of the response, once it was decoded; 200 for a script.
    pub status: Option<u16>,
    calls: Vec<ToolCall>,
    usage: Option<Usage>,
    finish: Option<Finish>,
    /// Earlier requests of this turn.
    iterations: u32,
    /// Bytes transferred in both directions when last checked.
    moved: u64,
    /// When the first bytes of the response were read, and how many were read last.
    last_piece: Option<(Moment, usize)>,
    stall_at: Option<Moment>,
    /// When the reply has to be complete.
    overdue_at: Option<Moment>,
    checkpoint_at: Option<Moment>,
    checkpointed_at: Option<Moment>,
    /// How many bytes of text and thinking are stored.
    stored: (usize, usize),
    stored_usage: Option<Usage>,
}

impl Exchange {
    /// The first request of a turn that answers this message.
    pub fn first(now: Moment, message: Option<(MessageId, String)>) -> Self {
        Self { started: now, wanted_at: now, message, wait: Wait::Slot, ..Self::default() }
    }

    /// The end of a reply from an earlier process, some of whose calls are not done.
    pub fn from_stored(now: Moment, message: (MessageId, String), iterations: u32) -> Self {
        Self { iterations, started: now, message: Some(message), ..Self::default() }
    }

    /// The request of a retried turn, after this many rounds of calls.
    pub fn again(now: Moment, message: (MessageId, String), iterations: u32) -> Self {
        Self { iterations, ..Self::first(now, Some(message)) }
    }

    /// The next request of the same turn.
    fn next(&mut self, now: Moment) -> Self {
        let (iterations, message) = (self.iterations + 1, self.message.take());
        let is_compaction_refused = self.is_compaction_refused;
        Self { iterations, started: self.started, is_compaction_refused, ..Self::first(now, message) }
    }

    pub fn is_first_request(&self) -> bool {
        self.iterations == 0
    }

    /// Discards the received part of a reply. [`Agent::discard_reply`] replaces what viewers were sent of it.
    pub fn forget_reply(&mut self) {
        self.calls.clear();
        (self.reply, self.stored) = (Reply::default(), (0, 0));
        (self.usage, self.stored_usage, self.finish) = (None, None, None);
    }

    pub fn is_under_way(&self) -> bool {
        matches!(self.wait, Wait::Transfer | Wait::Script { .. } | Wait::Host)
    }

    /// Its deadlines and their reasons.
    pub fn deadlines(&self) -> impl Iterator<Item = (Moment, &'static str)> + use<> {
        let waited = match &self.wait {
            Wait::Retry { at, .. } => Some((*at, "retry")),
            Wait::Script { due, .. } => due.map(|at| (at, "script step")),
            Wait::Nothing | Wait::Slot | Wait::Hooks | Wait::Key | Wait::Compaction | Wait::Transfer | Wait::Host => {
                None
            }
        };
        let stall = self.stall_at.map(|at| (at, "stall"));
        let overdue = self.overdue_at.map(|at| (at, "overdue"));
        let checkpoint = self.checkpoint_at.map(|at| (at, "checkpoint"));
        waited.into_iter().chain(stall).chain(overdue).chain(checkpoint)
    }

    pub fn is_shown(&self) -> bool {
        !self.reply.text.is_empty() || !self.reply.thinking.is_empty()
    }

    fn is_unsaved(&self) -> bool {
        self.stored != (self.reply.text.len(), self.reply.thinking.len()) || self.stored_usage != self.usage
    }

    /// Takes the part of the reply that is not stored yet, without its usage.
    fn take_unsaved(&mut self) -> Piece {
        let (text, thinking) = self.stored;
        let (text, thinking) = (self.reply.text[text..].to_owned(), self.reply.thinking[thinking..].to_owned());
        self.stored = (self.reply.text.len(), self.reply.thinking.len());
        self.stored_usage.clone_from(&self.usage);
        Piece { text, thinking, usage: None }
    }

    /// Takes the reply received so far; `None` if nothing was received.
    pub fn take_reply(&mut self, is_partial: bool) -> Option<Body> {
        let mut reply = std::mem::take(&mut self.reply);
        self.stored = (0, 0);
        reply.by = self.endpoint.as_ref().map(|endpoint| endpoint.full_name()).unwrap_or_default();
        let is_empty = reply.text.is_empty() && reply.thinking.is_empty() && reply.signatures.is_empty();
        (!is_empty).then_some(Body::Assistant(Reply { is_partial, ..reply }))
    }
}

impl Agent {
    /// Sends the request. The loop has to apply the socket interests next.
    pub fn send_request(&mut self, key: Option<Credential>, limits: LimitsSeen, context: &mut Context) {
        assert_eq!(self.state, State::WaitingForLlm, "a request is sent only in this state");
        self.exchange.endpoint = Some(self.inputs.endpoint.clone());
        (self.exchange.key, self.exchange.moved, self.exchange.status) = (key, 0, None);
        self.exchange.last_piece = None;
        self.exchange.limits = limits;
        self.exchange.stall_at = Some(context.now + self.stall_timeout(context));
        self.exchange.overdue_at = Some(context.now + context.settings.reply_timeout);
        let opened = self.open(context).and_then(|request| self.sign(request, context.unix_ms));
        match opened {
            Ok(ProviderRequest::Http(mut request)) => {
                context.network.name_sender(&mut request.headers, self.identity.ordinal);
                self.exchange.wait = Wait::Transfer;
                if let Err(error) = self.connection.start(&request, context.network, context.now) {
                    self.fail(error, context);
                }
            }
            Ok(ProviderRequest::Script(script)) => {
                let due = script.steps.front().map(|step| context.now + step.wait);
                self.exchange.wait = Wait::Script { script, due };
            }
            Ok(ProviderRequest::Prompt(prompt)) => {
                self.exchange.wait = Wait::Host;
                context.outbox.push(self.id(), Effect::Prompt(prompt));
            }
            Err(error) => self.fail(error, context),
        }
    }

    fn sign(&self, mut request: ProviderRequest, unix_ms: i64) -> Result<ProviderRequest, Error> {
        if let ProviderRequest::Http(request) = &mut request {
            let key = self.exchange.key.as_ref().map(|key| &key.secret);
            aws::sign(request, &self.inputs.endpoint, key, unix_ms)?;
        }
        Ok(request)
    }

    /// Where the current request was sent, or else where the next one will be.
    pub fn request_endpoint(&self) -> &Endpoint {
        self.exchange.endpoint.as_ref().unwrap_or(&self.inputs.endpoint)
    }

    fn open(&mut self, context: &Context) -> Result<ProviderRequest, Error> {
        let endpoint = &self.inputs.endpoint_of_request();
        let key = self.exchange.key.as_ref().map(|key| &key.secret);
        credentials::require(endpoint, key)?;
        let spec = provider::find(&endpoint.kind).ok_or_else(|| {
            Error::new(ErrorKind::Usage, format!("unknown provider kind {:?}: check the configuration", endpoint.kind))
        })?;
        let messages = self.inputs.messages();
        let tools = if self.may_call(context) { self.inputs.environment.declarations() } else { Vec::new() };
        self.exchange.decoder = Some((spec.decoder)());
        self.exchange.sent = self.base_bytes() + total_length(&messages);
        self.exchange.has_tools = !tools.is_empty();
        (spec.build_request)(&Conversation {
            endpoint,
            key,
            thinking: self.inputs.thinking,
            system: &self.system_prompt(),
            messages: &messages,
            tools: &tools,
        })
    }

    /// Whether the model is offered tools in this request.
    fn may_call(&self, context: &Context) -> bool {
        if self.request_endpoint().is_host() {
            return self.inputs.has_tools;
        }
        let is_offered = context.settings.has_tools && self.inputs.endpoint.facts.tools != Some(false);
        self.inputs.has_tools && is_offered && self.exchange.iterations < context.settings.tool_iterations
    }

    /// Handles received bytes, up to the limit for one turn of the loop.
    pub fn absorb_stream(&mut self, context: &mut Context) {
        if self.state != State::WaitingForLlm {
            return;
        }
        let events = match &mut self.exchange.wait {
            Wait::Transfer => self.read_transfer(context),
            Wait::Script { .. } => self.play_script(context),
            Wait::Nothing
            | Wait::Slot
            | Wait::Hooks
            | Wait::Key
            | Wait::Compaction
            | Wait::Host
            | Wait::Retry { .. } => return,
        };
        self.on_stream_events(events, context);
    }

    /// What a host says in answer to the request. Ignored if the agent does not wait for it.
    pub fn on_host_events(&mut self, events: Vec<StreamEvent>, context: &mut Context) {
        if self.waits_for_host() {
            self.exchange.stall_at = Some(context.now + self.stall_timeout(context));
            self.note_accepted(&events, context);
            self.on_stream_events(events, context);
        }
    }

    /// Whether it waits for what its host says.
    pub fn waits_for_host(&self) -> bool {
        self.state == State::WaitingForLlm && matches!(self.exchange.wait, Wait::Host)
    }

    fn on_stream_events(&mut self, events: Vec<StreamEvent>, context: &mut Context) {
        for event in events {
            if !self.exchange.is_under_way() {
                break;
            }
            self.on_stream_event(event, context);
        }
        self.plan_checkpoint(context);
    }

    fn read_transfer(&mut self, context: &mut Context) -> Vec<StreamEvent> {
        let (mut events, mut accepted) = (Vec::new(), None);
        // Bytes in both directions and keep-alive bytes count: neither a long upload nor a slow model is a stall.
        let moved = self.connection.bytes_transferred();
        if moved != self.exchange.moved {
            self.exchange.moved = moved;
            self.exchange.stall_at = Some(context.now + self.stall_timeout(context));
        }
        let bytes = self.connection.read(context.settings.bytes_per_turn, context.now);
        let decoder = self.exchange.decoder.as_mut().expect("a transfer has a decoder");
        if let Some(head) = self.connection.head().filter(|head| head.status >= 200 && self.exchange.status.is_none()) {
            decoder.head(head);
            self.exchange.status = Some(head.status);
            if head.status < 300 {
                context.outbox.record_event(self.identity.id, || RecordedEvent::Head);
            }
            // Providers reject requests above a limit with these codes only.
            let is_accepted = head.status < 500 && head.status != 429;
            accepted = is_accepted.then(|| head.exhausted_for());
        }
        if !bytes.is_empty() {
            let since = self.exchange.last_piece.map_or(context.now, |(since, _)| since);
            if self.exchange.last_piece.is_none() && self.exchange.status.is_some_and(|status| status < 300) {
                self.last_reply_began = self.exchange.endpoint.clone().map(|endpoint| (context.now, endpoint));
            }
            self.exchange.last_piece = Some((since, bytes.len()));
            decoder.feed(&bytes, &mut events);
        }
        match self.connection.take_end() {
            Some(Ok(())) => decoder.end(&mut events),
            Some(Err(error)) => events.push(StreamEvent::Error(error)),
            None => {}
        }
        if let Some(exhausted_for) = accepted {
            let exhausted_until = exhausted_for.map(|wait| context.now + wait.min(LONGEST_WAIT));
            let provider = self.request_endpoint().provider.clone();
            context.outbox.push(self.id(), Effect::Accepted { provider, exhausted_until });
        }
        events
    }

    fn play_script(&mut self, context: &mut Context) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        let (now, stall_timeout) = (context.now, self.stall_timeout(context));
        let Wait::Script { script, due } = &mut self.exchange.wait else { return events };
        for _ in 0..STEPS_PER_TURN {
            let Some(at) = due.filter(|at| *at <= now) else { break };
            let step = script.steps.pop_front().expect("a due step exists");
            events.extend(step.event);
            self.exchange.stall_at = Some(now + stall_timeout);
            // Counted from when it was due, so that a late turn does not slow the script down.
            *due = script.steps.front().map(|next| at + next.wait);
        }
        self.note_accepted(&events, context);
        events
    }

    /// The first events of a reply without HTTP: the request was accepted.
    fn note_accepted(&mut self, events: &[StreamEvent], context: &mut Context) {
        if !events.is_empty() && self.exchange.status.replace(200).is_none() && !is_error(&events[0]) {
            context.outbox.record_event(self.identity.id, || RecordedEvent::Head);
            let provider = self.request_endpoint().provider.clone();
            context.outbox.push(self.identity.id, Effect::Accepted { provider, exhausted_until: None });
        }
    }

    /// How long the provider may send nothing.
    fn stall_timeout(&self, context: &Context) -> Duration {
        self.request_endpoint().stall_timeout.unwrap_or(context.settings.stall_timeout)
    }

    fn plan_checkpoint(&mut self, context: &Context) {
        let exchange = &mut self.exchange;
        if exchange.is_under_way() && exchange.is_unsaved() && exchange.checkpoint_at.is_none() {
            let every = context.settings.checkpoint_every;
            let soonest =
                exchange.checkpointed_at.map_or(context.now, |at| (at + every).round_up(every / CHECKPOINT_TIMES));
            exchange.checkpoint_at = Some(soonest.max(context.now));
        }
    }

    /// Acts on deadlines that have passed: retries, stalls, checkpoints, waits for mail. Script steps are played by
    /// [`Agent::absorb_stream`].
    pub fn check_deadlines(&mut self, context: &mut Context) {
        if self.state.is_at_calls() {
            self.end_waits(context);
        }
        if self.state != State::WaitingForLlm {
            return;
        }
        if self.exchange.checkpoint_at.is_some_and(|at| at <= context.now) {
            self.exchange.checkpoint_at = None;
            self.exchange.checkpointed_at = Some(context.now);
            let usage = self.usage_so_far();
            context.outbox.push(self.id(), Effect::Checkpoint(Piece { usage, ..self.exchange.take_unsaved() }));
        }
        if matches!(self.exchange.wait, Wait::Retry { at, .. } if at <= context.now) {
            self.retry_now(context);
        } else if self.exchange.stall_at.is_some_and(|at| at <= context.now) {
            let seconds = self.stall_timeout(context).as_secs();
            let message = format!("no data from {} for {seconds} s", self.request_endpoint().full_name());
            self.fail(Error::new(ErrorKind::Stalled, message), context);
        } else if self.exchange.overdue_at.is_some_and(|at| at <= context.now) {
            let seconds = context.settings.reply_timeout.as_secs();
            let message = format!(
                "no complete reply from {} within {seconds} s (limits.reply_timeout)",
                self.request_endpoint().full_name()
            );
            self.fail(Error::new(ErrorKind::Stalled, message), context);
        }
    }

    /// Ends the wait for a retry: the request joins the send queue.
    pub fn retry_now(&mut self, context: &mut Context) {
        if matches!(self.exchange.wait, Wait::Retry { .. }) {
            self.exchange.wait = Wait::Slot;
            self.view.touch();
            context.outbox.push(self.id(), Effect::Request);
        }
    }

    /// Sends the results of all calls to the model.
    pub(super) fn request_again(&mut self, context: &mut Context) {
        self.exchange = self.exchange.next(context.now);
        if self.exchange.iterations == context.settings.tool_iterations && !self.inputs.endpoint.is_host() {
            let rounds = counted(self.exchange.iterations as usize, "round", "rounds");
            self.emit(&Chunk::Note(format!("{rounds} of tool calls: the last request is sent without tools")));
        }
        self.enter(State::WaitingForLlm, context);
        context.outbox.push(self.id(), Effect::Request);
    }

    /// This piece could not be written; the next one includes it again.
    pub fn on_checkpoint_failed(&mut self, piece: &Piece) {
        let (text, thinking) = self.exchange.stored;
        self.exchange.stored = (text.saturating_sub(piece.text.len()), thinking.saturating_sub(piece.thinking.len()));
        self.exchange.stored_usage = None;
    }

    /// The user's message that is being answered.
    pub fn turn_message(&self) -> Option<MessageId> {
        self.exchange.message.as_ref().filter(|_| self.state != State::Idle).map(|(id, _)| *id)
    }

    /// What a child forked by a call of this turn inherits: the conversation before the turn. `None` if a later fork has
    /// frozen the beginning of the turn, so that it has to be read from the store.
    pub fn fork_history_before_turn(&mut self) -> Option<History> {
        let turn = self.turn_message()?;
        let history = self.inputs.history.as_mut()?;
        let at = history.delta().iter().position(|message| message.id == turn)?;
        Some(history.fork_at(at))
    }

    /// Since when a reply is being received, and the bytes of its last piece; `None` before and after it.
    pub fn last_piece(&self) -> Option<(Moment, usize)> {
        self.exchange.last_piece.filter(|_| self.is_under_way())
    }

    /// When the reply counts as stalled if no data is received.
    pub fn stalls_at(&self) -> Option<Moment> {
        self.exchange.stall_at
    }

    /// How often the current request was sent again.
    pub fn retries(&self) -> u32 {
        self.exchange.retries
    }

    /// Whether the request repeats one that failed or whose key was rejected.
    pub fn is_repeating(&self) -> bool {
        self.exchange.retries > 0 || self.exchange.renewals > 0
    }

    /// Lets the transfer of a complete reply end, so that its connection can be reused.
    fn finish_transfer(&mut self, context: &Context) {
        self.connection.drain(context.now);
        self.clear_wait();
    }

    pub(super) fn stop_transfer(&mut self, context: &Context) {
        self.connection.cancel(context.now);
        self.clear_wait();
    }

    fn clear_wait(&mut self) {
        self.exchange.wait = Wait::Nothing;
        (self.exchange.stall_at, self.exchange.overdue_at) = (None, None);
        self.exchange.checkpoint_at = None;
    }
}

const fn is_error(event: &StreamEvent) -> bool {
    matches!(event, StreamEvent::Error(_))
}
