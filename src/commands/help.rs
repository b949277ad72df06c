//! `/help`: all commands and keys.

use super::{COMMANDS, CommandContext, CommandSpec, TwoColumns, WhenBusy, nothing, refuse_arguments};
use crate::base::error::Result;
use crate::base::text;
use crate::domain::flow::InputResult;
use crate::domain::keymap::{KEY_ACTIONS, KeyAction, KeyMap};

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
pub struct KeyRow {
    /// The keys, those that are pressed most first.
    pub keys: String,
    /// What they do.
    pub about: &'static str,
    /// The heading above the row.
    pub group: &'static str,
    /// The action in `[keys]` of the configuration; empty if the keys cannot be changed.
    pub name: &'static str,
}

/// Keys that are the same in every configuration.
const FIXED: &[(&str, &str)] = &[
    ("y, n at a question", "allow, refuse; y turns pages until all is shown"),
    ("a at a question", "always allow calls like it: shows the rules first"),
    ("Alt+Y, Alt+N, Alt+A", "the same while the draft is not empty"),
    ("wheel", "scroll"),
];

/// The group of keys that answer questions.
const QUESTIONS: &str = "Questions and mouse";
/// Keys of an action that a list shows.
const KEYS_PER_ACTION: usize = 2;

/// All keys, those of this map first.
pub fn key_rows(keymap: &KeyMap) -> Vec<KeyRow> {
    let is_listed = |action: KeyAction| !matches!(action, KeyAction::Agent(1..));
    let actions = KEY_ACTIONS.iter().filter(|spec| is_listed(spec.action)).map(|spec| match spec.action {
        KeyAction::Agent(_) => {
            let first = |number| keymap.keys_of(KeyAction::Agent(number)).into_iter().next().unwrap_or_default();
            let keys = format!("{} .. {}", first(0), first(9));
            KeyRow { keys, about: "go to the agent with this number", group: spec.group, name: "agent_0 .. agent_9" }
        }
        action => {
            let mut keys = keymap.keys_of(action);
            keys.truncate(KEYS_PER_ACTION);
            let keys = if keys.is_empty() { "no key".into() } else { keys.join(", ") };
            KeyRow { keys, about: spec.about, group: spec.group, name: spec.name }
        }
    });
    let fixed = FIXED.iter().map(|(keys, about)| KeyRow { keys: (*keys).into(), about, group: QUESTIONS, name: "" });
    actions.chain(fixed).collect()
}

fn run(context: &CommandContext, arguments: &str) -> Result<InputResult> {
    refuse_arguments("help", arguments)?;
    let commands = COMMANDS.iter().map(|spec| (format!("/{} {}", spec.name, spec.arguments), spec.about));
    let custom = &context.config.commands;
    let custom = custom.iter().map(|command| (format!("/{}", command.name), command.description.as_str()));
    let keys = key_rows(&context.config.keymap).into_iter().map(|row| (row.keys, row.about));
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
        let too_wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 78).collect();
        assert!(too_wide.is_empty(), "{too_wide:?}");
    }
}
