//! `/inbox`, `/wall`, `/compare`, `/timeline`, `/search` and `/resume`: views over many agents.

use super::{CommandSpec, WhenBusy, nothing, refuse_arguments};
use crate::base::error::Result;
use crate::domain::flow::{Change, InputResult, Shown, ViewName};

pub const INBOX: CommandSpec = CommandSpec {
    name: "inbox",
    aliases: &[],
    arguments: "",
    about: "show who needs you: questions, failed and finished agents (Alt+A)",
    busy: WhenBusy::Runs,
    run: |_, arguments| show("inbox", ViewName::Inbox, arguments),
    complete: nothing,
};

pub const WALL: CommandSpec = CommandSpec {
    name: "wall",
    aliases: &[],
    arguments: "",
    about: "show all agents as live tiles (Alt+W)",
    busy: WhenBusy::Runs,
    run: |_, arguments| show("wall", ViewName::Wall, arguments),
    complete: nothing,
};

pub const COMPARE: CommandSpec = CommandSpec {
    name: "compare",
    aliases: &[],
    arguments: "",
    about: "show the answers to /ask side by side (Alt+C)",
    busy: WhenBusy::Runs,
    run: |_, arguments| show("compare", ViewName::Compare, arguments),
    complete: nothing,
};

pub const TIMELINE: CommandSpec = CommandSpec {
    name: "timeline",
    aliases: &[],
    arguments: "",
    about: "show all that happened; fork, rewind, undo there (Esc Esc)",
    busy: WhenBusy::Runs,
    run: |_, arguments| show("timeline", ViewName::Timeline, arguments),
    complete: nothing,
};

pub const SEARCH: CommandSpec = CommandSpec {
    name: "search",
    aliases: &[],
    arguments: "[WORDS]",
    about: "search the messages of all agents, killed ones too (Ctrl+F)",
    busy: WhenBusy::Runs,
    run: |_, arguments| Ok(InputResult::NewState(Change::Show(Shown::Search(arguments.to_owned())), None)),
    complete: nothing,
};

pub const RESUME: CommandSpec = CommandSpec {
    name: "resume",
    aliases: &[],
    arguments: "",
    about: "continue a conversation, also an archived one",
    busy: WhenBusy::Runs,
    run: |_, arguments| show("resume", ViewName::Picker, arguments),
    complete: nothing,
};

fn show(name: &str, view: ViewName, arguments: &str) -> Result<InputResult> {
    refuse_arguments(name, arguments)?;
    Ok(InputResult::NewState(Change::Show(Shown::View(view)), None))
}
