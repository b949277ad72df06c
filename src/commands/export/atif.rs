//! A log in the Agent Trajectory Interchange Format, version 1.8 (RFC 0001 of the Harbor framework, harborframework.com), with
//! those of the agents that it has forked.
//!
//! A reply with its calls, their results and its usage is one step. What was inherited is marked as copied. What is no part of
//! the conversation, such as the output of commands of the chat, is left out.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Log, fork_of};
use crate::base::clock::utc_time;
use crate::base::text::as_dollars;
use crate::domain::attachment::readable_text;
use crate::domain::message::{Body, Message, replaced_mark};
use crate::domain::stream::Usage;
use crate::domain::tool::{ToolCall, ToolResult};

const VERSION: &str = "ATIF-v1.8";

/// `None` without a step: the format needs one. The cost of the whole includes that of the forks, as the format asks.
pub(super) fn of(log: &Log, forks: &[Log]) -> Option<Value> {
    let own = own_usage(log);
    let forks: Vec<(&Log, Usage)> = forks.iter().map(|fork| (fork, own_usage(fork))).collect();
    let mut all = own.clone();
    forks.iter().for_each(|(_, usage)| all.add(usage));
    let mut trajectory = trajectory(log, &Usage { cost: all.cost, ..own })?;
    trajectory["session_id"] = trajectory["trajectory_id"].clone();
    let forks: Vec<Value> = forks.iter().filter_map(|(fork, usage)| self::trajectory(fork, usage)).collect();
    if !forks.is_empty() {
        trajectory["subagent_trajectories"] = forks.into();
    }
    Some(trajectory)
}

fn trajectory(log: &Log, usage: &Usage) -> Option<Value> {
    let mut steps = Steps::default();
    log.messages.iter().for_each(|message| steps.add(message, log.is_inherited(message)));
    let count = Some(steps.steps.len()).filter(|count| *count > 0)?;
    let mut whole = json!({
        "schema_version": VERSION,
        "trajectory_id": log.subject.id.to_string(),
        "agent": {
            "name": "polylogue", "version": env!("CARGO_PKG_VERSION"), "model_name": log.subject.model,
            "extra": {"label": log.subject.label},
        },
        "steps": steps.steps,
        "final_metrics": {
            "total_prompt_tokens": usage.input, "total_cached_tokens": usage.cached,
            "total_completion_tokens": usage.output, "total_cost_usd": usage.cost.map(as_dollars),
            "total_steps": count,
        },
    });
    if !log.damaged.is_empty() {
        whole["notes"] = log.damaged.join("\n").into();
    }
    Some(whole)
}

/// Of the requests of the agent itself.
fn own_usage(log: &Log) -> Usage {
    let mut sum = Usage::default();
    for message in log.messages.iter().filter(|message| !log.is_inherited(message)) {
        if let Body::Usage(usage) = &message.body {
            sum.add(usage);
        }
    }
    sum
}

#[derive(Default)]
struct Steps {
    steps: Vec<Value>,
    /// The step of the reply that calls and usage are added to.
    reply: Option<usize>,
    /// The step of each call, by id.
    calls: BTreeMap<String, usize>,
}

impl Steps {
    fn add(&mut self, message: &Message, is_copied: bool) {
        let text = match &message.body {
            Body::User(text) => {
                self.push("user", &readable_text(text), message, is_copied);
                return;
            }
            Body::Assistant(reply) => {
                let at = self.push("agent", &reply.text, message, is_copied);
                if !reply.thinking.is_empty() {
                    self.steps[at]["reasoning_content"] = reply.thinking.as_str().into();
                }
                if !reply.by.is_empty() {
                    self.steps[at]["model_name"] = reply.by.as_str().into();
                }
                if reply.is_partial {
                    self.steps[at]["extra"] = json!({"is_partial": true});
                }
                return;
            }
            Body::ToolCall(call) => return self.add_call(call, message, is_copied),
            Body::ToolResult(result) => return self.add_result(result, message, is_copied),
            Body::Usage(usage) => return self.add_usage(usage),
            Body::Command(_) | Body::Mark(_) => return,
            Body::System(text) | Body::Error(text) => text.clone(),
            Body::Compaction(compaction) => format!("{}\n\n{}", compaction.note(), compaction.text()),
            Body::Replaced(why) => replaced_mark(why),
            mark => mark.mark_text().unwrap_or_default(),
        };
        // A fork within a reply leaves its step open.
        let (reply, fork) = (self.reply, fork_of(message).filter(|_| !is_copied));
        let at = self.push("system", &text, message, is_copied);
        if let Some(fork) = fork {
            let refers = json!([{"subagent_trajectory_ref": [{"trajectory_id": fork.to_string()}]}]);
            self.steps[at]["observation"] = json!({"results": refers});
            self.reply = reply;
        }
    }

    /// Adds a step. Returns its index.
    fn push(&mut self, source: &str, text: &str, message: &Message, is_copied: bool) -> usize {
        let at = self.steps.len();
        let mut step =
            json!({"step_id": at + 1, "timestamp": utc_time(message.created_at), "source": source, "message": text});
        if is_copied {
            step["is_copied_context"] = true.into();
        }
        self.steps.push(step);
        self.reply = (source == "agent").then_some(at);
        at
    }

    fn add_call(&mut self, call: &ToolCall, message: &Message, is_copied: bool) {
        // The calls of a reply follow it directly.
        let at = match self.reply.filter(|at| self.steps[*at]["observation"].is_null()) {
            Some(at) => at,
            None => self.push("agent", "", message, is_copied),
        };
        let arguments = serde_json::from_str::<Map<String, Value>>(&call.arguments);
        let arguments = arguments.unwrap_or_else(|_| Map::from_iter([("text".into(), call.arguments.clone().into())]));
        let call_object = json!({"tool_call_id": call.id, "function_name": call.name, "arguments": arguments});
        extend(&mut self.steps[at]["tool_calls"], call_object);
        self.calls.insert(call.id.clone(), at);
    }

    fn add_result(&mut self, result: &ToolResult, message: &Message, is_copied: bool) {
        let extra = json!({"is_error": result.is_error, "seconds": result.duration.as_secs_f64()});
        let mut object = json!({"content": result.readable_text(), "extra": extra});
        let at = match self.calls.get(&result.call_id) {
            Some(at) => {
                object["source_call_id"] = result.call_id.as_str().into();
                *at
            }
            None => self.push("system", &result.name, message, is_copied),
        };
        extend(&mut self.steps[at]["observation"]["results"], object);
    }

    /// The usage of a request without a reply counts in the sum alone.
    fn add_usage(&mut self, usage: &Usage) {
        let Some(step) = self.reply.map(|at| &mut self.steps[at]).filter(|step| step["metrics"].is_null()) else {
            return;
        };
        step["metrics"] = json!({
            "prompt_tokens": usage.input, "cached_tokens": usage.cached, "completion_tokens": usage.output,
            "cost_usd": usage.cost.map(as_dollars), "extra": {"written_tokens": usage.written},
        });
        if step["model_name"].is_null() && !usage.model.is_empty() {
            step["model_name"] = usage.model.as_str().into();
        }
    }
}

/// Adds a value to a list, which is made by the first.
fn extend(list: &mut Value, value: Value) {
    match list {
        Value::Array(list) => list.push(value),
        none => *none = json!([value]),
    }
}
