//! The rules of the Messages API, each as its error messages or its documentation have it.

use std::collections::HashSet;

use serde_json::Value;

type Rule = Result<(), &'static str>;

/// The first rule that the body breaks.
pub fn check(body: &[u8]) -> Result<(), String> {
    let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let messages = body["messages"].as_array().ok_or("no messages")?;
    head(&body).and_then(|()| tools(&body)).and_then(|()| marks(&body))?;
    let is_off = ["disabled", "between_tools"].iter().any(|off| body["thinking"]["type"] == *off);
    let mut walk = Walk { may_hold_thinking: !is_off, ..Walk::default() };
    for (index, message) in messages.iter().enumerate() {
        walk.step(message).map_err(|rule| format!("message {index}: {rule}: {message}"))?;
    }
    if walk.last_role != "user" {
        return Err("the conversation must end with a user message".into());
    }
    if !walk.seen.is_empty() && body.get("tools").is_none() {
        return Err("requests which include tool_use or tool_result blocks must define tools".into());
    }
    if body["thinking"]["type"] == "enabled" { Ok(begins_with_thinking(messages)?) } else { Ok(()) }
}

fn head(body: &Value) -> Rule {
    let max_tokens = body["max_tokens"].as_u64().filter(|tokens| *tokens > 0).ok_or("no max_tokens")?;
    if body["stream"] != true || body["model"].as_str().is_none_or(str::is_empty) {
        return Err("no model, or not streamed");
    }
    if ["temperature", "top_p", "top_k"].iter().any(|name| body.get(name).is_some()) {
        return Err("sampling is chosen, which thinking and newer models do not allow");
    }
    let texts = match body.get("system") {
        None => &[],
        Some(Value::Array(blocks)) if !blocks.is_empty() => blocks.as_slice(),
        Some(_) => return Err("the system prompt is no list of blocks"),
    };
    if !texts.iter().all(is_text) {
        return Err("a block of the system prompt without a word");
    }
    let thinking = &body["thinking"];
    match thinking["type"].as_str() {
        None if body.get("thinking").is_none() => {}
        Some("enabled") if !(1024..max_tokens).contains(&thinking["budget_tokens"].as_u64().unwrap_or(0)) => {
            return Err("a budget below 1024, or not below max_tokens");
        }
        Some("enabled" | "adaptive" | "disabled" | "between_tools") => {}
        _ => return Err("an unknown kind of thinking"),
    }
    generation(body["model"].as_str().unwrap_or_default(), thinking)?;
    let effort = body.get("output_config").map(|config| config["effort"].as_str().unwrap_or_default());
    let is_known = |effort| ["low", "medium", "high", "xhigh", "max"].contains(&effort);
    if effort.is_none_or(is_known) { Ok(()) } else { Err("an unknown effort") }
}

/// What newer models refuse of thinking, and what they require of it so that a history may change.
fn generation(model: &str, thinking: &Value) -> Rule {
    let is_one_of = |names: &[&str]| names.iter().any(|name| model.contains(name));
    let is_bound = is_one_of(&["opus-5-5", "sonnet-5-5", "haiku-5-5", "fable-5-1"]);
    match thinking["type"].as_str() {
        Some("disabled") if is_one_of(&["opus-5-5", "sonnet-5-5", "fable", "mythos"]) => {
            Err("thinking.type.disabled is not supported for this model")
        }
        Some("between_tools") if !is_one_of(&["sonnet-5-5"]) => Err("between_tools is of Sonnet 5.5"),
        Some("enabled") if is_bound => Err("thinking.type.enabled is not supported for this model"),
        Some("adaptive") if is_bound && thinking["block_binding"]["prefix_mismatch_behavior"] != "drop_block" => {
            Err("the block is bound to a different conversation, as soon as one is cut or steered")
        }
        _ if !is_bound && thinking.get("block_binding").is_some() => Err("a binding that the model does not know"),
        _ => Ok(()),
    }
}

fn tools(body: &Value) -> Rule {
    let choice = body.get("tool_choice").map(|choice| choice["type"].as_str().unwrap_or_default());
    let Some(tools) = body.get("tools") else {
        return if choice.is_none() { Ok(()) } else { Err("a choice of tools without tools") };
    };
    let tools = tools.as_array().filter(|tools| !tools.is_empty()).ok_or("an empty list of tools")?;
    let mut names = HashSet::new();
    for tool in tools {
        let name = tool["name"].as_str().filter(|name| is_name(name, 128)).ok_or("a tool's name that is refused")?;
        if !names.insert(name) {
            return Err("tool names must be unique");
        }
        if tool["input_schema"]["type"] != "object" {
            return Err("a schema that is no object's");
        }
    }
    match choice {
        None | Some("auto" | "none") => Ok(()),
        Some("any" | "tool") if body.get("thinking").is_none() => Ok(()),
        Some(_) => Err("thinking may not be enabled when tool_choice forces tool use"),
    }
}

/// Where the cached prefix may end.
fn marks(body: &Value) -> Rule {
    let lists = ["tools", "system"].iter().filter_map(|name| body[*name].as_array());
    let contents = body["messages"].as_array().into_iter().flatten().filter_map(|row| row["content"].as_array());
    let blocks = lists.chain(contents).flatten();
    let marked: Vec<&Value> = blocks.filter(|block| block.get("cache_control").is_some()).collect();
    if marked.len() > 4 {
        return Err("a maximum of 4 blocks with cache_control may be provided");
    }
    let is_wrong =
        |block: &&Value| block["cache_control"]["type"] != "ephemeral" || is_thinking(&block["type"]).is_some();
    if marked.iter().any(is_wrong) { Err("cache_control on thinking, or of an unknown kind") } else { Ok(()) }
}

/// "When thinking is enabled, a final assistant message must start with a thinking block (preceding the lastmost set of
/// tool_use and tool_result blocks)": that is the first reply since the user's last message.
fn begins_with_thinking(messages: &[Value]) -> Rule {
    let is_result = |block: &Value| block["type"] == "tool_result";
    let blocks = |message: &Value| message["content"].as_array().cloned().unwrap_or_default();
    let Some((last, before)) = messages.split_last() else { return Ok(()) };
    if !blocks(last).iter().any(is_result) {
        return Ok(());
    }
    let rounds = before.iter().rev().take_while(|row| row["role"] == "assistant" || blocks(row).iter().all(is_result));
    let first = rounds.filter(|row| row["role"] == "assistant").last().expect("a result follows a reply");
    match is_thinking(&first["content"][0]["type"]) {
        Some(_) => Ok(()),
        None => Err("thinking is enabled in the middle of rounds that began without"),
    }
}

#[derive(Default)]
struct Walk {
    last_role: String,
    may_hold_thinking: bool,
    /// Calls of the reply before, which the next message must answer.
    open: HashSet<String>,
    seen: HashSet<String>,
}

impl Walk {
    fn step(&mut self, message: &Value) -> Rule {
        let role = message["role"].as_str().ok_or("no role")?;
        let blocks = message["content"].as_array().filter(|blocks| !blocks.is_empty()).ok_or("no content")?;
        match (self.last_role.as_str(), role) {
            ("" | "assistant", "user") => self.user(blocks)?,
            ("user", "assistant") => self.reply(blocks)?,
            _ => return Err("roles must alternate, beginning with the user"),
        }
        self.last_role = role.to_owned();
        Ok(())
    }

    fn user(&mut self, blocks: &[Value]) -> Rule {
        let mut has_text = false;
        for block in blocks {
            match block["type"].as_str() {
                Some("text") if is_text(block) => has_text = true,
                Some("image" | "document") if block["source"]["type"] == "base64" => has_text = true,
                Some("tool_result") if has_text => return Err("tool_result blocks must come first"),
                Some("tool_result") => self.result(block)?,
                _ => return Err("text content blocks must be non-empty, or a block that no user has"),
            }
        }
        match self.open.is_empty() {
            true => Ok(()),
            false => Err("tool_use ids were found without tool_result blocks immediately after"),
        }
    }

    fn result(&mut self, block: &Value) -> Rule {
        let id = block["tool_use_id"].as_str().unwrap_or_default();
        if !self.open.remove(id) {
            return Err("each tool_result block must have a corresponding tool_use block in the previous message");
        }
        match (block.get("content"), block.get("is_error")) {
            (None | Some(Value::String(_)), None | Some(Value::Bool(_))) => Ok(()),
            (Some(Value::Array(blocks)), None | Some(Value::Bool(_))) if blocks.iter().all(is_part) => Ok(()),
            _ => Err("a result that is no text"),
        }
    }

    fn reply(&mut self, blocks: &[Value]) -> Rule {
        for block in blocks {
            match block["type"].as_str() {
                Some("text") if is_text(block) => {}
                Some("tool_use") => self.call(block)?,
                Some("thinking" | "redacted_thinking") if !self.may_hold_thinking => {
                    return Err("thinking is disabled, and sent");
                }
                Some("thinking") if block["thinking"].is_string() && !is_blank(&block["signature"]) => {}
                Some("redacted_thinking") if !is_blank(&block["data"]) => {}
                _ => return Err("text content blocks must be non-empty, or a block that no reply has"),
            }
        }
        match blocks.last().and_then(|block| is_thinking(&block["type"])) {
            Some(_) => Err("the final block in an assistant message cannot be thinking"),
            None => Ok(()),
        }
    }

    fn call(&mut self, block: &Value) -> Rule {
        let id = block["id"].as_str().filter(|id| is_name(id, usize::MAX)).ok_or("an id that is refused")?;
        if !block["name"].as_str().is_some_and(|name| is_name(name, 200)) {
            return Err("a name that is refused");
        }
        if !block["input"].is_object() {
            return Err("input should be an object");
        }
        self.open.insert(id.to_owned());
        if self.seen.insert(id.to_owned()) { Ok(()) } else { Err("tool_use ids must be unique") }
    }
}

/// What a result may consist of.
fn is_part(block: &Value) -> bool {
    match block["type"].as_str() {
        Some("text") => is_text(block),
        Some("image") => block["source"]["type"] == "base64",
        _ => false,
    }
}

fn is_thinking(kind: &Value) -> Option<()> {
    matches!(kind.as_str(), Some("thinking" | "redacted_thinking")).then_some(())
}

fn is_text(block: &Value) -> bool {
    block["type"] == "text" && !is_blank(&block["text"])
}

fn is_blank(text: &Value) -> bool {
    text.as_str().is_none_or(|text| text.trim().is_empty())
}

fn is_name(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A conversation with everything in it.
    fn good() -> Value {
        let mark = json!({"type": "ephemeral"});
        json!({
            "model": "m", "max_tokens": 9000, "stream": true,
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "tools": [{"name": "f", "input_schema": {"type": "object"}}],
            "system": [{"type": "text", "text": "be brief", "cache_control": mark}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "", "signature": "c2ln"},
                    {"type": "redacted_thinking", "data": "eA=="},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                    {"type": "tool_use", "id": "b", "name": "f", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a"},
                    {"type": "tool_result", "tool_use_id": "b", "content": "x", "is_error": true, "cache_control": mark},
                    {"type": "text", "text": "and?"},
                ]},
            ],
        })
    }

    fn refused(pointer: &str, value: Value) {
        let mut body = good();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let target = body.pointer_mut(parent).unwrap();
        match (target, value) {
            (Value::Object(fields), Value::Null) => drop(fields.remove(name)),
            (Value::Object(fields), value) => drop(fields.insert(name.into(), value)),
            (Value::Array(list), Value::Null) => drop(list.remove(name.parse().unwrap())),
            (Value::Array(list), value) => list.insert(name.parse().unwrap(), value),
            _ => panic!("{pointer}"),
        }
        assert!(check(body.to_string().as_bytes()).is_err(), "{pointer}: {body:#}");
    }

    #[test]
    fn the_checker_takes_what_the_api_takes() {
        assert_eq!(check(good().to_string().as_bytes()), Ok(()));
    }

    #[test]
    fn the_checker_refuses_each_broken_rule() {
        let text = json!({"type": "text", "text": "x"});
        let marked = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
        let thought = json!({"type": "thinking", "thinking": "x", "signature": "c2ln"});
        let call = json!({"type": "tool_use", "id": "a", "name": "f", "input": {}});
        let broken = [
            ("/max_tokens", Value::Null),
            ("/max_tokens", json!(1024)),
            ("/temperature", json!(1)),
            ("/thinking/budget_tokens", json!(1023)),
            ("/thinking/type", json!("disabled")),
            ("/output_config", json!({"effort": "some"})),
            ("/tools", Value::Null),
            ("/tools", json!([])),
            ("/tools/0", json!({"name": "f", "input_schema": {"type": "object"}})),
            ("/tools/0/input_schema", json!({})),
            ("/tool_choice", json!({"type": "any"})),
            ("/system/0/text", json!(" ")),
            ("/system", json!([marked, marked, marked, marked])),
            ("/messages", json!([])),
            ("/messages/0", Value::Null),
            ("/messages/2", Value::Null),
            ("/messages/1", Value::Null),
            ("/messages/0", json!({"role": "user", "content": [text]})),
            ("/messages/3", json!({"role": "assistant", "content": [text]})),
            ("/messages/0/content/0/text", json!("")),
            ("/messages/0/content", json!([])),
            ("/messages/1/content/0", text.clone()),
            ("/messages/1/content/0/signature", json!("")),
            ("/messages/1/content/0/cache_control", json!({"type": "ephemeral"})),
            ("/messages/1/content/1/data", Value::Null),
            ("/messages/1/content/5", thought),
            ("/messages/1/content/2/text", json!("\n")),
            ("/messages/1/content/3/id", json!("b")),
            ("/messages/1/content/3/id", json!("a.1")),
            ("/messages/1/content/3/name", json!("")),
            ("/messages/1/content/3/input", json!("{}")),
            ("/messages/1/content/3", Value::Null),
            ("/messages/1/content/3", call),
            ("/messages/2/content/0", Value::Null),
            ("/messages/2/content/0", text),
            ("/messages/2/content/0/tool_use_id", json!("c")),
            ("/messages/2/content/1/content", json!(7)),
        ];
        for (pointer, value) in broken {
            refused(pointer, value);
        }
    }
}
