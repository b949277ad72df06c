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
pub mod openai;
pub mod peer;
pub mod program;
pub mod pty;
pub mod random;
pub mod responses;
pub mod scene;
pub mod signals;
pub mod validity;

use std::time::Duration;

/// How long a test waits for something before it fails. Only a failing test waits so long, and a machine may be ten times
/// slower than usual.
pub const PATIENCE: Duration = Duration::from_secs(120);
