//! From the command line to one of the modes to an exit code.

mod acp;
mod agent_choice;
mod arguments;
mod attach;
mod chat;
mod chat_command;
mod client;
mod code;
mod compare;
mod completions;
pub mod config;
mod connect;
mod data_directory;
mod doctor;
mod help;
mod host;
mod lines;
mod links;
mod man;
mod mcp;
#[cfg(feature = "hosts")]
mod mcp_server;
#[cfg(feature = "coordinator")]
mod multi_agent;
mod opening;
mod print;
mod process;
mod remote_host;
mod replay;
mod scripts;
mod serve;
mod stdio;
mod stdio_peer;
mod topics;
mod trace;
mod versions;
mod waiting;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::process as own_process;
use crate::base::text::sanitise;
use crate::domain::called::{AGENT, is_number};
use crate::features::FEATURES;
use crate::reactor::Signals;
use crate::tools::supervisor;
use agent_choice::AgentChoice;
use arguments::{ALLOW_EVERYTHING, Arguments, Command, MultiAgentCommand, TraceCommand};
use config::{Loaded, ProcessEnvironment};

/// Runs the program with the arguments and environment of the process.
pub fn main() -> ExitCode {
    Signals::unblock();
    // Before the rest: a supervisor must be small and start at once. It hardens itself.
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.next_if(|first| first == supervisor::FLAG).is_some() {
        return supervisor::main(arguments);
    }
    let mut helpers = FEATURES.iter().filter_map(|feature| feature.helper.as_ref());
    if let Some(helper) = helpers.find(|helper| arguments.peek().is_some_and(|first| first == helper.flag)) {
        return (helper.main)();
    }
    own_process::harden();
    completions::answer_shell();
    match Arguments::read(with_numbers_joined(std::env::args_os())) {
        Ok(arguments) => match run(&arguments) {
            Ok(code) => ExitCode::from(code),
            Err(error) => {
                // Writing fails if the terminal is gone; nobody else could be told.
                let _ = writeln!(std::io::stderr(), "polylogue: {}", sanitise(&error.message));
                ExitCode::from(code_of(error.kind))
            }
        },
        Err(error) => ExitCode::from(report_usage(&with_groups(error))),
    }
}

/// A help text with its options in groups.
fn with_groups(error: clap::Error) -> clap::Error {
    match error.kind() {
        clap::error::ErrorKind::DisplayHelp | clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            help::command().try_get_matches_from(std::env::args_os()).err().unwrap_or(error)
        }
        _ => error,
    }
}

/// The arguments up to `--`, with `agent` and `7` joined: `agent 7` is an agent. In a text both are the same.
fn with_numbers_joined(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut joined, mut is_option) = (Vec::<OsString>::new(), true);
    for argument in arguments {
        is_option &= argument != "--";
        match joined.last_mut() {
            Some(last) if is_option && last == AGENT && argument.to_str().is_some_and(is_number) => {
                last.push(" ");
                last.push(argument);
            }
            _ => joined.push(argument),
        }
    }
    joined
}

/// Prints help, the version or a usage error.
fn report_usage(error: &clap::Error) -> u8 {
    // As above.
    let _ = error.print();
    if let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg)
        && !argument.starts_with('-')
    {
        let hint = "to send a prompt that begins with the name of a subcommand, put -- before it";
        let _ = writeln!(std::io::stderr(), "polylogue: {hint}");
    }
    if error.use_stderr() { code::USAGE } else { code::DONE }
}

fn code_of(kind: ErrorKind) -> u8 {
    match kind {
        // Outside of a turn these are about our own server, not about a provider.
        ErrorKind::Timeout => code::LIMIT,
        ErrorKind::Network | ErrorKind::Protocol | ErrorKind::Stalled => code::FAILED,
        kind => code::of_kind(kind.name()),
    }
}

fn run(arguments: &Arguments) -> Result<u8> {
    let env = ProcessEnvironment::current()?;
    if let Some(code) = remote_host::run(arguments, &env)? {
        return Ok(code);
    }
    let env = match &arguments.cwd {
        Some(directory) => env.entering(directory)?,
        None => env,
    };
    check_prompt(arguments)?;
    check_permissions(arguments)?;
    let passed = |is_passed: bool| if is_passed { code::DONE } else { code::FAILED };
    match &arguments.command {
        Some(Command::Setup | Command::Acp { step: Some(_) }) => {
            let arguments = Arguments { command: None, sets_up: true, ..arguments.clone() };
            chat_or_attach(&arguments, &env)
        }
        Some(Command::Config(command)) => config::show::run(command, arguments, &env).map(passed),
        Some(Command::Doctor { offline }) => Ok(passed(doctor::run(arguments, &env, *offline))),
        Some(Command::Mcp(command)) => mcp::run(command, arguments, &env).map(passed),
        Some(Command::Help { topic }) => topics::help(topic).map(|text| printed(&text)),
        Some(Command::Man) => Ok(printed(&man::page())),
        Some(Command::Completions { shell }) => Ok(printed(&completions::script(*shell)?)),
        Some(Command::Acp { step: None }) => acp::run(arguments, &env),
        #[cfg(feature = "hosts")]
        Some(Command::McpServer) => mcp_server::run(arguments, &env),
        Some(Command::Trace(TraceCommand::Show(options))) => trace::show(options).map(passed),
        Some(Command::Replay(options)) => replay::run(options).map(passed),
        Some(Command::Serve(serve)) => serve::run(arguments, serve, &env),
        Some(Command::Attach { agent, read_only }) => attach_or_chat(arguments, &env, agent.as_deref(), *read_only),
        Some(Command::Compare(compare)) => compare::run(arguments, compare, &env),
        #[cfg(feature = "coordinator")]
        Some(Command::MultiAgent(command)) => multi_agent::run(command, arguments, &env),
        #[cfg(not(feature = "coordinator"))]
        Some(Command::MultiAgent(_)) => Err(Error::not_built_in("coordinator")),
        Some(command) => scripts::run(arguments, command, &data_directory::required(arguments, &env)?),
        None if arguments.print => print::run(arguments, &env),
        None if lines::is_meant(arguments) => lines::run(arguments, &env),
        None => chat_or_attach(arguments, &env),
    }
}

/// Attaches if another process answers for the data directory, and starts a chat if none does.
fn chat_or_attach(arguments: &Arguments, env: &ProcessEnvironment) -> Result<u8> {
    AgentChoice::of(arguments).require_terminal()?;
    let loaded = match arguments.read_only {
        true => config::load(arguments, env),
        false => {
            config::new_contents::ask(env)?;
            config::load(arguments, env).without_ignored()
        }
    };
    match connect::instead_of_chat(arguments, loaded)? {
        Ok(code) => Ok(code),
        Err(loaded) => start_chat(arguments, env, loaded),
    }
}

/// Starts a chat, or attaches if another process takes the data directory meanwhile.
fn start_chat(arguments: &Arguments, env: &ProcessEnvironment, loaded: Loaded) -> Result<u8> {
    match chat::run(arguments, loaded) {
        // Another one was started at the same time.
        Err(error) if error.kind == ErrorKind::Held => {
            connect::instead_of_chat(arguments, config::load(arguments, env))?.map_err(|_| error)
        }
        ran => ran,
    }
}

/// Attaches; where that stopped a server of another version, a chat shows the agent instead.
fn attach_or_chat(
    arguments: &Arguments,
    env: &ProcessEnvironment,
    agent: Option<&str>,
    is_read_only: bool,
) -> Result<u8> {
    match connect::attach(arguments, env, agent.map(str::to_owned), is_read_only)? {
        Some(code) => Ok(code),
        None => {
            let resume = agent.map(|agent| Some(agent.to_owned()));
            let arguments = Arguments { command: None, resume, ..arguments.clone() };
            let arguments = Arguments { read_only: arguments.read_only || is_read_only, ..arguments };
            start_chat(&arguments, env, config::load(&arguments, env))
        }
    }
}

/// Refuses a subcommand among options or text that send a prompt.
fn check_prompt(arguments: &Arguments) -> Result<()> {
    if arguments.command.is_none() {
        check_tool_lists(arguments)?;
        return check_misspelt(arguments);
    }
    let message = if let Some(prompt) = arguments.prompt() {
        format!("unexpected {prompt:?} before a subcommand: to send all of it as a prompt, put -- before it")
    } else if arguments.print || arguments.continue_last || arguments.resume.is_some() {
        "a subcommand takes no --print, --continue or --resume: to send its name as a prompt, put -- before it".into()
    } else {
        return Ok(());
    };
    Err(Error::usage(message))
}

/// Refuses a prompt that begins with what may be one more tool of a list, unless it follows `--`: it would not be refused.
fn check_tool_lists(arguments: &Arguments) -> Result<()> {
    match arguments.tool_in_prompt().filter(|_| !has_separator()) {
        Some(tool) => Err(Error::usage(format!(
            "{tool:?} is taken for the prompt: --allowed-tools and --disallowed-tools take one value, as in 'Bash,Edit'; to \
             send it as a prompt, put -- before it"
        ))),
        None => Ok(()),
    }
}

fn has_separator() -> bool {
    std::env::args_os().any(|argument| argument == "--")
}

/// Refuses a prompt of one word that is nearly the name of a subcommand, unless it follows `--`.
fn check_misspelt(arguments: &Arguments) -> Result<()> {
    let [word] = arguments.prompt.as_slice() else { return Ok(()) };
    if arguments.print || has_separator() {
        return Ok(());
    }
    let command = arguments::command();
    let mut names = command.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
    match names.find(|name| strsim::damerau_levenshtein(name, word) == 1) {
        Some(nearest) => Err(Error::usage(format!(
            "unknown subcommand {word:?}: did you mean {nearest}? To send it as a prompt, put -- before it"
        ))),
        None => Ok(()),
    }
}

/// Refuses options about permissions where no agent would get them.
fn check_permissions(arguments: &Arguments) -> Result<()> {
    let is_used = match &arguments.command {
        None
        | Some(
            Command::Acp { .. } | Command::Serve(_) | Command::Config(_) | Command::Doctor { .. } | Command::Compare(_),
        ) => true,
        Some(Command::MultiAgent(command)) => {
            matches!(command, MultiAgentCommand::Run(_) | MultiAgentCommand::RunWorkflow(_))
        }
        #[cfg(feature = "hosts")]
        Some(Command::McpServer) => true,
        Some(_) => false,
    };
    let is_run = matches!(arguments.command, None | Some(Command::MultiAgent(_))) && is_used;
    if arguments.dangerously_allow_everything && !is_run {
        return Err(Error::usage(format!(
            "{ALLOW_EVERYTHING} has no effect here: it belongs to a chat, --print, multi-agent run and run-workflow"
        )));
    }
    match arguments.permission_option().filter(|_| !is_used) {
        Some(option) => Err(Error::usage(format!(
            "{option} has no effect here: it belongs to a chat, --print, serve, multi-agent run and run-workflow, and compare"
        ))),
        None => Ok(()),
    }
}

fn printed(text: &str) -> u8 {
    config::show::print(text);
    code::DONE
}
