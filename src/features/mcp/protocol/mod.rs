//! The client side of the Model Context Protocol (MCP): messages and the state of one server, without processes, sockets
//! and the loop.
//!
//! The protocol has two eras. In the older one (revisions 2024-11-05 to 2025-11-25) a client begins with `initialize`; in the
//! newer one (2026-07-28) there is no handshake, and every request names the revision. A server is asked in the newer one
//! first; anything but an answer to that means the older one.
//!
//! | module | contains |
//! |---|---|
//! | `session` | what is sent to a server and what its messages mean |
//! | `message` | JSON-RPC messages |
//! | `list` | the tools, resources and prompts that a server offers |
//! | `content` | results as text and images |
//!
//! All that a server sends is bounded, and what does not fit is left out or ends the session with a message.

pub mod content;
pub mod list;
pub mod message;
pub mod session;

pub use session::{Catalog, Era, Event, Inputs, Session};
