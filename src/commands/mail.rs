//! The mail commands: `/send`, `/check-mail`, `/read-mail`, `/filter-mail`, `/delete-mail`, and `mail` of clients and the shell.

use clap::{Arg, ArgGroup, ArgMatches, Command, value_parser};
use serde_json::{Value, json};

use super::arguments::{AGENT, agent_arg, option, positional, value_of};
use super::{
    ACT, CommandContext, CommandSpec, Last, Rest, ShellSpec, WithoutServer, agent_called, or_ended, usage_error,
};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::change::{Change, MailAct};
use crate::domain::flow::InputResult;
use crate::domain::mail::{Mail, MailId};
use crate::store::Store;

pub const SEND: CommandSpec = CommandSpec {
    arguments: "AGENT MESSAGE",
    define: |command| command.arg(agent_arg("Recipient")).arg(positional("text", "MESSAGE")),
    rest: Some(Rest::Unquoted("text")),
    ..CommandSpec::new("send", "send mail to an agent", send)
};

pub const CHECK_MAIL: CommandSpec =
    CommandSpec::new("check-mail", "list this agent's mail", |context, _| list_mail(context, None));

pub const READ_MAIL: CommandSpec = CommandSpec {
    arguments: "[ID]",
    define: |command| command.arg(positional("id", "ID")),
    ..CommandSpec::new("read-mail", "read a message, by default the oldest unread", |_, given| {
        let id = value_of(given, "id").map(mail_id).transpose()?;
        Ok(InputResult::NewState(Change::Mail(MailAct::Read(id)), None))
    })
};

pub const FILTER_MAIL: CommandSpec = CommandSpec {
    arguments: "--from AGENT",
    define: |command| command.arg(option("from", "AGENT", "The sender")),
    ..CommandSpec::new("filter-mail", "list mail from one agent", |context, given| {
        let name = value_of(given, "from").ok_or_else(|| usage_error("no sender given: /filter-mail --from AGENT"))?;
        list_mail(context, Some(sender(context, name)?))
    })
};

pub const DELETE_MAIL: CommandSpec = CommandSpec {
    arguments: "ID",
    define: |command| command.arg(positional("id", "ID")),
    ..CommandSpec::new("delete-mail", "delete a message", |_, given| {
        let id = mail_id(value_of(given, "id").unwrap_or_default())?;
        Ok(InputResult::NewState(Change::Mail(MailAct::Delete(id)), Some("message deleted".into())))
    })
};

pub(super) const MAIL: CommandSpec = CommandSpec {
    runs_at_last: Some(Last::OfAll),
    shell: Some(ShellSpec {
        without_server: WithoutServer::Reads,
        input: Some("send"),
        ..ShellSpec::list("List, read, send or delete the mail of an agent", &[])
    }),
    define: define_mail,
    ..CommandSpec::new("mail", "list, read, send or delete the mail of an agent", mail)
};

fn define_mail(command: Command) -> Command {
    let whose =
        "Whose mail: a name, a number or the beginning of an id [default: the one that was sent a message last]";
    command
        .arg(Arg::new(AGENT).value_name("AGENT").help(whose))
        .arg(option("from", "AGENT", "List only mail from this agent; with --send, the sender [default: agent 0]"))
        .arg(
            option("read", "ID", "Print a message and mark it as read [default: the oldest unread one]")
                .num_args(0..=1)
                .value_parser(value_parser!(i64)),
        )
        .arg(option("send", "TEXT", "Send a message to the agent").requires(AGENT))
        .arg(option("delete", "ID", "Delete a message").value_parser(value_parser!(i64)))
        .group(ArgGroup::new(ACT).args(["read", "send", "delete"]))
}

fn mail(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let called = |name| or_ended(context.store, agent_called(context.roster, name), name);
    let agent = value_of(given, AGENT).map_or(Ok(context.current), called)?;
    let from = value_of(given, "from").map(called).transpose()?;
    let id_of = |option| given.get_one::<i64>(option).copied().map(MailId);
    if let Some(id) = id_of("delete") {
        return Ok(InputResult::NewStateAt(agent, Change::Mail(MailAct::Delete(id)), None));
    }
    if let Some(text) = value_of(given, "send") {
        let from = from.or_else(|| context.roster.nth(0)).unwrap_or(context.current);
        return Ok(InputResult::NewStateAt(
            from,
            Change::Mail(MailAct::Send { to: agent, body: text.to_owned() }),
            None,
        ));
    }
    if !given.contains_id("read") {
        let mail = context.store.mail(agent, from)?;
        return Ok(InputResult::Data(
            mail.iter().map(|mail| mail_as_json(context.store, mail)).collect::<Result<_>>()?,
        ));
    }
    let Some(found) = context.store.find_mail(agent, id_of("read"))? else {
        return match id_of("read") {
            Some(id) => Err(usage_error(format!("no mail with id {}", id.0))),
            None => Ok(InputResult::Data(Value::Null)),
        };
    };
    let id = found.id;
    let message = mail_as_json(context.store, &Mail { is_read: true, ..found })?;
    Ok(InputResult::NewStateAt(agent, Change::Mail(MailAct::Read(Some(id))), Some(message)))
}

/// Characters of a message that a list shows.
const PREVIEW: usize = 60;

fn send(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let name = value_of(given, AGENT).ok_or_else(|| usage_error("no agent given: /send AGENT MESSAGE"))?;
    let to = agent_called(context.roster, name)?;
    let body = value_of(given, "text").unwrap_or_default().to_owned();
    Ok(InputResult::NewState(Change::Mail(MailAct::Send { to, body }), Some(sent_note(name, "/tell"))))
}

/// Says where the mail is now; `tell` is the command that prompts an agent.
pub fn sent_note(to: &str, tell: &str) -> String {
    format!("sent to {to}: the mail waits until the agent looks; {tell} {to} TEXT prompts it now")
}

fn mail_as_json(store: &Store, mail: &Mail) -> Result<Value> {
    let from = store.agent(mail.from)?.map_or_else(|| mail.from.to_string(), |row| row.label());
    Ok(json!({
        "id": mail.id.0,
        "read": mail.is_read,
        "from": from,
        "from_id": mail.from.to_string(),
        "created_at": mail.created_at,
        "text": mail.body,
    }))
}

fn mail_id(arguments: &str) -> Result<MailId> {
    arguments
        .parse()
        .map(MailId)
        .map_err(|_| usage_error(format!("{arguments:?} is not a message id: /check-mail lists them")))
}

/// Finds a sender. A killed agent, whose mail stays stored, is found by its id or its former name.
fn sender(context: &CommandContext, name: &str) -> Result<AgentId> {
    let living = agent_called(context.roster, name);
    if living.is_ok() {
        return living;
    }
    if let Some(id) = context.store.find(name)?.one() {
        return Ok(id);
    }
    for mail in context.store.mail(context.current, None)? {
        if context.store.agent(mail.from)?.and_then(|row| row.name).as_deref() == Some(name) {
            return Ok(mail.from);
        }
    }
    living
}

fn list_mail(context: &CommandContext, from: Option<AgentId>) -> Result<InputResult> {
    let mail = context.store.mail(context.current, from)?;
    Ok(InputResult::Continue(Some(mail_lines(context, &mail))))
}

/// Mail as a list: id, read or not, sender, beginning of the text.
pub fn mail_lines(context: &CommandContext, mail: &[Mail]) -> String {
    let unread = mail.iter().filter(|mail| !mail.is_read).count();
    let lines: Vec<String> = mail.iter().map(|mail| line(context, mail)).collect();
    match mail.len() {
        0 => "no mail".into(),
        n => format!("{}, {unread} unread\n{}", text::counted(n, "message", "messages"), lines.join("\n")),
    }
}

fn line(context: &CommandContext, mail: &Mail) -> String {
    let first = mail.body.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let preview: String = first.chars().take(PREVIEW).collect();
    let more = if preview.len() < mail.body.trim().len() { " …" } else { "" };
    let read = if mail.is_read { "read  " } else { "unread" };
    format!("{:<4} {read} from {}: {preview}{more}", mail.id.0, context.name_of(mail.from))
}
