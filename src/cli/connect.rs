//! Finds the server of a data directory and says what is to be opened there: for `attach`, and for a chat where a server holds
//! the directory. The attached terminal itself: `attach`.

use serde_json::json;

use super::agent_choice::AgentChoice;
use super::arguments::{ALLOW_EVERYTHING, Arguments};
use super::attach::{self, Options};
use super::client::Client;
use super::config::{self, Loaded, ProcessEnvironment};
use super::host::Host;
use super::stdio::print_note;
use super::versions::{self, Use};
use super::{code, data_directory};
use crate::base::error::{Error, Result};
use crate::domain::choices::{Choices, Opening, Opens};
use crate::domain::config::Config;
use crate::domain::wire::{NewAgent, Request};
use crate::terminal::tty::Tty;

/// `polylogue attach`. Returns the exit code; `None` if the server was stopped, because it is of another version.
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
            let opening = Opening { agent, ..Opening::default() };
            attach_to(client, arguments, &config::load(arguments, env), opening, is_read_only).map(Some)
        }
        Use::Stopped => Ok(None),
    }
}

fn attach_to(
    client: Client,
    arguments: &Arguments,
    loaded: &Loaded,
    opening: Opening,
    is_read_only: bool,
) -> Result<u8> {
    let display = loaded.config().display.clone();
    let directory = Some(loaded.config().working_directory.clone());
    let options = Options { opening, is_read_only: is_read_only || arguments.read_only, display, directory };
    let ended = attach::run(client.into_stream(), options)?;
    let options = data_directory::options(arguments, loaded.explicit_data_directory());
    attach::print_farewell(ended, &options);
    Ok(code::DONE)
}

/// Attaches instead of starting a chat if a server holds the data directory; `None` if none does.
pub fn instead_of_chat(arguments: &Arguments, loaded: Loaded) -> Result<std::result::Result<u8, Loaded>> {
    let Some(mut client) = find_server(arguments, loaded.config())? else { return Ok(Err(loaded)) };
    if let Some(directory) = loaded.config().data_directory.as_deref()
        && versions::check(&mut client, directory)? == Use::Stopped
    {
        return Ok(Err(loaded));
    }
    // Nothing is sent that no terminal would show.
    drop(Tty::open()?);
    // The server may have a provider that is not configured here.
    let loaded = loaded.without_model_error();
    loaded.check()?;
    let choices = config::choices(loaded.config());
    let opening = Opening { choices, notes: loaded.notes(), ..opening(arguments, &loaded)? };
    attach_to(client, arguments, &loaded, opening, false).map(Ok)
}

/// The conversation that the command line asks for, with the changes that its options make. A new one begins with the
/// configuration of this process.
pub fn opening(arguments: &Arguments, loaded: &Loaded) -> Result<Opening> {
    let (agent, opens) = match AgentChoice::of(arguments) {
        AgentChoice::New if arguments.read_only => (None, Opens::Shown),
        AgentChoice::New => (None, Opens::New),
        AgentChoice::Last => (None, Opens::Last),
        AgentChoice::Named(agent) => (Some(agent), Opens::Shown),
        AgentChoice::Unnamed => (None, Opens::Listed),
    };
    let options = config::options(arguments, loaded)?;
    let (prompt, sets_up) = (arguments.prompt(), arguments.sets_up);
    Ok(Opening { agent, opens, choices: Choices::default(), options, prompt, notes: Vec::new(), sets_up })
}

/// An agent for one run without a terminal, which may do what the command line and the environment allow.
pub fn agent_for_run(host: &Host, arguments: &Arguments, env: &ProcessEnvironment, config: &Config) -> NewAgent {
    let approval = arguments.approval.clone().or_else(|| env.text("POLYLOGUE_APPROVAL"));
    let choices = if host.is_local() { config::choices_here(config) } else { config::choices(config) };
    NewAgent {
        id: arguments.session_id,
        directory: Some(config.working_directory.clone()),
        is_print_run: true,
        choices: Choices { approval, allow: arguments.allow.clone(), ..choices },
        ..NewAgent::default()
    }
}

/// The requests that set the parameters of the command line for an agent.
pub fn parameters(arguments: &Arguments, agent: &str) -> Result<Vec<Request>> {
    let request = |text: &String| {
        let (name, value) = text.split_once('=').ok_or_else(|| Error::usage("--set: expected NAME=VALUE"))?;
        let (name, value) = (name.trim(), without_keyword(name.trim(), value));
        let argv = ["set".into(), name.into(), value].to_vec();
        Ok(Request::Run { agent: Some(agent.to_owned()), directory: None, argv })
    };
    arguments.set.iter().map(request).collect()
}

/// The value as JSON, if it is what removes a parameter for `/set`.
fn without_keyword(name: &str, value: &str) -> String {
    match (value, name) {
        ("default", "stop") => json!([value]).to_string(),
        ("default", _) => json!(value).to_string(),
        _ => value.into(),
    }
}

/// The server that holds the data directory, if any. Notes the options that have no effect on it.
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
    let appends_to_existing =
        arguments.append_system_prompt.is_some() && AgentChoice::of(arguments) != AgentChoice::New;
    let options = [
        (!arguments.mcp_config.is_empty(), "--mcp-config"),
        (arguments.working_limit.is_some(), "--working-limit"),
        (arguments.stay, "--stay"),
        (arguments.max_agents.is_some(), "--max-agents"),
        (arguments.max_usd.is_some(), "--max-usd"),
        (arguments.dangerously_no_sandbox, "--dangerously-no-sandbox"),
        (arguments.trace.is_some(), "--trace"),
        (arguments.trace_stable, "--trace-stable"),
        (arguments.record.is_some(), "--record"),
        // New agents are sent their whole prompt.
        (appends_to_existing, "--append-system-prompt (on an agent that exists)"),
    ];
    let given: Vec<&str> = options.into_iter().filter_map(|(is_given, name)| is_given.then_some(name)).collect();
    (!given.is_empty()).then(|| given.join(", "))
}
