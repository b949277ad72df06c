//! Subcommands that are commands of the chat: defined there, parsed as words here, and sent to the process that holds the data
//! directory.

use clap::error::ErrorKind;
use clap::{ArgMatches, Command, Error, FromArgMatches, Subcommand};

use crate::commands::{AGENT, CommandSpec, ShellSpec, argv_of, shell_commands};

/// A subcommand that is a command of the chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatCommand {
    /// What is sent: the name of the command and its arguments.
    pub argv: Vec<String>,
    /// The agent at which it runs, if not at the one that was sent a message last.
    pub agent: Option<String>,
    pub shell: &'static ShellSpec,
}

fn find(name: &str) -> Option<(&'static CommandSpec, &'static ShellSpec)> {
    shell_commands().find(|(spec, _)| spec.name == name)
}

impl FromArgMatches for ChatCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let found = matches.subcommand().and_then(|(name, given)| Some((find(name)?, given)));
        let ((spec, shell), given) = found.ok_or_else(|| Error::new(ErrorKind::InvalidSubcommand))?;
        let arguments = argv_of(&spec.shell_parser(shell), given);
        let agent = given.try_get_one::<String>(AGENT).ok().flatten().filter(|_| shell.runs_at_agent).cloned();
        Ok(Self { argv: [spec.name.to_owned()].into_iter().chain(arguments).collect(), agent, shell })
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
        find(name).is_some()
    }
}
