//! Replays: scenarios with several agents, a scripted provider, keys and tools, played on the real loop with a clock that
//! moves from event to event. `polylogue help scenarios` describes the files.
//!
//! [`original`] is a small copy of the C program with its faults, to see a scenario fail. The real loop is not changed for
//! that.

mod fault;
mod original;
mod outcome;
mod provider;
mod run;
mod scenario;
mod tools;

use std::path::Path;

use crate::base::error::Result;
pub use fault::Fault;
pub use original::{Played, play as play_original};
pub use outcome::{Happened, Outcome};
pub use run::Stage;
pub use scenario::Scenario;

pub fn read(path: &Path) -> Result<Scenario> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| crate::base::error::Error::from(error).context(&file))?;
    Scenario::parse(&file, &text)
}
