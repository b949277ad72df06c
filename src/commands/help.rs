//! `/help`: all commands and keys.

use super::{COMMANDS, CommandContext, CommandSpec, TwoColumns, WhenBusy, nothing, refuse_arguments};
use crate::base::error::Result;
use crate::base::text;
use crate::domain::flow::InputResult;

pub const HELP: CommandSpec = CommandSpec {
    name: "help",
    aliases: &["h", "?"],
    arguments: "",
    about: "list all commands and keys",
    busy: WhenBusy::Runs,
    run,
    complete: nothing,
};

/// Columns of a line on an 80 column screen, without the gutter.
const COLUMNS: usize = 78;
/// Columns for the names of commands and keys.
const FIRST: usize = 28;

/// Keys and what they do, as help and the manual list them.
pub const KEYS: &[(&str, &str)] = &[
    ("Enter", "send"),
    ("Ctrl+J", "insert a line break"),
    ("Enter on an empty draft", "retry now, or send queued text"),
    ("Tab", "complete a command or a name"),
    ("Esc", "stop this agent, else clear the draft"),
    ("y, n at a question", "allow, refuse; y turns pages until all is shown"),
    ("a at a question", "always allow calls like it: shows the rules first"),
    ("Alt+Y, Alt+N, Alt+A", "the same while the draft is not empty"),
    ("Shift+Tab", "next policy of this agent: plan, ask, auto"),
    ("Ctrl+Up", "go to the parent"),
    ("Ctrl+Down", "go to the newest child"),
    ("Ctrl+Left", "go to the previous sibling"),
    ("Ctrl+Right", "go to the next sibling"),
    ("Alt+1 .. Alt+9", "go to an agent by number"),
    ("PgUp, PgDn, wheel", "scroll"),
    ("Ctrl+Home, Ctrl+End", "scroll to the start, to the end"),
    ("Ctrl+O", "show output of tools and reasoning, or fold it"),
    ("Up on an empty draft", "edit queued text, else recall earlier input"),
    ("Ctrl+L", "redraw the screen"),
    ("Ctrl+Z", "suspend"),
    ("Ctrl+C, Ctrl+D", "exit"),
];

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    refuse_arguments("help", arguments)?;
    let commands = COMMANDS.iter().map(|spec| (format!("/{} {}", spec.name, spec.arguments), spec.about));
    let custom = &context.config.commands;
    let custom = custom.iter().map(|command| (format!("/{}", command.name), command.description.as_str()));
    let keys = KEYS.iter().map(|(key, about)| ((*key).to_owned(), *about));
    // The description of a custom command may be of any length.
    let custom = custom.map(|(name, about)| (name, text::truncate(about, COLUMNS - FIRST - 1)));
    let mut list = TwoColumns::new(FIRST);
    commands.chain(custom).chain(keys).for_each(|(left, right)| list.row(left, right));
    Ok(InputResult::Continue(Some(list.to_text(context.columns()))))
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
