//! `--output-format claude-stream-json`: the lines that programs made for Claude Code read from its `--output-format
//! stream-json` (code.claude.com/docs/en/agent-sdk/typescript, "Message Types").
//!
//! | line | from |
//! |---|---|
//! | `system`, subtype `init` | the agent of the run |
//! | `assistant` | each part of a reply: its reasoning, its text, a call |
//! | `user` | the result of a call |
//! | `result` | the end of a turn of standard input, else of the run |

use serde_json::{Value, json};

use super::agent::RunAgent;
use super::output::MAX_TURNS;
use crate::base::id::AgentId;
use crate::base::text::as_dollars;
use crate::domain::chunk::{Chunk, REFUSED_CALL, StopReason};
use crate::domain::limits::LimitName;
use crate::domain::stream::Usage;

#[derive(Debug, Default)]
pub struct ClaudeLines {
    session: String,
    model: String,
    text: String,
    thinking: String,
    /// The number of the reply, from 1.
    reply: u64,
    /// What its request has used, once that is known: then it has no further text.
    usage: Option<Usage>,
    /// The next text begins another reply.
    is_over: bool,
    /// The last call, as the result lists those that were refused.
    call: Option<Value>,
    denials: Vec<Value>,
}

impl ClaudeLines {
    pub fn new(session: Option<AgentId>) -> Self {
        let session = session.map(|id| id.to_uuid()).unwrap_or_default();
        Self { session, is_over: true, ..Self::default() }
    }

    pub fn begin(&mut self, agent: &RunAgent) -> Value {
        self.session = agent.id.parse().map_or_else(|_| agent.id.clone(), |id: AgentId| id.to_uuid());
        self.model.clone_from(&agent.model);
        self.line(json!({
            "type": "system", "subtype": "init", "cwd": agent.directory, "model": self.model, "tools": [],
            "mcp_servers": [], "slash_commands": [], "permissionMode": permission_mode(&agent.policy), "apiKeySource": "none",
        }))
    }

    /// The lines for a chunk. A refused call is also listed in the result.
    pub fn on_chunk(&mut self, chunk: &Chunk, is_refused_call: bool) -> Vec<Value> {
        match chunk {
            Chunk::Text(text) => {
                let lines = self.begin_text();
                self.text.push_str(text);
                return lines;
            }
            Chunk::Thinking(text) => {
                let lines = self.begin_text();
                self.thinking.push_str(text);
                return lines;
            }
            Chunk::Replaced(_) => (self.text, self.thinking, self.usage) = Default::default(),
            Chunk::Usage(usage) => {
                self.begin_reply();
                self.usage = Some(usage.clone());
            }
            Chunk::ToolCall { id, name, arguments, .. } => {
                let mut lines = self.take_parts();
                let input = serde_json::from_str(arguments).ok().filter(Value::is_object).unwrap_or_else(|| json!({}));
                self.call = Some(json!({"tool_name": name, "tool_use_id": id, "tool_input": input}));
                if is_refused_call {
                    self.denials.extend(self.call.take());
                }
                lines.push(self.part(json!({"type": "tool_use", "id": id, "name": name, "input": input})));
                return lines;
            }
            Chunk::Note(text) if text.starts_with(REFUSED_CALL) => self.denials.extend(self.call.take()),
            Chunk::ToolResult(result) => {
                let mut lines = self.take_parts();
                self.is_over = true;
                let content = json!([{
                    "type": "tool_result", "tool_use_id": result.call_id, "content": result.content, "is_error": result.is_error,
                }]);
                let message = json!({"role": "user", "content": content});
                lines.push(self.line(json!({"type": "user", "message": message, "parent_tool_use_id": null})));
                return lines;
            }
            Chunk::User(_) | Chunk::Finish { .. } | Chunk::Status(_) => {
                let lines = self.take_parts();
                self.is_over |= !matches!(chunk, Chunk::Status(_));
                return lines;
            }
            _ => {}
        }
        Vec::new()
    }

    /// The line at the end of a turn, from the result as the other formats have it, and the text of the last reply.
    pub fn result(&self, result: &Value, last_reply: &str) -> Value {
        let error = &result["error"]["text"];
        let names = |setting: &str| error.as_str().is_some_and(|text| text.contains(setting));
        let subtype = match result["outcome"].as_str() {
            Some("completed") => "success",
            Some("limit") if names(MAX_TURNS) => "error_max_turns",
            Some("limit") if names(LimitName::Usd.setting()) => "error_max_budget_usd",
            _ => "error_during_execution",
        };
        let usage: Usage = serde_json::from_value(result["usage"].clone()).unwrap_or_default();
        let stop_reason = serde_json::from_value(result["stop_reason"].clone()).ok().map(stop_reason);
        self.line(json!({
            "type": "result", "subtype": subtype, "is_error": subtype != "success", "result": last_reply,
            "errors": error.as_str().into_iter().collect::<Vec<_>>(), "stop_reason": stop_reason,
            "duration_ms": result["ms"], "duration_api_ms": result["ms"], "num_turns": result["turns"],
            "total_cost_usd": result["cost"].as_u64().map(as_dollars), "usage": counted(&usage),
            "permission_denials": self.denials,
        }))
    }

    /// The lines for the reasoning and the text that are complete now.
    fn take_parts(&mut self) -> Vec<Value> {
        let (thinking, text) = (std::mem::take(&mut self.thinking), std::mem::take(&mut self.text));
        let thinking =
            (!thinking.is_empty()).then(|| json!({"type": "thinking", "thinking": thinking, "signature": ""}));
        let text = (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
        thinking.into_iter().chain(text).map(|content| self.part(content)).collect()
    }

    /// Text of a reply arrives. Returns the lines for a reply before it that is complete.
    fn begin_text(&mut self) -> Vec<Value> {
        let mut lines = Vec::new();
        if self.usage.is_some() {
            lines = self.take_parts();
            self.is_over = true;
        }
        self.begin_reply();
        lines
    }

    fn begin_reply(&mut self) {
        if std::mem::take(&mut self.is_over) {
            (self.reply, self.usage) = (self.reply + 1, None);
        }
    }

    fn part(&mut self, content: Value) -> Value {
        let message = json!({
            "id": format!("msg_{}", self.reply), "type": "message", "role": "assistant", "model": self.model,
            "content": [content], "stop_reason": null, "usage": counted(self.usage.as_ref().unwrap_or(&Usage::default())),
        });
        self.line(json!({"type": "assistant", "message": message, "parent_tool_use_id": null}))
    }

    fn line(&self, mut line: Value) -> Value {
        line["session_id"] = self.session.as_str().into();
        line["uuid"] = uuid::Uuid::new_v4().to_string().into();
        line
    }
}

/// Tokens as the Messages API of Anthropic counts them: the three parts of the input apart.
fn counted(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input.saturating_sub(usage.cached).saturating_sub(usage.written),
        "cache_creation_input_tokens": usage.written, "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    })
}

fn permission_mode(policy: &str) -> &'static str {
    match policy {
        "plan" => "plan",
        "auto" => "acceptEdits",
        "never" => "dontAsk",
        "yolo" => "bypassPermissions",
        _ => "default",
    }
}

const fn stop_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Stop | StopReason::Empty => "end_turn",
        StopReason::Length => "max_tokens",
        StopReason::ContentFilter => "refusal",
        StopReason::ToolRounds => "tool_use",
    }
}
