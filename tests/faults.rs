//! Faults by enumeration, as SQLite tests itself: each place where something can fail fails once, one after the other. What
//! must hold each time: nothing panics, nothing hangs, what failed is said at its agent, other agents are untouched, nothing
//! that was acknowledged is lost, and the next message is answered.
//!
//! The suite tries some of the places (`support::size`), other ones in each enumeration; `make faults` tries all of them.
//! `crashes.rs` does the same with a death at every write.

mod clients;
mod clocks;
mod conversation;
#[cfg(target_os = "linux")]
mod power_cut;
mod provider;
mod resources;
mod store;

use polylogue::config::{RetryPolicy, Settings};

fn without_retries() -> Settings {
    Settings { retry: RetryPolicy { retries: Some(0), ..RetryPolicy::default() }, ..Settings::default() }
}
