//! Faults by enumeration, as SQLite tests itself: each place where something can fail fails once, one after the other. What
//! must hold each time: nothing panics, nothing hangs, what failed is said at its agent, other agents are untouched, nothing
//! that was acknowledged is lost, and the next message is answered.
//!
//! The suite tries some of the places, other ones in each enumeration; `make faults` tries all of them. `crashes.rs` does
//! the same with a death at every write.

mod clients;
mod clocks;
mod conversation;
#[cfg(target_os = "linux")]
mod power_cut;
mod provider;
mod resources;
mod store;

use polylogue::config::{RetryPolicy, Settings};

/// Has every place tried.
const ALL: &str = "POLYLOGUE_TEST_ALL_FAULTS";

/// The distance between the places that are tried; in the suite it is this one.
pub(crate) fn stride(usual: usize) -> usize {
    if std::env::var_os(ALL).is_some() { 1 } else { usual }
}

fn without_retries() -> Settings {
    Settings { retry: RetryPolicy { retries: Some(0), ..RetryPolicy::default() }, ..Settings::default() }
}
