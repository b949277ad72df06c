//! An HTTP proxy for commands in the sandbox: through it they reach the hosts that were allowed, and no others.
//!
//! ```text
//!   command ──▶ 127.0.0.1:PORT in its network namespace
//!                     │ the listening socket was sent to this process
//!                     ▼
//!               Connection ── is the host listed? ── look-up ── connect ──▶ server
//! ```
//!
//! Every call of a command has a listener of its own, so that its list of hosts applies to it alone. `CONNECT` makes a
//! tunnel; a plain HTTP request is rewritten for the server and ends its connection, because a second one could name
//! another host. TLS is not opened. Nothing here blocks or waits: the loop says what is ready and looks names up.
//!
//! | file | holds |
//! |---|---|
//! | `calls` | how a tool asks the loop to serve a call, and how the listener arrives |
//! | `hosts` | which hosts and addresses a call may reach |
//! | `head` | the lines of a request before its body |
//! | `request` | a request to the proxy |
//! | `body` | where the body of a plain request ends |
//! | `stream` | a socket, and the bytes between two of them |
//! | `connection` | a client from its request to the end |

mod body;
mod calls;
mod connection;
mod head;
mod hosts;
mod request;
mod stream;

#[cfg(feature = "hosts")]
pub use body::Body;
pub use calls::{Announced, Calls, Incoming, NewCall, receive_listener, tell};
pub use connection::Connection;
#[cfg(feature = "hosts")]
pub use head::{Head, Header};
pub use hosts::AllowedHosts;
pub use stream::{Progress, is_out_of_descriptors};
