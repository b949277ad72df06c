//! The agent to continue with, as the command line selects it.

use super::arguments::Arguments;
use crate::base::error::{Error, Result};
use crate::terminal::tty::Tty;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentChoice {
    New,
    Last,
    /// By name, number or the beginning of its id.
    Named(String),
    /// `--resume` without a name: a person chooses in a list.
    Unnamed,
}

impl AgentChoice {
    pub fn of(arguments: &Arguments) -> Self {
        match &arguments.resume {
            _ if arguments.continue_last => Self::Last,
            Some(Some(agent)) => Self::Named(agent.clone()),
            Some(None) => Self::Unnamed,
            None => Self::New,
        }
    }

    /// Checks that a person can choose, if one has to.
    pub fn require_terminal(&self) -> Result<()> {
        if *self == Self::Unnamed && Tty::open().is_err() {
            return Err(no_name());
        }
        Ok(())
    }
}

/// `--resume` without a name, and without a terminal for the list.
pub fn no_name() -> Error {
    Error::usage(
        "--resume without a name shows a list and needs a terminal: pass the name, number or id of an agent \
         (polylogue -r NAME); polylogue ps --all lists them",
    )
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_flags_select_the_agent() {
        for (line, choice) in [
            ("-p x", AgentChoice::New),
            ("-c x", AgentChoice::Last),
            ("-p -r", AgentChoice::Unnamed),
            ("-r bob -p x", AgentChoice::Named("bob".into())),
        ] {
            let arguments = Arguments::read(std::iter::once("polylogue").chain(line.split(' ')));
            assert_eq!(AgentChoice::of(&arguments.expect("valid arguments")), choice, "{line}");
        }
    }
}
