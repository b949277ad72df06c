//! `/help`: all commands and keys, or one command with its options.

use clap::ArgMatches;

use super::arguments::{positional, value_name, value_of};
use super::{CommandContext, CommandSpec, TwoColumns, all, find, replacement, unknown};
use crate::base::error::Result;
use crate::base::text;
use crate::domain::flow::InputResult;
use crate::domain::keymap::{KEY_ACTIONS, KeyAction, KeyMap};

pub const HELP: CommandSpec = CommandSpec {
    aliases: &["h", "?"],
    arguments: "[COMMAND]",
    define: |command| command.arg(positional("command", "COMMAND")),
    ..CommandSpec::new("help", "list all commands and keys, or describe a command", run)
};

/// Columns of a line on an 80 column screen, without the gutter.
const COLUMNS: usize = 78;
/// Columns for the names of commands and keys.
const FIRST: usize = 28;

/// Keys and what they do, as help and the manual list them.
pub struct KeyRow {
    /// The keys, those that are pressed most first.
    pub keys: String,
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
    ("r at a question", "refuse with a reason, which the model is told"),
    ("e at a question", "edit the command or text, or the rules that a shows"),
    ("v at a question", "show all of it in $PAGER"),
    ("Alt+Y, N, A, V", "the same while the draft is not empty"),
    ("Alt+R at a question", "refuse with the draft as the reason, after Enter"),
    ("wheel", "scroll"),
    ("Drag with the mouse", "select and copy; with Shift the terminal selects"),
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

const GROUPS: &[(&str, &[&str])] = &[
    (
        "Agents",
        &[
            "fork",
            "new",
            "tell",
            "switch",
            "agents",
            "inbox",
            "wall",
            "ask",
            "compare",
            "timeline",
            "search",
            "resume",
            "name",
            "kill",
            "archive",
            "unarchive",
            "delete",
            "team",
            "review",
            "env",
            "interrupt",
            "retry",
            "stop",
            "limit",
        ],
    ),
    ("Permissions", &["tools", "skills", "skill", "hooks", "approval", "rules"]),
    (
        "Conversation",
        &[
            "mark", "rewind", "undo", "diff", "land", "done", "clear", "compact", "slice", "queue", "raw", "copy",
            "export",
        ],
    ),
    ("Model", &["model", "thinking", "setup", "set", "system", "init", "usage"]),
    ("Mail", &["send", "check-mail", "read-mail", "filter-mail", "delete-mail"]),
    ("Program", &["help", "sessions", "detach", "exit"]),
];
const OTHER_COMMANDS: &str = "Other commands";
const CUSTOM: &str = "Your commands";

/// The first rows where a person asks for the keys: names of keys, and beginnings of lines.
const FIRST_ROWS: &[&str] = &["inbox", "wall", "review", "/fork ", "send", "complete"];
const MOST_USED: &str = "Most used";

/// A row of the help that is shown in a chat.
pub struct HelpRow {
    /// The heading above it.
    pub group: &'static str,
    /// A command with its arguments, or keys.
    pub term: String,
    pub about: String,
    /// The beginning of the line, of a command.
    pub line: String,
    /// The name of its action, of keys.
    name: &'static str,
}

/// Commands and keys by group.
pub fn help_rows(context: &CommandContext, keys_first: bool) -> Vec<HelpRow> {
    let group_of = |name: &str| GROUPS.iter().position(|(_, names)| names.contains(&name)).unwrap_or(GROUPS.len());
    let mut specs = all().collect::<Vec<_>>();
    specs.sort_by_key(|spec| group_of(spec.name));
    specs.retain(|spec| replacement(context, spec.name).is_none());
    let commands = specs.into_iter().map(|spec| HelpRow {
        group: GROUPS.get(group_of(spec.name)).map_or(OTHER_COMMANDS, |(group, _)| group),
        term: format!("/{} {}", spec.name, spec.arguments).trim_end().to_owned(),
        about: spec.about.to_owned(),
        line: format!("/{} ", spec.name),
        name: "",
    });
    let custom = context.config.commands.iter().map(|command| HelpRow {
        group: CUSTOM,
        term: format!("/{}", command.name),
        about: command.description.clone(),
        line: format!("/{} ", command.name),
        name: "",
    });
    let prefixes = PREFIXES.iter().map(|(term, about)| HelpRow {
        group: "Lines that begin with",
        term: (*term).into(),
        about: (*about).into(),
        line: String::new(),
        name: "",
    });
    let keys = key_rows(&context.config.keymap).into_iter().map(|row| HelpRow {
        group: key_group(row.group),
        term: row.keys,
        about: row.about.to_owned(),
        line: String::new(),
        name: row.name,
    });
    let commands: Vec<HelpRow> = commands.chain(custom).chain(prefixes).collect();
    if keys_first {
        most_used_first(keys.chain(commands).collect())
    } else {
        commands.into_iter().chain(keys).collect()
    }
}

fn most_used_first(mut rows: Vec<HelpRow>) -> Vec<HelpRow> {
    let place = |row: &HelpRow| {
        let id = if row.line.is_empty() { row.name } else { &row.line };
        FIRST_ROWS.iter().position(|first| *first == id)
    };
    rows.iter_mut().filter(|row| place(row).is_some()).for_each(|row| row.group = MOST_USED);
    rows.sort_by_key(|row| place(row).unwrap_or(FIRST_ROWS.len()));
    rows
}

/// First characters of a line that mean something.
const PREFIXES: &[(&str, &str)] = &[
    ("!COMMAND", "run a shell command of yours; the model sees the output"),
    ("!!COMMAND", "run a shell command that the model does not see"),
    ("#TEXT", "add a line to AGENTS.md, after a second Enter"),
    ("@", "complete a file or an agent"),
    ("//", "a message that begins with a slash"),
    ("a space", "a message that begins with ! or #"),
];

/// The heading above keys.
fn key_group(group: &str) -> &'static str {
    match group {
        "Input" => "Keys: input",
        "Motion" => "Keys: motion",
        "Editing" => "Keys: editing",
        "Screen" => "Keys: screen",
        "Agents" => "Keys: agents",
        _ => "Keys: questions and mouse",
    }
}

fn run(context: &CommandContext, given: &ArgMatches) -> Result<InputResult> {
    let Some(name) = value_of(given, "command") else { return Ok(InputResult::Help) };
    let name = name.trim_start_matches('/');
    let spec = find(name).ok_or_else(|| unknown(name, context))?;
    Ok(InputResult::Continue(Some(describe(spec))))
}

/// What a command does, its arguments and its options.
fn describe(spec: &CommandSpec) -> String {
    let names: Vec<String> = [&spec.name].into_iter().chain(spec.aliases).map(|name| format!("/{name}")).collect();
    let mut list = TwoColumns::new(FIRST);
    for arg in spec.chat_parser().get_arguments() {
        let Some(help) = arg.get_help() else { continue };
        let name = value_name(arg).filter(|_| arg.get_action().takes_values());
        let option = arg.get_long().map(|long| format!("--{long}"));
        let term = option.into_iter().chain(name.map(ToString::to_string)).collect::<Vec<_>>().join(" ");
        list.row(format!("  {term}"), help.to_string());
    }
    let usage = format!("{} {}", names.join(", "), spec.arguments);
    format!("{}\n{}\n{}", usage.trim_end(), spec.about, list.to_text(Some(COLUMNS))).trim_end().to_owned()
}

/// All commands and keys as a text, where no list can be shown.
pub fn help_text(context: &CommandContext) -> String {
    let mut list = TwoColumns::new(FIRST);
    for row in help_rows(context, false) {
        // The description of a custom command may be of any length.
        let about = text::truncate(&row.about, COLUMNS - FIRST - 1);
        list.row(row.term, about);
    }
    list.to_text(context.columns())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::AgentId;
    use crate::commands::COMMANDS;
    use crate::domain::config::Config;
    use crate::team::{Branches, Roster};

    #[test]
    fn every_line_fits_a_screen_of_eighty_columns() {
        let store = crate::store::Store::in_memory().unwrap();
        let (roster, config) = (Roster::default(), Config::default());
        let context = CommandContext {
            roster: &roster,
            store: &store,
            config: &config,
            branches: &Branches::default(),
            current: AgentId::random(),
            unix_ms: 0,
            terminal_infos: Vec::new(),
            clients: None,
            activity: Box::new(|_| String::new()),
        };
        let text = help_text(&context);
        let too_wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 78).collect();
        assert!(too_wide.is_empty(), "{too_wide:?}");
    }

    #[test]
    fn the_keys_begin_with_what_is_used_most() {
        let store = crate::store::Store::in_memory().unwrap();
        let (roster, config) = (Roster::default(), Config::default());
        let current = AgentId::random();
        let context = CommandContext {
            roster: &roster,
            store: &store,
            config: &config,
            branches: &Branches::default(),
            current,
            unix_ms: 0,
            terminal_infos: vec![],
            clients: None,
            activity: Box::new(|_| String::new()),
        };
        let rows = help_rows(&context, true);
        let first: Vec<&str> = rows[..7].iter().map(|row| row.term.split([' ', ',']).next().unwrap()).collect();
        assert_eq!(first, ["Alt+A", "Alt+W", "Alt+R", "/fork", "Enter", "Tab", "Ctrl+J"]);
        assert_eq!((rows[5].group, rows[6].group), (MOST_USED, "Keys: input"));
        assert_eq!(rows.len(), help_rows(&context, false).len());
    }

    #[test]
    fn every_command_of_the_core_is_in_one_group() {
        for spec in COMMANDS {
            let groups = GROUPS.iter().filter(|(_, names)| names.contains(&spec.name)).count();
            assert_eq!(groups, 1, "{}", spec.name);
        }
    }
}
