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
mod linux;
mod list_dir;
pub mod locate;
pub mod mcp;
mod multi_edit;
mod network;
pub mod origin;
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

use std::ffi::OsString;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::base::id::AgentId;
use crate::base::text::{self, is_unseen, nearest};
use crate::domain::definition::AgentDefinition;
use crate::domain::diff::DiffColors;
use crate::domain::file_change::FileStep;
use crate::domain::flow::ToolRequest;
use crate::domain::frame::{Style, StyledLine};
use crate::domain::hook::{Hook, own_name};
use crate::domain::mcp::{McpPrompt, McpResource, McpTool};
use crate::domain::rule::Rules;
use crate::domain::sandbox::SandboxSettings;
use crate::domain::skill::SkillList;
use crate::domain::tool::{Reach, ScriptedTools, ToolDeclaration};
use crate::domain::user_tool::UserTool;
use crate::features::FEATURES;
use crate::policy::paths::DenyList;
use crate::proxy::Calls;
use crate::sandbox::{Policy, Promise};

pub use crate::base::job::{Job, Outcome};
pub use crate::policy::paths::Verdict as PathVerdict;
use atomic_write::Snapshot;
pub use background::BackgroundCommands;
pub use bash::{is_in_background, protected_changes};
use capture::{Capture, Sink as _};
pub use command::{find_level, try_proxy};
pub use file_access::suggestion as similar_name;
use file_versions::{KnownFiles, LastWriters};
pub use judge::{AttachedFile, Judge, Judged, WaysToAllow, open_attached};
pub use linux::child_exit::ChildExit;
use locate::Located;
pub use network::{NetworkAccess, NetworkRequest};
pub use read_file::read_beginning as beginning_of_file;
use remote::Remote;
pub use shared_network::SharedNetworks;
use snapshots::{Recorder, Snapshots};
pub use tool_thread::Running;

/// Every built-in tool, in the order in which they are declared to models.
pub fn all() -> impl Iterator<Item = &'static ToolSpec> + Clone {
    let of_features = FEATURES.iter().flat_map(|feature| feature.tools);
    FILES_AND_COMMANDS.iter().chain(of_features).chain(AGENTS).copied()
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

const AGENTS: &[&ToolSpec] = &[
    &todo::SPEC,
    &skill::SPEC,
    &agents::FORK,
    &agents::KILL,
    &agents::SEND_MAIL,
    &agents::CHECK_MAIL,
    &agents::READ_MAIL,
    &agents::WAIT,
    &agents::AGENTS,
];

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

/// The text for the user before a call runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// A summary in one line, also shown in lists of calls.
    pub title: String,
    /// The exact command, or the path and the change. Control and direction characters are escaped.
    pub detail: Vec<String>,
    /// The first lines of the detail that are the command and stand out; 0: all of them do.
    pub command_lines: usize,
    /// Which lines of the detail are those of a diff.
    pub diffs: Vec<Range<usize>>,
    /// The file or directory that the call is about.
    pub file: Option<Located>,
    /// The state of the file that the shown change applies to; in another state it is not changed.
    pub snapshot: Option<Snapshot>,
    /// The texts around it.
    pub answers: Answers,
    /// The hosts that the call names.
    pub network: Option<NetworkRequest>,
    /// Ways to let calls like this one run without a question.
    pub ways: WaysToAllow,
}

/// Begins the line of a question that says why it is asked.
const ASKS_BECAUSE: &str = "asks because: ";

impl Question {
    /// Adds the lines of a diff to the detail.
    pub fn add_diff(&mut self, lines: Vec<String>) {
        let begin = self.detail.len();
        self.detail.extend(lines);
        self.diffs.push(begin..self.detail.len());
    }

    /// The colours of the code in each diff.
    pub fn diff_colors(&self) -> Vec<DiffColors> {
        let path = self.file.as_ref().map(|file| file.path.clone()).unwrap_or_default();
        self.diffs.iter().map(|range| DiffColors::of(&path, &self.detail[range.clone()])).collect()
    }

    /// The detail as it is drawn.
    pub fn lines(&self, colors: &[DiffColors]) -> Vec<StyledLine> {
        let stands_out = |at| self.command_lines == 0 || at < self.command_lines;
        let style = |at| if stands_out(at) { Style::BOLD } else { Style::default() };
        let plain = |lines: Range<usize>| lines.map(|at| StyledLine::of(self.detail[at].as_str(), style(at)));
        let mut lines = Vec::new();
        let mut at = 0;
        for (range, colors) in self.diffs.iter().zip(colors) {
            lines.extend(plain(at..range.start));
            lines.extend(colors.draw(&self.detail[range.clone()]));
            at = range.end;
        }
        lines.extend(plain(at..self.detail.len()));
        lines
    }

    /// Adds why it is asked, for a person.
    pub fn add_reason(&mut self, reason: &str) {
        self.detail.push(format!("{ASKS_BECAUSE}{}", visible(reason)));
    }

    /// The reason for the question, if it is known.
    pub fn reason(&self) -> Option<&str> {
        self.detail.last()?.strip_prefix(ASKS_BECAUSE)
    }
}

/// The texts around a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answers {
    /// Before the title.
    pub ask: &'static str,
    /// The effect of the key for yes.
    pub yes: &'static str,
    /// The effect of the key for no.
    pub no: &'static str,
}

impl Answers {
    /// For a call that is about to run.
    pub const RUN: Self = Self { ask: "Run this? ", yes: "run it", no: "refuse it" };
}

impl Question {
    /// A question that does not depend on the content of a file.
    pub fn new(title: String, detail: Vec<String>) -> Self {
        Self {
            title,
            detail,
            command_lines: 0,
            diffs: Vec::new(),
            file: None,
            snapshot: None,
            answers: Answers::RUN,
            network: None,
            ways: WaysToAllow::default(),
        }
    }

    /// A question about reading. Only a path outside of the workspace is shown in full.
    fn to_read(title: String, file: Located) -> Self {
        let detail = match &file.verdict {
            PathVerdict::AskOutside(directory) => {
                let scope = if *directory == file.path { "" } else { " and everything else below its directory" };
                vec![visible(&file.path.to_string_lossy()), format!("yes allows this agent to read it{scope}")]
            }
            _ => Vec::new(),
        };
        Self { file: Some(file), ..Self::new(title, detail) }
    }

    /// The canonical path that the call is about.
    fn path(&self) -> &Path {
        self.file.as_ref().map_or(Path::new(""), |file| &file.path)
    }
}

/// Where an agent's tools run, and which tools it has.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The specification by which the user chose it, in the normal form that is stored and compared.
    pub spec: String,
    /// In the order in which they are declared to models.
    pub tools: Vec<&'static ToolSpec>,
    /// The start of the system prompt.
    pub instructions: Arc<str>,
    /// The files that the project's instructions were read from, one line each, for the user.
    pub sources: Vec<String>,
    /// The git worktree that was created for it.
    pub worktree: Option<PathBuf>,
    /// The originals of the working directory, if it is in that worktree: the directory with the same name in the
    /// repository, and the one that the worktree was made from.
    pub origins: Arc<[PathBuf]>,
    /// Where its file tools and commands run, if not on this machine.
    pub remote: Option<Arc<Remote>>,
    /// Where `ssh`, `podman` and `docker` are looked for, instead of in `PATH`.
    pub program_path: Option<OsString>,
    /// The agent that works there, for its calls.
    pub agent: Option<AgentId>,
    /// The versions of files that the model has seen.
    pub known_files: Arc<KnownFiles>,
    pub last_writers: Arc<LastWriters>,
    /// Where commands run and relative paths start. With the worktree, if there is one, it is the workspace, in which
    /// files may be read.
    pub working_directory: PathBuf,
    /// The files that tools never open.
    pub denied: Arc<DenyList>,
    /// The permissions of the agents, besides their policies.
    pub rules: Arc<Rules>,
    /// Where output too long for the model is saved; created when first needed, its files readable by their owner only.
    pub output_directory: PathBuf,
    /// This program's binary, which is run as `polylogue --supervise`.
    pub supervisor: PathBuf,
    /// The time limit of a command for which the model sets none.
    pub bash_timeout: Duration,
    /// How many bytes of a tool's output the model gets.
    pub output_cap: usize,
    /// The permissions of commands.
    pub sandbox: Policy,
    /// Programs that are tools, as far as their schemas are known.
    pub user_tools: Arc<[UserTool]>,
    /// The tools of MCP servers, as far as they are known.
    pub mcp_tools: Arc<[McpTool]>,
    /// The resources that a person can name in a message, as far as known.
    pub mcp_resources: Arc<[McpResource]>,
    /// The prompts that a person can use as commands, as far as known.
    pub mcp_prompts: Arc<[McpPrompt]>,
    /// The definitions of agents of the person and of projects.
    pub definitions: Arc<[AgentDefinition]>,
    /// The hooks of the person and of projects.
    pub hooks: Arc<[Hook]>,
    /// The skills of the directory; see [`Environment::set_skills`].
    pub skills: Arc<SkillList>,
    /// The folders of the skills, whose files may be read.
    pub skill_folders: Arc<[PathBuf]>,
    /// Serves commands that may reach single hosts, where there is an event loop.
    pub proxy: Option<Calls>,
    /// The network namespaces of the background commands of the agent.
    pub networks: SharedNetworks,
    /// The copies of files before changes; `None` without a data directory.
    pub snapshots: Option<Snapshots>,
    /// Records the changes of the call.
    pub recorder: Option<Recorder>,
    /// Gives the results in place of the tools.
    pub script: Option<Arc<dyn ScriptedTools>>,
}

impl Environment {
    /// All tools in this directory, with default limits; long output is saved in the directory for temporary files.
    pub fn at(working_directory: PathBuf) -> Self {
        Self::with_deny_list(
            working_directory,
            locate::deny_list(std::env::home_dir(), &[], &locate::moved_directories()),
        )
    }

    /// Like [`Environment::at`], with this deny list.
    pub fn with_deny_list(working_directory: PathBuf, denied: DenyList) -> Self {
        Self {
            spec: String::new(),
            tools: all().collect(),
            instructions: "".into(),
            sources: Vec::new(),
            worktree: None,
            origins: Arc::new([]),
            remote: None,
            program_path: None,
            agent: None,
            known_files: Arc::default(),
            last_writers: Arc::default(),
            working_directory,
            denied: Arc::new(denied),
            rules: Arc::default(),
            output_directory: std::env::temp_dir(),
            supervisor: PathBuf::from("/proc/self/exe"),
            bash_timeout: Duration::from_secs(120),
            output_cap: 32 * 1024,
            sandbox: Policy::new(SandboxSettings::default()),
            user_tools: Arc::new([]),
            mcp_tools: Arc::new([]),
            mcp_resources: Arc::new([]),
            mcp_prompts: Arc::new([]),
            definitions: Arc::new([]),
            hooks: Arc::new([]),
            skills: Arc::default(),
            skill_folders: Arc::new([]),
            proxy: None,
            networks: SharedNetworks::default(),
            snapshots: None,
            recorder: None,
            script: None,
        }
    }

    /// Whether commands can change only the workspace and no protected files, and the workspace is not where the
    /// person's programs start from: a home directory has files that shells and git obey.
    pub fn is_sandboxed(&self) -> bool {
        let workspace = self.local_workspace();
        let mut homes = self.denied.home.iter().chain(&self.sandbox.account_home);
        let has_home = homes.any(|home| home.starts_with(workspace));
        let is_held = self.remote.as_ref().map_or_else(
            || self.sandbox.is_whole() && self.sandbox.gaps(workspace).is_empty(),
            |remote| remote.is_contained(),
        );
        is_held && !has_home
    }

    /// The writable directory of its commands on this machine.
    fn local_workspace(&self) -> &Path {
        self.worktree.as_ref().unwrap_or(&self.working_directory)
    }

    /// The promise that a question about a command can make.
    pub(crate) fn promise(&self) -> Promise {
        self.sandbox.promise(self.local_workspace())
    }

    /// Why commands here could change something protected, for the person who is asked.
    pub(crate) fn gaps(&self) -> Vec<String> {
        let gaps = self.sandbox.gaps(self.local_workspace());
        gaps.iter().map(|gap| format!("not protected: {}", visible(gap))).collect()
    }

    /// The workspace by which rules are judged; of another machine, no path of this one.
    pub fn workspace(&self) -> &Path {
        self.remote.as_ref().map_or_else(|| self.path_policy().workspace, |remote| remote.workspace())
    }

    /// What a git worktree of ours is called, with the directory in it: `shop:fix-total/src`.
    pub fn place_name(&self) -> Option<String> {
        let root = self.worktree.as_ref().filter(|_| self.remote.is_none())?;
        let name = worktree::name_of(root)?;
        let below = self.working_directory.strip_prefix(root).ok()?.display().to_string();
        let slash = if below.is_empty() { "" } else { "/" };
        Some(format!("{name}{slash}{below}"))
    }

    /// Where the agent works, for texts.
    pub fn place(&self) -> &Path {
        self.remote.as_ref().map_or(&self.working_directory, |remote| remote.workspace())
    }

    pub fn tool(&self, name: &str) -> Result<&'static ToolSpec, String> {
        if let Some(spec) = self.tools.iter().find(|spec| spec.declaration.name == name) {
            return Ok(spec);
        }
        let known: Vec<&str> = self.declarations().into_iter().map(|declaration| declaration.name).collect();
        let known = if known.is_empty() { "none".into() } else { known.join(", ") };
        let problem = match find(name) {
            Some(_) => format!("tool {name:?} is not available in this environment"),
            None if name.starts_with(crate::domain::mcp::PREFIX) => {
                format!("tool {:?} is not offered by any MCP server now", one_line(name, 100))
            }
            None => {
                let meant = self.meant_tool(name).map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
                format!("unknown tool {:?}{meant}", one_line(name, 100))
            }
        };
        Err(format!("{problem}; available tools: {known}"))
    }

    /// The tool here that a model means by the name of another agent's tool, or by one that is nearly ours.
    fn meant_tool(&self, name: &str) -> Option<&'static str> {
        let listed = OTHER_NAMES.iter().find(|(_, names)| names.contains(&name)).map(|(own, _)| *own);
        let known = || self.tools.iter().filter(|spec| self.offers(spec)).map(|spec| spec.declaration.name);
        let other = own_name(name).or(listed).filter(|own| known().any(|known| known == *own));
        other.or_else(|| nearest(name, known()))
    }

    /// Finds the tool of this name, and checks the arguments as the model wrote them.
    pub fn prepare(&self, name: &str, arguments: &str) -> Result<(&'static ToolSpec, Prepared), String> {
        if let Some(tool) = self.mcp_tools.iter().find(|tool| tool.full_name == name) {
            return mcp::prepare(tool, arguments, self).map(|prepared| (&mcp::SPEC, prepared));
        }
        if let Some(tool) = self.user_tools.iter().find(|tool| tool.entry.name == name) {
            return user_tool::prepare(tool, arguments, self).map(|prepared| (&user_tool::SPEC, prepared));
        }
        let spec = self.tool(name)?;
        spec.prepare(arguments, self).map(|prepared| (spec, prepared))
    }

    /// Gives it these skills. Their files may be read, by file tools and by commands, wherever they are; a remote
    /// environment has none of them.
    pub fn set_skills(&mut self, skills: Arc<SkillList>) {
        if self.remote.is_some() {
            return;
        }
        // A folder that a person has put into a wide or private directory opens nothing.
        let is_open = |folder: &&PathBuf| !self.denied.is_broad(folder) && !self.denied.may_be_below(folder);
        let folders: Vec<PathBuf> =
            skills.skills.iter().map(|skill| &skill.directory).filter(is_open).cloned().collect();
        self.sandbox.settings.shown.clone_from(&folders);
        (self.skills, self.skill_folders) = (skills, folders.into());
    }

    /// Gives a remote environment the skills of the project there, whose files are there as well.
    pub fn set_skills_elsewhere(&mut self, skills: Arc<SkillList>) {
        self.skills = skills;
    }

    /// The part of the system prompt about the skills that the model may use.
    pub fn skill_prompt(&self) -> String {
        if self.offers(&skill::SPEC) { self.skills.prompt().0 } else { String::new() }
    }

    /// Whether models are offered this built-in tool. The tool for skills is left out if there are none.
    fn offers(&self, tool: &ToolSpec) -> bool {
        let has = self.tools.iter().any(|spec| spec.declaration.name == tool.declaration.name);
        has && (tool.declaration.name != skill::NAME || self.skills.for_models().next().is_some())
    }

    /// The tools as a request declares them.
    pub fn declarations(&self) -> Vec<ToolDeclaration<'_>> {
        let built_in = self.tools.iter().filter(|spec| self.offers(spec)).map(|spec| spec.declaration);
        let of_user = self.user_tools.iter().map(UserTool::declaration);
        built_in.chain(of_user).chain(self.mcp_tools.iter().map(McpTool::declaration)).collect()
    }
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
    use super::*;
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
