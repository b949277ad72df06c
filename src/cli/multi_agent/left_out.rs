//! Stands where the coordinator was left out of the program: its subcommand says so.

use super::arguments::{Arguments, MultiAgentCommand};
use super::config::ProcessEnvironment;
use crate::base::error::{Error, Result};

pub fn run(_: &MultiAgentCommand, _: &Arguments, _: &ProcessEnvironment) -> Result<u8> {
    Err(Error::not_built_in("coordinator"))
}
