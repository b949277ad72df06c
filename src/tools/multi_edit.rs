//! The `multi_edit` tool: several edits of one file, all or none.
//!
//! The edits are those of `edit_file`, made one after the other: each applies to the result of the previous ones.

use serde_json::Value;

use super::edit_file::{ALIASES, Edit, Replacement, carry_out};
use super::{Environment, Judged, Run, ToolSpec};
use crate::domain::tool::{Reach, ToolDeclaration};

pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "multi_edit",
        description: "Makes several edits in one file and returns the diff. Read the file with read_file first. The \
            edits are made in order, each in the result of the edits before it. Each old_string must occur exactly once \
            at that point, unless replace_all is true. If one edit fails, the file is not changed.",
        parameters: r#"{
            "type": "object",
            "properties": {
                "file_path": {"type": "string",
                    "description": "The file to edit, absolute or relative to the working directory."},
                "edits": {"type": "array", "maxItems": 100, "description": "The edits, in order.", "items": {
                    "type": "object",
                    "properties": {
                        "old_string": {"type": "string",
                            "description": "The text to replace, exactly as in the file, including whitespace."},
                        "new_string": {"type": "string", "description": "The text to replace it with. May be empty."},
                        "replace_all": {"type": "boolean",
                            "description": "Replace all occurrences of old_string. Default: false."}
                    },
                    "required": ["old_string", "new_string"],
                    "additionalProperties": false
                }}
            },
            "required": ["file_path", "edits"],
            "additionalProperties": false
        }"#,
    },
    aliases: &ALIASES,
    reach: Reach::Writes,
    judged: Judged::Write,
    check: |arguments, env| plan(arguments, env).map(|edit| edit.question(SPEC.declaration.name, arguments)),
    run: Run::OnThread(|call, env, job| {
        carry_out(SPEC.declaration.name, &replacements(&call.arguments), call, env, job)
    }),
};

fn plan(arguments: &Value, env: &Environment) -> Result<Edit, String> {
    let replacements = replacements(arguments);
    if replacements.is_empty() {
        return Err("`edits` must not be empty".into());
    }
    Edit::plan(arguments, &replacements, env)
}

/// The edits of a call.
pub fn replacements(arguments: &Value) -> Vec<Replacement<'_>> {
    let edits = arguments["edits"].as_array().into_iter().flatten();
    edits.enumerate().map(|(at, edit)| Replacement::of(edit, &format!("edits[{at}]."))).collect()
}
