//! The subcommands for scripts: each sends one request to the server and prints the response. Without a server, `ps`, `logs`,
//! `mail`, `search` and `usage` use the store, and some commands of the chat run in a loop of this process.

mod mail;
mod print;
mod search;
mod stored;
mod usage;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::Value;

use super::arguments::{Arguments, Command, Logs};
use super::chat_command::ChatCommand;
use super::client::{self, Client, RESPONSE_TIMEOUT};
use super::code;
use super::config::{Loaded, ProcessEnvironment};
use super::host::{Host, HostOptions};
use super::stdio::{print_line, print_note};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::text::counted;
use crate::domain::chunk::Status;
use crate::domain::rule::{Rule, shell_quote};
use crate::domain::wire::{LONGEST_LINE, Request, Response};
use crate::team::{Branches, DirectoryNames};
use print::Printer;

/// Returns the exit code.
pub fn run(arguments: &Arguments, command: &Command, directory: &Path) -> Result<u8> {
    match command {
        Command::Ps { archived, all, json } => print_agents(directory, (!archived, *archived || *all), *json)?,
        Command::Logs(logs) => return print_logs(logs, directory),
        Command::Search { words, most, json } => {
            return Ok(if search::run(words, *most, *json, directory)? { code::DONE } else { code::FAILED });
        }
        Command::Chat(command) => run_command(arguments, directory, command)?,
        Command::Mail(options) => mail::run(options, directory)?,
        Command::Usage { by, json } => usage::run(*by, *json, directory)?,
        Command::Tell { agent, text } | Command::Send { agent, text } => {
            if matches!(command, Command::Send { .. }) {
                print_note("polylogue send is now polylogue tell; the next version drops the old name");
            }
            request(directory, &Request::Send { agent: agent.clone(), text: text_of(text)? })?;
        }
        Command::Approvals { json } => {
            print::questions(&request(directory, &Request::Approvals { follows: false })?, *json)
        }
        Command::Approve { id, always: true, rule } if rule.is_empty() => {
            return show_rules(id, arguments, directory);
        }
        Command::Approve { id, rule, .. } => answer(id, true, None, rule, directory)?,
        Command::Deny { id, reason } => answer(id, false, reason.clone(), &[], directory)?,
        Command::Wait { agent, timeout } => return wait(agent, *timeout, directory),
        Command::Sessions { json } => {
            print::table(&request(directory, &Request::Sessions)?, print::SESSIONS, *json);
        }
        Command::Stop { agents: true } => stop_agents(directory)?,
        Command::Status { json } => {
            print::table(&Value::Array(vec![request(directory, &Request::Status)?]), print::STATUS, *json);
        }
        Command::Stop { agents: false } => stop(directory)?,
        _ => unreachable!("not a subcommand for scripts"),
    }
    Ok(code::DONE)
}

/// Prints the listed agents, the archived ones, or both; those of `--print` runs under their own heading.
fn print_agents(directory: &Path, (listed, archived): (bool, bool), is_json: bool) -> Result<()> {
    let list = |value: Value| value.as_array().cloned().unwrap_or_default();
    let mut rows = if listed { list(agents(directory)?) } else { Vec::new() };
    if archived {
        rows.extend(list(stored::archived_agents(directory)?));
    }
    tell_places(&mut rows, is_json);
    let is_run = |row: &Value| row["print_run"] == true;
    let (runs, others): (Vec<Value>, Vec<Value>) = rows.into_iter().partition(|row| !is_json && is_run(row));
    print::table(&Value::Array(others), print::AGENTS, is_json);
    if !runs.is_empty() {
        print_line("\npolylogue -p runs:");
        print::table(&Value::Array(runs), print::AGENTS, is_json);
    }
    Ok(())
}

/// Adds the git branch of each agent's directory. In a table directories have short names.
fn tell_places(rows: &mut [Value], is_json: bool) {
    let directory = |row: &Value| row["directory"].as_str().map(PathBuf::from);
    let names: DirectoryNames = rows.iter().filter_map(directory).collect();
    let mut branches = Branches::default();
    for row in rows {
        let Some(path) = directory(row) else { continue };
        if row["place"].is_null() {
            branches.read(&path);
            row["branch"] = branches.get(&path).into();
        }
        if !is_json {
            row["directory"] = names.name(&path).into();
        }
    }
}

/// Sends a request to the server, which must be running.
fn request(directory: &Path, request: &Request) -> Result<Value> {
    Client::require(directory)?.request(request)
}

/// Runs a command of the chat in the process that holds the data directory or, if there is none and the command allows it, in a
/// loop of this process. Prints the result.
fn run_command(arguments: &Arguments, directory: &Path, command: &ChatCommand) -> Result<()> {
    let ChatCommand { argv, agent, shell } = command;
    let command = Request::Run { agent: agent.clone(), argv: argv.clone() };
    if !shell.runs_without_server {
        return request(directory, &command).map(|response| print_text(&response));
    }
    stored::require_stored(directory)?;
    let env = ProcessEnvironment::current()?;
    // Mistakes in the configuration do not stop these commands.
    let configure = |loaded: Loaded| Ok(loaded.unattended().config().clone());
    let deadline = Some(Instant::now() + RESPONSE_TIMEOUT);
    let (mut host, _) = Host::open(&HostOptions::for_run((arguments, &env), deadline, &configure))?;
    let limit = (!shell.has_no_time_limit).then_some(RESPONSE_TIMEOUT);
    let response = host.request_for(&command, limit);
    let loss = host.leave()?;
    print_text(&response?);
    loss.map_or(Ok(()), |loss| Err(Error::new(ErrorKind::Store, loss)))
}

fn print_text(response: &Value) {
    if let Some(text) = response["text"].as_str() {
        print_line(text);
    }
}

/// The agents of the server or, without one, of the store.
pub fn agents(directory: &Path) -> Result<Value> {
    match Client::connect(directory)? {
        Some(mut client) => client.request(&Request::Agents),
        None => stored::agents(directory),
    }
}

/// The text of a message: from the command line, or from standard input for `-`.
fn text_of(parts: &[String]) -> Result<String> {
    if parts != ["-"] {
        return Ok(parts.join(" "));
    }
    let mut text = String::new();
    // One byte more than a request can have, so that longer input is refused without reading all of it.
    std::io::stdin().lock().take(LONGEST_LINE as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

fn print_logs(logs: &Logs, directory: &Path) -> Result<u8> {
    let mut printer = Printer::new(logs.json);
    let Some(mut client) = Client::connect(directory)? else {
        if logs.follow {
            return Client::require(directory).map(|_| code::DONE);
        }
        stored::print_chunks(logs, directory, &mut printer)?;
        return Ok(code::DONE);
    };
    if logs.follow {
        client.wait_forever()?;
    }
    let request =
        Request::Logs { agent: logs.agent.clone(), from: logs.from.clone(), last: logs.last, follows: logs.follow };
    client.send(&request)?;
    while !printer.is_closed() {
        match client.receive()? {
            Response::Chunk(chunk) => printer.chunk(&chunk),
            Response::Missed(count) => printer.note_missed(count),
            // A server has no archived agents.
            Response::Refused { .. } if !logs.follow && stored::is_archived(logs, directory) => {
                stored::print_chunks(logs, directory, &mut printer)?;
                return Ok(code::DONE);
            }
            Response::Refused { kind, message } => return Err(client::refusal(&kind, message)),
            Response::Done(_) => break,
            Response::Frame(_)
            | Response::Suspend {}
            | Response::Edit(_)
            | Response::View(_)
            | Response::Paste {}
            | Response::Questions(_)
            | Response::Commands(_)
            | Response::Back(_)
            | Response::End(_) => {}
        }
    }
    printer.end();
    Ok(code::DONE)
}

/// Prints the rules that "always" would save, and what confirms them. Nothing is allowed yet, which the exit code says.
fn show_rules(id: &str, arguments: &Arguments, directory: &Path) -> Result<u8> {
    let approvals = request(directory, &Request::Approvals { follows: false })?;
    let question = approvals.as_array().into_iter().flatten().find(|question| question["id"] == id);
    let question = question.ok_or_else(|| {
        Error::usage(format!("no open question {id:?}: polylogue approvals lists those that are open"))
    })?;
    let data_directory = arguments.data_dir.as_ref();
    let data_directory = data_directory.map(|path| format!("--data-dir {} ", shell_quote(&path.to_string_lossy())));
    let command = format!("polylogue {}approve {id}", data_directory.unwrap_or_default());
    let rules: Vec<&str> = question["rules"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if rules.is_empty() {
        return Err(Error::usage(format!("no rule can allow this call: {command} allows it once")));
    }
    let Some(file) = question["rule_file"].as_str() else {
        return Err(Error::usage(format!(
            "rules for {} are not saved: it is a worktree, which is removed with its agent, or there is no configuration \
             file; {command} allows the call once",
            question["directory"].as_str().unwrap_or_default()
        )));
    };
    rules.iter().all(|rule| print_line(rule));
    let parsed = rules.iter().filter_map(|rule| rule.parse::<Rule>().ok());
    for (rule, caution) in parsed.filter_map(|rule| Some((rule.to_string(), rule.caution()?))) {
        print_note(&format!("{rule}: {caution}"));
    }
    let options: String = rules.iter().map(|rule| format!(" --rule {}", shell_quote(rule))).collect();
    print_note(&format!(
        "nothing is allowed yet; to allow the call and save these rules for {} in {file}: {command} --always{options}",
        question["directory"].as_str().unwrap_or_default()
    ));
    Ok(code::USAGE)
}

fn answer(id: &str, allow: bool, reason: Option<String>, rules: &[String], directory: &Path) -> Result<()> {
    let (id, rules) = (id.to_owned(), rules.to_vec());
    request(directory, &Request::Answer { id, allow, reason, rules, is_for_session: false }).map(drop)
}

/// Waits until an agent is at rest; the exit code tells its status.
fn wait(agent: &str, timeout: Option<f64>, directory: &Path) -> Result<u8> {
    let mut client = Client::require(directory)?;
    // The server watches the timeout.
    client.wait_forever()?;
    let response = client.request(&Request::Wait { agent: agent.to_owned(), seconds: timeout })?;
    let status = response["status"].as_str().unwrap_or_default();
    print_line(status);
    Ok(match status {
        _ if status == Status::Idle.name() => code::DONE,
        _ if status == Status::Interrupted.name() => code::INTERRUPTED,
        _ if status == Status::Failed.name() || status == Status::Dead.name() => code::FAILED,
        _ => code::LIMIT,
    })
}

fn stop_agents(directory: &Path) -> Result<()> {
    let stopped = request(directory, &Request::StopAgents)?["stopped"].as_u64();
    let count = usize::try_from(stopped.unwrap_or_default()).unwrap_or(usize::MAX);
    print_line(&format!("stopped {}", counted(count, "agent", "agents")));
    Ok(())
}

/// Stops the server, and waits until it has closed the connection and so released the store.
fn stop(directory: &Path) -> Result<()> {
    let mut client = Client::require(directory)?;
    client.wait_forever()?;
    let _: Value = client.request(&Request::Stop)?;
    while client.receive().is_ok() {}
    Ok(())
}
