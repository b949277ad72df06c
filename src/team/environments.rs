//! Resolves the specification of an environment to its tools, its directory and the system prompt.
//!
//! A specification omits the directory if it is the default: that of the environment, otherwise the one in which the
//! program was started. The directory of each agent is stored separately, so that the agent works there wherever the
//! program is started next.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use crate::base::beneath::read_followed;
use crate::base::error::{Error, Result};
use crate::base::file;
use crate::base::id::AgentId;
use crate::base::project::ProjectDirectories;
use crate::domain::config::Config;
use crate::domain::environment::{
    DEFAULT_ENVIRONMENT, EnvironmentEntry, EnvironmentNames, EnvironmentSpec, ResolvedSpec, WORKTREE,
};
use crate::domain::instructions::InstructionFile;
use crate::domain::remote_place::RemotePlace;
use crate::domain::rule::Rules;
use crate::domain::skill::SkillList;
use crate::proxy::Calls;
use crate::sandbox::Policy;
use crate::team::instructions::{self, Where, instruction_files};
use crate::tools::file_versions::LastWriters;
use crate::tools::origin::belongs;
use crate::tools::remote::{self, Connection, Connections, Remote, RemoteProject};
use crate::tools::skill::find;
use crate::tools::snapshots::{DIRECTORY, Snapshots};
use crate::tools::worktree::SEPARATOR;
use crate::tools::{self, Environment};

/// Of a file that contains a path, in bytes.
const MAX_PATH: u64 = 16 << 10;

pub struct Environments {
    entries: Vec<EnvironmentEntry>,
    /// The limits and everything else that all environments share.
    template: Environment,
    /// The rules of single directories.
    project_rules: Vec<(PathBuf, Rules)>,
    /// The instructions for the working directory, if they were read already: stored agents start with these.
    instructions: Option<Vec<InstructionFile>>,
    /// The digests of the instructions that the user trusts.
    trusted: BTreeSet<String>,
    /// The skills of the directories that were searched.
    skills: HashMap<PathBuf, Arc<SkillList>>,
    /// The directory of our worktrees; `None` without a data directory.
    worktrees: Option<PathBuf>,
    /// Environments by specification: many agents share one, and its files are read once.
    resolved: HashMap<String, ResolvedEnvironment>,
    /// To other machines and containers.
    connections: RefCell<Connections>,
    /// The projects at those places, by [`Remote::project_key`].
    projects: HashMap<String, RemoteProject>,
}

#[derive(Debug, Clone)]
pub struct ResolvedEnvironment {
    pub environment: Arc<Environment>,
    pub system: Rc<str>,
}

#[derive(Debug, Clone)]
pub enum Resolution {
    Ready(ResolvedEnvironment),
    /// A worktree of the repository around this directory has to be created first.
    Worktree(EnvironmentSpec, PathBuf),
    /// Another machine has to be reached first, or a container to be started, for an agent with this directory here.
    Remote(EnvironmentSpec, PathBuf),
}

impl Environments {
    pub fn new(config: &Config, proxy: Option<Calls>) -> Self {
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.into());
        // What processes share is there even if nothing is stored.
        let directory = config.data_directory.as_ref().or(config.shared_directory.as_ref());
        let own: Vec<PathBuf> = directory.into_iter().chain(&config.private_paths).cloned().collect();
        let data = config.data_directory.as_deref().map(real);
        let denied = tools::locate::deny_list(std::env::home_dir(), &own, tools::locate::moved_directories);
        let outputs = data.as_ref().map_or_else(|| real(&std::env::temp_dir()), |data| data.join("outputs"));
        let mut sandbox = config.sandbox.clone();
        sandbox.hidden.extend(own.iter().cloned());
        let template = Environment {
            output_directory: outputs,
            snapshots: data.as_ref().map(|data| Snapshots::new(data.join(DIRECTORY))),
            rules: Arc::new(config.rules.clone()),
            supervisor: config.supervisor.clone(),
            bash_timeout: config.settings.bash_timeout,
            output_cap: config.settings.output_cap,
            program_path: config.program_path.clone(),
            sandbox: Policy::new(sandbox),
            proxy,
            definitions: config.definitions.clone(),
            added_prompt: config.added_prompt().into(),
            hooks: config.hooks.clone(),
            script: config.replay.as_ref().map(|replay| Arc::clone(&replay.tools)),
            ..Environment::with_deny_list(real(&config.working_directory), denied)
        };
        let worktrees = data.map(|data| data.join("worktrees"));
        let trusted = config.trusted_instructions.clone();
        let project_rules = config.project_rules.clone();
        let skills = HashMap::from([(template.working_directory.clone(), config.skills.clone())]);
        let (entries, instructions) = (config.environments.clone(), config.instructions.clone());
        Self {
            entries,
            template,
            project_rules,
            instructions,
            trusted,
            skills,
            worktrees,
            resolved: HashMap::new(),
            connections: RefCell::default(),
            projects: HashMap::new(),
        }
    }

    pub fn usual(&mut self) -> ResolvedEnvironment {
        self.resolve_stored(DEFAULT_ENVIRONMENT).expect("the default environment is built in and needs no directory")
    }

    /// Resolves a specification that was given in the environment `here`.
    pub fn find(&self, text: &str, here: &Environment) -> Result<Resolution> {
        self.resolve(text, here, instructions_of)
    }

    /// `instructions` reads those for a directory.
    fn resolve(
        &self,
        text: &str,
        here: &Environment,
        instructions: impl Fn(&Path) -> Vec<InstructionFile>,
    ) -> Result<Resolution> {
        let spec: EnvironmentSpec = text.parse()?;
        let meaning = self.meaning(&spec)?;
        let directory = match (&spec.directory, &meaning.directory) {
            (Some(written), _) => real_directory(&here.working_directory, Path::new(written))?,
            (None, Some(own)) => real_directory(&self.template.working_directory, own)?,
            (None, None) => here.working_directory.clone(),
        };
        if spec.remote.is_some() {
            return Ok(Resolution::Remote(spec, directory));
        }
        if meaning.has_worktree && self.worktree_around(&directory).is_none() {
            return Ok(Resolution::Worktree(spec, directory));
        }
        let files = instructions(&directory);
        Ok(Resolution::Ready(self.build(&spec, &meaning, directory, &files)))
    }

    fn meaning(&self, spec: &EnvironmentSpec) -> Result<ResolvedSpec> {
        let tools: Vec<&str> = tools::all().map(|tool| tool.declaration.name).collect();
        EnvironmentNames { entries: &self.entries, tools: &tools }.resolve(spec)
    }

    fn build(
        &self,
        spec: &EnvironmentSpec,
        meaning: &ResolvedSpec,
        directory: PathBuf,
        files: &[InstructionFile],
    ) -> ResolvedEnvironment {
        let own = meaning.directory.as_ref().and_then(|own| real_directory(&self.template.working_directory, own).ok());
        let is_default = directory == own.unwrap_or_else(|| self.template.working_directory.clone());
        let spec = spec.in_directory((!is_default).then_some(&*directory));
        let has = |tool: &&tools::ToolSpec| meaning.tools.iter().any(|name| name == tool.declaration.name);
        let tools: Vec<_> = tools::all().filter(has).collect();
        let own = meaning.system.as_deref();
        let (instructions, sources) = instructions::write(&tools, Where::Here(&directory), own, files, &self.trusted);
        let system: Rc<str> = instructions.as_str().into();
        let skills = self.skills.get(&directory).cloned().unwrap_or_default();
        let origins = self.origins_of(&directory);
        let mut environment = Environment {
            spec: spec.to_string(),
            tools,
            instructions: instructions.into(),
            sources,
            rules: self.rules_at(&directory, &origins),
            worktree: self.worktree_around(&directory),
            origins: origins.into(),
            working_directory: directory,
            ..self.template.clone()
        };
        environment.set_skills(skills);
        ResolvedEnvironment { environment: Arc::new(environment), system }
    }

    /// The connection to a place, which is made when it is first used, and ends when the last holder drops it.
    pub fn connection(&self, place: &RemotePlace, directory: &Path) -> Result<Arc<Connection>> {
        let local = Environment {
            working_directory: directory.to_path_buf(),
            worktree: self.worktree_around(directory),
            ..self.template.clone()
        };
        self.connections.borrow_mut().find(place, &local).map_err(Error::usage)
    }

    /// An environment on another machine or in a container, with a known directory there. Nothing is started.
    pub fn remote_environment(&self, spec: &EnvironmentSpec, directory: PathBuf) -> Result<ResolvedEnvironment> {
        let meaning = self.meaning(spec)?;
        let place = spec.remote.clone().ok_or_else(|| Error::usage("no place is named"))?;
        let connection = self.connection(&place, &directory)?;
        let ResolvedEnvironment { environment, .. } = self.build(spec, &meaning, directory.clone(), &[]);
        let mut environment = Arc::unwrap_or_clone(environment);
        let remote = Remote::new(place.clone(), &directory, connection);
        environment.tools = environment.tools.iter().map(|tool| remote::counterpart(tool)).collect();
        if let RemotePlace::Ssh { .. } = place {
            environment.spec = spec.in_directory(None).to_string();
            // They were given for the files and programs of this machine.
            Arc::make_mut(&mut environment.rules).allow.clear();
        }
        // The files of those that it has are on this machine.
        environment.set_skills(Arc::default());
        (environment.snapshots, environment.remote) = (None, Some(Arc::new(remote)));
        self.instruct(&mut environment);
        let system = (*environment.instructions).into();
        Ok(ResolvedEnvironment { environment: Arc::new(environment), system })
    }

    /// Gives a remote environment its instructions and its skills, as far as they are known.
    pub fn instruct(&self, environment: &mut Environment) {
        let Some(remote) = environment.remote.clone() else { return };
        let meaning = environment.spec.parse().and_then(|spec| self.meaning(&spec)).unwrap_or_default();
        let (about, place) = (remote.about(), remote.trusted_as());
        let known = self.projects.get(&remote.project_key());
        let files = known.map(|project| project.instructions.as_slice()).unwrap_or_default();
        let there = Where::Elsewhere(&about, &place);
        let own = meaning.system.as_deref();
        let (text, mut sources) = instructions::write(&environment.tools, there, own, files, &self.trusted);
        let skills = known.map(|project| find::remote_skills(&project.skills, &self.trusted, &there.trust()));
        match known {
            None => sources.push("AGENTS.md there is read before the next message".into()),
            Some(project) => {
                sources.extend(project.problem.as_ref().map(|why| format!("AGENTS.md there: not read: {why}")))
            }
        }
        (environment.instructions, environment.sources) = (text.into(), sources);
        environment.set_skills_elsewhere(Arc::new(skills.unwrap_or_default()));
    }

    /// Whether reading the project at a place was tried.
    pub fn knows_project(&self, remote: &Remote) -> bool {
        self.projects.contains_key(&remote.project_key())
    }

    /// Uses what was read there for the environments that are entered from now on.
    pub fn learn_project(&mut self, remote: &Remote, project: RemoteProject) {
        self.projects.insert(remote.project_key(), project);
    }

    /// Whether this directory was not yet searched for skills.
    pub fn lacks_skills(&self, directory: &Path) -> bool {
        !self.skills.contains_key(directory)
    }

    /// Takes the skills that were found for a directory.
    pub fn learn_skills(&mut self, directory: PathBuf, skills: Arc<SkillList>) {
        let of_directory = |resolved: &&mut ResolvedEnvironment| resolved.environment.working_directory == directory;
        for resolved in self.resolved.values_mut().filter(of_directory) {
            Arc::make_mut(&mut resolved.environment).set_skills(skills.clone());
        }
        self.skills.insert(directory, skills);
    }

    /// The rules for agents that work in this directory. What a person refuses in a directory is also refused below it,
    /// and in our worktrees of it.
    fn rules_at(&self, directory: &Path, origins: &[PathBuf]) -> Arc<Rules> {
        let is_at = |project: &PathBuf| belongs(directory, origins, project);
        let mut of_project = self.project_rules.iter().filter(|(project, _)| is_at(project)).peekable();
        if of_project.peek().is_none() {
            return self.template.rules.clone();
        }
        let mut all = (*self.template.rules).clone();
        for (project, Rules { allow, ask, deny }) in of_project {
            all.allow.extend(allow.iter().filter(|_| project == directory).cloned());
            all.ask.extend(ask.iter().cloned());
            all.deny.extend(deny.iter().cloned());
        }
        Arc::new(all)
    }

    /// The environment of a stored agent that worked in this directory. If it is no longer available: the closest one, and a
    /// warning for the user.
    pub fn restore(&mut self, stored: Option<&str>, directory: Option<&str>) -> (ResolvedEnvironment, Option<String>) {
        // Versions before environments stored only the directory.
        let Some(text) = stored.filter(|text| !text.starts_with('/')) else { return (self.usual(), None) };
        let in_directory = self.in_stored_directory(text, directory);
        let stored = match self.stored_elsewhere(text, directory) {
            Some(elsewhere) => elsewhere,
            None => self.resolve_stored(&in_directory),
        };
        match stored {
            Ok(resolved) => (resolved, None),
            Err(error) => {
                let resolved = self.closest(&in_directory);
                let warning = format!(
                    "environment {text} is not available: {}; using {} in {} instead",
                    error.message,
                    resolved.environment.spec,
                    resolved.environment.working_directory.display()
                );
                (resolved, Some(warning))
            }
        }
    }

    /// The same for a remote environment, which the first call connects.
    fn stored_elsewhere(&self, text: &str, directory: Option<&str>) -> Option<Result<ResolvedEnvironment>> {
        let spec = text.parse::<EnvironmentSpec>().ok().filter(|spec| spec.remote.is_some())?;
        let written = spec.directory.as_deref().or(directory);
        let own = || self.template.working_directory.clone();
        let found = written.map_or_else(|| Ok(own()), |written| real_directory(&own(), Path::new(written)));
        Some(found.and_then(|directory| self.remote_environment(&spec, directory)))
    }

    /// The specification with this directory, unless it names one itself or the program works there.
    fn in_stored_directory(&self, text: &str, directory: Option<&str>) -> String {
        let other = directory.map(Path::new).filter(|directory| *directory != self.template.working_directory);
        let (Some(directory), Ok(spec)) = (other, text.parse::<EnvironmentSpec>()) else { return text.to_owned() };
        let has_own = spec.directory.is_some() || self.meaning(&spec).is_ok_and(|meaning| meaning.directory.is_some());
        if has_own { text.to_owned() } else { spec.in_directory(Some(directory)).to_string() }
    }

    /// The default environment in a directory that a client names, or in that of the program.
    pub fn usual_in(&mut self, directory: Option<&Path>) -> Result<ResolvedEnvironment> {
        match directory.filter(|directory| *directory != self.template.working_directory) {
            None => Ok(self.usual()),
            Some(directory) => {
                let text = format!("{DEFAULT_ENVIRONMENT}@{}", directory.display());
                self.resolve_stored(&text)
            }
        }
    }

    /// The environment in which a conversation begins: the default one, or this one if it has other tools.
    pub fn beginning_in(&mut self, spec: Option<&str>, directory: Option<&Path>) -> Result<ResolvedEnvironment> {
        let usual = self.usual_in(directory)?;
        let Some(spec) = spec else { return Ok(usual) };
        let spec = spec.parse::<EnvironmentSpec>()?.in_directory(directory);
        let found = self.resolve_stored(&spec.to_string())?;
        let names = |resolved: &ResolvedEnvironment| -> Vec<&str> {
            resolved.environment.tools.iter().map(|tool| tool.declaration.name).collect()
        };
        let is_usual = names(&found) == names(&usual);
        Ok(if is_usual { usual } else { found })
    }

    fn resolve_stored(&mut self, text: &str) -> Result<ResolvedEnvironment> {
        if let Some(resolved) = self.resolved.get(text) {
            return Ok(resolved.clone());
        }
        let known =
            |directory: &Path| self.instructions.clone().filter(|_| directory == self.template.working_directory);
        let instructions = |directory: &Path| known(directory).unwrap_or_else(|| instructions_of(directory));
        let resolved = match self.resolve(text, &self.template, instructions)? {
            Resolution::Ready(resolved) => resolved,
            Resolution::Worktree(..) => return Err(Error::usage("its worktree no longer exists")),
            Resolution::Remote(..) => return Err(Error::usage("it runs elsewhere")),
        };
        self.resolved.insert(text.to_owned(), resolved.clone());
        Ok(resolved)
    }

    /// The same tools in the default directory if only the directory is missing, otherwise the default environment. An
    /// agent that worked elsewhere has no tools here.
    fn closest(&mut self, text: &str) -> ResolvedEnvironment {
        if text.parse::<EnvironmentSpec>().is_ok_and(|spec| spec.remote.is_some()) {
            return self.resolve_stored("none").unwrap_or_else(|_| self.usual());
        }
        let without_directory = text.parse::<EnvironmentSpec>().map(|spec| spec.in_directory(None).to_string());
        without_directory.and_then(|text| self.resolve_stored(&text)).unwrap_or_else(|_| self.usual())
    }

    /// The path for a new worktree of the repository around a directory, and the number in its name: the first one from
    /// `number` on that is free.
    pub fn new_worktree_path(&self, directory: &Path, name: &str, number: usize) -> Result<(PathBuf, usize)> {
        let message = format!("{WORKTREE} needs a data directory, which an ephemeral chat does not have");
        let worktrees = self.worktrees.as_ref().ok_or_else(|| Error::usage(message))?;
        let repository = self.repository_name(directory);
        let path = |number: usize| {
            let end = if number > 1 { format!("-{number}") } else { String::new() };
            worktrees.join(format!("{repository}{SEPARATOR}{name}{end}"))
        };
        // While git makes a worktree there is only the note.
        let is_free = |number: &usize| !path(*number).exists() && !origin_file(&path(*number)).exists();
        let number = (number..).find(is_free).unwrap_or(number);
        Ok((path(number), number))
    }

    /// The name of the repository around a directory, for the name of a worktree of it.
    fn repository_name(&self, directory: &Path) -> String {
        let name_of = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = match self.worktree_around(directory).as_deref().and_then(name_of) {
            Some(worktree) => worktree.rsplit_once(SEPARATOR).map(|(repository, _)| repository.to_owned()),
            None => directory.ancestors().find(|above| file::git_in(above).is_some()).and_then(name_of),
        };
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
        let name: String = name.unwrap_or_default().chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
        let name = name.trim_start_matches(['.', '-']);
        if name.is_empty() { "repository".to_owned() } else { name.to_owned() }
    }

    /// What is in the directory of our worktrees.
    fn entries(&self) -> impl Iterator<Item = fs::DirEntry> {
        let listed = self.worktrees.as_ref().and_then(|directory| fs::read_dir(directory).ok());
        listed.into_iter().flatten().flatten()
    }

    /// Removes what comparisons and landings of an earlier process left beside the worktrees.
    pub fn remove_scratch(&self) {
        let is_scratch = |entry: &fs::DirEntry| {
            let name = entry.file_name();
            let begins = |begin: &str| name.to_string_lossy().starts_with(begin);
            begins(tools::branch_diff::SCRATCH) || begins(tools::landing::LANDING)
        };
        self.entries().filter(is_scratch).for_each(|entry| drop(fs::remove_dir_all(entry.path())));
    }

    /// The worktrees of which a landing was interrupted by the end of an earlier process.
    pub fn interrupted_landings(&self) -> Vec<PathBuf> {
        self.worktrees.as_deref().map(tools::landing::interrupted).unwrap_or_default()
    }

    /// Our worktrees on disk, with the agents for which they were created.
    pub fn worktrees(&self) -> Vec<(AgentId, PathBuf)> {
        let paths = self.entries().map(|entry| entry.path());
        paths.filter_map(|root| Some((self.agent_of_worktree(&root)?, root))).collect()
    }

    /// The agent for which a worktree was created.
    pub fn agent_of_worktree(&self, root: &Path) -> Option<AgentId> {
        match origin_of(root) {
            Some((_, Some(agent))) => Some(agent),
            // Earlier versions called it by the agent.
            _ => root.file_name()?.to_str()?.parse().ok(),
        }
    }

    /// Records the directory that a worktree is made from, and the agent that it is for, until
    /// [`Environments::forget_origin`].
    pub fn record_origin(&self, worktree: &Path, directory: &Path, agent: AgentId) -> io::Result<()> {
        let directory = directory.as_os_str().as_encoded_bytes();
        file::replace(&origin_file(worktree), &[directory, b"\0", agent.to_string().as_bytes()].concat())
    }

    /// Removes the note of a removed worktree.
    pub fn forget_origin(&self, worktree: &Path) {
        drop(fs::remove_file(origin_file(worktree)));
        tools::worktree::forget(worktree);
    }

    /// The originals of a directory in one of our worktrees: the directory that the worktree was made from, and the one
    /// with the same name in its repository.
    fn origins_of(&self, directory: &Path) -> Vec<PathBuf> {
        let Some(worktree) = self.worktree_around(directory) else { return Vec::new() };
        let Some((origin, _)) = origin_of(&worktree) else { return Vec::new() };
        let repository = origin.ancestors().find(|above| file::git_in(above).is_some());
        let below = directory.strip_prefix(&worktree).unwrap_or(Path::new(""));
        repository.map(|repository| repository.join(below)).into_iter().chain([origin.clone()]).collect()
    }

    /// Shared by all environments.
    pub fn last_writers(&self) -> &LastWriters {
        &self.template.last_writers
    }

    /// Whether a directory is in a project, or in a worktree of it.
    pub fn is_in(&self, directory: &Path, project: &Path) -> bool {
        belongs(directory, &self.origins_of(directory), project)
    }

    /// The worktree of ours that contains a directory.
    pub fn worktree_around(&self, directory: &Path) -> Option<PathBuf> {
        let worktrees = self.worktrees.as_ref()?;
        let name = directory.strip_prefix(worktrees).ok()?.components().next()?;
        Some(worktrees.join(name))
    }
}

/// The directory from which a worktree was made, and the agent that it is for, which earlier versions did not record.
fn origin_of(worktree: &Path) -> Option<(PathBuf, Option<AgentId>)> {
    let noted = read_followed(&origin_file(worktree), MAX_PATH).ok()?;
    let mut parts = noted.splitn(2, |byte| *byte == 0);
    let directory = PathBuf::from(OsString::from_vec(parts.next()?.to_vec()));
    Some((directory, parts.next().and_then(|id| std::str::from_utf8(id).ok()?.parse().ok())))
}

/// The file that records the directory a worktree was made from.
fn origin_file(worktree: &Path) -> PathBuf {
    let (worktrees, name) = (worktree.parent().unwrap_or(worktree), worktree.file_name().unwrap_or_default());
    worktrees.with_file_name("worktree-origins").join(name)
}

/// The canonical path of a directory; `~` is expanded, and relative paths start at `from`.
fn real_directory(from: &Path, written: &Path) -> Result<PathBuf> {
    let in_home = |rest: &Path| std::env::home_dir().map(|home| home.join(rest));
    let expanded = written.strip_prefix("~").ok().and_then(in_home).unwrap_or_else(|| from.join(written));
    let shown = expanded.display();
    let refuse = |reason: String| Error::usage(format!("{shown}: {reason}"));
    let real = fs::canonicalize(&expanded).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => refuse("no such directory".into()),
        kind => refuse(kind.to_string()),
    })?;
    if real.is_dir() { Ok(real) } else { Err(refuse("not a directory".into())) }
}

fn instructions_of(directory: &Path) -> Vec<InstructionFile> {
    instruction_files(&ProjectDirectories::of(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environments(directory: &Path) -> Environments {
        let review = EnvironmentEntry {
            name: "review".into(),
            tools: vec!["readonly".into()],
            directory: Some("there".into()),
            system: Some("You review.".into()),
        };
        let config = Config {
            working_directory: directory.into(),
            data_directory: Some(directory.join("data")),
            environments: vec![review],
            ..Config::default()
        };
        Environments::new(&config, None)
    }

    fn found(environments: &Environments, text: &str, here: &ResolvedEnvironment) -> ResolvedEnvironment {
        match environments.find(text, &here.environment).unwrap() {
            Resolution::Ready(resolved) => resolved,
            Resolution::Worktree(..) | Resolution::Remote(..) => panic!("{text} is ready"),
        }
    }

    #[test]
    fn the_directory_is_kept_until_another_is_named_and_omitted_if_it_is_the_default() {
        let top = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(top.path()).unwrap();
        fs::create_dir_all(top.join("there/deep")).unwrap();
        let mut environments = environments(&top);
        let usual = environments.usual();
        let spec = |text: &str, here: &ResolvedEnvironment| found(&environments, text, here).environment.spec.clone();
        assert_eq!(spec("readonly", &usual), "readonly");
        assert_eq!(spec("coding@.", &usual), usual.environment.spec);
        let there = found(&environments, "coding@there", &usual);
        assert_eq!(there.environment.spec, format!("coding@{}/there", top.display()));
        assert_eq!(spec("coding", &there), there.environment.spec);
        assert_eq!(spec("readonly", &there), format!("readonly@{}/there", top.display()));
        assert_eq!(spec("readonly@deep", &there), format!("readonly@{}/there/deep", top.display()));
        assert_eq!(spec("readonly@..", &there), "readonly");
        let review = found(&environments, "review", &usual);
        assert_eq!((review.environment.spec.as_str(), &*review.system), ("review", "You review."));
        assert_eq!(review.environment.working_directory, top.join("there"));
        for text in ["coding@nowhere", "coding@/dev/null", "nonsense"] {
            assert!(environments.find(text, &usual.environment).is_err(), "{text}");
        }
    }

    #[test]
    fn an_unavailable_environment_is_replaced_by_the_closest_with_a_warning() {
        let top = tempfile::tempdir().unwrap();
        let mut environments = environments(top.path());
        for (stored, expected) in [
            ("readonly@/gone", "readonly"),
            ("mine", "coding"),
            ("worktree@/gone", "coding"),
            ("review", "coding"),
            ("?", "coding"),
        ] {
            let (resolved, warning) = environments.restore(Some(stored), None);
            assert_eq!(resolved.environment.spec, expected, "{stored}");
            assert!(warning.is_some_and(|warning| warning.contains(stored)), "{stored}");
        }
        for stored in [None, Some("/where/it/worked"), Some("coding"), Some("chat")] {
            assert_eq!(environments.restore(stored, None).1, None, "{stored:?}");
        }
    }

    #[test]
    fn an_existing_worktree_is_joined_and_another_has_to_be_created() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join("data/worktrees/abc/src")).unwrap();
        let mut environments = environments(top.path());
        let usual = environments.usual();
        assert!(matches!(environments.find("worktree", &usual.environment), Ok(Resolution::Worktree(..))));
        let inside = found(&environments, "worktree@data/worktrees/abc/src", &usual);
        assert!(inside.environment.worktree.as_ref().is_some_and(|root| root.ends_with("worktrees/abc")));
        assert_eq!(found(&environments, "worktree", &inside).environment.spec, inside.environment.spec);
        assert!(found(&environments, "chat", &inside).environment.worktree.is_some());
    }

    #[test]
    fn instructions_that_came_with_the_configuration_are_not_read_again_at_the_start() {
        let top = tempfile::tempdir().unwrap();
        let directory = fs::canonicalize(top.path()).unwrap();
        fs::write(directory.join("AGENTS.md"), "Be brief.").unwrap();
        let files = instructions_of(&directory);
        let trusted_instructions = files.iter().filter_map(InstructionFile::digest).collect();
        let instructions = Some(files);
        let config =
            Config { working_directory: directory.clone(), instructions, trusted_instructions, ..Config::default() };
        fs::write(directory.join("AGENTS.md"), "Be long.").unwrap();
        let mut environments = Environments::new(&config, None);
        let usual = environments.usual();
        assert!(usual.system.ends_with("Be brief."), "{}", usual.system);
        let entered = found(&environments, "coding", &usual);
        assert!(!entered.system.contains("Be "), "the file was changed since it was trusted: {}", entered.system);
    }
}
