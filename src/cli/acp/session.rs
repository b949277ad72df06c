//! A session of the editor: an agent, what the editor knows of it, and the running prompt.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use serde_json::{Value, json};

use super::options::Options;
use super::tools::{self, Call, TODO};
use crate::base::json_rpc::Fault;
use crate::base::text::as_dollars;
use crate::cli::print::summary::Summary;
use crate::domain::attachment::readable_text;
use crate::domain::chunk::{Chunk, StopReason};
use crate::domain::mcp::ClientServer;
use crate::domain::message::replaced_mark;
use crate::domain::stream::Usage;
use crate::domain::tool::ToolResult;

/// Calls that are remembered until their result arrives.
const MOST_CALLS: usize = 1_000;

#[derive(Default)]
pub struct Session {
    /// Where the agent works.
    pub directory: String,
    /// The connection over which the conversation arrives.
    pub follow: Option<u64>,
    /// The connection over which its commands arrive, and these without the slash.
    pub offer: Option<u64>,
    pub commands: Vec<Value>,
    /// The MCP servers that the editor has declared for it.
    pub servers: Vec<ClientServer>,
    pub prompt: Option<Prompt>,
    /// Calls without a result.
    calls: BTreeMap<String, Call>,
    /// The number of the newest chunk that the editor was sent, and one more.
    pub next_chunk: u64,
    /// Created by this program, and nothing was sent to it yet.
    pub is_unused: bool,
    /// As the editor knows them.
    pub options: Options,
    title: String,
}

/// A prompt of the editor.
pub struct Prompt {
    /// The editor's request.
    pub id: Value,
    pub text: String,
    /// Images that are not stored yet.
    pub images: VecDeque<Vec<u8>>,
    /// The connection over which it, or an image of it, is sent.
    pub link: Option<u64>,
    pub is_cancelled: bool,
    /// The agent has begun with it.
    pub has_begun: bool,
    pub summary: Summary,
    /// The number after its last chunk so far.
    pub end: u64,
    /// How it ended: `Ok(true)` at a limit.
    pub outcome: Option<Result<bool, Fault>>,
}

impl Prompt {
    /// The response of a prompt that has ended for this reason.
    pub fn response(&self, reason: &str) -> Value {
        let Usage { input, cached, written, output, reasoning, .. } = self.summary.usage();
        let mut response = json!({ "stopReason": reason });
        if input + output > 0 {
            // What was read from a cache or written to it is counted apart.
            response["usage"] = json!({
                "inputTokens": input.saturating_sub(cached + written),
                "cachedReadTokens": cached, "cachedWriteTokens": written,
                "outputTokens": output, "thoughtTokens": reasoning, "totalTokens": input + output,
            });
        }
        response
    }

    pub fn stop_reason(&self) -> Result<&'static str, Fault> {
        if self.is_cancelled || self.summary.is_interrupted() && self.outcome != Some(Ok(true)) {
            return Ok("cancelled");
        }
        if let Some(failure) = self.summary.failure() {
            let is_refusal = failure.kind == "refused";
            return if is_refusal { Ok("refusal") } else { Err(Fault::of_kind(&failure.kind, &*failure.message)) };
        }
        match (&self.outcome, self.summary.stop_reason()) {
            (Some(Err(error)), _) => Err(error.clone()),
            (Some(Ok(true)), _) | (_, Some(StopReason::ToolRounds)) => Ok("max_turn_requests"),
            (_, Some(StopReason::Length)) => Ok("max_tokens"),
            (_, Some(StopReason::ContentFilter)) => Ok("refusal"),
            (_, Some(StopReason::Stop | StopReason::Empty) | None) => Ok("end_turn"),
        }
    }
}

impl Session {
    pub fn new(agent: &Value, servers: Vec<ClientServer>, models: Rc<[String]>) -> Self {
        Self {
            servers,
            directory: text_of(agent, "directory"),
            options: Options::of(agent, models),
            title: text_of(agent, "title"),
            ..Self::default()
        }
    }

    /// The updates for a chunk of the conversation. `is_replayed`: it happened before the session was loaded.
    pub fn updates(&mut self, chunk: &Chunk, is_replayed: bool) -> Vec<Value> {
        match chunk {
            Chunk::User(text) if is_replayed || !self.begins_prompt(text) => vec![message("user_message_chunk", text)],
            Chunk::Text(text) => vec![message("agent_message_chunk", text)],
            Chunk::Thinking(text) => vec![message("agent_thought_chunk", text)],
            Chunk::Replaced(why) => vec![message("agent_message_chunk", &format!("\n\n*{}*\n\n", replaced_mark(why)))],
            Chunk::ToolCall { id, name, arguments, title } if name != TODO => {
                self.announce(id, Call::new(name, title, arguments, &self.directory), "in_progress")
            }
            Chunk::ToolResult(result) => self.on_result(result).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Whether this is the text of the prompt that the editor shows already.
    fn begins_prompt(&mut self, text: &str) -> bool {
        // Paths of attached files are replaced.
        let is_changed = ["[image: ", "[PDF: ", "[file: "].iter().any(|file| text.contains(file));
        let is_own = |prompt: &&mut Prompt| {
            // A command may stand for another text than the one that was typed.
            !prompt.has_begun && (is_changed || prompt.text.starts_with('/') || readable_text(&prompt.text) == text)
        };
        match self.prompt.as_mut().filter(is_own) {
            Some(prompt) => {
                prompt.has_begun = true;
                true
            }
            None => false,
        }
    }

    /// Announces a call, or that it continues after a question.
    pub fn announce(&mut self, id: &str, call: Call, status: &str) -> Vec<Value> {
        let is_known = self.calls.contains_key(id);
        let mut update = call.to_json(id, status);
        update["sessionUpdate"] = if is_known { "tool_call_update" } else { "tool_call" }.into();
        let diffs = call.diffs();
        if !diffs.is_empty() {
            update["content"] = diffs.into();
        }
        if self.calls.len() >= MOST_CALLS {
            self.calls.pop_first();
        }
        self.calls.insert(id.to_owned(), call);
        vec![update]
    }

    fn on_result(&mut self, result: &ToolResult) -> Option<Value> {
        if result.name == TODO {
            return (!result.is_error).then(|| tools::plan(&result.content));
        }
        let call = self.calls.remove(&result.call_id)?;
        let status = if result.is_error { "failed" } else { "completed" };
        let mut content = call.diffs();
        if content.is_empty() || result.is_error {
            content.push(tools::text(&result.content));
        }
        Some(json!({
            "sessionUpdate": "tool_call_update",
            "toolCallId": result.call_id,
            "status": status,
            "content": content,
        }))
    }

    /// The updates for changes of the agent that the editor does not know yet.
    pub fn refresh(&mut self, agent: &Value) -> Vec<Value> {
        let mut updates = Vec::new();
        if let (Some(used), Some(size)) = (agent["context"].as_u64(), agent["context_limit"].as_u64()) {
            let mut update = json!({"sessionUpdate": "usage_update", "used": used, "size": size});
            if let Some(cost) = agent["cost"].as_u64() {
                update["cost"] = json!({"amount": as_dollars(cost), "currency": "USD"});
            }
            updates.push(update);
        }
        let title = text_of(agent, "title");
        if !title.is_empty() && title != self.title {
            updates.push(json!({"sessionUpdate": "session_info_update", "title": title}));
            self.title = title;
        }
        let options = self.options.refreshed(agent);
        if options.mode != self.options.mode {
            updates.push(json!({"sessionUpdate": "current_mode_update", "currentModeId": options.mode}));
        }
        if options != self.options {
            updates.push(json!({"sessionUpdate": "config_option_update", "configOptions": options.to_json()}));
            self.options = options;
        }
        updates
    }
}

fn message(kind: &str, text: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
}

/// A field that is a text; empty without one.
pub fn text_of(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}
