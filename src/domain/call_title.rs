//! A tool call in one line. A call gets the same title while it runs and when it is loaded from the store, as far as
//! its arguments say it.

use serde_json::Value;

use crate::base::text;

/// In characters.
const WIDTH: usize = 100;
const LONGEST: usize = 300;

/// The title of a call whose tool is unknown here: its arguments may be malformed and of any length.
pub fn title_of(name: &str, arguments: &str) -> String {
    let value: Value = serde_json::from_str(arguments).unwrap_or_default();
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let main = || text("command").or_else(|| path_in(&value)).or_else(|| text("title"));
    let about_agents = || title_about_agents(name, &value);
    about_agents().unwrap_or_else(|| short_title(&format!("{name}: {}", main().unwrap_or(arguments))))
}

/// The path in the arguments of a tool for files; some models name it otherwise.
pub fn path_in(arguments: &Value) -> Option<&str> {
    ["file_path", "path"].iter().find_map(|key| arguments.get(key)?.as_str())
}

/// The title of a call that is about other agents; `None` for other calls, and for those that lack an argument. Models
/// use other names for some arguments too.
pub fn title_about_agents(name: &str, arguments: &Value) -> Option<String> {
    let text = |keys: &[&str]| {
        let texts = keys.iter().filter_map(|key| arguments.get(key)?.as_str());
        texts.map(str::trim).find(|text| !text.is_empty())
    };
    let title = match name {
        "fork" => {
            let prompt = text(&["prompt", "task"])?;
            let name = text(&["name"]).map(|name| format!(" {name}")).unwrap_or_default();
            let definition = text(&["agent", "subagent_type", "as"]).map(|name| format!(" as {name}"));
            format!("fork{name}{}: {prompt}", definition.unwrap_or_default())
        }
        "kill" => {
            let descendants = if arguments["cascade"] == true { " and all its descendants" } else { "" };
            format!("kill {}{descendants}", text(&["agent", "agent_id", "id", "name"])?)
        }
        "send_mail" => format!("send_mail to {}", text(&["to", "agent"])?),
        "wait" => {
            let listed = arguments["from"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let written = arguments["from"].as_str().into_iter().flat_map(|names| names.split(','));
            let names: Vec<&str> = listed.chain(written).map(str::trim).filter(|name| !name.is_empty()).collect();
            format!("wait {}", names.join(", "))
        }
        "check_mail" | "read_mail" | "agents" => name.to_owned(),
        _ => return None,
    };
    Some(text::first_line(&title, WIDTH))
}

/// The first line of a title, at most [`LONGEST`] columns wide.
pub fn short_title(title: &str) -> String {
    let first = title.lines().next().unwrap_or_default();
    let shown = text::truncate(first, LONGEST);
    if shown.len() == title.trim_end().len() { shown.to_owned() } else { format!("{shown} …") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_call_is_titled_by_what_it_does_and_not_by_its_arguments() {
        for (name, arguments, title) in [
            ("fork", r#"{"task": "look\naround", "name": "scout"}"#, "fork scout: look …"),
            ("fork", r#"{"prompt": "go", "subagent_type": "reviewer"}"#, "fork as reviewer: go"),
            ("fork", r#"{"name": "x"}"#, "fork: {\"name\": \"x\"}"),
            ("kill", r#"{"agent_id": "scout", "cascade": true}"#, "kill scout and all its descendants"),
            ("send_mail", r#"{"to": "parent", "body": "done"}"#, "send_mail to parent"),
            ("wait", r#"{"from": ["a", "b"]}"#, "wait a, b"),
            ("wait", r#"{"from": "a, b"}"#, "wait a, b"),
            ("wait", "{}", "wait"),
            ("agents", "{}", "agents"),
            ("bash", r#"{"command": "ls"}"#, "bash: ls"),
            ("other", "{", "other: {"),
        ] {
            assert_eq!(title_of(name, arguments), title, "{name} {arguments}");
        }
    }
}
