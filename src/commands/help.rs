//! `/help`: the table of commands, and the keys.

use super::{COMMANDS, CommandContext, CommandSpec, WhenBusy, nothing, refuse_arguments};
use crate::base::error::Result;
use crate::base::text;
use crate::domain::flow::InputResult;

/// `/help`.
pub const HELP: CommandSpec = CommandSpec {
    name: "help",
    aliases: &["h", "?"],
    arguments: "",
    about: "this list",
    busy: WhenBusy::Runs,
    run,
    complete: nothing,
};

/// A line of a screen of 80 columns, without its gutter.
const COLUMNS: usize = 78;

/// Keys that are not commands, as help lists them.
pub const KEYS: &[(&str, &str)] = &[
    ("Enter, Ctrl+J", "send, new line"),
    ("Enter, nothing typed", "try now what waits; send what is queued"),
    ("Tab", "complete a command or a name"),
    ("Esc", "stop what this agent does; else clear the draft"),
    ("Ctrl+Up, Ctrl+Down", "parent, newest child"),
    ("Ctrl+Left, Ctrl+Right", "siblings"),
    ("Alt+1 .. Alt+9", "agents by order of birth"),
    ("PgUp, PgDn, wheel", "scroll; Ctrl+Home, Ctrl+End for the ends"),
    ("Up on an empty draft", "take queued text back, else earlier input"),
    ("Ctrl+L, Ctrl+Z", "draw the screen anew, suspend"),
    ("Ctrl+C, Ctrl+D", "leave"),
];

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    refuse_arguments("help", arguments)?;
    let commands = COMMANDS.iter().map(|spec| (format!("/{} {}", spec.name, spec.arguments), spec.about));
    let custom = &context.config.commands;
    let custom = custom.iter().map(|command| (format!("/{}", command.name), command.description.as_str()));
    let keys = KEYS.iter().map(|(key, about)| ((*key).to_owned(), *about));
    let line = |(left, right): (String, &str)| format!("{left:<28} {right}");
    // What a person wrote about their own may be longer than a line.
    let custom = custom.map(line).map(|line| text::truncate(&line, COLUMNS).to_owned());
    let lines: Vec<String> = commands.map(line).chain(custom).chain(keys.map(line)).collect();
    Ok(InputResult::Continue(Some(lines.join("\n"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::AgentId;
    use crate::domain::config::Config;
    use crate::team::Roster;

    #[test]
    fn every_line_fits_a_screen_of_eighty_columns() {
        let store = crate::store::Store::in_memory().unwrap();
        let (roster, config) = (Roster::default(), Config::default());
        let context = CommandContext {
            roster: &roster,
            store: &store,
            config: &config,
            current: AgentId::random(),
            unix_ms: 0,
            terminal_infos: Vec::new(),
        };
        let Ok(InputResult::Continue(Some(text))) = run(&context, "") else { panic!("help is a text") };
        let too_wide: Vec<&str> = text.lines().filter(|line| line.len() > 78).collect();
        assert!(too_wide.is_empty(), "{too_wide:?}");
    }
}
