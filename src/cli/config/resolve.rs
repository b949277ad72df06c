//! Which of several sources sets a value, and lists that several sources fill.

use super::catalog::{self, KnownProvider};
use super::environment::ProcessEnvironment;
use super::file::Diagnostics;
use super::layer::Layer;
use super::parse;
use super::project::Project;
use super::settings::{SETTINGS, Values};
use super::source::{Location, Source, Value};
use crate::base::error::Error;
use crate::cli::arguments::Arguments;
use crate::domain::config::ProjectCommands;
use crate::domain::environment::{EnvironmentEntry, EnvironmentNames};
use crate::domain::rule::{Rule, Rules};
use crate::tools;

/// The value of every setting, from the source with the highest precedence.
pub(super) fn resolve_settings(
    user: &Layer,
    project: &Layer,
    providers: &[KnownProvider],
    arguments: &Arguments,
    env: &ProcessEnvironment,
    diagnostics: &mut Diagnostics,
) -> (Values, Vec<Source>) {
    let provider = catalog::default_provider(providers);
    let mut values = Values::default();
    values.config.working_directory.clone_from(&env.directory);
    let mut sources = vec![Source::Default; SETTINGS.len()];
    let home = env.home();
    for (index, setting) in SETTINGS.iter().enumerate() {
        for (value, source) in candidates(index, user, project, arguments, env) {
            let is_project = matches!(source, Source::Project(_));
            let objection = is_project.then(|| setting.objection(&values, &value, provider)).flatten();
            if let Some(objection) = objection {
                diagnostics.warnings.push(format!("{source}: {}: {objection}", setting.key));
                continue;
            }
            match setting.set(&mut values, &value, home.as_deref()) {
                Ok(()) => sources[index] = source,
                Err(expected) => diagnostics.error(format!("{source}: expected {expected}")),
            }
        }
    }
    (values, sources)
}

/// The project, if its file has set the command for finished work or the one for new worktrees.
pub(super) fn commands_of(
    values: &Values,
    sources: &[Source],
    user: &Layer,
    project: Option<&Project>,
) -> Option<ProjectCommands> {
    let at = |key: &str| SETTINGS.iter().position(|setting| setting.key == key);
    let is_of_project = |at: Option<usize>| at.is_some_and(|at| matches!(sources[at], Source::Project(_)));
    let elsewhere = |at: Option<usize>, command: &Vec<String>| {
        let own = user.settings.iter().find(|(other, ..)| Some(*other) == at);
        match is_of_project(at) {
            true => own.and_then(|(_, value, _)| parse::words(value)).unwrap_or_default(),
            false => command.clone(),
        }
    };
    let (done, setup) = (at("done.command"), at("worktree.setup"));
    let root = project.filter(|_| is_of_project(done) || is_of_project(setup))?.root.clone();
    Some(ProjectCommands {
        root,
        done_elsewhere: elsewhere(done, &values.config.done.command),
        setup_elsewhere: elsewhere(setup, &values.config.worktree.extras.setup),
    })
}

/// All values of a setting, the one with the highest precedence last.
fn candidates(
    index: usize,
    user: &Layer,
    project: &Layer,
    arguments: &Arguments,
    env: &ProcessEnvironment,
) -> Vec<(Value, Source)> {
    let setting = &SETTINGS[index];
    let in_file = |layer: &Layer| layer.settings.iter().find(|(other, ..)| *other == index).cloned();
    let mut candidates = Vec::new();
    candidates.extend(in_file(user).map(|(_, value, location)| (value, Source::User(location))));
    candidates.extend(in_file(project).map(|(_, value, location)| (value, Source::Project(location))));
    let variable = setting.variable();
    candidates.extend(env.set(&variable).map(|value| (Value::Untyped(value), Source::Variable(variable))));
    let flag = setting.flag.and_then(|(name, value)| Some((Value::Untyped(value(arguments)?), Source::Flag(name))));
    candidates.extend(flag);
    candidates
}

/// The rules of all files and of the command line.
pub(super) fn all_rules(layers: [Rules; 3], arguments: &Arguments, diagnostics: &mut Diagnostics) -> Rules {
    let mut parse = |texts: &[String], option: &str| -> Vec<Rule> {
        let mut parse = |text: &String| {
            let parsed = text.parse().map(|rule: Rule| rule.from_source(&option));
            parsed.map_err(|error: Error| diagnostics.error(format!("{option}: {}", error.message)))
        };
        texts.iter().filter_map(|text| parse(text).ok()).collect()
    };
    let mut all =
        Rules { allow: parse(&arguments.allow, "--allow"), ask: Vec::new(), deny: parse(&arguments.deny, "--deny") };
    for Rules { allow, ask, deny } in layers {
        all.allow.extend(allow);
        all.ask.extend(ask);
        all.deny.extend(deny);
    }
    all
}

/// The user's environments, and those of the project with other names.
pub(super) fn all_environments(
    user: Vec<(EnvironmentEntry, Location)>,
    project: Vec<(EnvironmentEntry, Location)>,
    diagnostics: &mut Diagnostics,
) -> Vec<EnvironmentEntry> {
    let mut all: Vec<_> = user.into_iter().map(|(environment, _)| environment).collect();
    let users = all.len();
    for (environment, location) in project {
        let name = &environment.name;
        if all[..users].iter().any(|other| other.name == *name) {
            diagnostics.warnings.push(format!(
                "{location}: environments.{name}: ignored: a project cannot redefine your environment {name}"
            ));
        } else {
            all.push(environment);
        }
    }
    all
}

/// Warnings about environments that cannot be used.
pub(super) fn faulty_environments(entries: &[EnvironmentEntry]) -> impl Iterator<Item = String> {
    let tools: Vec<&str> = tools::all().map(|tool| tool.declaration.name).collect();
    let faults = EnvironmentNames { entries, tools: &tools }.faults();
    faults.into_iter().map(|(name, fault)| format!("environments.{name}: {fault}"))
}
