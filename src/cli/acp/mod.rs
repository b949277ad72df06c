//! `polylogue acp`: an agent for editors, over the Agent Client Protocol (version 1) on standard input and output.
//!
//! ```text
//!   editor ── JSON-RPC, one message a line ── Editor ── requests of `domain::wire` ── the loop
//! ```
//! A session is an agent. The loop runs in this process, or in the one that holds the data directory; in both cases this
//! program is its client, with one connection for every request that is under way.
//!
//! | module | holds |
//! |---|---|
//! | `purpose` | what the connections to the loop are for |
//! | `editor` | one turn: what the editor and the loop have sent |
//! | `methods` | the requests of the editor |
//! | `responses` | what the loop answers |
//! | `options` | what the editor can choose for a session |
//! | `session`, `tools`, `content`, `permissions`, `servers` | what the editor is told, and what it sends |

mod content;
mod editor;
mod methods;
mod options;
mod permissions;
mod purpose;
mod responses;
mod servers;
mod session;
mod tools;

use super::arguments::Arguments;
use super::config::ProcessEnvironment;
use crate::base::error::Result;
use editor::Editor;

/// Runs until the editor closes standard input. Returns the exit code.
pub fn run(arguments: &Arguments, env: &ProcessEnvironment) -> Result<u8> {
    Editor::start(arguments, env)?.run()
}
