//! The subcommands for scripts. Most are commands that the process which holds the data directory runs; without one, some run in
//! a loop of this process. `logs` reads the store without a server; `search` and `usage` always do.

mod logs;
mod print;
mod search;
mod usage;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

use super::arguments::{Arguments, Command};
use super::chat_command::ChatCommand;
use super::client::{self, Client, RESPONSE_TIMEOUT};
use super::code;
use super::config::{Loaded, ProcessEnvironment};
use super::host::{Host, HostOptions};
use super::stdio::{print_line, print_note};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::text::{escape_json, sanitise};
use crate::commands::{ACT, AGENT, WithoutServer, sent_note};
use crate::domain::chunk::Status;
use crate::domain::rule::{Rule, shell_quote};
use crate::domain::wire::{Followed, LONGEST_LINE, Request, Response};
use crate::store::Store;
use crate::team::{Branches, DirectoryNames};

/// Returns the exit code.
pub fn run(arguments: &Arguments, command: &Command, directory: &Path) -> Result<u8> {
    match command {
        Command::Logs(options) => return logs::run(options, directory),
        Command::Search { words, most, json } => {
            return Ok(if search::run(words, *most, *json, directory)? { code::DONE } else { code::FAILED });
        }
        Command::Usage { by, json } => usage::run(*by, *json, directory)?,
        Command::Approvals { json } => print::questions(&open_questions(directory)?, *json),
        Command::Wait { agent, timeout } => return wait(agent, *timeout, directory),
        Command::Stop { agents: true } => {
            print_text(&Client::require(directory)?.request(&Request::run(["stop", "--all"]))?);
        }
        Command::Stop { agents: false } => {
            let mut client = Client::require(directory)?;
            client.wait_forever()?;
            client.stop_server()?;
        }
        Command::Chat(command) => match command.value_of("id") {
            Some(id) if command.name == "approve" && command.is_set("always") && !command.has("rule") => {
                return show_rules(id, arguments, directory);
            }
            _ => {
                let response = run_command(arguments, directory, command)?;
                // Of one worktree that is an error; programs get its reason as data.
                let fails = command.name == "land" && !command.is_json() && !command.is_set("all");
                return match response["data"].as_array().map(Vec::as_slice) {
                    Some([row]) if fails && row["landed"] == false => {
                        Err(Error::usage(response["text"].as_str().unwrap_or_default()))
                    }
                    _ => Ok(show(command, &response)),
                };
            }
        },
        _ => unreachable!("not a subcommand for scripts"),
    }
    Ok(code::DONE)
}

/// Runs a command in the process that holds the data directory or, if there is none and the command allows it, in a loop of
/// this process.
fn run_command(arguments: &Arguments, directory: &Path, command: &ChatCommand) -> Result<Value> {
    let mut command = command.clone();
    if command.reads_input() {
        command.set_input(&input()?);
    }
    let shell = command.shell;
    if shell.without_server == WithoutServer::Fails {
        return Client::require(directory)?.request(&command.request());
    }
    require_stored(directory)?;
    let env = ProcessEnvironment::current()?;
    // Mistakes in the configuration do not stop these commands.
    let configure = |loaded: Loaded| Ok(loaded.unattended().config().clone());
    let deadline = Some(Instant::now() + RESPONSE_TIMEOUT);
    let reads_only = shell.without_server == WithoutServer::Reads && !command.has(ACT);
    if reads_only && Client::connect(directory)?.is_none() && !has_stored_agents(directory, &command)? {
        return Ok(json!({"text": null, "data": []}));
    }
    let options = HostOptions { reads_only, ..HostOptions::for_run((arguments, &env), deadline, &configure) };
    let (mut host, _) = Host::open(&options)?;
    let limit = (!shell.has_no_time_limit).then_some(RESPONSE_TIMEOUT);
    let response = host.request_for(&command.request(), limit);
    let loss = host.leave()?;
    match loss {
        Some(loss) if response.is_ok() => Err(Error::new(ErrorKind::Store, loss)),
        _ => response,
    }
}

/// Prints the response to a command. Returns the exit code.
fn show(command: &ChatCommand, response: &Value) -> u8 {
    let (data, is_json) = (&response["data"], command.is_json());
    if !is_json || data.is_null() {
        print_text(response);
    }
    match command.name {
        // The text says the same.
        "diff" | "land" if !is_json => {}
        "agents" if command.is_set("definitions") => print::table(data, print::DEFINITIONS, is_json),
        "agents" => show_agents(data, is_json),
        "mail" => show_mail(command, data),
        _ if !command.shell.prints_data => {}
        _ if data.is_object() => print::table(&Value::Array(vec![data.clone()]), command.shell.columns, is_json),
        _ => print::table(data, command.shell.columns, is_json),
    }
    let is_left = |row: &Value| row["landed"] == false && row["up_to_date"] != true;
    let was_left = command.name == "land" && data.as_array().into_iter().flatten().any(is_left);
    if was_left { code::FAILED } else { code::DONE }
}

fn print_text(response: &Value) {
    if let Some(text) = response["text"].as_str() {
        print_line(text);
    }
}

/// Prints agents; those of `--print` runs under their own heading.
fn show_agents(agents: &Value, is_json: bool) {
    let mut rows = agents.as_array().cloned().unwrap_or_default();
    tell_places(&mut rows, is_json);
    let is_run = |row: &Value| row["print_run"] == true;
    let (runs, others): (Vec<Value>, Vec<Value>) = rows.into_iter().partition(|row| !is_json && is_run(row));
    print::table(&Value::Array(others), print::AGENTS, is_json);
    if !runs.is_empty() {
        print_line("\npolylogue -p runs:");
        print::table(&Value::Array(runs), print::AGENTS, is_json);
    }
}

/// Prints a mailbox or a message, or says what was done. A table shows the first line of each message.
fn show_mail(command: &ChatCommand, data: &Value) {
    let text = |mail: &Value| mail["text"].as_str().unwrap_or_default().to_owned();
    if let Some(list) = data.as_array() {
        let mut list = list.clone();
        for mail in list.iter_mut().filter(|_| !command.is_json()) {
            mail["text"] = text(mail).lines().find(|line| !line.trim().is_empty()).unwrap_or_default().into();
        }
        print::table(&list.into(), print::MAIL, command.is_json());
    } else if command.has("send") {
        print_note(&sent_note(command.value_of(AGENT).unwrap_or_default(), "polylogue tell"));
    } else if command.has("delete") {
        print_note("message deleted");
    } else if data.is_null() {
        print_note("no unread mail");
    } else if command.is_json() {
        print_line(&escape_json(&data.to_string()));
    } else {
        print_line(&format!("message {} from {}:", data["id"], data["from"].as_str().unwrap_or_default()));
        print_line(&sanitise(&text(data)));
    }
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

/// Standard input as the text of a message.
fn input() -> Result<String> {
    let mut text = String::new();
    // One byte more than a request can have, so that longer input is refused without reading all of it.
    std::io::stdin().lock().take(LONGEST_LINE as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// Whether an agent is stored that can be read. Says which cannot.
fn has_stored_agents(directory: &Path, command: &ChatCommand) -> Result<bool> {
    let store = Store::open_read_only(directory)?;
    let lists_archived = command.name == "agents" && (command.is_set("archived") || command.is_set("all"));
    let archived = lists_archived.then(|| store.archived_agents()).transpose()?.unwrap_or_default();
    let registry = store.load_agents()?;
    registry.damaged.iter().chain(&archived.damaged).for_each(|message| print_note(message));
    Ok(!registry.agents.is_empty())
}

/// Fails where opening the store would create one.
fn require_stored(directory: &Path) -> Result<()> {
    match Store::exists(directory) {
        true => Ok(()),
        false => Err(Error::usage(format!("nothing is stored in {}", directory.display()))),
    }
}

/// The open questions of all agents.
fn open_questions(directory: &Path) -> Result<Value> {
    let mut client = Client::require(directory)?;
    client.send(&Request::Follow(Followed::Questions))?;
    match client.receive()? {
        Response::Questions(questions) => Ok(questions),
        Response::Refused { kind, message } => Err(client::refusal(&kind, message)),
        _ => Err(client::unexpected_response()),
    }
}

/// Prints the rules that "always" would save, and what confirms them. Nothing is allowed yet, which the exit code says.
fn show_rules(id: &str, arguments: &Arguments, directory: &Path) -> Result<u8> {
    let questions = open_questions(directory)?;
    let question = questions.as_array().into_iter().flatten().find(|question| question["id"] == id);
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

/// Reports on standard error that the agent asks for approval.
fn print_question(question: &Value) {
    let text = |name: &str| question[name].as_str().unwrap_or_default();
    let (label, id, title) = (text("label"), text("id"), text("title"));
    print_note(&format!("{label} asks: {title}; polylogue approve {id} or polylogue deny {id} answers"));
}

/// Waits until an agent is at rest; the exit code tells its status.
fn wait(agent: &str, timeout: Option<f64>, directory: &Path) -> Result<u8> {
    let mut client = Client::require(directory)?;
    // The server watches the timeout.
    client.wait_forever()?;
    let rest = Followed::Idle { agent: agent.to_owned(), seconds: timeout, with_questions: true };
    client.send(&Request::Follow(rest))?;
    let response = loop {
        match client.receive()? {
            Response::Done(response) => break response,
            Response::Refused { kind, message } => return Err(client::refusal(&kind, message)),
            Response::Questions(questions) => questions.as_array().into_iter().flatten().for_each(print_question),
            _ => return Err(client::unexpected_response()),
        }
    };
    let status = response["status"].as_str().unwrap_or_default();
    print_line(status);
    Ok(match status {
        _ if status == Status::Idle.name() => code::DONE,
        _ if status == Status::Interrupted.name() => code::INTERRUPTED,
        _ if status == Status::Failed.name() || status == Status::Dead.name() => code::FAILED,
        _ => code::LIMIT,
    })
}
