//! Bringing this terminal to a server: because `attach` says so, or because a chat is asked for in a data directory that a
//! server holds.

use std::path::Path;

use super::arguments::Arguments;
use super::attach::{self, Wanted};
use super::client::{Client, nobody_serves};
use super::config::{self, Surroundings};
use super::print::Whom;
use super::{code, scripts, served_directory, way_back};
use crate::base::error::Result;
use crate::domain::wire::Request;
use crate::socket;

/// `polylogue attach`. The exit code.
///
/// # Errors
/// Nobody serves, the server refuses or dies, or there is no terminal.
pub fn attach(arguments: &Arguments, around: &Surroundings, agent: Option<String>, is_read_only: bool) -> Result<u8> {
    let directory = served_directory(arguments, around)?;
    let stream = socket::connect(&directory)?.ok_or_else(|| nobody_serves(&directory))?;
    let wanted = Wanted { agent, is_read_only: is_read_only || arguments.read_only };
    let why = attach::run(stream, wanted)?;
    attach::farewell(why.as_deref(), &way_back(arguments, config::load(arguments, around).data_directory_said()));
    Ok(code::DONE)
}

/// Where the chat would find its directory held by a server, it goes there. `None` if no server holds it.
///
/// # Errors
/// As for [`attach()`].
pub fn instead_of_chat(arguments: &Arguments, around: &Surroundings) -> Result<Option<u8>> {
    let Some(client) = server_of(arguments, around)? else { return Ok(None) };
    let agent = match Whom::of(arguments) {
        Whom::Named(agent) => Some(agent),
        Whom::New | Whom::Last | Whom::Unnamed => None,
    };
    let agent = match arguments.prompt() {
        None => agent,
        Some(text) => Some(send(client, agent, text)?),
    };
    attach(arguments, around, agent, false).map(Some)
}

/// The server that holds the directory which would be used, if one does: the person is told what it does not heed.
///
/// # Errors
/// The socket is not ours or not as it should be.
pub fn server_of(arguments: &Arguments, around: &Surroundings) -> Result<Option<Client>> {
    let directory = config::load(arguments, around).config().data_directory.clone();
    // What keeps a directory from being one is told by the store.
    let Some(directory) = directory.filter(|directory| directory.is_dir()) else { return Ok(None) };
    let client = Client::connect(&directory)?;
    if client.is_some() {
        settings_of_its_own(arguments, &directory);
    }
    Ok(client)
}

/// As in a chat of its own: what is said on the command line goes to agent 0 if nobody is named, and that one is shown.
fn send(mut client: Client, agent: Option<String>, text: String) -> Result<String> {
    let agent = agent.unwrap_or_else(|| "0".to_owned());
    client.ask(&Request::Send { agent: agent.clone(), text })?;
    Ok(agent)
}

/// Says which options mean nothing here, if there are any.
fn settings_of_its_own(arguments: &Arguments, directory: &Path) {
    let said = [
        // A run without a terminal takes it along.
        (arguments.model.is_some() && !arguments.print, "--model"),
        (arguments.config.is_some(), "--config"),
        (arguments.working_limit.is_some(), "--working-limit"),
        (arguments.stay, "--stay"),
        (arguments.trace.is_some(), "--trace"),
        (arguments.trace_stable, "--trace-stable"),
    ];
    let said: Vec<&str> = said.into_iter().filter_map(|(is_said, name)| is_said.then_some(name)).collect();
    if !said.is_empty() {
        let (names, place) = (said.join(", "), directory.display());
        scripts::aside(&format!("a server holds {place}, which has settings of its own: {names} has no effect"));
    }
}
