//! The conversation of one agent with its host: queues what the host says until the agent can take it.
//!
//! A turn of a host becomes rounds like those of a model: text, then calls, which the agent waits for, then text again. Text that
//! arrives while calls run is held back until they are over; calls, results and questions are delivered at once.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

use super::connection::{Answer, Opened, Opening};
use super::files::{Comparison, End, TurnFiles};
use super::options::Choice;
use super::updates::{self, HostCall};
use crate::agent::{Agent, Context, HostAsks, HostVerdict, OUR_TOOL_CALL_PREFIX};
use crate::base::clock::Moment;
use crate::base::error::{Error, ErrorKind};
use crate::base::id::AgentId;
use crate::domain::agent_host::HostCommand;
use crate::domain::stream::{Finish, StreamEvent, Usage};
use crate::domain::thinking::Thinking;
use crate::domain::tool::{ToolCall, ToolResult};
use crate::provider::host::{HostPrompt, HostSession};
use crate::repl::core::Core;
use crate::tools::mcp_server;

/// How many things may wait for an agent, and how many calls a turn may have.
const MAX_WAITING: usize = 100_000;
const MAX_CALLS: usize = 10_000;
/// How many calls of our tools a host may have under way in one session.
const MAX_OUR_TOOL_CALLS: usize = 32;
/// The result of a call of our tools that the host has cancelled before it began.
pub(super) const WITHDRAWN: &str = "not run: cancelled by the host";
/// The most text of a turn, in bytes, as for a reply of a model.
const MAX_TEXT: usize = 16 << 20;

/// Something that a host has said.
enum Said {
    Text(String),
    Thinking(String),
    /// It carries out the call with this id.
    Call(String),
    /// That call is over.
    Result(String),
    /// It asks before a call.
    Asks(HostAsks, Question),
    /// It calls one of our tools.
    CallsOurTool(ToolCall),
    /// A list of tasks: a call that is over.
    Plan(ToolCall, String),
    End(Result<Finish, Error>),
}

/// A question that the person has to answer.
struct Question {
    request: Value,
    options: Value,
}

/// The HTTP connection and the JSON-RPC id of a request to our MCP server.
type McpRequest = (u64, Value);

/// A session in which an agent speaks to its host.
pub(super) struct Session {
    /// Names the session in the URL of our MCP server.
    pub(super) secret: String,
    /// Requests for calls of our tools that are under way, by call.
    our_tool_calls: BTreeMap<String, McpRequest>,
    /// Responses to those requests that were not sent yet, by connection.
    responses: Vec<(u64, String)>,
    /// In this turn.
    our_tool_call_count: usize,
    pub(super) host: String,
    /// The process that has it.
    pub(super) process: u64,
    /// `None` until it is open.
    pub(super) id: Option<String>,
    /// The prompts that were sent in it.
    turns: u64,
    /// The last of them that a reply names.
    signed: u64,
    /// A prompt that is sent once the session is open or an earlier turn is over.
    pub(super) waiting: Option<HostPrompt>,
    /// The request that opens it.
    pub(super) opening: Option<u64>,
    /// The request of the turn that is under way.
    pub(super) turn: Option<u64>,
    /// The turn was cancelled and has to be over by then.
    give_up_at: Option<Moment>,
    /// The files before the turn.
    pub(super) files: Option<TurnFiles>,
    /// How the turn has ended, while its files are compared.
    pub(super) ended: Option<(Comparison, Result<Value, Error>)>,
    /// The turn has calls that may change files.
    may_have_changed: bool,
    /// The session that the last reply in the log names.
    known: Option<HostSession>,
    queue: VecDeque<Said>,
    calls: BTreeMap<String, HostCall>,
    /// Open questions, by call.
    asked: BTreeMap<String, Question>,
    plans: u64,
    /// Bytes of text in this turn.
    received: usize,
    usage: Option<Usage>,
    /// What the session has cost so far, in billionths of a US dollar, as the host says.
    cost: Option<u64>,
    /// The part of it that was counted.
    counted: u64,
    is_signed: bool,
    /// The commands that the host offers, if that was not passed on yet.
    commands: Option<Vec<HostCommand>>,
    /// What the host may do without asking.
    mode: Option<Choice>,
    /// It may be in the mode for planning although its person has not chosen that there.
    may_leave_plan: bool,
    /// How much the host thinks.
    thinking: Option<Choice>,
    /// The level that the last prompt asked for.
    asked_thinking: Option<Thinking>,
}

impl Session {
    pub(super) fn new(host: String, process: u64, waiting: HostPrompt) -> Self {
        let known = waiting.session.clone();
        Self {
            secret: uuid::Uuid::new_v4().simple().to_string(),
            our_tool_calls: BTreeMap::new(),
            responses: Vec::new(),
            our_tool_call_count: 0,
            host,
            known,
            opening: None,
            turn: None,
            give_up_at: None,
            files: None,
            ended: None,
            may_have_changed: false,
            process,
            id: None,
            turns: 0,
            signed: 0,
            waiting: Some(waiting),
            queue: VecDeque::new(),
            calls: BTreeMap::new(),
            asked: BTreeMap::new(),
            plans: 0,
            received: 0,
            usage: None,
            cost: None,
            counted: 0,
            is_signed: false,
            commands: None,
            mode: None,
            may_leave_plan: false,
            thinking: None,
            asked_thinking: None,
        }
    }

    /// Whether the agent can go on with the turn that it waits for.
    pub(super) fn has_turn(&self) -> bool {
        self.is_awaited() || !self.queue.is_empty()
    }

    /// Whether the agent waits for the end of a turn, which was not cancelled.
    pub(super) const fn is_awaited(&self) -> bool {
        self.turn.is_some() && self.give_up_at.is_none()
    }

    /// Whether the host is at a turn that was not cancelled.
    const fn is_at_turn(&self) -> bool {
        self.is_awaited() && self.ended.is_none()
    }

    /// When a cancelled turn has to be over.
    pub(super) fn gives_up_at(&self) -> Option<Moment> {
        self.give_up_at.filter(|_| self.ended.is_none())
    }

    /// Whether the turn waits for its files to be recorded or compared.
    pub(super) const fn is_at_files(&self) -> bool {
        self.ended.is_some() || self.files.is_some() && self.turn.is_none()
    }

    /// How the turn ends that the recorded files belong to.
    pub(super) const fn turn_end(&self, is_at_exit: bool) -> End {
        match self.turn {
            Some(_) => End::Over { may_have_changed: self.may_have_changed, is_at_exit },
            None => End::NotBegun,
        }
    }

    fn is_overfull(&self) -> bool {
        self.queue.len() > MAX_WAITING || self.calls.len() > MAX_CALLS || self.received > MAX_TEXT
    }

    /// Ends a turn in which the host says too much. Returns whether it does; then the host has to be told.
    pub(super) fn end_flood(&mut self) -> bool {
        let is_flood = self.is_at_turn() && self.is_overfull();
        if is_flood {
            self.queue.clear();
            let message = format!("{}: said more than {} MiB in one turn", self.host, MAX_TEXT >> 20);
            self.queue.push_back(Said::End(Err(Error::new(ErrorKind::Protocol, message))));
        }
        is_flood
    }

    /// Whether the conversation of a prompt is the one of this session, neither cleared nor rewound.
    pub(super) fn is_known_by(&self, prompt: &HostPrompt) -> bool {
        match (&prompt.session, &self.id) {
            (Some(known), Some(id)) => known.id == *id && known.turn == self.signed,
            (None, Some(_)) => self.signed == 0,
            (known, None) => self.known == *known,
        }
    }

    /// Whether the prompt continues at an earlier turn of this session, which cannot be continued there.
    pub(super) fn is_rewound_by(&self, prompt: &HostPrompt) -> bool {
        let known = prompt.session.as_ref().filter(|known| self.id.as_ref() == Some(&known.id));
        known.is_some_and(|known| known.turn < self.signed)
    }

    /// The session that the last reply in the log names.
    pub(super) const fn known(&self) -> Option<&HostSession> {
        self.known.as_ref()
    }

    /// Whether it has had this many turns and none is under way.
    pub(super) const fn has_ended_turn(&self, turn: u64) -> bool {
        self.turns == turn && self.signed == turn && self.turn.is_none()
    }

    /// How the session of this agent begins. `is_at_fork`: that of its parent can be forked.
    pub(super) fn opening(&self, agent: AgentId, is_at_fork: bool) -> Opening {
        match &self.known {
            Some(known) if known.agent == agent.to_string() => Opening::Load(known.id.clone()),
            Some(known) if is_at_fork => Opening::Fork(known.id.clone()),
            _ => Opening::New,
        }
    }

    /// The session that the log names is not there any more. False if it names none.
    pub(super) fn forget_known(&mut self) -> bool {
        self.known.take().is_some()
    }

    pub(super) fn on_opened(&mut self, opened: &Opened) {
        self.id = Some(opened.session.clone());
        let known = self.known.take().filter(|_| opened.is_loaded);
        self.turns = known.map_or(0, |known| known.turn);
        self.signed = self.turns;
        self.thinking.clone_from(&opened.choices.thinking);
        self.mode.clone_from(&opened.choices.mode);
        self.may_leave_plan = opened.is_loaded;
    }

    /// What has to be chosen so that the host of an agent that plans plans too, if it can, or does not any more.
    pub(super) fn choose_mode(&mut self, plans: bool) -> Option<(&mut Choice, &'static str)> {
        let choice = self.mode.as_mut().filter(|_| plans || self.may_leave_plan)?;
        self.may_leave_plan |= plans;
        let mode = choice.mode_to_set(plans)?;
        Some((choice, mode))
    }

    /// The host says what is chosen in the session.
    pub(super) fn on_options(&mut self, options: &Value) {
        if let Some(options) = options.as_array() {
            Choice::update(&mut self.thinking, options);
        }
    }

    /// What has to be chosen so that the host thinks as much as a prompt asks for.
    ///
    /// # Errors
    /// It has no such level, which is said once.
    pub(super) fn choose_thinking(&mut self, level: Thinking) -> Result<Option<(&mut Choice, String)>, String> {
        if self.asked_thinking.replace(level) == Some(level) {
            return Ok(None);
        }
        let Some(choice) = &mut self.thinking else {
            return match level {
                Thinking::Unspecified => Ok(None),
                _ => Err(format!("{}: has no option for how much it thinks", self.host)),
            };
        };
        let value = choice.thinking_to_set(level).map_err(|why| format!("{}: {why}", self.host))?;
        Ok(value.map(|value| (choice, value)))
    }

    /// A prompt is about to be sent. Returns its text.
    pub(super) fn begin_turn(&mut self, prompt: &HostPrompt) -> String {
        let (about, before) = match self.turns > 0 {
            true => ("Since your last reply, another assistant has gone on with the conversation:", &prompt.unknown),
            false => ("This is the conversation before this session:", &prompt.transcript),
        };
        self.turns += 1;
        (self.usage, self.received, self.is_signed) = (None, 0, false);
        (self.our_tool_call_count, self.may_have_changed) = (0, false);
        self.queue.clear();
        self.calls.clear();
        match before.is_empty() {
            true => prompt.text.clone(),
            false => format!("{about}\n{before}\nThe new message:\n{}", prompt.text),
        }
    }

    /// The agent does not wait for the turn any more. Returns the questions that nobody answers.
    pub(super) fn cancel(&mut self, until: Moment) -> Vec<Answer> {
        self.give_up_at = Some(until);
        self.refuse_our_tool_calls("no result: the turn was interrupted");
        let (end, others): (VecDeque<Said>, VecDeque<Said>) =
            self.queue.drain(..).partition(|said| matches!(said, Said::End(_)));
        self.queue = end;
        let waiting = others.into_iter().filter_map(|said| match said {
            Said::Asks(_, question) => Some(question),
            _ => None,
        });
        let asked = std::mem::take(&mut self.asked);
        waiting.chain(asked.into_values()).map(|question| (question.request, None)).collect()
    }

    /// The host has said something. Outside of a turn only its cost, its commands and its options count.
    pub(super) fn on_update(&mut self, update: &Value) {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        let is_always_news = matches!(kind, "usage_update" | "available_commands_update" | "config_option_update");
        if !self.is_at_turn() && !is_always_news {
            return;
        }
        match kind {
            "agent_message_chunk" | "agent_thought_chunk" => {
                let said = if kind == "agent_message_chunk" { Said::Text } else { Said::Thinking };
                if let Some(text) = text_of(update) {
                    self.received += text.len();
                    self.queue.push_back(said(text));
                }
            }
            "tool_call" | "tool_call_update" => self.on_call(update),
            "plan" => {
                self.plans += 1;
                let (call, result) = updates::plan(&update["entries"], &format!("plan-{}-{}", self.turns, self.plans));
                self.queue.push_back(Said::Plan(call, result));
            }
            "config_option_update" => self.on_options(&update["configOptions"]),
            "available_commands_update" => {
                self.commands = Some(updates::commands(&update["availableCommands"], &self.host));
            }
            "usage_update" if update["cost"]["currency"] == "USD" => {
                let dollars = update["cost"]["amount"].as_f64().filter(|dollars| *dollars >= 0.0);
                self.cost = dollars.map(|dollars| (dollars * 1e9).round() as u64).or(self.cost);
            }
            _ => {}
        }
    }

    /// The commands that the host offers, if they have changed.
    pub(super) fn take_commands(&mut self) -> Option<Vec<HostCommand>> {
        self.commands.take()
    }

    /// Adds what is said of a call.
    fn on_call(&mut self, update: &Value) {
        let Some(id) = call_id(update) else { return };
        let call = self.calls.entry(id.to_owned()).or_default();
        if call.is_over {
            return;
        }
        call.merge(update);
        if call.is_of_our_server() {
            if call.has_ended() {
                call.is_over = true;
                call.forget();
            }
            return;
        }
        if call.is_known() && !std::mem::replace(&mut call.is_queued, true) {
            self.may_have_changed |= call.may_change_files();
            self.queue.push_back(Said::Call(id.to_owned()));
        }
        if call.has_ended() && !std::mem::replace(&mut call.is_over, true) {
            self.queue.push_back(Said::Result(id.to_owned()));
        }
    }

    /// The host asks before a call. An answer is returned if the turn is over.
    pub(super) fn on_permission(&mut self, request: Value, params: &Value) -> Option<Answer> {
        let update = &params["toolCall"];
        let is_awaited = self.is_at_turn() && !self.is_overfull();
        let Some(id) = call_id(update).filter(|_| is_awaited) else {
            return Some((request, None));
        };
        let call = self.calls.entry(id.to_owned()).or_default();
        call.merge(update);
        if call.is_of_our_server() {
            // It is judged when it arrives there.
            let options = params["options"].clone();
            return Some(answer(Question { request, options }, true));
        }
        if !std::mem::replace(&mut call.is_queued, true) {
            self.may_have_changed |= call.may_change_files();
            self.queue.push_back(Said::Call(id.to_owned()));
        }
        // What is judged and asked is the call as it is now.
        let asks = HostAsks { call: call.to_call(id), title: call.title(), files: call.about_files() };
        let options = params["options"].clone();
        self.queue.push_back(Said::Asks(asks, Question { request, options }));
        None
    }

    /// The host calls one of our tools.
    pub(super) fn on_our_tool_call(&mut self, (connection, request): McpRequest, name: &str, arguments: &Value) {
        let arguments = arguments.to_string();
        self.received += arguments.len();
        let is_full = self.our_tool_calls.len() >= MAX_OUR_TOOL_CALLS
            || self.our_tool_call_count > MAX_CALLS
            || self.is_overfull();
        let refused = match self.is_at_turn() {
            false => Some("not run: the turn has ended"),
            true => is_full.then_some("not run: too many calls at once or in this turn"),
        };
        if let Some(why) = refused {
            return self.responses.push((connection, mcp_server::call_response(&request, why, true)));
        }
        self.our_tool_call_count += 1;
        let id = format!("{OUR_TOOL_CALL_PREFIX}{}-{}", self.turns, self.our_tool_call_count);
        self.our_tool_calls.insert(id.clone(), (connection, request));
        let call = ToolCall { id, name: name.to_owned(), arguments };
        self.queue.push_back(Said::CallsOurTool(call));
    }

    /// The host has cancelled this request. Returns the id of a call that the agent may have begun.
    pub(super) fn on_withdrawn(&mut self, request: &Value) -> Option<String> {
        let (call, _) = self.our_tool_calls.iter().find(|(_, (_, asked))| asked == request)?;
        let call = call.clone();
        let is_it = |said: &Said| matches!(said, Said::CallsOurTool(queued) if queued.id == call);
        let queued = self.queue.iter().position(is_it);
        match queued.and_then(|at| self.queue.remove(at)).and_then(|_| self.our_tool_calls.remove(&call)) {
            Some((connection, request)) => {
                self.responses.push((connection, mcp_server::call_response(&request, WITHDRAWN, true)));
                None
            }
            None => Some(call),
        }
    }

    /// A call of one of our tools is over.
    pub(super) fn on_our_tool_result(&mut self, result: &ToolResult) {
        if let Some((connection, request)) = self.our_tool_calls.remove(&result.call_id) {
            self.responses.push((connection, mcp_server::call_response(&request, &result.content, result.is_error)));
        }
    }

    fn refuse_our_tool_calls(&mut self, why: &str) {
        self.queue.retain(|said| !matches!(said, Said::CallsOurTool(_)));
        for (connection, request) in std::mem::take(&mut self.our_tool_calls).into_values() {
            self.responses.push((connection, mcp_server::call_response(&request, why, true)));
        }
    }

    /// Responses to requests to our MCP server, by connection.
    pub(super) fn take_responses(&mut self) -> Vec<(u64, String)> {
        std::mem::take(&mut self.responses)
    }

    /// The turn is over. The end of a cancelled one is not told.
    pub(super) fn on_ended(&mut self, result: Result<Value, Error>) {
        self.turn = None;
        self.refuse_our_tool_calls("no result: the turn has ended");
        if self.give_up_at.take().is_some() {
            return;
        }
        let ended = result.map(|answer| {
            self.usage = updates::usage(&answer);
            match answer["stopReason"].as_str() {
                Some("max_tokens") => Finish::Length,
                Some("refusal") => Finish::ContentFilter,
                _ => Finish::Stop,
            }
        });
        self.queue.push_back(Said::End(ended));
    }

    /// Its process has ended: the agent is told why.
    pub(super) fn fail(&mut self, error: Error) {
        if self.waiting.take().is_some() {
            // The agent has not cancelled what it waits for.
            self.give_up_at = None;
        }
        self.on_ended(Err(error));
    }

    /// The person has answered the question about a call.
    pub(super) fn on_answer(&mut self, call: &str, is_allowed: bool) -> Option<Answer> {
        let question = self.asked.remove(call)?;
        Some(answer(question, is_allowed))
    }

    /// Tells the agent what it can be told now. Returns answers for the host.
    pub(super) fn tell(&mut self, core: &mut Core, agent: AgentId) -> Vec<Answer> {
        let mut answers = Vec::new();
        loop {
            let went_on = core.with_agent(agent, |agent, context| {
                if !agent.request_endpoint().is_host() {
                    false
                } else if agent.waits_for_host() {
                    self.tell_reply(agent, context)
                } else if agent.carries_out_calls() {
                    self.tell_beside_calls(agent, context, &mut answers)
                } else {
                    false
                }
            });
            if went_on != Some(true) {
                return answers;
            }
        }
    }

    /// The next part of a reply. Whether it has ended.
    fn tell_reply(&mut self, agent: &mut Agent, context: &mut Context<'_>) -> bool {
        let (mut events, mut calls, mut plans) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(said) = self.queue.pop_front() {
            match said {
                Said::Text(text) if calls.is_empty() => events.push(StreamEvent::Text(text)),
                Said::Thinking(text) if calls.is_empty() => events.push(StreamEvent::Thinking(text)),
                Said::Call(id) => calls.extend(self.calls.get(&id).map(|call| call.to_call(&id))),
                Said::CallsOurTool(call) => calls.push(call),
                Said::Plan(call, result) => {
                    plans.push((call.id.clone(), result));
                    calls.push(call);
                }
                // The call was over before the agent heard of it.
                Said::Result(_) if calls.is_empty() => {}
                Said::Asks(asks, question) if calls.is_empty() => {
                    calls.push(asks.call.clone());
                    self.queue.push_front(Said::Asks(asks, question));
                    break;
                }
                Said::End(ended) if calls.is_empty() => {
                    self.end(ended, &mut events);
                    break;
                }
                later => {
                    self.queue.push_front(later);
                    break;
                }
            }
        }
        let has_calls = !calls.is_empty();
        events.extend(calls.into_iter().enumerate().map(|(index, call)| call_event(call, index)));
        if events.is_empty() {
            return false;
        }
        if has_calls {
            events.extend([StreamEvent::Finish(Finish::ToolCalls), StreamEvent::Done]);
        }
        self.sign(agent, &mut events);
        self.is_signed &= !has_calls;
        agent.on_host_events(events, context);
        for (id, result) in plans {
            agent.answer_call(&id, Ok(result), context);
        }
        has_calls
    }

    /// Each reply names the session, once.
    fn sign(&mut self, agent: &Agent, events: &mut Vec<StreamEvent>) {
        let is_reply =
            matches!(events[0], StreamEvent::Text(_) | StreamEvent::Thinking(_) | StreamEvent::ToolCall { .. });
        if let (Some(id), true, false) = (&self.id, is_reply, self.is_signed) {
            let session = HostSession { id: id.clone(), agent: agent.id().to_string(), turn: self.turns };
            events.insert(0, StreamEvent::Signature(session.to_signature()));
            (self.is_signed, self.signed) = (true, self.turns);
        }
    }

    fn end(&mut self, ended: Result<Finish, Error>, events: &mut Vec<StreamEvent>) {
        let cost = self.cost.map(|cost| cost.saturating_sub(self.counted));
        self.counted = self.cost.unwrap_or(self.counted);
        if self.usage.is_some() || cost.is_some() {
            let usage = self.usage.take().unwrap_or_default();
            events.push(StreamEvent::Usage(Usage { cost, ..usage }));
        }
        match ended {
            Ok(finish) => events.extend([StreamEvent::Finish(finish), StreamEvent::Done]),
            Err(error) => events.push(StreamEvent::Error(error)),
        }
    }

    /// The next call, result or question while calls are carried out. Whether there was one.
    fn tell_beside_calls(&mut self, agent: &mut Agent, context: &mut Context<'_>, answers: &mut Vec<Answer>) -> bool {
        let is_text = |said: &Said| matches!(said, Said::Text(_) | Said::Thinking(_));
        let Some(at) = self.queue.iter().position(|said| !is_text(said)) else { return false };
        if let Said::End(ended) = &self.queue[at] {
            agent.end_host_calls(ended.is_ok(), context);
            return false;
        }
        match self.queue.remove(at) {
            Some(Said::Call(id)) => {
                let call = self.calls.get(&id).map(|call| call.to_call(&id));
                call.is_some_and(|call| agent.add_host_call(call, context))
            }
            Some(Said::Result(id)) => {
                let result = self.calls.get(&id).map_or(Ok(String::new()), HostCall::result);
                self.calls.entry(id.clone()).or_default().forget();
                if let Some(question) = self.asked.remove(&id) {
                    answers.push((question.request, None));
                }
                agent.answer_call(&id, result, context);
                true
            }
            Some(Said::CallsOurTool(call)) => agent.add_host_call(call, context),
            Some(Said::Plan(call, result)) => {
                let id = call.id.clone();
                agent.add_host_call(call, context);
                agent.answer_call(&id, Ok(result), context);
                true
            }
            Some(Said::Asks(asks, question)) => {
                match agent.ask_for_host(&asks, context) {
                    HostVerdict::Asked => drop(self.asked.insert(asks.call.id, question)),
                    verdict => answers.push(answer(question, verdict == HostVerdict::Allowed)),
                }
                true
            }
            Some(Said::Text(_) | Said::Thinking(_) | Said::End(_)) | None => false,
        }
    }
}

/// The option for this answer, for this time only where there is one.
fn answer(question: Question, is_allowed: bool) -> Answer {
    let kinds = if is_allowed { ["allow_once", "allow_always"] } else { ["reject_once", "reject_always"] };
    let of_kind = |kind: &&str| {
        let option = question.options.as_array()?.iter().find(|option| option["kind"] == **kind)?;
        option["optionId"].as_str().map(str::to_owned)
    };
    let option = kinds.iter().find_map(of_kind);
    (question.request, option)
}

/// The id of a call that the host carries out itself.
fn call_id(update: &Value) -> Option<&str> {
    update["toolCallId"].as_str().filter(|id| !id.starts_with(OUR_TOOL_CALL_PREFIX))
}

fn text_of(update: &Value) -> Option<String> {
    update["content"]["text"].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn call_event(call: ToolCall, index: usize) -> StreamEvent {
    StreamEvent::ToolCall { index, id: call.id, name: call.name, arguments: call.arguments }
}
