//! The `edit_file` tool: one text in a file becomes another.
//!
//! It wants to know where: the old text has to stand there exactly once, or all of its places are meant. And it wants to
//! be sure that somebody knows the file: it must be as it was when an agent last read or wrote it.

use serde_json::Value;

use super::opening::open;
use super::replace::Target;
use super::seen::{self, LARGEST, Stamp};
use super::write_file::SHOWN_LINES;
use super::{Environment, Job, Output, Prepared, Question, Run, ToolSpec, diff, visible};
use crate::domain::tool::{Reach, ToolDeclaration};

/// The row in the table of tools.
pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "edit_file",
        description: "Replaces a text in a file that was read before. The old text must stand there exactly once, with all \
            blanks and line ends; take a few lines around it if it does not. To make a file, use write_file.",
        parameters: r#"{
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file; relative paths start in the working directory."},
                "old_text": {"type": "string", "description": "What is there now, exactly."},
                "new_text": {"type": "string", "description": "What is to be there instead; may be empty."},
                "replace_all": {"type": "boolean", "description": "Every place where it stands, not just one."}
            },
            "required": ["path", "old_text", "new_text"],
            "additionalProperties": false
        }"#,
    },
    reach: Reach::Writes,
    check,
    run: Run::OnThread(run),
};

fn check(arguments: &Value, env: &Environment) -> Result<Question, String> {
    let edit = Edit::plan(arguments, env)?;
    let path = arguments["path"].as_str().unwrap_or_default();
    let (removed, added, shown) = diff::summary(&edit.old, &edit.new, SHOWN_LINES);
    let what = format!("-{removed} +{added} lines");
    let mut detail = vec![format!("{}: {what}", visible(&edit.target.path.to_string_lossy()))];
    detail.extend(shown);
    let basis = Some(Stamp::of_bytes(edit.old.as_bytes()));
    Ok(Question { title: format!("edit_file: {} ({what})", visible(path)), detail, basis })
}

fn run(call: &Prepared, env: &Environment, job: &Job) -> Output {
    if job.is_cancelled() {
        return Output::failure("[interrupted; nothing was written]");
    }
    let path = call.arguments["path"].as_str().unwrap_or_default();
    let edited = Edit::plan(&call.arguments, env).and_then(|edit| {
        edit.target.write(&edit.new, call.question.basis, &env.seen)?;
        Ok(edit.places)
    });
    match edited {
        Ok(1) => Output::success(format!("{path} is changed.")),
        Ok(places) => Output::success(format!("{path} is changed in {places} places.")),
        Err(why) => Output::failure(format!("Nothing was changed: {why}")),
    }
}

/// A change to a file that is there.
struct Edit {
    target: Target,
    old: String,
    new: String,
    places: usize,
}

impl Edit {
    /// # Errors
    /// Words for the model: the file is not known to be what it thinks, or the text does not stand in it just once.
    fn plan(arguments: &Value, env: &Environment) -> Result<Self, String> {
        let text = |name: &str| arguments[name].as_str().unwrap_or_default();
        let (path, from, to) = (text("path"), text("old_text"), text("new_text"));
        let target = Target::find(path, env)?;
        if target.old.is_none() {
            return Err(format!("{path} does not exist; write_file makes files."));
        }
        if from.is_empty() || from == to {
            return Err("`old_text` must be a text, and another one than `new_text`.".into());
        }
        let old = known_text(path, &target, env)?;
        let places = old.matches(from).count();
        let all = arguments["replace_all"] == true;
        match places {
            0 => Err(format!("`old_text` does not stand in {path}: it must be the same to the last blank.")),
            2.. if !all => Err(format!(
                "`old_text` stands {places} times in {path}: take more of what is around it, or set `replace_all`."
            )),
            _ => Ok(Self { new: old.replace(from, to), target, old, places }),
        }
    }
}

/// What is in the file, if an agent knows.
fn known_text(path: &str, target: &Target, env: &Environment) -> Result<String, String> {
    open(&target.path).map_err(|why| format!("{path} {why}."))?;
    let content = seen::content(&target.path).map_err(|error| format!("{path} cannot be read: {error}."))?;
    let content = content.ok_or_else(|| {
        format!("{path} has more than {LARGEST} bytes, which is too much for edit_file: change it with a command.")
    })?;
    match env.seen.last(&target.path) {
        None => return Err(format!("{path} was not read yet: read it with read_file first.")),
        Some(stamp) if stamp != Stamp::of_bytes(&content) => {
            return Err(format!("{path} has changed since it was last read: read it again."));
        }
        Some(_) => {}
    }
    String::from_utf8(content).map_err(|_| format!("{path} is no text in UTF-8: change it with a command."))
}
