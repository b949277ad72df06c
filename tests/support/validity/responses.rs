//! The rules of Responses, for a conversation that is kept nowhere but in the request.

use std::collections::HashSet;

use serde_json::Value;

use super::openai::check_effort;

/// The first rule that the body breaks.
pub fn check(body: &[u8]) -> Result<(), String> {
    let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    settings(&body)?;
    check_effort(body["model"].as_str().unwrap_or_default(), body["reasoning"]["effort"].as_str())?;
    let items = body["input"].as_array().ok_or("no input")?;
    let mut walk = Walk::default();
    for (index, item) in items.iter().enumerate() {
        walk.step(item).map_err(|rule| format!("item {index}: {rule}: {item}"))?;
    }
    match walk {
        Walk { open, .. } if !open.is_empty() => Err("calls without results at the end".into()),
        Walk { is_thinking: true, .. } => Err("reasoning at the end".into()),
        Walk { has_user: false, .. } => Err("no message".into()),
        _ => Ok(()),
    }
}

/// Everything besides the items.
fn settings(body: &Value) -> Result<(), String> {
    if body["stream"] != true || body["model"].as_str().is_none_or(str::is_empty) {
        return Err("no model, or not streamed".into());
    }
    if body["store"] != false {
        return Err("the provider would store it".into());
    }
    if body.get("instructions").is_some_and(|text| text.as_str().is_none_or(|text| text.trim().is_empty())) {
        return Err("empty instructions".into());
    }
    if body.get("tools").is_some_and(|tools| tools.as_array().is_none_or(|tools| !are_tools(tools))) {
        return Err("an empty list of tools, or a tool in another protocol's form".into());
    }
    let effort = body["reasoning"]["effort"].as_str();
    match body.get("reasoning").is_none() || matches!(effort, Some("none" | "minimal" | "low" | "medium" | "high")) {
        true => Ok(()),
        false => Err("reasoning of no known effort".into()),
    }
}

fn are_tools(tools: &[Value]) -> bool {
    let is_tool = |tool: &Value| {
        let has_name = tool["name"].as_str().is_some_and(|name| is_name(name, 64));
        tool["type"] == "function" && has_name && tool["parameters"].is_object() && tool["strict"] == false
    };
    !tools.is_empty() && tools.iter().all(is_tool)
}

#[derive(Default)]
struct Walk<'a> {
    has_user: bool,
    /// The item before was a person's.
    is_after_user: bool,
    /// The item before was reasoning.
    is_thinking: bool,
    /// Results have begun: what is open is answered before the model speaks again.
    is_answering: bool,
    /// Calls that wait for their results, in order.
    open: Vec<&'a str>,
    seen: HashSet<&'a str>,
}

impl<'a> Walk<'a> {
    fn step(&mut self, item: &'a Value) -> Result<(), &'static str> {
        let kind = (item["type"].as_str().ok_or("no type")?, item["role"].as_str().unwrap_or_default());
        let is_model = !matches!(kind, ("message", "user") | ("function_call_output", _));
        if is_model && !self.has_user {
            return Err("a reply before any user message");
        }
        if self.is_thinking && !is_model {
            return Err("the reasoning before it is not followed by what it belongs to");
        }
        if self.is_answering && is_model && !self.open.is_empty() {
            return Err("a call before it has no result");
        }
        match kind {
            ("message", "user") => self.person(item)?,
            ("message", "assistant") => check_output_text(item)?,
            ("function_call", _) => self.call(item)?,
            ("function_call_output", _) => self.result(item)?,
            ("reasoning", _) => self.reasoning(item)?,
            _ => return Err("an unknown kind of item"),
        }
        self.is_after_user = kind == ("message", "user");
        self.is_thinking = kind.0 == "reasoning";
        self.is_answering = kind.0 == "function_call_output";
        Ok(())
    }

    fn person(&mut self, item: &Value) -> Result<(), &'static str> {
        if item.get("phase").is_some() {
            return Err("a person has no phase");
        }
        if self.is_after_user {
            return Err("two messages of a person in a row");
        }
        if !self.open.is_empty() {
            return Err("a call before it has no result");
        }
        self.has_user = true;
        text_of(item, "input_text")
    }

    fn call(&mut self, item: &'a Value) -> Result<(), &'static str> {
        let id = item["call_id"].as_str().filter(|id| is_name(id, 64)).ok_or("an id that OpenAI refuses")?;
        if !self.seen.insert(id) {
            return Err("an id that was used before");
        }
        if !item["name"].as_str().is_some_and(|name| is_name(name, 64)) {
            return Err("a name that OpenAI refuses");
        }
        let arguments = item["arguments"].as_str().ok_or("arguments are no text")?;
        if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
            return Err("arguments are no object");
        }
        self.open.push(id);
        Ok(())
    }

    fn result(&mut self, item: &Value) -> Result<(), &'static str> {
        let answers = self.open.iter().position(|id| item["call_id"] == *id);
        self.open.remove(answers.ok_or("a result that answers no call")?);
        let is_part = |part: &Value| is_file(part) || part["type"] == "input_text" && part["text"].is_string();
        let is_fine = match &item["output"] {
            Value::Array(parts) => !parts.is_empty() && parts.iter().all(is_part),
            output => output.is_string(),
        };
        if is_fine { Ok(()) } else { Err("a result without text") }
    }

    /// It goes back with its summary, be it empty, and with what it says to the model; not with its status.
    fn reasoning(&mut self, item: &'a Value) -> Result<(), &'static str> {
        let is_sealed = item["encrypted_content"].is_string() || item["content"].is_array();
        if !item["summary"].is_array() || !is_sealed || item.get("status").is_some() {
            return Err("reasoning that OpenAI refuses");
        }
        match item["id"].as_str().is_none_or(|id| self.seen.insert(id)) {
            true => Ok(()),
            false => Err("the same reasoning twice"),
        }
    }
}

fn check_output_text(item: &Value) -> Result<(), &'static str> {
    match item.get("phase").is_none_or(|phase| phase == "commentary" || phase == "final_answer") {
        true => text_of(item, "output_text"),
        false => Err("a phase that OpenAI does not know"),
    }
}

fn text_of(item: &Value, kind: &str) -> Result<(), &'static str> {
    let parts = item["content"].as_array().ok_or("no parts")?;
    let parts: Vec<&Value> = parts.iter().filter(|part| !is_file(part)).collect();
    let has_text = |part: &Value| part["text"].as_str().is_some_and(|text| !text.trim().is_empty());
    match !parts.is_empty() && parts.iter().all(|part| part["type"] == kind && has_text(part)) {
        true => Ok(()),
        false => Err("an empty text, or one of the wrong side"),
    }
}

/// An image or a file of the user.
fn is_file(part: &Value) -> bool {
    part["type"] == "input_image" && part["image_url"].is_string()
        || part["type"] == "input_file" && part["file_data"].is_string()
}

fn is_name(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::check;

    const USER: &str = r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}"#;
    const REPLY: &str = r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"yes"}]}"#;
    const CALL: &str = r#"{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}"#;
    const RESULT: &str = r#"{"type":"function_call_output","call_id":"a","output":""}"#;
    const THOUGHT: &str = r#"{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"x"}"#;

    fn with(settings: &str, items: &[&str]) -> Result<(), String> {
        let items = items.join(",");
        check(format!(r#"{{"model":"m","stream":true,"store":false,{settings}"input":[{items}]}}"#).as_bytes())
    }

    #[test]
    fn a_conversation_with_everything_in_it_is_valid() {
        let tools = r#""instructions":"be brief","reasoning":{"effort":"low"},"tools":[{"type":"function","name":"f","parameters":{},"strict":false}],"#;
        let second = (CALL.replace("\"a\"", "\"b\""), RESULT.replace("\"a\"", "\"b\""));
        let items = [USER, THOUGHT, REPLY, CALL, &second.0, RESULT, &second.1, REPLY, USER];
        assert_eq!(with(tools, &items), Ok(()));
    }

    #[test]
    fn each_broken_rule_is_refused() {
        let broken: [(&[&str], &str); 15] = [
            (&[], "no message"),
            (&[REPLY, USER], "before any user message"),
            (&[USER, USER], "in a row"),
            (&[USER, CALL], "without results"),
            (&[USER, CALL, USER], "has no result"),
            (&[USER, CALL, RESULT, RESULT], "answers no call"),
            (&[USER, RESULT], "answers no call"),
            (&[USER, CALL, RESULT, CALL, RESULT], "used before"),
            (&[USER, THOUGHT], "reasoning at the end"),
            (&[USER, THOUGHT, USER], "not followed"),
            (&[USER, CALL, THOUGHT, RESULT], "not followed"),
            (&[USER, THOUGHT, REPLY, THOUGHT, REPLY], "twice"),
            (&[USER, r#"{"type":"reasoning","id":"rs","summary":[]}"#, REPLY], "refuses"),
            (&[r#"{"type":"message","role":"user","content":[{"type":"output_text","text":"hi"}]}"#], "wrong side"),
            (
                &[USER, r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":" "}]}"#],
                "empty",
            ),
        ];
        for (items, rule) in broken {
            let found = with("", items).expect_err(rule);
            assert!(found.contains(rule), "{found:?} is not {rule:?}");
        }
        for settings in [
            r#""tools":[],"#,
            r#""tools":[{"type":"function","function":{"name":"f"}}],"#,
            r#""instructions":" ","#,
            r#""reasoning":{"effort":"some"},"#,
            r#""reasoning":{},"#,
        ] {
            assert!(with(settings, &[USER]).is_err(), "{settings}");
        }
        assert!(check(br#"{"model":"m","stream":true,"input":[]}"#).unwrap_err().contains("store"));
    }

    #[test]
    fn all_calls_are_answered_before_the_model_speaks_again() {
        let second = CALL.replace("\"a\"", "\"b\"");
        let found = with("", &[USER, CALL, &second, RESULT, REPLY]).unwrap_err();
        assert!(found.contains("has no result"), "{found}");
    }
}
