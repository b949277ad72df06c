//! The subcommands for scripts. Each sends one request to the server and prints the response. Without a server, `ps` and
//! `logs` read the store.

mod print;
mod stored;

use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use super::arguments::{Arguments, Command, Logs};
use super::client::{self, Client};
use super::code;
use super::stdio::{print_line, print_note};
use crate::base::error::{Error, Result};
use crate::base::text::counted;
use crate::domain::chunk::Status;
use crate::domain::rule::{Rule, quoted};
use crate::domain::wire::{LONGEST_LINE, Request, Response};
use print::Printer;

/// Returns the exit code.
///
/// # Errors
/// The server or the store refuses the request, or there is no server.
pub fn run(arguments: &Arguments, command: &Command, directory: &Path) -> Result<u8> {
    match command {
        Command::Ps { json } => {
            print::table(&agents(directory)?, print::AGENTS, *json);
        }
        Command::Logs(logs) => return print_logs(logs, directory),
        Command::Send { agent, text } => {
            let request = Request::Send { agent: agent.clone(), text: text_of(text)? };
            Client::require(directory)?.request(&request)?;
        }
        Command::Kill { agent, cascade, descendants } => {
            let request = Request::Kill { agent: agent.clone(), cascade: *cascade, descendants: *descendants };
            Client::require(directory)?.request(&request)?;
        }
        Command::Interrupt { agent } => {
            Client::require(directory)?.request(&Request::Interrupt { agent: agent.clone() })?;
        }
        Command::Approvals { json } => {
            print::questions(&Client::require(directory)?.request(&Request::Approvals)?, *json);
        }
        Command::Approve { id, always: true, rule } if rule.is_empty() => {
            return show_rules(id, arguments, directory);
        }
        Command::Approve { id, rule, .. } => answer(id, true, None, rule, directory)?,
        Command::Deny { id, reason } => answer(id, false, reason.clone(), &[], directory)?,
        Command::Wait { agent, timeout } => return wait(agent, *timeout, directory),
        Command::Sessions { json } => {
            let sessions = Client::require(directory)?.request(&Request::Sessions)?;
            print::table(&sessions, print::SESSIONS, *json);
        }
        Command::Stop { agents: true } => {
            let stopped = Client::require(directory)?.request(&Request::StopAgents)?["stopped"].as_u64();
            let count = usize::try_from(stopped.unwrap_or_default()).unwrap_or(usize::MAX);
            print_line(&format!("stopped {}", counted(count, "agent", "agents")));
        }
        Command::Status { json } => {
            let status = Client::require(directory)?.request(&Request::Status)?;
            print::table(&Value::Array(vec![status]), print::STATUS, *json);
        }
        Command::Stop { agents: false } => stop(directory)?,
        _ => unreachable!("not a subcommand for scripts"),
    }
    Ok(code::DONE)
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
            Response::Missed(count) => printer.missed(count),
            Response::Refused { kind, message } => return Err(client::refusal(&kind, message)),
            Response::Done(_) => break,
            Response::Frame(_) | Response::Suspend {} | Response::End(_) => {}
        }
    }
    printer.end();
    Ok(code::DONE)
}

/// Prints the rules that "always" would save, and what confirms them. Nothing is allowed yet, which the exit code says.
fn show_rules(id: &str, arguments: &Arguments, directory: &Path) -> Result<u8> {
    let approvals = Client::require(directory)?.request(&Request::Approvals)?;
    let question = approvals.as_array().into_iter().flatten().find(|question| question["id"] == id);
    let question = question.ok_or_else(|| {
        Error::usage(format!("no open question {id:?}: polylogue approvals lists those that are open"))
    })?;
    let data_directory = arguments.data_dir.as_ref();
    let data_directory = data_directory.map(|path| format!("--data-dir {} ", quoted(&path.to_string_lossy())));
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
    let options: String = rules.iter().map(|rule| format!(" --rule {}", quoted(rule))).collect();
    print_note(&format!(
        "nothing is allowed yet; to allow the call and save what is printed for {} in {file}: {command} --always{options}",
        question["directory"].as_str().unwrap_or_default()
    ));
    Ok(code::USAGE)
}

fn answer(id: &str, allow: bool, reason: Option<String>, rules: &[String], directory: &Path) -> Result<()> {
    let request = Request::Answer { id: id.to_owned(), allow, reason, rules: rules.to_vec() };
    Client::require(directory)?.request(&request).map(drop)
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
        _ if status == Status::Dead.name() => code::FAILED,
        _ => code::LIMIT,
    })
}

/// Stops the server, and waits until it has closed the connection and so released the store.
fn stop(directory: &Path) -> Result<()> {
    let mut client = Client::require(directory)?;
    client.wait_forever()?;
    let _: Value = client.request(&Request::Stop)?;
    while client.receive().is_ok() {}
    Ok(())
}
