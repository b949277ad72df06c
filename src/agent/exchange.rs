//! One request: asked for, under way, its deadlines, and the bytes or steps that answer it. What those say is `reply`.

mod reply;

use std::rc::Rc;

use crate::agent::{Agent, Context, Effect, State};
use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind};
use crate::base::id::MessageId;
use crate::domain::chunk::Chunk;
use crate::domain::endpoint::{Credential, Endpoint};
use crate::domain::history::History;
use crate::domain::message::{Body, Reply};
use crate::domain::stream::{Finish, StreamEvent, Usage};
use crate::domain::tool::ToolCall;
use crate::provider::{self, Conversation, Decoder, ProviderRequest, Script, credentials};

/// What an agent that wants a reply is waiting for.
#[derive(Default)]
pub enum Wait {
    /// For nothing: no request is wanted.
    #[default]
    Nothing,
    /// For its place among those at work.
    Slot,
    /// For the bytes of its transfer.
    Transfer,
    /// For the next step of a script that is played without a network.
    Script {
        /// What is still to come.
        script: Script,
        /// When the next step is due; a script without steps hangs.
        due: Option<Moment>,
    },
    /// For the moment at which the request is sent again.
    Retry {
        /// That moment.
        at: Moment,
        /// Why it is sent again.
        error: Error,
    },
    /// For a key, which a command prints.
    Key,
}

/// Script steps that one agent plays in one turn.
const STEPS_PER_TURN: usize = 256;

/// The reply that is being received, and the turn that it belongs to.
#[derive(Default)]
pub struct Exchange {
    pub wait: Wait,
    pub reply: Reply,
    pub started: Moment,
    /// The person's message that this turn answers.
    pub message: Option<(MessageId, String)>,
    /// Since when this request is wanted: its rank among those who want to send.
    pub wanted_at: Moment,
    /// The credential of this request.
    pub key: Option<Credential>,
    /// How often this request was given a new key because the old one was refused.
    pub renewals: u32,
    /// Retries of this request.
    pub retries: u32,
    /// Whom the last request was sent to: the agent may have been given another model since.
    asked: Option<Rc<Endpoint>>,
    decoder: Option<Box<dyn Decoder>>,
    /// The status of the answer, once the decoder was told; that of a script is 200.
    pub status: Option<u16>,
    calls: Vec<ToolCall>,
    usage: Option<Usage>,
    finish: Option<Finish>,
    /// Requests sent since the person's message, this one not counted.
    iterations: u32,
    /// Bytes that have moved either way, when it was looked at last.
    moved: u64,
    stall_at: Option<Moment>,
    checkpoint_at: Option<Moment>,
    checkpointed_at: Option<Moment>,
    /// How much of text and thinking the store has.
    kept: (usize, usize),
}

impl Exchange {
    /// A turn that begins now and answers this message.
    pub fn begun(now: Moment, message: Option<(MessageId, String)>) -> Self {
        Self { started: now, wanted_at: now, message, wait: Wait::Slot, ..Self::default() }
    }

    /// The turn goes on with a further request.
    fn next(&mut self, now: Moment) -> Self {
        let (iterations, message) = (self.iterations + 1, self.message.take());
        Self { iterations, started: self.started, ..Self::begun(now, message) }
    }

    /// Whether the person's message is all that this turn has said so far.
    pub fn is_first_request(&self) -> bool {
        self.iterations == 0
    }

    /// What came of a reply of which nothing was shown is forgotten.
    pub fn forget_reply(&mut self) {
        self.calls.clear();
        (self.reply, self.kept) = (Reply::default(), (0, 0));
        (self.usage, self.finish) = (None, None);
    }

    /// Whether a reply is being received.
    pub fn is_under_way(&self) -> bool {
        matches!(self.wait, Wait::Transfer | Wait::Script { .. })
    }

    /// The soonest moment at which something is to be done about it, and what.
    pub fn deadline(&self) -> Option<(Moment, &'static str)> {
        let waited = match &self.wait {
            Wait::Retry { at, .. } => Some((*at, "retry")),
            Wait::Script { due, .. } => due.map(|at| (at, "script step")),
            Wait::Nothing | Wait::Slot | Wait::Key | Wait::Transfer => None,
        };
        let stall = self.stall_at.map(|at| (at, "stall"));
        let checkpoint = self.checkpoint_at.map(|at| (at, "checkpoint"));
        waited.into_iter().chain(stall).chain(checkpoint).min()
    }

    pub fn is_shown(&self) -> bool {
        !self.reply.text.is_empty() || !self.reply.thinking.is_empty()
    }

    /// The piece of the reply that the store does not have yet.
    fn take_unsaved(&mut self) -> (String, String) {
        let (text, thinking) = self.kept;
        let piece = (self.reply.text[text..].to_owned(), self.reply.thinking[thinking..].to_owned());
        self.kept = (self.reply.text.len(), self.reply.thinking.len());
        piece
    }

    /// The reply as far as it came, as a row; none if nothing came.
    pub fn take_reply(&mut self, is_partial: bool) -> Option<Body> {
        let reply = std::mem::take(&mut self.reply);
        self.kept = (0, 0);
        let is_empty = reply.text.is_empty() && reply.thinking.is_empty() && reply.signatures.is_empty();
        (!is_empty).then_some(Body::Assistant(Reply { is_partial, ..reply }))
    }
}

impl Agent {
    /// Its place has come: sends the request, with this credential. Called by the loop, which carries out the wishes next.
    pub fn send_request(&mut self, key: Option<Credential>, context: &mut Context) {
        assert_eq!(self.state, State::WaitingForLlm, "a request is sent while one is wanted");
        self.exchange.asked = Some(self.talk.endpoint.clone());
        (self.exchange.key, self.exchange.moved, self.exchange.status) = (key, 0, None);
        self.exchange.stall_at = Some(context.now + context.settings.stall_timeout);
        match self.open(context) {
            Ok(ProviderRequest::Http(request)) => {
                self.exchange.wait = Wait::Transfer;
                if let Err(error) = self.connection.start(&request, context.network, context.now) {
                    self.fail(error, context);
                }
            }
            Ok(ProviderRequest::Script(script)) => {
                let due = script.steps.front().map(|step| context.now + step.wait);
                self.exchange.wait = Wait::Script { script, due };
            }
            Err(error) => self.fail(error, context),
        }
    }

    /// Whom the request under way was sent to, or else whom the next one will be sent to.
    pub fn request_endpoint(&self) -> &Endpoint {
        self.exchange.asked.as_ref().unwrap_or(&self.talk.endpoint)
    }

    fn open(&mut self, context: &Context) -> Result<ProviderRequest, Error> {
        let endpoint = &self.talk.endpoint;
        let key = self.exchange.key.as_ref().map(|key| &key.secret);
        credentials::require(endpoint, key)?;
        let spec = provider::find(&endpoint.kind).ok_or_else(|| {
            Error::new(ErrorKind::Usage, format!("no provider speaks {:?}: see --help", endpoint.kind))
        })?;
        let history = self.talk.history.as_ref().expect("the conversation is read before a turn begins");
        let messages = history.conversation();
        let tools = if self.may_call(context) { self.talk.environment.declarations() } else { Vec::new() };
        self.exchange.decoder = Some((spec.decoder)());
        (spec.build_request)(&Conversation {
            endpoint,
            key,
            thinking: self.talk.thinking,
            system: &self.talk.system,
            messages: &messages,
            tools: &tools,
        })
    }

    /// Whether the model is offered tools in this request.
    fn may_call(&self, context: &Context) -> bool {
        self.talk.has_tools && self.exchange.iterations < context.settings.tool_iterations
    }

    /// Takes what arrived and acts on it: bounded work, the rest is left for the next turn.
    pub fn absorb_stream(&mut self, context: &mut Context) {
        if self.state != State::WaitingForLlm {
            return;
        }
        let events = match &mut self.exchange.wait {
            Wait::Transfer => self.read_transfer(context),
            Wait::Script { .. } => self.play_script(context),
            Wait::Nothing | Wait::Slot | Wait::Key | Wait::Retry { .. } => return,
        };
        for event in events {
            if !self.exchange.is_under_way() {
                break;
            }
            self.on_stream_event(event, context);
        }
        self.plan_checkpoint(context);
    }

    fn read_transfer(&mut self, context: &mut Context) -> Vec<StreamEvent> {
        let (mut events, mut is_let_in) = (Vec::new(), false);
        // Any byte counts, either way: a long request is no stall, and neither is a server that only says that it lives.
        let moved = self.connection.bytes_transferred();
        if moved != self.exchange.moved {
            self.exchange.moved = moved;
            self.exchange.stall_at = Some(context.now + context.settings.stall_timeout);
        }
        let bytes = self.connection.read(context.settings.bytes_per_turn, context.now);
        let decoder = self.exchange.decoder.as_mut().expect("a transfer has a decoder");
        if let Some(head) = self.connection.head().filter(|head| head.status >= 200 && self.exchange.status.is_none()) {
            decoder.head(head);
            self.exchange.status = Some(head.status);
            // A provider that limits answers like this only to what it has not let in.
            is_let_in = head.status < 500 && head.status != 429;
        }
        if !bytes.is_empty() {
            decoder.feed(&bytes, &mut events);
        }
        match self.connection.take_end() {
            Some(Ok(())) => decoder.end(&mut events),
            Some(Err(error)) => events.push(StreamEvent::Error(error)),
            None => {}
        }
        if is_let_in {
            context.outbox.push(self.id(), Effect::Accepted(self.request_endpoint().provider.clone()));
        }
        events
    }

    fn play_script(&mut self, context: &mut Context) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        let now = context.now;
        let Wait::Script { script, due } = &mut self.exchange.wait else { return events };
        for _ in 0..STEPS_PER_TURN {
            let Some(at) = due.filter(|at| *at <= now) else { break };
            let step = script.steps.pop_front().expect("a step that is due is there");
            events.extend(step.event);
            self.exchange.stall_at = Some(now + context.settings.stall_timeout);
            // From when it was due, not from now: a late turn does not slow a script down.
            *due = script.steps.front().map(|next| at + next.wait);
        }
        if !events.is_empty() && self.exchange.status.replace(200).is_none() && !is_error(&events[0]) {
            context.outbox.push(self.identity.id, Effect::Accepted(self.request_endpoint().provider.clone()));
        }
        events
    }

    fn plan_checkpoint(&mut self, context: &Context) {
        let exchange = &mut self.exchange;
        let unsaved = exchange.kept != (exchange.reply.text.len(), exchange.reply.thinking.len());
        if exchange.is_under_way() && unsaved && exchange.checkpoint_at.is_none() {
            let soonest = exchange.checkpointed_at.map_or(context.now, |at| at + context.settings.checkpoint_every);
            exchange.checkpoint_at = Some(soonest.max(context.now));
        }
    }

    /// Does what has come due: a retry, a stall, a checkpoint, the end of a wait for letters. Script steps are played by
    /// [`Agent::absorb_stream`].
    pub fn check_deadlines(&mut self, context: &mut Context) {
        if self.state == State::ExecutingTool {
            self.end_waits(context);
        }
        if self.state != State::WaitingForLlm {
            return;
        }
        if self.exchange.checkpoint_at.is_some_and(|at| at <= context.now) {
            self.exchange.checkpoint_at = None;
            self.exchange.checkpointed_at = Some(context.now);
            let (text, thinking) = self.exchange.take_unsaved();
            context.outbox.push(self.id(), Effect::Checkpoint { text, thinking });
        }
        if matches!(self.exchange.wait, Wait::Retry { at, .. } if at <= context.now) {
            self.retry_now(context);
        } else if self.exchange.stall_at.is_some_and(|at| at <= context.now) {
            let seconds = context.settings.stall_timeout.as_secs();
            let words = format!("no byte from {} for {seconds} s", self.request_endpoint().full_name());
            self.fail(Error::new(ErrorKind::Stalled, words), context);
        }
    }

    /// Sends again what waits to be sent again, as soon as it may.
    pub fn retry_now(&mut self, context: &mut Context) {
        if matches!(self.exchange.wait, Wait::Retry { .. }) {
            self.exchange.wait = Wait::Slot;
            self.view.touch();
            context.outbox.push(self.id(), Effect::Request);
        }
    }

    /// All calls of the reply are answered: the model is told.
    pub(super) fn request_again(&mut self, context: &mut Context) {
        self.exchange = self.exchange.next(context.now);
        if self.exchange.iterations == context.settings.tool_iterations {
            let note = format!("{} rounds of tools: the last request is sent without tools", self.exchange.iterations);
            self.emit(&Chunk::Note(note));
        }
        self.enter(State::WaitingForLlm, context);
        context.outbox.push(self.id(), Effect::Request);
    }

    /// The checkpoint with so many bytes of text and thinking could not be written: the next one has them again.
    pub fn on_checkpoint_failed(&mut self, text: usize, thinking: usize) {
        let (kept_text, kept_thinking) = self.exchange.kept;
        self.exchange.kept = (kept_text.saturating_sub(text), kept_thinking.saturating_sub(thinking));
    }

    /// The person's message that is being answered.
    pub fn turn_message(&self) -> Option<MessageId> {
        self.exchange.message.as_ref().filter(|_| self.state != State::Idle).map(|(id, _)| *id)
    }

    /// What a child inherits that is forked by a call of this turn: what came before the turn. `None` where that has to
    /// be read from the store, because a later fork has put the turn's beginning out of reach.
    pub fn fork_history_before_turn(&mut self) -> Option<History> {
        let turn = self.turn_message()?;
        let history = self.talk.history.as_mut()?;
        let at = history.delta().iter().position(|message| message.id == turn)?;
        Some(history.fork_at(at))
    }

    /// When the reply that is under way has stalled, if no further byte comes.
    pub fn stalls_at(&self) -> Option<Moment> {
        self.exchange.stall_at
    }

    /// Retries of the request that is under way.
    pub fn retries(&self) -> u32 {
        self.exchange.retries
    }

    /// Whether the request that it wants to make was made before: it failed, or its key was refused.
    pub fn is_repeating(&self) -> bool {
        self.exchange.retries > 0 || self.exchange.renewals > 0
    }

    /// The reply is whole, but its transfer may still have to say so: then the connection can serve the next request.
    fn finish_transfer(&mut self, context: &Context) {
        self.connection.drain(context.now);
        self.forget_wait();
    }

    pub(super) fn stop_transfer(&mut self, context: &Context) {
        self.connection.cancel(context.now);
        self.forget_wait();
    }

    fn forget_wait(&mut self) {
        self.exchange.wait = Wait::Nothing;
        self.exchange.stall_at = None;
        self.exchange.checkpoint_at = None;
    }
}

const fn is_error(event: &StreamEvent) -> bool {
    matches!(event, StreamEvent::Error(_))
}
