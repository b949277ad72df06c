//! The Unix socket of a server, and the lines that go in and out of it. What the lines mean is not known here: requests
//! are carried out by the loop.

mod connection;
mod socket;

pub use connection::{Connection, Line};
pub use socket::{Listener, connect};
