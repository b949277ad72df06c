//! The Unix socket of a server, and its connections as lines of bytes. The event loop interprets the lines.

mod connection;
mod listener;
mod peer;

pub use connection::{Connection, Line};
pub use listener::{Listener, connect};
