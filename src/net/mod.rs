//! HTTP through libcurl, driven by the event loop. Only this module uses the `curl` crate.
//!
//! Each agent has one [`Connection`] with a multi handle of its own. libcurl's callbacks name the descriptors to
//! watch and when to call it again; they only record this, and received bytes are only buffered. The
//! caller of any method of [`Connection`] must then pass its socket requests to the reactor before anything else is
//! done.
//!
//! | file | holds |
//! |---|---|
//! | `connection` | one agent's transfer and the requests of libcurl |
//! | `setup` | the options of curl's handles |
//! | `inbox` | the callbacks: received bytes, headers, the body that is sent |
//! | `network` | addresses and certificates that all connections share |
//! | `lookup` | name resolution on a thread |
//! | `trust` | trusted certificates |
//! | `download` | a page of the web, for a tool |
//! | `fetch` | a small document that belongs to no agent |
//! | `oauth` | logins at MCP servers |
//! | `messages` | error messages |
//! | `url` | the host in a URL |

mod connection;
#[cfg(feature = "web-fetch")]
mod download;
mod fetch;
mod inbox;
mod lookup;
mod messages;
mod network;
#[cfg(feature = "mcp")]
pub mod oauth;
mod setup;
mod trust;
mod url;

pub use connection::Connection;
#[cfg(feature = "web-fetch")]
pub use download::{Download, Page, Route};
pub use fetch::{Fetch, Fetched, fetch};
pub use lookup::Lookup;
pub use network::{AGENT_HEADER, Network};

/// Whether the bundled libcurl was compiled to use `poll`, as `.cargo/config.toml` sets it. Without it no descriptor of
/// 1024 or more can connect.
pub const HAS_POLL: bool = match option_env!("CFLAGS") {
    Some(flags) => contains(flags.as_bytes(), b"-DHAVE_POLL"),
    None => false,
};

/// How many agents may be busy where [`HAS_POLL`] is false: descriptors below 1024, five per agent.
pub const AGENTS_WITHOUT_POLL: usize = 180;

const fn contains(text: &[u8], wanted: &[u8]) -> bool {
    let mut start = 0;
    while start + wanted.len() <= text.len() {
        let mut length = 0;
        while length < wanted.len() && text[start + length] == wanted[length] {
            length += 1;
        }
        if length == wanted.len() {
            return true;
        }
        start += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_build_of_libcurl_uses_poll() {
        // .cargo/config.toml sets CFLAGS for the bundled libcurl.
        const { assert!(super::HAS_POLL) };
    }
}
