//! The Unix socket of a server, and the lines that go in and out of it. What the lines mean is not known here: requests
//! are carried out by the loop.

mod connection;
mod listener;

pub use connection::{Connection, Line};
pub use listener::{Listener, connect};
