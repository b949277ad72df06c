//! Attaches this terminal to a server: for `attach`, and for a chat in a data directory that a server holds.

use super::agent_choice::AgentChoice;
use super::arguments::Arguments;
use super::attach::{self, Options};
use super::client::{Client, no_server};
use super::config::{self, ProcessEnvironment};
use super::stdio::print_note;
use super::{code, data_directory};
use crate::base::error::{Error, Result};
use crate::domain::wire::Request;
use crate::socket;

/// `polylogue attach`. Returns the exit code.
///
/// # Errors
/// There is no server or no terminal, or the server refuses or ends.
pub fn attach(
    arguments: &Arguments,
    env: &ProcessEnvironment,
    agent: Option<String>,
    is_read_only: bool,
) -> Result<u8> {
    let directory = data_directory::required(arguments, env)?;
    let stream = socket::connect(&directory)?.ok_or_else(|| no_server(&directory))?;
    let loaded = config::load(arguments, env);
    let display = loaded.config().display.clone();
    let options = Options { agent, is_read_only: is_read_only || arguments.read_only, display };
    let reason = attach::run(stream, options)?;
    let options = data_directory::options(arguments, loaded.explicit_data_directory());
    attach::print_farewell(reason.as_deref(), &options);
    Ok(code::DONE)
}

/// Attaches where a chat was asked for, if a server holds the data directory; `None` if none does.
///
/// # Errors
/// As for [`attach()`].
pub fn instead_of_chat(arguments: &Arguments, env: &ProcessEnvironment) -> Result<Option<u8>> {
    let Some(mut client) = find_server(arguments, env)? else { return Ok(None) };
    if let Some(option) = arguments.permission_option() {
        return Err(Error::usage(format!(
            "{option} has no effect on the agents of the running server: attach without it and use /approval or /rules \
             there, or stop the server (polylogue stop)"
        )));
    }
    let mut agent = match AgentChoice::of(arguments) {
        AgentChoice::Named(agent) => Some(agent),
        AgentChoice::New | AgentChoice::Last | AgentChoice::Unnamed => None,
    };
    if let Some(text) = arguments.prompt() {
        // As in a chat of its own, agent 0 gets the prompt, and is shown.
        let agent = agent.get_or_insert_with(|| "0".to_owned()).clone();
        client.request(&Request::Send { agent, text })?;
    }
    attach(arguments, env, agent, false).map(Some)
}

/// The server that holds the data directory, if one does. Notes the options that have no effect on it.
///
/// # Errors
/// The socket is not safe to use.
pub fn find_server(arguments: &Arguments, env: &ProcessEnvironment) -> Result<Option<Client>> {
    let directory = config::load(arguments, env).config().data_directory.clone();
    // If the directory cannot be used, the store says why.
    let Some(directory) = directory.filter(|directory| directory.is_dir()) else { return Ok(None) };
    let client = Client::connect(&directory)?;
    if client.is_some()
        && let Some(options) = options_without_effect(arguments)
    {
        print_note(&format!("no effect on the running server of {}: {options}", directory.display()));
    }
    Ok(client)
}

fn options_without_effect(arguments: &Arguments) -> Option<String> {
    let options = [
        // With --print it selects the model of the agent.
        (arguments.model.is_some() && !arguments.print, "--model"),
        (arguments.config.is_some(), "--config"),
        (arguments.working_limit.is_some(), "--working-limit"),
        (arguments.stay, "--stay"),
        (arguments.dangerously_no_sandbox, "--dangerously-no-sandbox"),
        (arguments.trace.is_some(), "--trace"),
        (arguments.trace_stable, "--trace-stable"),
    ];
    let given: Vec<&str> = options.into_iter().filter_map(|(is_given, name)| is_given.then_some(name)).collect();
    (!given.is_empty()).then(|| given.join(", "))
}
