//! The rules of `streamGenerateContent`, as the strictest models keep them.

use std::collections::HashSet;

use serde_json::Value;

/// The first rule that the body breaks.
pub fn check(body: &[u8]) -> Result<(), String> {
    let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let known = ["systemInstruction", "contents", "tools", "toolConfig", "generationConfig"];
    let fields = body.as_object().ok_or("no object")?;
    if let Some(unknown) = fields.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("an unknown field {unknown}"));
    }
    let contents = body["contents"].as_array().ok_or("no contents")?;
    let mut walk = Walk::default();
    for (index, content) in contents.iter().enumerate() {
        walk.step(content).map_err(|rule| format!("content {index}: {rule}: {content}"))?;
    }
    if walk.last != Last::Person && walk.last != Last::Answers {
        return Err("a conversation ends with what the model is to answer".into());
    }
    let system = body.get("systemInstruction").map(|system| &system["parts"][0]["text"]);
    if system.is_some_and(|text| text.as_str().is_none_or(|text| text.trim().is_empty())) {
        return Err("an empty system instruction".into());
    }
    tools(&body)?;
    thinking(&body["generationConfig"]["thinkingConfig"]).map_err(str::to_owned)
}

/// A mode says something about declarations; without any it is refused.
fn tools(body: &Value) -> Result<(), String> {
    let Some(tools) = body.get("tools") else {
        return if body.get("toolConfig").is_none() { Ok(()) } else { Err("a mode without declarations".into()) };
    };
    let declarations = tools[0]["functionDeclarations"].as_array().filter(|list| !list.is_empty());
    for declaration in declarations.ok_or("an empty list of tools")? {
        let has_name = declaration["name"].as_str().is_some_and(is_name);
        let has_description = declaration["description"].as_str().is_some_and(|text| !text.is_empty());
        let is_object = declaration.get("parametersJsonSchema").is_none_or(|schema| schema["type"] == "object");
        if !has_name || !has_description || !is_object {
            return Err(format!("a declaration that is refused: {declaration}"));
        }
    }
    Ok(())
}

fn thinking(config: &Value) -> Result<(), &'static str> {
    match (config.get("thinkingBudget"), config.get("thinkingLevel")) {
        (Some(_), Some(_)) => Err("a budget and a level"),
        (Some(budget), None) if budget.as_i64().is_none_or(|tokens| tokens < -1) => Err("no budget"),
        (None, Some(level)) if !["minimal", "low", "medium", "high"].iter().any(|known| level == known) => {
            Err("an unknown level")
        }
        _ => Ok(()),
    }
}

/// What the content before was.
#[derive(Default, PartialEq, Eq)]
enum Last {
    #[default]
    Nothing,
    Person,
    Model,
    Answers,
}

#[derive(Default)]
struct Walk<'a> {
    last: Last,
    /// Identifier and name of the calls that wait for their answers, in order.
    open: Vec<(&'a str, &'a str)>,
    seen: HashSet<&'a str>,
}

impl<'a> Walk<'a> {
    fn step(&mut self, content: &'a Value) -> Result<(), &'static str> {
        let parts = content["parts"].as_array().filter(|parts| !parts.is_empty()).ok_or("no parts")?;
        let answers = parts.iter().filter(|part| part.get("functionResponse").is_some()).count();
        // Files follow the answers that they belong to.
        let files = parts.iter().skip(answers).filter(|part| part["inlineData"]["mimeType"].is_string()).count();
        match content["role"].as_str() {
            Some("user") if answers > 0 && answers + files == parts.len() => self.answers(&parts[..answers]),
            Some("user") if answers > 0 => Err("answers and text in one content"),
            Some("user") => self.person(parts),
            Some("model") => self.model(parts),
            _ => Err("an unknown role"),
        }
    }

    fn person(&mut self, parts: &[Value]) -> Result<(), &'static str> {
        if !self.open.is_empty() {
            return Err("a call before it has no answer");
        }
        if self.last == Last::Person {
            return Err("a person speaks twice in a row");
        }
        let texts = parts.iter().filter(|part| part.get("inlineData").is_none_or(|data| data["mimeType"].is_null()));
        if texts.into_iter().any(|part| part["text"].as_str().is_none_or(|text| text.trim().is_empty())) {
            return Err("an empty part");
        }
        if parts.iter().any(|part| part.get("thoughtSignature").is_some() || part.get("thought").is_some()) {
            return Err("a signature or a thought of a person");
        }
        self.last = Last::Person;
        Ok(())
    }

    fn model(&mut self, parts: &'a [Value]) -> Result<(), &'static str> {
        if !matches!(self.last, Last::Person | Last::Answers) || !self.open.is_empty() {
            return Err("a reply that follows no person and no answers");
        }
        for part in parts {
            let signature = part.get("thoughtSignature");
            if signature.is_some_and(|signature| signature.as_str().is_none_or(str::is_empty)) {
                return Err("an empty signature");
            }
            match (part.get("functionCall"), part["text"].as_str()) {
                (Some(call), None) => self.call(call)?,
                (None, Some(text)) if !text.is_empty() || signature.is_some() => {}
                _ => return Err("an empty part, or two in one"),
            }
        }
        self.last = Last::Model;
        Ok(())
    }

    fn call(&mut self, call: &'a Value) -> Result<(), &'static str> {
        let name = call["name"].as_str().filter(|name| is_name(name)).ok_or("a name that is refused")?;
        let id = call["id"].as_str().filter(|id| !id.is_empty()).ok_or("no id")?;
        if !self.seen.insert(id) {
            return Err("an id that was used before");
        }
        if !call["args"].is_object() {
            return Err("arguments are no object");
        }
        self.open.push((id, name));
        Ok(())
    }

    /// As many as there are calls, in their order.
    fn answers(&mut self, parts: &'a [Value]) -> Result<(), &'static str> {
        let answers = parts.iter().map(|part| &part["functionResponse"]);
        let named = answers.clone().map(|answer| (answer["id"].as_str(), answer["name"].as_str()));
        if self.open.is_empty() || !named.eq(self.open.iter().map(|(id, name)| (Some(*id), Some(*name)))) {
            return Err("the answers are not those to the calls before them");
        }
        let has_output = |answer: &Value| ["output", "error"].iter().any(|key| answer["response"][key].is_string());
        if !answers.clone().all(has_output) {
            return Err("an answer without output or error");
        }
        self.open.clear();
        self.last = Last::Answers;
        Ok(())
    }
}

/// The rule of those models that refuse a call of the current turn, if it is the first of its reply and not signed.
pub fn check_signatures(body: &[u8]) -> Result<(), String> {
    let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let contents = body["contents"].as_array().ok_or("no contents")?;
    let is_person = |content: &Value| content["role"] == "user" && content["parts"][0].get("text").is_some();
    let current = contents.iter().rposition(is_person).unwrap_or(0);
    for content in &contents[current..] {
        let parts = content["parts"].as_array().into_iter().flatten();
        let first = parts.clone().find(|part| part.get("functionCall").is_some());
        if first.is_some_and(|call| call.get("thoughtSignature").is_none()) {
            return Err(format!("a function call is missing a thought_signature: {content}"));
        }
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    text.len() <= 64 && text.bytes().all(fits) && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// Fields beside the contents that break a rule.
const BROKEN_FIELDS: [&str; 7] = [
    r#","toolConfig":{"functionCallingConfig":{"mode":"NONE"}}"#,
    r#","tools":[{"functionDeclarations":[]}]"#,
    r#","tools":[{"functionDeclarations":[{"name":"1f","description":"x"}]}]"#,
    r#","systemInstruction":{"parts":[{"text":""}]}"#,
    r#","generationConfig":{"thinkingConfig":{"thinkingBudget":1,"thinkingLevel":"low"}}"#,
    r#","generationConfig":{"thinkingConfig":{"thinkingLevel":"much"}}"#,
    r#","key":"secret""#,
];

#[test]
fn the_checker_refuses_each_broken_rule() {
    let user = r#"{"role":"user","parts":[{"text":"hi"}]}"#;
    let reply = r#"{"role":"model","parts":[{"text":"yes"},{"text":"","thoughtSignature":"s"}]}"#;
    let call = r#"{"role":"model","parts":[{"functionCall":{"id":"a","name":"f","args":{}},"thoughtSignature":"s"},{"functionCall":{"id":"b","name":"f","args":{}}}]}"#;
    let answer = |id: &str| format!(r#"{{"functionResponse":{{"id":"{id}","name":"f","response":{{"output":""}}}}}}"#);
    let content = |parts: &[String]| format!(r#"{{"role":"user","parts":[{}]}}"#, parts.join(","));
    let answers = content(&[answer("a"), answer("b")]);
    let swapped = content(&[answer("b"), answer("a")]);
    let (half, mixed) = (content(&[answer("a")]), content(&[answer("a"), answer("b"), r#"{"text":"hi"}"#.into()]));
    let body = |rows: &[&str], rest: &str| format!(r#"{{"contents":[{}]{rest}}}"#, rows.join(","));
    let right: &[&str] = &[user, call, &answers, reply, user, reply, user];
    assert_eq!(check(body(right, "").as_bytes()), Ok(()));
    assert_eq!(check(body(&[user, call, &answers, user], "").as_bytes()), Ok(()));
    let broken: [&[&str]; 15] = [
        &[],
        &[reply, user],
        &[user, user],
        &[user, reply],
        &[user, reply, reply, user],
        &[user, call],
        &[user, call, user],
        &[user, call, &half],
        &[user, call, &swapped],
        &[user, call, &mixed],
        &[user, call, &answers, &answers],
        &[user, &answers],
        &[user, call, &answers, call, &answers],
        &[r#"{"role":"user","parts":[{"text":" "}]}"#],
        &[r#"{"role":"user","parts":[{"text":"a","thoughtSignature":"s"}]}"#],
    ];
    for rows in broken {
        assert!(check(body(rows, "").as_bytes()).is_err(), "{rows:?}");
    }
    let parts = [r#"{"text":""}"#, r#"{"text":"a","thoughtSignature":""}"#, r#"{"functionCall":{"name":"f"}}"#];
    for part in parts {
        let reply = format!(r#"{{"role":"model","parts":[{part}]}}"#);
        assert!(check(body(&[user, &reply, user], "").as_bytes()).is_err(), "{part}");
    }
    for rest in BROKEN_FIELDS {
        assert!(check(body(&[user], rest).as_bytes()).is_err(), "{rest}");
    }
    let unsigned = call.replace(r#","thoughtSignature":"s""#, "");
    assert_eq!(check_signatures(body(right, "").as_bytes()), Ok(()));
    assert!(check_signatures(body(&[user, &unsigned, &answers], "").as_bytes()).is_err());
    assert_eq!(
        check_signatures(body(&[user, &unsigned, &answers, user], "").as_bytes()),
        Ok(()),
        "a turn that is over"
    );
}
