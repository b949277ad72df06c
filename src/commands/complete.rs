//! Completion of command lines.

use std::collections::HashMap;

use clap::Arg;

use super::arguments::{positional_at, split_word, takes_rest, value_name};
use super::{CommandContext, CommandSpec, all, find, host_command, replacement, server_prompt, skills};
use crate::agent::Agent;
use crate::base::fuzzy::Fuzzy;
use crate::base::text;

/// A line that the typed one can become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    pub line: String,
    /// What its last word is.
    pub about: String,
}

/// The completions of the typed line, as whole lines, best first. If none begins like it, those that contain its
/// letters, or the one with the nearest name. Empty if the line is not a command.
pub fn complete(line: &str, context: &CommandContext) -> Vec<Completion> {
    let Some(rest) = line.strip_prefix('/').filter(|rest| !rest.starts_with('/') && !rest.contains('\n')) else {
        return Vec::new();
    };
    match rest.split_once(' ') {
        None => complete_name(rest, context),
        Some((name, typed)) => {
            let of_command = find(name).map(|spec| match spec.complete {
                Some(complete) => complete(context, typed),
                None => complete_arguments(spec, context, typed),
            });
            let of_server = || Some(server_prompt::complete(server_prompt::find(context, name)?, typed));
            let candidates = of_command.or_else(of_server).unwrap_or_default();
            let begins: Vec<&String> =
                candidates.iter().filter(|text| text.starts_with(typed) && *text != typed).collect();
            let fitting = if begins.is_empty() { fuzzy(typed, &candidates) } else { begins };
            if fitting.is_empty() {
                return Vec::new();
            }
            let agents = agents_by_word(context);
            let completion =
                |text: &String| Completion { line: format!("/{name} {text}"), about: about(&agents, text) };
            fitting.into_iter().map(completion).collect()
        }
    }
}

/// What the last word can be, as the definition of the command says: an option, or a value by its name in the usage.
fn complete_arguments(spec: &CommandSpec, context: &CommandContext, typed: &str) -> Vec<String> {
    let command = spec.chat_parser();
    let (mut count, mut given) = (0, Vec::new());
    let mut left = before_last_word(typed);
    while !left.is_empty() {
        let (word, after) = split_word(left, positional_at(&command, count));
        left = after;
        let Some(option) = word.strip_prefix("--") else {
            count += 1;
            match positional_at(&command, count - 1) {
                Some(arg) if !takes_rest(spec.rest, arg) => continue,
                _ => return Vec::new(),
            }
        };
        let (name, has_value) = option.split_once('=').map_or((option, false), |(name, _)| (name, true));
        let Some(arg) = command.get_arguments().find(|arg| arg.get_long() == Some(name)) else { return Vec::new() };
        given.push(arg.get_id());
        if arg.get_action().takes_values() && !has_value {
            if left.is_empty() || takes_rest(spec.rest, arg) {
                return complete_word(typed, values(context, arg));
            }
            left = split_word(left, Some(arg)).1;
        }
    }
    let is_excluded = |arg: &Arg| {
        given.iter().any(|other| {
            *other == arg.get_id() || command.get_arg_conflicts_with(arg).iter().any(|arg| arg.get_id() == *other)
        })
    };
    let options = command.get_arguments().filter(|arg| !is_excluded(arg)).filter_map(Arg::get_long);
    let next = positional_at(&command, count).map(|arg| values(context, arg)).unwrap_or_default();
    complete_word(typed, next.into_iter().chain(options.map(|name| format!("--{name} "))))
}

/// The known values of an argument.
fn values(context: &CommandContext, arg: &Arg) -> Vec<String> {
    match value_name(arg) {
        Some("AGENT") => agent_names(context),
        Some("COMMAND") => all().map(|spec| spec.name.to_owned()).collect(),
        Some("DEFINITION") => definitions(context),
        Some("ID") => mail_ids(context),
        Some("MARK") => marks(context),
        Some("PROVIDER/MODEL") => models(context),
        _ => Vec::new(),
    }
}

fn definitions(context: &CommandContext) -> Vec<String> {
    let agent = context.roster.get(context.current);
    let known = agent.into_iter().flat_map(|agent| agent.inputs.environment.definitions_here());
    known.map(|definition| definition.name.clone()).collect()
}

fn complete_name(typed: &str, context: &CommandContext) -> Vec<Completion> {
    let custom = context.config.commands.iter().map(|command| (command.name.as_str(), command.description.as_str()));
    let prompts = server_prompt::all(context).iter().map(|prompt| (prompt.full_name.as_str(), prompt.about.as_str()));
    let built_in = all().filter(|spec| replacement(context, spec.name).is_none());
    let built_in = built_in.map(|spec| (spec.name, spec.about));
    let skills = skills::for_people(context).map(|skill| (skill.name.as_str(), skill.description.as_str()));
    let of_host = host_command::all(context).map(|command| (command.name.as_str(), command.about.as_str()));
    let mut all: Vec<(&str, &str)> = built_in.chain(custom).chain(prompts).collect();
    for (name, about) in skills.chain(of_host) {
        if !all.iter().any(|(known, _)| *known == name) {
            all.push((name, about));
        }
    }
    let names: Vec<String> = all.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut fitting: Vec<&String> = names.iter().filter(|name| name.starts_with(typed)).collect();
    if fitting.is_empty() {
        fitting = fuzzy(typed, &names);
    }
    if fitting.is_empty() {
        let nearest = text::nearest(typed, names.iter().map(String::as_str));
        fitting = names.iter().filter(|name| Some(name.as_str()) == nearest).collect();
    }
    let about = |name: &str| all.iter().find(|(known, _)| *known == name).map_or("", |(_, about)| about).to_owned();
    fitting.into_iter().map(|name| Completion { line: format!("/{name} "), about: about(name) }).collect()
}

/// The candidates that contain the typed letters in this order, best first.
fn fuzzy<'a>(typed: &str, candidates: &'a [String]) -> Vec<&'a String> {
    let mut matcher = Fuzzy::words(typed);
    let is_other = |text: &&String| !typed.is_empty() && *text != typed;
    let scored = candidates.iter().filter(is_other).filter_map(|text| Some((matcher.score(text)?, text)));
    let mut scored: Vec<(u32, &String)> = scored.collect();
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    scored.into_iter().map(|(_, text)| text).collect()
}

/// The agents by name and by short id, the oldest where several have one.
fn agents_by_word<'a>(context: &'a CommandContext) -> HashMap<String, &'a Agent> {
    let mut agents = HashMap::new();
    for agent in context.roster.iter() {
        for word in agent.identity.name.clone().into_iter().chain([agent.id().short()]) {
            agents.entry(word).or_insert(agent);
        }
    }
    agents
}

/// What the last word of an argument is, if it is an agent.
fn about(agents: &HashMap<String, &Agent>, text: &str) -> String {
    let word = text.trim_end().rsplit(' ').next().unwrap_or_default();
    agents.get(word).map(|agent| agent.about()).unwrap_or_default()
}

/// The typed text with each of these words instead of its last one.
pub(super) fn complete_word(typed: &str, words: impl IntoIterator<Item = String>) -> Vec<String> {
    let before = before_last_word(typed);
    words.into_iter().map(|word| format!("{before}{word}")).collect()
}

/// `first` as the first argument and `second`, given the first one, as the second; no third.
pub(super) fn complete_two_words(
    typed: &str,
    first: Vec<String>,
    second: impl FnOnce(&str) -> Vec<String>,
) -> Vec<String> {
    match typed.split_once(' ') {
        None => first,
        Some((word, rest)) if !rest.contains(' ') => complete_word(typed, second(word)),
        Some(_) => Vec::new(),
    }
}

/// The typed text up to and including the last space.
pub(super) fn before_last_word(typed: &str) -> &str {
    &typed[..typed.rfind(' ').map_or(0, |at| at + 1)]
}

/// The configured models, those that servers have listed, and `echo`, and first the default model if it is not among them.
pub fn models(context: &CommandContext) -> Vec<String> {
    let known = context.config.catalog.0.iter().flat_map(|entry| entry.full_names());
    // The default model may have been named on the command line only.
    let mut names: Vec<String> = known.chain(["echo/echo".to_owned()]).collect();
    let default = context.config.endpoint.full_name();
    if !default.ends_with('/') && !names.contains(&default) {
        names.insert(0, default);
    }
    names
}

pub(super) fn agent_names(context: &CommandContext) -> Vec<String> {
    let name = |agent: &Agent| agent.identity.name.clone().unwrap_or_else(|| agent.id().short());
    context.roster.iter().filter(|agent| agent.id() != context.current).map(name).collect()
}

/// Newest first.
fn mail_ids(context: &CommandContext) -> Vec<String> {
    let mail = context.store.mail(context.current, None).unwrap_or_default();
    mail.iter().rev().map(|mail| mail.id.0.to_string()).collect()
}

/// The labels of the marks that `/rewind` can return to, newest first.
fn marks(context: &CommandContext) -> Vec<String> {
    let Ok(agent) = context.agent() else { return Vec::new() };
    let labels = context.with_history(|history| {
        let marks = history.marks(agent.identity.fork_point);
        marks.iter().rev().map(|(_, label)| (*label).to_owned()).filter(|label| !label.is_empty()).collect()
    });
    labels.unwrap_or_default()
}
