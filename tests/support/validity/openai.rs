//! The rules of Chat Completions, as the strictest servers keep them.

use std::collections::HashSet;

use serde_json::Value;

/// The first rule that the body breaks.
pub fn check(body: &[u8]) -> Result<(), String> {
    let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let rows = body["messages"].as_array().ok_or("no messages")?;
    if body["stream"] != true || body["model"].as_str().is_none_or(str::is_empty) {
        return Err("no model, or not streamed".into());
    }
    if body.get("tools").is_some_and(|tools| tools.as_array().is_none_or(Vec::is_empty)) {
        return Err("an empty list of tools".into());
    }
    let (model, effort) = (body["model"].as_str().unwrap_or_default(), body["reasoning_effort"].as_str());
    check_effort(model, effort)?;
    let is_newer = ["gpt-5.4", "gpt-5.5", "gpt-5.6", "gpt-6"].iter().any(|family| model.starts_with(family));
    if is_newer && body.get("tools").is_some() && effort != Some("none") {
        return Err("function tools with reasoning_effort are not supported for this model".into());
    }
    let mut walk = Walk::default();
    for (index, row) in rows.iter().enumerate() {
        walk.step(index, row).map_err(|rule| format!("message {index}: {rule}: {row}"))?;
    }
    match walk.open.is_empty() && walk.has_user {
        true => Ok(()),
        false => Err("calls without results at the end, or no message".into()),
    }
}

/// "Unsupported value: 'none' is not supported with the 'gpt-5' model": each generation has messages of its own.
pub fn check_effort(model: &str, effort: Option<&str>) -> Result<(), String> {
    let is_first = model == "gpt-5" || model.starts_with("gpt-5-");
    match effort {
        None | Some("low" | "medium" | "high") => Ok(()),
        Some("minimal") if is_first => Ok(()),
        Some("none") if !is_first && !["o1", "o3", "o4"].iter().any(|family| model.starts_with(family)) => Ok(()),
        // Servers of others have efforts of their own.
        Some(_) if !["gpt-", "o1", "o3", "o4"].iter().any(|family| model.starts_with(family)) => Ok(()),
        Some(effort) => Err(format!("{effort} is not supported with {model}")),
    }
}

#[derive(Default)]
struct Walk<'a> {
    last_role: &'a str,
    has_user: bool,
    /// Calls that wait for their results, in order.
    open: Vec<&'a str>,
    seen: HashSet<&'a str>,
}

impl<'a> Walk<'a> {
    fn step(&mut self, index: usize, row: &'a Value) -> Result<(), &'static str> {
        let role = row["role"].as_str().ok_or("no role")?;
        if role != "tool" && !self.open.is_empty() {
            return Err("a call before it has no result");
        }
        match role {
            "system" if index == 0 => {}
            "system" => return Err("system is not first"),
            "user" if self.last_role == "user" => return Err("two user messages in a row"),
            "user" => self.has_user = true,
            "assistant" if !self.has_user => return Err("a reply before any user message"),
            "assistant" if self.last_role == "assistant" => return Err("two replies in a row"),
            "assistant" => self.reply(row)?,
            "tool" => self.result(row)?,
            _ => return Err("an unknown role"),
        }
        if role == "user" && row["content"].as_array().is_some_and(|parts| parts.iter().all(is_part)) {
            self.last_role = role;
            return Ok(());
        }
        if role != "assistant" && row["content"].as_str().is_none_or(|text| role != "tool" && text.trim().is_empty()) {
            return Err("no content");
        }
        self.last_role = role;
        Ok(())
    }

    fn reply(&mut self, row: &'a Value) -> Result<(), &'static str> {
        let calls = row.get("tool_calls").map(|calls| calls.as_array().filter(|calls| !calls.is_empty()));
        let calls =
            calls.map_or(Ok([].as_slice()), |calls| calls.map(Vec::as_slice).ok_or("an empty list of calls"))?;
        if calls.is_empty() && row["content"].as_str().is_none_or(|text| text.trim().is_empty()) {
            return Err("an empty reply");
        }
        for call in calls {
            let id = call["id"].as_str().filter(|id| is_name(id, 40)).ok_or("an id that OpenAI refuses")?;
            if !self.seen.insert(id) {
                return Err("an id that was used before");
            }
            if call["type"] != "function" || !call["function"]["name"].as_str().is_some_and(|name| is_name(name, 64)) {
                return Err("a name that OpenAI refuses");
            }
            let arguments = call["function"]["arguments"].as_str().ok_or("arguments are no text")?;
            if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
                return Err("arguments are no object");
            }
            self.open.push(id);
        }
        Ok(())
    }

    fn result(&mut self, row: &'a Value) -> Result<(), &'static str> {
        if self.open.is_empty() || row["tool_call_id"] != self.open[0] {
            return Err("a result that answers no call, or out of order");
        }
        self.open.remove(0);
        Ok(())
    }
}

/// A part of a message with files.
fn is_part(part: &Value) -> bool {
    match part["type"].as_str() {
        Some("text") => part["text"].as_str().is_some_and(|text| !text.trim().is_empty()),
        Some("image_url") => part["image_url"]["url"].as_str().is_some_and(|url| url.starts_with("data:image/")),
        Some("file") => part["file"]["filename"].is_string() && part["file"]["file_data"].is_string(),
        _ => false,
    }
}

fn is_name(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[test]
fn the_checker_refuses_each_broken_rule() {
    let user = r#"{"role":"user","content":"hi"}"#;
    let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    let result = r#"{"role":"tool","content":"","tool_call_id":"a"}"#;
    let reply = r#"{"role":"assistant","content":"yes"}"#;
    let system = r#"{"role":"system","content":"be brief"}"#;
    let body = |rows: &[&str]| format!(r#"{{"model":"m","stream":true,"messages":[{}]}}"#, rows.join(","));
    assert_eq!(check(body(&[system, user, call, result, reply, user]).as_bytes()), Ok(()));
    let broken: [&[&str]; 8] = [
        &[],
        &[user, system],
        &[user, user],
        &[system, reply],
        &[user, reply, reply],
        &[user, call],
        &[user, call, user],
        &[user, call, result, result],
    ];
    for rows in broken {
        assert!(check(body(rows).as_bytes()).is_err(), "{rows:?}");
    }
    assert!(check(body(&[user, call, result, call, result]).as_bytes()).is_err(), "an id is used twice");
}
