//! The commands for letters: `/send`, `/check-mail`, `/read-mail`, `/filter-mail`, `/delete-mail`.

use super::complete::{agent_names, letters};
use super::{CommandContext, CommandSpec, WhenBusy, agent_called, nothing, refuse_arguments, unquoted, usage};
use crate::base::error::Result;
use crate::base::id::AgentId;
use crate::base::text;
use crate::domain::flow::{Change, InputResult};
use crate::domain::mail::{Mail, MailId};
use crate::store::Found;

/// `/send`.
pub const SEND: CommandSpec = CommandSpec {
    name: "send",
    aliases: &[],
    arguments: "AGENT LETTER",
    about: "put a letter into an agent's box",
    busy: WhenBusy::Runs,
    run: send,
    complete: agent_names,
};

/// `/check-mail`.
pub const CHECK_MAIL: CommandSpec = CommandSpec {
    name: "check-mail",
    aliases: &[],
    arguments: "",
    about: "this agent's letters",
    busy: WhenBusy::Runs,
    run: |context, arguments| {
        refuse_arguments("check-mail", arguments)?;
        listed(context, None)
    },
    complete: nothing,
};

/// `/read-mail`.
pub const READ_MAIL: CommandSpec = CommandSpec {
    name: "read-mail",
    aliases: &[],
    arguments: "[ID]",
    about: "read this letter, or the oldest unread",
    busy: WhenBusy::Runs,
    run: |_, arguments| {
        let id = if arguments.is_empty() { None } else { Some(letter(arguments)?) };
        Ok(InputResult::NewState(Change::ReadMail(id), None))
    },
    complete: letters,
};

/// `/filter-mail`.
pub const FILTER_MAIL: CommandSpec = CommandSpec {
    name: "filter-mail",
    aliases: &[],
    arguments: "--from AGENT",
    about: "the letters of one sender",
    busy: WhenBusy::Runs,
    run: |context, arguments| {
        let name = arguments.strip_prefix("--from").map(str::trim).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| usage("say whose letters: /filter-mail --from AGENT"))?;
        listed(context, Some(sender(context, name)?))
    },
    complete: |context, typed| agent_names(context, typed).into_iter().map(|name| format!("--from {name}")).collect(),
};

/// `/delete-mail`.
pub const DELETE_MAIL: CommandSpec = CommandSpec {
    name: "delete-mail",
    aliases: &[],
    arguments: "ID",
    about: "throw a letter away",
    busy: WhenBusy::Runs,
    run: |_, arguments| Ok(InputResult::NewState(Change::DeleteMail(letter(arguments)?), Some("thrown away".into()))),
    complete: letters,
};

/// Characters of a letter that a list shows.
const PREVIEW: usize = 60;

fn send(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    let (name, body) = arguments.split_once(char::is_whitespace).unwrap_or((arguments, ""));
    if name.is_empty() {
        return Err(usage("say to whom and what: /send AGENT LETTER"));
    }
    let to = agent_called(context.roster, name)?;
    let body = unquoted(body.trim_start()).to_owned();
    Ok(InputResult::NewState(Change::Send { to, body }, Some(format!("the letter is in {name}'s box"))))
}

fn letter(arguments: &str) -> Result<MailId> {
    arguments
        .parse()
        .map(MailId)
        .map_err(|_| usage(&format!("{arguments:?} is no letter: /check-mail tells their ids")))
}

/// Who wrote. The dead, whose letters are kept, are meant by their id, or by the name that they had.
fn sender(context: &CommandContext, name: &str) -> Result<AgentId> {
    let living = agent_called(context.roster, name);
    if living.is_ok() {
        return living;
    }
    if let Found::One(id) = context.store.find(name)? {
        return Ok(id);
    }
    for mail in context.store.mail(context.current, None)? {
        if context.store.agent(mail.from)?.and_then(|row| row.name).as_deref() == Some(name) {
            return Ok(mail.from);
        }
    }
    living
}

fn listed(context: &CommandContext, from: Option<AgentId>) -> Result<InputResult> {
    let mail = context.store.mail(context.current, from)?;
    Ok(InputResult::Continue(Some(mail_lines(context, &mail))))
}

/// Letters as a list: id, read or not, sender, first words.
pub fn mail_lines(context: &CommandContext, mail: &[Mail]) -> String {
    let unread = mail.iter().filter(|mail| !mail.is_read).count();
    let lines: Vec<String> = mail.iter().map(|mail| line(context, mail)).collect();
    match mail.len() {
        0 => "no letters".into(),
        n => format!("{}, {unread} unread\n{}", text::counted(n, "letter", "letters"), lines.join("\n")),
    }
}

fn line(context: &CommandContext, mail: &Mail) -> String {
    let first = mail.body.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let words: String = first.chars().take(PREVIEW).collect();
    let more = if words.len() < mail.body.trim().len() { " …" } else { "" };
    let read = if mail.is_read { "read  " } else { "unread" };
    format!("{:<4} {read} from {}: {words}{more}", mail.id.0, context.name_of(mail.from))
}
