//! Stands where the server was left out of the program: a run always has a house of its own.

use super::session::Host;
use crate::base::error::Result;
use crate::cli::arguments::Arguments;
use crate::cli::config::Surroundings;

pub const fn host(_: &Arguments, _: &Surroundings) -> Result<Option<Box<dyn Host>>> {
    Ok(None)
}
