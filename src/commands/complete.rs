//! Completion of command lines.

use super::{COMMANDS, CommandContext, find};

/// The whole lines that the typed line can be completed to, best first. Empty if the line is not a command.
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

/// The configured models and `echo`, and the default model first if it is none of them.
pub(super) fn models(context: &CommandContext) -> Vec<String> {
    let entries = context.config.catalog.0.iter();
    let known = entries.flat_map(|entry| entry.models.iter().map(|(model, _)| format!("{}/{model}", entry.name)));
    // The default model may have been named on the command line only.
    let mut names: Vec<String> = known.chain(["echo/echo".to_owned()]).collect();
    let default = context.config.endpoint.full_name();
    if !names.contains(&default) {
        names.insert(0, default);
    }
    names
}

pub(super) fn agent_names(context: &CommandContext, _: &str) -> Vec<String> {
    let name = |agent: &crate::agent::Agent| agent.identity.name.clone().unwrap_or_else(|| agent.id().short());
    context.roster.iter().filter(|agent| agent.id() != context.current).map(name).collect()
}

/// Newest first.
pub(super) fn mail_ids(context: &CommandContext, _: &str) -> Vec<String> {
    let mail = context.store.mail(context.current, None).unwrap_or_default();
    mail.iter().rev().map(|mail| mail.id.0.to_string()).collect()
}

/// The labels of the marks that `/rewind` can return to, newest first.
pub(super) fn marks(context: &CommandContext, _: &str) -> Vec<String> {
    let Ok(agent) = context.agent() else { return Vec::new() };
    let labels = context.with_history(|history| {
        let marks = history.marks(agent.identity.fork_point);
        marks.iter().rev().map(|(_, label)| (*label).to_owned()).filter(|label| !label.is_empty()).collect()
    });
    labels.unwrap_or_default()
}
