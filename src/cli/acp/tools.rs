//! Tool calls as an editor shows them: what kind of work it is, which files it is about, and what changes in them.

use std::path::Path;

use serde_json::{Value, json};

use crate::domain::todo::{Todo, TodoItem};
use crate::tools::understood_arguments;

/// The tool whose result is the plan of an agent.
pub const TODO: &str = "todo";

/// A call as it was announced.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub name: String,
    pub title: String,
    arguments: Value,
    /// The working directory of its agent.
    directory: String,
}

impl Call {
    pub fn new(name: &str, title: &str, arguments: &str, directory: &str) -> Self {
        let arguments = understood_arguments(name, arguments);
        Self { name: name.to_owned(), title: title.to_owned(), arguments, directory: directory.to_owned() }
    }

    pub fn kind(&self) -> &'static str {
        match self.name.as_str() {
            "read_file" | "list_dir" => "read",
            "write_file" | "edit_file" | "multi_edit" => "edit",
            "bash" | "bash_output" | "bash_kill" => "execute",
            "glob" | "grep" => "search",
            "web_fetch" => "fetch",
            _ => "other",
        }
    }

    /// The fields that all messages about the call have.
    pub fn to_json(&self, id: &str, status: &str) -> Value {
        let mut call = json!({
            "toolCallId": id,
            "title": self.title,
            "kind": self.kind(),
            "status": status,
            "rawInput": self.arguments,
        });
        if let Some(path) = self.path() {
            let mut location = json!({ "path": path });
            if let Some(line) = self.arguments["offset"].as_u64().filter(|_| self.name == "read_file") {
                location["line"] = line.max(1).into();
            }
            call["locations"] = json!([location]);
        }
        call
    }

    /// The file that it is about; absolute.
    fn path(&self) -> Option<String> {
        let path = self.arguments["file_path"].as_str().or_else(|| self.arguments["path"].as_str())?;
        Some(Path::new(&self.directory).join(path).to_string_lossy().into_owned())
    }

    /// The replacements that it makes in its file.
    pub fn diffs(&self) -> Vec<Value> {
        let Some(path) = self.path() else { return Vec::new() };
        let replaced = |edit: &Value| {
            let (old, new) = (edit["old_string"].as_str()?, edit["new_string"].as_str()?);
            Some(json!({"type": "diff", "path": path, "oldText": old, "newText": new}))
        };
        match self.name.as_str() {
            "edit_file" => replaced(&self.arguments).into_iter().collect(),
            "multi_edit" => self.arguments["edits"].as_array().into_iter().flatten().filter_map(replaced).collect(),
            "write_file" => {
                let content = self.arguments["content"].as_str();
                content.map(|new| json!({"type": "diff", "path": path, "newText": new})).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Text as the content of a call.
pub fn text(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": text}})
}

/// The plan that the result of a `todo` call is.
pub fn plan(result: &str) -> Value {
    let entry = |item: &TodoItem| json!({"content": item.content, "priority": "medium", "status": item.status.name()});
    json!({"sessionUpdate": "plan", "entries": Todo::parse(result).0.iter().map(entry).collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_shown_as_a_diff_of_an_absolute_path() {
        let arguments = r#"{"path": "src/a.rs", "old_text": "x", "new_text": "y"}"#;
        let call = Call::new("edit_file", "edit_file: src/a.rs", arguments, "/project");
        assert_eq!(
            call.diffs(),
            [json!({"type": "diff", "path": "/project/src/a.rs", "oldText": "x", "newText": "y"})]
        );
        let shown = call.to_json("c", "pending");
        assert_eq!((&shown["kind"], &shown["locations"]), (&json!("edit"), &json!([{"path": "/project/src/a.rs"}])));
        let edits = r#"{"file_path": "/a", "edits": [{"old_string": "1", "new_string": "2"}, {"old_string": "3", "new_string": ""}]}"#;
        assert_eq!(Call::new("multi_edit", "", edits, "/project").diffs().len(), 2);
        let written = Call::new("write_file", "", r#"{"file_path": "n", "content": "all"}"#, "/project").diffs();
        assert_eq!(written, [json!({"type": "diff", "path": "/project/n", "newText": "all"})]);
    }

    #[test]
    fn arguments_that_are_not_json_show_the_title_only() {
        let call = Call::new("bash", "bash: ?", "{nonsense", "/project");
        assert_eq!((call.diffs(), call.to_json("c", "failed")["rawInput"].clone()), (Vec::new(), Value::Null));
    }

    #[test]
    fn a_list_of_tasks_is_a_plan() {
        let plan = plan("[x] read\n[>] write\n[ ] test");
        let statuses: Vec<&str> =
            plan["entries"].as_array().unwrap().iter().map(|entry| entry["status"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["completed", "in_progress", "pending"]);
        assert_eq!(super::plan("the list of tasks is empty")["entries"], json!([]));
    }
}
