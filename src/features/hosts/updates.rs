//! Translates the calls of a host into calls of our tools, so that rules, display and search treat them alike.

use serde_json::{Map, Value, json};

use crate::base::text::{sanitise, shortened};
use crate::domain::agent_host::HostCommand;
use crate::domain::mcp::shell_word;
use crate::domain::stream::Usage;
use crate::domain::todo::{Todo, TodoItem, TodoStatus};
use crate::domain::tool::ToolCall;
use crate::tools::mcp_server;

/// The longest result that is kept, in columns.
const MAX_RESULT: usize = 60_000;
/// The longest title, in columns, and the longest arguments of a call that none of our tools corresponds to.
const MAX_TITLE: usize = 200;
const MAX_INPUT: usize = 4_000;
/// How many commands a host can offer.
const MAX_COMMANDS: usize = 500;
/// The kinds of the protocol that none of our tools corresponds to.
const KINDS: [&str; 4] = ["delete", "move", "think", "switch_mode"];
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "ksh"];

/// A call, with all that the host has said of it.
#[derive(Default)]
pub(super) struct HostCall {
    fields: Map<String, Value>,
    /// The content of the last update. Earlier content describes the call and is no result.
    output: Vec<Value>,
    /// It was put into the queue of what the agent is told.
    pub(super) is_queued: bool,
    pub(super) is_over: bool,
}

impl HostCall {
    /// Adds what an update says.
    pub(super) fn merge(&mut self, update: &Value) {
        for (name, value) in update.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            let is_emptier = matches!(value, Value::Object(fields) if fields.is_empty());
            if !is_emptier || !self.fields.contains_key(name) {
                self.fields.insert(name.clone(), value.clone());
            }
        }
        if matches!(update["status"].as_str(), Some("completed" | "failed"))
            && let Some(content) = update["content"].as_array()
        {
            self.output.clone_from(content);
        }
    }

    fn text(&self, name: &str) -> &str {
        self.fields.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn input(&self, names: &[&str]) -> Option<&str> {
        let input = self.fields.get("rawInput")?;
        names.iter().find_map(|name| input[*name].as_str())
    }

    fn status(&self) -> &str {
        self.text("status")
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.status(), "completed" | "failed")
    }

    /// Some hosts announce a call before its arguments are known.
    pub(super) fn is_known(&self) -> bool {
        let has_input = || self.fields.get("rawInput").is_some_and(|input| *input != json!({}));
        let is_described = match self.text("kind") {
            "execute" => self.command().is_some(),
            "edit" => self.edit().is_some(),
            _ => has_input() || !self.content().is_empty(),
        };
        is_described || self.status() == "in_progress" || self.has_ended()
    }

    pub(super) fn may_change_files(&self) -> bool {
        !matches!(self.text("kind"), "read" | "search" | "fetch" | "think" | "switch_mode")
    }

    fn content(&self) -> &[Value] {
        self.fields.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn title(&self) -> String {
        shortened(self.whole_title(), MAX_TITLE).into_owned()
    }

    fn whole_title(&self) -> &str {
        let title = self.text("title").trim();
        title.strip_prefix('`').and_then(|title| title.strip_suffix('`')).unwrap_or(title)
    }

    /// Whether it is a call of our MCP server, which also gets it.
    pub(super) fn is_of_our_server(&self) -> bool {
        matches!(self.text("kind"), "" | "other")
            && (mcp_server::is_title_of_our_tool(self.whole_title()) || self.is_approval_of_codex())
    }

    /// Whether Codex asks before a call of our MCP server.
    fn is_approval_of_codex(&self) -> bool {
        let input = self.fields.get("rawInput").unwrap_or(&Value::Null);
        self.whole_title() == "Approve MCP tool call"
            && input["server_name"] == mcp_server::NAME
            && input["request"]["_meta"]["codex_approval_kind"] == "mcp_tool_call"
    }

    /// It is over: only that is remembered.
    pub(super) fn forget(&mut self) {
        self.fields.clear();
        self.output.clear();
    }

    /// The call as one of our tools would be called.
    pub(super) fn to_call(&self, id: &str) -> ToolCall {
        let kind = self.text("kind");
        let ours = match kind {
            // Gemini CLI gives the command as the title alone.
            "execute" => {
                let command = self.command().unwrap_or_else(|| self.whole_title().to_owned());
                let arguments = json!({"command": command, "workdir": self.input(&["workdir", "cwd"])});
                Some(("bash", without_nulls(arguments)))
            }
            "edit" => self.edit(),
            "read" => self.path().map(|path| ("read_file", json!({"file_path": path}))),
            "search" => self.input(&["pattern"]).map(|pattern| {
                let arguments = json!({"pattern": pattern, "path": self.input(&["path", "dir_path", "directory"])});
                ("grep", without_nulls(arguments))
            }),
            "fetch" => self.input(&["url"]).map(|url| ("web_fetch", json!({"url": url}))),
            _ => None,
        };
        let (name, arguments) = match ours {
            Some((name, arguments)) => (name.to_owned(), arguments),
            None => {
                let name = if KINDS.contains(&kind) { kind } else { "tool" };
                let input = self.fields.get("rawInput").map(Value::to_string).unwrap_or_default();
                (name.to_owned(), json!({"title": self.title(), "input": shortened(&input, MAX_INPUT)}))
            }
        };
        ToolCall { id: id.to_owned(), name, arguments: arguments.to_string() }
    }

    fn command(&self) -> Option<String> {
        let input = self.fields.get("rawInput");
        let words: Option<Vec<&str>> = input
            .and_then(|input| input["command"].as_array())
            .map(|words| words.iter().filter_map(Value::as_str).collect());
        match words.as_deref() {
            Some([shell, "-c" | "-lc", script]) if SHELLS.contains(&program_name(shell)) => Some((*script).to_owned()),
            Some(words) => Some(words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")),
            None => self.input(&["command", "cmd"]).map(str::to_owned),
        }
    }

    fn path(&self) -> Option<&str> {
        let location = || self.fields.get("locations")?.as_array()?.first()?["path"].as_str();
        location().or_else(|| self.input(&["file_path", "path", "abs_path", "absolute_path"]))
    }

    /// The files that it is about, as calls that read or change each of them: what is judged where it is about several.
    pub(super) fn about_files(&self) -> Vec<ToolCall> {
        let diffs = self.content().iter().filter(|item| item["type"] == "diff");
        let locations = self.fields.get("locations").and_then(Value::as_array).into_iter().flatten();
        let mut paths: Vec<&str> = diffs.chain(locations).filter_map(|item| item["path"].as_str()).collect();
        paths.sort_unstable();
        paths.dedup();
        let call = |path: &str| match self.text("kind") {
            "read" | "search" => ("read_file", json!({"file_path": path})),
            _ => ("write_file", json!({"file_path": path, "content": ""})),
        };
        let calls = paths.into_iter().map(call);
        calls
            .map(|(name, arguments)| ToolCall {
                id: String::new(),
                name: name.into(),
                arguments: arguments.to_string(),
            })
            .collect()
    }

    fn edit(&self) -> Option<(&'static str, Value)> {
        let diffs: Vec<&Value> = self.content().iter().filter(|item| item["type"] == "diff").collect();
        let path = diffs.first()?["path"].as_str()?;
        if diffs.iter().any(|diff| diff["path"] != path) {
            return None;
        }
        let edit = |diff: &&Value| json!({"old_string": diff["oldText"], "new_string": diff["newText"]});
        match &diffs[..] {
            [diff] if diff["oldText"].as_str().is_none_or(str::is_empty) => {
                Some(("write_file", json!({"file_path": path, "content": diff["newText"]})))
            }
            [diff] => {
                let (old, new) = (&diff["oldText"], &diff["newText"]);
                Some(("edit_file", json!({"file_path": path, "old_string": old, "new_string": new})))
            }
            diffs => {
                let edits: Vec<Value> = diffs.iter().map(edit).collect();
                Some(("multi_edit", json!({"file_path": path, "edits": edits})))
            }
        }
    }

    /// What the call has given.
    pub(super) fn result(&self) -> Result<String, String> {
        let texts = self.output.iter().filter_map(|item| item["content"]["text"].as_str()).map(unfenced);
        let diffs = self.content().iter().filter(|item| item["type"] == "diff");
        let changes = diffs.filter_map(|item| item["path"].as_str()).map(|path| format!("changed {path}"));
        let texts: Vec<String> = texts.map(str::to_owned).chain(changes).filter(|text| !text.is_empty()).collect();
        let text = if texts.is_empty() { self.raw_output() } else { texts.join("\n") };
        let text = shortened(&text, MAX_RESULT).into_owned();
        if self.status() == "failed" { Err(text) } else { Ok(text) }
    }

    fn raw_output(&self) -> String {
        match self.fields.get("rawOutput") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(output) => {
                let text = ["formatted_output", "output", "stdout"].iter().find_map(|name| output[*name].as_str());
                text.map_or_else(|| output.to_string(), str::to_owned)
            }
        }
    }
}

/// The text in a block of code, if it is nothing else.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    inner.and_then(|text| text.split_once('\n')).map_or(text, |(_, text)| text.trim_end())
}

fn program_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn without_nulls(mut arguments: Value) -> Value {
    if let Some(fields) = arguments.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    arguments
}

/// The tokens of a turn, as the result of a prompt has them.
pub(super) fn usage(result: &Value) -> Option<Usage> {
    let usage = result["usage"].as_object()?;
    let count = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or_default();
    let (cached, written) = (count("cachedReadTokens"), count("cachedWriteTokens"));
    Some(Usage {
        input: count("inputTokens").saturating_add(cached).saturating_add(written),
        cached,
        written,
        output: count("outputTokens"),
        reasoning: count("thoughtTokens"),
        ..Usage::default()
    })
}

/// The commands that a host offers. Those are left out that cannot be typed.
pub(super) fn commands(offered: &Value, host: &str) -> Vec<HostCommand> {
    let line = |text: &Value| {
        let text = sanitise(text.as_str().and_then(|text| text.lines().next()).unwrap_or_default()).into_owned();
        shortened(&text, MAX_TITLE).into_owned()
    };
    let command = |entry: &Value| {
        let is_name = |c: char| c.is_alphanumeric() || "-_:.".contains(c);
        let name = entry["name"].as_str().map(|name| name.trim_start_matches('/'));
        let name = name.filter(|name| !name.is_empty() && name.len() <= MAX_TITLE && name.chars().all(is_name))?;
        let (about, hint) = (line(&entry["description"]), line(&entry["input"]["hint"]));
        Some(HostCommand { host: host.to_owned(), name: name.to_owned(), about, hint })
    };
    offered.as_array().into_iter().flatten().filter_map(command).take(MAX_COMMANDS).collect()
}

/// The list of tasks of a host, as a call of our tool and its result.
pub(super) fn plan(entries: &Value, id: &str) -> (ToolCall, String) {
    let item = |entry: &Value| {
        let content = entry["content"].as_str().and_then(|content| content.lines().next()).unwrap_or_default();
        let status = entry["status"].as_str().and_then(TodoStatus::find).unwrap_or(TodoStatus::Pending);
        TodoItem { content: content.to_owned(), status }
    };
    let todo = Todo(entries.as_array().into_iter().flatten().map(item).collect());
    let todos = todo.0.iter().map(|item| json!({"content": item.content, "status": item.status.name()}));
    let arguments = json!({"todos": todos.collect::<Vec<_>>()}).to_string();
    (ToolCall { id: id.to_owned(), name: "todo".into(), arguments }, todo.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(update: Value) -> (String, Value) {
        let mut call = HostCall::default();
        call.merge(&update);
        let call = call.to_call("c");
        (call.name, serde_json::from_str(&call.arguments).unwrap())
    }

    #[test]
    fn calls_are_told_in_the_words_of_our_tools() {
        let long = format!("cat {}; rm x", "a".repeat(300));
        let diff = |old: Value| json!([{"type": "diff", "path": "/p/a", "oldText": old, "newText": "new"}]);
        for (update, name, arguments) in [
            (json!({"kind": "execute", "rawInput": {"command": "ls"}}), "bash", json!({"command": "ls"})),
            (
                json!({"kind": "execute", "rawInput": {"command": ["bash", "-lc", "ls -l"]}}),
                "bash",
                json!({"command": "ls -l"}),
            ),
            (json!({"kind": "execute", "title": "ls -a"}), "bash", json!({"command": "ls -a"})),
            (json!({"kind": "execute", "title": long}), "bash", json!({"command": long})),
            (
                json!({"kind": "execute", "rawInput": {"command": ["git", "-c", "a b"], "cwd": "/x"}}),
                "bash",
                json!({"command": "git -c 'a b'", "workdir": "/x"}),
            ),
            (
                json!({"kind": "search", "rawInput": {"pattern": "x", "path": "/etc"}}),
                "grep",
                json!({"pattern": "x", "path": "/etc"}),
            ),
            (json!({"kind": "bash", "title": "t"}), "tool", json!({"title": "t", "input": ""})),
            (json!({"kind": "read", "locations": [{"path": "/p/a"}]}), "read_file", json!({"file_path": "/p/a"})),
            (
                json!({"kind": "edit", "content": diff(json!("old"))}),
                "edit_file",
                json!({"file_path": "/p/a", "old_string": "old", "new_string": "new"}),
            ),
            (
                json!({"kind": "edit", "content": diff(Value::Null)}),
                "write_file",
                json!({"file_path": "/p/a", "content": "new"}),
            ),
            (
                json!({"kind": "other", "title": "`Ask`", "rawInput": {"a": 1}}),
                "tool",
                json!({"title": "Ask", "input": "{\"a\":1}"}),
            ),
            (json!({"kind": "think", "title": "Plan"}), "think", json!({"title": "Plan", "input": ""})),
        ] {
            assert_eq!(call(update), (name.to_owned(), arguments));
        }
    }

    #[test]
    fn commands_that_cannot_be_typed_are_left_out() {
        let offered = json!([
            {"name": "/init", "description": "Set up\nmore", "input": null},
            {"name": "mcp:a_b", "description": "x\u{1b}[31m", "input": {"hint": "topic"}},
            {"name": "two words", "description": ""},
            {"name": "", "description": ""},
            {"description": "none"},
        ]);
        let read = commands(&offered, "claude");
        let read: Vec<_> = read.iter().map(|command| (&*command.name, &*command.about, &*command.hint)).collect();
        assert_eq!(read[0], ("init", "Set up", ""));
        assert!(read.len() == 2 && read[1].0 == "mcp:a_b" && read[1].2 == "topic", "{read:?}");
        assert!(!read[1].1.contains('\u{1b}'), "{read:?}");
    }

    #[test]
    fn an_update_completes_a_call_and_does_not_empty_it() {
        let mut call = HostCall::default();
        call.merge(&json!({"kind": "execute", "status": "pending", "title": "bash", "rawInput": {"cwd": "/"}}));
        assert!(!call.is_known());
        call.merge(&json!({"rawInput": {"command": "ls"}}));
        call.merge(&json!({"rawInput": {}, "title": null, "status": "failed", "rawOutput": {"stdout": "none"}}));
        assert!(call.is_known() && call.has_ended());
        assert_eq!((call.to_call("c").name, call.result()), ("bash".into(), Err("none".into())));
    }

    #[test]
    fn calls_of_our_server_are_known_by_their_whole_title() {
        let is_ours = |update: Value| {
            let mut call = HostCall::default();
            call.merge(&update);
            call.is_of_our_server()
        };
        for title in
            ["mcp__polylogue__send_mail", "Tool: polylogue/wait", "agents (polylogue MCP Server)", "polylogue_kill"]
        {
            assert!(is_ours(json!({"kind": "other", "title": title})), "{title}");
            assert!(!is_ours(json!({"kind": "execute", "title": title})), "a command is written by a model");
            assert!(!is_ours(json!({"kind": "other", "title": format!("{title} {{}}")})), "{title}");
        }
        let asks = |title: &str, server: &str| {
            let request = json!({"_meta": {"codex_approval_kind": "mcp_tool_call"}});
            json!({"kind": "other", "title": title, "rawInput": {"server_name": server, "request": request}})
        };
        assert!(is_ours(asks("Approve MCP tool call", "polylogue")));
        assert!(!is_ours(asks("Approve MCP tool call", "files")));
        assert!(!is_ours(asks("mcp__files__write", "polylogue")), "the model has written these arguments");
    }

    #[test]
    fn the_result_is_what_the_end_contains() {
        let text = |text: &str| json!([{"type": "content", "content": {"type": "text", "text": text}}]);
        let mut call = HostCall::default();
        call.merge(&json!({"kind": "execute", "rawInput": {"command": "ls"}, "content": text("lists files")}));
        call.merge(&json!({"status": "completed", "rawOutput": {"formatted_output": ""}}));
        assert_eq!(call.result(), Ok(String::new()));
        call.merge(&json!({"status": "completed", "content": text("```console\na\nb\n```")}));
        assert_eq!(call.result(), Ok("a\nb".into()));
    }
}
