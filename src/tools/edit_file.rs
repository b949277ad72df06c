//! The `edit_file` tool: replaces text in a file.
//!
//! The old text must occur exactly once unless all occurrences are to be replaced, and the file must not have changed
//! since an agent last read or wrote it.

use serde_json::Value;

use super::atomic_write::{Snapshot, Target};
use super::diff::Summary;
use super::file_access::reason;
use super::file_versions::{MAX_FILE_SIZE, changed_since_read};
use super::locate::Opener;
use super::{Environment, FILE_PATH_ALIASES, Job, Judged, Output, Prepared, Question, Run, ToolSpec, visible};
use crate::base::text::counted;
use crate::domain::tool::{Reach, ToolDeclaration};

pub const SPEC: ToolSpec = ToolSpec {
    declaration: ToolDeclaration {
        name: "edit_file",
        description: "Replaces text in a file and returns the diff. Read the file with read_file first. The edit \
            fails if the file has changed since it was last read or written. old_string must occur exactly once in the \
            file, unless replace_all is true; include surrounding lines to make it unique. Use write_file to create a \
            file.",
        parameters: r#"{
            "type": "object",
            "properties": {
                "file_path": {"type": "string",
                    "description": "The file to edit, absolute or relative to the working directory."},
                "old_string": {"type": "string",
                    "description": "The text to replace, exactly as in the file, including whitespace."},
                "new_string": {"type": "string", "description": "The text to replace it with. May be empty."},
                "replace_all": {"type": "boolean",
                    "description": "Replace all occurrences of old_string. Default: false."}
            },
            "required": ["file_path", "old_string", "new_string"],
            "additionalProperties": false
        }"#,
    },
    aliases: &ALIASES,
    reach: Reach::Writes,
    judged: Judged::Write,
    check,
    run: Run::OnThread(run),
};

/// Other names for the parameters of an edit.
pub const ALIASES: [(&str, &str); 12] = {
    let [a, b, c, d] = FILE_PATH_ALIASES;
    [
        a,
        b,
        c,
        d,
        ("old_text", "old_string"),
        ("oldString", "old_string"),
        ("old_str", "old_string"),
        ("new_text", "new_string"),
        ("newString", "new_string"),
        ("new_str", "new_string"),
        ("replaceAll", "replace_all"),
        ("allow_multiple", "replace_all"),
    ]
};

/// Of the diff that the model gets.
pub const MAX_REPORTED_LINES: usize = 40;

fn check(arguments: &Value, env: &Environment) -> Result<Question, String> {
    let edit = Edit::plan(arguments, &[Replacement::of(arguments, "")], env)?;
    Ok(edit.question(SPEC.declaration.name, arguments))
}

fn run(call: &Prepared, env: &Environment, job: &Job) -> Output {
    carry_out(SPEC.declaration.name, &[Replacement::of(&call.arguments, "")], call, env, job)
}

/// Makes these replacements in the file of a call.
pub fn carry_out(tool: &str, all: &[Replacement<'_>], call: &Prepared, env: &Environment, job: &Job) -> Output {
    if job.is_cancelled() {
        return Output::failure("[interrupted; nothing was changed]");
    }
    let path = call.arguments["file_path"].as_str().unwrap_or_default();
    let mut changed = None;
    let edited = Edit::plan(&call.arguments, all, env).and_then(|edit| {
        edit.target.require_same_file(call)?;
        let recorded = edit.target.record_step(tool, &edit.new, env);
        let written = edit.target.write(&edit.new, call.question.snapshot, &env.known_files);
        changed = recorded.and_then(|step| step.finish(written.is_ok()));
        let written = written?;
        let replacements = counted(edit.matches, "replacement", "replacements");
        let mut lines = vec![format!("edited {path} ({replacements}){}", written.note())];
        lines.extend(edit.diff(MAX_REPORTED_LINES).lines);
        Ok(lines.join("\n"))
    });
    let output = match edited {
        Ok(content) => Output::success(content),
        Err(message) => Output::failure(format!("nothing was changed: {message}")),
    };
    Output { changed: changed.map(Box::new), ..output }
}

/// A text of a file and what replaces it.
pub struct Replacement<'a> {
    pub from: &'a str,
    pub to: &'a str,
    all: bool,
    /// Stands before the names of the arguments in messages.
    place: String,
}

impl<'a> Replacement<'a> {
    /// From an object with `old_string`, `new_string` and perhaps `replace_all`.
    pub fn of(arguments: &'a Value, place: &str) -> Self {
        let text = |name: &str| arguments[name].as_str().unwrap_or_default();
        let (from, to) = (text("old_string"), text("new_string"));
        Self { from, to, all: arguments["replace_all"] == true, place: place.to_owned() }
    }

    /// How often it is made, for the person who is asked.
    pub fn scope(&self) -> &'static str {
        if self.all { "wherever it occurs:" } else { "where it occurs once:" }
    }

    pub fn check(&self) -> Result<(), String> {
        let place = &self.place;
        if self.from.is_empty() {
            return Err(format!("`{place}old_string` must not be empty; use write_file to write a whole file"));
        }
        if self.from == self.to {
            return Err(format!("`{place}old_string` and `{place}new_string` are the same"));
        }
        Ok(())
    }

    /// The text with the replacement, and how often it was made. `path` and `earlier` are for the message.
    fn apply(&self, text: &str, path: &str, earlier: &str) -> Result<(String, usize), String> {
        let (place, matches) = (&self.place, text.matches(self.from).count());
        if matches == 0 {
            return Err(format!(
                "`{place}old_string` not found in {path}{earlier}; it must match exactly, including whitespace, without \
                 line numbers"
            ));
        }
        if matches > 1 && !self.all {
            return Err(format!(
                "found {matches} matches of `{place}old_string` in {path}{earlier}, expected 1; include more surrounding \
                 lines or set `{place}replace_all`"
            ));
        }
        let grown = matches.saturating_mul(self.to.len().saturating_sub(self.from.len()));
        if text.len().saturating_add(grown) > MAX_FILE_SIZE as usize {
            return Err(format!("`{place}new_string` would make {path} larger than {} MiB", MAX_FILE_SIZE >> 20));
        }
        Ok((text.replace(self.from, self.to), matches))
    }
}

/// The text after these replacements, one after the other, and how many were made.
pub fn apply_all(all: &[Replacement<'_>], old: &str, path: &str) -> Result<(String, usize), String> {
    let (mut new, mut matches) = (old.to_owned(), 0);
    for (at, replacement) in all.iter().enumerate() {
        let earlier = if at > 0 { " after the edits before it" } else { "" };
        let (text, count) = replacement.apply(&new, path, earlier)?;
        (new, matches) = (text, matches + count);
    }
    if new == old {
        return Err(format!("the edits leave {path} as it is"));
    }
    Ok((new, matches))
}

/// A change to an existing file.
pub struct Edit {
    target: Target,
    snapshot: Snapshot,
    old: String,
    new: String,
    matches: usize,
}

impl Edit {
    /// Makes the replacements one after the other in the text of the file.
    pub fn plan(arguments: &Value, all: &[Replacement<'_>], env: &Environment) -> Result<Self, String> {
        let path = arguments["file_path"].as_str().unwrap_or_default();
        let target = Target::find(path, env)?;
        if target.old.is_none() {
            let suggestion = Opener::new(env).suggestion(&target.file.path, &std::io::ErrorKind::NotFound.into());
            return Err(format!(
                "{path}: does not exist{}",
                if suggestion.is_empty() { "; use write_file to create it" } else { &suggestion }
            ));
        }
        all.iter().try_for_each(Replacement::check)?;
        let (snapshot, old) = known_content(path, &target, env)?;
        let (new, matches) = apply_all(all, &old, path)?;
        Ok(Self { target, snapshot, old, new, matches })
    }

    /// The question for the person about it.
    pub fn question(self, tool: &str, arguments: &Value) -> Question {
        let path = arguments["file_path"].as_str().unwrap_or_default();
        // A person can only allow what they could read.
        let diff = self.diff(usize::MAX);
        let mut detail = vec![format!("{}: {}", visible(&self.target.file.path.to_string_lossy()), diff.counts())];
        let title = format!("{tool}: {} ({})", visible(path), diff.counts());
        detail.extend(self.target.warnings());
        let mut question = Question::new(title, detail);
        question.add_diff(diff.lines);
        Question { file: Some(self.target.file), snapshot: Some(self.snapshot), ..question }
    }

    fn diff(&self, limit: usize) -> Summary {
        Summary::new(&self.old, &self.new, limit)
    }
}

/// The content of the file, if it is the version that the agent has read.
fn known_content(path: &str, target: &Target, env: &Environment) -> Result<(Snapshot, String), String> {
    let (snapshot, content) =
        Snapshot::take(&target.file.path).map_err(|error| format!("{path}: cannot be read: {}", reason(&error)))?;
    let content = content.ok_or_else(|| {
        let limit = MAX_FILE_SIZE >> 20;
        format!("{path}: file is larger than the limit of edits ({limit} MiB); use bash to change it")
    })?;
    match env.known_files.get(&target.file.path) {
        None => return Err(format!("{path}: file has not been read yet; read it with read_file first")),
        Some(version) if version != snapshot.version => {
            return Err(changed_since_read(path, &target.file.path, env));
        }
        Some(_) => {}
    }
    let text = String::from_utf8(content).map_err(|_| format!("{path}: not valid UTF-8; use bash to change it"))?;
    Ok((snapshot, text))
}
