//! `polylogue doctor`.

use crate::cli::arguments::Arguments;
use crate::cli::config::{self, Surroundings};

/// Looks.
pub fn run(arguments: &Arguments, around: &Surroundings, _offline: bool) -> bool {
    let loaded = config::load(arguments, around);
    loaded.complaints.errors.is_empty()
}
