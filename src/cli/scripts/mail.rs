//! `mail`: the mailbox of an agent, at the server or, without one, in the store.

use std::path::Path;

use serde_json::Value;

use super::print;
use super::stored::{find_agent, find_or_last, open, require_stored};
use super::text_of;
use crate::base::clock::unix_ms;
use crate::base::error::{Error, Result};
use crate::base::text::{escape_json, sanitise};
use crate::cli::arguments::Mail;
use crate::cli::client::Client;
use crate::cli::stdio::{print_line, print_note};
use crate::commands::{mail_as_json, sent_note};
use crate::domain::mail::MailId;
use crate::domain::wire::{MailAct, Request};
use crate::store::Store;

pub fn run(options: &Mail, directory: &Path) -> Result<()> {
    let act = match options {
        Mail { send: Some(text), .. } => MailAct::Send(text_of(std::slice::from_ref(text))?),
        Mail { delete: Some(id), .. } => MailAct::Delete(*id),
        Mail { read: Some(id), .. } => MailAct::Read(*id),
        _ => MailAct::List,
    };
    let (agent, from) = (options.agent.clone(), options.from.clone());
    let response = match Client::connect(directory)? {
        Some(mut client) => client.request(&Request::Mail { agent, from, act: act.clone() })?,
        None => act_on_store(directory, agent.as_deref(), from.as_deref(), &act)?,
    };
    match act {
        MailAct::List => print::table(&first_lines(response, options.json), print::MAIL, options.json),
        MailAct::Read(_) if response.is_null() => print_note("no unread mail"),
        MailAct::Read(_) if options.json => drop(print_line(&escape_json(&response.to_string()))),
        MailAct::Read(_) => {
            let text = response["text"].as_str().unwrap_or_default();
            print_line(&format!("message {} from {}:", response["id"], response["from"].as_str().unwrap_or_default()));
            print_line(&sanitise(text));
        }
        MailAct::Send(_) => print_note(&sent_note(options.agent.as_deref().unwrap_or_default(), "polylogue tell")),
        MailAct::Delete(_) => print_note("message deleted"),
    }
    Ok(())
}

/// A table shows the first line of each message.
fn first_lines(mut list: Value, is_json: bool) -> Value {
    for mail in list.as_array_mut().into_iter().flatten().filter(|_| !is_json) {
        let first = mail["text"].as_str().and_then(|text| text.lines().find(|line| !line.trim().is_empty()));
        mail["text"] = first.unwrap_or_default().into();
    }
    list
}

fn act_on_store(directory: &Path, agent: Option<&str>, from: Option<&str>, act: &MailAct) -> Result<Value> {
    require_stored(directory)?;
    let store = match act {
        MailAct::List => Store::open_read_only(directory)?,
        _ => open(directory)?,
    };
    let agent = find_or_last(&store, agent)?;
    let from = from.map(|name| find_agent(&store, name)).transpose()?;
    let now = unix_ms();
    match act {
        MailAct::List => store.mail(agent, from)?.iter().map(|mail| mail_as_json(&store, mail)).collect(),
        MailAct::Read(id) => match (store.read_mail(agent, id.map(MailId), now)?, id) {
            (Some(mail), _) => mail_as_json(&store, &mail),
            (None, Some(id)) => Err(Error::usage(format!("no mail with id {id}"))),
            (None, None) => Ok(Value::Null),
        },
        MailAct::Send(text) => {
            let root = store.load_agents()?.agents.into_iter().find(|row| row.parent.is_none()).map(|row| row.id);
            let from = from.or(root).ok_or_else(|| Error::usage("there is no agent yet: start a chat first"))?;
            store.deliver(from, agent, text, now).map(|_| Value::Null)
        }
        MailAct::Delete(id) => store.delete_mail(agent, MailId(*id)).map(|()| Value::Null),
    }
}
