//! The tools that models may call: one file, one `const` for each, and one row in a table that [`all`] joins.
//!
//! A tool gets its arguments, an [`Environment`] and a [`Job`], and returns an [`Output`]. It runs on its own thread
//! ([`Running`]) and has no access to agents, store or terminal. A tool says whether it writes and how the question to
//! the user would look ([`ToolSpec::prepare`]); whether the user is asked is decided elsewhere.

mod agents;
pub mod arguments;
mod atomic_write;
mod background;
mod bash;
pub mod branch_diff;
pub mod capture;
mod command;
pub mod conflicts;
#[allow(missing_docs)]
pub mod definitions;
pub(crate) mod diff;
pub mod done;
mod edit_file;
mod environment;
mod file_access;
#[allow(missing_docs)]
pub mod file_list;
pub mod file_versions;
mod git;
mod glob;
mod grep;
#[allow(missing_docs)]
pub mod hooks;
mod judge;
pub mod key_command;
pub mod landing;
#[cfg(any(feature = "hosts", feature = "mcp"))]
pub mod line_process;
mod linux;
mod list_dir;
pub mod locate;
pub mod mcp;
#[cfg(feature = "hosts")]
pub mod mcp_server;
mod multi_edit;
mod network;
pub mod origin;
mod question;
mod read_file;
pub mod remote;
#[cfg(feature = "coordinator")]
pub mod review;
pub mod server_process;
mod shared_network;
#[allow(missing_docs)]
pub mod skill;
pub mod snapshots;
pub mod supervisor;
mod todo;
pub mod tool_thread;
pub mod user_tool;
mod walk;
pub mod worktree;
mod write_file;

use std::fmt;
use std::path::Path;

use serde_json::Value;

use crate::base::text::{self, is_unseen};
use crate::domain::file_change::FileStep;
use crate::domain::flow::ToolRequest;
use crate::domain::tool::{Reach, ToolDeclaration};
use crate::features::FEATURES;
use crate::sandbox::Promise;

pub use crate::base::job::{Job, Outcome};
pub use crate::policy::paths::Verdict as PathVerdict;
pub use background::BackgroundCommands;
pub use bash::{is_in_background, protected_changes};
use capture::{Capture, Sink as _};
pub use command::{find_level, try_proxy};
pub use environment::Environment;
pub use file_access::suggestion as similar_name;
pub use judge::{AttachedFile, Judge, Judged, Judgement, WaysToAllow, open_attached};
pub use linux::child_exit::ChildExit;
pub use network::{NetworkAccess, NetworkRequest};
pub use question::{Answers, Question};
pub use read_file::read_beginning as beginning_of_file;
pub use shared_network::SharedNetworks;
pub use tool_thread::Running;

/// Every built-in tool, in the order in which they are declared to models.
pub fn all() -> impl Iterator<Item = &'static ToolSpec> + Clone {
    let of_features = FEATURES.iter().flat_map(|feature| feature.tools);
    FILES_AND_COMMANDS.iter().chain(of_features).chain(OWN).chain(agents::ALL).copied()
}

const FILES_AND_COMMANDS: &[&ToolSpec] = &[
    &bash::SPEC,
    &background::OUTPUT,
    &background::KILL,
    &read_file::SPEC,
    &write_file::SPEC,
    &edit_file::SPEC,
    &multi_edit::SPEC,
    &glob::SPEC,
    &grep::SPEC,
    &list_dir::SPEC,
];

const OWN: &[&ToolSpec] = &[&todo::SPEC, &skill::SPEC];

/// The names of our tools in other agents, besides Claude Code.
const OTHER_NAMES: &[(&str, &[&str])] = &[
    ("bash", &["shell", "exec", "exec_command", "run_shell_command", "run_command", "execute_command", "terminal"]),
    ("read_file", &["read", "view", "cat", "open_file"]),
    ("write_file", &["write", "create_file", "write_to_file"]),
    ("edit_file", &["edit", "replace", "apply_patch", "str_replace", "str_replace_editor", "replace_in_file"]),
    ("grep", &["search", "grep_search", "search_files"]),
    ("glob", &["find", "find_files"]),
    ("list_dir", &["ls", "list", "list_directory", "list_files"]),
    ("web_fetch", &["webfetch", "fetch", "fetch_url"]),
    ("todo", &["update_plan", "write_todos", "todowrite", "todo_write"]),
    ("fork", &["task", "spawn_agent", "agent"]),
];

/// The result of a cancelled tool.
const INTERRUPTED: &str = "[interrupted]";

/// Other names for the parameter `path` of a directory.
const PATH_ALIASES: &[(&str, &str)] =
    &[("dir_path", "path"), ("directory", "path"), ("file_path", "path"), ("filePath", "path"), ("workdir", "path")];

/// Other names for the parameter `file_path`.
const FILE_PATH_ALIASES: [(&str, &str); 4] =
    [("path", "file_path"), ("filePath", "file_path"), ("file", "file_path"), ("filename", "file_path")];

/// A tool that models can call.
pub struct ToolSpec {
    /// The declaration that models get.
    pub declaration: ToolDeclaration<'static>,
    /// Pairs of an accepted and a declared parameter name: models know other agents' names too. If the declared name is
    /// empty, the parameter is ignored.
    pub aliases: &'static [(&'static str, &'static str)],
    /// Whether a call needs approval.
    pub reach: Reach,
    /// The subject of the agent's policy.
    pub judged: Judged,
    /// Checks arguments that fit the schema, without changing anything and without blocking. Returns what the user
    /// would be asked, or an error message for the model.
    pub check: fn(&Value, &Environment) -> Result<Question, String>,
    /// Runs a call whose arguments went through [`ToolSpec::prepare`].
    pub run: Run,
}

/// The argument of a tool that a person may change at the question: a command, or the text for a file.
fn editable_argument(tool: &str) -> Option<&'static str> {
    match tool {
        "bash" => Some("command"),
        "write_file" => Some("content"),
        "edit_file" => Some("new_string"),
        _ => None,
    }
}

/// The command or the text of a call that a person may change before it runs.
pub fn editable_text(tool: &str, arguments: &Value) -> Option<String> {
    arguments.get(editable_argument(tool)?)?.as_str().map(str::to_owned)
}

/// The arguments of a call as the tool understands them, or as the model wrote them if it does not.
pub fn understood_arguments(tool: &str, arguments: &str) -> Value {
    let understood = find(tool).and_then(|spec| arguments::parse(arguments, &spec.declaration, spec.aliases).ok());
    understood.unwrap_or_else(|| serde_json::from_str(arguments).unwrap_or_default())
}

/// The arguments with another command or text.
pub fn with_text(tool: &str, arguments: &Value, text: &str) -> Option<Value> {
    let mut arguments = arguments.clone();
    *arguments.get_mut(editable_argument(tool)?)? = Value::from(text);
    Some(arguments)
}

/// How a call is executed.
#[derive(Clone, Copy)]
pub enum Run {
    /// On its own thread. Blocks; returns soon after the job is cancelled.
    OnThread(fn(&Prepared, &Environment, &Job) -> Output),
    /// In the event loop: the arguments become a request to it.
    InEventLoop(fn(&Value) -> ToolRequest),
}

/// The output of a call, without the call's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The text for the model.
    pub content: String,
    pub is_error: bool,
    /// Additional warnings for the person.
    pub warnings: Vec<String>,
    /// The files that it changed.
    pub changed: Option<Box<FileStep>>,
}

impl Output {
    /// The result of a call that succeeded.
    pub fn success(content: impl Into<String>) -> Self {
        Self { content: content.into(), is_error: false, warnings: Vec::new(), changed: None }
    }

    /// The message should let the model correct the call.
    pub fn failure(content: impl Into<String>) -> Self {
        Self { content: content.into(), is_error: true, warnings: Vec::new(), changed: None }
    }
}

/// A call that was checked and can be approved.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// Fit the schema; without aliases and nulls.
    pub arguments: Value,
    /// The question for the person.
    pub question: Question,
    /// The properties of the sandbox on which the question or the policy relies.
    pub promise: Promise,
}

impl ToolSpec {
    /// Checks the arguments as the model wrote them.
    pub fn prepare(&self, arguments: &str, env: &Environment) -> Result<Prepared, String> {
        let arguments = arguments::parse(arguments, &self.declaration, self.aliases)?;
        let question = (self.check)(&arguments, env)?;
        Ok(Prepared { arguments, question, promise: env.promise() })
    }
}

pub fn find(name: &str) -> Option<&'static ToolSpec> {
    all().find(|spec| spec.declaration.name == name)
}

impl fmt::Debug for ToolSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.declaration.name)
    }
}

/// The start and the end of a text that is too long for the model; all of it is in a file.
pub fn capped(text: &str, is_error: bool, cap: usize, directory: &Path) -> Output {
    let mut capture = Capture::new(cap, directory);
    capture.push(text.as_bytes());
    Output { is_error, ..Output::success(capture.finish()) }
}

/// Escapes every character that could make a line look different from what it is: control characters other than a tab,
/// and those that hide or reorder text (Unicode TR 36, "bidirectional text spoofing") or that are invisible.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => shown.push(c),
            // Emoji and some scripts need some of these, but in a command they may hide something.
            c if is_unseen(c) => shown.extend(c.escape_unicode()),
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

/// The first line of `text`, escaped, at most `width` characters, with an ellipsis if anything was left out.
pub fn one_line(text: &str, width: usize) -> String {
    let beginning: Vec<String> = text.trim().lines().take(2).map(visible).collect();
    text::first_line(&beginning.join("\n"), width)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::policy::paths::DenyList;
    use crate::sandbox::Level;

    #[test]
    fn a_home_directory_as_the_workspace_counts_as_no_sandbox() {
        let denied = Arc::new(DenyList { home: Some("/home/me".into()), ..DenyList::default() });
        for (directory, expected) in [("/home/me/work", true), ("/srv", true), ("/home/me", false), ("/home", false)] {
            let env = Environment { denied: denied.clone(), ..Environment::at(directory.into()) };
            assert_eq!(env.is_sandboxed(), expected, "{directory}");
        }
    }

    #[test]
    fn a_sandbox_that_leaves_protected_files_open_counts_as_none() {
        let at = |level| {
            let env = Environment::at("/srv".into());
            Environment { sandbox: env.sandbox.clone().at_level(level), ..env }.is_sandboxed()
        };
        assert!(at(Level::Namespaces) && at(Level::SharedProc) && !at(Level::Landlock) && !at(Level::None));
    }

    #[test]
    fn a_question_shows_what_nobody_would_see() {
        let hidden = "rm\u{115f} a\u{a0}b\u{34f}\u{2800}\u{fe0f}\u{e0101}\u{13440}\u{16fe4}\u{1d159}\u{3000}c";
        let shown = visible(hidden);
        assert!(shown.is_ascii(), "{shown}");
        assert!(shown.starts_with("rm\\u{115f} a\\u{a0}b\\u{34f}\\u{2800}"), "{shown}");
        assert_eq!(visible("echo 'größer 日本'"), "echo 'größer 日本'");
    }

    #[test]
    fn every_tool_is_found_by_its_name_and_declares_an_object_schema() {
        for spec in all() {
            assert_eq!(find(spec.declaration.name).unwrap().declaration, spec.declaration);
            let schema: Value = serde_json::from_str(spec.declaration.parameters).unwrap();
            assert_eq!(schema["type"], "object", "{}", spec.declaration.name);
            assert_eq!(schema["additionalProperties"], false, "{}", spec.declaration.name);
            let properties = &schema["properties"];
            let of_items = |property: &Value| property["items"]["properties"].clone();
            let levels: Vec<Value> = properties.as_object().unwrap().values().map(of_items).collect();
            for (alias, name) in spec.aliases {
                assert!(properties[alias].is_null(), "{alias}");
                let is_declared = levels.iter().chain([properties]).any(|level| level[name].is_object());
                assert!(name.is_empty() || is_declared, "{name}");
            }
            for required in schema["required"].as_array().into_iter().flatten() {
                assert!(schema["properties"][required.as_str().unwrap()].is_object());
            }
        }
        assert!(find("no such tool").is_none());
        // Without skills there is no tool for them.
        assert_eq!(Environment::at("/".into()).declarations().len(), all().count() - 1);
    }

    #[test]
    fn only_tools_that_change_something_ask() {
        assert_eq!(find("bash").unwrap().reach, Reach::Writes);
        assert_eq!(find("write_file").unwrap().reach, Reach::Writes);
        assert_eq!(find("edit_file").unwrap().reach, Reach::Writes);
        assert_eq!(find("multi_edit").unwrap().reach, Reach::Writes);
        for name in ["read_file", "glob", "grep", "list_dir"] {
            assert_eq!(find(name).unwrap().reach, Reach::Reads, "{name}");
        }
    }

    #[test]
    fn a_tool_of_another_environment_is_distinguished_from_an_unknown_one() {
        let here =
            Environment { tools: vec![find("glob").unwrap(), find("grep").unwrap()], ..Environment::at("/".into()) };
        assert!(here.tool("grep").is_ok());
        assert_eq!(
            here.tool("bash").unwrap_err(),
            "tool \"bash\" is not available in this environment; available tools: glob, grep"
        );
        assert_eq!(here.tool("dig").unwrap_err(), "unknown tool \"dig\"; available tools: glob, grep");
        let empty = Environment { tools: Vec::new(), ..here };
        assert!(empty.tool("dig").unwrap_err().ends_with("available tools: none"));
    }

    #[test]
    fn characters_that_hide_or_reorder_text_are_escaped() {
        // Tags, the Arabic letter mark and the Mongolian vowel separator have no width either.
        assert_eq!(visible("a\u{e0041}b\u{61c}c\u{180e}\u{200d}"), "a\\u{e0041}b\\u{61c}c\\u{180e}\\u{200d}");
        assert_eq!(visible("rm\u{202e} -x\u{1b}[2K\tä"), "rm\\u{202e} -x\\u{1b}[2K\tä");
    }

    #[test]
    fn a_title_is_one_line_and_shows_that_it_is_cut() {
        assert_eq!(one_line("ls -la\n", 20), "ls -la");
        assert_eq!(one_line("ls\nrm x", 20), "ls …");
        assert_eq!(one_line("abcdef", 3), "abc …");
    }
}
