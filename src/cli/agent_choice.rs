//! The agent to continue with, as the command line selects it.

use super::arguments::Arguments;
use crate::base::error::{Error, Result};
use crate::base::id::AgentId;
use crate::domain::flow::Change;
use crate::repl::Repl;
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

    /// Finds the agent of a `--print` run, or creates it with `new_model`. An existing agent uses `model` from now on.
    pub fn resolve(&self, repl: &mut Repl, model: Option<&str>, new_model: &str) -> Result<AgentId> {
        let agent_id = match self {
            Self::New => return repl.create_print_run(Some(new_model)),
            Self::Last => match repl.last_addressed()? {
                Some(last) => last,
                None => return repl.create_print_run(Some(new_model)),
            },
            Self::Named(name) => repl.called(name, true)?,
            Self::Unnamed => return Err(no_name()),
        };
        let current = repl.roster().get(agent_id).map(|agent| agent.inputs.endpoint.full_name());
        if let Some(model) = model.filter(|model| current.as_deref() != Some(*model)) {
            repl.apply(agent_id, Change::Model(model.to_owned()))?;
        }
        Ok(agent_id)
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
    use clap::Parser as _;

    use super::*;

    #[test]
    fn the_flags_select_the_agent() {
        for (line, choice) in [
            ("-p x", AgentChoice::New),
            ("-c x", AgentChoice::Last),
            ("-p -r", AgentChoice::Unnamed),
            ("-r bob -p x", AgentChoice::Named("bob".into())),
        ] {
            let arguments = Arguments::try_parse_from(std::iter::once("polylogue").chain(line.split(' ')));
            assert_eq!(AgentChoice::of(&arguments.expect("valid arguments")), choice, "{line}");
        }
    }
}
