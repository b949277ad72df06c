//! Where an agent's tools run, and which tools it has.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::file_versions::{KnownFiles, LastWriters};
use super::remote::Remote;
use super::snapshots::{Recorder, Snapshots};
use super::{
    OTHER_NAMES, Prepared, SharedNetworks, ToolSpec, all, find, locate, mcp, one_line, skill, user_tool, visible,
    worktree,
};
use crate::base::id::AgentId;
use crate::base::text::nearest;
use crate::domain::agent_host::HostCommand;
use crate::domain::definition::AgentDefinition;
use crate::domain::hook::{Hook, own_name};
use crate::domain::mcp::{McpPrompt, McpResource, McpTool};
use crate::domain::rule::Rules;
use crate::domain::sandbox::SandboxSettings;
use crate::domain::skill::SkillList;
use crate::domain::tool::{ScriptedTools, ToolDeclaration};
use crate::domain::user_tool::UserTool;
use crate::policy::paths::DenyList;
use crate::proxy::Calls;
use crate::sandbox::{Policy, Promise};

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
    /// The commands of the host that it talks to, as far as known.
    pub host_commands: Arc<[HostCommand]>,
    /// What every system prompt ends with.
    pub added_prompt: Arc<str>,
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
        Self::with_deny_list(working_directory, locate::deny_list(std::env::home_dir(), &[], locate::moved_directories))
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
            host_commands: Arc::new([]),
            definitions: Arc::new([]),
            added_prompt: Arc::default(),
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
        let mut homes = self.denied.home.as_deref().into_iter().chain(self.sandbox.account_home());
        let has_home = homes.any(|home| home.starts_with(workspace));
        let is_held = self.remote.as_ref().map_or_else(
            || self.sandbox.is_whole() && self.sandbox.gaps(workspace).is_empty(),
            |remote| remote.is_contained(),
        );
        is_held && !has_home
    }

    /// The writable directory of its commands on this machine.
    pub(super) fn local_workspace(&self) -> &Path {
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
    pub(super) fn meant_tool(&self, name: &str) -> Option<&'static str> {
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
    pub(super) fn offers(&self, tool: &ToolSpec) -> bool {
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
