//! What the tests stand on: scripted servers, a server for thousands of streams, and a real terminal.
//!
//! Only the harness, its terminals and callers, and the homes of programs know the crate under test: a mistake of ours cannot
//! hide in its own mirror.
//! The benchmark includes this folder by path and uses its own part of it.

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

/// How long a test waits for something that must come, before it fails and says what it has seen. Only a test that fails
/// waits so long, and a machine may be ten times slower than usual.
pub const PATIENCE: Duration = Duration::from_secs(120);
