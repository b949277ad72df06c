//! `polylogue completions SHELL`: what makes a shell complete our words, from the same table as the command line.
//!
//! The three scripts do one thing: find the subcommand that was written, look whether the word before asks for a value, and
//! offer what fits. Agents are asked for from the program itself (`polylogue ps --json`), which answers from the server or,
//! without one, from what is kept.

mod fish;
mod walk;

use clap::{ArgAction, CommandFactory as _, ValueHint};

use super::arguments::{Arguments, Shell};

/// The script for a shell.
pub fn script(shell: Shell) -> String {
    let mut program = Arguments::command();
    program.build();
    let rooms = rooms(&program);
    match shell {
        Shell::Bash => walk::bash(&rooms),
        Shell::Zsh => walk::zsh(&rooms),
        Shell::Fish => fish::script(&rooms),
    }
}

/// A line that prints what agents can be called, in any shell. The names hold no character that a shell would read.
const AGENTS: &str = r#"polylogue ps --json 2>/dev/null | sed -n 's/.*"name":"\([^" ]*\)".*/\1/p'"#;

/// What follows in one place of the command line.
struct Room {
    /// The subcommands on the way there, each with a blank before it; empty for the program itself.
    path: String,
    /// What is done there, in a line.
    about: String,
    /// Names of subcommands, with what they do.
    subcommands: Vec<(String, String)>,
    options: Vec<Opt>,
    /// What the words are that are no options.
    words: Kind,
}

struct Opt {
    short: Option<char>,
    long: Option<String>,
    about: String,
    /// The value that it takes, if it takes one.
    value: Option<Kind>,
}

/// What a word can be.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Anything,
    File,
    Directory,
    Agent,
    OneOf(Vec<String>),
}

impl Room {
    /// Where the subcommand of this name leads.
    fn below(&self, name: &str) -> String {
        format!("{} {name}", self.path)
    }
}

impl Opt {
    /// As it is written: `-m`, `--model`.
    fn names(&self) -> Vec<String> {
        let short = self.short.map(|short| format!("-{short}"));
        short.into_iter().chain(self.long.as_ref().map(|long| format!("--{long}"))).collect()
    }
}

/// Every place, the program itself first.
fn rooms(program: &clap::Command) -> Vec<Room> {
    let mut rooms = Vec::new();
    let mut open = vec![(String::new(), program)];
    while let Some((path, command)) = open.pop() {
        let room = room(path, command);
        let inner = command.get_subcommands().filter(|inner| !inner.is_hide_set());
        open.extend(inner.map(|inner| (room.below(inner.get_name()), inner)));
        rooms.push(room);
    }
    rooms
}

fn room(path: String, command: &clap::Command) -> Room {
    let inner = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    let words = command.get_positionals().next().map_or(Kind::Anything, kind);
    Room {
        path,
        about: first_line(command.get_about()),
        subcommands: inner.map(|inner| (inner.get_name().to_owned(), first_line(inner.get_about()))).collect(),
        options: command.get_opts().chain(flags(command)).filter(|option| !option.is_hide_set()).map(option).collect(),
        words,
    }
}

/// Options without a value, which [`clap::Command::get_opts`] leaves out.
fn flags(command: &clap::Command) -> impl Iterator<Item = &clap::Arg> {
    command.get_arguments().filter(|one| !one.is_positional() && !one.get_action().takes_values())
}

fn option(option: &clap::Arg) -> Opt {
    let takes_value = matches!(option.get_action(), ArgAction::Set | ArgAction::Append);
    Opt {
        short: option.get_short(),
        long: option.get_long().map(str::to_owned),
        about: first_line(option.get_help()),
        value: takes_value.then(|| kind(option)),
    }
}

fn kind(argument: &clap::Arg) -> Kind {
    let values = argument.get_possible_values();
    let name = argument.get_value_names().and_then(<[_]>::first).map_or("", |name| name.as_str());
    match (name, argument.get_value_hint()) {
        _ if !values.is_empty() => Kind::OneOf(values.iter().map(|value| value.get_name().to_owned()).collect()),
        ("WHO", _) => Kind::Agent,
        ("DIR" | "DIRECTORY", _) | (_, ValueHint::DirPath) => Kind::Directory,
        (_, ValueHint::AnyPath | ValueHint::FilePath) => Kind::File,
        _ => Kind::Anything,
    }
}

/// The line for a person, as it can stand between single quotes of a shell.
fn first_line(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    // What stands behind it in brackets is for a page that has room.
    let line = line.split(" [").next().unwrap_or_default();
    line.replace(['\'', '`', '\\'], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subcommand_and_option_is_in_every_script() {
        let mut program = Arguments::command();
        program.build();
        let rooms = rooms(&program);
        assert!(rooms.len() > 15, "{}", rooms.len());
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for room in &rooms {
                for (name, _) in &room.subcommands {
                    assert!(script.contains(name), "{shell:?}: {name}");
                }
                for long in room.options.iter().filter_map(|option| option.long.as_ref()) {
                    assert!(script.contains(long.as_str()), "{shell:?}: {long}");
                }
            }
            assert!(!script.contains("detached"), "what is hidden is not offered");
        }
    }

    #[test]
    fn a_word_is_what_its_place_says() {
        let mut program = Arguments::command();
        program.build();
        let rooms = rooms(&program);
        let words = |path: &str| rooms.iter().find(|room| room.path == path).map(|room| room.words.clone());
        assert_eq!(words(" kill"), Some(Kind::Agent));
        assert_eq!(words(" completions"), Some(Kind::OneOf(["bash", "zsh", "fish"].map(str::to_owned).into())));
        assert_eq!(words(" config trust"), Some(Kind::Directory));
        assert_eq!(words(""), Some(Kind::Anything));
    }
}
