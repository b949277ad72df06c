//! Stands where the server was left out of the program: its subcommands say so, and a chat is always one of its own.

use std::path::Path;

use super::arguments::{Arguments, Command, Serve};
use super::config::Surroundings;
use crate::base::error::{Error, Result};

pub mod serve {
    use super::{Arguments, Error, Result, Serve, Surroundings};

    pub fn run(_: &Arguments, _: &Serve, _: &Surroundings) -> Result<u8> {
        Err(Error::left_out("server"))
    }
}

pub mod sit {
    use super::{Arguments, Error, Result, Surroundings};

    pub fn attach(_: &Arguments, _: &Surroundings, _: Option<String>, _: bool) -> Result<u8> {
        Err(Error::left_out("server"))
    }

    pub const fn instead_of_chat(_: &Arguments, _: &Surroundings) -> Result<Option<u8>> {
        Ok(None)
    }
}

pub mod scripts {
    use super::{Command, Error, Path, Result};

    pub fn run(_: &Command, _: &Path) -> Result<u8> {
        Err(Error::left_out("server"))
    }
}
