//! What `-h`, `--help` and `polylogue help` print about the command line: options and subcommands by group. `-h` lists
//! those that most people need, and only the program's options that affect the subcommand.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

use super::arguments::{self, Arguments};
use super::topics::topics;
use crate::base::text;
use crate::features::FEATURES;

const COLUMNS: usize = 80;
/// Columns before the help of an option in `--help`.
const INDENT: usize = 10;

/// A group of options: those that `-h` lists, and those that only `--help` lists.
type Options = (&'static str, &'static [&'static str], &'static [&'static str]);

const OPTIONS: &[Options] = &[
    ("Conversation", &["continue_last", "resume", "model"], &["set", "append_system_prompt", "no_tools", "stay"]),
    (
        "One answer for a script",
        &["print", "output_format", "attach", "schema", "trajectory", "max_turns", "timeout"],
        &["input_format", "session_id", "keep_background"],
    ),
    (
        "What agents may do",
        &["approval", "allow", "deny", "max_usd"],
        &[
            "allowed_tools",
            "disallowed_tools",
            "max_agents",
            "working_limit",
            "compact_at",
            "dangerously_no_sandbox",
            "dangerously_allow_everything",
        ],
    ),
    ("Where", &["cwd", "config", "data_dir", "host", "ephemeral", "read_only"], &["mcp_config"]),
    ("Screen", &["plain", "inline"], &[]),
    ("Diagnosis", &[], &["trace", "trace_stable", "record", "record_texts"]),
    ("Help", &["help", "version"], &[]),
];

/// The subcommands, those first that a new user needs first.
const COMMANDS: &[(&str, &[&str])] = &[
    ("Set up", &["setup", "doctor", "config", "mcp", "completions"]),
    (
        "Agents",
        &[
            "ps",
            "attach",
            "logs",
            "tell",
            "wait",
            "mail",
            "search",
            "interrupt",
            "kill",
            "archive",
            "unarchive",
            "delete",
        ],
    ),
    ("Questions", &["approvals", "approve", "deny"]),
    ("Work", &["review", "land", "undo", "compare", "multi-agent"]),
    ("Server", &["serve", "stop", "sessions", "status", "acp", "mcp-server"]),
    ("Other", &["usage", "trace", "replay", "help", "man"]),
];

/// The options of the program that `-h` of a subcommand lists.
fn options_for(subcommand: &str) -> &'static [&'static str] {
    match subcommand {
        "serve" | "acp" | "mcp-server" | "compare" | "multi-agent" => {
            &["model", "approval", "allow", "deny", "max_usd", "config", "data_dir", "host"]
        }
        "attach" => &["data_dir", "plain", "host"],
        "config" | "mcp" | "setup" => &["config"],
        "doctor" => &["config", "data_dir", "model"],
        "help" | "man" | "completions" | "trace" | "replay" => &[],
        _ => &["data_dir", "host"],
    }
}

/// The command line for its help texts. It is not built to parse, which it would slow down.
pub fn command() -> Command {
    let mut command = arguments::command();
    command.build();
    let commands = commands_with_texts(&command);
    let global: Vec<String> =
        command.get_arguments().filter(|arg| arg.is_global_set()).map(|arg| arg.get_id().to_string()).collect();
    command
        .mut_args(|arg| wrap_help(with_heading(arg)))
        // They are listed by group at the end.
        .mut_subcommands(|inner| {
            let listed = options_for(inner.get_name());
            with_options(inner, &global, listed).hide(true)
        })
        .override_usage("polylogue [OPTIONS] [PROMPT]...\n       polylogue [OPTIONS] COMMAND")
        .after_help(commands)
}

fn with_heading(arg: Arg) -> Arg {
    let id = arg.get_id().to_string();
    let of = |ids: &[&str]| ids.contains(&id.as_str());
    match OPTIONS.iter().find(|(_, short, long)| of(short) || of(long)) {
        Some((heading, short, _)) => {
            // The text of an option names its values.
            arg.help_heading(*heading).hide_short_help(!of(short)).hide_possible_values(true).hide_default_value(true)
        }
        None => arg,
    }
}

/// The subcommand, whose `-h` lists only these of the options of the program.
fn with_options(command: Command, global: &[String], listed: &[&str]) -> Command {
    let is_hidden = |arg: &Arg| {
        let id = arg.get_id().as_str();
        global.iter().any(|global| global == id) && !listed.contains(&id)
    };
    command
        .mut_args(|arg| {
            let is_hidden = is_hidden(&arg);
            let arg = if is_hidden { arg.hide_short_help(true) } else { arg };
            let is_global = global.iter().any(|global| global == arg.get_id().as_str());
            wrap_help(if is_global { arg.help_heading("Options of polylogue") } else { arg })
        })
        .mut_subcommands(|inner| with_options(inner, global, listed))
}

/// The option with its long text in lines that fit a terminal.
fn wrap_help(arg: Arg) -> Arg {
    let Some(help) = arg.get_long_help().or(arg.get_help()).map(ToString::to_string) else { return arg };
    let lines: Vec<&str> =
        help.lines().flat_map(|line| text::wrap(line, COLUMNS - INDENT).map(|(_, row)| row)).collect();
    let lines = lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n");
    arg.long_help(lines)
}

/// The subcommands by group; those of features are in the last one.
fn groups() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut groups: Vec<_> = COMMANDS.iter().map(|(group, names)| (*group, names.to_vec())).collect();
    let of_features = FEATURES.iter().flat_map(|feature| feature.commands).filter(|spec| spec.shell.is_some());
    if let Some((_, last)) = groups.last_mut() {
        last.extend(of_features.map(|spec| spec.shell_name()));
    }
    groups
}

/// The subcommands by group, each with what it does.
fn commands_with_texts(command: &Command) -> String {
    const NAME: usize = 14;
    let mut out = String::new();
    for (group, names) in groups() {
        let _ = writeln!(out, "{}{group}:", if out.is_empty() { "" } else { "\n" });
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            hang(&mut out, name, NAME, &about.unwrap_or_default());
        }
    }
    out += "\npolylogue help COMMAND says more about one, polylogue help names the topics.";
    out
}

/// The first page: what one types first, the names of commands and topics, and where there is more.
pub fn overview() -> String {
    let about = Arguments::command().get_about().map(ToString::to_string).unwrap_or_default();
    let mut out = format!("{about}\n\n");
    for (line, about) in [
        ("polylogue [PROMPT]", "begin a conversation; without a model, set one up"),
        ("polylogue -c", "continue the last conversation of this directory"),
        ("polylogue -r [AGENT]", "continue with an agent, or choose one in a list"),
        ("polylogue -p PROMPT", "print one answer; input from a pipe is added"),
    ] {
        hang(&mut out, line, 20, about);
    }
    out += "\nCommands (polylogue help COMMAND):\n";
    for (group, names) in groups() {
        hang(&mut out, group, 9, &names.join(", "));
    }
    out += "\nTopics (polylogue help TOPIC; polylogue help topics describes them):\n";
    let topics: Vec<&str> = topics().map(|topic| topic.name).collect();
    for (_, row) in text::wrap(&topics.join(", "), COLUMNS - 2) {
        let _ = writeln!(out, "  {}", row.trim_end());
    }
    out += "\nIn the chat, ? shows the keys and /help the commands.\n\
            polylogue -h lists the usual options, polylogue --help all of them.\n";
    out
}

/// A term and its text beside it.
fn hang(out: &mut String, term: &str, width: usize, about: &str) {
    for (at, (_, row)) in text::wrap(about, COLUMNS - width - 4).enumerate() {
        let term = if at == 0 { term } else { "" };
        // Writing into a `String` cannot fail.
        let _ = writeln!(out, "  {term:<width$}  {}", row.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help_of(path: &[&str]) -> String {
        let line = ["polylogue"].iter().chain(path);
        command().try_get_matches_from(line).unwrap_err().to_string()
    }

    #[test]
    fn every_option_and_subcommand_is_in_one_group() {
        let mut command = arguments::command();
        command.build();
        for arg in command.get_arguments().filter(|arg| !arg.is_positional()) {
            let is_in = |ids: &[&str]| ids.contains(&arg.get_id().as_str());
            let groups = OPTIONS.iter().filter(|(_, short, long)| is_in(short) || is_in(long)).count();
            assert_eq!(groups, 1, "{}", arg.get_id());
        }
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            let groups = groups().iter().filter(|(_, names)| names.contains(&inner.get_name())).count();
            assert_eq!(groups, 1, "{}", inner.get_name());
        }
    }

    #[test]
    fn short_help_lists_what_has_an_effect_and_long_help_the_whole() {
        let (short, long) = (help_of(&["ps", "-h"]), help_of(&["ps", "--help"]));
        for listed in ["--archived", "--json", "--data-dir"] {
            assert!(short.contains(listed) && long.contains(listed), "{listed}\n{short}");
        }
        for left_out in ["--max-usd", "--approval", "--model", "--compact-at", "--dangerously-no-sandbox"] {
            assert!(!short.contains(left_out) && long.contains(left_out), "{left_out}\n{short}");
        }
        assert!(!help_of(&["config", "path", "-h"]).contains("--allow"));
        assert!(help_of(&["multi-agent", "run", "-h"]).contains("--max-usd"));
        let (short, long) = (help_of(&["-h"]), help_of(&["--help"]));
        assert!(short.contains("What agents may do:") && short.contains("\nAgents:\n  ps "), "{short}");
        assert!(!short.contains("--trace-stable") && long.contains("--trace-stable"));
    }

    #[test]
    fn help_texts_fit_a_terminal_of_eighty_columns() {
        let mut texts = vec![help_of(&["-h"]), help_of(&["--help"]), overview()];
        texts.extend(["ps", "serve", "attach", "doctor"].map(|name| help_of(&[name, "-h"])));
        for text in texts {
            let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > COLUMNS).collect();
            assert!(wide.is_empty(), "{wide:#?}");
        }
    }

    #[test]
    fn the_first_page_fits_a_screen() {
        assert!(overview().lines().count() < 24, "{}", overview());
    }
}
