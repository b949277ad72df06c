//! Configuration: from files, variables and the command line to a [`Config`], each value with where it came from.
//!
//! | module | holds |
//! |---|---|
//! | `settings` | every setting that is one value, as a table |
//! | `source` | where a value comes from, and what wins |
//! | `file` | one file: read within bounds, parsed, spoken of by line and key |
//! | `keys`, `providers` | what a file says |
//! | `catalog` | which models there are, and the usual one |
//! | `surroundings` | variables and directories of the start |
//! | `project` | what a project brings along, and whether it is trusted |
//! | `custom` | commands that a person has written |
//! | `team` | templates and workflows that a person has written |
//! | `show` | `polylogue config` |

pub mod catalog;
mod custom;
pub(super) mod file;
pub(super) mod keys;
mod project;
pub(super) mod providers;
pub(super) mod settings;
pub mod show;
mod source;
mod surroundings;
pub(super) mod team;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use crate::base::error::{Error, Result};
use crate::cli::arguments::Arguments;
use crate::domain::config::Config;
use crate::domain::endpoint::Catalog;
use crate::domain::environment::{EnvironmentEntry, EnvironmentNames};
use crate::domain::thinking::Thinking;
use crate::provider;
use crate::tools::TOOLS;
use catalog::Known;
pub use file::Complaints;
use file::{FoundFile, Lines, Reading};
use keys::Layer;
use project::Project;
use settings::{SETTINGS, Wanted};
use source::{Source, Value};
pub use surroundings::Surroundings;

/// Everything that was found, whether or not it is enough to start.
pub struct Loaded {
    /// The values of all settings.
    wanted: Wanted,
    /// Where each of them came from, in the order of the table.
    sources: Vec<Source>,
    /// Every provider that can be used.
    pub providers: Vec<Known>,
    /// The files that were looked for.
    files: Found,
    /// What is wrong.
    pub complaints: Complaints,
}

/// The files that were looked for.
struct Found {
    /// The directory of our files, if it is known where that is.
    directory: Option<PathBuf>,
    /// The person's own file.
    user: Option<PathBuf>,
    /// What the project brings along.
    project: Option<Project>,
    /// Whether that is trusted.
    is_trusted: bool,
}

/// Looks for everything and puts it together.
pub fn load(arguments: &Arguments, around: &Surroundings) -> Loaded {
    let mut complaints = Complaints::default();
    let files = find(arguments, around);
    let (user, project) =
        (user_layer(&files, arguments, around, &mut complaints), project_layer(&files, around, &mut complaints));
    let all: Vec<_> = user.providers.iter().chain(&project.providers).cloned().collect();
    let providers = catalog::known(&all, around, &mut complaints);
    let (mut wanted, sources) = settle(&user, &project, arguments, around, &mut complaints);
    wanted.config.commands = custom_commands(&files, &mut complaints);
    wanted.config.environments = user.environments;
    for environment in project.environments {
        wanted.config.environments.retain(|other| other.name != environment.name);
        wanted.config.environments.push(environment);
    }
    complaints.warnings.extend(faulty_environments(&wanted.config.environments));
    let mut loaded = Loaded { wanted, sources, providers, files, complaints };
    loaded.place_store(around);
    loaded.choose_model();
    loaded
}

impl Loaded {
    /// The configuration to start with.
    ///
    /// # Errors
    /// Something must be mended first: all of it is told, a line each.
    pub fn into_config(self) -> Result<Config> {
        let Some(first) = self.complaints.errors.first() else {
            return Ok(Config { notes: some_of(self.complaints.warnings), ..self.wanted.config });
        };
        let words = self.complaints.errors.iter().map(|error| error.message.clone()).collect();
        Err(Error::new(first.kind, some_of(words).join("\n")))
    }

    /// The configuration as far as it could be read.
    pub fn config(&self) -> &Config {
        &self.wanted.config
    }

    /// Where the store is, if this start is to find it again: the option to say so.
    pub fn data_directory_said(&self) -> Option<&Path> {
        self.wanted.config.data_directory.as_deref().filter(|_| self.is_said("data_dir"))
    }

    /// Whether this setting was said for this start, and does not come from a file.
    pub fn is_said(&self, key: &str) -> bool {
        let said = |source: &Source| matches!(source, Source::Flag(_) | Source::Variable(_));
        SETTINGS.iter().zip(&self.sources).any(|(setting, source)| setting.key == key && said(source))
    }

    fn place_store(&mut self, around: &Surroundings) {
        let directory = &mut self.wanted.config.data_directory;
        if self.wanted.ephemeral {
            *directory = None;
        } else if directory.is_none() {
            match around.data_directory() {
                Ok(usual) => *directory = Some(usual),
                Err(error) => self.complaints.errors.push(error),
            }
        }
    }

    fn choose_model(&mut self) {
        let config = &mut self.wanted.config;
        config.catalog = Catalog(self.providers.iter().map(|known| known.entry.clone()).collect());
        match catalog::choose(self.wanted.model.as_deref(), &self.providers) {
            Ok((endpoint, hint)) => (config.endpoint, config.hint) = (endpoint, hint),
            Err(error) => {
                let source = SETTINGS.iter().position(|setting| setting.key == "model").map(|at| &self.sources[at]);
                let from = source.map_or_else(String::new, |source| format!("{source}: "));
                let words = format!("{from}{}", error.message);
                return self.complaints.errors.push(Error::new(error.kind, words));
            }
        }
        let (kind, model) = (config.endpoint.kind.as_str(), config.endpoint.model.as_str());
        let check = provider::find(kind).map(|spec| (spec.check_thinking)(model, config.thinking));
        if let Some(Err(error)) = check {
            self.complaints.warnings.push(format!("thinking: {model}: {error}"));
            config.thinking = Thinking::Unspecified;
        }
    }
}

/// A file of nothing but mistakes does not fill the screen.
const MOST_COMPLAINTS: usize = 8;

fn some_of(mut complaints: Vec<String>) -> Vec<String> {
    let more = complaints.len().saturating_sub(MOST_COMPLAINTS);
    complaints.truncate(MOST_COMPLAINTS);
    complaints.extend((more > 0).then(|| format!("and {more} more: polylogue config show tells all of them")));
    complaints
}

fn find(arguments: &Arguments, around: &Surroundings) -> Found {
    let directory = around.config_directory();
    let named = arguments.config.clone().or_else(|| around.set("POLYLOGUE_CONFIG").map(PathBuf::from));
    let user = named.or_else(|| directory.as_ref().map(|directory| directory.join("config.toml")));
    let project = Project::of(&around.directory);
    let is_trusted = match (&project, &directory) {
        (Some(project), Some(directory)) => project.is_trusted(directory),
        _ => false,
    };
    Found { directory, user, project, is_trusted }
}

fn user_layer(files: &Found, arguments: &Arguments, around: &Surroundings, complaints: &mut Complaints) -> Layer {
    let Some(path) = &files.user else { return Layer::default() };
    match file::read(path) {
        Ok(Some(bytes)) => layer(path, bytes, false, around, complaints),
        Ok(None) => {
            if arguments.config.is_some() || around.set("POLYLOGUE_CONFIG").is_some() {
                complaints.refuse(format!("{}: there is no such file", path.display()));
            }
            Layer::default()
        }
        Err(words) => {
            complaints.refuse(format!("{}: {words}", path.display()));
            Layer::default()
        }
    }
}

fn project_layer(files: &Found, around: &Surroundings, complaints: &mut Complaints) -> Layer {
    let Some(project) = &files.project else { return Layer::default() };
    if !files.is_trusted {
        complaints.warnings.push(format!(
            "{} is not read, because it is new or was changed: if you trust it, say polylogue config trust",
            project.directory.display()
        ));
        return Layer::default();
    }
    match project.config.clone() {
        None => Layer::default(),
        Some(Ok(bytes)) => layer(&project.file(), bytes, true, around, complaints),
        Some(Err(words)) => {
            complaints.refuse(format!("{}: {words}", project.file().display()));
            Layer::default()
        }
    }
}

/// What is wrong with a file of these bytes, which need not be there.
pub fn examine(path: &Path, bytes: Vec<u8>, is_project: bool) -> Complaints {
    let mut complaints = Complaints::default();
    let around = Surroundings { variable: Box::new(|_| None), directory: PathBuf::new() };
    layer(path, bytes, is_project, &around, &mut complaints);
    complaints
}

/// What the bytes of a file say.
fn layer(path: &Path, bytes: Vec<u8>, is_project: bool, around: &Surroundings, complaints: &mut Complaints) -> Layer {
    let text = match file::text_of(bytes) {
        Ok(text) => text,
        Err(words) => {
            complaints.refuse(format!("{}: {words}", path.display()));
            return Layer::default();
        }
    };
    let home = around.home();
    let (lines, complaints_so_far) = (Lines::of(&text), std::mem::take(complaints));
    let mut reading =
        Reading { path, text: &text, lines, home: home.as_deref(), is_project, complaints: complaints_so_far };
    let layer = keys::read(&mut reading);
    *complaints = reading.complaints;
    layer
}

/// Every setting from the highest that says something: the later overwrites the earlier.
fn settle(
    user: &Layer,
    project: &Layer,
    arguments: &Arguments,
    around: &Surroundings,
    complaints: &mut Complaints,
) -> (Wanted, Vec<Source>) {
    let mut wanted = Wanted::default();
    wanted.config.working_directory.clone_from(&around.directory);
    let mut sources = vec![Source::Default; SETTINGS.len()];
    let home = around.home();
    for (number, setting) in SETTINGS.iter().enumerate() {
        for (value, source) in said(number, user, project, arguments, around) {
            match setting.set(&mut wanted, &value, home.as_deref()) {
                Ok(()) => sources[number] = source,
                Err(expected) => complaints.refuse(format!("{source}: expected {expected}")),
            }
        }
    }
    (wanted, sources)
}

/// What is said of a setting, the highest last.
fn said(
    number: usize,
    user: &Layer,
    project: &Layer,
    arguments: &Arguments,
    around: &Surroundings,
) -> Vec<(Value, Source)> {
    let setting = &SETTINGS[number];
    let in_file = |layer: &Layer| layer.settings.iter().find(|(at, ..)| *at == number).cloned();
    let mut said = Vec::new();
    said.extend(in_file(user).map(|(_, value, place)| (value, Source::User(place))));
    said.extend(in_file(project).map(|(_, value, place)| (value, Source::Project(place))));
    let variable = setting.variable();
    said.extend(around.set(&variable).map(|words| (Value::Words(words), Source::Variable(variable))));
    let flag = setting.flag.and_then(|(name, asked)| Some((Value::Words(asked(arguments)?), Source::Flag(name))));
    said.extend(flag);
    said
}

/// Environments that nobody can have: they are told now, and not only to who asks for one.
fn faulty_environments(entries: &[EnvironmentEntry]) -> impl Iterator<Item = String> {
    let tools: Vec<&str> = TOOLS.iter().map(|tool| tool.declaration.name).collect();
    let faults = EnvironmentNames { entries, tools: &tools }.faults();
    faults.into_iter().map(|(name, words)| format!("environments.{name}: {words}"))
}

/// The person's own, and the project's if it is trusted, which win.
fn custom_commands(files: &Found, complaints: &mut Complaints) -> Vec<crate::domain::custom::CustomCommand> {
    let own = files
        .directory
        .as_ref()
        .map(|directory| file::files(&directory.join("commands"), custom::ENDS))
        .unwrap_or_default();
    let trusted = files.project.iter().filter(|_| files.is_trusted);
    let projects = trusted.flat_map(|project| project.commands.clone());
    let all: Vec<FoundFile> = own.into_iter().chain(projects).collect();
    custom::commands(&all, &mut complaints.warnings)
}
