//! The `skill` tool: returns the text of a skill. `find` looks for the skills of a directory.
//!
//! A skill grants nothing: `allowed-tools` in its header is ignored. Its files may be read without a question, wherever
//! they are. A project's skill counts only while its bytes are those that the person has trusted.

pub mod find;

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Environment, Job, Judged, Output, Prepared, Question, Run, ToolSpec, capped, one_line};
use crate::base::text;
use crate::domain::skill::{Skill, SkillList};
use crate::domain::tool::{Reach, ToolDeclaration};

pub const NAME: &str = "skill";
/// Why a skill of a project is not used.
pub const CHANGED: &str = "it was changed since the user trusted it; they can look at it with polylogue config trust";
/// Files of a folder that the result names.
const MOST_FILES: usize = 50;
const MOST_DEPTH: usize = 3;

pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: NAME,
        description: "Returns the instructions of a skill, which you then follow, and the path of its folder, whose files \
            you can read. The system prompt lists the skills. Use it once for each skill before you begin with the task.",
        parameters: r#"{
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The name of the skill."},
                "arguments": {"type": "string", "description": "Arguments for the skill, if it takes any."}
            },
            "required": ["name"],
            "additionalProperties": false
        }"#,
    },
    aliases: &[("skill", "name"), ("skill_name", "name"), ("command", "name"), ("args", "arguments")],
    reach: Reach::Reads,
    judged: Judged::Nothing,
    check,
    run: Run::OnThread(run),
};

fn name_of(arguments: &Value) -> &str {
    arguments["name"].as_str().unwrap_or_default().trim().trim_start_matches('/')
}

fn check(arguments: &Value, env: &Environment) -> Result<Question, String> {
    let name = name_of(arguments);
    find_for_model(&env.skills, name)?;
    let title = format!("skill: {}", one_line(name, 80));
    Ok(Question::new(title.clone(), vec![title]))
}

fn find_for_model<'a>(list: &'a SkillList, name: &str) -> Result<&'a Skill, String> {
    match list.find(name) {
        Some(skill) if skill.is_for_models => Ok(skill),
        Some(_) => Err(format!("only the user can use the skill {name}: they type /{name}")),
        None => {
            let names: Vec<&str> = list.for_models().map(|skill| skill.name.as_str()).collect();
            let nearest = text::nearest(name, names.iter().copied());
            let hint = nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default();
            let names = if names.is_empty() { "none".into() } else { names.join(", ") };
            Err(format!("unknown skill {:?}{hint}; available skills: {names}", one_line(name, 100)))
        }
    }
}

/// The skill that a model calls.
pub fn called_skill<'a>(call: &Prepared, env: &'a Environment) -> Result<&'a Skill, String> {
    find_for_model(&env.skills, name_of(&call.arguments))
}

fn run(call: &Prepared, env: &Environment, job: &Job) -> Output {
    let known = match called_skill(call, env) {
        Ok(skill) => skill,
        Err(message) => return Output::failure(message),
    };
    // It may have been edited since the list was made.
    let skill = match find::read_again(known) {
        Ok(skill) => skill,
        Err(problem) => return Output::failure(format!("skill {}: {problem}", known.name)),
    };
    let mut files = Vec::new();
    list_files(&skill.directory, Path::new(""), job, &mut files);
    output(&skill, &files, call, env)
}

/// The output for the model: the text, and the files of the folder.
pub fn output(skill: &Skill, files: &[String], call: &Prepared, env: &Environment) -> Output {
    let text = skill.text(call.arguments["arguments"].as_str().unwrap_or_default());
    let files = match files.len() {
        0 => String::new(),
        MOST_FILES.. => format!("Files: {}, and more\n", files[..MOST_FILES].join(", ")),
        _ => format!("Files: {}\n", files.join(", ")),
    };
    let directory = skill.directory.display();
    let text = format!("Skill {}\nFolder: {directory} (relative paths begin here)\n{files}\n{text}", skill.name);
    capped(&text, false, env.output_cap, &env.output_directory)
}

/// The files of the folder besides `SKILL.md`, as relative paths. Links are not followed.
fn list_files(top: &Path, below: &Path, job: &Job, files: &mut Vec<String>) {
    let entries = fs::read_dir(top.join(below)).into_iter().flatten().flatten();
    let mut entries: Vec<fs::DirEntry> = entries.take(MOST_FILES * 4).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (name, kind) = (below.join(entry.file_name()), entry.file_type());
        let is_shown = !entry.file_name().to_string_lossy().starts_with('.');
        if files.len() >= MOST_FILES || job.is_cancelled() {
            return;
        }
        match kind {
            Ok(kind) if kind.is_dir() && is_shown && name.components().count() < MOST_DEPTH => {
                list_files(top, &name, job, files);
            }
            Ok(kind) if kind.is_file() && is_shown && name != Path::new(crate::domain::skill::FILE) => {
                files.push(super::visible(&name.to_string_lossy()));
            }
            _ => {}
        }
    }
}
