//! Attaches this terminal to a server: for `attach`, and for a chat in a data directory that a server holds.

use std::path::PathBuf;

use super::agent_choice::AgentChoice;
use super::arguments::{ALLOW_EVERYTHING, Arguments, Command};
use super::attach::{self, Options};
use super::client::Client;
use super::config::{self, Loaded, ProcessEnvironment};
use super::stdio::print_note;
use super::versions::{self, Use};
use super::{code, data_directory};
use crate::base::error::{Error, Result};
use crate::domain::config::Config;
use crate::domain::wire::{NewAgent, Permissions, Request};
use crate::terminal::tty::Tty;

/// `polylogue attach`. Returns the exit code; `None` if the server was stopped, because it is of another version.
///
/// # Errors
/// There is no server or no terminal, or the server refuses or ends.
pub fn attach(
    arguments: &Arguments,
    env: &ProcessEnvironment,
    agent: Option<String>,
    is_read_only: bool,
) -> Result<Option<u8>> {
    let directory = data_directory::required(arguments, env)?;
    let mut client = Client::require(&directory)?;
    match versions::check(&mut client, &directory)? {
        Use::Server => {
            attach_to(client, arguments, &config::load(arguments, env), (agent, None), is_read_only).map(Some)
        }
        Use::Stopped => Ok(None),
    }
}

fn attach_to(
    client: Client,
    arguments: &Arguments,
    loaded: &Loaded,
    (agent, picks): (Option<String>, Option<Option<String>>),
    is_read_only: bool,
) -> Result<u8> {
    let display = loaded.config().display.clone();
    let directory = Some(loaded.config().working_directory.clone());
    let options = Options { agent, picks, is_read_only: is_read_only || arguments.read_only, display, directory };
    let reason = attach::run(client.into_stream(), options)?;
    let options = data_directory::options(arguments, loaded.explicit_data_directory());
    attach::print_farewell(reason.as_deref(), &options);
    Ok(code::DONE)
}

/// Attaches where a chat was asked for, if a server holds the data directory; `None` if none does.
///
/// # Errors
/// As for [`attach()`].
pub fn instead_of_chat(arguments: &Arguments, loaded: &Loaded) -> Result<Option<u8>> {
    let Some(mut client) = find_server(arguments, loaded.config())? else { return Ok(None) };
    if let Some(directory) = loaded.config().data_directory.as_deref()
        && versions::check(&mut client, directory)? == Use::Stopped
    {
        return Ok(None);
    }
    if let Some(option) = arguments.permission_option() {
        return Err(Error::usage(format!(
            "{option} has no effect on the agents of the running server: attach without it and use /approval or /rules \
             there, or stop the server (polylogue stop)"
        )));
    }
    let directory = Some(loaded.config().working_directory.clone());
    // Nothing is sent that no terminal would show.
    drop(Tty::open()?);
    let choice = AgentChoice::of(arguments);
    if choice == AgentChoice::Unnamed {
        return attach_to(client, arguments, loaded, (None, Some(arguments.prompt())), false).map(Some);
    }
    let named = match (choice, arguments.prompt().is_some()) {
        (AgentChoice::Named(agent), _) => Some(Request::Show { agent: Some(agent), directory, is_for_terminal: true }),
        (AgentChoice::Last, _) => Some(Request::Show { agent: None, directory, is_for_terminal: true }),
        // As in a chat of its own, a prompt begins a conversation, which is shown.
        (_, true) => Some(new_conversation(arguments, directory)),
        (_, false) => None,
    };
    let agent = named.map(|request| client.request(&request)).transpose()?;
    let agent = agent.and_then(|agent| Some(agent["id"].as_str()?.to_owned()));
    if let (Some(text), Some(agent)) = (arguments.prompt(), agent.clone()) {
        client.request(&Request::Send { agent, text })?;
    }
    attach_to(client, arguments, loaded, (agent, None), false).map(Some)
}

fn new_conversation(arguments: &Arguments, directory: Option<PathBuf>) -> Request {
    Request::New(NewAgent { model: arguments.model.clone(), directory, is_for_terminal: true, ..NewAgent::default() })
}

/// An agent for one run without a terminal, which may do what the command line allows.
pub fn agent_for_run(arguments: &Arguments, config: &Config, approval: Option<String>) -> NewAgent {
    let permissions = Permissions { approval, allow: arguments.allow.clone(), deny: arguments.deny.clone() };
    NewAgent {
        model: arguments.model.clone(),
        directory: Some(config.working_directory.clone()),
        is_print_run: true,
        permissions,
        ..NewAgent::default()
    }
}

/// The requests that set the parameters of the command line for an agent.
///
/// # Errors
/// A value is missing.
pub fn parameters(arguments: &Arguments, agent: &str) -> Result<Vec<Request>> {
    let request = |text: &String| {
        let (name, value) = text.split_once('=').ok_or_else(|| Error::usage("--set: expected NAME=VALUE"))?;
        let (name, value) = (name.trim().to_owned(), value.to_owned());
        Ok(Request::Set { agent: agent.to_owned(), name, value })
    };
    arguments.set.iter().map(request).collect()
}

/// The server that holds the data directory, if one does. Notes the options that have no effect on it.
///
/// # Errors
/// The socket is not safe to use.
pub fn find_server(arguments: &Arguments, config: &Config) -> Result<Option<Client>> {
    // If the directory cannot be used, the store says why.
    let Some(directory) = config.data_directory.as_deref().filter(|directory| directory.is_dir()) else {
        return Ok(None);
    };
    let client = Client::connect(directory)?;
    if client.is_some() && arguments.dangerously_allow_everything {
        return Err(Error::usage(format!(
            "{ALLOW_EVERYTHING} needs a process of its own, and another one holds {}: stop that (polylogue stop), or use \
             --ephemeral or --data-dir",
            directory.display()
        )));
    }
    if client.is_some()
        && let Some(options) = options_without_effect(arguments)
    {
        print_note(&format!("no effect on the running server of {}: {options}", directory.display()));
    }
    Ok(client)
}

fn options_without_effect(arguments: &Arguments) -> Option<String> {
    // For a run they select the model and set the parameters of its agent.
    let is_run = arguments.print || matches!(arguments.command, Some(Command::MultiAgent(_)));
    let options = [
        (arguments.model.is_some() && !is_run, "--model"),
        (arguments.config.is_some(), "--config"),
        (arguments.working_limit.is_some(), "--working-limit"),
        (arguments.stay, "--stay"),
        (!arguments.set.is_empty() && !is_run, "--set"),
        (arguments.max_agents.is_some(), "--max-agents"),
        (arguments.max_usd.is_some(), "--max-usd"),
        (arguments.no_tools, "--no-tools"),
        (arguments.dangerously_no_sandbox, "--dangerously-no-sandbox"),
        (arguments.trace.is_some(), "--trace"),
        (arguments.trace_stable, "--trace-stable"),
        (arguments.record.is_some(), "--record"),
    ];
    let given: Vec<&str> = options.into_iter().filter_map(|(is_given, name)| is_given.then_some(name)).collect();
    (!given.is_empty()).then(|| given.join(", "))
}
