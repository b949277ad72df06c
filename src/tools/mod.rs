//! Tools: what a model may ask for, each one file, one `const` and one row in [`TOOLS`].
//!
//! A tool is given its arguments, an [`Environment`] and a [`Job`], and gives back an [`Output`]. It runs on a thread of
//! its own ([`Running`]) and sees no agent, no store and no terminal. Whether a person is asked first is not decided here:
//! a tool says how far it reaches, and [`ToolSpec::prepare`] says what a person would be asked.

mod agents;
pub mod arguments;
mod bash;
mod capture;
mod diff;
mod edit_file;
mod expression;
mod glob;
mod grep;
mod ignoring;
pub mod key_command;
mod list_dir;
mod opening;
mod process_tree;
mod read_file;
mod replace;
pub mod running;
pub mod seen;
pub mod supervise;
mod supervised;
mod walk;
mod wildcard;
pub mod worktree;
mod write_file;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::base::text::is_invisible_format;
use crate::domain::flow::ToolRequest;
use crate::domain::tool::{Reach, ToolDeclaration};

pub use running::{Job, Running};
use seen::{Seen, Stamp};

/// Every built-in tool, in the order in which models are told of them.
pub const TOOLS: &[&ToolSpec] = &[
    &bash::SPEC,
    &read_file::SPEC,
    &write_file::SPEC,
    &edit_file::SPEC,
    &glob::SPEC,
    &grep::SPEC,
    &list_dir::SPEC,
    &agents::FORK,
    &agents::KILL,
    &agents::SEND_MAIL,
    &agents::CHECK_MAIL,
    &agents::READ_MAIL,
    &agents::WAIT,
    &agents::AGENTS,
];

/// One tool.
pub struct ToolSpec {
    /// What a model is told of it.
    pub declaration: ToolDeclaration,
    /// What it may do to the world.
    pub reach: Reach,
    /// Looks at arguments that fit the schema, without changing anything and without blocking: what a person is shown,
    /// or words for the model about what cannot work.
    pub check: fn(&Value, &Environment) -> Result<Question, String>,
    /// Carries a call out whose arguments went through [`ToolSpec::prepare`].
    pub run: Run,
}

/// How a call is carried out.
#[derive(Clone, Copy)]
pub enum Run {
    /// On a thread of its own. Blocks; returns soon after the job is cancelled.
    OnThread(fn(&Prepared, &Environment, &Job) -> Output),
    /// By the house: the call is turned into what is asked of it.
    ByLoop(fn(&Value) -> ToolRequest),
}

/// What a person is shown before a call runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// One line that sums the call up; also how a call is named in a list.
    pub title: String,
    /// The exact command, or the path and the change. Control and direction characters are spelled out.
    pub detail: Vec<String>,
    /// What the file was like whose change is shown; the call is not carried out on another.
    pub basis: Option<Stamp>,
}

impl Question {
    /// A question about something that does not depend on what a file contains.
    pub fn of(title: String, detail: Vec<String>) -> Self {
        Self { title, detail, basis: None }
    }
}

/// The world in which an agent's tools run, and which tools those are.
#[derive(Debug, Clone)]
pub struct Environment {
    /// What the person wrote to get it, in the one form that is stored and compared.
    pub spec: String,
    /// The tools that there are in it, in the order in which models are told of them.
    pub tools: Vec<&'static ToolSpec>,
    /// What a model is told of it before everything.
    pub instructions: Arc<str>,
    /// Where the instructions of the project came from, one line a file, for a person.
    pub sources: Vec<String>,
    /// The git worktree of our own that it lies in.
    pub worktree: Option<PathBuf>,
    /// What agents have seen of files; one for all environments.
    pub seen: Arc<Seen>,
    /// Where relative paths start and commands run.
    pub working_directory: PathBuf,
    /// Where outputs too large for the model are kept whole; made when first needed, files readable by their owner only.
    pub output_directory: PathBuf,
    /// This program's own binary, which is run again as `--supervise`.
    pub supervisor: PathBuf,
    /// How long a command may run if the model does not say.
    pub bash_timeout: Duration,
    /// How many bytes of a tool's output a model is given.
    pub output_cap: usize,
}

impl Environment {
    /// All tools in this directory, with the usual limits; outputs are kept in the directory for temporary files.
    pub fn at(working_directory: PathBuf) -> Self {
        Self {
            spec: String::new(),
            tools: TOOLS.to_vec(),
            instructions: "".into(),
            sources: Vec::new(),
            worktree: None,
            seen: Arc::default(),
            working_directory,
            output_directory: std::env::temp_dir(),
            supervisor: PathBuf::from("/proc/self/exe"),
            bash_timeout: Duration::from_secs(120),
            output_cap: 32 * 1024,
        }
    }

    /// The tool of this name, if there is one here.
    ///
    /// # Errors
    /// Words for the model: there is none, and which there are.
    pub fn tool(&self, name: &str) -> Result<&'static ToolSpec, String> {
        if let Some(spec) = self.tools.iter().find(|spec| spec.declaration.name == name) {
            return Ok(spec);
        }
        let known: Vec<&str> = self.tools.iter().map(|spec| spec.declaration.name).collect();
        let known = if known.is_empty() { "none at all".into() } else { known.join(", ") };
        let place = if find(name).is_some() { " in this environment" } else { "" };
        Err(format!("there is no tool {name:?}{place}; there are: {known}"))
    }

    /// What models are told of the tools here.
    pub fn declarations(&self) -> Vec<ToolDeclaration> {
        self.tools.iter().map(|spec| spec.declaration).collect()
    }

    /// Where a path that a model wrote leads.
    fn resolve(&self, path: &str) -> PathBuf {
        self.working_directory.join(Path::new(path))
    }
}

/// What came of a call, before it is bound to the call's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// What the model is told.
    pub content: String,
    /// The call failed or was cut.
    pub is_error: bool,
}

impl Output {
    /// The call did what it was asked to.
    pub fn success(content: impl Into<String>) -> Self {
        Self { content: content.into(), is_error: false }
    }

    /// The call failed, with words that let a model mend it.
    pub fn failure(content: impl Into<String>) -> Self {
        Self { content: content.into(), is_error: true }
    }
}

/// A call that may run.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// The arguments as [`Running::start`] wants them: fitting the schema, without nulls.
    pub arguments: Value,
    /// What a person is shown if the policy asks one.
    pub question: Question,
}

impl ToolSpec {
    /// Reads the arguments as the model wrote them.
    ///
    /// # Errors
    /// Words for the model: what does not fit and what is expected.
    pub fn prepare(&self, arguments: &str, env: &Environment) -> Result<Prepared, String> {
        let arguments = arguments::read(arguments, &self.declaration)?;
        let question = (self.check)(&arguments, env)?;
        Ok(Prepared { arguments, question })
    }
}

/// The tool of this name.
pub fn find(name: &str) -> Option<&'static ToolSpec> {
    TOOLS.iter().find(|spec| spec.declaration.name == name).copied()
}

impl fmt::Debug for ToolSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.declaration.name)
    }
}

/// `text` with every character spelled out that could make a line look like something that it is not: control
/// characters other than a tab, and what hides or reorders text (Unicode TR 36, "bidirectional text spoofing").
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => shown.push(c),
            // In a command even what emoji and scripts need to join letters may be there to hide something.
            '\u{200c}' | '\u{200d}' | '\u{ad}' => shown.extend(c.escape_unicode()),
            c if is_invisible_format(c) => shown.extend(c.escape_unicode()),
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

/// The first line of `text`, made visible, cut to at most `width` characters, with a mark where something was left out.
fn one_line(text: &str, width: usize) -> String {
    let first = text.trim().lines().next().unwrap_or_default();
    let shown = visible(first);
    let is_whole = shown.chars().count() <= width && first.len() == text.trim().len();
    if is_whole { shown } else { shown.chars().take(width).chain(" …".chars()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_found_by_its_name_and_declares_an_object_schema() {
        for spec in TOOLS {
            assert_eq!(find(spec.declaration.name).unwrap().declaration, spec.declaration);
            let schema: Value = serde_json::from_str(spec.declaration.parameters).unwrap();
            assert_eq!(schema["type"], "object", "{}", spec.declaration.name);
            assert_eq!(schema["additionalProperties"], false, "{}", spec.declaration.name);
            for required in schema["required"].as_array().into_iter().flatten() {
                assert!(schema["properties"][required.as_str().unwrap()].is_object());
            }
        }
        assert!(find("no such tool").is_none());
        assert_eq!(Environment::at("/".into()).declarations().len(), TOOLS.len());
    }

    #[test]
    fn only_looking_is_free_and_everything_else_asks() {
        assert_eq!(find("bash").unwrap().reach, Reach::Writes);
        assert_eq!(find("write_file").unwrap().reach, Reach::Writes);
        assert_eq!(find("edit_file").unwrap().reach, Reach::Writes);
        for name in ["read_file", "glob", "grep", "list_dir"] {
            assert_eq!(find(name).unwrap().reach, Reach::Reads, "{name}");
        }
    }

    #[test]
    fn a_tool_that_is_elsewhere_is_told_from_one_that_is_nowhere() {
        let here =
            Environment { tools: vec![find("glob").unwrap(), find("grep").unwrap()], ..Environment::at("/".into()) };
        assert!(here.tool("grep").is_ok());
        assert_eq!(
            here.tool("bash").unwrap_err(),
            "there is no tool \"bash\" in this environment; there are: glob, grep"
        );
        assert_eq!(here.tool("dig").unwrap_err(), "there is no tool \"dig\"; there are: glob, grep");
        let nothing = Environment { tools: Vec::new(), ..here };
        assert!(nothing.tool("dig").unwrap_err().ends_with("there are: none at all"));
    }

    #[test]
    fn characters_that_hide_or_reorder_text_are_spelled_out() {
        // Tags, the Arabic letter mark and the Mongolian vowel separator take no room either.
        assert_eq!(visible("a\u{e0041}b\u{61c}c\u{180e}\u{200d}"), "a\\u{e0041}b\\u{61c}c\\u{180e}\\u{200d}");
        assert_eq!(visible("rm\u{202e} -x\u{1b}[2K\tä"), "rm\\u{202e} -x\\u{1b}[2K\tä");
    }

    #[test]
    fn a_title_is_one_line_and_says_that_there_is_more() {
        assert_eq!(one_line("ls -la\n", 20), "ls -la");
        assert_eq!(one_line("ls\nrm x", 20), "ls …");
        assert_eq!(one_line("abcdef", 3), "abc …");
    }
}
