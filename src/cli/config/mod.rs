//! Configuration: from files, variables and the command line to a [`Config`], with the source of each value.
//!
//! | module | contains |
//! |---|---|
//! | `settings` | every setting that is a single value, as a table |
//! | `parse` | values of settings, from their text |
//! | `source` | sources of values and their precedence |
//! | `file` | reading, parsing and messages of one file |
//! | `keys`, `providers`, `mcp`, `user_tools` | the keys of a file |
//! | `choices` | what a new conversation begins with |
//! | `catalog` | the providers and models, and the default model |
//! | `environment` | variables and directories of the process |
//! | `project` | the configuration of a project |
//! | `new_contents` | the question about new contents of a project |
//! | `trust` | which contents of projects the user trusts |
//! | `custom` | custom commands |
//! | `claude` | commands and permissions of a project for Claude Code |
//! | `team` | files of templates and workflows |
//! | `show` | `polylogue config` |

pub(super) mod agent_hosts;
pub(super) mod catalog;
mod choices;
pub(super) mod claude;
mod custom;
mod elsewhere;
mod environment;
pub(super) mod file;
pub(super) mod hooks;
pub(super) mod layer;
pub(super) mod mcp;
pub(super) mod new_contents;
mod parse;
mod project;
pub(super) mod providers;
mod resolve;
pub(super) mod settings;
pub(super) mod show;
mod source;
#[cfg(test)]
mod tests;
mod trust;
pub(super) mod user_tools;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::project::ProjectDirectories;
use crate::cli::arguments::Arguments;
use crate::domain::approval::Policy;
use crate::domain::config::Config;
use crate::domain::custom::TeamFile;
use crate::domain::endpoint::Catalog;
use crate::domain::hook::Hook;
use crate::domain::instructions::InstructionFile;
use crate::domain::limits::LimitName;
use crate::domain::parameters::{Parameter, ParameterName, Parameters};
use crate::domain::rule::Rules;
use crate::domain::skill::SkillList;
use crate::domain::thinking::Thinking;
use crate::provider;
use crate::store::Store;
use crate::tools::definitions;
use crate::tools::skill::find;
use catalog::KnownProvider;
pub(crate) use choices::{choices, choices_here, options};
pub(crate) use environment::ProcessEnvironment;
pub use file::Diagnostics;
use file::{FileReader, FoundFile, Lines};
use layer::Layer;
use project::Project;
use resolve::{all_environments, all_rules, commands_of, faulty_environments, resolve_settings};
use settings::{SETTINGS, Values};
use source::Source;
use trust::{Contents, Trusted};

/// The whole configuration, valid or not.
pub(crate) struct Loaded {
    values: Values,
    /// The sources of the values, in the order of `SETTINGS`.
    sources: Vec<Source>,
    pub providers: Vec<KnownProvider>,
    files: ConfigFiles,
    pub diagnostics: Diagnostics,
    /// Which of the errors is that the model cannot be used.
    model_error: Option<usize>,
}

struct ConfigFiles {
    /// `$XDG_CONFIG_HOME/polylogue`.
    directory: Option<PathBuf>,
    /// The user's file, which need not exist.
    user: Option<PathBuf>,
    directories: ProjectDirectories,
    project: Option<Project>,
    is_trusted: bool,
    trusted: Trusted,
    instructions: Vec<InstructionFile>,
    /// The `.mcp.json` of the project, if the user trusts it.
    mcp: Option<mcp::ProjectFile>,
    skills: SkillList,
    /// The settings of other agents, if the user trusts them.
    claude: Option<trust::OtherFile>,
    /// The commands of other agents that the user trusts.
    claude_commands: Vec<FoundFile>,
    /// Instructions and servers that are new or were changed.
    ignored: Vec<PathBuf>,
}

/// Reads and combines all sources.
pub(crate) fn load(arguments: &Arguments, env: &ProcessEnvironment) -> Loaded {
    let mut diagnostics = Diagnostics::default();
    let mut files = find(arguments, env);
    let (user, project) =
        (user_layer(&files, arguments, env, &mut diagnostics), project_layer(&files, env, &mut diagnostics));
    let all: Vec<_> = user.providers.iter().chain(&project.providers).cloned().collect();
    let mut providers = catalog::known_providers(&all, env, &mut diagnostics);
    if cfg!(feature = "hosts") {
        providers.push(agent_hosts::provider(&user.hosts));
    }
    let (mut values, sources) = resolve_settings(&user, &project, &providers, arguments, env, &mut diagnostics);
    let run = run_parameters(arguments, env, &mut diagnostics);
    diagnostics.warnings.extend(files.ignored.iter().map(|path| ignored(path)));
    values.config.commands_of = commands_of(&values, &sources, &user, files.project.as_ref());
    take_texts(&mut values.config, &mut files, env, &mut diagnostics);
    values.config.added_instructions.clone_from(&arguments.append_system_prompt);
    values.config.display.home = env.home();
    values.config.display.frame_interval = FRAME_INTERVAL;
    values.config.read_interval = READ_INTERVAL;
    values.config.project_rules = user.project_rules;
    values.config.keymap = user.keymap;
    values.config.user_file = files.user.as_ref().map(|file| env.directory.join(file));
    let of_claude = claude_rules(&files, &mut diagnostics);
    values.config.rules = all_rules([user.rules, project.rules, of_claude], arguments, &mut diagnostics);
    values.config.environments = all_environments(user.environments, project.environments, &mut diagnostics);
    let mut hooks: Vec<Hook> = project.hooks.into_iter().chain(claude_hooks(&files, &mut diagnostics)).collect();
    let withheld: Vec<_> = providers.iter().filter_map(KnownProvider::key_variable).collect();
    let sandbox = &mut values.config.sandbox;
    (sandbox.read, sandbox.write) = (user.opened.read, user.opened.write);
    (sandbox.variables, sandbox.withheld) = (user.opened.variables, withheld.clone());
    sandbox.hidden = files.directory.iter().chain(&files.user).cloned().collect();
    sandbox.guarded = hooks::bind_scripts(&mut hooks, &files.trusted, &mut diagnostics.warnings);
    let of_person = files.directories.nearest().map(|root| hooks::files_of_person(&user.hooks, root));
    sandbox.guarded.extend(of_person.unwrap_or_default());
    values.config.hooks = user.hooks.into_iter().chain(hooks).collect();
    let servers = mcp::with_named(user.mcp, &arguments.mcp_config, env, &mut diagnostics);
    let of_project = files.mcp.as_ref().map(|file| file.servers_of_project(&mut diagnostics.warnings));
    values.config.mcp = mcp::all(servers, of_project.unwrap_or_default(), env, &withheld, &mut diagnostics);
    values.config.hosts = agent_hosts::all(user.hosts, env, &mut diagnostics);
    if cfg!(not(feature = "mcp")) && !values.config.mcp.is_empty() {
        values.config.mcp.clear();
        diagnostics.warnings.push("MCP servers are not started: rebuild with --features mcp".into());
    }
    let programs = files.project.as_ref().map(|project| project.programs.as_slice()).unwrap_or_default();
    values.config.user_tools =
        user_tools::all(user.user_tools, project.user_tools, programs, (env, &withheld), &mut diagnostics);
    diagnostics.warnings.extend(faulty_environments(&values.config.environments));
    values.config.private_paths =
        files.directory.iter().chain(&files.user).map(|path| env.directory.join(path)).collect();
    let policy = SETTINGS.iter().zip(&sources).find(|(setting, _)| setting.key == "approval");
    if matches!(policy, Some((_, Source::Project(_)))) {
        values.config.policy_ceiling = values.config.policy;
    }
    let mut loaded = Loaded { values, sources, providers, files, diagnostics, model_error: None };
    loaded.set_data_directory(arguments, env);
    loaded.choose_model();
    loaded.set_for_run(&run, &user.fallback, &all);
    loaded.check_price();
    loaded
}

/// The texts of files besides the settings: instructions, definitions, skills, commands and files of teams.
fn take_texts(config: &mut Config, files: &mut ConfigFiles, env: &ProcessEnvironment, diagnostics: &mut Diagnostics) {
    config.trusted_instructions = files.trusted.digests();
    config.instructions = Some(std::mem::take(&mut files.instructions));
    let own = files.directory.as_ref().map(|directory| directory.join("agents"));
    let warnings = &mut diagnostics.warnings;
    let definitions = definitions::definitions(own.as_deref(), &files.directories, &files.trusted.digests(), warnings);
    config.definitions = definitions.into();
    config.skill_directories = env.skill_directories();
    config.skills = Arc::new(std::mem::take(&mut files.skills));
    config.skills_read_at = Some(clock::unix_ms());
    config.commands = custom_commands(files, diagnostics);
    config.team_files = team_files(files);
}

impl Loaded {
    /// The configuration to start with. The message of an error has a line for each mistake.
    pub fn into_config(self) -> Result<Config> {
        self.check()?;
        Ok(Config { notes: first_of(self.diagnostics.warnings), ..self.values.config })
    }

    /// The notes for a person, one line each.
    pub fn notes(&self) -> Vec<String> {
        first_of(self.diagnostics.warnings.clone())
    }

    /// Why the model cannot be used, if that is so.
    pub fn model_error(&self) -> Option<&str> {
        self.model_error.map(|at| self.diagnostics.errors[at].message.as_str())
    }

    /// For a conversation that exists, or for a server that may have the provider: that the model cannot be used is no
    /// error yet.
    pub fn without_model_error(mut self) -> Self {
        if let Some(at) = self.model_error.take() {
            self.diagnostics.errors.remove(at);
        }
        self
    }

    /// The first errors as one, if there are any. They may be why the model cannot be used, and a warning about a
    /// misspelt key may be why there are errors.
    pub fn check(&self) -> Result<()> {
        let Diagnostics { errors, warnings, .. } = &self.diagnostics;
        let Some(first) = errors.first() else { return Ok(()) };
        let is_consequence = |at: usize| errors.len() > 1 && self.model_error == Some(at);
        let own = errors.iter().enumerate().filter(|(at, _)| !is_consequence(*at)).map(|(_, error)| &error.message);
        let messages = own.chain(warnings).cloned().collect();
        Err(Error::new(first.kind, first_of(messages).join("\n")))
    }

    /// For a start at which a person was asked about them: without the notes about new contents.
    pub fn without_ignored(mut self) -> Self {
        let known: Vec<String> = self.files.ignored.iter().map(|path| ignored(path)).collect();
        self.diagnostics.warnings.retain(|warning| !known.contains(warning));
        self
    }

    /// For a run without a terminal: what would ask is refused, unless the command line or the environment names
    /// a policy, which all agents of the run then have at most.
    pub fn unattended(mut self) -> Self {
        let (is_named, config) = (self.is_explicit("approval"), &mut self.values.config);
        if !is_named || config.policy == Policy::Ask {
            config.policy = Policy::narrow(config.policy, Policy::Never);
        }
        config.policy_ceiling = config.policy;
        config.settings.is_interactive = false;
        self
    }

    /// The configuration as far as it is valid.
    pub fn config(&self) -> &Config {
        &self.values.config
    }

    /// The data directory, if it comes from the command line or the environment.
    pub fn explicit_data_directory(&self) -> Option<&Path> {
        self.values.config.data_directory.as_deref().filter(|_| self.is_explicit("data_dir"))
    }

    /// Whether this setting comes from the command line or the environment.
    pub fn is_explicit(&self, key: &str) -> bool {
        let is_explicit = |source: &Source| matches!(source, Source::Flag(_) | Source::Variable(_));
        SETTINGS.iter().zip(&self.sources).any(|(setting, source)| setting.key == key && is_explicit(source))
    }

    fn set_data_directory(&mut self, arguments: &Arguments, env: &ProcessEnvironment) {
        let directory = &mut self.values.config.data_directory;
        if self.values.ephemeral {
            // Nothing is stored there but what processes share.
            self.values.config.shared_directory = directory.take().or_else(|| env.data_directory());
            return;
        }
        if directory.is_none() {
            let stored = env.data_directory().filter(|directory| arguments.only_reads() && Store::exists(directory));
            let found = match stored {
                Some(directory) => Ok(directory),
                None => env.writable_data_directory().or_else(|why| self.replace_data_directory(&why, env)),
            };
            match found {
                Ok(directory) => self.values.config.data_directory = Some(directory),
                Err(error) => self.diagnostics.errors.push(error),
            }
        }
        self.values.config.shared_directory.clone_from(&self.values.config.data_directory);
    }

    /// A directory that takes the place of the default one.
    fn replace_data_directory(&mut self, why: &str, env: &ProcessEnvironment) -> Result<PathBuf> {
        let options = "--data-dir DIR chooses another directory, --ephemeral stores nothing";
        let directory = env.temporary_data_directory().map_err(|error| {
            let message = format!("{why}, and {}: {options}", error.message);
            Error::new(error.kind, message)
        })?;
        let path = directory.display();
        self.diagnostics.warnings.push(format!("{why}: conversations are in {path} for now; {options}"));
        Ok(directory)
    }

    fn choose_model(&mut self) {
        let config = &mut self.values.config;
        config.catalog = Catalog(self.providers.iter().map(|known| known.entry.clone()).collect());
        match catalog::choose(self.values.model.as_deref(), &self.providers) {
            Ok((endpoint, hint)) => (config.endpoint, config.hint) = (endpoint, hint),
            Err(error) => {
                let source =
                    SETTINGS.iter().position(|setting| setting.key == "model").map(|index| &self.sources[index]);
                let prefix = source.map_or_else(String::new, |source| format!("{source}: "));
                let message = format!("{prefix}{}", error.message);
                config.endpoint = provider::unavailable(self.values.model.as_deref().unwrap_or_default());
                self.model_error = Some(self.diagnostics.errors.len());
                return self.diagnostics.errors.push(Error::new(error.kind, message));
            }
        }
        let model = config.endpoint.model.as_str();
        if let Err(error) = provider::check_thinking(&config.endpoint, config.thinking) {
            self.diagnostics.warnings.push(format!("thinking: {model}: {error}"));
            config.thinking = Thinking::Unspecified;
        }
    }
}

impl Loaded {
    /// Takes the parameters of this run, and the models that answer where others cannot.
    fn set_for_run(&mut self, run: &Parameters, fallback: &[String], files: &[providers::FileProvider]) {
        let config = &mut self.values.config;
        if let Err(error) = catalog::set_for_run(&mut self.providers, run, fallback, &config.endpoint, files) {
            self.diagnostics.errors.push(error);
        }
        config.catalog = Catalog(self.providers.iter().map(|known| known.entry.clone()).collect());
        for message in catalog::unknown_fallbacks(&config.catalog) {
            self.diagnostics.error(message);
        }
        if let Some(Err(error)) = config.title_model.as_ref().map(|model| config.catalog.find(model)) {
            self.diagnostics.error(format!("title_model: {}", error.message));
        }
        if let Ok(endpoint) = config.catalog.find(&config.endpoint.full_name()) {
            config.endpoint = endpoint;
        }
    }

    /// The providers without the presets that are neither configured nor used.
    pub fn providers_in_use(&self) -> impl Iterator<Item = &KnownProvider> {
        let chosen = &self.values.config.endpoint.provider;
        self.providers.iter().filter(move |known| !known.entry.is_assumed || known.entry.name == *chosen)
    }

    /// A limit of dollars needs the price of the model: one that was asked for this run is refused otherwise.
    fn check_price(&mut self) {
        let (usd, config) = (LimitName::Usd, &mut self.values.config);
        if config.tree_limits[usd].is_none() {
            return;
        }
        let index = SETTINGS.iter().position(|setting| setting.key == usd.setting());
        let source = index.map_or(&Source::Default, |index| &self.sources[index]);
        let is_explicit = matches!(source, Source::Flag(_) | Source::Variable(_));
        config.counts_usd_from_start = is_explicit;
        if config.endpoint.facts.prices.is_none() {
            let model = config.endpoint.full_name();
            let message = format!(
                "{source}: {} needs the price of {model}, which is unknown: give the model input_price and output_price \
                 in the configuration",
                usd.setting()
            );
            if is_explicit {
                self.diagnostics.errors.push(Error::new(ErrorKind::Usage, message));
            } else {
                self.diagnostics.warnings.push(message);
            }
        }
    }
}

/// The values of `--set`. `POLYLOGUE_THINKING` counts like an option: it overrides what files set for a provider.
fn run_parameters(arguments: &Arguments, env: &ProcessEnvironment, diagnostics: &mut Diagnostics) -> Parameters {
    let mut parameters = Parameters::default();
    let thinking = env.text("POLYLOGUE_THINKING").and_then(|text| text.parse::<Thinking>().ok());
    if let Some(thinking) = thinking {
        let name = ParameterName::Known(Parameter::Thinking);
        parameters.set(name, thinking.to_string().into(), "POLYLOGUE_THINKING");
    }
    for text in &arguments.set {
        let parsed = match text.split_once('=') {
            Some((name, value)) => name.trim().parse().and_then(|name: ParameterName| Ok((name.read(value)?, name))),
            None => Err(Error::usage(format!("{text:?}: expected NAME=VALUE"))),
        };
        match parsed {
            Ok((value, name)) => parameters.set(name, value, "--set"),
            Err(error) => diagnostics.error(format!("--set: {}", error.message)),
        }
    }
    parameters
}

/// Streamed text moves steadily at 30 frames a second. More of them cost processor time, and bytes on a slow line.
const FRAME_INTERVAL: Duration = Duration::from_millis(33);
/// A little longer, so that each common read has its frame in the same turn.
const READ_INTERVAL: Duration = Duration::from_millis(35);

/// Further messages are only counted, so that the first ones stay on the screen.
const MAX_DIAGNOSTICS: usize = 8;

fn first_of(mut messages: Vec<String>) -> Vec<String> {
    let more = messages.len().saturating_sub(MAX_DIAGNOSTICS);
    messages.truncate(MAX_DIAGNOSTICS);
    messages.extend((more > 0).then(|| format!("and {more} more: run polylogue config show")));
    messages
}

/// The hooks of the `.claude/settings.json` of the project, if the user trusts it.
fn claude_hooks(files: &ConfigFiles, diagnostics: &mut Diagnostics) -> Vec<Hook> {
    diagnostics.warnings.extend(hooks::unread_files(&files.directories));
    match &files.claude {
        Some((path, Ok(bytes))) => hooks::of_claude(path, bytes, &mut diagnostics.warnings),
        _ => Vec::new(),
    }
}

/// What the same file refuses and asks about.
fn claude_rules(files: &ConfigFiles, diagnostics: &mut Diagnostics) -> Rules {
    match &files.claude {
        Some((path, Ok(bytes))) => {
            let root = path.parent().and_then(Path::parent);
            let root = root.filter(|root| files.directories.nearest() != Some(root));
            claude::rules(path, bytes, root, &mut diagnostics.warnings)
        }
        _ => Rules::default(),
    }
}

fn find(arguments: &Arguments, env: &ProcessEnvironment) -> ConfigFiles {
    let directory = env.config_directory();
    let named = arguments.config.clone().or_else(|| env.set("POLYLOGUE_CONFIG").map(PathBuf::from));
    let user = named.or_else(|| directory.as_ref().map(|directory| directory.join("config.toml")));
    let trusted = directory.as_deref().map(Trusted::read).unwrap_or_default();
    let skill_directories = env.skill_directories();
    let directories = ProjectDirectories::of(&env.directory);
    let contents = Contents::of(&directories, &skill_directories);
    let untrusted_servers = contents.untrusted_servers(&trusted);
    // There may be many skills: `/skills` names the others.
    let untrusted_file = contents.untrusted_files(&trusted).next();
    let ignored = contents.untrusted_instructions(&trusted).chain(untrusted_servers).chain(untrusted_file);
    let ignored = ignored.map(Path::to_owned).collect();
    let is_untrusted = untrusted_servers.is_some();
    let skills = find::skills(&skill_directories, &directories, &[], &trusted.digests());
    let is_claude_trusted = contents.claude.as_ref().is_some_and(|file| trusted.has_file(file));
    let Contents { project, mcp, instructions, claude, commands, .. } = contents;
    let claude = claude.filter(|_| is_claude_trusted);
    let is_known = |file: &trust::OtherFile| file.1.is_err() || trusted.knows(file);
    let commands = commands.into_iter().filter(is_known);
    let claude_commands = commands.map(|(path, bytes)| FoundFile { path, bytes }).collect();
    let mcp = mcp.filter(|_| !is_untrusted);
    let is_trusted = project.as_ref().is_some_and(|project| trusted.has(&project.digest(), &project.directory));
    ConfigFiles {
        directory,
        user,
        directories,
        project,
        is_trusted,
        trusted,
        instructions,
        mcp,
        skills,
        claude,
        claude_commands,
        ignored,
    }
}

fn user_layer(
    files: &ConfigFiles,
    arguments: &Arguments,
    env: &ProcessEnvironment,
    diagnostics: &mut Diagnostics,
) -> Layer {
    let Some(path) = &files.user else { return Layer::default() };
    match file::read(path) {
        Ok(Some(bytes)) => layer(path, bytes, None, env, diagnostics),
        Ok(None) => {
            if arguments.config.is_some() || env.set("POLYLOGUE_CONFIG").is_some() {
                diagnostics.error(format!("{}: no such file", path.display()));
            }
            Layer::default()
        }
        Err(message) => {
            diagnostics.error(format!("{}: {message}", path.display()));
            Layer::default()
        }
    }
}

fn project_layer(files: &ConfigFiles, env: &ProcessEnvironment, diagnostics: &mut Diagnostics) -> Layer {
    let Some(project) = &files.project else { return Layer::default() };
    if !files.is_trusted {
        diagnostics.warnings.push(ignored(&project.directory));
        return Layer::default();
    }
    match project.config.clone() {
        None => Layer::default(),
        Some(Ok(bytes)) => layer(&project.file(), bytes, Some(&project.root), env, diagnostics),
        Some(Err(message)) => {
            diagnostics.error(format!("{}: {message}", project.file().display()));
            Layer::default()
        }
    }
}

/// Adds a table to the user's file, which is created if it does not exist.
pub(super) fn append(file: &Path, table: &str) -> Result<()> {
    let fail = |why: String| Error::usage(format!("{}: {why}", file.display()));
    let before = file::read(file).map_err(fail)?.map(file::text_of).transpose().map_err(fail)?.unwrap_or_default();
    if let Some(directory) = file.parent() {
        project::create_private(directory)?;
    }
    let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let text = format!("{before}{gap}{table}");
    project::write_private(file, text.trim_start_matches('\n')).map_err(|error| fail(error.to_string()))
}

fn ignored(path: &Path) -> String {
    format!("{} is ignored because it is new or was changed: to trust it, run polylogue config trust", path.display())
}

/// The providers that a project's file adds, as far as they are valid.
fn providers_of(project: &Project) -> Vec<providers::FileProvider> {
    layer_of(project).providers
}

/// The hooks of a project's file, as far as they are valid.
fn hooks_of(project: &Project) -> Vec<Hook> {
    layer_of(project).hooks
}

/// What a project's file says, whether it is trusted or not.
fn layer_of(project: &Project) -> Layer {
    let Some(Ok(bytes)) = project.config.clone() else { return Layer::default() };
    let env = ProcessEnvironment { variable: Box::new(|_| None), directory: PathBuf::new() };
    layer(&project.file(), bytes, Some(&project.root), &env, &mut Diagnostics::default())
}

/// Checks a file with this content, which need not exist.
pub fn examine(path: &Path, bytes: Vec<u8>, is_project: bool) -> Diagnostics {
    let mut diagnostics = Diagnostics::default();
    let env = ProcessEnvironment { variable: Box::new(|_| None), directory: PathBuf::new() };
    let root = path.ancestors().nth(2).unwrap_or(path);
    layer(path, bytes, is_project.then_some(root), &env, &mut diagnostics);
    diagnostics
}

/// The contents of a file, which is that of a project if it has a root.
fn layer(
    path: &Path,
    bytes: Vec<u8>,
    root: Option<&Path>,
    env: &ProcessEnvironment,
    diagnostics: &mut Diagnostics,
) -> Layer {
    let text = match file::text_of(bytes) {
        Ok(text) => text,
        Err(message) => {
            diagnostics.error(format!("{}: {message}", path.display()));
            return Layer::default();
        }
    };
    let home = env.home();
    let (lines, earlier) = (Lines::of(&text), std::mem::take(diagnostics));
    let mut reader = FileReader { path, text: &text, lines, home: home.as_deref(), root, diagnostics: earlier };
    let layer = layer::read(&mut reader);
    *diagnostics = reader.diagnostics;
    layer
}

/// The user's commands, and those of the project if it is trusted, which take precedence.
fn custom_commands(files: &ConfigFiles, diagnostics: &mut Diagnostics) -> Vec<crate::domain::custom::CustomCommand> {
    let users = files
        .directory
        .as_ref()
        .map(|directory| file::files(&directory.join("commands"), custom::EXTENSIONS))
        .unwrap_or_default();
    let trusted = files.project.iter().filter(|_| files.is_trusted);
    let projects = trusted.flat_map(|project| project.commands.clone());
    diagnostics.warnings.extend(claude::unused_in_commands(&files.claude_commands));
    let of_claude = files.claude_commands.iter().cloned();
    let all: Vec<FoundFile> = users.into_iter().chain(of_claude).chain(projects).collect();
    custom::commands(&all, &mut diagnostics.warnings)
}

/// The user's templates and workflows, and those of the project if it is trusted.
fn team_files(files: &ConfigFiles) -> Vec<TeamFile> {
    let team_file = |file: FoundFile, is_workflow| TeamFile {
        is_workflow,
        text: file.bytes.and_then(file::text_of),
        path: file.path,
    };
    let of = |(directory, is_workflow): (&str, bool)| {
        let users = files.directory.as_ref().map(|above| project::team_files(&above.join(directory)));
        let trusted = files.project.iter().filter(|_| files.is_trusted);
        let projects = trusted.flat_map(|project| {
            let directory = project.directory.join(directory);
            project.teams.iter().filter(move |file| file.path.parent() == Some(&directory)).cloned()
        });
        let all: Vec<FoundFile> = users.unwrap_or_default().into_iter().chain(projects).collect();
        all.into_iter().map(move |file| team_file(file, is_workflow))
    };
    [(project::TEMPLATES, false), (project::WORKFLOWS, true)].into_iter().flat_map(of).collect()
}
