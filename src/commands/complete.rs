//! What could stand in the place of what is typed, by position.

use super::{COMMANDS, CommandContext, find};

/// What could follow what is typed so far: whole lines, best first. Empty if the line is no command.
pub fn complete(line: &str, context: &CommandContext) -> Vec<String> {
    let Some(rest) = line.strip_prefix('/').filter(|rest| !rest.starts_with('/') && !rest.contains('\n')) else {
        return Vec::new();
    };
    match rest.split_once(' ') {
        None => {
            let custom = context.config.commands.iter().map(|command| command.name.as_str());
            let names = COMMANDS.iter().map(|spec| spec.name).chain(custom);
            names.filter(|name| name.starts_with(rest)).map(|name| format!("/{name} ")).collect()
        }
        Some((name, typed)) => {
            let candidates = find(name).map(|spec| (spec.complete)(context, typed)).unwrap_or_default();
            let fitting = candidates.into_iter().filter(|candidate| candidate.starts_with(typed) && candidate != typed);
            fitting.map(|candidate| format!("/{name} {candidate}")).collect()
        }
    }
}

/// Words behind what is typed before the last word.
pub(super) fn behind(typed: &str, words: impl IntoIterator<Item = String>) -> Vec<String> {
    let before = before_last_word(typed);
    words.into_iter().map(|word| format!("{before}{word}")).collect()
}

/// These words in the first place; in the second, what `second` makes of the first; nothing further.
pub(super) fn behind_first(typed: &str, first: Vec<String>, second: impl FnOnce(&str) -> Vec<String>) -> Vec<String> {
    match typed.split_once(' ') {
        None => first,
        Some((word, rest)) if !rest.contains(' ') => behind(typed, second(word)),
        Some(_) => Vec::new(),
    }
}

/// What is typed up to and with the last space.
pub(super) fn before_last_word(typed: &str) -> &str {
    &typed[..typed.rfind(' ').map_or(0, |at| at + 1)]
}

/// The names of all models that are known by name, `echo` last, and that of the usual one.
pub(super) fn models(context: &CommandContext) -> Vec<String> {
    let entries = context.config.catalog.0.iter();
    let known = entries.flat_map(|entry| entry.models.iter().map(|(model, _)| format!("{}/{model}", entry.name)));
    // What new agents talk to need not be among them: it may have been named on the command line.
    let mut names: Vec<String> = known.chain(["echo/echo".to_owned()]).collect();
    let usual = context.config.endpoint.full_name();
    if !names.contains(&usual) {
        names.insert(0, usual);
    }
    names
}

/// Names under which agents can be called.
pub(super) fn agent_names(context: &CommandContext, _: &str) -> Vec<String> {
    let name = |agent: &crate::agent::Agent| agent.identity.name.clone().unwrap_or_else(|| agent.id().short());
    context.roster.iter().filter(|agent| agent.id() != context.current).map(name).collect()
}

/// The numbers of the agent's letters, newest first.
pub(super) fn letters(context: &CommandContext, _: &str) -> Vec<String> {
    let mail = context.store.mail(context.current, None).unwrap_or_default();
    mail.iter().rev().map(|mail| mail.id.0.to_string()).collect()
}

/// The labels of the marks that can be gone back to, newest first.
pub(super) fn marks(context: &CommandContext, _: &str) -> Vec<String> {
    let Ok(agent) = context.agent() else { return Vec::new() };
    let labels = context.with_history(|history| {
        let marks = history.marks(agent.identity.fork_point);
        marks.iter().rev().map(|(_, label)| (*label).to_owned()).filter(|label| !label.is_empty()).collect()
    });
    labels.unwrap_or_default()
}
