//! A log as JSON: every message of every kind, with everything that the store has of it.

use serde_json::{Value, json};

use super::Log;
use crate::domain::message::{Body, Message};

pub(super) fn of(log: &Log, unix_ms: i64) -> String {
    let messages: Vec<Value> = log.messages.iter().map(of_message).collect();
    let whole = json!({
        "agent": log.subject.identity, "exported_at": unix_ms, "messages": messages, "damaged": log.damaged,
    });
    format!("{whole:#}\n")
}

fn of_message(message: &Message) -> Value {
    let mut object = of_body(&message.body);
    object["id"] = message.id.0.into();
    object["kind"] = message.body.kind().into();
    object["created_at"] = message.created_at.into();
    object
}

fn of_body(body: &Body) -> Value {
    match body {
        Body::System(text)
        | Body::User(text)
        | Body::Mark(text)
        | Body::Replaced(text)
        | Body::Interrupted(text)
        | Body::Command(text)
        | Body::Error(text) => json!({"text": text}),
        Body::Assistant(reply) => json!({
            "text": reply.text, "thinking": reply.thinking, "is_partial": reply.is_partial, "by": reply.by,
        }),
        Body::ToolCall(call) => json!({"call_id": call.id, "name": call.name, "arguments": call.arguments}),
        Body::ToolResult(result) => json!({
            "call_id": result.call_id, "name": result.name, "text": result.readable_text(), "is_error": result.is_error,
            "seconds": result.duration.as_secs_f64(),
        }),
        // The id, without the name.
        Body::Fork(other) => json!({"text": other.split(' ').next()}),
        Body::Compaction(compaction) => json!({
            "from": compaction.from.0, "up_to": compaction.up_to.0, "messages": compaction.messages,
            "tokens_before": compaction.before, "tokens_after": compaction.after, "task": compaction.task,
            "request": compaction.request, "files": compaction.files, "text": compaction.summary,
        }),
        Body::Rewind(to) | Body::ClearUndone(to) | Body::CompactionUndone(to) => json!({"to": to.0}),
        Body::Usage(usage) => json!({
            "input": usage.input, "cached": usage.cached, "written": usage.written, "output": usage.output,
            "cost_billionths_usd": usage.cost,
        }),
        Body::Clear | Body::Exited | Body::AgentKilled => json!({}),
    }
}
