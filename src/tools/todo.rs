//! The `todo` tool: the model keeps a list of tasks, which the person sees. The list is the result of the newest call.

use serde_json::Value;

use super::{Judged, Question, Run, ToolSpec, one_line};
use crate::domain::flow::ToolRequest;
use crate::domain::todo::{Todo, TodoItem, TodoStatus};
use crate::domain::tool::{Reach, ToolDeclaration};

/// Width of a task, in characters.
const MAX_WIDTH: usize = 300;

pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "todo",
        description: "Replaces your list of tasks, which the user sees. Use it for work with several steps: list all tasks \
            first, and call it again whenever you start or complete one. Keep exactly one task in_progress while you work. \
            An empty list removes the list.",
        parameters: r#"{
            "type": "object",
            "properties": {
                "todos": {"type": "array", "maxItems": 100, "description": "All tasks, in order.", "items": {
                    "type": "object",
                    "properties": {
                        "content": {"type": "string", "description": "The task, in one line."},
                        "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]}
                    },
                    "required": ["content", "status"],
                    "additionalProperties": false
                }}
            },
            "required": ["todos"],
            "additionalProperties": false
        }"#,
    },
    aliases: &[
        ("plan", "todos"),
        ("items", "todos"),
        ("tasks", "todos"),
        ("explanation", ""),
        ("description", "content"),
        ("step", "content"),
        ("task", "content"),
        ("text", "content"),
        ("activeForm", ""),
        ("active_form", ""),
        ("priority", ""),
        ("id", ""),
    ],
    reach: Reach::Reads,
    judged: Judged::Nothing,
    check: |arguments, _| {
        let todo = list(arguments);
        if let Some(at) = todo.0.iter().position(|item| item.content.is_empty()) {
            return Err(format!("`todos[{at}].content` must not be empty"));
        }
        let title = format!("todo: {}", if todo.0.is_empty() { "no tasks".into() } else { todo.summary() });
        let title = one_line(&title, 100);
        Ok(Question::new(title.clone(), vec![title]))
    },
    run: Run::InEventLoop(|arguments| ToolRequest::Todo(list(arguments))),
};

fn list(arguments: &Value) -> Todo {
    let item = |item: &Value| TodoItem {
        content: one_line(
            &item["content"].as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" "),
            MAX_WIDTH,
        ),
        status: item["status"].as_str().and_then(TodoStatus::find).unwrap_or(TodoStatus::Pending),
    };
    Todo(arguments["todos"].as_array().into_iter().flatten().map(item).collect())
}
