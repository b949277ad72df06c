//! Tools: what a model may ask for, each one file, one `const` and one row in [`TOOLS`].
//!
//! A tool is given its arguments, an [`Environment`] and a [`Job`], and gives back an [`Output`]. It runs on a thread of
//! its own ([`Running`]) and sees no agent, no store and no terminal. Whether a person is asked first is not decided here:
//! a tool says how far it reaches, and [`ToolSpec::prepare`] says what a person would be asked.

pub mod arguments;
mod bash;
mod capture;
mod diff;
mod house;
pub mod key_command;
mod process_tree;
mod read_file;
pub mod running;
pub mod supervise;
mod write_file;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::domain::flow::Request;
use crate::domain::tool::{Reach, ToolDeclaration};

pub use running::{Job, Running};

/// Every built-in tool, in the order in which models are told of them.
pub const TOOLS: &[&ToolSpec] = &[
    &bash::SPEC,
    &read_file::SPEC,
    &write_file::SPEC,
    &house::FORK,
    &house::KILL,
    &house::SEND_MAIL,
    &house::CHECK_MAIL,
    &house::READ_MAIL,
    &house::WAIT,
    &house::AGENTS,
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
    OnThread(fn(&Value, &Environment, &Job) -> Output),
    /// By the house: the call is turned into what is asked of it.
    ByHouse(fn(&Value) -> Request),
}

/// What a person is shown before a call runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// One line that sums the call up; also how a call is named in a list.
    pub title: String,
    /// The exact command, or the path and the change. Control and direction characters are spelled out.
    pub detail: Vec<String>,
}

/// The world in which an agent's tools run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
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

/// What models are told of all tools.
pub fn declarations() -> Vec<ToolDeclaration> {
    TOOLS.iter().map(|spec| spec.declaration).collect()
}

/// `text` with every character spelled out that could make a line look like something that it is not: control
/// characters other than a tab, and what hides or reorders text (Unicode TR 36, "bidirectional text spoofing").
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => shown.push(c),
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{ad}' => {
                shown.extend(c.escape_unicode());
            }
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
        assert_eq!(declarations().len(), TOOLS.len());
    }

    #[test]
    fn only_looking_is_free_and_everything_else_asks() {
        assert_eq!(find("bash").unwrap().reach, Reach::Writes);
        assert_eq!(find("write_file").unwrap().reach, Reach::Writes);
        assert_eq!(find("read_file").unwrap().reach, Reach::Reads);
    }

    #[test]
    fn characters_that_hide_or_reorder_text_are_spelled_out() {
        assert_eq!(visible("rm\u{202e} -x\u{1b}[2K\tä"), "rm\\u{202e} -x\\u{1b}[2K\tä");
    }

    #[test]
    fn a_title_is_one_line_and_says_that_there_is_more() {
        assert_eq!(one_line("ls -la\n", 20), "ls -la");
        assert_eq!(one_line("ls\nrm x", 20), "ls …");
        assert_eq!(one_line("abcdef", 3), "abc …");
    }
}
