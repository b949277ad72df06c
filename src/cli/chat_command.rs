//! Subcommands that are commands of the chat or of clients: defined there, parsed as words here, and sent to the process that
//! holds the data directory.

use clap::error::ErrorKind;
use clap::{ArgMatches, Command, Error, FromArgMatches, Subcommand};

use crate::commands::{AGENT, CommandSpec, JSON, ShellSpec, argv_of, shell_commands};
use crate::domain::wire::Request;

/// A subcommand from the table of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatCommand {
    /// The name of the command.
    pub name: &'static str,
    given: ArgMatches,
    /// Its name and its arguments.
    argv: Vec<String>,
    pub shell: &'static ShellSpec,
}

fn find(name: &str) -> Option<(&'static CommandSpec, &'static ShellSpec)> {
    shell_commands().find(|(spec, _)| spec.shell_name() == name)
}

impl ChatCommand {
    /// The request, at the agent at which it runs, if not at the one that was sent a message last in this directory.
    pub fn request(&self) -> Request {
        let agent = self.value_of(AGENT).filter(|_| self.shell.runs_at_agent);
        let here = || std::env::current_dir().ok().filter(|path| path.to_str().is_some());
        let directory = if self.value_of(AGENT).is_none() { here() } else { None };
        Request::Run { agent: agent.map(str::to_owned), directory, argv: self.argv.clone() }
    }

    /// The value of an argument.
    pub fn value_of(&self, id: &str) -> Option<&str> {
        self.given.try_get_one::<String>(id).ok().flatten().map(String::as_str)
    }

    /// Whether an option, or one of a group of options, is given.
    pub fn has(&self, id: &str) -> bool {
        self.given.try_contains_id(id).is_ok_and(|is_given| is_given)
    }

    /// Whether its output is JSON.
    pub fn is_json(&self) -> bool {
        self.shell.prints_data && self.given.get_flag(JSON)
    }

    /// Whether a flag of this command is set.
    pub fn is_set(&self, flag: &str) -> bool {
        self.given.get_flag(flag)
    }

    /// Whether standard input is to be read for it.
    pub fn reads_input(&self) -> bool {
        let values = self.shell.input.and_then(|id| self.given.get_many::<String>(id));
        values.is_some_and(|values| values.eq(["-"]))
    }

    /// Puts the text of standard input in its place.
    pub fn set_input(&mut self, text: &str) {
        if let Some(word) = self.argv.iter_mut().rfind(|word| *word == "-" || word.ends_with("=-")) {
            word.replace_range(word.len() - 1.., text);
        }
    }
}

impl FromArgMatches for ChatCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let found = matches.subcommand().and_then(|(name, given)| Some((find(name)?, given)));
        let ((spec, shell), given) = found.ok_or_else(|| Error::new(ErrorKind::InvalidSubcommand))?;
        let parser = (spec.define)(Command::new(spec.name));
        let argv = [spec.name.to_owned()].into_iter().chain(argv_of(&parser, given)).collect();
        Ok(Self { name: spec.name, given: given.clone(), argv, shell })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for ChatCommand {
    fn augment_subcommands(command: Command) -> Command {
        shell_commands().map(|(spec, shell)| spec.shell_parser(shell)).fold(command, Command::subcommand)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        shell_commands().any(|(spec, shell)| spec.shell_name() == name || shell.former_name == Some(name))
    }
}
