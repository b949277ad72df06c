//! What an OpenAI-compatible server says while it streams a chat completion.
//!
//! The shapes are those of the Chat Completions streaming reference (`chat.completion.chunk`);
//! `reasoning_content` is the field in which DeepSeek, vLLM and others send thinking.

use serde_json::{Value, json};

/// The last event of a stream.
pub const DONE: &str = "data: [DONE]\n\n";

/// One server-sent event that holds `data`.
pub fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// The opening chunk: a role and no text.
pub fn role() -> Value {
    delta(json!({"role": "assistant", "content": ""}))
}

/// A piece of the reply's text.
pub fn text(piece: &str) -> Value {
    delta(json!({"content": piece}))
}

/// A piece of what the model thinks before it answers.
pub fn thinking(piece: &str) -> Value {
    delta(json!({"reasoning_content": piece}))
}

/// The beginning of a tool call, or all of it.
pub fn tool_call(index: usize, id: &str, name: &str, arguments: &str) -> Value {
    let function = json!({"name": name, "arguments": arguments});
    delta(json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}))
}

/// More of the arguments of the tool call that began under `index`.
pub fn tool_arguments(index: usize, piece: &str) -> Value {
    delta(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
}

/// Why the reply ended: `stop`, `tool_calls`, `length`, ...
pub fn finish(reason: &str) -> Value {
    chunk(json!([{"index": 0, "delta": {}, "finish_reason": reason}]))
}

/// The chunk without choices that tells what the exchange cost, in tokens.
pub fn usage(prompt: u64, completion: u64) -> Value {
    let mut chunk = chunk(json!([]));
    chunk["usage"] =
        json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion});
    chunk
}

/// The body of an answer that is an error.
pub fn error(kind: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": kind}})
}

/// The text of the newest message from the user in the body of a request, empty if there is none.
pub fn last_user_text(body: &Value) -> String {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(newest) = messages.iter().rfind(|message| message["role"] == "user") else { return String::new() };
    match &newest["content"] {
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        content => content.as_str().unwrap_or_default().to_owned(),
    }
}

fn delta(delta: Value) -> Value {
    chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]))
}

fn chunk(choices: Value) -> Value {
    json!({
        "id": "chatcmpl-scripted",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "scripted",
        "choices": choices,
    })
}
