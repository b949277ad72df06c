//! Shell completion by clap_complete: the script of a shell runs polylogue with [`VARIABLE`] set, and the candidates come
//! from the table of the command line. What an argument completes to is decided by its value name.

use clap::{Arg, Command};
use clap_complete::env::Shells;
use clap_complete::{ArgValueCandidates, CompleteEnv, CompletionCandidate, Shell};

use super::arguments::{self, Arguments};
use super::config::{self, ProcessEnvironment};
use super::{data_directory, topics};
use crate::base::error::{Error, Result};
use crate::store::Store;

/// Set by completion scripts to the name of the shell.
const VARIABLE: &str = "POLYLOGUE_COMPLETE";

/// If a shell asks for candidates, prints them and exits.
pub fn answer_shell() {
    // `complete` checks this too, but asks for the working directory first, which every other start would pay for.
    if std::env::var_os(VARIABLE).is_some() {
        CompleteEnv::with_factory(command).var(VARIABLE).complete();
    }
}

/// The script that makes a shell complete the arguments of polylogue.
pub fn script(shell: Shell) -> Result<String> {
    let name = shell.to_string();
    let shells = Shells::builtins();
    let completer =
        shells.completer(&name).ok_or_else(|| Error::usage(format!("there is no completion script for {name}")))?;
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "polylogue", "polylogue", "polylogue", &mut script)?;
    if shell == Shell::Zsh {
        // Zsh loads a file of `fpath` when the first completion is asked for, and expects candidates from it.
        script.extend(b"[[ $funcstack[1] != _polylogue ]] || _clap_dynamic_completer_polylogue\n");
    }
    Ok(String::from_utf8_lossy(&script).into_owned())
}

fn command() -> Command {
    with_candidates(arguments::command())
}

fn with_candidates(command: Command) -> Command {
    command.mut_args(with_values).mut_subcommands(with_candidates)
}

fn with_values(arg: Arg) -> Arg {
    let candidates: fn() -> Vec<CompletionCandidate> = match arg.get_value_names() {
        Some([name]) => match name.as_str() {
            "AGENT" => agents,
            "PROVIDER/MODEL" => models,
            "TOPIC" => topics,
            "HOST" => hosts,
            _ => return arg,
        },
        _ => return arg,
    };
    arg.add(ArgValueCandidates::new(candidates))
}

/// Names of the stored agents. Errors are not shown: the shell waits for candidates.
fn agents() -> Vec<CompletionCandidate> {
    let agents = ProcessEnvironment::current()
        .and_then(|env| data_directory::required(&Arguments::default(), &env))
        .and_then(|directory| Store::open_read_only(&directory)?.load_agents());
    agents.unwrap_or_default().agents.into_iter().filter_map(|row| row.name).map(CompletionCandidate::new).collect()
}

fn models() -> Vec<CompletionCandidate> {
    let Ok(env) = ProcessEnvironment::current() else { return Vec::new() };
    let loaded = config::load(&Arguments::default(), &env);
    let names = loaded.config().catalog.0.iter().flat_map(|provider| {
        provider.models.iter().map(move |(model, _)| CompletionCandidate::new(format!("{}/{model}", provider.name)))
    });
    names.collect()
}

/// The hosts that the user's configuration of ssh names.
fn hosts() -> Vec<CompletionCandidate> {
    let home = ProcessEnvironment::current().ok().and_then(|env| env.home());
    let text = home.and_then(|home| std::fs::read_to_string(home.join(".ssh/config")).ok()).unwrap_or_default();
    let names = text.lines().filter_map(|line| {
        let (keyword, names) = line.trim().split_once([' ', '\t', '='])?;
        keyword.eq_ignore_ascii_case("host").then(|| names.split_whitespace())
    });
    let is_name = |name: &&str| !name.contains(['*', '?', '!']);
    names.flatten().filter(is_name).map(|name| CompletionCandidate::new(format!("ssh://{name}"))).collect()
}

fn topics() -> Vec<CompletionCandidate> {
    topics::topics().map(|topic| CompletionCandidate::new(topic.name).help(Some(topic.about.into()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value_names(command: &Command) -> Vec<String> {
        let own = command.get_arguments().filter(|arg| arg.get::<ArgValueCandidates>().is_some());
        let own = own.filter_map(|arg| Some(arg.get_value_names()?.first()?.to_string()));
        own.chain(command.get_subcommands().flat_map(value_names)).collect()
    }

    #[test]
    fn arguments_that_name_agents_models_or_topics_are_completed() {
        let names = value_names(&command());
        let count = |name: &str| names.iter().filter(|other| *other == name).count();
        assert_eq!((count("AGENT"), count("PROVIDER/MODEL"), count("TOPIC")), (15, 4, 1), "{names:?}");
    }
}
