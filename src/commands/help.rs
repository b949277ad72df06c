//! `/help`: the table of commands, and the keys.

use super::{COMMANDS, CommandSpec, House, nothing, refuse_arguments};
use crate::base::error::Result;
use crate::domain::flow::InputResult;

/// `/help`.
pub const HELP: CommandSpec =
    CommandSpec { name: "help", aliases: &["h", "?"], arguments: "", about: "this list", run, complete: nothing };

/// Keys that are not commands, as help lists them.
const KEYS: &[(&str, &str)] = &[
    ("Enter / Ctrl+J", "send / new line"),
    ("Esc", "stop what this agent does; else clear the draft"),
    ("Ctrl+Up, Ctrl+Down", "parent, newest child"),
    ("Ctrl+Left, Ctrl+Right", "siblings"),
    ("Alt+1 .. Alt+9", "agents by order of birth"),
    ("PgUp, PgDn, wheel", "scroll; Ctrl+Home, Ctrl+End for the ends"),
    ("Up on an empty draft", "take queued text back, else earlier input"),
    ("Ctrl+L", "draw the screen anew"),
    ("Ctrl+C, Ctrl+D", "leave"),
];

fn run(_: &House, arguments: &str) -> Result<InputResult> {
    refuse_arguments("help", arguments)?;
    let commands = COMMANDS.iter().map(|spec| (format!("/{} {}", spec.name, spec.arguments), spec.about));
    let keys = KEYS.iter().map(|(key, about)| ((*key).to_owned(), *about));
    let lines: Vec<String> = commands.chain(keys).map(|(left, right)| format!("{left:<28} {right}")).collect();
    Ok(InputResult::Continue(Some(lines.join("\n"))))
}
