//! Test support: scripted servers, a server for thousands of streams, a harness that drives the loop, and a real terminal.
//!
//! The servers do not use the crate under test, so that a mistake in it is not repeated there. The benchmark includes
//! this folder by path and uses a part of it.

#![allow(dead_code)]

pub mod anthropic;
pub mod attached;
pub mod client;
pub mod flood;
pub mod harness;
pub mod http;
pub mod internals;
pub mod openai;
pub mod peer;
pub mod program;
pub mod pty;
pub mod random;
pub mod responses;
pub mod scene;
pub mod signals;
pub mod validity;

use std::time::{Duration, Instant};

/// How long a test waits for something before it fails. Only a failing test waits so long, and a machine may be ten times
/// slower than usual.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for what another thread or process does soon.
///
/// What this process closes is closed a moment later: a child that another test has just forked holds a copy of every
/// descriptor until it executes its program.
pub fn eventually(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "did not happen within {PATIENCE:?}");
        std::thread::yield_now();
    }
}
